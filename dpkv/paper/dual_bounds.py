"""Lower bounds on the discrete (k-1)-means minimum, which err toward privacy.

Problem. Over sets N of n records, and one record b taken away, how small can the potential
sum_{a != b} D_N(a) be? Two certified answers from below:

Dual (`dual_bound`). For any lambda >= 0 and g(c) = sum_a w_a max(0, lambda_a - ||a - c||^2),

    sum_{a != b} D_N(a)  >=  sum_a w_a lambda_a - max_a lambda_a - sum_{c in N} g(c)
                         >=  sum_a w_a lambda_a - max_a lambda_a - n max_c g(c),

because D_N(a) >= lambda_a - max(0, lambda_a - D_N(a)) >= lambda_a - sum_{c in N} max(0, lambda_a -
||a - c||^2) for every a != b. Any lambda certifies; a good one is found on a sample of the records.
The maximum over all records c is found exactly, or bounded, by branch and bound over boxes of
records: max(0, lambda_a - squared distance to the box) only grows with the box.

Eigenvalues (`eigenvalue_bound`). n centers leave at least the eigenvalues of the scatter matrix
beyond the n - 1 largest (Ding and He, 2004); taking away b costs at most the squared norm of its
rank-one change. Cheap at any size, and strong in high dimension.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpkv import kernels
from dpkv.distortions import SQUARED_EUCLIDEAN
from dpkv.paper.calibration_loops import BLOCK, SpatialBlocks
from dpkv.paper.largest_gain import BATCH, COARSE, PAIR_BUDGET, LargestGain, largest_gain
from dpkv.seeding.nearest import row_chunks
from dpkv.types import Float64s, Floats, Indices

SAFETY = 1e-9
"""Relative margin taken off every bound: far above the rounding of the sums."""

_SAMPLE = 1500
_SAMPLE_STEPS, _SAMPLE_PATIENCE = 1500, 20
_MOMENTUM = 0.8
_FULL_STEPS, _FULL_MOMENTUM = 30, 0.5
_PATIENCE, _PAYS, _LEAST_AGILITY = 4, 0.01, 0.02
_CLOSE = 0.98

Labels = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class WeightedRecords:
    """Distinct points and how many records lie at each."""

    points: Float64s
    weights: Float64s

    @property
    def size(self) -> int:
        """How many distinct points there are."""
        return len(self.points)

    @property
    def n_records(self) -> float:
        """How many records there are."""
        return float(self.weights.sum())

    @cached_property
    def eigenvalues(self) -> Float64s:
        """Eigenvalues of the scatter matrix around the mean, the largest first."""
        anchor, mean = anchored_mean(self)
        scatter = np.zeros((len(mean), len(mean)))
        for rows in row_chunks(self.size):
            centred = self.points[rows] - anchor - mean
            scatter += (centred * self.weights[rows, np.newaxis]).T @ centred
        return np.asarray(np.linalg.eigvalsh(scatter)[::-1].clip(min=0.0))

    @cached_property
    def from_mean(self) -> Float64s:
        """Every point's squared distance to the mean of the records."""
        anchor, mean = anchored_mean(self)
        result = np.empty(self.size)
        for rows in row_chunks(self.size):
            centred = self.points[rows] - anchor - mean
            result[rows] = np.einsum("ij,ij->i", centred, centred)
        return result


def weighted_sum(weights: Float64s, values: Floats) -> float:
    """Return the sum of weights times values, pairwise, on this thread.

    A dot product would wake the threads of BLAS, which spin between calls: with sums this short and
    this many, on a machine with other work, that took more time than all the rest.
    """
    return float((weights * values).sum())


def removed_potential(data: WeightedRecords, centers: Float64s) -> float:
    """Return the potential of all records but the one that adds most to it."""
    distances = kernels.assign_nearest(data.points, centers)[1]
    weights = data.weights.copy()
    weights[distances.argmax()] -= 1.0  # left out of the sum: taken off it, an outlier cancels it
    return weighted_sum(weights, distances)


