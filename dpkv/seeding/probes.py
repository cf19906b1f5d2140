"""Probe functions: where a record is taken to be when distances are measured (Table 3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpkv import kernels
from dpkv.errors import ParameterError, UsageError
from dpkv.types import Floats

ProbeFunction = Callable[[int, Floats, Floats], Floats]
"""(round t starting at 1, records, centers so far) to the m probed points."""


class Probe(Protocol):
    """Maps the records to the points that distances are measured from."""

    @property
    def fixed(self) -> bool:
        """Whether every round probes alike; the loop then measures each center only once."""

    def locate(self, round_: int, data: Floats, centers: Floats) -> Floats:
        """Return probe_t(a) for every record a, in the order of ``data``."""

    def eligible(self, round_: int, n_records: int) -> NDArray[np.bool_] | None:
        """Return who may be picked when distances do not decide, or None for all.

        Distances do not decide in round 1, and in a round where all of them are zero.
        """


@dataclass(frozen=True)
class IdentityProbe:
    """Every record is probed to itself: k-means++."""

    fixed: bool = True

    def locate(self, round_: int, data: Floats, centers: Floats) -> Floats:  # noqa: ARG002
        """Return the records themselves, not a copy."""
        return data

    def eligible(self, round_: int, n_records: int) -> None:
        """Let every record be picked."""


@dataclass(frozen=True, eq=False)
class NearestPointProbe:
    """Every record is probed to the nearest of ``points``, a summary: sk-means++ (Theorem 3)."""

    points: Floats
    fixed: bool = True

    def locate(self, round_: int, data: Floats, centers: Floats) -> Floats:  # noqa: ARG002
        """Return each record's nearest point."""
        points = np.ascontiguousarray(self.points, dtype=data.dtype)
        if points.ndim != 2 or points.shape[1] != data.shape[1] or not len(points):  # noqa: PLR2004
            raise ParameterError(
                "points", f"a matrix with {data.shape[1]} columns", f"shape {points.shape}"
            )
        if not np.isfinite(points).all():
            raise UsageError("points must be finite numbers: clean them first.")
        return points[kernels.assign_nearest(data, points)[0]]

    def eligible(self, round_: int, n_records: int) -> None:
        """Let every record be picked."""


@dataclass(frozen=True, eq=False)
class MinibatchProbe:
    """Records of round t's minibatch are probed to themselves, the rest to their closest center.

    This is the reduction of ok-means++ (Theorem 4, minibatches): outside the minibatch every
    distance is zero, so round t picks inside minibatch t. ``batches[a]`` is the round, from 1, that
    record a belongs to. Round 1 picks uniformly in minibatch 1.
    """

    batches: NDArray[np.integer[Any]]
    fixed: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "batches", np.asarray(self.batches))

    def locate(self, round_: int, data: Floats, centers: Floats) -> Floats:
        """Return the records of this round's batch, and the closest center for the others."""
        probed = data.copy()
        if len(centers):
            outside = np.flatnonzero(~self.eligible(round_, len(data)))
            centers = centers.astype(data.dtype)
            probed[outside] = centers[kernels.assign_nearest(data[outside], centers)[0]]
        return probed

    def eligible(self, round_: int, n_records: int) -> NDArray[np.bool_]:
        """Let only the records of this round's batch be picked."""
        if self.batches.shape != (n_records,):
            raise ParameterError(
                "batches", f"one number per record, {n_records}", f"shape {self.batches.shape}"
            )
        return np.asarray(self.batches == round_)


@dataclass(frozen=True)
class CallableProbe:
    """Any function of the round, the records and the centers so far."""

    function: ProbeFunction
    fixed: bool = False

    def locate(self, round_: int, data: Floats, centers: Floats) -> Floats:
        """Call the function and check what it returns."""
        probed = np.ascontiguousarray(self.function(round_, data, centers), dtype=data.dtype)
        if probed.shape != data.shape:
            raise ParameterError(
                "probe", f"a function returning shape {data.shape}", f"shape {probed.shape}"
            )
        if not np.isfinite(probed).all():
            raise UsageError("probe must return finite numbers: check the function.")
        return probed

    def eligible(self, round_: int, n_records: int) -> None:
        """Let every record be picked."""
