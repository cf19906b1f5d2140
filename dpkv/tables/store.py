"""Where records are kept while a table is read: in memory, or in a memory-mapped file.

The file is a private copy of the data: it lives in the workspace, readable by its owner only, and
is found again by later runs as long as the table it came from has not changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpkv import progress
from dpkv.errors import TableError
from dpkv.scratch import empty_in, let_go
from dpkv.tables.chunk import Rows
from dpkv.types import Floats
from dpkv.workspace import check_private, private_folder, remove_if_empty, write_atomically

MEMORY_LIMIT = 512 << 20
"""Bytes that a table may take in memory before it goes to a memory-mapped file."""

_FORMAT = 3  # raised whenever a table may be read differently than before
_COPIES = 2  # how often the records are in memory at worst: as read, and in working coordinates
_MAP_ROWS = 1 << 16
_HELD_NUMBERS = 1 << 21  # of a mapped table in memory while it is gone through
_UNFINISHED = "reading-"
_SUFFIXES = {
    "values": ".f64",
    "counts": ".counts",
    "person_keys": ".persons",
    "weights": ".weights",
}
_KINDS: dict[str, type[np.generic]] = {
    "values": np.float64,
    "counts": np.bool_,
    "person_keys": np.uint64,
    "weights": np.int64,
}
_ABANDONED_AFTER = 3600.0  # seconds


class RecordStore:
    """Collects rows in memory and moves to files when they outgrow the limit.

    Every track of the rows, such as their coordinates or the keys of their persons, has a file of
    its own beside the others.
    """

    def __init__(
        self,
        files: Sequence[Path],
        n_columns: int,
        recipe: dict[str, Any],
        memory_limit: int,
        workspace: Path,
        *,
        writable: bool = True,
    ) -> None:
        self.n_rows = 0
        self._width = n_columns
        self._limit = memory_limit
        self._workspace = workspace
        self._mode: Literal["c", "r"] = "c" if writable else "r"
        self._tracks: dict[str, list[NDArray[Any]]] = {}
        self._files: dict[str, Any] | None = None
        self._sources = tuple(files)
        self._state = [state_of(file) for file in files]
        self._recipe = {"format": _FORMAT, **recipe}
        self._key = _hashed(self._recipe)
        # A copy and its note have the files' state in their names, so that no note can describe
        # another copy, whoever else converts the same table meanwhile.
        self._target = workspace / "tables" / f"{self._key}-{_hashed(self._state)}.f64"

    def earlier_copy(self) -> tuple[Rows, Path] | None:
        """Return the copy an earlier run made, if the table has not changed since."""
        try:
            note = json.loads(self._target.with_suffix(".json").read_text(encoding="utf-8"))
            if note["recipe"] != self._recipe or note["state"] != self._state:
                return None
            check_private(self._target.parent)
            return self._mapped(note["tracks"], note["rows"]), self._target
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def append(self, rows: Rows) -> None:
        """Take some rows."""
        tracks = rows.tracks()
        self.n_rows += len(rows.values)
        if self._files is not None:
            for name, array in tracks.items():
                array.tofile(self._files[name])
            return
        for name, array in tracks.items():
            self._tracks.setdefault(name, []).append(array)
        if self.n_rows * self._width * 8 * _COPIES > self._limit:
            self._move_to_files()

    def _move_to_files(self) -> None:
        folder = private_folder(self._workspace, "tables")
        _remove_abandoned(folder)
        self._files = {}
        for name, chunks in self._tracks.items():
            self._files[name] = tempfile.NamedTemporaryFile(  # noqa: SIM115 (closed in finish)
                dir=folder, prefix=_UNFINISHED, suffix=_SUFFIXES[name], delete=False
            )
            for chunk in chunks:
                chunk.tofile(self._files[name])
        self._tracks.clear()

    def finish(self) -> tuple[Rows, Path | None]:
        """Return all rows, and the file that the coordinates are in if they are in one."""
        for file, state in zip(self._sources, self._state, strict=True):
            if state_of(file) != state:
                raise TableError(f"{file} was changed while it was read: run again.")
        if self._files is None:
            joined = {
                name: chunks[0] if len(chunks) == 1 else np.concatenate(chunks)
                for name, chunks in self._tracks.items()
            }
            self._tracks.clear()
            return Rows(**joined), None
        names = sorted(self._files)
        for name in names:
            self._files[name].close()
            Path(self._files[name].name).replace(self._path_of(name))
        self._files = None
        note = {
            "recipe": self._recipe,
            "state": self._state,
            "rows": self.n_rows,
            "tracks": names,
        }
        write_atomically(self._target.with_suffix(".json"), json.dumps(note))
        for old in self._target.parent.glob(f"{self._key}-*"):
            if old.stem != self._target.stem:  # copies of the table as it was before
                old.unlink(missing_ok=True)
        return self._mapped(names, self.n_rows), self._target

    def _path_of(self, track: str) -> Path:
        return self._target.with_suffix(_SUFFIXES[track])

    def _mapped(self, tracks: list[str], rows: int) -> Rows:
        shapes = {"values": (rows, self._width)}
        return Rows(
            **{
                name: _map_file(
                    self._path_of(name), _KINDS[name], shapes.get(name, (rows,)), self._mode
                )
                for name in tracks
            }
        )

    def discard_unfinished(self) -> None:
        """Remove what a reading that failed has written."""
        if self._files is not None:
            for file in self._files.values():
                with contextlib.suppress(OSError):
                    file.close()
                with contextlib.suppress(OSError):
                    Path(file.name).unlink()
            self._files = None
            remove_if_empty(self._workspace, "tables")


def _remove_abandoned(folder: Path) -> None:
    """Remove half-written files that a killed run left; a living run keeps writing to its own."""
    for file in folder.glob(f"{_UNFINISHED}*"):
        with contextlib.suppress(OSError):
            if time.time() - file.stat().st_mtime > _ABANDONED_AFTER:
                file.unlink()


def _hashed(description: Any) -> str:
    return hashlib.sha256(json.dumps(description).encode()).hexdigest()[:24]


def state_of(source: Path) -> list[int]:
    """Return what changes whenever a file is written or replaced."""
    status = source.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def _map_file(
    path: Path, kind: type[np.generic], shape: tuple[int, ...], mode: Literal["c", "r"]
) -> NDArray[Any]:
    """Map a file, which never changes: copy-on-write, an ordinary array to numpy; or to read it.

    Only what cannot have been written to can be let go of while it is used.
    """
    if path.stat().st_size != math.prod(shape) * np.dtype(kind).itemsize:
        raise ValueError("size differs")
    return np.asarray(np.memmap(path, kind, mode=mode, shape=shape))


def map_rows(
    values: Floats,
    function: Callable[[Floats], NDArray[Any]],
    *,
    mapped: bool,
    workspace: str | Path,
    dtype: type[np.generic] | None = None,
) -> NDArray[Any]:
    """Apply a row-wise function: into memory, or into a nameless mapped file."""
    kind = values.dtype if dtype is None else np.dtype(dtype)
    if not mapped:
        target = np.empty(values.shape, kind)
    else:
        target = empty_in(private_folder(Path(workspace), "tables"), values.shape, kind)
    let_go_every = max(1, _HELD_NUMBERS // max(1, _MAP_ROWS * values.shape[1]))
    for number, start in enumerate(range(0, len(values), _MAP_ROWS), start=1):
        rows = slice(start, start + _MAP_ROWS)
        target[rows] = function(values[rows])
        progress.report("putting rows on the grid", min(1.0, number * _MAP_ROWS / len(values)))
        if mapped and number % let_go_every == 0:
            let_go(values)
            let_go(target)
    if mapped:
        let_go(values)
        let_go(target)
    return target
