"""Which rows of a block are in which cell of a tree. Private: it never leaves its block."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpkv import kernels
from dpkv.records.block import Block
from dpkv.records.passes import divide, offset_sums, range_weights
from dpkv.records.questions.projection import PublicMap
from dpkv.records.questions.tree import Halving, Tree
from dpkv.types import Integers


class Partition:
    """Rows in the order of their cells, level by level."""

    def __init__(self, points: Integers, weights: NDArray[np.int64]) -> None:
        self._points = points
        self._weights = weights
        self._order = np.arange(len(points))
        self._halvings: list[Halving] = []
        self._ranges = [(np.asarray([0]), np.asarray([len(points)]))]

    def follows(self, halvings: Sequence[Halving]) -> bool:
        """Tell whether so many levels, split alike, are all that has been done so far, or more."""
        done = self._halvings
        return len(done) <= len(halvings) and all(
            mine is other or np.array_equal(mine.split, other.split)
            for mine, other in zip(done, halvings, strict=False)
        )

    def extend(self, halvings: Sequence[Halving]) -> None:
        """Split the levels that have not been split yet."""
        for halving in halvings[len(self._halvings) :]:
            starts, stops = (ends[halving.split] for ends in self._ranges[-1])
            middles = np.empty(len(starts), np.int64)
            arrays = self._points, self._order, starts, stops, halving.axes, halving.cuts, middles
            kernels.over_blocks(divide, len(starts), len(self._points), *arrays)
            self._ranges.append((_interleaved(starts, middles), _interleaved(middles, stops)))
            self._halvings.append(halving)

    def newest_weights(self) -> Integers:
        """Return what the rows of every cell of the deepest level count."""
        return self._weights_of(*self._ranges[-1])

    def all_weights(self) -> Integers:
        """Return what the rows of every cell count, level by level."""
        return self._weights_of(*self._all_ranges())

    def leaf_weights(self, tree: Tree) -> Integers:
        """Return what the rows of every leaf count."""
        starts, stops = self._all_ranges()
        return self._weights_of(starts[tree.leaves], stops[tree.leaves])

    def leaf_offsets(self, tree: Tree, reach: int) -> Integers:
        """Return the sum over every leaf of the rows' places in it, cut to ``reach`` in L1."""
        leaves = tree.leaves
        starts, stops = (ends[leaves] for ends in self._all_ranges())
        sums = np.zeros((len(leaves), tree.lower.shape[1]), np.int64)
        cells = starts, stops, tree.lower[leaves], tree.upper[leaves]
        arrays = self._points, self._weights, self._order, *cells, reach, sums
        kernels.over_blocks(offset_sums, len(leaves), self._points.size, *arrays)
        return sums

    def _all_ranges(self) -> tuple[Integers, Integers]:
        starts, stops = (np.concatenate(ends) for ends in zip(*self._ranges, strict=True))
        return starts, stops

    def _weights_of(self, starts: Integers, stops: Integers) -> Integers:
        if not self._weights.size:
            return np.asarray(stops - starts)
        found = np.empty(len(starts), np.int64)
        arrays = self._weights, self._order, starts, stops, found
        kernels.over_blocks(range_weights, len(starts), len(self._points), *arrays)
        return found


def map_points(block: Block, space: PublicMap) -> Integers:
    """Return the rows where cells are made."""
    return block.recall("mapped", space.key, lambda: space.apply(block.points))


def partition_of(block: Block, space: PublicMap, halvings: Sequence[Halving]) -> Partition:
    """Return the rows divided among the cells, going on from where an earlier question ended."""

    def anew() -> Partition:
        return Partition(map_points(block, space), block.weights)

    partition = block.recall("partition", space.key, anew)
    if not partition.follows(halvings):
        block.forget("partition")
        partition = block.recall("partition", space.key, anew)
    partition.extend(halvings)
    return partition


def _interleaved(first: Integers, second: Integers) -> Integers:
    return np.stack([first, second], axis=1).reshape(-1)
