"""The compiled loops of the calibrator, and the layout they run on.

Records are put in a spatial order and cut into blocks that store their columns one after the other,
so that every loop runs over consecutive numbers, and a block whose bounding box is too far away is
skipped as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpkv import kernels
from dpkv.types import Float64s, Indices

BLOCK = 128
LEAF = 8
"""Records in the smallest range of the spatial order that has a box of its own."""


@dataclass(frozen=True, eq=False)
class SpatialBlocks:
    """Weighted points in spatial order, block by block, with the blocks' bounding boxes."""

    order: Indices
    """The original row of each point, in spatial order."""
    points: Float64s
    """The points in spatial order."""
    columns: Float64s
    """(blocks, features, BLOCK); the last block is padded with points of weight 0."""
    weights: Float64s
    """(blocks, BLOCK)."""
    lower: Float64s
    upper: Float64s

    @property
    def n_blocks(self) -> int:
        """How many blocks there are."""
        return len(self.columns)

    @property
    def n_features(self) -> int:
        """How many columns a point has."""
        return int(self.columns.shape[1])

    def spread_out(self, values: Float64s) -> Float64s:
        """Return one value a point as (blocks, BLOCK), in spatial order."""
        padded = np.zeros(self.n_blocks * BLOCK)
        padded[: len(self.order)] = values[self.order]
        return padded.reshape(self.n_blocks, BLOCK)


