"""A private synopsis as a file: cells and noisy counts, which anyone may cluster again for free.

The file holds what the mechanism released on the way to its centers, so it is covered by the same
guarantee, and whatever is done with it costs nothing more. ``read_synopsis`` gives it back.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Literal, Self, SupportsIndex

import numpy as np
from pydantic import Field, model_validator

from dpkv import __version__
from dpkv.domain import Domain
from dpkv.grid import GRID_BITS, Grid
from dpkv.kernels import assign_nearest
from dpkv.mechanisms.synopsis import PrivateCells, WeightedPoints, weighted_points
from dpkv.mechanisms.synopsis.clustering import cluster
from dpkv.mechanisms.synopsis.marginals import marginal
from dpkv.mechanisms.synopsis.mechanism import opening_estimate
from dpkv.mechanisms.synopsis.settings import MOST_CELL_DIMENSIONS
from dpkv.mechanisms.synopsis.synthesis import draw_rows
from dpkv.records.questions import PublicMap, public_map, tree_from_splits
from dpkv.releases.canonical import digest
from dpkv.releases.clusters import step_length
from dpkv.releases.frozen import Frozen
from dpkv.releases.guarantee import Guarantee
from dpkv.releases.parsing import parse
from dpkv.releases.record import RELEASE_ID
from dpkv.types import Float64s, Floats
from dpkv.validation import (
    LARGEST_WHOLE,
    MOST_CENTERS,
    as_generator,
    printable_names,
    whole_number,
)

if TYPE_CHECKING:
    from dpkv.releases.standing import Standing

MOST_ROWS = 100_000_000
_MOST_TREE_NUMBERS = 1 << 26  # coordinates of all cells together: half a gigabyte

_Noisy = tuple[Annotated[int, Field(ge=-LARGEST_WHOLE, le=LARGEST_WHOLE)], ...]
_Coordinates = tuple[Annotated[int, Field(ge=-(2**50), le=2**50)], ...]
"""Few enough that no difference and no sum over them overflows."""
_Direction = tuple[Annotated[int, Field(ge=-(2**12), le=2**12)], ...]
_Scale = Annotated[float, Field(ge=0, le=LARGEST_WHOLE, allow_inf_nan=False)]


class PrivateSynopsis(Frozen):
    """Private cells with noisy counts, and how they lie in the domain."""

    schema_version: Literal[2] = 2
    kind: Literal["synopsis"] = "synopsis"
    visibility: Literal["public", "curator-only"]
    release_id: Annotated[str, Field(pattern=RELEASE_ID)] | None
    dpkv_version: str = __version__
    guarantee: Guarantee
    """What the release promises; of a file, what it claims: ``standing`` says who confirms it."""
    columns: tuple[str, ...]
    domain: dict[str, object]
    grid_bits: int = GRID_BITS
    lowest: _Coordinates
    highest: _Coordinates
    """Where cells lie, in whole coordinates: of the grid, or of its public projection."""
    matrix: tuple[_Direction, ...] | None
    """The public projection, times 4096; None where cells are of the grid's own columns."""
    groups: tuple[tuple[int, int], ...] = ()
    """The coordinates of every column of categories, in one of which a record is at its end."""
    splits: str
    """The tree, level by level: 1 where a cell is halved along its widest side, else 0."""
    counts: _Noisy
    """Noisy counts of the cells that are not halved, in the same order."""
    offsets: tuple[_Noisy, ...] | None
    """Noisy sums of where records are in their cell, 4096 being half a side."""
    count_scale: Annotated[float, Field(gt=0, le=LARGEST_WHOLE, allow_inf_nan=False)]
    offset_scale: _Scale
    per: Annotated[float, Field(gt=0, le=LARGEST_WHOLE, allow_inf_nan=False)] = 1.0
    """How many of the counts make one record: the shares of a person, say."""

    @classmethod
    def of(
        cls,
        cells: PrivateCells,
        *,
        guarantee: Guarantee,
        release_id: str | None,
        columns: tuple[str, ...],
        domain: Domain,
        grid_bits: int,
        per: float,
    ) -> PrivateSynopsis:
        """Write private cells down."""
        matrix, offsets = cells.space.matrix, cells.offsets
        return cls(
            visibility="public" if guarantee.end_to_end else "curator-only",
            release_id=release_id,
            guarantee=guarantee,
            columns=columns,
            domain=domain.to_dict(),
            grid_bits=grid_bits,
            lowest=tuple(cells.space.lowest.tolist()),
            highest=tuple(cells.space.highest.tolist()),
            matrix=None if matrix is None else tuple(map(tuple, matrix.tolist())),
            groups=cells.space.groups,
            splits=cells.tree.splits,
            counts=tuple(cells.counts.tolist()),
            offsets=None if offsets is None else tuple(map(tuple, offsets.tolist())),
            count_scale=cells.count_scale,
            offset_scale=cells.offset_scale,
            per=per,
        )

    @model_validator(mode="after")
    def _check(self) -> Self:
        width, dimensions = len(self.columns), len(self.lowest)
        printable_names("columns", self.columns)
        if not 1 <= dimensions <= MOST_CELL_DIMENSIONS:
            raise ValueError("the cells have more dimensions than a synopsis has")
        if len(self.splits) * dimensions > _MOST_TREE_NUMBERS:
            raise ValueError("there are more cells than a synopsis has")
        if Domain.from_dict(self.domain).n_features != width:
            raise ValueError("bounds and columns differ in number")
        if self.matrix is None and (dimensions != width or not self._is_in_grid()):
            raise ValueError("the cells are not in the grid")
        if self.groups and self.groups != public_map(self.grid, dimensions).groups:
            raise ValueError("the categories are not the domain's")
        if self.matrix is not None and {len(row) for row in self.matrix} != {width}:
            raise ValueError("the projection is for other columns")
        if len(self.highest) != dimensions or (self.matrix and len(self.matrix) != dimensions):
            raise ValueError("the cells differ in dimensions")
        leaves = self.splits.count("0")
        if set(self.splits) - {"0", "1"} or len(self.counts) != leaves:
            raise ValueError("there must be one count for every cell that is not halved")
        if self.offsets is not None and {len(row) for row in self.offsets} != {dimensions}:
            raise ValueError("the places differ in dimensions")
        if self.offsets is not None and len(self.offsets) != leaves:
            raise ValueError("there must be one place for every cell that is not halved")
        _ = self.cells
        return self

    def _is_in_grid(self) -> bool:
        lowest, highest = np.asarray(self.lowest), np.asarray(self.highest)
        low, high = self.grid.box
        if lowest.shape != low.shape or highest.shape != high.shape:
            return False
        return bool(((low <= lowest) & (lowest <= highest) & (highest <= high)).all())

    @cached_property
    def standing(self) -> Standing | None:
        """Who confirms what a file says of itself; None where this was not read from a file."""
        return None

    def with_standing(self, standing: Standing) -> Self:
        """Return the synopsis with what was found out about its file."""
        found = self.model_copy()
        found.__dict__["standing"] = standing
        return found

    @cached_property
    def grid(self) -> Grid:
        """The public grid."""
        return Domain.from_dict(self.domain).grid(self.grid_bits)

    @cached_property
    def cells(self) -> PrivateCells:
        """The cells as the mechanism made them."""
        lowest, highest = np.asarray(self.lowest), np.asarray(self.highest)
        matrix = None if self.matrix is None else np.asarray(self.matrix, dtype=np.int64)
        low, high = self.grid.box
        is_core = matrix is None and bool((lowest > low).any() or (highest < high).any())
        space = PublicMap(lowest, highest, matrix, self.grid.middle, self.groups, is_core)
        offsets = None if self.offsets is None else np.asarray(self.offsets, dtype=np.int64)
        return PrivateCells(
            space,
            tree_from_splits(self.splits, space),
            np.asarray(self.counts, dtype=np.int64),
            offsets,
            self.count_scale,
            self.offset_scale,
        )

    def weighted_points(self, n_clusters: int = 1) -> WeightedPoints:
        """Return the points that stand for the cells, in whole coordinates, and their weights."""
        return weighted_points(self.cells, n_clusters)

    @property
    def points(self) -> Float64s:
        """The points that stand for the cells, in the user's coordinates."""
        lifted = self.cells.space.lift(self.weighted_points().points)
        steps = np.asarray(self.grid.steps)
        return np.asarray(Domain.from_dict(self.domain).clip(self.grid.origin + lifted * steps))

    @property
    def weights(self) -> Float64s:
        """How many records every point stands for."""
        return np.asarray(self.weighted_points().weights / self.per)

    def cluster(
        self, k: SupportsIndex, *, rng: np.random.Generator | int | None = None
    ) -> Float64s:
        """Return k centers in the user's coordinates, by sk-means++ and Lloyd. Spends nothing."""
        wanted = whole_number("k", k, at_least=1, at_most=MOST_CENTERS)
        found = self.weighted_points(wanted)
        heads = cluster(found, wanted, as_generator(rng))
        points = opening_estimate(found, heads, self.cells, self.grid).centers
        return np.asarray(Domain.from_dict(self.domain).clip(self.grid.restore(points)))

    def fit(self, centers: Floats) -> tuple[Float64s, float]:
        """Return about how many records are nearest to every center, and the potential.

        Both are of the points that stand for the cells, in working coordinates. Where such a point
        is only the middle of its cell, what that adds to the potential is taken off (Sheppard's
        correction), but a cluster keeps at least what evenly spread records would have.
        """
        domain, found = Domain.from_dict(self.domain), self.weighted_points()
        points = np.asarray(domain.to_working(self.points), dtype=np.float64)
        heads = np.asarray(domain.to_working(np.asarray(centers, dtype=np.float64)))
        labels, squares, _ = assign_nearest(points, heads)
        weights, number = self.weights, len(heads)
        potentials = np.bincount(labels, weights * squares, number)
        if self.offsets is None and self.matrix is None:
            unknown = found.spread * step_length(self.grid, domain) ** 2
            widths = np.bincount(labels, weights * unknown, number)
            potentials = np.maximum(potentials - widths, widths)
        return np.asarray(np.bincount(labels, weights, number)), float(potentials.sum())

    def synthesize(
        self, rows: SupportsIndex, *, rng: np.random.Generator | int | None = None
    ) -> Float64s:
        """Return rows drawn from the cells, in the user's coordinates. Spends nothing."""
        wanted = whole_number("rows", rows, at_least=1, at_most=MOST_ROWS)
        drawn = self.cells.space.lift(draw_rows(self.cells, wanted, as_generator(rng)))
        points = self.grid.clip(np.rint(drawn).astype(np.int64))
        return np.asarray(Domain.from_dict(self.domain).clip(self.grid.restore(points)))

    def density(self, columns: Sequence[int], bins: SupportsIndex) -> tuple[Float64s, Float64s]:
        """Return about how many records lie in bins of one or two columns, and the bins' edges.

        Bins are equally wide, from bound to bound, in the user's coordinates. Spends nothing.
        """
        width = whole_number("bins", bins, at_least=1)
        low, high = self.grid.box
        edges = [np.linspace(float(low[one]), float(high[one]), width + 1) for one in columns]
        found = np.maximum(marginal(self.cells, columns, edges), 0.0) / self.per
        origin, steps = np.asarray(self.grid.origin), np.asarray(self.grid.steps)
        users = [origin[one] + own * steps[one] for one, own in zip(columns, edges, strict=True)]
        return found, np.asarray(users)

    def to_json(self) -> str:
        """Return the synopsis as JSON text, a line a field."""
        fields = json.loads(self.model_dump_json())
        lines = [f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in fields.items()]
        return "{\n" + ",\n".join(lines) + "\n}\n"

    @property
    def digest(self) -> str:
        """The SHA-256 of the file's text."""
        return digest(self.to_json())


def parse_synopsis(text: str, path: object) -> PrivateSynopsis:
    """Return the synopsis that a file holds, or refuse with what is wrong."""
    return parse(PrivateSynopsis, text, path, "private synopsis")
