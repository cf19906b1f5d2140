"""Do the standard errors of a release tell how far off it is?

In full: audits/estimates_calibration.py.

Of clusters that lie apart, 90 % intervals are to hold the truth at least 85 times in 100. With that
chance of each, independent, a test fails by chance with probability below 1e-9; draws are seeded.
"""

from __future__ import annotations

from decimal import Decimal
from functools import cache

import numpy as np
import pytest
from scipy import stats
from support.chance import FALSE_ALARM

from dpkv.domain import Box
from dpkv.kernels import integer_clusters
from dpkv.mechanisms import calibrate_mechanism
from dpkv.noise import SeededEntropy
from dpkv.records import run_on_points

RUNS, WITHIN, LEAST = 100, 1.645, 0.85
PLACES = np.array([[-0.62, -0.55], [0.52, 0.61], [0.57, -0.63]])


@cache
def errors_of(mechanism: str) -> tuple[np.ndarray, np.ndarray]:
    """Return how many standard errors sizes and coordinates are off, over all runs."""
    grid = Box((-1.0, -1.0), (1.0, 1.0)).grid()
    sizes, coordinates = [], []
    for run in range(RUNS):
        rng = np.random.default_rng([7, run])
        rows = PLACES[rng.choice(3, 6_000, p=[0.5, 0.3, 0.2])] + rng.normal(0, 0.06, (6_000, 2))
        points = grid.quantise(np.clip(rows, -1.0, 1.0)).astype(np.int32)
        facts = {"n_records": len(points), "n_clusters": 3, "grid": grid}
        made = run_on_points(
            calibrate_mechanism(mechanism, Decimal(1), **facts), points, SeededEntropy(run)
        )
        told = made.clusters
        assert told is not None
        sums, counts = integer_clusters(points, made.centers, np.empty(0, np.int64))
        means = sums / np.maximum(counts, 1)[:, np.newaxis]
        sizes.append(np.abs(told.sizes - counts) / told.size_sd)
        coordinates.append((np.abs(made.centers - means) / told.center_sd).ravel())
    return np.concatenate(sizes), np.concatenate(coordinates)


def is_plausible(errors: np.ndarray) -> bool:
    """Tell whether so many intervals may have missed if each holds with the least chance."""
    held = int((errors <= WITHIN).sum())
    return bool(stats.binom.cdf(held, len(errors), LEAST) > FALSE_ALARM)


@pytest.mark.parametrize("mechanism", ["synopsis", "lloyd"])
def test_intervals_hold_the_truth_and_half_of_them_would_not(mechanism: str) -> None:
    for errors in errors_of(mechanism):
        assert is_plausible(errors), (errors <= WITHIN).mean()
    sizes, coordinates = errors_of(mechanism)
    assert not is_plausible(2.0 * coordinates), "standard errors of half the size are found out"
    if mechanism == "synopsis":  # DPLloyd's sizes also allow for what a last move may change
        assert not is_plausible(2.0 * sizes)
