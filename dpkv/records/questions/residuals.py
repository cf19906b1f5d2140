"""How far are records from their centers, and in which direction? The questions of a Lloyd step.

Every record belongs to its nearest center, in exact integer distance.

Proof. Fix the centers; a record's cluster and residual are then functions of the record alone. It
is in one bin of one cluster, so all histograms together change by 1 in L1 where it is added or
removed, and by 2 where it is replaced: ``changed``. Noise of scale b costs changed / b.

Fix the radii, which are public. A record adds to the sum of its cluster j a vector of L1 norm at
most r_j: rounding toward zero keeps it there. Divided by r_j, all sums together change by at most 1
in L1 where it is added or removed, and by at most 2 where it is replaced, within a cluster or
across two. Noise of scale b r_j on the entries of cluster j is noise of scale b on the quotients.
So the sums cost changed / b. With Gaussian noise norms are L2, and the squared change is at most 1
or 4: a replacement within a cluster moves its quotient by up to 2, and one across two clusters by
sqrt(2). They cost changed^2 / (2 b^2) in zCDP.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpkv import kernels
from dpkv.accounting import ROW, Neighbours, Step, Unit, gaussian_step, laplace_step
from dpkv.grid import Grid
from dpkv.records.block import Block
from dpkv.records.partition import map_points
from dpkv.records.passes import norm_histograms, residual_sums
from dpkv.records.questions.cells import scale_for
from dpkv.records.questions.projection import PublicMap
from dpkv.records.questions.question import NoisySums
from dpkv.scratch import empty_beside
from dpkv.types import Float64s, Integers

_FIRST_INEXACT = 2**53  # up to here floats hold whole numbers exactly
_PARTS = 16  # fixed, so that memory does not depend on the number of threads


@dataclass(frozen=True, eq=False)
class Clusters:
    """Which center a record belongs to: the nearest, on the grid or where cells are."""

    centers: Integers
    grid: Grid
    space: PublicMap | None = None
    """None on the grid itself."""

    def labels(self, block: Block) -> NDArray[np.int32]:
        """Return the nearest center of every row, exactly. Private."""
        key = self.centers.tobytes(), None if self.space is None else self.space.key
        return block.recall("labels", key, lambda: self._labelled(block))

    def _labelled(self, block: Block) -> NDArray[np.int32]:
        points = block.points if self.space is None else map_points(block, self.space)
        labels = empty_beside(block.points, (len(points),), np.int32)
        small = self._farthest_squared() < _FIRST_INEXACT
        by_feature = np.ascontiguousarray(self.centers.T, dtype=np.float64 if small else np.int64)
        n_blocks, work = kernels.block_count(len(points)), points.size * len(self.centers)
        kernels.over_blocks(kernels.nearest_labels, n_blocks, work, points, by_feature, labels)
        return labels

    def _farthest_squared(self) -> int:
        """Return more than any squared distance of a record from a center: public facts alone."""
        space = self.space
        lowest, highest = self.grid.box if space is None else (space.lowest, space.highest)
        low = np.minimum(lowest, self.centers.min(axis=0)).tolist()
        high = np.maximum(highest, self.centers.max(axis=0)).tolist()
        return sum((int(b) - int(a)) ** 2 for a, b in zip(low, high, strict=True))


@dataclass(frozen=True, eq=False)
class NormHistograms(NoisySums):
    """How many residuals of every cluster are in every bin of norms."""

    clusters: Clusters
    centers: Integers
    """What residuals are measured from, in full dimension."""
    edges: Integers
    """The upper edges of the bins; the last bin takes whatever is beyond."""
    squared: bool
    """Whether norms are L2; they are L1 otherwise."""
    scale: float

    def step(self, neighbours: Neighbours, unit: Unit = ROW) -> Step:
        """Return the price of all histograms together."""
        return norms_step(self.scale, neighbours, unit)

    def part(self, block: Block) -> Integers:
        """Return the histograms of a block."""
        counts = np.zeros((_PARTS, len(self.centers), len(self.edges)), np.int64)
        labels = self.clusters.labels(block)
        arrays = block.points, block.weights, labels, self.centers, self.edges, self.squared, counts
        kernels.over_blocks(norm_histograms, _PARTS, block.points.size, *arrays, _PARTS)
        return np.asarray(counts.sum(axis=0))

    def scales(self) -> Float64s:
        """Return the one scale."""
        return np.asarray([self.scale])


@dataclass(frozen=True, eq=False)
class ResidualSums(NoisySums):
    """The sum of the residuals of every cluster, each cut to the cluster's radius."""

    clusters: Clusters
    centers: Integers
    radii: Integers
    gaussian: bool
    """Whether the noise is Gaussian and norms are L2."""
    scale: float
    """For a radius of one grid step."""

    @property
    def is_gaussian(self) -> bool:
        """Whether the noise is discrete Gaussian."""
        return self.gaussian

    def step(self, neighbours: Neighbours, unit: Unit = ROW) -> Step:
        """Return the price of all sums together."""
        return residuals_step(self.scale, neighbours, unit, gaussian=self.gaussian)

    def part(self, block: Block) -> Integers:
        """Return the sums of a block."""
        sums = np.zeros((_PARTS, *self.centers.shape), np.int64)
        labels = self.clusters.labels(block)
        arrays = block.points, block.weights, labels, self.centers, self.radii, self.gaussian, sums
        kernels.over_blocks(residual_sums, _PARTS, block.points.size, *arrays, _PARTS)
        return np.asarray(sums.sum(axis=0))

    def scales(self) -> Float64s:
        """Return one scale a cluster."""
        return np.asarray([[scale_for(self.scale, int(radius))] for radius in self.radii])


def norms_step(scale: float, neighbours: Neighbours, unit: Unit = ROW) -> Step:
    """Return the price of histograms with such noise."""
    return laplace_step("residual-norms", unit.changed(neighbours), scale)


def residuals_step(
    scale: float, neighbours: Neighbours, unit: Unit = ROW, *, gaussian: bool
) -> Step:
    """Return the price of sums of residuals with such noise."""
    name, changed = "residual-sums", unit.changed(neighbours)
    if gaussian:
        return gaussian_step(name, changed**2, scale)
    return laplace_step(name, changed, scale)
