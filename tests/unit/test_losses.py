"""Exact losses against sums in 50 digits, and against every outcome of tiny instances.

The sums and enumerations are written from Algorithm 0's statement and share no code with dpkv.
"""

from __future__ import annotations

import math
from collections import defaultdict
from decimal import Decimal
from functools import cache
from itertools import product
from typing import Any

import mpmath
import numpy as np
import pytest
from support import laplace
from support.branching import Point, algorithm0, ball, into_ball, into_box, squared

from dpkv.audits.losses import (
    exact_losses,
    list_replacements,
    log_ratio_of_tables,
    round_factors,
)
from dpkv.audits.privacy import Effort, data_loss
from dpkv.corners import domain_corners
from dpkv.domain import Box, L1Ball
from dpkv.errors import UsageError
from dpkv.grid import BoxGrid, Grid, L1BallGrid
from dpkv.mechanisms import Forgy, KVariates, Laplace, Neighbours, Published
from dpkv.mechanisms.kvariates import Algorithm0
from dpkv.noise import SeededEntropy
from dpkv.records import run_on_points

REPLACE = Neighbours.REPLACE_ONE
Table = list[Point]

# -- the loss by hand ------------------------------------------------------------------------------


def clip_of(grid: Grid) -> Any:
    if isinstance(grid, BoxGrid):
        return into_box(grid.tops)
    assert isinstance(grid, L1BallGrid)
    return cache(into_ball(grid.reach))


def log_likelihood(mechanism: Algorithm0, table: Table, output: Table) -> mpmath.mpf:
    """Return log P(output | table) up to the noise's normaliser, with integer weights."""
    clip, smoothing = clip_of(mechanism.grid), mechanism.smoothing
    b, total = mpmath.mpf(mechanism.noise_scale), mpmath.mpf(0)
    for t, x in enumerate(output):
        weights = [1] * len(table)
        if t and smoothing is not None:
            centers = [clip(c) for c in output[:t]]
            weights = [min(squared(a, c) for c in centers) + smoothing for a in table]
            weights = weights if any(weights) else [1] * len(table)
        gaps = [sum(abs(u - v) for u, v in zip(a, x, strict=True)) for a in table]
        terms = [w * mpmath.exp(-gap / b) for w, gap in zip(weights, gaps, strict=True)]
        total += mpmath.log(mpmath.fsum(terms) / sum(weights))
    return total


def loss_by_hand(
    mechanism: Algorithm0, table: Table, row: int, new: Point, output: Table
) -> mpmath.mpf:
    """Return log P(output | table) - log P(output | table with ``new`` in that row)."""
    with mpmath.workdps(50):
        other = [*table[:row], new, *table[row + 1 :]]
        return log_likelihood(mechanism, table, output) - log_likelihood(mechanism, other, output)


def found_losses(mechanism: Algorithm0, table: Table, output: Table, news: Table) -> Any:
    return exact_losses(
        mechanism, np.array(table, np.int32), np.array(output, np.int64), np.array(news, np.int32)
    )


# -- tables, outputs, mechanisms -------------------------------------------------------------------

LINE = BoxGrid((0.0,), (1.0,), (7,))
PLANE = BoxGrid((0.0, 0.0), (1.0, 1.0), (5, 3))
BALL = L1Ball((0.0, 0.0), 1.0).grid(bits=3)  # of reach 3
GRIDS: dict[str, tuple[Grid, Table, list[Table]]] = {
    "line": (
        LINE,
        [(0,), (0,), (2,), (7,)],
        [[(0,), (7,), (3,)], [(2,), (2,), (2,)], [(-4,), (9,), (2,)]],
    ),
    "plane": (
        PLANE,
        [(0, 0), (5, 3), (5, 3), (1, 2), (4, 0)],
        [[(0, 0), (5, 3), (2, 2)], [(7, -1), (5, 4), (-3, -3)]],
    ),
    "ball": (
        BALL,
        [(0, 0), (3, 0), (-1, 2), (-1, 2)],
        [[(0, 3), (1, 1), (-3, 0)], [(3, 2), (-4, 1), (5, -5)]],
    ),
}
KINDS = ["0.01", "0.1", "1", "inf", "laplace", "forgy", "published"]


