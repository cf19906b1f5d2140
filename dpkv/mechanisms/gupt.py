"""GUPT's k-means (Mohan et al., SIGMOD 2012): average the centers of many blocks, add noise once.

The shuffled records are cut into l = floor(m^0.4) blocks. k-means runs on each without privacy; its
centers are sorted by the first column so that they line up, rounded to the grid and clipped to the
domain. The sum over blocks gets discrete Laplace noise, and is divided by l afterwards.

Proof "sensitivity". The partition does not depend on the records' values. Replacing one record
changes one block, hence k grid points by at most diam1 each: the summed integers have L1
sensitivity k diam1, whatever k-means does inside a block. Noise of scale b costs k diam1 / b.
Dividing by l, rounding and clipping are post-processing.

All of eps goes to the noise: bounds are known, or were paid for separately. In the original two
thirds of it went to estimating ranges.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np

from dpkv.grid import Grid
from dpkv.kernels import Integers
from dpkv.mechanisms.kvariates import NEEDS_PUBLIC_M
from dpkv.mechanisms.mechanism import (
    GRID_STEPS,
    Mechanism,
    Neighbours,
    Noise,
    Proof,
    Step,
    laplace_step,
    positive_or_pointless,
    refuse_add_remove,
)
from dpkv.noise import Entropy, smallest_scale
from dpkv.seeding.instances import kmeans_plusplus
from dpkv.seeding.potentials import lloyd
from dpkv.validation import float_below, whole_number

_LLOYD_STEPS = 20


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

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_add_remove(self.name, self.neighbours, NEEDS_PUBLIC_M)
        whole_number("n_records", self.n_records, at_least=1)
        whole_number("n_blocks", self.n_blocks, at_least=1)
        positive_or_pointless(self.noise_scale, self.grid)

    @classmethod
    def calibrated(cls, eps: Decimal, *, n_records: int, n_clusters: int, grid: Grid) -> Gupt:
        """Return the mechanism that costs at most ``eps``."""
        return cls(
            n_clusters=n_clusters,
            grid=grid,
            neighbours=Neighbours.REPLACE_ONE,
            noise_scale=smallest_scale(n_clusters * grid.diam1, float_below(eps)),
            n_records=n_records,
            n_blocks=block_number(n_records),
        )

    @property
    def proof(self) -> Proof:
        """One block changes."""
        return "sensitivity"

    @property
    def n_records_needed(self) -> int:
        """m, which decides the number of blocks."""
        return self.n_records

    def steps(self) -> tuple[Step, ...]:
        """Return the one sum that noise is added to."""
        name = f"the sum of the centres of {self.n_blocks} blocks"
        return (laplace_step(name, self.n_clusters * self.grid.diam1, self.noise_scale),)

    def noises(self) -> tuple[Noise, ...]:
        """Return the noise of the sum; the average has ``n_blocks`` times less."""
        where = f"each coordinate of the sum over {self.n_blocks} blocks"
        return (Noise(where, self.noise_scale, GRID_STEPS),)

    def parameters(self) -> dict[str, Any]:
        """Return noise, blocks and the number of records."""
        return {
            "noise_scale": self.noise_scale,
            "n_records": self.n_records,
            "n_blocks": self.n_blocks,
        }

    def _run(self, points: Integers, entropy: Entropy) -> Integers:
        rng = entropy.generator()
        order = rng.permutation(len(points))
        sums = np.zeros((self.n_clusters, self.grid.n_features), np.int64)
        # A block has randomness of its own, so that what one does cannot change another.
        blocks = zip(np.array_split(order, self.n_blocks), rng.spawn(self.n_blocks), strict=True)
        for rows, block_rng in blocks:
            sums += self._block_centers(points[np.sort(rows)], block_rng)
        noisy = entropy.add_laplace(sums, self.noise_scale)
        return np.floor_divide(noisy + self.n_blocks // 2, self.n_blocks)

    def _block_centers(self, block: Integers, rng: np.random.Generator) -> Integers:
        """Return k grid points for a block, in order of the first column.

        A block with fewer records than centers, which depends on public numbers alone, fills up
        with the domain's middle.
        """
        found = min(self.n_clusters, len(block))
        values = block.astype(np.float64)
        seeds, _ = kmeans_plusplus(values, found, rng=rng)
        ends = lloyd(values, seeds, max_iterations=_LLOYD_STEPS).centers
        centers = np.tile(self.grid.middle, (self.n_clusters, 1))
        centers[:found] = self.grid.clip(np.rint(ends).astype(np.int64))
        return np.asarray(centers[np.lexsort(centers.T[::-1])])
