"""Nodes, messages and coordinators: what leaves a node, what a lost node changes, what it costs.

Golden prices of Theorem B come from mpmath with 60 digits.
"""

from __future__ import annotations

import math
import pickle
import threading
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.chance import FALSE_ALARM
from support.nodes import make_node, make_nodes, make_peers, recorded

import dpkv
from dpkv.accounting.split import Split
from dpkv.domain import Box
from dpkv.engine import (
    FileShard,
    LocalTransport,
    Node,
    Peers,
    PrivatePlan,
    coreset_seeding,
    dk_private,
    dk_protected,
    kmeans_parallel,
    partitioned_kmeans_plusplus,
    requests,
)
from dpkv.engine.comparators import apportion, default_rounds
from dpkv.engine.peer_problem import private_problem
from dpkv.engine.shards import ShardRecords, load_all, load_secret, simulate_secret
from dpkv.engine.transport import Failure, Message, answer
from dpkv.errors import DpkvError, EngineError, ParameterError, TableError, UsageError
from dpkv.grid import BoxGrid

K = 4
RNG = np.random.default_rng(7)
TABLE = RNG.normal(size=(90, 2)).round(9)
SHARDS = [TABLE[:40], TABLE[40:60], TABLE[60:]]
DOMAIN = Box((-5.0, -5.0), (5.0, 5.0))
GRID = DOMAIN.grid()
POINTS = [GRID.quantise(shard) for shard in SHARDS]
SIZES = tuple(map(len, SHARDS))


def plan_of(*, trusted: bool = False, eps: str = "2", k: int = K) -> PrivatePlan:
    return PrivatePlan.calibrate(
        Decimal(eps), n_clusters=k, grid=GRID, shard_sizes=SIZES, trusted_coordinator=trusted
    )


