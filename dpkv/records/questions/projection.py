"""The public map from grid points to the coordinates that cells are made of.

In few columns it is the identity. In many, a table's clusters lie apart in almost any few
directions already, and cells of few dimensions hold more records: a fixed orthonormal matrix,
rounded to integers, maps a grid point to whole coordinates, exactly. The matrix depends on the
numbers of columns alone, never on the records, so nothing about it needs to be paid for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpkv.grid import Grid
from dpkv.seeding.nearest import row_chunks
from dpkv.simplices import Groups, ProductGrid
from dpkv.types import Float64s, Integers

MAP_BITS = 12
"""A map's entries are parts of 2^12."""
_REACH = 2.0  # of a projected column, in standard deviations of a uniform point of the domain
_SEED = 20160619


@dataclass(frozen=True, eq=False)
class PublicMap:
    """Whole coordinates for grid points: lowest <= coordinate <= highest in every dimension."""

    lowest: Integers
    highest: Integers
    matrix: Integers | None
    """p rows of d integers, orthonormal but for a factor of 2^12; None is the identity."""
    middle: Integers
    groups: Groups = ()
    """The coordinates of every column of categories: a row is at the end of one, 0 in others."""
    is_core: bool = False
    """Whether it ends before the grid does: points beyond count as if they were at its border."""

    @property
    def n_dimensions(self) -> int:
        """p."""
        return len(self.lowest)

    @cached_property
    def key(self) -> bytes:
        """What tells this map from others."""
        parts = [self.lowest, self.highest, self.middle]
        if self.matrix is not None:
            parts.append(self.matrix.reshape(-1))
        parts += [np.asarray(group) for group in self.groups]
        return np.concatenate(parts).astype(np.int64).tobytes()

    def apply(self, points: Integers) -> Integers:
        """Return the coordinates of grid points, in chunks; those beyond are at the border."""
        if self.matrix is None:
            if not self.is_core:
                return points
            ends = (end.astype(points.dtype) for end in (self.lowest, self.highest))
            return np.asarray(np.clip(points, *ends))
        mapped = np.empty((len(points), self.n_dimensions), np.int32)
        for rows in row_chunks(len(points)):
            mapped[rows] = self._mapped(points[rows])
        return mapped

    def _mapped(self, points: Integers) -> NDArray[Any]:
        # Every partial sum is a whole number below 2^53, so floats are exact in whatever order.
        assert self.matrix is not None
        centred = (points - self.middle).astype(np.float64)
        turned = (centred @ self.matrix.T.astype(np.float64)).astype(np.int64) >> MAP_BITS
        return np.asarray(np.clip(turned, self.lowest, self.highest))

    def lift(self, mapped: Float64s) -> Float64s:
        """Return where in the domain a mapped point most likely comes from (post-processing)."""
        if self.matrix is None:
            return mapped
        return np.asarray(self.middle + mapped @ self.matrix / 2.0**MAP_BITS)


def public_map(grid: Grid, n_dimensions: int, *, has_means: bool = False) -> PublicMap:
    """Return the map to so many dimensions; as many as there are columns is the identity.

    ``has_means`` where records may be means of rows, which have no one category.
    """
    lowest, highest = grid.box
    if n_dimensions >= grid.n_features:
        groups = grid.groups if isinstance(grid, ProductGrid) and not has_means else ()
        return PublicMap(lowest, highest, None, grid.middle, groups)
    matrix = _matrix(grid.n_features, n_dimensions)
    half = np.maximum(highest - grid.middle, grid.middle - lowest)
    farthest = (np.abs(matrix) @ half >> MAP_BITS) + 1
    usual = np.sqrt((matrix.astype(np.float64) ** 2) @ half.astype(np.float64) ** 2 / 3.0)
    reach = np.minimum(farthest, np.ceil(_REACH * usual / 2.0**MAP_BITS).astype(np.int64))
    return PublicMap(-reach, reach, matrix, grid.middle)


@cache
def _matrix(n_features: int, n_dimensions: int) -> Integers:
    """Return integers that are an orthonormal matrix but for rounding; the same every time."""
    rng = np.random.default_rng([_SEED, n_features, n_dimensions])
    columns, corner = np.linalg.qr(rng.standard_normal((n_features, n_dimensions)))
    rows = (columns * np.where(np.diag(corner) < 0, -1.0, 1.0)).T
    return np.rint(rows * 2.0**MAP_BITS).astype(np.int64)
