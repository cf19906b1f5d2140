"""delta_w-spread (Definition 2 of the paper): R^2 over the least potential that can remain.

The least is over all sets N of k - 1 records and one record taken away. Three methods:

    exact        closed form for k = 2, branch and bound for small instances
    certified    a lower bound on what remains at any size (see ``dual_bounds``), hence an
                 upper bound on the spread: it errs toward privacy
    randomized   the paper's random search: it finds *some* remaining potential, hence
                 *under*-estimates the spread
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpkv import kernels
from dpkv.distortions import SQUARED_EUCLIDEAN
from dpkv.errors import ParameterError
from dpkv.paper.calibration_loops import SpatialBlocks
from dpkv.paper.dual_bounds import (
    SAFETY,
    DualBound,
    WeightedRecords,
    ascend,
    dual_bound,
    eigenvalue_bound,
    is_affordable,
    removed_potential,
    weighted_sum,
)
from dpkv.seeding.instances import kmeans_plusplus
from dpkv.seeding.potentials import lloyd
from dpkv.types import Float64s, Progress

EXACT_POINTS = 600
"""Distinct points up to which branch and bound is tried."""
_EXACT_NODES = 3_000_000
_ROUNDING = 1e-12  # of sums over EXACT_POINTS points
_RESTARTS = 10
_SEARCHED = 30_000
_FARTHEST = 8


def spread_of(remaining: float, radius: float) -> float:
    """Return the spread R^2 / remaining; infinite where nothing need remain."""
    return radius**2 / remaining if remaining > 0 else math.inf


@dataclass(frozen=True, eq=False)
class LeastRemaining:
    """The least potential that can remain, or what is known of it."""

    value: float
    """Exact, or a lower bound (certified), or an upper bound (randomized)."""
    method: str
    found: float
    """The least that was seen to remain: an upper bound on the truth in every case."""
    dual: DualBound | None = None
    """The multipliers behind a certified value, where the dual was affordable."""

    def spread(self, radius: float) -> float:
        """Return the spread of ``value``."""
        return spread_of(self.value, radius)


def good_centers(
    data: WeightedRecords, n_centers: int, rng: np.random.Generator
) -> tuple[Float64s, float]:
    """Return records that leave little, and what they leave: Lloyd's means moved to records.

    A large table is searched on a sample, which decides nothing but how good the find is.
    """
    sample = data
    if data.size > _SEARCHED:
        rows = np.sort(rng.choice(data.size, _SEARCHED, replace=False))
        sample = WeightedRecords(data.points[rows], data.weights[rows])
    points, weights = sample.points, sample.weights
    best, least = points[:n_centers], math.inf
    for _ in range(_RESTARTS):
        seeds, _ = kmeans_plusplus(points, n_centers, sample_weight=weights, rng=rng)
        means = lloyd(points, seeds, sample_weight=weights, tolerance=1e-3).centers
        nearest = [int(SQUARED_EUCLIDEAN.to_center(points, mean).argmin()) for mean in means]
        for centers in (points[nearest], np.asarray(seeds, dtype=np.float64)):
            remaining = removed_potential(sample, centers)
            if remaining < least:
                best, least = centers, remaining
    return best, least if sample is data else removed_potential(data, best)


def exact_remaining(data: WeightedRecords, n_centers: int) -> LeastRemaining:
    """Return the exact minimum, or refuse with the alternative's name."""
    if data.size <= n_centers:
        return LeastRemaining(0.0, "exact", 0.0)
    if n_centers == 1:
        value = _exact_single(data)
        return LeastRemaining(value * (1.0 - SAFETY), "exact", value)
    if data.size > EXACT_POINTS:
        raise _too_large(f"has {data.size} distinct records, over {EXACT_POINTS}")
    value = _branch_and_bound(data, n_centers)
    return LeastRemaining(value * (1.0 - SAFETY), "exact", value)


def _too_large(reason: str) -> ParameterError:
    return ParameterError(
        "method", "'certified' for an instance this large", "exact", f"The table {reason}."
    )


