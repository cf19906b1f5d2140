"""The public integer grid over a domain, on which a release does its arithmetic exactly.

Integer coordinates make squared distances, their sums and the noise exact. 2^16 levels a side keep
the squared distances of m records in d columns inside int64 while m d <= 2^31.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpkv.errors import DomainError
from dpkv.kernels import Float64s, Floats

GRID_BITS = 16
_FEWEST_BITS, _MOST_BITS = 2, 30

Integers = NDArray[np.int64]


class Grid(ABC):
    """Points ``origin + steps * z`` for the integer vectors z that the domain holds."""

    origin: tuple[float, ...]
    steps: tuple[float, ...]

    @property
    @abstractmethod
    def diam1(self) -> int:
        """L1 diameter in steps."""

    @property
    @abstractmethod
    def diam2_squared(self) -> int:
        """Squared L2 diameter in steps."""

    @abstractmethod
    def clip(self, points: Integers) -> Integers:
        """Return integer points moved into the domain."""

    @abstractmethod
    def quantise(self, values: Floats) -> Integers:
        """Return, for rows in the user's coordinates, a nearby point of the grid."""

    def restore(self, points: Integers) -> Float64s:
        """Return grid points in the user's coordinates."""
        return np.asarray(self.origin + points * np.asarray(self.steps))

    def _offsets(self, values: Floats) -> Float64s:
        """Return the rows measured in steps from the origin; a column of zero width gives 0."""
        steps = np.asarray(self.steps)
        offsets = np.asarray(values, dtype=np.float64) - np.asarray(self.origin)
        np.divide(offsets, steps, out=offsets, where=steps > 0)
        return np.where(steps > 0, offsets, 0.0)


@dataclass(frozen=True)
class BoxGrid(Grid):
    """Integer vectors with 0 <= z_j <= tops_j."""

    origin: tuple[float, ...]
    steps: tuple[float, ...]
    tops: tuple[int, ...]

    @property
    def diam1(self) -> int:
        """L1 diameter in steps."""
        return sum(self.tops)

    @property
    def diam2_squared(self) -> int:
        """Squared L2 diameter in steps."""
        return sum(top * top for top in self.tops)

    def clip(self, points: Integers) -> Integers:
        """Return the points moved into the box, column by column."""
        return np.clip(points, 0, np.asarray(self.tops))

    def quantise(self, values: Floats) -> Integers:
        """Return the nearest grid point of each row."""
        return np.clip(np.rint(self._offsets(values)), 0, self.tops).astype(np.int64)


@dataclass(frozen=True)
class L1BallGrid(Grid):
    """Integer vectors of L1 norm at most ``reach``."""

    origin: tuple[float, ...]
    steps: tuple[float, ...]
    reach: int

    @property
    def diam1(self) -> int:
        """L1 diameter in steps."""
        return 2 * self.reach

    @property
    def diam2_squared(self) -> int:
        """Squared L2 diameter in steps."""
        return (2 * self.reach) ** 2

    def clip(self, points: Integers) -> Integers:
        """Return the points shortened to the reach, from their longest coordinates."""
        clipped = np.array(points, dtype=np.int64)
        excess = np.abs(clipped).sum(axis=1) - self.reach
        for row in np.flatnonzero(excess > 0):
            clipped[row] = _shortened(clipped[row], int(excess[row]))
        return clipped

    def quantise(self, values: Floats) -> Integers:
        """Round each offset toward zero, so that a row inside the ball stays inside."""
        offsets = np.clip(self._offsets(values), -self.reach, self.reach)
        return self.clip(np.trunc(offsets).astype(np.int64))


def _shortened(point: Integers, steps: int) -> Integers:
    """Return an integer vector whose L1 norm is lowered by ``steps``: exact soft thresholding."""
    sizes = np.sort(np.abs(point))[::-1]
    cut = 0
    for count, size in enumerate(sizes, start=1):
        following = int(sizes[count]) if count < len(sizes) else 0
        drop = min((int(size) - following) * count, steps)
        cut = int(size) - drop // count
        steps -= drop
        if steps == 0:
            left_over = drop % count
            shortened = np.sign(point) * np.minimum(np.abs(point), cut)
            at_cut = np.flatnonzero(np.abs(shortened) == cut)[:left_over]
            shortened[at_cut] -= np.sign(shortened[at_cut])
            return np.asarray(shortened)
    return np.zeros_like(point)


def box_grid(
    lower: tuple[float, ...], upper: tuple[float, ...], *, scaled: bool, bits: int
) -> BoxGrid:
    """Return 2^bits levels a column when scaled, else one common step for all columns."""
    levels = 2 ** _checked(bits) - 1
    widths = np.subtract(upper, lower)
    if scaled:
        steps = widths / levels
        tops = np.where(steps > 0, levels, 0)  # a width too small to divide carries no information
    else:
        step = float(widths.max()) / levels
        steps = np.where(widths > 0, step, 0.0)
        # The slack admits the widest column's last level, which rounding may put a hair above.
        cells = (
            np.floor(np.divide(widths, step) * (1 + 1e-12)) if step > 0 else np.zeros(len(widths))
        )
        tops = np.minimum(cells, levels)
    return BoxGrid(tuple(map(float, lower)), tuple(map(float, steps)), tuple(map(int, tops)))


def l1_ball_grid(center: tuple[float, ...], radius: float, *, bits: int) -> L1BallGrid:
    """Return the lattice around ``center`` with 2^(bits-1) - 1 steps to each corner."""
    reach = 2 ** (_checked(bits) - 1) - 1
    return L1BallGrid(center, (radius / reach,) * len(center), reach if radius > 0 else 0)


def _checked(bits: int) -> int:
    if not _FEWEST_BITS <= bits <= _MOST_BITS:
        raise DomainError(
            f"grid bits must be between {_FEWEST_BITS} and {_MOST_BITS}. Got {bits} instead."
        )
    return bits
