"""What are the centers of blocks of records, added up? GUPT's question.

The records, rows or persons with all their rows, are cut into l blocks at random. k-means runs on
the rows of each by their weights, without privacy; its centers are sorted by the first column so
that they line up, rounded to the grid and clipped to the domain. The sum over blocks gets discrete
Laplace noise.

Proof. The partition, and the randomness of every block's k-means, are fixed by ``seed``, which is
drawn without looking at the records. Replacing one record changes one block, hence k grid points by
at most diam1 each: the summed integers have L1 sensitivity k diam1, whatever k-means does inside a
block. Noise of scale b costs k diam1 / b. For replace-one neighbours, with m public. Persons are
numbered by their first rows; that the order in which they come tells nothing is in
``docs/proofs/persons.md``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpkv.accounting import ROW, Neighbours, Step, Unit, laplace_step
from dpkv.errors import UsageError
from dpkv.grid import Grid
from dpkv.noise import Entropy
from dpkv.records.block import Block
from dpkv.records.questions.question import Question, Records, log_laplace
from dpkv.seeding.instances import kmeans_plusplus
from dpkv.seeding.potentials import lloyd
from dpkv.types import Float64s, Integers

_LLOYD_STEPS = 20


def block_centers_step(n_clusters: int, grid: Grid, scale: float) -> Step:
    """Return the price of the one sum that noise is added to."""
    return laplace_step("block-centers", n_clusters * grid.diam1, scale)


@dataclass(frozen=True, eq=False)
class BlockCenters(Question):
    """The sum over blocks of their k-means centers."""

    n_clusters: int
    grid: Grid
    n_blocks: int
    scale: float
    seed: int
    """Public coins: which record is in which block, and how every block's k-means starts."""

    def step(self, neighbours: Neighbours, unit: Unit = ROW) -> Step:  # noqa: ARG002
        """Return the price of the sum."""
        if neighbours is not Neighbours.REPLACE_ONE:
            raise UsageError("the centres of blocks are priced for replace-one neighbours only.")
        return block_centers_step(self.n_clusters, self.grid, self.scale)

    def answer(self, records: Records, entropy: Entropy) -> Integers:
        """Return the noisy sum."""
        return entropy.add_laplace(self.exact(records), self.scale)

    def log_probability(self, records: Records, answer: Integers) -> float:
        """Return the log-probability of the noise that makes this answer."""
        return log_laplace(np.abs(answer - self.exact(records)), self.scale)

    def exact(self, records: Records) -> Integers:
        """Return the sum without noise. Private."""
        rng = np.random.default_rng(self.seed)
        order = rng.permutation(records.n_records)
        sums = np.zeros((self.n_clusters, self.grid.n_features), np.int64)
        # A block has randomness of its own, so that what one does cannot change another.
        parts = zip(np.array_split(order, self.n_blocks), rng.spawn(self.n_blocks), strict=True)
        for rows, block_rng in parts:
            sums += self.centers_of(records.take(np.sort(rows)), block_rng)
        return sums

    def centers_of(self, block: Block, rng: np.random.Generator) -> Integers:
        """Return k grid points for a block, in order of the first column.

        A block with fewer rows than centers fills up with the domain's middle.
        """
        values: Float64s = block.points.astype(np.float64)
        share = None
        if block.weights.size:
            counts = block.weights > 0
            values, share = values[counts], block.weights[counts].astype(np.float64)
        found = min(self.n_clusters, len(values))
        centers = np.tile(self.grid.middle, (self.n_clusters, 1))
        if found:
            seeds, _ = kmeans_plusplus(values, found, sample_weight=share, rng=rng)
            ends = lloyd(values, seeds, sample_weight=share, max_iterations=_LLOYD_STEPS).centers
            centers[:found] = self.grid.clip(np.rint(ends).astype(np.int64))
        return np.asarray(centers[np.lexsort(centers.T[::-1])])
