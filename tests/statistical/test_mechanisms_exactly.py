"""The mechanisms' whole distributions: noise, picks, releases, and the worst likelihood ratios.

Three kinds of evidence. The code is run through every outcome of its draws, and the distribution
found is compared in fractions with one enumerated by hand. The same code is run on real entropy,
and frequencies are compared (false alarms below 1e-9 a test). And the ratio between neighbouring
tables is maximised over all tables and outputs of tiny instances, and compared with the price.
Planted faults go through the same comparisons.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product
from operator import itemgetter
from typing import Any

import mpmath
import numpy as np
import pytest
from support import laplace
from support.branching import algorithm0, ball, every_outcome, into_ball, into_box
from support.chance import FALSE_ALARM, implausible
from support.enumeration import project

from dpkv.domain import L1Ball
from dpkv.grid import BoxGrid, Grid, L1BallGrid
from dpkv.mechanisms import Forgy, KVariates, Laplace, Lloyd, Mechanism, Neighbours, Outcome
from dpkv.mechanisms.kvariates import Algorithm0
from dpkv.mechanisms.lloyd import public_start
from dpkv.noise import Entropy, OperatingSystemEntropy, SeededEntropy
from dpkv.records import Ask, Records, run_on_points
from dpkv.records.questions import NoisyPick

REPLACE, ADD = Neighbours.REPLACE_ONE, Neighbours.ADD_REMOVE
ENTROPIES: dict[str, Callable[[], Any]] = {
    "system": OperatingSystemEntropy,
    "seeded": lambda: SeededEntropy(2016),
}
both = pytest.mark.parametrize("entropy", ENTROPIES)

# -- discrete Laplace noise ------------------------------------------------------------------------

EDGES = {
    0.3: list(range(-3, 3)),
    1.0: list(range(-8, 8)),
    7.5: list(range(-40, 40, 2)),
    1e4: list(range(-50_000, 50_001, 2_500)),
}
N_DRAWS = 20_000
Sampler = Callable[[np.ndarray, float], np.ndarray]


def not_discrete_laplace(add_noise: Sampler, scale: float) -> str | None:
    """Return what is wrong with the noise: its spread, its shape, or its lowest bits."""
    values = np.arange(N_DRAWS, dtype=np.int64) - 7
    noise = add_noise(values, scale) - values
    far = math.ceil(2 * scale)
    for edges in ([-far - 1, far], EDGES[scale]):
        found, expected = laplace.bin_numbers(noise, edges), laplace.bins(edges, scale)
        wrong = implausible(found, expected, FALSE_ALARM / 3)
        if wrong:
            return wrong
    return implausible((noise % 4).tolist(), laplace.residues(4, scale), FALSE_ALARM / 3)


def test_the_closed_forms_agree_with_sums_of_probabilities():
    for scale, edges in ((0.3, EDGES[0.3]), (7.5, EDGES[7.5])):
        chances = {z: laplace.probability(z, scale) for z in range(-700, 701)}
        assert float(sum(chances.values())) == pytest.approx(1, abs=1e-15)
        binned = project(chances, lambda z, edges=edges: laplace.bin_numbers(np.array(z), edges)[0])
        assert {i: float(p) for i, p in binned.items()} == pytest.approx(laplace.bins(edges, scale))
        modulo = project(chances, lambda z: z % 4)
        assert {r: float(p) for r, p in modulo.items()} == pytest.approx(laplace.residues(4, scale))
        ends = project(chances, lambda z: max(-5, min(5, z)))
        assert {z: float(p) for z, p in ends.items()} == pytest.approx(laplace.up_to(5, scale))


@both
@pytest.mark.parametrize("scale", EDGES)
def test_noise_is_discrete_laplace(scale, entropy):
    assert not_discrete_laplace(ENTROPIES[entropy]().add_laplace, scale) is None


@pytest.mark.parametrize("factor", [1.3, 1 / 1.3])
@pytest.mark.parametrize("scale", EDGES)
@both
def test_planted_fault_scale_30_percent_off(entropy, scale, factor):
    source = ENTROPIES[entropy]()

    def off(values: np.ndarray, scale: float) -> np.ndarray:
        return source.add_laplace(values, scale * factor)

    assert not_discrete_laplace(off, scale) is not None


RNG = np.random.default_rng(3)
FAULTY_NOISES: dict[str, tuple[float, Sampler]] = {
    "rounded continuous, 0.3": (0.3, lambda v, b: v + np.rint(RNG.laplace(0, b, v.shape))),
    "rounded continuous, 1": (1.0, lambda v, b: v + np.rint(RNG.laplace(0, b, v.shape))),
    "toward zero": (7.5, lambda v, b: v + np.trunc(RNG.laplace(0, b, v.shape))),
    "one-sided": (1.0, lambda v, b: v + RNG.geometric(1 - math.exp(-1 / b), v.shape) - 1),
    "even numbers only": (1e4, lambda v, b: v + 2 * np.rint(RNG.laplace(0, b / 2, v.shape))),
    "Gaussian": (7.5, lambda v, b: v + np.rint(RNG.normal(0, b * math.sqrt(2), v.shape))),
    "none": (0.3, lambda v, _: v),
}


@pytest.mark.parametrize("name", FAULTY_NOISES)
def test_planted_fault_noise_of_another_kind(name):
    scale, sampler = FAULTY_NOISES[name]

    def whole(values: np.ndarray, scale: float) -> np.ndarray:
        return sampler(values, scale).astype(np.int64)

    assert not_discrete_laplace(whole, scale) is not None


@both
def test_the_noise_of_two_coordinates_is_independent(entropy):
    scale = 1.0
    noise = ENTROPIES[entropy]().add_laplace(np.zeros((N_DRAWS, 2), np.int64), scale)
    pairs = [tuple(pair) for pair in np.clip(noise, -2, 2).tolist()]
    one = laplace.up_to(2, scale)
    expected = {(a, b): one[a] * one[b] for a, b in product(one, one)}
    assert implausible(pairs, expected) is None
    twice = [(a, a) for a, _ in pairs]
    assert implausible(twice, expected) is not None


# -- uniform integers ------------------------------------------------------------------------------


def not_uniform(below: Callable[[int], int], bound: int, n_draws: int = 5000) -> str | None:
    """Small bounds as they are; large ones by their leading third and by their two lowest bits."""
    drawn = [below(bound) for _ in range(n_draws)]
    if not all(0 <= number < bound for number in drawn):
        return "outside"
    if bound < 100:
        return implausible(drawn, dict.fromkeys(range(bound), 1 / bound))
    thirds = [number * 3 // bound for number in drawn]
    sizes = [-(-bound * (third + 1) // 3) - -(-bound * third // 3) for third in range(3)]
    counts = [(bound - 1 - rest) // 4 + 1 for rest in range(4)]
    return implausible(
        thirds, {i: size / bound for i, size in enumerate(sizes)}, FALSE_ALARM / 2
    ) or implausible(
        [number % 4 for number in drawn],
        {i: count / bound for i, count in enumerate(counts)},
        FALSE_ALARM / 2,
    )


BOUNDS = [1, 2, 3, 7, 36, 2**64 - 1, 2**64, 2**64 + 1, 3 * 2**70, 10**40]


@both
@pytest.mark.parametrize("bound", BOUNDS)
def test_integers_are_uniform(bound, entropy):
    assert not_uniform(ENTROPIES[entropy]().below, bound) is None


@pytest.mark.parametrize(
    ("bound", "below"),
    [
        (3, lambda n: int(RNG.integers(4)) % n),
        (7, lambda n: int(RNG.integers(8)) % n),
        (7, lambda n: round(RNG.random() * (n - 1))),
        (3 * 2**70, lambda n: int.from_bytes(RNG.bytes(9)) % n),
        (10**40, lambda n: int(RNG.random() * n)),  # 53 bits: the lowest ones are all zero
        (2**64 + 1, lambda n: int(RNG.integers(2**63)) % n),
    ],
)
def test_planted_fault_integers_that_are_not_uniform(bound, below):
    assert not_uniform(below, bound) is not None


# -- Algorithm 0, outcome by outcome ---------------------------------------------------------------

LINE = BoxGrid((0.0,), (1.0,), (3,))
PLANE = BoxGrid((0.0, 0.0), (1.0, 1.0), (2, 1))
BALL = L1Ball((0.0, 0.0), 1.0).grid(bits=2)
NOISE = {-4: Fraction(1, 7), 0: Fraction(3, 7), 1: Fraction(2, 7), 5: Fraction(1, 7)}
LESS_NOISE = {-1: Fraction(1, 2), 0: Fraction(1, 3), 3: Fraction(1, 6)}

Points = list[tuple[int, ...]]


@dataclass(frozen=True)
class Case:
    """A tiny table on a tiny grid."""

    grid: Grid
    table: Points
    k: int
    noise: dict[int, Fraction]


CASES = {
    "line": Case(LINE, [(0,), (3,), (1,), (3,)], 2, NOISE),
    "twins": Case(LINE, [(2,), (2,), (2,)], 2, NOISE),
    "pair": Case(LINE, [(0,), (2,)], 2, LESS_NOISE),
    "one record": Case(LINE, [(3,)], 1, NOISE),
    "plane": Case(PLANE, [(0, 0), (2, 1), (1, 1)], 2, LESS_NOISE),
    "ball": Case(BALL, [(-1, 0), (0, 1), (0, 0)], 2, LESS_NOISE),
    "wide ball": Case(L1BallGrid((0.0, 0.0), (1.0, 1.0), 2), [(-2, 0), (1, -1)], 2, LESS_NOISE),
}
SMOOTHINGS = {"theorem A, S = 1": 1, "S = 5": 5, "forgy": None, "laplace": 0}


def clip_of(grid: Grid) -> Callable:
    return into_box(grid.tops) if isinstance(grid, BoxGrid) else into_ball(grid.reach)


def mechanism_for(grid: Grid, m: int, k: int, smoothing: int | None, scale: float) -> Algorithm0:
    if smoothing:
        return KVariates(k, grid, REPLACE, scale, m, smoothing)
    return (Forgy if smoothing is None else Laplace)(k, grid, REPLACE, scale)


def centers_of(mechanism: Mechanism, points: np.ndarray, entropy: Entropy) -> tuple:
    return tuple(map(tuple, run_on_points(mechanism, points, entropy).centers.tolist()))


def by_running(mechanism: Mechanism, case: Case) -> dict[Hashable, Fraction]:
    points = np.array(case.table, np.int32)
    found, scales = every_outcome(
        lambda entropy: centers_of(mechanism, points, entropy), case.noise
    )
    assert scales == {mechanism.noise_scale}
    assert sum(found.values()) == 1
    return found


def by_hand(case: Case, smoothing: int | None) -> dict[tuple, Fraction]:
    clip = clip_of(case.grid)
    return algorithm0(case.table, case.k, case.noise, smoothing=smoothing, clip=clip)


@pytest.mark.parametrize("smoothing", SMOOTHINGS.values(), ids=SMOOTHINGS)
@pytest.mark.parametrize("name", CASES)
def test_algorithm_0_in_fractions(name, smoothing):
    case = CASES[name]
    mechanism = mechanism_for(case.grid, len(case.table), case.k, smoothing, 6.5)
    assert by_running(mechanism, case) == by_hand(case, smoothing)


def test_uniform_picks_of_kvariates_are_forgys():
    case = CASES["line"]
    infinite = KVariates(case.k, case.grid, REPLACE, 6.5, len(case.table), None)
    assert by_running(infinite, case) == by_hand(case, None)


@pytest.mark.parametrize("k", [1, 3])
def test_other_numbers_of_rounds_in_fractions(k):
    case = Case(LINE, [(0,), (3,), (1,)], k, {-1: Fraction(1, 3), 4: Fraction(2, 3)})
    mechanism = mechanism_for(case.grid, 3, k, 1, 6.5)
    assert by_running(mechanism, case) == by_hand(case, 1)


class Unclipped(BoxGrid):
    """A planted fault: draws are not moved into the domain before distances are measured."""

    def clip(self, points: np.ndarray) -> np.ndarray:
        return points


@dataclass(frozen=True, eq=False)
class Far(NoisyPick):
    """A noisy pick by plain cumulative sums, of distances to ``seen`` and not to ``centers``."""

    seen: list[np.ndarray]
    remembers_picks: bool

    def answer(self, records: Records, entropy: Entropy) -> np.ndarray:
        points = records.take(np.arange(records.n_records)).points.astype(np.int64)
        weights = np.ones(len(points), np.int64)
        if self.seen:
            weights = ((points[:, None] - np.array(self.seen)) ** 2).sum(axis=2).min(axis=1)
        running = np.cumsum(weights)
        row = int(np.searchsorted(running, entropy.below(int(running[-1])), side="right"))
        noisy = self.terms.density.draw(points[row], entropy)
        clipped = self.terms.grid.clip(noisy[np.newaxis])[0]
        self.seen.append(points[row] if self.remembers_picks else clipped)
        return noisy


class Plain(Laplace):
    """No fault: distances are measured to the draws, moved into the domain."""

    remembers_picks = False

    def run(self, ask: Ask) -> Outcome:
        seen: list[np.ndarray] = []
        drawn = np.empty((0, self.grid.n_features), np.int64)
        for _ in range(self.n_clusters):
            question = Far(self.pick_terms, self.grid.clip(drawn), seen, self.remembers_picks)
            drawn = np.vstack([drawn, ask(question)])
        return Outcome(drawn)


class Picked(Plain):
    """A planted fault: distances are measured to the picked records."""

    remembers_picks = True


def test_without_its_fault_the_faulty_question_is_sound():
    case = CASES["line"]
    assert by_running(Plain(2, LINE, REPLACE, 6.5), case) == by_hand(case, 0)


@pytest.mark.parametrize(
    ("faulty", "smoothing"),
    [
        (mechanism_for(LINE, 4, 2, 2, 6.5), 1),
        (mechanism_for(LINE, 4, 2, 0, 6.5), 1),
        (mechanism_for(LINE, 4, 2, None, 6.5), 1),
        (mechanism_for(LINE, 4, 2, 1, 6.5), None),
        (mechanism_for(Unclipped((0.0,), (1.0,), (3,)), 4, 2, 1, 6.5), 1),
        (Picked(2, LINE, REPLACE, 6.5), 0),
    ],
    ids=["S off by one", "no S", "uniform", "not uniform", "unclipped", "picked"],
)
def test_planted_fault_in_algorithm_0(faulty, smoothing):
    case = CASES["line"]
    assert by_running(faulty, case) != by_hand(case, smoothing)


# -- Algorithm 0 on real entropy -------------------------------------------------------------------

RELEASED = {
    "line": (LINE, [(0,), (3,), (1,), (3,)], 1.5),
    "plane": (PLANE, [(0, 0), (2, 1), (1, 1)], 0.9),
}
N_RUNS = {"seeded": 4000, "system": 1500}


@cache
def expected_releases(name: str, smoothing: int | None) -> dict[tuple, float]:
    """Return the distribution of two draws, each moved to at most one step outside the box.

    Noise of more than the longest side leaves the box from anywhere in it, so that both tails of
    the noise may be gathered there without changing this view.
    """
    grid, table, scale = RELEASED[name]
    noise = laplace.up_to(max(grid.tops) + 1, scale)
    whole = algorithm0(table, 2, noise, smoothing=smoothing, clip=into_box(grid.tops))
    return project(whole, lambda draws: tuple(nearby(x, grid) for x in draws))


def nearby(x: Iterable[int], grid: BoxGrid) -> tuple[int, ...]:
    return tuple(min(max(v, -1), top + 1) for v, top in zip(x, grid.tops, strict=True))


def disagreement(mechanism: Algorithm0, name: str, smoothing: int | None, entropy: str) -> Any:
    """Return where runs on real entropy differ from the enumeration, or None."""
    grid, table, _ = RELEASED[name]
    source = ENTROPIES[entropy]()
    points = np.array(table, np.int32)
    runs = [centers_of(mechanism, points, source) for _ in range(N_RUNS[entropy])]
    observed = [tuple(nearby(x, grid) for x in run) for run in runs]
    expected = expected_releases(name, smoothing)
    views = [
        lambda draws: draws,
        itemgetter(0),
        itemgetter(1),
        lambda draws: (draws[0][0] < 1, draws[1][0] < 1),
    ]
    for view in views:
        wrong = implausible(map(view, observed), project(expected, view), FALSE_ALARM / len(views))
        if wrong:
            return wrong
    return None


@both
@pytest.mark.parametrize("smoothing", SMOOTHINGS.values(), ids=SMOOTHINGS)
@pytest.mark.parametrize("name", RELEASED)
def test_releases_of_algorithm_0(name, smoothing, entropy):
    grid, table, scale = RELEASED[name]
    mechanism = mechanism_for(grid, len(table), 2, smoothing, scale)
    assert disagreement(mechanism, name, smoothing, entropy) is None


@pytest.mark.parametrize("name", RELEASED)
def test_planted_fault_half_the_noise(name):
    grid, table, scale = RELEASED[name]
    halved = mechanism_for(grid, len(table), 2, 1, scale / 2)
    assert disagreement(halved, name, 1, "seeded") is not None


def test_planted_fault_uniform_picks_and_too_much_smoothing():
    grid, table, scale = RELEASED["line"]
    uniform = mechanism_for(grid, len(table), 2, None, scale)
    assert disagreement(uniform, "line", 0, "seeded") is not None
    smoothed = mechanism_for(grid, len(table), 2, 500, scale)
    assert disagreement(smoothed, "line", 0, "seeded") is not None


# -- Lloyd, outcome by outcome ---------------------------------------------------------------------


def lloyd_by_hand(
    table: Points, mechanism: Lloyd, start: Points, noise: dict[int, Fraction]
) -> dict[tuple, Fraction]:
    """Return the distribution of the centers of DPLloyd, from its description."""
    clip = clip_of(mechanism.grid)
    middle = tuple(mechanism.grid.middle.tolist())
    k, d = len(start), len(middle)
    worth = math.ceil(3 * mechanism.count_scale)
    reached: dict[tuple, Fraction] = {tuple(start): Fraction(1)}
    for _ in range(mechanism.iterations):
        moved: dict[tuple, Fraction] = {}
        for centers, chance in reached.items():
            clusters: list[Points] = [[] for _ in centers]
            for a in table:
                gaps = [sum((x - y) ** 2 for x, y in zip(a, c, strict=True)) for c in centers]
                clusters[gaps.index(min(gaps))].append(a)
            for offsets in product(noise, repeat=k * d + k):
                likelihood = chance * math.prod(noise[offset] for offset in offsets)
                after = []
                for c, cluster in enumerate(clusters):
                    count = len(cluster) + offsets[k * d + c]
                    sums = [
                        sum(a[j] - middle[j] for a in cluster) + offsets[c * d + j]
                        for j in range(d)
                    ]
                    if count >= max(1, worth):
                        after.append(clip(tuple(middle[j] + sums[j] // count for j in range(d))))
                    else:
                        after.append(centers[c])
                key = tuple(after)
                moved[key] = moved.get(key, Fraction(0)) + likelihood
        reached = moved
    return reached


COIN = {-1: Fraction(2, 3), 2: Fraction(1, 3)}
LLOYDS = {
    "one center, two iterations": (LINE, [(0,), (3,), (3,)], 1, 2, NOISE),
    "two centers, two iterations": (LINE, [(0,), (0,), (3,), (2,)], 2, 2, COIN),
    "plane": (PLANE, [(0, 0), (2, 1), (1, 1)], 1, 2, LESS_NOISE),
    "ball": (BALL, [(-1, 0), (0, 1), (0, 0)], 2, 1, LESS_NOISE),
}


def lloyd_by_running(
    table: Points, mechanism: Lloyd, noise: dict[int, Fraction]
) -> dict[Hashable, Fraction]:
    points = np.array(table, np.int32)
    found, scales = every_outcome(lambda entropy: centers_of(mechanism, points, entropy), noise)
    assert scales == {mechanism.count_scale, mechanism.sum_scale}
    return found


def start_of(mechanism: Lloyd) -> Points:
    return list(map(tuple, public_start(mechanism.grid, mechanism.n_clusters).tolist()))


@pytest.mark.parametrize("count_scale", [0.2, 0.7])
@pytest.mark.parametrize("name", LLOYDS)
def test_lloyd_in_fractions(name, count_scale):
    grid, table, k, iterations, noise = LLOYDS[name]
    mechanism = Lloyd(k, grid, REPLACE, iterations, count_scale, sum_scale=2.5)
    found = lloyd_by_running(table, mechanism, noise)
    assert len(found) > 1
    assert found == lloyd_by_hand(table, mechanism, start_of(mechanism), noise)


def test_planted_faults_in_lloyd():
    """One iteration less, other counts worth a division, and a start elsewhere all show."""
    grid, table, k, iterations, noise = LLOYDS["two centers, two iterations"]
    mechanism = Lloyd(k, grid, REPLACE, iterations, 0.2, sum_scale=2.5)
    found = lloyd_by_running(table, mechanism, noise)
    start = start_of(mechanism)
    for fault in (replace(mechanism, iterations=1), replace(mechanism, count_scale=1.1)):
        assert found != lloyd_by_hand(table, fault, start, noise)
    assert found != lloyd_by_hand(table, mechanism, [(0,), (0,)], noise)


# -- the worst likelihood ratio --------------------------------------------------------------------

FINE = BoxGrid((0.0,), (1.0,), (3,))
SQUARE = BoxGrid((0.0, 0.0), (1.0, 1.0), (3, 3))


def domain_points(grid: Grid) -> Points:
    if isinstance(grid, BoxGrid):
        return list(product(*(range(top + 1) for top in grid.tops)))
    return ball(grid.reach, grid.n_features)


def outputs_worth_trying(grid: Grid) -> Points:
    """Return outputs among which every likelihood ratio occurs.

    Beyond a box, all densities fall by the same factor and clipping leads to the same center: the
    box is enough. For a ball, clipping still changes outside; two steps more are tried.
    """
    if isinstance(grid, BoxGrid):
        return domain_points(grid)
    return list(product(range(-grid.reach - 2, grid.reach + 3), repeat=grid.n_features))


@dataclass(frozen=True)
class Worst:
    """The largest log-likelihood ratio found, and where."""

    ratio: float
    tables: tuple[tuple[int, ...], tuple[int, ...]]
    draws: tuple[int, ...]


def worst_ratio(
    grid: Grid,
    m: int,
    k: int,
    scale: float,
    smoothing: int | None,
    relation: Neighbours = REPLACE,
) -> Worst:
    """Maximise over all neighbouring tables around m - 1 common records, and all outputs."""
    points, outputs = domain_points(grid), outputs_worth_trying(grid)
    at, out = np.array(points), np.array(outputs)
    centers = np.array([clip_of(grid)(x) for x in outputs])
    log_density = -np.abs(at[:, None] - out[None]).sum(axis=2) / scale
    density = np.exp(log_density)  # the normalising factor is the same for all records
    squared = ((at[:, None] - centers[None]) ** 2).sum(axis=2)
    sequences = list(product(range(len(outputs)), repeat=k))

    def log_likelihoods(tables: list[tuple[int, ...]]) -> np.ndarray:
        rows = np.array(tables)
        found = np.empty((len(rows), len(sequences)))
        for column, draws in enumerate(sequences):
            likelihood = np.ones(len(rows))
            for t, x in enumerate(draws):
                weights = np.ones(rows.shape)
                if t and smoothing is not None:
                    weights = np.min([squared[rows, c] for c in draws[:t]], axis=0)
                    weights = weights + float(smoothing)
                    weights[weights.sum(axis=1) == 0] = 1.0
                likelihood *= (weights * density[rows, x]).sum(axis=1) / weights.sum(axis=1)
            found[:, column] = np.log(likelihood)
        return found

    all_rows = range(len(points))
    tables = list(combinations_with_replacement(all_rows, m))
    known = dict(zip(tables, log_likelihoods(tables), strict=True))
    if relation is ADD and m > 1:
        shorter = list(combinations_with_replacement(all_rows, m - 1))
        known |= dict(zip(shorter, log_likelihoods(shorter), strict=True))
    worst = Worst(0.0, ((), ()), ())
    for common in combinations_with_replacement(all_rows, m - 1):
        longer = [tuple(sorted((*common, a))) for a in all_rows]
        group = np.array([known[table] for table in longer])
        if relation is ADD:
            gaps = np.abs(group - known[common])
            row, column = np.unravel_index(gaps.argmax(), gaps.shape)
            pair = longer[row], common
        else:
            gaps = group.max(axis=0) - group.min(axis=0)
            column = gaps.argmax()
            pair = longer[group[:, column].argmax()], longer[group[:, column].argmin()]
            gaps = gaps[None]
        if gaps.max() > worst.ratio:
            worst = Worst(float(gaps.max()), pair, sequences[column])
    return worst


def exact_ratio(grid: Grid, worst: Worst, scale: float, smoothing: int | None) -> mpmath.mpf:
    """Return the log-likelihood ratio of one witness with 50 digits and integer weights."""
    points, outputs, clip = domain_points(grid), outputs_worth_trying(grid), clip_of(grid)

    def log_likelihood(table: tuple[int, ...]) -> mpmath.mpf:
        total = mpmath.mpf(0)
        for t, draw in enumerate(worst.draws):
            x, weights = outputs[draw], [1] * len(table)
            if t and smoothing is not None:
                centers = [clip(outputs[c]) for c in worst.draws[:t]]
                weights = [
                    min(
                        sum((p - q) ** 2 for p, q in zip(points[a], c, strict=True))
                        for c in centers
                    )
                    + smoothing
                    for a in table
                ]
                weights = weights if any(weights) else [1] * len(table)
            gaps = [sum(abs(p - q) for p, q in zip(points[a], x, strict=True)) for a in table]
            terms = [w * mpmath.exp(-gap / b) for w, gap in zip(weights, gaps, strict=True)]
            total += mpmath.log(mpmath.fsum(terms) / sum(weights))
        return total

    with mpmath.workdps(50):
        b = mpmath.mpf(scale)
        return abs(log_likelihood(worst.tables[0]) - log_likelihood(worst.tables[1]))


def exceeds(mechanism: Algorithm0, price: Decimal, m: int, relation: Neighbours = REPLACE) -> bool:
    """Tell whether some ratio is above the price: the check of this section.

    Floats find the worst witness, 50 digits judge it.
    """
    grid, k = mechanism.grid, mechanism.n_clusters
    scale, smoothing = mechanism.noise_scale, mechanism.smoothing
    worst = worst_ratio(grid, m, k, scale, smoothing, relation)
    exact = exact_ratio(grid, worst, scale, smoothing)
    assert float(exact) == pytest.approx(worst.ratio, rel=1e-9)
    with mpmath.workdps(50):
        return bool(exact > mpmath.mpf(str(price)) * (1 + mpmath.mpf("1e-45")))


def kvariates(grid: Grid, m: int, k: int, gamma: float, eps: str) -> KVariates:
    return KVariates.calibrate(Decimal(eps), n_records=m, n_clusters=k, grid=grid, gamma=gamma)


INSTANCES = [(FINE, m, k) for m in (1, 2, 3, 4) for k in range(1, min(m, 3) + 1)]
INSTANCES += [(SQUARE, 2, 1), (SQUARE, 2, 2), (SQUARE, 3, 2), (PLANE, 3, 3)]
INSTANCES += [(BALL, 2, 2), (BALL, 3, 1), (BALL, 3, 2)]
GAMMAS = [0.01, 0.1, 1.0, math.inf]
named = [f"{type(g).__name__}{g.n_features}-{m}-{k}" for g, m, k in INSTANCES]


@pytest.mark.parametrize("eps", ["0.5", "2", "6"])
@pytest.mark.parametrize(("grid", "m", "k"), INSTANCES, ids=named)
def test_no_ratio_of_kvariates_exceeds_its_price(grid, m, k, eps):
    for gamma in GAMMAS:
        mechanism = kvariates(grid, m, k, gamma, eps)
        assert not exceeds(mechanism, mechanism.cost(), m)


@pytest.mark.parametrize("eps", ["0.5", "2", "6"])
@pytest.mark.parametrize(("grid", "m", "k"), INSTANCES[:10], ids=named[:10])
def test_planted_fault_half_the_noise_exceeds_the_price(grid, m, k, eps):
    for gamma in GAMMAS:
        mechanism = kvariates(grid, m, k, gamma, eps)
        halved = replace(mechanism, noise_scale=mechanism.noise_scale / 2)
        assert exceeds(halved, mechanism.cost(), m)


def test_planted_fault_no_smoothing_exceeds_the_price():
    """An outlier is picked for certain, which a price for gamma = 1 does not cover."""
    mechanism = kvariates(FINE, 4, 2, 1.0, "0.5")
    unsmoothed = Laplace(2, FINE, REPLACE, mechanism.noise_scale)
    assert exceeds(unsmoothed, mechanism.cost(), 4)


@pytest.mark.parametrize(
    ("m", "k", "gamma", "eps", "reached"),
    [
        (4, 1, 0.1, "2", 0.999999),  # one uniform pick: the bound is an equality
        (4, 3, math.inf, "2", 0.999999),  # uniform picks: in every round
        (3, 3, 0.01, "0.5", 0.947),
        (2, 2, 0.1, "0.5", 0.92),
        (4, 3, 0.1, "0.5", 0.92),
        (2, 2, 1.0, "6", 0.89),
    ],
)
def test_the_price_of_kvariates_is_nearly_reached(m, k, gamma, eps, reached):
    mechanism = kvariates(FINE, m, k, gamma, eps)
    worst = worst_ratio(FINE, m, k, mechanism.noise_scale, mechanism.smoothing)
    assert worst.ratio >= reached * float(mechanism.cost())


@pytest.mark.parametrize("relation", [REPLACE, ADD])
@pytest.mark.parametrize("kind", [Laplace, Forgy])
@pytest.mark.parametrize(("grid", "m"), [(FINE, 2), (FINE, 3), (PLANE, 2), (BALL, 3)])
def test_no_ratio_of_noise_alone_exceeds_its_price(grid, m, kind, relation):
    for eps in ("0.5", "2", "6"):
        mechanism = kind.calibrate(Decimal(eps), n_clusters=2, grid=grid, neighbours=relation)
        assert not exceeds(mechanism, mechanism.cost(), m, relation)


@pytest.mark.parametrize("kind", [Laplace, Forgy])
@pytest.mark.parametrize("grid", [FINE, PLANE, BALL])
def test_the_price_of_noise_alone_is_reached_by_one_record(grid, kind):
    mechanism = kind.calibrate(Decimal(2), n_clusters=2, grid=grid, neighbours=REPLACE)
    worst = worst_ratio(grid, 1, 2, mechanism.noise_scale, mechanism.smoothing)
    assert worst.ratio == pytest.approx(float(mechanism.cost()), rel=1e-12)
    assert not exceeds(mechanism, mechanism.cost(), 1)
    halved = replace(mechanism, noise_scale=mechanism.noise_scale / 2)
    assert exceeds(halved, mechanism.cost(), 1)
