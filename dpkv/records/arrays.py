"""Records in an array, in memory or mapped, as one block or cut into several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpkv.records.block import NO_WEIGHTS, Block
from dpkv.records.owners import Owners
from dpkv.types import Integers

Part = TypeVar("Part")


class ArrayRecords:
    """Rows of an array behind the door. ``cuts`` are the rows that further blocks begin with.

    A record is a row, or all rows of one of ``owners``.
    """

    def __init__(
        self,
        points: NDArray[Any],
        weights: NDArray[np.int64] = NO_WEIGHTS,
        *,
        owners: Owners | None = None,
        cuts: Sequence[int] = (),
    ) -> None:
        self._starts = np.asarray([0, *cuts])
        parts = np.split(points, cuts)
        shares = np.split(weights, cuts) if weights.size else [NO_WEIGHTS] * len(parts)
        self._blocks = [Block(*pair) for pair in zip(parts, shares, strict=True)]
        self._shape = points.shape
        self._owners = owners

    @property
    def n_records(self) -> int:
        """The number of records: of owners where rows have them, of rows otherwise."""
        return int(self._shape[0]) if self._owners is None else self._owners.count

    @property
    def n_features(self) -> int:
        """The number of columns."""
        return int(self._shape[1])

    def gather(self, task: Callable[[Block], Part]) -> list[Part]:
        """Return what the task finds in every block, in the order of the blocks."""
        return [_rested(task, block) for block in self._blocks]

    def gather_one(self, number: int, task: Callable[[Block], Part]) -> Part:
        """Return what the task finds in one block."""
        return _rested(task, self._blocks[number])

    def take(self, records: Integers) -> Block:
        """Return the rows of some records, by their numbers in ascending order."""
        rows = records if self._owners is None else self._rows_by_owner.of(records)
        ends = np.searchsorted(rows, self._starts[1:])
        own = list(zip(self._blocks, self._starts, np.split(rows, ends), strict=True))
        points = np.concatenate([block.points[part - start] for block, start, part in own])
        if not self._blocks[0].weights.size:
            return Block(points)
        return Block(
            points, np.concatenate([block.weights[part - start] for block, start, part in own])
        )

    @cached_property
    def _rows_by_owner(self) -> RowsByOwner:
        assert self._owners is not None
        return RowsByOwner(self._owners)


def _rested(task: Callable[[Block], Part], block: Block) -> Part:
    """Return what a task finds, and let go of the memory that the rows of mapped arrays took."""
    try:
        return task(block)
    finally:
        block.rest()


class RowsByOwner:
    """Which rows every owner has."""

    def __init__(self, owners: Owners) -> None:
        self._order = np.argsort(owners.numbers, kind="stable")
        self._ends = np.cumsum(np.bincount(owners.numbers, minlength=owners.count))

    def of(self, wanted: Integers) -> Integers:
        """Return the rows of some owners, in ascending order."""
        stops = self._ends[wanted]
        starts = np.where(wanted > 0, self._ends[wanted - 1], 0)
        spans = [self._order[a:b] for a, b in zip(starts, stops, strict=True)]
        return np.sort(np.concatenate(spans)) if spans else self._order[:0]


def one_row_each(points: NDArray[Any], shares: int) -> ArrayRecords:
    """Return records of one row each, every row having all the shares of its record."""
    if shares == 1:
        return ArrayRecords(points)
    return ArrayRecords(points, np.full(len(points), shares, np.int64))
