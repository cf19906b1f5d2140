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
from dpkv.calibration.loops import BLOCK, LEAF, SpatialBlocks, gains, halved
from dpkv.distortions import SQUARED_EUCLIDEAN
from dpkv.kernels import Float64s, Indices
from dpkv.seeding.nearest import row_chunks

SAFETY = 1e-9
"""Relative margin taken off every bound: far above the rounding of the sums."""

_SAMPLE = 1500
_SAMPLE_STEPS, _SAMPLE_PATIENCE = 1500, 20
_MOMENTUM = 0.8
_BATCH = 32
_COARSE, _FINE = 1e-2, 1e-3  # relative slack of the largest gain while searching, and at the end
_PAIR_BUDGET = 6e10  # pairs of numbers compared: some seconds
_FULL_STEPS, _FULL_MOMENTUM = 30, 0.5
_PATIENCE, _PAYS, _LEAST_AGILITY = 4, 0.01, 0.02
_CLOSE = 0.98
_FEW_FEATURES = 3
_MOST_BOXES = 200_000

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


def removed_potential(data: WeightedPoints, centers: Float64s) -> float:
    """Return the potential of all records but the one that adds most to it."""
    distances = kernels.assign_nearest(data.points, centers)[1]
    weights = data.weights.copy()
    weights[distances.argmax()] -= 1.0  # left out of the sum: taken off it, an outlier cancels it
    return float(weights @ distances)


def anchored_mean(data: WeightedPoints) -> tuple[Float64s, Float64s]:
    """Return a record and the mean's offset from it: far from the origin the mean is too coarse."""
    anchor = np.asarray(data.points[0], dtype=np.float64)
    total = np.zeros(len(anchor))
    for rows in row_chunks(data.size):
        total += data.weights[rows] @ (data.points[rows] - anchor)
    return anchor, total / data.n_records


def eigenvalue_bound(data: WeightedPoints, n_centers: int, *, removed: bool = True) -> float:
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

    def top(self, count: int) -> Indices:
        """Return the rows of the largest values, the largest first."""
        return self.rows[np.argsort(-self.values)[:count]]


class _GainSearch:
    """Branch and bound for the largest g over ranges of records, the most promising first."""

    def __init__(
        self, blocks: SpatialBlocks, budgets: Float64s, slack: float, pair_budget: float
    ) -> None:
        self._blocks = blocks
        self._slack = slack
        self._budgets = blocks.spread_out(budgets)
        self._largest = self._budgets.max(axis=1)
        self._pair_budget = pair_budget
        self._dropped = 0.0  # the largest bound of a range that was not looked into
        self._rows: list[Indices] = []
        self._values: list[Float64s] = []
        self._best = 0.0
        self._pairs = 0.0

    def run(self, guesses: Indices) -> LargestGain:
        place = np.empty(len(self._blocks.order), np.int64)
        place[self._blocks.order] = np.arange(len(place))
        self._look_into(place[guesses])
        frontier = [(0, len(self._blocks.order))]
        while frontier:
            bounds = self._bounds(frontier)
            order = np.argsort(-bounds)
            following: list[tuple[int, int]] = []
            for start in range(0, len(order), _BATCH):
                promising = [i for i in order[start : start + _BATCH] if self._worth(bounds[i])]
                ranges = [frontier[i] for i in promising]
                leaves = [np.arange(*r) for r in ranges if r[1] - r[0] <= LEAF]
                self._look_into(np.concatenate([np.empty(0, np.int64), *leaves]))
                following += [h for r in ranges if r[1] - r[0] > LEAF for h in halved(*r)]
            frontier = following
        rows = np.concatenate(self._rows) if self._rows else np.empty(0, np.int64)
        values = np.concatenate(self._values) if self._values else np.empty(0)
        return LargestGain(max(self._best, self._dropped), rows, values, self._pairs)

    def _worth(self, bound: float) -> bool:
        if bound > self._best * (1.0 + self._slack) and self._pairs < self._pair_budget:
            return True
        self._dropped = max(self._dropped, float(bound))
        return False

    def _bounds(self, ranges: list[tuple[int, int]]) -> Float64s:
        points = self._blocks.points
        low = np.stack([points[a:b].min(axis=0) for a, b in ranges])
        high = np.stack([points[a:b].max(axis=0) for a, b in ranges])
        return self._gains(low, high)

    def _look_into(self, rows: Indices) -> None:
        """Calculate g of the records at these places of the spatial order."""
        if len(rows):
            points = self._blocks.points[rows]
            self._rows.append(self._blocks.order[rows])
            self._values.append(self._gains(points, points))
            self._best = max(self._best, float(self._values[-1].max()))

    def _gains(self, low: Float64s, high: Float64s) -> Float64s:
        self._pairs += float(len(low)) * self._blocks.columns.size
        return gains(low, high, self._blocks, self._budgets, self._largest)


