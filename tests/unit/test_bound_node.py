"""A node bound to one run of one plan: what it answers, what it refuses, what a restart forgets."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpkv.domain import Box
from dpkv.engine import BoundNode, LocalTransport, Node, Peers, PrivatePlan, dk_private, requests
from dpkv.engine.shards import ShardRecords, simulate_secret
from dpkv.engine.transport import Failure, answer
from dpkv.errors import EngineError, ParameterError, UsageError
from dpkv.grid import BoxGrid

K = 4
TABLE = np.random.default_rng(7).normal(size=(90, 2)).round(9)
SHARDS = [TABLE[:40], TABLE[40:60], TABLE[60:]]
GRID = Box((-5.0, -5.0), (5.0, 5.0)).grid()
SIZES = tuple(map(len, SHARDS))
PLAN = PrivatePlan.calibrate(Decimal(2), n_clusters=K, grid=GRID, shard_sizes=SIZES)
CENTERS = GRID.quantise(TABLE[:5])


def bound(number: int = 0, plan: PrivatePlan = PLAN, **more: Any) -> BoundNode:
    shard = SHARDS[number]
    return BoundNode(ShardRecords(shard, shard), plan, simulate_secret(1, number), **more)


def noisy_sum(n_centers: int = 1, **changes: Any) -> requests.NoisySum:
    plain = requests.NoisySum(GRID, PLAN.sum_scale, "r", CENTERS[:n_centers], (n_centers,))
    return replace(plain, **changes)


def noisy_record(round_: int = 1, **changes: Any) -> requests.NoisyRecord:
    return replace(requests.NoisyRecord(GRID, PLAN.noise_scale, "r", round_), **changes)


def refused(node: Node, request: Any) -> str:
    failure = answer(node, request)
    assert isinstance(failure, Failure), failure
    assert not any(str(x) in failure.sentence for x in TABLE.reshape(-1))
    return failure.sentence


def test_bound_nodes_run_the_plan_and_end_as_plain_nodes_do() -> None:
    plain = [Node(ShardRecords(s, s), simulate_secret(1, i)) for i, s in enumerate(SHARDS)]
    nodes = [bound(number) for number in range(3)]
    expected, ours = (
        dk_private(Peers(LocalTransport(of)), PLAN, below=lambda n: n // 3, run="r")
        for of in (plain, nodes)
    )
    assert ours.draws.tobytes() == expected.draws.tobytes()
    with pytest.raises(EngineError, match="bound to one run, and this is another"):
        dk_private(Peers(LocalTransport(nodes)), PLAN)


def test_a_lost_answer_is_sent_again_and_is_the_same() -> None:
    node = bound()
    for asked in (noisy_sum(), noisy_record()):
        first = answer(node, asked)
        assert np.array_equal(answer(node, asked), first)
        assert not isinstance(first, Failure)


def test_the_plans_questions_and_not_one_more() -> None:
    node = bound()
    for n_centers in range(1, K):
        assert type(answer(node, noisy_sum(n_centers))) is int
    for round_ in range(1, K + 1):
        assert not isinstance(answer(node, noisy_record(round_)), Failure)
    assert answer(node, requests.Describe()) == (40, 2)
    assert "has 4 centres: ask for sums after 1 to 3" in refused(node, noisy_sum(K))
    for round_ in (0, -1, K + 1, True, 1.0, "1"):
        assert "has 4 rounds" in refused(node, noisy_record(round_))  # type: ignore[arg-type]
    other = noisy_sum(2, centers=CENTERS[2:4])
    assert "asked for the sum for 2 centres before, for other" in refused(node, other)


class Careless(BoxGrid):
    """Equal to any grid."""

    __hash__ = BoxGrid.__hash__

    def __eq__(self, _: object) -> bool:
        return True


@dataclass(frozen=True, eq=False)
class Disguised(requests.NoisySum):
    """A question of the plan, by its fields."""

    def answer(self, node: Node) -> Any:
        return node.working[0]


OTHER_KINDS: dict[str, Any] = {
    "a row": requests.RecordAt(0),
    "a record": requests.UniformRecord("r", 1),
    "an exact float sum": requests.Sum(TABLE[:1], (1,)),
    "a proposal": requests.Propose(TABLE[:1], (1,), 0.5, 0.5, True),
    "a Lloyd step": requests.ExactClusterSums(TABLE[:2]),
    "the spread": requests.Spread(),
    "an oversample": requests.Oversample(TABLE[:1], (1,), 1.0, "r", 1),
    "a local cost": requests.LocalCost(2, "r"),
    "a coreset": requests.CoresetSample(2, "r", 5, 1.0),
    "a question in disguise": Disguised(GRID, PLAN.sum_scale, "r", CENTERS[:1], (1,)),
}


@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_other_kinds_of_questions_are_refused(kind: str) -> None:
    sentence = refused(bound(), OTHER_KINDS[kind])
    assert sentence.startswith("this node is bound to a plan of private dk-means++ and does not")


def careless_grid() -> Careless:
    return Careless((0.0, 0.0), (1e-9, 1e-9), (1, 1))


CHANGED: dict[str, Callable[[], Any]] = {
    "an exact sum": lambda: noisy_sum(scale=0.0),
    "a sum with less noise": lambda: noisy_sum(scale=PLAN.sum_scale / 2),
    "a sum with more noise": lambda: noisy_sum(scale=PLAN.sum_scale * 2),
    "a scale that is no float": lambda: noisy_sum(scale=0),
    "a record with less noise": lambda: noisy_record(scale=PLAN.noise_scale / 2),
    "a record without noise": lambda: noisy_record(scale=0.0),
    "another grid": lambda: noisy_sum(grid=Box((-1.0, -1.0), (1.0, 1.0)).grid()),
    "a grid that equals any": lambda: noisy_record(grid=careless_grid()),
    "no centers": lambda: noisy_sum(centers=CENTERS[:0], cuts=(0,)),
    "centers that are floats": lambda: noisy_sum(centers=CENTERS[:1] + 0.5),
    "centers that are a list": lambda: noisy_sum(centers=CENTERS[:1].tolist()),
    "centers beyond the grid": lambda: noisy_sum(centers=CENTERS[:1] + 2**20),
    "centers of another width": lambda: noisy_sum(centers=CENTERS[:1, :1]),
    "cuts that are no numbers": lambda: noisy_sum(cuts=("1",)),
    "fewer passes than centers": lambda: noisy_sum(2, cuts=(1,)),
    "a run that is no name": lambda: noisy_sum(run=None),
}


@pytest.mark.parametrize("change", CHANGED)
def test_questions_that_are_not_the_plans_are_refused(change: str) -> None:
    refused(bound(), CHANGED[change]())


@pytest.mark.parametrize("named", [True, False], ids=["named before", "named by a question"])
def test_a_second_run_is_refused(named: bool) -> None:
    node = bound(run="r") if named else bound()
    if not named:
        answer(node, noisy_record())
    assert "bound to one run, and this is another" in refused(node, noisy_record(2, run="s"))
    assert "bound to one run, and this is another" in refused(node, noisy_sum(run="s"))
    assert not isinstance(answer(node, noisy_sum()), Failure)


def test_planted_fault_a_plain_node_answers_all_of_it() -> None:
    plain = Node(ShardRecords(SHARDS[0], SHARDS[0]), simulate_secret(1, 0))
    for asked in (OTHER_KINDS["a row"], noisy_sum(scale=0.0), noisy_sum(run="s"), noisy_record(9)):
        assert not isinstance(answer(plain, asked), Failure)


def test_an_exact_sum_is_answered_where_the_plan_trusts_the_coordinator() -> None:
    trusted = PrivatePlan.calibrate(
        Decimal(2), n_clusters=K, grid=GRID, shard_sizes=SIZES, trusted_coordinator=True
    )
    node = bound(plan=trusted)
    exact = node.exact_sum(GRID, CENTERS[:1], (1,))
    assert answer(node, noisy_sum(scale=0.0)) == exact
    refused(node, noisy_sum(2, scale=1.0, cuts=(2,)))


def test_an_account_outlives_the_node(tmp_path: Path) -> None:
    account = tmp_path / "asked.json"
    first = answer(bound(account=account), noisy_sum(2))
    assert account.stat().st_mode & 0o077 == 0
    again = bound(account=account)
    assert answer(again, noisy_sum(2)) == first
    assert "for other ones" in refused(again, noisy_sum(2, centers=CENTERS[2:4]))
    assert "another: end it" in refused(again, noisy_record(run="s"))
    with pytest.raises(UsageError, match="account of another plan or run"):
        bound(account=account, run="s")
    with pytest.raises(UsageError, match="account of another plan or run"):
        bound(account=account, plan=replace(PLAN, noise_scale=PLAN.noise_scale * 2))


def test_what_cannot_be_kept_is_not_answered(tmp_path: Path) -> None:
    node = bound(account=tmp_path / "file" / "asked.json")
    (tmp_path / "file").write_text("", encoding="utf-8")
    for _ in range(2):
        assert refused(node, noisy_sum()).startswith("a node failed at NoisySum: ")
    (tmp_path / "file").unlink()
    assert not isinstance(answer(node, noisy_sum()), Failure)
    assert json.loads((tmp_path / "file" / "asked.json").read_text(encoding="utf-8"))["asked"]


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"plan": 1, "run": "r", "asked": 3}'],
    ids=["empty", "a list", "without fields", "of wrong types"],
)
def test_a_damaged_account_is_refused(tmp_path: Path, text: str) -> None:
    account = tmp_path / "asked.json"
    account.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match="no account of questions, or a damaged one"):
        bound(account=account)


def test_a_plan_for_other_shards_or_columns_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"for shards of \(40, 20, 30\) records. Got 10"):
        BoundNode(ShardRecords(TABLE[:10], TABLE[:10]), PLAN)
    with pytest.raises(ParameterError, match=r"for 2 columns\. Got 1"):
        BoundNode(ShardRecords(TABLE[:20, :1], TABLE[:20, :1]), PLAN)
