"""Windows on a public grid: one for every record, all with as many points, the record among them.

Box. The window is a cube of 2 r + 1 grid points a side around the record, as wide as the box where
the box is narrower, and shifted to lie inside: column j has n_j = min(2 r + 1, T_j + 1) points,
whichever record it is. So every window has the product of the n_j, and the box that of the T_j + 1.

L1 ball of reach R. The window is the ball of reach r, at most R, around the record moved into the
ball of reach R - r. By the triangle inequality it lies inside the whole, and all such balls have as
many points. Moving a record, which shortens its coordinates until they add up to R - r, moves it
by |a|_1 - (R - r) <= r in L1: the record is in its own window.

A ball of reach r in d columns has sum_i 2^i C(d, i) C(r, i) points: i columns are not zero, each
with a sign, and their sizes are i positive numbers that add up to at most r. Those are the
differences of i distinct numbers of 1..r. So a uniform point takes a weighted choice of i, a subset
of columns, signs, and a subset of 1..r: whole numbers throughout.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import cast

import numpy as np

from dpkv.grid import BoxGrid, Grid, L1BallGrid
from dpkv.noise import Entropy
from dpkv.simplices import ProductGrid
from dpkv.types import Bools, Integers


class Windows(ABC):
    """The windows of one size."""

    @property
    @abstractmethod
    def n_points(self) -> int:
        """N, the points of the whole grid."""

    @property
    @abstractmethod
    def n_inside(self) -> int:
        """V, the points of a window, whichever."""

    @abstractmethod
    def hold(self, points: Integers, x: Integers) -> Bools:
        """Tell for every record whether ``x`` is in its window."""

    @abstractmethod
    def draw_inside(self, point: Integers, entropy: Entropy) -> Integers:
        """Return a uniform point of a record's window."""

    @abstractmethod
    def draw_anywhere(self, entropy: Entropy) -> Integers:
        """Return a uniform point of the whole grid."""


@dataclass(frozen=True)
class BoxWindows(Windows):
    """Cubes in a box."""

    tops: tuple[int, ...]
    reach: int

    @cached_property
    def sides(self) -> tuple[int, ...]:
        """The points of a window, column by column."""
        return tuple(min(2 * self.reach + 1, top + 1) for top in self.tops)

    @property
    def n_points(self) -> int:
        """N."""
        return math.prod(top + 1 for top in self.tops)

    @property
    def n_inside(self) -> int:
        """V."""
        return math.prod(self.sides)

    def lowest(self, points: Integers) -> Integers:
        """Return where windows start."""
        last = np.asarray(self.tops) + 1 - np.asarray(self.sides)
        return np.clip(points.astype(np.int64) - self.reach, 0, last)

    def hold(self, points: Integers, x: Integers) -> Bools:
        """Tell for every record whether ``x`` is in its window."""
        above = x - self.lowest(points)
        return np.asarray(((above >= 0) & (above < np.asarray(self.sides))).all(axis=1))

    def draw_inside(self, point: Integers, entropy: Entropy) -> Integers:
        """Return a uniform point of a record's window."""
        drawn = [entropy.below(side) for side in self.sides]
        return np.asarray(self.lowest(point) + np.asarray(drawn, np.int64))

    def draw_anywhere(self, entropy: Entropy) -> Integers:
        """Return a uniform point of the box."""
        return np.asarray([entropy.below(top + 1) for top in self.tops], np.int64)


@dataclass(frozen=True)
class BallWindows(Windows):
    """Small L1 balls in a large one."""

    grid: L1BallGrid
    reach: int

    @property
    def n_points(self) -> int:
        """N."""
        return sum(ball_sizes(self.grid.n_features, self.grid.reach))

    @property
    def n_inside(self) -> int:
        """V."""
        return sum(ball_sizes(self.grid.n_features, self.own_reach))

    @property
    def own_reach(self) -> int:
        """The reach of a window, at most the whole ball's."""
        return min(self.reach, self.grid.reach)

    def middles(self, points: Integers) -> Integers:
        """Return the middles of windows."""
        inner = replace(self.grid, reach=self.grid.reach - self.own_reach)
        return inner.clip(points.astype(np.int64))

    def hold(self, points: Integers, x: Integers) -> Bools:
        """Tell for every record whether ``x`` is in its window."""
        gaps = np.abs(x - self.middles(points)).sum(axis=1)
        return np.asarray(gaps <= self.own_reach)

    def draw_inside(self, point: Integers, entropy: Entropy) -> Integers:
        """Return a uniform point of a record's window."""
        middle = self.middles(point[np.newaxis])[0]
        return np.asarray(middle + draw_in_ball(self.grid.n_features, self.own_reach, entropy))

    def draw_anywhere(self, entropy: Entropy) -> Integers:
        """Return a uniform point of the ball."""
        return draw_in_ball(self.grid.n_features, self.grid.reach, entropy)


def windows_of(grid: Grid, reach: int) -> Windows:
    """Return the windows that reach so many steps from their middles."""
    if isinstance(grid, (BoxGrid, ProductGrid)):  # a simplex lies in the box of its corners
        return BoxWindows(grid.tops, reach)
    return BallWindows(cast(L1BallGrid, grid), reach)


@lru_cache(maxsize=64)
def ball_sizes(n_features: int, reach: int) -> tuple[int, ...]:
    """Return how many points of an L1 ball have i columns that are not zero, for i = 0, 1, ..."""
    sizes, size = [1], 1
    for i in range(min(n_features, reach)):  # 2^i C(d, i) C(r, i), each from the one before
        size = size * 2 * (n_features - i) * (reach - i) // (i + 1) ** 2
        sizes.append(size)
    return tuple(sizes)


def draw_in_ball(n_features: int, reach: int, entropy: Entropy) -> Integers:
    """Return a uniform point of an L1 ball."""
    running = list(accumulate(ball_sizes(n_features, reach)))
    target = entropy.below(running[-1])
    n_some = next(i for i, total in enumerate(running) if target < total)
    point = np.zeros(n_features, np.int64)
    columns = _draw_subset(n_features, n_some, entropy)
    marks = [0, *(mark + 1 for mark in _draw_subset(reach, n_some, entropy))]
    for i, column in enumerate(columns):
        size = marks[i + 1] - marks[i]
        point[column] = size if entropy.below(2) else -size
    return point


def _draw_subset(n: int, size: int, entropy: Entropy) -> list[int]:
    """Return ``size`` distinct numbers below n in ascending order, every subset alike (Floyd)."""
    chosen: set[int] = set()
    for last in range(n - size, n):
        drawn = entropy.below(last + 1)
        chosen.add(last if drawn in chosen else drawn)
    return sorted(chosen)
