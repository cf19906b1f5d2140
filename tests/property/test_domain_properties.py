"""What must hold for every domain and every point: clipping, coordinates, grids, JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dpkv.domain import Box, Domain, L1Ball

LIMIT = 2.0**53
untimed = settings(deadline=None)
DTYPES = (np.float32, np.float64)

numbers = st.one_of(
    st.floats(-LIMIT, LIMIT),
    st.floats(-100, 100),
    st.integers(-10, 10).map(float),
)
sources = st.sampled_from(["given", "private", "data"])


@st.composite
def boxes(draw):
    pairs = draw(st.lists(st.tuples(numbers, numbers).map(sorted), min_size=1, max_size=4))
    lower, upper = zip(*pairs, strict=True)
    return Box(lower, upper, scaled=draw(st.booleans()), source=draw(sources))


@st.composite
def balls(draw):
    center = draw(st.lists(st.floats(-LIMIT / 2, LIMIT / 2) | numbers, min_size=1, max_size=4))
    room = LIMIT - max(map(abs, center))
    radius = draw(st.floats(0, room) | st.floats(0, min(room, 100)))
    return L1Ball(tuple(center), radius, source=draw(sources))


domains = boxes() | balls()


@st.composite
def with_records(draw, among=domains):
    """A domain and records of either precision, some of them near its edges or beyond them."""
    domain = draw(among)
    dtype = draw(st.sampled_from(DTYPES))
    shape = (draw(st.integers(1, 4)), domain.n_features)
    shares = draw(arrays(np.float64, shape, elements=st.floats(-1, 1)))
    reach = domain.widths if isinstance(domain, Box) else np.full(shape[1], domain.radius)
    near = (domain.middle + shares * reach).astype(dtype)
    far = draw(arrays(np.float64, shape, elements=numbers)).astype(dtype)
    return domain, np.where(draw(arrays(bool, shape)), near, far)


def largest(domain: Domain) -> float:
    """The largest magnitude of a coordinate in the domain: roundings are relative to it."""
    if isinstance(domain, Box):
        return float(np.abs([domain.lower, domain.upper]).max())
    return float(np.abs(domain.middle).max() + domain.radius)


def rounding(domain: Domain, dtype: type) -> float:
    """The error that a few operations in ``dtype`` on coordinates of the domain may make."""
    smallest_normal = float(np.finfo(dtype).tiny)
    return 8 * domain.n_features * float(np.finfo(dtype).eps) * largest(domain) + smallest_normal


@untimed
@given(with_records())
def test_clip_lands_inside(case):
    domain, records = case
    clipped = domain.clip(records)
    assert clipped.dtype == records.dtype
    assert clipped.shape == records.shape
    slack = rounding(domain, records.dtype)
    wide = clipped.astype(np.float64)
    if isinstance(domain, Box):
        # To the last bit, unless no float32 lies between the bounds at all.
        lower, upper = np.asarray(domain.lower), np.asarray(domain.upper)
        roomy = domain.widths > np.finfo(records.dtype).eps * np.maximum(-lower, upper) + 1e-37
        exact = roomy | (records.dtype == np.float64)
        assert (np.where(exact, wide >= lower, wide >= lower - slack)).all()
        assert (np.where(exact, wide <= upper, wide <= upper + slack)).all()
    else:
        assert np.abs(wide - domain.middle).sum(axis=1).max() <= domain.radius + slack


@untimed
@given(with_records())
def test_clip_twice_is_clip_once(case):
    domain, records = case
    once = domain.clip(records)
    twice = domain.clip(once)
    if isinstance(domain, Box):
        np.testing.assert_array_equal(twice, once)
    else:
        np.testing.assert_allclose(twice, once, rtol=0, atol=rounding(domain, records.dtype))


@untimed
@given(with_records())
def test_clip_leaves_what_is_well_inside(case):
    domain, records = case
    slack = rounding(domain, records.dtype)
    if isinstance(domain, Box):
        lower, upper = np.asarray(domain.lower) + slack, np.asarray(domain.upper) - slack
        inside = ((records >= lower) & (records <= upper)).all(axis=1)
    else:
        inside = np.abs(records - domain.middle).sum(axis=1) <= domain.radius - slack
    np.testing.assert_array_equal(domain.clip(records)[inside], records[inside])


@untimed
@given(with_records())
def test_to_working_lands_in_the_working_domain(case):
    domain, records = case
    working = domain.to_working(records)
    assert working.dtype == records.dtype
    if domain.working is domain:
        np.testing.assert_array_equal(working, domain.clip(records))
    else:
        assert (working >= 0).all()
        assert (working <= np.asarray(domain.working.upper)).all()


@untimed
@given(with_records())
def test_there_and_back_again_is_clip(case):
    domain, records = case
    back = domain.from_working(domain.to_working(records))
    assert back.dtype == records.dtype
    clipped = domain.clip(records)
    slack = rounding(domain, records.dtype)
    np.testing.assert_allclose(back, clipped, rtol=0, atol=slack)
    if isinstance(domain, Box):
        np.testing.assert_array_equal(domain.clip(back), back)  # never outside the bounds


@untimed
@given(with_records())
def test_no_two_clipped_points_are_farther_apart_than_the_diameters(case):
    domain, records = case
    for space, points in (
        (domain, domain.clip(records)),
        (domain.working, domain.to_working(records)),
    ):
        apart = points[:, None].astype(np.float64) - points
        slack = rounding(space, records.dtype)
        assert np.abs(apart).sum(axis=2).max() <= space.diam1 + slack
        assert np.linalg.norm(apart, axis=2).max() <= space.diam2 + slack


@untimed
@given(domains)
def test_json_round_trip(domain):
    assert Domain.from_dict(json.loads(json.dumps(domain.to_dict(), allow_nan=False))) == domain


bits = st.integers(2, 30)


def resolvable(domain: Domain, bits: int, steps_within: float) -> bool:
    """Whether float64 tells apart coordinates ``1 / steps_within`` of a grid step from each other.

    Below that the grid is finer than the numbers it is laid over.
    """
    steps = [step for step in domain.grid(bits).steps if step > 0]
    return all(step > steps_within * (np.spacing(largest(domain)) + 1e-300) for step in steps)


@untimed
@given(with_records(), bits)
def test_integer_distances_never_exceed_the_integer_diameters(case, bits):
    domain, records = case
    grid = domain.grid(bits)
    points = grid.quantise(records).astype(object)  # Python's integers: no overflow
    apart = points[:, None] - points
    assert np.abs(apart).sum(axis=2).max() <= grid.diam1
    assert (apart * apart).sum(axis=2).max() <= grid.diam2_squared


@untimed
@given(domains, bits, st.data())
def test_clipped_integer_points_never_exceed_the_integer_diameters(domain, bits, data):
    grid = domain.grid(bits)
    far = st.integers(-(2**62), 2**62) | st.integers(-grid.diam1 - 5, grid.diam1 + 5)
    points = grid.clip(data.draw(arrays(np.int64, (3, domain.n_features), elements=far)))
    assert (grid.clip(points) == points).all()
    apart = points[:, None].astype(object) - points
    assert np.abs(apart).sum(axis=2).max() <= grid.diam1
    assert (apart * apart).sum(axis=2).max() <= grid.diam2_squared


@untimed
@given(domains, bits, st.data())
def test_every_grid_point_is_found_again(domain, bits, data):
    assume(resolvable(domain, bits, steps_within=2.0**23))
    grid = domain.grid(bits)
    anywhere = st.integers(-grid.diam1, grid.diam1)
    points = grid.clip(data.draw(arrays(np.int64, (3, domain.n_features), elements=anywhere)))
    np.testing.assert_array_equal(grid.quantise(grid.restore(points)), points)


@untimed
@given(with_records(), bits)
def test_quantising_moves_a_clipped_record_by_a_step_a_column_at_most(case, bits):
    domain, records = case
    assume(resolvable(domain, bits, steps_within=64))
    grid = domain.grid(bits)
    restored = grid.restore(grid.quantise(records.astype(np.float64)))
    moved = np.abs(restored - domain.clip(records.astype(np.float64)))
    assert (moved <= np.asarray(grid.steps) * (1 + 1e-6) + rounding(domain, np.float64)).all()


@pytest.mark.parametrize("scaled", [True, False])
@untimed
@given(lower=st.floats(-1, 0), width=st.floats(1e-3, 1), bits=bits)
def test_restored_points_lie_in_the_box(scaled, lower, width, bits):
    box = Box((lower, lower), (lower + width, lower + width / 3), scaled=scaled)
    grid = box.grid(bits)
    corners = grid.restore(np.array([[0, 0], grid.tops]))
    assert (np.abs(corners[0] - box.lower) <= 1e-12).all()
    assert (corners[1] <= np.asarray(box.upper) + 1e-12).all()
