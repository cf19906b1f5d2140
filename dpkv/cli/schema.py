"""``dpkv schema``: the public facts of a table, drafted from its header, or checked against it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpkv.cli import options, output
from dpkv.cli.progress import ProgressBar
from dpkv.errors import UsageError

if TYPE_CHECKING:
    from dpkv.tables.schema import TableSchema
    from dpkv.tables.schema_check import ColumnFit


def schema(
    data: options.DataFile,
    out: Annotated[
        Path | None,
        typer.Option(help="Where to write it (default: data.schema.json beside data.csv)."),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Compare the schema with the table, for the curator's eyes."),
    ] = False,
    schema_file: options.SchemaFile = None,
    header: options.Header = None,
    encoding: options.Encoding = None,
    as_json: options.AsJson = False,
) -> None:
    """Write a schema to be filled in: a Frictionless Table Schema with the table's public facts.

    Names come from the header and types from the shape of cells; no value of a record is written.
    Bounds, categories and who a person is are left for somebody who knows the table's code book.
    A schema beside a table is found by the other commands.

    Example:  dpkv schema patients.csv && dpkv schema patients.csv --check
    """
    from dpkv.tables.schema import find_schema, read_schema, schema_path

    if check:
        path = schema_file or find_schema(data)
        if path is None:
            raise UsageError(f"{data} has no schema beside it: write one with 'dpkv schema'.")
        _check(data, read_schema(path), path, as_json)
        return
    target = schema_path(data) if out is None else out
    if target.exists():
        raise UsageError(f"{target} exists: remove it first, or compare it by --check.")
    _draft(data, target, header, encoding, as_json)


def _draft(
    data: Path, target: Path, header: bool | None, encoding: str | None, as_json: bool
) -> None:
    from dpkv.tables.encodings import check_encoding
    from dpkv.tables.facts import Dialect
    from dpkv.tables.schema import read_schema
    from dpkv.tables.shapes import draft_schema
    from dpkv.workspace import write_atomically

    drafted = draft_schema(data, Dialect(header=header, encoding=check_encoding(encoding)))
    write_atomically(target, json.dumps(drafted, indent=2, ensure_ascii=False) + "\n")
    if as_json:
        output.print_json(drafted)
    else:
        output.say(f"schema written to {target}: {len(drafted['fields'])} columns.")
    if drafted["dpkv"].get("header"):
        output.note("the first row was taken for names: see that no record stands in the schema.")
    question = read_schema(target).open_questions()
    if question is not None:
        output.note(question)


def _check(data: Path, found: TableSchema, path: Path, as_json: bool) -> None:
    from dpkv.tables.schema_check import fit_table

    question = found.open_questions()
    if question is not None:
        raise UsageError(question)
    with ProgressBar(f"reading {data.name}") as bar:
        n_rows, fits = fit_table(data, found, bar.update)
    if as_json:
        output.print_json(_result(path, n_rows, fits))
        return
    header = ["column", "holds", "missing cells", "how many", "outside"]
    rows = [[f.name, f.holds, f.rule, str(f.n_missing), str(f.n_outside)] for f in fits]
    output.print_table(f"{path}: {n_rows} rows, for the curator's eyes only", header, rows)
    output.note("these figures are exact, of the records: do not publish them, nor choose by them.")


def _result(path: Path, n_rows: int, fits: list[ColumnFit]) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "kind": "schema check",
        "visibility": "curator-only",
        "schema": str(path),
        "n_rows": n_rows,
        "columns": [vars(fit) for fit in fits],
    }
