"""The paper's real tables: where each is to be had, what it must hold, and where it is here.

A recipe is a TOML file of this package. A table is known by the SHA-256 of the file that dpkv was
tested with, or else of its numbers, so that another compression or another separator is no
obstacle. The tables themselves are not part of dpkv: their terms of redistribution are not stated.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import os
import tomllib
import zlib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np

from dpkv.errors import DatasetError, ParameterError
from dpkv.types import Float64s

PAPER_TABLES = ("lifesci", "house_rgb_unique", "europediff", "mopsi_finland")
FOLDER_VARIABLE = "DPKV_DATA"
_GZIP, _BZIP2 = b"\x1f\x8b", b"BZh"
_NUMBER_BYTES = 64  # with its separator, as generously as anybody writes numbers


@dataclass(frozen=True)
class Recipe:
    """What is known of a table."""

    name: str
    title: str
    what: str
    page: str
    """The page that the paper names."""
    url: str
    """The file's own address; empty where none is known."""
    columns: tuple[str, ...]
    rows: int
    distinct: bool
    """Whether repeated records of the source count once."""
    sha256: str
    """Of the file that dpkv was tested with."""
    values_sha256: str
    """Of its numbers."""
    as_in_the_paper: str

    @property
    def file(self) -> str:
        """The file's name in a data folder."""
        return f"{self.name}.csv.gz"

    @property
    def most_bytes(self) -> int:
        """What a file may hold, unpacked or not; a source may have a label column of its own."""
        return self.rows * (len(self.columns) + 1) * _NUMBER_BYTES


def recipe_of(name: str) -> Recipe:
    """Return the recipe of that name."""
    if name not in PAPER_TABLES:
        raise ParameterError("NAME", "one of " + ", ".join(PAPER_TABLES), name)
    home = files("dpkv.paper.datasets").joinpath("sources", f"{name}.toml")
    text = home.read_text(encoding="utf-8")
    fields = tomllib.loads(text)
    return Recipe(name=name, **{**fields, "columns": tuple(fields["columns"])})


def data_folder() -> Path:
    """Return where fetched tables are kept."""
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / "dpkv"


def find_table(recipe: Recipe) -> Path | None:
    """Return where a table is: in the folder that DPKV_DATA names, or among those fetched."""
    given = os.environ.get(FOLDER_VARIABLE)
    for folder in [*([Path(given)] if given else []), data_folder()]:
        path = folder / recipe.file
        if path.is_file():
            return path
    return None


def load_paper_table(name: str) -> Float64s | None:
    """Return a table's checked numbers; None where it is not here."""
    recipe = recipe_of(name)
    path = find_table(recipe)
    return None if path is None else load_checked_values(recipe, path)


def load_checked_values(recipe: Recipe, path: Path) -> Float64s:
    """Return the numbers of a file, or refuse one that is not the recipe's table."""
    try:
        with path.open("rb") as file:
            values = parse_values(recipe, file.read(recipe.most_bytes + 1))
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error.strerror}.") from None
    if values_digest(values) != recipe.values_sha256:
        raise DatasetError(
            f"{path} is not the {recipe.title} table that dpkv knows: it has "
            f"{values.shape[0]} x {values.shape[1]} numbers, and their checksum differs."
        )
    return values


def parse_values(recipe: Recipe, contents: bytes) -> Float64s:
    """Return the numbers of a file: separated by commas or blanks, compressed or not."""
    try:
        text = _unpack(recipe, contents).decode("utf-8").replace(",", " ")
        if not text.strip():
            raise ValueError
        values = np.loadtxt(io.StringIO(text), ndmin=2)[:, : len(recipe.columns)]
    except DatasetError:
        raise
    except (OSError, EOFError, ValueError, IndexError, zlib.error):
        raise DatasetError(
            f"the file for {recipe.title} does not hold a table of numbers."
        ) from None
    values = np.unique(values, axis=0) if recipe.distinct else values
    return np.ascontiguousarray(values)


def is_packed(contents: bytes) -> bool:
    """Tell whether a file is compressed."""
    return contents.startswith((_GZIP, _BZIP2))


def _unpack(recipe: Recipe, contents: bytes) -> bytes:
    """Return what a file holds, and never unpack more than the recipe's table can be."""
    file = io.BytesIO(contents)
    if contents.startswith(_GZIP):
        with gzip.GzipFile(fileobj=file) as unpacked:
            contents = unpacked.read(recipe.most_bytes + 1)
    elif contents.startswith(_BZIP2):
        with bz2.BZ2File(file) as unpacked:
            contents = unpacked.read(recipe.most_bytes + 1)
    if len(contents) > recipe.most_bytes:
        raise DatasetError(
            f"the file for {recipe.title} holds more than {recipe.most_bytes} bytes, which that "
            "table cannot: it is another one."
        )
    return contents


def values_digest(values: Float64s) -> str:
    """Return the SHA-256 of a table's shape and numbers, whatever file they come from."""
    shape = f"{values.shape[0]}x{values.shape[1]}\n".encode()
    return hashlib.sha256(shape + values.astype("<f8").tobytes()).hexdigest()


def table_bytes(values: Float64s) -> bytes:
    """Return a table as a headerless gzipped CSV, the same bytes every time."""
    lines = [",".join(_shortest(value) for value in row) for row in values.tolist()]
    return gzip.compress(("\n".join(lines) + "\n").encode(), mtime=0)


def _shortest(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)
