"""Algorithm 0 over nodes: dk-means++, protected and private, and k-means++ of a divided table.

All three are ``seeding_rounds``, the one seeding loop, with nodes behind the picks and draws
(Table 3): identity probes, and as densities a uniform record of the picked record's shard
(protected), the same through noise (private), or the picked record itself (k-means++).

A round picks a node in proportion to D_t(A_i). Instead of having every node send its newest sum
every round, as the paper writes it, nodes are proposed by older sums, which are larger, and refuse
in proportion to how much they have fallen: the same distribution (``seeding.nearest``), a fraction
of the passes, and the picks of a k-means++ run do not depend on how the table was divided. Private
dk-means++ sends noisy sums, which must not depend on what a record would have answered, so there
every node sends one every round.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from itertools import accumulate, count
from typing import SupportsIndex

import numpy as np

from dpkv.engine.peers import PeerDistances, PeerPicker, Peers
from dpkv.engine.private_plan import PrivatePlan
from dpkv.engine.requests import NoisyRecord, NoisySum, RecordAt, UniformRecord
from dpkv.errors import ParameterError
from dpkv.seeding.algorithm0 import Seeding, seeding_rounds
from dpkv.seeding.nearest import SquaredNearest
from dpkv.types import Floats, Integers, Progress
from dpkv.validation import as_generator, cluster_count


def partitioned_kmeans_plusplus(
    peers: Peers,
    n_clusters: SupportsIndex,
    *,
    rng: np.random.Generator | int | None = None,
    progress: Progress | None = None,
) -> Seeding:
    """Seed by k-means++ on the table that the nodes hold together.

    Makes the picks of ``kmeans_plusplus`` on that table with the same ``rng``, up to the rounding
    of sums.
    """
    k = cluster_count(n_clusters, peers.n_records)

    def draw(index: int) -> Floats:
        node, row = peers.place(index)
        center: Floats = peers.ask(node, RecordAt(row))
        return center

    return _by_proposals(peers, k, as_generator(rng), draw, progress, whole_table=True)


def dk_protected(
    peers: Peers,
    n_clusters: SupportsIndex,
    *,
    rng: np.random.Generator | int | None = None,
    run: str | None = None,
    progress: Progress | None = None,
) -> Seeding:
    """Seed by protected dk-means++: the coordinator picks a node, which sends a uniform record.

    ``indices`` are the numbers of the nodes. ``run`` names the run: nodes answer it alike again.
    """
    k = cluster_count(n_clusters, peers.n_records)
    name = secrets.token_hex(16) if run is None else run
    rounds = count(1)

    def draw(index: int) -> Floats:
        node, _ = peers.place(index)
        center: Floats = peers.ask(node, UniformRecord(name, next(rounds)))
        return center

    found = _by_proposals(peers, k, as_generator(rng), draw, progress, whole_table=False)
    nodes = np.array([peers.place(int(index))[0] for index in found.indices])
    return Seeding(found.centers, nodes, found.draws, found.uniform_rounds)


def _by_proposals(
    peers: Peers,
    n_clusters: int,
    rng: np.random.Generator,
    draw: Callable[[int], Floats],
    progress: Progress | None,
    *,
    whole_table: bool,
) -> Seeding:
    nearest = SquaredNearest(PeerDistances(peers, tell_rows=whole_table))
    picker = PeerPicker(peers, nearest, rng, uniform_node_first=not whole_table)
    return seeding_rounds(
        n_clusters, picker, draw=draw, settle=lambda drawn: drawn, progress=progress
    )


def dk_private(
    peers: Peers,
    plan: PrivatePlan,
    *,
    below: Callable[[int], int] = secrets.randbelow,
    run: str | None = None,
    progress: Progress | None = None,
) -> Seeding:
    """Seed by private dk-means++ (Theorem B, see ``private_plan``).

    Centers and draws are points of the plan's grid, and ``indices`` the numbers of the nodes.
    ``below`` draws for the coordinator, whose picks are post-processing of noisy sums.
    """
    if peers.sizes != plan.shard_sizes:
        raise ParameterError("plan", f"for shards of {plan.shard_sizes} records", str(peers.sizes))
    name = secrets.token_hex(16) if run is None else run
    rounds = count(1)

    def draw(node: int) -> Integers:
        question = NoisyRecord(plan.grid, plan.noise_scale, name, next(rounds))
        drawn: Integers = peers.ask(node, question)
        return drawn

    def settle(drawn: Integers) -> Integers:
        return np.asarray(plan.grid.clip(drawn[np.newaxis])[0])

    picker = NoisyNodePicker(peers, plan, below, name)
    return seeding_rounds(plan.n_clusters, picker, draw=draw, settle=settle, progress=progress)


class NoisyNodePicker:
    """Picks a node by its noisy sum, or its exact one plus smoothing; if all are 0, uniformly."""

    measures = True

    def __init__(
        self, peers: Peers, plan: PrivatePlan, below: Callable[[int], int], run: str
    ) -> None:
        self._peers = peers
        self._plan = plan
        self._below = below
        self._run = run
        self._centers = np.empty((0, plan.grid.n_features), np.int64)

    def add(self, center: Integers) -> None:
        """Publish one more center."""
        self._centers = np.vstack([self._centers, center])

    def by_distance(self) -> int | None:
        """Ask every node for its noisy sum and pick by those that are positive."""
        cuts = tuple(range(1, len(self._centers) + 1))
        plan = self._plan
        question = NoisySum(plan.grid, plan.sum_scale, self._run, self._centers, cuts)
        sums = zip(self._peers.ask_all(question), plan.shard_sizes, strict=True)
        running = list(accumulate(max(0, total) + plan.smoothing * size for total, size in sums))
        if running[-1] == 0:
            return None
        target = self._below(running[-1])
        return next(node for node, sum_ in enumerate(running) if sum_ > target)

    def plainly(self, round_: int) -> int:  # noqa: ARG002
        """Pick a uniform node."""
        return self._below(self._peers.n_nodes)
