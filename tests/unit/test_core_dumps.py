"""Once a table is opened, a crash leaves no copy of its records."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(sys.platform == "win32", reason="no core dumps"),
]

PRELUDE = """
import ctypes, os, resource, sys
import dpkv, dpkv.tables
from dpkv import core_dumps
from pathlib import Path

most = resource.getrlimit(resource.RLIMIT_CORE)[1]
resource.setrlimit(resource.RLIMIT_CORE, (most, most))
"""
STATE = """
soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
dumpable = ctypes.CDLL(None).prctl(3, 0, 0, 0, 0) if sys.platform == "linux" else None
print(soft, hard == most, dumpable)
"""
WAYS = {
    "a table": "dpkv.read_table('t.csv')",
    "a stream": "list(dpkv.open_stream('t.csv').chunks())",
    "a pipe": "list(dpkv.open_stream('-').chunks())",
}
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="Linux has prctl")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "t.csv").write_text("a,b\n0.25,0.5\n", encoding="utf-8")
    return tmp_path


def ran(program: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PRELUDE + program],
        cwd=home,
        input="a,b\n0.25,0.5\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_opening_a_table_sets_the_soft_limit_to_zero(way: str, home: Path) -> None:
    done = ran(way + STATE, home)
    assert done.stdout.split()[:2] == ["0", "True"], done.stderr


@LINUX
@pytest.mark.parametrize(
    ("pattern", "dumpable"),
    [("core", "1"), ("/var/crash/core.%p", "1"), ("|/usr/lib/helper %p", "0"), ("@socket", "0")],
    ids=["a file", "a path", "a program", "a socket"],
)
def test_where_the_limit_is_ignored_the_process_cannot_be_dumped(
    pattern: str, dumpable: str, home: Path
) -> None:
    (home / "pattern").write_text(pattern, encoding="utf-8")
    chosen = "core_dumps._PATTERN = Path('pattern')\n"
    done = ran(chosen + WAYS["a table"] + STATE, home)
    assert done.stdout.split()[2] == dumpable, done.stderr


@LINUX
def test_where_the_pattern_cannot_be_read_the_process_cannot_be_dumped(home: Path) -> None:
    chosen = "core_dumps._PATTERN = Path('nowhere')\n"
    done = ran(chosen + WAYS["a table"] + STATE, home)
    assert done.stdout.split()[2] == "0", done.stderr


def dumps_core(program: str, home: Path) -> bool:
    """Tell whether a crash after the program leaves a core dump, as the kernel reports it."""
    child = os.fork()
    if child == 0:
        try:
            os.chdir(home)
            quiet = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(quiet, stream)
            os.execv(sys.executable, [sys.executable, "-c", f"{PRELUDE}{program}\nos.abort()"])
        finally:
            os._exit(99)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    for file in home.glob("*core*"):
        file.unlink()  # it may be large
    return os.WCOREDUMP(status)


def test_a_crash_leaves_no_core_dump(home: Path) -> None:
    if not dumps_core("", home):
        pytest.skip("no process leaves a core dump here")
    assert not dumps_core(WAYS["a table"], home)


@LINUX
def test_being_undumpable_is_enough(home: Path) -> None:
    """As it must be where the limit is ignored; so the limit is raised again."""
    raised = "\nresource.setrlimit(resource.RLIMIT_CORE, (most, most))"
    chosen = "core_dumps._PATTERN = Path({!r})\n" + WAYS["a table"] + raised
    (home / "pattern").write_text("core", encoding="utf-8")
    if not dumps_core(chosen.format("pattern"), home):
        pytest.skip("no process leaves a core dump here")
    assert not dumps_core(chosen.format("nowhere"), home)
