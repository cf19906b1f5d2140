"""D_t: every record's distortion to its nearest center so far, kept up to date and drawn from.

Three keepers behind one small interface. They differ in how a new center is accounted for, never
in the distribution of a draw:

    SquaredNearest    squared distance and a fixed probe, through the compiled kernels
    GeneralNearest    any distortion and a fixed probe
    MovingNearest     any distortion, and a probe that moves from round to round

SquaredNearest reads the whole table far less than once a center. Distances only fall when centers
are added, so a draw from out-of-date distances becomes an exact draw from D_t by rejection: accept
record a with probability D_t(a) / D_old(a), where D_t(a) is computed for that one record. Centers
wait until proposals have cost about as much as a pass over the table; one pass then accounts for
all that wait, four at a time. The distribution of the centers is exactly that of Algorithm 0, and
the data are neither copied nor reordered.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from dpkv import kernels
from dpkv.distortions import Distortion, SquaredEuclidean
from dpkv.errors import UsageError
from dpkv.seeding.probes import Probe
from dpkv.types import Float64s, Floats

PROPOSAL_COST = 2048
"""Numbers a pass handles in the time of one proposal (measured; decides speed, nothing else)."""
_CHUNK_ROWS = 1 << 16


class Nearest(Protocol):
    """What the seeding loop needs of D_t."""

    def add(self, center: Floats) -> None:
        """Account for one more center."""

    def draw(self, smoothing: float, rng: np.random.Generator) -> int | None:
        """Pick a record with probability proportional to w_a (D_t(a) + smoothing).

        Returns None when that is zero for every record.
        """


def keep_nearest(
    records: Floats, weights: Float64s | None, probe: Probe, distortion: Distortion
) -> Nearest:
    """Choose how D_t is kept. The choice changes the work, never a probability."""
    if not probe.fixed:
        return MovingNearest(records, weights, probe, distortion)
    probed = probe.locate(1, records, records[:0])
    if isinstance(distortion, SquaredEuclidean):
        return SquaredNearest(ArrayDistances(probed, weights))
    distortion.check(probed)
    return GeneralNearest(probed, weights, distortion)


class Distances(Protocol):
    """Squared distances that may not have heard of the newest centers, wherever the records are."""

    n_records: int
    n_features: int
    dtype: np.dtype[Any]

    def lower(self, centers: Floats, smoothing: float) -> float:
        """Account for ``centers`` in one pass; return the sum of w_a (D(a) + smoothing)."""

    def propose(self, uniforms: Float64s, pending: Floats, smoothing: float) -> int:
        """Draw a record by rejection (``kernels.propose``), or return -1 when all were refused."""


class ArrayDistances:
    """Distances of the caller's own array: no copy of the data is ever made."""

    def __init__(self, points: Floats, weights: Float64s | None) -> None:
        self.n_records, self.n_features = points.shape
        self.dtype = points.dtype
        self._points = points
        self._weights = kernels.or_empty(weights)
        self.nearest = np.full(len(points), np.inf, dtype=points.dtype)
        self._sums = np.full(kernels.block_count(len(points)), np.inf)
        self._weight_sums = kernels.block_sums(weights, len(points))
        self._running = np.empty(0)  # running sums of the blocks

    def lower(self, centers: Floats, smoothing: float) -> float:
        """Account for ``centers`` and sum the blocks anew."""
        kernels.over_blocks(
            kernels.lower_nearest,
            len(self._sums),
            self._points.size * len(centers),
            self._points,
            centers,
            self.nearest,
            self._weights,
            self._sums,
        )
        self._running = np.cumsum(self._sums + smoothing * self._weight_sums)
        return float(self._running[-1])

    def propose(self, uniforms: Float64s, pending: Floats, smoothing: float) -> int:
        """Draw from the stored distances, and refuse by what ``pending`` has changed."""
        return int(
            kernels.propose(
                uniforms,
                self._running,
                self._points,
                pending,
                self.nearest,
                self._weights,
                smoothing,
            )
        )


