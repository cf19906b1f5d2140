"""Parquet files, read batch by batch (extra ``parquet``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from dpkv.errors import TableError
from dpkv.tables.arrowcells import ArrowCells
from dpkv.tables.chunk import Chunk
from dpkv.tables.facts import TableFacts
from dpkv.tables.naming import choose_columns, quoted
from dpkv.tables.objects import ObjectPath

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
        opened: Any = path.open("rb") if isinstance(path, ObjectPath) else path
        file: Any = pyarrow.parquet.ParquetFile(opened, pre_buffer=False)
        schema = file.schema_arrow
        names: list[str] = schema.names
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError):
        raise TableError(f"{path} is damaged: it is not a readable Parquet file.") from None
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    return pyarrow, file, [name for name in names if name not in index]


class ParquetSource:
    """A Parquet file whose columns are known."""

    header_guessed = names_guessed = False

    def __init__(self, path: Path, facts: TableFacts) -> None:
        self.path = path
        arrow, self._file, own = open_parquet(path)
        schema = self._file.schema_arrow
        names = own if facts.columns is None else schema.names
        chosen = choose_columns(path, names, facts.wanted, public=True)
        self.facts = facts.describing(chosen)
        self.columns = self.facts.coordinates
        self.labels = quoted(self.facts.names)
        self._cells = ArrowCells(arrow, self.facts, path)
        self._cells.check_types(dict(zip(schema.names, schema.types, strict=True)))
        self._arrow = arrow

    @property
    def layout(self) -> dict[str, Any]:
        """What decides the numbers read, besides the file and the columns."""
        return {"facts": repr(self.facts)}

    def chunks(self) -> Iterator[Chunk]:
        """Yield the cells with the share of the rows read so far."""
        total, done = max(1, self._file.metadata.num_rows), 0
        try:
            for batch in self._file.iter_batches(_BATCH_ROWS, columns=list(self.facts.names)):
                if batch.num_rows:
                    share = (done + batch.num_rows) / total
                    yield self._cells.chunk(batch, share, _row_names(done))
                done += batch.num_rows
        except (self._arrow.ArrowException, OSError):
            raise TableError(f"{self.path} is damaged: its data cannot be read.") from None


def _row_names(before: int) -> Callable[[int], str]:
    return lambda row: f"row {before + row + 1}"
