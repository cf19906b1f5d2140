"""The one door: questions that are not the plan's next are refused before the records are touched;
the answers are the same whatever the blocks are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from dpkv.accounting import Step
from dpkv.domain import Box
from dpkv.errors import PlanError, UsageError
from dpkv.mechanisms import MECHANISMS, Lloyd, Neighbours, Outcome, calibrate_mechanism
from dpkv.noise import SeededEntropy
from dpkv.records import ArrayRecords, Curator, curator_of
from dpkv.records.questions import Ask, ClusterCounts, ClusterSums, RecordCount

GRID = Box((-1.0, -1.0), (1.0, 1.0)).grid()
RNG = np.random.default_rng(0)
POINTS = np.asarray(GRID.spread(RNG.uniform(size=(500, 2)))).astype(np.int32)
RELATION = Neighbours.REPLACE_ONE


class Untouchable:
    """Records that must not be looked at."""

    n_records = 500

    def gather(self, *_: Any) -> Any:
        raise AssertionError("the records were touched")

    gather_one = take = gather


def lloyd(iterations: int = 2) -> Lloyd:
    return Lloyd.calibrate(
        Decimal(1), n_clusters=3, grid=GRID, neighbours=RELATION, iterations=iterations
    )


class OneTooMany(Lloyd):
    """Asks for the counts once more than it planned."""

    def run(self, ask: Ask) -> Outcome:
        outcome = super().run(ask)
        ask(ClusterCounts(outcome.centers, self.count_scale))
        return outcome


class LessNoise(Lloyd):
    """Plans one price and asks at another."""

    def run(self, ask: Ask) -> Outcome:
        return Lloyd.run(replace(lloyd(), sum_scale=self.sum_scale / 2), ask)


class OutOfOrder(Lloyd):
    """Begins with the sums."""

    def run(self, ask: Ask) -> Outcome:
        start = np.tile(self.grid.middle, (self.n_clusters, 1))
        return Outcome(ask(ClusterSums(start, self.grid, self.sum_scale)))


class AnotherQuestion(Lloyd):
    """Asks something that no plan of it has, at the same price."""

    def run(self, ask: Ask) -> Outcome:
        return Outcome(ask(RecordCount(self.count_scale)))


def plant_fault(kind: type[Lloyd]) -> Lloyd:
    sound = lloyd()
    return kind(**{field.name: getattr(sound, field.name) for field in fields(sound)})


def test_a_sound_mechanism_runs() -> None:
    curator = curator_of(lloyd(), ArrayRecords(POINTS), SeededEntropy(1), charged=Decimal(1))
    assert lloyd().run(curator).centers.shape == (3, 2)
    assert len(curator.transcript.exchanges) == 4


@pytest.mark.parametrize("kind", [OneTooMany, LessNoise])
def test_a_question_too_many_or_at_another_price_is_refused(kind: type[Lloyd]) -> None:
    mechanism = plant_fault(kind)
    curator = curator_of(mechanism, ArrayRecords(POINTS), SeededEntropy(1), charged=Decimal(1))
    with pytest.raises(PlanError, match=r"one question more|another price"):
        mechanism.run(curator)


@pytest.mark.parametrize("kind", [OutOfOrder, AnotherQuestion])
def test_a_question_that_is_not_the_next_is_refused_before_the_records_are_touched(
    kind: type[Lloyd],
) -> None:
    mechanism = plant_fault(kind)
    with pytest.raises(PlanError, match="another question than the next of its plan"):
        mechanism.run(curator_of(mechanism, Untouchable(), SeededEntropy(1)))


def test_the_untouchable_records_do_notice_a_question_that_is_admitted() -> None:
    with pytest.raises(AssertionError, match="touched"):
        lloyd().run(curator_of(lloyd(), Untouchable(), SeededEntropy(1)))


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_plan_that_costs_more_than_was_charged_is_refused(name: str) -> None:
    mechanism = calibrate_mechanism(name, Decimal(1), n_records=500, n_clusters=3, grid=GRID)
    curator_of(mechanism, Untouchable(), SeededEntropy(1), charged=Decimal(1))
    with pytest.raises(PlanError, match="costs more than was charged"):
        curator_of(mechanism, Untouchable(), SeededEntropy(1), charged=Decimal("0.99"))


def test_a_plan_without_a_price_is_never_charged_for() -> None:
    unproved = [Step("nothing proves this", None)]
    with pytest.raises(PlanError):
        Curator(Untouchable(), SeededEntropy(1), RELATION, unproved, charged=Decimal(10**9))


def test_a_mechanism_for_other_records_is_refused() -> None:
    mechanism = calibrate_mechanism("kvariates", Decimal(1), n_records=499, n_clusters=3, grid=GRID)
    with pytest.raises(UsageError, match="for 499 records"):
        curator_of(mechanism, ArrayRecords(POINTS), SeededEntropy(1))


def test_the_number_of_records_is_told_where_it_is_public_alone() -> None:
    for relation, told in ((Neighbours.REPLACE_ONE, 500), (Neighbours.ADD_REMOVE, None)):
        curator = Curator(ArrayRecords(POINTS), SeededEntropy(1), relation, [])
        assert curator.public_size == told


# -- the same answers, whatever the blocks ---------------------------------------------------------


@dataclass(frozen=True)
class Cut:
    """Where further blocks begin."""

    name: str
    cuts: tuple[int, ...]


CUTS = [
    Cut("halves", (250,)),
    Cut("rows", tuple(range(1, 500))),
    Cut("empty", (0, 0, 100, 100, 499, 500)),
    Cut("uneven", (1, 257, 400)),
]


def runs(name: str, relation: Neighbours, width: int) -> Iterator[tuple[ArrayRecords, list[Any]]]:
    grid = Box((-1.0,) * width, (1.0,) * width).grid()
    uniform = np.random.default_rng(width).beta(0.4, 0.4, (500, width))
    points = np.asarray(grid.spread(uniform)).astype(np.int32)
    mechanism = calibrate_mechanism(
        name, Decimal(3), n_records=500, n_clusters=4, grid=grid, neighbours=relation
    )
    for cuts in ((), *(cut.cuts for cut in CUTS)):
        records = ArrayRecords(points, cuts=cuts)
        curator = curator_of(mechanism, records, SeededEntropy(11))
        outcome = mechanism.run(curator)
        yield records, [outcome.centers.tolist(), curator.transcript]


@pytest.mark.parametrize("width", [2, 6, 25])
@pytest.mark.parametrize("name", MECHANISMS)
def test_the_same_entropy_gives_the_same_centers_however_records_are_cut(
    name: str, width: int
) -> None:
    (records, whole), *others = runs(name, RELATION, width)
    expected = whole[1].log_probability(records)
    for other, found in others:
        assert found[0] == whole[0]
        assert found[1].log_probability(other) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", MECHANISMS)
def test_whole_weights_count_as_copies_of_a_record(name: str) -> None:
    """Every question on weighted rows is answered as on rows that are repeated so often."""
    if name == "gupt":
        pytest.skip("GUPT's blocks are of rows, which weights do not change")
    weights = np.random.default_rng(3).integers(0, 4, len(POINTS))
    copies = np.repeat(POINTS, weights, axis=0)
    mechanism = calibrate_mechanism(
        name, Decimal(2), n_records=int(weights.sum()), n_clusters=3, grid=GRID
    )
    curator = curator_of(mechanism, ArrayRecords(copies), SeededEntropy(2))
    mechanism.run(curator)
    weighted = ArrayRecords(POINTS, weights.astype(np.int64), cuts=(130,))
    for exchange in curator.transcript.exchanges:
        question = exchange.question
        on_copies = question.log_probability(ArrayRecords(copies), exchange.answer)
        assert question.log_probability(weighted, exchange.answer) == pytest.approx(on_copies)
