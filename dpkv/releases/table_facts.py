"""What a plan says of the table's columns: public facts that were used, and their rules."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from dpkv.errors import ParameterError
from dpkv.releases.frozen import Frozen
from dpkv.simplices import product_domain
from dpkv.tables.facts import Booleans, Column, Kind, Missing, TableFacts


class ColumnFacts(Frozen):
    """A column that enters distances."""

    name: str
    categories: tuple[str, ...] = ()
    """Empty where it holds numbers."""
    truth_values: bool = False
    """Whether it holds true and false, which were read as 1 and 0."""
    missing: Kind = "refuse"
    """What became of a cell that is empty, or that cannot be what the column holds."""
    fill: float | str | None = None
    influence: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0

    @classmethod
    def of(cls, column: Column) -> ColumnFacts:
        """Write a column's facts down."""
        return cls(
            name=column.name,
            categories=column.categories,
            truth_values=column.booleans is not None,
            missing=column.missing.kind,
            fill=column.missing.value,
            influence=column.influence,
        )

    @property
    def column(self) -> Column:
        """The facts as a reader has them; the words for true and false are not among them."""
        return Column(
            self.name,
            self.categories,
            Booleans() if self.truth_values else None,
            Missing(self.missing, self.fill),
            self.influence,
        )


def facts_of(table: TableFacts) -> tuple[ColumnFacts, ...]:
    """Return the facts of all columns that are used."""
    return tuple(ColumnFacts.of(column) for column in table.used)


def check_domain(
    table: tuple[ColumnFacts, ...], domain: dict[str, Any] | None, bounds: str
) -> None:
    """Refuse a domain that has other columns of categories than the table, or another influence."""
    plain = all(not facts.categories and facts.influence == 1.0 for facts in table)
    if plain:
        if domain is not None and domain.get("kind") == "product":
            raise ValueError("the domain is of columns of categories, and the table has none")
        return
    if bounds != "given" or domain is None or domain.get("kind") != "product":
        raise ValueError("columns of categories or of influence have a domain of their own")
    pairs = iter(zip(domain["lower"], domain["upper"], strict=True))
    known: list[tuple[float, float] | int] = []
    for facts in table:
        own = [next(pairs) for _ in range(facts.column.width)]
        known.append(facts.column.width if facts.categories else own[0])
    if product_domain(known, [facts.influence for facts in table]).to_dict() != domain:
        raise ValueError("the domain is not that of the table's columns")


def check_coordinates(table: tuple[ColumnFacts, ...], columns: tuple[str, ...]) -> None:
    """Refuse facts of other columns than those a plan is for."""
    names = tuple(name for facts in table for name in facts.column.coordinates)
    if names != columns:
        raise ParameterError("columns", "the coordinates of the table's columns", columns)
