"""ok-means++ (Algorithm 3): one center from each minibatch, as the minibatches come.

The reduction (Table 3): on the whole stream, round j probes the records of minibatch j to
themselves and all others to their closest center, which is at distance zero, so Algorithm 0 picks
inside minibatch j in proportion to D_t. A step here is that round: the same keeper of D_t, on the
minibatch alone. Round 1 picks uniformly in minibatch 1 instead of the whole stream, which the proof
of Theorem 4 (minibatches) takes to change nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Self, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from dpkv import kernels
from dpkv.distortions import SQUARED_EUCLIDEAN
from dpkv.errors import ParameterError
from dpkv.seeding.approximation_guarantees import ok_guarantee
from dpkv.seeding.nearest import keep_nearest
from dpkv.seeding.potentials import assign
from dpkv.seeding.probes import IdentityProbe
from dpkv.streams import ArrayStream, Stream, as_stream, recut
from dpkv.types import Float64s, Floats, Indices
from dpkv.validation import (
    as_generator,
    as_records,
    cluster_count,
    positive_finite,
    whole_number,
)

_EXACT_DIAMETER = 2000  # records up to which all pairs are measured


class OkMeans:
    """ok-means++ step by step: ``partial_fit`` takes a minibatch and adds a center."""

    def __init__(self, rng: np.random.Generator | int | None = None) -> None:
        self._rng = as_generator(rng)
        self._centers: list[Float64s] = []
        self._indices: list[int] = []
        self._uniform_rounds: list[int] = []
        self.batch_sizes: tuple[int, ...] = ()
        """Records of each minibatch so far."""

    @property
    def centers(self) -> Float64s:
        """The centers so far, one per minibatch."""
        return np.array(self._centers)

    @property
    def indices(self) -> Indices:
        """The place of each center's record in the stream, from 0."""
        return np.array(self._indices, np.int64)

    @property
    def uniform_rounds(self) -> tuple[int, ...]:
        """Minibatches after the first (1-based) whose records all were centers already."""
        return tuple(self._uniform_rounds)

    @property
    def n_records(self) -> int:
        """Records so far."""
        return sum(self.batch_sizes)

    def partial_fit(self, batch: ArrayLike) -> Self:
        """Pick a record of the minibatch: uniform in the first, by D^2 to the centers later."""
        records = as_records(batch)
        if self._centers and records.shape[1] != len(self._centers[0]):
            raise ParameterError("batch", f"{len(self._centers[0])} columns wide", records.shape[1])
        index = self._by_distance(records) if self._centers else None
        if index is None:
            if self._centers:
                self._uniform_rounds.append(len(self._centers) + 1)
            index = int(self._rng.integers(len(records)))
        self._centers.append(records[index].astype(np.float64))
        self._indices.append(self.n_records + index)
        self.batch_sizes = (*self.batch_sizes, len(records))
        return self

    def _by_distance(self, records: Floats) -> int | None:
        nearest = keep_nearest(records, None, IdentityProbe(), SQUARED_EUCLIDEAN)
        for center in self._centers:
            nearest.add(center)
        return nearest.draw(0.0, self._rng)


@dataclass(frozen=True, eq=False)
class OnlineSeeding:
    """What ok-means++ picked, one center per minibatch."""

    centers: Floats
    indices: Indices
    """The place of each center's record in the stream, from 0."""
    uniform_rounds: tuple[int, ...]
    batch_sizes: tuple[int, ...]

    @property
    def n_records(self) -> int:
        """Records of the stream."""
        return sum(self.batch_sizes)

    def guarantee(self, optimum: float, varsigma: float) -> float:
        """Return what Theorem 4 promises; with *estimated* arguments, an estimate of it."""
        return ok_guarantee(len(self.centers), optimum, varsigma)


def ok_means(
    source: Stream | ArrayLike | Iterable[ArrayLike],
    n_clusters: SupportsIndex | None = None,
    *,
    batch_rows: SupportsIndex | None = None,
    n_records: SupportsIndex | None = None,
    after_batch: Callable[[Float64s], None] | None = None,
    rng: np.random.Generator | int | None = None,
) -> OnlineSeeding:
    """Seed by ok-means++ over a stream cut into minibatches; there are as many centers as those.

    Either ``batch_rows`` says how many records a minibatch has (the last may have fewer), or
    ``n_clusters`` how many minibatches there are, as equal as can be, where ``n_records`` is known:
    of a matrix it always is. ``after_batch`` is called with the centers after every minibatch.
    ``rng`` is for simulation; nothing about the result is private.
    """
    stream = as_stream(source)
    sizes = _batch_sizes(stream, n_clusters, batch_rows, n_records)
    seeder = OkMeans(rng)
    for batch in recut(stream.chunks(), sizes):
        seeder.partial_fit(batch)
        if after_batch is not None:
            after_batch(seeder.centers)
    if n_clusters is not None:
        _check_length(seeder, int(n_clusters), n_records)
    return OnlineSeeding(seeder.centers, seeder.indices, seeder.uniform_rounds, seeder.batch_sizes)


