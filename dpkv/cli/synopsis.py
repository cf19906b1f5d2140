"""``dpkv seed --synopsis``: cluster a private synopsis again, with any number of centres, free."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpkv.cli import output
from dpkv.errors import UsageError
from dpkv.settings import find_workspace

if TYPE_CHECKING:
    from dpkv.releases import Standing

SynopsisFile = Annotated[
    Path | None,
    typer.Option(
        "--synopsis",
        help="Instead of DATA: what 'dpkv release --export-synopsis' wrote. Its centres spend "
        "nothing, and are covered by that release's guarantee if its record confirms the file.",
    ),
]
_NAME = "centers-from-synopsis"
_SHOWN_COLUMNS, _SHOWN_CENTERS = 4, 20


def seed_from_synopsis(
    path: Path, k: int, *, seed: int, out: Path | None, others: bool, as_json: bool
) -> None:
    """Write and show k centres of a private synopsis; ``others`` tells of options for tables."""
    from dpkv.releases import read_synopsis

    if others:
        raise UsageError(
            "--synopsis takes the place of DATA: only --k, --seed, --out and --json go with it."
        )
    output.check_target(out or Path(f"{_NAME}.csv"), path)
    found = read_synopsis(path, workspace=find_workspace())
    standing = found.standing
    assert standing is not None
    out = stamped(out, standing, _NAME)
    target = output.check_target(out, path)
    centers = found.cluster(k, rng=seed)
    sizes, fit = found.fit(centers)
    output.write_centers(target, found.columns, centers)
    result: dict[str, Any] = {
        "schema_version": 1,
        "kind": "seeding-of-synopsis",
        "releasable": standing.kind == "confirmed",
        "release_id": found.release_id,
        "standing": standing.kind,
        "vouched_by": list(standing.vouched_by),
        "reason": standing.reason,
        "guarantee": standing.statement if standing.kind == "confirmed" else None,
        "claimed": standing.claimed,
        "statement": standing.statement,
        "spent": 0,
        "k": k,
        "seed": seed,
        "cells": len(found.counts),
        "columns": list(found.columns),
        "centers": centers.tolist(),
        "sizes": sizes.tolist(),
        "potential": fit,
        "centers_file": str(out),
    }
    if as_json:
        output.print_json(result)
    else:
        _show(result)


def stamped(out: Path | None, standing: Standing, name: str) -> Path:
    """Return where a file goes, ``name`` by default.

    A name of one's own is stamped where nothing is promised.
    """
    if out is None:
        return Path(f"{name}{standing.suffix}.csv")
    if standing.kind in ("confirmed", "unverified") or standing.suffix in out.name:
        return out
    return out.with_stem(f"{out.stem}{standing.suffix}")


def record_words(result: dict[str, Any]) -> str:
    """Say whether a record confirms the file."""
    if result["standing"] == "confirmed":
        return f"confirms it, {result['reason']}"
    if result["standing"] == "simulated":
        return "SIMULATED, not releasable"
    return "CONDITIONAL on the data" if result["standing"] == "conditional" else "NOT CONFIRMED"


def _show(result: dict[str, Any]) -> None:
    rows = [
        ["centres", f"{result['k']}, of {result['cells']} private cells"],
        ["release", result["release_id"] or "without an id"],
        ["record", record_words(result)],
        ["budget", "nothing is spent"],
        ["file", result["centers_file"]],
    ]
    output.print_facts("centres of a private synopsis", rows)
    columns = result["columns"][:_SHOWN_COLUMNS]
    output.print_table(
        "centres",
        ["centre", "size", *columns],
        [
            [str(number), f"{size:,.0f}", *(f"{x:.4g}" for x in center[:_SHOWN_COLUMNS])]
            for number, (size, center) in enumerate(
                zip(result["sizes"], result["centers"], strict=True), start=1
            )
        ][:_SHOWN_CENTERS],
    )
    output.say(f"potential on the private cells: {result['potential']:.4g}")
    output.say(result["statement"])
