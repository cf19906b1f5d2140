"""Records that come in chunks: what the streaming and on-line algorithms read.

A stream is read in one pass, chunk by chunk; some can be read again. Nothing here reads files:
``dpkv.tables.open_stream`` makes streams of those.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike

from dpkv.errors import TableError
from dpkv.types import Float64s, Floats
from dpkv.validation import as_records, lenient_numbers

CHUNK_ROWS = 1 << 15
"""Most records in a chunk."""


class Stream(Protocol):
    """Finite records in the order they come."""

    @property
    def name(self) -> str:
        """What a message calls it."""

    @property
    def rereadable(self) -> bool:
        """Whether ``chunks`` can be asked for again."""

    def chunks(self) -> Iterator[Float64s]:
        """Yield matrices of at most CHUNK_ROWS records and at least one, all equally wide."""


def as_stream(source: Stream | ArrayLike | Iterable[ArrayLike]) -> Stream:
    """Return a stream as it is, a matrix as a stream, or the rows or matrices of an iterator."""
    if hasattr(source, "chunks") and hasattr(source, "rereadable"):
        return cast(Stream, source)
    if isinstance(source, Iterator):
        return IteratorStream(source)
    return ArrayStream(as_records(source))  # type: ignore[arg-type]


class ArrayStream:
    """The rows of a matrix, which can be read again."""

    name = "data"
    rereadable = True

    def __init__(self, records: Floats) -> None:
        self.records = records

    def chunks(self) -> Iterator[Float64s]:
        """Yield the rows as float64."""
        for start in range(0, len(self.records), CHUNK_ROWS):
            yield self.records[start : start + CHUNK_ROWS].astype(np.float64, copy=False)


class IteratorStream:
    """What an iterator yields, once."""

    name = "the stream"
    rereadable = False

    def __init__(self, items: Iterator[ArrayLike]) -> None:
        self._items: Iterator[ArrayLike] | None = items

    def chunks(self) -> Iterator[Float64s]:
        """Yield the records, each of them checked."""
        if self._items is None:
            raise TableError(f"{self.name} can be read only once: give a new iterator.")
        items, self._items = self._items, None
        empty = True
        for chunk in gather_rows(items):
            empty = False
            yield as_records(chunk).astype(np.float64, copy=False)
        if empty:
            raise TableError(f"{self.name} has no rows: it must hold at least one record.")


def gather_rows(items: Iterable[ArrayLike], *, lenient: bool = False) -> Iterator[Float64s]:
    """Yield chunks of fresh rows from an iterable of rows, of matrices, or of both.

    ``lenient`` takes what is no number for a missing one.
    """
    waiting: list[Float64s] = []
    n_waiting, width = 0, None
    for item in items:
        block = _as_block(item, width, lenient=lenient)
        width = block.shape[1]
        for start in range(0, len(block), CHUNK_ROWS):
            piece = block[start : start + CHUNK_ROWS]
            if n_waiting + len(piece) > CHUNK_ROWS:
                yield np.concatenate(waiting)
                waiting, n_waiting = [], 0
            waiting.append(piece)
            n_waiting += len(piece)
    if waiting:
        yield np.concatenate(waiting)


def _as_block(item: ArrayLike, width: int | None, *, lenient: bool) -> Float64s:
    try:
        array = np.atleast_1d(np.asarray(item))
        if lenient:
            array = lenient_numbers(array)
        if array.dtype.kind not in "iufbO":
            raise TypeError
        with np.errstate(over="ignore"):
            array = array.astype(np.float64)  # a copy: the caller may use his buffer again
    except (TypeError, ValueError, OverflowError):
        raise TableError(
            "a stream must yield rows of numbers, or matrices of them: leave the other columns out."
        ) from None
    block = array[np.newaxis] if array.ndim == 1 else array
    wanted = block.shape[1] if block.ndim == 2 and width is None else width  # noqa: PLR2004
    if block.ndim != 2 or block.shape[1] != wanted or not wanted:  # noqa: PLR2004
        must = "with at least one column" if width is None else f"{width} columns wide"
        raise TableError(f"a stream must yield rows {must}. Got shape {array.shape} instead.")
    return block


def peek(items: Iterator[ArrayLike]) -> tuple[int, Iterator[ArrayLike]]:
    """Return how wide the rows are, and the items from the first one on."""
    for item in items:
        return _as_block(item, None, lenient=True).shape[1], chain([item], items)
    raise TableError("the stream has no rows: it must hold at least one record.")


def recut(chunks: Iterable[Float64s], sizes: Iterable[int]) -> Iterator[Float64s]:
    """Yield the same records in matrices of the given sizes; the last may be smaller."""
    source = iter(chunks)
    rest: list[Float64s] = []
    held = 0
    for size in sizes:
        while held < size:
            chunk = next(source, None)
            if chunk is None:
                break
            rest.append(chunk)
            held += len(chunk)
        if not held:
            return
        joined: Any = rest[0] if len(rest) == 1 else np.concatenate(rest)
        yield joined[:size]
        rest = [joined[size:]] if held > size else []
        held = max(0, held - size)
