"""A table of any kind for an algorithm: a file, a frame of any library, an array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from dpkv.domain import Domain, data_domain
from dpkv.tables.described import domain_by, facts_by, schema_of
from dpkv.tables.frames import FrameSource, as_frame, frame_names
from dpkv.tables.naming import default_names
from dpkv.tables.prepared import every_row_counts, prepare
from dpkv.tables.schema import TableSchema
from dpkv.tables.table import Source, check_header, encoded, open_table
from dpkv.types import Floats
from dpkv.validation import as_records

AnyTable = ArrayLike | str | Path


@dataclass(frozen=True, eq=False)
class Working:
    """Records in working coordinates, their domain, and the columns that they come from."""

    values: Floats
    domain: Domain
    columns: tuple[str, ...] | None


def read_any(
    data: AnyTable,
    domain: Domain | None = None,
    *,
    schema: TableSchema | str | Path | None = None,
    columns: Sequence[str] | None = None,
    header: bool | None = None,
    missing: str | None = None,
) -> Working:
    """Bring a table into its domain, as a release would: where nobody gives one, the data's box."""
    path = Path(data) if isinstance(data, (str, Path)) else None
    frame = as_frame(data) if path is None else None
    known = schema_of(schema, path)
    if path is None and frame is None and known is None:
        records = as_records(data)  # type: ignore[arg-type]
        return _working(records, domain, None if columns is None else tuple(columns))
    facts = facts_by(known, columns=columns, header=header, missing=missing)
    if path is not None:
        file = open_table(path, facts)
        check_header(file, publishes=False)
        found = prepare(file, bounds=_domain(file, domain, known), data_bounds=True)
        assert found.domain is not None
        return Working(found.working, found.domain, found.table.used)
    if frame is None:
        cells = np.asarray(data, dtype=object)
        names = default_names(cells.shape[1]) if columns is None else tuple(columns)
        frame = as_frame(pd.DataFrame(cells, columns=list(names)))
    source = FrameSource(frame, frame_names(frame), facts)
    every_row_counts(source.facts)
    values = np.concatenate([rows.values for rows, _ in encoded(source)])
    names = tuple(column.name for column in source.facts.used)
    return _working(values, _domain(source, domain, known), names)


def _domain(source: Source, given: Domain | None, schema: TableSchema | None) -> Domain | None:
    """Return the domain that was given, or the schema's."""
    return domain_by(source.facts, None, schema, scaled=True) if given is None else given


def _working(values: Floats, domain: Domain | None, columns: tuple[str, ...] | None) -> Working:
    found = data_domain(values) if domain is None else domain
    return Working(found.to_working(values), found, columns)
