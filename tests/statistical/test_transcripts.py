"""Runs replayed on neighbours: the same questions, no answer above its price, and planted faults.

Losses are exact sums of closed forms, so a failure here is no chance. ``audits/transcripts.py``
does the same for thousands of pairs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from typing import Any

import mpmath
import numpy as np
import pytest

from dpkv.audits.faults import plant_fault
from dpkv.audits.replay_cases import Wanted, cases, neighbour_of, table_of
from dpkv.audits.transcripts import AdversarialEntropy, Replayed, replay
from dpkv.domain import Box
from dpkv.errors import PlanError
from dpkv.mechanisms import MECHANISMS, Neighbours, Synopsis
from dpkv.noise import SeededEntropy
from dpkv.records import ArrayRecords, curator_of
from dpkv.records.questions import Ask, LaplaceDensity, NoisyPick, Question
from dpkv.simplices import ProductGrid, product_domain

SAMPLE = list(cases(2026, 120, [SeededEntropy, AdversarialEntropy]))
REPLACE, ADD = Neighbours.REPLACE_ONE, Neighbours.ADD_REMOVE
SQUARE = Box((-1.0, -1.0), (1.0, 1.0))


@pytest.mark.parametrize("number", range(len(SAMPLE)), ids=lambda number: f"case{number}")
def test_a_run_asks_the_neighbour_the_same_and_loses_no_more_than_its_price(number: int) -> None:
    case = SAMPLE[number]
    found = replay(case.wanted, case.points, case.neighbour, case.entropy)
    assert found.holds, (case.wanted, found)


def test_every_mechanism_is_in_the_sample_for_every_relation_it_covers() -> None:
    seen = {(case.wanted.name, case.wanted.relation) for case in SAMPLE}
    assert seen == {(name, own) for name, kind in MECHANISMS.items() for own in kind.relations}


# -- planted dependences ---------------------------------------------------------------------------


def square_pair(seed: int, relation: Neighbours) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    points = table_of(rng, SQUARE, 60)
    return points, neighbour_of(rng, points, SQUARE, relation)


def found_in(program_for: Any, relation: Neighbours, runs: int = 30) -> list[Replayed]:
    pairs = enumerate(square_pair(seed, relation) for seed in range(runs))
    return [replay(program_for, *pair, SeededEntropy(seed)) for seed, pair in pairs]


@dataclass(frozen=True)
class KnowsTheNumber(Synopsis):
    """A synopsis that was told the number of records behind the curator's back."""

    secret: int = 0


class ThresholdOfTheNumber(KnowsTheNumber):
    def _threshold_for(self, n_records: float) -> int:  # noqa: ARG002
        return self.secret


class RestartsByTheNumber(KnowsTheNumber):
    def run(self, ask: Ask) -> Any:
        ask.coins.random(self.secret)  # as a loop of so many restarts would
        return super().run(ask)


def telling(kind: type[KnowsTheNumber]) -> Any:
    sound = Synopsis.calibrate(Decimal(4), n_clusters=3, grid=SQUARE.grid(), neighbours=ADD)
    own = {field.name: getattr(sound, field.name) for field in fields(sound)}
    return lambda points: kind(**own, secret=len(points))


def test_the_sound_twin_of_the_planted_ones_is_not_accused() -> None:
    assert all(found.holds for found in found_in(telling(KnowsTheNumber), ADD))


@pytest.mark.parametrize("kind", [ThresholdOfTheNumber, RestartsByTheNumber])
def test_a_number_of_records_that_was_not_paid_for_is_found(kind: type[KnowsTheNumber]) -> None:
    assert not all(found.holds for found in found_in(telling(kind), ADD))


@pytest.mark.parametrize("name", ["synopsis-radius", "synopsis-decay"])
def test_planted_faults_lose_more_than_they_are_priced(name: str) -> None:
    fault = plant_fault(name, Decimal(4), n_records=60, n_clusters=3, domain=SQUARE, gamma=0.1)
    found = found_in(lambda _: fault.mechanism, REPLACE, runs=200)
    assert not all(one.holds for one in found)


def test_a_mechanism_that_forgets_half_of_the_sensitivity_is_stopped_at_the_door() -> None:
    """Its questions are priced by their noise, whatever it claims."""
    fault = plant_fault(
        "synopsis-sensitivity", Decimal(4), n_records=60, n_clusters=3, domain=SQUARE, gamma=0.1
    )
    records = ArrayRecords(square_pair(0, REPLACE)[0])
    with pytest.raises(PlanError, match="costs more than was charged"):
        curator_of(fault.mechanism, records, SeededEntropy(0), charged=Decimal(4))


# -- probabilities ---------------------------------------------------------------------------------


def questions_of(name: str, relation: Neighbours) -> list[tuple[Question, Any, ArrayRecords]]:
    """Return the questions and answers of a run on a handful of records."""
    cases_of = [c for c in SAMPLE if (c.wanted.name, c.wanted.relation) == (name, relation)]
    found = []
    for case in cases_of[:3]:
        records = ArrayRecords(case.points)
        program = case.wanted(case.points)
        curator = curator_of(program, records, SeededEntropy(5))
        program.run(curator)
        found += [(one.question, one.answer, records) for one in curator.transcript.exchanges]
    return found