ALGORITHMS: dict[str, Callable[[Peers], Any]] = {
    "dk-protected": lambda peers: dk_protected(peers, K, rng=5, run="r").centers,
    "dk-private": lambda peers: dk_private(peers, plan_of(), below=lambda n: n // 3, run="r").draws,
    "kmeans++": lambda peers: partitioned_kmeans_plusplus(peers, K, rng=5).centers,
    "kmeans-parallel": lambda peers: kmeans_parallel(peers, K, rng=5).centers,
    "coreset": lambda peers: coreset_seeding(peers, K, size=30, rng=5).centers,
    "lloyd": lambda peers: peers.lloyd(TABLE[:K]).centers,
    "spread": lambda peers: np.array([peers.spread()]),
}


def messages_of(run: Callable[[Peers], Any]) -> tuple[list[Message], Any]:
    peers, transport = recorded(SHARDS)
    found = run(peers)
    return transport.messages, found


def replies(messages: list[Message], kind: type | None = None) -> list[Any]:
    """Return what nodes sent, all of it or in answer to one kind of request."""
    waiting: dict[int, Any] = {}
    found = []
    for message in messages:
        if message.to_node:
            waiting[message.node] = message.content
        elif kind is None or isinstance(waiting[message.node], kind):
            found.append(message.content)
    return found


def holds_a_record(message: Message, node: int | None = None) -> bool:
    """Search the bytes for any one coordinate of the records, as a float or on the grid."""
    nodes = range(len(SHARDS)) if node is None else [node]
    return any(
        number.tobytes() in message.encoded or number.astype(">f8").tobytes() in message.encoded
        for i in nodes
        for number in SHARDS[i].reshape(-1)
    )


# -- what leaves a node ----------------------------------------------------------------------------


def test_private_nodes_send_noisy_integers_and_nothing_else() -> None:
    messages, draws = messages_of(ALGORITHMS["dk-private"])
    sent = replies(messages)
    sums = replies(messages, requests.NoisySum)
    centers = replies(messages, requests.NoisyRecord)
    described = replies(messages, requests.Describe)
    assert len(sent) == len(sums) + len(centers) + len(described)
    assert described == [(size, 2) for size in SIZES]
    assert len(centers) == K and np.array_equal(centers, draws)
    assert all(center.dtype == np.int64 and center.shape == (2,) for center in centers)
    assert len(sums) == len(SHARDS) * (K - 1)
    assert all(type(total) is int for total in sums)
    assert all(len(message.encoded) < 400 for message in messages if not message.to_node)


def test_private_messages_hold_no_record_and_no_exact_sum() -> None:
    messages, _ = messages_of(ALGORITHMS["dk-private"])
    assert not any(holds_a_record(message) for message in messages)
    points = {tuple(point) for shard in POINTS for point in shard.tolist()}
    centers = replies(messages, requests.NoisyRecord)
    assert not any(tuple(center.tolist()) in points for center in centers)
    exact = {
        make_node(SHARDS[message.node]).exact_sum(GRID, asked.centers, asked.cuts)
        for message in messages
        if isinstance(asked := message.content, requests.NoisySum)
    }
    assert len(exact) > K
    assert exact.isdisjoint(replies(messages, requests.NoisySum))


def test_only_centers_of_protected_dk_means_are_records() -> None:
    messages, centers = messages_of(ALGORITHMS["dk-protected"])
    records = replies(messages, requests.UniformRecord)
    assert np.array_equal(records, centers)
    assert all(record in TABLE.tolist() for record in np.asarray(records).tolist())
    others = replies(messages, requests.Sum) + replies(messages, requests.Propose)
    assert len(replies(messages)) == len(SHARDS) + len(records) + len(others)
    assert all(np.ndim(other) == 0 for other in others)
    assert set(replies(messages, requests.Propose)) <= {0, -1}, "which record stays unsaid"


@pytest.mark.parametrize("name", ["dk-protected", "dk-private", "kmeans++", "kmeans-parallel"])
def test_requests_carry_nothing_but_what_nodes_have_published(name: str) -> None:
    messages, _ = messages_of(ALGORITHMS[name])
    known: set[tuple[float, ...]] = set()
    for message in messages:
        if not message.to_node:
            if isinstance(message.content, np.ndarray):
                drawn = np.atleast_2d(message.content)
                known |= {tuple(row) for row in drawn.tolist()}
                if name == "dk-private":
                    known |= {tuple(row) for row in GRID.clip(drawn).tolist()}
            continue
        centers = getattr(message.content, "centers", np.empty((0, 2)))
        assert {tuple(row) for row in np.asarray(centers).tolist()} <= known


def test_lloyd_sends_sums_of_records_and_counts() -> None:
    messages, _ = messages_of(lambda peers: peers.lloyd(TABLE[:K]))
    for sums, counts, phi in replies(messages, requests.ExactClusterSums):
        assert sums.shape == (K, 2) and counts.shape == (K,) and isinstance(phi, float)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_message_survives_the_wire(name: str) -> None:
    messages, _ = messages_of(ALGORITHMS[name])
    assert messages
    nodes = make_nodes(SHARDS)
    for message in messages:
        if message.to_node and name != "lloyd":
            answered = answer(nodes[message.node], pickle.loads(message.encoded))
            assert not isinstance(answered, Failure)


# -- a planted leak is seen ------------------------------------------------------------------------


def test_planted_fault_a_record_in_a_private_reply_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def leaking(_: requests.NoisyRecord, node: Node) -> Any:
        return np.asarray(node.working[0])

    monkeypatch.setattr(requests.NoisyRecord, "answer", leaking)
    _, transport = recorded(SHARDS)
    transport.ask(1, requests.NoisyRecord(GRID, 1.0, "r", 1))
    assert holds_a_record(transport.messages[-1])


# -- failures --------------------------------------------------------------------------------------


class Quoting:
    def __init__(self, error: type[Exception]) -> None:
        self.error = error

    def answer(self, node: Node) -> Any:
        raise self.error(f"bad record {node.working[0].tolist()}")


@pytest.mark.parametrize("error", [ValueError, KeyError, MemoryError, RuntimeError])
def test_an_unexpected_failure_never_quotes_a_record(error: type[Exception]) -> None:
    failure = answer(make_node(SHARDS[0]), Quoting(error))  # type: ignore[arg-type]
    assert isinstance(failure, Failure)
    assert failure.sentence.startswith(f"a node failed at Quoting: {error.__name__}.")
    assert str(SHARDS[0][0, 0]) not in repr(failure)
    with pytest.raises(EngineError, match="a node failed"):
        make_peers(SHARDS).ask(0, Quoting(error))  # type: ignore[arg-type]


def test_a_failure_on_purpose_keeps_its_sentence_and_its_exit_code() -> None:
    class Refused:
        def answer(self, _: Node) -> Any:
            raise TableError("the table is damaged.")

    with pytest.raises(EngineError, match="the table is damaged") as caught:
        make_peers(SHARDS).ask(0, Refused())  # type: ignore[arg-type]
    assert caught.value.exit_code == TableError.exit_code


WRONG_REQUESTS = [
    requests.RecordAt(10**6),
    requests.Sum(np.zeros((1, 5)), (1,)),
    requests.Sum(np.zeros((1, 1)), (1,)),
    requests.Sum(np.zeros((2, 2)), (3,)),
    requests.Sum(np.zeros((2, 2)), (2, 1)),
    requests.Sum(np.zeros((2, 2)), ()),
    requests.Sum(np.zeros((0, 2)), (0,)),
    requests.Propose(np.zeros((2, 1)), (1,), 0.5, 0.5, True),
    requests.ExactClusterSums(np.zeros((2, 1))),
    requests.Oversample(np.zeros((2, 3)), (1,), 1.0, "r", 1),
    requests.NoisySum(GRID, 1.0, "r", np.zeros((1, 1), np.int64), (1,)),
    requests.NoisySum(GRID, 1.0, "r", np.full((1, 2), 2**17), (1,)),
    requests.NoisySum(GRID, 1.0, "r", np.full((1, 2), -1), (1,)),
    requests.NoisySum(GRID, math.nan, "r", np.zeros((1, 2), np.int64), (1,)),
    requests.NoisySum(GRID, -1.0, "r", np.zeros((1, 2), np.int64), (1,)),
    requests.NoisyRecord(GRID, math.inf, "r", 1),
    # noise knows the centers and not the cuts: with fewer passes it would be the same on two sums
    requests.NoisySum(GRID, 1.0, "r", np.zeros((2, 2), np.int64), (1,)),
]


@pytest.mark.parametrize("request_", WRONG_REQUESTS, ids=lambda r: type(r).__name__)
def test_a_wrong_request_fails_without_a_record(request_: Any) -> None:
    failure = answer(make_node(SHARDS[0]), request_)
    assert isinstance(failure, Failure)
    assert not any(str(x) in failure.sentence for x in SHARDS[0].reshape(-1))


# -- lost nodes and retries ------------------------------------------------------------------------


class Losing:
    """Every request meets a node that was just rebuilt from its shard and its secret."""

    n_nodes = len(SHARDS)

    def ask(self, node: int, request: Any) -> Any:
        return LocalTransport(make_nodes(SHARDS)).ask(node, pickle.loads(pickle.dumps(request)))

    def ask_each(self, asked: Any) -> list[Any]:
        return [self.ask(node, request) for node, request in enumerate(asked)]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_nodes_rebuilt_before_every_request_end_with_the_same_bits(name: str) -> None:
    expected = ALGORITHMS[name](make_peers(SHARDS))
    assert ALGORITHMS[name](Peers(Losing())).tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("twice", range(0, 12, 3))
def test_a_node_lost_at_some_request_changes_nothing(name: str, twice: int) -> None:
    class LosingOnce(LocalTransport):
        calls = 0

        def ask_each(self, asked: Any) -> list[Any]:
            self.lose()
            return super().ask_each(asked)

        def ask(self, node: int, request: Any) -> Any:
            self.lose()
            return super().ask(node, request)

        def lose(self) -> None:
            self.calls += 1
            if self.calls == 2 + twice:
                self._nodes[1] = make_node(SHARDS[1], 1)

    expected = ALGORITHMS[name](make_peers(SHARDS))
    assert ALGORITHMS[name](Peers(LosingOnce(make_nodes(SHARDS)))).tobytes() == expected.tobytes()


CENTERS = POINTS[0][:2]


def noisy_sum(**changes: Any) -> requests.NoisySum:
    plain = {"grid": GRID, "scale": 1e9, "run": "r", "centers": CENTERS, "cuts": (1, 2)}
    return requests.NoisySum(**{**plain, **changes})


def noisy_record(**changes: Any) -> requests.NoisyRecord:
    return requests.NoisyRecord(**{"grid": GRID, "scale": 1e9, "run": "r", "round": 1, **changes})


def noise_of(asked: requests.NoisySum, shard: np.ndarray = SHARDS[0]) -> int:
    node = make_node(shard)
    return int(asked.answer(node)) - node.exact_sum(asked.grid, asked.centers, asked.cuts)


def test_a_retry_sends_the_same_noise_again() -> None:
    node = make_node(SHARDS[0])
    again = make_node(SHARDS[0])
    for asked in (noisy_sum(), noisy_record()):
        first = asked.answer(node)
        noisy_sum(run="between").answer(node)
        assert np.array_equal(asked.answer(node), first)
        assert np.array_equal(asked.answer(again), first)
    assert noise_of(noisy_sum(cuts=(2,))) == noise_of(noisy_sum()), "exact sums know no passes"


FINER = Box((-5.0, -5.0), (5.0, 5.0)).grid(bits=17)


def test_another_question_draws_afresh() -> None:
    sums = [
        noisy_sum(), noisy_sum(run="s"), noisy_sum(centers=CENTERS[:1], cuts=(1,)),
        noisy_sum(centers=CENTERS[::-1]), noisy_sum(scale=1e9 + 1), noisy_sum(grid=FINER),
    ]  # fmt: skip
    assert len(set(map(noise_of, sums))) == len(sums)
    records = [
        noisy_record(), noisy_record(run="s"), noisy_record(round=2), noisy_record(scale=1e9 + 1),
        noisy_record(grid=FINER),
    ]  # fmt: skip
    node = make_node(SHARDS[0])
    assert len({tuple(asked.answer(node).tolist()) for asked in records}) == len(records)


def test_a_changed_shard_draws_afresh_or_the_noise_would_cancel() -> None:
    changed = SHARDS[0].copy()
    changed[3] = (4.0, -4.0)
    assert noise_of(noisy_sum(), changed) != noise_of(noisy_sum())


def test_nodes_with_equal_records_draw_apart() -> None:
    sums = make_peers([SHARDS[0]] * 3).ask_all(noisy_sum())
    assert len(set(sums)) == 3


def test_noise_of_any_size_stays_in_int64() -> None:
    node = make_node(SHARDS[0])
    for round_ in range(5):
        center = noisy_record(scale=1e300, round=round_).answer(node)
        assert np.abs(center).max() == requests.FARTHEST
        assert GRID.diam2_squared > 0 and GRID.clip(center[np.newaxis]).max() <= 2**16


def test_many_threads_may_ask_one_node() -> None:
    node = make_node(RNG.normal(size=(5000, 3)))
    centers = node.working[:8].copy()
    asked: list[Any] = [
        requests.Sum(centers[:n], tuple(range(1, n + 1))) for n in (1, 2, 3, 5, 8)
    ] + [requests.Propose(centers[:n], (n,), 3.0, 0.5, True) for n in (1, 4)]
    expected = [answer(make_node(node.working), request) for request in asked]
    wrong: list[Any] = []

    def ask_often(start: int) -> None:
        for i in range(40):
            place = (start + i) % len(asked)
            if answer(node, asked[place]) != expected[place]:
                wrong.append(place)

    threads = [threading.Thread(target=ask_often, args=(start,)) for start in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# -- Theorem B's prices ----------------------------------------------------------------------------


def theorem_b(plan: PrivatePlan) -> mpmath.mpf:
    """eps = (k-1) diam2^2 / c + k log(1 + (rho-1)/m_min), with S m_min for c where S smooths."""
    with mpmath.workdps(60):
        m, k = min(plan.shard_sizes), plan.n_clusters
        c = mpmath.mpf(plan.smoothing * m or plan.sum_scale)
        rho = mpmath.exp(mpmath.mpf(plan.grid.diam1) / mpmath.mpf(plan.noise_scale))
        picks = (k - 1) * mpmath.mpf(plan.grid.diam2_squared) / c
        return picks + k * mpmath.log1p((rho - 1) / m)


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize("k", [1, 2, 20])
@pytest.mark.parametrize("eps", ["0.001", "1", "7.3"])
def test_golden_price_of_a_plan(eps: str, k: int, trusted: bool) -> None:
    plan = plan_of(trusted=trusted, eps=eps, k=k)
    exact = theorem_b(plan)
    with mpmath.workdps(60):
        printed = mpmath.mpf(str(plan.cost()))
        assert exact <= printed <= exact * (1 + mpmath.mpf("1e-30"))
    assert plan.cost() <= Decimal(eps)
    spare = Fraction(1, 10) if trusted and k > 1 else Fraction(1, 10**9)
    assert Fraction(plan.cost()) >= Fraction(Decimal(eps)) * (1 - spare)
    assert plan.to_dict()["eps"] >= plan.cost()
    assert plan.to_dict()["neighbours"] == "replace-one inside a shard"
    assert plan.to_dict()["holds_if"].startswith("the coordinator follows the protocol: one run")


def test_golden_figures_by_hand() -> None:
    """k = 2, one column of 3 steps, shards of 2 and 5: 9/c + 2 log(1 + (e^(3/b) - 1)/2)."""
    line = BoxGrid((0.0,), (1.0,), (3,))
    plan = PrivatePlan(2, line, (5, 2), noise_scale=1.5, sum_scale=36.0, smoothing=0)
    assert float(plan.cost()) == pytest.approx(0.25 + 2 * math.log(1 + (math.e**2 - 1) / 2))
    trusted = PrivatePlan(2, line, (5, 2), noise_scale=1.5, sum_scale=0.0, smoothing=9)
    assert float(trusted.cost()) == pytest.approx(0.5 + 2 * math.log(1 + (math.e**2 - 1) / 2))


Eps = st.decimals("1e-9", "1e6", allow_nan=False, places=9)


@given(Eps, st.integers(1, 20), st.booleans(), st.integers(0, 3000))
def test_a_plan_never_costs_more_than_eps(eps: Decimal, k: int, trusted: bool, more: int) -> None:
    if eps <= 0:
        return
    plan = PrivatePlan.calibrate(
        eps, n_clusters=k, grid=GRID, shard_sizes=(k + more, 5000), trusted_coordinator=trusted
    )
    assert plan.cost() <= eps


@given(Eps, st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=6), st.integers(1, 1000))
def test_a_split_never_exceeds_eps(eps: Decimal, shares: list[float], times: int) -> None:
    if eps <= 0:
        return
    split = Split.of(eps, *shares, times=times)
    together = sum(map(Fraction, split.parts)) * times
    assert together <= Fraction(eps)
    assert together >= Fraction(eps) * (1 - Fraction(1, 10**40))


@pytest.mark.parametrize(
    "wrong",
    [{"sum_scale": 0.0}, {"noise_scale": 0.0}, {"noise_scale": math.nan}, {"smoothing": -1}],
)
def test_a_plan_without_its_noise_is_refused(wrong: dict[str, Any]) -> None:
    plain = {"noise_scale": 1.0, "sum_scale": 1.0, "smoothing": 0}
    with pytest.raises(ParameterError):
        PrivatePlan(K, GRID, SIZES, **{**plain, **wrong})


def test_a_plan_for_other_shards_is_refused() -> None:
    with pytest.raises(ParameterError, match="plan must be for shards of"):
        dk_private(make_peers(SHARDS[:2]), plan_of())


def test_k_beyond_the_smallest_shard_is_refused() -> None:
    with pytest.raises(ParameterError, match="at most the smallest shard, 20 records"):
        plan_of(k=21)


def test_a_domain_of_one_point_needs_no_noise() -> None:
    domain = Box((1.0, 1.0), (1.0, 1.0))
    nodes = [make_node(np.ones((5, 2)), i, working=np.zeros((5, 2))) for i in range(2)]
    peers = Peers(LocalTransport(nodes))
    problem = private_problem(peers, domain, Decimal(1), 3, trusted_coordinator=False)
    assert problem.plan is not None and problem.plan.noise_scale == 0.0
    found = problem.seed(3, np.random.default_rng(1), lambda _: None)
    assert problem.potential(found.centers) == 0.0


def test_almost_no_noise_leaves_records_of_the_picked_nodes() -> None:
    found = dk_private(make_peers(SHARDS), plan_of(eps="1000000"))
    for node, center in zip(found.indices, found.centers, strict=True):
        assert np.abs(POINTS[node] - center).max(axis=1).min() < 40


# -- shards and secrets ----------------------------------------------------------------------------


def shard_files(folder: Path) -> list[FileShard]:
    shards = []
    for number, part in enumerate(SHARDS):
        path = folder / f"{number}.csv"
        np.savetxt(path, part, delimiter=",", header="a,b", comments="", fmt="%.17g")
        shards.append(FileShard(str(path), ("a", "b"), number=number))
    return shards


def test_secrets_are_kept_beside_the_shard_and_differ(tmp_path: Path) -> None:
    shards = shard_files(tmp_path)
    secrets = [shard.secret() for shard in shards]
    assert secrets == [shard.secret() for shard in shards]
    assert len(set(secrets)) == len(shards)
    key = tmp_path / ".dpkv" / "keys" / "node.key"
    assert key.stat().st_mode & 0o077 == 0
    parts = [FileShard(shards[0].path, ("a",), by="a", label="b c").secret(),
             FileShard(shards[0].path, ("a",), by="a b", label="c").secret()]  # fmt: skip
    assert parts[0] != parts[1]
    assert simulate_secret(1, 0) != simulate_secret(1, 1) != simulate_secret(11, 0)


def test_a_damaged_secret_is_refused_never_used(tmp_path: Path) -> None:
    load_secret(tmp_path / ".dpkv")
    (tmp_path / ".dpkv" / "keys" / "node.key").write_bytes(b"")
    with pytest.raises(UsageError, match=r"node\.key is damaged: remove it"):
        load_secret(tmp_path / ".dpkv")


def test_workers_keep_one_copy_of_a_shard_and_notice_a_new_file(tmp_path: Path) -> None:
    from dpkv.engine import dask_engine

    dask_engine._nodes.clear()
    shard = FileShard(shard_files(tmp_path)[0].path, ("a", "b"), seed=1)
    size = requests.Describe()
    assert dask_engine.answer_from_shard(shard, size) == (40, 2)
    node = dask_engine._node_of(shard)
    assert dask_engine._node_of(shard) is node
    other = dask_engine._node_of(FileShard(shard.path, ("a", "b"), seed=2, number=1))
    assert other is not node and other.working is node.working, "another run, the same records"
    assert len(dask_engine._nodes) == 1
    Path(shard.path).write_text("a,b\n1,2\n3,4\n", encoding="utf-8")
    assert dask_engine.answer_from_shard(shard, size) == (2, 2)
    Path(shard.path).unlink()
    gone = dask_engine.answer_from_shard(shard, size)
    assert isinstance(gone, Failure) and "cannot be read" in gone.sentence
    dask_engine._nodes.clear()


def test_mapped_and_float32_shards_answer_like_those_in_memory(tmp_path: Path) -> None:
    shards = shard_files(tmp_path)
    mapped = [FileShard(s.path, s.columns, memory_limit=0) for s in shards]
    loaded = load_all(mapped)
    assert list((tmp_path / ".dpkv" / "tables").glob("*.f64"))
    peers = Peers(LocalTransport([Node(r, simulate_secret(1, i)) for i, r in enumerate(loaded)]))
    expected = ALGORITHMS["dk-private"](make_peers(SHARDS))
    assert np.array_equal(ALGORITHMS["dk-private"](peers), expected)
    narrow = [shard.astype(np.float32) for shard in SHARDS]
    for name in ("dk-protected", "kmeans++", "kmeans-parallel", "coreset"):
        assert np.isfinite(ALGORITHMS[name](make_peers(narrow))).all()


@pytest.mark.parametrize("bad", [np.empty((0, 2)), np.array([[np.nan, 1.0]]), np.zeros((3, 0))])
def test_a_node_refuses_what_is_no_table(bad: np.ndarray) -> None:
    with pytest.raises(DpkvError):
        make_node(bad)


def test_shards_of_different_widths_are_refused() -> None:
    with pytest.raises(UsageError, match="differ in their columns"):
        make_peers([np.zeros((3, 2)), np.zeros((3, 3))])
    with pytest.raises(ParameterError, match="shards must be at least one"):
        Peers(LocalTransport([]))


# -- potentials and Lloyd over nodes ---------------------------------------------------------------


def test_potential_lloyd_and_spread_are_those_of_the_whole_table() -> None:
    peers = make_peers(SHARDS)
    start = TABLE[:K]
    assert peers.potential(start) == pytest.approx(dpkv.potential(TABLE, start), rel=1e-12)
    ours, whole = peers.lloyd(start), dpkv.lloyd(TABLE, start)
    assert ours.centers == pytest.approx(whole.centers, rel=1e-9)
    assert ours.n_iterations == whole.n_iterations
    about_means = sum(((shard - shard.mean(axis=0)) ** 2).sum() for shard in SHARDS)
    assert peers.spread() == pytest.approx(about_means, rel=1e-12)


# -- comparators -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phi", "rounds"), [(0.0, 1), (0.5, 1), (1.0, 1), (math.e, 1), (3.0, 2), (1e6, 14)]
)
def test_kmeans_parallel_has_log_phi_rounds(phi: float, rounds: int) -> None:
    assert default_rounds(phi) == rounds


