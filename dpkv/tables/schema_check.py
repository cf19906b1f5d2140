"""How a table fits its schema: exact figures of the records, for their curator's eyes only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dpkv.tables.facts import Column, Missing, TableFacts
from dpkv.tables.schema import TableSchema
from dpkv.tables.table import encoded, open_table
from dpkv.types import Float64s, Progress


@dataclass
class ColumnFit:
    """What became of a column's cells."""

    name: str
    holds: str
    """What it is taken for."""
    rule: str
    """What becomes of a cell that does not fit."""
    n_missing: int = 0
    """Cells that are empty, or not what the column holds."""
    n_outside: int = 0
    """Numbers beyond the bounds, which a release moves to the nearest."""


def fit_table(
    path: Path, schema: TableSchema, progress: Progress | None = None
) -> tuple[int, list[ColumnFit]]:
    """Return the number of rows, and how every column that enters distances fits."""
    facts = schema.facts()
    names = [column.name for column in facts.used]
    bounds = schema.bounds(names)
    fits = [
        ColumnFit(c.name, _holds(b), str(c.missing))
        for c, b in zip(facts.used, bounds, strict=True)
    ]
    counted = replace(facts, columns=tuple(_marked(column) for column in facts.used))
    n_rows = 0
    for values, share in _rows(path, counted):
        n_rows += len(values)
        start = 0
        for fit, column, bound in zip(fits, counted.used, bounds, strict=True):
            cells = values[:, start : start + column.width]
            start += column.width
            if isinstance(bound, tuple):
                missing = cells[:, 0] == _MARK
                fit.n_outside += int(
                    ((cells[:, 0] < bound[0]) | (cells[:, 0] > bound[1]))[~missing].sum()
                )
            else:
                missing = cells[:, -1] == 1.0
            fit.n_missing += int(missing.sum())
        if progress is not None:
            progress(share)
    return n_rows, fits


_MARK = float(2**53)


def _marked(column: Column) -> Column:
    """Return a column whose missing cells can be told from all others."""
    rule = Missing("category") if column.categories else Missing("fill", _MARK)
    return replace(column, missing=rule)


def _rows(path: Path, facts: TableFacts) -> Iterator[tuple[Float64s, float]]:
    for rows, share in encoded(open_table(path, facts)):
        yield np.asarray(rows.values), share


def _holds(bound: tuple[float, float] | int) -> str:
    return f"{bound} categories" if isinstance(bound, int) else f"{bound[0]:g} to {bound[1]:g}"
