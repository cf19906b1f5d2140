"""Monotonicity: exact against brute force over packed sets, bounds on the right side of it."""

from __future__ import annotations

import math
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from support.bruteforce import instances, least_remaining, monotonicity, packed, squared_distances

from dpkv.calibration.calibrator import collapse_duplicates
from dpkv.paper import monotonicity as monotonicity_module
from dpkv.paper import randomized_estimates
from dpkv.paper.calibration_loops import spatial_blocks
from dpkv.paper.dual_bounds import DualBound, WeightedRecords
from dpkv.paper.largest_gain import largest_gain_anywhere
from dpkv.paper.monotonicity import (
    EXACT_POINTS,
    _least_left,
    certified_monotonicity,
    exact_monotonicity,
)
from dpkv.paper.randomized_estimates import estimate, random_neighbourhoods
from dpkv.paper.spread import certified_remaining, exact_remaining

SMALL = list(instances(seed=2, rounds=40, m=(2, 8)))
EXACT = [exact_monotonicity(collapse_duplicates(points), k).value for _, points, k in SMALL]


def certified(points, k: int) -> tuple[float, float]:
    """Return the certified least remaining potential and monotonicity."""
    data = collapse_duplicates(points)
    blocks = spatial_blocks(data.points, data.weights)
    found = {
        n: certified_remaining(data, lambda: blocks, n, rng=np.random.default_rng(0))
        for n in range(1, k + 1)
    }
    duals = {n: found[n].dual for n in range(2, k + 1)}
    return found[k - 1].value, certified_monotonicity(data, lambda: blocks, duals).value


@cache
def certified_small() -> list[tuple[float, float]]:
    return [certified(points, k) for _, points, k in SMALL]


# -- brute force itself ----------------------------------------------------------------------------


def test_packedness_of_balls_that_meet_touch_and_miss():
    triangle = np.array([[0.0, 0.0], [2.0, 0.0], [1.0, math.sqrt(3.0)]])
    inner = 4 / 3  # squared distance of the corners to the middle
    assert packed(triangle, np.full(3, inner * 1.001))
    assert not packed(triangle, np.full(3, inner * 0.999))  # any two of them still meet
    assert packed(triangle[:2], np.array([1.0, 1.0]))
    assert packed(triangle[:2], np.array([0.0, 4.0]))
    assert not packed(triangle[:2], np.array([0.0, 3.9]))
    assert packed(triangle[:1], np.array([0.0]))


def test_packedness_against_a_dense_search():
    rng = np.random.default_rng(0)
    grid = np.stack(np.meshgrid(*[np.linspace(-0.5, 1.5, 401)] * 2), axis=-1).reshape(-1, 2)
    verdicts = []
    for _ in range(60):
        points, near = rng.random((4, 2)), rng.random(4) * 0.7
        depth = (squared_distances(grid, points) - near).max(axis=1).min()
        if abs(depth) > 0.02:  # the grid cannot tell closer cases apart
            verdicts.append(packed(points, near))
            assert verdicts[-1] == (depth < 0)
    assert {True, False} == set(verdicts)


# -- exact -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_exact_is_the_maximum_over_packed_sets(seed):
    for name, points, k in instances(seed=100 + seed, rounds=1, m=(3, 7)):
        truth = monotonicity(points, k)
        found = exact_monotonicity(collapse_duplicates(points), k).value
        assert found == pytest.approx(truth, rel=1e-9, abs=1e-12), (name, points.shape, k)


def test_no_point_anywhere_lowers_the_potential_more_than_the_exact_maximum():
    rng = np.random.default_rng(4)
    points = rng.random((6, 2))
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 81)] * 2), axis=-1).reshape(-1, 2)
    to_grid = squared_distances(grid, points)
    highest = 0.0
    for first in range(6):
        for second in range(6):  # equal ones are N of a single record
            near = squared_distances(points, points[[first, second]]).min(axis=1)
            highest = max(highest, near.sum() / np.minimum(near, to_grid).sum(axis=1).min() - 1)
    found = exact_monotonicity(collapse_duplicates(points), 3).value
    assert highest <= found <= highest * 1.05


def test_exact_on_a_case_worked_by_hand():
    # N = {10}: phi = 100 + 81; x = 0.5 leaves 0.25 + 0.25.  N = {0}: 1 + 100; x = 10 leaves 1.
    # N = {1}: 1 + 81; x = 10 leaves 1.  So 181 / 0.5 is the largest ratio.
    points = np.array([[0.0], [1.0], [10.0]])
    assert exact_monotonicity(collapse_duplicates(points), 2).value == pytest.approx(
        361.0, rel=1e-12
    )
    # three records twice each weigh the same
    assert exact_monotonicity(
        collapse_duplicates(np.repeat(points, 2, axis=0)), 2
    ).value == pytest.approx(361.0, rel=1e-12)
    # with |N| = 2 the new center takes the third record: nothing is left
    assert exact_monotonicity(collapse_duplicates(points), 3).value == math.inf


