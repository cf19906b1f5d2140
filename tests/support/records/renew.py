"""Writes the sample records anew, with fresh noise: one for every mechanism of dpkv."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import dpkv
from dpkv.mechanisms import MECHANISMS
from dpkv.releases.files import release_files

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Release k = 2 centers of made-up records by every mechanism."""
    records = np.random.default_rng(0).uniform(-1, 1, (500, 2))
    for name in MECHANISMS:
        made = dpkv.release(records, k=2, eps=1, bounds=(-1, 1), mechanism=name, workspace=None)
        (text,) = (text for file, text in release_files(made.record).items() if ".json" in file)
        (HERE / f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
