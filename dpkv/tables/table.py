"""Opening a table file and loading its rows."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from dpkv import core_dumps
from dpkv.errors import TableError
from dpkv.tables.chunk import Chunk, Rows
from dpkv.tables.csvfile import CsvSource
from dpkv.tables.encode import Encoder
from dpkv.tables.facts import REFUSE, Missing, TableFacts, numeric_facts
from dpkv.tables.objects import as_path
from dpkv.tables.parquet import ParquetSource
from dpkv.tables.person_keys import Reading
from dpkv.tables.store import MEMORY_LIMIT, RecordStore
from dpkv.types import Floats, Progress


@dataclass(frozen=True, eq=False)
class Table:
    """Records as coordinates, in memory or memory-mapped, with the names of these.

    What a row is worth stands beside them, where anything but one record each was asked for.
    """

    values: Floats
    columns: tuple[str, ...]
    """The names of the coordinates: a column of categories has one for each of them."""
    mapped_file: Path | None = None
    """The memory-mapped binary copy, when the table was too large to hold in memory."""
    reused: bool = False
    """Whether that copy was already there from an earlier run."""
    person_keys: NDArray[np.uint64] | None = None
    """A key for every row's person. Private, and worth comparing within this table only."""
    counts: NDArray[np.bool_] | None = None
    """Whether a row counts; one that does not is there all the same, with weight zero. Private."""
    used: tuple[str, ...] = ()
    """The columns of the file that the coordinates come from."""
    weights: NDArray[np.int64] | None = None
    """Survey weights, in ``1 / WEIGHT_LEVELS`` of their public bound. Private."""
    names_confirmed: bool = True
    """Whether no record can pass for the names: it was said whether a first row holds them."""

    @property
    def n_records(self) -> int:
        """Number of rows."""
        return len(self.values)


class Source(Protocol):
    """A table that has been looked at but not read."""

    path: Path
    """The file, or what a message calls the table."""
    facts: TableFacts
    """What the columns are taken for, now that they are known."""
    columns: tuple[str, ...]
    """The names of the coordinates that a row becomes."""
    labels: tuple[str, ...]
    """What a message calls each column: its name where that cannot be a record's, or its number."""
    header_guessed: bool
    """Whether the first row was taken for names, or for a record, by its looks alone."""
    names_guessed: bool
    """Whether it was taken for names by its looks alone."""

    @property
    def layout(self) -> dict[str, Any]:
        """What decides the numbers read, besides the file and the columns."""

    def chunks(self) -> Iterator[Chunk]:
        """Yield the cells in file order."""


def open_table(
    path: str | Path,
    facts: TableFacts | None = None,
    *,
    columns: Sequence[str] | None = None,
    header: bool | None = None,
    missing: Missing = REFUSE,
    typed: bool = True,
) -> Source:
    """Look at a CSV (also gzipped) or Parquet file and return its source, without reading it all.

    ``facts`` say what its columns are; without them they hold numbers, and the other parameters say
    which are used. ``header`` None finds out by itself: a first row with no number in it is a
    header. Columns of a table without one are called x1, x2, ... Unless ``columns`` were ``typed``
    by a person, messages do not show them.
    """
    path = as_path(path)
    if facts is None:
        facts = numeric_facts(columns, header=header, missing=missing)
    core_dumps.switch_off()
    try:
        if not path.is_file():
            _refuse_other(path)
        if path.stat().st_size == 0:
            raise TableError(f"{path} is empty: it must hold at least one row.")
        if is_parquet(path, ended=facts.takes_any_cell and facts.dialect.header is False):
            return ParquetSource(path, facts)
        if facts.dialect.header is not False:  # elsewhere it begins with a record
            _refuse_spreadsheet(path)
        return CsvSource(path, facts, typed=typed)
    except OSError as error:
        raise unreadable(path, error) from None


def _refuse_other(path: Path) -> NoReturn:
    """Say why a path is no file."""
    if path.is_dir():
        raise TableError(f"{path} is a directory: give one CSV or Parquet file.")
    if not path.exists():
        raise TableError(f"{path} does not exist: check the path.")
    raise TableError(f"{path} is not a regular file: save the table to a file first.")


def files_of(source: Source) -> tuple[Path, ...]:
    """Return the files that a source reads: one, unless it says that there are more."""
    several: tuple[Path, ...] | None = getattr(source, "files", None)
    return several or (source.path,)


