"""Centers that do little are moved to clusters that are too wide: post-processing, and free.

A step's noisy histograms tell how many records every cluster has, and how far these are from its
center. Without center j its records would go to the next one, at a cost of about their number times
the squared distance of the two. A wide cluster that is cut in two gains a part of its spread. Where
the gain is larger, j goes to the wide cluster: both centers are put at either side of its middle,
in a direction of public coins, and the steps that follow pull them to where the records are.

Nothing here hears of the records but through the histograms and centers that were answered.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dpkv.grid import Grid
from dpkv.mechanisms.synopsis.refine import Estimate, StepNoise, bin_edges
from dpkv.types import Float64s, Integers

SETTLING_STEPS = 2
"""So many steps come last, without a move before them but the one before the first."""
_GAIN = 0.3  # of its spread, that a wide cluster gains by being cut in two
_STANDS_OUT = 2.0  # standard deviations of a bin
_WORTH_CUTTING = 20.0  # standard deviations of a bin, that a wide cluster's records exceed
_OF_L1 = 1.5  # d |x|_2^2 over |x|_1^2 for clusters that are round: pi / 2
_APART = 0.5  # of a cluster's standard deviation, from its middle to where the halves' centers go


@dataclass(frozen=True, eq=False)
class Spread:
    """What noisy histograms say of every cluster."""

    counts: Float64s
    squares: Float64s
    """Squared distances to the cluster's own mean, added up, in grid steps."""
    least: float
    """Records of a cluster that can be told from noise."""


def estimate_spread(
    histogram: Integers, before: Estimate, after: Estimate, noise: StepNoise, grid: Grid
) -> Spread:
    """Return what histograms around the centers before a step say of the clusters after it."""
    sd = math.sqrt(2.0) * noise.norm_scale
    seen = np.where(histogram > _STANDS_OUT * sd, histogram, 0).astype(np.float64)
    edges = bin_edges(grid, squared=noise.gaussian)
    middles = (np.concatenate([[0], edges[:-1]]) + edges) / 2.0
    shrink = 1.0 if noise.gaussian else _OF_L1 / grid.n_features
    counts, squares = seen.sum(axis=1), seen @ middles**2 * shrink
    moved = ((after.centers - before.centers).astype(np.float64) ** 2).sum(axis=1)
    return Spread(counts, np.maximum(squares - counts * moved, 0.0), _WORTH_CUTTING * sd)


def move_idle_centers(
    estimate: Estimate, spread: Spread, grid: Grid, coins: np.random.Generator
) -> Estimate:
    """Return the centers with those moved that gain by it, each cluster being touched once."""
    centers = estimate.centers.astype(np.float64)
    touched = np.zeros(len(centers), np.bool_)
    counts, variance = estimate.counts.copy(), estimate.variance.copy()
    while (pair := _best_move(centers, spread, touched)) is not None:
        idle, wide = pair
        radius = math.sqrt(spread.squares[wide] / spread.counts[wide])
        way = coins.normal(size=centers.shape[1])
        way *= _APART * radius / max(float(np.linalg.norm(way)), 1e-9)
        centers[idle], centers[wide] = centers[wide] + way, centers[wide] - way
        both = [idle, wide]
        counts[both] = max(1.0, spread.counts[wide] / 2.0)
        variance[both] = max(radius * radius, float(variance.max()))
        touched[both] = True
    return replace(
        estimate,
        centers=grid.clip(np.rint(centers).astype(np.int64)),
        counts=counts,
        count_variance=np.where(touched, counts**2, estimate.count_variance),
        variance=variance,
    )


def _best_move(centers: Float64s, spread: Spread, touched: np.ndarray) -> tuple[int, int] | None:
    """Return the center that is missed least and the cluster that is widest, if a move pays."""
    if touched.sum() > len(centers) - 2:
        return None
    between = ((centers[:, np.newaxis] - centers) ** 2).sum(axis=2)
    np.fill_diagonal(between, np.inf)
    missed = np.where(touched, np.inf, spread.counts * between.min(axis=1))
    idle = int(missed.argmin())
    gains = np.where(touched, 0.0, _GAIN * spread.squares)
    gains[idle] = 0.0
    wide = int(gains.argmax())
    pays = gains[wide] > missed[idle] and spread.counts[wide] > spread.least
    return (idle, wide) if pays else None
