"""Where in wide bounds the records are: the two questions, and what is made of their answers."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import dpkv
from dpkv.domain import Box
from dpkv.errors import UsageError
from dpkv.grid import BoxGrid
from dpkv.mechanisms import Neighbours, Synopsis, calibrate_mechanism
from dpkv.mechanisms.synopsis.core import find_core, find_window, least_stretch, roughly_stretch
from dpkv.noise import SeededEntropy
from dpkv.records import ArrayRecords, Curator, run_on_points
from dpkv.records.questions import (
    CORE_BINS,
    CORE_PARTS,
    CORE_STRETCHES,
    CoreColumns,
    CoreReach,
    core_columns_step,
    core_reach_step,
    public_map,
)
from dpkv.releases.synopsis import parse_synopsis

REPLACE, ADD = Neighbours.REPLACE_ONE, Neighbours.ADD_REMOVE
GRID = BoxGrid((0.0, 0.0), (1.0, 1.0), (9, 300))
WIDE = Box((-1.0,) * 6, (1.0,) * 6, scaled=False).grid()


def loose(m: int, fill: float, seed: int = 0) -> np.ndarray:
    """Return grid points that fill so much of every column of six, off the middle."""
    rng = np.random.default_rng(seed)
    centers = rng.uniform(-0.8, 0.8, (3, 6))
    values = np.clip(centers[rng.integers(3, size=m)] + rng.normal(0, 0.1, (m, 6)), -1, 1)
    return WIDE.quantise(0.4 * (1.0 - fill) + fill * values).astype(np.int32)


# -- the questions ---------------------------------------------------------------------------------


def test_bins_count_every_record_once_a_column():
    points = np.random.default_rng(0).integers([0, 0], [10, 301], (50, 2))
    found = CoreColumns(public_map(GRID, 2), 1.0).exact(ArrayRecords(points, cuts=[7, 30]))
    expected = np.zeros((2, CORE_BINS), int)
    for first, second in points.tolist():
        expected[0, first * CORE_BINS // 10] += 1
        expected[1, second * CORE_BINS // 301] += 1
    assert found.tolist() == expected.tolist()


def test_reach_counts_by_the_least_stretch_that_holds_a_record():
    lower, upper = np.array([3, 100]), np.array([5, 131])
    points = np.array(list(product(range(10), range(0, 301, 3))))
    found = CoreReach(public_map(GRID, 2), lower, upper, 1.0).exact(ArrayRecords(points))
    expected = [0] * (len(CORE_STRETCHES) + 1)
    for point in points:
        middle, half = (lower + upper) / 2, (upper - lower + 1) / 2
        out = [(abs(point - middle) > half * s / CORE_PARTS).any() for s in CORE_STRETCHES]
        expected[sum(out)] += 1
    assert found.tolist() == expected


@pytest.mark.parametrize("neighbours", [REPLACE, ADD])
def test_sensitivity_by_every_pair_of_neighbours(neighbours):
    """The largest change is what the price charges for: no more, and no less."""
    space = public_map(GRID, 2)
    places = [np.array([place]) for place in product([0, 4, 9], [0, 120, 300])]
    reach = CoreReach(space, np.array([3, 100]), np.array([5, 131]), 1.0)
    columns = CoreColumns(space, 1.0)
    priced = [
        (columns, core_columns_step(1.0, 2, neighbours)),
        (reach, core_reach_step(1.0, neighbours)),
    ]
    for question, step in priced:
        counts = [question.exact(ArrayRecords(place)) for place in places]
        none = np.zeros_like(counts[0])
        others = counts if neighbours is REPLACE else [none]
        changes = [int(np.abs(a - b).sum()) for a, b in product(counts, others)]
        assert max(changes) == step.exact
        assert question.step(neighbours) == step


# -- what is made of the answers -------------------------------------------------------------------


def test_a_window_is_where_the_records_are():
    noisy = np.random.default_rng(0).laplace(0, 10.0, CORE_BINS).astype(np.int64)
    noisy[40:60] += 100
    start, end = find_window(noisy, 2000.0, 10.0, 1)
    assert abs(start - 40) <= 1 and abs(end - 60) <= 1
    noisy[100:103] += 200
    assert find_window(noisy, 2600.0, 10.0, 1)[1] == 103


def test_records_below_the_noise_show_no_window():
    noisy = np.random.default_rng(0).laplace(0, 1000.0, CORE_BINS).astype(np.int64)
    assert find_window(noisy, 200.0, 1000.0, 1) == (0, CORE_BINS)


def test_a_box_is_stretched_until_it_holds_the_records():
    histogram = np.zeros(len(CORE_STRETCHES) + 1, np.int64)
    histogram[[0, 1, 3]] = 900, 70, 30
    assert least_stretch(histogram, 1000.0, 0.1) == CORE_STRETCHES[3] / CORE_PARTS
    histogram[-1] = 500
    assert least_stretch(histogram, 1000.0, 0.1) is None
    assert least_stretch(histogram * 0, 1000.0, 10.0) is None  # noise could hide a small cluster
    assert roughly_stretch(histogram * 0, 1000.0, 10.0) is not None
    assert roughly_stretch(histogram * 0, 1000.0, 100.0) is None


def core_of(points: np.ndarray, eps: str, relation: Neighbours = ADD) -> tuple[float, float]:
    """Return the core's mean share of the sides, and the share of records inside."""
    made = Synopsis.calibrate(Decimal(eps), n_clusters=3, grid=WIDE, neighbours=relation)
    steps = [step for step in made.schedule() if step.name.startswith("core")]
    ask = Curator(ArrayRecords(points), SeededEntropy(1), relation, steps, charged=made.cost())
    assert made.core_scale is not None and made.reach_scale is not None
    space = public_map(WIDE, 6)
    core = find_core(ask, space, float(len(points)), made.core_scale, made.reach_scale)
    inside = ((points >= core.lowest) & (points <= core.highest)).all(axis=1).mean()
    assert (core.lowest >= space.lowest).all() and (core.highest <= space.highest).all()
    return float(((core.highest - core.lowest) / 65535).mean()), float(inside)


