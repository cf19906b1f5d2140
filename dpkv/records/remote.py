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
from numpy.typing import NDArray

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
    """Parts behind a carrier. ``sizes`` are how many records each has.

    A record is a row, or all rows of a person, who is counted in the first part that has any.
    """

    def __init__(self, carrier: Carrier, sizes: Sequence[int], *, by_person: bool = False) -> None:
        self._carrier = carrier
        self._by_person = by_person
        self._sizes = tuple(sizes)
        self._starts = np.cumsum([0, *self._sizes])

    @property
    def n_records(self) -> int:
        """The number of records of all parts."""
        return int(self._starts[-1])

    def gather(self, task: Callable[[Block], Part]) -> list[Part]:
        """Return what the task finds in every part, in the order of the parts."""
        return self._carrier.ask_each([task] * len(self._sizes))

    def gather_one(self, number: int, task: Callable[[Block], Part]) -> Part:
        """Return what the task finds in one part."""
        found: Part = self._carrier.ask(number, task)
        return found

    def take(self, records: Integers) -> Block:
        """Return the rows of some records, by their numbers in ascending order.

        These travel to the curator.
        """
        ends = np.searchsorted(records, self._starts[1:-1])
        wanted = zip(np.split(records, ends), self._starts, strict=False)
        own = [numbers - start for numbers, start in wanted]
        tasks: list[Task] = [partial(_rows_of, numbers) for numbers in own]
        if self._by_person:
            keys = self._carrier.ask_each([partial(_keys_of, numbers) for numbers in own])
            tasks = [partial(_rows_by_key, np.concatenate(keys))] * len(own)
        found: list[Block] = self._carrier.ask_each(tasks)
        weights = [block.weights for block in found if block.weights.size]
        return Block(
            np.concatenate([block.points for block in found]),
            np.concatenate(weights) if weights else NO_WEIGHTS,
        )


def count_rows(block: Block) -> int:
    """Return how many rows a part has."""
    return block.n_rows


def _keys_of(persons: Integers, block: Block) -> NDArray[np.uint64]:
    assert block.persons is not None
    return block.persons.first[persons]


def _rows_by_key(keys: NDArray[np.uint64], block: Block) -> Block:
    assert block.persons is not None
    own = block.persons.keys
    order = block.recall("rows by person", None, lambda: own.argsort(kind="stable"))
    ordered = block.recall("keys in order", None, lambda: own[order])
    starts, stops = (np.searchsorted(ordered, keys, side) for side in ("left", "right"))
    spans = [order[start:stop] for start, stop in zip(starts, stops, strict=True)]
    return _rows_of(np.sort(np.concatenate([order[:0], *spans])), block)


def _rows_of(rows: Integers, block: Block) -> Block:
    return Block(block.points[rows], block.weights[rows] if block.weights.size else NO_WEIGHTS)
