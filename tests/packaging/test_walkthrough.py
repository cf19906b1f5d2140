"""The walk-through of docs/, run as a reader would run it."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "docs" / "walkthrough.py"


@pytest.mark.processes
def test_the_walkthrough_ends_with_an_audited_release(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(SCRIPT)],
        cwd=tmp_path,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "HOLDS" in done.stdout and "1-differentially private" in done.stdout
    assert (tmp_path / "audit" / "report.html").is_file()
    assert len((tmp_path / "release" / "centers.csv").read_text(encoding="utf-8").splitlines()) == 6


def test_every_cell_is_explained() -> None:
    cells = ("\n" + SCRIPT.read_text(encoding="utf-8")).split("\n# %%")[1:]
    explained = [cell.startswith(" [markdown]") for cell in cells]
    assert explained[0] and explained[-1]
    assert all(before or after for before, after in pairwise(explained))
