"""DPLloyd with a public start: Lloyd's iterations with noisy counts and noisy sums.

The start depends on the grid and k alone. In every iteration records go to their nearest center, in
exact integer distance; the clusters' counts, and the sums of the records' offsets from the domain's
middle, get discrete Laplace noise; a center moves to noisy sum / noisy count where the noisy count
is worth a division, and stays otherwise.

Proof "sensitivity". Fix the centers so far; a record's cluster is then a function of the record
alone. A record adds 1 to one count, and to one sum an offset of L1 norm at most radius1. So adding
or removing a record changes the counts by 1 and the sums by radius1 in L1, and replacing one by
twice that (also within a cluster: the offsets differ by at most 2 radius1). The iterations compose
by addition, the start is public, and everything after the noise is post-processing.

The share of counts and sums, and the number of iterations, follow Su, Cao, Li, Bertino and Jin
(2016): sums get d shares and counts (4 d rho^2)^(1/3) with rho = 0.225, and there are as many
iterations, 2 to 7, as each still has the eps it needs. That number uses m where m is public.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np

from dpkv import kernels
from dpkv.grid import Grid
from dpkv.kernels import Integers
from dpkv.mechanisms.mechanism import (
    GRID_STEPS,
    RECORDS,
    Mechanism,
    Neighbours,
    Noise,
    Proof,
    Step,
    laplace_step,
    positive_or_pointless,
)
from dpkv.mechanisms.split import Split
from dpkv.noise import Entropy, smallest_scale
from dpkv.seeding.potentials import lloyd
from dpkv.validation import float_below, positive_finite, whole_number

_RHO = 0.225
_FEWEST, _MOST, _WITHOUT_M = 2, 7, 5
_START_POINTS, _START_STEPS = 256, 30
_WORTH_DIVIDING = 3.0  # noisy counts below so many scales of their noise are mostly noise


@dataclass(frozen=True)
class Lloyd(Mechanism):
    """Lloyd's iterations from a public start, on noisy counts and sums."""

    iterations: int
    count_scale: float
    sum_scale: float

    name: ClassVar[str] = "lloyd"
    title: ClassVar[str] = "DPLloyd with a public start"

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("iterations", self.iterations, at_least=1)
        positive_finite("count_scale", self.count_scale)
        positive_or_pointless(self.sum_scale, self.grid, "sum_scale")

    @classmethod
    def calibrated(
        cls,
        eps: Decimal,
        *,
        n_clusters: int,
        grid: Grid,
        neighbours: Neighbours,
        n_records: int | None = None,
        iterations: int | None = None,
    ) -> Lloyd:
        """Return the mechanism that costs at most ``eps``.

        ``n_records`` helps to choose the iterations where m is public, and is ignored where not.
        """
        if neighbours is Neighbours.ADD_REMOVE:
            n_records = None
        if iterations is None:
            iterations = _worthwhile(float(eps), n_records, n_clusters, grid.n_features, neighbours)
        whole_number("iterations", iterations, at_least=1)
        share = _count_share(grid.n_features)
        counts, sums = Split.of(eps, share, 1.0 - share, times=iterations).parts
        changed = neighbours.changed_records
        return cls(
            n_clusters=n_clusters,
            grid=grid,
            neighbours=neighbours,
            iterations=iterations,
            count_scale=smallest_scale(changed, float_below(counts)),
            sum_scale=smallest_scale(changed * grid.radius1, float_below(sums)),
        )

    @property
    def proof(self) -> Proof:
        """Counts and sums of bounded sensitivity."""
        return "sensitivity"

    def steps(self) -> tuple[Step, ...]:
        """Return the counts and the sums of every iteration."""
        changed, times = self.neighbours.changed_records, self.iterations
        sums = changed * self.grid.radius1
        return (
            laplace_step("counts of the clusters", changed, self.count_scale, times),
            laplace_step("sums of the clusters", sums, self.sum_scale, times),
        )

    def noises(self) -> tuple[Noise, ...]:
        """Return the noise of counts and of sums."""
        return (
            Noise("each count", self.count_scale, RECORDS),
            Noise("each coordinate of each sum", self.sum_scale, GRID_STEPS),
        )

    def parameters(self) -> dict[str, Any]:
        """Return iterations and noise."""
        return {
            "iterations": self.iterations,
            "count_scale": self.count_scale,
            "sum_scale": self.sum_scale,
        }

    def _run(self, points: Integers, entropy: Entropy) -> Integers:
        centers = public_start(self.grid, self.n_clusters)
        worth = max(1, math.ceil(_WORTH_DIVIDING * self.count_scale))
        middle = self.grid.middle
        for _ in range(self.iterations):
            sums, counts = kernels.integer_clusters(points, centers)
            offsets = entropy.add_laplace(sums - counts[:, np.newaxis] * middle, self.sum_scale)
            noisy = entropy.add_laplace(counts, self.count_scale)[:, np.newaxis]
            moved = middle + np.floor_divide(offsets, np.maximum(noisy, 1))
            centers = self.grid.clip(np.where(noisy >= worth, moved, centers))
        return centers


def public_start(grid: Grid, n_clusters: int) -> Integers:
    """Return k grid points spread over the domain: k-means of evenly spread points, not of data.

    The points are a Halton sequence, which is deterministic.
    """
    from scipy.stats import qmc  # noqa: PLC0415 (slow to import)

    n_points = max(_START_POINTS, 16 * n_clusters)
    uniform = qmc.Halton(grid.n_features, scramble=False).random(n_points + 1)[1:]
    points = grid.spread(uniform).astype(np.float64)
    first = np.linspace(0, n_points - 1, n_clusters).astype(np.int64)
    centers = lloyd(points, points[first], max_iterations=_START_STEPS).centers
    return grid.clip(np.rint(centers).astype(np.int64))


def _count_share(n_features: int) -> float:
    """Return the counts' share of an iteration's eps."""
    counts = math.cbrt(4.0 * n_features * _RHO**2)
    return counts / (counts + n_features)


def _worthwhile(
    eps: float, n_records: int | None, n_clusters: int, n_features: int, neighbours: Neighbours
) -> int:
    """Return how many iterations ``eps`` is enough for; a fixed number where m is private."""
    if n_records is None:
        return _WITHOUT_M
    shares = n_features + math.cbrt(4.0 * n_features * _RHO**2)
    needed = math.sqrt(500.0 * n_clusters**3 / n_records**2 * shares**3)
    return int(min(max(eps / (needed * neighbours.changed_records), _FEWEST), _MOST))
