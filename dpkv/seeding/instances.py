"""Named instances of Algorithm 0."""

from __future__ import annotations

import math
from typing import SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from dpkv.seeding.algorithm0 import kvariates
from dpkv.types import Floats, Indices


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
    """Seed by Forgy's rule: every center an independent draw by weight, without D^2 bias.

    It is Algorithm 0 at gamma = infinity, so a record may come twice, as in Forgy-DP. Returns the
    centers and the rows they came from. Nothing about the result is private.
    """
    seeding = kvariates(X, n_clusters, sample_weight=sample_weight, gamma=math.inf, rng=rng)
    return seeding.centers, seeding.indices


ALGORITHMS = {"kmeans++": kmeans_plusplus, "forgy": forgy}
"""The named instances that ``dpkv seed`` offers."""
