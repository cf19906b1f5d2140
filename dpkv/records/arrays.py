"""Records in an array, in memory or mapped, as one block or cut into several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpkv.records.block import NO_WEIGHTS, Block
from dpkv.types import Integers

Part = TypeVar("Part")


class ArrayRecords:
    """Rows of an array behind the door. ``cuts`` are the rows that further blocks begin with."""

    def __init__(
        self,
        points: NDArray[Any],
        weights: NDArray[np.int64] = NO_WEIGHTS,
        *,
        cuts: Sequence[int] = (),
    ) -> None:
        self._starts = np.asarray([0, *cuts])
        parts = np.split(points, cuts)
        shares = np.split(weights, cuts) if weights.size else [NO_WEIGHTS] * len(parts)
        self._blocks = [Block(*pair) for pair in zip(parts, shares, strict=True)]
        self._shape = points.shape

    @property
    def n_records(self) -> int:
        """The number of rows."""
        return int(self._shape[0])

    @property
    def n_features(self) -> int:
        """The number of columns."""
        return int(self._shape[1])

    def gather(self, task: Callable[[Block], Part]) -> list[Part]:
        """Return what the task finds in every block, in the order of the blocks."""
        return [task(block) for block in self._blocks]

    def gather_one(self, number: int, task: Callable[[Block], Part]) -> Part:
        """Return what the task finds in one block."""
        return task(self._blocks[number])

    def take(self, rows: Integers) -> Integers:
        """Return some rows, by their numbers in ascending order."""
        ends = np.searchsorted(rows, self._starts[1:])
        own = zip(self._blocks, self._starts, np.split(rows, ends), strict=True)
        return np.concatenate([block.points[part - start] for block, start, part in own])
