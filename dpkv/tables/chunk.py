"""What a table yields while it is read: cells as they are found, and rows as they are used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpkv.types import Float64s, Int64s


@dataclass(frozen=True, eq=False)
class Texts:
    """A column of text: which of some texts every row holds, -1 where it holds nothing."""

    codes: NDArray[np.signedinteger]
    names: NDArray[np.object_]


@dataclass(frozen=True, eq=False)
class Chunk:
    """Consecutive rows of a table, cell by cell."""

    values: Float64s
    """The columns of numbers in the order of the facts, then the weight; NaN where none is."""
    share: float
    """How much of the file had been read, between 0 and 1."""
    locate: Callable[[int], str]
    """Names a row of this chunk (0-based) the way a person finds it in the file."""
    texts: Mapping[str, Texts] = field(default_factory=dict)
    """The columns of categories and of truth values, by name."""
    persons: NDArray[np.object_] | None = None
    """The texts that name the rows' persons."""

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.values)


@dataclass(frozen=True, eq=False)
class Rows:
    """Consecutive rows as they are used: coordinates, and what a row is worth."""

    values: Float64s
    counts: NDArray[np.bool_] | None = None
    """Whether the row counts; None where every row does."""
    person_keys: NDArray[np.uint64] | None = None
    """Which rows belong to one person."""
    weights: Int64s | None = None
    """Survey weights in ``1 / WEIGHT_LEVELS`` of the largest."""

    def tracks(self) -> dict[str, NDArray[np.generic]]:
        """Return all that there is of a row, by name."""
        found = {
            "values": self.values,
            "counts": self.counts,
            "person_keys": self.person_keys,
            "weights": self.weights,
        }
        return {name: array for name, array in found.items() if array is not None}