def anchored_mean(data: WeightedRecords) -> tuple[Float64s, Float64s]:
    """Return a record and the mean's offset from it: far from the origin the mean is too coarse."""
    anchor = np.asarray(data.points[0], dtype=np.float64)
    total = np.zeros(len(anchor))
    for rows in row_chunks(data.size):
        total += data.weights[rows] @ (data.points[rows] - anchor)
    return anchor, total / data.n_records


def eigenvalue_bound(data: WeightedRecords, n_centers: int, *, removed: bool = True) -> float:
    """Return the lower bound by eigenvalues, for centers anywhere; ``removed``: less one record."""
    m = data.n_records
    bound = float(data.eigenvalues[n_centers - 1 :].sum())
    if removed:
        bound -= float(data.from_mean.max()) * m / max(m - 1.0, 1.0)
    return max(0.0, bound - SAFETY * float(data.eigenvalues.sum()))


# -- multipliers from a sample --------------------------------------------------------------------


@kernels.compiled
def _matrix_gains(distances, budgets, weights, result, first, last):  # type: ignore[no-untyped-def]
    for c in range(first, last):
        total = 0.0
        for a in range(len(budgets)):
            total += weights[a] * max(budgets[a] - distances[c, a], 0.0)
        result[c] = total


@dataclass(frozen=True, eq=False)
class SampleDual:
    """Multipliers of the dual on a small set of points."""

    budgets: Float64s
    gains: Float64s
    bound: float


def ascend(
    distances: Float64s,
    weights: Float64s,
    n_centers: int,
    nearest: Float64s,
    target: float,
    steps: int,
) -> SampleDual:
    """Raise the dual of a small instance by subgradient steps toward ``target``, a known value.

    ``distances[c, a]`` is the squared distance of candidate c to point a, and ``nearest`` those to
    the centers of a good solution, where the search starts. The bound uses the sum of the n largest
    gains, since the n centers are distinct. Steps have Polyak's length along averaged subgradients.
    """
    budgets = nearest * 1.3 + 0.1 * float(nearest.mean())
    direction = np.zeros(len(weights))
    best = SampleDual(budgets, np.zeros(len(distances)), -math.inf)
    agility, stalled = 1.0, 0
    for _ in range(steps):
        result = np.empty(len(distances))
        kernels.over_blocks(
            _matrix_gains, len(distances), distances.size, distances, budgets, weights, result
        )
        top = np.argpartition(result, -n_centers)[-n_centers:]
        removed = int(np.argmax(budgets))
        bound = float(weights @ budgets) - float(budgets[removed]) - float(result[top].sum())
        pays = bound > best.bound + _PAYS * (target - best.bound) if stalled else bound > best.bound
        stalled = 0 if pays else stalled + 1
        if bound > best.bound:
            best = SampleDual(budgets, result, bound)
        if stalled >= _SAMPLE_PATIENCE:
            agility, stalled, budgets = agility / 2.0, 0, best.budgets
            direction[:] = 0.0
        slope = 1.0 - (distances[top] < budgets).sum(axis=0)
        slope[removed] -= 1.0 / weights[removed]
        direction = _MOMENTUM * direction + (1.0 - _MOMENTUM) * slope
        norm = float(weights @ direction**2)
        if agility < _LEAST_AGILITY or norm == 0.0 or target <= bound:
            break
        budgets = np.maximum(budgets + agility * (target - bound) / norm * direction, 0.0)
    return best


# -- the bound ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class DualBound:
    """A certified lower bound, with the multipliers and gains that certify it."""

    value: float
    budgets: Float64s
    largest_gain: float


def is_affordable(data: WeightedRecords) -> bool:
    """Tell whether the dual can be certified: every block has to be looked at at least once."""
    return data.size / BLOCK * data.points.size < PAIR_BUDGET / 4.0


