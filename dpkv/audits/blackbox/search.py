"""The search: over pairs of neighbouring tables, and over events, with bounds on held-out runs.

It goes in rounds, each several times as large as the one before. A round first explores: many pairs
with few runs each, the better ones with more, and changes of the best (successive halving and a
guided search). Scorers learn on one part of the runs and are compared on the other. Then the few
best events are fixed, and judged on fresh runs that no choice has seen.

Round r may err with probability alpha / 2^r, divided equally among all bounds of its events. So the
whole audit accuses a mechanism that keeps its claim with probability at most alpha, however many
pairs and events were looked at.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from dpkv.audits.blackbox.bounds import (
    Event,
    clopper_pearson,
    largest_shown_by,
    most_shown,
    promise,
)
from dpkv.audits.blackbox.claim import Claim
from dpkv.audits.blackbox.journal import Journal
from dpkv.audits.blackbox.observations import FAILED, Sample, join
from dpkv.audits.blackbox.pairs import Pairs
from dpkv.audits.blackbox.runners import Runner, Task
from dpkv.audits.blackbox.scorers import Scorer, candidate_thresholds, hits, learn
from dpkv.audits.blackbox.tables import Pair, TableDomain
from dpkv.errors import ParameterError, UsageError
from dpkv.types import Float64s, StageProgress

_GROWTH = 4
_MOST_PAIRS, _FEWEST_PAIRS = 48, 4
_FEWEST_RUNS, _SCREENING_RUNS = 8, 40
_LARGEST_OPENING, _SMALLEST_OPENING = 24_000, 240
_OPENING_SHARE = 0.12
_FEW = 1500
"""Fewer runs than these are one round."""
_FOR_TWO_PAIRS = 4000
"""Held-out runs from which two pairs of tables are judged rather than one."""
_FINALISTS = 3
_THRESHOLDS, _CERTIFIED = 24, 6
_CHOOSING_ALPHA = 1e-3  # so that luck among very many events is not preferred
_LEARNING_SHARE = 0.6
_PILOT = 5


@dataclass(frozen=True)
class Budget:
    """How much may be tried: runs, or seconds, or both."""

    runs: int | None = None
    seconds: float | None = None

    @classmethod
    def parse(cls, text: str | int | Budget) -> Budget:
        """Return the budget that ``10m``, ``90s`` or ``50000`` (runs) stands for."""
        if isinstance(text, Budget):
            return text
        words = str(text).strip().lower()
        units = {"s": 1.0, "m": 60.0, "h": 3600.0}
        try:
            if words[-1:] in units:
                return cls(seconds=_positive(float(words[:-1]) * units[words[-1]]))
            return cls(runs=int(_positive(int(words))))
        except ValueError:
            raise ParameterError(
                "budget", "minutes such as 10m, seconds such as 90s, or a number of runs", text
            ) from None


def _positive(value: float) -> float:
    if not 0 < value < 1e12:  # noqa: PLR2004
        raise ValueError
    return value


@dataclass(frozen=True, eq=False)
class Candidate:
    """An event that a scorer found on one pair, in one direction."""

    pair: Pair
    swapped: bool
    scorer: Scorer
    thresholds: Float64s
    """The best first."""
    shown: float
    """What it would show, by the runs that it was chosen on."""


@dataclass(frozen=True)
class Round:
    """What a round tried, and what it showed."""

    number: int
    runs: int
    alpha: float
    pairs: int
    events: tuple[Event, ...]
    largest_possible: float
    """The most that its held-out runs could have shown of any mechanism."""


@dataclass(eq=False)
class Search:
    """A search in progress."""

    runner: Runner
    domain: TableDomain
    claim: Claim
    budget: Budget
    alpha: float
    seed: int
    journal: Journal
    with_time: bool = False
    given: Pair | None = None
    """The one pair that is tried, where the search is over events alone."""
    progress: StageProgress = lambda _label, _share: None
    tried: dict[str, Pair] = field(default_factory=dict)
    rounds: list[Round] = field(default_factory=list)
    runs: int = 0
    _seen: dict[tuple[str, int], list[Sample]] = field(default_factory=dict)
    _ranked: list[Pair] = field(default_factory=list)
    _round_total: int = 1
    _round_done: int = 0

    def __post_init__(self) -> None:
        self._pairs = Pairs(self.domain, self.claim.neighbours, self.seed)
        self._coming = iter(self._pairs)

    # -- rounds ------------------------------------------------------------------------------------

    def run(self) -> None:
        """Search until a violation is found or the budget is spent."""
        began = time.monotonic()
        size = self._opening_size(began)
        number = 0
        while size:
            number += 1
            size = self.journal.decided(f"round {number}", size)
            if not size:
                break
            self.rounds.append(self._round(number, size))
            if self.violations():
                break
            size = self._next_size(size, began)

    def violations(self) -> list[Event]:
        """Return the events that break the claim."""
        return [e for done in self.rounds for e in done.events if e.breaks(self.claim)]

    def _opening_size(self, began: float) -> int:
        """Return the runs of the first round: all, where there are few."""
        total = float("inf") if self.budget.runs is None else self.budget.runs
        if self.budget.seconds is not None:
            self._explore([self._next_pair()], _PILOT, "pilot")
            each = (time.monotonic() - began) / (2 * _PILOT)
            total = max(_SMALLEST_OPENING, min(total, self.budget.seconds / each))
        if total < _FEW:
            return int(total)
        return int(min(_LARGEST_OPENING, max(_SMALLEST_OPENING, _OPENING_SHARE * total)))

    def _next_size(self, size: int, began: float) -> int:
        """Return the runs of the next round: all that is left, where that is not much more."""
        left = float("inf")
        if self.budget.runs is not None:
            left = self.budget.runs - self.runs
        if self.budget.seconds is not None:
            spent = max(1e-6, time.monotonic() - began)
            left = min(left, (self.budget.seconds - spent) * self.runs / spent)
        if left < size / 2:
            return 0
        wanted = _GROWTH * size
        return int(left if left < 2 * wanted else wanted)

    def _round(self, number: int, size: int) -> Round:
        alpha = self.alpha / 2.0**number
        before = self.runs
        self._round_total, self._round_done = size, 0
        candidates = self._search_round(number, size // 2)
        left = max(2 * _FEWEST_RUNS, size - (self.runs - before))
        chosen = _finalists(candidates, 2 if left >= _FOR_TWO_PAIRS else 1)
        runs = left // (2 * len({candidate.pair.key for candidate in chosen}))
        events = self._certify(chosen, runs, alpha, f"round {number}")
        each = alpha / (2 * max(1, len(events)))
        return Round(
            number,
            self.runs - before,
            alpha,
            len(self.tried),
            tuple(events),
            largest_shown_by(self.claim, runs, each),
        )

    # -- exploring ---------------------------------------------------------------------------------

    def _search_round(self, number: int, size: int) -> list[Candidate]:
        """Look at many pairs with few runs, and at the better ones with more."""
        levels = 3 if size > 4 * _SCREENING_RUNS * _FEWEST_PAIRS else 2
        each = size // levels
        count = int(np.clip(each // (2 * _SCREENING_RUNS), _FEWEST_PAIRS, _MOST_PAIRS))
        candidates: list[Candidate] = []
        for level in range(levels):
            wanted = max(2, count // 4**level)
            pairs = self._pairs_for(level, wanted)
            runs = max(_FEWEST_RUNS, each // (2 * len(pairs)))
            self._explore(pairs, runs, f"round {number}, level {level}")
            candidates = self._judge(pairs, hard=level == levels - 1)
            self._ranked = _by_best(candidates) + [
                pair for pair in self._ranked if pair.key not in {c.pair.key for c in candidates}
            ]
        return candidates

    def _pairs_for(self, level: int, count: int) -> list[Pair]:
        """Return pairs to look at: the best so far, changes of them, and further ones."""
        if self.given is not None:
            return [self.given]
        best = self._ranked[: max(1, count // 2 if level == 0 else count)]
        if level and len(best) > 2:  # noqa: PLR2004
            kept = best[: max(2, 2 * count // 3)]
            changed = [self._changed(one) for one in kept[: count - len(kept)]]
            return _distinct([*kept, *changed])
        fresh = [self._next_pair() for _ in range(count - len(best))]
        return _distinct([*best, *fresh])

    def _changed(self, pair: Pair) -> Pair:
        for _ in range(20):
            found = self._pairs.change(pair)
            if _is_pair(found) and found.key not in self.tried:
                return found
        return pair

    def _next_pair(self) -> Pair:
        if self.given is not None:
            return self.given
        some = (pair for pair in islice(self._coming, 500) if _is_pair(pair))
        return next(pair for pair in some if pair.key not in self.tried)

    def _explore(self, pairs: Sequence[Pair], runs: int, stage: str) -> None:
        for pair in pairs:
            self.tried.setdefault(pair.key, pair)
        found = self._run(pairs, runs, stage)
        _refuse_failures([sample for _, _, sample in found])
        for pair, side, sample in found:
            self._seen.setdefault((pair.key, side), []).append(sample)

    def _run(self, pairs: Sequence[Pair], runs: int, stage: str) -> list[tuple[Pair, int, Sample]]:
        """Return fresh runs of all pairs, on both sides, as far as the journal has them not."""
        found: list[tuple[Pair, int, Sample | None]] = []
        tasks, missing = [], []
        for pair in pairs:
            for side, table in enumerate(pair.sides):
                name = f"{stage}: {pair.key} {side} x{runs} from {self.runs}"
                known = self.journal.find(name)
                if known is None:
                    missing.append((len(found), name))
                    tasks.append(Task(table, self.runs, runs))
                else:
                    self._hear(runs)
                found.append((pair, side, known))
                self.runs += runs
        samples = self.runner.run(tasks, self._hear) if tasks else iter(())
        for (place, name), sample in zip(missing, samples, strict=True):
            self.journal.keep(name, sample)
            found[place] = (*found[place][:2], sample)
        return [(pair, side, sample) for pair, side, sample in found if sample is not None]

    def _hear(self, runs: int) -> None:
        self._round_done += runs
        label = f"round {len(self.rounds) + 1}, {self._round_total} runs"
        self.progress(label, min(1.0, self._round_done / self._round_total))

    # -- choosing ----------------------------------------------------------------------------------

    def _judge(self, pairs: Sequence[Pair], *, hard: bool) -> list[Candidate]:
        """Return the events that all scorers find on the pairs, the best first."""
        found = []
        for pair in pairs:
            sides = [join(self._seen[pair.key, side]) for side in (0, 1)]
            cut = [int(_LEARNING_SHARE * len(side)) for side in sides]
            learned = [side.part(slice(0, c)) for side, c in zip(sides, cut, strict=True)]
            rest = [side.part(slice(c, None)) for side, c in zip(sides, cut, strict=True)]
            for swapped, (one, other) in enumerate(((0, 1), (1, 0))):
                scorers = learn(learned[one], learned[other], with_time=self.with_time, hard=hard)
                found += [
                    self._candidate(pair, bool(swapped), scorer, rest[one], rest[other], final=hard)
                    for scorer in scorers
                ]
        return sorted(found, key=lambda candidate: -candidate.shown)

    def _candidate(
        self,
        pair: Pair,
        swapped: bool,
        scorer: Scorer,
        first: Sample,
        second: Sample,
        *,
        final: bool,
    ) -> Candidate:
        here, there = scorer.score(first), scorer.score(second)
        thresholds = candidate_thresholds(here, _THRESHOLDS)
        counts = hits(here, thresholds), hits(there, thresholds)
        runs = len(here), len(there)
        if final:
            shown = most_shown(self.claim, *counts, runs, _CHOOSING_ALPHA)
        else:
            shown = promise(*counts, runs)
        best = int(np.argmax(shown))
        spread = np.linspace(0, len(thresholds) - 1, _CERTIFIED - 1).astype(np.int64)
        order = [best, *(place for place in dict.fromkeys(spread.tolist()) if place != best)]
        return Candidate(pair, swapped, scorer, thresholds[order], float(shown[best]))

    # -- certifying --------------------------------------------------------------------------------

    def _certify(
        self, chosen: Sequence[Candidate], runs: int, alpha: float, stage: str
    ) -> list[Event]:
        """Judge the chosen events on runs that no choice has seen."""
        pairs = {candidate.pair.key: candidate.pair for candidate in chosen}
        fresh = {
            (pair.key, side): sample
            for pair, side, sample in self._run(list(pairs.values()), runs, f"{stage}, held out")
        }
        each = alpha / (2 * sum(len(candidate.thresholds) for candidate in chosen))
        events = []
        for candidate in chosen:
            sides = (1, 0) if candidate.swapped else (0, 1)
            scores = [candidate.scorer.score(fresh[candidate.pair.key, side]) for side in sides]
            counts = [hits(one, candidate.thresholds) for one in scores]
            bounds = [clopper_pearson(count, runs, each) for count in counts]
            for place, threshold in enumerate(candidate.thresholds):
                p, q = ((float(low[place]), float(high[place])) for low, high in bounds)
                events.append(
                    Event(
                        candidate.pair.key,
                        candidate.swapped,
                        candidate.scorer.describe(float(threshold)),
                        (int(counts[0][place]), int(counts[1][place])),
                        (runs, runs),
                        p,
                        q,
                    )
                )
        return events


def _refuse_failures(samples: Sequence[Sample]) -> None:
    """Refuse a mechanism that never works: it is not the mechanism that is meant."""
    every = join(samples)
    kinds = set(every.kinds.tolist())
    same = len(kinds) == 1 and len(np.unique(every.numbers, axis=0)) == 1
    if same and min(kinds).startswith(FAILED):
        raise UsageError(
            f"every run of the mechanism {min(kinds)!r}: see that it works by itself, on a table "
            "of these columns."
        )


def _is_pair(pair: Pair) -> bool:
    return not np.array_equal(pair.first, pair.second, equal_nan=True)


def _distinct(pairs: Sequence[Pair]) -> list[Pair]:
    return list({pair.key: pair for pair in pairs}.values())


def _by_best(candidates: Sequence[Candidate]) -> list[Pair]:
    return _distinct([candidate.pair for candidate in candidates])


def _finalists(candidates: Sequence[Candidate], most_pairs: int) -> list[Candidate]:
    """Return the best, of different scorers or different pairs, and of few pairs."""
    chosen: list[Candidate] = []
    for candidate in candidates:
        kind = candidate.pair.key, type(candidate.scorer), candidate.swapped
        known = {(one.pair.key, type(one.scorer), one.swapped) for one in chosen}
        pairs = {one.pair.key for one in chosen} | {candidate.pair.key}
        if kind not in known and len(pairs) <= most_pairs:
            chosen.append(candidate)
        if len(chosen) == _FINALISTS:
            break
    return chosen
