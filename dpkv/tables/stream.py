"""One pass over records: a file, a pipe or an iterator, brought into the domain chunk by chunk.

The same checks as for a table, in the same words. Memory holds a few blocks of text and one chunk
of numbers, whatever the length; nothing is copied to disk.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from dpkv import core_dumps
from dpkv.domain import Bounds, Domain
from dpkv.errors import ParameterError, TableError
from dpkv.streams import CHUNK_ROWS, gather_rows, peek
from dpkv.tables.chunk import Chunk
from dpkv.tables.csvfile import CsvSource
from dpkv.tables.facts import Missing, TableFacts, numeric_facts
from dpkv.tables.naming import choose_columns, default_names, quoted
from dpkv.tables.pipe import Pipe, read_once
from dpkv.tables.prepared import domain_of
from dpkv.tables.store import state_of
from dpkv.tables.table import Source, encoded, open_table, unreadable
from dpkv.types import Float64s, Floats, Progress


class RecordStream:
    """Records of a source in working coordinates, as ``prepare`` makes them, chunk by chunk."""

    def __init__(
        self,
        source: Source,
        *,
        rereadable: bool,
        domain: Domain | None,
        progress: Progress | None,
    ) -> None:
        self.columns = source.columns
        self.domain = domain
        self.rereadable = rereadable
        self.n_records = 0
        """Records of the last pass, so far."""
        self._source = source
        self._progress = progress
        self._begun = False
        self._state = _state(source.path) if rereadable else None

    @property
    def name(self) -> str:
        """What a message calls it."""
        return str(self._source.path)

    def chunks(self) -> Iterator[Float64s]:
        """Yield the records; a pipe or an iterator yields them once only."""
        if self._begun and not self.rereadable:
            raise read_once(self.name)
        self._begun = True
        self.n_records = 0
        for rows, share in encoded(self._source):
            for start in range(0, len(rows.values), CHUNK_ROWS):
                values = rows.values[start : start + CHUNK_ROWS]
                self.n_records += len(values)
                yield self._working(values)
            if self._progress is not None:
                self._progress(share)
        self._check_end()

    def restore(self, points: Floats) -> Floats:
        """Return points of working coordinates in the user's."""
        return points if self.domain is None else self.domain.from_working(points)

    def _working(self, values: Float64s) -> Float64s:
        if self.domain is None:
            return values
        return self.domain.to_working(values).astype(values.dtype, copy=False)

    def _check_end(self) -> None:
        if self.n_records == 0:
            raise TableError(f"{self.name} has no rows: it must hold at least one record.")
        if self.rereadable and _state(self._source.path) != self._state:
            raise TableError(f"{self.name} was changed while it was read: run again.")


def _state(path: Path) -> list[int] | None:
    with contextlib.suppress(OSError):  # a file that is gone
        return state_of(path)
    return None


def open_stream(
    source: str | Path | Iterable[ArrayLike],
    *,
    columns: Sequence[str] | None = None,
    header: bool | None = None,
    bounds: Bounds | Domain | None = None,
    scaled: bool = True,
    missing: str = "refuse",
    progress: Progress | None = None,
) -> RecordStream:
    """Open a file, a pipe ("-" is standard input) or an iterator for one pass over its records.

    CSV text, plain or gzipped, may come from a file or a pipe; Parquet must be a file. A file can
    be read again, a pipe or an iterator cannot. A pipe is read in blocks of 8 MB, so records of a
    slow one wait until there are that many, or until it ends. An iterator yields rows or matrices
    of numbers. A cell that holds no number follows ``missing``: "refuse" it, or "fill:VALUE". The
    other parameters are those of ``open_table`` and ``prepare``.
    """
    rule = Missing.parse(missing)
    if rule.kind == "ignore":
        raise ParameterError("missing", "'refuse' or 'fill:VALUE' for a stream", missing)
    facts = numeric_facts(columns, header=header, missing=rule)
    opened: Source
    if isinstance(source, (str, Path)):
        opened, rereadable = _open_bytes(source, facts)
    else:
        opened, rereadable = _IterableSource(iter(source), facts), False
    domain = domain_of(opened.columns, bounds, scaled)
    return RecordStream(opened, rereadable=rereadable, domain=domain, progress=progress)


def _open_bytes(source: str | Path, facts: TableFacts) -> tuple[Source, bool]:
    path = Path(source)
    core_dumps.switch_off()
    try:
        if str(source) == "-" and sys.stdin is None:
            raise TableError("standard input is closed: pipe the table in, or give a file.")
        if str(source) == "-":
            path = Path("standard input")
            if sys.stdin is None:
                raise TableError("standard input is closed: pipe the records into it.")
            pipe = Pipe(sys.stdin.buffer, str(path), owned=False)
        elif path.exists() and not path.is_file() and not path.is_dir():
            pipe = Pipe(path.open("rb"), str(path), owned=True)
        else:
            return open_table(path, facts), True
        return CsvSource(path, facts, pipe), False
    except OSError as error:
        raise unreadable(path, error) from None


class _IterableSource:
    """The rows that an iterator yields, with the columns x1, x2, ..."""

    path = Path("the stream")
    header_guessed = names_guessed = False

    def __init__(self, items: Iterator[ArrayLike], facts: TableFacts) -> None:
        width, self._items = peek(items)
        names = default_names(width)
        chosen = choose_columns(self.path, names, facts.wanted, public=True)
        self.facts = facts.describing(chosen)
        self.columns = self.facts.coordinates
        self.labels = quoted(self.columns)
        self._positions = [names.index(name) for name in self.columns]

    @property
    def layout(self) -> dict[str, Any]:
        """What decides the numbers read: nothing that could be written down."""
        return {}

    def chunks(self) -> Iterator[Chunk]:
        """Yield the rows; nobody knows how many there will be."""
        done = 0
        for values in gather_rows(self._items, lenient=self.facts.takes_any_cell):
            used = values if len(self._positions) == values.shape[1] else values[:, self._positions]
            yield Chunk(used, 0.0, _record_names(done))
            done += len(values)


def _record_names(before: int) -> Callable[[int], str]:
    return lambda row: f"record {before + row + 1}"
