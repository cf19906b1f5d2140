"""Column names: which columns a table has, and which of them are used."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpkv.errors import TableError
from dpkv.validation import printable_names

_SHOWN = 12
_MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "<na>", "#n/a", "nil"})
# Where a spreadsheet may see a formula begin: at a cell's start, whichever delimiter it takes.
_FORMULA = re.compile(r"""(?:^|(?<=[,;|\t\r\n"]))(?=[=+\-@\t\r＝＋－＠])""")


def default_names(count: int) -> tuple[str, ...]:
    """Return x1, x2, ... for a table without a header."""
    return tuple(f"x{position}" for position in range(1, count + 1))


def choose_columns(
    path: Path,
    available: Sequence[str],
    wanted: Sequence[str] | None,
    *,
    public: bool,
    typed: bool = True,
) -> tuple[str, ...]:
    """Return the columns to use, refusing names that are unknown, repeated or empty.

    Names that are not ``public`` come from a first row that may be a record, so none of them is
    shown; nor are those ``wanted`` that nobody has ``typed``.
    """
    counts = Counter(available)
    if len(counts) < len(available):
        repeated = [place for place, name in enumerate(available) if counts[name] > 1]
        raise TableError(
            f"{path} has duplicate column names, in columns {list_labels(numbered(repeated))}: "
            "rename them, or say --no-header if the first row is a record."
        )
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
    unknown = [name for name in wanted if name not in counts or not name]
    if unknown and not typed:
        raise TableError(f"{path} has other columns than the first table: give all the same.")
    if unknown:
        names = list_labels(quoted(available))
        advice = f"choose from {names}" if public else "check the spelling, and --header"
        raise TableError(f"{path} has no column {list_labels(quoted(unknown))}: {advice}.")
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


def is_header(path: Path, cells: list[str]) -> bool:
    """Tell whether the first row is a header: cells with a letter, none of them a number."""
    numbers = [_looks_numeric(cell) for cell in cells]
    present = [
        cell
        for cell, n in zip(cells, numbers, strict=True)
        if not n and cell.lower() not in _MISSING
    ]
    unclear = [cell for cell in present if unlike_a_name(cell)]
    if any(len(cell.split()) > 1 and all(map(_looks_numeric, cell.split())) for cell in unclear):
        raise TableError(
            f"{path} seems to be separated by blanks: save it with commas between the cells."
        )
    if unclear or (present and any(numbers)):
        raise TableError(
            f"{path}: the first row is neither all names nor all numbers: say --header or "
            "--no-header, and choose the numeric columns with --columns."
        )
    return bool(present)


def _looks_numeric(cell: str) -> bool:
    return is_number(cell) and "_" not in cell


def unlike_a_name(text: str) -> bool:
    """Tell whether text is a number, or looks like one or a date: digits without a letter."""
    letters, digits = any(map(str.isalpha, text)), any(map(str.isdigit, text))
    return is_number(text) or (digits and not letters)


def publishable_names(columns: Iterable[str]) -> tuple[str, ...]:
    """Return the column names of a release, refusing what may be a record or a formula.

    A release publishes its column names. Those of a table without names are its first record where
    somebody said ``--header``, or read the file with a library that expects a header.
    """
    names = printable_names("columns", columns)
    for place, name in enumerate(names, start=1):
        if unlike_a_name(name):
            raise TableError(
                f"the name of column {place} is a number or looks like one, so the first row may "
                "be a record, which a release would publish: read it as one (--no-header), or "
                "rename the column."
            )
        if without_formula(name) != name:
            raise TableError(
                f"the name of column {place} begins like a formula, which a spreadsheet that opens "
                "the released centres would run: rename the column."
            )
    return names


def without_formula(name: str) -> str:
    """Return a name with an apostrophe wherever a spreadsheet would take it for a formula."""
    return _FORMULA.sub("'", name)


_WHAT_TO_DO = {
    "dates": "turn dates into numbers first (days since a public day, say), or leave them out",
    "decimal commas": "say --decimal , if the comma is the decimal mark",
    "truth values": "describe truth values as boolean in a schema ('dpkv schema' writes one)",
}
"""What helps with columns of text that look like something."""


def not_numeric(
    path: Path,
    columns: Sequence[str],
    labels: Sequence[str],
    numeric: NDArray[np.bool_],
    looks: str | None = None,
) -> TableError:
    """Return the error that says which columns are not numeric, and what to do about it."""
    never = [label for label, ok in zip(labels, numeric, strict=True) if not ok]
    rest = [name for name, ok in zip(columns, numeric, strict=True) if ok]
    advice = "encode them first"
    if rest:
        by_name = tuple(labels) == quoted(columns)
        shown = f" {','.join(rest[:_SHOWN])}" if by_name and len(rest) <= _SHOWN else ""
        advice = f"choose the others with --columns{shown or ', by name'}"
    if looks is not None:
        advice = _WHAT_TO_DO[looks]
    word, verb = ("columns", "are") if len(never) > 1 else ("column", "is")
    return TableError(f"{path}: {word} {list_labels(never)} {verb} not numeric: {advice}.")


def quoted(names: Sequence[str]) -> tuple[str, ...]:
    """Return names in quotes: what messages call columns whose names are public."""
    return tuple(f'"{name}"' for name in names)


def numbered(positions: Sequence[int]) -> tuple[str, ...]:
    """Return what messages call columns whose names may be a record's cells: 1, 2, ..."""
    return tuple(str(position + 1) for position in positions)


def list_labels(labels: Sequence[str]) -> str:
    """Return labels in a row, the first few of many."""
    shown = ", ".join(labels[:_SHOWN])
    return shown if len(labels) <= _SHOWN else f"{shown}, ... ({len(labels)} in all)"
