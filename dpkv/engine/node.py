"""A node: one shard, its secret, and what follows from both and from the published centers.

Nothing that a node keeps is needed to go on: distances are rebuilt, bit by bit the same, from the
shard and the centers that come with every request, and draws are fixed by the secret. A node that
is lost is replaced by another with the same shard, and the run ends with the same result.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpkv.engine.shards import ShardRecords
from dpkv.errors import UsageError
from dpkv.grid import Grid
from dpkv.keyed_noise import SECRET_BYTES, KeyedEntropy
from dpkv.seeding.exact import ExactDistances
from dpkv.seeding.nearest import ArrayDistances
from dpkv.types import Floats, Integers
from dpkv.validation import as_records

Cuts = tuple[int, ...]
"""After how many centers each pass over the records was made: passes of other sizes round
differently."""


class _Lowered(Protocol):
    def take_in(self, centers: NDArray[Any]) -> None: ...


D = TypeVar("D", bound=_Lowered)


class _FloatDistances(ArrayDistances):
    """Distances that remember their total."""

    total = 0.0

    def take_in(self, centers: Floats) -> None:
        self.total = self.lower(np.ascontiguousarray(centers, dtype=self.dtype), 0.0)


class _GridDistances(ExactDistances):
    """Exact distances, under the same name for a pass."""

    def take_in(self, centers: Integers) -> None:
        self.add(centers)


class _SeedingProgress(Generic[D]):
    """Distances as they are after some passes, continued or begun anew as a request asks."""

    def __init__(self, begin: Callable[[], D]) -> None:
        self._begin = begin
        self._distances: D | None = None
        self._centers: NDArray[Any] = np.empty((0, 0))
        self._cuts: Cuts = ()

    def at(self, centers: NDArray[Any], cuts: Cuts) -> D:
        """Return the distances after the passes that ``cuts`` names."""
        if self._distances is None or not self._leads_to(centers, cuts):
            self._distances, self._cuts = self._begin(), ()
        done = self._cuts[-1] if self._cuts else 0
        for cut in cuts[len(self._cuts) :]:
            self._distances.take_in(centers[done:cut])
            done = cut
        self._centers, self._cuts = centers[:done], cuts
        return self._distances

    def _leads_to(self, centers: NDArray[Any], cuts: Cuts) -> bool:
        known = len(self._centers)
        same = self._cuts == cuts[: len(self._cuts)]
        return same and np.array_equal(self._centers, centers[:known])


def check_centers(centers: NDArray[Any], cuts: Cuts, records: NDArray[Any]) -> None:
    """Refuse centers of another width, and passes that are none: loops trust both."""
    if np.ndim(centers) != 2 or not len(centers) or centers.shape[1] != records.shape[1]:  # noqa: PLR2004
        raise UsageError("centers must be as wide as the records, and at least one.")
    ends = (0, *cuts)
    if not cuts or ends != tuple(sorted(set(ends))) or cuts[-1] > len(centers):
        raise UsageError("cuts must grow, up to the number of centers.")


class Node:
    """Answers requests about its own records. Safe to call from several threads."""

    def __init__(self, records: ShardRecords, secret: bytes | None = None) -> None:
        self.lock = threading.RLock()
        self.working = as_records(records.working)
        self._original = records.original
        self._secret = secrets.token_bytes(SECRET_BYTES) if secret is None else secret
        self._floats = _SeedingProgress(lambda: _FloatDistances(self.working, None))
        self._grid: Grid | None = None
        self._points: Integers = np.empty((0, 0), np.int64)
        self._fingerprint = b""
        self._integers: _SeedingProgress[_GridDistances] | None = None

    @property
    def n_records(self) -> int:
        """Number of records of the shard."""
        return len(self.working)

    def admit(self, request: Any) -> Any:
        """Return the request that is to be answered: any at all, of a node that is not bound."""
        return request

    def distances(self, centers: Floats, cuts: Cuts) -> _FloatDistances:
        """Return the records' distances after the passes that ``cuts`` names."""
        check_centers(centers, cuts, self.working)
        return self._floats.at(centers, cuts)

    def points(self, grid: Grid) -> Integers:
        """Return the records on the public grid."""
        if grid != self._grid:
            points, diam2_squared = grid.quantise(self._original), grid.diam2_squared
            self._fingerprint = hashlib.blake2b(np.ascontiguousarray(points).data).digest()
            self._grid, self._points = grid, points
            self._integers = _SeedingProgress(lambda: _GridDistances(points, diam2_squared))
        return self._points

    def exact_sum(self, grid: Grid, centers: Integers, cuts: Cuts) -> int:
        """Return D_t(A_i) on the grid, exactly.

        Centers must be points of the grid: beyond it a record could change the sum by more than the
        squared diameter, which the noise is made for. And all of them count: noise depends on the
        centers and not on the cuts, so two sums of which one left some out would have the same.
        """
        check_centers(centers, cuts, self.points(grid))
        if cuts[-1] != len(centers):
            raise UsageError("the last of cuts must be the number of centers.")
        if not np.array_equal(grid.clip(np.asarray(centers)), centers):
            raise UsageError("centers must be points of the grid.")
        assert self._integers is not None
        return sum(self._integers.at(centers, cuts).block_sums())

    def entropy(self, *context: str | int | bytes) -> KeyedEntropy:
        """Return the node's own draws for a question."""
        return KeyedEntropy(self._secret, *context)

    def grid_entropy(self, grid: Grid, *context: str | int | bytes) -> KeyedEntropy:
        """Return the node's own draws for a question about its points on a grid.

        They also depend on the points: the same noise on a shard before and after a change, for a
        run of the same name, would tell the change.
        """
        self.points(grid)
        return self.entropy(*context, repr(grid), self._fingerprint)