def test_kmeans_parallel_makes_those_rounds_and_takes_twice_k_a_round() -> None:
    """An oversampling round takes Poisson-binomial(2k) records: Bernstein's inequality bounds it.

    P(|X - 2k n| > t) <= 2 exp(-t^2 / (2 (2k n + t/3))) for n rounds in all.
    """
    rng = np.random.default_rng(11)
    table = rng.normal(size=(20_000, 2))
    peers, transport = recorded(np.array_split(table, 4))
    taken = rounds = 0
    for seed in range(20):
        transport.messages.clear()
        found = kmeans_parallel(peers, 10, rng=seed)
        first = next(sum(found) for found in [replies(transport.messages, requests.Sum)[:4]])
        assert found.n_rounds == math.ceil(math.log(first))
        asked = [m for m in transport.messages if isinstance(m.content, requests.Oversample)]
        assert len(asked) == 4 * found.n_rounds
        taken += found.records_shared - 1
        rounds += found.n_rounds
        assert found.weights.sum() == len(table)
    mean = 20.0 * rounds
    t = math.sqrt(2 * mean * math.log(2 / FALSE_ALARM)) + 2 / 3 * math.log(2 / FALSE_ALARM)
    assert abs(taken - mean) <= t
    assert abs(taken / 2 - mean) > t, "half the oversampling would be seen"


