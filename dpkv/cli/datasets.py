"""``dpkv datasets``: the paper's tables, found, fetched or made."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Annotated

import typer

from dpkv.cli import options, output
from dpkv.cli.progress import ProgressBar
from dpkv.errors import DatasetError, UsageError

_TableName = Annotated[
    str, typer.Argument(metavar="NAME", help="A real table listed by `dpkv datasets list`.")
]


def list_(as_json: options.AsJson = False) -> None:
    """List the paper's real tables, and the synthetic families that can be made."""
    from dpkv.paper.datasets import hospital
    from dpkv.paper.datasets.recipes import PAPER_TABLES, find_table, recipe_of
    from dpkv.paper.datasets.synthetic_tables import FAMILIES

    recipes = [recipe_of(name) for name in PAPER_TABLES]
    here = {recipe.name: find_table(recipe) for recipe in recipes}
    if as_json:
        tables = [
            {"name": r.name, "title": r.title, "what": r.what, "rows": r.rows}
            | {"columns": list(r.columns), "page": r.page, "url": r.url or None}
            | {"as_in_the_paper": r.as_in_the_paper, "path": _text(here[r.name])}
            for r in recipes
        ]
        made = [{"name": name, "what": family.what} for name, family in FAMILIES.items()]
        made.append({"name": hospital.NAME, "what": hospital.WHAT})
        output.print_json(
            {"schema_version": 1, "kind": "datasets", "tables": tables, "families": made}
        )
        return
    output.print_table(
        "real tables of the paper",
        ["name", "what", "rows", "columns", "here"],
        [
            [r.name, r.what, str(r.rows), str(len(r.columns)), "yes" if here[r.name] else "no"]
            for r in recipes
        ],
        n_words=2,
    )
    families = [[name, family.what] for name, family in FAMILIES.items()]
    families.append([hospital.NAME, hospital.WHAT])
    output.print_table("synthetic families", ["name", "what"], families, n_words=2)
    output.say(
        "dpkv datasets fetch NAME downloads a table; dpkv datasets make NAME --out FILE makes one"
    )


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def path(name: _TableName) -> None:
    """Print where a real table is; it is looked for in DPKV_DATA first, and checked."""
    from dpkv.paper.datasets.recipes import find_table, load_checked_values, recipe_of

    recipe = recipe_of(name)
    found = find_table(recipe)
    if found is None:
        raise DatasetError(
            f"{recipe.file} is not here: dpkv datasets fetch {name} downloads it, and DPKV_DATA "
            "names a folder that holds it."
        )
    load_checked_values(recipe, found)
    output.say(str(found))


def fetch(
    name: _TableName,
    url: Annotated[str | None, typer.Option(help="Another address to fetch the file from.")] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Where to keep it (default: the user's data folder).")
    ] = None,
) -> None:
    """Download a real table, unless it is here. An interrupted download continues where it stopped.

    The table is kept only if its checksum is right.
    """
    from dpkv.paper.datasets.fetch import fetch as download
    from dpkv.paper.datasets.recipes import data_folder, find_table, load_checked_values, recipe_of

    recipe = recipe_of(name)
    found = find_table(recipe) if folder is None else _within(folder, recipe.file)
    if found is not None:
        load_checked_values(recipe, found)
        output.note(f"{recipe.title} is here already")
        output.say(str(found))
        return
    with ProgressBar(f"fetching {name}") as bar:
        found = download(recipe, folder or data_folder(), url=url, progress=bar.update)
    output.note(f"{recipe.title}: {recipe.rows} records, checksum right")
    output.say(str(found))


def _within(folder: Path, file: str) -> Path | None:
    return folder / file if (folder / file).is_file() else None


def make(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A synthetic family.")],
    out: Annotated[Path, typer.Option(help="The file to write, .csv or .csv.gz.")],
    seed: Annotated[int, typer.Option(help="The same seed makes the same file.")] = 0,
    rows: Annotated[int | None, typer.Option(help="Number of records.")] = None,
    columns: Annotated[int | None, typer.Option(help="Number of columns.")] = None,
    clusters: Annotated[int | None, typer.Option(help="Number of clusters.")] = None,
    move: Annotated[
        float | None, typer.Option(help="Probability that a record moves to another peer.")
    ] = None,
    edge: Annotated[
        float | None, typer.Option(help="Longest edge of a box, in the unit cube.")
    ] = None,
) -> None:
    """Make a synthetic table for experiments: the records are nobody's.

    Example:  dpkv datasets make peers --out peers.csv --move 0.2
    """
    from dpkv.paper.datasets import hospital
    from dpkv.paper.datasets.synthetic_tables import Wish, csv_text, make_table

    if not out.name.endswith((".csv", ".csv.gz")):
        raise UsageError(f"--out must end in .csv or .csv.gz. Got {out.name!r} instead.")
    target = output.check_new_file(out)
    if name == hospital.NAME:
        others = (columns, clusters, move, edge)
        if any(one is not None for one in others):
            raise UsageError(f"{name} takes --seed and --rows only.")
        _make_hospital(target, seed, rows)
        return
    table = make_table(name, Wish(seed, rows, columns, clusters, move, edge))
    text = csv_text(table)
    contents = gzip.compress(text.encode(), mtime=0) if out.name.endswith(".gz") else text
    output.write_public(target, contents)
    n_records, n_features = table.values.shape
    held = "" if table.labels is None else f", and its {table.label_name}"
    output.note(f"wrote {out}: {n_records} records x {n_features} columns{held}")


def _make_hospital(target: Path, seed: int, rows: int | None) -> None:
    """Write the visits, and beside them the schema that a data dictionary would give."""
    from dpkv.paper.datasets import hospital
    from dpkv.tables.schema import schema_path
    from dpkv.validation import MOST_CENTERS, whole_number

    n_visits = hospital.N_VISITS if rows is None else rows
    whole_number("--rows", n_visits, at_least=1, at_most=100 * MOST_CENTERS)
    beside = output.check_new_file(schema_path(target))
    text = hospital.hospital_visits(seed or hospital.SEED, n_visits)
    contents = gzip.compress(text.encode(), mtime=0) if target.name.endswith(".gz") else text
    output.write_public(target, contents)
    output.write_public(beside, hospital.schema_text())
    output.note(f"wrote {target}: {n_visits} visits; and {beside}, their schema")
