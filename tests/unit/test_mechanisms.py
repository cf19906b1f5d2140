"""The mechanisms one by one: golden prices, descriptions, refusals, sensitivities, edge cases.

Golden prices come from mpmath with 80 digits, or are fractions by hand.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import combinations_with_replacement, product
from types import SimpleNamespace
from typing import Any

import mpmath
import numpy as np
import pytest
from support.branching import Watched, ball
from support.questions import Instead

from dpkv.domain import Box, L1Ball
from dpkv.errors import ParameterError, UsageError
from dpkv.grid import BoxGrid, Grid
from dpkv.mechanisms import (
    MECHANISMS,
    Forgy,
    Gupt,
    KVariates,
    Laplace,
    Lloyd,
    Neighbours,
    Noise,
    Outcome,
    Published,
    Step,
    calibrate_mechanism,
    check_request,
    describe,
    from_description,
)
from dpkv.mechanisms.gupt import block_number
from dpkv.mechanisms.lloyd import public_start
from dpkv.noise import OperatingSystemEntropy, SeededEntropy
from dpkv.records import ArrayRecords, Ask, Records, curator_of, run_on_points
from dpkv.records.block import Block
from dpkv.records.questions import BlockCenters
from dpkv.releases.settling import spent

REPLACE, ADD = Neighbours.REPLACE_ONE, Neighbours.ADD_REMOVE
TOP = 2**16 - 1
GRID = Box((0.0, 0.0), (1.0, 2.0)).grid()
M, K = 100, 3


def every_mechanism(eps: str = "1", k: int = K, m: int = M, grid: Grid = GRID) -> dict[str, Any]:
    return {
        name: calibrate_mechanism(name, Decimal(eps), n_records=m, n_clusters=k, grid=grid)
        for name in MECHANISMS
    }


ALL = every_mechanism() | {"published": Published.calibrate(2.0, n_clusters=K, grid=GRID)}

COVER_ADD_REMOVE = [
    name for name, kind in MECHANISMS.items() if Neighbours.ADD_REMOVE in kind.relations
]


# -- golden prices ---------------------------------------------------------------------------------


def theorem_a(log_rho: Fraction, m: int, k: int, gamma: Fraction | None) -> mpmath.mpf:
    """eps = log(1 + (rho-1)/m) + (k-1) log(1 + w (rho-1)), in mpmath."""
    with mpmath.workdps(80):
        surplus = mpmath.expm1(mpmath.mpf(log_rho.numerator) / log_rho.denominator)
        w = Fraction(1, m) if gamma is None else (1 + gamma) / (1 + gamma * m)
        later = mpmath.log1p(surplus * w.numerator / w.denominator)
        return mpmath.log1p(surplus / m) + (k - 1) * later


@pytest.mark.parametrize("gamma", [1e-3, 0.1, 1.0, math.inf])
@pytest.mark.parametrize(("m", "k"), [(1, 1), (2, 2), (100, 3), (169308, 8)])
@pytest.mark.parametrize("eps", ["0.1", "1", "6"])
def test_golden_price_of_kvariates(eps, m, k, gamma):
    mechanism = KVariates.calibrate(Decimal(eps), n_records=m, n_clusters=k, grid=GRID, gamma=gamma)
    assert mechanism.gamma == math.inf or mechanism.gamma >= Fraction(gamma)
    share = None if math.isinf(gamma) else Fraction(mechanism.smoothing_steps, GRID.diam2_squared)
    expected = theorem_a(mechanism.log_ratio, m, k, share)
    with mpmath.workdps(80):
        cost = mpmath.mpf(str(mechanism.cost()))
        assert expected <= cost <= expected * (1 + mpmath.mpf("1e-45"))
        parts = [(mpmath.mpf(str(step.eps)), step.times) for step in mechanism.steps()]
        assert abs(sum(price * times for price, times in parts) - expected) < mpmath.mpf("1e-40")
    assert mechanism.cost() <= Decimal(eps)


def test_golden_prices_by_hand():
    """Fractions: k diam1 / b, k diam1 / b of the sum, and T (2 / b_c + 2 radius1 / b_s)."""
    grid = BoxGrid((0.0, 0.0), (1.0, 1.0), (8, 4))
    assert Laplace(3, grid, REPLACE, 36.0).cost() == 1
    assert Forgy(3, grid, ADD, 9.0).cost() == 4
    assert Gupt(2, grid, REPLACE, 48.0, 100, 6).cost() == Decimal("0.5")
    lloyd = Lloyd(2, grid, REPLACE, 3, 8.0, 24.0)
    assert [step.eps for step in lloyd.steps()] == [Decimal("0.25"), Decimal("0.5")]
    assert lloyd.cost() == Decimal("2.25")
    assert replace(lloyd, neighbours=ADD).cost() == Decimal("1.125")


def test_three_thirds_are_one_and_not_more():
    grid = BoxGrid((0.0,), (1.0,), (1,))
    mechanism = Laplace(3, grid, REPLACE, 3.0)
    (step,) = mechanism.steps()
    assert Fraction(step.eps) > Fraction(1, 3), "one price alone is rounded up"
    assert mechanism.cost() == 1


def test_golden_noise_of_the_default_gamma():
    """eps~ at eps = 1, gamma = 0.1, m = 169308, as checked independently: 10.0, 8.7 and 7.8."""
    grid = Box((0.0, 0.0), (1.0, 1.0)).grid()
    for k, eps_tilde in {2: 9.98, 4: 8.67, 8: 7.75}.items():
        mechanism = KVariates.calibrate(
            Decimal(1), n_records=169308, n_clusters=k, grid=grid, gamma=0.1
        )
        assert float(mechanism.log_ratio) == pytest.approx(eps_tilde, abs=0.06)
        assert mechanism.smoothing == math.ceil(Fraction(0.1) * 2 * TOP**2)


@pytest.mark.parametrize("eps", ["0.1", "1", "7.3"])
@pytest.mark.parametrize("k", [1, 2, 3, 7])
@pytest.mark.parametrize("name", MECHANISMS)
def test_prices_are_within_eps_and_use_it_up(name, k, eps):
    cost = every_mechanism(eps, k)[name].cost()
    assert Decimal(eps) * Decimal("0.99999") < cost <= Decimal(eps)


@pytest.mark.parametrize("name", MECHANISMS)
def test_prices_are_within_eps_to_the_last_digit(name):
    for k in (1, 2, 3, 5, 6, 7):
        assert every_mechanism("1", k)[name].cost() <= 1, k


@pytest.mark.parametrize("name", ["kvariates", "laplace", "forgy", "gupt"])
def test_one_float_less_noise_costs_more_than_eps(name):
    mechanism = every_mechanism("0.7")[name]
    less = replace(mechanism, noise_scale=mechanism.noise_scale * (1 - 1e-9))
    assert less.cost() > Decimal("0.7") * Decimal("1.0000000001")


def test_what_is_spent_is_rounded_up():
    steps = (Step("x", Decimal("1." + 40 * "0" + "1")),)
    assert (
        spent(
            None,
            SimpleNamespace(
                is_proved=True, steps=lambda: steps, cost=lambda: steps[0].eps, delta=0.0
            ),
        )
        > 1.0
    )


@pytest.mark.parametrize("scale", [0.05, 0.3, 1.0, 7.5, 1e4, 1e9])
def test_standard_deviation_of_the_noise(scale):
    """The variance is twice that of a geometric variable: 2 q / (1 - q)^2."""
    with mpmath.workdps(50):
        q = mpmath.exp(-1 / mpmath.mpf(scale))
        expected = float(mpmath.sqrt(2 * q) / (1 - q))
    assert Noise("x", scale, "records").sd == pytest.approx(expected, rel=1e-12)
    assert Noise("x", 0.0, "records").sd == 0.0


# -- descriptions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_a_description_survives_json_and_rebuilds_the_mechanism(name):
    described = json.loads(json.dumps(describe(ALL[name]), allow_nan=False))
    rebuilt = from_description(described, GRID)
    assert rebuilt == ALL[name]
    assert describe(rebuilt) == described
    assert rebuilt.cost() == ALL[name].cost()


REFUSED = "the description of the mechanism does not make sense"
NOISES = {"noise_scale", "count_scale", "sum_scale", "eps_tilde"}
COUNTS = {"k", "n_records", "n_blocks", "iterations", "smoothing_steps"}
NUMBERS = (True, False, -1, -1.5, 0, 0.0, math.nan, math.inf, "3", "x", None, [], {})


def tampered() -> list:
    cases = []
    for name, mechanism in ALL.items():
        for field in describe(mechanism):
            values = NUMBERS if field in NOISES else (*NUMBERS, 7.0) if field in COUNTS else ()
            for value in values:
                if (field, value) == ("smoothing_steps", None):
                    continue  # that is gamma = infinity
                cases.append((name, field, value))
    return cases


@pytest.mark.parametrize(("name", "field", "value"), tampered())
def test_tampered_numbers_are_refused(name, field, value):
    with pytest.raises(UsageError, match=REFUSED):
        from_description({**describe(ALL[name]), field: value}, GRID)


@pytest.mark.parametrize("name", ALL)
def test_a_field_too_many_or_too_few_is_refused(name):
    described = describe(ALL[name])
    for more in ({"x": 1}, {"grid": 1}, {"n_clusters": 3}, {"smoothing": 1}, {"title": "x"}):
        with pytest.raises(UsageError, match=REFUSED):
            from_description({**described, **more}, GRID)
    for field in described:
        with pytest.raises(UsageError, match=REFUSED):
            from_description({key: described[key] for key in described if key != field}, GRID)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("value", [None, 1, [], {}, "x", "theorem-b"])
def test_tampered_words_are_refused(name, value):
    for field in ("name", "proof", "neighbours"):
        with pytest.raises(UsageError, match=REFUSED):
            from_description({**describe(ALL[name]), field: value}, GRID)


@pytest.mark.parametrize("name", ALL)
def test_a_proof_that_the_mechanism_has_not_is_refused(name):
    for proof in {"theorem-a", "local", "sensitivity", "none"} - {ALL[name].proof}:
        with pytest.raises(UsageError, match=REFUSED):
            from_description({**describe(ALL[name]), "proof": proof}, GRID)


@pytest.mark.parametrize("kind", [Laplace, Forgy])
def test_no_noise_is_refused_where_records_may_differ(kind):
    with pytest.raises(ParameterError, match=r"noise_scale must be .*greater than 0"):
        kind(2, GRID, REPLACE, 0.0)
    kind(2, Box((1.0,), (1.0,)).grid(), REPLACE, 0.0)


@pytest.mark.parametrize("steps", [0, -5])
def test_smoothing_of_nothing_is_refused_for_more_than_one_center(steps):
    with pytest.raises(ParameterError, match=r"smoothing_steps must be .*at least 1"):
        KVariates(2, GRID, REPLACE, 5.0, 9, steps)


# -- which neighbours, how many records ------------------------------------------------------------


@pytest.mark.parametrize("name", ["kvariates", "gupt"])
def test_add_remove_is_refused_where_m_is_public(name):
    told = f"neighbours must be 'replace-one' for {name}. Got 'add-remove' instead. .*public"
    with pytest.raises(ParameterError, match=told):
        check_request(name, ADD)
    with pytest.raises(ParameterError, match=told):
        calibrate_mechanism(name, Decimal(1), n_records=M, n_clusters=K, grid=GRID, neighbours=ADD)
    with pytest.raises(ParameterError, match=told):
        replace(ALL[name], neighbours=ADD)


@pytest.mark.parametrize("name", COVER_ADD_REMOVE)
def test_add_remove_costs_no_more_than_eps_where_it_is_covered(name):
    mechanism = calibrate_mechanism(
        name, Decimal(1), n_records=M, n_clusters=4, grid=GRID, neighbours=ADD
    )
    assert mechanism.neighbours is ADD
    assert Decimal("0.999999") < mechanism.cost() <= 1


def test_under_add_remove_nothing_follows_from_the_number_of_records():
    for name in COVER_ADD_REMOVE:
        found = {
            calibrate_mechanism(
                name, Decimal(1), n_records=m, n_clusters=4, grid=GRID, neighbours=ADD
            )
            for m in (4, 100, 10**9)
        }
        assert len(found) == 1


def test_what_check_request_refuses():
    with pytest.raises(ParameterError, match="mechanism must be one of 'kvariates', 'laplace'"):
        check_request("kmeans", REPLACE)
    with pytest.raises(ParameterError, match="iterations must be left out unless"):
        check_request("gupt", REPLACE, iterations=3)
    check_request("lloyd", ADD, iterations=3)


def records(m: int, grid: Grid, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return grid.spread(rng.random((m, grid.n_features))).astype(np.int32)


@pytest.mark.parametrize("name", ["kvariates", "gupt"])
@pytest.mark.parametrize("m", [M - 1, M + 1])
def test_the_number_of_records_must_be_the_one_of_the_proof(name, m):
    with pytest.raises(UsageError, match=f"the mechanism is for {M} records. Got {m} instead"):
        run_on_points(ALL[name], records(m, GRID), SeededEntropy(0))


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("shape", [(M, 1), (M, 3), (M,), (0, 2), (1, M, 2)])
def test_points_of_another_shape_are_refused(name, shape):
    with pytest.raises(UsageError, match="the mechanism is for 2 columns"):
        run_on_points(ALL[name], np.zeros(shape, np.int32), SeededEntropy(0))


@pytest.mark.parametrize("k", [0, -1, 1.5, True, "2"])
@pytest.mark.parametrize("name", MECHANISMS)
def test_refused_numbers_of_centers(name, k):
    with pytest.raises(UsageError, match=r"k must be|n_clusters must be"):
        replace(ALL[name], n_clusters=k)


# -- running ---------------------------------------------------------------------------------------

GRIDS = {
    "box": Box((0.0, -5.0), (1.0, 5.0)).grid(),
    "unscaled": Box((0.0, -5.0), (1.0, 5.0), scaled=False).grid(),
    "ball": L1Ball((1.0, 2.0, 3.0), 2.0).grid(),
    "line": Box((0.0,), (1.0,)).grid(),
    "flat": Box((3.0, 0.0), (3.0, 1.0)).grid(),
    "point": Box((3.0, 4.0), (3.0, 4.0)).grid(),
    "coarse": Box((0.0, 0.0), (1.0, 1.0)).grid(bits=2),
}


@pytest.mark.parametrize("entropy", ["system", "seeded"])
@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("grid", GRIDS)
def test_every_mechanism_on_every_grid(grid, name, entropy):
    """At the edges m = k = 1 and k = m, and for more; int32 and int64 points alike."""
    drawn_from = OperatingSystemEntropy() if entropy == "system" else SeededEntropy(3)
    for m, k in ((1, 1), (3, 3), (40, 1), (300, 4)):
        mechanism = every_mechanism("1", k, m, GRIDS[grid])[name]
        points = records(m, GRIDS[grid])
        for typed in (points, points.astype(np.int64)):
            centers = run_on_points(mechanism, typed, drawn_from).centers
            assert centers.shape == (k, GRIDS[grid].n_features)
            assert centers.dtype == np.int64
            inside = GRIDS[grid].clip(centers)
            assert (GRIDS[grid].clip(inside) == inside).all()


@pytest.mark.parametrize("name", MECHANISMS)
def test_seeded_runs_repeat(name):
    points = records(M, GRID)
    first, again, other = (
        run_on_points(ALL[name], points, SeededEntropy(seed)).centers for seed in (1, 1, 2)
    )
    assert first.tolist() == again.tolist() != other.tolist()


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_run_leaves_the_records_alone(name):
    points = records(M, GRID)
    before = points.copy()
    points.flags.writeable = False
    run_on_points(ALL[name], points, OperatingSystemEntropy())
    assert (points == before).all()


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_domain_of_no_width_needs_no_noise(name):
    grid = GRIDS["point"]
    mechanism = every_mechanism("1", 2, 5, grid)[name]
    points = np.zeros((5, 2), np.int32)
    centers = run_on_points(mechanism, points, OperatingSystemEntropy()).centers
    assert grid.restore(centers).tolist() == [[3.0, 4.0]] * 2
    in_steps = {noise.scale for noise in mechanism.noises() if noise.unit == "grid-steps"}
    assert in_steps == (set() if name == "synopsis" else {0.0})  # its radii are 0 instead
    if name not in ("lloyd", "synopsis"):  # which still count, and pay for it
        assert mechanism.cost() == 0


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_column_of_no_width_stays_what_it_is(name):
    grid = GRIDS["flat"]
    mechanism = every_mechanism("1", 2, 50, grid)[name]
    drawn = run_on_points(mechanism, records(50, grid), OperatingSystemEntropy()).centers
    centers = grid.restore(drawn)
    assert centers[:, 0].tolist() == [3.0, 3.0]


@pytest.mark.parametrize("name", ["kvariates", "laplace", "forgy", "gupt"])
def test_enormous_noise_neither_overflows_nor_warns(name):
    points = records(M, GRID)
    for scale in (1e18, 1e300):
        mechanism = replace(ALL[name], noise_scale=scale)
        for entropy in (OperatingSystemEntropy(), SeededEntropy(0)):
            centers = run_on_points(mechanism, points, entropy).centers
            assert np.abs(centers).max() <= 2**62
            assert np.isfinite(GRID.restore(centers)).all()


def test_enormous_noise_of_lloyd():
    for neighbours, grid in product((REPLACE, ADD), GRIDS.values()):
        mechanism = Lloyd(3, grid, neighbours, 3, count_scale=1e300, sum_scale=1e300)
        for entropy in (OperatingSystemEntropy(), SeededEntropy(0)):
            centers = run_on_points(mechanism, records(9, grid), entropy).centers
            assert (grid.clip(centers) == centers).all()


def test_duplicates_and_more_centers_than_distinct_records():
    points = np.full((6, 2), 7, np.int32)
    for name, mechanism in every_mechanism("1e5", 4, 6).items():
        centers = run_on_points(mechanism, points, OperatingSystemEntropy()).centers
        assert centers.shape == (4, 2), name


# -- gupt ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("m", "blocks"),
    [(1, 1), (2, 1), (5, 1), (6, 2), (31, 3), (32, 4), (243, 9), (10**5, 100), (2**40, 2**16)],
)
def test_golden_block_numbers(m, blocks):
    assert block_number(m) == blocks


@pytest.mark.parametrize("base", [2, 3, 7, 10, 99, 1000, 12345, 10**6])
def test_block_numbers_around_fifth_powers(base):
    """m = b^5 gives b^2 blocks, and one record less gives fewer."""
    assert block_number(base**5) == base**2
    assert block_number(base**5 - 1) == base**2 - 1
    assert block_number(base**5 + 1) == base**2


def test_block_number_is_the_largest_with_its_fifth_power_within_m_squared():
    for m in (*range(1, 5000), 2**40, 2**52, 2**53 + 1, 10**18):
        blocks = block_number(m)
        assert 1 <= blocks <= m
        assert blocks**5 <= m * m < (blocks + 1) ** 5


class NotedBlocks(BlockCenters):
    """Notes which rows each block holds: the first column of the tables below tells the row."""

    def centers_of(self, block: Block, rng: np.random.Generator) -> np.ndarray:
        SEEN.append(frozenset((block.points[:, 0] % 1000).tolist()))
        return super().centers_of(block, rng)


class BlocksSeen(Gupt):
    """Asks so that the blocks are noted."""

    def run(self, ask: Ask) -> Outcome:
        return super().run(Instead(ask, {BlockCenters: NotedBlocks}))


SEEN: list[frozenset[int]] = []


def test_the_partition_into_blocks_does_not_depend_on_the_values():
    partitions = []
    for seed in range(5):
        SEEN.clear()
        rng = np.random.default_rng(seed)
        points = rng.integers(0, 65, (M, 2)) * 1000 + np.arange(M)[:, None]
        mechanism = BlocksSeen(K, GRID, REPLACE, 1.0, M, block_number(M))
        run_on_points(mechanism, points, Watched())
        partitions.append(tuple(SEEN))
    assert len(set(partitions)) == 1
    assert sorted(row for block in partitions[0] for row in block) == list(range(M))
    cut = np.array_split(order_of(mechanism, points), mechanism.n_blocks)
    assert partitions[0] == tuple(frozenset(rows.tolist()) for rows in cut)
    assert sorted(map(len, partitions[0])) == [16, 16, 17, 17, 17, 17]


def summed(mechanism: Gupt, points: np.ndarray, coins: int = 7) -> np.ndarray:
    watched = Watched(coins=coins)
    run_on_points(mechanism, points, watched)
    assert watched.scales == [mechanism.noise_scale]
    return watched.values[0]


def assumed(mechanism: Gupt) -> Fraction:
    """Return the L1 sensitivity that the price stands for."""
    return Fraction(mechanism.cost()) * Fraction(mechanism.noise_scale)


def gupt_for(m: int, k: int, grid: Grid, kind: type[Gupt] = Gupt) -> Gupt:
    return kind(k, grid, REPLACE, float(k * grid.diam1), m, block_number(m))


def worst_change(m: int, k: int, grid: Grid, kind: type[Gupt] = Gupt, tables: int = 60) -> Fraction:
    """Return the largest change of the summed centers over random neighbours, over the assumed."""
    mechanism = gupt_for(m, k, grid, kind)
    rng = np.random.default_rng(5)
    worst = 0
    for number in range(tables):
        points = records(m, grid, number)
        if number % 2:  # all at two corners
            points = grid.spread(np.repeat(rng.integers(0, 2, (m, 1)), grid.n_features, 1) * 1.0)
        other = points.copy()
        other[rng.integers(m)] = grid.spread(rng.integers(0, 2, (1, grid.n_features)) * 1.0)[0]
        change = np.abs(summed(mechanism, points) - summed(mechanism, other)).sum()
        worst = max(worst, int(change))
    return worst / assumed(mechanism)


@pytest.mark.parametrize("grid", ["box", "unscaled", "ball", "line", "coarse"])
@pytest.mark.parametrize(("m", "k"), [(1, 1), (2, 2), (7, 3), (40, 2), (100, 4)])
def test_one_record_moves_the_summed_centers_no_farther_than_the_price_says(m, k, grid):
    assert worst_change(m, k, GRIDS[grid]) <= 1


def test_the_sensitivity_of_gupt_is_reached():
    line = GRIDS["line"]
    ends = [summed(gupt_for(1, 1, line), np.array([[x]])) for x in (0, TOP)]
    assert abs(int((ends[1] - ends[0])[0, 0])) == assumed(gupt_for(1, 1, line)) == TOP


def test_one_record_can_move_all_centers_by_changing_their_order():
    """Sorting by the first column makes (1, top, top) first or second: diam1 alone, without the
    factor k, would be too little noise."""
    grid = Box((0.0,) * 3, (1.0,) * 3).grid()
    mechanism = gupt_for(2, 2, grid)
    far = (1, TOP, TOP)
    before = summed(mechanism, np.array([(0, 0, 0), far]))
    after = summed(mechanism, np.array([(2, 0, 0), far]))
    change = int(np.abs(before - after).sum())
    assert change == 4 * TOP + 2
    assert grid.diam1 < change <= assumed(mechanism)


class BlocksOfOneStream(BlockCenters):
    """A planted fault: the blocks share a generator, so that one block shifts the others' draws."""

    def exact(self, records: Records) -> np.ndarray:
        rng = np.random.default_rng(self.seed)
        order = rng.permutation(records.n_records)
        blocks = np.array_split(order, self.n_blocks)
        return np.sum([self.centers_of(records.take(np.sort(rows)), rng) for rows in blocks], 0)


