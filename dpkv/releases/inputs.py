"""What a release is made from: a table in a file or in memory, looked at first and read later."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from dpkv.errors import ParameterError, TableError, UsageError
from dpkv.fingerprints import (
    Whose,
    array_fingerprint,
    chunks_fingerprint,
    file_fingerprint,
    join_fingerprints,
)
from dpkv.grid import Grid
from dpkv.records import Records
from dpkv.records.persons import EVERY_ROW, RowFacts, Weighing, owners_of
from dpkv.releases.request import Request
from dpkv.tables.chunk import Chunk
from dpkv.tables.encode import Encoder
from dpkv.tables.facts import Missing, TableFacts, WeightColumn, numeric_facts
from dpkv.tables.finding import find_files
from dpkv.tables.frames import FrameSource, as_frame, check_names
from dpkv.tables.frames import frame_names as names_of
from dpkv.tables.many import open_files
from dpkv.tables.naming import default_names, quoted
from dpkv.tables.objects import as_path
from dpkv.tables.person_keys import id_texts
from dpkv.tables.store import MEMORY_LIMIT, map_rows, state_of
from dpkv.tables.table import check_header, encoded, load
from dpkv.types import Floats, Progress
from dpkv.validation import as_numbers, as_records, printable_names

AnyTable = ArrayLike | str | Path | Sequence[str | Path]
"""Numbers in memory, a file, or the files, folders and patterns of one table."""


@dataclass(frozen=True, eq=False)
class InputTable:
    """Records in the user's coordinates, in memory or mapped, and what to call them."""

    values: Floats
    columns: tuple[str, ...]
    label: str
    mapped: bool = False
    counts: NDArray[np.bool_] | None = None
    """Whether a row counts; None where every row does."""
    person_keys: NDArray[np.uint64] | None = None
    """A key for every row's person, where the table names persons."""
    weights: NDArray[np.int64] | None = None
    """Survey weights, in ``1 / WEIGHT_LEVELS`` of their public bound."""

    @cached_property
    def rows(self) -> RowFacts:
        """Whose rows they are, and what is known of them beside their values. Private."""
        keys = self.person_keys
        persons = None if keys is None else owners_of(keys)
        return RowFacts(len(self.values), persons, self.counts, self.weights)

    @property
    def n_records(self) -> int:
        """The number of rows, or of persons where the table names them."""
        return self.rows.n_records

    def on_grid(self, grid: Grid, workspace: str | Path, how: Weighing = EVERY_ROW) -> Records:
        """Return the records on the public grid."""
        points = map_rows(
            self.values, grid.quantise, mapped=self.mapped, workspace=workspace, dtype=np.int32
        )
        return self.rows.records(points, how)

    def raw(self, how: Weighing = EVERY_ROW) -> Records:
        """Return the records in the user's units, before means could be taken on a grid."""
        return self.rows.records(self.values, how.shared)


class ReadTable(Protocol):
    """A table that was read, here or on workers."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its coordinates."""

    @property
    def label(self) -> str:
        """What people know it by."""

    @property
    def n_records(self) -> int:
        """The number of its records."""

    @property
    def values(self) -> Floats:
        """The records in the user's units, where they are here."""

    def on_grid(self, grid: Grid, workspace: str | Path, how: Weighing = EVERY_ROW) -> Records:
        """Return the records on the public grid."""

    def raw(self, how: Weighing = EVERY_ROW) -> Records:
        """Return the records in the user's units."""


class Input(Protocol):
    """A table that was looked at but not read."""

    facts: TableFacts
    """What its columns are taken for."""
    columns: tuple[str, ...]

    def check(self) -> None:
        """Refuse, before anything is read, what a release must not take for granted."""

    def read(self, progress: Progress | None = None) -> ReadTable:
        """Read the records."""

    def fingerprint(self, whose: Whose) -> str:
        """Return what a ledger calls the table, once it was read."""


