"""Records that lie elsewhere, in parts: tasks go to every part, and exact sums come back.

Exact integers add up in any order, so answers are those of the same rows in one array, to the bit.
Noise is drawn where the curator is, once, after the sum: a part that is asked again, because a
worker was lost, gives the same integers as before, and nothing is drawn or paid for twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np

from dpkv.records.block import NO_WEIGHTS, Block
from dpkv.types import Integers

Part = TypeVar("Part")
Task = Callable[[Block], Any]


class Carrier(Protocol):
    """Carries tasks to the parts, which are known by their number, and brings what they find."""

    def ask(self, node: int, request: Task) -> Any:
        """Return what one part finds."""

    def ask_each(self, requests: Sequence[Task]) -> list[Any]:
        """Return what every part finds of its own task, in the order of the parts."""


class RemoteRecords:
    """Parts behind a carrier. ``sizes`` are how many rows each has."""

    def __init__(self, carrier: Carrier, sizes: Sequence[int]) -> None:
        self._carrier = carrier
        self._sizes = tuple(sizes)
        self._starts = np.cumsum([0, *self._sizes])

    @property
    def n_records(self) -> int:
        """The number of rows of all parts."""
        return int(self._starts[-1])

    def gather(self, task: Callable[[Block], Part]) -> list[Part]:
        """Return what the task finds in every part, in the order of the parts."""
        return self._carrier.ask_each([task] * len(self._sizes))

    def gather_one(self, number: int, task: Callable[[Block], Part]) -> Part:
        """Return what the task finds in one part."""
        found: Part = self._carrier.ask(number, task)
        return found

    def take(self, records: Integers) -> Block:
        """Return some rows, by their numbers in ascending order: these travel to the curator."""
        ends = np.searchsorted(records, self._starts[1:-1])
        wanted = zip(np.split(records, ends), self._starts, strict=False)
        tasks = [partial(_rows_of, rows - start) for rows, start in wanted]
        found: list[Block] = self._carrier.ask_each(tasks)
        weights = [block.weights for block in found if block.weights.size]
        return Block(
            np.concatenate([block.points for block in found]),
            np.concatenate(weights) if weights else NO_WEIGHTS,
        )


def count_rows(block: Block) -> int:
    """Return how many rows a part has."""
    return block.n_rows


def _rows_of(rows: Integers, block: Block) -> Block:
    return Block(block.points[rows], block.weights[rows] if block.weights.size else NO_WEIGHTS)
