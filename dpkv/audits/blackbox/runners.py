"""Running what is audited: a Python callable, or a command that reads and writes files.

Every run has a number of its own, from which its randomness follows where the mechanism takes it:
``{seed}`` of a command, or a parameter ``rng`` or ``seed`` of a callable.
"""

from __future__ import annotations

import inspect
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from dpkv.audits.blackbox.observations import (
    FAILED,
    Sample,
    join,
    observe,
    observe_error,
    observe_text,
    sample_of,
)
from dpkv.audits.blackbox.tables import TableDomain
from dpkv.errors import UsageError
from dpkv.types import Float64s

_MOST_OUTPUT = 1 << 20
_LARGEST_SEED = 2**31
DEFAULT_TIMEOUT = 60.0

Mechanism = Callable[..., Any]
Seen = tuple[str, Sequence[float]]


@dataclass(frozen=True, eq=False)
class Task:
    """Runs on one table: so many, with numbers from ``start`` on."""

    table: Float64s
    start: int
    runs: int


class Runner(Protocol):
    """Something that can be run on tables."""

    def run(self, tasks: Sequence[Task], progress: Callable[[int], None]) -> Iterator[Sample]:
        """Yield what is seen of every task's runs; ``progress`` hears of runs that are done."""

    @property
    def how(self) -> str:
        """How it is run, in words."""


@dataclass(frozen=True, eq=False)
class CallableRunner:
    """Calls a Python function with a table, and with ``rng`` or ``seed`` where it takes one."""

    mechanism: Mechanism
    seed: int = 0
    jobs: int = 1

    @property
    def how(self) -> str:
        """The callable's name."""
        name = getattr(self.mechanism, "__qualname__", type(self.mechanism).__name__)
        return f"{getattr(self.mechanism, '__module__', '')}.{name}"

    def run(self, tasks: Sequence[Task], progress: Callable[[int], None]) -> Iterator[Sample]:
        """Yield what is seen of every task's runs."""
        takes = _randomness_of(self.mechanism)
        if self.jobs != 1:
            yield from self._run_beside(tasks, takes, progress)
            return
        for task in tasks:
            sample = _call(self.mechanism, takes, self.seed, task)
            progress(task.runs)
            yield sample

    def _run_beside(
        self, tasks: Sequence[Task], takes: str | None, progress: Callable[[int], None]
    ) -> Iterator[Sample]:
        from joblib import Parallel, delayed  # noqa: PLC0415 (only where it is needed)

        pieces = [list(_pieces(task)) for task in tasks]
        calls = [
            delayed(_call)(self.mechanism, takes, self.seed, part) for own in pieces for part in own
        ]
        results = iter(Parallel(n_jobs=self.jobs, return_as="generator")(calls))
        yield from _gather(results, [len(own) for own in pieces], progress)


def _gather(
    results: Iterator[Sample], counts: Sequence[int], progress: Callable[[int], None]
) -> Iterator[Sample]:
    """Yield the samples of tasks that were run in so many pieces each."""
    for count in counts:
        found = []
        for sample in islice(results, count):
            found.append(sample)
            progress(len(sample))
        yield join(found)


def _pieces(task: Task, size: int = 500) -> Iterator[Task]:
    for start in range(0, task.runs, size):
        yield Task(task.table, task.start + start, min(size, task.runs - start))


def _randomness_of(mechanism: Mechanism) -> str | None:
    """Return the parameter by which a callable takes its randomness."""
    try:
        parameters = inspect.signature(mechanism).parameters
    except (TypeError, ValueError):
        return None
    return next((name for name in ("rng", "seed") if name in parameters), None)


def _call(mechanism: Mechanism, takes: str | None, seed: int, task: Task) -> Sample:
    seen: list[Seen] = []
    seconds = []
    for number in range(task.start, task.start + task.runs):
        given: dict[str, Any] = {}
        if takes == "rng":
            given["rng"] = np.random.default_rng([seed, number])
        elif takes == "seed":
            given["seed"] = _seed_of(seed, number)
        table = task.table.copy()
        began = time.perf_counter()
        try:
            value = mechanism(table, **given)
        except Exception as error:
            seconds.append(time.perf_counter() - began)
            seen.append(observe_error(error))
        else:
            seconds.append(time.perf_counter() - began)
            seen.append(observe(value))
    return sample_of(seen, seconds)


