"""Parts of a table that Dask workers hold: every worker reads its own files, by their paths.

A part is one file. Its rows go to the public grid while they are read, so that a worker keeps four
bytes a number, and what questions in a row need of them. Nothing of it is written to disk.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpkv.engine.transport import Failure
from dpkv.errors import DpkvError, EngineError, TableError
from dpkv.grid import Grid
from dpkv.records.block import NO_WEIGHTS, Block
from dpkv.records.remote import Task
from dpkv.tables.chunk import Rows
from dpkv.tables.facts import TableFacts
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

    @classmethod
    def of(cls, path: Path, facts: TableFacts) -> FilePart:
        """Describe a file as it is now."""
        return cls(str(path.resolve()), facts, _current(path))

    def check(self) -> None:
        """Refuse a file that is not what it was."""
        if _current(Path(self.path)) != self.state:
            raise TableError(f"{self.path} was changed while it was released from: run again.")

    def load(self) -> Block:
        """Read the file."""
        self.check()
        rows = list(self._rows())
        self.check()
        width = len(open_table(self.path, self.facts).columns)
        kind = np.float64 if self.grid is None else np.int32
        points = [rows_.values for rows_ in rows] or [np.empty((0, width), kind)]
        weights = [found for rows_ in rows if (found := _weights_of(rows_)).size]
        return Block(np.concatenate(points), np.concatenate(weights) if weights else NO_WEIGHTS)

    def _rows(self) -> Iterator[Rows]:
        for rows, _ in encoded(open_table(self.path, self.facts)):
            values: Any = rows.values
            if self.grid is not None:
                values = self.grid.quantise(values).astype(np.int32)
            yield Rows(values, rows.counts, rows.person_keys, rows.weights)


def _weights_of(rows: Rows) -> Any:
    """Return what the rows weigh; nothing where each weighs one."""
    if rows.weights is not None:
        return rows.weights if rows.counts is None else rows.weights * rows.counts
    return NO_WEIGHTS if rows.counts is None else rows.counts.astype(np.int64)


def _current(path: Path) -> tuple[int, ...]:
    try:
        return tuple(state_of(path)[:_COMPARED])
    except OSError as error:
        raise unreadable(path, error) from None


# -- on a worker -----------------------------------------------------------------------------------

_blocks: OrderedDict[str, tuple[FilePart, Block, threading.Lock]] = OrderedDict()
_blocks_lock = threading.Lock()


def answer_from_part(part: FilePart, task: Task) -> Any:
    """Do a task on a worker. Stateless: kept blocks only save time.

    What went wrong leaves in a form that holds no record: an unexpected error's own message may
    quote one, so only its kind is told.
    """
    try:
        block, lock = _block_of(part)
        with lock:
            return task(block)
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


def _block_of(part: FilePart) -> tuple[Block, threading.Lock]:
    """Return the part's rows: kept for as long as the file and the grid stay the same."""
    part.check()
    with _blocks_lock:
        kept = _blocks.pop(part.path, None)
        if kept is None or kept[0] != part:
            kept = part, part.load(), threading.Lock()
        _blocks[part.path] = kept
        while len(_blocks) > _KEPT_PARTS:
            _blocks.popitem(last=False)
        return kept[1], kept[2]
