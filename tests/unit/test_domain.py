"""Box and L1Ball: geometry, coordinates, spellings and refusals."""

from __future__ import annotations

import dataclasses
import json
import math
from fractions import Fraction

import numpy as np
import pytest

from dpkv.domain import Box, Domain, L1Ball, data_domain
from dpkv.errors import DomainError

BOX = Box((-1.0, 10.0), (3.0, 13.0))
BALL = L1Ball((1.0, -2.0, 0.5), 4.0)


def test_box_geometry():
    assert BOX.n_features == 2
    assert BOX.widths.tolist() == [4.0, 3.0]
    assert BOX.diam1 == 7.0
    assert BOX.diam2 == 5.0  # a 3-4-5 triangle
    assert BOX.middle.tolist() == [1.0, 11.5]


def test_ball_geometry():
    assert BALL.n_features == 3
    assert BALL.diam1 == BALL.diam2 == 8.0
    assert BALL.middle.tolist() == [1.0, -2.0, 0.5]
    assert BALL.working is BALL


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_box_clip_moves_each_column_to_its_nearest_bound(dtype):
    values = np.array([[-5, 11], [0, 99], [3, 10], [1e9, -1e9]], dtype)
    clipped = BOX.clip(values)
    assert clipped.dtype == dtype
    assert clipped.tolist() == [[-1, 11], [0, 13], [3, 10], [3, 10]]


def test_float32_clip_stays_inside_bounds_that_float32_cannot_hold():
    third = 1 / 3  # float32(1/3) lies above 1/3, float32(2/3) above 2/3
    box = Box((third,), (2 * third,))
    clipped = box.clip(np.array([[0], [1]], np.float32)).astype(np.float64)
    assert third <= clipped[0, 0] < third + 1e-7
    assert 2 * third - 1e-7 < clipped[1, 0] <= 2 * third


def test_scaled_box_works_in_the_unit_cube():
    assert BOX.working == Box((0.0, 0.0), (1.0, 1.0), scaled=False)
    working = BOX.to_working(np.array([[-1.0, 13.0], [1.0, 10.75], [-9.0, 99.0]]))
    assert working.tolist() == [[0.0, 1.0], [0.5, 0.25], [0.0, 1.0]]
    assert BOX.from_working(working).tolist() == [[-1.0, 13.0], [1.0, 10.75], [-1.0, 13.0]]


def test_unscaled_box_works_in_its_own_coordinates():
    box = dataclasses.replace(BOX, scaled=False)
    assert box.working is box
    assert box.to_working(np.array([[-9.0, 12.0]])).tolist() == [[-1.0, 12.0]]
    assert box.from_working(np.array([[7.0, 12.0]])).tolist() == [[7.0, 12.0]]


def test_points_outside_the_working_cube_stay_outside():
    # A noisy centre may leave the domain; hiding that is a decision for whoever releases it.
    assert BOX.from_working(np.array([[2.0, -1.0]])).tolist() == [[7.0, 7.0]]


def test_zero_width_column_carries_no_information():
    box = Box((5.0, 0.0), (5.0, 2.0))
    assert box.working.diam1 == 1.0
    assert box.working.upper == (0.0, 1.0)
    working = box.to_working(np.array([[4.0, 1.0], [5.0, 1.0], [6.0, 1.0]]))
    assert working.tolist() == [[0.0, 0.5]] * 3
    assert box.from_working(working).tolist() == [[5.0, 1.0]] * 3


def test_working_keeps_the_source():
    assert Box((0,), (9,), source="data").working.source == "data"


def projected_by_bisection(row: np.ndarray, center: np.ndarray, radius: float) -> np.ndarray:
    """The L2-nearest point of an L1 ball, by bisection on the soft threshold."""
    offset = row - center
    sizes = np.abs(offset)
    if sizes.sum() <= radius:
        return row
    low, high = 0.0, sizes.max()
    for _ in range(200):
        threshold = (low + high) / 2
        if np.maximum(sizes - threshold, 0).sum() > radius:
            low = threshold
        else:
            high = threshold
    return center + np.sign(offset) * np.maximum(sizes - high, 0)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 1e-5)])
