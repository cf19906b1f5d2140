"""enclosing_radius: right for known shapes, and never below the truth."""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np
import pytest

from dpkv.paper.enclosing_ball import enclosing_radius


def smallest_disc(points: np.ndarray) -> float:
    """The smallest disc around points of the plane is that of some two or three of them."""
    best = math.inf
    discs = [((a + b) / 2, math.dist(a, b) / 2) for a, b in combinations(points, 2)]
    for a, b, c in combinations(points, 3):
        rows = 2 * np.stack([b - a, c - a])
        if abs(np.linalg.det(rows)) > 1e-12:
            offset = np.linalg.solve(rows, [(b - a) @ (b - a), (c - a) @ (c - a)])
            discs.append((a + offset, math.hypot(*offset)))
    for center, radius in discs:
        if radius < best and np.linalg.norm(points - center, axis=1).max() <= radius * (1 + 1e-9):
            best = radius
    return best


@pytest.mark.parametrize("seed", range(60))
def test_against_all_pairs_and_triples_in_the_plane(seed):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(int(rng.integers(2, 13)), 2)) * rng.random(2)
    if seed % 3 == 0:
        points = np.round(points, 1)  # duplicates and collinear triples
    if seed % 5 == 0:
        points[0] *= 1000  # one outlier
    truth = smallest_disc(points)
    assert truth * (1 - 1e-9) <= enclosing_radius(points) <= truth * (1 + 1e-8)


@pytest.mark.parametrize("d", [1, 2, 3, 10])
@pytest.mark.parametrize("offset", [0.0, -7.0, 1e9])
def test_cubes(d, offset):
    corners = offset + np.array(list(product([0.0, 1.0], repeat=d)))
    truth = math.sqrt(d) / 2
    assert truth <= enclosing_radius(corners) <= truth * (1 + 1e-8)


@pytest.mark.parametrize("d", [2, 5, 20])
def test_simplices(d):
    truth = math.sqrt((d - 1) / d)  # from a unit vector to the mean of all of them
    assert truth <= enclosing_radius(np.eye(d)) <= truth * (1 + 1e-8)


@pytest.mark.parametrize("d", [2, 3, 8, 20])
def test_at_least_half_the_diameter_and_jung_at_most(d):
    rng = np.random.default_rng(d)
    for points in (rng.normal(size=(200, d)), rng.random((50, d)), rng.normal(size=(d + 2, d))):
        diameter = max(math.dist(a, b) for a, b in combinations(points, 2))
        radius = enclosing_radius(points)
        assert diameter / 2 <= radius <= diameter * math.sqrt(d / (2 * d + 2)) * (1 + 1e-8)


@pytest.mark.parametrize("d", [3, 20])
def test_a_ball_of_known_radius_that_touches_many_points(d):
    rng = np.random.default_rng(d)
    directions = rng.normal(size=(300, d))
    sphere = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    points = np.concatenate([sphere, -sphere, 0.99 * sphere]) * 2.5 + 40
    assert 2.5 * (1 - 1e-12) <= enclosing_radius(points) <= 2.5 * (1 + 1e-8)


@pytest.mark.parametrize("scale", [1e-150, 1e-9, 1e9, 1e15])
def test_scales_with_the_data(scale):
    points = np.random.default_rng(0).random((30, 3))
    assert enclosing_radius(points * scale) == pytest.approx(
        enclosing_radius(points) * scale, rel=1e-8
    )


def test_a_center_that_floats_cannot_hold_errs_upwards():
    points = 2.0**53 - np.array([[1.0], [2.0], [4.0]])  # the middle falls between two floats
    assert 1.5 <= enclosing_radius(points) <= 2.0 * (1 + 1e-9)


@pytest.mark.parametrize("points", [np.ones((1, 3)), np.ones((5, 2)), np.zeros((3, 1))])
def test_identical_records_have_no_extent(points):
    assert enclosing_radius(points) == 0.0
