"""Private Lloyd steps in full dimension, on residuals that are cut short.

A step labels every record by its nearest center, in exact integer distance. Then

1. it counts the records of every cluster by the norm of their residual, in bins whose edges are
   public, and adds noise;
2. from the noisy histogram, and nothing else of the records, it takes the radius of every cluster
   that promises the least error: a short one has less noise and more bias;
3. it sums the residuals of every cluster, each cut to the cluster's radius, and adds noise of scale
   ``sum_scale`` times the radius;
4. it moves every center by its noisy mean residual, weighted against what was known before by
   inverse variance.

Counts of norms and sums of residuals are two questions (``records/questions/residuals.py`` has the
proof); all else is post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dpkv.grid import Grid
from dpkv.records.questions import Ask, Clusters, NormHistograms, ResidualSums
from dpkv.types import Float64s, Integers

BINS = 16
_OWN_HISTOGRAM = 20.0  # standard deviations of a bin from which on a cluster has a histogram itself
_LEFT = 0.05  # of the variance, for what the model of it leaves out
_COUNT_DRIFT = 0.1  # of a count: clusters change between the synopsis and the step
_LEAST_VARIANCE = 1e-6  # squared grid steps


@dataclass(frozen=True)
class StepNoise:
    """The noise of a step, and how its sums are used."""

    norm_scale: float
    sum_scale: float
    """For a radius of one grid step."""
    gaussian: bool
    bias: float
    """How much worse a bias of a center is than noise of the same size."""
    skew: float
    """How far cutting residuals pulls a center, of the length that is cut off."""
    stretch: float
    """How far beyond the mean a center goes."""

    def sum_sd(self) -> float:
        """Return the standard deviation of a sum's noise for a radius of one step."""
        return self.sum_scale if self.gaussian else math.sqrt(2.0) * self.sum_scale


@dataclass(frozen=True, eq=False)
class Estimate:
    """Where the centers are thought to be."""

    centers: Integers
    counts: Float64s
    """Records of every cluster."""
    count_variance: Float64s
    variance: Float64s
    """Of every coordinate of a center, in squared grid steps."""
    norms: Integers | None = None
    """The noisy histograms of the last step's residual norms, whose edges are ``bin_edges``."""
    core: Fraction = Fraction(1)
    """Of the squared diameter: what the part of the domain has in which the cells are."""


def bin_edges(grid: Grid, *, squared: bool, core: Fraction = Fraction(1)) -> Integers:
    """Return the upper edges of the bins of norms: the diameter, and down by sqrt(2) each.

    It is the diameter of the core, where there is one: residuals are cut to that at least.
    """
    widest = math.ceil((grid.diam2_squared if squared else grid.diam1**2) * core)
    edges = [math.isqrt(widest >> shift) + (shift == 0) for shift in range(BINS)]
    return np.asarray(edges[::-1], dtype=np.int64)


def lloyd_step(
    ask: Ask, clusters: Clusters, before: Estimate, noise: StepNoise, grid: Grid
) -> Estimate:
    """Return the centers after one private step."""
    histogram = count_norms(ask, clusters, before, noise, grid)
    return step_by_norms(ask, clusters, before, histogram, noise, grid)


def count_norms(
    ask: Ask, clusters: Clusters, before: Estimate, noise: StepNoise, grid: Grid
) -> Integers:
    """Return the noisy histograms of residual norms, cluster by cluster."""
    edges = bin_edges(grid, squared=noise.gaussian, core=before.core)
    asked = NormHistograms(clusters, before.centers, edges, noise.gaussian, noise.norm_scale)
    histogram: Integers = ask(asked)
    return histogram


def step_by_norms(
    ask: Ask,
    clusters: Clusters,
    before: Estimate,
    histogram: Integers,
    noise: StepNoise,
    grid: Grid,
) -> Estimate:
    """Return the centers moved, with radii that follow from the noisy histograms."""
    edges = bin_edges(grid, squared=noise.gaussian, core=before.core)
    counts, count_variance = _combined(histogram, before, noise)
    known = replace(before, counts=counts, count_variance=count_variance, norms=histogram)
    columns = grid.n_features if noise.gaussian else grid.n_features**2  # of norm^2 a column
    radii, pulled = choose_radii(histogram, counts, edges, noise, before.variance, columns)
    return move_centers(ask, clusters, known, radii, pulled, noise, grid)


def move_centers(
    ask: Ask,
    clusters: Clusters,
    before: Estimate,
    radii: Integers,
    pulled: Float64s,
    noise: StepNoise,
    grid: Grid,
) -> Estimate:
    """Return the centers moved by their noisy mean residuals; ``radii`` must be private already.

    ``pulled`` is the squared error a column that cutting residuals may have caused.
    """
    counts = before.counts
    sums = ask(ResidualSums(clusters, before.centers, radii, noise.gaussian, noise.sum_scale))
    of_noise = (noise.sum_sd() * radii / counts) ** 2 + pulled
    trust = before.variance / (before.variance + of_noise)
    moved = before.centers + (noise.stretch * trust / counts)[:, np.newaxis] * sums
    left = np.maximum(trust * of_noise + _LEFT * before.variance, _LEAST_VARIANCE)
    centers = grid.clip(np.rint(moved).astype(np.int64))
    return replace(before, centers=centers, variance=left)


def _combined(histogram: Integers, before: Estimate, noise: StepNoise) -> tuple[Float64s, Float64s]:
    """Return the clusters' counts, from the histogram and from before, by inverse variance."""
    own = 2.0 * noise.norm_scale**2 * histogram.shape[1]
    known = before.count_variance + (_COUNT_DRIFT * before.counts) ** 2
    precision = 1.0 / own + 1.0 / known
    counts = (histogram.sum(axis=1) / own + before.counts / known) / precision
    return np.maximum(counts, 1.0), 1.0 / precision


def choose_radii(
    histogram: Integers,
    counts: Float64s,
    edges: Integers,
    noise: StepNoise,
    variance: Float64s,
    columns: int,
) -> tuple[Integers, Float64s]:
    """Return the radius of every cluster, one of the edges, of least predicted squared error.

    And that error's part which is due to cutting: it pulls skewed clusters to where they are dense.
    """
    sd = math.sqrt(2.0) * noise.norm_scale
    pooled = _without_noise(histogram.sum(axis=0), sd * math.sqrt(len(histogram)))
    middles = (np.concatenate([[0], edges[:-1]]) + edges) / 2.0
    kept_share = np.minimum(1.0, edges[:, np.newaxis] / np.maximum(middles, 0.5))
    cut_off = np.maximum(middles - edges[:, np.newaxis], 0.0)
    radii, pulled = np.empty(len(histogram), np.int64), np.empty(len(histogram))
    for cluster, own in enumerate(histogram):
        alone = counts[cluster] > _OWN_HISTOGRAM * sd
        norms = _without_noise(own, sd) if alone else pooled
        lost = 1.0 - kept_share @ norms / norms.sum()
        of_noise = (noise.sum_sd() * edges / counts[cluster]) ** 2
        pull = (noise.skew * (cut_off @ norms) / norms.sum()) ** 2 / columns
        best = (of_noise + noise.bias * variance[cluster] * lost**2 + pull).argmin()
        radii[cluster], pulled[cluster] = edges[best], pull[best]
    return radii, pulled


def _without_noise(histogram: Integers, sd: float) -> Float64s:
    """Return bins that stand out of their noise; all alike where none does."""
    found = np.where(histogram > 2.0 * sd, histogram, 0).astype(np.float64)
    return found if found.any() else np.ones(len(histogram))
