"""Named points of a release at which a process can be stopped.

Whoever wants to kill or interrupt a process waits until it says that it is at a point, and never
for a time to pass: what a test shows must not depend on how busy the machine is. The package knows
nothing of this. The process that is to be stopped puts the points in place by itself, before it
runs the command.
"""

from __future__ import annotations

import functools
import importlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

POINTS = {
    "opening the table": "dpkv.releases.inputs:open_files",
    "making the ledger": "dpkv.ledger:Ledger.prepare",
    "reading the table": "dpkv.releases.inputs:load",
    "the fingerprint": "dpkv.releases.inputs:WatchedFile.fingerprint",
    "the charge": "dpkv.ledger:Ledger.charge",
    "looking for a kept release": "dpkv.releases.produce:load_record",
    "the first question": "dpkv.records.curator:Curator.__call__",
    "keeping": "dpkv.releases.produce:keep_first",
    "noting that it is kept": "dpkv.ledger:Ledger.keep",
    "making room": "secrets:token_hex",
    "writing a file": "dpkv.cli.output:write_atomically",
    "moving the folder": "pathlib:Path.rename",
    "syncing": "dpkv.cli.output:sync_folder",
    "showing": "dpkv.cli.release:_show",
}
"""The functions of a release, roughly in the order of their first calls."""
OTHER_POINTS = {
    "a case of a study": "dpkv.paper.studies.runner:CaseLog.add",
}
TIMES = ("before", "after")
MOMENTS = tuple((point, when) for point in POINTS for when in TIMES)
PATIENCE = 300.0
"""Seconds after which something must have hung."""

_TESTS = Path(__file__).resolve().parents[1]


def owner_of(point: str) -> tuple[Any, str]:
    """Return the module or class that holds a point's function, and the function's name."""
    module, _, path = (POINTS | OTHER_POINTS)[point].partition(":")
    importlib.import_module(module)
    owner: Any = sys.modules[module]  # not the attribute: a command may have its module's name
    *outer, name = path.split(".")
    return functools.reduce(getattr, outer, owner), name


def act_at(point: str, when: str, action: Callable[[], None]) -> None:
    """Have the action called once, before or after the first call of a point's function."""
    owner, name = owner_of(point)
    function = getattr(owner, name)
    waiting = [action]

    @functools.wraps(function)
    def watched(*arguments: Any, **named: Any) -> Any:
        if when == "before" and waiting:
            waiting.pop()()
        result = function(*arguments, **named)
        if when == "after" and waiting:
            waiting.pop()()
        return result

    setattr(owner, name, watched)


def until_stopped() -> None:
    """Do nothing until a signal ends it."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        time.sleep(0.05)
    os._exit(98)  # nobody came


def announce(handle: int, *, wait: bool) -> Callable[[], None]:
    """Return an action that writes to a pipe, and then waits for a signal or goes on."""

    def act() -> None:
        os.write(handle, b".")
        if wait:
            until_stopped()

    return act


def announced(handle: int) -> bool:
    """Wait until the other end of a pipe says that it is there; False where it ended before."""
    readable, _, _ = select.select([handle], [], [], PATIENCE)
    assert readable, "hangs"
    return os.read(handle, 1) == b"."


_PROGRAM = """
import runpy, sys
from support.points import act_at, announce
point, when, handle = sys.argv[1:4]
act_at(point, when, announce(int(handle), wait=True))
sys.argv = ["dpkv", *sys.argv[4:]]
runpy.run_module("dpkv", run_name="__main__", alter_sys=True)
"""


class Stopped:
    """A process that runs the real command and stops at a named point until a signal comes."""

    def __init__(self, point: str, when: str, *arguments: str, cwd: Path, **more: str) -> None:
        self._read, write = os.pipe()
        command = [sys.executable, "-c", _PROGRAM, point, when, str(write), *arguments]
        self.process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**child_environment(), **more},
            pass_fds=(write,),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        os.close(write)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()
        os.close(self._read)

    def reached(self) -> bool:
        """Wait until the process is at its point; False where it ended before."""
        return announced(self._read)

    def signalled(self, number: int) -> tuple[int, str, str]:
        """Send a signal, wait for the end, and return the exit code, stdout and stderr."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out, err


def child_environment() -> dict[str, str]:
    """Return the environment of a process that may import from ``support``."""
    paths = [str(_TESTS), os.environ.get("PYTHONPATH", "")]
    path = os.pathsep.join(filter(None, paths))
    return {**os.environ, "NO_COLOR": "1", "COLUMNS": "120", "PYTHONPATH": path}


def raise_at(point: str, when: str, number: int) -> None:
    """Have the process send itself a signal at a point."""
    act_at(point, when, functools.partial(signal.raise_signal, number))
