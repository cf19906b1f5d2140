"""Records in parts that lie elsewhere: the answers of one array, to the bit, whoever is lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.posted import Posted, lose_all

from dpkv.domain import Box
from dpkv.engine.file_parts import FilePart
from dpkv.errors import EngineError
from dpkv.grid import Grid
from dpkv.mechanisms import MECHANISMS, Neighbours, calibrate_mechanism
from dpkv.noise import SeededEntropy
from dpkv.records import ArrayRecords, curator_of
from dpkv.records.block import Block
from dpkv.records.remote import RemoteRecords, count_rows
from dpkv.tables.facts import Missing, numeric_facts

SIZES = (0, 130, 1, 269, 0, 100)
SECRET = "0.31337"


def parts_of(
    folder: Path, values: np.ndarray, grid: Grid, sizes: Sequence[int] = SIZES
) -> list[FilePart]:
    facts, parts = numeric_facts(), []
    for number, rows in enumerate(np.split(values, np.cumsum(sizes)[:-1])):
        path = folder / f"{number}.parquet"
        pd.DataFrame(rows, columns=[f"c{j}" for j in range(values.shape[1])]).to_parquet(path)
        parts.append(replace(FilePart.of(path, facts), grid=grid))
    return parts


def table(width: int) -> tuple[Grid, np.ndarray, np.ndarray]:
    domain = Box((-1.0,) * width, (1.0,) * width)
    values = 2.0 * np.random.default_rng(width).beta(0.4, 0.4, (sum(SIZES), width)) - 1.0
    grid = domain.grid()
    return grid, values, grid.quantise(values).astype(np.int32)


def run(name: str, records: Any, grid: Grid, relation: Neighbours) -> Any:
    mechanism = calibrate_mechanism(
        name, Decimal(3), n_records=sum(SIZES), n_clusters=4, grid=grid, neighbours=relation
    )
    curator = curator_of(mechanism, records, SeededEntropy(11))
    return mechanism.run(curator).centers.tolist(), curator.transcript


@pytest.mark.parametrize("width", [2, 25])
@pytest.mark.parametrize("name", MECHANISMS)
def test_parts_elsewhere_answer_as_one_array(name: str, width: int, tmp_path: Path) -> None:
    grid, values, points = table(width)
    carrier = Posted(parts_of(tmp_path, values, grid))
    records = RemoteRecords(carrier, SIZES)
    expected, transcript = run(name, ArrayRecords(points), grid, Neighbours.REPLACE_ONE)
    found, other = run(name, records, grid, Neighbours.REPLACE_ONE)
    assert found == expected
    assert len(other.exchanges) == len(transcript.exchanges)
    on_parts = other.log_probability(records)
    assert on_parts == pytest.approx(transcript.log_probability(ArrayRecords(points)), rel=1e-12)


@pytest.mark.parametrize("name", ["kvariates", "synopsis", "gupt"])
def test_what_is_lost_before_any_question_changes_no_answer(name: str, tmp_path: Path) -> None:
    grid, values, points = table(6)
    expected, _ = run(name, ArrayRecords(points), grid, Neighbours.REPLACE_ONE)
    carrier = Posted(parts_of(tmp_path, values, grid), lose_all)
    found, _ = run(name, RemoteRecords(carrier, SIZES), grid, Neighbours.REPLACE_ONE)
    assert found == expected
    assert carrier.asked > len(SIZES)


def test_a_part_that_is_left_out_is_noticed(tmp_path: Path) -> None:
    """The planted fault: the largest part is empty."""
    grid, values, points = table(2)
    parts = parts_of(tmp_path, values, grid)
    parts[3] = parts[0]
    expected, _ = run("lloyd", ArrayRecords(points), grid, Neighbours.ADD_REMOVE)
    assert run("lloyd", RemoteRecords(Posted(parts), SIZES), grid, Neighbours.ADD_REMOVE)[0] != (
        expected
    )


def test_rows_that_do_not_count_weigh_nothing_in_any_part(tmp_path: Path) -> None:
    grid, values, _ = table(2)
    values[::7, 0] = np.nan
    facts = numeric_facts(missing=Missing.parse("ignore"))
    parts = [replace(part, facts=facts) for part in parts_of(tmp_path, values, grid)]
    carrier = Posted(parts)
    weights = carrier.ask_each([Block.total_weight] * len(parts))
    assert sum(weights) == sum(SIZES) - len(values[::7])
    assert carrier.ask_each([count_rows] * len(parts)) == list(SIZES)


def test_rows_in_the_users_units_are_what_bounds_are_found_on(tmp_path: Path) -> None:
    grid, values, _ = table(2)
    parts = [replace(part, grid=None) for part in parts_of(tmp_path, values, grid)]
    taken = RemoteRecords(Posted(parts), SIZES).take(np.asarray([0, 130, 131, 499]))
    assert taken.points.tolist() == values[[0, 130, 131, 499]].tolist()


def test_a_file_that_changed_is_refused_also_by_a_worker_that_never_saw_it(tmp_path: Path) -> None:
    grid, values, _ = table(2)
    parts = parts_of(tmp_path, values, grid)
    carrier = Posted(parts)
    carrier.ask(1, count_rows)
    pd.DataFrame(values[:9], columns=["c0", "c1"]).to_parquet(parts[1].path)
    for forget in (lambda: None, lose_all):
        forget()
        with pytest.raises(EngineError, match="was changed while it was released from"):
            carrier.ask(1, count_rows)
    carrier.ask(3, count_rows)


def test_a_file_that_is_gone_is_told(tmp_path: Path) -> None:
    grid, values, _ = table(2)
    parts = parts_of(tmp_path, values, grid)
    Path(parts[3].path).unlink()
    with pytest.raises(EngineError, match="cannot be read"):
        Posted(parts).ask(3, count_rows)


def quote_a_record(block: Block) -> int:
    raise ValueError(f"the record is {block.points[0]} {SECRET}")


def run_out_of_memory(_: Block) -> int:
    raise MemoryError(SECRET)


@pytest.mark.parametrize("task", [quote_a_record, run_out_of_memory])
def test_a_worker_that_fails_quotes_no_record(task: Any, tmp_path: Path) -> None:
    grid, values, _ = table(2)
    with pytest.raises(EngineError, match="a worker") as error:
        Posted(parts_of(tmp_path, values, grid)).ask(1, task)
    assert SECRET not in str(error.value)
    assert "record is" not in str(error.value)
