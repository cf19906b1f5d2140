"""Persons whose rows lie in several files: parts elsewhere answer as one array does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.posted import Posted, lose_all

from dpkv.engine import file_parts
from dpkv.engine.file_parts import FilePart
from dpkv.errors import EngineError, UsageError
from dpkv.mechanisms import MECHANISMS, Neighbours
from dpkv.records.spread import Heard, settle
from dpkv.releases.inputs import FileInput
from dpkv.releases.preparation import prepare_release
from dpkv.releases.produce import rehearse
from dpkv.releases.remote_inputs import RemoteInput
from dpkv.releases.request import Request
from dpkv.releases.settling import settle as settle_plan
from dpkv.tables.person_keys import Reading

SIZES = (0, 130, 1, 269, 0, 100)
WAYS = {
    "shares": {"person": "who"},
    "limit": {"person": "who", "rows_per_person": 3, "neighbours": Neighbours.ADD_REMOVE},
    "mean": {"person": "who", "one_row_per_person": "mean"},
    "survey": {"person": "who", "weight": "w", "most_weight": 4.0},
    "weights": {"weight": "w", "most_weight": 4.0},
    "ignored": {"person": "who", "missing": "ignore"},
    "ignored means": {"person": "who", "one_row_per_person": "mean", "missing": "ignore"},
    "ignored rows": {"missing": "ignore"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six files: persons with rows in many of them, some in one, some rows of nobody."""
    folder = tmp_path_factory.mktemp("parts")
    rng = np.random.default_rng(7)
    rows = sum(SIZES)
    values = np.clip(rng.normal(0, 0.4, (rows, 2)), -1, 1)
    frame = pd.DataFrame(values, columns=["a", "b"])
    frame["who"] = [f"p{n}" for n in rng.zipf(1.4, rows) % 150]
    frame.loc[rng.random(rows) < 0.05, "who"] = ""
    frame["w"] = rng.uniform(0, 5, rows)
    for number, part in enumerate(np.split(np.arange(rows), np.cumsum(SIZES)[:-1])):
        frame.iloc[part].to_parquet(folder / f"{number}.parquet")
    holes = folder / "holes"
    holes.mkdir()
    frame.loc[rng.random(rows) < 0.2, "a"] = np.nan
    frame.loc[frame["who"] == "p1", "b"] = np.nan
    for number, part in enumerate(np.split(np.arange(rows), np.cumsum(SIZES)[:-1])):
        frame.iloc[part].to_parquet(holes / f"{number}.parquet")
    return folder


def simulated(
    folder: Path,
    tmp_path: Path,
    mechanism: str,
    carried: Callable[[Sequence[FilePart]], Posted] | None = None,
    **asked: Any,
) -> Any:
    """Return the centers of a rehearsal: here, or on parts elsewhere."""
    if "missing" in asked:
        folder = folder / "holes"
    facts = {"eps": 3, "bounds": (-1, 1), "columns": ["a", "b"], **asked}
    request = Request(k=4, mechanism=mechanism, **facts)
    files = FileInput(folder, request.table_facts, workspace=tmp_path / "w")
    prepared = prepare_release(request, files)
    if carried is not None:

        @contextmanager
        def engage(parts: list[FilePart]) -> Iterator[Posted]:
            yield carried(parts)

        source = RemoteInput(files, engage)
        plan, domain = prepared.plan, prepared.domain
        source.plan_for(plan, None if domain is None else domain.grid(plan.grid_bits))
        prepared = replace(prepared, source=source)
    table = prepared.read()
    settled = settle_plan(prepared.complete(table), table.n_records, simulated=True)
    done = rehearse(settled, table, seed=5, workspace=tmp_path / "w")
    return done.centers.tolist(), table.n_records


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mechanism", [*MECHANISMS, "auto"])
def test_parts_elsewhere_weigh_persons_as_one_array_does(
    folder: Path, tmp_path: Path, mechanism: str, way: str
) -> None:
    try:
        expected = simulated(folder, tmp_path, mechanism, **WAYS[way])
    except UsageError as refused:  # no proof for this mechanism: refused alike
        with pytest.raises(UsageError) as error:
            simulated(folder, tmp_path, mechanism, Posted, **WAYS[way])
        assert str(error.value) == str(refused)
        return
    assert simulated(folder, tmp_path, mechanism, Posted, **WAYS[way]) == expected


@pytest.mark.parametrize("way", ["shares", "mean", "survey"])
def test_bounds_are_found_on_parts_elsewhere(folder: Path, tmp_path: Path, way: str) -> None:
    asked = {**WAYS[way], "bounds": "private", "eps": 100}
    expected = simulated(folder, tmp_path, "synopsis", **asked)
    assert simulated(folder, tmp_path, "synopsis", Posted, **asked) == expected


@pytest.mark.parametrize("way", ["shares", "mean"])
@pytest.mark.parametrize("mechanism", ["gupt", "synopsis"])
def test_what_is_lost_at_any_moment_changes_no_answer(
    folder: Path, tmp_path: Path, mechanism: str, way: str
) -> None:
    expected = simulated(folder, tmp_path, mechanism, **WAYS[way])
    found = simulated(
        folder, tmp_path, mechanism, lambda parts: Posted(parts, lose_all), **WAYS[way]
    )
    assert found == expected


def test_persons_who_are_weighed_part_by_part_are_noticed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted fault: a person counts once in every part."""

    def apart(told: Sequence[Any]) -> list[Heard]:
        return [settle([one])[0] for one in told]

    expected, persons = simulated(folder, tmp_path, "synopsis", **WAYS["shares"])
    monkeypatch.setattr(file_parts, "settle", apart)
    found, counted = simulated(folder, tmp_path, "synopsis", Posted, **WAYS["shares"])
    assert counted > persons
    assert found != expected


def test_nobody_weighs_more_than_a_person_in_all_parts_together(
    folder: Path, tmp_path: Path
) -> None:
    carriers: list[Posted] = []

    def carried(parts: Sequence[FilePart]) -> Posted:
        carriers.append(Posted(parts))
        return carriers[0]

    _, persons = simulated(folder, tmp_path, "synopsis", carried, **WAYS["shares"])
    weighed = carriers[0].ask_each([keys_and_weights] * len(SIZES))
    keys = np.concatenate([found[0] for found in weighed])
    totals = pd.Series(np.concatenate([found[1] for found in weighed])).groupby(keys).sum()
    assert len(totals) == persons
    assert (totals == 4096).all()


def keys_and_weights(block: Any) -> Any:
    return block.persons.keys, block.weights


def test_a_part_that_changed_before_the_shuffle_is_refused(folder: Path, tmp_path: Path) -> None:
    def carried(parts: Sequence[FilePart]) -> Posted:
        stale = replace(parts[3], state=(0, 0))
        return Posted([*parts[:3], stale, *parts[4:]])

    with pytest.raises(EngineError, match="was changed while it was released from"):
        simulated(folder, tmp_path, "synopsis", carried, **WAYS["shares"])


def test_the_secret_that_tells_persons_apart_is_never_shown() -> None:
    assert "hush" not in repr(Reading("hush"))