class FileInput:
    """A CSV or Parquet file, or several that hold one table."""

    def __init__(
        self,
        path: Path | Sequence[Path],
        facts: TableFacts,
        *,
        memory_limit: int = MEMORY_LIMIT,
        workspace: str | Path = ".dpkv",
        publishes: bool = True,
    ) -> None:
        """Look at files; ``publishes`` tells whether names of columns will be published."""
        files = find_files([path] if isinstance(path, Path) else path)
        self._source = open_files(files, facts)
        self._memory_limit = memory_limit
        self._workspace = workspace
        self._publishes = publishes
        self._watched = [WatchedFile(file) for file in files]
        self.files = tuple(files)
        self.path = self._source.path
        self.facts = self._source.facts
        self.columns = self._source.columns

    @property
    def label(self) -> str:
        """What people know the table by."""
        several = f"{len(self.files)} files of " if len(self.files) > 1 else ""
        return f"{several}{self.path.name}"

    def check(self) -> None:
        """Refuse a header that nothing confirms."""
        check_header(self._source, publishes=self._publishes)

    def read(self, progress: Progress | None = None) -> InputTable:
        """Read the files."""
        self.watch()
        table = load(
            self._source,
            memory_limit=self._memory_limit,
            workspace=self._workspace,
            progress=progress,
            writable=False,
        )
        return InputTable(
            table.values,
            table.columns,
            self.label,
            mapped=table.mapped_file is not None,
            counts=table.counts,
            person_keys=table.person_keys,
            weights=table.weights,
        )

    def watch(self) -> None:
        """Expect the files to stay as they are from now on."""
        self._watched = [WatchedFile(file) for file in self.files]

    def fingerprint(self, whose: Whose) -> str:
        """Return the keyed hash of the files' bytes, which must be those that were read."""
        return fingerprint_of_files(self._watched, whose)