def laplace_in_mpmath(gaps: np.ndarray, scale: float) -> mpmath.mpf:
    with mpmath.workdps(40):
        q = mpmath.exp(-1 / mpmath.mpf(scale))
        peak = mpmath.log((1 - q) / (1 + q))
        return gaps.size * peak - mpmath.mpf(int(gaps.sum())) / mpmath.mpf(scale)


def gaussian_in_mpmath(gaps: np.ndarray, scale: float) -> mpmath.mpf:
    with mpmath.workdps(40):
        sigma = mpmath.mpf(scale)
        total = mpmath.sqrt(2 * mpmath.pi) * sigma  # but for less than 1e-40 from a scale of 3 on
        if scale < 3:
            total = sum(mpmath.exp(-(z**2) / (2 * sigma**2)) for z in range(-60, 61))
        squares = sum(int(gap) ** 2 for gap in gaps.reshape(-1))
        return -mpmath.mpf(squares) / (2 * sigma**2) - gaps.size * mpmath.log(total)


@pytest.mark.parametrize("relation", list(Neighbours))
def test_probabilities_of_noisy_sums_against_mpmath(relation: Neighbours) -> None:
    checked = 0
    for name in ("synopsis", "lloyd"):
        for question, answer, records in questions_of(name, relation):
            if not hasattr(question, "scales"):
                continue
            gaps = np.abs(answer - question.exact(records))
            scales = np.broadcast_to(question.scales(), gaps.shape)
            by_noise = gaussian_in_mpmath if question.is_gaussian else laplace_in_mpmath
            expected = sum(
                by_noise(gaps[scales == scale], float(scale))
                for scale in np.unique(scales)
                if scale
            )
            assert question.log_probability(records, answer) == pytest.approx(float(expected))
            checked += 1
    assert checked > 10


@pytest.mark.parametrize("name", ["kvariates", "laplace", "forgy"])
def test_probabilities_of_noisy_picks_against_a_plain_sum(name: str) -> None:
    checked = 0
    for question, answer, records in questions_of(name, REPLACE):
        if not isinstance(question, NoisyPick):
            continue  # those of the Lloyd steps have a test of their own
        (points,) = records.gather(lambda block: block.points)
        terms, centers = question.terms, question.centers
        if not isinstance(terms.density, LaplaceDensity):
            continue  # windows have tests of their own, in fractions
        total, mixture = 0, mpmath.mpf(0)
        weights = []
        for point in points:
            gaps = [
                sum((int(a) - int(b)) ** 2 for a, b in zip(point, c, strict=True)) for c in centers
            ]
            by_distance = len(centers) and terms.smoothing is not None
            weights.append(min(gaps) + terms.smoothing if by_distance else 1)
        if not any(weights):
            weights = [1] * len(points)
        with mpmath.workdps(40):
            for point, weight in zip(points, weights, strict=True):
                gaps = np.abs(point.astype(np.int64) - answer)
                mixture += weight * mpmath.exp(laplace_in_mpmath(gaps, terms.density.scale))
                total += weight
            expected = float(mpmath.log(mixture / total))
        assert question.log_probability(records, answer) == pytest.approx(expected)
        checked += 1
    assert checked > 3


def test_an_impossible_answer_has_no_probability() -> None:
    """A tree that leaves a cell of the public first grid whole cannot have been grown."""
    case = next(case for case in SAMPLE if case.wanted.name == "synopsis")
    records = ArrayRecords(case.points)
    program = case.wanted(case.points)
    curator = curator_of(program, records, SeededEntropy(5))
    program.run(curator)
    splits = next(one for one in curator.transcript.exchanges if hasattr(one.answer, "levels"))
    deeper = replace(splits.question, untested=len(splits.answer.levels))
    assert math.isfinite(splits.question.log_probability(records, splits.answer))
    assert deeper.log_probability(records, splits.answer) == -math.inf
    assert curator.transcript.loss(records, records) == 0.0


# Rows of categories


def rows_of_categories(grid: ProductGrid, rng: np.random.Generator, count: int) -> np.ndarray:
    """Return rows of numbers, each with one category in every group."""
    rows = rng.integers(0, np.asarray(grid.tops) + 1, (count, grid.n_features))
    for start, stop in grid.groups:
        rows[:, start:stop] = 0
        rows[np.arange(count), rng.integers(start, stop, count)] = grid.tops[start]
    return np.asarray(rows, dtype=np.int32)


@pytest.mark.parametrize(
    ("name", "density"),
    [(name, density) for name, kind in MECHANISMS.items() for density in kind.densities or (None,)],
)
def test_a_run_on_categories_loses_no_more_than_its_price(name: str, density: Any) -> None:
    domain = product_domain([(0.0, 1.0), 3], [1.0, 2.0])
    grid = domain.grid()
    assert isinstance(grid, ProductGrid)
    for relation in MECHANISMS[name].relations:
        wanted = Wanted(name, relation, domain, Decimal(1), Decimal(0), 2, density=density)
        rng = np.random.default_rng(len(name))
        rows = rows_of_categories(grid, rng, 30)
        other = rows[1:] if relation is Neighbours.ADD_REMOVE else rows.copy()
        if relation is Neighbours.REPLACE_ONE:
            other[:1] = rows_of_categories(grid, rng, 1)
        for kind in (SeededEntropy, AdversarialEntropy):
            found = replay(wanted, rows, other, kind(np.random.SeedSequence(7)))
            assert found.holds, (wanted, found)
