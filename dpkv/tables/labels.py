"""One column of a table as text: what its rows are divided by."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpkv.errors import TableError
from dpkv.tables.naming import choose_columns
from dpkv.tables.table import is_parquet, open_table

Labels = NDArray[np.object_]


def column_names(path: str | Path, header: bool | None = None) -> tuple[str, ...]:
    """Return the names of all columns of a table, numeric or not."""
    if Path(path).is_file() and is_parquet(Path(path)):
        return _parquet_names(Path(path))
    return open_table(path, header=header).columns


def read_labels(path: str | Path, column: str, header: bool | None = None) -> Labels:
    """Return the text of a column, row by row, in the order in which the table is read."""
    path = Path(path)
    names = column_names(path, header)
    choose_columns(path, names, [column])
    try:
        cells = (_parquet_column if is_parquet(path) else _csv_column)(path, column, header)
    except (ValueError, OSError):
        raise TableError(f"{path}: column {column!r} cannot be read as text.") from None
    if (cells == "").any():
        raise TableError(f"{path} has rows without a label in column {column!r}: fill them in.")
    return cells


def _csv_column(path: Path, column: str, header: bool | None) -> Labels:
    source = open_table(path, header=header)
    frame = pd.read_csv(
        path,
        sep=source.layout["delimiter"],
        header=0 if source.layout["header"] else None,
        names=list(source.columns),
        usecols=[column],
        dtype=str,
        keep_default_na=False,
        skipinitialspace=True,
        index_col=False,
        encoding="utf-8-sig",
    )
    return frame[column].str.strip().to_numpy(dtype=object)


def _parquet_names(path: Path) -> tuple[str, ...]:
    import pyarrow.parquet  # noqa: PLC0415 (an optional extra)

    schema = pyarrow.parquet.read_schema(path)
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    return tuple(name for name in schema.names if name not in index)


def _parquet_column(path: Path, column: str, header: bool | None) -> Labels:  # noqa: ARG001
    import pyarrow.parquet  # noqa: PLC0415

    cells = pyarrow.parquet.read_table(path, columns=[column]).column(0).to_pylist()
    return np.asarray(["" if cell is None else str(cell) for cell in cells], dtype=object)
