"""The public integer grid over a domain, on which a release does its arithmetic exactly.

Integer coordinates make squared distances, their sums and the noise exact. 2^16 levels a side keep
the squared distances of m records in d columns inside int64 while m d <= 2^31.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpkv import kernels
from dpkv.errors import DomainError, shown
from dpkv.types import Float64s, Floats, Int64s

GRID_BITS = 16
FEWEST_BITS, MOST_BITS = 2, 30
_SAME = 1e-6  # of a step
_FARTHEST = 2.0**900  # steps, few enough to add up


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

    @property
    @abstractmethod
    def middle(self) -> Int64s:
        """A grid point in the middle of the domain."""

    @property
    @abstractmethod
    def radius1(self) -> int:
        """The largest L1 distance of a grid point from ``middle``, in steps."""

    @property
    @abstractmethod
    def box(self) -> tuple[Int64s, Int64s]:
        """The lowest and the highest coordinate of every column."""

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.steps)

    @abstractmethod
    def clip(self, points: Int64s) -> Int64s:
        """Return integer points moved into the domain."""

    @abstractmethod
    def quantise(self, values: Floats) -> Int64s:
        """Return, for rows in the user's coordinates, a nearby point of the grid."""

    @abstractmethod
    def spread(self, uniform: Float64s) -> Int64s:
        """Return grid points for rows of the unit cube, covering the domain as those cover it."""

    def restore(self, points: Int64s) -> Float64s:
        """Return grid points in the user's coordinates."""
        return np.asarray(self.origin + points * np.asarray(self.steps))

    def _offsets(self, values: Floats) -> Float64s:
        """Return the rows measured in steps from the origin; a column of zero width gives 0."""
        steps = np.asarray(self.steps)
        offsets = np.asarray(values, dtype=np.float64) - np.asarray(self.origin)
        with np.errstate(over="ignore"):  # a tiny step: the offset is as far as it can be
            np.divide(offsets, steps, out=offsets, where=steps > 0)
        return np.where(steps > 0, np.clip(offsets, -_FARTHEST, _FARTHEST), 0.0)


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

    @property
    def middle(self) -> Int64s:
        """The middle of the box, rounded down."""
        return np.asarray(self.tops) // 2

    @property
    def radius1(self) -> int:
        """The largest L1 distance of a grid point from ``middle``, in steps."""
        return sum(top - top // 2 for top in self.tops)

    @property
    def box(self) -> tuple[Int64s, Int64s]:
        """Zeros, and the last level of every column."""
        return np.zeros(len(self.tops), np.int64), np.asarray(self.tops, dtype=np.int64)

    def clip(self, points: Int64s) -> Int64s:
        """Return the points moved into the box, column by column."""
        return np.clip(points, 0, np.asarray(self.tops))

    def spread(self, uniform: Float64s) -> Int64s:
        """Stretch the unit cube to the box."""
        return self.clip(np.rint(uniform * np.asarray(self.tops)).astype(np.int64))

    def quantise(self, values: Floats) -> Int64s:
        """Return the nearest grid point of each row."""
        points = np.empty(values.shape, np.int64)
        place = [np.asarray(part, np.float64) for part in (self.origin, self.steps, self.tops)]
        blocks = kernels.block_count(len(points))
        kernels.over_blocks(_nearest_points, blocks, points.size, values, *place, points)
        return points


@kernels.compiled_exactly
def _nearest_points(values, origin, steps, tops, points, first, last):  # type: ignore[no-untyped-def]
    """Round every coordinate to its grid, in blocks of rows; a column of zero width gives 0."""
    for i in range(first * kernels.BLOCK, min(len(points), last * kernels.BLOCK)):
        for j in range(points.shape[1]):
            if steps[j] > 0.0:
                offset = np.rint((values[i, j] - origin[j]) / steps[j])
                points[i, j] = np.int64(min(max(offset, 0.0), tops[j]))
            else:
                points[i, j] = 0


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

    @property
    def middle(self) -> Int64s:
        """The center of the ball."""
        return np.zeros(len(self.steps), np.int64)

    @property
    def radius1(self) -> int:
        """The largest L1 distance of a grid point from ``middle``, in steps."""
        return self.reach

    @property
    def box(self) -> tuple[Int64s, Int64s]:
        """The corners' coordinates."""
        farthest = np.full(len(self.steps), self.reach, np.int64)
        return -farthest, farthest

    def clip(self, points: Int64s) -> Int64s:
        """Return the nearest points within reach in L2: exact soft thresholding."""
        sizes = _first_threshold(np.abs(points), self.reach)
        for row in np.flatnonzero(sizes.sum(axis=1) > self.reach):
            sizes[row] = _shortened(sizes[row], self.reach)
        return np.asarray(np.sign(points) * sizes)

    def spread(self, uniform: Float64s) -> Int64s:
        """Stretch the unit cube to the cube around the ball, and clip."""
        return self.clip(np.rint((2.0 * uniform - 1.0) * self.reach).astype(np.int64))

    def quantise(self, values: Floats) -> Int64s:
        """Round each offset toward zero, so that a row inside the ball stays inside.

        An offset within a millionth of a whole number is that number: a grid point stays itself.
        """
        offsets = self._offsets(values)
        outside = np.flatnonzero(np.abs(offsets).sum(axis=1) > self.reach)
        offsets[outside] = onto_l1_ball(offsets[outside], self.reach)
        whole = np.rint(offsets)
        points = np.where(np.abs(offsets - whole) < _SAME, whole, np.trunc(offsets))
        return self.clip(points.astype(np.int64))


def onto_l1_ball(offsets: Floats, radius: float) -> Float64s:
    """Project rows of L1 norm above ``radius`` onto the sphere of that norm (soft thresholding)."""
    sizes = _first_threshold(np.abs(offsets).astype(np.float64), radius)
    ordered = np.sort(sizes, axis=1)[:, ::-1]
    surplus = np.cumsum(ordered, axis=1) - radius
    counts = np.arange(1, offsets.shape[1] + 1)
    kept = np.maximum((ordered * counts > surplus).sum(axis=1), 1)
    thresholds = np.take_along_axis(surplus, kept[:, None] - 1, axis=1) / kept[:, None]
    projected = np.sign(offsets) * np.maximum(sizes - thresholds, 0.0)
    norms = np.abs(projected).sum(axis=1, keepdims=True)
    shrink = np.where(norms > radius, radius / np.where(norms > 0, norms, 1.0), 1.0)
    return np.asarray(projected * shrink * (1.0 - 1e-15))


def _first_threshold(sizes: NDArray[Any], reach: float) -> NDArray[Any]:
    """Soft-threshold rows so that no size exceeds ``reach``, a first step of their projection.

    The gaps to the largest size are exact where sizes less a threshold would cancel, and what is
    left is small enough for no sum to overflow.
    """
    largest = sizes.max(axis=1, keepdims=True)
    return np.where(largest > reach, np.maximum(reach - (largest - sizes), 0), sizes)


def _shortened(sizes: Int64s, reach: int) -> Int64s:
    """Return sizes lowered alike, each to 0 at least, until they add up to ``reach``."""
    low, high = 0, int(sizes.max())  # the threshold is above low and at most high
    while high - low > 1:
        middle = (low + high) // 2
        if np.maximum(sizes - middle, 0).sum() > reach:
            low = middle
        else:
            high = middle
    shortened = np.maximum(sizes - high, 0)
    short_of_reach = reach - int(shortened.sum())
    shortened[np.flatnonzero(sizes >= high)[:short_of_reach]] += 1
    return np.asarray(shortened)


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
    step = radius / reach
    return L1BallGrid(center, (step,) * len(center), reach if step > 0 else 0)


def _checked(bits: int) -> int:
    if not FEWEST_BITS <= bits <= MOST_BITS:
        raise DomainError(
            f"grid bits must be between {FEWEST_BITS} and {MOST_BITS}. Got {shown(bits)} instead."
        )
    return bits
