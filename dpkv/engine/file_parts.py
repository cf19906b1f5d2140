"""Parts of a table that Dask workers hold: every worker reads its own files, by their paths.

A part is one file. Its rows go to the public grid while they are read, so that a worker keeps four
bytes a number, and what questions in a row need of them. Nothing of it is written to disk. Where
persons count once, what other parts know of them comes from one shuffle (``records/spread.py``).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpkv.engine.transport import Failure
from dpkv.errors import DpkvError, EngineError, TableError
from dpkv.grid import Grid
from dpkv.records.block import Block
from dpkv.records.persons import EVERY_ROW, Weighing
from dpkv.records.remote import Task
from dpkv.records.spread import Heard, PartRows, Told, settle
from dpkv.tables.chunk import Rows
from dpkv.tables.facts import TableFacts
from dpkv.tables.objects import as_path
from dpkv.tables.person_keys import Reading
from dpkv.tables.store import state_of
from dpkv.tables.table import encoded, open_table, unreadable

_KEPT_PARTS = 10_000
_COMPARED = 2  # of a file's state: its size and the time of its last change, the same on all hosts


@dataclass(frozen=True)
class FilePart:
    """A file of a table, as a worker elsewhere can follow it."""

    path: str
    facts: TableFacts
    state: tuple[int, ...]
    """Of the file as the curator found it."""
    grid: Grid | None = None
    """Where rows are put; None leaves them in the user's units."""
    how: Weighing = EVERY_ROW
    """How rows are weighed."""
    reading: Reading = field(default_factory=Reading)
    """By what secret persons are told apart, and which part of the table this is."""

    @classmethod
    def of(cls, path: Path, facts: TableFacts) -> FilePart:
        """Describe a file as it is now."""
        return cls(str(path.resolve()), facts, _current(path))

    def check(self) -> None:
        """Refuse a file that is not what it was."""
        if _current(as_path(self.path)) != self.state:
            raise TableError(f"{self.path} was changed while it was released from: run again.")

    def load(self) -> PartRows:
        """Read the file."""
        self.check()
        rows = list(self._rows())
        self.check()
        kind = np.float64 if self.grid is None else np.int32
        width = len(open_table(self.path, self.facts).columns)
        points = np.concatenate([part.values for part in rows] or [np.empty((0, width), kind)])
        keys = _joined([part.person_keys for part in rows])
        if keys is None and self.how.persons is not None:
            keys = np.empty(0, np.uint64)  # of a file without a row
        counts, weights = (
            _joined([getattr(part, name) for part in rows]) for name in ("counts", "weights")
        )
        if weights is None and self.how.most_weight is not None:
            weights = np.empty(0, np.int64)
        return PartRows.of(points, keys, counts, weights)

    def _rows(self) -> Iterator[Rows]:
        for rows, _ in encoded(open_table(self.path, self.facts), self.reading):
            values: Any = rows.values
            if self.grid is not None:
                values = self.grid.quantise(values).astype(np.int32)
            yield Rows(values, rows.counts, rows.person_keys, rows.weights)


def _joined(parts: Sequence[NDArray[Any] | None]) -> NDArray[Any] | None:
    found = [part for part in parts if part is not None]
    return np.concatenate(found) if found else None


def _current(path: Path) -> tuple[int, ...]:
    try:
        return tuple(state_of(path)[:_COMPARED])
    except OSError as error:
        raise unreadable(path, error) from None


# -- on a worker -----------------------------------------------------------------------------------


class _Held:
    """A part on a worker: its rows, or since questions are asked of them, its block."""

    def __init__(self, part: FilePart) -> None:
        self.part = part
        self.lock = threading.Lock()
        self._rows: PartRows | None = None
        self._block: Block | None = None

    def rows(self) -> PartRows:
        """Return the rows as they were read."""
        if self._rows is None:
            self._rows = self.part.load()
        return self._rows

    def block(self, heard: Sequence[Heard]) -> Block:
        """Return the rows with what they weigh; the facts that say so are needed no more."""
        if self._block is None:
            self._block = self.rows().block(self.part.how, heard)
            self._rows = None
        return self._block


_held: OrderedDict[str, _Held] = OrderedDict()
_held_lock = threading.Lock()


def answer_from_part(part: FilePart, task: Task, heard: Sequence[Heard] | Failure = ()) -> Any:
    """Do a task on a worker. Stateless: kept blocks only save time.

    ``heard`` is what the shuffle of persons tells this part, where there was one.
    """
    if isinstance(heard, Failure):
        return heard

    def work() -> Any:
        held = _hold(part)
        with held.lock:
            return task(held.block(heard))

    return _or_failure(work)


def tell_buckets(part: FilePart, n_buckets: int) -> list[Told] | Failure:
    """Return what a part tells every bucket of its persons."""

    def work() -> list[Told]:
        held = _hold(part)
        with held.lock:
            return held.rows().tell(n_buckets, part.how)

    found: list[Told] | Failure = _or_failure(work)
    return found


def settle_bucket(told: Sequence[Told]) -> list[Heard] | Failure:
    """Return what a bucket tells every part."""
    found: list[Heard] | Failure = _or_failure(lambda: settle(told))
    return found


def _or_failure(work: Callable[[], Any]) -> Any:
    """Return what work gives, or what went wrong in a form that holds no record.

    An unexpected error's own message may quote one, so only its kind is told.
    """
    try:
        return work()
    except DpkvError as error:
        return Failure(str(error), error.exit_code)
    except MemoryError:
        return Failure(
            "a worker has too little memory for its part: use more workers, or smaller files.",
            EngineError.exit_code,
        )
    except Exception as error:
        return Failure(
            f"a worker failed at its part: {type(error).__name__}. Its own log may tell more.",
            EngineError.exit_code,
        )


def _hold(part: FilePart) -> _Held:
    """Return the part's rows: kept for as long as the file and what is made of it stay the same."""
    part.check()
    with _held_lock:
        held = _held.pop(part.path, None)
        if held is None or held.part != part:
            held = _Held(part)
        _held[part.path] = held
        while len(_held) > _KEPT_PARTS:
            _held.popitem(last=False)
        return held
