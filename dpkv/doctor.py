"""Whether an installation is fit to release: looked at from outside, and tried.

Nothing here reads a table, charges a ledger or changes a file's mode: what is wrong is said, with
what to do about it. A finding is a pass, a fault, or neither where there is nothing to look at.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

from dpkv import __version__, kernels
from dpkv.audits.conformance import conformance_tests
from dpkv.errors import DpkvError
from dpkv.ledger import Ledger
from dpkv.noise import OperatingSystemEntropy
from dpkv.tables.store import MEMORY_LIMIT

_NEWEST_TESTED = (3, 13)
_DRAWS = 12_000
"""Of each test of the sampler: all of them take about two seconds of a processor."""
_SHOWN = 3
_MEGABYTE = 1 << 20
_OPEN_TO_OTHERS = 0o077


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at; ``passed`` is None where there is nothing to judge."""

    name: str
    passed: bool | None
    detail: str


def examine(workspace: Path) -> Iterator[Finding]:
    """Yield findings on the installation, the workspace, the machine and the sampler."""
    yield _python()
    yield _packages()
    yield _extras()
    yield _entropy()
    yield _workspace(workspace)
    yield _ledger(workspace)
    yield _memory()
    yield _threads()
    yield from _self_test()


def _python() -> Finding:
    found = f"dpkv {__version__}, Python {platform.python_version()}, {sys.platform}"
    if sys.version_info[:2] > _NEWEST_TESTED:
        newest = ".".join(map(str, _NEWEST_TESTED))
        return Finding("version", None, f"{found}; dpkv is tested up to Python {newest}")
    return Finding("version", True, found)


def _requirements() -> Iterator[Requirement]:
    yield from map(Requirement, importlib.metadata.requires("dpkv") or ())


def _problem(needed: Requirement) -> str | None:
    """Return what is wrong with an installed package, or None."""
    try:
        found = importlib.metadata.version(needed.name)
    except importlib.metadata.PackageNotFoundError:
        return f"{needed.name} is missing"
    if needed.specifier.contains(found, prereleases=True):
        return None
    return f"{needed.name} is {found}, and must be {needed.specifier}"


def _packages() -> Finding:
    always = [one for one in _requirements() if one.marker is None or one.marker.evaluate()]
    wrong = [problem for one in always if (problem := _problem(one)) is not None]
    if wrong:
        return Finding("packages", False, f"{'; '.join(wrong)}: install dpkv again")
    shown = ", ".join(
        f"{name} {importlib.metadata.version(name)}" for name in ("numpy", "numba", "opendp")
    )
    return Finding("packages", True, f"all {len(always)} in the tested ranges: {shown}, ...")


def _extras() -> Finding:
    """Tell which extras are there; none of them must be."""
    names = importlib.metadata.metadata("dpkv").get_all("Provides-Extra") or []
    there, wrong = [], []
    for name in sorted(set(names) - {"all", "dev", "docs"}):
        own = [x for x in _requirements() if x.marker and x.marker.evaluate({"extra": name})]
        own = [x for x in own if not x.marker or not x.marker.evaluate({"extra": ""})]
        problems = [problem for one in own if (problem := _problem(one)) is not None]
        if not problems:
            there.append(name)
        wrong += [problem for problem in problems if not problem.endswith("is missing")]
    told = f"installed: {', '.join(there) or 'none'}"
    if wrong:
        return Finding("extras", False, f"{told}; {'; '.join(wrong)}")
    return Finding("extras", True, told)


def _entropy() -> Finding:
    """Ask for bytes without waiting: a generator that was not seeded yet has none."""
    try:
        if hasattr(os, "getrandom"):
            first, second = (os.getrandom(32, os.GRND_NONBLOCK) for _ in range(2))
            told = "getrandom of the operating system, seeded"
        else:
            first, second = os.urandom(32), os.urandom(32)
            told = "os.urandom of the operating system"
    except BlockingIOError:
        return Finding("entropy", False, "the operating system's generator is not seeded yet: wait")
    if first == second or not any(first):
        return Finding("entropy", False, "the operating system's generator repeats itself: stop")
    return Finding("entropy", True, told)


