"""Every worker of `make test` must collect the same tests, whenever and wherever it starts."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.ids import PLAIN, plain_id

ROOT = Path(__file__).resolve().parents[2]


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
