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
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dpkv import kernels
from dpkv.calibration.loops import BLOCK, SpatialBlocks, gains
from dpkv.distortions import SQUARED_EUCLIDEAN
from dpkv.kernels import Float64s, Indices
from dpkv.seeding.nearest import row_chunks

SAFETY = 1e-9
"""Relative margin taken off every bound: far above the rounding of the sums."""

_SAMPLE = 1500
_SAMPLE_STEPS = 600
_COARSE, _FINE = 1e-2, 1e-3  # relative slack of the largest gain while searching, and at the end
_PAIR_BUDGET = 6e10  # pairs of numbers compared: some seconds
_FULL_STEPS = 30
_PATIENCE, _PAYS, _LEAST_AGILITY = 4, 0.01, 0.02
_CLOSE = 0.98
_FEW_FEATURES = 3

Labels = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class WeightedPoints:
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


def removed_potential(data: WeightedPoints, centers: Float64s) -> float:
    """Return the potential of all records but the one that adds most to it."""
    _, distances, total = kernels.assign_nearest(data.points, centers, data.weights)
    return max(0.0, total - float(distances.max()))


def eigenvalue_bound(data: WeightedPoints, n_centers: int, *, removed: bool = True) -> float:
    """Return the lower bound by eigenvalues, for centers anywhere; ``removed``: less one record."""
    m = data.n_records
    mean = data.weights @ data.points / m
    scatter = np.zeros((len(mean), len(mean)))
    for rows in row_chunks(data.size):
        centred = data.points[rows] - mean
        scatter += (centred * data.weights[rows, np.newaxis]).T @ centred
    eigenvalues = np.linalg.eigvalsh(scatter)[::-1].clip(min=0.0)
    bound = float(eigenvalues[n_centers - 1 :].sum())
    if removed:
        farthest = float(SQUARED_EUCLIDEAN.to_center(data.points, mean).max())
        bound -= farthest * m / max(m - 1.0, 1.0)
    return max(0.0, bound - SAFETY * float(eigenvalues.sum()))


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
    distances: Float64s, weights: Float64s, n_centers: int, target: float, steps: int
) -> SampleDual:
    """Raise the dual of a small instance by subgradient steps toward ``target``, a known value.

    ``distances[c, a]`` is the squared distance of candidate c to point a. The bound uses the sum of
    the n largest gains, since the n centers are distinct.
    """
    nearest_two = np.partition(distances, 1, axis=0)[:2]
    budgets = nearest_two[1] + 0.5 * float(weights @ nearest_two[1] / weights.sum())
    best: SampleDual | None = None
    agility, stalled = 1.0, 0
    for _ in range(steps):
        result = np.empty(len(distances))
        kernels.over_blocks(
            _matrix_gains, len(distances), distances.size, distances, budgets, weights, result
        )
        top = np.argpartition(result, -n_centers)[-n_centers:]
        removed = int(np.argmax(budgets))
        bound = float(weights @ budgets) - float(budgets[removed]) - float(result[top].sum())
        if best is None or bound > best.bound + 1e-4 * abs(target - best.bound):
            stalled = 0
        else:
            stalled += 1
        if best is None or bound > best.bound:
            best = SampleDual(budgets.copy(), result, bound)
        if stalled >= 20:  # noqa: PLR2004
            agility, stalled, budgets = agility / 2.0, 0, best.budgets.copy()
            if agility < 1e-3:  # noqa: PLR2004
                break
            continue
        slope = 1.0 - (distances[top] < budgets).sum(axis=0)
        slope = slope.astype(np.float64)
        slope[removed] -= 1.0 / weights[removed]
        norm = float(weights @ slope**2)
        gap = max(target - bound, 1e-6 * abs(target))
        if norm == 0.0 or target <= bound:
            break
        budgets = np.maximum(budgets + agility * gap / norm * slope, 0.0)
    assert best is not None
    return best


# -- the largest gain over all records ------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LargestGain:
    """max over records c of g(c), or a bound on it from above, and the records that come close."""

    upper: float
    rows: Indices
    """Records whose g was calculated."""
    values: Float64s
    """Their g."""
    pairs: float
    """How many pairs of numbers were compared."""


