"""``dpkv synthesize``, errors as JSON, and readers that stop reading."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.run import dpkv


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("released")
    rows = [f"{3 + i % 7 / 10},{5 + i % 5 / 10}" for i in range(500)]
    (home / "t.csv").write_text("x,y\n" + "\n".join(rows) + "\n", encoding="utf-8")
    asked = ("t.csv", "--k=2", "--eps=1", "--bounds=0,10", "--mechanism=synopsis")
    result = dpkv("release", *asked, "--export-synopsis", cwd=home)
    assert result.returncode == 0, result.stderr
    return home


def test_rows_are_drawn_from_a_synopsis(released: Path) -> None:
    result = dpkv("synthesize", "release/synopsis.json", "--rows=40", cwd=released)
    assert result.returncode == 0, result.stderr
    assert "1-differentially private" in result.stdout and "nothing is spent" in result.stdout
    with (released / "synthetic-rows.csv").open(encoding="utf-8") as file:
        names, *rows = csv.reader(file)
    assert names == ["x", "y"] and len(rows) == 40
    assert all(0 <= float(cell) <= 10 for row in rows for cell in row)


def test_unverified_claims_are_called_claims(released: Path, tmp_path: Path) -> None:
    text = (released / "release/synopsis.json").read_text(encoding="utf-8")
    (tmp_path / "synopsis.json").write_text(text, encoding="utf-8")
    result = dpkv("synthesize", "synopsis.json", "--rows=5", "--json", cwd=tmp_path)
    found = json.loads(result.stdout)
    assert found["standing"] == "unverified" and not found["releasable"]
    assert "The file claims, unverified" in found["statement"]
    assert (tmp_path / "synthetic-rows-unverified.csv").exists()


def test_centers_of_a_synopsis_are_shown_with_their_fit(released: Path) -> None:
    command = ("seed", "--synopsis", "release/synopsis.json", "--k=2", "--out=again.csv", "--json")
    found = json.loads(dpkv(*command, cwd=released).stdout)
    assert len(found["sizes"]) == len(found["centers"]) == 2
    assert abs(sum(found["sizes"]) - 500) < 200 and found["potential"] >= 0


def test_errors_are_json_where_that_was_asked_for(released: Path) -> None:
    result = dpkv("synthesize", "nowhere.json", "--rows=5", "--json", cwd=released)
    found = json.loads(result.stdout)
    assert result.returncode == found["exit_code"] == 2 and found["kind"] == "error"
    assert found["error"] in result.stderr


def test_a_reader_that_stops_reading_is_no_error(released: Path) -> None:
    asked = ["t.csv", "--k=2", "--eps=1", "--bounds=0,10", "--out=quiet", "--json"]
    run = subprocess.Popen(
        [sys.executable, "-m", "dpkv", "release", *asked],
        cwd=released,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert run.stdout is not None and run.stderr is not None
    run.stdout.close()
    told = run.stderr.read()
    run.stderr.close()
    run.wait(timeout=300)
    assert (released / "quiet" / "release.json").exists()
    assert "stopped" not in told and "error" not in told