def dual_bound(
    data: WeightedRecords,
    blocks: SpatialBlocks,
    centers: Float64s,
    upper: float,
    *,
    rng: np.random.Generator,
    progress: Callable[[float], None] | None = None,
) -> DualBound:
    """Return the best dual bound found for len(centers) records, starting near a good solution.

    ``centers`` are records whose remaining potential ``upper`` is small. The multipliers come from
    a sample, are carried over to all records, and are improved on all of them until it stops
    paying.
    """
    n = len(centers)
    budgets = _carry_over(data, centers, rng)
    labels = kernels.assign_nearest(data.points, centers)[0]
    guesses = _medoids(data, centers)
    pairs_left, agility, stalled = PAIR_BUDGET, 0.5, 0
    direction = np.zeros(data.size)
    best = DualBound(0.0, budgets, math.inf)
    for step in range(_FULL_STEPS):
        found = largest_gain(blocks, budgets, guesses, slack=COARSE, pair_budget=pairs_left)
        pairs_left -= found.pairs
        guesses = found.top(BATCH)
        value = _certify(data, budgets, n, found.upper)
        stalled = 0 if value > best.value + _PAYS * (upper - best.value) else stalled + 1
        if value > best.value:
            best = DualBound(value, budgets, found.upper)
        if progress is not None:
            progress((step + 1) / _FULL_STEPS)
        if stalled >= _PATIENCE:
            agility, stalled, budgets = agility / 2.0, 0, best.budgets
            direction[:] = 0.0
        slope = _slope(data, budgets, found, labels, n)
        direction = _FULL_MOMENTUM * direction + (1.0 - _FULL_MOMENTUM) * slope
        norm = weighted_sum(data.weights, direction**2)
        if agility < _LEAST_AGILITY or pairs_left <= 0 or value >= upper or norm == 0.0:
            break
        budgets = np.maximum(budgets + agility * (upper - value) / norm * direction, 0.0)
    found = largest_gain(blocks, best.budgets, guesses, pair_budget=PAIR_BUDGET / 4.0)
    value = _certify(data, best.budgets, n, found.upper)
    return max(best, DualBound(value, best.budgets, found.upper), key=lambda bound: bound.value)


def _medoids(data: WeightedRecords, centers: Float64s) -> Indices:
    """Return the rows of the given records."""
    return np.array([int(SQUARED_EUCLIDEAN.to_center(data.points, c).argmin()) for c in centers])


def _certify(data: WeightedRecords, budgets: Float64s, n: int, gain: float) -> float:
    """Return sum w lambda - max lambda - n max g, less a margin for rounding."""
    total = weighted_sum(data.weights, budgets)
    return total - float(budgets.max()) - n * gain - SAFETY * (total + n * gain)


def _carry_over(data: WeightedRecords, centers: Float64s, rng: np.random.Generator) -> Float64s:
    """Find multipliers on a sample and give every record those of the nearest sampled one.

    A multiplier pays when it lies between the distances to the nearest and the second nearest
    center, so it is carried over as a surplus on the nearest one. Records far out are sampled more
    often, and count less.
    """
    nearest = kernels.assign_nearest(data.points, centers)[1].astype(np.float64)
    share = data.weights * (nearest + nearest.mean() + np.finfo(float).tiny)
    share /= share.sum()
    rows = np.unique(rng.choice(data.size, size=min(_SAMPLE, data.size), p=share))
    sample = data.points[rows]
    weights = data.weights[rows] / (len(rows) * share[rows])
    candidates = np.concatenate([sample, centers])
    distances = np.stack([SQUARED_EUCLIDEAN.to_center(sample, c) for c in candidates])
    target = float(weights @ nearest[rows]) - float(nearest.max())
    start = nearest[rows]
    budgets = ascend(distances, weights, len(centers), start, target, _SAMPLE_STEPS).budgets
    closest = kernels.assign_nearest(data.points, sample)[0]
    return np.maximum(nearest + (budgets - nearest[rows])[closest], 0.0)


def _slope(
    data: WeightedRecords, budgets: Float64s, found: LargestGain, labels: Labels, n: int
) -> Float64s:
    """Return a subgradient of the bound: the records of largest gain, one for each cluster."""
    close = found.values >= _CLOSE * float(found.values.max(initial=0.0))
    ordered = found.top(int(close.sum()))
    _, firsts = np.unique(labels[ordered], return_index=True)
    chosen = ordered[firsts]
    share = n / max(1, len(chosen))
    slope = np.ones(data.size)
    for row in chosen:
        slope -= share * (SQUARED_EUCLIDEAN.to_center(data.points, data.points[row]) < budgets)
    removed = int(np.argmax(budgets))
    slope[removed] -= 1.0 / data.weights[removed]
    return slope
