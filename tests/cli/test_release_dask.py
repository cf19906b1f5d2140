"""`dpkv release --engine dask` on real processes: the same answers, whoever is killed and when."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.cluster import PATIENCE, Cluster, running_cluster
from support.run import Run, in_process, refusal

from dpkv.engine import dask_engine
from dpkv.ledger import Ledger

pytest.importorskip("distributed", reason="needs pip install 'dpkv[dask]'")
pytestmark = [
    pytest.mark.dask,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="signals differ"),
]

TABLE = np.random.default_rng(0).uniform(-1, 1, (3000, 2))
ASKED = ("--k", "3", "--eps", "1", "--bounds=-1,1", "--json")
PERSONS = ("--columns", "a,b", "--person", "who")


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table in four uneven files, one of them without a row."""
    folder = tmp_path_factory.mktemp("data") / "parts"
    folder.mkdir()
    for number, part in enumerate(np.split(TABLE, [700, 700, 2500])):
        pd.DataFrame(part, columns=["a", "b"]).to_parquet(folder / f"part-{number}.parquet")
    return folder


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same rows, of 400 persons who have rows in all files but the one without any."""
    folder = tmp_path_factory.mktemp("data") / "visits"
    folder.mkdir()
    frame = pd.DataFrame(TABLE, columns=["a", "b"])
    frame["who"] = np.random.default_rng(1).integers(0, 400, len(frame))
    for number, part in enumerate(np.split(np.arange(len(frame)), [700, 700, 2500])):
        frame.iloc[part].to_parquet(folder / f"part-{number}.parquet")
    return folder


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return in_process(monkeypatch, capsys, tmp_path)


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster"), 2) as started:
        yield started


class Meanwhile:
    """Does something to the cluster when a question is asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, event: Callable[[int, Any], None]) -> None:
        self.questions = 0
        plain = dask_engine.DaskTransport.ask_each

        def ask_each(transport: Any, requests: Any) -> list[Any]:
            self.questions += 1
            event(self.questions, transport)
            return plain(transport, requests)

        monkeypatch.setattr(dask_engine.DaskTransport, "ask_each", ask_each)


def simulated(run: Run, parts: Path, *options: str) -> Any:
    done = run("simulate", parts, *ASKED, "--out", f"s{len(options)}{options[-1][-4:]}", *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["clusters"]


def charges(folder: Path) -> list[str]:
    return [
        e.release_id or "" for e in Ledger(folder / ".dpkv").read().entries if e.kind == "charge"
    ]


def test_workers_answer_as_memory_does_though_they_are_killed_one_after_another(
    run: Run, parts: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = ("--engine", "dask", "--scheduler", cluster.address, "--mechanism", "synopsis")
    expected = simulated(run, parts, "--mechanism", "synopsis")
    assert simulated(run, parts, *where) == expected

    def kill_and_replace(question: int, _: Any) -> None:
        if question % 6 == 2:  # tests of cells, counts, Lloyd steps
            victim = cluster.workers[question // 6 % len(cluster.workers)]
            cluster.add_workers(1)
            os.kill(victim.pid, signal.SIGKILL)

    meanwhile = Meanwhile(monkeypatch, kill_and_replace)
    assert simulated(run, parts, *where, "--seed", "0") == expected
    assert meanwhile.questions > 7


@pytest.mark.parametrize("way", [(), ("--one-row-per-person", "mean")], ids=["shares", "means"])
def test_persons_count_once_though_workers_are_killed(
    run: Run, visits: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, way: tuple[str, ...]
) -> None:
    asked = (*PERSONS, *way, "--mechanism", "synopsis")
    where = ("--engine", "dask", "--scheduler", cluster.address)
    expected = simulated(run, visits, *asked)

    def kill_and_replace(question: int, _: Any) -> None:
        if question in {1, 4, 7}:  # while persons are shuffled, and when they have been
            victim = cluster.workers[0 if question == 1 else len(cluster.workers) - 2]
            cluster.add_workers(1)
            os.kill(victim.pid, signal.SIGKILL)

    meanwhile = Meanwhile(monkeypatch, kill_and_replace)
    assert simulated(run, visits, *asked, *where) == expected
    assert meanwhile.questions > 7


def test_a_release_over_persons_is_finished_on_workers(
    run: Run, visits: Path, tmp_path: Path
) -> None:
    asked = ("release", visits, *ASKED, *PERSONS, "--mechanism", "synopsis", "--id", "mine")
    done = run(*asked, "--engine", "dask", "--workers", "2", "--out", "r")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["n_records"] == 400
    assert charges(tmp_path) == ["mine"]


def test_a_lost_scheduler_ends_the_run_and_the_id_finishes_it(
    run: Run, parts: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def kill(question: int, transport: Any) -> None:
        if question == 3:
            os.kill(cluster.scheduler.pid, signal.SIGKILL)
            transport._timeout = 1.0  # nobody will answer

    where = ("--engine", "dask", "--scheduler", cluster.address, "--timeout", str(PATIENCE))
    named = (*ASKED, "--mechanism", "lloyd", "--id", "mine", "--out", "r")
    with monkeypatch.context() as patched:
        Meanwhile(patched, kill)
        stopped = run("release", parts, *named, *where)
    assert stopped.returncode == 1, stopped.stderr
    assert "run again with --id mine" in stopped.stderr
    assert not (tmp_path / "r").exists()
    assert charges(tmp_path) == ["mine"]
    done = run("release", parts, *named)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["n_records"] == len(TABLE)
    assert charges(tmp_path) == ["mine"]


def test_a_file_that_changes_under_the_run_stops_it_and_the_id_finishes_it(
    run: Run, parts: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def touch(question: int, _: Any) -> None:
        if question == 3:
            (parts / "part-3.parquet").touch()

    where = ("--engine", "dask", "--scheduler", cluster.address)
    named = (*ASKED, "--mechanism", "lloyd", "--id", "mine", "--out", "r")
    with monkeypatch.context() as patched:
        Meanwhile(patched, touch)
        stopped = run("release", parts, *named, *where)
    assert stopped.returncode == 2, stopped.stderr
    assert "part-3.parquet was changed while it was released from" in stopped.stderr
    assert not (tmp_path / "r").exists()
    assert charges(tmp_path) == ["mine"]
    done = run("release", parts, *named, *where)
    assert done.returncode == 0, done.stderr
    assert charges(tmp_path) == ["mine"]


def test_what_looks_at_all_records_at_once_is_refused_before_anything_starts(
    run: Run, parts: Path, tmp_path: Path
) -> None:
    where = ("--engine", "dask", "--workers", "2")
    asked = ("release", parts, "--k", "3", "--eps", "1", *where)
    assert "are for --engine local" in refusal(run(*asked, "--bounds", "data"))
    published = ("--bounds=-1,1", "--calibration", "published", "--mechanism", "kvariates")
    assert "are for --engine local" in refusal(run(*asked, *published))
    assert "--workers is for --engine dask" in refusal(
        run("release", parts, *ASKED, "--workers", "2")
    )
    assert charges(tmp_path) == []


def test_bounds_are_found_on_workers_of_this_machine(run: Run, parts: Path) -> None:
    asked = ("--k", "3", "--eps", "2", "--bounds", "private", "--json", "--seed", "5")
    here = run("simulate", parts, *asked, "--out", "a")
    there = run("simulate", parts, *asked, "--out", "b", "--engine", "dask", "--workers", "1")
    assert there.returncode == 0, there.stderr
    assert json.loads(there.stdout)["clusters"] == json.loads(here.stdout)["clusters"]
