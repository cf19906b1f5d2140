"""Bounds that are found privately: a noisy histogram of every column on a logarithmic scale.

A number goes to the bin of its sign and binary exponent: [2^(e-1), 2^e) and its mirror image, with
one bin around zero. Every count gets discrete Laplace noise. A column's bounds are the outer edges
of the outermost bins whose noisy count is above a threshold that empty bins rarely reach; where no
bin is, those of the fullest one.

Proof "sensitivity". The bins are fixed. A record adds 1 to one bin of every column, so all counts
together have L1 sensitivity d times 1 for add/remove and d times 2 for replace-one. Everything
after the noise, the choice of bins included, is post-processing. Binary exponents are read off the
floats exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from dpkv.domain import Box
from dpkv.kernels import Floats
from dpkv.mechanisms.mechanism import RECORDS, Neighbours, Noise, Step, cost_of, laplace_step
from dpkv.noise import Entropy, Int64s, smallest_scale
from dpkv.validation import LARGEST_MAGNITUDE, float_below, positive_finite, whole_number

SMALLEST_EXPONENT = -20
"""Numbers below 2^-20 in size count as zero."""
_LARGEST_EXPONENT = 54  # of 2^53 = 0.5 * 2^54
_PER_SIGN = _LARGEST_EXPONENT - SMALLEST_EXPONENT
N_BINS = 2 * _PER_SIGN + 1
_ABOVE_ALL_COUNTS = 2.0**64
_FALSE_BINS = 1e-3  # how often some empty bin of a table may pass; decides accuracy, not privacy


@dataclass(frozen=True)
class FoundBounds:
    """Bounds from noisy counts, and the columns (from 0) in which no bin passed the threshold."""

    box: Box
    unsure: tuple[int, ...]


@dataclass(frozen=True)
class PrivateBounds:
    """Per-column bounds from noisy counts of logarithmic bins."""

    n_features: int
    neighbours: Neighbours
    noise_scale: float

    def __post_init__(self) -> None:
        whole_number("n_features", self.n_features, at_least=1)
        positive_finite("noise_scale", self.noise_scale)

    @classmethod
    def calibrated(cls, eps: Decimal, *, n_features: int, neighbours: Neighbours) -> PrivateBounds:
        """Return the mechanism that costs at most ``eps``."""
        changed = neighbours.changed_records * n_features
        return cls(n_features, neighbours, smallest_scale(changed, float_below(eps)))

    @property
    def threshold(self) -> int:
        """The noisy count above which a bin is taken to hold records."""
        bins = N_BINS * self.n_features
        reached = self.noise_scale * math.log(bins / (2.0 * _FALSE_BINS))
        return math.ceil(min(reached, _ABOVE_ALL_COUNTS))

    def steps(self) -> tuple[Step, ...]:
        """Return the one histogram of all columns."""
        changed = self.neighbours.changed_records * self.n_features
        return (laplace_step("bounds: histograms of all columns", changed, self.noise_scale),)

    def cost(self) -> Decimal:
        """Return what finding the bounds costs, rounded up."""
        return cost_of(self.steps())

    def noises(self) -> tuple[Noise, ...]:
        """Return the noise of the counts."""
        return (Noise("each bin of each column's histogram", self.noise_scale, RECORDS),)

    def parameters(self) -> dict[str, Any]:
        """Return the description as plain JSON values."""
        return {"n_features": self.n_features, "noise_scale": self.noise_scale}

    def run(
        self, chunks: Iterable[Floats], entropy: Entropy, *, scaled: bool = True
    ) -> FoundBounds:
        """Return the box whose bounds were found in the records' chunks."""
        counts = np.zeros((self.n_features, N_BINS), np.int64)
        for chunk in chunks:
            counts += _histograms(chunk)
        noisy = entropy.add_laplace(counts, self.noise_scale)
        bounds = [self._column_bounds(column) for column in noisy]
        lower, upper = zip(*bounds, strict=True)
        unsure = np.flatnonzero((noisy <= self.threshold).all(axis=1))
        box = Box(lower, upper, scaled=scaled, source="private")
        return FoundBounds(box, tuple(unsure.tolist()))

    def _column_bounds(self, noisy: Int64s) -> tuple[float, float]:
        taken = np.flatnonzero(noisy > self.threshold)
        if not taken.size:
            taken = np.asarray([noisy.argmax()])
        return bin_edges(int(taken[0]))[0], bin_edges(int(taken[-1]))[1]


def bin_of(values: Floats) -> Int64s:
    """Return the bin of every number, from the largest negatives to the largest positives."""
    _, exponents = np.frexp(np.asarray(values, dtype=np.float64))
    sizes = np.clip(exponents.astype(np.int64) - SMALLEST_EXPONENT, 0, _PER_SIGN)
    return np.where(values < 0, -sizes, np.where(values > 0, sizes, 0)) + _PER_SIGN


def bin_edges(number: int) -> tuple[float, float]:
    """Return the lower and upper edge of a bin, within the numbers that tables may hold."""
    size = abs(number - _PER_SIGN)
    outer = min(math.ldexp(1.0, size + SMALLEST_EXPONENT), LARGEST_MAGNITUDE)
    if size == 0:
        return -outer, outer
    inner = math.ldexp(1.0, size - 1 + SMALLEST_EXPONENT)
    return (inner, outer) if number > _PER_SIGN else (-outer, -inner)


def _histograms(chunk: Floats) -> Int64s:
    bins = bin_of(chunk)
    columns = np.arange(chunk.shape[1]) * N_BINS
    counts = np.bincount((bins + columns).reshape(-1), minlength=chunk.shape[1] * N_BINS)
    return counts.astype(np.int64).reshape(chunk.shape[1], N_BINS)
