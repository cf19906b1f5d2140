"""Speed of a release and of its audit, each beside plain numpy doing the same.

    python audits/release_speed.py            print the figures
    python audits/release_speed.py --write    and keep them in audits/release_speed.json

Exact losses: one output against every record of a table of the paper's largest size, 169308 x 2,
and 256 replacements, k = 8; the numpy side is timed on a part of the replacements and scaled up.
Release: k = 10 centers of 10^6 x 15 records on the grid, against the same rounds in numpy.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np

import dpkv
from dpkv.audits.losses import exact_losses, list_replacements, round_factors
from dpkv.domain import Domain
from dpkv.mechanisms import Algorithm0, calibrate_mechanism
from dpkv.noise import SeededEntropy
from dpkv.records import run_on_points

N_REPLACEMENTS, NUMPY_SHARE = 256, 16


def clustered(n_records: int, n_features: int, n_clusters: int) -> np.ndarray:
    """Return records in [-1, 1] around a few centers."""
    rng = np.random.default_rng(20160619)
    centers = rng.uniform(-0.8, 0.8, (n_clusters, n_features))
    noise = rng.normal(0, 0.05, (n_records, n_features))
    return np.clip(centers[rng.integers(n_clusters, size=n_records)] + noise, -1, 1)


def prepared(n_records: int, n_features: int, k: int) -> tuple[Algorithm0, np.ndarray]:
    """Return the certified mechanism at eps = 1 and the records on its grid."""
    grid = Domain.bounded((-1, 1), n_features).grid()
    points = grid.quantise(clustered(n_records, n_features, k)).astype(np.int32)
    mechanism = calibrate_mechanism(
        "kvariates", Decimal(1), n_records=n_records, n_clusters=k, grid=grid
    )
    assert isinstance(mechanism, Algorithm0)
    return mechanism, points


def numpy_losses(
    mechanism: Algorithm0, points: np.ndarray, output: np.ndarray, replacements: np.ndarray
) -> float:
    """Return the largest loss, as one would write it first."""
    weights, likelihoods = round_factors(mechanism, points, output)
    new_weights, new_likelihoods = round_factors(mechanism, replacements, output)
    terms, new_terms = weights * likelihoods, new_weights * new_likelihoods
    total, mass = weights.sum(axis=0), terms.sum(axis=0)
    here = np.log(mass / total).sum()
    largest = 0.0
    for weight, term in zip(new_weights, new_terms, strict=True):
        there = np.log((mass - terms + term) / (total - weights + weight)).sum(axis=1)
        largest = max(largest, float(np.abs(here - there).max()))
    return largest


def numpy_release(mechanism: Algorithm0, points: np.ndarray, entropy: SeededEntropy) -> np.ndarray:
    """Return k noisy centers by the same rounds, with whole-array numpy in every one."""
    rng = np.random.default_rng(entropy.coins())
    nearest = np.full(len(points), np.inf)
    weights = np.ones(len(points))
    drawn = []
    for _ in range(mechanism.n_clusters):
        running = np.cumsum(weights)
        pick = int(np.searchsorted(running, rng.random() * running[-1], side="right"))
        drawn.append(entropy.add_laplace(points[pick].astype(np.int64), mechanism.noise_scale))
        center = mechanism.grid.clip(drawn[-1][np.newaxis])[0]
        nearest = np.minimum(nearest, ((points - center) ** 2).sum(axis=1))
        weights = nearest + float(mechanism.smoothing or 0)
    return np.stack(drawn)


def timed(ours: Callable[[], object], theirs: Callable[[], object], share: int) -> dict[str, float]:
    """Time both sides turn by turn; ``theirs`` does one part in ``share`` of the work."""
    ours()  # compiled, or loaded from the cache, beforehand
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(3):
        for side, work in enumerate((ours, theirs)):
            start = time.perf_counter()
            work()
            seconds[side].append((time.perf_counter() - start) * (share if side else 1))
    mine, other = (float(np.median(side)) for side in seconds)
    return {"dpkv_s": mine, "numpy_s": other, "ratio": other / mine}


def measured() -> dict[str, dict[str, float]]:
    """Return the figures of both comparisons."""
    mechanism, points = prepared(169_308, 2, 8)
    output = mechanism.grid.clip(run_on_points(mechanism, points, SeededEntropy(0)).centers)
    tried = list_replacements(mechanism.grid, output, N_REPLACEMENTS)
    losses = timed(
        lambda: exact_losses(mechanism, points, output, tried),
        lambda: numpy_losses(mechanism, points, output, tried[::NUMPY_SHARE]),
        NUMPY_SHARE,
    )
    large, records = prepared(1_000_000, 15, 10)
    release = timed(
        lambda: run_on_points(large, records, SeededEntropy(0)),
        lambda: numpy_release(large, records, SeededEntropy(0)),
        1,
    )
    return {"exact_losses": losses, "release": release}


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="keep the figures beside this file")
    write = parser.parse_args().write
    found = measured()
    for name, row in found.items():
        times = f"dpkv {row['dpkv_s']:.3f} s, numpy {row['numpy_s']:.2f} s"
        print(f"{name}: {times}: {row['ratio']:.1f}x")
    if write:
        record = {
            "command": "python audits/release_speed.py --write",
            "cores": os.cpu_count(),
            "machine": platform.machine(),
            "python": platform.python_version(),
            "dpkv": dpkv.__version__,
            "numpy": np.__version__,
            **found,
        }
        target = Path(__file__).with_suffix(".json")
        target.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
