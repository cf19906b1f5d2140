"""One column of a table as text: what its rows are divided by."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpkv.errors import DpkvError, TableError
from dpkv.tables.csvfile import CsvSource
from dpkv.tables.facts import Dialect, TableFacts
from dpkv.tables.naming import choose_columns
from dpkv.tables.parquet import open_parquet
from dpkv.tables.table import is_parquet, open_table, unreadable

Labels = NDArray[np.object_]


def column_names(path: str | Path, header: bool | None = None) -> tuple[str, ...]:
    """Return the names of all columns of a table, numeric or not."""
    path = Path(path)
    try:
        if path.is_file() and is_parquet(path):
            return choose_columns(path, open_parquet(path)[2], None, public=True)
    except OSError as error:
        raise unreadable(path, error) from None
    return open_table(path, header=header).columns


def read_labels(path: str | Path, column: str, header: bool | None = None) -> Labels:
    """Return the text of a column, row by row, in the order in which the table is read."""
    path = Path(path)
    try:
        if path.is_file() and is_parquet(path):
            choose_columns(path, open_parquet(path)[2], [column], public=True)
            cells = _parquet_column(path, column)
        else:
            open_table(path, columns=[column], header=header)
            cells = _csv_column(path, column, header)
    except DpkvError:
        raise
    except (ValueError, OSError):
        raise TableError(f"{path}: column {column!r} cannot be read as text.") from None
    if not len(cells):
        raise TableError(f"{path} has no rows: it must hold at least one record.")
    if (cells == "").any():
        raise TableError(f"{path} has rows without a label in column {column!r}: fill them in.")
    return cells


def _csv_column(path: Path, column: str, header: bool | None) -> Labels:
    facts = TableFacts((), person=column, dialect=Dialect(header=header))
    pieces = list(CsvSource(path, facts).ids())
    return np.concatenate(pieces) if pieces else np.empty(0, object)


def _parquet_column(path: Path, column: str) -> Labels:
    cells = open_parquet(path)[1].read(columns=[column]).column(0).to_pylist()
    texts = np.empty(len(cells), object)
    texts[:] = ["" if cell is None else str(cell).strip() for cell in cells]
    texts[texts == "nan"] = ""  # a float column's missing cells
    return texts