def test_kmeans_parallel_of_few_distinct_records() -> None:
    shards = [np.zeros((6, 2)), np.ones((2, 2))]
    found = kmeans_parallel(make_peers(shards), 5, rng=1)
    assert found.centers.shape == (5, 2)
    assert {tuple(center) for center in found.centers.tolist()} == {(0.0, 0.0), (1.0, 1.0)}
    assert found.weights.sum() == 8
    alone = kmeans_parallel(make_peers([np.zeros((1, 2))]), 1, rng=1)
    assert alone.centers.tolist() == [[0.0, 0.0]]


Shares = st.lists(st.floats(0, 1e12), min_size=1, max_size=12)


@given(st.integers(0, 10**6), Shares)
def test_divided_adds_up_exactly(total: int, shares: list[float]) -> None:
    parts = apportion(total, np.array(shares))
    assert parts.sum() == (total if any(shares) else 0)
    assert (parts >= 0).all()
    exact = total * np.array(shares) / (sum(shares) or 1.0)
    assert (np.abs(parts - exact) <= 1.0 + 1e-6).all()


def coreset_estimates(sizes: int) -> tuple[float, float]:
    """Return the mean and the spread of estimates of a cost, over the cost. Seeds are fixed."""
    rng = np.random.default_rng(3)
    table = np.vstack([rng.normal(size=(400, 2)), rng.normal(6.0, 0.5, size=(200, 2))])
    peers = make_peers([table[:350], table[350:]])
    centers = np.array([[0.5, 0.0], [5.0, 7.0], [-2.0, 1.0]])
    estimates = []
    for seed in range(100):
        found = coreset_seeding(peers, 3, size=sizes, rng=seed)
        assert found.weights.sum() == pytest.approx(len(table), rel=1e-12)
        estimates.append(dpkv.potential(found.points, centers, sample_weight=found.weights))
    relative = np.array(estimates) / dpkv.potential(table, centers)
    return float(relative.mean()), float(relative.std())


