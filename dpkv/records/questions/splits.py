"""Which cells are split? A tree of cells that adapt to the records, grown by noisy tests.

The first levels are split whatever the records are: a public grid. From there on every cell is
tested, at the price that ``certificate.py`` proves for the tree as a whole. Cells that cannot be
halved are leaves, which is public. Growing stops where a level would have more than ``MOST_CELLS``
cells, and ``MOST_LEVELS`` below the top. That is decided by the tree above it alone, so the tree is
still a function of tests that are paid for.

The probability of a tree is the product over its tested cells of the probability that the test came
out as it did, and 0 where an untested cell is not as the public rules say.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from dpkv import progress
from dpkv.accounting import ROW, Neighbours, Step, Unit
from dpkv.noise import Entropy
from dpkv.records.block import Block
from dpkv.records.partition import partition_of
from dpkv.records.questions.certificate import TreeTest
from dpkv.records.questions.projection import PublicMap
from dpkv.records.questions.question import Question, Records, sum_parts
from dpkv.records.questions.tree import LEAF, MOST_LEVELS, Level, Tree, Truths, whole_space
from dpkv.types import Float64s, Integers

MOST_CELLS = 1 << 18
_MOST_FIRST_LEVELS = 16


def first_levels(n_cells: float) -> int:
    """Return how often the domain is halved before any test, for about so many cells."""
    return min(math.floor(math.log2(max(1.0, n_cells))), _MOST_FIRST_LEVELS)


def tree_step(test: TreeTest, neighbours: Neighbours, unit: Unit = ROW) -> Step:
    """Return the price of a tree that is grown by such tests."""
    return Step("cell-tree", test.cost(neighbours, unit))


@dataclass(frozen=True, eq=False)
class CellSplits(Question):
    """The tree whose cells are split where a noisy test finds enough records."""

    space: PublicMap
    test: TreeTest
    untested: int
    threshold: int

    def step(self, neighbours: Neighbours, unit: Unit = ROW) -> Step:
        """Return the certified price of all tests together."""
        return tree_step(self.test, neighbours, unit)

    def answer(self, records: Records, entropy: Entropy) -> Tree:
        """Return the tree, grown level by level."""
        level = whole_space(self.space)
        levels, splits = list[Level](), list[Truths]()
        while True:
            progress.report("growing private cells", len(levels) / (self._most_levels + 1))
            split, tested = self._rule(level, len(levels))
            if tested:
                scores = self._scores(self._weights(records, level, len(levels)), len(levels))
                split &= entropy.add_laplace(scores, self.test.scale) > self.threshold
            levels.append(level)
            splits.append(split)
            if not split.any():
                return Tree.of(levels, splits)
            level = level.halved(split)

    def most_telling(self, first: Records, second: Records) -> Tree:
        """Return the tree whose every test came out as is likelier on the first records."""
        level = whole_space(self.space)
        levels, splits = list[Level](), list[Truths]()
        while True:
            split, tested = self._rule(level, len(levels))
            if tested:
                here, there = (self._tails(one, level, len(levels)) for one in (first, second))
                split &= here[0] - there[0] > here[1] - there[1]
            levels.append(level)
            splits.append(split)
            if not split.any():
                return Tree.of(levels, splits)
            level = level.halved(split)

    def _tails(self, records: Records, level: Level, depth: int) -> tuple[Float64s, Float64s]:
        scores = self._scores(self._weights(records, level, depth), depth)
        return _log_tails((scores - self.threshold).astype(np.float64), self.test.scale)

    def _rule(self, level: Level, depth: int) -> tuple[Truths, bool]:
        """Return which cells of a level may be split, and whether tests decide about them."""
        split = level.splittable
        if depth >= self._most_levels or 2 * split.sum() > MOST_CELLS:
            return np.zeros_like(split), False
        return split, depth >= self.untested

    def _scores(self, weights: Integers, depth: int) -> Integers:
        """Return the scores of the cells of a level, which noise is added to."""
        fall = self.test.score_fall(depth - self.untested)
        return np.maximum(weights - fall, self.threshold - self.test.floor)

    @property
    def _most_levels(self) -> int:
        return min(self.untested + self.test.levels, MOST_LEVELS)

    def _weights(self, records: Records, level: Level, depth: int) -> Integers:
        task = partial(_weights_of, self.space, self._most_levels, level.paths, depth)
        return sum_parts(records.gather(task))

    def log_probability(self, records: Records, answer: Tree) -> float:
        """Return the sum over the tested cells of the log-probability of what the test said."""
        deepest = max(self._most_levels, answer.deepest)
        task = partial(_weights_of, self.space, deepest, answer.paths, answer.depths)
        weights = sum_parts(records.gather(task))
        total = 0.0
        for depth, (level, rows) in enumerate(_with_rows(answer)):
            allowed, tested = self._rule(level, depth)
            split = np.asarray(answer.children[rows] != LEAF)
            if tested:
                over = self._scores(weights[rows], depth) - self.threshold
                total += self._log_tests(over[allowed], split[allowed])
            if (split & ~allowed).any() or not (tested or (split == allowed).all()):
                return -math.inf
        return total

    def _log_tests(self, over: Integers, split: Truths) -> float:
        """Return log P(over + Z > 0) where split, and of the contrary elsewhere."""
        high, low = _log_tails(over.astype(np.float64), self.test.scale)
        return math.fsum(np.where(split, high, low))


def _weights_of(
    space: PublicMap, most_levels: int, paths: Integers, depths: Integers | int, block: Block
) -> Integers:
    return partition_of(block, space, most_levels).weights_of(paths, depths)


def _with_rows(tree: Tree) -> Iterator[tuple[Level, slice]]:
    done = 0
    for level in tree.levels:
        yield level, slice(done, done + len(level.lower))
        done += len(level.lower)


def _log_tails(over: Float64s, scale: float) -> tuple[Float64s, Float64s]:
    """Return log P(Z > -u) and log P(Z <= -u) for discrete Laplace Z: geometric series."""
    nothing = math.log1p(math.exp(-1.0 / scale))  # log(1 + q)
    below = -np.maximum(over, 0.0) / scale - nothing  # log of q^u / (1 + q), for u >= 1
    above = -np.maximum(1.0 - over, 0.0) / scale - nothing  # log of q^(1-u) / (1 + q), for u <= 0
    positive = over >= 1
    high = np.where(positive, np.log1p(-np.exp(below)), above)
    low = np.where(positive, below, np.log1p(-np.exp(above)))
    return high, low
