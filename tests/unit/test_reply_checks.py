"""Malformed replies of a node are one sentence, never a NaN among the centres."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from support.nodes import make_nodes

from dpkv.domain import Box
from dpkv.engine import (
    LocalTransport,
    Peers,
    PrivatePlan,
    coreset_seeding,
    dk_private,
    dk_protected,
    kmeans_parallel,
    partitioned_kmeans_plusplus,
    requests,
)
from dpkv.engine.transport import Failure, open_reply
from dpkv.errors import EngineError

TABLE = np.random.default_rng(3).normal(size=(60, 2))
SHARDS = [TABLE[:20], TABLE[20:]]
GRID = Box((-5.0, -5.0), (5.0, 5.0)).grid()
PLAN = PrivatePlan.calibrate(Decimal(2), n_clusters=3, grid=GRID, shard_sizes=(20, 40))

RUNS: dict[type, Any] = {
    requests.NoisySum: lambda peers: dk_private(peers, PLAN),
    requests.NoisyRecord: lambda peers: dk_private(peers, PLAN),
    requests.Sum: lambda peers: dk_protected(peers, 3, rng=1),
    requests.Propose: lambda peers: dk_protected(peers, 3, rng=1),
    requests.UniformRecord: lambda peers: dk_protected(peers, 3, rng=1),
    requests.RecordAt: lambda peers: partitioned_kmeans_plusplus(peers, 3, rng=1),
    requests.ExactClusterSums: lambda peers: peers.lloyd(TABLE[:3]),
    requests.Spread: lambda peers: peers.spread(),
    requests.Oversample: lambda peers: kmeans_parallel(peers, 3, rng=1),
    requests.LocalCost: lambda peers: coreset_seeding(peers, 3, rng=1),
    requests.CoresetSample: lambda peers: coreset_seeding(peers, 3, rng=1),
}
NAN, INF = math.nan, math.inf
NO_TOTAL = [NAN, INF, -1.0, -1, "1", None, True, 10**400, np.zeros(1), (1.0,)]
NO_ROW = [NAN, 0.0, -2, 10**9, "0", None, True, np.zeros(1, np.int64)]
NO_RECORD = [
    np.array([NAN, 0.0]), np.array([INF, 0.0]), np.zeros(1), np.zeros(3), np.zeros((1, 2)),
    np.zeros(2, np.int64), np.array(["a", "b"]), np.array([None, None]), [0.0, 0.0], 0.0, None,
]  # fmt: skip
NO_POINT = [
    np.array([NAN, 0.0]), np.zeros(2), np.zeros(1, np.int64), np.zeros((2, 1), np.int64),
    np.full(2, 2**63 - 1), np.full(2, -(2**63)), np.zeros(2, np.uint64), [0, 0], None,
]  # fmt: skip
NO_NOISY_SUM = [NAN, INF, 1.0, "1", None, True, np.float64(3.0), np.zeros(1, np.int64)]
SUMS, COUNTS = np.zeros((3, 2)), np.ones(3)
NO_CLUSTERS = [
    (SUMS * NAN, COUNTS, 1.0), (SUMS, -COUNTS, 1.0), (SUMS, COUNTS * INF, 1.0),
    (SUMS, COUNTS, NAN), (SUMS[:2], COUNTS, 1.0), (SUMS, COUNTS[:2], 1.0), (SUMS, COUNTS),
    [SUMS, COUNTS, 1.0], (SUMS[:, :1], COUNTS, 1.0), None, 1.0,
]  # fmt: skip
NO_SAMPLE = [np.full((2, 2), NAN), np.zeros((2, 3)), np.zeros(2), [[0.0, 0.0]], None]
NO_CORESET = [
    (np.full((2, 2), INF), np.ones(2)), (np.zeros((2, 2)), np.ones(3)), np.zeros((2, 2)),
    (np.zeros((2, 2)), np.array([1.0, -1.0])), (np.zeros((2, 2)), np.array([1.0, NAN])), None,
]  # fmt: skip
MALFORMED: dict[type, list[Any]] = {
    requests.NoisySum: NO_NOISY_SUM,
    requests.NoisyRecord: NO_POINT,
    requests.Sum: NO_TOTAL,
    requests.Propose: NO_ROW,
    requests.UniformRecord: NO_RECORD,
    requests.RecordAt: NO_RECORD,
    requests.ExactClusterSums: NO_CLUSTERS,
    requests.Spread: NO_TOTAL,
    requests.Oversample: NO_SAMPLE,
    requests.LocalCost: NO_TOTAL,
    requests.CoresetSample: NO_CORESET,
}


class Mischievous(LocalTransport):
    """Nodes that send ``reply`` instead of an answer to one kind of request."""

    def __init__(self, kind: type, reply: Any) -> None:
        super().__init__(make_nodes(SHARDS))
        self._kind, self._reply = kind, reply

    def ask(self, node: int, request: Any) -> Any:
        return self._reply if isinstance(request, self._kind) else super().ask(node, request)

    def ask_each(self, asked: Any) -> list[Any]:
        return [self.ask(node, request) for node, request in enumerate(asked)]


@pytest.mark.parametrize("kind", MALFORMED, ids=lambda kind: kind.__name__)
def test_malformed_replies_are_one_sentence(kind: type) -> None:
    assert MALFORMED.keys() == RUNS.keys()
    for reply in MALFORMED[kind]:
        with pytest.raises(EngineError) as caught:
            RUNS[kind](Peers(Mischievous(kind, reply)))
        assert str(caught.value).endswith(
            f"of 2 sent a malformed reply to {kind.__name__}, which is not used: check that node "
            "and its version of dpkv."
        )


@pytest.mark.parametrize(
    "described",
    [(0, 2), (-3, 2), (5, 0), (5.0, 2), (NAN, 2), (True, 2), (10**30, 2), ("5", 2), (5,), 5, None],
    ids=[
        "no records",
        "negative",
        "no columns",
        "a float",
        "NaN",
        "a truth value",
        "too many",
        "text",
        "one number only",
        "no pair",
        "nothing",
    ],
)
def test_sizes_that_are_none_are_one_sentence(described: Any) -> None:
    with pytest.raises(EngineError, match="node 1 of 2 sent a malformed reply to Describe"):
        Peers(Mischievous(requests.Describe, described))


def test_a_trusted_coordinator_takes_no_negative_sum() -> None:
    trusted = PrivatePlan.calibrate(
        Decimal(2), n_clusters=3, grid=GRID, shard_sizes=(20, 40), trusted_coordinator=True
    )
    with pytest.raises(EngineError, match="malformed reply to NoisySum"):
        dk_private(Peers(Mischievous(requests.NoisySum, -1)), trusted)
    dk_private(Peers(Mischievous(requests.NoisySum, -1)), PLAN)  # noise may do that


def test_every_request_there_is_has_its_replies_checked() -> None:
    named = {
        kind
        for kind in vars(requests).values()
        if isinstance(kind, type) and "answer" in vars(kind)
    }
    assert named - {requests.NodeRequest, requests.Describe} == MALFORMED.keys()


def test_a_transport_that_loses_a_reply_is_one_sentence() -> None:
    class Losing(LocalTransport):
        def ask_each(self, asked: Any) -> list[Any]:
            return super().ask_each(asked)[:1]

    with pytest.raises(EngineError, match="1 replies came from 2 nodes: check the transport"):
        Peers(Losing(make_nodes(SHARDS)))


@pytest.mark.parametrize(
    "exit_code", [0, 3, None, "0"], ids=["fine", "a violation", "none", "text"]
)
def test_a_failure_never_ends_as_if_all_were_well(exit_code: Any) -> None:
    with pytest.raises(EngineError) as caught:
        open_reply(Failure("no.", exit_code))
    assert caught.value.exit_code == 1