def test_a_coreset_estimates_the_cost_of_any_centers() -> None:
    mean, spread = coreset_estimates(300)
    assert abs(mean - 1.0) < 0.03 and spread < 0.08
    better, narrower = coreset_estimates(3000)
    assert abs(better - 1.0) < 0.015 and narrower < spread / 2


def test_planted_fault_a_price_that_forgets_other_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    def cheap(asked: requests.CoresetSample, node: Node) -> Any:
        return original(replace(asked, price=asked.price / 2), node)

    original = requests.CoresetSample.answer
    monkeypatch.setattr(requests.CoresetSample, "answer", cheap)
    assert abs(coreset_estimates(300)[0] - 1.0) > 0.03


def test_a_coreset_shares_as_many_records_as_asked_and_centers() -> None:
    found = coreset_seeding(make_peers(SHARDS), 3, size=50, rng=1)
    assert found.records_shared == 50
    assert len(found.points) == 50 + 3 * len(SHARDS)
    assert (found.weights >= 0).all()
    equal = coreset_seeding(make_peers([np.ones((4, 2)), np.ones((3, 2))]), 3, rng=1)
    assert equal.centers.tolist() == [[1.0, 1.0]] * 3
    assert equal.weights.sum() == 7 and equal.records_shared == 0


def test_records_of_a_node_have_original_and_working_coordinates() -> None:
    domain = Box((0.0,), (10.0,))
    original = np.array([[0.0], [10.0], [5.0]])
    node = Node(ShardRecords(original, original / 10.0))
    assert node.points(domain.grid()).tolist() == [[0], [2**16 - 1], [2**15]]
    assert requests.RecordAt(1).answer(node).tolist() == [1.0]
