"""Attempts on a workspace: commands in processes that are killed, starved or fed with rubbish.

An attempt is a fork of this process, which has imported dpkv and released once, so that hundreds of
them take a minute. Whatever happens to it, ``faults_of`` says what must never be: centres without a
charge, two sets of centres for one id, more than the budget, a broken chain. Nothing here waits for
a time: a process that is to be killed says that it is at its point (``support.points``).
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import re
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import NoReturn

import dpkv.cli
from dpkv.errors import DpkvError
from dpkv.ledger import Ledger
from dpkv.releases import verify
from dpkv.releases.kept_releases import parse_record
from dpkv.releases.verify import failed
from support.points import PATIENCE, act_at, announce, announced
from support.run import sentences

DOCUMENTED = {0, 2, 3, 4, 130}
"""Exit codes that a command may have on purpose; 1 is what nobody expected."""
N_RECORDS = 80
RELEASE = ("release", "--header", "--k=2", "--data=t.csv", "--bounds=-1,1", "--eps=0.1")
_NUMBER = re.compile(r"-?\d+\.\d{6,}")
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_BAD_CODE = 99

Prepare = Callable[[], None]


@dataclass(frozen=True)
class Attempt:
    """How a command ended; ``code`` is None where it hung."""

    code: int | None
    out: str
    err: str
    seconds: float
    """Processor time, of the process and the system for it."""

    @property
    def sentences(self) -> list[str]:
        """The lines of stderr but for progress, which a slow machine reports."""
        return sentences(self.err)


# -- tables ----------------------------------------------------------------------------------------


def make_table(folder: Path, seed: int = 0) -> set[str]:
    """Write ``t.csv`` and return the cells of its records, which nobody may ever print."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = random.Random(seed)
    rows = [[f"{drawn.uniform(-1, 1):.9f}" for _ in range(2)] for _ in range(N_RECORDS)]
    text = "a,b\n" + "".join(f"{','.join(row)}\n" for row in rows)
    (folder / "t.csv").write_text(text, encoding="utf-8")
    return {cell for row in rows for cell in row}


# -- attempts --------------------------------------------------------------------------------------


def warm_up(folder: Path) -> None:
    """Release once, so that what is imported or compiled late is there in every fork."""
    make_table(folder)
    home = Path.cwd()
    os.chdir(folder)
    try:
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):  # noqa: PTH123
            for command in (("--out=warm",), ("--out=warmer", "--mechanism=synopsis")):
                assert _command(*RELEASE, *command) == 0
            assert _command("verify", "warm/release.json") == 0
    finally:
        os.chdir(home)


def attempt(
    folder: Path, *arguments: str, prepare: Prepare | None = None, patience: float = PATIENCE
) -> Attempt:
    """Run a command in a fork and return how it ended."""
    return _Running(folder, arguments, prepare).end(patience)


def killed_at(folder: Path, point: str, when: str, *arguments: str, wait: bool) -> Attempt:
    """Kill a command at a point of a release, or, where it does not wait there, soon after."""
    read, write = os.pipe()
    running = _Running(folder, arguments, lambda: act_at(point, when, announce(write, wait=wait)))
    os.close(write)
    announced(read)
    os.close(read)
    os.kill(running.pid, signal.SIGKILL)
    return running.end(PATIENCE)


def count_events(folder: Path, *arguments: str) -> int:
    """Return how many functions a command calls."""
    read, write = os.pipe()

    def prepare() -> None:
        count = _at_event(None, lambda: None)
        run = _command

        def told(*given: str) -> int:
            try:
                return run(*given)
            finally:
                sys.setprofile(None)
                os.write(write, str(count[0]).encode())

        globals()["_command"] = told

    attempt(folder, *arguments, prepare=prepare)
    os.close(write)
    with os.fdopen(read) as pipe:
        return int(pipe.read())


