"""Groups of patients by a release over persons: potential and shares, beside k-means.

    python audits/hospital.py [--seeds 20] [--write]

The table is ``dpkv datasets make hospital_visits``: 50,000 visits, text, blanks in a quarter of
them. A release sees it through its schema, person by person. What it is compared with is k-means
without privacy on the complete visits, each of which weighs one over its patient's complete visits.

    potential   of the released centres over k-means'
    share       the largest error of a share of sex, against the centre of k-means next to it
    own share   the same, against the patients who are nearest to the released centre

The clinic table, which has no categories, is released beside it.
"""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
from itertools import permutations
from pathlib import Path

import numpy as np

import dpkv
from dpkv.paper.datasets import hospital
from dpkv.seeding import estimate_optimum, kmeans_plusplus, lloyd, potential

OUT = Path(__file__).with_suffix(".json")
CLINIC = Path(__file__).resolve().parent.parent / "datasets" / "clinic_patients.csv"
NUMBERS = {"age": (0.0, 110.0), "systolic": (60.0, 240.0), "bmi": (10.0, 60.0)}
K, RESTARTS, SHARE = 4, 10, 1.0 / np.sqrt(2.0)
EPS = ("0.5", "1", "2")
LOW, HIGH = -10.0, 10.0  # of the clinic table, as README.md has them
SEX = 1  # the coordinate of the first sex, as in a release


def coordinates(visits: list[dict[str, str]]) -> np.ndarray:
    """Return complete visits as a release sees them, scaled."""
    found = [_scaled(visits, "age")]
    for name, kinds in (("sex", hospital.SEXES), ("region", hospital.REGIONS)):
        found += [SHARE * np.asarray([visit[name] == kind for visit in visits]) for kind in kinds]
    return np.stack([*found, _scaled(visits, "systolic"), _scaled(visits, "bmi")], axis=1)


def _scaled(visits: list[dict[str, str]], name: str) -> np.ndarray:
    low, high = NUMBERS[name]
    return (np.asarray([float(visit[name]) for visit in visits]) - low) / (high - low)


def scaled_centers(centers: np.ndarray) -> np.ndarray:
    """Return released centres in the same coordinates."""
    (age, systolic, bmi), found = NUMBERS.values(), centers * SHARE
    for column, (low, high) in ((0, age), (7, systolic), (8, bmi)):
        found[:, column] = (centers[:, column] - low) / (high - low)
    return found


def best_of(points: np.ndarray, weights: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the potential and the centres of k-means."""
    ends = []
    for seed in range(RESTARTS):
        seeds, _ = kmeans_plusplus(
            points, K, sample_weight=weights, rng=np.random.default_rng(seed)
        )
        ends.append(lloyd(points, seeds, sample_weight=weights))
    best = min(ends, key=lambda end: end.potential)
    return best.potential, np.asarray(best.centers)


def share_errors(
    centers: np.ndarray, best: np.ndarray, points: np.ndarray, weights: np.ndarray
) -> tuple[float, float]:
    """Return the largest error of a share of sex, against k-means and against the own cluster."""
    order = min(permutations(range(K)), key=lambda o: ((centers[list(o)] - best) ** 2).sum())
    labels = dpkv.assign(points, centers)
    women = np.bincount(labels, weights * points[:, SEX], K)
    own = women / np.maximum(np.bincount(labels, weights, K), 1e-9)
    to_best = np.abs(centers[list(order), SEX] - best[:, SEX]).max()
    return float(to_best / SHARE), float(np.abs(centers[:, SEX] - own).max() / SHARE)


def hospital_rows(seeds: int) -> list[dict[str, object]]:
    """Return the figures of the hospital table, a row an eps."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "visits.csv"
        path.write_text(hospital.hospital_visits(), encoding="utf-8")
        path.with_name("visits.schema.json").write_text(hospital.schema_text(), encoding="utf-8")
        with path.open(encoding="utf-8", newline="") as file:
            visits = [row for row in csv.DictReader(file) if all(row.values())]
        ids = [row["patient_id"] for row in visits]
        _, own, counts = np.unique(ids, return_inverse=True, return_counts=True)
        points, weights = coordinates(visits), 1.0 / counts[own]
        floor, best = best_of(points, weights)
        rows = []
        for eps in EPS:
            found = []
            for seed in range(seeds):
                centers = scaled_centers(dpkv.simulate(path, k=K, eps=eps, seed=seed).centers)
                ratio = potential(points, centers, sample_weight=weights) / floor
                found.append((ratio, *share_errors(centers, best, points, weights)))
            rows.append(_row("hospital_visits", eps, np.asarray(found)))
        return rows


def clinic_row(seeds: int) -> dict[str, object]:
    """Return the figures of the clinic table, which has no categories."""
    table = np.loadtxt(CLINIC, delimiter=",", skiprows=1)
    points = (table - LOW) / (HIGH - LOW)
    floor = estimate_optimum(points, 5, restarts=RESTARTS, rng=0).potential
    found = []
    for seed in range(seeds):
        done = dpkv.simulate(
            table, k=5, eps="1", bounds=(LOW, HIGH), mechanism="synopsis", seed=seed
        )
        found.append((potential(points, (done.centers - LOW) / (HIGH - LOW)) / floor,))
    return _row("clinic_patients k=5", "1", np.asarray(found))


def _row(table: str, eps: str, found: np.ndarray) -> dict[str, object]:
    row: dict[str, object] = {"table": table, "eps": eps}
    for name, figures in zip(("potential", "share", "own share"), found.T, strict=False):
        row[name] = {
            "mean": round(float(figures.mean()), 4),
            "largest": round(float(figures.max()), 4),
        }
    print(row, flush=True)
    return row


def main() -> None:
    """Measure, print, and maybe keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    rows = [*hospital_rows(asked.seeds), clinic_row(asked.seeds)]
    if asked.write:
        result = {
            "schema_version": 1,
            "kind": "hospital",
            "dpkv_version": dpkv.__version__,
            "seeds": asked.seeds,
            "rows": rows,
        }
        OUT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