class SquaredNearest:
    """Squared distance, brought up to date only when out-of-date draws stop paying."""

    def __init__(self, distances: Distances) -> None:
        self._distances = distances
        self._total: float | None = None  # of the stored distances; None before any pass
        self._pending = np.empty((0, distances.n_features), distances.dtype)
        self._spent = 0  # what proposals have cost since the last pass, in numbers handled

    def add(self, center: Floats) -> None:
        """Let one more center wait for the next pass."""
        self._pending = np.vstack([self._pending, center.astype(self._pending.dtype)])

    def draw(self, smoothing: float, rng: np.random.Generator) -> int | None:
        """Draw by rejection, and by a pass over the records when refusals stop paying."""
        index = self._draw_with_patience(smoothing, rng) if self._total else -1
        if index < 0:
            self._pass(smoothing)
            assert self._total is not None
            _refuse_infinite(self._total)
            if self._total == 0.0:
                return None
            index = self._propose(smoothing, rng, 1)
        return index

    def _draw_with_patience(self, smoothing: float, rng: np.random.Generator) -> int:
        """Propose until accepted, or return -1 once proposals have cost as much as a pass."""
        waiting = self._pending.size
        price = PROPOSAL_COST + 4 * waiting
        batch = 2
        while self._spent <= self._distances.n_records * waiting:
            index = self._propose(smoothing, rng, batch)
            self._spent += batch * price
            if index >= 0:
                return index
            batch = min(2 * batch, 256)
        return -1

    def _propose(self, smoothing: float, rng: np.random.Generator, proposals: int) -> int:
        return self._distances.propose(rng.random((proposals, 2)), self._pending, smoothing)

    def _pass(self, smoothing: float) -> None:
        """Account for every waiting center."""
        self._total = self._distances.lower(self._pending, smoothing)
        self._pending = self._pending[:0]
        self._spent = 0


class GeneralNearest:
    """Any distortion, measured once from every probed point to every center."""

    def __init__(self, points: Floats, weights: Float64s | None, distortion: Distortion) -> None:
        self._distortion = distortion
        self._weights = weights
        self._points = points
        self._nearest = np.full(len(points), np.inf)

    def add(self, center: Floats) -> None:
        """Lower every record's distortion to at most its distortion to ``center``."""
        for rows in row_chunks(len(self._points)):
            with np.errstate(over="ignore", invalid="ignore"):
                measured = self._distortion.to_center(self._points[rows], center)
            np.minimum(self._nearest[rows], measured, out=self._nearest[rows])

    def draw(self, smoothing: float, rng: np.random.Generator) -> int | None:
        """Pick a record with probability proportional to w_a (D_t(a) + smoothing), if any has."""
        masses = self._nearest + smoothing
        if self._weights is not None:
            masses *= self._weights
        _refuse_infinite(float(masses.sum()))
        return draw_index(masses, rng) if masses.any() else None


class MovingNearest:
    """Any distortion, measured anew in every round from where probe_t sends the records."""

    def __init__(
        self, records: Floats, weights: Float64s | None, probe: Probe, distortion: Distortion
    ) -> None:
        self._records = records
        self._weights = weights
        self._probe = probe
        self._distortion = distortion
        self._centers = np.empty((0, records.shape[1]), records.dtype)

    def add(self, center: Floats) -> None:
        """Remember one more center; the next draw measures to all of them."""
        self._centers = np.vstack([self._centers, center])

    def draw(self, smoothing: float, rng: np.random.Generator) -> int | None:
        """Probe the records for this round, measure, and draw."""
        probed = self._probe.locate(len(self._centers) + 1, self._records, self._centers)
        self._distortion.check(probed)
        measured = GeneralNearest(probed, self._weights, self._distortion)
        for center in self._centers:
            measured.add(center)
        return measured.draw(smoothing, rng)


def _refuse_infinite(total: float) -> None:
    if not math.isfinite(total):
        raise UsageError(
            "the distortion is not finite between some record and a center: rescale the "
            "columns, or choose another distortion."
        )


def draw_index(masses: Float64s, rng: np.random.Generator) -> int:
    """Draw an index with probability proportional to ``masses``."""
    running = np.cumsum(masses)
    index = int(np.searchsorted(running, rng.random() * running[-1], side="right"))
    return index if index < len(masses) else int(np.flatnonzero(masses)[-1])


def row_chunks(n_rows: int) -> Iterator[slice]:
    """Yield slices of so few rows that temporaries stay small."""
    for start in range(0, n_rows, _CHUNK_ROWS):
        yield slice(start, min(n_rows, start + _CHUNK_ROWS))
