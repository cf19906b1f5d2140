"""The public facts of a table: what its columns are taken for, chosen without looking at a record.

A reader follows them cell by cell and row by row, so that what becomes of a row depends on that row
alone. Nothing here is read from the data; ``schema.py`` reads them from a file.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from dpkv.errors import ParameterError
from dpkv.validation import LARGEST_MAGNITUDE

WEIGHT_LEVELS = 1 << 12
"""A survey weight is a whole number of ``most / WEIGHT_LEVELS``."""
MISSING_CATEGORY = "(missing)"
"""What the extra category is called that missing cells have under the rule ``category``."""
MISSING_WORDS = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)
"""What stands in a cell that holds nothing, whatever a schema adds."""

Kind = Literal["refuse", "fill", "ignore", "category"]


@dataclass(frozen=True)
class Missing:
    """What becomes of a cell that is empty, or that cannot be what its column holds."""

    kind: Kind = "refuse"
    """Refuse the table; fill that cell; let the row count for nothing; or a category of its own."""
    value: str | float | None = None
    """What fills the cell."""

    @staticmethod
    def parse(text: str, name: str = "missing") -> Missing:
        """Return the rule that a person wrote: refuse, ignore, category or fill:VALUE."""
        kind, _, value = text.partition(":") if isinstance(text, str) else ("", "", "")
        kind, value = kind.strip(), value.strip()
        if kind == "fill" and value:
            return Missing("fill", value)
        if kind in ("refuse", "ignore", "category") and not value:
            return Missing(kind)  # type: ignore[arg-type]
        raise ParameterError(name, "refuse, ignore, category or fill:VALUE", text)

    def __str__(self) -> str:
        return f"fill:{self.value}" if self.kind == "fill" else self.kind


REFUSE = Missing()


@dataclass(frozen=True)
class Booleans:
    """The texts that a column of truth values holds; true is read as 1, false as 0."""

    true: tuple[str, ...] = ("true", "True", "TRUE", "1")
    false: tuple[str, ...] = ("false", "False", "FALSE", "0")


@dataclass(frozen=True)
class Column:
    """A column that enters distances: a number, or one of some public categories."""

    name: str
    categories: tuple[str, ...] = ()
    """The texts it may hold; empty where it holds numbers."""
    booleans: Booleans | None = None
    """Where it holds truth values, which are read as the numbers 0 and 1."""
    missing: Missing = REFUSE
    influence: float = 1.0
    """How far apart its two ends are, beside a column of influence 1."""

    def __post_init__(self) -> None:
        rule = self.missing
        if rule.kind == "category" and not self.categories:
            raise ParameterError(
                "missing", "refuse, ignore or fill:VALUE for a column of numbers", "category"
            )
        if rule.kind == "fill":
            object.__setattr__(self, "missing", replace(rule, value=self._fill_value(rule.value)))

    def _fill_value(self, value: str | float | None) -> str | float:
        if self.categories:
            if str(value) not in self.categories:
                raise ParameterError("missing", "fill: one of the column's categories", str(value))
            return str(value)
        try:
            number = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            number = math.nan
        if not abs(number) <= LARGEST_MAGNITUDE:
            raise ParameterError("missing", "fill: a number within ±2^53", str(value))
        return number

    @property
    def is_number(self) -> bool:
        """Whether its cells are read as numbers."""
        return not self.categories and self.booleans is None

    @property
    def levels(self) -> tuple[str, ...]:
        """The categories, and the one of missing cells where they have their own."""
        return self.categories + ((MISSING_CATEGORY,) * (self.missing.kind == "category"))

    @property
    def width(self) -> int:
        """How many coordinates the column has: one, or one for each category."""
        return max(1, len(self.levels))

    @property
    def coordinates(self) -> tuple[str, ...]:
        """What its coordinates are called; those of categories, averaged, are shares."""
        return tuple(f"{self.name}={level}" for level in self.levels) or (self.name,)


@dataclass(frozen=True)
class WeightColumn:
    """A column of survey weights, each moved into [0, most]."""

    name: str
    most: float
    """The public upper bound."""
    missing: Missing = REFUSE

    def __post_init__(self) -> None:
        if not 0.0 < self.most <= LARGEST_MAGNITUDE:
            raise ParameterError("weight", "bounded by a number greater than 0", self.most)
        if self.missing.kind == "fill":
            filled = Column(self.name, missing=self.missing).missing
            object.__setattr__(self, "missing", filled)


@dataclass(frozen=True)
class Dialect:
    """How a text file spells its cells."""

    header: bool | None = None
    """Whether the first row holds names; None where nobody has said."""
    encoding: str | None = None
    """None is UTF-8, or UTF-16 where the file begins with its mark."""
    delimiter: str | None = None
    """None: the most frequent of comma, semicolon, tab and bar in the first line."""
    decimal: str = "."
    missing_values: tuple[str, ...] = ()
    """What stands for a missing cell, besides ``MISSING_WORDS``."""

    def __post_init__(self) -> None:
        if self.decimal not in (".", ","):
            raise ParameterError("decimal", "'.' or ','", self.decimal)
        if self.delimiter is not None and self.delimiter not in (",", ";", "\t", "|"):
            raise ParameterError("delimiter", "a comma, semicolon, tab or bar", self.delimiter)
        if self.delimiter == self.decimal:
            raise ParameterError("decimal", "another mark than the delimiter", self.decimal)


@dataclass(frozen=True)
class TableFacts:
    """What a table is taken for."""

    columns: tuple[Column, ...] | None = None
    """The columns that are used, in this order; None: all there are, as numbers."""
    missing: Missing = REFUSE
    """The rule of columns that ``columns`` does not describe."""
    person: str | None = None
    """The column that names the person to whom a row belongs."""
    weight: WeightColumn | None = None
    dialect: Dialect = field(default_factory=Dialect)

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The names of all coordinates."""
        return tuple(name for column in self.used for name in column.coordinates)

    @property
    def used(self) -> tuple[Column, ...]:
        """The columns that enter distances, once they are known."""
        assert self.columns is not None
        return self.columns

    @property
    def names(self) -> tuple[str, ...]:
        """All columns of the file that are read: those used, then person and weight."""
        extra = (self.person, None if self.weight is None else self.weight.name)
        return tuple(column.name for column in self.used) + tuple(n for n in extra if n is not None)

    @property
    def wanted(self) -> list[str] | None:
        """The columns to look for in a file; None where all are used."""
        return None if self.columns is None else list(self.names)

    @property
    def takes_any_cell(self) -> bool:
        """Whether no cell refuses the table, whatever it holds."""
        rules = [self.missing] if self.columns is None else [c.missing for c in self.columns]
        rules += [] if self.weight is None else [self.weight.missing]
        return all(rule.kind != "refuse" for rule in rules)

    def describing_all(self, names: Sequence[str]) -> TableFacts:
        """Return the facts for columns of these names, before a file is seen."""
        return replace(self, columns=tuple(Column(name, missing=self.missing) for name in names))

    def describing(self, names: Sequence[str]) -> TableFacts:
        """Return the facts for the columns of these names, as numbers where nothing is known."""
        known = {column.name: column for column in self.columns or ()}
        special = set() if self.person is None else {self.person}
        special |= set() if self.weight is None else {self.weight.name}
        for unknown in special - set(names):
            raise ParameterError("the column of persons or weights", "in the table", unknown)
        used = tuple(
            known.get(name, Column(name, missing=self.missing))
            for name in names
            if name not in special
        )
        if not used and self.columns != ():
            raise ParameterError("columns", "at least one besides person and weight", "none")
        return replace(self, columns=used)


def numeric_facts(
    columns: Sequence[str] | None = None,
    *,
    header: bool | None = None,
    missing: Missing = REFUSE,
) -> TableFacts:
    """Return the facts of a table of numbers."""
    chosen = None if columns is None else tuple(Column(name, missing=missing) for name in columns)
    return TableFacts(chosen, missing, dialect=Dialect(header=header))
