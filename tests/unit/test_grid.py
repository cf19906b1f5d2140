"""The integer grids: rounding, diameters, extremes, and the exact projection onto an L1 ball."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from dpkv.domain import Box, L1Ball
from dpkv.errors import DomainError
from dpkv.grid import GRID_BITS, BoxGrid, L1BallGrid


def test_a_scaled_side_has_two_to_the_bits_levels():
    grid = Box((-1.0, 10.0), (2.0, 16.0)).grid(bits=2)
    assert grid == BoxGrid((-1.0, 10.0), (1.0, 2.0), (3, 3))
    assert grid.diam1 == 6
    assert grid.diam2_squared == 18


def test_default_bits():
    assert GRID_BITS == 16
    assert Box((0.0,), (1.0,)).grid().tops == (2**16 - 1,)
    assert L1Ball((0.0,), 1.0).grid().reach == 2**15 - 1


def test_box_quantise_takes_the_nearest_level_and_clips():
    grid = Box((-1.0, 10.0), (2.0, 16.0)).grid(bits=2)
    values = np.array([[-1.0, 16.0], [0.4, 12.9], [0.6, 13.1], [-99.0, 99.0]])
    points = grid.quantise(values)
    assert points.dtype == np.int64
    assert points.tolist() == [[0, 3], [1, 1], [2, 2], [0, 3]]
    assert grid.restore(points).tolist() == [[-1, 16], [0, 12], [1, 14], [-1, 16]]


def test_box_quantise_takes_float32_and_far_values():
    grid = Box((0.0,), (3.0,)).grid(bits=2)
    assert grid.quantise(np.array([[1.2], [1e38], [-1e38]], np.float32)).tolist() == [[1], [3], [0]]


def test_box_clip():
    grid = Box((0.0, 0.0, 5.0), (1.0, 1.0, 5.0)).grid(bits=3)
    far = 2**62
    clipped = grid.clip(np.array([[-1, 8, 1], [3, 7, 0], [far, -far, -far]]))
    assert clipped.tolist() == [[0, 7, 0], [3, 7, 0], [7, 0, 0]]


def test_unscaled_columns_share_the_widest_columns_step():
    grid = Box((0.0, 1.0, -2.0), (7.0, 3.5, -2.0), scaled=False).grid(bits=3)
    assert grid.steps == (1.0, 1.0, 0.0)
    assert grid.tops == (7, 2, 0)  # 2.5 wide: the level above 3.5 would leave the box
    assert grid.diam1 == 9
    assert grid.diam2_squared == 53
    assert grid.quantise(np.array([[6.6, 3.5, -2.0]])).tolist() == [[7, 2, 0]]


@pytest.mark.parametrize("width", [0.1, 0.3, 1 / 3, 1e-7, 123456.789])
@pytest.mark.parametrize("bits", [2, 7, 16, 30])
def test_rounding_does_not_cost_the_widest_column_its_last_level(width, bits):
    grid = Box((0.0, 0.0), (width, width), scaled=False).grid(bits)
    assert grid.tops == (2**bits - 1,) * 2


@pytest.mark.parametrize("scaled", [True, False])
def test_zero_width(scaled):
    grid = Box((5.0, 0.0), (5.0, 1.0), scaled=scaled).grid(bits=4)
    assert grid.tops == (0, 15)
    points = grid.quantise(np.array([[5.0, 1.0], [9.0, 0.0]]))
    assert points.tolist() == [[0, 15], [0, 0]]
    assert grid.restore(points).tolist() == [[5, 1], [5, 0]]


@pytest.mark.parametrize("scaled", [True, False])
def test_nothing_but_zero_width(scaled):
    grid = Box((5.0, 6.0), (5.0, 6.0), scaled=scaled).grid()
    assert (grid.diam1, grid.diam2_squared) == (0, 0)
    assert grid.restore(grid.quantise(np.array([[1.0, 9.0]]))).tolist() == [[5, 6]]


def test_a_width_too_small_to_divide_is_no_width():
    grid = Box((0.0,), (5e-324,)).grid()
    assert grid.tops == (0,)
    assert grid.quantise(np.array([[5e-324]])).tolist() == [[0]]
    ball = L1Ball((0.0,), 5e-324).grid()
    assert ball.reach == 0
    assert ball.quantise(np.array([[5e-324]])).tolist() == [[0]]


def test_a_step_so_small_that_offsets_overflow():
    far = np.array([[2.0**53, 2.0**53], [-(2.0**53), 0.0]])
    box = Box((0.0, 0.0), (1e-300, 1e-300)).grid(bits=4)
    assert box.quantise(far).tolist() == [[15, 15], [0, 0]]
    ball = L1Ball((0.0, 0.0), 1e-300).grid(bits=4)
    assert ball.quantise(far).tolist() == [[3, 3], [-7, 0]]


@pytest.mark.parametrize("bits", [2, 30])
def test_extreme_bits(bits):
    box = Box((0.0, -1.0), (1.0, 1.0)).grid(bits)
    top = 2**bits - 1
    corners = np.array([[0, 0], [0, top], [top, 0], [top, top]])
    assert box.restore(corners).tolist() == [[0, -1], [0, 1], [1, -1], [1, 1]]
    assert box.quantise(box.restore(corners)).tolist() == corners.tolist()
    assert box.diam2_squared == 2 * top**2  # Python's integers: no overflow

    ball = L1Ball((0.0, 1.0), 2.0).grid(bits)
    reach = 2 ** (bits - 1) - 1
    corners = np.array([[reach, 0], [-reach, 0], [0, reach], [0, -reach]])
    assert ball.quantise(ball.restore(corners)).tolist() == corners.tolist()
    assert ball.diam1 == 2 * reach
    assert ball.diam2_squared == 4 * reach**2


@pytest.mark.parametrize("bits", [-1, 0, 1, 31, 64])
@pytest.mark.parametrize("domain", [Box((0.0,), (1.0,)), L1Ball((0.0,), 1.0)])
def test_refused_bits(domain, bits):
    with pytest.raises(DomainError, match=f"between 2 and 30. Got {bits}"):
        domain.grid(bits)


def test_ball_quantise_rounds_toward_the_center():
    grid = L1Ball((10.0, 0.0), 3.5).grid(bits=4)
    assert (grid.reach, grid.steps) == (7, (0.5, 0.5))
    values = np.array([[10.9, -0.9], [9.1, 0.4], [10.0, -3.5], [11.5, 2.0]])
    assert grid.quantise(values).tolist() == [[1, -1], [-1, 0], [0, -7], [3, 4]]


def test_ball_quantise_projects_what_lies_outside():
    grid = L1Ball((0.0, 0.0), 7.0).grid(bits=4)
    # Soft thresholds 5, 93, 2 and 1e200 - 7: the long coordinate pays as much as the short one.
    values = np.array([[9.0, 8.0], [100.0, -20.0], [-8.0, 3.0], [1e200, 1e199]])
    assert grid.quantise(values).tolist() == [[4, 3], [7, 0], [-6, 1], [7, 0]]


def test_a_grid_point_stays_itself_though_rounding_puts_it_a_hair_below():
    grid = L1Ball((0.1, 0.7, -0.3), 0.3).grid(bits=16)
    sizes = np.arange(grid.reach // 3)
    points = np.column_stack([sizes, -sizes, sizes])
    assert (grid.quantise(grid.restore(points)) == points).all()


def test_zero_radius():
    grid = L1Ball((3.0, 4.0), 0.0).grid()
    assert (grid.reach, grid.diam1, grid.diam2_squared) == (0, 0, 0)
    assert grid.restore(grid.quantise(np.array([[9.0, -9.0]]))).tolist() == [[3, 4]]
    assert grid.clip(np.array([[5, -5]])).tolist() == [[0, 0]]


def test_ball_clip_finds_the_nearest_point_of_all():
    reach, span = 4, range(-7, 8)
    grid = L1BallGrid((0.0,) * 3, (1.0,) * 3, reach)
    everything = np.array(list(itertools.product(span, repeat=3)))
    ball = everything[np.abs(everything).sum(axis=1) <= reach]
    clipped = grid.clip(everything)
    assert np.abs(clipped).sum(axis=1).max() == reach
    nearest = ((everything[:, None] - ball) ** 2).sum(axis=2).min(axis=1)
    assert (((everything - clipped) ** 2).sum(axis=1) == nearest).all()
    inside = np.abs(everything).sum(axis=1) <= reach
    assert (clipped[inside] == everything[inside]).all()


def soft_threshold(sizes: list[int], reach: int) -> Fraction:
    """The real threshold at which the sizes add up to the reach, exactly."""
    for count in range(1, len(sizes) + 1):
        largest = sorted(sizes)[-count:]
        threshold = Fraction(sum(largest) - reach, count)
        if count == len(sizes) or sorted(sizes)[-count - 1] <= threshold:
            return threshold
    raise AssertionError


@pytest.mark.parametrize("bits", [2, 9, 16, 30])
def test_ball_clip_against_exact_fractions(bits):
    rng = np.random.default_rng(bits)
    grid = L1Ball((0.0,) * 6, 1.0).grid(bits)
    points = (rng.standard_t(1, size=(300, 6)) * grid.reach).clip(-(2**60), 2**60).astype(np.int64)
    for point, clipped in zip(points.tolist(), grid.clip(points).tolist(), strict=True):
        sizes = [abs(x) for x in point]
        if sum(sizes) <= grid.reach:
            assert clipped == point
            continue
        assert sum(map(abs, clipped)) == grid.reach
        threshold = soft_threshold(sizes, grid.reach)
        for x, y in zip(point, clipped, strict=True):
            assert x * y >= 0
            assert abs(abs(y) - max(abs(x) - threshold, 0)) < 1


def test_ball_clip_of_sums_beyond_int64():
    grid = L1Ball((0.0,) * 4, 1.0).grid()
    far = 2**62
    clipped = grid.clip(np.array([[far, -far, far, -far]]))
    assert np.abs(clipped).sum() == grid.reach
    assert np.abs(clipped).max() - np.abs(clipped).min() <= 1


def test_ball_clip_leaves_its_argument_alone():
    grid = L1Ball((0.0, 0.0), 1.0).grid()
    points = np.array([[10**6, 10**6]])
    grid.clip(points)
    assert points.tolist() == [[10**6, 10**6]]
