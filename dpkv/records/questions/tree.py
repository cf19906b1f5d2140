"""The cells of a tree: public geometry, once noisy tests have decided which cells are split.

A cell is halved along its widest side, the first of equals. So the cells follow from the domain and
from which of them were split, and a cell that is a single point cannot be.

A column of categories is decided by few halvings: a row is at the end of one of its coordinates and
at 0 in the others. So half a cell is shrunk to what rows in it can be: at the end of a coordinate
the others are 0, and where all but one are 0 that one is at its end. No cut is wasted on what is
known, and what is known needs no noisy place. Which half a row is in depends on the cut alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dpkv.errors import UsageError
from dpkv.records.questions.projection import PublicMap
from dpkv.simplices import Groups
from dpkv.types import Integers

LEAF = -1
MOST_LEVELS = 62
"""Of halvings, one below the other: a path fits an integer."""
Truths = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Level:
    """Cells of one depth: the whole coordinates from ``lower`` to ``upper``, both included."""

    lower: Integers
    upper: Integers
    paths: Integers
    """From the whole domain to the cell: a bit a level, 0 for the half below the cut."""
    groups: Groups = ()
    """The coordinates of every column of categories."""

    @property
    def splittable(self) -> Truths:
        """Which cells are more than one point."""
        return np.asarray((self.upper > self.lower).any(axis=1))

    def halved(self, split: Truths) -> Level:
        """Return the halves of the cells that are split, in pairs."""
        lower, upper, paths = self.lower[split], self.upper[split], self.paths[split]
        rows = np.arange(len(lower))
        axes = (upper - lower).argmax(axis=1)
        cuts = (lower[rows, axes] + upper[rows, axes]) // 2
        below, above = np.repeat(lower, 2, axis=0), np.repeat(upper, 2, axis=0)
        above[2 * rows, axes] = cuts
        below[2 * rows + 1, axes] = cuts + 1
        for start, stop in self.groups:
            cut = rows[(axes >= start) & (axes < stop)]
            _decide(below[:, start:stop], above[:, start:stop], cut, axes[cut] - start)
        halves = np.stack([2 * paths, 2 * paths + 1], axis=1).reshape(-1)
        return Level(below, above, halves, self.groups)


def _decide(lower: Integers, upper: Integers, cut: Integers, axes: Integers) -> None:
    """Shrink the halves of cells that were cut between the categories of a column."""
    without, within = 2 * cut, 2 * cut + 1
    upper[without, axes] = lower[without, axes]
    is_open = upper[without] > lower[without]
    last = is_open & (is_open.sum(axis=1, keepdims=True) == 1)
    lower[without] = np.where(last, upper[without], lower[without])
    ends = upper[within, axes]
    upper[within] = lower[within]
    lower[within, axes] = upper[within, axes] = ends


@dataclass(frozen=True, eq=False)
class Tree:
    """Cells level by level, the whole domain first. ``children`` holds the first of two, or LEAF.

    Public once it was grown by noisy tests.
    """

    lower: Integers
    upper: Integers
    """Cells hold the whole coordinates from ``lower`` to ``upper``, both included."""
    children: Integers

    @classmethod
    def of(cls, levels: list[Level], splits: list[Truths]) -> Tree:
        """Put levels together: pairs of children follow in the order of their parents."""
        split = np.concatenate(splits)
        children = np.where(split, 2 * split.cumsum() - 1, LEAF).astype(np.int64)
        return cls(
            np.concatenate([level.lower for level in levels]),
            np.concatenate([level.upper for level in levels]),
            children,
        )

    def __reduce__(self) -> tuple[type[Tree], tuple[Integers, Integers, Integers]]:
        """Travel without what follows from the rest."""
        return Tree, (self.lower, self.upper, self.children)

    @property
    def leaves(self) -> Integers:
        """The numbers of the cells that were not split, in order."""
        return np.flatnonzero(self.children == LEAF)

    @property
    def splits(self) -> str:
        """One digit a cell, in order: 1 where it was split. The cells follow from these."""
        return "".join("0" if child == LEAF else "1" for child in self.children)

    @cached_property
    def _ends(self) -> list[int]:
        """Where the levels end, after a 0."""
        ends = [0, 1]
        while ends[-1] < len(self.children):
            split = self.children[ends[-2] : ends[-1]] != LEAF
            ends.append(ends[-1] + 2 * int(split.sum()))
        return ends

    @cached_property
    def depths(self) -> Integers:
        """How many halvings lead to every cell."""
        return np.repeat(np.arange(len(self._ends) - 1), np.diff(self._ends))

    @property
    def deepest(self) -> int:
        """How many halvings lead to the deepest cells."""
        return len(self._ends) - 2

    @cached_property
    def paths(self) -> Integers:
        """What led to every cell: a bit a halving."""
        if self.deepest > MOST_LEVELS:
            raise UsageError(f"a tree of cells may be {MOST_LEVELS} levels deep at most.")
        found = np.zeros(len(self.children), np.int64)
        for start, stop in pairwise(self._ends[:-1]):
            split = np.flatnonzero(self.children[start:stop] != LEAF) + start
            first = self.children[split]
            found[first], found[first + 1] = 2 * found[split], 2 * found[split] + 1
        return found

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """The cells of every depth."""
        return tuple(
            Level(self.lower[a:b], self.upper[a:b], self.paths[a:b])
            for a, b in pairwise(self._ends)
        )


def whole_space(space: PublicMap) -> Level:
    """Return the level of one cell that every tree begins with."""
    whole = space.lowest[np.newaxis], space.highest[np.newaxis]
    return Level(*whole, np.zeros(1, np.int64), space.groups)


def tree_from_splits(splits: str, space: PublicMap) -> Tree:
    """Rebuild a tree from ``Tree.splits``."""
    split = np.frombuffer(splits.encode("ascii"), np.uint8) == ord("1")
    level, done = whole_space(space), 0
    levels: list[Level] = []
    parts: list[Truths] = []
    while len(level.lower):
        here = split[done : done + len(level.lower)]
        levels.append(level)
        parts.append(here)
        done += len(level.lower)
        if len(here) < len(level.lower) or (here & ~level.splittable).any():
            raise ValueError("the cells do not make a tree")
        if not here.any():
            break
        level = level.halved(here)
    if done != len(split):
        raise ValueError("the cells do not make a tree")
    return Tree.of(levels, parts)
