"""Whose rows are whose: a number for every row, in place of the owner's name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Owners:
    """The owner of every row, numbered from 0 in the order of their first rows. Private."""

    numbers: NDArray[np.int32]
    count: int