class _GainSearch:
    """Branch and bound for the largest g over ranges of blocks, the most promising first."""

    def __init__(
        self, blocks: SpatialBlocks, budgets: Float64s, slack: float, pair_budget: float
    ) -> None:
        self._blocks = blocks
        self._slack = slack
        self._budgets = blocks.spread_out(budgets)
        self._largest = self._budgets.max(axis=1)
        self._pairs_left = pair_budget
        self._dropped = 0.0  # the largest bound of a range that was not looked into
        self._rows: list[Indices] = []
        self._values: list[Float64s] = []
        self.best = 0.0
        self.pairs = 0.0

    def run(self) -> LargestGain:
        frontier = _ranges(self._blocks.n_blocks, 64)
        while frontier:
            bounds = self._bounds(frontier)
            following: list[tuple[int, int]] = []
            order = np.argsort(-bounds)
            for start in range(0, len(order), 32):
                promising = [i for i in order[start : start + 32] if self._worth(bounds[i])]
                leaves = [frontier[i] for i in promising if _is_block(frontier[i])]
                self._look_into(leaves, max((bounds[i] for i in promising), default=0.0))
                following += [h for i in promising for h in _halves(*frontier[i])]
            frontier = following
        rows = np.concatenate(self._rows) if self._rows else np.empty(0, np.int64)
        values = np.concatenate(self._values) if self._values else np.empty(0)
        return LargestGain(max(self.best, self._dropped), rows, values, self.pairs)

    def _worth(self, bound: float) -> bool:
        if bound > self.best * (1.0 + self._slack) and self._pairs_left > 0:
            return True
        self._dropped = max(self._dropped, float(bound))
        return False

    def _bounds(self, ranges: list[tuple[int, int]]) -> Float64s:
        low = np.stack([self._blocks.lower[a:b].min(axis=0) for a, b in ranges])
        high = np.stack([self._blocks.upper[a:b].max(axis=0) for a, b in ranges])
        return self._gains(low, high)

    def _gains(self, low: Float64s, high: Float64s) -> Float64s:
        spent = float(len(low)) * self._blocks.columns.size
        self.pairs += spent
        self._pairs_left -= spent
        return gains(low, high, self._blocks, self._budgets, self._largest)

    def _look_into(self, leaves: list[tuple[int, int]], bound: float) -> None:
        """Calculate g of every record of the leaves."""
        if not leaves:
            return
        numbers = np.array([block for block, _ in leaves])
        rows = (numbers[:, np.newaxis] * BLOCK + np.arange(BLOCK)).reshape(-1)
        real = rows < len(self._blocks.order)
        points = self._blocks.columns[numbers].transpose(0, 2, 1).reshape(len(rows), -1)[real]
        if self._pairs_left < len(points) * self._blocks.columns.size:
            self._dropped = max(self._dropped, bound)
            return
        points = np.ascontiguousarray(points)
        values = self._gains(points, points)
        self._rows.append(self._blocks.order[rows[real]])
        self._values.append(values)
        self.best = max(self.best, float(values.max()))


def largest_gain(
    blocks: SpatialBlocks, budgets: Float64s, slack: float, pair_budget: float
) -> LargestGain:
    """Bound max_c g(c) over all records from above, within ``slack`` of it if the budget allows."""
    return _GainSearch(blocks, budgets, slack, pair_budget).run()


def affordable(data: WeightedPoints) -> bool:
    """Tell whether the dual can be certified: every block has to be looked at at least once."""
    return data.size / BLOCK * data.points.size < _PAIR_BUDGET / 4.0


def largest_gain_anywhere(blocks: SpatialBlocks, budgets: Float64s) -> float:
    """Bound sup_x g(x) over all points x of space from above; infinite where it is not tried.

    The best x is a mean of records, so it lies in their bounding box, which is halved along its
    longest side wherever its bound may matter. That pays in few dimensions only.
    """
    if blocks.n_features > _FEW_FEATURES:
        return math.inf
    in_blocks = blocks.spread_out(budgets)
    largest = in_blocks.max(axis=1)
    low, high = blocks.lower.min(axis=0)[np.newaxis], blocks.upper.max(axis=0)[np.newaxis]
    best, dropped, pairs = 0.0, 0.0, _PAIR_BUDGET / 4.0
    while len(low):
        middle = (low + high) / 2.0
        pairs -= 2.0 * len(low) * blocks.columns.size
        best = max(best, float(gains(middle, middle, blocks, in_blocks, largest).max()))
        bounds = gains(low, high, blocks, in_blocks, largest)
        going_on = bounds > best * (1.0 + _COARSE)
        if pairs <= 0:
            going_on[:] = False
        dropped = max(dropped, float(bounds[~going_on].max(initial=0.0)))
        low, high = _halved(low[going_on], high[going_on])
    return max(best, dropped)


