"""How wide a window should be: the reach of least expected squared error, from public facts alone.

A record is released near itself, with probability t = (rho - 1) V / (N + (rho - 1) V), or anywhere.
A wide window is hit more often and says less. For a record that may be anywhere in the domain the
expected squared error is about t A + (1 - t) B. In a box, A is the sum over the columns of
n^2 / 12 (1 + n / T), n of T points being the window's: a twelfth for the place in the window, and
as much again for the share n / T of records whose window was shifted. B is A of the whole domain.
In a ball of reach R, A is c r^2 (1 + r / R) with c = 2 d / ((d + 1) (d + 2)), alike.

On a common step the best window is a cube: of all boxes with as many points it has the least sum of
squared sides. The gain (B - A) t is log-concave in the logarithm of the reach as long as no side
grows wider than its column, and nearly so beyond: it is searched by bisection. In whole numbers, so
that what is chosen is the same on every machine.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from fractions import Fraction
from functools import lru_cache
from typing import cast

from dpkv.grid import BoxGrid, Grid, L1BallGrid
from dpkv.records.questions import WindowDensity
from dpkv.records.questions.windows import ball_sizes
from dpkv.simplices import ProductGrid


def best_window(grid: Grid, ratio: float) -> WindowDensity:
    """Return the window of least expected squared error."""
    return WindowDensity(grid, ratio, _best_reach(grid, ratio))


def expected_squares(density: WindowDensity) -> Fraction:
    """Return about how far a released record is from itself, squared, in grid steps."""
    shape = _Shape.of(density.grid)
    near = shape.drawn_near(density.reach, Fraction(density.ratio) - 1)
    return near * shape.inside(density.reach) + (1 - near) * shape.inside(shape.widest)


@lru_cache(maxsize=256)
def _best_reach(grid: Grid, ratio: float) -> int:
    surplus = Fraction(ratio) - 1
    shape = _Shape.of(grid)
    if surplus == 0:
        return shape.widest
    everything = shape.inside(shape.widest)

    def gain(reach: int) -> Fraction:
        return shape.drawn_near(reach, surplus) * (everything - shape.inside(reach))

    low, high = 0, shape.widest
    while low < high:
        middle = (low + high) // 2
        if gain(middle) < gain(middle + 1):
            low = middle + 1
        else:
            high = middle
    return low


class _Shape(ABC):
    """What the error follows from."""

    widest: int
    """The reach of a window that is the whole domain."""

    @staticmethod
    def of(grid: Grid) -> _Shape:
        """Return that of a grid."""
        if isinstance(grid, (BoxGrid, ProductGrid)):  # drawn in the box of a simplex's corners
            return _Box(grid.tops)
        return _Ball(cast(L1BallGrid, grid))

    @abstractmethod
    def inside(self, reach: int) -> Fraction:
        """Return A."""

    @abstractmethod
    def drawn_near(self, reach: int, surplus: Fraction) -> Fraction:
        """Return t."""


class _Box(_Shape):
    """Columns of the same width count once, with how many they are."""

    def __init__(self, tops: tuple[int, ...]) -> None:
        self._columns = tuple(Counter(top + 1 for top in tops).items())
        self.widest = max(width for width, _ in self._columns) // 2
        self._all: int = math.prod(width**often for width, often in self._columns)

    def inside(self, reach: int) -> Fraction:
        """Return A."""
        total = Fraction(0)
        for width, often in self._columns:
            side = min(2 * reach + 1, width)
            total += often * Fraction(side * side * (width + side), 12 * width)
        return total

    def drawn_near(self, reach: int, surplus: Fraction) -> Fraction:
        """Return t."""
        sides = ((min(2 * reach + 1, width), often) for width, often in self._columns)
        points: int = math.prod(side**often for side, often in sides)
        return surplus * points / (self._all + surplus * points)


class _Ball(_Shape):
    """A ball in so many columns."""

    def __init__(self, grid: L1BallGrid) -> None:
        self._d, self.widest = grid.n_features, grid.reach
        self._all = sum(ball_sizes(self._d, self.widest))

    def inside(self, reach: int) -> Fraction:
        """Return A."""
        share = Fraction(2 * self._d, (self._d + 1) * (self._d + 2))
        return share * reach * reach * (1 + Fraction(reach, max(1, self.widest)))

    def drawn_near(self, reach: int, surplus: Fraction) -> Fraction:
        """Return t."""
        points = sum(ball_sizes(self._d, reach))
        return surplus * points / (self._all + surplus * points)
