"""Transcripts: all that a mechanism heard of the records, and what that may give away.

The probability of a transcript is the product of its answers' probabilities, each given those
before it. So its loss between two tables is a sum of closed forms, and bounds the loss of anything
that is computed from the transcript. Coins are drawn without looking at the records and lose
nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpkv.errors import PlanError
from dpkv.records.questions.question import Question, Records


@dataclass(frozen=True, eq=False)
class Exchange:
    """A question and the noisy answer it got."""

    question: Question
    answer: Any

    def loss(self, records: Records, neighbour: Records) -> float:
        """Return log P(answer | records) - log P(answer | neighbour)."""
        first, second = (
            self.question.log_probability(table, self.answer) for table in (records, neighbour)
        )
        return 0.0 if first == second else first - second  # impossible on both: nothing is lost


@dataclass(frozen=True, eq=False)
class Transcript:
    """The coins, and every question with its answer, in their order."""

    coins: int | None
    """None where no coins were used."""
    exchanges: tuple[Exchange, ...]

    def log_probability(self, records: Records) -> float:
        """Return the log-probability of all answers, on these records."""
        return math.fsum(
            exchange.question.log_probability(records, exchange.answer)
            for exchange in self.exchanges
        )

    def loss(self, records: Records, neighbour: Records) -> float:
        """Return the privacy loss of the run between a table and a neighbour."""
        return math.fsum(exchange.loss(records, neighbour) for exchange in self.exchanges)


class Replay:
    """Answers a mechanism's questions from a transcript, having seen that they are the same.

    A mechanism that hears of the records through answers alone asks the same questions whatever the
    table is. One that asks others has heard of the records in another way.
    """

    def __init__(self, transcript: Transcript, public_size: int | None) -> None:
        self._coming = iter(transcript.exchanges)
        self.public_size = public_size
        self.coins = np.random.default_rng(transcript.coins or 0)

    def __call__(self, question: Question) -> Any:
        """Return the answer that the transcript has."""
        expected = next(self._coming, None)
        if expected is None or not question.is_same(expected.question):
            raise PlanError("a mechanism asked another question than on the other table.")
        return expected.answer

    def is_over(self) -> bool:
        """Tell whether every question of the transcript was asked."""
        return next(self._coming, None) is None
