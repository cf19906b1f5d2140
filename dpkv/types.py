"""Names of types that many modules share. Nothing heavy is imported for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Float64s = NDArray[np.float64]
Integers = NDArray[np.signedinteger[Any]]
Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]
Keys = NDArray[np.uint64]
"""Keyed hashes of ids: equal where ids are."""
Indices = Int64s
"""Integers that say where in an array something is."""

Progress = Callable[[float], None]
"""Called now and then with the share that is done, from 0 to 1."""
StageProgress = Callable[[str, float], None]
"""Called likewise, with the name of the stage first."""