def mechanism_of(kind: str, grid: Grid, m: int, k: int = 3, eps: str = "2") -> Algorithm0:
    if kind == "published":
        return Published.calibrate(4.0, n_clusters=k, grid=grid)
    if kind in ("laplace", "forgy"):
        plain = Laplace if kind == "laplace" else Forgy
        return plain.calibrate(Decimal(eps), n_clusters=k, grid=grid, neighbours=REPLACE)
    return KVariates.calibrate(
        Decimal(eps), n_records=m, n_clusters=k, grid=grid, gamma=float(kind)
    )


def points_of(grid: Grid) -> Table:
    if isinstance(grid, BoxGrid):
        return list(product(*(range(top + 1) for top in grid.tops)))
    assert isinstance(grid, L1BallGrid)
    return ball(grid.reach, grid.n_features)


# -- against the sums ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", GRIDS)
def test_every_record_and_every_replacement(name, kind):
    grid, table, outputs = GRIDS[name]
    news = points_of(grid)[:: 1 if name == "line" else 3]
    mechanism = mechanism_of(kind, grid, len(table))
    for output in outputs:
        expected = np.array(
            [
                [float(loss_by_hand(mechanism, table, row, new, output)) for new in news]
                for row in range(len(table))
            ]
        )
        for column, new in enumerate(news):
            one = found_losses(mechanism, table, output, [new])
            assert one.by_record == pytest.approx(np.abs(expected[:, column]), rel=1e-9, abs=1e-12)
        found = found_losses(mechanism, table, output, news)
        assert found.by_record == pytest.approx(np.abs(expected).max(axis=1), rel=1e-9, abs=1e-12)
        assert found.largest == found.by_record[found.record] == found.by_record.max()
        at = news.index(tuple(found.replacement.tolist()))
        assert abs(expected[found.record, at]) == pytest.approx(found.largest, rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", GRIDS)
def test_tables_by_groups_have_the_signed_loss(name, kind):
    grid, table, outputs = GRIDS[name]
    mechanism = mechanism_of(kind, grid, len(table))
    groups, counts = np.unique(np.array(table[:-1]), axis=0, return_counts=True)
    for output, new in product(outputs, points_of(grid)[::4]):
        old, x = np.array(table[-1]), np.array(output)
        found = log_ratio_of_tables(mechanism, groups, counts, old, np.array(new), x)
        expected = float(loss_by_hand(mechanism, table, len(table) - 1, new, output))
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)
        back = log_ratio_of_tables(mechanism, groups, counts, np.array(new), old, x)
        assert back == pytest.approx(-found, rel=1e-12, abs=1e-15)


def test_the_sign_says_which_table_makes_the_output_likelier():
    mechanism = mechanism_of("0.1", LINE, 4)
    here, there = np.array([7]), np.array([0])
    output = np.array([[7], [7], [7]])
    groups, counts = np.array([[0]]), np.array([3])
    assert log_ratio_of_tables(mechanism, groups, counts, here, there, output) > 0.1
    assert log_ratio_of_tables(mechanism, groups, counts, there, here, output) < -0.1


def test_a_loss_is_as_large_where_the_neighbour_makes_the_output_likelier():
    """The record is far from the output, and its replacement at it: the ratio falls below 1."""
    mechanism = mechanism_of("laplace", LINE, 1, k=1)
    away = found_losses(mechanism, [(0,)], [(7,)], [(7,)])
    towards = found_losses(mechanism, [(7,)], [(7,)], [(0,)])
    assert away.largest == pytest.approx(2.0)
    assert towards.largest == pytest.approx(2.0)


def test_one_record_at_the_noise_of_the_laplace_mechanism_costs_all_of_eps():
    for k, eps in ((1, "0.5"), (2, "1"), (3, "3")):
        mechanism = mechanism_of("laplace", LINE, 1, k=k, eps=eps)
        found = found_losses(mechanism, [(0,)], [(0,)] * k, [(3,), (7,), (1,)])
        assert found.largest == pytest.approx(float(eps), rel=1e-12)
        assert found.replacement.tolist() == [7]