def _exact_single(data: WeightedRecords) -> float:
    """Minimise phi({a}) less the record b farthest from a, over all records a.

    Without b, phi({a}) = phi_b + (m - 1) ||a - mean_b||^2 around the mean of the others. That is
    calculated for every a and the few records b farthest from the mean. Any other b is within
    ``beyond`` of the mean, so it takes at most (beyond + ||a - mean||)^2 off
    phi({a}) = phi + m ||a - mean||^2. Records are tried in the order of these lower bounds, until
    none can win; that is soon, also where one outlier outweighs all the rest.
    """
    m, squared = data.n_records, data.from_mean
    by_distance = np.argsort(squared)
    far, near = by_distance[-_FARTHEST:], by_distance[:-_FARTHEST]
    beyond = math.sqrt(float(squared[near].max(initial=0.0)))
    alone = weighted_sum(data.weights, squared) + m * squared
    lower = alone - (beyond + np.sqrt(squared)) ** 2 if len(near) else np.full(data.size, math.inf)
    for row in far:
        weights = data.weights.copy()
        weights[row] -= 1.0
        rest = WeightedRecords(data.points, weights)
        remaining = weighted_sum(weights, rest.from_mean) + (m - 1.0) * rest.from_mean
        lower = np.minimum(lower, remaining)
    least = math.inf
    for row in np.argsort(lower):
        if lower[row] * (1.0 - SAFETY) >= least:
            break
        least = min(least, removed_potential(data, data.points[[row]]))
    return least


def _branch_and_bound(data: WeightedRecords, n_centers: int) -> float:
    """Enumerate the sets that the dual does not rule out."""
    distances = np.stack([SQUARED_EUCLIDEAN.to_center(data.points, p) for p in data.points])
    centers, least = good_centers(data, n_centers, np.random.default_rng(0))
    nearest = np.asarray(kernels.assign_nearest(data.points, centers)[1], dtype=np.float64)
    dual = ascend(distances, data.weights, n_centers, nearest, least, 3000)
    order = np.argsort(-dual.gains)
    total = float(data.weights @ dual.budgets)
    base = total - float(dual.budgets.max()) - _ROUNDING * total
    running = np.concatenate([[0.0], np.cumsum(dual.gains[order])])
    value, nodes = _enumerate(
        np.ascontiguousarray(distances[order]),
        data.weights,
        running,
        base,
        n_centers,
        least,
        _EXACT_NODES,
    )
    if nodes > _EXACT_NODES:
        raise _too_large(f"leaves over {_EXACT_NODES} sets to look at")
    return float(value)


@kernels.compiled
def _enumerate(  # type: ignore[no-untyped-def]
    distances, weights, running, base, n_centers, least, most_nodes
):
    """Depth-first over increasing candidates, most gainful first; stop a branch by its bound.

    A set that begins with the chosen candidates and goes on from candidate i leaves at least
    base - (gains chosen) - (the next gains from i): no set from i on can do better than ``least``
    once that exceeds it.
    """
    n_points = len(weights)
    chosen = np.zeros(n_centers, np.int64)
    gained = np.zeros(n_centers + 1)
    near = np.full((n_centers + 1, n_points), np.inf)
    depth, candidate, nodes = 0, 0, 0
    while depth >= 0:
        left = n_centers - depth
        fits = candidate + left <= n_points
        if fits:
            bound = base - gained[depth] - (running[candidate + left] - running[candidate])
            fits = bound < least
        if not fits or nodes > most_nodes:
            depth -= 1
            if depth >= 0:
                candidate = chosen[depth] + 1
            continue
        nodes += 1
        chosen[depth] = candidate
        for a in range(n_points):
            near[depth + 1, a] = min(near[depth, a], distances[candidate, a])
        gained[depth + 1] = gained[depth] + running[candidate + 1] - running[candidate]
        candidate += 1
        if depth + 1 < n_centers:
            depth += 1
            continue
        total, farthest = 0.0, 0
        for a in range(n_points):
            if near[n_centers, a] > near[n_centers, farthest]:
                farthest = a
        for a in range(n_points):
            count = weights[a] - 1.0 if a == farthest else weights[a]
            total += count * near[n_centers, a]
        least = min(least, total)
    return least, nodes


def certified_remaining(
    data: WeightedRecords,
    blocks: Callable[[], SpatialBlocks],
    n_centers: int,
    *,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> LeastRemaining:
    """Return a lower bound at any size: the better of the dual and the eigenvalues.

    ``blocks`` gives the points in spatial order; it is asked only where the dual is affordable.
    """
    if data.size <= n_centers:
        return LeastRemaining(0.0, "certified", 0.0)
    centers, found = good_centers(data, n_centers, rng)
    value = eigenvalue_bound(data, n_centers)
    dual = None
    if is_affordable(data):
        dual = dual_bound(data, blocks(), centers, found, rng=rng, progress=progress)
        value = max(value, dual.value)
    return LeastRemaining(min(value, found), "certified", found, dual)
