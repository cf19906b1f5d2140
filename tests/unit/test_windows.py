"""Windows: their geometry by brute force, draws in fractions, prices, losses and witnesses.

Everything is decided on grids so small that all points, records and tables can be listed. What is
compared is written here from the definitions, in fractions.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from dataclasses import fields, replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product

import mpmath
import numpy as np
import pytest
from support.branching import ball, every_outcome, into_ball, squared

from dpkv.accounting.theorem_a import largest_ratio
from dpkv.audits.intervals import ball_window, box_window
from dpkv.audits.losses import exact_losses
from dpkv.audits.transcripts import AdversarialEntropy, replay
from dpkv.audits.witness import check_witness, witness_of
from dpkv.audits.worst_case import worst_case
from dpkv.domain import Box, L1Ball
from dpkv.errors import ParameterError, UsageError
from dpkv.grid import BoxGrid, Grid, L1BallGrid
from dpkv.mechanisms import (
    KVariates,
    Neighbours,
    Terms,
    WindowKVariates,
    check_request,
    describe,
    for_terms,
    from_description,
)
from dpkv.mechanisms.kvariates.windows import best_window, expected_squares
from dpkv.noise import Entropy, OperatingSystemEntropy, SeededEntropy
from dpkv.records import ArrayRecords, run_on_points
from dpkv.records.questions import NoisyPick, WindowDensity

REPLACE = Neighbours.REPLACE_ONE
LINE = BoxGrid((0.0,), (1.0,), (3,))
PLANE = BoxGrid((0.0, 0.0), (1.0, 1.0), (4, 2))
FLAT = BoxGrid((0.0, 0.0), (1.0, 0.0), (5, 0))
SMALL_BALL = L1BallGrid((0.0, 0.0), (1.0, 1.0), 2)
SOLID_BALL = L1BallGrid((0.0,) * 3, (1.0,) * 3, 2)
GRIDS = {"line": LINE, "plane": PLANE, "flat": FLAT, "ball": SMALL_BALL, "solid": SOLID_BALL}
Point = tuple[int, ...]


def points_of(grid: Grid) -> list[Point]:
    if isinstance(grid, BoxGrid):
        return list(product(*(range(top + 1) for top in grid.tops)))
    assert isinstance(grid, L1BallGrid)
    return ball(grid.reach, grid.n_features)


def window_of(grid: Grid, reach: int, a: Point) -> set[Point]:
    """Return a record's window, from the definition."""
    if isinstance(grid, BoxGrid):
        sides = []
        for x, top in zip(a, grid.tops, strict=True):
            side = min(2 * reach + 1, top + 1)
            low = next(v for v in range(top + 2 - side) if v >= x - reach or v + side > top)
            sides.append(range(low, low + side))
        return set(product(*sides))
    assert isinstance(grid, L1BallGrid)
    own = min(reach, grid.reach)
    middle = into_ball(grid.reach - own)(a)
    everything = points_of(grid)
    return {x for x in everything if sum(abs(v - c) for v, c in zip(x, middle, strict=True)) <= own}


@cache
def likelihoods(grid: Grid, ratio: float, reach: int) -> dict[Point, dict[Point, Fraction]]:
    """Return p_a(x) for all a and x, in fractions."""
    rho, everything = Fraction(ratio), points_of(grid)
    found = {}
    for a in everything:
        inside = window_of(grid, reach, a)
        total = rho * len(inside) + len(everything) - len(inside)
        found[a] = {x: (rho if x in inside else 1) / total for x in everything}
    return found


every_grid = pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)


# -- geometry --------------------------------------------------------------------------------------


@every_grid
@pytest.mark.parametrize("reach", range(7))
def test_windows_have_as_many_points_and_hold_their_record(grid, reach):
    windows, everything = WindowDensity(grid, 2.0, reach).windows, points_of(grid)
    assert windows.n_points == len(everything)
    table = np.array(everything)
    for a in everything:
        inside = window_of(grid, reach, a)
        assert a in inside
        assert len(inside) == windows.n_inside
        held = windows.hold(np.array([a]), table)
        assert {x for x, own in zip(everything, held, strict=True) if own} == inside
        assert (windows.hold(np.tile(a, (len(table), 1)), table) == held).all()


