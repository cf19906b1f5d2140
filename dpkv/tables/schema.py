"""A schema: the public facts of a table in a file, as a Frictionless Table Schema.

Fields have a name, a type and constraints in Frictionless's words; what dpkv needs beside them
stands in a property ``dpkv`` of the field or of the whole. A schema is public: it is written
without looking at records, and a release that used it says so by its digest.

    {"fields": [{"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 120},
                 "dpkv": {"missing": "fill:50", "influence": 2}},
                {"name": "sex", "type": "string", "constraints": {"enum": ["F", "M"]},
                 "dpkv": {"missing": "category"}},
                {"name": "patient", "type": "string", "dpkv": {"role": "person"}}],
     "missingValues": ["", "-99"],
     "dpkv": {"header": true}}
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from dpkv import foreign
from dpkv.errors import DpkvError, ParameterError, SchemaError
from dpkv.tables.encodings import check_encoding
from dpkv.tables.facts import (
    MISSING_CATEGORY,
    REFUSE,
    Booleans,
    Column,
    Dialect,
    Missing,
    TableFacts,
    WeightColumn,
)

TO_DO = "TODO"
"""What a text begins with that somebody must replace."""
MOST_BYTES = 8 << 20
_SHOWN = 4
MOST_FIELDS, MOST_CATEGORIES = 10_000, 1_000
Name = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
Bound = float | Annotated[str, StringConstraints(pattern=f"^{TO_DO}", max_length=1000)] | None
Role = Literal["number", "category", "person", "weight", "ignore"]
_NUMBERS, _ANY_TEXT = (
    ("integer", "number", "year", "boolean"),
    ("string", "any", "integer", "number"),
)


class _Part(BaseModel):
    """A part of a schema, in which Frictionless allows properties of others."""

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False, strict=True)


class Constraints(_Part):
    """What cells of a column may be."""

    minimum: Bound = None
    maximum: Bound = None
    enum: Annotated[list[str | int | float], Field(max_length=MOST_CATEGORIES)] | None = None


class FieldSettings(_Part):
    """How a column enters a release."""

    model_config = ConfigDict(extra="forbid")

    role: Role | Annotated[str, StringConstraints(pattern=f"^{TO_DO}")] | None = None
    """None: a number, or a category where the type is text."""
    missing: str | None = None
    """refuse, ignore, category or fill:VALUE."""
    influence: float = 1.0


class SchemaField(_Part):
    """A column."""

    name: Name
    type: str = "any"
    constraints: Constraints = Constraints()
    decimalChar: str | None = None  # noqa: N815 (Frictionless's word)
    trueValues: list[str] | None = None  # noqa: N815
    falseValues: list[str] | None = None  # noqa: N815
    dpkv: FieldSettings = FieldSettings()

    @property
    def role(self) -> str:
        """How the column enters."""
        if self.dpkv.role is not None:
            return self.dpkv.role
        if self.type in _NUMBERS and self.constraints.enum is None:
            return "number"
        return "category" if self.type in _ANY_TEXT else "ignore"

    def open_questions(self) -> Iterator[str]:
        """Yield what somebody must still say of the column."""
        if self.role.startswith(TO_DO):
            yield "role"
        if self.role == "category":
            texts = self.constraints.enum
            if not texts or any(str(text).startswith(TO_DO) for text in texts):
                yield "categories (constraints.enum)"
        wants = {"number": ("minimum", "maximum"), "weight": ("maximum",)}.get(self.role, ())
        if self.type == "boolean" and self.role == "number":
            return
        for bound in wants:
            if not isinstance(getattr(self.constraints, bound), (int, float)):
                yield bound

    def column(self) -> Column:
        """Return the facts of a column that enters distances."""
        rule = REFUSE if self.dpkv.missing is None else Missing.parse(self.dpkv.missing)
        categories = tuple(_text(one) for one in self.constraints.enum or ())
        booleans = None
        if self.role == "category":
            self._check_categories(categories)
        elif self.type == "boolean":
            usual = Booleans()
            true, false = self.trueValues or usual.true, self.falseValues or usual.false
            booleans = Booleans(tuple(true), tuple(false))
            if set(true) & set(false) or not (true and false):
                raise ParameterError("trueValues", "other texts than falseValues", list(true))
        elif self.type not in _NUMBERS:
            raise ParameterError("type", "integer, number or boolean for a number", self.type)
        used = categories if self.role == "category" else ()
        return Column(self.name, used, booleans, rule, self.dpkv.influence)

    def _check_categories(self, categories: tuple[str, ...]) -> None:
        if len(set(categories)) < len(categories):
            raise ParameterError("constraints.enum", "texts that do not repeat", "one twice")
        for text in categories:
            if not text.strip() or text != text.strip() or not text.isprintable():
                raise ParameterError(
                    "constraints.enum", "printable texts without blanks around", text
                )
            if text == MISSING_CATEGORY:
                raise ParameterError("constraints.enum", "other texts than this one", text)

    def bounds(self) -> tuple[float, float] | int:
        """Return the bounds of a column of numbers, or the number of categories."""
        column = self.column()
        if column.categories:
            return column.width
        low, high = self.constraints.minimum, self.constraints.maximum
        if column.booleans is not None:
            return (0.0, 1.0)
        assert isinstance(low, (int, float)) and isinstance(high, (int, float))
        if low > high:
            raise ParameterError(
                "constraints", "minimum and maximum in this order", f"{low:g} and {high:g}"
            )
        return (float(low), float(high))

    def weight(self) -> WeightColumn:
        """Return the facts of a column of survey weights."""
        rule = REFUSE if self.dpkv.missing is None else Missing.parse(self.dpkv.missing)
        most = self.constraints.maximum
        if not isinstance(most, (int, float)):
            raise ParameterError("constraints.maximum", "the public bound of all weights", most)
        return WeightColumn(self.name, float(most), rule)


class TableSettings(_Part):
    """How a file is spelled."""

    model_config = ConfigDict(extra="forbid")

    header: bool | None = None
    delimiter: str | None = None
    encoding: str | None = None


class TableSchema(_Part):
    """The public facts of a table."""

    fields: Annotated[list[SchemaField], Field(min_length=1, max_length=MOST_FIELDS)]
    missingValues: Annotated[list[str], Field(max_length=1000)] = [""]  # noqa: N815
    dpkv: TableSettings = TableSettings()

    @property
    def digest(self) -> str:
        """The SHA-256 of the schema in canonical JSON: what a release calls it by."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def person(self) -> str | None:
        """The column that names persons, if there is one."""
        field = self._one_of("person")
        return None if field is None else field.name

    def named(self, name: str) -> SchemaField:
        """Return the field of a name."""
        found = next((field for field in self.fields if field.name == name), None)
        if found is None:
            raise SchemaError(f"the schema has no field {name!r}: check the spelling.")
        return found

    def open_questions(self, columns: Sequence[str] | None = None) -> str | None:
        """Return in one sentence what somebody must still say; None where nothing is left."""
        asked = self.fields if columns is None else [self.named(name) for name in columns]
        left = [f'{", ".join(q)} of "{f.name}"' for f in asked if (q := list(f.open_questions()))]
        if not left:
            return None
        shown = "; ".join(left[:_SHOWN])
        if len(left) > _SHOWN:
            shown += f"; and more of {len(left) - _SHOWN} other columns"
        return f"the schema still lacks: {shown}. Fill them in without looking at records."

    def facts(
        self,
        columns: Sequence[str] | None = None,
        *,
        missing: Missing | None = None,
        person: str | None = None,
    ) -> TableFacts:
        """Return what the columns are taken for: all that enter distances, or those named."""
        with _named_in_errors("the schema"):
            return self._facts(columns, missing, person)

    def _facts(
        self, columns: Sequence[str] | None, missing: Missing | None, person: str | None
    ) -> TableFacts:
        special = {role: self._one_of(role) for role in ("person", "weight")}
        if person is not None:
            special["person"] = self.named(person)
        taken = {field.name: role for role, field in special.items() if field is not None}
        if columns is None:
            used = [f for f in self.fields if f.role in ("number", "category") or _is_open(f)]
            used = [field for field in used if field.name != person]
        else:
            used = [self.named(name) for name in columns]
        for field in used:
            if field.name in taken:
                role = taken[field.name]
                raise SchemaError(
                    f'"{field.name}" is the column of {role}s: it cannot be used too.'
                )
            if field.role == "ignore":
                raise SchemaError(f'the schema says to ignore "{field.name}": leave it out.')
        if not used:
            raise SchemaError("the schema has no column that enters distances: give one a role.")
        weight = special["weight"]
        question = self.open_questions([f.name for f in used] + ([weight.name] if weight else []))
        if question is not None:
            raise SchemaError(question)
        facts = TableFacts(
            tuple(_ruled(field, missing) for field in used),
            REFUSE if missing is None else missing,
            None if special["person"] is None else special["person"].name,
            None if weight is None else weight.weight(),
            self._dialect(used),
        )
        self.bounds([column.name for column in facts.used])
        return facts

    def _one_of(self, role: str) -> SchemaField | None:
        found = [field for field in self.fields if field.role == role]
        if len(found) > 1:
            raise SchemaError(f"the schema has several columns of {role}s: it may have one.")
        return found[0] if found else None

    def _dialect(self, used: Sequence[SchemaField]) -> Dialect:
        marks = {field.decimalChar or "." for field in used if field.type in ("number", "integer")}
        if len(marks) > 1:
            raise SchemaError("the schema has two decimalChars: a table must have one.")
        own = self.dpkv
        return Dialect(
            own.header,
            check_encoding(own.encoding),
            own.delimiter,
            marks.pop() if marks else ".",
            tuple(text for text in self.missingValues if text),
        )

    def bounds(self, columns: Sequence[str]) -> list[tuple[float, float] | int]:
        """Return every column's bounds, or the number of its categories."""
        found = []
        for name in columns:
            with _named_in_errors(f'the schema, field "{name}"'):
                found.append(self.named(name).bounds())
        return found


