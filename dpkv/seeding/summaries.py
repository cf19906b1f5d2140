"""Summaries: a stream as few weighted points, in one pass (Algorithm 2, step 1).

The paper calls such points synopses. Three builders, each of which sees a record once and holds at
most as many points as it is allowed, and a block of records:

    reservoir   a uniform sample; every record's weight goes to the nearest point of the moment, and
                a point that leaves the sample hands its weight to the nearest that stays
    facility    on-line facility location (Meyerson 2001): a record at squared distance D^2 opens a
                point with chance min(1, D^2 / f); when there are too many, f doubles and the points
                themselves, by weight, are served again (as in Charikar, O'Callaghan and Panigrahy
                2003)
    grid        the means of the cells of a randomly shifted grid, made coarser whenever there are
                too many cells, one column after the other

The facility builder is the default. Unlike k-means# on blocks (``kmeans_sharp``) it needs neither
the length of the stream nor a buffer of its square root, and it spends points where squared
distance is, which is what the guarantee of Theorem 3 pays for. The grid is the fastest, and cuts
space without asking where the records are.

What one pass can know: it may carry a record at a point that is no longer, or never was, the
nearest. ``spread`` is the sum of squared distances to the points that carry the records, exact up
to rounding. It is the spread of Theorem 3 for that probe, and an upper bound of the spread of the
nearest-point probe, which takes a second pass. The theorem's proof asks of a probe nothing else
than its spread and stretching, so the guarantee holds with ``spread`` for the stretching of the
probe that carries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import repeat
from typing import Protocol, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from dpkv.seeding import grid_loops, summary_loops
from dpkv.streams import Stream, as_stream, recut
from dpkv.types import Float64s
from dpkv.validation import as_generator, one_of, whole_number

BLOCK_ROWS = 4096
"""Records handled at a time. Blocks start at fixed places, so chunks do not change a result."""

_LEVELS = 2.0**16  # cells a side when the grid starts
_FINEST = 2.0**-1000


@dataclass(frozen=True, eq=False)
class StreamSummary:
    """A stream in few points."""

    points: Float64s
    weights: Float64s
    """How many records each point carries; they add up to ``n_records``."""
    n_records: int
    spread: float
    """Sum of squared distances of the records to the points that carry them: an upper bound of
    phi_s^probe of Theorem 3 (streams), which measures to the nearest points."""
    builder: str


class Builder(Protocol):
    """Summarises blocks of records."""

    def add(self, block: Float64s) -> None:
        """Take the next records of the stream."""

    def finish(self) -> StreamSummary:
        """Return what was made of all records."""


class ReservoirBuilder:
    """A uniform sample and the weights of what is nearest."""

    def __init__(self, n_points: int, n_features: int, rng: np.random.Generator) -> None:
        self._kept = summary_loops.Carriers(n_points, n_features)
        self._size = n_points
        self._rng = rng
        self._seen = 0

    def add(self, block: Float64s) -> None:
        """Take the next records of the stream."""
        labels, distances = self._kept.nearest(block)
        uniforms = self._rng.random(len(block))
        known = self._kept.count
        self._kept.count = summary_loops.sample_uniformly(
            block, self._seen, labels, distances, uniforms, self._size, *self._kept.arrays,
            known,
        )  # fmt: skip
        self._seen += len(block)

    def finish(self) -> StreamSummary:
        """Return the sample."""
        return _as_summary(self._kept, self._seen, "reservoir")


class FacilityBuilder:
    """On-line facility location with a cost that doubles when there are too many facilities."""

    def __init__(self, n_points: int, n_features: int, rng: np.random.Generator) -> None:
        self._kept = summary_loops.Carriers(n_points, n_features)
        self._size = n_points
        self._rng, self._rng_again = rng.spawn(2)
        self._cost = 0.0  # every distinct record opens a facility until there is no room
        self._seen = 0

    def add(self, block: Float64s) -> None:
        """Take the next records of the stream."""
        uniforms = self._rng.random(len(block))
        done = 0
        while done < len(block):
            labels, distances = self._nearest(block, done)
            known = self._kept.count
            done, self._kept.count = summary_loops.serve(
                block, done, labels, distances, known, uniforms, self._cost, self._size, -1,
                *self._kept.arrays, known,
            )  # fmt: skip
            if done < len(block):
                self._make_room()
        self._seen += len(block)

    def _nearest(self, block: Float64s, done: int) -> tuple[np.ndarray, Float64s]:
        labels, distances = self._kept.nearest(block[done:])
        gap = np.zeros(done)
        return np.concatenate([gap.astype(np.int32), labels]), np.concatenate([gap, distances])

    def _make_room(self) -> None:
        if self._cost == 0.0:
            self._cost = summary_loops.mean_gap(self._kept.places, self._kept.count) / 2.0
        while self._kept.count >= self._size:
            self._cost = max(2.0 * self._cost, math.ulp(0.0))
            if self._size == 1:
                return  # the next record joins, sooner or later
            uniforms = self._rng_again.random(self._kept.count)
            self._kept.count = summary_loops.consolidate(
                uniforms, self._cost, *self._kept.arrays, self._kept.count
            )

    def finish(self) -> StreamSummary:
        """Return the facilities."""
        return _as_summary(self._kept, self._seen, "facility")


def _as_summary(kept: summary_loops.Carriers, n_records: int, builder: str) -> StreamSummary:
    spread = float(kept.spreads[: kept.count].sum())
    weights = kept.masses[: kept.count].copy()
    return StreamSummary(kept.points.copy(), weights, n_records, spread, builder)


class GridBuilder:
    """The means of the cells of a grid that becomes coarser when there are too many of them.

    All sides start equal, and columns take turns in doubling theirs, so a cell is never more than
    twice as long as wide. Which neighbours join is a coin toss each time: the grid is then one of
    random offset, and no two records are kept apart for ever by where the origin lies.
    """

    def __init__(self, n_points: int, n_features: int, rng: np.random.Generator) -> None:
        self._cells = grid_loops.Cells(n_points, n_features)
        self._size = n_points
        self._rng = rng
        self._waiting: list[Float64s] = []  # the first records, until there is no room for them
        self._seen = 0
        self._origin = np.zeros(n_features)
        self._width: Float64s | None = None
        self._column = 0

    def add(self, block: Float64s) -> None:
        """Take the next records of the stream."""
        self._seen += len(block)
        if self._width is not None:
            self._fill(block)
            return
        self._waiting.append(block)
        if self._seen > self._size:
            first = np.concatenate(self._waiting)
            self._waiting = []
            self._start(first[: self._size])
            self._fill(first)

    def _start(self, first: Float64s) -> None:
        """Lay a grid so fine over the first records that it has to become coarser."""
        self._origin = first[0].copy()
        side = float(np.ptp(first, axis=0).max()) / _LEVELS
        side = side or float(np.abs(first).max()) * 2.0**-40 or _FINEST
        self._width = np.full(first.shape[1], 2.0 ** math.floor(math.log2(side)))

    def _fill(self, block: Float64s) -> None:
        assert self._width is not None
        done = 0
        while done < len(block):
            done, self._cells.count = grid_loops.fill(
                block, done, self._origin, self._width, self._size, *self._cells.arrays,
                self._cells.count,
            )  # fmt: skip
            if done < len(block):
                self._coarsen()

    def _coarsen(self) -> None:
        assert self._width is not None
        column, bit = self._column, int(self._rng.integers(2))
        self._cells.count = grid_loops.coarsen(column, bit, *self._cells.arrays, self._cells.count)
        self._origin[column] -= bit * self._width[column]
        self._width[column] *= 2.0
        self._column = (column + 1) % len(self._width)

    def finish(self) -> StreamSummary:
        """Return the means of the cells, or the records where there are few."""
        if self._width is None:
            points = np.concatenate(self._waiting)
            return StreamSummary(points, np.ones(len(points)), self._seen, 0.0, "grid")
        n = self._cells.count
        means, weights = self._cells.means[:n].copy(), self._cells.masses[:n].copy()
        return StreamSummary(
            means, weights, self._seen, float(self._cells.spreads[:n].sum()), "grid"
        )


BUILDERS: dict[str, Callable[[int, int, np.random.Generator], Builder]] = {
    "facility": FacilityBuilder,
    "reservoir": ReservoirBuilder,
    "grid": GridBuilder,
}
"""The builders by name."""


def summarise_stream(
    source: Stream | ArrayLike | Iterable[ArrayLike],
    summary_points: SupportsIndex,
    *,
    builder: str = "facility",
    rng: np.random.Generator | int | None = None,
) -> StreamSummary:
    """Summarise a stream, in one pass, as at most ``summary_points`` weighted points."""
    size = whole_number("summary_points", summary_points, at_least=1)
    one_of("builder", builder, tuple(BUILDERS))
    generator = as_generator(rng)
    building: Builder | None = None
    for block in recut(as_stream(source).chunks(), repeat(BLOCK_ROWS)):
        if building is None:
            building = BUILDERS[builder](size, block.shape[1], generator)
        building.add(np.ascontiguousarray(block))
    assert building is not None  # a stream without records refuses
    return building.finish()