@every_grid
@pytest.mark.parametrize("reach", range(7))
def test_interval_arithmetic_has_the_same_windows_by_code_of_its_own(grid, reach):
    near = (
        box_window(grid.tops, reach)
        if isinstance(grid, BoxGrid)
        else ball_window(grid.reach, reach)
    )
    for a in points_of(grid):
        assert {x for x in points_of(grid) if near(a, x)} == window_of(grid, reach, a)


@every_grid
@pytest.mark.parametrize("reach", [0, 1, 2, 9])
def test_densities_add_up_to_one_and_no_ratio_is_above_rho(grid, reach):
    density, exact = WindowDensity(grid, 2.5, reach), likelihoods(grid, 2.5, reach)
    table = np.array(points_of(grid))
    for x in points_of(grid):
        logs = density.log_likelihoods(table, np.array(x))
        due = [exact[a][x] for a in points_of(grid)]
        assert np.exp(logs) == pytest.approx([float(p) for p in due], rel=1e-12)
        assert {p / q for p in due for q in due} <= {1, Fraction(5, 2), Fraction(2, 5)}
    assert all(sum(chances.values()) == 1 for chances in exact.values())
    outside = np.full(grid.n_features, 10)
    assert (density.log_likelihoods(table, outside) == -np.inf).all()


# -- draws -----------------------------------------------------------------------------------------


@every_grid
@pytest.mark.parametrize(("ratio", "reach"), [(2.5, 1), (2.0, 0)])
def test_draws_in_fractions(grid, ratio, reach):
    density, exact = WindowDensity(grid, ratio, reach), likelihoods(grid, ratio, reach)
    for a in points_of(grid)[1::6]:
        found, scales = every_outcome(
            lambda entropy, a=a: tuple(density.draw(np.array(a), entropy).tolist()), {}
        )
        assert found == exact[a]
        assert scales == set()


def algorithm0(
    table: list[Point], k: int, chances: dict[Point, dict[Point, Fraction]], smoothing: int | None
) -> dict[tuple[Point, ...], Fraction]:
    """Return the distribution of k rounds."""
    releases: dict[tuple[Point, ...], Fraction] = {(): Fraction(1)}
    for _ in range(k):
        longer: dict[tuple[Point, ...], Fraction] = defaultdict(Fraction)
        for draws, chance in releases.items():
            weights = [1] * len(table)
            if draws and smoothing is not None:
                weights = [min(squared(a, c) for c in draws) + smoothing for a in table]
            for a, weight in zip(table, weights, strict=True):
                for x, likelihood in chances[a].items():
                    longer[(*draws, x)] += chance * likelihood * weight / sum(weights)
        releases = dict(longer)
    return releases


TABLES = {"line": (LINE, [(0,), (3,)], 2), "ball": (SMALL_BALL, [(2, 0), (0, -1)], 1)}


def windowed(grid: Grid, m: int, k: int, smoothing: int | None, ratio: float, reach: int):
    return WindowKVariates(k, grid, REPLACE, m, smoothing, ratio, reach)


def by_running(mechanism: WindowKVariates, table: list[Point]) -> dict:
    points = np.array(table, np.int32)
    found, _ = every_outcome(
        lambda entropy: tuple(
            map(tuple, run_on_points(mechanism, points, entropy).centers.tolist())
        ),
        {},
    )
    return found


@pytest.mark.parametrize("smoothing", [None, 1])
@pytest.mark.parametrize("name", TABLES)
def test_releases_in_fractions_and_planted_faults(name, smoothing):
    grid, table, k = TABLES[name]
    found = by_running(windowed(grid, 2, k, smoothing, 2.0, 0), table)
    assert found == algorithm0(table, k, likelihoods(grid, 2.0, 0), smoothing)
    for ratio, reach, other in ((3.0, 0, smoothing), (2.0, 1, smoothing), (2.0, 0, 4)):
        if (ratio, reach, k) != (2.0, 0, 1):  # a first round knows no smoothing
            assert found != algorithm0(table, k, likelihoods(grid, ratio, reach), other)


def test_the_question_knows_its_probabilities():
    grid, table, _ = TABLES["line"]
    mechanism = windowed(grid, 2, 2, 1, 2.0, 0)
    records = ArrayRecords(np.array(table, np.int32))
    exact = algorithm0(table, 2, likelihoods(grid, 2.0, 0), 1)
    for (first, second), chance in exact.items():
        asked = [
            NoisyPick(mechanism.pick_terms, np.array(centers).reshape(-1, 1))
            for centers in ([], [first])
        ]
        logs = [
            question.log_probability(records, np.array(drawn))
            for question, drawn in zip(asked, (first, second), strict=True)
        ]
        assert math.fsum(logs) == pytest.approx(math.log(chance), rel=1e-12)


