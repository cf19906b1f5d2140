"""Is the number of clusters found that the records have? Ten families, by the code of a release.

    python audits/number_of_clusters.py             print the figures
    python audits/number_of_clusters.py --write     and keep them in number_of_clusters.json
    python audits/number_of_clusters.py --runs 5 --only town

Every run draws a table of the family, grows the private cells at eps = 1 for replace-one neighbours
and chooses k from 2..100. Clusters lie apart: by 8 standard deviations at least, but for the
bundled town (3 % of its patients live anywhere) and for the blobs of scikit-learn that another
tool, DPM, was published with. Where two clusters share a cell that is not split, no rule can tell
them apart; it happens among small clusters in five columns and more.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
from sklearn.datasets import make_blobs

sys.path.insert(0, str(Path(__file__).resolve().parent))
from estimates_calibration import separate

from dpkv.domain import Box
from dpkv.mechanisms import calibrate_mechanism
from dpkv.mechanisms.synopsis.number import choose_number, potential_curve
from dpkv.noise import SeededEntropy
from dpkv.paper.datasets.clinic import clinic_patients
from dpkv.records import ArrayRecords, curator_of

OUT = Path(__file__).with_suffix(".json")
MOST = 100


def dpm(d: int, seed: int) -> np.ndarray:
    """Return DPM's blobs in [-1, 1]^d."""
    points = make_blobs(100_000, d, centers=64, random_state=42 + seed, center_box=(-100, 100))[0]
    return np.clip(points / 105.0, -1.0, 1.0)


FAMILIES: dict[str, tuple[int, Callable[[int], np.ndarray]]] = {
    "two": (2, lambda seed: separate(20_000, 2, 2, seed, 0.08)),
    "three": (3, lambda seed: separate(20_000, 3, 3, seed, 0.06)),
    "town": (5, lambda seed: np.clip(clinic_patients(seed + 1) / 10.0, -1.0, 1.0)),
    "five": (5, lambda seed: separate(20_000, 10, 5, seed, 0.07)),
    "eight": (8, lambda seed: separate(50_000, 2, 8, seed, 0.05)),
    "twelve": (12, lambda seed: separate(50_000, 4, 12, seed, 0.05)),
    "sixteen": (16, lambda seed: separate(60_000, 5, 16, seed, 0.05)),
    "twenty": (20, lambda seed: separate(100_000, 2, 20, seed, 0.03)),
    "dpm10": (64, lambda seed: dpm(10, seed)),
    "dpm100": (64, lambda seed: dpm(100, seed)),
}


def choose(values: np.ndarray, seed: int) -> int:
    """Return the number that a release would have chosen."""
    grid = Box((-1.0,) * values.shape[1], (1.0,) * values.shape[1]).grid()
    mechanism = calibrate_mechanism(
        "synopsis",
        Decimal(1),
        n_records=len(values),
        n_clusters=MOST,
        grid=grid,
        fewest=2,
    )
    points = grid.quantise(values).astype(np.int32)
    ask = curator_of(mechanism, ArrayRecords(points), SeededEntropy(seed))
    curve = potential_curve(mechanism.private_cells(ask), MOST, ask.coins)
    return choose_number(curve, mechanism.n_dimensions, 2)


def main(argv: list[str] | None = None) -> int:
    """Measure, print, and keep if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--only", choices=FAMILIES)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args(argv)
    rows = []
    for name in [asked.only] if asked.only else FAMILIES:
        k, make = FAMILIES[name]
        found = np.array([choose(make(run), 500 + run) for run in range(asked.runs)])
        right, near = (found == k).mean(), (np.abs(found - k) <= 1).mean()
        rows.append({"family": name, "k": k, "right": float(right), "within_one": float(near)})
        print(f"{name:8} k = {k:<3} right {right:6.1%}   within one {near:6.1%}", flush=True)
    if asked.write:
        OUT.write_text(json.dumps({"runs": asked.runs, "rows": rows}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
