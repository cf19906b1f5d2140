"""Rivals of dk-means++ over the same nodes: k-means|| and distributed coresets (Table 1).

Both send far more than k records to the coordinator, which then clusters what it got.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import SupportsIndex

import numpy as np

from dpkv.engine.peers import PeerDistances, Peers
from dpkv.engine.requests import CoresetSample, LocalCost, Oversample, RecordAt
from dpkv.seeding.algorithm0 import kvariates
from dpkv.types import Float64s, Floats, Indices, Progress
from dpkv.validation import as_generator, cluster_count, whole_number

_MOST_ROUNDS = 1000


@dataclass(frozen=True, eq=False)
class SharedSeeding:
    """Centers found from weighted points that nodes shared."""

    centers: Floats
    points: Float64s
    weights: Float64s
    n_rounds: int
    records_shared: int


def kmeans_parallel(
    peers: Peers,
    n_clusters: SupportsIndex,
    *,
    oversampling: float | None = None,
    n_rounds: SupportsIndex | None = None,
    rng: np.random.Generator | int | None = None,
    progress: Progress | None = None,
) -> SharedSeeding:
    """Seed by k-means|| (Bahmani et al., 2012) and recluster its candidates by k-means++.

    As in the paper's experiments, ``oversampling`` l is 2k and there are ceil(log phi_1) rounds,
    where phi_1 is the potential of the first center, unless given.
    """
    k = cluster_count(n_clusters, peers.n_records)
    generator = as_generator(rng)
    run = generator.bytes(16).hex()
    expected = 2.0 * k if oversampling is None else oversampling
    distances = PeerDistances(peers, tell_rows=True)
    phi = distances.lower(uniform_records(peers, 1, generator))
    rounds = (
        default_rounds(phi) if n_rounds is None else whole_number("rounds", n_rounds, at_least=1)
    )
    made = 0
    for number in range(1, rounds + 1):
        if phi == 0.0:
            break
        made = number
        question = Oversample(distances.centers, distances.cuts, expected / phi, run, number)
        found = np.concatenate(peers.ask_all(question))
        if len(found):
            phi = distances.lower(found)
        if progress is not None:
            progress(number / rounds)
    candidates = distances.centers
    missing = k - len(candidates)
    if missing > 0:  # few rounds, or few distinct records
        candidates = np.vstack([candidates, uniform_records(peers, missing, generator)])
    weights = peers.clusters(candidates)[1]
    return _cluster(candidates, weights, k, made, len(candidates), generator)


def default_rounds(first_potential: float) -> int:
    """Return ceil(log phi_1), at least one round."""
    if first_potential <= 1.0:
        return 1
    return min(_MOST_ROUNDS, max(1, math.ceil(math.log(first_potential))))


def coreset_seeding(
    peers: Peers,
    n_clusters: SupportsIndex,
    *,
    size: SupportsIndex | None = None,
    rng: np.random.Generator | int | None = None,
) -> SharedSeeding:
    """Seed by k-means++ on a distributed coreset (Balcan, Ehrlich and Liang, 2013).

    Every node clusters its own records and sends the cost; ``size`` samples (100 k unless given)
    are divided by the costs; nodes send records sampled by their cost, and their own centers.
    """
    k = cluster_count(n_clusters, peers.n_records)
    total = whole_number("size", 100 * k if size is None else size, at_least=1)
    generator = as_generator(rng)
    run = generator.bytes(16).hex()
    costs = np.asarray(peers.ask_all(LocalCost(k, run)))
    sizes = apportion(total, costs)
    price = float(costs.sum()) / total
    replies = peers.ask_each([CoresetSample(k, run, int(part), price) for part in sizes])
    points = np.concatenate([points for points, _ in replies])
    weights = np.concatenate([weights for _, weights in replies])
    return _cluster(points, weights, k, 2, int(sizes.sum()), generator)


def apportion(total: int, shares: Float64s) -> Indices:
    """Return whole numbers in proportion to ``shares`` that add up to ``total``."""
    if not shares.any():
        return np.zeros(len(shares), np.int64)
    exact = total * shares / shares.sum()
    parts: Indices = np.floor(exact).astype(np.int64)
    short = total - int(parts.sum())
    parts[np.argsort(parts - exact, kind="stable")[:short]] += 1
    return parts


def uniform_records(peers: Peers, number: int, rng: np.random.Generator) -> Float64s:
    """Return so many uniform records of all nodes, independently."""
    places = [peers.place(int(index)) for index in rng.integers(peers.n_records, size=number)]
    return np.stack([peers.ask(node, RecordAt(row)) for node, row in places])


def _cluster(
    points: Float64s,
    weights: Float64s,
    n_clusters: int,
    n_rounds: int,
    shared: int,
    rng: np.random.Generator,
) -> SharedSeeding:
    centers = kvariates(points, n_clusters, sample_weight=weights, rng=rng).centers
    return SharedSeeding(centers, points, weights, n_rounds, shared)
