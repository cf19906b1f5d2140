"""Domains with categories: diameters by enumeration, projections, grids, round trips."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpkv.corners import domain_corners, farthest_pair
from dpkv.domain import Box, Domain
from dpkv.errors import DomainError
from dpkv.mechanisms import Neighbours, Synopsis
from dpkv.mechanisms.synopsis import mechanism
from dpkv.mechanisms.synopsis.settings import layout
from dpkv.noise import SeededEntropy
from dpkv.records import run_on_points
from dpkv.simplices import Product, ProductGrid, onto_simplex, product_domain

DOMAINS = {
    "a number and two categories": product_domain([(0, 10), 2], [1, 1]),
    "three categories": product_domain([3], [1]),
    "two columns of categories": product_domain([2, (-1, 1), 3], [1, 1, 1]),
    "influence": product_domain([(0, 10), 3, (0, 1)], [0.5, 2, 1]),
    "one category": product_domain([1, (0, 1)], [1, 1]),
    "a column of no width": product_domain([(2, 2), 2], [1, 1]),
}


def all_rows(grid: ProductGrid) -> np.ndarray:
    """Every row there can be on a small grid: any numbers, one category in each group."""
    inside = {place for start, stop in grid.groups for place in range(start, stop)}
    choices: list[list[list[int]]] = []
    for place, top in enumerate(grid.tops):
        if place not in inside:
            choices.append([[number] for number in range(top + 1)])
        for start, stop in grid.groups:
            if place == start:
                size = grid.tops[start]
                choices.append([(size * row).tolist() for row in np.eye(stop - start, dtype=int)])
    return np.array([list(itertools.chain(*parts)) for parts in itertools.product(*choices)])


@pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
def test_diameters_are_those_of_all_pairs_of_rows(domain: Domain) -> None:
    grid = domain.grid(3)
    assert isinstance(grid, ProductGrid)
    rows = all_rows(grid)
    gaps = rows[:, None] - rows[None]
    assert int(np.abs(gaps).sum(axis=2).max()) == grid.diam1
    assert int((gaps**2).sum(axis=2).max()) == grid.diam2_squared
    assert int(np.abs(rows - grid.middle).sum(axis=1).max()) == grid.radius1
    # A domain that forgot that a row has one category only would say more, never less.
    box_like = sum(grid.tops), sum(top * top for top in grid.tops)
    assert (grid.diam1, grid.diam2_squared) <= box_like or len(grid.groups) == 1
    start, end = farthest_pair(grid)
    assert int(np.abs(start - end).sum()) == grid.diam1
    corners = domain_corners(grid)
    assert (grid.clip(corners) == corners).all()
    assert {tuple(corner) for corner in corners} <= {tuple(row) for row in rows}


@pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
def test_rows_of_one_category_are_grid_points_and_come_back(domain: Domain) -> None:
    grid = domain.grid()
    assert isinstance(grid, ProductGrid)
    rng = np.random.default_rng(0)
    values = rng.uniform(domain.lower, domain.upper, (50, domain.n_features))  # type: ignore[attr-defined]
    for start, stop in grid.groups:
        values[:, start:stop] = np.eye(stop - start)[rng.integers(0, stop - start, 50)]
    points = grid.quantise(values)
    assert (grid.clip(points) == points).all()
    np.testing.assert_allclose(grid.restore(points), values, atol=1e-3)
    for start, stop in grid.groups:
        assert (grid.restore(points)[:, start:stop] == values[:, start:stop]).all()
        assert set(points[:, start:stop].sum(axis=1)) == {grid.tops[start]}
    np.testing.assert_allclose(domain.from_working(domain.to_working(values)), values, atol=1e-9)
    working = domain.working
    assert working.working is working
    inside = domain.to_working(values)
    np.testing.assert_allclose(working.clip(inside), inside, atol=1e-12)
    gaps = inside[:, None] - inside[None]
    assert np.abs(gaps).sum(axis=2).max() <= working.diam1
    assert math.sqrt((gaps**2).sum(axis=2).max()) <= working.diam2
    assert Domain.from_dict(domain.to_dict()) == domain
    spread = grid.spread(rng.uniform(size=(20, grid.n_features)))
    assert (grid.clip(spread) == spread).all()


def test_two_categories_are_as_far_apart_as_two_ends() -> None:
    domain = product_domain([(0, 80), 4], [1, 1])
    ends = domain.to_working(np.array([[0, 1, 0, 0, 0], [80, 1, 0, 0, 0.0], [0, 0, 1, 0, 0]]))
    assert math.isclose(math.dist(ends[0], ends[1]), 1.0)
    assert math.isclose(math.dist(ends[0], ends[2]), 1.0)
    half = product_domain([(0, 80), 4], [1, 0.5])
    ends = half.to_working(np.array([[0, 1, 0, 0, 0], [0, 0, 1, 0, 0.0]]))
    assert math.isclose(math.dist(ends[0], ends[1]), 0.5)


wholes = st.integers(-(2**62), 2**62) | st.integers(-50, 50)


@settings(deadline=None)
@given(st.lists(wholes, min_size=1, max_size=6), st.integers(1, 60))
def test_the_projection_is_on_the_simplex_and_nearest(parts: list[int], size: int) -> None:
    found = onto_simplex(np.array(parts), size)
    assert found.min() >= 0 and int(found.sum()) == size
    assert (onto_simplex(found, size) == found).all()
    if len(parts) <= 3 and size <= 8 and max(map(abs, parts)) <= 50:

        def distance(other: tuple[int, ...]) -> int:
            return sum((a - b) ** 2 for a, b in zip(parts, other, strict=True))

        every = itertools.product(range(size + 1), repeat=len(parts))
        nearest = min(distance(other) for other in every if sum(other) == size)
        assert distance(tuple(found.tolist())) == nearest


def test_without_categories_and_influence_it_is_a_box() -> None:
    assert product_domain([(0, 1), (2, 3)], [1, 1]) == Box((0, 2), (1, 3))


BAD = {
    "groups out of order": ((0, 0, 0), (1, 1, 1), ((2, 3), (0, 1)), (1, 1, 1)),
    "groups that overlap": ((0, 0, 0), (1, 1, 1), ((0, 2), (1, 3)), (1, 1, 1)),
    "an empty group": ((0, 0, 0), (1, 1, 1), ((1, 1),), (1, 1, 1)),
    "a group beyond": ((0, 0), (1, 1), ((1, 3),), (1, 1)),
    "a group of two sizes": ((0, 0), (1, 2), ((0, 2),), (1, 1)),
    "a group not from 0": ((1, 1), (2, 2), ((0, 2),), (1, 1)),
    "scales of other columns": ((0, 0), (1, 1), ((0, 2),), (1,)),
    "a scale that is none": ((0, 0), (1, 1), ((0, 2),), (float("nan"), 1)),
}


@pytest.mark.parametrize("fields", BAD.values(), ids=BAD)
def test_domains_that_are_none(fields: tuple) -> None:
    with pytest.raises(DomainError):
        Product(*fields)
    with pytest.raises(DomainError, match="influence must be between"):
        product_domain([2], [0.0])


def test_shares_are_right_where_residuals_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cutting residuals takes most of the rarer category's, which are longer: radii allow for it.

    Seeded, so deterministic. The planted fault are radii that think residuals of categories are
    as even as those of numbers: shares of 0.85 and 0.2 are pushed towards 1 and 0.
    """
    rng = np.random.default_rng(5)
    grid = product_domain([(0, 1), (0, 1), 2, 4], [1, 1, 1, 1]).grid()
    kinds = rng.integers(2, size=12_000)
    women = rng.random(len(kinds)) < np.where(kinds, 0.85, 0.2)
    numbers = np.clip(rng.normal(np.where(kinds, 0.3, 0.7)[:, np.newaxis], 0.05, (12_000, 2)), 0, 1)
    categories = np.eye(2)[1 - women.astype(int)], np.eye(4)[kinds]
    points = np.rint(np.concatenate([numbers, *categories], axis=1) * grid.box[1]).astype(np.int32)
    truth = np.sort([women[kinds == kind].mean() for kind in (0, 1)])

    def worst_error() -> float:
        made = Synopsis.calibrate(
            Decimal(1), n_clusters=2, grid=grid, neighbours=Neighbours.REPLACE_ONE, n_records=12_000
        )
        centers = run_on_points(made, points, SeededEntropy(1)).centers
        return float(np.abs(np.sort(centers[:, 2] / grid.box[1][2]) - truth).max())

    assert worst_error() < 0.02
    monkeypatch.setattr(mechanism, "CATEGORIES_SKEW", layout(grid.n_features).skew)
    assert worst_error() > 0.04