def test_exact_with_two_tight_clusters_far_apart():
    # Around any one origin the squares are 1e18 and more, and what is left is about 1.
    points = np.array([[0.0], [1.0], [3.0], [1e9], [1e9 + 1], [1e9 + 4]])
    for k in (2, 3, 4):
        found = exact_monotonicity(collapse_duplicates(points), k).value
        assert found == pytest.approx(monotonicity(points, k), rel=1e-9)


def test_all_subsets_of_the_largest_instance_are_affordable():
    points = np.random.default_rng(0).random((EXACT_POINTS, 2))
    assert exact_monotonicity(collapse_duplicates(points), 4).value > 0


# -- bounds ----------------------------------------------------------------------------------------


def test_certified_is_never_below_the_exact_maximum():
    ratios = []
    for (name, points, k), exact, (_, bound) in zip(SMALL, EXACT, certified_small(), strict=True):
        assert bound >= exact * (1 - 1e-12), (name, points.shape, k)
        if math.isfinite(exact):
            ratios.append((1 + bound) / (1 + exact))
    print(f"certified over exact, {len(ratios)} instances: median {np.median(ratios):.2f}")
    assert np.median(ratios) < 20  # 1 + ds; coarse on a handful of records


@pytest.mark.parametrize("n_centers", [2, 3, 4])
def test_what_the_dual_leaves_covers_every_neighbourhood(n_centers):
    # The truth is too far from the bound to check its parts, so they are checked one N at a time:
    # sum w lambda - sum over N of g - sup g, for the member of N of least phi on its own.
    rng = np.random.default_rng(n_centers)
    points, weights = rng.random((12, 2)), rng.integers(1, 4, 12).astype(float)
    data, budgets = WeightedRecords(points, weights), rng.random(12) * 0.5
    distances = squared_distances(points, points)
    gain = np.maximum(budgets - distances, 0.0) @ weights
    blocks, alone, total = spatial_blocks(points, weights), distances @ weights, weights @ budgets
    dual = DualBound(0.0, budgets, float(gain.max()))
    left = _least_left(data, blocks, dual, n_centers, alone)
    anywhere = largest_gain_anywhere(blocks, budgets)
    for chosen in combinations(range(12), n_centers - 1):
        rest = total - gain[list(chosen)].sum()
        certified_rest = max(0.5 * (rest - gain.max()), rest - anywhere)
        assert left[min(chosen, key=lambda row: alone[row])] <= certified_rest * (1 + 1e-12) + 1e-12


@pytest.mark.parametrize(("d", "most"), [(1, 6.0), (2, 5.0), (3, 5.0), (6, 8.0)])
def test_certified_is_of_use_on_two_thousand_records(d, most):
    points = np.random.default_rng(d).random((2000, d))
    seen = estimate(points, random_neighbourhoods(points, 3, 500, np.random.default_rng(0)))
    bound = certified(points, 3)[1]
    print(f"d = {d}: certified {bound:.2f}, seen {seen.monotonicity:.2f}")
    assert seen.monotonicity <= bound < most * seen.monotonicity


def test_every_method_on_its_side_of_the_truth():
    for (name, points, k), exact, (least, _) in zip(SMALL, EXACT, certified_small(), strict=True):
        seen = estimate(points, random_neighbourhoods(points, k, 100, np.random.default_rng(1)))
        assert seen.monotonicity <= exact * (1 + 1e-11) + 1e-12, (name, points.shape, k)
        exact_least = exact_remaining(collapse_duplicates(points), k - 1)
        spreads = [seen.spread(1.0), 1 / exact_least.found if exact_least.found else math.inf]
        spreads += [exact_least.spread(1.0), 1 / least if least else math.inf]
        rounded = [spread * (1 + 1e-11 * place) for place, spread in enumerate(spreads)]
        assert rounded == sorted(rounded), (name, points.shape, k)


def test_random_search_can_find_everything_there_is():
    points = np.random.default_rng(8).random((5, 2))
    seen = estimate(points, random_neighbourhoods(points, 3, 3000, np.random.default_rng(0)))
    assert seen.least_remaining == pytest.approx(least_remaining(points, 2), rel=1e-12)


# -- the random neighbourhoods ---------------------------------------------------------------------


