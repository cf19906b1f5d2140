"""What a table file yields while it is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dpkv.types import Float64s


@dataclass(frozen=True, eq=False)
class Chunk:
    """Consecutive rows of a table."""

    values: Float64s
    share: float
    """How much of the file had been read, between 0 and 1."""
    locate: Callable[[int], str]
    """Names a row of this chunk (0-based) the way a person finds it in the file."""
