"""Sizes, errors and radii of the clusters of a synopsis: post-processing of its answers.

Sizes come from the noisy counts of the cells. A cell that lies wholly with one center gives it all
of its count; one that a border crosses is shared by where its points lie, and how it is shared is
uncertain. So a size is a function of the published synopsis and the centers, and anyone can check
it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from dpkv.grid import Grid
from dpkv.kernels import assign_nearest, two_nearest
from dpkv.mechanisms.clusters import ClusterEstimates, fit_total, radii_from_norms
from dpkv.mechanisms.synopsis import refine
from dpkv.mechanisms.synopsis.cells import PrivateCells, leaf_points
from dpkv.types import Float64s, Integers

_SAMPLES = 64  # points of a cell that a border crosses
_MOST_DISTANCES = 1 << 28
_AT_ONCE = 1 << 17  # coordinates of such points: they stay in a cache
_UNEVEN = 0.1  # variance of a share of a crossed cell, over share times the rest of it
_LEAST_SQUARE = 1.0  # squared grid steps
_FROM_CELLS = 2  # dimensions up to which cells are fine enough to tell distances
_CELLS_ERROR, _NORMS_ERROR = 0.06, 0.02  # of a potential told by cells, or by histograms of norms
_STEPS_ERROR = 0.1  # by histograms around centers that still move


def estimate_by_steps(
    before: refine.Estimate,
    after: refine.Estimate,
    noise: refine.StepNoise,
    grid: Grid,
    total: float | None,
) -> ClusterEstimates:
    """Return what Lloyd steps alone say of the clusters: there are no cells.

    Counts are of clusters around the centers before the last step. How much a step changes is told
    by the counts before.
    """
    assert after.norms is not None
    sizes, left = fit_total(after.counts, after.count_variance, total)
    own = np.square(after.counts - before.counts) - after.count_variance - before.count_variance
    drift = (np.maximum(own, 0.0) + max(float(own.mean()), 0.0)) / 2.0
    radii, radius_sd = radii_from_norms(
        after.norms,
        refine.bin_edges(grid, squared=noise.gaussian),
        sizes=sizes,
        squared=noise.gaussian,
        n_features=grid.n_features,
        bin_sd=np.sqrt(2.0) * noise.norm_scale,
    )
    sd = np.repeat(np.sqrt(after.variance)[:, np.newaxis], grid.n_features, axis=1)
    size_sd = np.sqrt(left + drift)
    return ClusterEstimates(sd, sizes, size_sd, radii, radius_sd, _STEPS_ERROR)


@dataclass(frozen=True, eq=False)
class CellShares:
    """How much of a leaf each center has, for the pairs of which there is some."""

    leaves: Integers
    centers: Integers
    shares: Float64s
    distances: Float64s
    """Mean squared distance of that part of the leaf from its center, times its share."""


def estimate_clusters(
    cells: PrivateCells,
    after: refine.Estimate,
    noise: refine.StepNoise,
    edges: Integers,
    total: float | None,
) -> ClusterEstimates:
    """Return what the cells and the last Lloyd step say of the clusters around its centers."""
    k, d = after.centers.shape
    found = share_cells(cells, after.centers)
    sizes, size_sd = sizes_of(cells, found, k, total)
    if d <= _FROM_CELLS and cells.space.matrix is None:
        radii, radius_sd = _radii_of(cells, found, k, sizes)
        model_error = _CELLS_ERROR
    else:
        assert after.norms is not None
        model_error = _NORMS_ERROR
        radii, radius_sd = radii_from_norms(
            after.norms,
            edges,
            sizes=sizes,
            squared=noise.gaussian,
            n_features=d,
            bin_sd=np.sqrt(2.0) * noise.norm_scale,
        )
    sd = np.repeat(np.sqrt(after.variance)[:, np.newaxis], d, axis=1)
    return ClusterEstimates(sd, sizes, size_sd, radii, radius_sd, model_error)


def sizes_of(
    cells: PrivateCells, found: CellShares, n_clusters: int, total: float | None
) -> tuple[Float64s, Float64s]:
    """Return the clusters' sizes from the noisy counts of their cells, and standard errors."""
    counts = cells.counts[found.leaves].astype(np.float64)
    of_count = 2.0 * cells.count_scale**2
    sizes = _by_center(found, found.shares * counts, n_clusters)
    noise = _by_center(found, found.shares**2 * of_count, n_clusters)
    crossed = found.shares * (1.0 - found.shares) * np.maximum(counts, 0.0) ** 2
    borders = _UNEVEN * _by_center(found, crossed, n_clusters)
    sizes, noise = fit_total(sizes, noise, total)
    return sizes, np.sqrt(noise + borders)


