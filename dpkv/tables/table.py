"""Opening a table file and loading its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpkv import core_dumps
from dpkv.errors import TableError
from dpkv.tables.chunk import Chunk
from dpkv.tables.csvfile import CsvSource
from dpkv.tables.parquet import ParquetSource
from dpkv.tables.store import MEMORY_LIMIT, RecordStore
from dpkv.types import Float64s, Floats, Progress
from dpkv.validation import fill_unusable, usable_numbers

"""Called with the share of the table read so far, between 0 and 1."""


@dataclass(frozen=True, eq=False)
class Table:
    """Numeric records, in memory or memory-mapped, with the names of their columns."""

    values: Floats
    columns: tuple[str, ...]
    n_invalid: int = 0
    """Rows with an unusable number that were moved to the domain's centre. Curator-only."""
    mapped_file: Path | None = None
    """The memory-mapped binary copy, when the table was too large to hold in memory."""
    reused: bool = False
    """Whether that copy was already there from an earlier run."""

    @property
    def n_records(self) -> int:
        """Number of rows."""
        return len(self.values)


class Source(Protocol):
    """A table file that has been looked at but not read."""

    path: Path
    columns: tuple[str, ...]
    labels: tuple[str, ...]
    """What a message calls each column: its name where that cannot be a record's, or its number."""
    header_guessed: bool
    """Whether the first row was taken for names, or for a record, by its looks alone."""

    @property
    def layout(self) -> dict[str, Any]:
        """What decides the numbers read, besides the file and the columns."""

    def chunks(self, *, lenient: bool = False) -> Iterator[Chunk]:
        """Yield the rows in file order; ``lenient`` takes text for a missing number."""


def open_table(
    path: str | Path,
    *,
    columns: Sequence[str] | None = None,
    header: bool | None = None,
    typed: bool = True,
) -> Source:
    """Look at a CSV (also gzipped) or Parquet file and return its source, without reading it all.

    ``header`` None finds out by itself: a first row with no number in it is a header. Columns of a
    table without one are called x1, x2, ... Unless ``columns`` were ``typed`` by a person, messages
    do not show them.
    """
    path = Path(path)
    core_dumps.switch_off()
    try:
        if path.is_dir():
            raise TableError(f"{path} is a directory: give one CSV or Parquet file.")
        if not path.exists():
            raise TableError(f"{path} does not exist: check the path.")
        if not path.is_file():
            raise TableError(f"{path} is not a regular file: save the table to a file first.")
        if path.stat().st_size == 0:
            raise TableError(f"{path} is empty: it must hold at least one row.")
        if is_parquet(path):
            return ParquetSource(path, columns)
        return CsvSource(path, columns, header, typed=typed)
    except OSError as error:
        raise unreadable(path, error) from None


def check_header(source: Source, invalid: str) -> None:
    """Refuse, for what leads to a release, a header that nothing confirms.

    A release publishes column names, so a record must never pass for them. Where rows that are no
    numbers refuse the table, a guess is confirmed by reading on: all columns used turn out numeric,
    so a first row of text cannot be a record of such a table, and one of numbers is not taken for
    names. Where such rows are filled, text is as good a record as any and nothing tells it from
    names; and "there is a release" would depend on what the first record holds.
    """
    if invalid == "center" and source.header_guessed:
        raise TableError(
            f"{source.path}: where any cell may be filled, the first row may be names or a record: "
            "say --header or --no-header."
        )


def is_parquet(path: Path) -> bool:
    """Tell by the mark at the start and a byte soon after that no text has.

    The mark alone may begin a CSV's header.
    """
    with path.open("rb") as file:
        start = file.read(4096)
    binary = start == b"PAR1" or b"\0" in start or b"\xff" in start
    return start.startswith(b"PAR1") and binary


def load(
    source: Source,
    *,
    fill: Float64s | None = None,
    memory_limit: int = MEMORY_LIMIT,
    workspace: str | Path = ".dpkv",
    progress: Progress | None = None,
) -> Table:
    """Read a source. Rows with an unusable cell become ``fill``; without one they are refused."""
    recipe = {
        "path": str(source.path.resolve()),
        "columns": list(source.columns),
        "layout": source.layout,
        "fill": None if fill is None else [float(number) for number in fill],
    }
    try:
        store = RecordStore(source.path, len(source.columns), recipe, memory_limit, Path(workspace))
    except OSError as error:
        raise unreadable(source.path, error) from None
    kept = store.earlier_copy()
    if kept is not None:
        return Table(kept.values, source.columns, kept.n_invalid, kept.path, reused=True)
    n_invalid = 0
    try:
        for chunk in readable_chunks(source, lenient=fill is not None):
            n_invalid += mend(chunk, fill, source)
            store.append(chunk.values)
            if progress is not None:
                progress(chunk.share)
        if store.n_rows == 0:
            raise TableError(f"{source.path} has no rows: it must hold at least one record.")
        copy = store.finish(n_invalid)
    except OSError as error:
        raise cannot_hold(workspace, source.path, error) from None
    finally:
        store.discard_unfinished()
    return Table(copy.values, source.columns, n_invalid, copy.path)


def readable_chunks(source: Source, *, lenient: bool) -> Iterator[Chunk]:
    """Yield the source's chunks; trouble with the file itself becomes a sentence about it."""
    try:
        yield from source.chunks(lenient=lenient)
    except OSError as error:
        raise unreadable(source.path, error) from None


def cannot_hold(workspace: str | Path, path: Path, error: OSError) -> TableError:
    """Return the error of a workspace that has no room for a copy, or may not be written."""
    reason = error.strerror or "write error"
    return TableError(f"the workspace {workspace} cannot hold a binary copy of {path}: {reason}.")


def unreadable(path: Path, error: OSError) -> TableError:
    """Return the error of a file that the system does not let us read."""
    return TableError(f"{path} cannot be read: {error.strerror or 'damaged file'}.")


def mend(chunk: Chunk, fill: Float64s | None, source: Source) -> int:
    """Refuse or replace the rows of ``chunk`` that cannot be used; return how many there were."""
    values = chunk.values
    if fill is not None:
        return fill_unusable(values, fill)
    usable = usable_numbers(values)
    if usable.all():
        return 0
    finite = np.isfinite(values)
    if not finite.all():
        raise TableError(
            f"{_place(chunk, ~finite, source)}: empty, NaN or infinite. Clean the table, or map "
            "such rows to the domain's centre with --invalid center and --bounds."
        )
    raise TableError(
        f"{_place(chunk, ~usable, source)}: the number is beyond ±2^53, where float64 cannot tell "
        "whole numbers apart: rescale the column."
    )


def _place(chunk: Chunk, wrong: NDArray[np.bool_], source: Source) -> str:
    """Name the first cell that is wrong, never what stands in it."""
    row, column = np.argwhere(wrong)[0]
    return f"{source.path}, {chunk.locate(int(row))}, column {source.labels[column]}"
