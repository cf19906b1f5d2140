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
from dpkv.errors import TableError
from dpkv.streams import CHUNK_ROWS, gather_rows, peek
from dpkv.tables.chunk import Chunk
from dpkv.tables.csvfile import CsvSource
from dpkv.tables.naming import choose_columns, default_names, quoted
from dpkv.tables.pipe import Pipe, read_once
from dpkv.tables.prepared import domain_of, fill_of
from dpkv.tables.store import state_of
from dpkv.tables.table import Source, mend, open_table, readable_chunks, unreadable
from dpkv.types import Float64s, Floats, Progress


class RecordStream:
    """Records of a source in working coordinates, as ``prepare`` makes them, chunk by chunk."""

    def __init__(
        self,
        source: Source,
        *,
        rereadable: bool,
        domain: Domain | None,
        fill: Float64s | None,
        progress: Progress | None,
    ) -> None:
        self.columns = source.columns
        self.domain = domain
        self.rereadable = rereadable
        self.n_records = 0
        """Records of the last pass, so far."""
        self.n_invalid = 0
        """How many of them had an unusable number and were moved to the centre. Curator-only."""
        self._source = source
        self._fill = fill
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
        self.n_records = self.n_invalid = 0
        for chunk in readable_chunks(self._source, lenient=self._fill is not None):
            self.n_invalid += mend(chunk, self._fill, self._source)
            for start in range(0, len(chunk.values), CHUNK_ROWS):
                values = chunk.values[start : start + CHUNK_ROWS]
                self.n_records += len(values)
                yield self._working(values)
            if self._progress is not None:
                self._progress(chunk.share)
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
    invalid: str = "refuse",
    progress: Progress | None = None,
) -> RecordStream:
    """Open a file, a pipe ("-" is standard input) or an iterator for one pass over its records.

    CSV text, plain or gzipped, may come from a file or a pipe; Parquet must be a file. A file can
    be read again, a pipe or an iterator cannot. A pipe is read in blocks of 8 MB, so records of a
    slow one wait until there are that many, or until it ends. An iterator yields rows or matrices
    of numbers. The other parameters are those of ``open_table`` and ``prepare``.
    """
    opened: Source
    if isinstance(source, (str, Path)):
        opened, rereadable = _open_bytes(source, columns, header)
    else:
        opened, rereadable = _IterableSource(iter(source), columns), False
    domain = domain_of(opened.columns, bounds, scaled)
    fill = fill_of(domain, invalid)
    return RecordStream(opened, rereadable=rereadable, domain=domain, fill=fill, progress=progress)


def _open_bytes(
    source: str | Path, columns: Sequence[str] | None, header: bool | None
) -> tuple[Source, bool]:
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
            return open_table(path, columns=columns, header=header), True
        return CsvSource(path, columns, header, pipe), False
    except OSError as error:
        raise unreadable(path, error) from None


class _IterableSource:
    """The rows that an iterator yields, with the columns x1, x2, ..."""

    path = Path("the stream")
    header_guessed = False

    def __init__(self, items: Iterator[ArrayLike], columns: Sequence[str] | None) -> None:
        width, self._items = peek(items)
        names = default_names(width)
        self.columns = choose_columns(self.path, names, columns, public=True)
        self.labels = quoted(self.columns)
        self._positions = [names.index(name) for name in self.columns]

    @property
    def layout(self) -> dict[str, Any]:
        """What decides the numbers read: nothing that could be written down."""
        return {}

    def chunks(self, *, lenient: bool = False) -> Iterator[Chunk]:
        """Yield the rows; nobody knows how many there will be."""
        done = 0
        for values in gather_rows(self._items, lenient=lenient):
            used = values if len(self._positions) == values.shape[1] else values[:, self._positions]
            yield Chunk(used, 0.0, _record_names(done))
            done += len(values)


def _record_names(before: int) -> Callable[[int], str]:
    return lambda row: f"record {before + row + 1}"