@pytest.mark.parametrize(("m", "k"), [(2, 2), (5, 3), (30, 30), (1000, 4)])
def test_random_neighbourhoods_hold_distinct_records(m, k):
    points = np.arange(m, dtype=float)[:, np.newaxis]
    draws = random_neighbourhoods(points, k, 300, np.random.default_rng(0))
    rows = np.sort(draws.centers[:, :, 0], axis=1)
    assert (rows[:, 1:] > rows[:, :-1]).all()


@pytest.mark.parametrize("most", [1, 8, 60], ids=["one by one", "two at a time", "some at a time"])
def test_draws_are_looked_at_in_parts_where_memory_is_short(monkeypatch, most):
    """Of 10^5 columns, 5000 neighbourhoods are 8 GB for k = 2: they are never held at once."""
    points = np.random.default_rng(0).normal(size=(30, 2))
    draws = random_neighbourhoods(points, 2, 50, np.random.default_rng(1))
    whole = estimate(points, draws)
    monkeypatch.setattr(randomized_estimates, "_MOST_NUMBERS", most)
    assert max(part.centers.size for part in draws.in_parts()) <= max(most, 4)
    assert estimate(points, draws) == whole


def test_a_short_and_wide_table_is_looked_at_in_its_span(monkeypatch):
    points = np.random.default_rng(0).normal(size=(12, 40))
    points[7] = points[3]
    draws = random_neighbourhoods(points, 3, 300, np.random.default_rng(1))
    plain = estimate(points, draws)
    monkeypatch.setattr(randomized_estimates, "_WIDE", 20)
    turned = estimate(points, draws)
    assert turned.least_remaining == pytest.approx(plain.least_remaining, rel=1e-12)
    assert turned.monotonicity == pytest.approx(plain.monotonicity, rel=1e-12)


def test_in_its_span_a_table_of_two_distinct_records_leaves_nothing(monkeypatch):
    points = np.repeat(np.random.default_rng(0).normal(size=(2, 40)), 4, axis=0)
    draws = random_neighbourhoods(points, 6, 50, np.random.default_rng(1))
    monkeypatch.setattr(randomized_estimates, "_WIDE", 20)
    assert estimate(points, draws).least_remaining == 0.0


def test_random_neighbourhoods_favour_no_record_in_any_place():
    points = np.arange(4.0)[:, np.newaxis]
    draws = random_neighbourhoods(points, 2, 24000, np.random.default_rng(0))
    pairs = draws.centers[:, :, 0].astype(int) @ np.array([4, 1])
    counts = np.bincount(pairs, minlength=16).reshape(4, 4)
    assert (np.diag(counts) == 0).all()
    # 12 ordered pairs, 2000 each; 6.5 standard deviations (43) are passed with chance 1e-9
    assert np.abs(counts[~np.eye(4, dtype=bool)] - 2000).max() < 6.5 * 43
    assert np.abs(np.bincount(draws.removed) - 6000).max() < 6.5 * 67


# -- degenerate data -------------------------------------------------------------------------------


def test_identical_records_have_nothing_to_lower():
    assert exact_monotonicity(collapse_duplicates(np.ones((5, 2))), 3).value == 0.0
    seen = estimate(
        np.ones((5, 2)), random_neighbourhoods(np.ones((5, 2)), 3, 50, np.random.default_rng(0))
    )
    assert seen.monotonicity == 0.0


def test_two_distinct_records_can_be_lowered_to_nothing():
    points = np.array([[0.0], [0.0], [1.0]])
    assert exact_monotonicity(collapse_duplicates(points), 2).value == math.inf
    assert certified(points, 2)[1] == math.inf


def test_gains_bounded_block_by_block_belong_to_their_own_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Large tables bound g(c) by the block of c: the bound must sit at c, not at another record.
    rng = np.random.default_rng(3)
    points = np.concatenate([rng.normal(size=(400, 2)), rng.normal(size=(300, 2)) + 30.0])
    data = WeightedRecords(points, np.ones(len(points)))
    budgets = rng.uniform(0.5, 4.0, size=len(points))
    distances = ((points[:, None, :] - points[None]) ** 2).sum(axis=2)
    truth = np.maximum(budgets[None, :] - distances, 0.0).sum(axis=1)
    blocks = spatial_blocks(points, data.weights)
    np.testing.assert_allclose(monotonicity_module._every_gain(data, blocks, budgets), truth)
    monkeypatch.setattr(monotonicity_module, "_ALL_PAIRS", 0.0)
    bounded = monotonicity_module._every_gain(data, blocks, budgets)
    assert (bounded >= truth * (1 - 1e-12)).all()
    assert np.median(bounded / truth) < 20, "a bound by the block, not by the whole table"
