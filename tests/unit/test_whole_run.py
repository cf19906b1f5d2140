"""The largest loss of a whole run: reached where prices are tight, exceeded by faults alone."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from dpkv.accounting import PERSON, ROW, Neighbours, Unit
from dpkv.audits.faults import FAULTS, plant_fault
from dpkv.audits.run_losses import Search, replayed_losses, worst_runs
from dpkv.audits.run_witness import check_run_witness, parse_run_witness, run_witness_of
from dpkv.audits.whole_run import CompactTable, FoundLoss, search_runs
from dpkv.domain import Box, L1Ball
from dpkv.errors import UsageError
from dpkv.mechanisms import MECHANISMS, Lloyd, Mechanism, calibrate_mechanism, describe
from dpkv.records import one_row_each
from dpkv.records.persons import Weighing
from dpkv.records.questions import RecordCount

SQUARE = Box((0.0, 0.0), (1.0, 1.0))
ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
COVERED = [(name, relation) for name, kind in MECHANISMS.items() for relation in kind.relations]
FOUND_BY_RUNS = [name for name in FAULTS if name != "float-noise"]


def mechanism_for(
    name: str,
    relation: Neighbours,
    k: int,
    delta: str = "0",
    domain: Box = SQUARE,
    unit: Unit = ROW,
) -> Callable[[int], Mechanism]:
    """Return what calibrates a mechanism for so many records."""

    def calibrated(n_records: int) -> Mechanism:
        return calibrate_mechanism(
            name, Decimal(1), n_records=max(n_records, k), n_clusters=k, grid=domain.grid(),
            neighbours=relation, delta=Decimal(delta), unit=unit,
        )  # fmt: skip

    return calibrated


def search(
    name: str,
    relation: Neighbours,
    k: int,
    tries: int = 16,
    delta: str = "0",
    domain: Box = SQUARE,
    unit: Unit = ROW,
) -> FoundLoss:
    """Return the worst run of a mechanism."""
    program = mechanism_for(name, relation, k, delta, domain, unit)
    needed = program(k).n_records_needed
    found = search_runs(
        program, n_clusters=k, tries=tries, seed=0, n_records=None if needed is None else k
    )
    assert found is not None
    return found


@pytest.mark.parametrize(("name", "relation"), COVERED, ids=[f"{n}-{r.value}" for n, r in COVERED])
@pytest.mark.parametrize("k", [1, 2])
def test_no_run_of_any_mechanism_loses_more_than_its_price(
    name: str, relation: Neighbours, k: int
) -> None:
    found = search(name, relation, k, tries=10)
    assert not found.violates, found.scene
    assert found.loss > 0.2 * found.price


TIGHT = [
    ("kvariates", REPLACE, 1, "0"),
    ("laplace", REPLACE, 3, "0"),
    ("forgy", REPLACE, 3, "0"),
    ("gupt", REPLACE, 1, "0"),
    ("lloyd", REPLACE, 3, "0"),
    ("lloyd", ADD, 3, "0"),
    ("synopsis", REPLACE, 3, "0"),
    ("synopsis", REPLACE, 1, "1e-6"),
    ("synopsis", ADD, 1, "0"),
    ("synopsis", ADD, 1, "1e-6"),
]
TEN = Box((0.0,) * 10, (1.0,) * 10)
"""In fewer columns a delta changes nothing: there Laplace noise is less than Gaussian noise."""
WEIGHTED = Weighing(most_weight=2.5).unit


@pytest.mark.parametrize(
    ("name", "relation", "k", "delta"),
    TIGHT,
    ids=lambda value: value.value if isinstance(value, Neighbours) else str(value),
)
@pytest.mark.parametrize("unit", [ROW, PERSON, WEIGHTED], ids=["row", "person", "weighted"])
def test_the_price_is_reached_to_95_percent(
    name: str, relation: Neighbours, k: int, delta: str, unit: Unit
) -> None:
    if not unit.even and MECHANISMS[name].needs_even_units:
        pytest.skip("its proof is for records of equal weight")
    domain = SQUARE if delta == "0" else TEN
    found = search(name, relation, k, tries=60, delta=delta, domain=domain, unit=unit)
    assert 0.95 < found.share <= 1.0 + 1e-9, (found.share, found.scene)
    assert any(step.rho is not None for step in found.steps) == (delta != "0")


@pytest.mark.parametrize("name", ["laplace", "forgy"])
@pytest.mark.parametrize(("width", "unit"), [(2, PERSON), (40, ROW), (40, PERSON)])
def test_heavy_groups_of_records_are_searched_where_sums_of_distances_are_large(
    name: str, width: int, unit: Unit
) -> None:
    """A group is cut into rows whose distances add up exactly, or made smaller."""
    wide = Box((0.0,) * width, (1.0,) * width)
    found = search(name, ADD, 2, tries=40, domain=wide, unit=unit)
    assert not found.violates
    assert max(found.first.counts.sum(), found.second.counts.sum()) > 1


def test_a_group_of_several_rows_is_the_group() -> None:
    table = CompactTable(np.asarray([[1, 2], [5, 5]], np.int32), np.asarray([7, 2]))
    whole, cut = table.records(4), table.records(4, heaviest=12)
    assert whole.n_records == cut.n_records == 9
    (weights,) = cut.gather(lambda block: block.weights.tolist())
    assert weights == [12, 12, 4, 8]
    assert RecordCount(1.0).exact(cut).tolist() == RecordCount(1.0).exact(whole).tolist() == [36]
    chosen = np.asarray([0, 6, 7])
    assert cut.take(chosen).points.tolist() == whole.take(chosen).points.tolist()


@pytest.mark.parametrize(
    ("name", "relation", "k"),
    [(name, relation, 2 if name != "gupt" else 1) for name, relation in COVERED],
    ids=[f"{name}-{relation.value}" for name, relation in COVERED],
)
def test_a_witness_of_a_run_is_recomputed_by_other_code(
    name: str, relation: Neighbours, k: int
) -> None:
    found = search(name, relation, k, tries=8)
    mechanism = mechanism_for(name, relation, k)(found.scene.n_records)
    witness = run_witness_of(found, mechanism, SQUARE, "1")
    assert witness is not None
    again = parse_run_witness(witness.to_json(), "witness.json")
    assert [check.passed for check in check_run_witness(again)] == [True] * 4
    # A claim below what the run loses is refuted, and whatever is changed is noticed.
    low = again.model_copy(update={"claimed_eps": f"{found.loss * 0.99:.6f}"})
    assert [check.passed for check in check_run_witness(low)] == [True, True, True, False]
    other = again.model_copy(update={"loss": again.loss + 1e-6})
    assert not check_run_witness(other)[2].passed
    same = again.model_copy(update={"second": again.first})
    assert not check_run_witness(same)[0].passed
    first, *rest = again.questions
    fewer = again.model_copy(update={"questions": (*again.questions, first)})
    assert not check_run_witness(fewer)[1].passed
    changed = {**first.facts, "centers": [[7, 7]], "threshold": 10**6, "scales": [0.5, 0.5]}
    lied = again.model_copy(
        update={"questions": (first.model_copy(update={"facts": changed}), *rest)}
    )
    with contextlib.suppress(UsageError):
        assert not check_run_witness(lied)[1].passed


@pytest.mark.parametrize("unit", [ROW, PERSON], ids=["row", "person"])
@pytest.mark.parametrize(("columns", "delta"), [(10, "1e-6"), (24, "0"), (24, "1e-6")])
@pytest.mark.parametrize("relation", [ADD, REPLACE], ids=lambda relation: relation.value)
def test_witnesses_of_gaussian_noise_and_of_mapped_cells_are_recomputed(
    relation: Neighbours, columns: int, delta: str, unit: Unit
) -> None:
    wide = Box((0.0,) * columns, (1.0,) * columns)
    found = search("synopsis", relation, 2, tries=6, delta=delta, domain=wide, unit=unit)
    mechanism = mechanism_for("synopsis", relation, 2, delta, wide, unit)(found.scene.n_records)
    witness = run_witness_of(found, mechanism, wide, "1")
    assert witness is not None
    facts = [one.facts for one in witness.questions]
    assert any(one.get("gaussian", False) for one in facts) == (delta != "0")
    assert any("map" in one for one in facts) == (columns > 20)
    again = parse_run_witness(witness.to_json(), "witness.json")
    assert [check.passed for check in check_run_witness(again)] == [True] * 4
    low = again.model_copy(update={"claimed_eps": f"{found.loss * 0.99:.6f}"})
    assert [check.passed for check in check_run_witness(low)] == [True, True, True, False]
    other = again.model_copy(update={"loss": again.loss * 0.99})
    assert not check_run_witness(other)[2].passed


def test_a_witness_shows_a_question_above_its_own_price() -> None:
    """Half the noise on the sums alone: the whole stays below a claim that is far above it."""
    sound = mechanism_for("lloyd", ADD, 1)(1)
    assert isinstance(sound, Lloyd)
    found = search("lloyd", ADD, 1)
    witness = run_witness_of(found, sound, SQUARE, "1")
    assert witness is not None
    cheap = replace(sound, sum_scale=2 * sound.sum_scale)
    lied = witness.model_copy(update={"claimed_eps": "9", "mechanism": describe(cheap)})
    checks = check_run_witness(lied)
    assert not checks[1].passed  # the mechanism's own questions have other noise
    assert not checks[3].passed
    assert "more than its price" in checks[3].detail


@pytest.mark.parametrize("name", FOUND_BY_RUNS)
def test_a_planted_fault_loses_more_than_is_claimed(name: str) -> None:
    def faulty(n_records: int, k: int) -> Mechanism:
        return plant_fault(
            name, Decimal(1), n_records=n_records, n_clusters=k, domain=SQUARE, gamma=0.1
        ).mechanism

    found = worst_runs(faulty, 2, 300, Decimal(1), Search(16, 0))
    assert any(one.violates for one in found.losses)
    assert all(one.problem for one in found.losses if one.violates)


def test_the_loss_is_that_of_the_answers_on_both_tables() -> None:
    """The sum again, by the probabilities of all answers on tables of single rows."""
    found = search("synopsis", ADD, 1)
    tables = [
        one_row_each(np.repeat(table.points, table.counts, axis=0), 1)
        for table in (found.first, found.second)
    ]
    first, second = (
        math.fsum(one.question.log_probability(table, one.answer) for one in found.exchanges)
        for table in tables
    )
    assert abs(first - second) == pytest.approx(found.loss, abs=1e-6)


def test_equal_records_are_as_good_as_rows_of_their_own() -> None:
    table = CompactTable(np.asarray([[1, 2], [5, 5]], np.int32), np.asarray([3, 2]))
    records = table.records(4)
    assert records.n_records == 5
    assert RecordCount(1.0).exact(records).tolist() == [20]
    block = records.take(np.asarray([0, 2, 3]))
    assert block.points.tolist() == [[1, 2], [1, 2], [5, 5]]
    assert block.total_weight() == 12


@pytest.mark.parametrize("domain", [SQUARE, L1Ball((0.0, 0.0), 1.0)], ids=["box", "ball"])
@pytest.mark.parametrize(("name", "relation"), [("lloyd", ADD), ("synopsis", REPLACE)])
def test_runs_on_records_lose_less_than_is_claimed(
    domain: Box | L1Ball, name: str, relation: Neighbours
) -> None:
    grid = domain.grid()
    points = grid.spread(np.random.default_rng(3).uniform(size=(60, 2))).astype(np.int32)

    def calibrated(n_records: int, k: int) -> Mechanism:
        return calibrate_mechanism(
            name, Decimal(1), n_records=n_records, n_clusters=k, grid=grid, neighbours=relation
        )

    found = replayed_losses(calibrated, 2, points, Decimal(1), runs=2, seed=0)
    assert len(found.simulated_losses) == 2
    assert 0.0 < max(found.simulated_losses) <= 1.0
    assert found.n_replacements > 10
