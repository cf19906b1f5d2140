"""On-line k-means (Liberty, Sriharsha and Sviridenko 2014): a rival of ok-means++.

A record at squared distance D^2 to the nearest center becomes one with chance min(1, D^2 / f). When
a phase has made 3 k (1 + log n) of them (n records so far), f doubles. The fully on-line algorithm
takes the first k + 1 distinct records as centers, whence w = half their least squared distance is a
lower bound of the optimum, and starts with f = w / k. The semi-on-line one is given a lower bound w
and the length m, and starts with f = w / (k log m) and no center. Either ends with more than k
centers, in expectation by a factor polylogarithmic in m.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import repeat
from typing import SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from dpkv.errors import ParameterError
from dpkv.seeding import summary_loops
from dpkv.seeding.summaries import BLOCK_ROWS
from dpkv.streams import ArrayStream, Stream, as_stream, recut
from dpkv.types import Float64s
from dpkv.validation import as_generator, positive_finite, whole_number


@dataclass(frozen=True, eq=False)
class OnlineClustering:
    """Where on-line k-means put centers, more than k of them."""

    centers: Float64s
    weights: Float64s
    """How many records each center was the nearest for when they came, itself included."""
    cost: float
    """Sum of squared distances of the records to their centers of that moment."""
    n_records: int
    n_phases: int


def online_kmeans(
    source: Stream | ArrayLike | Iterable[ArrayLike],
    n_clusters: SupportsIndex,
    *,
    lower_bound: float | None = None,
    n_records: SupportsIndex | None = None,
    rng: np.random.Generator | int | None = None,
) -> OnlineClustering:
    """Cluster a stream on-line. With ``lower_bound`` of the optimum, the semi-on-line algorithm.

    That one needs ``n_records`` too, which of a matrix is known. ``rng`` is for simulation; nothing
    about the result is private.
    """
    k = whole_number("n_clusters", n_clusters, at_least=1)
    stream = as_stream(source)
    if lower_bound is not None:
        lower_bound = positive_finite("lower_bound", lower_bound) / _log_length(stream, n_records)
    running: _Running | None = None
    generator = as_generator(rng)
    for block in recut(stream.chunks(), repeat(BLOCK_ROWS)):
        if running is None:
            running = _Running(k, block.shape[1], lower_bound, generator)
        running.add(np.ascontiguousarray(block))
    assert running is not None  # a stream without records refuses
    return running.finish()


def _log_length(stream: Stream, n_records: SupportsIndex | None) -> float:
    if n_records is None and isinstance(stream, ArrayStream):
        n_records = len(stream.records)
    if n_records is None:
        raise ParameterError("n_records", "given when lower_bound is", None)
    return max(1.0, math.log(whole_number("n_records", n_records, at_least=1)))


class _Running:
    def __init__(
        self, k: int, n_features: int, lower_bound: float | None, rng: np.random.Generator
    ) -> None:
        self._k = k
        self._opening = lower_bound is None  # the first k + 1 distinct records become centers
        self._cost = 0.0 if lower_bound is None else lower_bound / k
        self._rng = rng
        self._kept = summary_loops.Carriers(4 * (k + 1), n_features)
        self._made = 0  # centers of this phase
        self._phases = 1
        self._seen = 0

    def add(self, block: Float64s) -> None:
        uniforms = self._rng.random(len(block))
        labels, distances = self._kept.nearest(block)
        known = self._kept.count
        done = 0
        while done < len(block):
            before = self._kept.count
            if before == len(self._kept.masses):
                self._kept.grow(2 * before)
            stop = self._k + 1 if self._opening else before + 1
            done, self._kept.count = summary_loops.serve(
                block, done, labels, distances, known, uniforms, self._cost, -1, stop,
                *self._kept.arrays, before,
            )  # fmt: skip
            if self._kept.count == stop:
                self._count_opening(self._seen + done)
        self._seen += len(block)

    def _count_opening(self, n: int) -> None:
        if self._opening:
            self._opening = False
            self._cost = _least_gap(self._kept.points) / 2.0 / self._k
            return
        self._made += 1
        if self._made >= 3.0 * self._k * (1.0 + math.log(n)):
            self._made, self._cost, self._phases = 0, 2.0 * self._cost, self._phases + 1

    def finish(self) -> OnlineClustering:
        n = self._kept.count
        cost = float(self._kept.spreads[:n].sum())
        weights = self._kept.masses[:n].copy()
        return OnlineClustering(self._kept.points.copy(), weights, cost, self._seen, self._phases)


def _least_gap(points: Float64s) -> float:
    """Return the least squared distance of two of the points."""
    return min(
        float(((points[i + 1 :] - points[i]) ** 2).sum(axis=1).min())
        for i in range(len(points) - 1)
    )