def check_header(source: Source, *, publishes: bool = True) -> None:
    """Refuse a header that was guessed, for what ``publishes`` the names of the columns.

    A record must never pass for them, so a release has to be told. What publishes nothing may go by
    the looks of the first row where cells that are no numbers refuse the table: all columns used
    turn out numeric, so a first row of text is no record. Where such a cell is taken, text is as
    good a record as any and nothing tells it from names; and "there is a release" would depend on
    what the first record holds.
    """
    if not (_names_confirmed(source) if publishes else _header_plain(source)):
        raise TableError(
            f"{source.path}: the first row may be names or a record: say --header or --no-header "
            "(in Python header=True or False), or have a schema say it, which 'dpkv schema' drafts."
        )


def _names_confirmed(source: Source) -> bool:
    return _header_plain(source) and not source.names_guessed


def _header_plain(source: Source) -> bool:
    """Tell whether the first row was seen for what it is: it was said, or all else are numbers."""
    strict = all(c.is_number and c.missing.kind == "refuse" for c in source.facts.used)
    return strict or not source.header_guessed


def _refuse_spreadsheet(path: Path) -> None:
    with path.open("rb") as file:
        start = file.read(8)
    if start.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        raise TableError(
            f"{path} is an Excel file or another archive: save the sheet as CSV (UTF-8) and give "
            "that."
        )


def is_parquet(path: Path, *, ended: bool = False) -> bool:
    """Tell by the mark at the start and a byte soon after that no text has.

    The mark alone may begin a CSV's header. Where a file may begin with a record of any cells,
    which may hold such bytes, it must be ``ended`` by the mark, too.
    """
    with path.open("rb") as file:
        start = file.read(4096)
        if ended and start.startswith(b"PAR1"):
            file.seek(-4, os.SEEK_END)
            if file.read() != b"PAR1":
                return False
    binary = start == b"PAR1" or b"\0" in start or b"\xff" in start
    return start.startswith(b"PAR1") and binary


def load(
    source: Source,
    *,
    memory_limit: int = MEMORY_LIMIT,
    workspace: str | Path = ".dpkv",
    progress: Progress | None = None,
    writable: bool = True,
) -> Table:
    """Read a source: every cell becomes what its column's public rule says."""
    recipe = {
        "path": str(source.path.resolve()),
        "columns": list(source.columns),
        "layout": source.layout,
    }
    try:
        files, width = files_of(source), len(source.columns)
        folder = Path(workspace)
        store = RecordStore(files, width, recipe, memory_limit, folder, writable=writable)
    except OSError as error:
        raise unreadable(source.path, error) from None
    kept = store.earlier_copy()
    if kept is not None:
        return _table(source, *kept, reused=True)
    try:
        for rows, share in encoded(source):
            store.append(rows)
            if progress is not None:
                progress(share)
        if store.n_rows == 0:
            raise TableError(f"{source.path} has no rows: it must hold at least one record.")
        copy = store.finish()
    except OSError as error:
        raise cannot_hold(workspace, source.path, error) from None
    finally:
        store.discard_unfinished()
    return _table(source, *copy)


def _table(source: Source, rows: Rows, path: Path | None, *, reused: bool = False) -> Table:
    return Table(
        rows.values,
        source.columns,
        path,
        reused,
        person_keys=rows.person_keys,
        counts=rows.counts,
        weights=rows.weights,
        used=tuple(column.name for column in source.facts.used),
        names_confirmed=_names_confirmed(source),
    )


def encoded(source: Source, reading: Reading | None = None) -> Iterator[tuple[Rows, float]]:
    """Yield the source's rows and how much of it has been read.

    Trouble with the file itself becomes a sentence about it. Keys of persons are those of the
    reading: of this process's, unless another is given.
    """
    encoder = Encoder(source.facts, source.path, source.labels, reading)
    try:
        for chunk in source.chunks():
            yield encoder.encode(chunk), chunk.share
    except OSError as error:
        raise unreadable(source.path, error) from None


def cannot_hold(workspace: str | Path, path: Path, error: OSError) -> TableError:
    """Return the error of a workspace that has no room for a copy, or may not be written."""
    reason = error.strerror or "write error"
    return TableError(f"the workspace {workspace} cannot hold a binary copy of {path}: {reason}.")


def unreadable(path: Path, error: OSError) -> TableError:
    """Return the error of a file that the system does not let us read."""
    return TableError(f"{path} cannot be read: {error.strerror or 'damaged file'}.")
