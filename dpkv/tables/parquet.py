"""Parquet files, read batch by batch (extra ``parquet``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpkv.errors import TableError
from dpkv.tables.chunk import Chunk
from dpkv.tables.naming import choose_columns, not_numeric, quoted

_BATCH_ROWS = 1 << 17


def open_parquet(path: Path) -> tuple[Any, Any, list[str]]:
    """Return pyarrow, the open file, and the names of its columns but for an index of pandas."""
    try:
        import pyarrow  # noqa: PLC0415 (an optional extra)
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError:
        raise TableError(
            f"{path} is a Parquet file: reading it needs pip install 'dpkv[parquet]'."
        ) from None
    try:
        file: Any = pyarrow.parquet.ParquetFile(path)
        schema = file.schema_arrow
        names: list[str] = schema.names
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError):
        raise TableError(f"{path} is damaged: it is not a readable Parquet file.") from None
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    return pyarrow, file, [name for name in names if name not in index]


class ParquetSource:
    """A Parquet file whose columns are known."""

    header_guessed = False

    def __init__(self, path: Path, columns: Sequence[str] | None) -> None:
        self.path = path
        self._arrow, self._file, own = open_parquet(path)
        schema = self._file.schema_arrow
        names = own if columns is None else schema.names
        self.columns = choose_columns(path, names, columns, public=True)
        self.labels = quoted(self.columns)
        types = self._arrow.types
        numeric = (types.is_integer, types.is_floating, types.is_decimal)
        kinds = dict(zip(schema.names, schema.types, strict=True))
        fit = np.array([any(test(kinds[name]) for test in numeric) for name in self.columns])
        if not fit.all():
            raise not_numeric(path, self.columns, self.labels, fit)

    @property
    def layout(self) -> dict[str, Any]:
        """What decides the numbers read, besides the file and the columns: nothing."""
        return {}

    def chunks(self, *, lenient: bool = False) -> Iterator[Chunk]:  # noqa: ARG002
        """Yield float64 chunks with the share of the rows read so far.

        A numeric column holds no text for ``lenient`` to pass over.
        """
        total, done = max(1, self._file.metadata.num_rows), 0
        try:
            for batch in self._file.iter_batches(_BATCH_ROWS, columns=list(self.columns)):
                chunk = np.empty((batch.num_rows, len(self.columns)))
                for position, name in enumerate(self.columns):
                    column = batch.column(name).cast(self._arrow.float64(), safe=False)
                    chunk[:, position] = column.to_numpy(zero_copy_only=False)
                if batch.num_rows:
                    yield Chunk(chunk, (done + batch.num_rows) / total, _row_names(done))
                done += batch.num_rows
        except (self._arrow.ArrowException, OSError):
            raise TableError(f"{self.path} is damaged: its data cannot be read.") from None


def _row_names(before: int) -> Callable[[int], str]:
    return lambda row: f"row {before + row + 1}"
