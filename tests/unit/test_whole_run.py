"""The largest loss of a whole run: reached where prices are tight, exceeded by faults alone."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pytest

from dpkv.accounting import Neighbours
from dpkv.audits.faults import FAULTS, plant_fault
from dpkv.audits.run_losses import Search, replayed_losses, worst_runs
from dpkv.audits.run_witness import check_run_witness, parse_run_witness, run_witness_of
from dpkv.audits.whole_run import CompactTable, FoundLoss, search_runs
from dpkv.domain import Box, L1Ball
from dpkv.errors import UsageError
from dpkv.mechanisms import MECHANISMS, Mechanism, calibrate_mechanism
from dpkv.records import one_row_each
from dpkv.records.questions import RecordCount

SQUARE = Box((0.0, 0.0), (1.0, 1.0))
ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
COVERED = [(name, relation) for name, kind in MECHANISMS.items() for relation in kind.relations]
FOUND_BY_RUNS = [name for name in FAULTS if name != "float-noise"]


def mechanism_for(
    name: str, relation: Neighbours, k: int, delta: str = "0", eps: str = "1"
) -> Callable[[int], Mechanism]:
    """Return what calibrates a mechanism for so many records."""

    def calibrated(n_records: int) -> Mechanism:
        return calibrate_mechanism(
            name, Decimal(eps), n_records=max(n_records, k), n_clusters=k, grid=SQUARE.grid(),
            neighbours=relation, delta=Decimal(delta),
        )  # fmt: skip

    return calibrated


def search(name: str, relation: Neighbours, k: int, tries: int = 16, delta: str = "0") -> FoundLoss:
    """Return the worst run of a mechanism."""
    program = mechanism_for(name, relation, k, delta)
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


@pytest.mark.parametrize(
    ("name", "relation", "k", "delta"),
    [
        ("kvariates", REPLACE, 1, "0"),
        ("laplace", REPLACE, 3, "0"),
        ("forgy", REPLACE, 3, "0"),
        ("gupt", REPLACE, 1, "0"),
        ("lloyd", REPLACE, 3, "0"),
        ("lloyd", ADD, 3, "0"),
        ("synopsis", REPLACE, 3, "0"),
        ("synopsis", REPLACE, 3, "1e-6"),
        ("synopsis", ADD, 1, "0"),
        ("synopsis", ADD, 1, "1e-6"),
    ],
    ids=lambda value: value.value if isinstance(value, Neighbours) else str(value),
)
def test_the_price_is_reached_to_95_percent(
    name: str, relation: Neighbours, k: int, delta: str
) -> None:
    found = search(name, relation, k, delta=delta)
    assert 0.95 < found.share <= 1.0 + 1e-9, (found.share, found.scene)


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
