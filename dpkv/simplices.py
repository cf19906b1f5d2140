"""Domains of rows with categories: intervals for numbers, a simplex for every column of categories.

A column of c categories has c coordinates, of which a row has exactly one at its full size and the
others at 0. Rows are so the points of a product of intervals and of sets of corners of simplices,
and centers, which are means of rows, lie in the product of intervals and simplices, their hull.

Proof of the diameters. Let two rows differ. Where column j is a number they differ by at most its
top t_j. Where g is a column of categories of size s, they are s e_a and s e_b: equal, or 2 s apart
in L1 and 2 s^2 in squared L2. Columns add up, so that rows are apart by at most

    diam1 = sum_j t_j + sum_g 2 s_g         diam2^2 = sum_j t_j^2 + sum_g 2 s_g^2,

less than the box around them has, where c categories count for c s and c s^2. Norms are convex,
so both hold for the hull as well, and so does the largest L1 distance from a fixed point of it,
``radius1``, which corners reach.

A column of categories has size 1 / sqrt(2) of a number's width: two categories are as far apart, in
L2, as the two ends of a number. ``influence`` scales a column.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from dpkv.domain import Box, Domain, Source
from dpkv.errors import DomainError, shown
from dpkv.grid import FEWEST_BITS, GRID_BITS, MOST_BITS, Grid
from dpkv.types import Float64s, Floats, Int64s

Groups = tuple[tuple[int, int], ...]
"""The coordinates of every column of categories: the first, and the one after the last."""
_LEAST_INFLUENCE, _MOST_INFLUENCE = 1e-3, 1e3


@dataclass(frozen=True)
class ProductGrid(Grid):
    """Integer vectors with 0 <= z_j <= tops_j, whose parts of a group add up to its top."""

    origin: tuple[float, ...]
    steps: tuple[float, ...]
    tops: tuple[int, ...]
    groups: Groups

    @property
    def _numbers(self) -> list[int]:
        inside = {place for start, stop in self.groups for place in range(start, stop)}
        return [top for place, top in enumerate(self.tops) if place not in inside]

    @property
    def _sizes(self) -> list[int]:
        """The sizes of the simplices that have more than one corner."""
        return [self.tops[start] for start, stop in self.groups if stop - start > 1]

    @property
    def diam1(self) -> int:
        """L1 diameter in steps."""
        return sum(self._numbers) + 2 * sum(self._sizes)

    @property
    def diam2_squared(self) -> int:
        """Squared L2 diameter in steps."""
        return sum(top * top for top in self._numbers) + 2 * sum(size**2 for size in self._sizes)

    @property
    def middle(self) -> Int64s:
        """The middle of the intervals, and of every simplex, to the step."""
        middle = np.asarray(self.tops) // 2
        for start, stop in self.groups:
            share, rest = divmod(self.tops[start], stop - start)
            middle[start:stop] = share
            middle[start : start + rest] += 1
        return middle

    @property
    def radius1(self) -> int:
        """The largest L1 distance of a grid point from ``middle``, in steps."""
        radius = sum(top - top // 2 for top in self._numbers)
        for start, stop in self.groups:
            # A corner is as far above the middle in its own coordinate as below it in the others.
            radius += 2 * (self.tops[start] - int(self.middle[start:stop].min()))
        return radius

    @property
    def box(self) -> tuple[Int64s, Int64s]:
        """Zeros, and the last level of every coordinate."""
        return np.zeros(len(self.tops), np.int64), np.asarray(self.tops, dtype=np.int64)

    def clip(self, points: Int64s) -> Int64s:
        """Return the points moved to the nearest of the domain, column by column."""
        clipped = np.clip(points, 0, np.asarray(self.tops))
        for start, stop in self.groups:
            clipped[..., start:stop] = onto_simplex(points[..., start:stop], self.tops[start])
        return clipped

    def quantise(self, values: Floats) -> Int64s:
        """Return a nearby grid point of each row; one of the corners for a row of categories."""
        offsets = np.clip(np.rint(self._offsets(values)), -(2.0**61), 2.0**61)
        return self.clip(offsets.astype(np.int64))

    def spread(self, uniform: Float64s) -> Int64s:
        """Stretch the unit cube over the intervals and the simplices."""
        points = uniform * np.asarray(self.tops)
        for start, stop in self.groups:
            parts = -np.log(np.maximum(uniform[:, start:stop], 1e-12))
            sums = parts.sum(axis=1, keepdims=True)
            even = np.full_like(parts, 1.0 / (stop - start))
            shares = np.divide(parts, sums, out=even, where=sums > 0)
            points[:, start:stop] = shares * self.tops[start]
        return self.clip(np.rint(points).astype(np.int64))

    def corners(self, numbers: Int64s) -> Int64s:
        """Return rows of which the numbers are as given, each of one category in every group."""
        rows = numbers.copy()
        for start, stop in self.groups:
            rows[:, start:stop] = 0
            own = start + np.arange(len(rows)) % (stop - start)
            rows[np.arange(len(rows)), own] = self.tops[start]
        return rows


def onto_simplex(points: Int64s, size: int) -> Int64s:
    """Return the nearest vectors of non-negative whole numbers that add up to ``size``.

    Soft thresholding in whole numbers: all parts are lowered alike, those below 0 are 0, and what
    the division leaves over goes one by one to the first of the parts that are kept. A corner, and
    any other point of the simplex, stays itself.
    """
    rows = np.atleast_2d(points)
    # A part that is below the largest by more than the size ends at 0; so nothing here overflows.
    largest = rows.max(axis=1, keepdims=True)
    parts = np.where(largest - size <= rows, rows - largest, -size)
    ordered = -np.sort(-parts, axis=1)
    surplus = np.cumsum(ordered, axis=1) - size
    places = np.arange(1, rows.shape[1] + 1)
    kept = (ordered * places > surplus).sum(axis=1)
    surplus = np.take_along_axis(surplus, kept[:, np.newaxis] - 1, axis=1)
    lowered = np.maximum((parts * kept[:, np.newaxis] - surplus) // kept[:, np.newaxis], 0)
    short = size - lowered.sum(axis=1)
    eligible = parts * kept[:, np.newaxis] > surplus
    lowered += eligible & (np.cumsum(eligible, axis=1) <= short[:, np.newaxis])
    return np.asarray(lowered.reshape(points.shape), dtype=np.int64)


@dataclass(frozen=True)
class Product(Domain):
    """Intervals for columns of numbers, and a simplex for every column of categories."""

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    """Of a simplex, the size in each of its coordinates."""
    groups: Groups
    scales: tuple[float, ...]
    """How wide every coordinate is in ``working``."""
    source: Source = "given"
    scaled: bool = True

    def __post_init__(self) -> None:
        box = Box(self.lower, self.upper, source=self.source)  # checks them
        object.__setattr__(self, "lower", box.lower)
        object.__setattr__(self, "upper", box.upper)
        object.__setattr__(self, "scales", tuple(float(scale) for scale in self.scales))
        object.__setattr__(self, "groups", tuple((int(a), int(b)) for a, b in self.groups))
        width = box.n_features
        ends = [0, *(place for group in self.groups for place in group), width]
        if ends != sorted(ends) or any(start == stop for start, stop in self.groups):
            raise DomainError("the groups of a domain must be coordinates in their order.")
        sizes = np.asarray(self.scales)
        if sizes.shape != (width,) or not ((sizes >= 0) & (sizes <= _MOST_INFLUENCE)).all():
            raise DomainError("the scales of a domain must be one number for each coordinate.")
        for start, stop in self.groups:
            parts = {(self.lower[p], self.upper[p], self.scales[p]) for p in range(start, stop)}
            if len(parts) != 1 or self.lower[start] != 0.0 or self.upper[start] <= 0.0:
                raise DomainError("a group's coordinates must all reach from 0 to its size.")
        if not isinstance(self.scaled, bool):
            raise DomainError(f"scaled must be True or False. Got {shown(self.scaled)} instead.")

    @classmethod
    def _from_fields(cls, fields: Mapping[str, Any]) -> Self:
        groups = tuple((start, stop) for start, stop in fields["groups"])
        own = (fields["lower"], fields["upper"], groups, fields["scales"], fields["source"])
        return cls(*own, fields["scaled"])

    @property
    def n_features(self) -> int:
        """Number of coordinates."""
        return len(self.lower)

    @property
    def _widths(self) -> Float64s:
        return np.subtract(self.upper, self.lower)

    @property
    def _squares(self) -> Float64s:
        """What every interval, and every simplex in its first coordinate, may add up to in L2."""
        squares = self._widths**2
        for start, stop in self.groups:
            squares[start:stop] = 0.0
            squares[start] = 2.0 * self.upper[start] ** 2 if stop - start > 1 else 0.0
        return squares

    @property
    def diam1(self) -> float:
        """L1 diameter: widths, and twice the sizes, rounded up."""
        lengths = self._widths.copy()
        for start, stop in self.groups:
            lengths[start:stop] = 0.0
            lengths[start] = 2.0 * self.upper[start] if stop - start > 1 else 0.0
        return float(lengths.sum()) * (1.0 + (self.n_features + 3) * np.finfo(np.float64).eps)

    @property
    def diam2(self) -> float:
        """L2 diameter, rounded up."""
        length = math.sqrt(float(self._squares.sum()))
        return length * (1.0 + (self.n_features + 3) * np.finfo(np.float64).eps)

    @property
    def middle(self) -> Float64s:
        """The middle of the intervals and of the simplices."""
        middle = np.add(self.lower, self.upper) / 2.0
        for start, stop in self.groups:
            middle[start:stop] = self.upper[start] / (stop - start)
        return middle

    @property
    def working(self) -> Product:
        """The domain at its scales."""
        if not self.scaled:
            return self
        zeros, tops = (0.0,) * self.n_features, self._working_tops
        return Product(zeros, tuple(tops), self.groups, tuple(tops), self.source, False)

    @property
    def _working_tops(self) -> Float64s:
        return np.where(self._widths > 0, self.scales, 0.0)

    def clip(self, values: Floats) -> Floats:
        """Return the rows moved inside: intervals by column, groups onto their simplices."""
        self._check_columns(values)
        clipped = np.clip(values, self.lower, self.upper).astype(values.dtype, copy=False)
        for start, stop in self.groups:
            clipped[:, start:stop] = _onto_simplex(values[:, start:stop], self.upper[start])
        return clipped

    def to_working(self, values: Floats) -> Floats:
        """Clip, and stretch every coordinate to its scale."""
        clipped = self.clip(values)
        if not self.scaled:
            return clipped
        widths = np.where(self._widths > 0, self._widths, 1.0)
        stretched = (clipped - np.asarray(self.lower)) / widths * self._working_tops
        return np.asarray(np.clip(stretched, 0.0, self._working_tops), dtype=values.dtype)

    def from_working(self, values: Floats) -> Floats:
        """Return user's coordinates."""
        self._check_columns(values)
        if not self.scaled:
            return values
        tops = np.where(self._working_tops > 0, self._working_tops, 1.0)
        moved = np.asarray(self.lower) + values / tops * self._widths
        return np.asarray(moved, dtype=values.dtype)

    def grid(self, bits: int = GRID_BITS) -> Grid:
        """Return the grid: 2^bits levels on the side of the largest scale, fewer on the others."""
        if not FEWEST_BITS <= bits <= MOST_BITS:
            raise DomainError(
                f"grid bits must be between {FEWEST_BITS} and {MOST_BITS}. Got {shown(bits)} "
                "instead."
            )
        scales = self._working_tops if self.scaled else self._widths
        largest = float(scales.max()) or 1.0
        levels = np.floor(scales / largest * (2**bits - 1)).astype(np.int64)
        tops = np.where(scales > 0, np.maximum(levels, 1), 0)
        steps = np.divide(self._widths, tops, out=np.zeros(self.n_features), where=tops > 0)
        return ProductGrid(self.lower, tuple(map(float, steps)), tuple(map(int, tops)), self.groups)

    def to_dict(self) -> dict[str, Any]:
        """Return the domain as plain JSON values."""
        return {
            "kind": "product",
            "lower": list(self.lower),
            "upper": list(self.upper),
            "groups": [list(group) for group in self.groups],
            "scales": list(self.scales),
            "scaled": self.scaled,
            "source": self.source,
        }


