"""Tables: CSV and Parquet in, as float records; centres out.

Reading is chunked. A table larger than a limit is converted once to a memory-mapped array in the
workspace, so that memory stays bounded and later passes run at memory speed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from dpkv.domain import Bounds, Domain
from dpkv.errors import ParameterError, TableError
from dpkv.kernels import Floats
from dpkv.tables.csvfile import CsvSource
from dpkv.tables.parquet import ParquetSource
from dpkv.tables.store import MEMORY_LIMIT, RecordStore
from dpkv.validation import LARGEST_MAGNITUDE, one_of

Progress = Callable[[float], None]
"""Called with the share of the table read so far, between 0 and 1."""


@dataclass(frozen=True, eq=False)
class Table:
    """Numeric records, in memory or memory-mapped, with the names of their columns."""

    values: Floats
    columns: tuple[str, ...]
    n_invalid: int = 0
    """Rows with a NaN or infinity that were moved to the domain's centre. Curator-only."""
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

    def chunks(self) -> Iterator[tuple[np.ndarray, float]]:
        """Yield float64 chunks, rows in file order, with the share of the file read so far."""

    def where(self, row: int) -> str:
        """Name a row (0-based) the way a person finds it in the file."""


def open_table(
    path: str | Path, *, columns: Sequence[str] | None = None, header: bool | None = None
) -> Source:
    """Look at a CSV (also gzipped) or Parquet file and return its source, without reading it all.

    ``header`` None finds out by itself: a first row with no number in it is a header. Columns of a
    table without one are called x1, x2, ...
    """
    path = Path(path)
    try:
        if path.is_dir():
            raise TableError(f"{path} is a directory: give one CSV or Parquet file.")
        if not path.exists():
            raise TableError(f"{path} does not exist: check the path.")
        with path.open("rb") as file:
            magic = file.read(4)
        if not magic:
            raise TableError(f"{path} is empty: it must hold at least one row.")
        if magic == b"PAR1":
            return ParquetSource(path, columns)
        return CsvSource(path, columns, header)
    except OSError as error:
        raise TableError(f"{path} cannot be read: {error.strerror or 'damaged file'}.") from None


def read_table(
    path: str | Path,
    *,
    columns: Sequence[str] | None = None,
    header: bool | None = None,
    invalid: str = "refuse",
    bounds: Bounds | Domain | None = None,
    memory_limit: int = MEMORY_LIMIT,
    workspace: str | Path = ".dpkv",
    progress: Progress | None = None,
) -> Table:
    """Read a CSV (also gzipped) or Parquet file as numeric records.

    Parameters
    ----------
    columns : the columns to use, by name, in this order; all of them by default.
    invalid : what happens to rows with NaN or infinity: "refuse" the table, or map each such row
        to the "center" of the domain given by ``bounds``, a fixed rule that reveals nothing.
    memory_limit : bytes of records held in memory; a larger table is converted once to a
        memory-mapped file under ``workspace``.
    """
    one_of("invalid", invalid, ("refuse", "center"))
    source = open_table(path, columns=columns, header=header)
    fill = None
    if invalid == "center":
        if bounds is None:
            raise ParameterError(
                "bounds", "given when invalid is 'center'", None, "The centre must be public."
            )
        domain = (
            bounds
            if isinstance(bounds, Domain)
            else Domain.bounded(bounds, len(source.columns), columns=source.columns)
        )
        fill = domain.middle
    return load(
        source, fill=fill, memory_limit=memory_limit, workspace=workspace, progress=progress
    )


def load(
    source: Source,
    *,
    fill: np.ndarray | None = None,
    memory_limit: int = MEMORY_LIMIT,
    workspace: str | Path = ".dpkv",
    progress: Progress | None = None,
) -> Table:
    """Read a source. Rows with NaN or infinity become ``fill``, or refuse the table if it is None."""
    store = RecordStore(source.path, source.columns, fill, memory_limit, Path(workspace))
    kept = store.earlier_copy()
    if kept is not None:
        return Table(kept.values, source.columns, kept.n_invalid, kept.path, reused=True)
    n_rows = n_invalid = 0
    try:
        for chunk, share in source.chunks():
            n_invalid += _mend(chunk, fill, source, n_rows)
            n_rows += len(chunk)
            store.append(chunk)
            if progress is not None:
                progress(share)
        if n_rows == 0:
            raise TableError(f"{source.path} has a header but no rows: add at least one record.")
        copy = store.finish(n_invalid)
    except OSError as error:
        raise TableError(f"{source.path} cannot be read: {error.strerror or 'I/O error'}.") from None
    finally:
        store.discard_unfinished()
    return Table(copy.values, source.columns, n_invalid, copy.path)


def _mend(chunk: np.ndarray, fill: np.ndarray | None, source: Source, first_row: int) -> int:
    """Refuse or replace the rows of ``chunk`` that are not finite; return how many there were."""
    usable = np.abs(chunk) <= LARGEST_MAGNITUDE  # false for NaN and infinity as well
    if usable.all():
        return 0
    finite = np.isfinite(chunk)
    too_large = finite & ~usable
    if too_large.any():
        row, column = np.argwhere(too_large)[0]
        raise TableError(
            f"{source.path}, {source.where(first_row + row)}, column "
            f'"{source.columns[column]}": the number is beyond ±2^53, where float64 cannot tell '
            "whole numbers apart: rescale the column."
        )
    rows = ~finite.all(axis=1)
    if fill is None:
        row, column = np.argwhere(~finite)[0]
        raise TableError(
            f"{source.path}, {source.where(first_row + row)}, column "
            f'"{source.columns[column]}": empty, NaN or infinite. Clean the table, or map such rows '
            "to the domain's centre with --invalid center and --bounds."
        )
    chunk[rows] = fill
    return int(rows.sum())


__all__ = ["Progress", "Source", "Table", "load", "open_table", "read_table"]
