"""How large are the numbers of every column, roughly? A histogram of binary exponents.

A number goes to the bin of its sign and binary exponent: [2^(e-1), 2^e) and its mirror image, with
one bin around zero. Exponents are read off the floats exactly.

Proof. The bins are fixed. A record adds 1 to one bin of every column, so all counts together have
L1 sensitivity d times 1 for add/remove and d times 2 for replace-one: d changed. Noise of scale b
costs d changed / b.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpkv.accounting import ROW, Neighbours, Step, Unit, laplace_step
from dpkv.records.block import Block
from dpkv.records.questions.question import NoisySums
from dpkv.seeding.nearest import row_chunks
from dpkv.types import Float64s, Floats, Int64s, Integers
from dpkv.validation import LARGEST_MAGNITUDE

SMALLEST_EXPONENT = -20
"""Numbers below 2^-20 in size count as zero."""
_LARGEST_EXPONENT = 54  # of 2^53 = 0.5 * 2^54
_PER_SIGN = _LARGEST_EXPONENT - SMALLEST_EXPONENT
N_MAGNITUDES = 2 * _PER_SIGN + 1


@dataclass(frozen=True, eq=False)
class MagnitudeHistograms(NoisySums):
    """How many numbers of every column are in every bin of sign and size."""

    n_features: int
    scale: float

    def step(self, neighbours: Neighbours, unit: Unit = ROW) -> Step:
        """Return the price of the histograms of all columns together."""
        changed = unit.changed(neighbours) * self.n_features
        return laplace_step("column-histograms", changed, self.scale)

    def part(self, block: Block) -> Integers:
        """Return the histograms of a block, whose rows are in the user's units."""
        counts = np.zeros((self.n_features, N_MAGNITUDES), np.int64)
        for rows in row_chunks(block.n_rows):
            weights = block.weights[rows] if block.weights.size else None
            counts += _histograms(block.points[rows], weights)
        return counts

    def scales(self) -> Float64s:
        """Return the one scale."""
        return np.asarray([self.scale])


def bin_of(values: Floats) -> Int64s:
    """Return the bin of every number, from the largest negatives to the largest positives."""
    _, exponents = np.frexp(np.asarray(values, dtype=np.float64))
    sizes = np.clip(exponents.astype(np.int64) - SMALLEST_EXPONENT, 0, _PER_SIGN)
    return np.where(values < 0, -sizes, np.where(values > 0, sizes, 0)) + _PER_SIGN


def magnitude_edges(number: int) -> tuple[float, float]:
    """Return the lower and upper edge of a bin, within the numbers that tables may hold."""
    size = abs(number - _PER_SIGN)
    outer = min(math.ldexp(1.0, size + SMALLEST_EXPONENT), LARGEST_MAGNITUDE)
    if size == 0:
        return -outer, outer
    inner = math.ldexp(1.0, size - 1 + SMALLEST_EXPONENT)
    return (inner, outer) if number > _PER_SIGN else (-outer, -inner)


def _histograms(chunk: Floats, weights: Int64s | None) -> Int64s:
    bins = bin_of(chunk) + np.arange(chunk.shape[1]) * N_MAGNITUDES
    counts = np.zeros(chunk.shape[1] * N_MAGNITUDES, np.int64)
    if weights is None:
        counts += np.bincount(bins.reshape(-1), minlength=len(counts))
    else:
        np.add.at(counts, bins.reshape(-1), np.repeat(weights, chunk.shape[1]))
    return counts.reshape(chunk.shape[1], N_MAGNITUDES)