def _onto_simplex(values: Floats, size: float) -> Floats:
    """Project rows onto the simplex of a size; those with one part at the size stay themselves."""
    parts = values - values.max(axis=1, keepdims=True)
    ordered = -np.sort(-parts, axis=1)
    surplus = np.cumsum(ordered, axis=1) - size
    places = np.arange(1, values.shape[1] + 1)
    kept = np.maximum((ordered * places > surplus).sum(axis=1), 1)
    level = np.take_along_axis(surplus, kept[:, np.newaxis] - 1, axis=1) / kept[:, np.newaxis]
    return np.asarray(np.maximum(parts - level, 0.0), dtype=values.dtype)


def product_domain(
    bounds: Sequence[tuple[float, float] | int],
    influence: Sequence[float],
    source: Source = "given",
) -> Domain:
    """Return the domain of columns with bounds, or with so many categories; a box without any."""
    for one in influence:
        if not _LEAST_INFLUENCE <= one <= _MOST_INFLUENCE:
            raise DomainError(
                f"influence must be between {_LEAST_INFLUENCE:g} and {_MOST_INFLUENCE:g}. Got "
                f"{shown(one)} instead."
            )
    lower, upper, scales = list[float](), list[float](), list[float]()
    groups: list[tuple[int, int]] = []
    for column, weight in zip(bounds, influence, strict=True):
        if isinstance(column, int):
            groups.append((len(lower), len(lower) + column))
            lower += [0.0] * column
            upper += [1.0] * column
            scales += [weight / math.sqrt(2.0)] * column
        else:
            lower.append(float(column[0]))
            upper.append(float(column[1]))
            scales.append(weight)
    if not groups and set(scales) == {1.0}:
        return Box(tuple(lower), tuple(upper), source=source)
    return Product(tuple(lower), tuple(upper), tuple(groups), tuple(scales), source)