@pytest.mark.parametrize("kind", KINDS)
def test_replacing_a_record_by_itself_costs_nothing(kind):
    grid, table, outputs = GRIDS["plane"]
    mechanism = mechanism_of(kind, grid, len(table))
    for row, a in enumerate(table):
        by_record = found_losses(mechanism, table, outputs[0], [a]).by_record
        assert by_record[row] == pytest.approx(0.0, abs=1e-14)


# -- what losses do not depend on ------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", GRIDS)
def test_the_order_of_records_and_replacements_does_not_matter(name, kind):
    grid, table, outputs = GRIDS[name]
    mechanism = mechanism_of(kind, grid, len(table))
    news = points_of(grid)[::2]
    for output in outputs:
        one = found_losses(mechanism, table, output, news)
        other = found_losses(mechanism, table[::-1], output, news[::-1])
        assert other.by_record[::-1] == pytest.approx(one.by_record, rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_a_box_seen_in_a_mirror_or_with_columns_exchanged(kind):
    grid, table, outputs = GRIDS["plane"]
    turned = BoxGrid(grid.origin, grid.steps, grid.tops[::-1])
    news = points_of(grid)

    def mirrored(rows: Table) -> Table:
        return [(grid.tops[0] - x, grid.tops[1] - y) for x, y in rows]

    def exchanged(rows: Table) -> Table:
        return [(y, x) for x, y in rows]

    for output in outputs:
        here = mechanism_of(kind, grid, len(table))
        one = found_losses(here, table, output, news).by_record
        for mapped, there in ((mirrored, grid), (exchanged, turned)):
            mechanism = mechanism_of(kind, there, len(table))
            other = found_losses(mechanism, mapped(table), mapped(output), mapped(news))
            assert other.by_record == pytest.approx(one, rel=1e-12)


def test_records_of_either_width_and_many_blocks_of_them():
    """More records than a block holds, on all threads, as int32 and as int64."""
    rng = np.random.default_rng(0)
    grid = Box((0.0, 0.0), (1.0, 1.0)).grid()
    points = grid.spread(rng.random((1000, 2)))
    mechanism = mechanism_of("0.1", grid, len(points))
    output, news = points[:3], grid.spread(rng.random((40, 2)))
    narrow = exact_losses(mechanism, points.astype(np.int32), output, news.astype(np.int32))
    wide = exact_losses(mechanism, points, output, news)
    assert narrow.by_record.tolist() == wide.by_record.tolist()
    table = list(map(tuple, points.tolist()))
    centers = list(map(tuple, output.tolist()))
    row, new = narrow.record, tuple(narrow.replacement.tolist())
    by_hand = abs(float(loss_by_hand(mechanism, table, row, new, centers)))
    assert narrow.largest == pytest.approx(by_hand, rel=1e-9)


# -- every outcome, tails and all ------------------------------------------------------------------

TINY = BoxGrid((0.0,), (1.0,), (3,))
TINY_PLANE = BoxGrid((0.0, 0.0), (1.0, 1.0), (2, 1))
TINY_TABLES: dict[str, tuple[Grid, Table]] = {
    "line": (TINY, [(0,), (0,), (1,), (3,)]),
    "plane": (TINY_PLANE, [(0, 0), (2, 1), (1, 1)]),
}
SMOOTHINGS = {"0.2": 2, "0": 0, "inf": None}


def tiny_mechanism(grid: Grid, m: int, smoothing: int | None, scale: float, k: int = 2) -> Any:
    if smoothing == 0:
        return Laplace(k, grid, REPLACE, scale)
    return KVariates(k, grid, REPLACE, scale, m, smoothing)


def clamped_releases(grid: Grid, table: Table, smoothing: int | None, scale: float) -> dict:
    """Return the distribution of two centers moved into the box.

    Noise of more than the longest side leaves the box from anywhere in it, so both tails may be
    gathered there.
    """
    assert isinstance(grid, BoxGrid)
    clip = into_box(grid.tops)
    noise = laplace.up_to(max(grid.tops) + 1, scale)
    chances: dict[tuple[Point, ...], float] = defaultdict(float)
    draws = algorithm0(table, 2, noise, smoothing=smoothing, clip=clip)  # type: ignore[arg-type]
    for draw, chance in draws.items():
        chances[tuple(clip(x) for x in draw)] += float(chance)
    assert math.fsum(chances.values()) == pytest.approx(1.0, abs=1e-12)
    return chances


@pytest.mark.parametrize("smoothing", SMOOTHINGS.values(), ids=SMOOTHINGS)
@pytest.mark.parametrize("name", TINY_TABLES)
def test_clamping_to_a_box_does_not_change_the_loss(name, smoothing):
    """The clamped outputs' probabilities, by enumeration, against the formula of the unclamped."""
    grid, table = TINY_TABLES[name]
    scale, new = 1.5, points_of(grid)[-1]
    mechanism = tiny_mechanism(grid, len(table), smoothing, scale)
    here = clamped_releases(grid, table, smoothing, scale)
    there = clamped_releases(grid, [new, *table[1:]], smoothing, scale)
    assert len(here) == len(points_of(grid)) ** 2
    groups = np.array(table[1:])
    for output, chance in here.items():
        found = log_ratio_of_tables(
            mechanism,
            groups,
            np.ones(len(groups), np.int64),
            np.array(table[0]),
            np.array(new),
            np.array(output),
        )
        assert found == pytest.approx(math.log(chance / there[output]), abs=1e-10)


@pytest.mark.parametrize("beyond", [1, 5, 10**6])
@pytest.mark.parametrize("kind", KINDS)
def test_an_output_beyond_the_box_costs_what_its_clamped_one_does(kind, beyond):
    grid, table, _ = GRIDS["plane"]
    mechanism = mechanism_of(kind, grid, len(table))
    clamped = [(0, 3), (5, 0), (2, 3)]
    raw = [(-beyond, 3 + beyond), (5 + beyond, 0), (2, 3 + 2 * beyond)]
    news = points_of(grid)
    inside = found_losses(mechanism, table, clamped, news).by_record
    outside = found_losses(mechanism, table, raw, news).by_record
    assert outside == pytest.approx(inside, rel=1e-9)


def clamped_in_ball(a: Point, center: Point, scale: float) -> float:
    """Return P(center) for one noisy point moved into the ball, from all draws that matter."""
    reach = math.ceil(40 * scale)
    one = {z: float(laplace.probability(z, scale)) for z in range(-reach, reach + 1)}
    return math.fsum(
        one[u] * one[v]
        for u, v in product(one, repeat=2)
        if clamped_point(a[0] + u, a[1] + v) == center
    )


@cache
def clamped_point(u: int, v: int) -> Point:
    return tuple(BALL.clip(np.array([[u, v]]))[0].tolist())


def test_the_release_of_a_ball_states_no_loss():
    """Draws outside are moved onto the ball, from other sides for every record: the loss of a
    clamped center is that of all draws that lead to it, and not that of the center as a draw."""
    scale, center, table = 1.0, (2, 1), [(3, 0), (0, 0)]
    clamped = [math.log(clamped_in_ball(a, center, scale)) for a in table]
    plain = [-sum(abs(x - y) for x, y in zip(a, center, strict=True)) / scale for a in table]
    assert abs((clamped[0] - clamped[1]) - (plain[0] - plain[1])) > 0.01, "they do differ"
    effort = Effort(1, 2, 2, 0, 1e-6, 0)
    points, released = np.array(table, np.int32), np.array([center])
    mechanism = Laplace(1, BALL, REPLACE, scale)
    found = data_loss(mechanism, points, Decimal(6), effort, released, lambda _: None)
    assert found.release_loss is None


def test_simulated_losses_in_a_ball_are_those_of_the_draws():
    """As for the release: what is moved onto the ball has no loss by the formula, the draw has."""
    points = np.array([(3, 0), (0, 0), (-1, 2)], np.int32)
    mechanism = Laplace(2, BALL, REPLACE, 2.0)
    found = data_loss(mechanism, points, Decimal(9), Effort(1, 2, 2, 8, 1e-6, 5), None, print)
    expected = []
    for child in np.random.SeedSequence(5).spawn(8):
        draw = run_on_points(mechanism, points, SeededEntropy(child)).centers
        tried = list_replacements(BALL, draw, found.n_replacements)
        expected.append(exact_losses(mechanism, points, draw, tried).largest)
    assert found.simulated_losses in ((), pytest.approx(tuple(expected)))


# -- edges -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "new", "output"),
    [
        pytest.param([(2,), (2,), (2,)], (2,), [(2,), (5,)], id="no weight before and after"),
        pytest.param([(2,), (2,), (2,)], (6,), [(2,), (5,)], id="no weight before"),
        pytest.param([(6,), (2,), (2,)], (2,), [(2,), (6,)], id="no weight after"),
        pytest.param([(6,), (2,), (2,)], (2,), [(2,), (6,), (1,)], id="no weight from round 3 on"),
        pytest.param([(7,), (0,)], (0,), [(-9,), (11,), (0,)], id="clamped onto the records"),
    ],
)
@pytest.mark.parametrize("kind", ["laplace", "published"])
def test_rounds_without_any_weight_pick_uniformly(kind, table, new, output):
    mechanism = mechanism_of(kind, LINE, len(table), k=len(output))
    expected = float(loss_by_hand(mechanism, table, 0, new, output))
    found = found_losses(mechanism, table, output, [new])
    assert found.by_record[0] == pytest.approx(abs(expected), rel=1e-9, abs=1e-12)
    rest, ones = np.array(table[1:]), np.ones(len(table) - 1, np.int64)
    signed = log_ratio_of_tables(
        mechanism, rest, ones, np.array(table[0]), np.array(new), np.array(output)
    )
    assert signed == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("bits", [16, 24])
