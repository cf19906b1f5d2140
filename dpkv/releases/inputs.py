"""What a release is made from: a table in a file or in memory, looked at first and read later."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from dpkv.errors import ParameterError, TableError, UsageError
from dpkv.fingerprints import array_fingerprint, file_fingerprint
from dpkv.releases.request import Request
from dpkv.tables.naming import default_names
from dpkv.tables.store import MEMORY_LIMIT, state_of
from dpkv.tables.table import check_header, load, open_table
from dpkv.types import Float64s, Floats, Progress
from dpkv.validation import as_numbers, as_records, fill_unusable, printable_names


@dataclass(frozen=True, eq=False)
class InputTable:
    """Records in the user's coordinates, in memory or mapped, and what to call them."""

    values: Floats
    columns: tuple[str, ...]
    label: str
    mapped: bool = False


class Input(Protocol):
    """A table that was looked at but not read."""

    columns: tuple[str, ...]

    def check(self, invalid: str) -> None:
        """Refuse, before anything is read, what a release must not take for granted."""

    def read(self, fill: Float64s | None, progress: Progress | None = None) -> InputTable:
        """Read the records; unusable ones become ``fill``, or refuse the table."""

    def fingerprint(self, workspace: Path) -> str:
        """Return what a ledger calls the table, once it was read."""


class FileInput:
    """A CSV or Parquet file."""

    def __init__(
        self,
        path: Path,
        *,
        columns: Sequence[str] | None = None,
        header: bool | None = None,
        memory_limit: int = MEMORY_LIMIT,
        workspace: str | Path = ".dpkv",
    ) -> None:
        self._source = open_table(path, columns=columns, header=header)
        self._memory_limit = memory_limit
        self._workspace = workspace
        self._watched = WatchedFile(path)
        self.path = path
        self.columns = self._source.columns

    def check(self, invalid: str) -> None:
        """Refuse a header that nothing confirms."""
        check_header(self._source, invalid)

    def read(self, fill: Float64s | None, progress: Progress | None = None) -> InputTable:
        """Read the file."""
        self._watched = WatchedFile(self.path)
        table = load(
            self._source,
            fill=fill,
            memory_limit=self._memory_limit,
            workspace=self._workspace,
            progress=progress,
        )
        mapped = table.mapped_file is not None
        return InputTable(table.values, table.columns, self.path.name, mapped=mapped)

    def fingerprint(self, workspace: Path) -> str:
        """Return the keyed hash of the file's bytes, which must be those that were read."""
        return self._watched.fingerprint(workspace)


class WatchedFile:
    """A file that must stay as it is while it is read and fingerprinted."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._state = self._current()

    def fingerprint(self, workspace: Path) -> str:
        """Return the keyed hash of the file that was read."""
        try:
            found = file_fingerprint(self._path, workspace)
        except OSError as error:
            reason = error.strerror
            raise UsageError(f"the workspace {workspace} cannot be used: {reason}.") from None
        if self._current() != self._state:
            raise TableError(f"{self._path} was changed while it was read: run again.")
        return found

    def _current(self) -> list[int] | None:
        with contextlib.suppress(OSError):  # reading refuses in its own words
            return state_of(self._path)
        return None


class ArrayInput:
    """Numbers in memory; a data frame lends the names of its columns."""

    def __init__(
        self, data: ArrayLike, *, columns: Sequence[str] | None = None, invalid: str = "refuse"
    ) -> None:
        self._given = as_records(data) if invalid == "refuse" else as_numbers(data)
        width = self._given.shape[1]
        names = frame_names(data, width) if columns is None else printable_names("columns", columns)
        if len(names) != width:
            raise ParameterError("columns", f"{width} names", len(names))
        self.columns = names

    def check(self, invalid: str) -> None:
        """Refuse nothing: names come with the records or from the caller."""

    def read(self, fill: Float64s | None, progress: Progress | None = None) -> InputTable:  # noqa: ARG002
        """Return the records."""
        values = self._given
        if fill is not None:
            values = self._given.copy()
            fill_unusable(values, fill)
        return InputTable(values, self.columns, "array")

    def fingerprint(self, workspace: Path) -> str:
        """Return the keyed hash of the numbers as they were given."""
        return array_fingerprint(self._given, workspace)


def open_input(data: ArrayLike | str | Path, request: Request, workspace: str | Path) -> Input:
    """Return the input that data are: a path is a file, all else is in memory."""
    if isinstance(data, (str, Path)):
        return FileInput(
            Path(data), columns=request.columns, header=request.header, workspace=workspace
        )
    if request.header is not None:
        raise ParameterError("header", "left out for data in memory", request.header)
    return ArrayInput(data, columns=request.columns, invalid=request.invalid)


def frame_names(data: object, width: int) -> tuple[str, ...]:
    """Return the names that a data frame has; an array has none, nor has a frame made of one.

    What a pyarrow table calls ``columns`` are its records, and its names are ``column_names``.
    """
    labels: Any = getattr(data, "columns", None)
    if labels is None or len(labels) != width:
        return default_names(width)
    if any(hasattr(label, "__array__") and not np.isscalar(label) for label in labels):
        labels = getattr(data, "column_names", ())
    if len(labels) != width or list(labels) == list(range(width)):
        return default_names(width)
    return printable_names("columns", map(str, labels))
