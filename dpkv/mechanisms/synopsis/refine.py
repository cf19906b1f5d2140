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

Proof. Fix the centers; a record's cluster and residual are then functions of the record alone. It
is in one bin of one cluster, so all histograms together change by 1 in L1 where it is added or
removed, and by 2 where it is replaced. Fix the radii, which are paid for. A record adds to the sum
of its cluster j a vector of L1 norm at most r_j: rounding toward zero keeps it there. Divided by
r_j, all sums together change by at most 1 in L1 where it is added or removed, and by at most 2
where it is replaced, within a cluster or across two. Noise of scale ``sum_scale`` r_j on the
entries of cluster j is noise of scale ``sum_scale`` on the quotients. So a step costs changed /
norm_scale + changed / sum_scale, with changed = 1 or 2. With Gaussian noise norms are L2, and the
squared change is at most 1 or 4: a replacement within a cluster moves its quotient by up to 2, and
one across two clusters by sqrt(2). All else is post-processing."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dpkv import kernels
from dpkv.grid import Grid
from dpkv.kernels import Float64s, Integers
from dpkv.mechanisms.synopsis.passes import nearest_labels, norm_histograms, residual_sums
from dpkv.noise import Entropy

BINS = 16
_PARTS = 16  # fixed, so that memory does not depend on the number of threads
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


def bin_edges(grid: Grid, *, squared: bool) -> Integers:
    """Return the upper edges of the bins of norms: the diameter, and down by sqrt(2) each."""
    widest = grid.diam2_squared if squared else grid.diam1**2
    edges = [math.isqrt(widest >> shift) + (shift == 0) for shift in range(BINS)]
    return np.asarray(edges[::-1], dtype=np.int64)


def labels_of(points: Integers, centers: Integers) -> Integers:
    """Return the nearest center of every record, exactly."""
    labels = np.empty(len(points), np.int32)
    by_feature = np.ascontiguousarray(centers.T, dtype=np.int64)
    work = points.size * len(centers)
    kernels.over_blocks(nearest_labels, _PARTS, work, points, by_feature, labels, _PARTS)
    return labels


def lloyd_step(
    points: Integers,
    labels: Integers,
    before: Estimate,
    noise: StepNoise,
    grid: Grid,
    entropy: Entropy,
) -> Estimate:
    """Return the centers after one private step."""
    edges = bin_edges(grid, squared=noise.gaussian)
    histogram = noisy_histogram(points, labels, before.centers, edges, noise, entropy)
    counts, count_variance = _combined(histogram, before, noise)
    known = replace(before, counts=counts, count_variance=count_variance)
    columns = grid.n_features if noise.gaussian else grid.n_features**2  # of norm^2 a column
    radii, pulled = chosen_radii(histogram, counts, edges, noise, before.variance, columns)
    return moved_centers(points, labels, known, radii, pulled, noise, grid, entropy)


def moved_centers(
    points: Integers,
    labels: Integers,
    before: Estimate,
    radii: Integers,
    pulled: Float64s,
    noise: StepNoise,
    grid: Grid,
    entropy: Entropy,
) -> Estimate:
    """Return the centers moved by their noisy mean residuals; ``radii`` must be private already.

    ``pulled`` is the squared error a column that cutting residuals may have caused.
    """
    counts = before.counts
    sums = _noisy_sums(points, labels, before.centers, radii, noise, entropy)
    of_noise = (noise.sum_sd() * radii / counts) ** 2 + pulled
    trust = before.variance / (before.variance + of_noise)
    moved = before.centers + (noise.stretch * trust / counts)[:, np.newaxis] * sums
    left = np.maximum(trust * of_noise + _LEFT * before.variance, _LEAST_VARIANCE)
    centers = grid.clip(np.rint(moved).astype(np.int64))
    return replace(before, centers=centers, variance=left)


def noisy_histogram(
    points: Integers,
    labels: Integers,
    centers: Integers,
    edges: Integers,
    noise: StepNoise,
    entropy: Entropy,
) -> Integers:
    """Return how many residuals of every cluster are in every bin of norms, noisy."""
    counts = np.zeros((_PARTS, len(centers), len(edges)), np.int64)
    arrays = points, labels, centers, edges, noise.gaussian, counts
    kernels.over_blocks(norm_histograms, _PARTS, points.size, *arrays, _PARTS)
    return entropy.add_laplace(counts.sum(axis=0), noise.norm_scale)


def _combined(histogram: Integers, before: Estimate, noise: StepNoise) -> tuple[Float64s, Float64s]:
    """Return the clusters' counts, from the histogram and from before, by inverse variance."""
    own = 2.0 * noise.norm_scale**2 * histogram.shape[1]
    known = before.count_variance + (_COUNT_DRIFT * before.counts) ** 2
    precision = 1.0 / own + 1.0 / known
    counts = (histogram.sum(axis=1) / own + before.counts / known) / precision
    return np.maximum(counts, 1.0), 1.0 / precision


def chosen_radii(
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


def _noisy_sums(
    points: Integers,
    labels: Integers,
    centers: Integers,
    radii: Integers,
    noise: StepNoise,
    entropy: Entropy,
) -> Integers:
    sums = np.zeros((_PARTS, *centers.shape), np.int64)
    arrays = points, labels, centers, radii, noise.gaussian, sums
    kernels.over_blocks(residual_sums, _PARTS, points.size, *arrays, _PARTS)
    exact, noisy = sums.sum(axis=0), np.empty(centers.shape, np.int64)
    add = entropy.add_gaussian if noise.gaussian else entropy.add_laplace
    for radius in np.unique(radii):
        own = radii == radius
        noisy[own] = add(exact[own], scale_for(noise.sum_scale, int(radius)))
    return noisy


def scale_for(scale: float, radius: int) -> float:
    """Return the least float that is not below ``scale`` times ``radius``."""
    product = scale * radius
    while Fraction(product) < Fraction(scale) * radius:
        product = math.nextafter(product, math.inf)
    return product