def test_ball_clip_is_the_nearest_point(dtype, tolerance):
    rng = np.random.default_rng(7)
    for radius in (0.0, 0.3, 4.0, 50.0):
        ball = L1Ball(BALL.center, radius)
        rows = (rng.standard_t(2, size=(200, 3)) * 5).astype(dtype)
        expected = [projected_by_bisection(row, ball.middle, radius) for row in rows]
        clipped = ball.clip(rows)
        assert clipped.dtype == dtype
        np.testing.assert_allclose(clipped, expected, rtol=tolerance, atol=tolerance * 10)


def test_ball_clip_by_hand():
    ball = L1Ball((0.0, 0.0), 1.0)
    rows = np.array([[0.3, -0.7], [3.0, 0.0], [2.0, -2.0], [1.5, 0.75], [9.0, 1.0]])
    expected = [[0.3, -0.7], [1.0, 0.0], [0.5, -0.5], [0.875, 0.125], [1.0, 0.0]]
    np.testing.assert_allclose(ball.clip(rows), expected, atol=1e-14)


def test_ball_clip_of_records_so_far_away_that_the_radius_is_below_their_rounding():
    ball = L1Ball((0.0, 0.0), 0.1)
    rows = np.array([[2.0**53, 0.0], [-(2.0**53), 2.0**53], [2.0**53, 2.0**53 - 1]])
    expected = [[0.1, 0.0], [-0.05, 0.05], [0.1, 0.0]]
    np.testing.assert_allclose(ball.clip(rows), expected, atol=1e-15)


def test_ball_coordinates_are_the_users():
    inside, outside = np.array([[1.0, -2.0, 0.0]]), np.array([[9.0, -2.0, 0.5]])
    assert BALL.to_working(inside).tolist() == inside.tolist()
    np.testing.assert_allclose(BALL.to_working(outside), [[5.0, -2.0, 0.5]], atol=1e-13)
    assert BALL.from_working(outside) is outside


@pytest.mark.parametrize("source", ["given", "private", "data"])
@pytest.mark.parametrize(
    "make",
    [
        lambda source: Box((0.1, -0.0), (0.3, 1e-300), scaled=True, source=source),
        lambda source: Box((0.1,), (0.3,), scaled=False, source=source),
        lambda source: L1Ball((0.1, 2.0**53 - 1), 0.7, source=source),
    ],
    ids=["scaled box", "box", "ball"],
)
def test_json_keeps_every_bit(make, source):
    domain = make(source)
    again = Domain.from_dict(json.loads(json.dumps(domain.to_dict())))
    assert again == domain
    assert again.source == source
    assert type(again) is type(domain)


def test_to_dict_is_plain():
    assert BOX.to_dict() == {
        "kind": "box",
        "lower": [-1.0, 10.0],
        "upper": [3.0, 13.0],
        "scaled": True,
        "source": "given",
    }
    assert L1Ball((1,), 2).to_dict() == {
        "kind": "l1-ball",
        "center": [1.0],
        "radius": 2.0,
        "source": "given",
    }


@pytest.mark.parametrize("field", ["kind", "lower", "upper", "scaled", "source"])
def test_from_dict_names_the_missing_field(field):
    fields = BOX.to_dict()
    del fields[field]
    with pytest.raises(DomainError, match=field):
        Domain.from_dict(fields)


def test_from_dict_refuses_an_unknown_kind():
    with pytest.raises(DomainError, match="torus"):
        Domain.from_dict({**BOX.to_dict(), "kind": "torus"})


@pytest.mark.parametrize(("domain", "field"), [(BOX, "lower"), (BALL, "radius"), (BOX, "source")])
def test_domains_are_immutable(domain, field):
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(domain, field, 1.0)


def test_a_domain_does_not_follow_the_array_it_was_made_of():
    bounds = np.array([[0.0, 1.0], [0.0, 2.0]])
    domain = Domain.bounded(bounds, 2)
    bounds[:] = 9.0
    assert domain == Box((0.0, 0.0), (1.0, 2.0))
    assert hash(domain) == hash(Box((0.0, 0.0), (1.0, 2.0)))


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ((-1, 2), Box((-1, -1), (2, 2))),
        ([[-1, 2], [3, 4]], Box((-1, 3), (2, 4))),
        (np.array([[-1, 2], [3, 4]]), Box((-1, 3), (2, 4))),
        ({"b": [3, 4], "a": [-1, 2], "unused": [0, 0]}, Box((-1, 3), (2, 4))),
        ({"lower": [-1, 3], "upper": [2, 4]}, Box((-1, 3), (2, 4))),
        ({"lower": -1, "upper": [2, 4]}, Box((-1, -1), (2, 4))),
        ({"center": [1, 2], "radius": 3}, L1Ball((1, 2), 3)),
        ({"center": 0, "radius": 3}, L1Ball((0, 0), 3)),
    ],
)
def test_spellings_of_bounds(bounds, expected):
    assert Domain.bounded(bounds, 2, columns=["a", "b"]) == expected


