"""``dpkv seed --synopsis``: cluster a private synopsis again, with any number of centres, free."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dpkv.cli import output
from dpkv.errors import UsageError

SynopsisFile = Annotated[
    Path | None,
    typer.Option(
        "--synopsis",
        help="Instead of DATA: what 'dpkv release --export-synopsis' wrote. Its centres are "
        "covered by that release's guarantee and spend nothing.",
    ),
]
_OUT = Path("centers-from-synopsis.csv")


def seed_from_synopsis(
    path: Path, k: int, *, seed: int, out: Path | None, others: bool, as_json: bool
) -> None:
    """Write and show k centres of a private synopsis; ``others`` tells of options for tables."""
    from dpkv.releases.synopsis import read_synopsis

    if others:
        raise UsageError(
            "--synopsis takes the place of DATA: only --k, --seed, --out and --json go with it."
        )
    target = output.check_target(out or _OUT, path)
    found = read_synopsis(path)
    centers = found.cluster(k, rng=seed)
    output.write_centers(target, found.columns, centers)
    result: dict[str, Any] = {
        "schema_version": 1,
        "kind": "seeding-of-synopsis",
        "releasable": found.guarantee.end_to_end,
        "release_id": found.release_id,
        "guarantee": found.guarantee.statement,
        "spent": 0,
        "k": k,
        "seed": seed,
        "cells": len(found.counts),
        "columns": list(found.columns),
        "centers": centers.tolist(),
        "centers_file": str(out or _OUT),
    }
    if as_json:
        output.print_json(result)
    else:
        _show(result)


def _show(result: dict[str, Any]) -> None:
    rows = [
        ["centres", f"{result['k']}, of {result['cells']} private cells"],
        ["release", result["release_id"] or "without an id"],
        ["budget", "nothing is spent"],
        ["file", result["centers_file"]],
    ]
    output.print_facts("centres of a private synopsis", rows)
    print(result["guarantee"])
