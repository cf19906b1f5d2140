"""The least remaining potential: exact against brute force, bounds on the right side of it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.bruteforce import instances, least_remaining, squared_distances

from dpkv.calibration.calibrator import collapse_duplicates
from dpkv.errors import ParameterError
from dpkv.paper import largest_gain as largest_gain_module
from dpkv.paper.calibration_loops import spatial_blocks
from dpkv.paper.dual_bounds import eigenvalue_bound
from dpkv.paper.largest_gain import largest_gain, largest_gain_anywhere
from dpkv.paper.randomized_estimates import estimate, random_neighbourhoods
from dpkv.paper.spread import (
    EXACT_POINTS,
    LeastRemaining,
    certified_remaining,
    exact_remaining,
)

ROUNDING = 1e-13
SMALL = list(instances(seed=1, rounds=40, m=(2, 8)))
TRUTH = [least_remaining(points, k - 1) for _, points, k in SMALL]


def certified(points, n_centers: int) -> LeastRemaining:
    data = collapse_duplicates(points)
    blocks = spatial_blocks(data.points, data.weights)
    return certified_remaining(data, lambda: blocks, n_centers, rng=np.random.default_rng(0))


# -- exact -----------------------------------------------------------------------------------------


def test_exact_is_what_brute_force_finds():
    for (name, points, k), truth in zip(SMALL, TRUTH, strict=True):
        found = exact_remaining(collapse_duplicates(points), k - 1)
        assert found.found == pytest.approx(truth, rel=1e-12, abs=0), (name, points.shape, k)
        # rounded toward privacy: a little below the truth, by more than any rounding
        assert truth * (1 - 2e-9) <= found.value <= truth * (1 - 5e-10), (name, points.shape, k)


def test_exact_on_instances_that_need_the_branches_pruned():
    for seed, k in [(0, 3), (1, 4), (2, 3)]:
        points = np.random.default_rng(seed).random((24, 2))
        truth = least_remaining(points, k - 1)
        assert exact_remaining(collapse_duplicates(points), k - 1).found == pytest.approx(
            truth, rel=1e-12
        )


def test_an_outlier_so_far_out_that_it_would_cancel_everything_else():
    # Taken off a total of 1e24, the outlier would leave rounding noise of 1e8.
    points = np.array([[0.0], [1.0], [2.0], [4.0], [1e12]])
    assert exact_remaining(collapse_duplicates(points), 1).found == 4 + 1 + 4  # around 2
    assert exact_remaining(collapse_duplicates(points), 2).found == 1 + 1  # 4, and 1 for 0 and 2
    for n_centers, truth in [(1, 9.0), (2, 2.0)]:
        assert certified(points, n_centers).value <= truth


def test_exact_refuses_a_large_instance_and_names_the_alternative():
    points = np.random.default_rng(0).random((EXACT_POINTS + 1, 2))
    with pytest.raises(ParameterError, match="'certified'"):
        exact_remaining(collapse_duplicates(points), 2)
    assert exact_remaining(collapse_duplicates(points), 1).value > 0  # one center has a closed form


# -- bounds ----------------------------------------------------------------------------------------


def test_certified_is_never_above_the_truth_and_close_to_it():
    shares = []
    for (name, points, k), truth in zip(SMALL, TRUTH, strict=True):
        bound = certified(points, k - 1)
        assert 0 <= bound.value <= truth * (1 + ROUNDING), (name, points.shape, k)
        assert bound.found >= truth * (1 - ROUNDING), (name, points.shape, k)
        if truth > 0:
            shares.append(bound.value / truth)
    print(f"certified over exact, {len(shares)} instances: median {np.median(shares):.4f}")
    assert np.median(shares) > 0.98


@pytest.mark.parametrize("d", [2, 6])
@pytest.mark.parametrize("k", [2, 4])
def test_certified_comes_close_on_thousands_of_records(d, k):
    rng = np.random.default_rng(10 * d + k)
    points = rng.normal(size=(2000, d)) + 4 * rng.integers(0, 3, (2000, 1))
    bound = certified(points, k - 1)
    print(f"d = {d}, k = {k}: {bound.value / bound.found:.4f} of what was found to remain")
    assert 0.9 * bound.found < bound.value <= bound.found
    exact = exact_remaining(collapse_duplicates(points), 1).value
    if k == 2:
        assert bound.value <= exact * (1 + 1e-8)
    # no set of records that anyone can draw leaves less
    for _ in range(20):
        centers = points[rng.choice(2000, k - 1, replace=False)]
        near = squared_distances(points, centers).min(axis=1)
        assert bound.value <= near.sum() - near.max()


def test_eigenvalue_bound_is_never_above_the_truth():
    used = 0
    for (name, points, k), truth in zip(SMALL, TRUTH, strict=True):
        bound = eigenvalue_bound(collapse_duplicates(points), k - 1)
        assert bound <= truth * (1 + ROUNDING), (name, points.shape, k)
        used += bound > 0
    assert used > 10  # not all of it is vacuous


def test_eigenvalue_bound_for_centers_anywhere_is_what_one_mean_leaves():
    points = np.random.default_rng(3).random((50, 4))
    around_mean = ((points - points.mean(axis=0)) ** 2).sum()
    bound = eigenvalue_bound(collapse_duplicates(points), 1, removed=False)
    assert bound == pytest.approx(around_mean, rel=1e-8)
    assert bound <= around_mean


def test_random_search_never_finds_less_than_the_minimum():
    for (name, points, k), truth in zip(SMALL, TRUTH, strict=True):
        draws = random_neighbourhoods(points, k, 60, np.random.default_rng(0))
        seen = estimate(points, draws).least_remaining
        assert seen >= truth * (1 - 1e-11), (name, points.shape, k)


# -- the largest gain ------------------------------------------------------------------------------


def gains_at(places, points, budgets, weights):
    return np.maximum(budgets - squared_distances(places, points), 0.0) @ weights


@pytest.mark.parametrize("seed", range(12))
def test_largest_gain_over_records_is_found_within_its_slack(seed):
    rng = np.random.default_rng(seed)
    d = 1 + seed % 4
    points = rng.normal(size=(int(rng.integers(2, 1500)), d)) * 10.0 ** rng.integers(-3, 4)
    weights = rng.integers(1, 5, len(points)).astype(float)
    budgets = rng.random(len(points)) * points.var() * 10.0 ** rng.uniform(-2, 1)
    every = gains_at(points, points, budgets, weights)
    found = largest_gain(
        spatial_blocks(points, weights), budgets, np.array([0, len(points) - 1]), slack=1e-3
    )
    assert every.max() * (1 - 1e-12) <= found.upper <= every.max() * (1 + 1e-3 + 1e-12)
    np.testing.assert_allclose(found.values, every[found.rows], rtol=1e-9)
    assert found.values.max() >= every.max() / (1 + 1e-3)


def test_largest_gain_without_a_budget_is_still_a_bound():
    rng = np.random.default_rng(0)
    points, weights = rng.random((1000, 2)), np.ones(1000)
    budgets = np.full(1000, 0.01)
    found = largest_gain(spatial_blocks(points, weights), budgets, np.array([0]), pair_budget=1.0)
    assert found.upper >= gains_at(points, points, budgets, weights).max()


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_largest_gain_anywhere_is_above_a_dense_search(d, seed):
    rng = np.random.default_rng(100 * d + seed)
    points = rng.normal(size=(int(rng.integers(2, 200)), d))
    weights = rng.integers(1, 4, len(points)).astype(float)
    budgets = rng.random(len(points)) * 10.0 ** rng.uniform(-2, 1)
    bound = largest_gain_anywhere(spatial_blocks(points, weights), budgets)
    best = points[rng.integers(len(points), size=200)] + rng.normal(size=(200, d)) * 0.3
    for _ in range(30):  # uphill: to the mean of the records in reach
        reached = weights * (squared_distances(best, points) < budgets)
        mass = reached.sum(axis=1, keepdims=True)
        best = np.divide(reached @ points, mass, out=best, where=mass > 0)
    nearby = np.concatenate([best, points, best + 0.01 * rng.normal(size=best.shape)])
    highest = gains_at(nearby, points, budgets, weights).max()
    assert bound >= highest * (1 - 1e-12)
    assert bound <= max(highest, budgets.max()) * 1.5  # not vacuous either


def test_largest_gain_anywhere_ends_where_floats_are_coarse():
    # At 1e15 floats are 1/8 apart: boxes cannot be halved as far as their bounds would like.
    points = 1e15 + np.random.default_rng(0).integers(0, 9, (30, 2)) / 8
    budgets = np.full(30, 0.1)
    bound = largest_gain_anywhere(spatial_blocks(points, np.ones(30)), budgets)
    assert bound >= gains_at(points, points, budgets, np.ones(30)).max()


def test_largest_gain_anywhere_cut_short_is_still_a_bound(monkeypatch):
    rng = np.random.default_rng(0)
    points, weights, budgets = rng.random((50, 3)), np.ones(50), np.full(50, 0.05)
    blocks = spatial_blocks(points, weights)
    patient = largest_gain_anywhere(blocks, budgets)
    monkeypatch.setattr(largest_gain_module, "_MOST_BOXES", 20)
    hasty = largest_gain_anywhere(blocks, budgets)
    assert gains_at(points, points, budgets, weights).max() <= patient < hasty


def test_in_many_dimensions_the_search_over_all_points_is_not_tried():
    points = np.random.default_rng(0).random((20, 4))
    assert largest_gain_anywhere(spatial_blocks(points, np.ones(20)), np.ones(20)) == math.inf


# -- degenerate data -------------------------------------------------------------------------------

DEGENERATE = {
    "all records identical": (np.ones((6, 2)), 3),
    "as many distinct records as centers": (np.repeat(np.eye(2), 3, axis=0), 3),
    "one more, and it is removed": (np.array([[0.0], [0.0], [1.0], [5.0]]), 3),
    "m = k": (np.random.default_rng(0).random((4, 3)), 4),
    "m = k = 2": (np.array([[0.1, 0.7], [0.3, 0.2]]), 2),
    "m = k = 2 far out": (1e9 + np.array([[0.1, 0.7], [0.3, 0.2]]), 2),
    "constant columns": (np.array([[1.0, 3.0], [1.0, 3.0], [1.0, 4.0]]), 2),
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_data_have_infinite_spread(name):
    points, k = DEGENERATE[name]
    for found in (exact_remaining(collapse_duplicates(points), k - 1), certified(points, k - 1)):
        assert found.value == 0.0
        assert found.spread(1.0) == math.inf
    draws = random_neighbourhoods(points, k, 500, np.random.default_rng(0))
    assert estimate(points, draws).spread(1.0) == math.inf


def test_the_spread_is_radius_squared_over_what_remains():
    assert LeastRemaining(8.0, "exact", 8.0).spread(6.0) == 4.5