class OneStream(Gupt):
    """Asks the faulty question."""

    def run(self, ask: Ask) -> Outcome:
        return super().run(Instead(ask, {BlockCenters: BlocksOfOneStream}))


def order_of(mechanism: Gupt, points: np.ndarray, coins: int = 7) -> np.ndarray:
    """Return the order that records are cut into blocks in: public, by the question's coins."""
    ask = curator_of(mechanism, ArrayRecords(points), Watched(coins=coins))
    mechanism.run(ask)
    (asked,) = ask.transcript.exchanges
    return np.random.default_rng(asked.question.seed).permutation(len(points))


def shift_of_the_first_block(kind: type[Gupt], coins: int) -> Fraction:
    """All records of the first block are equal, or all but one. Without distances to draw by, its
    k-means++ draws otherwise. The other blocks hold the corners of a square, which two k-means of
    equal potential split either way."""
    m, grid = 1000, Box((0.0, 0.0), (1.0, 1.0)).grid()
    mechanism = gupt_for(m, 2, grid, kind)
    points = np.array(list(product((0, TOP), repeat=2)))[np.arange(m) % 4]
    first = np.array_split(order_of(mechanism, points, coins), mechanism.n_blocks)[0]
    points[first] = 0
    other = points.copy()
    other[first[0]] = TOP
    before, after = (summed(mechanism, table, coins) for table in (points, other))
    change = np.abs(before - after).sum()
    return int(change) / assumed(mechanism)


