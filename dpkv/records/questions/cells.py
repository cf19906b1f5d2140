"""How many records are in every leaf of a tree, and where in it?

Proof. The tree is public. A record is in one leaf, so adding or removing one changes the counts by
1 in L1 and replacing one by at most 2: ``changed``. Noise of scale b costs changed / b.

A record's place in its leaf is its offset from the leaf's middle, in halves of the sides, as whole
numbers, cut to an L1 norm of at most ``reach`` and rounded toward zero. Under replace-one two
leaves change by ``reach`` each, or one by twice that: changed reach over noise of scale b reach,
which is changed / b.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpkv.accounting import ROW, Neighbours, Step, Unit, laplace_step
from dpkv.records.block import Block
from dpkv.records.partition import partition_of
from dpkv.records.passes import PLACE_UNIT
from dpkv.records.questions.projection import PublicMap
from dpkv.records.questions.question import NoisySums
from dpkv.records.questions.tree import Tree
from dpkv.types import Float64s, Integers

__all__ = ["PLACE_UNIT", "CellCounts", "CellPlaces", "cells_step", "places_step", "scale_for"]


@dataclass(frozen=True, eq=False)
class CellCounts(NoisySums):
    """The number of records of every leaf."""

    space: PublicMap
    tree: Tree
    scale: float

    def step(self, neighbours: Neighbours, unit: Unit = ROW) -> Step:
        """Return the price of all counts together."""
        return cells_step(self.scale, neighbours, unit)

    def part(self, block: Block) -> Integers:
        """Return what the rows of every leaf count."""
        tree, leaves = self.tree, self.tree.leaves
        partition = partition_of(block, self.space, tree.deepest)
        return partition.weights_of(tree.paths[leaves], tree.depths[leaves])

    def scales(self) -> Float64s:
        """Return the one scale."""
        return np.asarray([self.scale])


@dataclass(frozen=True, eq=False)
class CellPlaces(NoisySums):
    """The sum of the records' places in every leaf."""

    space: PublicMap
    tree: Tree
    reach: int
    scale: float
    """For a reach of one."""

    def step(self, neighbours: Neighbours, unit: Unit = ROW) -> Step:
        """Return the price of all places together."""
        return places_step(self.scale, neighbours, unit)

    def part(self, block: Block) -> Integers:
        """Return the sums of a block."""
        partition = partition_of(block, self.space, self.tree.deepest)
        return partition.leaf_offsets(self.tree, self.reach)

    def scales(self) -> Float64s:
        """Return the one scale, for this reach."""
        return np.asarray([scale_for(self.scale, self.reach)])


def cells_step(scale: float, neighbours: Neighbours, unit: Unit = ROW) -> Step:
    """Return the price of counts with such noise."""
    return laplace_step("cell-counts", unit.changed(neighbours), scale)


def places_step(scale: float, neighbours: Neighbours, unit: Unit = ROW) -> Step:
    """Return the price of places with such noise, for a reach of one."""
    return laplace_step("cell-places", unit.changed(neighbours), scale)


def scale_for(scale: float, radius: int) -> float:
    """Return the least float that is not below ``scale`` times ``radius``."""
    product = scale * radius
    while Fraction(product) < Fraction(scale) * radius:
        product = math.nextafter(product, math.inf)
    return product