@pytest.mark.parametrize("kind", ["0.1", "inf", "laplace"])
def test_coordinates_at_the_ends_of_the_grid(kind, bits):
    grid = Box((-1.0,) * 3, (1.0,) * 3).grid(bits)
    top = 2**bits - 1
    table = [(0, 0, 0), (top, top, top), (top, 0, top), (0, 0, 1)]
    mechanism = mechanism_of(kind, grid, len(table), k=3)
    output = [(0, 0, 0), (top, top, top), (top // 2, 0, top + 2**40)]
    news = [(0, 0, 0), (top, top, top), (0, top, 0)]
    points = np.array(table, np.int64)
    for new in news:
        found = exact_losses(mechanism, points, np.array(output), np.array([new]))
        expected = [
            abs(float(loss_by_hand(mechanism, table, row, new, output)))
            for row in range(len(table))
        ]
        assert found.by_record == pytest.approx(expected, rel=1e-8, abs=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_a_single_record_and_a_single_center(kind):
    mechanism = mechanism_of(kind, LINE, 1, k=1)
    found = found_losses(mechanism, [(2,)], [(5,)], [(2,), (0,), (7,)])
    expected = [abs(float(loss_by_hand(mechanism, [(2,)], 0, a, [(5,)]))) for a in ((0,), (7,))]
    assert found.largest == pytest.approx(max(expected), rel=1e-12)


def test_a_domain_of_no_width_costs_nothing():
    grid = Box((3.0, 4.0), (3.0, 4.0)).grid()
    mechanism = mechanism_of("laplace", grid, 3, k=2)
    found = found_losses(mechanism, [(0, 0)] * 3, [(0, 0)] * 2, [(0, 0)])
    assert found.largest == 0.0


@pytest.mark.parametrize("eps_tilde", [6.0, 19.0, 25.0])
def test_an_outlier_that_carries_nearly_all_the_weight(eps_tilde):
    """Without smoothing, the outlier has 4e9 times the weight of the others. What is left of the
    sums without it must not be lost in rounding."""
    grid = Box((0.0,), (1.0,)).grid()
    top = grid.diam1
    mechanism = Published.calibrate(eps_tilde, n_clusters=2, grid=grid)
    table, output = [(1,)] * 50 + [(top,)], [(0,), (top,)]
    for new in ((0,), (1,), (2,)):
        expected = abs(float(loss_by_hand(mechanism, table, 50, new, output)))
        found = found_losses(mechanism, table, output, [new])
        assert found.by_record[50] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("eps", ["30", "60", "600"])
def test_losses_where_the_other_records_hardly_count(eps):
    """All but one record are e^eps times less likely to give the output."""
    mechanism = mechanism_of("laplace", LINE, 3, k=1, eps=eps)
    table, output, new = [(7,), (0,), (0,)], [(7,)], (0,)
    expected = abs(float(loss_by_hand(mechanism, table, 0, new, output)))
    rest = np.array([[0]]), np.array([2])
    signed = log_ratio_of_tables(mechanism, *rest, np.array([7]), np.array([0]), np.array(output))
    assert signed == pytest.approx(expected, rel=1e-9)
    found = found_losses(mechanism, table, output, [new])
    assert found.by_record[0] == pytest.approx(expected, rel=1e-9)


def test_an_eps_beyond_all_floats_is_refused():
    mechanism = mechanism_of("laplace", LINE, 3, k=1, eps="2000")
    with pytest.raises(UsageError, match="choose a smaller eps"):
        found_losses(mechanism, [(7,), (0,), (0,)], [(7,)], [(0,)])


def test_round_factors_are_weights_and_likelihoods():
    """By hand: W_1 = 1, W_2 = D + S, and exp(-(|x - a| - |x - c|) / b) with c the clamped x."""
    mechanism = KVariates(2, LINE, REPLACE, 2.0, 3, 5)
    weights, likelihoods = round_factors(mechanism, np.array([[0], [4], [7]]), np.array([[9], [3]]))
    assert weights.tolist() == [[1.0, 54.0], [1.0, 14.0], [1.0, 5.0]]
    expected = [[-3.5, -1.5], [-1.5, -0.5], [0.0, -2.0]]
    assert np.log(likelihoods) == pytest.approx(np.array(expected), abs=1e-12)


# -- the replacements that are tried ---------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 6])
def test_all_corners_of_a_box(d):
    grid = Box((0.0,) * d, (2.0,) * d).grid()
    corners = {tuple(row) for row in domain_corners(grid).tolist()}
    assert corners == set(product((0, 2**16 - 1), repeat=d))


def test_some_corners_of_a_box_of_many_columns():
    grid = Box((0.0,) * 15, (2.0,) * 15).grid()
    corners = domain_corners(grid)
    assert len(corners) == 32
    assert set(np.unique(corners).tolist()) == {0, 2**16 - 1}
    gaps = np.abs(corners[:, None] - corners[None]).sum(axis=2)
    assert gaps.max() == grid.diam1


@pytest.mark.parametrize("d", [1, 2, 3])
def test_all_corners_of_a_ball(d):
    """An L1 ball's extreme points lie on the axes; no two other points are diam2 apart."""
    grid = L1Ball((0.0,) * d, 1.0).grid()
    found = {tuple(row) for row in domain_corners(grid).tolist()}
    ends = np.concatenate([np.eye(d, dtype=int), -np.eye(d, dtype=int)]) * grid.reach
    expected = {tuple(row) for row in ends.tolist()}
    assert expected <= found


@pytest.mark.parametrize("n_points", [1, 5, 32, 256])
@pytest.mark.parametrize("grid", [LINE, PLANE, BALL, Box((0.0,) * 15, (1.0,) * 15).grid()])
def test_replacements_are_grid_points_in_the_number_asked_for(grid, n_points):
    output = np.tile(grid.middle + 2**20, (3, 1))
    tried = list_replacements(grid, output, n_points)
    assert tried.shape == (n_points, grid.n_features)
    assert (grid.clip(tried) == tried).all()
    assert tried.tolist() == list_replacements(grid, output, n_points).tolist()


def test_corners_and_the_clamped_output_are_among_the_replacements():
    output = np.array([(2, 2), (9, -4), (1, 1)])
    tried = {tuple(row) for row in list_replacements(PLANE, output).tolist()}
    assert set(product((0, 5), (0, 3))) | {(2, 2), (5, 0), (1, 1)} <= tried


def test_the_replacements_spread_over_the_domain():
    grid = Box((0.0, 0.0), (1.0, 1.0)).grid()
    tried = list_replacements(grid, grid.middle[np.newaxis])
    cells = {tuple(row) for row in (tried // 2**13).tolist()}  # of 8 x 8
    assert len(cells) == 64