class WatchedFile:
    """A file that must stay as it is while it is read and fingerprinted."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._state = self._current()

    def fingerprint(self, whose: Whose) -> str:
        """Return the keyed hash of the file that was read."""
        try:
            found = file_fingerprint(self._path, whose)
        except OSError as error:
            reason = error.strerror
            raise UsageError(f"the workspace {whose} cannot be used: {reason}.") from None
        self.check()
        return found

    def check(self) -> None:
        """Refuse a file that is not what it was."""
        if self._current() != self._state:
            raise TableError(f"{self._path} was changed while it was read: run again.")

    def _current(self) -> list[int] | None:
        with contextlib.suppress(OSError):  # reading refuses in its own words
            return state_of(self._path)
        return None


def fingerprint_of_files(files: Sequence[WatchedFile], whose: Whose) -> str:
    """Return the keyed hash of a set of files: their names and their order do not matter."""
    return join_fingerprints([file.fingerprint(whose) for file in files], whose)


class ArrayInput:
    """Numbers in memory; a data frame lends the names of its columns."""

    def __init__(
        self,
        data: ArrayLike,
        *,
        columns: Sequence[str] | None = None,
        missing: str = "refuse",
        persons: Sequence[object] | None = None,
        weights: Sequence[float] | None = None,
        weight: WeightColumn | None = None,
    ) -> None:
        rule = Missing.parse(missing)
        self._given = as_records(data) if rule.kind == "refuse" else as_numbers(data)
        width = self._given.shape[1]
        names = frame_names(data, width) if columns is None else printable_names("columns", columns)
        if len(names) != width:
            raise ParameterError("columns", f"{width} names", len(names))
        self.facts = replace(numeric_facts(names, missing=rule), weight=weight)
        self.columns = names
        self._persons = (
            None if persons is None else id_texts(_one_per_row("person", persons, len(self)))
        )
        self._weights = None
        if weights is not None:
            column = [[value] for value in _one_per_row("weight", weights, len(self))]
            self._weights = as_numbers(column)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._given)

    def check(self) -> None:
        """Refuse nothing: names come with the records or from the caller."""

    def read(self, progress: Progress | None = None) -> InputTable:  # noqa: ARG002
        """Return the records."""
        plain = self._persons is None and self._weights is None
        if self.facts.missing.kind == "refuse" and plain:
            return InputTable(self._given, self.columns, "array")
        cells = self._given.astype(np.float64)
        if self._weights is not None:
            cells = np.column_stack([cells, self._weights])
        chunk = Chunk(cells, 1.0, lambda row: f"record {row + 1}", persons=self._persons)
        rows = Encoder(self.facts, Path("data"), quoted(self.facts.names)).encode(chunk)
        return InputTable(
            rows.values,
            self.columns,
            "array",
            counts=rows.counts,
            person_keys=rows.person_keys,
            weights=rows.weights,
        )

    def fingerprint(self, whose: Whose) -> str:
        """Return the keyed hash of the numbers as they were given."""
        return array_fingerprint(self._given, whose)


class FrameInput:
    """A data frame of any library, read by its facts like a file."""

    def __init__(self, source: FrameSource) -> None:
        self._source = source
        self.facts = source.facts
        self.columns = source.columns

    def check(self) -> None:
        """Refuse nothing: names come with the frame."""

    def read(self, progress: Progress | None = None) -> InputTable:
        """Encode the rows."""
        parts = []
        for rows, share in encoded(self._source):
            parts.append(rows.tracks())
            if progress is not None:
                progress(share)
        joined: dict[str, Any] = {
            name: np.concatenate([part[name] for part in parts]) for name in parts[0]
        }
        return InputTable(columns=self.columns, label="frame", **joined)

    def fingerprint(self, whose: Whose) -> str:
        """Return the keyed hash of the cells that are used, as they are before any rule."""
        chunks = self._source.chunks()
        if self._source.is_plain:
            own = self._source.n_own_numbers
            numbers = np.concatenate([chunk.values[:, :own] for chunk in chunks])
            numbers[np.isnan(numbers)] = np.nan
            return array_fingerprint(numbers, whose)
        return chunks_fingerprint(self.facts.names, chunks, whose)


def open_input(data: AnyTable, request: Request, workspace: str | Path) -> Input:
    """Return the input that data are: paths are files, all else is in memory."""
    named = [data] if isinstance(data, (str, Path)) else data
    if isinstance(named, (list, tuple)) and all(isinstance(one, (str, Path)) for one in named):
        return FileInput([as_path(one) for one in named], request.table_facts, workspace=workspace)
    for option in ("header", "encoding", "decimal"):
        if getattr(request, option) is not None:
            given = getattr(request, option)
            raise ParameterError(option, "left out for data in memory", given)
    check_names(data)
    by_name = isinstance(request.person, str) or isinstance(request.weight, str)
    frame = as_frame(data)
    if request.described is not None or (
        frame is not None and (by_name or not isinstance(data, pd.DataFrame))
    ):
        return _open_frame(data, frame, request)  # type: ignore[arg-type]
    return ArrayInput(
        data,  # type: ignore[arg-type]
        columns=request.columns,
        missing=request.missing or "refuse",
        persons=_listed("person", request.person),
        weights=_listed("weight", request.weight),
        weight=request.weight_facts,
    )


def _open_frame(data: ArrayLike, frame: Any, request: Request) -> FrameInput:
    """Return a frame, or an array as one whose columns are called as the request says."""
    if frame is None:
        frame = as_frame(_named_array(data, request))
    persons = weights = None
    if request.person is not None and not isinstance(request.person, str):
        persons = id_texts(_one_per_row("person", request.person, len(frame)))
        request = replace(request, person=None)
    if request.weight is not None and not isinstance(request.weight, str):
        given = _one_per_row("weight", request.weight, len(frame))
        weights = as_numbers([[value] for value in given])[:, 0].astype(np.float64)
    facts = request.table_facts
    if persons is not None:
        facts = replace(facts, person=None)
    return FrameInput(FrameSource(frame, names_of(frame), facts, persons=persons, weights=weights))


def _named_array(data: ArrayLike, request: Request) -> pd.DataFrame:
    """Return an array as a frame. Where its schema expects ids or categories, texts stay texts."""
    numbers = as_numbers(data)
    names = request.columns or default_names(numbers.shape[1])
    if len(names) != numbers.shape[1]:
        raise ParameterError("columns", f"{numbers.shape[1]} names", len(names))
    frame = pd.DataFrame(numbers, columns=list(names))
    if np.asarray(data).dtype.kind in "OUST":
        facts = replace(request, person=None, weight=None, most_weight=None).table_facts
        known = {column.name for column in facts.used if column.is_number}
        cells = np.asarray(data, dtype=object)
        for place, name in enumerate(names):
            if name not in known:
                frame[name] = pd.Series(cells[:, place], dtype=object)
    return frame


def _listed(name: str, given: str | Sequence[Any] | None) -> Sequence[Any] | None:
    """Refuse a column's name where there are no columns to look it up in."""
    if isinstance(given, str):
        raise ParameterError(name, "one value per row, for data in memory", given)
    return given


def _one_per_row(name: str, values: Sequence[Any], n_rows: int) -> Sequence[Any]:
    """Refuse another number of values than the table has rows."""
    found = list(values) if np.ndim(values) == 1 else None
    if found is None or len(found) != n_rows:
        raise ParameterError(name, "one value per row", "another number of them")
    return found


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