def test_real_entropy_draws_inside_the_domain_on_fine_grids():
    for domain in (Box((0.0,) * 3, (1.0,) * 3), L1Ball((0.0,) * 40, 1.0)):
        grid = domain.grid()
        density = best_window(grid, 200.0)
        end = grid.clip(np.full((1, grid.n_features), 2**20))[0]
        drawn = density.draw_each(np.tile(end, (40, 1)), OperatingSystemEntropy())
        assert (grid.clip(drawn) == drawn).all()
        assert density.windows.hold(end[np.newaxis], drawn).sum() > 10


# -- prices ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [1e-3, 0.1, math.inf])
@pytest.mark.parametrize(("m", "k"), [(1, 1), (2, 2), (100, 3), (169308, 8)])
@pytest.mark.parametrize("eps", ["0.001", "0.1", "1", "6", "900"])
def test_golden_prices(eps, m, k, gamma):
    grid = Box((0.0, 0.0), (1.0, 2.0)).grid()
    mechanism = WindowKVariates.calibrate(
        Decimal(eps), n_records=m, n_clusters=k, grid=grid, gamma=gamma
    )
    rho = Fraction(mechanism.density_ratio)
    share = None if math.isinf(gamma) else Fraction(mechanism.smoothing_steps, grid.diam2_squared)
    w = Fraction(1, m) if share is None else (1 + share) / (1 + share * m)
    with mpmath.workdps(80):
        rounds = [mpmath.log1p(mpmath.mpf(x.numerator) / x.denominator)
                  for x in ((rho - 1) / m, (rho - 1) * w)]  # fmt: skip
        expected = rounds[0] + (k - 1) * rounds[1]
        cost = mpmath.mpf(str(mechanism.cost()))
        assert expected <= cost <= expected * (1 + mpmath.mpf("1e-45"))
    assert mechanism.cost() <= Decimal(eps)
    if Decimal(eps) < 100:
        assert mechanism.cost() > Decimal(eps) * Decimal("0.999999")


@pytest.mark.parametrize("eps_tilde", [1e-300, 1e-17, 1e-9, 0.3, 1.0, 7.8, 100.0, 599.0])
def test_the_ratio_is_a_float_just_below_what_the_theorem_allows(eps_tilde):
    ratio = largest_ratio(eps_tilde)
    with mpmath.workdps(400):
        allowed = mpmath.exp(mpmath.mpf(eps_tilde))
        assert mpmath.mpf(ratio) < allowed
        assert mpmath.mpf(ratio) * (1 + mpmath.mpf(2) ** -50) > allowed


def test_an_eps_that_promises_nothing_has_a_ratio_that_a_float_holds():
    assert largest_ratio(1e300) == largest_ratio(600.0) < 1e261


def worst_ratio(mechanism: WindowKVariates, m: int) -> mpmath.mpf:
    """Return the largest |log ratio| over all tables, neighbours and outputs, exactly."""
    grid, k = mechanism.grid, mechanism.n_clusters
    chances = likelihoods(grid, mechanism.density_ratio, mechanism.window_reach)
    largest = Fraction(1)
    for common in combinations_with_replacement(points_of(grid), m - 1):
        tables = [[*common, a] for a in points_of(grid)]
        found = [algorithm0(table, k, chances, mechanism.smoothing) for table in tables]
        for output in found[0]:
            values = [distribution[output] for distribution in found]
            largest = max(largest, max(values) / min(values))
    with mpmath.workdps(50):
        return mpmath.log(mpmath.mpf(largest.numerator) / largest.denominator)


INSTANCES = [(LINE, 1, 1), (LINE, 2, 2), (LINE, 3, 2), (FLAT, 3, 1), (SMALL_BALL, 2, 1)]


