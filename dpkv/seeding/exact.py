"""D^2 selection on an integer grid, with exact rational probabilities.

Squared distances of integer points are integers. They are summed block by block in int64, where no
sum can overflow (checked on creation), and the blocks in Python's integers, which have no limit.
One uniform integer below the total then picks a record: no float takes part.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate

import numpy as np

from dpkv import kernels
from dpkv.errors import UsageError
from dpkv.kernels import Integers

LARGEST_INT64 = 2**63 - 1


class ExactDistances:
    """Squared distances of integer points to their nearest center so far, and their block sums.

    ``diam2_squared`` bounds every squared distance.
    """

    def __init__(self, points: Integers, diam2_squared: int) -> None:
        if kernels.BLOCK * diam2_squared > LARGEST_INT64:
            raise UsageError(
                "the grid is too fine for exact sums of squared distances: use fewer columns."
            )
        self._points = points
        self._sums = np.zeros(kernels.block_count(len(points)), np.int64)
        self.nearest = np.empty(0, np.int64)

    def add(self, centers: Integers) -> None:
        """Lower every squared distance to at most that to one of ``centers``."""
        if not self.nearest.size:
            self.nearest = np.full(len(self._points), LARGEST_INT64)
        kernels.over_blocks(
            kernels.lower_nearest,
            len(self._sums),
            self._points.size * len(centers),
            self._points,
            np.asarray(centers, dtype=np.int64),
            self.nearest,
            np.empty(0, np.int64),
            self._sums,
        )

    def block_sums(self) -> list[int]:
        """Return the sum of every block, as Python's integers."""
        sums: list[int] = self._sums.tolist()
        return sums


class ExactPicker:
    """Picks record a with probability (D_t(a) + smoothing) / sum over all records, exactly.

    ``below(n)`` draws a uniform integer in [0, n). ``smoothing`` None never measures: every round
    is uniform, which is Forgy's seeding. ``diam2_squared`` bounds every squared distance.
    """

    def __init__(
        self,
        points: Integers,
        *,
        diam2_squared: int,
        smoothing: int | None,
        below: Callable[[int], int],
    ) -> None:
        self._distances = ExactDistances(points, diam2_squared)
        self._n_records = len(points)
        self._smoothing = smoothing
        self._below = below

    @property
    def measures(self) -> bool:
        """Whether distances decide."""
        return self._smoothing is not None

    def add(self, center: Integers) -> None:
        """Lower every record's squared distance to at most that to ``center``."""
        self._distances.add(center[np.newaxis])

    def by_distance(self) -> int | None:
        """Pick by one uniform integer below the sum of all weights; None when that is zero."""
        assert self._smoothing is not None
        running = self._running_weights(self._smoothing)
        if running[-1] == 0:
            return None
        target = self._below(running[-1])
        block = bisect_right(running, target)
        target -= running[block - 1] if block else 0
        start = block * kernels.BLOCK
        distances = self._distances.nearest[start : start + kernels.BLOCK].tolist()
        weights = accumulate(distance + self._smoothing for distance in distances)
        return start + next(place for place, sum_ in enumerate(weights) if sum_ > target)

    def _running_weights(self, smoothing: int) -> list[int]:
        """Return the running sums, over blocks, of D_t + smoothing: Python integers."""
        sums = self._distances.block_sums()
        counts = [kernels.BLOCK] * len(sums)
        counts[-1] = self._n_records - kernels.BLOCK * (len(sums) - 1)
        weights = zip(sums, counts, strict=True)
        return list(accumulate(total + count * smoothing for total, count in weights))

    def plainly(self, round_: int) -> int:  # noqa: ARG002
        """Pick uniformly."""
        return self._below(self._n_records)
