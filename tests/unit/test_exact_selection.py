"""The release's D^2 selection: probabilities as exact fractions, at every edge of its integers.

Expected weights and sums are plain Python integers, from the definition.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from itertools import accumulate, product

import numpy as np
import pytest

from dpkv import kernels
from dpkv.domain import Box, L1Ball
from dpkv.errors import UsageError
from dpkv.seeding.exact import LARGEST_INT64, ExactPicker

Rows = list[tuple[int, ...]]


class Oracle:
    """Stands in for a uniform integer: answers what it is told, and remembers what was asked."""

    def __init__(self) -> None:
        self.answer = 0
        self.bounds: list[int] = []

    def below(self, bound: int) -> int:
        self.bounds.append(bound)
        assert 0 <= self.answer < bound
        return self.answer


def weights(points: Rows, centers: Rows, smoothing: int) -> list[int]:
    def distance(a: tuple[int, ...], c: tuple[int, ...]) -> int:
        return sum((x - y) ** 2 for x, y in zip(a, c, strict=True))

    return [min(distance(a, c) for c in centers) + smoothing for a in points]


def picker_for(
    points: np.ndarray,
    centers: Rows,
    smoothing: int | None,
    below: Callable[[int], int],
    diam2_squared: int = 1,
) -> ExactPicker:
    picker = ExactPicker(points, diam2_squared=diam2_squared, smoothing=smoothing, below=below)
    for center in centers:
        picker.add(np.array(center))
    return picker


def picks(points: np.ndarray, centers: Rows, smoothing: int, targets: list[int]) -> list[int]:
    """Return what is picked at each target, having checked that all weights were summed."""
    oracle = Oracle()
    picker = picker_for(points, centers, smoothing, oracle.below)
    found = []
    for oracle.answer in targets:
        index = picker.by_distance()
        assert type(index) is int
        found.append(index)
    expected = sum(weights(list(map(tuple, points.tolist())), centers, smoothing))
    assert set(oracle.bounds) == {expected}
    return found


SMALL = {
    "line": ([(0,), (3,), (1,), (3,)], [(1,)]),
    "one record": ([(2, 2)], [(0, 1)]),
    "plane": ([(0, 0), (3, 3), (1, 2), (2, 0), (0, 3)], [(0, 0), (3, 1)]),
    "space": ([(0, 0, 0), (3, 3, 3), (1, 2, 0)], [(3, 3, 2)]),
    "ball": ([(-3, 0), (0, 3), (1, -2), (0, 0), (-1, -1)], [(-1, 0), (3, 0)]),
    "five centers": ([(0, 3), (2, 2), (1, 0)], [(0, 0), (3, 3), (0, 1), (3, 0), (2, 3)]),
}


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("smoothing", [0, 1, 7])
@pytest.mark.parametrize("name", SMALL)
def test_every_integer_below_the_total_picks_the_record_it_belongs_to(name, smoothing, dtype):
    """As many of the ``total`` equally likely integers pick a record as its weight says."""
    points, centers = SMALL[name]
    expected = weights(points, centers, smoothing)
    found = picks(np.array(points, dtype), centers, smoothing, list(range(sum(expected))))
    assert Counter(found) == Counter({i: w for i, w in enumerate(expected) if w})


def boundary_targets(expected: list[int]) -> list[int]:
    """Return the first and the last integer of every record that weighs something."""
    running = list(accumulate(expected, initial=0))
    firsts = [low for low, w in zip(running, expected, strict=False) if w]
    lasts = [low + w - 1 for low, w in zip(running, expected, strict=False) if w]
    return sorted({*firsts, *lasts})


@pytest.mark.parametrize("smoothing", [0, 1, 10**30])
@pytest.mark.parametrize("n_records", [255, 256, 257, 511, 512, 513, 600])
def test_across_blocks(n_records, smoothing):
    rng = np.random.default_rng(n_records)
    points = rng.integers(0, 4, (n_records, 2), dtype=np.int32)
    points[200:300] = (1, 2)  # weigh nothing without smoothing, on both sides of a boundary
    points[-1] = (1, 2)
    centers: Rows = [(1, 2), (3, 0)]
    expected = weights(list(map(tuple, points.tolist())), centers, smoothing)
    running = list(accumulate(expected))
    targets = boundary_targets(expected)
    found = picks(points, centers, smoothing, targets)
    assert found == [bisect_right(running, target) for target in targets]
    assert set(found) == {i for i, w in enumerate(expected) if w}


def test_a_whole_block_that_weighs_nothing_is_never_picked():
    points = np.zeros((3 * kernels.BLOCK, 1), np.int32)
    points[0], points[-1] = 2, 3
    assert picks(points, [(0,)], 0, list(range(13))) == [0] * 4 + [len(points) - 1] * 9


def test_nothing_to_pick_by():
    picker = picker_for(np.full((300, 2), 3), [(3, 3)], 0, Oracle().below)
    assert picker.measures
    assert picker.by_distance() is None


def test_without_smoothing_at_all_every_round_is_uniform():
    oracle = Oracle()
    picker = picker_for(np.zeros((300, 2), np.int32), [], None, oracle.below)
    assert not picker.measures
    for oracle.answer in (0, 17, 299):
        assert picker.plainly(5) == oracle.answer
    assert oracle.bounds == [300] * 3


# -- the edges of int64 ----------------------------------------------------------------------------


def total_and_last(picker: ExactPicker, oracle: Oracle) -> tuple[int, int]:
    """Return the sum of all weights, and the record that the last integer below it picks."""
    oracle.answer = 0
    picker.by_distance()
    total = oracle.bounds[-1]
    oracle.answer = total - 1
    index = picker.by_distance()
    assert index is not None
    return total, index


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("n_features", [1, 2, 3, 64])
@pytest.mark.parametrize("domain", ["box", "ball"])
def test_records_at_opposite_corners(domain, n_features, dtype):
    if domain == "box":
        grid = Box((0.0,) * n_features, (1.0,) * n_features).grid()
        low, high = np.zeros(n_features, int), np.asarray(grid.tops)
    else:
        grid = L1Ball((0.0,) * n_features, 1.0).grid()
        high = np.eye(n_features, dtype=int)[0] * grid.reach
        low = -high
    oracle = Oracle()
    points = np.array([high, low, high] * 200, dtype)
    picker = picker_for(points, [tuple(low)], 5, oracle.below, grid.diam2_squared)
    squared = sum(int(gap) ** 2 for gap in high - low)
    assert squared == grid.diam2_squared
    assert total_and_last(picker, oracle) == (400 * squared + 600 * 5, 599)


def test_the_widest_grid_that_is_accepted():
    """256 squared distances of the largest size just fit; one step more is refused."""
    width = math.isqrt(LARGEST_INT64 // kernels.BLOCK)
    oracle = Oracle()
    points = np.full((kernels.BLOCK * 2 + 1, 1), width)
    picker = picker_for(points, [(0,)], 0, oracle.below, width**2)
    assert total_and_last(picker, oracle) == (513 * width**2, 512)
    assert kernels.BLOCK * width**2 <= LARGEST_INT64 < kernels.BLOCK * (width + 1) ** 2
    with pytest.raises(UsageError, match="the grid is too fine for exact sums"):
        picker_for(points, [], 0, oracle.below, (width + 1) ** 2)


@pytest.mark.parametrize("bits", [28, 30])
def test_too_fine_a_grid_is_refused(bits):
    grid = Box((0.0,), (1.0,)).grid(bits)
    with pytest.raises(UsageError, match="use fewer columns"):
        picker_for(np.zeros((2, 1), int), [], 1, Oracle().below, grid.diam2_squared)


def test_a_sum_beyond_int64():
    """8492 records of 2^18 columns, all at one corner, the center at the other: above 2^63."""
    n_records, n_features, top = 2**13 + 300, 2**18, 2**16 - 1
    grid = Box((0.0,) * n_features, (1.0,) * n_features).grid()
    points = np.broadcast_to(np.int32(top), (n_records, n_features))
    assert points.strides == (0, 0)
    oracle = Oracle()
    picker = ExactPicker(points, diam2_squared=grid.diam2_squared, smoothing=3, below=oracle.below)
    picker.add(np.zeros(n_features, np.int64))
    total = n_records * (n_features * top**2 + 3)
    assert total > LARGEST_INT64
    assert total_and_last(picker, oracle) == (total, n_records - 1)
    each = n_features * top**2 + 3
    for row in (0, 1, 255, 256, 4097):
        oracle.answer = row * each
        assert picker.by_distance() == row
        oracle.answer = (row + 1) * each - 1
        assert picker.by_distance() == row


@pytest.mark.parametrize("smoothing", [2**63, 2**64 + 1, 10**40, 2**500])
def test_smoothing_far_beyond_int64(smoothing):
    points = np.arange(600, dtype=np.int32)[:, None]
    expected = weights([(i,) for i in range(600)], [(0,)], smoothing)
    running = list(accumulate(expected))
    targets = [0, running[0] - 1, running[0], running[255] - 1, running[255], running[-1] - 1]
    assert picks(points, [(0,)], smoothing, targets) == [0, 0, 1, 255, 256, 599]


def test_a_picker_takes_memory_mapped_and_strided_points(tmp_path):
    points = np.array(list(product(range(4), repeat=2)), np.int32)
    np.save(tmp_path / "points.npy", points)
    mapped = np.load(tmp_path / "points.npy", mmap_mode="r")
    for layout in (mapped, np.asfortranarray(points), np.repeat(points, 2, axis=0)[::2]):
        assert picks(layout, [(1, 1)], 1, list(range(64))) == picks(
            points, [(1, 1)], 1, list(range(64))
        )


# -- clusters --------------------------------------------------------------------------------------


def clusters_by_hand(points: Rows, centers: Rows) -> tuple[list[list[int]], list[int]]:
    sums = [[0] * len(centers[0]) for _ in centers]
    counts = [0] * len(centers)
    for a in points:
        distances = [sum((x - y) ** 2 for x, y in zip(a, c, strict=True)) for c in centers]
        best = distances.index(min(distances))  # the first of equals
        counts[best] += 1
        sums[best] = [total + x for total, x in zip(sums[best], a, strict=True)]
    return sums, counts


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("top", [3, 2**16 - 1])
@pytest.mark.parametrize("shape", [(1, 1), (5, 2), (17, 3), (600, 2), (40_000, 3)])
def test_integer_clusters(shape, top, dtype):
    """The largest case runs on threads; its sums leave int32 by far. Small tops have many ties."""
    rng = np.random.default_rng(9)
    points = rng.integers(-top, top + 1, shape)
    centers = rng.integers(-top, top + 1, (4, shape[1]))
    centers[3] = centers[1]
    sums, counts = kernels.integer_clusters(points.astype(dtype), centers)
    assert sums.dtype == counts.dtype == np.int64
    expected = clusters_by_hand(
        list(map(tuple, points.tolist())), list(map(tuple, centers.tolist()))
    )
    assert (sums.tolist(), counts.tolist()) == expected
    assert counts[3] == 0
