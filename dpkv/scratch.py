"""Arrays in nameless files, for tables that are larger than memory is allowed to be.

Such an array is like any other, but its pages are the system's to write out, and they are let go of
as soon as a pass is over: what a process holds in memory is then what it works on.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MOST_BLOCKS = 64  # each keeps a few files open
_BLOCK_NUMBERS = 3 << 20


class _Scratch(np.memmap[Any, Any]):
    """A mapped array that knows where others of its kind go."""

    folder: Path | None = None


def empty_in(folder: Path, shape: tuple[int, ...], kind: Any) -> NDArray[Any]:
    """Return an array in a nameless file in a folder."""
    with tempfile.TemporaryFile(dir=folder) as file:
        size = max(1, int(np.prod(shape, dtype=np.int64))) * np.dtype(kind).itemsize
        _allocate(file.fileno(), size)
        array = _Scratch(file, kind, mode="r+", shape=shape)
    array.folder = folder
    return np.asarray(array)


def empty_beside(array: NDArray[Any], shape: tuple[int, ...], kind: Any) -> NDArray[Any]:
    """Return an array in a nameless file where the other one is in one, and in memory elsewhere."""
    mapped = _mapped(array)
    folder = getattr(mapped, "folder", None)
    return np.empty(shape, kind) if folder is None else empty_in(folder, shape, kind)


def let_go(array: NDArray[Any]) -> None:
    """Leave the pages of a mapped array to the system; what is in them stays."""
    mapped = _mapped(array)
    if mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
        pages: mmap.mmap = mapped._mmap
        if not isinstance(mapped, _Scratch) and mapped.mode != "r":  # a private copy may differ
            return
        pages.madvise(mmap.MADV_DONTNEED)


def cuts_of(array: NDArray[Any]) -> range:
    """Return where the further blocks of a mapped array begin; one in memory is a single block."""
    n_rows, width = array.shape
    if not isinstance(_mapped(array), _Scratch):
        return range(0)
    rows = max(_BLOCK_NUMBERS // max(1, width), -(-n_rows // _MOST_BLOCKS))
    return range(rows, n_rows, rows)


def _mapped(array: Any) -> Any:
    """Return the mapped array that another one is a view of, the first of them; None of none."""
    found = None
    while array is not None:
        found = array if isinstance(array, np.memmap) else found
        array = getattr(array, "base", None)
    return found


def _allocate(handle: int, size: int) -> None:
    """Reserve the space now: a full disk would otherwise kill the process at a later write."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(handle, 0, size)
    else:
        os.truncate(handle, size)
