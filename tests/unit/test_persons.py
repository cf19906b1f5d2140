"""Units of privacy, and what every row weighs: exact, person by person, and whatever others do."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpkv.accounting import PERSON, PERSON_SHARES, ROW, Neighbours, Unit
from dpkv.domain import Box, L1Ball
from dpkv.errors import ParameterError, PlanError
from dpkv.mechanisms import MECHANISMS, calibrate_mechanism, describe, from_description
from dpkv.mechanisms.private_bounds import PrivateBounds
from dpkv.noise import SeededEntropy
from dpkv.records import ArrayRecords, curator_of
from dpkv.records.persons import RowFacts, Weighing, means_of, owners_of

REPLACE, ADD = Neighbours.REPLACE_ONE, Neighbours.ADD_REMOVE
GRID = Box((-1.0, -1.0), (1.0, 1.0)).grid()
MANY = Unit("person", 6, even=False)


def keys_of(names: list[int]) -> np.ndarray:
    return np.asarray(names, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)


def facts(names: list[int], counts: list[int] | None = None, weights: list[int] | None = None):
    return RowFacts(
        len(names),
        owners_of(keys_of(names)),
        None if counts is None else np.asarray(counts, dtype=bool),
        None if weights is None else np.asarray(weights, dtype=np.int64),
    )


def test_persons_are_numbered_by_their_first_rows():
    found = owners_of(keys_of([7, 3, 7, 9, 3, 3]))
    assert (found.count, found.numbers.tolist()) == (3, [0, 1, 0, 2, 1, 1])
    assert owners_of(keys_of([])).count == 0


def test_more_persons_than_the_first_table_of_slots_holds():
    names = np.random.default_rng(1).integers(0, 30_000, 100_000)
    found = owners_of(keys_of(names.tolist()))
    first: dict[int, int] = {}
    expected = [first.setdefault(name, len(first)) for name in names.tolist()]
    assert (found.count, found.numbers.tolist()) == (len(first), expected)


def test_keys_that_fall_on_the_same_slots_stay_apart():
    keys = (np.arange(3000, dtype=np.uint64) << np.uint64(40)) + np.uint64(5)
    assert owners_of(np.tile(keys, 2)).numbers.tolist() == [*range(3000), *range(3000)]


def test_the_rest_of_a_person_goes_to_the_first_rows():
    weights = facts([1, 2, 1, 1]).weigh(Weighing("share"))
    assert weights.tolist() == [1366, 4096, 1365, 1365]


def test_a_row_that_does_not_count_leaves_its_share_to_the_others():
    how = Weighing("share", may_ignore=True, shares=10)
    found = facts([1, 1, 1, 2, 2], [0, 1, 1, 0, 0])
    assert found.weigh(how).tolist() == [0, 5, 5, 0, 0]
    assert found.n_records == 2


def test_survey_weights_of_a_person_are_averaged_and_shared():
    how = Weighing("share", most_weight=3.0)
    found = facts([1, 2, 1], weights=[100, 4096, 51]).weigh(how)
    assert found.tolist() == [38, 4096, 37]


def test_the_first_rows_that_count_are_kept():
    how = Weighing("limit", most_rows=2, may_ignore=True)
    assert facts([1, 1, 1, 1, 2], [1, 0, 1, 1, 1]).weigh(how).tolist() == [1, 0, 1, 0, 1]


def test_rows_without_persons_weigh_one_or_their_weight():
    assert not RowFacts(3).weigh(Weighing()).size
    some = RowFacts(2, counts=np.array([True, False]))
    assert some.weigh(Weighing(may_ignore=True)).tolist() == [1, 0]
    both = RowFacts(2, None, np.array([True, False]), np.array([7, 9]))
    assert both.weigh(Weighing(most_weight=2.0, may_ignore=True)).tolist() == [7, 0]


tables = st.lists(
    st.tuples(st.integers(0, 4), st.booleans(), st.integers(0, 64)), min_size=1, max_size=40
)
ways = st.sampled_from(
    [
        Weighing("share", shares=5),
        Weighing("share", shares=64),
        Weighing("share", may_ignore=True, shares=64),
        Weighing("share", most_weight=1.5, shares=64),
        Weighing("share", most_weight=1.5, may_ignore=True, shares=3),
        Weighing("limit", most_rows=2),
        Weighing("limit", most_rows=3, may_ignore=True),
    ]
)


def weighed(rows: list[tuple[int, bool, int]], how: Weighing) -> list[int]:
    names, counts, weights = (list(column) for column in zip(*rows, strict=True))
    weights = [min(weight, how.shares) for weight in weights]
    return (
        facts(
            names,
            counts if how.may_ignore else None,
            weights if how.most_weight is not None else None,
        )
        .weigh(how)
        .tolist()
    )


@given(tables, ways)
def test_nobody_weighs_more_than_a_unit_and_all_the_same_where_that_is_said(rows, how):
    sums: dict[int, int] = defaultdict(int)
    for (name, _, _), weight in zip(rows, weighed(rows, how), strict=True):
        assert weight >= 0
        sums[name] += weight
    assert max(sums.values()) <= how.unit.shares
    if how.unit.even:
        assert set(sums.values()) == {how.unit.shares}


@given(tables, tables, ways)
def test_what_a_row_weighs_depends_on_its_own_person_alone(rows, others, how):
    """All rows of other persons replaced, moved and mixed in between: nothing changes."""
    own = [row for row in rows if row[0] == rows[0][0]]
    strangers = [(10 + name, counts, weight) for name, counts, weight in others]
    mixed = [row for pair in zip(strangers, own, strict=False) for row in pair]
    mixed += strangers[len(own) :] + own[len(others) :]
    alone = weighed(own, how)
    among = weighed(mixed, how)
    kept = [weight for row, weight in zip(mixed, among, strict=True) if row[0] < 10]
    assert kept == alone


# -- means -----------------------------------------------------------------------------------------


def means_in(points, keys, counts=None):
    facts = RowFacts(len(points), owners_of(keys), counts)
    return means_of(facts.person_sums(points), facts.person_rows())


def test_means_are_rounded_toward_zero_and_skip_rows_that_do_not_count():
    points = np.array([[3, -3], [4, -4], [9, 9], [5, 5]], np.int32)
    counts = np.array([True, True, False, False])
    means, some = means_in(points, keys_of([1, 1, 1, 2]), counts)
    assert means.tolist() == [[3, -3], [0, 0]]
    assert some.tolist() == [1, 0]


@pytest.mark.parametrize("domain", [Box((0.0,) * 3, (1.0, 2.0, 3.0)), L1Ball((0.0,) * 3, 1.0)])
def test_means_stay_in_the_domain(domain):
    rng = np.random.default_rng(4)
    grid = domain.grid()
    points = grid.spread(np.rint(rng.uniform(size=(500, 3))))
    means, _ = means_in(points, keys_of(rng.integers(0, 60, 500).tolist()))
    assert np.array_equal(grid.clip(means), means)


# -- records ---------------------------------------------------------------------------------------


def test_some_persons_rows_are_taken_from_several_blocks():
    owners = owners_of(keys_of([1, 2, 1, 3, 2, 1]))
    points = np.arange(6)[:, np.newaxis]
    records = ArrayRecords(points, np.arange(6) + 10, owners=owners, cuts=(2, 5))
    assert records.n_records == 3
    taken = records.take(np.array([0, 2]))
    assert taken.points[:, 0].tolist() == [0, 2, 3, 5]
    assert taken.weights.tolist() == [10, 12, 13, 15]
    assert not records.take(np.array([], dtype=np.int64)).n_rows


# -- units and prices ------------------------------------------------------------------------------


def test_what_changes_between_neighbours():
    assert (ROW.changed(REPLACE), ROW.changed(ADD)) == (2, 1)
    assert (PERSON.changed(REPLACE), PERSON.changed(ADD)) == (2 * PERSON_SHARES, PERSON_SHARES)
    assert Unit("row", 4096, even=False, worth=2.5).counted(2048) == 1.25


@pytest.mark.parametrize(
    ("facts", "named"),
    [
        ({"kind": "household"}, "unit"),
        ({"shares": 0}, "shares"),
        ({"shares": 2**21}, "shares"),
        ({"even": 1}, "even"),
        ({"worth": 0.0}, "worth"),
    ],
)
def test_units_that_make_no_sense_are_refused(facts, named):
    with pytest.raises(ParameterError, match=f"^{named} must be"):
        Unit(**facts)


def mechanism(name: str, unit: Unit, relation: Neighbours, eps: str = "1", **options):
    return calibrate_mechanism(
        name, Decimal(eps), n_records=400, n_clusters=3, grid=GRID, neighbours=relation, unit=unit,
        **options,
    )  # fmt: skip


COVERED = [
    (name, relation, unit)
    for name, kind in MECHANISMS.items()
    for relation in kind.relations
    for unit in (PERSON, MANY)
    if kind.knows_units and (unit.even or not kind.needs_even_units)
]


@pytest.mark.parametrize(("name", "relation", "unit"), COVERED, ids=str)
def test_a_price_for_persons_is_what_was_asked_for(name, relation, unit):
    made = mechanism(name, unit, relation)
    assert Decimal("0.999") < made.cost() <= 1
    assert from_description(describe(made), GRID) == made
    assert made.predicted_error(400) == pytest.approx(
        mechanism(name, Unit(even=unit.even), relation).predicted_error(400), rel=0.1
    )


@pytest.mark.parametrize("relation", [REPLACE, ADD])
def test_noise_on_sums_is_as_many_times_wider_as_a_person_has_shares(relation):
    of_rows, of_persons = (mechanism("lloyd", unit, relation) for unit in (ROW, PERSON))
    for name in ("count_scale", "sum_scale"):
        times = Fraction(getattr(of_persons, name)) / Fraction(getattr(of_rows, name))
        assert float(times) == pytest.approx(PERSON_SHARES, rel=1e-12)
    bounds = (
        PrivateBounds.calibrate(Decimal(1), n_features=2, neighbours=relation, unit=unit)
        for unit in (ROW, PERSON)
    )
    assert [found.noise_scale for found in bounds] == [
        2 * relation.changed_records,
        2 * relation.changed_records * PERSON_SHARES,
    ]


@pytest.mark.parametrize("name", ["kvariates", "laplace", "forgy", "gupt"])
def test_noise_on_centers_is_that_of_rows(name):
    of_rows, of_persons = (mechanism(name, unit, REPLACE) for unit in (ROW, PERSON))
    assert of_rows.noise_scale == of_persons.noise_scale


def test_theorem_a_refuses_units_that_may_weigh_nothing():
    for unit in (MANY, Unit(even=False)):
        with pytest.raises(ParameterError, match="mechanism must be 'laplace'"):
            mechanism("kvariates", unit, REPLACE)
        with pytest.raises(ParameterError, match="unit must be one that all weigh the same"):
            replace(mechanism("kvariates", PERSON, REPLACE), unit=unit)


def test_a_mechanism_that_forgets_the_unit_is_stopped_at_the_door():
    """Questions are priced by the curator's unit, whatever a mechanism's plan says."""
    made = mechanism("lloyd", ROW, REPLACE)
    object.__setattr__(made, "unit", PERSON)
    records = ArrayRecords(np.zeros((2, 2), np.int32))
    with pytest.raises(PlanError, match="costs more than was charged"):
        curator_of(made, records, SeededEntropy(0), charged=Decimal(1))


def test_where_nothing_counts_the_middle_is_released():
    made = mechanism("laplace", MANY, REPLACE, eps="1e6")
    nothing = ArrayRecords(np.full((4, 2), 9, np.int32), np.zeros(4, np.int64))
    centers = made.run(curator_of(made, nothing, SeededEntropy(0))).centers
    assert np.abs(centers - GRID.middle).max() < 10


def test_rows_that_weigh_nothing_are_as_if_they_were_not_there():
    points = np.random.default_rng(0).integers(0, 1000, (60, 2)).astype(np.int32)
    weights = np.tile([6, 0, 3], 20)
    for name in ("lloyd", "synopsis", "forgy", "laplace"):
        made = mechanism(name, MANY, ADD)
        found = [
            made.run(curator_of(made, ArrayRecords(*rows), SeededEntropy(3))).centers
            for rows in ((points, weights), (points[weights > 0], weights[weights > 0]))
        ]
        assert np.array_equal(*found), name


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"most_rows": 2}, "rows_per_person"),
        ({"persons": "limit"}, "rows_per_person"),
        ({"persons": "limit", "most_rows": 0}, "rows_per_person"),
        ({"persons": "mean", "most_weight": 2.0}, "weight"),
        ({"persons": "limit", "most_rows": 2, "most_weight": 2.0}, "weight"),
    ],
)
def test_ways_to_weigh_that_make_no_sense_are_refused(options, named):
    with pytest.raises(ParameterError, match=f"^{named} must be"):
        Weighing(**options)


def test_a_mechanism_that_says_nothing_of_units_runs_for_rows_alone():
    """Whoever writes one without thinking of persons must not be trusted with them."""

    class Unaware(MECHANISMS["lloyd"]):
        knows_units = False

    fields = describe(mechanism("lloyd", PERSON, REPLACE))
    scales = {name: fields[name] for name in ("iterations", "count_scale", "sum_scale")}
    assert Unaware(3, GRID, REPLACE, **scales).unit == ROW
    with pytest.raises(ParameterError, match="unit must be a row for lloyd"):
        Unaware(3, GRID, REPLACE, **scales, unit=PERSON)
