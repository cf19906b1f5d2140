"""What a coordinator may ask a node, and what the node answers: every message there is.

A request is frozen data, all of it public to the nodes. Its answer is a function of the request,
the shard and the node's secret alone, so asking twice gives the same answer. ``centers`` are all
centers published so far, and ``cuts`` says after how many of them each pass was made.

``answer`` runs on the node, ``accept`` on the coordinator, which believes no reply unseen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from dpkv import kernels
from dpkv.engine import reply_checks
from dpkv.engine.node import Cuts, Node, check_centers
from dpkv.engine.reply_checks import Shape
from dpkv.grid import Grid
from dpkv.seeding.algorithm0 import kvariates
from dpkv.seeding.potentials import lloyd
from dpkv.types import Float64s, Floats, Integers

FARTHEST = 2**62
"""Noisy coordinates beyond it are cut: no difference from a point of a grid can overflow."""
_LOCAL_STEPS = 5


class NodeRequest(Protocol):
    """A question to a node."""

    def answer(self, node: Node) -> Any:
        """Return what the node sends back."""

    def accept(self, reply: Any, shard: Shape) -> Any:
        """Return a reply of the right form, or raise ``MalformedReply``."""


@dataclass(frozen=True, eq=False)
class Describe:
    """How many records and columns there are. Both are public."""

    def answer(self, node: Node) -> tuple[int, int]:
        """Return m_i and d."""
        n_records, n_features = node.working.shape
        return n_records, n_features

    def accept(self, reply: Any, shard: Shape | None = None) -> Shape:  # noqa: ARG002
        """Return how large the shard is."""
        n_records, n_features = reply_checks.parts(reply, 2)
        most = reply_checks.MOST_RECORDS
        return Shape(
            reply_checks.whole(n_records, at_least=1, at_most=most),
            reply_checks.whole(n_features, at_least=1, at_most=most),
        )


@dataclass(frozen=True, eq=False)
class Sum:
    """D_t(A_i), exactly: for a coordinator that is trusted with it."""

    centers: Floats
    cuts: Cuts

    def answer(self, node: Node) -> float:
        """Return the summed squared distances to the nearest centers."""
        return node.distances(self.centers, self.cuts).total

    def accept(self, reply: Any, shard: Shape) -> float:  # noqa: ARG002
        """Return the sum, checked."""
        return reply_checks.total(reply)


@dataclass(frozen=True, eq=False)
class Propose:
    """Draw a record from out-of-date distances and take it or refuse it by the newest centers.

    The distances are as after ``cuts``; ``target`` is where in their sum the record stands.
    """

    centers: Floats
    cuts: Cuts
    target: float
    coin: float
    tell_row: bool

    def answer(self, node: Node) -> int:
        """Return the record's row (0 where it is not asked for), or -1 when it was refused."""
        distances = node.distances(self.centers, self.cuts)
        if not distances.total:
            return -1
        share = np.array([[min(self.target / distances.total, 1.0), self.coin]])
        pending = np.asarray(self.centers[self.cuts[-1] :], dtype=distances.dtype)
        row = distances.propose(share, pending, 0.0)
        return row if self.tell_row else min(row, 0)

    def accept(self, reply: Any, shard: Shape) -> int:
        """Return the row, checked."""
        return reply_checks.whole(reply, at_least=-1, at_most=shard.n_records - 1)


@dataclass(frozen=True, eq=False)
class RecordAt:
    """The record in a row: k-means++ publishes it as a center."""

    row: int

    def answer(self, node: Node) -> Float64s:
        """Return the record."""
        return np.asarray(node.working[self.row], dtype=np.float64)

    def accept(self, reply: Any, shard: Shape) -> Float64s:
        """Return the record, checked."""
        return reply_checks.floats(reply, shard.n_features)


@dataclass(frozen=True, eq=False)
class UniformRecord:
    """A uniform record of the shard, Forgy's way: a center of protected dk-means++."""

    run: str
    round: int

    def answer(self, node: Node) -> Float64s:
        """Return a record, always the same for a round of a run."""
        row = node.entropy("uniform record", self.run, self.round).below(node.n_records)
        return np.asarray(node.working[row], dtype=np.float64)

    def accept(self, reply: Any, shard: Shape) -> Float64s:
        """Return the record, checked."""
        return reply_checks.floats(reply, shard.n_features)


@dataclass(frozen=True, eq=False)
class NoisyRecord:
    """A uniform record plus discrete Laplace noise: a center of private dk-means++."""

    grid: Grid
    scale: float
    run: str
    round: int

    def answer(self, node: Node) -> Integers:
        """Return a noisy grid point, always the same for a round of a run."""
        points = node.points(self.grid)
        asked = self.scale.hex(), self.run, self.round
        entropy = node.grid_entropy(self.grid, "noisy record", *asked)
        record = points[entropy.below(len(points))].tolist()
        noisy = [value + entropy.laplace(self.scale) for value in record]
        return np.asarray([max(-FARTHEST, min(FARTHEST, value)) for value in noisy], np.int64)

    def accept(self, reply: Any, shard: Shape) -> Integers:  # noqa: ARG002
        """Return the noisy point, checked."""
        return reply_checks.integers(reply, self.grid.n_features, farthest=FARTHEST)


