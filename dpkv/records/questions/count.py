"""What do all records weigh? Asked where that is private.

Proof. A unit of privacy weighs between 0 and its W shares, one for a row. Under add/remove the sum
changes by at most W: noise of scale b costs W / b. Under replace-one two weights in that range
differ by at most W; where all units weigh exactly W the sum is public, and asking costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpkv.accounting import ROW, Neighbours, Step, Unit, laplace_step
from dpkv.records.block import Block
from dpkv.records.questions.question import NoisySums
from dpkv.types import Float64s, Integers


@dataclass(frozen=True, eq=False)
class RecordCount(NoisySums):
    """What all rows weigh: their number, where each weighs one."""

    scale: float

    def step(self, neighbours: Neighbours, unit: Unit = ROW) -> Step:
        """Return the price of one unit more or less, or in the place of another."""
        return count_step(self.scale, neighbours, unit)

    def part(self, block: Block) -> Integers:
        """Return what the rows count."""
        return np.asarray([block.total_weight()], np.int64)

    def scales(self) -> Float64s:
        """Return the one scale."""
        return np.asarray([self.scale])


def count_step(scale: float, neighbours: Neighbours, unit: Unit = ROW) -> Step:
    """Return the price of the sum with such noise."""
    return laplace_step(
        "record-count", unit.shares if is_total_private(neighbours, unit) else 0, scale
    )


def is_total_private(neighbours: Neighbours, unit: Unit) -> bool:
    """Tell whether what all records weigh together is private."""
    return neighbours is Neighbours.ADD_REMOVE or not unit.even
