"""What was said of a table, by a schema and by options that override it, in one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dpkv.domain import Bounds, Box, Domain
from dpkv.errors import DomainError, SchemaError
from dpkv.simplices import product_domain
from dpkv.tables.encodings import check_encoding
from dpkv.tables.facts import REFUSE, Dialect, Missing, TableFacts
from dpkv.tables.schema import TableSchema, find_schema, read_schema


def schema_of(given: TableSchema | str | Path | None, table: Path | None) -> TableSchema | None:
    """Return the schema that was given, or the one beside a table, if there is one."""
    if isinstance(given, TableSchema):
        return given
    if given is None:
        given = None if table is None else find_schema(table)
    return None if given is None else read_schema(Path(given))


def facts_by(
    schema: TableSchema | None = None,
    *,
    columns: Sequence[str] | None = None,
    header: bool | None = None,
    missing: str | None = None,
    person: str | None = None,
    encoding: str | None = None,
    decimal: str | None = None,
) -> TableFacts:
    """Return what a table is taken for: by the schema, unless an option says otherwise."""
    rule = None if missing is None else Missing.parse(missing)
    if schema is not None:
        facts = schema.facts(columns, missing=rule, person=person)
    else:
        facts = TableFacts(None, REFUSE if rule is None else rule, person)
        facts = facts if columns is None else _choosing(facts, columns)
    own = facts.dialect
    spelled = Dialect(
        own.header if header is None else header,
        own.encoding if encoding is None else check_encoding(encoding),
        own.delimiter,
        own.decimal if decimal is None else decimal,
        own.missing_values,
    )
    return replace(facts, dialect=spelled)


def _choosing(facts: TableFacts, columns: Sequence[str]) -> TableFacts:
    if facts.person in columns:
        raise SchemaError(f'"{facts.person}" is the column of persons: it cannot be used too.')
    return replace(facts, columns=()).describing_all(columns)


def domain_by(
    facts: TableFacts, bounds: Bounds | None, schema: TableSchema | None, *, scaled: bool
) -> Domain | None:
    """Return the domain of the columns used: bounds that were given, else the schema's.

    None where neither says where records may lie.
    """
    plain = all(not column.categories and column.influence == 1.0 for column in facts.used)
    names = [column.name for column in facts.used]
    if bounds is not None and plain:
        return Domain.bounded(bounds, len(names), scaled=scaled, columns=names)
    if bounds is None and schema is None:
        return None
    if bounds is not None:
        known = _with_given(facts, bounds)
    else:
        assert schema is not None
        known = [
            bound if isinstance(bound, tuple) else column.width
            for bound, column in zip(schema.bounds(names), facts.used, strict=True)
        ]
    if scaled:
        return product_domain(known, [column.influence for column in facts.used])
    if not plain:
        raise DomainError("columns of categories and influence belong to a scaled domain.")
    pairs = [bound for bound in known if isinstance(bound, tuple)]
    return Domain.bounded(pairs, len(pairs), scaled=False)


def _with_given(facts: TableFacts, bounds: Bounds) -> list[tuple[float, float] | int]:
    """Return bounds that were given for the columns of numbers, and numbers of categories."""
    numbers = [column.name for column in facts.used if not column.categories]
    box = Domain.bounded(bounds, len(numbers), columns=numbers) if numbers else Box((0,), (1,))
    if not isinstance(box, Box):
        raise DomainError(
            "an L1 ball has no room for categories or influence: give low,high pairs."
        )
    pairs = iter(zip(box.lower, box.upper, strict=True))
    return [column.width if column.categories else next(pairs) for column in facts.used]
