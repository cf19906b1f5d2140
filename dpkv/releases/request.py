"""What may be asked of a release: every option once, with its default.

The command line, ``dpkv.release``, ``dpkv.simulate``, the estimator and the audit fill a
``Request`` and go through the same preparation.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, TypedDict, TypeVar

from dpkv.accounting.theorem_a import DEFAULT_GAMMA
from dpkv.domain import Bounds, Domain
from dpkv.errors import ParameterError
from dpkv.mechanisms.registry import AUTO
from dpkv.releases.about import About
from dpkv.releases.plan import DEFAULT_BOUNDS_SHARE
from dpkv.tables.described import facts_by, schema_of
from dpkv.tables.facts import Missing, TableFacts, WeightColumn
from dpkv.tables.schema import TableSchema

AnyBounds = Bounds | Domain | str
Function = TypeVar("Function", bound=Callable[..., Any])


class Options(TypedDict, total=False):
    """The fields of ``Request`` that have a default, for type checkers: a test compares them."""

    mechanism: str
    neighbours: str
    calibration: str
    gamma: float
    iterations: int | None
    density: str | None
    lloyd_steps: int | None
    delta: float | str | Decimal
    bounds_share: float
    scaled: bool
    clamp: bool
    columns: Sequence[str] | None
    header: bool | None
    encoding: str | None
    decimal: str | None
    schema: TableSchema | str | Path | None
    missing: str | None
    person: str | Sequence[object] | None
    rows_per_person: int | None
    one_row_per_person: str | None
    weight: str | Sequence[float] | None
    most_weight: float | None
    publisher: str | None
    data_about: str | None
    purpose: str | None


@dataclass(frozen=True)
class Request:
    """The options of a release. None of them may be chosen by looking at the records."""

    k: int | str | tuple[int, int]
    """The number of centers; or a range, (2, 12) or "2..12", or "auto", from which it is chosen
    privately and free of charge, by mechanisms that can."""
    eps: float | str | Decimal
    """What the whole release may cost."""
    bounds: AnyBounds | None
    """Low and high for all columns, one pair per column, a mapping or a ``Domain``; "private" finds
    them with a share of eps; "data" reads them from the records, which leaks."""
    mechanism: str = AUTO
    """A name of the registry; or "auto", the one with the smallest predicted error."""
    neighbours: str = "replace-one"
    calibration: str = "certified"
    """Or "published": the paper's own noise, which nothing proves."""
    gamma: float = DEFAULT_GAMMA
    iterations: int | None = None
    density: str | None = None
    """What k-variates++ releases a picked record through: "laplace", its default, or "window"."""
    lloyd_steps: int | None = None
    """Private Lloyd steps after its seeding; by default as many as pay with windows, and none with
    noise."""
    delta: float | str | Decimal = 0
    bounds_share: float = DEFAULT_BOUNDS_SHARE
    scaled: bool = True
    clamp: bool = True
    columns: Sequence[str] | None = None
    """The columns to use of a file, in this order; what to call those of an array."""
    header: bool | None = None
    """Whether the first row of a CSV file holds names; None refuses one that may be names."""
    encoding: str | None = None
    """Of a CSV file; None is UTF-8, or UTF-16 by its mark."""
    decimal: str | None = None
    """The decimal mark of a CSV file; None is the schema's, or a point."""
    schema: TableSchema | str | Path | None = None
    """The public facts of the table; None looks for a file beside it. Options override them."""
    missing: str | None = None
    """What a cell becomes that holds no number: "refuse" the table; "fill:VALUE"; or "ignore", with
    which the row is there and counts for nothing. None: what the schema says, or to refuse."""
    person: str | Sequence[object] | None = None
    """Whose a row is: the name of a file's column, or one id per row. A person then counts once,
    whatever the number of rows, and is what neighbours differ in."""
    rows_per_person: int | None = None
    """Keep at most this many rows of each person, instead of letting all share one weight."""
    one_row_per_person: str | None = None
    """"mean": make one row of a person's, instead of letting all of them share one weight."""
    weight: str | Sequence[float] | None = None
    """Survey weights: the name of a file's column, or one number per row."""
    most_weight: float | None = None
    """Their public bound: larger weights are moved to it."""
    publisher: str | None = None
    """Who releases this: published, as the two below."""
    data_about: str | None = None
    """What kind of data it is from, in words."""
    purpose: str | None = None
    """What it is for."""

    @property
    def about(self) -> About | None:
        """What is said of the release, if anything is."""
        return About.of(self.publisher, self.data_about, self.purpose)

    @property
    def table_facts(self) -> TableFacts:
        """What a file's columns are taken for."""
        facts = facts_by(
            self.described,
            columns=self.columns,
            header=self.header,
            missing=self.missing,
            person=self._name("person"),
            encoding=self.encoding,
            decimal=self.decimal,
        )
        weight = self.weight_facts
        return facts if weight is None else replace(facts, weight=weight)

    @property
    def described(self) -> TableSchema | None:
        """The schema, once it was read."""
        return self.schema if isinstance(self.schema, TableSchema) else None

    def with_schema(self, table: Path | None) -> Request:
        """Return the request with its schema read: the one given, or the one beside a table."""
        return replace(self, schema=schema_of(self.schema, table))

    @property
    def weight_facts(self) -> WeightColumn | None:
        """What the column of weights is taken for. A weight that is missing is never made up."""
        if (self.weight is None) != (self.most_weight is None):
            raise ParameterError(
                "most_weight",
                "given with a weight, and only then",
                self.most_weight,
                "It is the public upper bound of all weights.",
            )
        if self.weight is None or self.most_weight is None:
            return None
        ignores = Missing.parse(self.missing or "refuse").kind == "ignore"
        name = self.weight if isinstance(self.weight, str) else "weight"
        return WeightColumn(
            name, float(self.most_weight), Missing("ignore" if ignores else "refuse")
        )

    def _name(self, option: str) -> str | None:
        value = getattr(self, option)
        if value is not None and not isinstance(value, str):
            raise ParameterError(option, "the name of a column of the file", type(value).__name__)
        return value


def fills_request(function: Function) -> Function:
    """Let a function that takes a request's fields as keywords show them in its signature."""
    own = inspect.signature(function)
    named = [one for one in own.parameters.values() if one.kind is not one.VAR_KEYWORD]
    known = {one.name for one in named}
    named += [
        inspect.Parameter(
            one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=one.type
        )
        for one in fields(Request)
        if one.name not in known
    ]
    function.__signature__ = own.replace(parameters=named)  # type: ignore[attr-defined]
    return function