def largest_gain(
    blocks: SpatialBlocks,
    budgets: Float64s,
    guesses: Indices,
    *,
    slack: float = _FINE,
    pair_budget: float = math.inf,
) -> LargestGain:
    """Bound max_c g(c) over all records from above, within ``slack`` of it if the budget allows.

    ``guesses`` are rows that may have a large g: good ones let whole ranges be dropped early.
    """
    return _GainSearch(blocks, budgets, slack, pair_budget).run(guesses)


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
    best, dropped, pairs, boxes = 0.0, 0.0, _PAIR_BUDGET / 4.0, 0
    while len(low):
        middle = (low + high) / 2.0
        pairs -= 2.0 * len(low) * blocks.columns.size
        best = max(best, float(gains(middle, middle, blocks, in_blocks, largest).max()))
        bounds = gains(low, high, blocks, in_blocks, largest)
        going_on = (bounds > best * (1.0 + _COARSE)) & _divisible(low, high)
        boxes += len(low)
        if pairs <= 0 or boxes > _MOST_BOXES:
            going_on[:] = False
        dropped = max(dropped, float(bounds[~going_on].max(initial=0.0)))
        low, high = _halved(low[going_on], high[going_on])
    return max(best, dropped)


def _divisible(low: Float64s, high: Float64s) -> NDArray[np.bool_]:
    """Tell which boxes have a float strictly inside their longest side."""
    rows, longest = np.arange(len(low)), (high - low).argmax(axis=1)
    middle = (low[rows, longest] + high[rows, longest]) / 2.0
    return np.asarray((low[rows, longest] < middle) & (middle < high[rows, longest]))


def _halved(low: Float64s, high: Float64s) -> tuple[Float64s, Float64s]:
    """Cut every box in two along its longest side."""
    rows = np.arange(len(low))
    longest = (high - low).argmax(axis=1) if len(low) else rows
    middle = (low[rows, longest] + high[rows, longest]) / 2.0
    left, right = high.copy(), low.copy()
    left[rows, longest] = right[rows, longest] = middle
    return np.concatenate([low, right]), np.concatenate([left, high])


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
    guesses = _medoids(data, centers)
    pairs_left, agility, stalled = _PAIR_BUDGET, 0.5, 0
    direction = np.zeros(data.size)
    best = DualBound(0.0, budgets, math.inf)
    for step in range(_FULL_STEPS):
        found = largest_gain(blocks, budgets, guesses, slack=_COARSE, pair_budget=pairs_left)
        pairs_left -= found.pairs
        guesses = found.top(_BATCH)
        value = _certified(data, budgets, n, found.upper)
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
        norm = float(data.weights @ direction**2)
        if agility < _LEAST_AGILITY or pairs_left <= 0 or value >= upper or norm == 0.0:
            break
        budgets = np.maximum(budgets + agility * (upper - value) / norm * direction, 0.0)
    found = largest_gain(blocks, best.budgets, guesses, pair_budget=_PAIR_BUDGET / 4.0)
    value = _certified(data, best.budgets, n, found.upper)
    return max(best, DualBound(value, best.budgets, found.upper), key=lambda bound: bound.value)


def _medoids(data: WeightedPoints, centers: Float64s) -> Indices:
    """Return the rows of the given records."""
    return np.array([int(SQUARED_EUCLIDEAN.to_center(data.points, c).argmin()) for c in centers])


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
    start = nearest[rows]
    budgets = ascend(distances, weights, len(centers), start, target, _SAMPLE_STEPS).budgets
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
