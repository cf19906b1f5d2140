"""The synthetic families of the paper's experiments. Every one is a function of a seed.

    hyperrectangles   clusters that are uniform in random boxes (Tables 4 to 6)
    peers             the same, held by peers between which records have moved (Figure 4)
    ball              uniform in the unit ball (the figure of heat maps)
    mixture           Gaussian clusters
    positive          log-normal clusters, for distortions that live on positive numbers

The paper does not print the edges of its boxes. Here they are uniform up to ``longest_edge``, in
the unit cube; at 0.25 the spread of the peers grows about 27 times by p = 50 %, and the paper says
that it grew more than 20 times.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpkv.errors import ParameterError
from dpkv.types import Float64s, Indices
from dpkv.validation import positive_finite, whole_number

LARGEST_CLUSTER = 1000
LONGEST_EDGE = 0.25


@dataclass(frozen=True, eq=False)
class Labelled:
    """Records, and the cluster or peer that each belongs to, numbered from 0."""

    points: Float64s
    labels: Indices


def hyperrectangle(
    n_features: int, rng: np.random.Generator, *, rows: int, longest_edge: float = LONGEST_EDGE
) -> Float64s:
    """Return one cluster: uniform in a box with random edges, somewhere in the unit cube."""
    edges = rng.uniform(0.0, longest_edge, size=n_features)
    corner = rng.uniform(0.0, 1.0 - edges)
    return np.asarray(corner + edges * rng.uniform(size=(rows, n_features)))


def hyperrectangles(
    n_records: int,
    n_features: int,
    rng: np.random.Generator,
    *,
    largest_cluster: int = LARGEST_CLUSTER,
    longest_edge: float = LONGEST_EDGE,
) -> Labelled:
    """Return clusters of 1 to ``largest_cluster`` records, until there are ``n_records``."""
    n = whole_number("rows", n_records, at_least=1)
    _check_edge(longest_edge)
    clusters: list[Float64s] = []
    while (held := sum(map(len, clusters))) < n:
        size = min(int(rng.integers(1, largest_cluster + 1)), n - held)
        clusters.append(hyperrectangle(n_features, rng, rows=size, longest_edge=longest_edge))
    labels = np.repeat(np.arange(len(clusters)), [len(cluster) for cluster in clusters])
    return Labelled(np.concatenate(clusters), labels)


def _check_edge(longest_edge: float) -> None:
    if not 0.0 < positive_finite("edge", longest_edge) <= 1.0:
        raise ParameterError("edge", "at most 1, the unit cube's", longest_edge)


def move_records(held: Labelled, share: float, rng: np.random.Generator) -> Labelled:
    """Return the table after every record has moved, with that probability, to another peer.

    The other peer is uniform among the others; a peer that has lost all its records is gone.
    """
    if not 0.0 <= share <= 1.0:
        raise ParameterError("move", "between 0 and 1", share)
    n_peers = int(held.labels.max()) + 1
    leaves = rng.random(len(held.labels)) < share
    steps = rng.integers(1, max(2, n_peers), size=len(held.labels))
    labels = np.where(leaves, (held.labels + steps) % n_peers, held.labels)
    return Labelled(held.points, np.unique(labels, return_inverse=True)[1])


def ball(n_records: int, n_features: int, rng: np.random.Generator) -> Float64s:
    """Return records that are uniform in the unit ball around 0."""
    points = rng.standard_normal((whole_number("rows", n_records, at_least=1), n_features))
    radius = rng.random(len(points)) ** (1.0 / n_features)
    points *= (radius / np.linalg.norm(points, axis=1))[:, np.newaxis]
    return points


def mixture(
    n_records: int, n_features: int, n_clusters: int, rng: np.random.Generator, *, sd: float = 0.05
) -> Labelled:
    """Return Gaussian clusters of that deviation around uniform points of the unit cube."""
    n = whole_number("rows", n_records, at_least=1)
    places = rng.uniform(size=(n_clusters, n_features))
    labels = rng.integers(n_clusters, size=n)
    noise = positive_finite("sd", sd) * rng.standard_normal((n, n_features))
    return Labelled(places[labels] + noise, labels)


def positive(
    n_records: int, n_features: int, n_clusters: int, rng: np.random.Generator, *, sd: float = 0.2
) -> Labelled:
    """Return log-normal clusters: positive everywhere, with medians between 0.2 and 2."""
    n = whole_number("rows", n_records, at_least=1)
    places = np.exp(rng.uniform(np.log(0.2), np.log(2.0), size=(n_clusters, n_features)))
    labels = rng.integers(n_clusters, size=n)
    noise = positive_finite("sd", sd) * rng.standard_normal((n, n_features))
    return Labelled(places[labels] * np.exp(noise), labels)
