"""Clustering weighted points: sk-means++ seeding, Lloyd's iterations, and a search by swaps. Free.

The seeding is Algorithm 0 with weights (eq. `qw`), the iterations are ``lloyd``'s: what `thSKM`
speaks about. Restarts and swaps cost nothing, as the points are private already.
"""

from __future__ import annotations

import numpy as np

from dpkv import kernels
from dpkv.mechanisms.synopsis.cells import WeightedPoints
from dpkv.seeding.algorithm0 import kvariates
from dpkv.seeding.potentials import LloydResult, lloyd
from dpkv.types import Float64s

_RESTARTS = 20
_SWAP_ITERATIONS = 8
_FEWEST_SWAPS, _SWAPS_A_CENTER = 50, 3
_RESTART_WORK, _SWAP_WORK = 1 << 33, 1 << 31  # distances; beyond, fewer restarts and swaps are made
_ITERATIONS = 40


def cluster(found: WeightedPoints, n_clusters: int, rng: np.random.Generator) -> Float64s:
    """Return k centers of about the least weighted potential, in mapped coordinates."""
    points, weights = found.points, found.weights
    best: LloydResult | None = None
    a_pass = len(points) * n_clusters
    for _ in range(min(_RESTARTS, max(1, _RESTART_WORK // (_ITERATIONS * a_pass)))):
        seeds = kvariates(points, n_clusters, sample_weight=weights, rng=rng).centers
        result = lloyd(
            points, seeds, sample_weight=weights, max_iterations=_ITERATIONS, tolerance=1e-4
        )
        if best is None or result.potential < best.potential:
            best = result
    assert best is not None
    if n_clusters > 1:
        swaps = max(_FEWEST_SWAPS, _SWAPS_A_CENTER * n_clusters)
        for _ in range(min(swaps, _SWAP_WORK // a_pass)):
            best = _swapped(found, best, rng)
    return np.asarray(lloyd(points, best.centers, sample_weight=weights).centers)


def _swapped(found: WeightedPoints, best: LloydResult, rng: np.random.Generator) -> LloydResult:
    """Try a point drawn by D^2 in the place of the center that is least missed then."""
    points, weights = found.points, found.weights
    labels, first, second = kernels.two_nearest(points, best.centers)
    mass = (first * weights).cumsum()
    if not mass[-1] > 0.0:
        return best
    drawn = points[min(int(np.searchsorted(mass, rng.random() * mass[-1])), len(points) - 1)]
    to_drawn = ((points - drawn) ** 2).sum(axis=1)
    missed = weights * (np.minimum(second, to_drawn) - np.minimum(first, to_drawn))
    centers = best.centers.copy()
    centers[np.bincount(labels, missed, len(centers)).argmin()] = drawn
    tried = lloyd(
        points, centers, sample_weight=weights, max_iterations=_SWAP_ITERATIONS, tolerance=1e-4
    )
    return tried if tried.potential < best.potential else best
