"""What windows and private Lloyd steps bring to k-variates++, beside GUPT and Forgy-DP.

    python audits/windows_accuracy.py             print the figures
    python audits/windows_accuracy.py --write     and keep them in audits/windows_accuracy.json

Potentials at eps = 1, replace-one, over those of k-means without privacy (best of 10 restarts) on
the same table: means of 20 runs and their standard errors. All know the bounds, all centres are
clamped to them, and all of GUPT's eps goes to its noise. The first tables are those on which the
aims were set: the bundled clinic, and mixtures of clusters of equal size, whose spread is 1/15 of
half the bounds for k = 8 and 1/10 for k = 5. "tight" mixtures are those of
``audits/synopsis_accuracy.py``, 1/15 for all.

Shares of eps, the number of Lloyd steps and gamma were chosen on other draws of other generators
(``windows_layout.py``).
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

import dpkv
from dpkv.domain import Box
from dpkv.mechanisms import calibrate_mechanism
from dpkv.noise import SeededEntropy
from dpkv.paper.datasets.clinic import EDGE, clinic_patients
from dpkv.records import run_on_points
from dpkv.seeding import estimate_optimum, potential

OUT = Path(__file__).with_suffix(".json")
RUNS, RESTARTS = 20, 10
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "Forgy-DP": ("forgy", {}),
    "GUPT": ("gupt", {}),
    "product-Laplace": ("kvariates", {"density": "laplace"}),
    "windows": ("kvariates", {"density": "window", "lloyd_steps": 0}),
    "windows, Lloyd steps": ("kvariates", {"density": "window"}),
}
AIMS = {
    "clinic 20k x 2, k = 5": (8.0, 2.5),
    "mixture 100k x 2, k = 8": (9.0, 2.0),
    "mixture 100k x 3, k = 5": (5.0, 1.5),
    "mixture 100k x 5, k = 5": (11.0, 2.5),
}
"""Of windows alone, and with Lloyd steps."""


def mixture(m: int, d: int, k: int, spread: float, draw: int) -> np.ndarray:
    """Return Gaussian clusters of equal size in [-1, 1]^d."""
    rng = np.random.default_rng([1118, draw, m, d, k])
    centers = rng.uniform(-0.8, 0.8, (k, d))
    noise = rng.normal(0.0, spread, (m, d))
    return np.clip(centers[rng.integers(k, size=m)] + noise, -1.0, 1.0)


TABLES: dict[str, tuple[Callable[[int], np.ndarray], int]] = {
    "clinic 20k x 2, k = 5": (lambda _: clinic_patients() / EDGE, 5),
    "mixture 100k x 2, k = 8": (lambda draw: mixture(100_000, 2, 8, 1 / 15, draw), 8),
    "mixture 100k x 3, k = 5": (lambda draw: mixture(100_000, 3, 5, 1 / 10, draw), 5),
    "mixture 100k x 5, k = 5": (lambda draw: mixture(100_000, 5, 5, 1 / 10, draw), 5),
    "tight mixture 100k x 3, k = 5": (lambda draw: mixture(100_000, 3, 5, 1 / 15, draw), 5),
    "tight mixture 100k x 5, k = 5": (lambda draw: mixture(100_000, 5, 5, 1 / 15, draw), 5),
}
DRAWS = 4


def measure(name: str, eps: str, runs: int) -> dict[str, Any]:
    """Return the mean ratio of every way on a table, over all its draws, and standard errors."""
    make, k = TABLES[name]
    ratios: dict[str, list[float]] = {way: [] for way in WAYS}
    for draw in range(DRAWS):
        values = make(draw)
        grid = Box((-1.0,) * values.shape[1], (1.0,) * values.shape[1]).grid()
        points = grid.quantise(values).astype(np.int32)
        best = potential(values, estimate_optimum(values, k, restarts=RESTARTS, rng=draw).centers)
        for way, (mechanism, options) in WAYS.items():
            program = calibrate_mechanism(
                mechanism, Decimal(eps), n_records=len(values), n_clusters=k, grid=grid, **options
            )
            for run in range(runs // DRAWS):
                entropy = SeededEntropy(np.random.SeedSequence([draw, run]))
                centers = grid.clip(run_on_points(program, points, entropy).centers)
                ratios[way].append(potential(values, grid.restore(centers)) / best)
    return {
        way: {
            "mean": float(np.mean(found)),
            "error": float(np.std(found, ddof=1) / len(found) ** 0.5),
        }
        for way, found in ratios.items()
    }


def main() -> None:
    """Measure, print, and keep what was found where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--eps", default="1")
    parser.add_argument("--runs", type=int, default=RUNS)
    asked = parser.parse_args()
    began, found = time.time(), {}
    print(f"{'':32}" + "".join(f"{way:>22}" for way in WAYS))
    for name in TABLES:
        found[name] = measure(name, asked.eps, asked.runs)
        cells = (f"{one['mean']:.2f} +- {one['error']:.2f}" for one in found[name].values())
        print(f"{name:32}" + "".join(f"{cell:>22}" for cell in cells), flush=True)
        for way, aim in zip(("windows", "windows, Lloyd steps"), AIMS.get(name, ()), strict=False):
            if found[name][way]["mean"] > aim:
                print(f"    {way}: above its aim of {aim:g}")
    if asked.write:
        kept = {
            "dpkv": dpkv.__version__,
            "python": platform.python_version(),
            "eps": asked.eps,
            "runs": asked.runs,
            "seconds": round(time.time() - began),
            "aims": AIMS,
            "tables": found,
        }
        OUT.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
