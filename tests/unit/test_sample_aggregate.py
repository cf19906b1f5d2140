"""Sample and aggregate: what its proof says, tried on every small table, and its parts.

The proof is in docs/proofs/sample-and-aggregate.md. Golden figures come from enumeration of all
neighbours, from scipy's matching and F distribution, and from a numerical search over outputs.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations_with_replacement, permutations, product

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.stats import f as f_distribution
from scipy.stats import kstest
from support.chance import FALSE_ALARM

from dpkv.audits import sample_aggregate
from dpkv.audits.sample_aggregate import (
    MOST_BLOCKS,
    SampleAggregate,
    distances,
    draw_noise,
    sensitivities,
)
from dpkv.errors import ParameterError, UsageError
from dpkv.mechanisms import MECHANISMS

PLACES = (0.0, 0.1, 0.2, 1.0, 3.0)
DIAM2 = 3.0
BLOCKS = 5
TINY = SampleAggregate(
    n_records=BLOCKS, n_clusters=1, n_features=1, eps=1.0, n_blocks=BLOCKS, smoothness=0.6
)
Aggregated = tuple[float, float]
ROUNDING = 1e-9


def price_of(old: Aggregated, new: Aggregated, shift: float, coordinates: int = 1) -> float:
    """Return the largest loss of any output between two centers with two bounds: the lemma."""
    (a, one), (b, other) = old, new
    if one == other == 0.0:
        return 0.0 if a == b else math.inf
    if not one or not other:
        return math.inf
    one, other = one / shift, other / shift
    distance = ((a - b) ** 2 + (one - other) ** 2) / (2.0 * one * other)
    return coordinates * math.acosh(1.0 + distance)


def largest_price(layout: SampleAggregate, fault: str = "") -> float:
    """Return the largest loss over all tables of answers, and all answers one block may change to.

    The order of blocks decides ties, so a few orders of every table are tried.
    """
    largest = 0.0
    known: dict[tuple[float, ...], Aggregated] = {}

    def aggregate(table: tuple[float, ...]) -> Aggregated:
        if table not in known:
            answers = np.array(table).reshape(-1, 1, 1)
            chosen, bound = layout.aggregate(answers, DIAM2)
            if fault == "local":  # noise by the sensitivity of this very table
                radii = np.sort(distances(answers), axis=1)
                bound = float(sensitivities(radii, (len(table) + 3) // 2, DIAM2)[0])
            known[table] = float(chosen[0, 0]), bound
        return known[table]

    for table in combinations_with_replacement(PLACES, BLOCKS):
        for ordered in (table, table[::-1]):
            for block, place in product(range(BLOCKS), PLACES):
                changed = (*ordered[:block], place, *ordered[block + 1 :])
                price = price_of(aggregate(ordered), aggregate(changed), layout.shift)
                largest = max(largest, price)
    return largest


def test_no_table_and_neighbour_lose_more_than_eps():
    for eps in (0.3, 1.0, 4.0):
        for share in (0.2, 0.6, 0.9):
            layout = replace(TINY, eps=eps, smoothness=share * eps)
            assert largest_price(layout) <= eps * (1.0 + ROUNDING)


def test_noise_by_local_sensitivity_is_noticed():
    """Planted fault: what is not smooth tells of the table by its size."""
    assert largest_price(TINY, "local") > TINY.eps


def test_a_bare_majority_is_noticed(monkeypatch):
    """Planted fault: balls of half the blocks need not meet, so radii bound nothing."""
    monkeypatch.setattr(SampleAggregate, "aggregate", _bare)
    assert largest_price(TINY) > TINY.eps


def _bare(
    layout: SampleAggregate, answers: np.ndarray, farthest: float
) -> tuple[np.ndarray, float]:
    radii = np.sort(distances(answers), axis=1)
    majority = len(answers) // 2
    bounds = sensitivities(radii, majority, farthest)
    chosen = answers[radii[:, majority - 1].argmin()]
    return chosen, float((np.exp(-layout.smoothness * np.arange(len(bounds))) * bounds).max())


def test_half_the_noise_is_noticed(monkeypatch):
    """Planted fault."""
    monkeypatch.setattr(SampleAggregate, "shift", 2.0 * TINY.shift)
    assert largest_price(TINY) > TINY.eps


def test_the_bound_is_smooth_and_covers_where_centers_go():
    """Several centers in several columns, with blocks that agree, and some that do not."""
    rng = np.random.default_rng(5)
    layout = SampleAggregate(60, 3, 2, 1.0, 12, 0.1)
    diam2 = math.sqrt(2.0)
    for _ in range(200):
        answers = np.clip(
            rng.random((3, 2)) + rng.choice([0.01, 0.3]) * rng.normal(size=(12, 3, 2)), 0.0, 1.0
        )
        changed = answers.copy()
        changed[rng.integers(12)] = rng.random((3, 2))
        (one, before), (two, after) = (layout.aggregate(x, diam2) for x in (answers, changed))
        assert abs(math.log(before / after)) <= layout.smoothness + ROUNDING
        moved = distances(np.stack([one, two]))[0, 1]
        assert moved <= min(before, after) + ROUNDING


def test_order_within_an_answer_changes_neither_distance_nor_bound():
    rng = np.random.default_rng(6)
    answers = rng.random((9, 3, 2))
    shuffled = np.stack([rng.permutation(answer) for answer in answers])
    assert distances(answers) == pytest.approx(distances(shuffled))
    layout = SampleAggregate(60, 3, 2, 1.0, 9, 0.1)
    assert layout.aggregate(answers, 1.5)[1] == pytest.approx(layout.aggregate(shuffled, 1.5)[1])


@pytest.mark.parametrize("k", [1, 2, 4, 7])
def test_distances_match_centers_at_least_cost(k):
    rng = np.random.default_rng(k)
    answers = rng.choice([0.0, 0.25, 0.5, 1.0], size=(6, k, 3))
    found = distances(answers)
    assert (found == found.T).all()
    for i, j in product(range(6), repeat=2):
        cost = ((answers[i][:, np.newaxis] - answers[j][np.newaxis]) ** 2).sum(axis=2)
        assert found[i, j] ** 2 == pytest.approx(cost[linear_sum_assignment(cost)].sum())
        if k < 5:
            least = min(cost[np.arange(k), order].sum() for order in permutations(range(k)))
            assert found[i, j] ** 2 == pytest.approx(least)


# -- noise ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("coordinates", [1, 2, 5])
def test_the_lemma_on_the_largest_loss(coordinates):
    """A numerical search over outputs reaches what the lemma says, and never more."""
    rng = np.random.default_rng(coordinates)
    for _ in range(20):
        shift, one, other = rng.uniform(0.01, 3.0), rng.uniform(0.2, 3.0), rng.uniform(0.2, 3.0)
        line = np.concatenate([-np.geomspace(1e-4, 1e4, 4000), np.geomspace(1e-4, 1e4, 4000)])
        line = np.concatenate([line, line + shift])  # the extremes lie on the line of both centers

        def log_density(at: np.ndarray, center: float, scale: float) -> np.ndarray:
            share = 1.0 + ((at - center) / scale) ** 2
            return -coordinates * (np.log(share) + math.log(scale))

        loss = np.abs(log_density(line, 0.0, one) - log_density(line, shift, other)).max()
        price = price_of((0.0, one), (shift, other), 1.0, coordinates)
        assert loss <= price + ROUNDING
        assert loss == pytest.approx(price, rel=2e-3)


def squared_noise(n_draws: int, shape: tuple[int, int]) -> np.ndarray:
    rng = np.random.default_rng(11)
    return np.array([(draw_noise(shape, rng) ** 2).sum() for _ in range(n_draws)])


@pytest.mark.parametrize("shape", [(1, 1), (2, 3)])
def test_noise_has_its_density(shape):
    """|z|^2 of the density (1 + |z|^2)^-D is F-distributed with (D, D) degrees of freedom."""
    size = shape[0] * shape[1]
    found = squared_noise(4000, shape)
    assert kstest(found, f_distribution(size, size).cdf).pvalue > FALSE_ALARM
    assert kstest(1.5 * found, f_distribution(size, size).cdf).pvalue < FALSE_ALARM  # planted fault


# -- whole runs -----------------------------------------------------------------------------------


def corners(n_records: int) -> np.ndarray:
    middles = np.array([[0.2, 0.2], [0.8, 0.2], [0.2, 0.8]])
    rng = np.random.default_rng(3)
    return np.clip(middles[np.arange(n_records) % 3] + rng.normal(0, 0.01, (n_records, 2)), 0, 1)


def test_blocks_are_clustered():
    records = corners(3000)
    layout = SampleAggregate.calibrate(1.0, n_records=3000, n_clusters=3, n_features=2)
    answers = layout.answers_of_blocks(records, np.random.default_rng(0))
    assert answers.shape == (layout.n_blocks, 3, 2)
    truth = np.array([[0.2, 0.2], [0.8, 0.2], [0.2, 0.8]])
    away = distances(np.concatenate([truth[np.newaxis], answers]))[0, 1:]
    assert np.median(away) < 0.03


def test_a_record_changes_its_own_block_alone():
    records = corners(300)
    changed = records.copy()
    changed[17] = [1.0, 1.0]
    layout = SampleAggregate.calibrate(1.0, n_records=300, n_clusters=3, n_features=2)
    old, new = (layout.answers_of_blocks(x, np.random.default_rng(4)) for x in (records, changed))
    assert (old != new).any(axis=(1, 2)).sum() == 1


def test_many_records_and_a_generous_eps_find_the_clusters():
    layout = SampleAggregate.calibrate(20.0, n_records=3000, n_clusters=3, n_features=2)
    found = layout.find_centers(corners(3000), math.sqrt(2.0), np.random.default_rng(1))
    truth = np.array([[0.2, 0.2], [0.2, 0.8], [0.8, 0.2]])
    assert distances(np.stack([found, truth]))[0, 1] < 0.2
    assert (np.diff(found[:, 0]) >= 0).all()  # told in an order that the records have no part in


def test_layout_comes_from_public_facts():
    calibrate = SampleAggregate.calibrate
    layout = calibrate(1.0, n_records=100_000, n_clusters=5, n_features=2)
    assert (layout.coordinates, layout.n_blocks) == (10, 160)
    assert calibrate(0.5, n_records=100_000, n_clusters=5, n_features=2).n_blocks == 320
    assert calibrate(0.001, n_records=10**8, n_clusters=5, n_features=2).n_blocks == MOST_BLOCKS
    assert calibrate(1.0, n_records=100, n_clusters=5, n_features=2).n_blocks == 4
    with pytest.raises(ParameterError):
        calibrate(0.0, n_records=100, n_clusters=5, n_features=2)
    with pytest.raises(UsageError):
        layout.find_centers(corners(300), 1.0, np.random.default_rng(0))


@pytest.mark.parametrize("n_records", [1, 2, 3, 7])
def test_hardly_any_records(n_records):
    layout = SampleAggregate.calibrate(1.0, n_records=n_records, n_clusters=1, n_features=2)
    found = layout.find_centers(np.full((n_records, 2), 0.5), 1.0, np.random.default_rng(0))
    assert found.shape == (1, 2)
    assert np.isfinite(found).all()


def test_it_is_no_mechanism_that_can_be_released():
    assert sample_aggregate.NAME not in MECHANISMS
    assert "simulation only" in sample_aggregate.NOTE
