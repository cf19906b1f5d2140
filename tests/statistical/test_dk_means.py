"""dk-means++ over nodes: its exact distribution, and what its messages give away at most.

Protected dk-means++ is held against its own description and against Algorithm 0 under its
reduction. Of private dk-means++ every outcome of the very code is enumerated, with noise of two
values in place of discrete Laplace noise; with that the likelihood of a transcript is known in
closed form, and the true noise's worst ratio is found by trying every neighbour and every output.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.branching import Branching, every_outcome
from support.chance import FALSE_ALARM, implausible
from support.enumeration import all_runs, clip_to, project, released, squared, uniform_on_group
from support.nodes import BranchingNode, make_peers

import dpkv
from dpkv.engine import LocalTransport, Peers, PrivatePlan, RecordingTransport, dkmeans
from dpkv.engine.dkmeans import dk_private, dk_protected, partitioned_kmeans_plusplus
from dpkv.engine.peers import PeerPicker
from dpkv.engine.requests import NoisySum, Propose, RecordAt
from dpkv.grid import BoxGrid

# -- protected dk-means++ --------------------------------------------------------------------------

SHARDS = [[(1.0, 1.0), (4.0, 0.5), (0.5, 3.0)], [(1.25, 1.0)], [(3.0, 2.0), (-2.0, 0.0)]]
RECORDS = [a for shard in SHARDS for a in shard]
NODE_OF = [node for node, shard in enumerate(SHARDS) for _ in shard]
K = 3
N_RUNS = 3000

Centers = tuple[tuple[float, ...], ...]


def by_its_description(shards: list[list[tuple[float, ...]]], k: int) -> dict[Centers, float]:
    """A node by its summed distances, a uniform one at first; then a uniform record of it."""
    releases: dict[Centers, float] = {(): 1.0}
    for _ in range(k):
        longer: dict[Centers, float] = defaultdict(float)
        for centers, chance in releases.items():
            sums = [
                sum(min((squared(a, c) for c in centers), default=1.0 / len(shard)) for a in shard)
                for shard in shards
            ]
            for shard, total in zip(shards, sums, strict=True):
                for a in shard:
                    longer[(*centers, a)] += chance * total / sum(sums) / len(shard)
        releases = {centers: chance for centers, chance in longer.items() if chance}
    return releases


def uniform_node(node_of: Sequence[int]) -> list[float]:
    return [1.0 / node_of.count(node) for node in node_of]


EXPECTED = by_its_description(SHARDS, K)


def test_the_description_and_algorithm_0_are_one_distribution() -> None:
    density = uniform_on_group(NODE_OF)
    runs = all_runs(RECORDS, K, density=density, first_weight=uniform_node(NODE_OF))
    assert project(runs, released) == pytest.approx(EXPECTED, abs=1e-14)


def disagreement(expected: dict[Centers, float] = EXPECTED) -> str | None:
    """Compare whole runs over nodes, then round by round, where a shift shows sooner."""
    peers, rng = make_peers(SHARDS), np.random.default_rng(2016)
    runs = (dk_protected(peers, K, rng=rng, run=str(i)).centers for i in range(N_RUNS))
    found = [tuple(map(tuple, centers.tolist())) for centers in runs]
    views: list[Callable[[Centers], Any]] = [tuple, *(partial(_round, t=t) for t in range(K))]
    for view in views:
        wrong = implausible(map(view, found), project(expected, view), FALSE_ALARM / len(views))
        if wrong:
            return wrong
    return None


def _round(centers: Centers, t: int) -> tuple[float, ...]:
    return centers[t]


def test_protected_dk_means_plusplus() -> None:
    assert disagreement() is None


def test_planted_fault_the_first_node_is_picked_by_its_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def by_record(*parts: Any, uniform_node_first: bool) -> PeerPicker:
        return PeerPicker(*parts, uniform_node_first=not uniform_node_first)

    monkeypatch.setattr(dkmeans, "PeerPicker", by_record)
    assert disagreement() is not None


def test_planted_fault_a_node_never_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes would be picked by the sums of an earlier round."""
    monkeypatch.setattr(Propose, "answer", lambda *_: 0)
    assert disagreement() is not None


def test_planted_fault_the_first_record_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dkmeans, "UniformRecord", lambda *_: RecordAt(0))
    assert disagreement() is not None


