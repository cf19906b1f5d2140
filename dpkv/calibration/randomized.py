"""The paper's randomised estimates of spread and monotonicity (its appendix on experiments)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpkv.calibration.loops import sampled_potentials
from dpkv.distortions import SQUARED_EUCLIDEAN
from dpkv.kernels import Float64s

DEFAULT_DRAWS = 5000
CAVEAT = "random search: underestimates the spread, and the monotonicity unless by luck"


@dataclass(frozen=True)
class RandomizedEstimates:
    """What ``n_draws`` random neighbourhoods showed."""

    least_remaining: float
    monotonicity: float
    n_draws: int
    caveat: str = CAVEAT

    def spread(self, radius: float) -> float:
        """Return R^2 over the least potential seen to remain."""
        return radius**2 / self.least_remaining if self.least_remaining > 0 else math.inf


@dataclass(frozen=True, eq=False)
class Draws:
    """Random neighbourhoods: k - 1 records of N and one added record; and one taken away."""

    centers: Float64s
    """(draws, k, features): the k - 1 records of N, then the added one."""
    removed: Float64s


def random_neighbourhoods(
    points: Float64s, n_clusters: int, n_draws: int, rng: np.random.Generator
) -> Draws:
    """Draw N, the added record (distinct from N) and the removed one, ``n_draws`` times."""
    rows = rng.integers(len(points), size=(n_draws, n_clusters))
    clash = _repeats(rows)
    while clash.any():  # rows with a repeated record are drawn again, so distinct ones stay uniform
        rows[clash] = rng.integers(len(points), size=(int(clash.sum()), n_clusters))
        clash = _repeats(rows)
    return Draws(points[rows], points[rng.integers(len(points), size=n_draws)])


def _repeats(rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    ordered = np.sort(rows, axis=1)
    return np.asarray((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))


def estimate(points: Float64s, draws: Draws) -> RandomizedEstimates:
    """Return the least remaining potential and the largest fall of the potential over the draws.

    The fall is phi(N) / phi(N + x) - 1 for a random record x, the paper's stand-in for the mean of
    an N-packed set.
    """
    potentials = sampled_potentials(points, draws.centers)
    to_removed = [
        float(SQUARED_EUCLIDEAN.to_center(centers, removed).min())
        for centers, removed in zip(draws.centers[:, :-1], draws.removed, strict=True)
    ]
    remaining = potentials[:, 0] - np.array(to_removed)
    before, after = potentials.T
    falls = np.divide(before, after, out=np.full(len(before), np.inf), where=after > 0)
    falls[before == 0] = 1.0
    return RandomizedEstimates(
        max(0.0, float(remaining.min())), float(falls.max()) - 1.0, len(remaining)
    )
