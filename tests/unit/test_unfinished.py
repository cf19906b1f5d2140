"""Folders in the making: of a living run they stay, of a killed one they go, files and all."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dpkv.cli import output
from dpkv.errors import UsageError
from dpkv.ledger import Ledger

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="folders cannot be locked")

WRITING = """
import sys
from pathlib import Path
from dpkv.cli import output

with output.new_folder(Path("out")) as folder:
    (folder._unfinished / "centers.csv").write_text("1,2")
    print(folder._unfinished, flush=True)
    sys.stdin.read()
"""


@contextmanager
def a_run(home: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Yield a process that has half written its folder, and that folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITING],
        cwd=home,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process, home / process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def age(folder: Path, seconds: float = 7200) -> None:
    then = time.time() - seconds
    os.utime(folder, (then, then))


def next_run(home: Path) -> None:
    with output.new_folder(home / "next"):
        pass


def unfinished(home: Path) -> list[str]:
    return [path.name for path in home.glob(".dpkv-unfinished-*")]


@pytest.mark.processes
def test_a_killed_runs_folder_goes_and_a_living_runs_stays(tmp_path: Path) -> None:
    with a_run(tmp_path) as (process, folder):
        age(folder)
        next_run(tmp_path)
        assert (folder / "centers.csv").exists(), "its run lives, however old it is"
        process.kill()
        process.wait()
        next_run(tmp_path)
        assert not folder.exists()


@pytest.mark.processes
def test_a_folder_that_was_just_made_is_left_alone(tmp_path: Path) -> None:
    """Its run may not have locked it yet."""
    with a_run(tmp_path) as (process, folder):
        process.kill()
        process.wait()
        next_run(tmp_path)
        assert (folder / "centers.csv").exists()


def test_what_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    (tmp_path / f".dpkv-unfinished-{'0' * 16}").symlink_to(precious)
    (tmp_path / f".dpkv-unfinished-{'1' * 16}").touch()
    for name in (".dpkv-unfinished-business", f".dpkv-unfinished-{'a' * 17}"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
        age(tmp_path / name)
    age(precious)
    age(tmp_path / f".dpkv-unfinished-{'1' * 16}")
    next_run(tmp_path)
    assert len(unfinished(tmp_path)) == 4
    assert (precious / "file").exists()


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can give away")
def test_another_users_folder_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / f".dpkv-unfinished-{'0' * 16}"
    folder.mkdir()
    os.chown(folder, 12345, 12345)
    age(folder)
    next_run(tmp_path)
    assert folder.exists()


def test_a_half_made_ledger_is_removed(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / ".dpkv")
    ledger.prepare()
    left = ledger.workspace / f".ledger-{'0' * 16}"
    left.mkdir(mode=0o700)
    (left / "new.sqlite").touch()
    age(left)
    ledger.prepare()
    assert not left.exists() and len(ledger.verify()) == 0


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(UsageError, match="cannot be written"),
        output.new_folder(tmp_path / "file" / "out"),
    ):
        pass