def test_bounded_passes_scaling_and_source_on():
    box = Domain.bounded((0, 1), 1, scaled=False, source="private")
    assert box == Box((0,), (1,), scaled=False, source="private")
    ball = Domain.bounded({"center": 0, "radius": 1}, 1, source="private")
    assert ball.source == "private"


HUGE = 2.0**53 + 2
REFUSED_BOUNDS = {
    "reversed": ((2, 1), "column 1 must be low,high in this order"),
    "second column reversed": ([[0, 1], [4, 3]], "column 2 must be low,high"),
    "three numbers": ((0, 1, 2), "each of the 2 columns"),
    "too many pairs": ([[0, 1]] * 3, "each of the 2 columns"),
    "too few pairs": ([[0, 1]], "each of the 2 columns"),
    "one number": (5, "each of the 2 columns"),
    "ragged": ([[0, 1], [2]], "must be numbers"),
    "text": ([["low", "high"], [0, 1]], "must be numbers"),
    "an integer no float holds": ([[0, 10**400], [0, 1]], "must be numbers"),
    "not a number": ([[0, math.nan], [0, 1]], "column 1 must be finite"),
    "nothing": ([[0, 1], [None, 1]], "column 2 must be finite"),
    "infinite": ((-math.inf, 1), "column 1 must be finite"),
    "too large": ([[0, 1], [0, HUGE]], r"column 2 must stay within ±2\^53"),
    "too low": ((-HUGE, 1), r"column 1 must stay within ±2\^53"),
    "a name lacks": ({"a": [0, 1]}, "Got none for number 2 of them"),
    "plain numbers by name": ({"a": 0, "b": 1}, "one low,high pair for each name"),
    "triples by name": ({"a": [0, 1, 2], "b": [0, 1, 2]}, "one low,high pair for each name"),
    "text by name": ({"a": [0, 1], "b": "wide"}, "must be numbers"),
    "lower too long": ({"lower": [0, 0, 0], "upper": 1}, "Got 3 and 2"),
    "upper is text": ({"lower": 0, "upper": "much"}, "upper must be numbers"),
    "center too short": ({"center": [0], "radius": 1}, "2 center numbers"),
    "two radii": ({"center": 0, "radius": [1, 2]}, "one radius"),
    "negative radius": ({"center": 0, "radius": -1}, "radius must be finite and at least 0"),
    "infinite radius": ({"center": 0, "radius": math.inf}, "radius must be finite"),
    "radius is text": ({"center": 0, "radius": "wide"}, "radius must be numbers"),
    "center not finite": ({"center": [0, math.nan], "radius": 1}, "center must be finite"),
    "ball too large": ({"center": [0, 2.0**53], "radius": 4}, r"column 2 must stay within ±2\^53"),
}


@pytest.mark.parametrize(("bounds", "message"), REFUSED_BOUNDS.values(), ids=REFUSED_BOUNDS)
def test_refused_bounds(bounds, message):
    with pytest.raises(DomainError, match=message):
        Domain.bounded(bounds, 2, columns=["a", "b"])


def test_names_need_a_table_with_names():
    with pytest.raises(DomainError, match="need a table with column names"):
        Domain.bounded({"a": [0, 1]}, 1)


@pytest.mark.parametrize(("lower", "upper"), [((), ()), ((0,), (1, 2)), ((0, 1), (2,))])
def test_box_needs_as_many_lows_as_highs(lower, upper):
    with pytest.raises(DomainError, match=f"Got {len(lower)} and {len(upper)}"):
        Box(lower, upper)


def test_ball_needs_a_column():
    with pytest.raises(DomainError, match="center"):
        L1Ball((), 1.0)


