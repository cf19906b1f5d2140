"""k-means# on blocks of a stream (Ailon, Jaiswal and Monteleoni 2009): a rival of sk-means++.

k-means# picks 3 log_2 k centers at a time, uniformly at first and then by D^2, k times over. Every
block is replaced by these centers with the counts of what is nearest; k-means++ on all of them,
weighted, ends the run. When they outgrow a block themselves, k-means# replaces them as well, so
memory holds two blocks whatever the length of the stream.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import repeat
from typing import SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from dpkv import kernels
from dpkv.errors import ParameterError
from dpkv.seeding.algorithm0 import kvariates
from dpkv.seeding.nearest import draw_index
from dpkv.streams import Stream, as_stream, recut
from dpkv.types import Float64s, Floats, Indices
from dpkv.validation import as_generator, as_records, as_weights, cluster_count, whole_number

DEFAULT_BLOCK = 1 << 15
"""Records a block, unless told."""


@dataclass(frozen=True, eq=False)
class SharpSeeding:
    """Centers of a stream by k-means# on its blocks."""

    centers: Floats
    n_records: int
    n_blocks: int
    most_held: int
    """The most weighted centers held at a time, beside a block of records."""


def kmeans_sharp(
    data: ArrayLike,
    n_clusters: SupportsIndex,
    *,
    sample_weight: ArrayLike | None = None,
    rng: np.random.Generator | int | None = None,
) -> Indices:
    """Return the rows that k-means# picks: distinct, in order, at most k ceil(3 log_2 k)."""
    records = as_records(data)
    k = cluster_count(n_clusters, len(records))
    given = as_weights("sample_weight", sample_weight, len(records))
    weight = np.ones(len(records)) if given is None else given
    generator = as_generator(rng)
    nearest = np.full(len(records), np.inf)
    masses, picked = weight, list[int]()
    for _ in range(k):
        rows = [draw_index(masses, generator) for _ in range(centers_a_round(k))]
        picked += rows
        distances = kernels.assign_nearest(records, records[rows])[1]
        nearest = np.minimum(nearest, distances)
        masses = weight * nearest
        if not masses.any():
            break
    return np.unique(np.array(picked, np.int64))


def centers_a_round(n_clusters: int) -> int:
    """Return ceil(3 log_2 k), and 1 for a single cluster."""
    return max(1, math.ceil(3.0 * math.log2(n_clusters)))


def sharp_stream(
    source: Stream | ArrayLike | Iterable[ArrayLike],
    n_clusters: SupportsIndex,
    *,
    block_rows: SupportsIndex = DEFAULT_BLOCK,
    repeats: SupportsIndex = 3,
    rng: np.random.Generator | int | None = None,
) -> SharpSeeding:
    """Seed a stream by k-means# on blocks, the best of ``repeats`` runs on each, then k-means++.

    The analysis asks for 3 log m runs on a block; nothing about the result is private.
    """
    k = whole_number("n_clusters", n_clusters, at_least=1)
    rows = whole_number("block_rows", block_rows, at_least=1)
    runs = whole_number("repeats", repeats, at_least=1)
    if rows < 2 * k * centers_a_round(k):
        must = f"at least {2 * k * centers_a_round(k)}, twice what k-means# picks"
        raise ParameterError("block_rows", must, rows)
    generator = as_generator(rng)
    points, weights = np.empty((0, 0)), np.empty(0)
    n_records = n_blocks = most = 0
    for block in recut(as_stream(source).chunks(), repeat(rows)):
        n_records, n_blocks = n_records + len(block), n_blocks + 1
        found, counts = _summarise(block, np.ones(len(block)), k, runs, generator)
        points = np.vstack([points, found]) if len(points) else found
        weights = np.concatenate([weights, counts])
        most = max(most, len(points))
        if len(points) > rows - k * centers_a_round(k):
            points, weights = _summarise(points, weights, k, runs, generator)
    cluster_count(k, n_records)
    centers = kvariates(points, k, sample_weight=weights, rng=generator).centers
    return SharpSeeding(centers, n_records, n_blocks, most)


def _summarise(
    records: Float64s, weight: Float64s, k: int, runs: int, rng: np.random.Generator
) -> tuple[Float64s, Float64s]:
    """Return the centers of the best run of k-means#, and the weight nearest to each."""
    records = np.ascontiguousarray(records)
    best: tuple[float, Float64s, Float64s] | None = None
    for _ in range(runs):
        rows = kmeans_sharp(records, min(k, len(records)), sample_weight=weight, rng=rng)
        labels, _, phi = kernels.assign_nearest(records, records[rows], weight)
        if best is None or phi < best[0]:
            carried = np.bincount(labels, weights=weight, minlength=len(rows))
            best = (phi, records[rows], carried.astype(np.float64, copy=False))
    assert best is not None
    return best[1], best[2]