def test_all_records_equal_pick_nodes_by_their_sizes() -> None:
    shards = [[(1.0,)] * 3, [(1.0,)]]
    peers, rng = make_peers(shards), np.random.default_rng(3)
    runs = [dk_protected(peers, 2, rng=rng, run=str(i)) for i in range(1500)]
    assert {run.uniform_rounds for run in runs} == {(2,)}
    nodes = [tuple(run.indices.tolist()) for run in runs]
    expected = {(i, j): 0.5 * (0.75, 0.25)[j] for i in range(2) for j in range(2)}
    assert implausible(nodes, expected) is None


# -- k-means++ of a divided table ------------------------------------------------------------------


def parts_of(table: np.ndarray, cuts: Sequence[int]) -> list[np.ndarray]:
    return [part for part in np.split(table, sorted(cuts)) if len(part)]


@st.composite
def divided_tables(draw: st.DrawFn) -> tuple[np.ndarray, list[int], int, int]:
    m, d = draw(st.integers(1, 30)), draw(st.integers(1, 3))
    numbers = st.lists(st.integers(-4, 4), min_size=m * d, max_size=m * d)
    kind = draw(st.sampled_from([np.float32, np.float64]))
    table = np.array(draw(numbers), kind).reshape(m, d)
    cuts = draw(st.lists(st.integers(0, m), max_size=5))
    return table, cuts, draw(st.integers(1, m)), draw(st.integers(0, 2**32))


@settings(max_examples=150, deadline=None)
@given(divided_tables())
def test_however_a_table_is_divided_kmeans_plusplus_makes_the_same_picks(
    example: tuple[np.ndarray, list[int], int, int],
) -> None:
    table, cuts, k, seed = example
    centers, indices = dpkv.kmeans_plusplus(table, k, rng=seed)
    found = partitioned_kmeans_plusplus(make_peers(parts_of(table, cuts)), k, rng=seed)
    assert found.indices.tolist() == indices.tolist()
    assert found.centers.tolist() == centers.tolist()


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("cuts", [[], [1], [256, 512], [100, 900, 1500, 2999]])
def test_kmeans_plusplus_over_many_blocks_makes_the_same_picks(cuts: list[int], kind: type) -> None:
    table = np.random.default_rng(5).integers(-50, 50, (3000, 4)).astype(kind)
    peers = make_peers(parts_of(table, cuts))
    for seed in range(5):
        expected = dpkv.kmeans_plusplus(table, 25, rng=seed)[1]
        found = partitioned_kmeans_plusplus(peers, 25, rng=seed)
        assert found.indices.tolist() == expected.tolist()


def test_planted_fault_rows_of_the_wrong_node(monkeypatch: pytest.MonkeyPatch) -> None:
    table = np.random.default_rng(5).normal(size=(60, 2))
    monkeypatch.setattr(Peers, "first_row", lambda *_: 0)
    found = partitioned_kmeans_plusplus(make_peers(parts_of(table, [20, 40])), 5, rng=1)
    assert found.indices.tolist() != dpkv.kmeans_plusplus(table, 5, rng=1)[1].tolist()


# -- private dk-means++: every outcome of the code -------------------------------------------------

NOISE = {-1: Fraction(1, 4), 2: Fraction(3, 4)}
TOP = 2
LINE = BoxGrid((0.0,), (1.0,), (TOP,))
CELLS = [[(0,), (2,)], [(1,), (1,), (2,)]]
SIZES = tuple(map(len, CELLS))


def plan_of(
    k: int = 2, *, trusted: bool = False, eps: str = "2", sizes: Any = SIZES
) -> PrivatePlan:
    return PrivatePlan.calibrate(
        Decimal(eps), n_clusters=k, grid=LINE, shard_sizes=sizes, trusted_coordinator=trusted
    )


def transcript(plan: PrivatePlan, entropy: Branching) -> tuple[Any, ...]:
    """Run the protocol and return all that nodes sent, and the numbers of the picked nodes."""
    inner = LocalTransport([BranchingNode(shard, entropy) for shard in CELLS])
    transport = RecordingTransport(inner)
    peers = Peers(transport)
    transport.messages.clear()
    found = dk_private(peers, plan, below=entropy.below, run="r")
    sent = [message.content for message in transport.messages if not message.to_node]
    plain = tuple(part.item() if isinstance(part, np.ndarray) else part for part in sent)
    assert list(found.draws[:, 0]) == [plain[0], plain[-1]]
    return (*found.indices.tolist(), *plain)


def clipped(x: int) -> int:
    return min(max(x, 0), TOP)


