"""What gamma, and how many Lloyd steps with what share of eps, suit k-variates++ with windows.

    python audits/windows_layout.py             print the figures
    python audits/windows_layout.py --write     and keep them in audits/windows_layout.json

Geometric means, over generated tables and runs, of the potential over that of k-means, replace-one.
The tables and seeds are of this script alone: ``windows_accuracy.py`` and ``windows_contest.py``
report on others. gamma = infinity picks records uniformly. The error is that of the mean logarithm,
over tables.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

import dpkv
from dpkv.accounting.theorem_a import DEFAULT_GAMMA
from dpkv.domain import Box
from dpkv.mechanisms import Mechanism, calibrate_mechanism
from dpkv.mechanisms.kvariates.completed import CompletedKVariates
from dpkv.noise import SeededEntropy
from dpkv.records import run_on_points
from dpkv.seeding import estimate_optimum, potential

OUT = Path(__file__).with_suffix(".json")
EPS = ("3", "1", "0.2", "0.05")
GAMMAS = (0.01, 0.03, 0.1, 0.3, 1.0, math.inf)
SHARES = (0.3, 0.6, 0.75, 0.85, 0.92)
STEPS = (1, 2, 3, 4, 6, 8)
M, RUNS, SEED = 10_000, 4, 5081
Calibrated = Callable[..., Mechanism]


def tables() -> Iterator[tuple[str, np.ndarray, int]]:
    """Yield names, records in [-1, 1]^d, and k."""
    for d, k in ((2, 4), (2, 8), (4, 5), (10, 6)):
        for kind, spread, tilt in (("even", 0.07, 0.0), ("uneven", 0.07, 1.0), ("wide", 0.2, 0.0)):
            rng = np.random.default_rng([SEED, d, k, len(kind)])
            sizes = np.arange(1, k + 1) ** -tilt
            labels = rng.choice(k, M, p=sizes / sizes.sum())
            middles = rng.uniform(-0.8, 0.8, (k, d))
            values = middles[labels] + rng.normal(0.0, spread, (M, d))
            yield f"{kind} d={d} k={k}", np.clip(values, -1.0, 1.0), k


def measure(ways: Mapping[str, Calibrated], runs: int) -> dict[str, dict[str, dict[str, float]]]:
    """Return mean and error of every way at every eps."""
    logs: dict[tuple[str, str], list[float]] = {(way, eps): [] for way in ways for eps in EPS}
    for name, values, k in tables():
        grid = Box((-1.0,) * values.shape[1], (1.0,) * values.shape[1]).grid()
        points = grid.quantise(values).astype(np.int32)
        best = potential(values, estimate_optimum(values, k, restarts=10, rng=0).centers)
        size = {"n_records": M, "n_clusters": k, "grid": grid, "density": "window"}
        for (way, eps), found in logs.items():
            mechanism = ways[way]("kvariates", Decimal(eps), **size)
            reached = []
            for run in range(runs):
                entropy = SeededEntropy(np.random.SeedSequence([SEED, run, k, len(name)]))
                centers = grid.clip(run_on_points(mechanism, points, entropy).centers)
                reached.append(math.log(potential(values, grid.restore(centers)) / best))
            found.append(float(np.mean(reached)))
    return {
        way: {
            eps: {
                "mean": round(math.exp(float(np.mean(logs[way, eps]))), 3),
                "error": round(
                    float(np.std(logs[way, eps], ddof=1)) / len(logs[way, eps]) ** 0.5, 3
                ),
            }
            for eps in EPS
        }
        for way in ways
    }


def with_gamma(gamma: float, steps: int | None = None) -> Calibrated:
    """Return what calibrates with a gamma, alone or with as many steps as are the default."""
    return lambda *given, **terms: calibrate_mechanism(
        *given, gamma=gamma, lloyd_steps=steps, **terms
    )


def with_share(share: float) -> Calibrated:
    """Return what calibrates with a share of eps for all steps."""

    def calibrated(name: str, eps: Decimal, **size: Any) -> Mechanism:
        usual = calibrate_mechanism(name, eps, **size)
        assert isinstance(usual, CompletedKVariates)
        return CompletedKVariates.calibrate(
            eps, **size, gamma=DEFAULT_GAMMA, n_steps=usual.n_steps, step_share=share
        )

    return calibrated


def main() -> None:
    """Measure, print, and keep what was found where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--runs", type=int, default=RUNS)
    asked = parser.parse_args()
    ways = {f"gamma {gamma:g}, windows alone": with_gamma(gamma, 0) for gamma in GAMMAS}
    ways |= {f"gamma {gamma:g}, Lloyd steps": with_gamma(gamma) for gamma in GAMMAS}
    ways |= {f"{steps} steps": with_gamma(DEFAULT_GAMMA, steps) for steps in STEPS}
    ways |= {f"share {share:g} of eps for the steps": with_share(share) for share in SHARES}
    found = measure(ways, asked.runs)
    for way, figures in found.items():
        cells = (f"{one['mean']:8.2f} (x {math.exp(one['error']):.2f})" for one in figures.values())
        print(f"{way:36}", *cells)
    if asked.write:
        kept = {"dpkv": dpkv.__version__, "runs": asked.runs, "eps": EPS, "figures": found}
        OUT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
