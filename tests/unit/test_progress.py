"""How far work is: told by whoever does it, stage by stage, with the time that is left."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

import dpkv
from dpkv.cli import progress as shown
from dpkv.progress import report, told_to

ROWS = np.random.default_rng(0).uniform(-1, 1, (3000, 2))


def test_a_release_tells_its_stages(tmp_path: Path) -> None:
    np.savetxt(tmp_path / "t.csv", ROWS, delimiter=",", header="a,b", comments="")
    heard: list[tuple[str, float]] = []
    with told_to(lambda stage, share: heard.append((stage, share))):
        dpkv.release(
            tmp_path / "t.csv",
            k=3, eps=1, bounds=(-1, 1), header=True, mechanism="synopsis", workspace=tmp_path / "w",
        )  # fmt: skip
    stages = dict.fromkeys(stage for stage, _ in heard)
    assert list(stages)[:2] == ["recognising t.csv", "putting rows on the grid"]
    assert {"growing private cells", "clustering private cells", "asking the records"} < set(stages)
    assert all(0.0 <= share <= 1.0 for _, share in heard)
    assert heard[-1] == ("asking the records", 1.0)
    for stage in stages:
        shares = [share for name, share in heard if name == stage]
        assert shares == sorted(shares) or stage == "recognising t.csv"  # twice: for the registry


def test_nobody_need_listen() -> None:
    report("anything", 0.5)
    with told_to(lambda *_: None):
        pass
    report("anything", 0.5)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(time, "monotonic", made.monotonic)
    return made


def test_a_log_says_what_is_left_of_every_stage(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with shown.ProgressBar("working") as bar:
        bar.stage("first", 0.0)
        clock.now += 30.0
        bar.stage("first", 0.75)
        bar.stage("quick", 0.5)
        clock.now += 1.0
        bar.stage("quick", 1.0)
        bar.stage("second", 0.0)
        clock.now += 3.0
        bar.stage("second", 0.25)
        clock.now += 1.0
        bar.stage("second", 0.5)
    assert capsys.readouterr().err.splitlines() == [
        "first: 75%, about 10 s left",
        "second: 25%, about 9 s left",
    ]


def test_what_is_left_of_a_whole_counts_from_its_beginning(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with shown.ProgressBar("working") as bar:
        clock.now += 10.0
        bar.describe("first half", 0.5)
        clock.now += 10.0
        bar.describe("second half", 0.8)
    assert capsys.readouterr().err.splitlines() == [
        "first half: 50%, about 10 s left",
        "second half: 80%, about 5 s left",
    ]
