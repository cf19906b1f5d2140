"""The curator: the one door to the records.

It holds the records, the randomness and the plan that was charged. A question is answered if it is
the next one of the plan, at the very price that the plan gives it; anything else is refused before
the records are touched. What was asked and answered is the run's transcript.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np

from dpkv import progress
from dpkv.accounting import ROW, Neighbours, Step, Unit, cost_of
from dpkv.errors import PlanError, UsageError
from dpkv.grid import Grid
from dpkv.noise import Entropy
from dpkv.records.arrays import one_row_each
from dpkv.records.questions.question import Ask, Question, Records
from dpkv.records.transcript import Exchange, Transcript
from dpkv.types import Integers

Result_co = TypeVar("Result_co", covariant=True)
_STAGE = "asking the records"


class Program(Protocol[Result_co]):
    """A mechanism as the curator sees it: a plan with prices, and a program that asks."""

    @property
    def grid(self) -> Grid:
        """The public grid that records are on."""

    @property
    def neighbours(self) -> Neighbours:
        """The relation that prices are for."""

    @property
    def unit(self) -> Unit:
        """The unit of privacy that prices are for."""

    @property
    def delta(self) -> float:
        """The delta that the price of the whole holds with."""

    @property
    def n_records_needed(self) -> int | None:
        """The public number of records that the proof uses, or None where it uses none."""

    def schedule(self) -> Iterable[Step]:
        """Return the prices of the questions, in the order in which they are asked."""

    def run(self, ask: Ask) -> Result_co:
        """Ask, and make the result of the answers."""


class Curator:
    """Answers the questions of a plan, in its order, each once.

    ``charged`` is what was charged for all of them; None is for study, which charges nobody.
    """

    def __init__(
        self,
        records: Records,
        entropy: Entropy,
        neighbours: Neighbours,
        schedule: Iterable[Step],
        *,
        unit: Unit = ROW,
        charged: Decimal | None = None,
        delta: float = 0.0,
    ) -> None:
        plan = tuple(schedule)
        if charged is not None and cost_of(plan, delta) > charged:
            raise PlanError("a mechanism's plan costs more than was charged for it.")
        self._records = records
        self._entropy = entropy
        self._neighbours = neighbours
        self._unit = unit
        self._coming, self._n_planned = iter(plan), len(plan)
        self._exchanges: list[Exchange] = []

    def __call__(self, question: Question) -> Any:
        """Answer the next question of the plan."""
        self._admit(question)
        progress.report(_STAGE, len(self._exchanges) / self._n_planned)
        answer = question.answer(self._records, self._entropy)
        self._exchanges.append(Exchange(question, answer))
        progress.report(_STAGE, len(self._exchanges) / self._n_planned)
        return answer

    def _admit(self, question: Question) -> None:
        """Refuse a question that the plan does not have next, at this price."""
        planned = next(self._coming, None)
        if planned is None:
            raise PlanError("a mechanism asked one question more than its plan has.")
        if question.step(self._neighbours, self._unit) != planned:
            raise PlanError(
                f"a mechanism asked another question than the next of its plan ({planned.name}), "
                "or at another price."
            )

    @property
    def public_size(self) -> int | None:
        """The number of records where it is public, None where the relation protects it."""
        public = self._neighbours is Neighbours.REPLACE_ONE
        return self._records.n_records if public else None

    @cached_property
    def _coin_seed(self) -> int:
        return self._entropy.coins()

    @cached_property
    def coins(self) -> np.random.Generator:
        """Public randomness, drawn without looking at the records."""
        return np.random.default_rng(self._coin_seed)

    @property
    def transcript(self) -> Transcript:
        """What was asked and answered so far."""
        coins = self.__dict__.get("_coin_seed")  # not drawn where nobody needed them
        return Transcript(coins, tuple(self._exchanges))


def curator_of(
    program: Program[Any], records: Records, entropy: Entropy, *, charged: Decimal | None = None
) -> Curator:
    """Return the curator that answers a mechanism's questions on records."""
    needed = program.n_records_needed
    if needed is not None and records.n_records != needed:
        raise UsageError(f"the mechanism is for {needed} records. Got {records.n_records} instead.")
    return Curator(
        records,
        entropy,
        program.neighbours,
        program.schedule(),
        unit=program.unit,
        charged=charged,
        delta=program.delta,
    )


def run_on_points(program: Program[Result_co], points: Integers, entropy: Entropy) -> Result_co:
    """Run a mechanism on grid points, for study: the code of a release, and nobody is charged.

    Every point is a record of its own.
    """
    width = program.grid.n_features
    if points.ndim != 2 or points.shape[1] != width or not len(points):  # noqa: PLR2004
        raise UsageError(
            f"the mechanism is for {width} columns. Got points of shape {points.shape} instead."
        )
    return program.run(curator_of(program, one_row_each(points, program.unit.shares), entropy))
