"""Every worker of `make test` must collect the same tests, whenever and wherever it starts."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.ids import PLAIN, plain_id
from support.lanes import marker_of, without_processes

ROOT = Path(__file__).resolve().parents[2]
STARTS: dict[str, Callable[[], object]] = {
    "Python": lambda: subprocess.run([sys.executable, "-c", ""], check=True),
    "Python by another program": lambda: subprocess.Popen(["env", sys.executable, "-c", ""]),
    "a worker": lambda: multiprocessing.get_context("spawn").Process(target=print).start(),
    "a fork": lambda: os.fork(),  # noqa: PLW0108 (looked up late)
}


def collected(hash_seed: str) -> list[str]:
    """Return the ids of all tests in the order in which a fresh process collects them."""
    quietly = ("--collect-only", "--quiet", "-p", "no:cacheprovider", "-p", "no:xdist")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *quietly, str(ROOT / "tests")],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if "::" in line]


@pytest.mark.processes
def test_collection_depends_on_nothing_but_the_tests() -> None:
    """Not on the time, nor the order of sets, nor on chance; and ids are plain words."""
    begun = int(time.time())
    first = collected("1")
    assert int(time.time()) > begun, "the second collection must fall into another second"
    second = collected("2")
    assert len(first) > 5000
    assert first == second
    names = [line.split("::", 1)[1] for line in first]
    odd = [name for name in names if not PLAIN.fullmatch(name.replace("[", "").replace("]", ""))]
    assert odd == []


def nameless() -> list[object]:
    return [b"\x1f\x8b", "\x1b[31m", "{", "x" * 61, 10**61, lambda: None, {"a": [1]}]


@pytest.mark.parametrize("value", nameless())
def test_what_is_no_plain_word_is_called_by_its_parameter(value: object) -> None:
    assert plain_id(value, "value") == "value"


def test_plain_words_stay() -> None:
    assert plain_id("no bounds", "value") == "no bounds"
    assert plain_id({"k": 3, "bounds": (-1, 2)}, "value") == "k 3 bounds (-1, 2)"
    assert plain_id(1 / 3, "value") == "0.3333"
    assert [plain_id(value, "value") for value in (True, 7, len)] == ["True", "7", "len"]
    assert plain_id(None, "value") is plain_id((1, 2), "value") is None


# -- lanes -----------------------------------------------------------------------------------------


def test_folders_say_which_lane_a_test_is_in(request: pytest.FixtureRequest) -> None:
    assert marker_of(Path("cli")) == "processes"
    assert marker_of(Path("statistical")) == "statistical"
    assert marker_of(Path("browser")) == "browser"
    assert marker_of(Path("unit")) is marker_of(Path("property")) is None
    declared = {line.split(":")[0] for line in request.config.getini("markers")}
    assert {"processes", "dask", "statistical", "browser"} <= declared


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_a_test_that_no_marker_announces_starts_no_process(start: Callable[[], object]) -> None:
    with pytest.raises(AssertionError, match=r"pytest\.mark\.processes"):
        start()


def test_other_programs_may_be_run() -> None:
    with without_processes():
        assert subprocess.run(["true"], check=False).returncode == 0