@pytest.mark.parametrize("fill", [0.2, 0.02])
def test_a_core_is_little_wider_than_the_records(fill):
    share, inside = core_of(loose(30_000, fill), "1")
    assert share < 2.5 * fill and inside > 0.98


def test_tight_bounds_and_few_records_have_no_core():
    full = np.random.default_rng(0).integers(0, 65536, (30_000, 6)).astype(np.int32)
    assert core_of(full, "1") == (1.0, 1.0)
    assert core_of(loose(300, 0.02), "0.1") == (1.0, 1.0)


def test_nothing_is_asked_where_public_facts_say_that_noise_would_hide_it():
    asked = {
        m: calibrate_mechanism(
            "synopsis", Decimal(1), n_records=m, n_clusters=3, grid=WIDE, neighbours=REPLACE
        )
        for m in (1000, 100_000)
    }
    assert isinstance(asked[1000], Synopsis) and isinstance(asked[100_000], Synopsis)
    assert asked[1000].core_scale is None and asked[100_000].core_scale is not None
    assert all(0.999 < float(one.cost()) <= 1.0 for one in asked.values())


def test_loose_bounds_cost_little():
    """Six columns of which a fiftieth is filled: without a core ten times the potential."""
    points = loose(30_000, 0.02)
    made = Synopsis.calibrate(Decimal(1), n_clusters=3, grid=WIDE, neighbours=ADD)

    def potential(mechanism: Synopsis) -> float:
        centers = run_on_points(mechanism, points, SeededEntropy(3)).centers
        squares = ((points[:, np.newaxis].astype(float) - centers) ** 2).sum(axis=2)
        return float(squares.min(axis=1).sum())

    assert 2 * potential(made) < potential(replace(made, core_scale=None, reach_scale=None))


# -- files -----------------------------------------------------------------------------------------


def test_a_synopsis_of_a_core_is_read_back_and_stays_within_the_bounds(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    values = 0.3 + 0.02 * np.random.default_rng(0).uniform(-1, 1, (30_000, 2))
    done = dpkv.release(
        values, k=3, eps=1, bounds=(-1, 1), mechanism="synopsis", neighbours="add-remove"
    )
    found = done.synopsis
    assert found is not None and found.cells.space.is_core
    text = found.to_json()
    again = parse_synopsis(text, "it")
    assert again == found
    assert np.abs(again.cluster(3, rng=0) - 0.3).max() < 0.05
    assert np.abs(again.synthesize(100, rng=0) - 0.3).max() < 0.1
    outside = text.replace(f'"highest": [{found.highest[0]}', '"highest": [65536')
    assert outside != text
    with pytest.raises(UsageError, match="not in the grid"):
        parse_synopsis(outside, Path("it"))


def test_small_clusters_far_away_are_not_cut_off():
    """Three dense clusters, and five of 1.5 % of the records each, at the other end."""
    rng = np.random.default_rng(0)
    grid = Box((-1.0, -1.0), (1.0, 1.0)).grid()
    thin = [[0.7, y] for y in (-0.8, -0.4, 0.0, 0.4, 0.8)]
    heads = np.array([[-0.9, -0.5], [-0.8, 0.0], [-0.9, 0.4], *thin])
    values = np.repeat(heads, [2000] * 3 + [100] * 5, axis=0) + rng.normal(0, 0.02, (6500, 2))
    points = grid.quantise(values).astype(np.int32)
    made = Synopsis.calibrate(Decimal(1), n_clusters=8, grid=grid, neighbours=ADD)
    for seed in range(5):
        cells = run_on_points(made, points, SeededEntropy(seed)).cells
        assert cells is not None
        inside = (points >= cells.space.lowest) & (points <= cells.space.highest)
        assert inside.all(axis=1).mean() > 0.995
