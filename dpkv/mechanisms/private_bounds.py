"""Bounds that are found privately: a noisy histogram of every column on a logarithmic scale.

A column is found where the noisy count of a bin, or of four neighbours, is above a threshold that
empty bins rarely reach; where none is, nothing is known of that column, and there are no bounds.
Bins that stand out are not all: where records are few in many bins, none shows them. So from the
outermost one the bounds go on

    while the next two bins hold more, together, than noise would mostly make of nothing;
    as many powers of two further as a tail that falls as it did would need (at most four);
    to the other side of zero as well, where the bins there hold more, together, than nothing would.

Bounds that are twice as wide cost next to nothing, and records beyond them are cut off: the rules
err outward. Zero is never outside: ages begin there, whatever the smallest full bin is. The
histograms are one question (``records/questions/extremes.py`` has the proof), and all of this is
post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpkv.accounting import ROW, Neighbours, Step, Unit, cost_of
from dpkv.accounting.exact import float_below
from dpkv.domain import Box
from dpkv.mechanisms.mechanism import RECORDS, Noise
from dpkv.noise import smallest_scale
from dpkv.records.questions import N_MAGNITUDES, Ask, MagnitudeHistograms, magnitude_edges
from dpkv.types import Integers
from dpkv.validation import positive_finite, whole_number

_ABOVE_ALL_COUNTS = 2.0**64
_FALSE_BINS = 1e-3  # how often some empty bin of a table may pass; decides accuracy, not privacy
_GOES_ON = 3.0  # scales of noise: two empty bins together are above it one time in fifteen
_SLOWEST, _NEGLIGIBLE, _MOST_TAIL = 0.6, 0.004, 4
_WINDOW, _BESIDES = 4, 1.3  # neighbouring bins, and thresholds that they pass together
_NEAR, _FAR = 4, 1.2  # powers of two; thresholds that a bin must pass that is farther from others
_SEEN_TOGETHER, _TOGETHER = 6, 1.5  # bins, and standard deviations of their sum


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
        return (Noise("column-histogram-bin", self.noise_scale, RECORDS, per=self.unit.per),)

    def parameters(self) -> dict[str, Any]:
        """Return the description as plain JSON values."""
        return {
            "n_features": self.n_features,
            "noise_scale": self.noise_scale,
            "shares": self.unit.shares,
        }

    def run(self, ask: Ask, *, scaled: bool = True) -> FoundBounds:
        """Return the bounds that the noisy counts show, if they do."""
        noisy = ask(self.question)
        unsure = tuple(
            number for number, column in enumerate(noisy) if not self._full(column).any()
        )
        if unsure:
            return FoundBounds(None, unsure)
        pairs = [self._bounds_of(column) for column in noisy]
        lower, upper = zip(*pairs, strict=True)
        return FoundBounds(Box(lower, upper, scaled=scaled, source="private"), ())

    def _full(self, noisy: Integers) -> NDArray[np.bool_]:
        """Return which bins stand out, alone or with their neighbours."""
        alone = noisy > self.threshold
        others = np.where(alone, 0, noisy).astype(np.float64)
        together = np.convolve(others, np.ones(_WINDOW))[_WINDOW - 1 :]
        starts = np.flatnonzero(together > _BESIDES * self.threshold)
        window = starts[:, np.newaxis] + np.arange(_WINDOW)
        inside = np.isin(np.arange(len(noisy)), window)
        return np.asarray(alone | (inside & (noisy > self.noise_scale)))

    def _bounds_of(self, noisy: Integers) -> tuple[float, float]:
        """Return the bounds of a column in which some bin stands out."""
        middle = N_MAGNITUDES // 2
        sides = noisy[middle - 1 :: -1], noisy[middle + 1 :]  # from zero outward
        cores = [
            self._goes_on(side, core) for side, core in zip(sides, self._cores(noisy), strict=True)
        ]
        farthest = max(cores)
        if farthest == 0:
            return magnitude_edges(middle)
        ends = []
        for side, core in zip(sides, cores, strict=True):
            if core:
                ends.append(min(core + self._tail(side, core, int(noisy.sum())), len(side)))
            else:
                ends.append(farthest if self._is_more_than_noise(side[:farthest]) else 0)
        around_zero = self._full(noisy)[middle]
        smallest = magnitude_edges(middle)[1] if around_zero else 0.0
        lower = magnitude_edges(middle - ends[0])[0] if ends[0] else 0.0 - smallest
        upper = magnitude_edges(middle + ends[1])[1] if ends[1] else smallest
        return lower, upper

    def _cores(self, noisy: Integers) -> tuple[int, int]:
        """Return how far the bins that stand out reach on both sides, far ones only if by much."""
        places = np.arange(N_MAGNITUDES) - N_MAGNITUDES // 2
        full = self._full(noisy)
        some = full & (places != 0) if (full & (places != 0)).any() else full
        reach = abs(int(places[np.where(some, noisy, -1).argmax()]))
        for place in sorted(places[full], key=abs):
            by_much = noisy[place + N_MAGNITUDES // 2] > _FAR * self.threshold
            if reach < abs(place) and (abs(place) <= reach + _NEAR or by_much):
                reach = abs(int(place))
        near = places[full & (np.abs(places) <= reach)]
        return max(0, -int(near.min())), max(0, int(near.max()))

    def _goes_on(self, side: Integers, core: int) -> int:
        """Return how far a side goes on beyond the bins that stand out, if there are any."""
        while 0 < core < len(side) and side[core : core + 2].sum() > _GOES_ON * self.noise_scale:
            core += 1
        return core

    def _tail(self, side: Integers, core: int, total: int) -> int:
        """Return how many bins a tail goes on for, if it falls as it did in the last two bins.

        It holds no more records than the noisy counts beyond let it.
        """
        last = max(float(side[core - 1]), self.noise_scale)
        before = float(side[core - 2]) if core > 1 else 0.0
        if last >= before:  # no tail: the last bin is the fullest
            return 0
        ratio = min(last / before, _SLOWEST)
        shown = side[core : core + 3]
        most = max(float(shown.sum()), 0.0) + self.noise_scale * math.sqrt(2.0 * len(shown))
        beyond, bins = min(last * ratio / (1.0 - ratio), most), 0
        while beyond > _NEGLIGIBLE * max(total, 1) and bins < _MOST_TAIL:
            beyond, bins = beyond * ratio, bins + 1
        return bins

    def _is_more_than_noise(self, bins: Integers) -> bool:
        """Tell whether the outermost bins of a side hold more than noise would mostly make."""
        seen = bins[-_SEEN_TOGETHER:]
        return float(seen.sum()) > _TOGETHER * self.noise_scale * math.sqrt(2.0 * len(seen))
