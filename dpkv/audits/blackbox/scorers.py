"""Events: how likely is it, from what is seen of a run, that the table was the first?

A scorer learns from runs on both tables and gives every further run a score, high where the first
table is likelier. "The score is above t" is an event for every t. Nothing that a scorer does can
make a bound wrong, since events are judged on runs that it never saw; it can only make it weak.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpkv.audits.blackbox.features import Features, features_of
from dpkv.audits.blackbox.observations import Sample
from dpkv.types import Float64s

_MOST_BINS = 40
_RUNS_A_BIN = 12
_FEWEST_FOR_CLASSIFIER = 400
_MOST_FOR_CLASSIFIER = 20_000
_MOST_SINGLE = 6  # features that are tried one by one, of the many there are
_SHOWN = 4


class Scorer(ABC):
    """Something that has learned to tell two tables apart."""

    @abstractmethod
    def score(self, sample: Sample) -> Float64s:
        """Return a score for every run."""

    @abstractmethod
    def describe(self, threshold: float) -> str:
        """Return the event of scores above the threshold, in words."""


def learn(first: Sample, second: Sample, *, with_time: bool, hard: bool) -> list[Scorer]:
    """Return scorers that have learned from runs on either table; ``hard`` takes its time."""
    found: list[Scorer] = [Outcomes(first, second, whole=False)]
    width = max(first.numbers.shape[1], second.numbers.shape[1])
    if width:
        found.append(Outcomes(first, second, whole=True))
    if not width and not with_time:
        return found
    here = features_of(first, width=width, with_time=with_time)
    there = features_of(second, width=width, with_time=with_time)
    singles = [
        Histogram(here, there, place, width, with_time=with_time)
        for place in range(len(here.names))
    ]
    singles.sort(key=lambda one: -one.separation)
    found += singles[:_MOST_SINGLE]
    if here.n_coordinates > 1:
        found.append(SumOfHistograms(here, there, width))
    if hard and min(len(first), len(second)) >= _FEWEST_FOR_CLASSIFIER:
        found.append(Classifier(here, there, width, with_time=with_time))
    return found


class Outcomes(Scorer):
    """How often an output was seen: all of it, or all but its numbers."""

    def __init__(self, first: Sample, second: Sample, *, whole: bool) -> None:
        self._whole = whole
        here, there = Counter(self._keys(first)), Counter(self._keys(second))
        spread = max(1, len(here | there))
        self._scores = {
            key: _log_ratio(here[key], there[key], len(first), len(second), spread)
            for key in here | there
        }

    def _keys(self, sample: Sample) -> list[Hashable]:
        if not self._whole:
            return list(sample.kinds)
        rounded = np.round(sample.numbers, 12) + 0.0
        return [(kind, row.tobytes()) for kind, row in zip(sample.kinds, rounded, strict=True)]

    def score(self, sample: Sample) -> Float64s:
        """Return the log-ratio of how often this was seen; 0 for what was not."""
        return np.asarray([self._scores.get(key, 0.0) for key in self._keys(sample)])

    def describe(self, threshold: float) -> str:
        """Name outcomes of the event."""
        keys = sorted(self._scores, key=lambda key: -self._scores[key])
        inside = [key for key in keys if self._scores[key] > threshold]
        words = "; ".join(self._say(key) for key in inside[:_SHOWN])
        more = f", and {len(inside) - _SHOWN} more" if len(inside) > _SHOWN else ""
        return f"the output is one of: {words}{more}"

    def _say(self, key: Hashable) -> str:
        if not self._whole:
            return f"'{key}'"
        assert isinstance(key, tuple)
        kind, numbers = key
        values = np.frombuffer(numbers)
        shown = ", ".join(f"{value:.6g}" for value in values[~np.isnan(values)][:_SHOWN])
        return f"'{kind}' with {shown}" if shown else f"'{kind}'"


class _Bins:
    """Bins of one feature, and the log-ratio of both tables in each."""

    def __init__(self, first: Float64s, second: Float64s, most: int = _MOST_BINS) -> None:
        pooled = np.concatenate([first, second])
        pooled = pooled[~np.isnan(pooled)]
        most = int(np.clip(len(pooled) // (2 * _RUNS_A_BIN), 2, most))
        self.edges = _edges(pooled, most)
        self._n_bins = len(self.edges) + 2
        here, there = (np.bincount(self.places(s), minlength=self._n_bins) for s in (first, second))
        self.ratios = _log_ratio(here, there, len(first), len(second), self._n_bins)
        shares = here / max(1, len(first)), there / max(1, len(second))
        noise = np.sqrt((here + 1.0) / len(first) ** 2 + (there + 1.0) / len(second) ** 2)
        self.separation = float(np.max(np.abs(shares[0] - shares[1]) / noise, initial=0.0))

    def places(self, values: Float64s) -> np.ndarray:
        """Return the bin of every value; the last is for what is no number."""
        inside = np.searchsorted(self.edges, values, side="right")
        return np.where(np.isnan(values), self._n_bins - 1, inside)

    def score(self, values: Float64s) -> Float64s:
        """Return the log-ratio of every value's bin."""
        return np.asarray(self.ratios[self.places(values)])


