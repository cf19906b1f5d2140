"""Options that several commands share, and what turns their text into values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from dpkv import foreign
from dpkv.errors import DomainError, ParameterError

_MEGABYTE = 1 << 20
_MOST_COUNTS = 1000

DataFile = Annotated[
    Path,
    typer.Argument(metavar="DATA", help="A CSV (also .gz) or Parquet table.", readable=False),
]
Columns = Annotated[
    str | None,
    typer.Option(help="Columns to use, by name, separated by commas (default: all)."),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first row of a CSV holds names. A release must be told, here or by a "
        "schema; elsewhere the default is to detect it, if the columns below it are numeric.",
        show_default=False,
    ),
]
BoundsText = Annotated[
    str | None,
    typer.Option(
        "--bounds",
        help="Where records may lie: low,high for all columns, low,high;low,high;... one pair "
        "per column, or a JSON file. Values outside are moved to the nearest bound.",
    ),
]
Scale = Annotated[
    bool, typer.Option("--scale/--no-scale", help="Scale a box of bounds to the unit cube.")
]
SchemaFile = Annotated[
    Path | None,
    typer.Option(
        "--schema",
        help="The table's public facts (default: data.schema.json beside data.csv, where there is "
        "one). Other options override it.",
        show_default=False,
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        help="utf-8, utf-16, latin-1 or cp1252 (default: UTF-8, or UTF-16 where a byte-order mark "
        "says so)."
    ),
]
Decimal = Annotated[
    str | None,
    typer.Option(help="The decimal mark of numbers: . or , (default: the schema's, or a point)."),
]
MissingRule = Annotated[
    str | None,
    typer.Option(
        "--missing",
        help="What to do with cells that hold text, NaN, infinity or nothing: refuse the table; "
        "fill:VALUE, which fills that cell alone; or ignore, with which its row counts for nothing "
        "(default: what the schema says, or refuse).",
        show_default=False,
    ),
]
MemoryLimit = Annotated[
    int,
    typer.Option(
        help="Megabytes of records to hold in memory. A larger table is copied once to the "
        "workspace, in binary, and read from there.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]


def split_columns(text: str | None) -> list[str] | None:
    """Return column names from a comma-separated list."""
    return None if text is None else [name.strip() for name in text.split(",")]


def parse_counts(text: str) -> list[int]:
    """Return numbers of clusters from "4", "2,4,8", "2..10" or a mixture."""
    counts: list[int] = []
    try:
        for part in text.split(","):
            first, _, last = part.partition("..")
            span = range(int(first), int(last or first) + 1)
            counts += span[: _MOST_COUNTS + 1]
    except ValueError:
        counts = []
    if not counts or len(counts) > _MOST_COUNTS:
        raise ParameterError("--k", "a number, a list 2,4,8 or a range 2..10", text)
    return counts


def memory_bytes(megabytes: int) -> int:
    """Return the memory limit in bytes."""
    if megabytes < 0:
        raise ParameterError("--memory-limit", "at least 0 megabytes", megabytes)
    return megabytes * _MEGABYTE


def parse_bounds(text: str) -> Any:
    """Return what ``Domain.bounded`` takes: pairs of numbers, or the contents of a JSON file."""
    try:
        pairs = [[float(number) for number in pair.split(",")] for pair in text.split(";")]
    except ValueError:
        return _bounds_file(Path(text))
    if any(len(pair) != 2 for pair in pairs):  # noqa: PLR2004
        raise DomainError(
            f"--bounds must be low,high pairs separated by semicolons. Got {text!r} instead."
        )
    return pairs[0] if len(pairs) == 1 else pairs


def _bounds_file(path: Path) -> Any:
    try:
        bounds = json.loads(foreign.read_text(path))
    except (OSError, UnicodeDecodeError):
        sentence = "--bounds must be low,high pairs or a JSON file that can be read."
        raise DomainError(f"{sentence} Got {str(path)!r} instead.") from None
    except RecursionError:
        raise DomainError(f"--bounds file {path} is nested too deeply.") from None
    except json.JSONDecodeError as error:
        raise DomainError(
            f"--bounds file {path} is not JSON: see its line {error.lineno}."
        ) from None
    except ValueError:
        raise DomainError(f"--bounds file {path} holds a number that is too long.") from None
    if not isinstance(bounds, (dict, list)):
        raise DomainError(f"--bounds file {path} must hold an object or a list of pairs.")
    return bounds
