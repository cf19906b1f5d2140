"""The draft of a schema, from a table's header and the shape of its cells; never a value of one.

What a cell looks like (digits, a date, true or false) decides the type that is proposed. Where
numbers may lie, which categories there are and who a person is cannot be read from the data without
telling of them: those places say what is to be filled in, and by no release are they passed over.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpkv.tables.csvfile import CsvSource
from dpkv.tables.facts import MISSING_WORDS, Dialect, TableFacts
from dpkv.tables.naming import publishable_names
from dpkv.tables.parquet import open_parquet
from dpkv.tables.schema import TO_DO
from dpkv.tables.table import is_parquet, open_table

_SHAPES = (
    ("integer", r"[-+]?\d{1,15}"),
    ("number", r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?"),
    ("decimal comma", r"[-+]?(\d+,?\d*|,\d+)([eE][-+]?\d+)?"),
    ("boolean", r"(?i:true|false)"),
    ("date", r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}"),
    ("datetime", r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}[T ].*"),
)
_NAMES_A_PERSON = re.compile(
    r"(?i)(^|[_ .-])(patient|person|subject|user|customer|client|member|participant)?[_ .-]?id$"
    r"|^(patient|person|subject|participant)$"
)


def draft_schema(path: Path, dialect: Dialect) -> dict[str, Any]:
    """Return a schema for a table, with what must be filled in."""
    if path.is_file() and is_parquet(path):
        names = publishable_names(open_parquet(path)[2])
        return _schema(names, _arrow_types(path), {})
    source = open_table(path, TableFacts(dialect=dialect))
    assert isinstance(source, CsvSource)
    names = publishable_names(source.names)
    types = [_type_of(texts) for texts in source.first_texts()]
    settings = {"header": source.has_header, "delimiter": source.delimiter}
    if dialect.encoding is not None:
        settings["encoding"] = dialect.encoding
    return _schema(names, types, settings)


def _schema(names: tuple[str, ...], types: list[str], settings: dict[str, Any]) -> dict[str, Any]:
    person = next((name for name in names if _NAMES_A_PERSON.search(name)), None)
    fields = [_field(name, kind, name == person) for name, kind in zip(names, types, strict=True)]
    return {"fields": fields, "missingValues": [""], "dpkv": settings}


def _field(name: str, kind: str, is_person: bool) -> dict[str, Any]:
    """Return a field with its open questions."""
    spelled = {"type": "number", "decimalChar": ","} if kind == "decimal comma" else {"type": kind}
    field: dict[str, Any] = {"name": name, **spelled}
    if is_person:
        return {**field, "dpkv": {"role": "person"}}
    if kind in ("integer", "number", "decimal comma"):
        field["constraints"] = {
            "minimum": f"{TO_DO}: the smallest possible value",
            "maximum": f"{TO_DO}: the largest possible value",
        }
    if kind == "string":
        field["constraints"] = {"enum": [f"{TO_DO}: every text that may stand here"]}
    role = {"string": "category", "date": "ignore", "datetime": "ignore"}.get(kind, "number")
    settings = {"role": role} if role == "ignore" else {"role": role, "missing": "refuse"}
    return {**field, "dpkv": settings}


def _type_of(texts: NDArray[np.object_]) -> str:
    """Return the first type whose shape all cells have that hold something."""
    column = pd.Series(texts, dtype=object)
    present = column[~column.isin(MISSING_WORDS)]
    if not len(present):
        return "string"
    shapes = (kind for kind, shape in _SHAPES if bool(present.str.fullmatch(shape).all()))
    return next(shapes, "string")


def _arrow_types(path: Path) -> list[str]:
    arrow, file, names = open_parquet(path)
    types = arrow.types
    tests = (
        ("boolean", types.is_boolean),
        ("integer", types.is_integer),
        ("number", types.is_floating),
        ("number", types.is_decimal),
        ("date", types.is_date),
        ("datetime", types.is_temporal),
    )
    schema = file.schema_arrow
    kinds = [schema.field(name).type for name in names]
    return [next((kind for kind, test in tests if test(one)), "string") for one in kinds]
