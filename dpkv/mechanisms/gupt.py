"""GUPT's k-means (Mohan et al., SIGMOD 2012): average the centers of many blocks, add noise once.

The shuffled records are cut into l = floor(m^0.4) blocks, and one question asks for the sum of the
blocks' k-means centers (``records/questions/blocks.py`` has the proof). The noisy sum is divided by
l afterwards, which is post-processing, as rounding and clipping are.

All of eps goes to the noise: bounds are known, or were paid for separately. In the original two
thirds of it went to estimating ranges.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np

from dpkv.accounting import ROW, Neighbours, Step, Unit
from dpkv.accounting.exact import float_below
from dpkv.grid import Grid
from dpkv.mechanisms.clusters import BLOCKS_AVERAGED
from dpkv.mechanisms.mechanism import (
    GRID_STEPS,
    Mechanism,
    Noise,
    Outcome,
    Proof,
    Terms,
    positive_or_pointless,
)
from dpkv.noise import smallest_scale
from dpkv.records.questions import Ask, BlockCenters, block_centers_step
from dpkv.validation import MOST_RECORDS, whole_number

_SEED_BITS = 62


def block_number(n_records: int) -> int:
    """Return floor(m^0.4) in exact arithmetic: the largest l with l^5 <= m^2."""
    square = n_records * n_records
    number = max(1, round(math.exp(0.4 * math.log(n_records))))
    while number**5 > square:
        number -= 1
    while (number + 1) ** 5 <= square:
        number += 1
    return number


@dataclass(frozen=True)
class Gupt(Mechanism):
    """Sample and aggregate: noise on the average of the blocks' k-means centers."""

    noise_scale: float
    n_records: int
    n_blocks: int

    name: ClassVar[str] = "gupt"
    title: ClassVar[str] = "GUPT: averaged k-means of blocks, all of eps on the noise"
    why: ClassVar[str] = "one record changes one block"
    relations: ClassVar[tuple[Neighbours, ...]] = (Neighbours.REPLACE_ONE,)
    knows_units: ClassVar[bool] = True
    note: ClassVar[str] = (
        "bounds are known, so all of eps goes to the noise; in the original two thirds of it go to "
        "estimating ranges"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("n_records", self.n_records, at_least=1, at_most=MOST_RECORDS)
        whole_number("n_blocks", self.n_blocks, at_least=1, at_most=self.n_records)
        positive_or_pointless(self.noise_scale, self.grid)

    @classmethod
    def for_terms(cls, terms: Terms) -> Gupt:
        """Return the mechanism that costs at most eps."""
        assert terms.n_records is not None
        return cls.calibrate(
            terms.eps,
            n_records=terms.n_records,
            n_clusters=terms.n_clusters,
            grid=terms.grid,
            unit=terms.unit,
        )

    @classmethod
    def calibrate(
        cls, eps: Decimal, *, n_records: int, n_clusters: int, grid: Grid, unit: Unit = ROW
    ) -> Gupt:
        """Return the mechanism that costs at most ``eps``."""
        return cls(
            n_clusters=n_clusters,
            grid=grid,
            neighbours=Neighbours.REPLACE_ONE,
            noise_scale=smallest_scale(n_clusters * grid.diam1, float_below(eps)),
            n_records=n_records,
            n_blocks=block_number(n_records),
            unit=unit,
        )

    @property
    def proof(self) -> Proof:
        """One block changes."""
        return "sensitivity"

    @property
    def n_records_needed(self) -> int:
        """m, which decides the number of blocks."""
        return self.n_records

    def schedule(self) -> Iterator[Step]:
        """Return the one sum that noise is added to."""
        yield block_centers_step(self.n_clusters, self.grid, self.noise_scale)

    def noises(self) -> tuple[Noise, ...]:
        """Return the noise of the sum; the average has ``n_blocks`` times less."""
        return (Noise("block-sum-coordinate", self.noise_scale, GRID_STEPS),)

    def parameters(self) -> dict[str, Any]:
        """Return noise, blocks and the number of records."""
        return {
            "noise_scale": self.noise_scale,
            "n_records": self.n_records,
            "n_blocks": self.n_blocks,
        }

    def _predicted_error(self, n_shares: int) -> float:  # noqa: ARG002
        """The noise counts over the blocks; every further cluster loses half of the domain.

        Clusters line up only where there are few.
        """
        lost = 1.0 - 0.5 ** (self.n_clusters - 1)
        return self._noise_share(self.n_blocks) ** 2 + lost

    @property
    def untold(self) -> str | None:
        """Averages over blocks count no records of a cluster."""
        return BLOCKS_AVERAGED

    def run(self, ask: Ask) -> Outcome:
        """Ask for the sum over blocks, and divide it."""
        seed = int(ask.coins.integers(1 << _SEED_BITS))
        noisy = ask(BlockCenters(self.n_clusters, self.grid, self.n_blocks, self.noise_scale, seed))
        return Outcome(np.floor_divide(noisy + self.n_blocks // 2, self.n_blocks))
