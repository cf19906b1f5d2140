"""Clustering weighted points: sk-means++ seeding, Lloyd's iterations, and a search by swaps. Free.

The seeding is Algorithm 0 with weights, the iterations are ``lloyd``'s: what Theorem 3 (streams)
speaks about. Restarts and swaps cost nothing, as the points are private already.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpkv import kernels, progress
from dpkv.mechanisms.synopsis.cells import WeightedPoints
from dpkv.seeding.algorithm0 import kvariates
from dpkv.seeding.potentials import LloydResult, lloyd
from dpkv.types import Float64s, Floats

_RESTARTS = 20
_SWAP_ITERATIONS = 8
_FEWEST_SWAPS, _SWAPS_A_CENTER = 50, 3
_RESTART_WORK, _SWAP_WORK = 1 << 33, 1 << 31  # distances; beyond, fewer restarts and swaps are made
_ITERATIONS = 40
_FEWEST_FUTILE, _FUTILE_A_CENTER = 15, 2  # swaps in a row that changed nothing: more are futile
_CLOSE = 1e-4
_STAGE = "clustering private cells"
_SEEDING, _MOVED = 0.3, 0.6  # of the work, about
_ONE_CORE = 1 << 20  # numbers compared in an iteration; below, it is faster on one core


def cluster(found: WeightedPoints, n_clusters: int, rng: np.random.Generator) -> Float64s:
    """Return k centers of about the least weighted potential, in mapped coordinates."""
    points, weights = found.points, found.weights
    a_pass = len(points) * n_clusters
    restarts = min(_RESTARTS, max(1, _RESTART_WORK // (_ITERATIONS * a_pass)))
    starts = []
    for start in range(restarts):
        progress.report(_STAGE, _SEEDING * start / restarts)
        starts.append(kvariates(points, n_clusters, sample_weight=weights, rng=rng).centers)
    progress.report(_STAGE, _SEEDING)
    best = min(_moved(found, starts, _ITERATIONS), key=lambda end: end.potential)
    if n_clusters > 1:
        swaps = max(_FEWEST_SWAPS, _SWAPS_A_CENTER * n_clusters)
        best = _improved(found, best, min(swaps, _SWAP_WORK // a_pass), rng)
    return np.asarray(lloyd(points, best.centers, sample_weight=weights).centers)


def _moved(found: WeightedPoints, starts: Sequence[Floats], most: int) -> list[LloydResult]:
    """Return where Lloyd's iterations end, from every start."""
    points, weights = found.points, found.weights
    if len(starts) == 1 and points.size * len(starts[0]) > _ONE_CORE:
        end = lloyd(points, starts[0], sample_weight=weights, max_iterations=most, tolerance=_CLOSE)
        return [end]
    ends = kernels.lloyd_from_each(points, starts, weights, most=most, tolerance=_CLOSE)
    return [LloydResult(*end, most) for end in ends]


def _improved(
    found: WeightedPoints, best: LloydResult, swaps: int, rng: np.random.Generator
) -> LloydResult:
    """Try points drawn by D^2 in the place of the center that is least missed then."""
    points, weights = found.points, found.weights
    measured, futile = None, 0
    patience = max(_FEWEST_FUTILE, _FUTILE_A_CENTER * len(best.centers))
    for swap in range(swaps):
        progress.report(_STAGE, _MOVED + (1.0 - _MOVED) * swap / swaps)
        if futile >= patience:
            break
        if measured is None:
            labels, first, second = kernels.two_nearest(points, best.centers)
            measured = labels, first, second, (first * weights).cumsum()
        labels, first, second, mass = measured
        if not mass[-1] > 0.0:
            break
        drawn = points[min(int(np.searchsorted(mass, rng.random() * mass[-1])), len(points) - 1)]
        to_drawn = ((points - drawn) ** 2).sum(axis=1)
        missed = weights * (np.minimum(second, to_drawn) - np.minimum(first, to_drawn))
        centers = best.centers.copy()
        centers[np.bincount(labels, missed, len(centers)).argmin()] = drawn
        tried = _moved(found, [centers], _SWAP_ITERATIONS)[0]
        futile += 1
        if tried.potential < best.potential:
            best, measured, futile = tried, None, 0
    return best