def _halved(low: Float64s, high: Float64s) -> tuple[Float64s, Float64s]:
    """Cut every box in two along its longest side."""
    rows = np.arange(len(low))
    longest = (high - low).argmax(axis=1) if len(low) else rows
    middle = (low[rows, longest] + high[rows, longest]) / 2.0
    left, right = high.copy(), low.copy()
    left[rows, longest] = right[rows, longest] = middle
    return np.concatenate([low, right]), np.concatenate([left, high])


def _ranges(n_blocks: int, parts: int) -> list[tuple[int, int]]:
    cuts = np.unique(np.linspace(0, n_blocks, min(parts, n_blocks) + 1).astype(int)).tolist()
    return list(pairwise(cuts))


def _is_block(blocks: tuple[int, int]) -> bool:
    return blocks[1] - blocks[0] == 1


def _halves(start: int, stop: int) -> list[tuple[int, int]]:
    middle = (start + stop) // 2
    return [] if stop - start == 1 else [(start, middle), (middle, stop)]


# -- the bound ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class DualBound:
    """A certified lower bound, with the multipliers and gains that certify it."""

    value: float
    budgets: Float64s
    largest_gain: float


def dual_bound(
    data: WeightedPoints,
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
    budgets = _carried_over(data, centers, rng)
    labels = kernels.assign_nearest(data.points, centers)[0]
    pairs_left, agility, stalled = _PAIR_BUDGET, 0.5, 0
    best = DualBound(0.0, budgets, math.inf)
    for step in range(_FULL_STEPS):
        found = largest_gain(blocks, budgets, _COARSE, pairs_left)
        pairs_left -= found.pairs
        value = _certified(data, budgets, n, found.upper)
        stalled = 0 if value > best.value + _PAYS * (upper - best.value) else stalled + 1
        if value > best.value:
            best = DualBound(value, budgets, found.upper)
        if progress is not None:
            progress((step + 1) / _FULL_STEPS)
        if stalled >= _PATIENCE:
            agility, stalled, budgets = agility / 2.0, 0, best.budgets
        slope = _slope(data, budgets, found, labels, n)
        norm = float(data.weights @ slope**2)
        if agility < _LEAST_AGILITY or pairs_left <= 0 or value >= upper or norm == 0.0:
            break
        budgets = np.maximum(budgets + agility * (upper - value) / norm * slope, 0.0)
    found = largest_gain(blocks, best.budgets, _FINE, _PAIR_BUDGET / 4.0)
    value = _certified(data, best.budgets, n, found.upper)
    return max(best, DualBound(value, best.budgets, found.upper), key=lambda bound: bound.value)


def _certified(data: WeightedPoints, budgets: Float64s, n: int, gain: float) -> float:
    """Return sum w lambda - max lambda - n max g, less a margin for rounding."""
    total = float(data.weights @ budgets)
    return total - float(budgets.max()) - n * gain - SAFETY * (total + n * gain)


def _carried_over(data: WeightedPoints, centers: Float64s, rng: np.random.Generator) -> Float64s:
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
    budgets = ascend(distances, weights, len(centers), max(target, 0.0), _SAMPLE_STEPS).budgets
    closest = kernels.assign_nearest(data.points, sample)[0]
    return np.maximum(nearest + (budgets - nearest[rows])[closest], 0.0)


def _slope(
    data: WeightedPoints, budgets: Float64s, found: LargestGain, labels: Labels, n: int
) -> Float64s:
    """Return a subgradient of the bound: the records of largest gain, one for each cluster."""
    best = float(found.values.max(initial=0.0))
    close = found.rows[found.values >= _CLOSE * best]
    order = np.argsort(-found.values[found.values >= _CLOSE * best])
    _, firsts = np.unique(labels[close[order]], return_index=True)
    chosen = close[order][firsts]
    share = n / max(1, len(chosen))
    slope = np.ones(data.size)
    for row in chosen:
        slope -= share * (SQUARED_EUCLIDEAN.to_center(data.points, data.points[row]) < budgets)
    removed = int(np.argmax(budgets))
    slope[removed] -= 1.0 / data.weights[removed]
    return slope
