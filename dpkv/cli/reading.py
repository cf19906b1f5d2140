"""Reading the table of a command, with progress."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dpkv.cli import options
from dpkv.cli.progress import ProgressBar

if TYPE_CHECKING:
    from dpkv.accounting import Unit
    from dpkv.tables import Prepared, Table
    from dpkv.tables.facts import TableFacts


@dataclass(frozen=True)
class TableOptions:
    """The options that say how a table is read, as typed."""

    data: Path
    columns: str | None
    header: bool | None
    bounds: str | None
    scale: bool
    missing: str | None
    memory_limit: int
    schema: Path | None = None
    encoding: str | None = None
    decimal: str | None = None

    @property
    def schema_file(self) -> Path | None:
        """The schema that is used: the one that was named, or the one beside the table."""
        from dpkv.tables.schema import find_schema

        return self.schema or find_schema(self.data)

    def read(self, *, data_bounds: bool = False, for_release: bool = False) -> Prepared:
        """Read the table and bring it into its domain, as a release would if it leads to one.

        Then rows that count for nothing have no working coordinates.
        """
        from dpkv.tables import open_table, prepare
        from dpkv.tables.described import domain_by, facts_by, schema_of
        from dpkv.tables.table import check_header

        memory_limit = options.memory_bytes(self.memory_limit)
        bounds = None if self.bounds is None else options.parse_bounds(self.bounds)
        names = options.split_columns(self.columns)
        schema = schema_of(self.schema, self.data)
        facts = facts_by(
            schema,
            columns=names,
            header=self.header,
            missing=self.missing,
            encoding=self.encoding,
            decimal=self.decimal,
        )
        source = open_table(self.data, facts)
        if for_release:
            check_header(source, publishes=False)
        with ProgressBar(f"reading {self.data.name}") as bar:
            return prepare(
                source,
                bounds=domain_by(source.facts, bounds, schema, scaled=self.scale),
                scaled=self.scale,
                data_bounds=data_bounds,
                leave_out=for_release,
                memory_limit=memory_limit,
                progress=bar.update,
            )


def units_of(table: Table, facts: TableFacts) -> tuple[Unit, int] | None:
    """Return whose data a release protects, and how many they are; None for single rows."""
    from dpkv.accounting import ROW
    from dpkv.releases.inputs import InputTable
    from dpkv.releases.unit_facts import UnitFacts

    unit = UnitFacts.of(facts).weighing.unit
    if unit == ROW:
        return None
    rows = InputTable(
        table.values,
        table.columns,
        "",
        counts=table.counts,
        person_keys=table.person_keys,
        weights=table.weights,
    )
    return unit, rows.n_records