def _workspace(workspace: Path) -> Finding:
    """Look at who owns the workspace and who may read it; change nothing."""
    if not os.path.lexists(workspace):
        home = next(parent for parent in workspace.absolute().parents if parent.exists())
        if not os.access(home, os.W_OK | os.X_OK):
            told = f"{workspace} cannot be made: {home} is not writable"
            return Finding("workspace", False, told)
        told = f"{workspace} is not there yet; the first release makes it"
        return Finding("workspace", None, told)
    try:
        wrong = _wrong_with(workspace)
    except OSError as error:
        wrong = f"cannot be looked at: {error.strerror}"
    if wrong is not None:
        return Finding("workspace", False, f"{workspace} {wrong}")
    return Finding("workspace", True, f"{workspace}, for its owner alone")


def _wrong_with(workspace: Path) -> str | None:
    status = workspace.lstat()
    if not stat.S_ISDIR(status.st_mode):
        return "must be a plain folder, and no link"
    if hasattr(os, "getuid") and status.st_uid != os.getuid():
        return "belongs to another user"
    if not os.access(workspace, os.W_OK | os.X_OK):
        return "cannot be written: chmod u+rwx"
    open_ones = list(_open_to_others(workspace))
    if open_ones:
        shown = ", ".join(str(path.relative_to(workspace)) for path in open_ones[:_SHOWN])
        more = f" and {len(open_ones) - _SHOWN} more" if len(open_ones) > _SHOWN else ""
        return f"is open to others ({shown}{more}): chmod -R go= {workspace}"
    return None


def _open_to_others(workspace: Path) -> Iterator[Path]:
    """Yield what others may read: what is inside of a closed folder is closed to them, too."""
    if workspace.lstat().st_mode & _OPEN_TO_OTHERS:
        yield workspace
        for path in sorted(workspace.rglob("*")):
            if not path.is_symlink() and path.lstat().st_mode & _OPEN_TO_OTHERS:
                yield path


def _ledger(workspace: Path) -> Finding:
    try:
        ledger = Ledger(workspace)
        if not ledger.is_shared and not workspace.is_dir():
            return Finding("ledger", None, "none yet")
        if not ledger.exists():
            return Finding("ledger", None, f"none yet in {ledger.place}")
        chain = ledger.verify()
    except DpkvError as error:
        return Finding("ledger", False, str(error).rstrip("."))
    return Finding("ledger", True, f"{len(chain)} entries in {ledger.place}, chain unbroken")


def _memory() -> Finding:
    free = available_memory()
    if free is None:
        return Finding("memory", None, "not known on this system")
    told, limit = f"{free // _MEGABYTE:,} MB available", MEMORY_LIMIT // _MEGABYTE
    if free < MEMORY_LIMIT:
        return Finding("memory", None, f"{told}: use a --memory-limit below its default, {limit}")
    return Finding("memory", True, f"{told}; tables above {limit} MB are kept on disk")


def available_memory(root: Path = Path("/")) -> int | None:
    """Return the bytes that a process may still take, by the system and its container."""
    limits = []
    try:
        for line in (root / "proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                limits.append(int(line.split()[1]) * 1024)
    except (OSError, ValueError, IndexError):
        pass
    group = root / "sys/fs/cgroup"
    try:
        most, used = ((group / f"memory.{name}").read_text().strip() for name in ("max", "current"))
        if most != "max":
            limits.append(max(0, int(most) - int(used)))
    except (OSError, ValueError):
        pass
    return min(limits, default=None)


def _threads() -> Finding:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return Finding("threads", True, f"{kernels.N_THREADS} of {usable} usable processors")


def _self_test() -> Iterator[Finding]:
    """Compare what the sampler draws, and a tiny release, with their exact distributions."""
    for test in conformance_tests(OperatingSystemEntropy, runs=_DRAWS):
        told = f"p = {test.p_value:.2g}, {test.runs:,} draws"
        if test.level:
            told += f"; a sound sampler fails with probability {test.level:.0e}"
        yield Finding(f"self-test: {test.name}", test.passed, told)
