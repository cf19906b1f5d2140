"""A table made ready for an algorithm: read, clipped to its domain, in working coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dpkv.domain import Bounds, Domain, data_domain
from dpkv.errors import DomainError, ParameterError, TableError
from dpkv.tables.facts import Missing, TableFacts
from dpkv.tables.store import MEMORY_LIMIT, map_rows
from dpkv.tables.table import Source, Table, cannot_hold, load, open_table
from dpkv.types import Floats, Progress


@dataclass(frozen=True, eq=False)
class Prepared:
    """Records in the coordinates algorithms work in, and the way back."""

    table: Table
    domain: Domain | None
    working: Floats
    facts: TableFacts
    """What the table's columns were taken for."""

    def restore(self, points: Floats) -> Floats:
        """Return points of working coordinates in the user's."""
        return points if self.domain is None else self.domain.from_working(points)


def prepare(
    source: Source,
    *,
    bounds: Bounds | Domain | None = None,
    scaled: bool = True,
    data_bounds: bool = False,
    leave_out: bool = False,
    memory_limit: int = MEMORY_LIMIT,
    workspace: str | Path = ".dpkv",
    progress: Progress | None = None,
) -> Prepared:
    """Read a source and bring its records into the domain, if there is one.

    Without ``bounds``, ``data_bounds`` takes the box around the data, whose source says that it
    leaks them. ``leave_out`` gives no working coordinates to rows that count for nothing.

    What a cell of text, NaN, infinity, nothing or a number beyond ±2^53 becomes is a fact of its
    column (``facts.Missing``). Where no column refuses such cells, none refuses the table; a file
    that is not made of rows of equally many cells still is refused.
    """
    if not leave_out:
        every_row_counts(source.facts)
    domain = domain_of(source.columns, bounds, scaled)
    table = load(source, memory_limit=memory_limit, workspace=workspace, progress=progress)
    values, mapped = table.values, table.mapped_file is not None
    if table.counts is not None and not table.counts.all():
        values, mapped = values[table.counts], False
        if not len(values):
            raise TableError(f"{source.path} has no row that counts: every one has a missing cell.")
    if domain is None and data_bounds:
        domain = data_domain(values, scaled=scaled)
    if domain is None:
        return Prepared(table, None, values, source.facts)
    try:
        working = map_rows(values, domain.to_working, mapped=mapped, workspace=workspace)
    except OSError as error:
        raise cannot_hold(workspace, source.path, error) from None
    return Prepared(table, domain, working, source.facts)


def every_row_counts(facts: TableFacts) -> None:
    """Refuse a rule by which rows may count for nothing, where only releases know such rows."""
    if any(column.missing.kind == "ignore" for column in facts.used):
        raise ParameterError(
            "missing",
            "'refuse' or 'fill:VALUE' here: only releases have rows of no weight",
            "ignore",
        )


def domain_of(
    columns: Sequence[str], bounds: Bounds | Domain | None, scaled: bool
) -> Domain | None:
    """Return the domain that ``bounds`` give the columns, if there are any."""
    if bounds is None:
        return None
    if isinstance(bounds, Domain):
        if bounds.n_features != len(columns):
            raise DomainError(
                f"the domain has {bounds.n_features} columns. Got a table of {len(columns)} "
                "instead: give bounds for exactly the columns used."
            )
        return bounds
    return Domain.bounded(bounds, len(columns), scaled=scaled, columns=columns)


def read_table(
    path: str | Path,
    *,
    columns: Sequence[str] | None = None,
    header: bool | None = None,
    missing: str = "refuse",
    memory_limit: int = MEMORY_LIMIT,
    workspace: str | Path = ".dpkv",
    progress: Progress | None = None,
) -> Table:
    """Read a CSV (also gzipped) or Parquet file as numeric records, as they are.

    ``columns`` are the columns to use, by name, in this order; all of them by default. A table of
    more than ``memory_limit`` bytes is converted once to a memory-mapped file under ``workspace``.
    A cell that holds no number follows ``missing``: "refuse" the table, "fill:VALUE", or "ignore",
    with which its row does not count (``Table.counts``).
    """
    source = open_table(path, columns=columns, header=header, missing=Missing.parse(missing))
    return load(source, memory_limit=memory_limit, workspace=workspace, progress=progress)
