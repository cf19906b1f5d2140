"""Cells that adapt to the records: a binary tree whose splits are private, and noisy leaf sums.

The domain is halved along its widest side, again and again. The first levels are split whatever the
records are: a public grid, as fine as the number of records makes worthwhile. From there on every
cell is tested (``certificate.py``). Cells that cannot be halved are leaves, which is public.

Growing stops where a level would have more than ``MOST_CELLS`` cells. That is decided by the tree
above it alone, so the tree is still a function of tests that are paid for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpkv import kernels
from dpkv.kernels import Integers
from dpkv.mechanisms.synopsis.certificate import TreeTest
from dpkv.mechanisms.synopsis.passes import divide, offset_sums
from dpkv.mechanisms.synopsis.projection import PublicMap
from dpkv.noise import Entropy

MOST_CELLS = 1 << 18
_MOST_FIRST_LEVELS = 16
LEAF = -1


_Level = tuple[Integers, Integers, Integers, Integers, NDArray[np.bool_]]
"""Cells of one depth: lower and upper coordinates, the records' range, and which are split."""


@dataclass(frozen=True, eq=False)
class Tree:
    """Cells level by level, the whole domain first. ``children`` holds the first of two, or LEAF.

    Public once it was grown by noisy tests.
    """

    lower: Integers
    upper: Integers
    """Cells hold the whole coordinates from ``lower`` to ``upper``, both included."""
    children: Integers

    @property
    def leaves(self) -> Integers:
        """The numbers of the cells that were not split, in order."""
        return np.flatnonzero(self.children == LEAF)

    @property
    def splits(self) -> str:
        """One digit a cell, in order: 1 where it was split. The cells follow from these."""
        return "".join("0" if child == LEAF else "1" for child in self.children)


@dataclass(frozen=True, eq=False)
class GrownTree:
    """A tree and which records are where. Private: only noisy sums over it may be released."""

    tree: Tree
    points: Integers
    order: NDArray[np.int64]
    starts: Integers
    stops: Integers

    def leaf_counts(self) -> Integers:
        """Return how many records every leaf has."""
        leaves = self.tree.leaves
        return np.asarray(self.stops[leaves] - self.starts[leaves])

    def leaf_offsets(self, reach: int) -> Integers:
        """Return the sum over every leaf of the records' places in it, cut to ``reach`` in L1."""
        leaves, tree = self.tree.leaves, self.tree
        sums = np.zeros((len(leaves), tree.lower.shape[1]), np.int64)
        cells = tree.lower[leaves], tree.upper[leaves]
        arrays = self.points, self.order, self.starts[leaves], self.stops[leaves], *cells
        kernels.over_blocks(offset_sums, len(leaves), self.points.size, *arrays, reach, sums)
        return sums


def first_levels(n_cells: float) -> int:
    """Return how often the domain is halved before any test, for about so many cells."""
    return min(math.floor(math.log2(max(1.0, n_cells))), _MOST_FIRST_LEVELS)


def grow(
    points: Integers,
    space: PublicMap,
    test: TreeTest,
    *,
    untested: int,
    threshold: int,
    entropy: Entropy,
) -> GrownTree:
    """Grow the tree on mapped points; ``untested`` levels are split without asking."""
    order = np.arange(len(points))
    lower, upper = space.lowest[np.newaxis], space.highest[np.newaxis]
    starts, stops = np.asarray([0]), np.asarray([len(points)])
    levels: list[_Level] = []
    for depth in range(untested + test.levels + 1):
        split = np.asarray((upper > lower).any(axis=1))
        if depth >= untested + test.levels or 2 * split.sum() > MOST_CELLS:
            split[:] = False
        elif depth >= untested:
            passed = _tested(stops - starts, depth - untested, test, threshold, entropy)
            split &= passed
        levels.append((lower, upper, starts, stops, split))
        if not split.any():
            break
        lower, upper, axes, cuts = _halves(lower[split], upper[split])
        middles = np.empty(len(axes), np.int64)
        arrays = points, order, starts[split], stops[split], axes, cuts, middles
        kernels.over_blocks(divide, len(axes), len(points), *arrays)
        starts = _interleaved(starts[split], middles)
        stops = _interleaved(middles, stops[split])
    return _assembled(levels, points, order)


def _tested(
    counts: Integers, tests: int, test: TreeTest, threshold: int, entropy: Entropy
) -> NDArray[np.bool_]:
    scores = np.maximum(counts - tests * test.decay, threshold - test.floor)
    return np.asarray(entropy.add_laplace(scores, test.scale) > threshold)


def _halves(lower: Integers, upper: Integers) -> tuple[Integers, Integers, Integers, Integers]:
    """Return the halves of every cell, in pairs, and the axis and the last coordinate below."""
    rows = np.arange(len(lower))
    axes = (upper - lower).argmax(axis=1)
    cuts = (lower[rows, axes] + upper[rows, axes]) // 2
    below, above = np.repeat(lower, 2, axis=0), np.repeat(upper, 2, axis=0)
    above[2 * rows, axes] = cuts
    below[2 * rows + 1, axes] = cuts + 1
    return below, above, axes, cuts


def _interleaved(first: Integers, second: Integers) -> Integers:
    return np.stack([first, second], axis=1).reshape(-1)


def _assembled(
    levels: list[_Level],
    points: Integers,
    order: Integers,
) -> GrownTree:
    lower, upper, starts, stops, split = (
        np.concatenate([level[part] for level in levels]) for part in range(5)
    )
    tree = Tree(lower, upper, _children(split))
    return GrownTree(tree, points, order, starts, stops)


def _children(split: NDArray[np.bool_]) -> Integers:
    """Return the first child of every split cell: pairs follow in the order of their parents."""
    return np.where(split, 2 * split.cumsum() - 1, LEAF).astype(np.int64)


def tree_from_splits(splits: str, space: PublicMap) -> Tree:
    """Rebuild a tree from ``Tree.splits``."""
    split = np.frombuffer(splits.encode("ascii"), np.uint8) == ord("1")
    lower, upper = space.lowest[np.newaxis], space.highest[np.newaxis]
    levels, done = [], 0
    while len(lower):
        here = split[done : done + len(lower)]
        levels.append((lower, upper))
        done += len(lower)
        if len(here) < len(lower) or (here & ~(upper > lower).any(axis=1)).any():
            raise ValueError("the cells do not make a tree")
        lower, upper = _halves(lower[here], upper[here])[:2] if here.any() else (lower[:0],) * 2
    if done != len(split):
        raise ValueError("the cells do not make a tree")
    lower, upper = (np.concatenate([level[part] for level in levels]) for part in range(2))
    return Tree(lower, upper, _children(split))
