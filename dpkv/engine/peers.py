"""All nodes together, as a coordinator sees them: sizes, sums and proposals, never records."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from dpkv.engine.reply_checks import MalformedReply, Shape
from dpkv.engine.requests import Describe, ExactClusterSums, NodeRequest, Propose, Spread, Sum
from dpkv.engine.transport import Transport
from dpkv.errors import EngineError, ParameterError, UsageError
from dpkv.seeding.nearest import SquaredNearest
from dpkv.seeding.potentials import LloydResult, lloyd_iterations
from dpkv.types import Float64s, Floats


class Peers:
    """Nodes whose records are one table that nobody holds: node by node, row by row."""

    def __init__(self, transport: Transport) -> None:
        if not transport.n_nodes:
            raise ParameterError("shards", "at least one", 0)
        self._transport = transport
        self._shards: list[Shape] = [Shape(0, 0)] * transport.n_nodes  # until they describe it
        self._shards = self.ask_all(Describe())
        self.sizes = tuple(shard.n_records for shard in self._shards)
        widths = {shard.n_features for shard in self._shards}
        if len(widths) > 1:
            raise UsageError("the shards differ in their columns: use the same ones of each.")
        (self.n_features,) = widths
        self.n_records = sum(self.sizes)
        self._starts: list[int] = [0, *accumulate(self.sizes)]

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return self._transport.n_nodes

    def ask(self, node: int, request: NodeRequest) -> Any:
        """Return one node's answer."""
        return self._accept(node, request, self._transport.ask(node, request))

    def ask_all(self, request: NodeRequest) -> list[Any]:
        """Return every node's answer to the same request."""
        return self.ask_each([request] * self.n_nodes)

    def ask_each(self, requests: Sequence[NodeRequest]) -> list[Any]:
        """Return every node's answer to its own request."""
        answers = self._transport.ask_each(requests)
        if len(answers) != self.n_nodes:
            raise EngineError(
                f"{len(answers)} replies came from {self.n_nodes} nodes: check the transport."
            )
        pairs = zip(requests, answers, strict=True)
        return [self._accept(node, *pair) for node, pair in enumerate(pairs)]

    def _accept(self, node: int, request: NodeRequest, reply: Any) -> Any:
        try:
            return request.accept(reply, self._shards[node])
        except MalformedReply:
            raise EngineError(
                f"node {node + 1} of {self.n_nodes} sent a malformed reply to "
                f"{type(request).__name__}, which is not used: check that node and its version of "
                "dpkv."
            ) from None

    def place(self, index: int) -> tuple[int, int]:
        """Return the node of a record of the whole table, and its row there."""
        node = bisect_right(self._starts, index) - 1
        return node, index - self._starts[node]

    def first_row(self, node: int) -> int:
        """Return where a node's records begin in the whole table."""
        return self._starts[node]

    def clusters(self, centers: Float64s) -> tuple[Float64s, Float64s, float]:
        """Return the sum of records and the count of each cluster, and the potential."""
        sums, masses, potentials = zip(*self.ask_all(ExactClusterSums(centers)), strict=True)
        return np.sum(sums, axis=0), np.sum(masses, axis=0), float(sum(potentials))

    def potential(self, centers: Floats) -> float:
        """Return phi of all records together."""
        return self.clusters(np.asarray(centers, dtype=np.float64))[2]

    def lloyd(
        self, centers: Floats, progress: Callable[[float], None] | None = None
    ) -> LloydResult:
        """Run Lloyd's iterations on all records together."""
        start = np.asarray(centers, dtype=np.float64)
        return lloyd_iterations(self.clusters, start, progress=progress)

    def spread(self) -> float:
        """Return phi_s^F, the spread of the Forgy nodes (Theorem 2, distributed seeding)."""
        return float(sum(self.ask_all(Spread())))


class PeerDistances:
    """Out-of-date distances of all nodes' records; nodes give their sums and take proposals."""

    def __init__(self, peers: Peers, *, tell_rows: bool) -> None:
        self.n_records, self.n_features = peers.n_records, peers.n_features
        self.dtype = np.dtype(np.float64)
        self.centers = np.empty((0, peers.n_features))
        self.cuts: tuple[int, ...] = ()
        self._peers = peers
        self._tell_rows = tell_rows
        self._running = np.empty(0)

    def lower(self, centers: Floats, smoothing: float = 0.0) -> float:
        """Have every node account for ``centers`` in one pass and send its sum."""
        assert smoothing == 0.0
        self.centers = np.vstack([self.centers, centers])
        self.cuts = (*self.cuts, len(self.centers))
        self._running = np.cumsum(self._peers.ask_all(Sum(self.centers, self.cuts)))
        return float(self._running[-1])

    def propose(self, uniforms: Float64s, pending: Floats, smoothing: float = 0.0) -> int:
        """Have nodes propose in turn; return a row of the whole table, or -1.

        The row is the node's first where nodes do not tell which of their records they took.
        """
        assert smoothing == 0.0
        known = np.vstack([self.centers, pending])
        for share, coin in uniforms:
            target = share * self._running[-1]
            node = int(np.searchsorted(self._running, target, side="right"))
            node = min(node, len(self._running) - 1)
            while node > 0 and self._running[node] == self._running[node - 1]:
                node -= 1  # the product rounded up to the total, and the last nodes weigh nothing
            before = self._running[node - 1] if node else 0.0
            proposal = Propose(known, self.cuts, float(target - before), coin, self._tell_rows)
            row = self._peers.ask(node, proposal)
            if row >= 0:
                return self._peers.first_row(node) + int(row)
        return -1


@dataclass(frozen=True, eq=False)
class PeerPicker:
    """Picks records of the whole table by rejection, or nodes that hold them."""

    peers: Peers
    nearest: SquaredNearest
    rng: np.random.Generator
    uniform_node_first: bool
    measures: bool = True

    def add(self, center: Floats) -> None:
        """Let one more center wait."""
        self.nearest.add(center)

    def by_distance(self) -> int | None:
        """Pick in proportion to D_t, or None where that is zero everywhere."""
        return self.nearest.draw(0.0, self.rng)

    def plainly(self, round_: int) -> int:
        """Pick a uniform record; of a uniform node in round 1 of dk-means++."""
        if round_ == 1 and self.uniform_node_first:
            return self.peers.first_row(int(self.rng.integers(self.peers.n_nodes)))
        return int(self.rng.integers(self.peers.n_records))