def _edges(pooled: Float64s, most: int) -> Float64s:
    """Return edges at quantiles; a value that is common gets a bin of its own."""
    if not len(pooled):
        return np.empty(0)
    cuts = np.quantile(pooled, np.linspace(0, 1, most + 1), method="inverted_cdf")
    values, counts = np.unique(cuts, return_counts=True)
    common = values[counts > 1]
    few = np.unique(pooled[: 50 * most])
    if len(few) <= most:  # a handful of values: each its own bin
        values, common = few, few
    edges = np.concatenate([values[1:-1], common, np.nextafter(common, np.inf)])
    return np.unique(edges)


def _log_ratio(here: Any, there: Any, n_here: int, n_there: int, bins: int) -> Any:
    """Return log of a ratio of shares, drawn towards zero where little was seen."""
    draw = 0.5
    first = (here + draw) / (n_here + draw * bins)
    second = (there + draw) / (n_there + draw * bins)
    return np.log(first) - np.log(second)


class Histogram(Scorer):
    """The likelihood ratio of one feature, by bins."""

    def __init__(
        self, here: Features, there: Features, place: int, width: int, *, with_time: bool
    ) -> None:
        self._place, self._width, self._with_time = place, width, with_time
        self._name = here.names[place]
        self._bins = _Bins(here.values[:, place], there.values[:, place])

    @property
    def separation(self) -> float:
        """How surely the tables differ in some bin, in standard errors."""
        return self._bins.separation

    def score(self, sample: Sample) -> Float64s:
        """Return the log-ratio of every run's bin."""
        found = features_of(sample, width=self._width, with_time=self._with_time)
        return self._bins.score(found.values[:, self._place])

    def describe(self, threshold: float) -> str:
        """Name the intervals of the event."""
        edges = [-np.inf, *self._bins.edges.tolist(), np.inf]
        inside = (self._bins.ratios[:-1] > threshold).tolist()
        spans: list[list[float]] = []
        for low, high, wanted in zip(edges[:-1], edges[1:], inside, strict=True):
            if wanted and spans and spans[-1][1] == low:
                spans[-1][1] = high
            elif wanted:
                spans.append([low, high])
        words = " or ".join(_span(*span) for span in spans[:_SHOWN])
        more = f" or in {len(spans) - _SHOWN} more intervals" if len(spans) > _SHOWN else ""
        if self._bins.ratios[-1] > threshold:
            words = f"{words} or is missing" if words else "is missing"
        return f"{self._name} {words or 'is in no bin'}{more}"


def _span(low: float, high: float) -> str:
    if np.nextafter(low, np.inf) == high:
        return f"is {low:.6g}"
    if low == -np.inf:
        return f"is below {high:.6g}"
    return f"is at least {low:.6g}" if high == np.inf else f"is in [{low:.6g}, {high:.6g})"


class SumOfHistograms(Scorer):
    """The likelihood ratio of independent coordinates: the sum of theirs."""

    def __init__(self, here: Features, there: Features, width: int) -> None:
        self._width, self._n = width, here.n_coordinates
        self._bins = [
            _Bins(here.values[:, place], there.values[:, place]) for place in range(self._n)
        ]

    def score(self, sample: Sample) -> Float64s:
        """Return the sum of the coordinates' log-ratios."""
        found = features_of(sample, width=self._width, with_time=False)
        parts = [bins.score(found.values[:, place]) for place, bins in enumerate(self._bins)]
        return np.asarray(np.sum(parts, axis=0))

    def describe(self, threshold: float) -> str:
        """Say what is added up."""
        return f"the numbers' log-ratios, by histograms, add up to more than {threshold:.6g}"


class Classifier(Scorer):
    """Boosted trees on all features."""

    def __init__(self, here: Features, there: Features, width: int, *, with_time: bool) -> None:
        from sklearn.ensemble import HistGradientBoostingClassifier  # noqa: PLC0415 (slow)

        self._width, self._with_time = width, with_time
        sides = [side.values[:_MOST_FOR_CLASSIFIER] for side in (here, there)]
        labels = np.concatenate([np.ones(len(sides[0])), np.zeros(len(sides[1]))])
        values = np.concatenate(sides)
        values = np.where(np.isfinite(values), values, np.nan)
        self._model = HistGradientBoostingClassifier(max_iter=50, max_leaf_nodes=15, random_state=0)
        self._model.fit(values, labels)

    def score(self, sample: Sample) -> Float64s:
        """Return the classifier's decision function."""
        found = features_of(sample, width=self._width, with_time=self._with_time).values
        values = np.where(np.isfinite(found), found, np.nan)
        return np.asarray(self._model.decision_function(values))

    def describe(self, threshold: float) -> str:
        """Say what was learned."""
        return f"a classifier of boosted trees, trained on other runs, scores above {threshold:.6g}"


@dataclass(frozen=True)
class Chosen:
    """A scorer, and thresholds whose events are to be certified."""

    scorer: Scorer
    thresholds: tuple[float, ...]


def candidate_thresholds(scores: Float64s, count: int) -> Float64s:
    """Return thresholds just below scores of the first table, from rare events to common ones."""
    ordered = np.sort(scores)
    tails = np.geomspace(5, max(5, len(ordered)), count)
    places = np.clip(len(ordered) - tails.astype(np.int64), 0, len(ordered) - 1)
    return np.unique(np.nextafter(ordered[places], -np.inf))


def hits(scores: Float64s, thresholds: Sequence[float] | Float64s) -> np.ndarray:
    """Return how many scores are above each threshold."""
    return len(scores) - np.searchsorted(np.sort(scores), np.asarray(thresholds), side="right")