def halve(start: int, stop: int) -> list[tuple[int, int]]:
    """Cut a range of the spatial order in two: between blocks, or between leaves inside a block."""
    unit = BLOCK if stop - start > BLOCK else LEAF
    middle = start + -(-(stop - start) // unit) // 2 * unit
    return [(start, middle), (middle, stop)]


def halve_all(ranges: Indices) -> Indices:
    """Cut many ranges likewise."""
    starts, stops = ranges.T
    unit = np.where(stops - starts > BLOCK, BLOCK, LEAF)
    middles = starts + -(-(stops - starts) // unit) // 2 * unit
    return np.stack([starts, middles, middles, stops], axis=1).reshape(-1, 2)


def spatial_blocks(points: Float64s, weights: Float64s) -> SpatialBlocks:
    """Order points by repeated halving along the widest column, and cut them into blocks."""
    order = np.arange(len(points))
    waiting = [(0, len(points))]
    while waiting:
        start, stop = waiting.pop()
        if stop - start <= LEAF:
            continue
        part = order[start:stop]
        values = points[part]
        widest = int(np.argmax(np.ptp(values, axis=0)))
        halves = halve(start, stop)
        order[start:stop] = part[np.argpartition(values[:, widest], halves[1][0] - start)]
        waiting += halves
    n_blocks = -(-len(points) // BLOCK)
    padding = n_blocks * BLOCK - len(points)
    rows = np.concatenate([order, np.full(padding, order[-1])])
    columns = np.ascontiguousarray(
        points[rows].reshape(n_blocks, BLOCK, points.shape[1]).transpose(0, 2, 1)
    )
    masses = np.concatenate([weights[order], np.zeros(padding)]).reshape(n_blocks, BLOCK)
    lower, upper = columns.min(axis=2), columns.max(axis=2)
    return SpatialBlocks(order, points[order], columns, masses, lower, upper)


@kernels.compiled
def _box_around(points, ranges, low, high, first, last):  # type: ignore[no-untyped-def]
    for number in range(first, last):
        start, stop = ranges[number]
        for f in range(points.shape[1]):
            low[number, f] = high[number, f] = points[start, f]
        for i in range(start + 1, stop):
            for f in range(points.shape[1]):
                low[number, f] = min(low[number, f], points[i, f])
                high[number, f] = max(high[number, f], points[i, f])


def boxes_around(points: Float64s, ranges: Indices) -> tuple[Float64s, Float64s]:
    """Return the lowest and the highest corner of the points in every range of rows."""
    low, high = (np.empty((len(ranges), points.shape[1])) for _ in range(2))
    work = int((ranges[:, 1] - ranges[:, 0]).sum()) * points.shape[1]
    kernels.over_blocks(_box_around, len(ranges), work, points, ranges, low, high)
    return low, high


@kernels.compiled
def _gains(  # type: ignore[no-untyped-def]
    low, high, columns, weights, lower, upper, budgets, largest, gains, first, last
):
    n_blocks, features, size = columns.shape
    reach = np.empty(size)
    for node in range(first, last):
        total = 0.0
        for block in range(n_blocks):
            gap = 0.0
            for f in range(features):
                apart = max(lower[block, f] - high[node, f], low[node, f] - upper[block, f], 0.0)
                gap += apart * apart
            if gap >= largest[block]:
                continue
            if features == 2:  # noqa: PLR2004 (one loop, which keeps all in registers)
                a, b, c, d = low[node, 0], high[node, 0], low[node, 1], high[node, 1]
                for i in range(size):
                    x, y = columns[block, 0, i], columns[block, 1, i]
                    u, v = max(a - x, x - b, 0.0), max(c - y, y - d, 0.0)
                    total += weights[block, i] * max(budgets[block, i] - (u * u + v * v), 0.0)
                continue
            reach[:] = 0.0
            for f in range(features):
                left, right = low[node, f], high[node, f]
                for i in range(size):
                    x = columns[block, f, i]
                    apart = max(left - x, x - right, 0.0)
                    reach[i] += apart * apart
            for i in range(size):
                total += weights[block, i] * max(budgets[block, i] - reach[i], 0.0)
        gains[node] = total


def gains(
    low: Float64s, high: Float64s, blocks: SpatialBlocks, budgets: Float64s, largest: Float64s
) -> Float64s:
    """Return, for every box [low, high], sum_a w_a max(0, budget_a - squared distance to the box).

    For a box that is one point c this is g(c) of the dual; for a larger one it bounds g of every
    point inside from above.
    """
    result = np.empty(len(low))
    work = len(low) * blocks.columns.size
    arrays = (low, high, blocks.columns, blocks.weights, blocks.lower, blocks.upper)
    kernels.over_blocks(_gains, len(low), work, *arrays, budgets, largest, result)
    return result


@kernels.compiled
def _sampled_potentials(  # type: ignore[no-untyped-def]
    points, centers, sums, n_parts, first, last
):
    n_records, features = points.shape
    n_draws, n_centers = centers.shape[0], centers.shape[1] - 1
    columns = np.empty((features, BLOCK))
    near, reach = np.empty(BLOCK), np.empty(BLOCK)
    for part in range(first, last):
        begin = n_records * part // n_parts
        end = n_records * (part + 1) // n_parts
        for start in range(begin, end, BLOCK):
            size = min(BLOCK, end - start)
            for i in range(size):
                for f in range(features):
                    columns[f, i] = points[start + i, f]
            for draw in range(n_draws):
                near[:size] = np.inf
                for c in range(n_centers + 1):
                    reach[:size] = 0.0
                    for f in range(features):
                        x = centers[draw, c, f]
                        for i in range(size):
                            reach[i] += (columns[f, i] - x) * (columns[f, i] - x)
                    if c == n_centers:  # the added record: what N leaves is summed before it
                        sums[part, draw, 0] += near[:size].sum()
                    for i in range(size):
                        near[i] = min(near[i], reach[i])
                sums[part, draw, 1] += near[:size].sum()


def sampled_potentials(points: Float64s, centers: Float64s) -> Float64s:
    """Return two potentials for every draw, in one pass over the records.

    ``centers`` is (draws, n + 1, features): n centers and one more. The two are those of the n
    centers, and of all n + 1.
    """
    parts = 8  # fixed, so that the sums do not depend on the number of threads
    sums = np.zeros((parts, len(centers), 2))
    work = points.size * centers.shape[0] * centers.shape[1]
    kernels.over_blocks(_sampled_potentials, parts, work, points, centers, sums, parts)
    return np.asarray(sums.sum(axis=0))
