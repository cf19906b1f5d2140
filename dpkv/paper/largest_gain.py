"""The largest gain g(c) = sum_a w_a max(0, lambda_a - ||a - c||^2): over all records, or anywhere.

Branch and bound over boxes: max(0, lambda_a - squared distance to a box) only grows with the box.
What is not looked into counts with its bound, so a search cut short still bounds from above.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpkv.paper.calibration_loops import LEAF, SpatialBlocks, boxes_around, gains, halve_all
from dpkv.types import Float64s, Indices

PAIR_BUDGET = 6e10
"""Pairs of numbers compared in one search or ascent: some seconds."""
COARSE, FINE = 1e-2, 1e-3
"""Relative slack of the largest gain while multipliers are searched, and at the end."""
BATCH = 32
_FEW_FEATURES = 3
_MOST_BOXES = 200_000


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
        frontier = np.asarray([[0, len(self._blocks.order)]])
        while len(frontier):
            bounds = self._gains(*boxes_around(self._blocks.points, frontier))
            order = np.argsort(-bounds)
            divided = [frontier[:0]]
            for start in range(0, len(order), BATCH):
                batch = order[start : start + BATCH]
                batch = batch[: self._worth(bounds[batch])]
                if not len(batch):
                    break  # bounds only fall from here on
                ranges = frontier[batch]
                small = ranges[:, 1] - ranges[:, 0] <= LEAF
                self._look_into(_rows_of(ranges[small]))
                divided.append(ranges[~small])
            frontier = halve_all(np.concatenate(divided))
        rows = np.concatenate(self._rows) if self._rows else np.empty(0, np.int64)
        values = np.concatenate(self._values) if self._values else np.empty(0)
        return LargestGain(max(self._best, self._dropped), rows, values, self._pairs)

    def _worth(self, bounds: Float64s) -> int:
        """Return how many of the ranges, from the largest bound on, are to be looked into."""
        worth = 0
        if self._pairs < self._pair_budget:
            worth = int((bounds > self._best * (1.0 + self._slack)).sum())
        if worth < len(bounds):
            self._dropped = max(self._dropped, float(bounds[worth]))
        return worth

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


def _rows_of(leaves: Indices) -> Indices:
    """Return the rows of the given ranges, none longer than a leaf."""
    rows = leaves[:, :1] + np.arange(LEAF)
    return rows[rows < leaves[:, 1:]]


def largest_gain(
    blocks: SpatialBlocks,
    budgets: Float64s,
    guesses: Indices,
    *,
    slack: float = FINE,
    pair_budget: float = math.inf,
) -> LargestGain:
    """Bound max_c g(c) over all records from above, within ``slack`` of it if the budget allows.

    ``guesses`` are rows that may have a large g: good ones let whole ranges be dropped early.
    """
    return _GainSearch(blocks, budgets, slack, pair_budget).run(guesses)


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
    best, dropped, pairs, boxes = 0.0, 0.0, PAIR_BUDGET / 4.0, 0
    while len(low):
        middle = (low + high) / 2.0
        pairs -= 2.0 * len(low) * blocks.columns.size
        best = max(best, float(gains(middle, middle, blocks, in_blocks, largest).max()))
        bounds = gains(low, high, blocks, in_blocks, largest)
        going_on = (bounds > best * (1.0 + COARSE)) & _divisible(low, high)
        boxes += len(low)
        if pairs <= 0 or boxes > _MOST_BOXES:
            going_on[:] = False
        dropped = max(dropped, float(bounds[~going_on].max(initial=0.0)))
        low, high = _halve_boxes(low[going_on], high[going_on])
    return max(best, dropped)


def _divisible(low: Float64s, high: Float64s) -> NDArray[np.bool_]:
    """Tell which boxes have a float strictly inside their longest side."""
    rows, longest = np.arange(len(low)), (high - low).argmax(axis=1)
    middle = (low[rows, longest] + high[rows, longest]) / 2.0
    return np.asarray((low[rows, longest] < middle) & (middle < high[rows, longest]))


def _halve_boxes(low: Float64s, high: Float64s) -> tuple[Float64s, Float64s]:
    """Cut every box in two along its longest side."""
    rows = np.arange(len(low))
    longest = (high - low).argmax(axis=1) if len(low) else rows
    middle = (low[rows, longest] + high[rows, longest]) / 2.0
    left, right = high.copy(), low.copy()
    left[rows, longest] = right[rows, longest] = middle
    return np.concatenate([low, right]), np.concatenate([left, high])