@pytest.mark.parametrize("gamma", [0.1, math.inf])
@pytest.mark.parametrize(("grid", "m", "k"), INSTANCES)
def test_no_ratio_exceeds_the_price_and_planted_ones_do(grid, m, k, gamma):
    mechanism = WindowKVariates.calibrate(
        Decimal(2), n_records=m, n_clusters=k, grid=grid, gamma=gamma
    )
    found = worst_ratio(mechanism, m)
    with mpmath.workdps(50):
        price = mpmath.mpf(str(mechanism.cost()))
        assert found <= price * (1 + mpmath.mpf("1e-45"))
    assert found > (0.9999 if k == 1 or math.isinf(gamma) else 0.6) * price
    planted = replace(mechanism, density_ratio=2 * mechanism.density_ratio)
    assert worst_ratio(planted, m) > price


# -- the best side ---------------------------------------------------------------------------------


@pytest.mark.parametrize("ratio", [1.5, 30.0, 1000.0, 1e6])
@pytest.mark.parametrize("name", ["line", "cube", "long", "ball"])
def test_the_side_is_the_best_of_all(name, ratio):
    grid: Grid = {
        "line": Box((0.0,), (1.0,)).grid(6),
        "cube": Box((0.0,) * 3, (1.0,) * 3).grid(6),
        "long": Box((0.0, 0.0), (1.0, 0.1), scaled=False).grid(6),
        "ball": L1Ball((0.0,) * 3, 1.0).grid(6),
    }[name]
    own = best_window(grid, ratio)
    tried = [expected_squares(WindowDensity(grid, ratio, reach)) for reach in range(33)]
    assert expected_squares(own) <= min(tried) * Fraction(1001, 1000)


@pytest.mark.parametrize(("ratio", "reach"), [(50.0, 3), (1000.0, 5), (10.0, 15)])
def test_the_expected_error_is_what_it_is_in_a_box(ratio, reach):
    """Against the mean over all records of a plane of 32 x 32 points, column by column."""
    grid = Box((0.0, 0.0), (1.0, 1.0)).grid(5)
    density, places = WindowDensity(grid, ratio, reach), np.arange(32)
    lows = np.clip(places - reach, 0, 31 - 2 * reach)
    squares = (places[:, np.newaxis] - places) ** 2
    inside = (places >= lows[:, np.newaxis]) & (places <= lows[:, np.newaxis] + 2 * reach)
    near = float(density.near)
    of_near = 2 * squares[inside].sum() / 32 / (2 * reach + 1)
    windows = density.windows
    drawn_near = (near - windows.n_inside / windows.n_points) / (
        1 - windows.n_inside / windows.n_points
    )
    expected = drawn_near * of_near + (1 - drawn_near) * 2 * squares.mean()
    assert float(expected_squares(density)) == pytest.approx(expected, rel=0.05)


def test_the_figures_that_were_measured_independently():
    """Squared error of a record in the unit cube, of tables less often near a side than records
    anywhere are: .0136, .0067, .0218, .486."""
    for d, eps_tilde, measured in ((2, 7.0, 0.0136), (2, 8.5, 0.0067), (3, 8.5, 0.0218),
                                   (10, 8.5, 0.486)):  # fmt: skip
        grid = Box((0.0,) * d, (1.0,) * d).grid()
        density = best_window(grid, largest_ratio(eps_tilde))
        found = float(expected_squares(density)) / 65535**2
        assert found == pytest.approx(measured, rel=0.2)


# -- descriptions, losses, witnesses ---------------------------------------------------------------

SQUARE = Box((-1.0, -1.0), (1.0, 1.0))
ROUND = L1Ball((0.0, 0.0, 0.0), 1.0)


def mechanism_in(domain: Box | L1Ball, m: int = 60, k: int = 3, eps: str = "1"):
    return WindowKVariates.calibrate(
        Decimal(eps), n_records=m, n_clusters=k, grid=domain.grid(), gamma=0.1
    )


def test_the_registry_knows_both_densities():
    wanted = {"n_records": 60, "n_clusters": 3, "grid": SQUARE.grid()}
    found = for_terms("kvariates", Terms.of(Decimal(1), density="window", lloyd_steps=0, **wanted))
    assert found == mechanism_in(SQUARE)
    assert isinstance(for_terms("kvariates", Terms.of(Decimal(1), **wanted)), KVariates)
    with pytest.raises(ParameterError, match=r"density must be left out unless .* 'kvariates'"):
        check_request("gupt", REPLACE, density="window")
    with pytest.raises(ParameterError, match="density must be one of 'laplace', 'window'"):
        check_request("kvariates", REPLACE, density="gauss")  # type: ignore[arg-type]


