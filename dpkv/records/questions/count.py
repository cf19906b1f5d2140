"""How many records are there? Asked where the number of records is private.

Proof. Under add/remove the number changes by 1: noise of scale b costs 1 / b. Under replace-one it
is public, and asking costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpkv.accounting import Neighbours, Step, laplace_step
from dpkv.records.block import Block
from dpkv.records.questions.question import NoisySums
from dpkv.types import Float64s, Integers


@dataclass(frozen=True, eq=False)
class RecordCount(NoisySums):
    """The number of records."""

    scale: float

    def step(self, neighbours: Neighbours) -> Step:
        """Return the price of one record more or less."""
        return count_step(self.scale, neighbours)

    def part(self, block: Block) -> Integers:
        """Return what the rows count."""
        return np.asarray([block.total_weight()], np.int64)

    def scales(self) -> Float64s:
        """Return the one scale."""
        return np.asarray([self.scale])


def count_step(scale: float, neighbours: Neighbours) -> Step:
    """Return the price of the number of records with such noise."""
    changed = 1 if neighbours is Neighbours.ADD_REMOVE else 0
    return laplace_step("record-count", changed, scale)
