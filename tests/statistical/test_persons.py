"""Theorem C: a person counts once. Whole distributions of tiny tables, and runs replayed.

Nothing here is sampled: likelihood ratios between neighbouring tables of persons, with several rows
each, are calculated and compared with the price. Rows that weigh a whole person each, which is what
forgetting persons comes to, go through the same comparisons and must exceed it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from support import trees

from dpkv.accounting import Unit
from dpkv.audits.person_tables import PersonTable
from dpkv.audits.replay_cases import WEIGHINGS, person_cases
from dpkv.audits.transcripts import AdversarialEntropy, replay
from dpkv.grid import BoxGrid
from dpkv.mechanisms import Forgy, KVariates, Laplace, Neighbours
from dpkv.mechanisms.kvariates import Algorithm0
from dpkv.noise import SeededEntropy
from dpkv.records import ArrayRecords
from dpkv.records.questions import NoisyPick, TreeTest

REPLACE, ADD = Neighbours.REPLACE_ONE, Neighbours.ADD_REMOVE

# -- replayed runs ---------------------------------------------------------------------------------

SAMPLE = list(person_cases(2026, 180, [SeededEntropy, AdversarialEntropy]))


@pytest.mark.parametrize("number", range(len(WEIGHINGS)), ids=lambda number: f"weighing{number}")
def test_a_run_asks_the_neighbour_the_same_and_loses_no_more_than_its_price(number: int) -> None:
    own = [case for case in SAMPLE if case.points.how == WEIGHINGS[number]]
    assert len(own) >= 8
    for case in own:
        found = replay(case.wanted, case.points, case.neighbour, case.entropy)
        assert found.holds, (case.wanted, found)


@dataclass(frozen=True, eq=False)
class Heavy(PersonTable):
    """A planted fault: every row weighs as much as a person may."""

    @property
    def records(self) -> ArrayRecords:
        shares = np.full(len(self.points), self.how.unit.shares)
        return ArrayRecords(self.points, shares, owners=self.facts.persons)


def heavy(table: PersonTable) -> Heavy:
    return Heavy(table.how, table.points, table.names, table.counts, table.weights)


@pytest.mark.parametrize("name", ["lloyd", "synopsis"])
def test_rows_that_weigh_a_person_each_lose_more_than_the_price(name: str) -> None:
    cases = [case for case in SAMPLE if case.wanted.name == name and case.points.how.persons]
    cases = [case for case in cases if case.points.how.persons == "share"]
    found = [
        replay(case.wanted, heavy(case.points), heavy(case.neighbour), SeededEntropy(1))
        for case in cases
    ]
    assert not all(one.holds for one in found)


# -- trees, enumerated -----------------------------------------------------------------------------

N_POINTS = 6
TESTS = {
    "decay above floor": trees.Test(2.3, decay=4, floor=2, levels=3, threshold=4),
    "floor is decay": trees.Test(4.0, decay=2, floor=2, levels=3, threshold=3),
    "two levels": trees.Test(5.0, decay=6, floor=4, levels=2, threshold=3),
}


@cache
def of_trees(table: tuple[int, ...], test: trees.Test) -> np.ndarray:
    shapes = trees.shapes(N_POINTS, test.levels)
    return np.asarray([trees.log_probability(table, tree, test) for tree in shapes])


def shares_at(places: tuple[int, ...]) -> np.ndarray:
    return np.bincount(np.asarray(places, dtype=np.int64), minlength=N_POINTS)


def tree_losses(test: trees.Test, shares: int, relation: Neighbours) -> Iterator[float]:
    """Yield the largest |log ratio| of every pair of neighbours, of few common shares."""
    persons = [shares_at(p) for p in combinations_with_replacement(range(N_POINTS), shares)]
    few = range(0, N_POINTS, 2)
    common = [shares_at(p) for n in range(0, 7, 2) for p in combinations_with_replacement(few, n)]
    for rest, person in product(common, persons):
        more = of_trees(tuple(rest + person), test)
        others = [rest] if relation is ADD else [rest + other for other in persons]
        for other in others:
            yield float(np.abs(more - of_trees(tuple(other), test)).max())


@pytest.mark.parametrize("relation", [REPLACE, ADD])
@pytest.mark.parametrize("name", TESTS)
def test_no_person_costs_more_in_a_tree_than_is_charged(name: str, relation: Neighbours) -> None:
    test = TESTS[name]
    certified = TreeTest(test.scale, test.decay, test.floor, test.levels)
    for shares in (1, 2, 3):
        price = float(certified.cost(relation, Unit("person", shares)))
        worst = max(tree_losses(test, shares, relation))
        assert worst <= price * (1.0 + 1e-12)
        if relation is ADD:
            assert worst > 0.8 * price, "the certificate is far from what happens"


def test_a_person_at_the_price_of_fewer_shares_is_found() -> None:
    test = TESTS["two levels"]
    certified = TreeTest(test.scale, test.decay, test.floor, test.levels)
    price = float(certified.cost(ADD, Unit("person", 2)))
    assert max(tree_losses(test, 3, ADD)) > price


# -- picks, enumerated -----------------------------------------------------------------------------

LINE = BoxGrid((0.0,), (1.0,), (3,))
SHARES = 2
Person = tuple[int, ...]
PERSONS: list[Person] = [
    *((a,) for a in range(4)),
    *((a, b) for a in range(4) for b in range(a + 1)),
]
"""One row with both shares, or two with one each."""


def log_likelihoods(
    mechanism: Algorithm0, persons: tuple[Person, ...], fair: bool
) -> dict[tuple[int, int], float]:
    """Return the exact log-probability of both picks, by the code's own closed form."""
    rows = [place for person in persons for place in person]
    weights = [SHARES // len(person) if fair else SHARES for person in persons for _ in person]
    records = ArrayRecords(np.asarray(rows, np.int32)[:, np.newaxis], np.asarray(weights, np.int64))
    found = {}
    nowhere = np.empty((0, 1), np.int64)
    for first in range(4):
        opening = NoisyPick(mechanism.pick_terms, nowhere)
        start = opening.log_probability(records, np.asarray([first]))
        later = NoisyPick(mechanism.pick_terms, np.asarray([[first]]))
        for second in range(4):
            end = later.log_probability(records, np.asarray([second]))
            found[first, second] = start + end
    return found


def largest_ratio(mechanism: Algorithm0, m: int, relation: Neighbours, fair: bool = True) -> float:
    known: dict[tuple[Person, ...], dict[tuple[int, int], float]] = {}

    def of(persons: tuple[Person, ...]) -> dict[tuple[int, int], float]:
        key = tuple(sorted(persons))
        if key not in known:
            known[key] = log_likelihoods(mechanism, key, fair)
        return known[key]

    worst = 0.0
    for common in combinations_with_replacement(PERSONS, m - 1):
        tables = [of((*common, person)) for person in PERSONS]
        if relation is ADD and common:
            tables = [of(common), *tables]
        outputs = np.asarray([[table[x] for x in sorted(table)] for table in tables])
        gaps = outputs.max(axis=0) - outputs.min(axis=0)
        worst = max(worst, float(gaps.max()))
    return worst


def kvariates(m: int, gamma: float, eps: str) -> KVariates:
    return KVariates.calibrate(
        Decimal(eps),
        n_records=m,
        n_clusters=2,
        grid=LINE,
        gamma=gamma,
        unit=Unit("person", SHARES),
    )


@pytest.mark.parametrize("gamma", [0.01, 0.1, 1.0, math.inf])
@pytest.mark.parametrize("eps", ["0.5", "3"])
def test_no_ratio_of_kvariates_over_persons_exceeds_its_price(gamma: float, eps: str) -> None:
    for m in (2, 3):
        mechanism = kvariates(m, gamma, eps)
        assert largest_ratio(mechanism, m, REPLACE) <= float(mechanism.cost()) * (1 + 1e-12)


def test_persons_who_weigh_more_for_more_rows_exceed_the_price() -> None:
    """One of three persons has two rows, and is picked twice as often as the certificate knows."""
    mechanism = kvariates(3, math.inf, "0.5")
    price = float(mechanism.cost())
    assert largest_ratio(mechanism, 3, REPLACE) == pytest.approx(price, rel=1e-6)
    assert largest_ratio(mechanism, 3, REPLACE, fair=False) > 1.2 * price


@pytest.mark.parametrize("relation", [REPLACE, ADD])
@pytest.mark.parametrize("kind", [Laplace, Forgy])
def test_noise_alone_covers_any_weights(kind: type[Laplace], relation: Neighbours) -> None:
    mechanism = kind.calibrate(
        Decimal(2),
        n_clusters=2,
        grid=LINE,
        neighbours=relation,
        unit=Unit("person", SHARES, even=False),
    )
    for fair in (True, False):
        found = largest_ratio(mechanism, 2, relation, fair)
        assert found <= float(mechanism.cost()) * (1 + 1e-12)
