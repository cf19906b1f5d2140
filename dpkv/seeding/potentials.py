"""Potential, assignment, the noise terms of Theorem 1 (expected potential), and its bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpkv import kernels
from dpkv.distortions import SQUARED_EUCLIDEAN, Distortion, SquaredEuclidean
from dpkv.errors import ParameterError
from dpkv.seeding.algorithm0 import kvariates
from dpkv.seeding.densities import Density
from dpkv.seeding.nearest import row_chunks
from dpkv.types import Float64s, Floats
from dpkv.validation import (
    as_generator,
    as_records,
    as_weights,
    cluster_count,
    non_negative_finite,
    whole_number,
)


def assign(
    data: ArrayLike, centers: ArrayLike, *, distortion: Distortion = SQUARED_EUCLIDEAN
) -> NDArray[np.int32]:
    """Return the index of each record's nearest center (the first of equals)."""
    records = as_records(data)
    return _nearest(records, _as_centers(centers, records), distortion)[0]


def potential(
    data: ArrayLike,
    centers: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    distortion: Distortion = SQUARED_EUCLIDEAN,
) -> float:
    """Return phi(A; C), the (weighted) sum of distortions to the nearest center."""
    records = as_records(data)
    weight = as_weights("sample_weight", sample_weight, len(records))
    centers = _as_centers(centers, records)
    if isinstance(distortion, SquaredEuclidean):
        return kernels.clusters(records, centers, weight)[2]
    distances = _nearest(records, centers, distortion)[1]
    return float(distances.sum() if weight is None else distances @ weight)


def _as_centers(centers: ArrayLike, records: Floats) -> Floats:
    array = as_records(centers)
    if array.shape[1] != records.shape[1]:
        raise ParameterError("centers", f"{records.shape[1]} columns wide", array.shape[1])
    return array


def _nearest(
    records: Floats, centers: Floats, distortion: Distortion
) -> tuple[NDArray[np.int32], Floats]:
    if isinstance(distortion, SquaredEuclidean):
        return kernels.assign_nearest(records, centers)[:2]
    distortion.check(records)
    distortion.check(centers)
    labels = np.empty(len(records), np.int32)
    distances = np.empty(len(records))
    for rows in row_chunks(len(records)):
        table = np.stack([distortion.to_center(records[rows], center) for center in centers])
        labels[rows] = table.argmin(axis=0)
        distances[rows] = table.min(axis=0)
    return labels, distances


@dataclass(frozen=True, eq=False)
class LloydResult:
    """Where Lloyd's iterations ended."""

    centers: Floats
    potential: float
    n_iterations: int


def lloyd(
    data: ArrayLike,
    centers: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    max_iterations: SupportsIndex = 100,
    tolerance: float = 1e-6,
    progress: Callable[[float], None] | None = None,
) -> LloydResult:
    """Move centers to their clusters' means until the potential falls by less than ``tolerance``.

    The tolerance is relative. A center that has no record keeps its place. Works in one pass an
    iteration and keeps nothing for a record, so memory-mapped tables stay on disk.
    """
    records = as_records(data)
    weight = as_weights("sample_weight", sample_weight, len(records))
    end = lloyd_iterations(
        lambda current: kernels.clusters(records, current, weight),
        _as_centers(centers, records).astype(np.float64),
        max_iterations=max_iterations,
        tolerance=tolerance,
        progress=progress,
    )
    return replace(end, centers=end.centers.astype(records.dtype))


Clusters = Callable[[Float64s], tuple[Float64s, Float64s, float]]
"""Centers to the sum of records and the weight of each cluster, and the potential."""


