"""Replaying runs on neighbouring tables: what a whole run loses, question by question.

A mechanism is run on a table, by the code of a release. Its questions are then asked again on a
neighbour, with the very answers of the first run forced upon it. Three things must hold.

- The questions are the same, to the last digit, and so is the result: what a mechanism does depends
  on the records through answers alone.
- No answer is more likely on one table than on the other by more than its question's price.
- So the whole run loses at most its price.

The answers may be honest, or those of an adversary who can make the noise come out as he likes: a
price holds for every answer. Gaussian noise has no such bound for every answer; there the squared
distance of the exact answers is held against the question's price in zCDP.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpkv.accounting import Neighbours, Step
from dpkv.audits.person_tables import PersonTable
from dpkv.errors import PlanError
from dpkv.noise import Entropy, SeededEntropy
from dpkv.records import Exchange, Program, Records, Replay, Transcript, curator_of, one_row_each
from dpkv.records.questions import NoisySums
from dpkv.types import Int64s, Integers

_ROUNDING = 1e-9  # of the losses, which are calculated in floats
Table = Integers | PersonTable
ProgramFor = Callable[[Any], Program[Any]]
"""Returns the mechanism that would be run on a table: a sound one depends on public facts alone."""


@dataclass(frozen=True)
class Replayed:
    """What a replay found."""

    asks_the_same: bool
    """Whether the neighbour was asked the same questions, with the same result."""
    loss: float
    """Of the run, in eps, without questions that have Gaussian noise."""
    price: float
    """Of the same questions."""
    largest_share: float
    """The largest loss of a question over its own price, whatever its noise."""

    @property
    def holds(self) -> bool:
        """Whether nothing was found."""
        within = self.largest_share <= 1.0 + _ROUNDING and self.loss <= self.price + _ROUNDING
        return self.asks_the_same and within


def replay(program_for: ProgramFor, table: Table, neighbour: Table, entropy: Entropy) -> Replayed:
    """Run a mechanism on a table, and replay the run on a neighbour."""
    program = program_for(table)
    tables = records_of(table, program), records_of(neighbour, program)
    curator = curator_of(program, tables[0], entropy)
    outcome = program.run(curator)
    transcript = curator.transcript
    return _compare(
        transcript,
        tables,
        program,
        _same(program_for(neighbour), transcript, tables[1], outcome),
    )


def records_of(table: Table, program: Program[Any]) -> Records:
    """Return what questions are asked of; every point of a plain table is a record of its own."""
    if isinstance(table, PersonTable):
        return table.records
    return one_row_each(table, program.unit.shares)


def _same(program: Program[Any], transcript: Transcript, table: Records, outcome: Any) -> bool:
    """Tell whether a mechanism asks what the transcript has, and makes the same of it."""
    public = program.neighbours is Neighbours.REPLACE_ONE
    ask = Replay(transcript, table.n_records if public else None)
    try:
        again = program.run(ask)
    except PlanError:
        return False
    return ask.is_over() and np.array_equal(again.centers, outcome.centers)


def _compare(
    transcript: Transcript,
    tables: tuple[Records, Records],
    program: Program[Any],
    asks_the_same: bool,
) -> Replayed:
    losses, prices, shares = [0.0], [0.0], [0.0]
    for exchange in transcript.exchanges:
        step = exchange.question.step(program.neighbours, program.unit)
        if step.rho is not None:
            shares.append(_share(squared_distance(exchange, tables), float(step.rho)))
            continue
        loss = exchange.loss(*tables)
        losses.append(loss)
        prices.append(_eps_of(step))
        shares.append(_share(abs(loss), prices[-1]))
    total = math.inf if any(map(math.isinf, losses)) else abs(math.fsum(losses))
    return Replayed(asks_the_same, total, math.fsum(prices), max(shares))


def _eps_of(step: Step) -> float:
    return math.inf if step.eps is None else float(step.eps)


def _share(loss: float, price: float) -> float:
    if loss == 0.0 or math.isinf(price):
        return 0.0
    return loss / price if price > 0.0 else math.inf


def squared_distance(exchange: Exchange, tables: tuple[Records, Records]) -> float:
    """Return half the squared distance of the exact answers, in scales of their Gaussian noise."""
    question = exchange.question
    assert isinstance(question, NoisySums)
    first, second = (question.exact(table) for table in tables)
    scales = np.broadcast_to(question.scales(), first.shape)
    noisy = scales > 0.0
    if (first[~noisy] != second[~noisy]).any():
        return math.inf
    moved = (first - second)[noisy] / scales[noisy]
    return float((moved * moved).sum()) / 2.0


class AdversarialEntropy(SeededEntropy):
    """Noise as an adversary would like it: now honest, now wild, now none, now all on one side."""

    def __init__(self, seed: int | np.random.SeedSequence) -> None:
        super().__init__(seed)
        self._taste = np.random.default_rng(self.coins())

    def below(self, bound: int) -> int:
        """Return a whole number below the bound: now any, now the least, now the largest."""
        honest = super().below(bound)
        match self._taste.choice(["honest", "honest", "least", "largest"]):
            case "least":
                return 0
            case "largest":
                return bound - 1
        return honest

    def add_laplace(self, values: Int64s, scale: float) -> Int64s:
        """Return the values moved as the adversary likes."""
        return self._move(values, scale, super().add_laplace)

    def add_gaussian(self, values: Int64s, scale: float) -> Int64s:
        """Return the values moved as the adversary likes."""
        return self._move(values, scale, super().add_gaussian)

    def _move(
        self, values: Int64s, scale: float, honest: Callable[[Int64s, float], Int64s]
    ) -> Int64s:
        reach = 1 + int(min(40.0 * scale, 2.0**40))
        wild = self._taste.integers(-reach, reach + 1, values.shape)
        match self._taste.choice(["honest", "none", "wild", "one side", "unrelated"]):
            case "none":
                return values.copy()
            case "wild":
                return values + wild
            case "one side":
                return values + int(self._taste.choice([-1, 1])) * reach
            case "unrelated":
                return wild
        return honest(values, scale)
