"""A data set that was given a name is asked for again: arrays open no account of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpkv
from dpkv import PrivateKMeans
from dpkv.errors import UsageError
from dpkv.ledger import Ledger

X = np.random.default_rng(0).uniform(-0.9, 0.9, (60, 2))
ASKED: dict[str, Any] = {"k": 2, "eps": 1, "bounds": (-1, 1), "mechanism": "lloyd"}


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / ".dpkv"


def accounts(workspace: Path) -> dict[str, int]:
    return {one.dataset: one.n_charges for one in Ledger(workspace).read().accounts()}


def test_a_part_of_named_data_opens_no_account(workspace: Path) -> None:
    dpkv.release(X, **ASKED, dataset="people")
    with pytest.raises(UsageError, match=r'^dataset must be given: .* charged to "people"'):
        dpkv.release(X[:30], **ASKED)
    with pytest.raises(UsageError, match="dataset must be given"):
        PrivateKMeans(2, 1.0, bounds=(-1, 1)).fit(X)
    assert accounts(workspace) == {"name:people": 1}
    dpkv.release(X[:30], **ASKED, dataset="people")
    dpkv.release(X[:30], **ASKED, dataset="others")
    assert accounts(workspace) == {"name:people": 2, "name:others": 1}
    with pytest.raises(UsageError, match=r'"people", "others"|"people" and "others"'):
        dpkv.release(X[:20], **ASKED)


def test_every_kind_of_frame_is_asked_once_and_remembered(workspace: Path) -> None:
    table = pd.DataFrame(X, columns=["east", "north"])
    with pytest.warns(UserWarning, match="dataset is not named: without a name"):
        dpkv.release(table[:20], **ASKED)
    dpkv.release(table, **ASKED, dataset="people")
    polars = pytest.importorskip("polars")
    swapped = polars.DataFrame({"north": X[:, 1], "east": X[:, 0]})
    for data in (table[:30], swapped):
        with pytest.warns(UserWarning, match='charged to the data set "people", as releases'):
            dpkv.release(data, **ASKED)
    with pytest.warns(UserWarning, match='charged to the data set "people"'):
        PrivateKMeans(2, 1.0, bounds=(-1, 1)).fit(table[:40])
    assert accounts(workspace)["name:people"] == 4 and len(accounts(workspace)) == 2
    dpkv.release(table[:20], **ASKED)  # has an account
    dpkv.release(table[:30], **ASKED, dataset="others")
    with pytest.raises(UsageError, match="dataset must be given"):
        dpkv.release(table[:50], **ASKED)
    with pytest.raises(UsageError, match="dataset must be given"):
        dpkv.release(X[:50], **ASKED, columns=["east", "north"])


def test_what_is_not_asked(workspace: Path) -> None:
    """Other columns; an account that was there before the name; files; the same release again."""
    dpkv.release(X, **ASKED)
    dpkv.release(X, **ASKED, dataset="people", release_id="mine")
    dpkv.release(X, **ASKED)
    other = pd.DataFrame(X, columns=["east", "north"])
    dpkv.release(other[:30], **ASKED)
    Path("x.csv").write_text("x1,x2\n0.5,0.25\n0.1,0.2\n")
    dpkv.release("x.csv", header=True, **ASKED)
    dpkv.release(X[:30], **ASKED, workspace=None)
    assert sorted(accounts(workspace).values()) == [1, 1, 1, 2]


def test_a_lost_record_asks_nothing(workspace: Path) -> None:
    """What is known of columns is in kept records: without one there is nothing to compare."""
    made = dpkv.release(X, **ASKED, dataset="people")
    (workspace / "releases" / f"{made.record.release_id}.json").write_text("no record")
    dpkv.release(X[:30], **ASKED)
    assert len(accounts(workspace)) == 2
