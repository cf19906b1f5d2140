"""Named instances of Algorithm 0."""

from __future__ import annotations

from typing import SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from dpkv.kernels import Floats, Indices
from dpkv.seeding.algorithm0 import Seeding, kvariates
from dpkv.validation import as_generator, as_records, as_weights, cluster_count


def kmeans_plusplus(
    X: ArrayLike,  # noqa: N803 (scikit-learn's name)
    n_clusters: SupportsIndex,
    *,
    sample_weight: ArrayLike | None = None,
    rng: np.random.Generator | int | None = None,
) -> tuple[Floats, Indices]:
    """Seed by k-means++: identity probe, Dirac density.

    Draws from the same distribution as ``sklearn.cluster.kmeans_plusplus(n_local_trials=1)``.
    Returns the centers and the rows they came from. The centers *are* records: nothing about the
    result is private.
    """
    seeding = kvariates(X, n_clusters, sample_weight=sample_weight, rng=rng)
    return seeding.centers, seeding.indices


def forgy(
    X: ArrayLike,  # noqa: N803
    n_clusters: SupportsIndex,
    *,
    sample_weight: ArrayLike | None = None,
    rng: np.random.Generator | int | None = None,
) -> tuple[Floats, Indices]:
    """Seed by Forgy's rule: k distinct records, uniformly or by weight, without D^2 bias.

    It is Algorithm 0 with gamma -> infinity, drawn without replacement. When fewer than k records
    have a positive weight, the rest are drawn uniformly from the others.
    """
    records = as_records(X)
    k = cluster_count(n_clusters, len(records))
    weight = as_weights("sample_weight", sample_weight, len(records))
    generator = as_generator(rng)
    if weight is None:
        indices = generator.choice(len(records), size=k, replace=False, shuffle=True)
    else:
        indices = _weighted_without_replacement(weight, k, generator)
    return records[indices].copy(), indices.astype(np.int64)


def _weighted_without_replacement(
    weight: np.ndarray[tuple[int], np.dtype[np.float64]], k: int, rng: np.random.Generator
) -> Indices:
    """Draw one after the other in proportion to the weights left (exponential races)."""
    arrival = rng.exponential(size=len(weight))
    with np.errstate(divide="ignore"):
        order = np.lexsort((arrival, arrival / weight))
    return order[:k].astype(np.int64)


ALGORITHMS = {"kmeans++": kmeans_plusplus, "forgy": forgy}
"""The named instances that ``dpkv seed`` offers."""

__all__ = ["ALGORITHMS", "Seeding", "forgy", "kmeans_plusplus"]