def share_cells(cells: PrivateCells, centers: Integers) -> CellShares:
    """Share the leaves among centers on the grid, each by where its points lie."""
    tree, leaves = cells.tree, cells.tree.leaves
    half = (tree.upper[leaves] - tree.lower[leaves]) / 2.0
    middle = leaf_points(cells)[0]
    reach = half - np.abs(middle - (tree.upper[leaves] + tree.lower[leaves]) / 2.0)
    heads = cells.space.apply(centers).astype(np.float64)
    within = np.square(reach).sum(axis=1)
    if len(heads) == 1:
        labels, nearest = assign_nearest(middle, heads)[:2]
        crossed = np.zeros(len(leaves), np.bool_)
    else:
        labels, nearest, second = two_nearest(middle, heads)
        crossed = np.sqrt(second) - np.sqrt(nearest) < 2.0 * np.sqrt(within)
    whole, some = np.flatnonzero(~crossed), np.flatnonzero(crossed)
    parts = _share_crossed(middle[some], reach[some], heads)
    return CellShares(
        np.concatenate([whole, some[parts.leaves]]),
        np.concatenate([labels[whole].astype(np.int64), parts.centers]),
        np.concatenate([np.ones(len(whole)), parts.shares]),
        np.concatenate([nearest[whole] + within[whole] / 3.0, parts.distances]),
    )


def _share_crossed(middle: Float64s, reach: Float64s, heads: Float64s) -> CellShares:
    """Share cells by evenly spread points of theirs."""
    from scipy.stats import qmc  # noqa: PLC0415 (slow to import)

    k, p = heads.shape
    n_samples = _SAMPLES
    while n_samples > 1 and len(middle) * n_samples * k > _MOST_DISTANCES:
        n_samples //= 2
    spread = qmc.Sobol(p, scramble=False).random(n_samples) * 2.0 - 1.0 + 1.0 / n_samples
    at_once = max(1, _AT_ONCE // (n_samples * p))
    parts = [_share_some(np.empty((0, p)), np.empty((0, p)), heads, spread)]
    for start in range(0, len(middle), at_once):
        own = slice(start, start + at_once)
        part = _share_some(middle[own], reach[own], heads, spread)
        parts.append(replace(part, leaves=part.leaves + start))
    names = [field.name for field in fields(CellShares)]
    return CellShares(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def _share_some(middle: Float64s, reach: Float64s, heads: Float64s, spread: Float64s) -> CellShares:
    k, (n_samples, p) = len(heads), spread.shape
    points = middle[:, np.newaxis, :] + reach[:, np.newaxis, :] * spread
    labels, nearest, _ = assign_nearest(points.reshape(-1, p), heads)
    pairs = np.repeat(np.arange(len(middle)), n_samples) * k + labels
    found, place = np.unique(pairs, return_inverse=True)
    shares = np.bincount(place, minlength=len(found)) / n_samples
    distances = np.bincount(place, nearest, len(found)) / n_samples
    return CellShares(found // k, found % k, shares, distances)


def _radii_of(
    cells: PrivateCells, found: CellShares, n_clusters: int, sizes: Float64s
) -> tuple[Float64s, Float64s]:
    """Return root mean squared distances from the cells, less what their width adds (Sheppard)."""
    tree, leaves = cells.tree, cells.tree.leaves[found.leaves]
    sides = (tree.upper[leaves] - tree.lower[leaves]).astype(np.float64)
    width = np.square(sides).sum(axis=1) / 6.0
    each = found.distances - found.shares * width
    counts = cells.counts[found.leaves]
    totals = _by_center(found, each * counts, n_clusters)
    noise = _by_center(found, each**2 * 2.0 * cells.count_scale**2, n_clusters)
    size = np.maximum(sizes, 1.0)
    radii = np.sqrt(np.maximum(totals / size, _LEAST_SQUARE))
    return radii, np.sqrt(noise) / size / (2.0 * radii)


def _by_center(found: CellShares, amounts: Float64s, n_clusters: int) -> Float64s:
    return np.asarray(np.bincount(found.centers, amounts, n_clusters), dtype=np.float64)
