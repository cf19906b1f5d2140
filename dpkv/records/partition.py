"""Which rows of a block are in which cell of a tree. Private: it never leaves its block."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpkv import kernels
from dpkv.records.block import Block
from dpkv.records.keys import KeyPlan, all_keys, plan_keys
from dpkv.records.passes import count_between, offset_sums
from dpkv.records.questions.projection import PublicMap
from dpkv.records.questions.tree import Tree
from dpkv.scratch import empty_beside
from dpkv.types import Integers

_PARTS = 16
_BITS = 63  # of a key and a weight together
_MOST_INDEX_BITS = 16
_LEAF_INDEX_BITS = 12
_ROWS_AN_ENTRY_BITS = 4  # of the index: so many rows, in powers of two
_MOST_SUMS = 1 << 25  # numbers; with more leaves than that allows, fewer parts are summed apart


class Partition:
    """Rows in the order of their cells: cells of any level are found by searching."""

    def __init__(self, points: Integers, weights: NDArray[np.int64], plan: KeyPlan) -> None:
        self._points = points
        self._weights = weights
        self._plan = plan
        keys = empty_beside(points, (len(points),), np.int64)
        arrays = points, *plan.arrays, plan.depth, keys
        kernels.over_blocks(all_keys, _PARTS, points.size, *arrays, _PARTS)
        self._before = np.empty(0, np.int64)
        if weights.size:
            keys, weights = _sorted_with(keys, weights, plan.depth)
            self._before = np.empty(len(weights) + 1, np.int64)
            self._before[0] = 0
            np.cumsum(weights, out=self._before[1:])
        else:
            keys.sort()
        self._keys = keys
        rows_bits = len(points).bit_length() - _ROWS_AN_ENTRY_BITS
        self._index_bits = max(0, min(_MOST_INDEX_BITS, plan.depth, rows_bits))
        marks = np.arange((1 << self._index_bits) + 1) << (plan.depth - self._index_bits)
        self._index = np.searchsorted(keys, marks)

    @property
    def arrays(self) -> tuple[NDArray[np.int64], ...]:
        """What is as long as the rows."""
        return self._keys, self._before

    @property
    def depth(self) -> int:
        """How many levels of cells can be told apart."""
        return self._plan.depth

    def weights_of(self, paths: Integers, depths: Integers | int) -> Integers:
        """Return what the rows of cells count, by the paths to them and how deep they are."""
        below = self._plan.depth - np.asarray(depths)
        lows, highs = paths << below, (paths + 1) << below
        found = np.empty(len(paths), np.int64)
        shift = self._plan.depth - self._index_bits
        arrays = self._keys, self._before, self._index, shift, lows, highs, found
        kernels.over_blocks(count_between, len(paths), len(paths) * 64, *arrays)
        return found

    def leaf_offsets(self, tree: Tree, reach: int) -> Integers:
        """Return the sum over every leaf of the rows' places in it, cut to ``reach`` in L1."""
        leaves, plan = tree.leaves, self._plan
        starts = tree.paths[leaves] << (plan.depth - tree.depths[leaves])
        order = starts.argsort()
        bits = min(_LEAF_INDEX_BITS, plan.depth)
        marks = np.arange(1 << bits) << (plan.depth - bits)
        index = np.searchsorted(starts[order], marks, side="right") - 1
        index = np.append(index, len(leaves) - 1)
        lower, upper = (side[leaves[order]] for side in (tree.lower, tree.upper))
        middles, sides = (lower + upper).astype(np.float64), (upper - lower).astype(np.float64)
        inverses = np.divide(1.0, sides, out=np.zeros_like(sides), where=sides > 0)
        width = lower.shape[1]
        parts = max(1, min(_PARTS, kernels.N_THREADS, _MOST_SUMS // (len(leaves) * width)))
        sums = np.zeros((parts, len(leaves), width), np.int64)
        keys = *plan.arrays, plan.depth
        cells = starts[order], index, plan.depth - bits, middles, inverses
        arrays = self._points, self._weights, *keys, *cells, reach, sums
        kernels.over_blocks(offset_sums, parts, self._points.size, *arrays, parts)
        found = np.empty((len(leaves), width), np.int64)
        found[order] = sums.sum(axis=0)
        return found


def _sorted_with(
    keys: NDArray[np.int64], weights: NDArray[np.int64], depth: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return keys in ascending order, and the weights that go with them.

    Together in one integer, where both fit, they are sorted several times faster.
    """
    bits = int(weights.max(initial=0)).bit_length()
    if depth + bits >= _BITS:
        order = keys.argsort()
        return keys[order], weights[order]
    keys <<= bits
    keys |= weights
    keys.sort()
    own = keys & ((1 << bits) - 1)
    keys >>= bits
    return keys, own


def map_points(block: Block, space: PublicMap) -> Integers:
    """Return the rows where cells are made."""
    return block.recall("mapped", space.key, lambda: space.apply(block.points))


def partition_of(block: Block, space: PublicMap, depth: int) -> Partition:
    """Return the rows by their cells, for cells of at least so many levels."""

    def anew() -> Partition:
        return Partition(map_points(block, space), block.weights, plan_keys(space, depth))

    partition = block.recall("partition", space.key, anew)
    if partition.depth < depth:
        block.forget("partition")
        partition = block.recall("partition", space.key, anew)
    return partition
