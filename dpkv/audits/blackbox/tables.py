"""The tables that a mechanism is tried on: columns with public bounds, and pairs of neighbours."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpkv import foreign
from dpkv.accounting import Neighbours
from dpkv.domain import Box, Domain
from dpkv.errors import DomainError, UsageError
from dpkv.types import Float64s

_PLACEHOLDER_ADVICE = "give constraints.minimum and constraints.maximum, or constraints.enum"


@dataclass(frozen=True)
class Column:
    """A column: numbers between public bounds, or one of several public levels.

    A cell of a column with ``levels`` is the number of its level; in a file the level itself.
    """

    name: str
    lower: float
    upper: float
    whole: bool = False
    levels: tuple[str, ...] = ()
    may_be_missing: bool = False
    """Whether tables with an empty cell (NaN) here belong to those that the claim covers."""

    def __post_init__(self) -> None:
        finite = math.isfinite(self.lower) and math.isfinite(self.upper)
        if not finite or self.lower > self.upper:
            raise DomainError(f"column {self.name!r} needs finite bounds, the lower one first.")

    def write(self, value: float) -> str:
        """Return a cell as a file has it."""
        if math.isnan(value):
            return ""
        if self.levels:
            return self.levels[int(value)]
        return str(int(value)) if self.whole else repr(float(value))


@dataclass(frozen=True)
class TableDomain:
    """Public facts of the tables: columns, and the least number of rows."""

    columns: tuple[Column, ...]
    min_rows: int = 0

    def __post_init__(self) -> None:
        if not self.columns:
            raise DomainError("a table needs at least one column.")

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.columns)

    def fit(self, values: Float64s) -> Float64s:
        """Return values on the columns: whole where they must be, and within bounds."""
        whole = np.asarray([column.whole or bool(column.levels) for column in self.columns])
        lower = np.asarray([column.lower for column in self.columns])
        upper = np.asarray([column.upper for column in self.columns])
        rounded = np.where(whole, np.rint(values), values)
        return np.asarray(np.clip(rounded, lower, upper) + 0.0)  # no negative zero

    def to_csv(self, table: Float64s) -> str:
        """Return a table as a file has it."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([column.name for column in self.columns])
        for row in table:
            writer.writerow(
                [column.write(float(v)) for column, v in zip(self.columns, row, strict=True)]
            )
        return text.getvalue()


def domain_of(given: Any, *, min_rows: int = 0) -> TableDomain:
    """Return a domain from columns, pairs of bounds, a ``Box``, or a Frictionless schema."""
    if isinstance(given, TableDomain):
        return given
    if isinstance(given, (str, Path)):
        return read_schema(Path(given), min_rows=min_rows)
    if isinstance(given, Mapping):
        return _from_schema(given, "the schema", min_rows)
    if isinstance(given, Domain):
        if not isinstance(given, Box):
            raise DomainError("a black-box audit takes boxes: give bounds for every column.")
        given = list(zip(given.lower, given.upper, strict=True))
    return TableDomain(_columns_of(given), min_rows)


def _columns_of(given: Sequence[Any]) -> tuple[Column, ...]:
    found = []
    for number, one in enumerate(given):
        if isinstance(one, Column):
            found.append(one)
            continue
        try:
            lower, upper = map(float, one)
        except (TypeError, ValueError):
            raise DomainError("domain must be one pair of bounds per column.") from None
        found.append(Column(f"x{number + 1}", lower, upper))
    return tuple(found)


def read_schema(path: Path, *, min_rows: int = 0) -> TableDomain:
    """Read a Frictionless Table Schema, whose fields have bounds or levels."""
    try:
        fields = json.loads(foreign.text_of(path))
    except ValueError:
        raise UsageError(f"{path} is not a schema: it must be JSON.") from None
    return _from_schema(fields, str(path), min_rows)


def _from_schema(schema: Any, where: str, min_rows: int) -> TableDomain:
    fields = schema.get("fields") if isinstance(schema, Mapping) else None
    if not isinstance(fields, list) or not fields:
        raise UsageError(f"{where} is not a table schema: it needs a list of fields.")
    return TableDomain(tuple(_field(one, where) for one in fields), min_rows)


def _field(field: Any, where: str) -> Column:
    if not isinstance(field, Mapping) or not isinstance(field.get("name"), str):
        raise UsageError(f"{where} has a field without a name.")
    name, kind = field["name"], field.get("type", "number")
    limits = field.get("constraints") or {}
    if not isinstance(limits, Mapping):
        raise UsageError(f"{where}, field {name!r}: constraints must be an object.")
    missing = limits.get("required") is not True
    levels = limits.get("enum")
    if isinstance(levels, list) and levels:
        texts = tuple(str(level) for level in levels)
        return Column(name, 0.0, len(texts) - 1.0, levels=texts, may_be_missing=missing)
    if kind == "boolean":
        return Column(name, 0.0, 1.0, levels=("false", "true"), may_be_missing=missing)
    bounds = limits.get("minimum"), limits.get("maximum")
    if kind not in ("number", "integer") or not all(
        isinstance(bound, (int, float)) and not isinstance(bound, bool) for bound in bounds
    ):
        raise UsageError(f"{where}, field {name!r}: {_PLACEHOLDER_ADVICE}.")
    lower, upper = map(float, bounds)  # type: ignore[arg-type]
    return Column(name, lower, upper, whole=kind == "integer", may_be_missing=missing)


@dataclass(frozen=True, eq=False)
class Pair:
    """Two neighbouring tables, and how they were come by."""

    first: Float64s
    second: Float64s
    family: str

    @property
    def key(self) -> str:
        """A name that equal pairs share."""
        parts = [self.first.shape, self.first.tobytes(), self.second.shape, self.second.tobytes()]
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    def is_of(self, neighbours: Neighbours) -> bool:
        """Tell whether the tables differ in one record, as the relation has it, in any order."""
        first, second = (Counter(row.tobytes() for row in side) for side in self.sides)
        apart = (first - second).total(), (second - first).total()
        if neighbours is Neighbours.REPLACE_ONE:
            return apart == (1, 1)
        return sorted(apart) == [0, 1]

    @property
    def sides(self) -> tuple[Float64s, Float64s]:
        """Both tables."""
        return self.first, self.second
