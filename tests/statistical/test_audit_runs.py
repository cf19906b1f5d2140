"""Simulated runs have the distribution of releases, and sampled bounds err as rarely as they say.

Frequencies are compared with exact enumerations, with false alarms below 1e-9 a test; planted
faults go through the same comparisons.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from scipy import stats
from support import laplace
from support.branching import Point, algorithm0, into_box
from support.chance import FALSE_ALARM, implausible
from support.enumeration import project

from dpkv.audits import sampled_lower_bounds
from dpkv.audits.sampled_lower_bounds import certified_bound
from dpkv.audits.vectorised_runs import Pair, log_ratios, many_runs
from dpkv.domain import Box
from dpkv.grid import BoxGrid
from dpkv.mechanisms import Forgy, KVariates, Laplace, Neighbours
from dpkv.mechanisms.kvariates import Algorithm0
from dpkv.noise import SeededEntropy
from dpkv.records import run_on_points

REPLACE = Neighbours.REPLACE_ONE

# -- the same distribution as a release ------------------------------------------------------------

LINE = Box((0.0,), (3.0,)).grid(2)
PLANE = BoxGrid((0.0, 0.0), (1.0, 1.0), (2, 1))
TABLES: dict[str, tuple[BoxGrid, dict[Point, int], float]] = {
    "line": (LINE, {(0,): 2, (1,): 1, (3,): 1}, 0.8),
    "one record far away": (LINE, {(0,): 5, (2,): 0, (3,): 1}, 0.5),
    "plane": (PLANE, {(0, 0): 2, (2, 1): 1}, 0.6),
}
SMOOTHINGS: dict[str, int | None] = {"gamma": 2, "no smoothing": 0, "uniform": None}
RUNS, RELEASES = 30_000, 3_000


def mechanism_for(
    grid: BoxGrid, m: int, smoothing: int | None, scale: float, k: int = 2
) -> Algorithm0:
    if smoothing is None:
        return Forgy(k, grid, REPLACE, scale)
    if smoothing == 0:
        return Laplace(k, grid, REPLACE, scale)
    return KVariates(k, grid, REPLACE, scale, m, smoothing)


def nearby(x: Point, grid: BoxGrid) -> Point:
    return tuple(min(max(v, -1), top + 1) for v, top in zip(x, grid.tops, strict=True))


@cache
def expected_outputs(name: str, smoothing: int | None) -> dict:
    """Return the distribution of two draws, each moved to at most one step outside the box.

    Noise of more than the longest side leaves the box from anywhere, so its tails may be gathered.
    """
    grid, counts, scale = TABLES[name]
    records = [a for a, count in counts.items() for _ in range(count)]
    noise = laplace.up_to(max(grid.tops) + 1, scale)
    whole = algorithm0(records, 2, noise, smoothing=smoothing, clip=into_box(grid.tops))
    return project(whole, lambda draws: tuple(nearby(x, grid) for x in draws))


def simulated(mechanism: Algorithm0, name: str) -> list[tuple[Point, ...]]:
    grid, counts, _ = TABLES[name]
    points, multiplicities = np.array(list(counts)), np.array(list(counts.values()))
    outputs = many_runs(mechanism, points, multiplicities, RUNS, np.random.SeedSequence(16))
    return [tuple(nearby(tuple(x), grid) for x in run) for run in outputs.tolist()]


def released(mechanism: Algorithm0, name: str) -> list[tuple[Point, ...]]:
    grid, counts, _ = TABLES[name]
    points = np.repeat(np.array(list(counts), np.int32), list(counts.values()), axis=0)
    entropy = SeededEntropy(61)
    runs = [run_on_points(mechanism, points, entropy).centers.tolist() for _ in range(RELEASES)]
    return [tuple(nearby(tuple(x), grid) for x in run) for run in runs]


def disagreement(outputs: list[tuple[Point, ...]], name: str, smoothing: int | None) -> str | None:
    """Return where outputs differ from the enumeration: as pairs, or in one of the two draws."""
    expected = expected_outputs(name, smoothing)
    views: list[Callable] = [lambda draws: draws, lambda draws: draws[0], lambda draws: draws[1]]
    for view in views:
        wrong = implausible(map(view, outputs), project(expected, view), FALSE_ALARM / len(views))
        if wrong:
            return wrong
    return None


@pytest.mark.parametrize("smoothing", SMOOTHINGS.values(), ids=SMOOTHINGS)
@pytest.mark.parametrize("name", TABLES)
def test_simulated_runs_and_releases_have_one_distribution(name, smoothing):
    grid, counts, scale = TABLES[name]
    mechanism = mechanism_for(grid, sum(counts.values()), smoothing, scale)
    assert disagreement(simulated(mechanism, name), name, smoothing) is None
    assert disagreement(released(mechanism, name), name, smoothing) is None


@pytest.mark.parametrize("name", TABLES)
def test_planted_fault_noise_off_by_thirty_percent(name):
    grid, counts, scale = TABLES[name]
    for factor in (0.7, 1.3):
        mechanism = mechanism_for(grid, sum(counts.values()), 2, factor * scale)
        assert disagreement(simulated(mechanism, name), name, 2) is not None


@pytest.mark.parametrize("name", TABLES)
def test_planted_fault_other_smoothing(name):
    grid, counts, scale = TABLES[name]
    m = sum(counts.values())
    for smoothing, claimed in ((0, 2), (20, 2), (None, 0)):
        mechanism = mechanism_for(grid, m, smoothing, scale)
        assert disagreement(simulated(mechanism, name), name, claimed) is not None


def test_planted_fault_a_record_less():
    grid, _, scale = TABLES["line"]
    mechanism = mechanism_for(grid, 4, 2, scale)
    points, counts = np.array([[0], [1], [3]]), np.array([1, 1, 1])
    outputs = many_runs(mechanism, points, counts, RUNS, np.random.SeedSequence(0))
    seen = [tuple(nearby(tuple(x), grid) for x in run) for run in outputs.tolist()]
    assert disagreement(seen, "line", 2) is not None


def test_runs_repeat_by_their_seed():
    grid, counts, scale = TABLES["plane"]
    mechanism = mechanism_for(grid, 3, 2, scale, k=3)
    table = np.array(list(counts)), np.array(list(counts.values()))
    first, again, other = (
        many_runs(mechanism, *table, 50, np.random.SeedSequence(seed)) for seed in (4, 4, 5)
    )
    assert first.shape == (50, 3, 2)
    assert first.tolist() == again.tolist() != other.tolist()


def test_likelihoods_of_runs_average_to_one():
    """E[exp(-log ratio)] under the first table is the second table's total probability, 1.

    A bounded mean: |ratio| <= e^eps, so Hoeffding's inequality states the false alarm.
    """
    mechanism = KVariates(2, LINE, REPLACE, 3.0, 6, 2)
    pair = Pair(np.array([[0], [1], [3]]), np.array([3, 2, 1]), np.array([3, 1, 2]))

    def gap(score_of: Algorithm0) -> float:
        outputs = many_runs(mechanism, pair.points, pair.old, RUNS, np.random.SeedSequence(2))
        return abs(float(np.exp(-log_ratios(score_of, pair, outputs)).mean()) - 1.0)

    highest = math.exp(float(mechanism.cost()))
    allowed = highest * math.sqrt(math.log(2 / FALSE_ALARM) / (2 * RUNS))
    assert gap(mechanism) <= allowed
    wrong = KVariates(2, LINE, REPLACE, 0.7, 6, 2)
    assert gap(wrong) > allowed, "likelihoods of another noise do not average to one"


# -- bounds that exceed the truth ------------------------------------------------------------------

EXPERIMENTS, ALPHA = 250, 0.05
Bound = Callable[[np.ndarray, np.ndarray], float]


def too_often(exceeded: int) -> bool:
    """Tell whether so many of the experiments cannot happen at rate alpha, but one in 1e9 times."""
    return bool(stats.binom.sf(exceeded - 1, EXPERIMENTS, ALPHA) < FALSE_ALARM)


def honest(first: np.ndarray, second: np.ndarray) -> float:
    return certified_bound(first, second, ALPHA).lower_bound


def chosen_on_all(first: np.ndarray, second: np.ndarray) -> float:
    """A planted fault: the threshold is chosen on the very runs that certify."""
    threshold = sampled_lower_bounds._best_threshold(first, second, ALPHA)
    hits = int((first > threshold).sum()), int((second > threshold).sum())
    return sampled_lower_bounds.log_ratio_bound(hits, (len(first), len(second)), ALPHA)


def uncertain(first: np.ndarray, second: np.ndarray) -> float:
    """A planted fault: no confidence limits at all."""
    half = len(first) // 2
    threshold = sampled_lower_bounds._best_threshold(first[:half], second[:half], ALPHA)
    hits = ((first[half:] > threshold).mean(), (second[half:] > threshold).mean())
    return math.log(hits[0] / hits[1]) if min(hits) > 0 else -math.inf


def exceeding(bound: Bound, draw: Callable[[np.random.Generator], tuple], truth: float) -> int:
    """Count the experiments whose bound is above the truth."""
    rng = np.random.default_rng(20)
    return sum(bound(*draw(rng)) > truth for _ in range(EXPERIMENTS))


def coins(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Bernoulli scores of p = 0.3 and q = 0.1: the truth is log 3."""
    return (rng.random(400) < 0.3).astype(float), (rng.random(400) < 0.1).astype(float)


def equal_sides(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Scores that tell nothing, with room to choose: the truth is 0."""
    return rng.random(300), rng.random(300)


def seen_before(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Scores by a classifier that knows the first halves by heart, of tables that are equal."""
    first, second = equal_sides(rng)
    first[:150] += 1.0
    second[:150] -= 1.0
    return first, second


def test_bounds_exceed_the_truth_no_more_often_than_they_say():
    assert not too_often(exceeding(honest, coins, math.log(3.0)))
    assert not too_often(exceeding(honest, equal_sides, 0.0))
    assert not too_often(exceeding(honest, seen_before, 0.0))


def test_the_certified_bound_is_worth_something():
    rng = np.random.default_rng(1)
    bounds = [honest(*coins(rng)) for _ in range(20)]
    assert 0.2 < float(np.median(bounds)) < math.log(3.0)


def test_planted_fault_choosing_and_certifying_on_the_same_runs():
    assert too_often(exceeding(chosen_on_all, seen_before, 0.0))


def test_planted_fault_frequencies_without_limits():
    assert too_often(exceeding(uncertain, coins, math.log(3.0)))
