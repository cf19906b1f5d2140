"""Do the standard errors of a release tell how far off it is? Coverage of the 90 % intervals.

    python audits/estimates_calibration.py             print the figures
    python audits/estimates_calibration.py --write     and keep them in estimates_calibration.json
    python audits/estimates_calibration.py --runs 20 --only town

The truth of a cluster is known here: the exact number of records that are nearest to its released
center, and their mean. An interval is the estimate plus and minus 1.645 standard errors. Coverage
is counted over all clusters, and coordinates, of all runs; 85 to 95 % is what dpkv aims for where
bias is small. Where clusters overlap, or noise is so large that cells hold several, a standard
error knows nothing of that bias. The potential's interval is shown beside the ratio of its estimate
to the truth.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np

from dpkv.domain import Box
from dpkv.kernels import assign_nearest, integer_clusters
from dpkv.mechanisms import MECHANISMS, Neighbours, calibrate_mechanism
from dpkv.noise import SeededEntropy
from dpkv.paper.datasets.clinic import clinic_patients
from dpkv.records import run_on_points

OUT = Path(__file__).with_suffix(".json")
TELLING = ("synopsis", "lloyd")
"""Mechanisms that estimate sizes."""
WITHIN = 1.6448536269514722  # standard deviations: 90 % of a normal distribution


def separate(m: int, d: int, k: int, draw: int, sd: float) -> np.ndarray:
    """Return Gaussian clusters in [-1, 1]^d whose centers are 8 sd apart at least."""
    rng = np.random.default_rng([90, draw, m, d, k])
    places = np.empty((0, d))
    while len(places) < k:
        place = rng.uniform(-0.8, 0.8, d)
        if (np.linalg.norm(places - place, axis=1) > 8.0 * sd).all():
            places = np.vstack([places, place])
    shares = rng.dirichlet(np.full(k, 8.0))
    points = places[rng.choice(k, m, p=shares)] + rng.normal(0.0, sd, (m, d))
    return np.clip(points, -1.0, 1.0)


FAMILIES: dict[str, tuple[str, int, Callable[[int], np.ndarray]]] = {
    "apart2": ("clusters apart, 50,000 x 2, k = 8", 8, lambda s: separate(50_000, 2, 8, s, 0.05)),
    "apart3": ("clusters apart, 30,000 x 3, k = 6", 6, lambda s: separate(30_000, 3, 6, s, 0.07)),
    "apart5": ("clusters apart, 40,000 x 5, k = 4", 4, lambda s: separate(40_000, 5, 4, s, 0.06)),
    "apart8": ("clusters apart, 50,000 x 8, k = 5", 5, lambda s: separate(50_000, 8, 5, s, 0.07)),
    "town": (
        "the bundled town, 20,000 x 2, k = 5, 3 % of it anywhere: centers are pulled",
        5,
        lambda draw: np.clip(clinic_patients(draw + 1) / 10.0, -1.0, 1.0),
    ),
}


def measure(name: str, family: str, relation: Neighbours, runs: int, eps: str = "1") -> dict:
    """Return how often intervals held the truth, and how far off estimates were."""
    _, k, make = FAMILIES[family]
    held: dict[str, list[np.ndarray]] = {"sizes": [], "centers": [], "potential": []}
    ratios = []
    for run in range(runs):
        values = make(run % 20)
        grid = Box((-1.0,) * values.shape[1], (1.0,) * values.shape[1]).grid()
        points = grid.quantise(values).astype(np.int32)
        mechanism = calibrate_mechanism(
            name,
            Decimal(eps),
            n_records=len(points),
            n_clusters=k,
            grid=grid,
            neighbours=relation,
        )
        made = run_on_points(mechanism, points, SeededEntropy(1000 + run))
        told = made.clusters
        assert told is not None
        sums, counts = integer_clusters(points, made.centers, np.empty(0, np.int64))
        full = counts > 0
        means = sums[full] / counts[full, np.newaxis]
        held["sizes"].append(np.abs(told.sizes - counts) <= WITHIN * told.size_sd)
        off = np.abs(made.centers[full] - means)
        held["centers"].append((off <= WITHIN * told.center_sd[full]).ravel())
        if told.potential is not None and told.potential_sd is not None:
            truth = assign_nearest(points.astype(np.float64), made.centers.astype(np.float64))[2]
            ratios.append(told.potential / truth)
            near = abs(told.potential - truth) <= WITHIN * told.potential_sd
            held["potential"].append(np.asarray([near]))
    found = {what: round(float(np.concatenate(own).mean()), 3) for what, own in held.items() if own}
    row = {"mechanism": name, "family": family, "relation": relation.value, "eps": eps, **found}
    if ratios:
        row["potential_ratio"] = round(float(np.mean(ratios)), 3)
    return row


def main(argv: list[str] | None = None) -> int:
    """Measure, print, and keep if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--only", choices=FAMILIES)
    parser.add_argument("--mechanism", choices=[one for one in TELLING if one in MECHANISMS])
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args(argv)
    rows = []
    print("coverage of 90 % intervals   sizes  centres  potential  (estimate over truth)")
    for name in [asked.mechanism] if asked.mechanism else TELLING:
        for family in [asked.only] if asked.only else FAMILIES:
            for relation in MECHANISMS[name].relations:
                row = measure(name, family, relation, asked.runs)
                rows.append(row)
                cells = f"{row['sizes']:>10.3f} {row['centers']:>8.3f}"
                if "potential" in row:
                    cells += f" {row['potential']:>9.3f}   {row['potential_ratio']:.3f}"
                print(f"{name:9} {family:7} {relation.value:11} {cells}", flush=True)
    if asked.write:
        OUT.write_text(json.dumps({"runs": asked.runs, "rows": rows}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
