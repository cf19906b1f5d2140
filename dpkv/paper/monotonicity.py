"""delta_s-monotonicity (the paper's Definition 3): how far one more center can lower the potential.

It is the maximum of phi(N) / phi(N + x) - 1 over sets N of 1 to k - 1 records and means x of
N-packed sets. The point x that lowers phi most is the mean of the records it wins, and those are
N-packed, so the maximum over packed sets is the maximum over *all* points x.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from dpkv import kernels
from dpkv.distortions import SQUARED_EUCLIDEAN
from dpkv.paper.calibration_loops import SpatialBlocks, gains
from dpkv.paper.dual_bounds import (
    SAFETY,
    DualBound,
    WeightedRecords,
    eigenvalue_bound,
    weighted_sum,
)
from dpkv.paper.largest_gain import largest_gain_anywhere
from dpkv.types import Float64s

EXACT_POINTS = 16
"""Distinct points up to which all subsets are looked at."""
_ALL_PAIRS = 3e10  # pairs of numbers; above this, gains are bounded block by block


@dataclass(frozen=True)
class Monotonicity:
    """delta_s, and how it was found."""

    value: float
    method: str


def exact_monotonicity(data: WeightedRecords, n_clusters: int) -> Monotonicity:
    """Return the exact maximum over all N and all added points, by looking at every subset.

    For fixed N the best x leaves min over sets A of the records outside A at their distance to N,
    and those of A at theirs to the mean of A, which is their pairs' squared distances over their
    number. Only positive numbers are added, so neither outliers nor offsets cancel anything.
    """
    distances = np.stack([SQUARED_EUCLIDEAN.to_center(data.points, p) for p in data.points])
    largest = 1.0
    for size in range(1, min(n_clusters, data.size)):
        for chosen in combinations(range(data.size), size):
            near = distances[list(chosen)].min(axis=0)
            outside = np.flatnonzero(near > 0)
            if not outside.size:
                continue
            potential = float(data.weights @ near)
            between = distances[np.ix_(outside, outside)]
            left = _least_left_by_subset(between, data.weights[outside], near[outside])
            largest = max(largest, potential / left if left > 0 else math.inf)
    return Monotonicity(largest - 1.0, "exact")


@kernels.compiled
def _least_left_by_subset(between, weights, near):  # type: ignore[no-untyped-def]
    """Return min over subsets A of sum_{not A} w near + sum_{pairs of A} w w' between / w(A).

    Points join A or stay out in turn, depth first; a branch that already leaves more is given up.
    """
    n_points = len(weights)
    least = (weights * near).sum()
    joined = np.zeros(n_points, np.bool_)
    mass, pairs, rest = np.zeros(n_points + 1), np.zeros(n_points + 1), np.zeros(n_points + 1)
    to_try = np.full(n_points, 2)  # 2: join, 1: stay out, 0: done
    depth = 0
    while depth >= 0:
        inside = pairs[depth] / mass[depth] if mass[depth] > 0.0 else 0.0
        worse = rest[depth] + inside > least
        if depth == n_points and not worse:
            least = rest[depth] + inside
        if depth == n_points or worse or to_try[depth] == 0:
            if depth < n_points:
                to_try[depth] = 2
            depth -= 1
            continue
        joined[depth] = to_try[depth] == 2  # noqa: PLR2004
        to_try[depth] -= 1
        mass[depth + 1], pairs[depth + 1], rest[depth + 1] = mass[depth], pairs[depth], rest[depth]
        if joined[depth]:
            mass[depth + 1] += weights[depth]
            for other in range(depth):
                if joined[other]:
                    pairs[depth + 1] += weights[depth] * weights[other] * between[depth, other]
        else:
            rest[depth + 1] += weights[depth] * near[depth]
        depth += 1
    return least


def certified_monotonicity(
    data: WeightedRecords,
    blocks: Callable[[], SpatialBlocks],
    duals: dict[int, DualBound | None],
    known: dict[int, float] | None = None,
) -> Monotonicity:
    """Return an upper bound, from the multipliers ``duals[n]`` for n = 2 .. k centers.

    Let N have j records, c* the one of least phi({c*}). Then phi(N) <= phi({c*}), every other c of
    N has phi({c}) >= phi({c*}), and phi(N + x) is at least each of

        S - g(c*) - (the j - 1 largest g(c) with phi({c}) >= phi({c*})) - sup over all x of g(x),
        half of the same with max over *records* in place of the sup: the records that x wins have
        one among them that serves them at twice the cost of their mean x,
        the eigenvalues of the scatter matrix beyond the j largest,

    with S = sum w lambda. The largest ratio over c* and j is the bound. ``known`` keeps the ratios
    by n, so that a larger k adds its own to those of a smaller one.
    """
    ratios = {} if known is None else known
    for n_centers, dual in duals.items():
        if n_centers not in ratios:
            ratios[n_centers] = _largest_ratio(data, blocks, dual, n_centers)
    return Monotonicity(max([1.0, *(ratios[n] for n in duals)]) - 1.0, "certified")


def _largest_ratio(
    data: WeightedRecords,
    blocks: Callable[[], SpatialBlocks],
    dual: DualBound | None,
    n_centers: int,
) -> float:
    """Bound phi(N) / phi(N + x) from above over all c*, for N + x of ``n_centers``."""
    alone = _alone(data)
    leaves = np.full(data.size, eigenvalue_bound(data, n_centers, removed=False))
    if dual is not None:
        leaves = np.maximum(leaves, _least_left(data, blocks(), dual, n_centers, alone))
    ratios = np.divide(alone, leaves, out=np.full(len(alone), np.inf), where=leaves > 0)
    return float(ratios.max()) * (1.0 + SAFETY)


def _alone(data: WeightedRecords) -> Float64s:
    """Return phi({c}) = phi(mean) + m ||c - mean||^2 for every point c."""
    squared = data.from_mean
    return np.asarray(weighted_sum(data.weights, squared) + data.n_records * squared)


def _least_left(
    data: WeightedRecords, blocks: SpatialBlocks, dual: DualBound, n_centers: int, alone: Float64s
) -> Float64s:
    """Return, for every c*, the dual bound on phi(N + x)."""
    gain = _every_gain(data, blocks, dual.budgets)
    order = np.argsort(-alone)  # phi({c}) falling: the others of N come before c*
    others = np.zeros(data.size)
    others[order] = _running_top(gain[order], n_centers - 2)
    total = weighted_sum(data.weights, dual.budgets)
    margin = SAFETY * total * n_centers
    at_records = 0.5 * (total - gain - others - dual.largest_gain - margin)
    anywhere = largest_gain_anywhere(blocks, dual.budgets)
    return np.maximum(at_records, total - gain - others - anywhere - margin)


def _every_gain(data: WeightedRecords, blocks: SpatialBlocks, budgets: Float64s) -> Float64s:
    """Return g(c) for every point c, or a bound on it from above by its block."""
    in_blocks = blocks.spread_out(budgets)
    largest = in_blocks.max(axis=1)
    if float(data.size) * data.points.size <= _ALL_PAIRS:
        return gains(data.points, data.points, blocks, in_blocks, largest)
    by_block = gains(blocks.lower, blocks.upper, blocks, in_blocks, largest)
    result = np.empty(data.size)
    result[blocks.order] = np.repeat(by_block, blocks.columns.shape[2])[: data.size]
    return result


def _running_top(values: Float64s, count: int) -> Float64s:
    """Return, at each place, the sum of the ``count`` largest values up to and including it."""
    top = np.zeros((count, len(values)))
    rest = values
    for place in range(count):
        top[place] = np.maximum.accumulate(rest)
        # what the running maximum leaves behind: the smaller of the newcomer and the old maximum
        previous = np.concatenate([[0.0], top[place][:-1]])
        rest = np.minimum(rest, previous)
    return np.asarray(top.sum(axis=0))
