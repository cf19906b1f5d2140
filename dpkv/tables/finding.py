"""Which files are a table: by name, by pattern, all tables of a folder, or those of a manifest.

No table is opened here.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path

from dpkv import foreign
from dpkv.errors import TableError
from dpkv.tables.objects import ObjectPath, as_path

TABLE_NAMES = (".csv", ".csv.gz", ".parquet")
"""How the files of a folder end that are taken for tables."""
MANIFEST_NAME = ".manifest"
"""How the name of a file ends that names the files of a table, one per line."""
_MAGIC = "*?["
_COMMENT = "#"


def find_files(named: Sequence[str | Path]) -> list[Path]:
    """Return the files that are named: a folder stands for its tables, a pattern for what fits it.

    A manifest stands for what its lines name. Any other file is a file whatever its name: only what
    is not there is read as a pattern.
    """
    found: list[Path] = []
    for name in named:
        path = as_path(name)
        if path.name.endswith(MANIFEST_NAME) and path.is_file():
            found += [file for line in _lines_of(path) for file in _find(line)]
        else:
            found += _find(path)
    if len({_identity(path) for path in found}) < len(found):
        raise TableError("a file must not be given twice: its records would count twice.")
    return found


def names_files(text: str) -> bool:
    """Tell whether a text names files that are there, or is a pattern or an address."""
    path = as_path(text)
    if isinstance(path, ObjectPath):
        return True
    return path.is_file() or path.is_dir() or any(mark in text for mark in _MAGIC)


def _find(path: Path) -> list[Path]:
    try:
        if path.is_dir():
            return tables_in(path)
        if not path.exists() and any(mark in str(path) for mark in _MAGIC):
            return _fitting(path)
    except OSError as error:
        raise TableError(f"{path} cannot be read: {error.strerror}.") from None
    return [path]


def _lines_of(manifest: Path) -> list[Path]:
    """Return what a manifest names; a path in it starts from the manifest's folder."""
    try:
        lines = _text_of(manifest).splitlines()
    except (OSError, UnicodeDecodeError):
        raise TableError(f"{manifest} is no manifest: a text file that names files.") from None
    named = [line.strip() for line in lines]
    named = [line for line in named if line and not line.startswith(_COMMENT)]
    if not named:
        raise TableError(f"{manifest} names no file.")
    if any(line.endswith(MANIFEST_NAME) for line in named):
        raise TableError(f"{manifest} names another manifest: name its files.")
    found = []
    for line in named:
        path = as_path(line)
        found.append(path if isinstance(path, ObjectPath) else manifest.parent / path)
    return found


def _text_of(manifest: Path) -> str:
    if not isinstance(manifest, ObjectPath):
        return foreign.read_text(manifest)
    with manifest.open() as file:
        return bytes(file.read(foreign.MOST_RECORD_BYTES)).decode("utf-8")


def _identity(path: Path) -> str:
    """Return what two names of one file share. Loops of links have one, too."""
    return str(path) if isinstance(path, ObjectPath) else os.path.realpath(path)


def folder_of(files: Sequence[Path]) -> Path:
    """Return the folder that all files are below."""
    folders = [file.resolve().parent for file in files]
    common = folders[0]
    while not all(folder.is_relative_to(common) for folder in folders):
        common = common.parent
        if common == common.parent:
            break
    return common


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


def _fitting(pattern: Path) -> list[Path]:
    found: list[Path]
    if isinstance(pattern, ObjectPath):
        found = [*pattern.fitting()]
    else:
        found = sorted(Path(name) for name in glob.glob(str(pattern), recursive=True))  # noqa: PTH207
    found = [path for path in found if path.is_file()]
    if not found:
        raise TableError(f"no file fits {str(pattern)!r}: check the pattern.")
    return found
