"""A table beyond the memory limit: in nameless files, block by block, with the same answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpkv import scratch
from dpkv.mechanisms import MECHANISMS
from dpkv.records.block import Block
from dpkv.releases.inputs import FileInput
from dpkv.releases.preparation import prepare_release
from dpkv.releases.produce import rehearse
from dpkv.releases.request import Request
from dpkv.releases.settling import settle

N = 4000
EVERYTHING, NEXT_TO_NOTHING = 1 << 30, 1 << 10  # bytes


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("data") / "t.csv"
    columns = {"a": rng.uniform(-1, 1, N), "b": rng.normal(0, 0.2, N)}
    frame = pd.DataFrame({**columns, "who": rng.integers(0, N // 4, N)})
    frame.to_csv(path, index=False)
    return path


def centers(table: Path, workspace: Path, limit: int, **options: Any) -> list[list[float]]:
    request = Request(k=3, eps=1, bounds=(-1, 1), columns=["a", "b"], header=True, **options)
    source = FileInput(table, request.table_facts, memory_limit=limit, workspace=workspace)
    prepared = prepare_release(request, source)
    read = prepared.read()
    settled = settle(prepared.complete(read), read.n_records, simulated=True)
    return rehearse(settled, read, seed=1, workspace=workspace).centers.tolist()


@pytest.mark.parametrize("person", [None, "who"])
@pytest.mark.parametrize(
    "mechanism", [name for name, kind in MECHANISMS.items() if kind.knows_units]
)
def test_the_limit_changes_no_answer(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mechanism: str, person: str | None
) -> None:
    rests = []
    plain = Block.rest

    def rest(block: Block) -> None:
        rests.append(block.n_rows)
        plain(block)

    monkeypatch.setattr(Block, "rest", rest)
    monkeypatch.setattr(scratch, "_BLOCK_NUMBERS", 1400)
    options = {"mechanism": mechanism, "person": person}
    expected = centers(table, tmp_path, EVERYTHING, **options)
    asked = bool(rests)  # or rows were taken, and no block asked
    assert set(rests) == ({N} if asked else set())
    rests.clear()
    assert centers(table, tmp_path, NEXT_TO_NOTHING, **options) == expected
    assert set(rests) == ({700, N % 700} if asked else set())


def test_what_is_let_go_of_is_still_there(tmp_path: Path) -> None:
    array = scratch.empty_in(tmp_path, (1 << 16, 3), np.int32)
    array[:] = np.arange(array.size).reshape(array.shape)
    beside = scratch.empty_beside(array[100:], (5,), np.int64)
    beside[:] = 7
    for one in (array, array[5:], beside):
        scratch.let_go(one)
    assert (array.reshape(-1) == np.arange(array.size)).all() and (beside == 7).all()
    assert list(tmp_path.iterdir()) == []


def test_what_may_have_been_written_to_is_kept(tmp_path: Path) -> None:
    np.arange(1 << 16).tofile(tmp_path / "x")
    array = np.asarray(np.memmap(tmp_path / "x", np.int64, mode="c"))
    array[3] = 5
    scratch.let_go(array)
    assert array[3] == 5


def test_memory_is_let_alone() -> None:
    array = np.arange(5)
    scratch.let_go(array)
    assert array.tolist() == list(range(5))
    assert type(scratch.empty_beside(array, (2,), np.int64)) is np.ndarray
    assert list(scratch.cuts_of(np.zeros((10, 2)))) == []
