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
from numpy.typing import NDArray

from dpkv import kernels
from dpkv.errors import UsageError
from dpkv.types import Integers

LARGEST_INT64 = 2**63 - 1
_ALL_ONE = np.empty(0, np.int64)


class ExactDistances:
    """Squared distances of integer points to their nearest center so far, and their weighted sums.

    ``diam2_squared`` bounds every squared distance. Empty ``weights`` means that all are one.
    """

    def __init__(
        self, points: Integers, diam2_squared: int, weights: NDArray[np.int64] = _ALL_ONE
    ) -> None:
        check_exact(diam2_squared, int(weights.max(initial=1)))
        self._points = points
        self._weights = weights
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
            self._weights,
            self._sums,
        )

    def block_sums(self) -> list[int]:
        """Return the weighted sum of every block, as Python's integers."""
        sums: list[int] = self._sums.tolist()
        return sums

    def total(self, smoothing: int | None) -> int:
        """Return the sum of weight (D_t + smoothing) over all points; of weights where it is None.

        Without a center every D_t counts as zero.
        """
        running = self._running(smoothing)
        return running[-1] if running else 0

    def find(self, target: int, smoothing: int | None) -> int:
        """Return the point at which the running sum of ``total`` passes ``target``."""
        running = self._running(smoothing)
        block = bisect_right(running, target)
        target -= running[block - 1] if block else 0
        rows = slice(block * kernels.BLOCK, (block + 1) * kernels.BLOCK)
        masses = self._masses(rows, smoothing)
        place = next(place for place, sum_ in enumerate(accumulate(masses)) if sum_ > target)
        return rows.start + place

    def _masses(self, rows: slice, smoothing: int | None) -> list[int]:
        count = len(self._points[rows])
        weights = self._weights[rows].tolist() if self._weights.size else [1] * count
        if smoothing is None:
            return weights
        distances = self.nearest[rows].tolist()
        pairs = zip(weights, distances, strict=True)
        return [weight * (distance + smoothing) for weight, distance in pairs]

    def _running(self, smoothing: int | None) -> list[int]:
        """Return the running sums over blocks: Python integers."""
        weights = self._block_weights()
        if smoothing is None:
            return list(accumulate(weights))
        pairs = zip(self.block_sums(), weights, strict=True)
        return list(accumulate(total + weight * smoothing for total, weight in pairs))

    def _block_weights(self) -> list[int]:
        n_blocks, size = len(self._sums), kernels.BLOCK
        if self._weights.size:
            sums: list[int] = np.add.reduceat(self._weights, np.arange(n_blocks) * size).tolist()
            return sums
        counts = [size] * n_blocks
        if counts:
            counts[-1] = len(self._points) - size * (n_blocks - 1)
        return counts


def heaviest_exact(diam2_squared: int) -> int:
    """Return what a row may weigh, so that squared distances of a block cannot overflow."""
    return LARGEST_INT64 // (kernels.BLOCK * max(1, diam2_squared))


def check_exact(diam2_squared: int, heaviest: int) -> None:
    """Refuse a grid on which the weighted squared distances of a block could overflow."""
    if heaviest > heaviest_exact(diam2_squared):
        raise UsageError(
            "the grid is too fine for exact sums of squared distances: use fewer columns."
        )


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
        total = self._distances.total(self._smoothing)
        if total == 0:
            return None
        return self._distances.find(self._below(total), self._smoothing)

    def plainly(self, round_: int) -> int:  # noqa: ARG002
        """Pick uniformly."""
        return self._distances.find(self._below(self._distances.total(None)), None)