def test_blocks_have_randomness_of_their_own():
    assert max(shift_of_the_first_block(Gupt, coins) for coins in range(10)) <= 1


def test_planted_fault_blocks_that_share_their_randomness():
    assert max(shift_of_the_first_block(OneStream, coins) for coins in range(10)) > 1


def test_short_blocks_fill_up_with_the_middle():
    mechanism = gupt_for(2, 4, GRIDS["line"])
    assert summed(mechanism, np.array([[5], [9]])).tolist() == [[5], [9], [TOP // 2], [TOP // 2]]


# -- lloyd -----------------------------------------------------------------------------------------


def test_shares_of_counts_and_sums():
    """Counts get (4 d rho^2)^(1/3) shares to the sums' d, with rho = 0.225."""
    mechanism = Lloyd.calibrate(Decimal(1), n_clusters=2, grid=GRID, neighbours=ADD, iterations=3)
    counts, sums = (float(step.eps) for step in mechanism.steps())
    assert counts / sums == pytest.approx(float(mpmath.cbrt(8 * 0.225**2)) / 2, rel=1e-9)
    assert 3 * (counts + sums) == pytest.approx(1, rel=1e-9)


def test_iterations_follow_from_public_facts():
    def iterations(eps: str, m: int, neighbours: Neighbours = REPLACE) -> int:
        return Lloyd.calibrate(
            Decimal(eps), n_clusters=4, grid=GRID, neighbours=neighbours, n_records=m
        ).iterations

    assert iterations("1", 100) == 2
    assert iterations("1", 10**7) == 7
    assert [iterations("1", m, ADD) for m in (4, 10**9)] == [5, 5]
    assert iterations("0.01", 10**5) <= iterations("0.1", 10**5) <= iterations("1", 10**5)


@pytest.mark.parametrize("iterations", [0, -1, 1.5, True])
def test_refused_iterations(iterations):
    with pytest.raises(ParameterError, match="iterations must be a whole number"):
        Lloyd.calibrate(Decimal(1), n_clusters=2, grid=GRID, neighbours=ADD, iterations=iterations)


TINY = {
    "line": BoxGrid((0.0,), (1.0,), (3,)),
    "even line": BoxGrid((0.0,), (1.0,), (4,)),
    "plane": BoxGrid((0.0, 0.0), (1.0, 1.0), (2, 2)),
    "ball": L1Ball((0.0, 0.0), 1.0).grid(bits=2),
    "wide ball": L1Ball((0.0,), 1.0).grid(bits=3),
}


def every_point(grid: Grid) -> list[tuple[int, ...]]:
    if isinstance(grid, BoxGrid):
        return list(product(*(range(top + 1) for top in grid.tops)))
    return ball(grid.reach, grid.n_features)


def noised(mechanism: Lloyd, table: tuple[tuple[int, ...], ...], seed: int) -> list[np.ndarray]:
    """Return the counts and sums that noise is added to, iteration by iteration.

    What is released is the same for every table, so that the centers of an iteration are.
    """
    rng = np.random.default_rng(seed)
    top = max(map(abs, map(int, mechanism.grid.middle))) + 3

    def answers(_: int, values: np.ndarray) -> np.ndarray:
        return rng.integers(-top, top + 1, values.shape) + (values.ndim == 1) * 2 * top

    watched = Watched(answers)
    run_on_points(mechanism, np.array(table, np.int32), watched)
    assert watched.scales == [mechanism.count_scale, mechanism.sum_scale] * mechanism.iterations
    return watched.values


def neighbouring(grid: Grid, m: int, neighbours: Neighbours) -> list[tuple]:
    """Return every pair of neighbouring tables around every m - 1 common records."""
    points = every_point(grid)
    pairs = []
    for common in combinations_with_replacement(points, m - 1):
        longer = [(*common, a) for a in points]
        if neighbours is REPLACE:
            pairs += [(a, b) for a in longer for b in longer if a < b]
        elif common:
            pairs += [(common, a) for a in longer]
    return pairs


def lloyd_sensitivity(name: str, k: int, neighbours: Neighbours, iterations: int) -> tuple:
    """Return the largest changes of counts and of sums, and the largest log-likelihood ratio of an
    iteration, over all neighbours of up to 3 records."""
    grid = TINY[name]
    mechanism = Lloyd(k, grid, neighbours, iterations, count_scale=3.0, sum_scale=5.0)
    seen: dict[tuple, list[np.ndarray]] = {}
    counts = sums = 0
    ratio = Fraction(0)
    for m in (2, 3):
        for pair in neighbouring(grid, m, neighbours):
            for table in pair:
                if table not in seen:
                    seen[table] = noised(mechanism, table, seed=4)
            changes = [
                int(np.abs(a - b).sum()) for a, b in zip(*(seen[t] for t in pair), strict=True)
            ]
            for counted, moved in zip(changes[::2], changes[1::2], strict=True):
                counts, sums = max(counts, counted), max(sums, moved)
                ratio = max(ratio, Fraction(counted, 3) + Fraction(moved, 5))
    return counts, sums, ratio, mechanism


@pytest.mark.parametrize("neighbours", [REPLACE, ADD])
@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("name", TINY)
def test_sensitivity_of_lloyd_by_every_pair_of_neighbours(name, k, neighbours):
    changed = 2 if neighbours is REPLACE else 1
    counts, sums, ratio, mechanism = lloyd_sensitivity(name, k, neighbours, iterations=2)
    for_counts, for_sums = mechanism.steps()
    assert counts <= 3 * Fraction(for_counts.eps) <= changed + Fraction(1, 10**50)
    assert (
        sums <= 5 * Fraction(for_sums.eps) <= changed * mechanism.grid.radius1 + Fraction(1, 10**50)
    )
    assert ratio <= Fraction(for_counts.eps) + Fraction(for_sums.eps)


@pytest.mark.parametrize("neighbours", [REPLACE, ADD])
@pytest.mark.parametrize("name", ["even line", "plane", "ball", "wide ball"])
def test_sensitivity_of_lloyd_is_reached(name, neighbours):
    """The middle lies midway, so that two clusters hold records as far from it as can be."""
    changed = 2 if neighbours is REPLACE else 1
    counts, sums, ratio, mechanism = lloyd_sensitivity(name, 2, neighbours, iterations=1)
    assert (counts, sums) == (changed, changed * mechanism.grid.radius1)
    assert ratio == Fraction(changed, 3) + Fraction(changed * mechanism.grid.radius1, 5)


def test_planted_fault_sums_priced_for_half_the_radius():
    counts, sums, ratio, mechanism = lloyd_sensitivity("even line", 2, REPLACE, iterations=1)
    assert ratio > replace(mechanism, sum_scale=10.0).cost()
    assert ratio > replace(mechanism, count_scale=6.0).cost()
    assert sums > mechanism.grid.radius1
    assert counts > 1


# -- the public start ------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 3, 8, 40, 300])
@pytest.mark.parametrize("name", ["box", "unscaled", "ball", "line", "flat"])
def test_the_start_is_k_different_points_of_the_domain(name, k):
    grid = GRIDS[name]
    start = public_start(grid, k)
    assert start.shape == (k, grid.n_features)
    assert start.dtype == np.int64
    assert (grid.clip(start) == start).all()
    assert len({tuple(row) for row in start.tolist()}) == k
    assert public_start(grid, k).tolist() == start.tolist()


@pytest.mark.parametrize("name", ["point", "coarse"])
def test_the_start_stays_inside_where_k_different_points_are_too_many(name):
    start = public_start(GRIDS[name], 20)
    assert start.shape == (20, 2)
    assert (GRIDS[name].clip(start) == start).all()


def test_the_start_spreads_over_the_domain():
    start = public_start(GRIDS["line"], 4)[:, 0] / TOP
    assert sorted(start) == pytest.approx([0.125, 0.375, 0.625, 0.875], abs=0.02)
    (one,) = public_start(GRIDS["box"], 1)
    assert one / TOP == pytest.approx([0.5, 0.5], abs=0.02)


def test_lloyd_starts_there_whatever_the_records_are():
    """A count that never is worth a division leaves every center where it began."""
    mechanism = Lloyd(5, GRID, REPLACE, 3, count_scale=1e9, sum_scale=1.0)
    for seed in range(3):
        centers = run_on_points(mechanism, records(50, GRID, seed), Watched()).centers
        assert centers.tolist() == public_start(GRID, 5).tolist()


def test_lloyd_without_noise_is_lloyd():
    """Two tight groups and enough records: the centers go to the groups' means."""
    points = np.repeat([[100, 200], [60000, 50001]], 500, axis=0).astype(np.int32)
    points[::2] += 1
    mechanism = Lloyd(2, GRID, REPLACE, 4, count_scale=1.0, sum_scale=1.0)
    centers = run_on_points(mechanism, points, Watched()).centers
    assert sorted(centers.tolist()) == [[100, 200], [60000, 50001]]  # means end in a half: floored
