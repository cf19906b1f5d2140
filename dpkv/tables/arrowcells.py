"""Cells of Arrow data: Parquet files, and every frame that speaks Arrow's C interface."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpkv.errors import TableError
from dpkv.tables.chunk import Chunk, Texts
from dpkv.tables.facts import Column, TableFacts
from dpkv.tables.naming import not_numeric, quoted
from dpkv.tables.person_keys import id_texts
from dpkv.types import Float64s


class ArrowCells:
    """Turns record batches into chunks. ``arrow`` is pyarrow, which is an extra."""

    def __init__(self, arrow: Any, facts: TableFacts, path: Path) -> None:
        self._arrow = arrow
        self._facts = facts
        self._path = path
        self._numbers = [column.name for column in facts.used if column.is_number]
        self._numbers += [facts.weight.name] if facts.weight is not None else []

    def check_types(self, kinds: Mapping[str, Any]) -> None:
        """Refuse columns whose type cannot be what the facts say."""
        types = self._arrow.types
        dates = [name for name in self._facts.names if types.is_temporal(kinds[name])]
        if dates and dates[0] != self._facts.person:
            raise not_numeric(self._path, dates[:1], quoted(dates[:1]), np.array([False]), "dates")
        fit = np.array([self._is_numeric(kinds[name]) for name in self._numbers], dtype=bool)
        if not fit.all():
            raise not_numeric(self._path, self._numbers, quoted(self._numbers), fit)
        lists = [name for name in self._facts.names if types.is_nested(kinds[name])]
        if lists:
            raise TableError(
                f"{self._path}: column {quoted(lists)[0]} holds lists or structures: leave it out."
            )

    def _is_numeric(self, kind: Any) -> bool:
        types = self._arrow.types
        return any(
            test(kind)
            for test in (types.is_integer, types.is_floating, types.is_decimal, types.is_null)
        )

    def chunk(self, batch: Any, share: float, locate: Callable[[int], str]) -> Chunk:
        """Return the cells of a batch."""
        values = np.empty((batch.num_rows, len(self._numbers)))
        for place, name in enumerate(self._numbers):
            values[:, place] = self._floats(batch.column(name))
        texts = {
            column.name: self._texts(batch.column(column.name), column)
            for column in self._facts.used
            if not column.is_number
        }
        person = self._facts.person
        ids = None if person is None else self._ids(batch.column(person))
        return Chunk(values, share, locate, texts, ids)

    def _floats(self, cells: Any) -> Float64s:
        column = cells.cast(self._arrow.float64(), safe=False)
        return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)

    def _texts(self, cells: Any, column: Column) -> Texts:
        """Return the codes of a column's texts; a whole number is its digits."""
        if not self._arrow.types.is_dictionary(cells.type):
            cells = cells.dictionary_encode()
        codes = cells.indices.cast(self._arrow.int64()).fill_null(-1)
        names = id_texts(cells.dictionary.to_pylist())
        if column.booleans is not None:  # truth values proper, whatever words a schema has
            own = {"True": column.booleans.true[0], "False": column.booleans.false[0]}
            truths = self._arrow.types.is_boolean(cells.type.value_type)
            names[:] = [own.get(name, name) for name in names] if truths else names
        return Texts(codes.to_numpy(zero_copy_only=False), names)

    def _ids(self, cells: Any) -> NDArray[np.object_]:
        types = self._arrow.types
        if types.is_integer(cells.type):  # as fast as may be
            texts = cells.cast(self._arrow.string()).fill_null("")
            return np.asarray(texts.to_numpy(zero_copy_only=False), dtype=object)
        return id_texts(cells.to_pylist())