def by_hand(smoothing: int, sum_noise: dict[int, Fraction]) -> dict[tuple[Any, ...], Fraction]:
    """The same for k = 2, in plain fractions."""
    chances: dict[tuple[Any, ...], Fraction] = defaultdict(Fraction)
    for first, x, start in noisy_records():
        distances = [sum((a - clipped(x)) ** 2 for (a,) in shard) for shard in CELLS]
        for offsets in product(sum_noise, repeat=len(CELLS)):
            sums = [total + offset for total, offset in zip(distances, offsets, strict=True)]
            weights = [max(0, s) + smoothing * m for s, m in zip(sums, SIZES, strict=True)]
            weights = weights if any(weights) else [1] * len(CELLS)
            likely = math.prod(sum_noise[offset] for offset in offsets)
            for second, y, chance in noisy_records():
                pick = Fraction(weights[second], sum(weights)) * len(CELLS)
                chances[(first, second, x, *sums, y)] += start * likely * pick * chance
    return {outcome: chance for outcome, chance in chances.items() if chance}


def noisy_records() -> Iterator[tuple[int, int, Fraction]]:
    """A uniform node, a uniform record of it, and noise."""
    for node, shard in enumerate(CELLS):
        for (a,) in shard:
            for offset, chance in NOISE.items():
                yield node, a + offset, chance / len(shard) / len(CELLS)


@pytest.mark.parametrize("trusted", [False, True])
def test_every_transcript_has_the_chance_that_the_protocol_gives_it(trusted: bool) -> None:
    plan = replace(plan_of(trusted=trusted), smoothing=3) if trusted else plan_of()
    found, scales = every_outcome(partial(transcript, plan), NOISE)
    assert found == by_hand(plan.smoothing, {0: Fraction(1)} if trusted else NOISE)
    assert scales == ({plan.noise_scale} if trusted else {plan.noise_scale, plan.sum_scale})


def test_with_exact_sums_it_is_algorithm_0_with_noise_on_a_uniform_record_of_the_shard() -> None:
    plan = replace(plan_of(trusted=True), smoothing=1)
    transcripts = every_outcome(partial(transcript, plan), NOISE)[0]
    found = project(transcripts, lambda sent: ((float(sent[2]),), (float(sent[-1]),)))
    cells = [a for shard in CELLS for a in shard]
    node_of = [node for node, size in enumerate(SIZES) for _ in range(size)]
    mates = uniform_on_group(node_of)

    def density(index: int, records: list) -> dict[tuple[float, ...], float]:
        chances: dict[tuple[float, ...], float] = defaultdict(float)
        for (a,), likely in mates(index, records).items():
            for offset, chance in NOISE.items():
                chances[(a + offset,)] += likely * float(chance)
        return chances

    runs = all_runs(
        cells,
        2,
        density=density,
        first_weight=uniform_node(node_of),
        smoothing=float(plan.smoothing),
        clip=clip_to([0.0], [float(TOP)]),
    )
    exact = {outcome: float(chance) for outcome, chance in found.items()}
    assert project(runs, released) == pytest.approx(exact, abs=1e-14)


def test_planted_fault_noise_of_half_the_scale_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def halved(*fields: Any) -> NoisySum:
        return replace(NoisySum(*fields), scale=fields[1] / 2)

    monkeypatch.setattr(dkmeans, "NoisySum", halved)
    plan = plan_of()
    scales = every_outcome(partial(transcript, plan), NOISE)[1]
    assert scales != {plan.noise_scale, plan.sum_scale}


# -- private dk-means++: the worst that all messages together tell ---------------------------------

Shard = tuple[int, ...]
BEYOND = range(-1, TOP + 2)
"""Past the grid's ends ratios of discrete Laplace noise stay as they are."""


def distance(shard: Shard, centers: Sequence[int]) -> int:
    return sum(min((a - c) ** 2 for c in centers) for a in shard)


def mixture(shard: Shard, x: int, scale: float) -> float:
    """A uniform record's noisy image, up to a factor that all shards share."""
    return sum(math.exp(-abs(x - a) / scale) for a in shard) / len(shard)


def neighbours(size: int) -> Iterator[tuple[Shard, Shard]]:
    for rest in combinations_with_replacement(range(TOP + 1), size - 1):
        for one, other in product(range(TOP + 1), repeat=2):
            if one != other:
                yield (*rest, one), (*rest, other)