def signalled_at_event(folder: Path, event: int, number: int, *arguments: str) -> Attempt:
    """Have a command send itself a signal when it calls its n-th function."""

    def prepare() -> None:
        _at_event(event, lambda: signal.raise_signal(number))

    return attempt(folder, *arguments, prepare=prepare)


def _at_event(event: int | None, action: Prepare) -> list[int]:
    """Count calls of functions, Python's own among them, and act at one of them."""
    count = [0]

    def seen(_frame: object, kind: str, _argument: object) -> None:
        if kind in ("call", "c_call"):
            count[0] += 1
            if count[0] == event:
                sys.setprofile(None)
                action()

    sys.setprofile(seen)
    return count


def limited(limit: int) -> Prepare:
    """Return what lets no file grow beyond a size, as on a full disk."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))


def starved(seconds: int, megabytes: int) -> Prepare:
    """Return what ends a process that takes too much processor time or memory."""

    def prepare() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        most = megabytes << 20
        resource.setrlimit(resource.RLIMIT_AS, (most, most))

    return prepare


def _command(*arguments: str) -> int:
    sys.argv = ["dpkv", *arguments]
    try:
        dpkv.cli.main()
    except SystemExit as leaving:
        return int(leaving.code or 0)
    return _BAD_CODE


class _Running:
    """A fork that runs a command, and the pipes it prints to: a full disk takes no sentence."""

    def __init__(self, folder: Path, arguments: Iterable[str], prepare: Prepare | None) -> None:
        pipes = [os.pipe() for _ in range(2)]
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _child(folder, arguments, prepare, [write for _, write in pipes])
        for _, write in pipes:
            os.close(write)
        self._printed = {read: b"" for read, _ in pipes}

    def end(self, patience: float) -> Attempt:
        """Wait for the end, or make one when nobody can be expected to wait any longer."""
        handle, last = os.pidfd_open(self.pid), time.monotonic() + patience
        open_pipes = set(self._printed)
        in_time = True
        while in_time:
            left = max(0.0, last - time.monotonic())
            ready, _, _ = select.select([handle, *open_pipes], [], [], left)
            in_time = bool(ready)
            open_pipes -= {pipe for pipe in ready if pipe != handle and not self._read(pipe)}
            if handle in ready and not open_pipes:
                break
        if not in_time:
            os.kill(self.pid, signal.SIGKILL)
        _, status, used = os.wait4(self.pid, 0)
        for each in (handle, *self._printed):
            os.close(each)
        out, err = (text.decode("utf-8", "replace") for text in self._printed.values())
        code = os.waitstatus_to_exitcode(status) if in_time else None
        return Attempt(code, out, err, used.ru_utime + used.ru_stime)

    def _read(self, pipe: int) -> bytes:
        block = os.read(pipe, 1 << 16)
        self._printed[pipe] += block
        return block


def _child(
    folder: Path, arguments: Iterable[str], prepare: Prepare | None, outputs: list[int]
) -> NoReturn:
    code = _BAD_CODE
    try:
        os.chdir(folder)
        os.environ |= {"NO_COLOR": "1", "COLUMNS": "120"}
        for number, write in enumerate(outputs, start=1):
            os.dup2(write, number)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False, buffering=1)
        if prepare is not None:
            prepare()
        code = _command(*arguments)
    except BaseException:
        sys.setprofile(None)
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


# -- what must never be ----------------------------------------------------------------------------


def charged_ids(folder: Path) -> list[str]:
    """Return the ids of all charges, in their order."""
    entries = Ledger(folder / ".dpkv").read().entries
    return [entry.release_id or "" for entry in entries if entry.kind == "charge"]


def faults_of(folder: Path) -> list[str]:
    """Return what is wrong with a workspace and with the releases beside it (``out*``)."""
    try:
        Ledger(folder / ".dpkv").verify()
        charged = charged_ids(folder)
    except DpkvError as error:
        return [f"the chain is broken: {error}"]
    faults = ["a release was charged twice"] if len(set(charged)) < len(charged) else []
    kept = {path.stem for path in (folder / ".dpkv" / "releases").glob("[!.]*.json")}
    faults += [f"{name} was kept without a charge" for name in kept - set(charged)]
    centers: dict[str, str] = {}
    for place in sorted(folder.glob("out*")):
        name, text, wrong = _published(place, folder)
        faults += [f"{place.name}: {reason}" for reason in wrong]
        if name and name not in charged:
            faults.append(f"{place.name}: centres without a charge")
        if name and centers.setdefault(name, text) != text:
            faults.append(f"{place.name}: two sets of centres for one id")
    for account in Ledger(folder / ".dpkv").read().accounts():
        if account.budget is not None and account.spent > account.budget:
            faults.append("more was spent than the budget")
        if account.spent != Decimal("0.1") * account.n_charges:
            faults.append("the sum is not that of the charges")
    return faults


def _published(place: Path, folder: Path) -> tuple[str, str, list[str]]:
    """Return the id, the centres and the faults of a published folder."""
    names = {path.name for path in place.iterdir()}
    if not {"centers.csv", "release.json"} <= names:
        return "", "", ["half a release is there"]
    path = place / "release.json"
    record = parse_record(path.read_text(encoding="utf-8"), path)
    text = (place / "centers.csv").read_text(encoding="utf-8")
    checks = verify(record, csv_text=text, workspace=folder / ".dpkv")
    wrong = [f"{check.name}: {check.detail}" for check in failed(checks)]
    return record.release_id or "", text, wrong


def faults_of_end(
    found: Attempt, secrets: set[str], allowed: frozenset[int] = frozenset()
) -> list[str]:
    """Return what is wrong with how a command ended and with what it printed.

    ``allowed`` are exit codes beyond the documented ones: those of a signal that was sent.
    """
    faults = []
    if found.code is None:
        faults.append("hangs")
    elif found.code not in DOCUMENTED | allowed:
        faults.append(f"exit code {found.code}: {found.err.strip()[-300:]}")
    elif found.code in DOCUMENTED - {0}:
        errors = [line for line in found.sentences if line.startswith("dpkv: error: ")]
        if len(errors) != 1 or found.sentences[-1] != errors[0]:
            faults.append(f"not one sentence: {found.err.strip()[-300:]}")
    printed = found.out + found.err
    if "Traceback" in printed:
        faults.append("a traceback")
    if _UNPRINTABLE.search(printed):
        faults.append("control characters reach the terminal")
    if secrets & set(_NUMBER.findall(printed)) or any(
        secret in printed for secret in secrets if not _NUMBER.fullmatch(secret)
    ):
        faults.append("a record's value was printed")
    return faults


# -- a judge for altered files ---------------------------------------------------------------------

WORKSHOP = "DPKV_ATTACKED"
"""The environment's name of the folder in which altered files are judged."""


def judge(text: str) -> str:
    """Verify an altered file in the folder of the true one, and return how that ended.

    For ``support.mutants.outcomes``. The name of the file is in ``name`` of the folder.
    """
    folder = Path(os.environ[WORKSHOP])
    name = (folder / "name").read_text(encoding="utf-8")
    true = (folder / "true.json").read_text(encoding="utf-8")
    os.chdir(folder)
    Path(name).write_text(text, encoding="utf-8", errors="surrogatepass")
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = _command("verify", name)
    faults = faults_of_end(Attempt(code, out.getvalue(), err.getvalue(), 0.0), set())
    # Anybody may make another witness that holds; a release is the one that the ledger knows.
    if code == 0 and name.endswith("release.json") and _record(text) != _record(true):
        faults.append("passes though altered")
    return f"fault: {'; '.join(faults)}" if faults else f"exit code {code}"


def _record(text: str) -> object:
    """Return what a text says; what is left out may be what would have stood there anyway."""
    return parse_record(text, Path("release.json"))