@dataclass(frozen=True, eq=False)
class NoisySum:
    """D_t(A_i) on the grid plus discrete Laplace noise (exact where ``scale`` is 0).

    The draw also depends on the centers: the same noise on two sums would give their difference.
    """

    grid: Grid
    scale: float
    run: str
    centers: Integers
    cuts: Cuts

    def answer(self, node: Node) -> int:
        """Return a noisy sum, always the same for the same centers of a run."""
        total = node.exact_sum(self.grid, self.centers, self.cuts)
        asked = self.scale.hex(), self.run, np.asarray(self.centers, dtype="<i8").tobytes()
        entropy = node.grid_entropy(self.grid, "noisy sum", *asked)
        return total + entropy.laplace(self.scale)

    def accept(self, reply: Any, shard: Shape) -> int:  # noqa: ARG002
        """Return the noisy sum, checked; noise may take it below zero."""
        return reply_checks.whole(reply, at_least=None if self.scale else 0)


@dataclass(frozen=True, eq=False)
class ExactClusterSums:
    """What a Lloyd iteration and the potential need."""

    centers: Float64s

    def answer(self, node: Node) -> tuple[Float64s, Float64s, float]:
        """Return the sum of records and the count of each cluster, and the potential."""
        check_centers(self.centers, (len(self.centers),), node.working)
        return kernels.clusters(node.working, self.centers)

    def accept(self, reply: Any, shard: Shape) -> tuple[Float64s, Float64s, float]:
        """Return the sums, the counts and the potential, checked."""
        sums, counts, potential = reply_checks.parts(reply, 3)
        k = len(self.centers)
        return (
            reply_checks.floats(sums, k, shard.n_features),
            reply_checks.weights(counts, k),
            reply_checks.total(potential),
        )


@dataclass(frozen=True, eq=False)
class Spread:
    """The shard's part of phi_s^F (Theorem 2, distributed seeding)."""

    def answer(self, node: Node) -> float:
        """Return the summed squared distances to the shard's own mean."""
        sums, masses, _ = kernels.clusters(node.working, node.working[:1])
        return kernels.clusters(node.working, sums / masses[:, np.newaxis])[2]

    def accept(self, reply: Any, shard: Shape) -> float:  # noqa: ARG002
        """Return the sum, checked."""
        return reply_checks.total(reply)


@dataclass(frozen=True, eq=False)
class Oversample:
    """k-means||: take every record with probability min(1, ``rate`` times its distance)."""

    centers: Floats
    cuts: Cuts
    rate: float
    run: str
    round: int

    def answer(self, node: Node) -> Float64s:
        """Return the records taken."""
        rng = np.random.default_rng(node.entropy("oversample", self.run, self.round).coins())
        nearest = node.distances(self.centers, self.cuts).nearest
        taken = rng.random(len(nearest)) < self.rate * nearest
        return node.working[taken].astype(np.float64)

    def accept(self, reply: Any, shard: Shape) -> Float64s:
        """Return the records, checked."""
        return reply_checks.floats(reply, None, shard.n_features)


@dataclass(frozen=True, eq=False)
class LocalCost:
    """Coreset, first round: what the node's own k-means costs."""

    n_clusters: int
    run: str

    def answer(self, node: Node) -> float:
        """Return the potential of the node's own centers."""
        return local_solution(node, self.n_clusters, self.run)[1]

    def accept(self, reply: Any, shard: Shape) -> float:  # noqa: ARG002
        """Return the cost, checked."""
        return reply_checks.total(reply)


@dataclass(frozen=True, eq=False)
class CoresetSample:
    """Coreset, second round: ``size`` records by their cost, and the node's own centers.

    ``price`` is the cost of all nodes together over the size of the whole sample.
    """

    n_clusters: int
    run: str
    size: int
    price: float

    def answer(self, node: Node) -> tuple[Float64s, Float64s]:
        """Return weighted points: a record of cost c weighs price / c, a center what is left."""
        centers, _ = local_solution(node, self.n_clusters, self.run)
        labels, costs, total = kernels.assign_nearest(node.working, centers)
        counts = np.bincount(labels, minlength=len(centers)).astype(np.float64)
        if not total or not self.size:
            return centers.astype(np.float64), counts
        rng = np.random.default_rng(node.entropy("coreset", self.run).coins())
        rows = rng.choice(
            len(costs), self.size, p=costs.astype(np.float64) / costs.sum(dtype=float)
        )
        weights = self.price / costs[rows].astype(np.float64)
        sampled = np.bincount(labels[rows], weights=weights, minlength=len(centers))
        # A cluster weighs what it holds: its center takes what is left, or its sample shrinks.
        weights *= (counts / np.maximum(sampled, counts))[labels[rows]]
        points = np.concatenate([node.working[rows], centers]).astype(np.float64)
        return points, np.concatenate([weights, np.maximum(counts - sampled, 0.0)])

    def accept(self, reply: Any, shard: Shape) -> tuple[Float64s, Float64s]:
        """Return the points and their weights, checked."""
        points, weights = reply_checks.parts(reply, 2)
        found = reply_checks.floats(points, None, shard.n_features)
        return found, reply_checks.weights(weights, len(found))


def local_solution(node: Node, n_clusters: int, run: str) -> tuple[Floats, float]:
    """Return the node's own k-means: always the same for a run."""
    rng = np.random.default_rng(node.entropy("local solution", run).coins())
    k = min(n_clusters, node.n_records)
    end = lloyd(
        node.working, kvariates(node.working, k, rng=rng).centers, max_iterations=_LOCAL_STEPS
    )
    return end.centers, end.potential
