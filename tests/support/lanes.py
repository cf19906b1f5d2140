"""Which tests are quick: markers by folder, and a guard that no test starts a process in secret."""

from __future__ import annotations

import multiprocessing.process
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest

BY_FOLDER = {"statistical": "statistical", "browser": "browser", "cli": "processes"}
"""The marker that every test of a folder has."""
WITH_PROCESSES = ("processes", "dask", "browser")


def marker_of(path: Path) -> str | None:
    """Return the marker of the folder of ``tests`` that a file is in."""
    return next((BY_FOLDER[part] for part in path.parts if part in BY_FOLDER), None)


def may_start_processes(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in WITH_PROCESSES)


def _refuse(*_given: Any, **_named: Any) -> NoReturn:
    raise AssertionError("this test starts a process: mark it with pytest.mark.processes")


@contextmanager
def without_processes() -> Iterator[None]:
    """Refuse to fork, and to start Python. Other programs, such as git, are quick enough."""

    def start(self: Any, args: Any, *given: Any, **named: Any) -> None:
        words = [args] if isinstance(args, str | bytes | os.PathLike) else list(args)
        if sys.executable in map(str, words):
            _refuse()
        original(self, args, *given, **named)

    original = subprocess.Popen.__init__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess.Popen, "__init__", start)
        patch.setattr(multiprocessing.process.BaseProcess, "start", _refuse)
        if hasattr(os, "fork"):
            patch.setattr(os, "fork", _refuse)
        yield
