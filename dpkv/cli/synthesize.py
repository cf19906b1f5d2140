"""``dpkv synthesize``: rows that were never anybody's, from a private synopsis; free."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpkv.cli import options, output
from dpkv.cli.synopsis import record_words, stamped
from dpkv.settings import find_workspace

_NAME = "synthetic-rows"


def synthesize(
    synopsis: Annotated[
        Path,
        typer.Argument(
            metavar="SYNOPSIS",
            help="What 'dpkv release --export-synopsis' wrote.",
            show_default=False,
        ),
    ],
    rows: Annotated[int, typer.Option(help="How many rows to draw.", show_default=False)],
    seed: Annotated[int, typer.Option(help="Seed of the draws.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(help=f"The CSV file to write (default: {_NAME}.csv).", show_default=False),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Draw synthetic rows from the private cells of a release, at no further cost.

    Rows are spread evenly within a cell: they show what the cells show, and nothing finer. A
    column of categories holds categories, each drawn as often as the cells have it.

    Example:  dpkv synthesize release/synopsis.json --rows 10000
    """
    from dpkv.releases import read_synopsis
    from dpkv.releases.synthetic import synthetic_csv
    from dpkv.validation import as_generator, whole_number

    whole_number("seed", seed, at_least=0)
    output.check_target(out or Path(f"{_NAME}.csv"), synopsis)
    found = read_synopsis(synopsis, workspace=find_workspace())
    standing = found.standing
    assert standing is not None
    out = stamped(out, standing, _NAME)
    target = output.check_target(out, synopsis)
    rng = as_generator(seed)
    drawn = found.synthesize(rows, rng=rng)
    names, text = synthetic_csv(drawn, found.columns, found.grid, rng)
    output.write_table(target, text)
    result = {
        "schema_version": 1,
        "kind": "synthetic-rows",
        "releasable": standing.kind == "confirmed",
        "release_id": found.release_id,
        "standing": standing.kind,
        "reason": standing.reason,
        "statement": standing.statement,
        "spent": 0,
        "rows": rows,
        "seed": seed,
        "cells": len(found.counts),
        "columns": list(names),
        "file": str(out),
    }
    if as_json:
        output.print_json(result)
        return
    shown = [
        ["rows", f"{rows}, of {len(found.counts)} private cells"],
        ["release", found.release_id or "without an id"],
        ["record", record_words(result)],
        ["budget", "nothing is spent"],
        ["file", str(out)],
    ]
    output.print_facts("synthetic rows of a private synopsis", shown)
    output.say(standing.statement)
