"""How many records has every cluster, and what do they add up to? The questions of DPLloyd.

Proof. Fix the centers; a record's cluster is then a function of the record alone. A record adds 1
to one count, and to one sum an offset from the domain's middle of L1 norm at most radius1. So
adding or removing a record changes the counts by 1 and the sums by radius1 in L1, and replacing one
by twice that (also within a cluster: the offsets differ by at most 2 radius1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpkv import kernels
from dpkv.accounting import ROW, Neighbours, Step, Unit, laplace_step
from dpkv.grid import Grid
from dpkv.records.block import Block
from dpkv.records.questions.question import NoisySums
from dpkv.types import Float64s, Integers


def _totals(block: Block, centers: Integers) -> tuple[Integers, Integers]:
    """Return the sum of the rows of every cluster and what they count, in one pass for both."""

    def add_up() -> tuple[Integers, Integers]:
        return kernels.integer_clusters(block.points, centers, block.weights)

    return block.recall("clusters", centers.tobytes(), add_up)


@dataclass(frozen=True, eq=False)
class ClusterCounts(NoisySums):
    """The number of records of every cluster."""

    centers: Integers
    scale: float

    def step(self, neighbours: Neighbours, unit: Unit = ROW) -> Step:
        """Return the price of all counts together."""
        return cluster_counts_step(self.scale, neighbours, unit)

    def part(self, block: Block) -> Integers:
        """Return the counts of a block."""
        return _totals(block, self.centers)[1]

    def scales(self) -> Float64s:
        """Return the one scale."""
        return np.asarray([self.scale])


@dataclass(frozen=True, eq=False)
class ClusterSums(NoisySums):
    """The sum of the records' offsets from the domain's middle, for every cluster."""

    centers: Integers
    grid: Grid
    scale: float

    def step(self, neighbours: Neighbours, unit: Unit = ROW) -> Step:
        """Return the price of all sums together."""
        return cluster_sums_step(self.grid, self.scale, neighbours, unit)

    def part(self, block: Block) -> Integers:
        """Return the sums of a block."""
        sums, counts = _totals(block, self.centers)
        return np.asarray(sums - counts[:, np.newaxis] * self.grid.middle)

    def scales(self) -> Float64s:
        """Return the one scale."""
        return np.asarray([self.scale])


def cluster_counts_step(scale: float, neighbours: Neighbours, unit: Unit = ROW) -> Step:
    """Return the price of counts with such noise."""
    return laplace_step("cluster-counts", unit.changed(neighbours), scale)


def cluster_sums_step(grid: Grid, scale: float, neighbours: Neighbours, unit: Unit = ROW) -> Step:
    """Return the price of sums of offsets with such noise."""
    sensitivity = unit.changed(neighbours) * grid.radius1
    return laplace_step("cluster-sums", sensitivity, scale)