@pytest.mark.parametrize(
    "make", [lambda s: Box((0,), (1,), source=s), lambda s: L1Ball((0,), 1, s)]
)
def test_refused_source(make):
    with pytest.raises(DomainError, match=r"source must be .* Got 'guessed'"):
        make("guessed")


@pytest.mark.parametrize("domain", [BOX, dataclasses.replace(BOX, scaled=False), BALL])
@pytest.mark.parametrize("action", ["clip", "to_working", "from_working"])
@pytest.mark.parametrize("shape", [(4,), (4, 1), (4, 4), (2, 2, 2)])
def test_values_must_have_the_domains_columns(domain, action, shape):
    with pytest.raises(DomainError, match=f"has {domain.n_features} columns"):
        getattr(domain, action)(np.zeros(shape))


def test_largest_allowed_bounds():
    box = Box((-(2.0**53),), (2.0**53,))
    assert 2.0**54 <= box.diam1 <= 2.0**54 * (1 + 1e-14)
    assert box.to_working(np.array([[0.0]])).tolist() == [[0.5]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_data_domain_is_the_smallest_box_and_says_where_it_comes_from(dtype):
    data = np.array([[3, 5, -1], [2, 5, 7], [9, 5, 0]], dtype)
    assert data_domain(data) == Box((2, 5, -1), (9, 5, 7), source="data")
    assert data_domain(data, scaled=False) == Box((2, 5, -1), (9, 5, 7), False, "data")


def test_data_domain_of_many_records():
    # More records than one block of the kernels, with the extremes in different blocks.
    data = np.zeros((1000, 2))
    data[3, 0], data[997, 0], data[500, 1] = -4.0, 6.0, 1.0
    assert data_domain(data) == Box((-4, 0), (6, 1), source="data")


def test_columns_called_lower_and_upper_are_columns():
    bounds = {"lower": [0, 150], "upper": [0, 250]}  # diastolic and systolic pressure, say
    box = Domain.bounded(bounds, 2, columns=["lower", "upper"])
    assert box == Box((0, 0), (150, 250))
    assert Domain.bounded(bounds, 2, columns=["a", "b"]) == Box((0, 150), (0, 250))


def test_diameters_are_rounded_up():
    rng = np.random.default_rng(0)
    for _ in range(500):
        lower = rng.normal(size=5)
        box = Box(tuple(lower), tuple(lower + rng.random(5)), scaled=False)
        widths = [Fraction(h) - Fraction(low) for low, h in zip(box.lower, box.upper, strict=True)]
        assert Fraction(box.diam1) >= sum(widths)
        assert Fraction(box.diam2) ** 2 >= sum(w * w for w in widths)
        assert box.diam1 <= float(sum(widths)) * (1 + 1e-14)


@pytest.mark.parametrize(("dtype", "center"), [(np.float32, 0.3), (np.float64, 1e6)])
def test_the_l1_ball_holds_what_it_clipped_exactly(dtype, center):
    ball = L1Ball((center,) * 3, 1.0)
    values = (center + 3.0 * np.random.default_rng(0).normal(size=(2000, 3))).astype(dtype)
    for row in ball.clip(values):
        assert sum(abs(Fraction(float(x)) - Fraction(center)) for x in row) <= 1


@pytest.mark.parametrize(
    "fields", [{"kind": "box", "lower": 3, "upper": [1], "scaled": True, "source": "given"}, {}]
)
def test_a_damaged_domain_record_is_a_domain_error(fields):
    with pytest.raises(DomainError):
        Domain.from_dict(fields)


@pytest.mark.parametrize("kind", ["box", "l1-ball"])
def test_a_record_of_a_domain_with_an_endless_number_is_refused(kind):
    made = Box((0.0,), (1.0,)) if kind == "box" else L1Ball((0.0,), 1.0)
    fields = made.to_dict() | {"lower": [-(10**400)], "center": [10**400]}
    with pytest.raises(DomainError, match="wrong type"):
        Domain.from_dict(fields)


@pytest.mark.parametrize("scaled", ["yes", 1, [], None], ids=["text", "number", "list", "nothing"])
def test_scaled_is_a_truth_value_also_in_a_record(scaled):
    with pytest.raises(DomainError, match="scaled must be True or False"):
        Domain.from_dict({**Box((0.0,), (1.0,)).to_dict(), "scaled": scaled})