def lloyd_iterations(
    clusters: Clusters,
    centers: Float64s,
    *,
    max_iterations: SupportsIndex = 100,
    tolerance: float = 1e-6,
    progress: Callable[[float], None] | None = None,
) -> LloydResult:
    """Run ``lloyd`` on records that are known by their cluster sums alone, wherever they are."""
    most = whole_number("max_iterations", max_iterations, at_least=0)
    tolerance = non_negative_finite("tolerance", tolerance)
    current = centers
    sums, masses, phi = clusters(current)
    done = 0
    while done < most:
        done += 1
        kept = masses[:, np.newaxis] > 0
        moved = np.divide(sums, masses[:, np.newaxis], out=current.copy(), where=kept)
        sums, masses, fallen = clusters(moved)
        if fallen > phi:  # float rounding at the fixed point
            break
        gain, phi, current = phi - fallen, fallen, moved
        if progress is not None:
            progress(done / most)
        if gain <= tolerance * phi:
            break
    return LloydResult(current, phi, done)


@dataclass(frozen=True, eq=False)
class OptimumEstimate:
    """An estimate of phi_opt from above: the best potential that restarts of Lloyd found."""

    potential: float
    centers: Floats
    restarts: int
    label: str = "estimate (best of Lloyd restarts; the true optimum may be lower)"


def estimate_optimum(
    data: ArrayLike,
    n_clusters: SupportsIndex,
    *,
    sample_weight: ArrayLike | None = None,
    restarts: SupportsIndex = 10,
    rng: np.random.Generator | int | None = None,
) -> OptimumEstimate:
    """Estimate phi_opt by ``restarts`` runs of k-means++ followed by Lloyd's iterations."""
    records = as_records(data)
    k = cluster_count(n_clusters, len(records))
    runs = whole_number("restarts", restarts, at_least=1)
    generator = as_generator(rng)
    best: LloydResult | None = None
    for _ in range(runs):
        seeds = kvariates(records, k, sample_weight=sample_weight, rng=generator).centers
        result = lloyd(records, seeds, sample_weight=sample_weight)
        if best is None or result.potential < best.potential:
            best = result
    assert best is not None
    return OptimumEstimate(best.potential, best.centers, runs)


@dataclass(frozen=True)
class NoiseTerms:
    """phi_bias and phi_var of Theorem 1, relative to a set of (optimal) centers."""

    bias: float
    variance: float


def noise_terms(
    data: ArrayLike,
    optimal_centers: ArrayLike,
    density: Density,
    *,
    sample_weight: ArrayLike | None = None,
) -> NoiseTerms:
    """Return sum ||mu_a - c_opt(a)||^2 and sum tr Sigma_a, each record counted by its weight."""
    records = as_records(data)
    centers = _as_centers(optimal_centers, records)
    weight = as_weights("sample_weight", sample_weight, len(records))
    labels = kernels.assign_nearest(records, centers)[0]
    moments = density.moments(records)
    bias = variance = 0.0
    for rows in row_chunks(len(records)):
        gaps = moments.means(rows).astype(np.float64) - centers[labels[rows]]
        bias += _weighted_sum(np.einsum("ij,ij->i", gaps, gaps), weight, rows)
        variance += _weighted_sum(moments.traces(rows), weight, rows)
    return NoiseTerms(bias, variance)


def _weighted_sum(values: Float64s, weight: Float64s | None, rows: slice) -> float:
    return float(values.sum() if weight is None else values @ weight[rows])


def expected_potential_bound(
    n_clusters: SupportsIndex,
    optimum: float,
    *,
    bias: float | None = None,
    variance: float = 0.0,
    stretching: float = 0.0,
) -> float:
    """Return Theorem 1's bound on E[phi]: (2 + log k) ((6 + 4 eta) phi_opt + 2 bias + 2 variance).

    ``bias`` defaults to ``optimum``, its value for densities centred on the records. With an
    *estimated* optimum the result is an estimate of the bound, not the bound.
    """
    k = whole_number("n_clusters", n_clusters, at_least=1)
    optimum = non_negative_finite("optimum", optimum)
    bias = optimum if bias is None else non_negative_finite("bias", bias)
    variance = non_negative_finite("variance", variance)
    eta = non_negative_finite("stretching", stretching)
    return (2.0 + math.log(k)) * ((6.0 + 4.0 * eta) * optimum + 2.0 * bias + 2.0 * variance)