def _batch_sizes(
    stream: Stream,
    n_clusters: SupportsIndex | None,
    batch_rows: SupportsIndex | None,
    n_records: SupportsIndex | None,
) -> Iterator[int]:
    if (n_clusters is None) == (batch_rows is None):
        raise ParameterError("batch_rows", "given, or else n_clusters, not both", batch_rows)
    if batch_rows is not None:
        return repeat(whole_number("batch_rows", batch_rows, at_least=1))
    assert n_clusters is not None
    if n_records is None and isinstance(stream, ArrayStream):
        n_records = len(stream.records)
    if n_records is None:
        raise ParameterError("n_records", "given with n_clusters, or batch_rows instead", None)
    m = whole_number("n_records", n_records, at_least=1)
    k = cluster_count(n_clusters, m)
    # One more size at the end shows a stream that is longer than was said.
    return iter([*(m * (j + 1) // k - m * j // k for j in range(k)), 1])


def _check_length(seeder: OkMeans, k: int, n_records: SupportsIndex | None) -> None:
    said = seeder.n_records if n_records is None else int(n_records)
    if len(seeder.batch_sizes) != k or seeder.n_records != said:
        must = "the length of the stream, which has "
        must += f"{seeder.n_records} records" if seeder.n_records < said else "more records"
        raise ParameterError("n_records", must, said)


# -- varsigma --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class VarsigmaEstimate:
    """The two conditions of Theorem 4; varsigma is the smaller of them, and at most 1."""

    wide: float
    """First condition: how wide the clusters are beside the diameter."""
    accurate: float
    """Second condition, over sampled sets of centers: the truth may be smaller."""
    n_sets: int
    label: str = "estimate from above (sampled sets of centres; the true varsigma may be smaller)"

    @property
    def varsigma(self) -> float:
        """The largest number that meets both conditions."""
        return min(1.0, self.wide, self.accurate)


def estimate_varsigma(
    data: ArrayLike,
    batches: ArrayLike,
    optimal_centers: ArrayLike,
    *,
    diameter: float | None = None,
    n_sets: SupportsIndex = 100,
    rng: np.random.Generator | int | None = None,
) -> VarsigmaEstimate:
    """Estimate varsigma of Theorem 4 (minibatches) for the clusters of (estimated) optimal centers.

    ``batches[a]`` is the minibatch, from 1, of record a. The theorem's first condition sums over
    pairs (a, a') of a cluster A. Its proof takes *ordered* pairs, whose squared distances add up to
    2 |A| phi(A; mean), so the condition reads 4 phi(A; mean) >= varsigma (|A| - 1) R^2; a cluster
    of one record meets it. R is the diameter of the stream, measured for up to 2000 records and
    else at most doubled (which errs toward a small varsigma), unless given.

    The second condition asks for every set of at most k centers. Here ``n_sets`` are tried, half of
    them centers of ok-means++ after some minibatch, half of them random records. A minibatch
    without a record of some cluster gives 0 at once; so would, unseen here, k centers on all
    records that a cluster has in a minibatch.
    """
    records = as_records(data).astype(np.float64, copy=False)
    centers = as_records(optimal_centers)
    numbers = np.asarray(batches)
    if numbers.shape != (len(records),):
        raise ParameterError(
            "batches", f"one number per record, {len(records)}", f"shape {numbers.shape}"
        )
    _, batch_of = np.unique(numbers, return_inverse=True)
    labels = assign(records, centers)
    reach = _diameter(records) if diameter is None else positive_finite("diameter", diameter)
    sets = whole_number("n_sets", n_sets, at_least=1)
    generator = as_generator(rng)
    accurate = math.inf
    for number in range(sets):
        size = int(generator.integers(1, min(len(centers), len(records)) + 1))
        if number % 2:
            chosen = records[generator.choice(len(records), size, replace=False)]
        else:
            chosen = _centers_of_a_run(records, batch_of, size, generator)
        accurate = min(accurate, _least_share(records, chosen, labels, batch_of))
    return VarsigmaEstimate(_width(records, labels, reach), accurate, sets)


def _centers_of_a_run(
    records: Float64s, batch_of: np.ndarray, size: int, rng: np.random.Generator
) -> Float64s:
    seeder = OkMeans(rng)
    for batch in range(min(size, int(batch_of.max()) + 1)):
        seeder.partial_fit(records[batch_of == batch])
    return seeder.centers


def _least_share(
    records: Float64s, chosen: Floats, labels: np.ndarray, batch_of: np.ndarray
) -> float:
    """Return the least share of a cluster's potential that lies in one minibatch."""
    distances = kernels.assign_nearest(records, chosen)[1]
    sums = np.zeros((labels.max() + 1, batch_of.max() + 1))
    np.add.at(sums, (labels, batch_of), distances)
    totals = sums.sum(axis=1)
    shares = sums[totals > 0] / totals[totals > 0, np.newaxis]
    return float(shares.min(initial=math.inf))


def _width(records: Float64s, labels: np.ndarray, diameter: float) -> float:
    """Return the least 4 phi(A; mean) / ((|A| - 1) R^2) of the clusters of two records or more."""
    least = math.inf
    for label in np.unique(labels):
        cluster = records[labels == label]
        if len(cluster) > 1 and diameter > 0:
            phi = float(((cluster - cluster.mean(axis=0)) ** 2).sum())
            least = min(least, 4.0 * phi / ((len(cluster) - 1) * diameter**2))
    return least


def _diameter(records: Float64s) -> float:
    """Return the largest distance of two records, or an upper bound of it where there are many."""
    if len(records) <= _EXACT_DIAMETER:
        farthest = max(float(((records - a) ** 2).sum(axis=1).max()) for a in records)
        return math.sqrt(farthest)
    offsets = records - records.mean(axis=0)  # the mean is within a diameter of every record
    return 2.0 * math.sqrt(float(np.einsum("ij,ij->i", offsets, offsets).max()))
