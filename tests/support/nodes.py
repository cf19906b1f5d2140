"""Nodes of this process, and nodes that draw what a test says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpkv.engine import LocalTransport, Node, Peers, RecordingTransport
from dpkv.engine.shards import ShardRecords, simulate_secret
from support.branching import Branching


def make_node(records: Any, number: int = 0, seed: int = 1, working: Any = None) -> Node:
    """Return a node with a secret of its own; ``working`` are the records unless given."""
    original = np.asarray(records)
    work = original if working is None else np.asarray(working)
    return Node(ShardRecords(original, work), simulate_secret(seed, number))


def make_nodes(shards: Sequence[Any], seed: int = 1) -> list[Node]:
    return [make_node(shard, number, seed) for number, shard in enumerate(shards)]


def make_peers(shards: Sequence[Any], seed: int = 1) -> Peers:
    return Peers(LocalTransport(make_nodes(shards, seed)))


def recorded(shards: Sequence[Any], seed: int = 1) -> tuple[Peers, RecordingTransport]:
    transport = RecordingTransport(LocalTransport(make_nodes(shards, seed)))
    return Peers(transport), transport


class _BranchingDraws:
    """Keyed entropy's draws, taken from every branch in turn."""

    def __init__(self, branching: Branching) -> None:
        self.below = branching.below
        self._branching = branching

    def laplace(self, scale: float) -> int:
        if scale == 0.0:
            return 0
        return int(self._branching.add_laplace(np.zeros(1, np.int64), scale)[0])


class BranchingNode(Node):
    """A node whose draws a path fixes, in place of its secret."""

    def __init__(self, records: Any, branching: Branching) -> None:
        super().__init__(ShardRecords(np.asarray(records, float), np.asarray(records, float)))
        self._draws = _BranchingDraws(branching)

    def entropy(self, *_context: str | int | bytes) -> Any:
        return self._draws