def _seed_of(seed: int, number: int) -> int:
    return (seed * 1_000_003 + number) % _LARGEST_SEED


@dataclass(frozen=True, eq=False)
class CommandRunner:
    """Runs a command: ``{input}`` is a CSV file, ``{output}`` where the result goes.

    Without ``{output}`` the result is what is printed. With ``{runs}`` one call makes that many
    independent outputs, one per line: starting a program is what takes long.
    """

    command: str
    domain: TableDomain
    seed: int = 0
    jobs: int = 0
    timeout: float = DEFAULT_TIMEOUT

    def __post_init__(self) -> None:
        words = self._words()
        if not words or not any("{input}" in word for word in words):
            raise UsageError("--command must name {input}, the file with the table.")
        if shutil.which(words[0]) is None:
            raise UsageError(f"--command cannot be run: there is no program {words[0]!r}.")

    def _words(self) -> list[str]:
        try:
            return shlex.split(self.command)
        except ValueError:
            raise UsageError("--command has a quotation mark that is never closed.") from None

    @property
    def how(self) -> str:
        """The command."""
        return self.command

    @property
    def takes_runs(self) -> bool:
        """Whether one call makes several outputs."""
        return "{runs}" in self.command

    def run(self, tasks: Sequence[Task], progress: Callable[[int], None]) -> Iterator[Sample]:
        """Yield what is seen of every task's runs."""
        size = 1000 if self.takes_runs else 1
        with tempfile.TemporaryDirectory(prefix="dpkv-audit-") as folder:
            inputs = self._write_inputs(Path(folder), tasks)
            pieces = [list(_pieces(task, size)) for task in tasks]
            with ThreadPoolExecutor(self.jobs or os.cpu_count() or 1) as pool:
                running = [
                    pool.submit(self._start, Path(folder), table, part)
                    for table, own in zip(inputs, pieces, strict=True)
                    for part in own
                ]
                try:
                    results = (future.result() for future in running)
                    yield from _gather(results, [len(own) for own in pieces], progress)
                except BaseException:
                    pool.shutdown(cancel_futures=True)
                    raise

    def _write_inputs(self, folder: Path, tasks: Sequence[Task]) -> list[Path]:
        paths = []
        for place, task in enumerate(tasks):
            paths.append(folder / f"table-{place}.csv")
            paths[-1].write_text(self.domain.to_csv(task.table), encoding="utf-8")
        return paths

    def _start(self, folder: Path, table: Path, task: Task) -> Sample:
        output = folder / f"output-{task.start}"
        names = {
            "{input}": str(table),
            "{output}": str(output),
            "{seed}": str(_seed_of(self.seed, task.start)),
            "{runs}": str(task.runs),
        }
        words = self._words()
        for mark, value in names.items():
            words = [word.replace(mark, value) for word in words]
        began = time.perf_counter()
        seen = self._look(words, output, task, (str(table), str(output)))
        seconds = (time.perf_counter() - began) / task.runs
        return sample_of(seen, [seconds] * task.runs)

    def _look(
        self, words: list[str], output: Path, task: Task, paths: tuple[str, str]
    ) -> list[Seen]:
        try:
            done = subprocess.run(
                words,
                capture_output=True,
                timeout=self.timeout,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            return [observe_text("", f"{FAILED}stopped after {self.timeout:g} seconds")] * task.runs
        except OSError as error:
            raise UsageError(f"--command cannot be run: {error.strerror}.") from None
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace")[-2000:].strip()
            for path in paths:
                said = said.replace(path, "(file)")
            last = said.splitlines()[-1] if said else ""
            return [observe_text(last, f"{FAILED}exit code {done.returncode}: ")] * task.runs
        text = _result_of(output, done.stdout)
        if not self.takes_runs:
            return [observe_text(text)]
        lines = text.splitlines()[: task.runs]
        missing = [""] * (task.runs - len(lines))
        return [observe_text(line) for line in [*lines, *missing]]


def _result_of(output: Path, printed: bytes) -> str:
    """Return what a run wrote, or else printed; the file is removed, so that disks do not fill."""
    contents = printed
    if output.is_file():
        with output.open("rb") as file:
            contents = file.read(_MOST_OUTPUT)
        output.unlink()
    return contents[:_MOST_OUTPUT].decode(errors="replace")