class _named_in_errors:  # noqa: N801 (a context, like contextlib's)
    """Say in a refusal what of the schema it is about."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, DpkvError) and not isinstance(error, SchemaError):
            raise SchemaError(f"{self._what}: {error}") from None


def _is_open(field: SchemaField) -> bool:
    return field.role.startswith(TO_DO)


def _ruled(field: SchemaField, missing: Missing | None) -> Column:
    """Return a column with the rule that was given for all columns, where one was."""
    with _named_in_errors(f'the schema, field "{field.name}"'):
        column = field.column()
        return column if missing is None else replace(column, missing=missing)


def _text(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def find_schema(table: Path) -> Path | None:
    """Return the schema that stands beside a table, if one does."""
    path = schema_path(table)
    return path if path.is_file() else None


def schema_path(table: Path) -> Path:
    """Return where the schema of a table is looked for: data.schema.json beside data.csv."""
    return table.with_name(
        f"{table.name.removesuffix('.gz').rpartition('.')[0] or table.name}.schema.json"
    )


def read_schema(path: Path) -> TableSchema:
    """Read a schema that somebody may have written badly; refuse it in one sentence."""
    try:
        text = foreign.read_bytes(path, MOST_BYTES).decode("utf-8-sig")
        contents = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_once_each)
        schema = TableSchema.model_validate(contents)
    except FileNotFoundError:
        raise SchemaError(f"the schema {path} does not exist: check the path.") from None
    except OSError as error:
        raise SchemaError(f"the schema {path} cannot be read: {error.strerror}.") from None
    except RecursionError:
        raise SchemaError(f"the schema {path} is nested too deeply.") from None
    except ValidationError as error:
        raise SchemaError(f"the schema {path}: {_first_problem(error)}.") from None
    except json.JSONDecodeError as error:
        raise SchemaError(f"the schema {path} is not JSON: see its line {error.lineno}.") from None
    except ValueError as error:
        reason = str(error) if isinstance(error, _HostileError) else "it is no UTF-8 text"
        raise SchemaError(f"the schema {path} cannot be read: {reason}.") from None
    names = [field.name for field in schema.fields]
    if len(set(names)) < len(names):
        raise SchemaError(f"the schema {path} has two fields of one name: give each column one.")
    return schema


class _HostileError(ValueError):
    """JSON that says something else than it seems to."""


def _refuse_constant(text: str) -> float:
    raise _HostileError(f"{text} is no number")


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _HostileError("a property stands in it twice")
    if any(isinstance(value, float) and math.isinf(value) for value in found.values()):
        raise _HostileError("a number in it is too large")
    return found


def _first_problem(error: ValidationError) -> str:
    """Return where the first problem is and what it is, in a few words."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"][:6])[:200]
    what = first["msg"][:1].lower() + first["msg"][1:200]
    return f"{where or 'it'}: {what}"
