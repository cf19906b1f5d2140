"""What a plan says of the unit of privacy: whose data neighbours differ in, and what rows weigh."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from dpkv.errors import ParameterError
from dpkv.records.persons import Rule, Weighing
from dpkv.releases.frozen import Frozen
from dpkv.tables.facts import Missing, TableFacts, WeightColumn
from dpkv.validation import one_of, printable_names


class UnitFacts(Frozen):
    """The unit of privacy: public, and a row like any other by default."""

    persons: Rule | None = None
    """How a person counts once; None where a row is a row."""
    person_column: str | None = None
    """The column that says whose a row is; None also where ids came beside an array."""
    rows_per_person: int | None = None
    """How many rows of a person were kept, where that is the way."""
    weight_column: str | None = None
    """The column of survey weights."""
    most_weight: float | None = None
    """Their public bound."""
    may_ignore: bool = False
    """Whether a public rule let rows count for nothing."""

    @classmethod
    def of(
        cls,
        table: TableFacts,
        *,
        has_persons: bool = False,
        rows_per_person: int | None = None,
        one_row_per_person: str | None = None,
    ) -> Self:
        """Check what was asked for and write it down."""
        named = has_persons or table.person is not None
        for name, given in (
            ("rows_per_person", rows_per_person),
            ("one_row_per_person", one_row_per_person),
        ):
            if given is not None and not named:
                raise ParameterError(name, "left out where no person is named", given)
        if one_row_per_person is not None:
            one_of("one_row_per_person", one_row_per_person, ("mean",))
        if rows_per_person is not None and one_row_per_person is not None:
            raise ParameterError(
                "rows_per_person", "left out with one_row_per_person", rows_per_person
            )
        rule: Rule | None = "share" if named else None
        if rows_per_person is not None:
            rule = "limit"
        elif one_row_per_person is not None:
            rule = "mean"
        weight = table.weight
        rules = {column.missing.kind for column in table.used}
        return cls(
            persons=rule,
            person_column=table.person,
            rows_per_person=rows_per_person,
            weight_column=None if weight is None else weight.name,
            most_weight=None if weight is None else weight.most,
            may_ignore="ignore" in rules | ({weight.missing.kind} if weight else set()),
        )

    @model_validator(mode="after")
    def _check(self) -> Self:
        named = [name for name in (self.person_column, self.weight_column) if name is not None]
        if named:
            printable_names("columns", named)
        if self.person_column is not None and self.persons is None:
            raise ValueError("a column of persons belongs to releases over persons")
        if (self.weight_column is not None) != (self.most_weight is not None):
            raise ValueError("a column of weights has a bound")
        _ = self.weighing.unit
        return self

    @property
    def weighing(self) -> Weighing:
        """How rows are weighed."""
        return Weighing(self.persons, self.rows_per_person, self.most_weight, self.may_ignore)

    @property
    def weight_facts(self) -> WeightColumn | None:
        """What the column of weights was taken for."""
        if self.weight_column is None or self.most_weight is None:
            return None
        rule = Missing("ignore" if self.may_ignore else "refuse")
        return WeightColumn(self.weight_column, self.most_weight, rule)
