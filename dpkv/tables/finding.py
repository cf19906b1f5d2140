"""Which files are a table: by name, by pattern, or all tables of a folder. None is opened here."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path

from dpkv.errors import TableError

TABLE_NAMES = (".csv", ".csv.gz", ".parquet")
"""How the files of a folder end that are taken for tables."""
_MAGIC = "*?["


def find_files(named: Sequence[str | Path]) -> list[Path]:
    """Return the files that are named: a folder stands for its tables, a pattern for what fits it.

    A file is a file whatever its name: only what is not there is read as a pattern.
    """
    found: list[Path] = []
    for name in named:
        path = Path(name)
        if path.is_dir():
            found += tables_in(path)
        elif not path.exists() and any(mark in str(name) for mark in _MAGIC):
            found += _fitting(str(name))
        else:
            found.append(path)
    if len({os.path.realpath(path) for path in found}) < len(found):  # loops of links have one, too
        raise TableError("a file must not be given twice: its records would count twice.")
    return found


def tables_in(folder: Path) -> list[Path]:
    """Return the tables of a folder by name; hidden files and folders are none."""
    try:
        inside = [
            file
            for file in folder.iterdir()
            if file.name.lower().endswith(TABLE_NAMES) and file.is_file()
        ]
    except OSError as error:
        raise TableError(f"{folder} cannot be read: {error.strerror}.") from None
    inside = sorted(file for file in inside if not file.name.startswith("."))
    if not inside:
        ends = ", ".join(TABLE_NAMES)
        raise TableError(f"{folder} holds no table: no file in it ends in {ends}.")
    return inside


def _fitting(pattern: str) -> list[Path]:
    found = sorted(Path(name) for name in glob.glob(pattern, recursive=True))  # noqa: PTH207
    found = [path for path in found if path.is_file()]
    if not found:
        raise TableError(f"no file fits {pattern!r}: check the pattern.")
    return found
