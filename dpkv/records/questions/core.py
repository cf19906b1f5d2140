"""Where in wide bounds are the records? Two questions, before there are any cells.

Columns: every side of the space is cut into ``BINS`` equal bins, and the records in every bin of
every column are counted. Reach: around a box of the space, the records are counted by how much the
box must be stretched to hold them.

Proof. The space is public, and so are the bins. A record is in one bin of every column, so where it
is added or removed all counts together change by the number p of columns in L1, and where it is
replaced by 2 p at most: p changed. Noise of scale b costs p changed / b. The box is public once the
first question is answered. A record needs one stretch, so its counts change by ``changed``, and
noise of scale b costs changed / b. All numbers are whole, and so are the comparisons.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpkv.accounting import ROW, Neighbours, Step, Unit, laplace_step
from dpkv.records.block import Block
from dpkv.records.partition import map_points
from dpkv.records.questions.projection import PublicMap
from dpkv.records.questions.question import NoisySums
from dpkv.seeding.nearest import row_chunks
from dpkv.types import Float64s, Integers

BINS = 128
STRETCHES = (6, 8, 9, 10, 12, 16, 24, 40, 64)
PARTS = 8
"""Of a side, that stretches are in; in ascending order."""


def core_columns_step(
    scale: float, n_dimensions: int, neighbours: Neighbours, unit: Unit = ROW
) -> Step:
    """Return the price of the bins of so many columns."""
    return laplace_step("core-columns", n_dimensions * unit.changed(neighbours), scale)


def core_reach_step(scale: float, neighbours: Neighbours, unit: Unit = ROW) -> Step:
    """Return the price of the counts by stretch."""
    return laplace_step("core-reach", unit.changed(neighbours), scale)


@dataclass(frozen=True, eq=False)
class CoreColumns(NoisySums):
    """How many records are in every bin of every column."""

    space: PublicMap
    scale: float

    def step(self, neighbours: Neighbours, unit: Unit = ROW) -> Step:
        """Return the price of all bins together."""
        return core_columns_step(self.scale, self.space.n_dimensions, neighbours, unit)

    def part(self, block: Block) -> Integers:
        """Return the counts of a block."""
        space, points = self.space, map_points(block, self.space)
        width, p = space.highest - space.lowest + 1, space.n_dimensions
        counts = np.zeros(p * BINS, np.int64)
        for rows in row_chunks(len(points)):
            bins = (points[rows] - space.lowest) * BINS // width + np.arange(p) * BINS
            if block.weights.size:
                np.add.at(counts, bins.reshape(-1), np.repeat(block.weights[rows], p))
            else:
                counts += np.bincount(bins.reshape(-1), minlength=len(counts))
        return counts.reshape(p, BINS)

    def scales(self) -> Float64s:
        """Return the one scale."""
        return np.asarray([self.scale])


@dataclass(frozen=True, eq=False)
class CoreReach(NoisySums):
    """How many records a box holds, and how many more whenever it is stretched; the rest last."""

    space: PublicMap
    lower: Integers
    upper: Integers
    scale: float

    def step(self, neighbours: Neighbours, unit: Unit = ROW) -> Step:
        """Return the price of all counts together."""
        return core_reach_step(self.scale, neighbours, unit)

    def part(self, block: Block) -> Integers:
        """Return the counts of a block."""
        points = map_points(block, self.space)
        twice, sides = self.lower + self.upper, self.upper - self.lower + 1
        counts = np.zeros(len(STRETCHES) + 1, np.int64)
        for rows in row_chunks(len(points)):
            far = PARTS * np.abs(2 * points[rows].astype(np.int64) - twice)
            needed = -(-far // sides).min(axis=1)  # rounded up: the least stretch that holds it
            bins = np.searchsorted(STRETCHES, needed)
            weights = block.weights[rows] if block.weights.size else np.ones(len(bins), np.int64)
            np.add.at(counts, bins, weights)
        return counts

    def scales(self) -> Float64s:
        """Return the one scale."""
        return np.asarray([self.scale])
