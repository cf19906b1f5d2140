"""Column names: which columns a table has, and which of them are used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from dpkv.errors import TableError


def default_names(count: int) -> tuple[str, ...]:
    """Return x1, x2, ... for a table without a header."""
    return tuple(f"x{position}" for position in range(1, count + 1))


def choose_columns(
    path: Path, available: Sequence[str], wanted: Sequence[str] | None
) -> tuple[str, ...]:
    """Return the columns to use, refusing names that are unknown, repeated or empty."""
    repeated = [name for name, count in Counter(available).items() if count > 1]
    if repeated:
        raise TableError(f"{path} has duplicate column names: {quoted(repeated)}. Rename them.")
    if wanted is None:
        unnamed = [position for position, name in enumerate(available, start=1) if not name]
        if unnamed:
            raise TableError(
                f"{path}: column {unnamed[0]} has no name (a row index?): name it, or choose the "
                "columns to use with --columns."
            )
        return tuple(available)
    if not wanted:
        raise TableError("columns must name at least one column.")
    unknown = [name for name in wanted if name not in available or not name]
    if unknown:
        names = [] if any(map(is_number, available)) else available  # numbers may be a record
        advice = f"choose from {quoted(names)}" if names else "check the names, or --header"
        raise TableError(f"{path} has no column {quoted(unknown)}: {advice}.")
    if len(set(wanted)) < len(wanted):
        raise TableError("columns must not name a column twice.")
    return tuple(wanted)


def is_number(text: str) -> bool:
    """Tell whether Python reads the text as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def not_numeric(path: Path, columns: Sequence[str], available: Sequence[str]) -> TableError:
    """Return the error that names the columns that are not numeric."""
    rest = [name for name in available if name not in columns]
    advice = f"choose the others with --columns {','.join(rest)}" if rest else "encode them first"
    word = "columns" if len(columns) > 1 else "column"
    verb = "are" if len(columns) > 1 else "is"
    return TableError(f"{path}: {word} {quoted(columns)} {verb} not numeric: {advice}.")


def quoted(names: Sequence[str], most: int = 12) -> str:
    """Return names in quotes, the first few of many."""
    shown = ", ".join(f'"{name}"' for name in names[:most])
    return shown if len(names) <= most else f"{shown}, ... ({len(names)} in all)"