def test_a_description_survives_json_and_rejects_what_it_is_not():
    mechanism = mechanism_in(ROUND)
    described = json.loads(json.dumps(describe(mechanism), allow_nan=False))
    assert from_description(described, ROUND.grid()) == mechanism
    for field, value in (
        ("density_ratio", 0.5), ("density_ratio", math.nan), ("density_ratio", None),
        ("window_reach", -1), ("window_reach", 1.5), ("window_reach", True), ("n_records", 0),
        ("proof", "theorem-a"), ("proof", "local"), ("name", "laplace"), ("noise_scale", 1.0),
    ):  # fmt: skip
        with pytest.raises(UsageError, match="does not make sense"):
            from_description({**described, field: value}, ROUND.grid())


@pytest.mark.parametrize("domain", [SQUARE, ROUND], ids=["box", "ball"])
def test_exact_losses_are_those_of_the_fractions(domain):
    """On a coarse grid, against the closed form in fractions, for every replacement of a record."""
    grid = domain.grid(bits=3)
    everything = points_of(grid)
    mechanism = WindowKVariates(2, grid, REPLACE, 3, 5, 6.5, 1)
    table, output = [everything[0], everything[7], everything[-1]], everything[3:5]
    chances = likelihoods(grid, 6.5, 1)

    def density(records: list[Point]) -> Fraction:
        total = Fraction(1)
        for t, x in enumerate(output):
            weights = [min((squared(a, c) for c in output[:t]), default=-4) + 5 for a in records]
            terms = [w * chances[a][x] for w, a in zip(weights, records, strict=True)]
            total *= sum(terms) / sum(weights)
        return total

    found = exact_losses(mechanism, np.array(table), np.array(output), np.array(everything))
    for row, loss in enumerate(found.by_record):
        others = [[*table[:row], a, *table[row + 1 :]] for a in everything]
        exact = max(abs(math.log(density(table) / density(other))) for other in others)
        assert loss == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("domain", [SQUARE, ROUND], ids=["box", "ball"])
def test_witnesses_reach_the_price_and_a_planted_ratio_is_caught(domain):
    mechanism = mechanism_in(domain, k=2)
    found = worst_case(mechanism, 60, restarts=3)
    witness = witness_of(found, mechanism, domain, "1")
    assert all(check.passed for check in check_witness(witness))
    assert 0.85 < witness.loss <= 1
    planted = replace(mechanism, density_ratio=3 * mechanism.density_ratio)
    caught = witness_of(worst_case(planted, 60, restarts=3), planted, domain, "1")
    assert [check.name for check in check_witness(caught) if not check.passed] == ["claim"]
    outside = witness.model_copy(update={"output": ((10**6,) * len(witness.old),) * 2})
    assert not check_witness(outside)[0].passed


class Louder(WindowDensity):
    """A planted fault: three times the ratio that is priced."""

    @property
    def true_ratio(self) -> WindowDensity:
        return WindowDensity(self.grid, 3 * self.ratio, self.reach)

    def draw(self, point: np.ndarray, entropy: Entropy) -> np.ndarray:
        return self.true_ratio.draw(point, entropy)

    def log_likelihoods(self, points: np.ndarray, x: np.ndarray) -> np.ndarray:
        return self.true_ratio.log_likelihoods(points, x)


class LouderKVariates(WindowKVariates):
    @property
    def density(self) -> WindowDensity:
        return Louder(self.grid, self.density_ratio, self.window_reach)


@pytest.mark.parametrize("domain", [SQUARE, ROUND], ids=["box", "ball"])
def test_replays_hold_and_a_planted_ratio_is_found(domain):
    rng = np.random.default_rng(5)
    sound, grid = mechanism_in(domain, m=3, k=2), domain.grid()
    planted = LouderKVariates(**{f.name: getattr(sound, f.name) for f in fields(sound)})
    assert planted.cost() == sound.cost()
    caught = 0
    for seed in range(60):
        points = grid.spread(rng.random((3, grid.n_features))).astype(np.int32)
        other = points.copy()
        other[0] = grid.spread(np.rint(rng.random((1, grid.n_features))))[0]
        kind = AdversarialEntropy if seed % 2 else SeededEntropy
        assert replay(lambda _: sound, points, other, kind(seed)).holds
        caught += not replay(lambda _: planted, points, other, kind(seed)).holds
    assert caught > 5
