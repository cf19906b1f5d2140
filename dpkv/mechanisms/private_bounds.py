"""Bounds that are found privately: a noisy histogram of every column on a logarithmic scale.

A column's bounds are the outer edges of the outermost bins whose noisy count is above a threshold
that empty bins rarely reach; where no bin is, nothing is known of that column, and there are no
bounds. The histograms are one question (``records/questions/extremes.py`` has the proof), and the
choice of bins is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from dpkv.accounting import ROW, Neighbours, Step, Unit, cost_of
from dpkv.accounting.exact import float_below
from dpkv.domain import Box
from dpkv.mechanisms.mechanism import RECORDS, Noise
from dpkv.noise import smallest_scale
from dpkv.records.questions import N_MAGNITUDES, Ask, MagnitudeHistograms, magnitude_edges
from dpkv.validation import positive_finite, whole_number

_ABOVE_ALL_COUNTS = 2.0**64
_FALSE_BINS = 1e-3  # how often some empty bin of a table may pass; decides accuracy, not privacy


@dataclass(frozen=True)
class FoundBounds:
    """Bounds from noisy counts, and the columns (from 0) in which no bin passed the threshold."""

    box: Box | None
    """None where some column is unsure."""
    unsure: tuple[int, ...]


@dataclass(frozen=True)
class PrivateBounds:
    """Per-column bounds from noisy counts of logarithmic bins."""

    n_features: int
    neighbours: Neighbours
    noise_scale: float
    unit: Unit = ROW

    def __post_init__(self) -> None:
        whole_number("n_features", self.n_features, at_least=1)
        positive_finite("noise_scale", self.noise_scale)

    @classmethod
    def calibrate(
        cls, eps: Decimal, *, n_features: int, neighbours: Neighbours, unit: Unit = ROW
    ) -> PrivateBounds:
        """Return the mechanism that costs at most ``eps``."""
        changed = unit.changed(neighbours) * n_features
        return cls(n_features, neighbours, smallest_scale(changed, float_below(eps)), unit)

    @property
    def threshold(self) -> int:
        """The noisy count above which a bin is taken to hold records."""
        bins = N_MAGNITUDES * self.n_features
        reached = self.noise_scale * math.log(bins / (2.0 * _FALSE_BINS))
        return math.ceil(min(reached, _ABOVE_ALL_COUNTS))

    @property
    def question(self) -> MagnitudeHistograms:
        """The one question: histograms of all columns."""
        return MagnitudeHistograms(self.n_features, self.noise_scale)

    def schedule(self) -> Iterator[Step]:
        """Return the price of the one question."""
        yield self.question.step(self.neighbours, self.unit)

    def steps(self) -> tuple[Step, ...]:
        """Return the one histogram of all columns."""
        return tuple(self.schedule())

    def cost(self) -> Decimal:
        """Return what finding the bounds costs, rounded up."""
        return cost_of(self.steps())

    def noises(self) -> tuple[Noise, ...]:
        """Return the noise of the counts."""
        return (Noise("column-histogram-bin", self.noise_scale, RECORDS),)

    def parameters(self) -> dict[str, Any]:
        """Return the description as plain JSON values."""
        return {"n_features": self.n_features, "noise_scale": self.noise_scale}

    def run(self, ask: Ask, *, scaled: bool = True) -> FoundBounds:
        """Return the bounds that the noisy counts show, if they do."""
        noisy = ask(self.question)
        taken = [np.flatnonzero(column > self.threshold).tolist() for column in noisy]
        unsure = tuple(column for column, bins in enumerate(taken) if not bins)
        if unsure:
            return FoundBounds(None, unsure)
        lower = tuple(magnitude_edges(bins[0])[0] for bins in taken)
        upper = tuple(magnitude_edges(bins[-1])[1] for bins in taken)
        return FoundBounds(Box(lower, upper, scaled=scaled, source="private"), ())
