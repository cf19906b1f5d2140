"""Where the paper's own data sets are, if they are anywhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def paper_data(name: str) -> Path:
    """Return the file's path, or skip the test."""
    folder = Path(os.environ.get("DPKV_DATA") or ROOT.parent / "shared" / "data")
    if not (folder / name).is_file():
        pytest.skip(f"the paper's {name} is not here: set DPKV_DATA to the folder that holds it")
    return folder / name
