"""DPLloyd with a public start: Lloyd's iterations with noisy counts and noisy sums.

The start depends on the grid and k alone. In every iteration records go to their nearest center, in
exact integer distance; the clusters' counts, and the sums of the records' offsets from the domain's
middle, get discrete Laplace noise; a center moves to noisy sum / noisy count where the noisy count
is worth a division, and stays otherwise.

An iteration is two questions, whose file has the proof (``records/questions/clusters.py``). The
iterations compose by addition, the start is public, and everything after the noise is
post-processing.

The share of counts and sums, and the number of iterations, follow Su, Cao, Li, Bertino and Jin
(2016): sums get d shares and counts (4 d rho^2)^(1/3) with rho = 0.225, and there are as many
iterations, 2 to 7, as each still has the eps it needs. That number uses m where m is public.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np

from dpkv.accounting import ROW, Neighbours, Step, Unit
from dpkv.accounting.exact import float_below
from dpkv.accounting.split import Split
from dpkv.grid import Grid
from dpkv.mechanisms.clusters import NO_DISTANCES, ClusterEstimates, fit_total
from dpkv.mechanisms.mechanism import (
    GRID_STEPS,
    RECORDS,
    Mechanism,
    Noise,
    Outcome,
    Proof,
    Terms,
    members,
    positive_or_pointless,
)
from dpkv.noise import smallest_scale
from dpkv.records.questions import (
    Ask,
    ClusterCounts,
    ClusterSums,
    cluster_counts_step,
    cluster_sums_step,
)
from dpkv.seeding.potentials import lloyd
from dpkv.types import Integers
from dpkv.validation import MOST_ITERATIONS, positive_finite, whole_number

_RHO = 0.225
_FEWEST, _MOST, _WITHOUT_M = 2, 7, 5
_START_POINTS, _START_STEPS = 256, 30
_MISSED_BY_THE_START, _ERROR_OF_THE_START = 0.1, 0.5
_TELLING_RECORDS = 200
_LARGEST_SCALE = 1e100  # the square of more is beyond floats, and an error bar as good as none
_WORTH_DIVIDING = 3.0  # noisy counts below so many scales of their noise are mostly noise


@dataclass(frozen=True)
class Lloyd(Mechanism):
    """Lloyd's iterations from a public start, on noisy counts and sums."""

    iterations: int
    count_scale: float
    sum_scale: float

    name: ClassVar[str] = "lloyd"
    title: ClassVar[str] = "DPLloyd with a public start"
    why: ClassVar[str] = "counts and sums of bounded sensitivity"
    knows_units: ClassVar[bool] = True
    takes_iterations: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("iterations", self.iterations, at_least=1, at_most=MOST_ITERATIONS)
        positive_finite("count_scale", self.count_scale)
        positive_or_pointless(self.sum_scale, self.grid, "sum_scale")

    @classmethod
    def for_terms(cls, terms: Terms) -> Lloyd:
        """Return the mechanism that costs at most eps."""
        return cls.calibrate(
            terms.eps,
            n_clusters=terms.n_clusters,
            grid=terms.grid,
            neighbours=terms.neighbours,
            n_records=terms.n_records,
            iterations=terms.iterations,
            unit=terms.unit,
        )

    @classmethod
    def calibrate(
        cls,
        eps: Decimal,
        *,
        n_clusters: int,
        grid: Grid,
        neighbours: Neighbours,
        n_records: int | None = None,
        iterations: int | None = None,
        unit: Unit = ROW,
    ) -> Lloyd:
        """Return the mechanism that costs at most ``eps``.

        ``n_records`` helps to choose the iterations where m is public, and is ignored where not.
        """
        if neighbours is Neighbours.ADD_REMOVE:
            n_records = None
        if iterations is None:
            iterations = _worthwhile(float(eps), n_records, n_clusters, grid.n_features, neighbours)
        whole_number("iterations", iterations, at_least=1, at_most=MOST_ITERATIONS)
        share = _count_share(grid.n_features)
        counts, sums = Split.of(eps, share, 1.0 - share, times=iterations).parts
        changed = unit.changed(neighbours)
        return cls(
            n_clusters=n_clusters,
            grid=grid,
            neighbours=neighbours,
            iterations=iterations,
            count_scale=smallest_scale(changed, float_below(counts)),
            sum_scale=smallest_scale(changed * grid.radius1, float_below(sums)),
            unit=unit,
        )

    @property
    def proof(self) -> Proof:
        """Counts and sums of bounded sensitivity."""
        return "sensitivity"

    def schedule(self) -> Iterator[Step]:
        """Return the counts and the sums of every iteration."""
        counts = cluster_counts_step(self.count_scale, self.neighbours, self.unit)
        sums = cluster_sums_step(self.grid, self.sum_scale, self.neighbours, self.unit)
        for _ in range(self.iterations):
            yield counts
            yield sums

    def noises(self) -> tuple[Noise, ...]:
        """Return the noise of counts and of sums."""
        return (
            Noise("cluster-count", self.count_scale, RECORDS, per=self.unit.per),
            Noise("cluster-sum-coordinate", self.sum_scale, GRID_STEPS, per=self.unit.per),
        )

    def parameters(self) -> dict[str, Any]:
        """Return iterations and noise."""
        return {
            "iterations": self.iterations,
            "count_scale": self.count_scale,
            "sum_scale": self.sum_scale,
        }

    def _predicted_error(self, n_shares: int) -> float:
        """The noise of a sum counts over the records of a cluster.

        A public start misses clusters, which iterations rarely mend. Where noise drowns everything
        the centers stay at that start, which is spread over the domain and better than noise.
        """
        missed = _MISSED_BY_THE_START if self.n_clusters > 1 else 0.0
        share = self._noise_share(members(n_shares, self.n_clusters))
        return min(share**2 + missed, _ERROR_OF_THE_START)

    @property
    def error_without_data(self) -> float:
        """That of the public start."""
        return _ERROR_OF_THE_START

    @property
    def untold(self) -> str | None:
        """Counts and sums know nothing of distances."""
        return NO_DISTANCES

    def telling_sizes(self, n_clusters: int) -> tuple[tuple[int, int], ...]:
        """A center moves only for many records."""
        return (_TELLING_RECORDS, 1), (_TELLING_RECORDS, n_clusters)

    def most_telling(self) -> Lloyd:
        """Return the mechanism with all its eps in one iteration: only the last one is seen."""
        return replace(
            self,
            iterations=1,
            count_scale=self.count_scale / self.iterations,
            sum_scale=self.sum_scale / self.iterations,
        )

    def run(self, ask: Ask) -> Outcome:
        """Iterate, two questions a time."""
        centers = public_start(self.grid, self.n_clusters)
        worth = max(1, math.ceil(_WORTH_DIVIDING * self.count_scale))
        heard = []
        for _ in range(self.iterations):
            counts = ask(ClusterCounts(centers, self.count_scale))[:, np.newaxis]
            offsets = ask(ClusterSums(centers, self.grid, self.sum_scale))
            moved = self.grid.middle + np.floor_divide(offsets, np.maximum(counts, 1))
            centers = self.grid.clip(np.where(counts >= worth, moved, centers))
            heard.append(counts[:, 0])
        return Outcome(centers, clusters=self._estimates(centers, heard, ask.public_size))

    def _estimates(
        self, centers: Integers, heard: list[Integers], n_records: int | None
    ) -> ClusterEstimates:
        """Return what the last counts say, and how far off noise may have put the centers.

        The counts are of clusters around the centers before they moved for the last time. How much
        such a move changes is told by the counts before.
        """
        counts = heard[-1].astype(np.float64)
        scales = (min(scale, _LARGEST_SCALE) for scale in (self.count_scale, self.sum_scale))
        of_count, of_sum = (2.0 * scale**2 for scale in scales)
        total = self.public_shares(n_records)
        sizes, noise = fit_total(counts, np.full(len(counts), of_count), total)
        drift = np.zeros(len(counts))
        if len(heard) > 1:
            own = np.square(heard[-1] - heard[-2]).astype(np.float64) - 2.0 * of_count
            drift = (np.maximum(own - 4.0 * of_count, 0.0) + max(own.mean(), 0.0)) / 2.0
        least = _WORTH_DIVIDING * min(self.count_scale, _LARGEST_SCALE)
        offsets = (centers - self.grid.middle).astype(np.float64)
        variance = (of_sum + of_count * offsets**2) / np.maximum(counts, least)[:, np.newaxis] ** 2
        told = ClusterEstimates(np.sqrt(variance), sizes, np.sqrt(noise + drift))
        return told.worth(self.unit.counted(1.0))


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