def worst_transcript(mechanism: PrivatePlan) -> float:
    """Return the largest log-ratio of all messages, noisy sums included.

    Given what was sent before, the sums of the replaced record's shard differ by some D; a noisy
    sum on the far side has a ratio of exp(|D| / c). All other nodes' messages have the same
    likelihood on both sides, so a worst transcript always picks the record's own node.
    """
    k, b, c = mechanism.n_clusters, mechanism.noise_scale, mechanism.sum_scale
    worst = 0.0
    for size in sorted(set(mechanism.shard_sizes)):
        for one, other in neighbours(size):
            for sent in product(BEYOND, repeat=k):
                loss = sum(math.log(mixture(one, x, b) / mixture(other, x, b)) for x in sent)
                for t in range(1, k):
                    centers = [clipped(x) for x in sent[:t]]
                    loss += abs(distance(one, centers) - distance(other, centers)) / c
                worst = max(worst, loss)
    return worst


def worst_centers(mechanism: PrivatePlan) -> float:
    """Return the largest log-ratio of node numbers and centers, where exact sums stay unseen."""

    def likelihood(shards: Sequence[Shard], nodes: Sequence[int], sent: Sequence[int]) -> float:
        chance = 1.0
        for t, (node, x) in enumerate(zip(nodes, sent, strict=True)):
            if t:
                centers = [clipped(y) for y in sent[:t]]
                weights = [distance(s, centers) + mechanism.smoothing * len(s) for s in shards]
                chance *= weights[node] / sum(weights) if any(weights) else 1 / len(shards)
            chance *= mixture(shards[node], x, mechanism.noise_scale)
        return chance

    k, sizes = mechanism.n_clusters, mechanism.shard_sizes
    worst = 0.0
    for changed, size in enumerate(sizes):
        for one, other in neighbours(size):
            for rest in others(sizes, changed):
                before, after = ([*rest[:changed], s, *rest[changed:]] for s in (one, other))
                for nodes in product(range(len(sizes)), repeat=k):
                    for sent in product(BEYOND, repeat=k):
                        p, q = likelihood(before, nodes, sent), likelihood(after, nodes, sent)
                        if p > 0:
                            worst = max(worst, math.log(p / q) if q else math.inf)
    return worst


def others(sizes: Sequence[int], changed: int) -> Iterable[list[Shard]]:
    kept = [size for i, size in enumerate(sizes) if i != changed]
    for shards in product(*(combinations_with_replacement(range(TOP + 1), s) for s in kept)):
        yield list(shards)


@pytest.mark.parametrize(("k", "eps"), [(1, "1"), (2, "0.5"), (2, "3"), (3, "1")])
def test_all_messages_together_cost_what_the_plan_says_and_no_less(k: int, eps: str) -> None:
    plan = plan_of(k, eps=eps, sizes=(3, 4))
    worst = worst_transcript(plan)
    assert worst <= float(plan.cost()) * (1 + 1e-12)
    assert worst >= float(plan.cost()) * (1 - 1e-9), "Theorem B is tight here"
    assert plan.cost() <= Decimal(eps)


@pytest.mark.parametrize("eps", ["0.5", "3"])
def test_the_centers_of_a_trusted_coordinator_cost_no_more_than_the_plan_says(eps: str) -> None:
    plan = plan_of(2, trusted=True, eps=eps, sizes=(2, 3))
    assert float(plan.cost()) * 0.8 < worst_centers(plan) <= float(plan.cost())
    assert plan.cost() <= Decimal(eps)


def from_largest(plan: PrivatePlan) -> PrivatePlan:
    widest = (max(plan.shard_sizes),) * len(plan.shard_sizes)
    wrong = plan_of(plan.n_clusters, trusted=plan.trusted_coordinator, eps="1", sizes=widest)
    return replace(plan, noise_scale=wrong.noise_scale)


def test_planted_faults_in_the_noisy_sums_cost_more_than_the_plan_says() -> None:
    plan = plan_of(2, eps="1", sizes=(2, 4))
    for fault in (replace(plan, sum_scale=plan.sum_scale / 2), from_largest(plan)):
        assert worst_transcript(fault) > float(plan.cost()) * 1.02


def test_planted_faults_of_a_trusted_coordinator_cost_more_than_the_plan_says() -> None:
    plan = plan_of(2, trusted=True, eps="1", sizes=(2, 3))
    unsmoothed = replace(plan, smoothing=0, sum_scale=1.0)
    assert worst_centers(unsmoothed) == math.inf
    assert worst_centers(from_largest(plan)) > float(plan.cost())
