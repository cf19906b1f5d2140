"""Data frames of every library, cell by cell: pandas, polars, pyarrow and whatever speaks Arrow.

narwhals knows the libraries' own frames; any other object that exports Arrow's C stream or the
dataframe interchange protocol is taken by pyarrow. From there on a frame is read like a file: the
same facts, the same rules for missing cells, the same sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpkv.errors import ParameterError, TableError
from dpkv.tables.chunk import Chunk, Texts
from dpkv.tables.facts import Column, TableFacts
from dpkv.tables.naming import choose_columns, default_names, not_numeric, quoted
from dpkv.tables.person_keys import id_texts
from dpkv.tables.table import Table
from dpkv.types import Float64s
from dpkv.validation import lenient_numbers, printable_names

_CHUNK_ROWS = 1 << 17
NAME = Path("the table")


def as_frame(data: object) -> Any:
    """Return data as narwhals sees a frame; None where they are no frame.

    Of a table that dpkv read, a row that counts for nothing is one of missing cells.
    """
    if isinstance(data, Table):
        data = _of_table(data)
    found = nw.from_native(data, pass_through=True)
    if isinstance(found, nw.LazyFrame):
        raise TableError("the table is not computed yet: collect it, and give the result.")
    if isinstance(found, nw.DataFrame):
        return found
    for protocol, read in (("__arrow_c_stream__", _from_stream), ("__dataframe__", _exchanged)):
        if hasattr(data, protocol):
            return nw.from_native(read(data), eager_only=True)
    return None


def check_names(data: object) -> None:
    """Refuse, for what publishes them, the names of a table whose header was guessed."""
    if isinstance(data, Table) and not data.names_confirmed:
        raise TableError(
            "the first row of the table may be names or a record: read it with header=True or "
            "header=False."
        )


def _of_table(table: Table) -> pd.DataFrame:
    values = table.values
    if table.counts is not None:
        values = np.where(table.counts[:, np.newaxis], values, np.nan)
    return pd.DataFrame(values, columns=list(table.columns), copy=False)


def _arrow() -> Any:
    try:
        import pyarrow  # noqa: PLC0415 (an optional extra)
        import pyarrow.interchange  # noqa: PLC0415
    except ImportError:
        raise TableError(
            "a table of this kind is read through Arrow: pip install 'dpkv[parquet]'."
        ) from None
    return pyarrow


def _from_stream(data: Any) -> Any:
    return _arrow().table(data)


def _exchanged(data: Any) -> Any:
    return _arrow().interchange.from_dataframe(data)


def frame_names(frame: Any) -> tuple[str, ...]:
    """Return the names of a frame; one that was made of an array has none of its own."""
    labels = list(frame.columns)
    if labels in (list(range(len(labels))), [f"column_{i}" for i in range(len(labels))]):
        return default_names(len(labels))
    return printable_names("columns", map(str, labels))


class FrameSource:
    """A frame whose columns are known."""

    path = NAME
    header_guessed = names_guessed = False

    def __init__(
        self,
        frame: Any,
        names: Sequence[str],
        facts: TableFacts,
        *,
        persons: NDArray[np.object_] | None = None,
        weights: Float64s | None = None,
    ) -> None:
        """Look at a frame; ``persons`` and ``weights``, one per row, came beside it."""
        self._frame = frame
        self._persons, self._weights = persons, weights
        if weights is not None and facts.weight is not None:
            names = [*names, _not_among(names, facts.weight.name)]
        chosen = choose_columns(NAME, names, facts.wanted, public=True)
        self.facts = facts.describing(chosen)
        self.columns = self.facts.coordinates
        self.labels = quoted(self.facts.names)
        self._own = dict(zip(names, frame.columns, strict=False))
        self._numbers = [column.name for column in self.facts.used if column.is_number]
        if self.facts.weight is not None and weights is None:
            self._numbers.append(self.facts.weight.name)
        self._check_types()
        if not len(frame):
            raise TableError("the table has no rows: it must hold at least one record.")

    def _check_types(self) -> None:
        """Refuse columns whose type cannot be a number's."""
        types = [self._frame[self._own[name]].dtype for name in self._numbers]
        dates = [
            name for name, kind in zip(self._numbers, types, strict=True) if kind.is_temporal()
        ]
        if dates:
            raise not_numeric(NAME, dates[:1], quoted(dates[:1]), np.array([False]), "dates")
        rules = {column.name: column.missing.kind for column in self.facts.used}
        fit = [
            kind.is_numeric() or kind in (nw.Object, nw.Unknown) or rules.get(name) != "refuse"
            for name, kind in zip(self._numbers, types, strict=True)
        ]
        if not all(fit):
            raise not_numeric(NAME, self._numbers, quoted(self._numbers), np.array(fit))

    @property
    def layout(self) -> dict[str, Any]:
        """What decides the numbers read: nothing that is kept."""
        return {}

    @property
    def is_plain(self) -> bool:
        """Whether all there is are numbers."""
        beside = self._weights is not None
        return len(self._numbers) + beside == len(self.facts.names)

    @property
    def n_own_numbers(self) -> int:
        """How many columns of numbers are the frame's: weights that came beside it are behind."""
        return len(self._numbers)

    def chunks(self) -> Iterator[Chunk]:
        """Yield the cells in the order of the rows."""
        total = len(self._frame)
        for start in range(0, total, _CHUNK_ROWS):
            rows = slice(start, start + _CHUNK_ROWS)
            chunk = self._chunk(self._frame[rows], min(1.0, rows.stop / total), start)
            yield self._with_beside(chunk, rows)

    def _with_beside(self, chunk: Chunk, rows: slice) -> Chunk:
        """Return a chunk with what came beside the frame."""
        if self._weights is not None:
            values = np.column_stack([chunk.values, self._weights[rows]])
            chunk = replace(chunk, values=values)
        return chunk if self._persons is None else replace(chunk, persons=self._persons[rows])

    def _chunk(self, part: Any, share: float, start: int) -> Chunk:
        locate = _record_names(start)
        values = np.empty((len(part), len(self._numbers)))
        for place, name in enumerate(self._numbers):
            values[:, place] = _numbers(part[self._own[name]])
        texts = {
            column.name: _texts(part[self._own[column.name]], column)
            for column in self.facts.used
            if not column.is_number
        }
        person = self.facts.person
        ids = None if person is None else id_texts(part[self._own[person]].to_list())
        return Chunk(values, share, locate, texts, ids)


def _numbers(series: Any) -> Float64s:
    """Return a column as numbers, NaN for a cell that is none."""
    if series.dtype.is_numeric() and not series.dtype.is_decimal():
        return np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64)
    cells = np.empty(len(series), dtype=object)
    cells[:] = series.to_list()
    return lenient_numbers(cells)


def _texts(series: Any, column: Column) -> Texts:
    given = series.to_list()
    cells: NDArray[np.object_] = id_texts(given)
    codes, names = pd.factorize(cells)
    if column.booleans is not None and any(isinstance(cell, bool) for cell in given):
        own = {"True": column.booleans.true[0], "False": column.booleans.false[0]}
        names = np.array([own.get(name, name) for name in names], dtype=object)
    return Texts(codes.astype(np.int64), names)


def _not_among(names: Sequence[str], name: str) -> str:
    """Refuse a column that is called like what came beside the table."""
    if name in names:
        raise ParameterError(
            name, "the name of its column, where the table has one that is called so", "values"
        )
    return name


def _record_names(before: int) -> Callable[[int], str]:
    return lambda row: f"record {before + row + 1}"
