"""A block of records: the rows that a question is evaluated on, on one machine, at one time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpkv.scratch import let_go

Found = TypeVar("Found")
NO_WEIGHTS = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class RowPersons:
    """Whose the rows of a part are, where a person may have rows in other parts, too."""

    keys: NDArray[np.uint64]
    """Of every row's person."""
    first: NDArray[np.uint64]
    """Of the persons whose first row is in this part, in that order."""


@dataclass(frozen=True, eq=False)
class Block:
    """Rows of a table and their whole weights. Private: only questions may look at it."""

    points: NDArray[Any]
    """Points of the public grid; numbers in the user's units before there is a grid."""
    weights: NDArray[np.int64] = field(default_factory=lambda: NO_WEIGHTS)
    """What every row counts; empty where every row counts one."""
    persons: RowPersons | None = None
    """Whose rows they are, where records are persons and this is one of several parts."""
    _memory: dict[str, tuple[object, Any]] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """How many rows there are, whatever they weigh."""
        return len(self.points)

    def total_weight(self) -> int:
        """Return what all rows count together."""
        return int(self.weights.sum()) if self.weights.size else self.n_rows

    def recall(self, name: str, key: object, make: Callable[[], Found]) -> Found:
        """Return what ``make`` gives, made once for questions in a row that need the same.

        Only the newest of a name is kept. It could be made again from the rows and the question, so
        nothing is lost with it.
        """
        known = self._memory.get(name)
        if known is None or known[0] != key:
            known = key, make()
            self._memory[name] = known
        found: Found = known[1]
        return found

    def rest(self) -> None:
        """Let go of pages of mapped arrays until the next question."""
        let_go(self.points)
        for _, kept in self._memory.values():
            for array in getattr(kept, "arrays", (kept,)):
                if isinstance(array, np.ndarray):
                    let_go(array)

    def forget(self, name: str) -> None:
        """Drop what is kept under a name."""
        self._memory.pop(name, None)
