"""Lower bounds from runs: Clopper and Pearson's limits, thresholds, likelihoods and classifiers.

How often a bound exceeds the truth is in statistical/test_audit_runs.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal

import mpmath
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from dpkv.audits.privacy import mechanism_sampler, worst_tables
from dpkv.audits.sampled_lower_bounds import (
    CLASSIFIER,
    LIKELIHOOD,
    certified_bound,
    features,
    log_ratio_bound,
    sample_classifier,
    sample_likelihood,
)
from dpkv.audits.worst_case import worst_case
from dpkv.domain import Box, L1Ball
from dpkv.mechanisms import (
    Forgy,
    Gupt,
    KVariates,
    Laplace,
    Lloyd,
    Mechanism,
    Neighbours,
    calibrate_mechanism,
)

pytestmark = pytest.mark.usefixtures("one_thread")
REPLACE, ADD = Neighbours.REPLACE_ONE, Neighbours.ADD_REMOVE
SQUARE = Box((0.0, 0.0), (1.0, 1.0))
LINE = Box((0.0,), (1.0,))


@pytest.fixture
def one_thread() -> Iterator[None]:
    """A classifier's threads would only wait for each other where tests run side by side."""
    with threadpool_limits(1):
        yield


# -- Clopper and Pearson ---------------------------------------------------------------------------


def tail(hits: int, runs: int, p: mpmath.mpf, *, above: bool) -> mpmath.mpf:
    """Return P(X >= hits) or P(X <= hits) for a binomial variable, term by term."""
    counts = range(hits, runs + 1) if above else range(hits + 1)
    terms = (mpmath.binomial(runs, j) * p**j * (1 - p) ** (runs - j) for j in counts)
    return mpmath.fsum(terms)


def limit(hits: int, runs: int, alpha: float, *, lower: bool) -> mpmath.mpf:
    """Return the p at which a tail is alpha, by bisection: Clopper and Pearson's definition."""
    if hits == (0 if lower else runs):
        return mpmath.mpf(0 if lower else 1)
    low, high = mpmath.mpf(0), mpmath.mpf(1)
    for _ in range(120):
        middle = (low + high) / 2
        too_small = (tail(hits, runs, middle, above=lower) < alpha) == lower
        low, high = (middle, high) if too_small else (low, middle)
    return low


@pytest.mark.parametrize("alpha", [0.05, 1e-6])
@pytest.mark.parametrize(
    ("hits", "runs"),
    [
        ((1, 0), (1, 1)),
        ((10, 0), (50, 50)),
        ((37, 4), (60, 90)),
        ((60, 60), (60, 60)),
        ((3, 5), (9, 9)),
    ],
)
def test_golden_bounds_by_the_binomial_tails(hits, runs, alpha):
    with mpmath.workdps(40):
        low = limit(hits[0], runs[0], alpha / 2, lower=True)
        high = limit(hits[1], runs[1], alpha / 2, lower=False)
        expected = float(mpmath.log(low / high))
    assert log_ratio_bound(hits, runs, alpha) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("n", [1, 10, 50_000])
def test_golden_bounds_by_hand(n):
    """All of n give p >= (alpha/2)^(1/n); none of n give q <= 1 - (alpha/2)^(1/n)."""
    low = (0.5e-6) ** (1 / n)
    high = -math.expm1(math.log(0.5e-6) / n)
    assert log_ratio_bound((n, 0), (n, n), 1e-6) == pytest.approx(math.log(low / high), rel=1e-9)
    assert log_ratio_bound((n, n), (n, n), 1e-6) == pytest.approx(math.log(low), rel=1e-9)


def test_no_hits_show_nothing():
    assert log_ratio_bound((0, 0), (10, 10), 0.05) == -math.inf
    assert log_ratio_bound((0, 5), (10, 10), 0.05) == -math.inf


# -- one half chooses, the other certifies ---------------------------------------------------------


def halves(chosen: list[float], certified: list[float]) -> np.ndarray:
    return np.array([*chosen, *certified])


def test_the_bound_is_that_of_the_second_half_at_the_first_halfs_threshold():
    """The first half says: above 0. The second half would rather say: above 5."""
    choosing = [1.0] * 40 + [0.0] * 60, [1.0] * 2 + [0.0] * 98
    certifying = [9.0] * 30 + [1.0] * 20 + [0.0] * 50, [1.0] * 15 + [0.0] * 85
    first = halves(choosing[0], certifying[0])
    second = halves(choosing[1], certifying[1])
    found = certified_bound(first, second, 0.01)
    assert found.hits == (50, 15)
    assert found.runs_a_side == 100
    assert found.lower_bound == max(0.0, log_ratio_bound((50, 15), (100, 100), 0.01))


def test_what_only_the_choosing_half_shows_is_not_certified():
    first = halves([1.0] * 100, [0.0] * 100)
    second = halves([0.0] * 100, [0.0] * 100)
    found = certified_bound(first, second, 0.01)
    assert found.lower_bound == 0.0
    assert found.hits == (0, 0)


def test_the_certifying_half_does_not_move_the_threshold():
    rng = np.random.default_rng(1)
    first, second = rng.normal(1, 1, 400), rng.normal(0, 1, 400)
    counts = set()
    for seed in range(5):
        noise = np.random.default_rng(seed)
        moved = [
            np.concatenate([side[:200], np.sort(noise.permutation(side[200:]))])
            for side in (first, second)
        ]
        counts.add(certified_bound(moved[0], moved[1], 0.05).hits)
    assert len(counts) == 1
    higher = np.concatenate([first[:200], first[200:] + 100])
    hits = certified_bound(higher, second, 0.05).hits
    assert hits == (200, counts.pop()[1])


def test_a_bound_is_never_negative_and_equal_sides_show_nothing():
    scores = np.arange(200.0)
    found = certified_bound(scores, scores, 0.05)
    assert found.lower_bound == 0.0


def test_an_event_that_most_runs_share_is_certified():
    """The best scores may be equal, and more than half of all: noise beyond a record loses the same
    wherever it ends."""
    first = halves([1.0] * 80 + [0.0] * 20, [1.0] * 80 + [0.0] * 20)
    second = halves([1.0] * 10 + [0.0] * 90, [1.0] * 10 + [0.0] * 90)
    found = certified_bound(first, second, 0.01)
    assert found.hits == (80, 10)
    assert found.lower_bound == log_ratio_bound((80, 10), (100, 100), 0.01) > 1


def test_sides_of_different_lengths():
    found = certified_bound(np.ones(100), np.zeros(61), 0.01)
    assert found.runs_a_side == 31
    assert found.hits[1] == 0


# -- by likelihoods --------------------------------------------------------------------------------


def kvariates(m: int, k: int = 2, domain: Box | L1Ball = SQUARE) -> KVariates:
    return KVariates.calibrate(Decimal(1), n_records=m, n_clusters=k, grid=domain.grid(), gamma=0.1)


@pytest.mark.statistical
@pytest.mark.parametrize("domain", [LINE, SQUARE, L1Ball((0.0, 0.0), 1.0)])
@pytest.mark.parametrize("m", [2, 50, 2000])
def test_a_sampled_bound_is_below_the_exact_worst_case(m, domain):
    mechanism = kvariates(m, domain=domain)
    found = sample_likelihood(mechanism, 1.0, n_records=m, runs=8_000)
    exact = worst_case(mechanism, m, restarts=6).loss
    assert 0 <= found.lower_bound <= exact <= 1
    assert not found.violates
    assert (found.mechanism, found.k, found.claimed_eps) == ("kvariates", 2, 1.0)
    assert (found.alpha, found.runs_a_side, found.method) == (1e-6, 4_000, LIKELIHOOD)


def test_a_sampled_bound_comes_close_where_events_are_likely():
    """One record, one center: half of all outputs lie beyond it, where the loss is all of eps."""
    mechanism = Laplace.calibrate(Decimal(1), n_clusters=1, grid=LINE.grid(), neighbours=REPLACE)
    found = sample_likelihood(mechanism, 1.0, n_records=1, runs=40_000)
    assert 0.85 < found.lower_bound <= 1


@pytest.mark.parametrize("kind", [Laplace, Forgy])
def test_noise_alone_passes(kind):
    mechanism = kind.calibrate(Decimal(1), n_clusters=2, grid=SQUARE.grid(), neighbours=REPLACE)
    for m in (1, 50):
        assert not sample_likelihood(mechanism, 1.0, n_records=m, runs=8_000).violates


def test_planted_faults_are_seen_in_runs():
    sound = kvariates(50)
    halved = replace(sound, noise_scale=sound.noise_scale / 2)
    unsmoothed = Laplace(2, sound.grid, REPLACE, sound.noise_scale)
    for fault in (halved, unsmoothed):
        found = sample_likelihood(sound, 1.0, n_records=50, runs=40_000, audited=fault)
        assert found.violates
        assert 1 < found.lower_bound <= worst_case(fault, 50, restarts=6).loss
        assert found.mechanism == sound.name


def test_sampled_bounds_follow_the_seed():
    mechanism = kvariates(50)
    once, again, other = (
        sample_likelihood(mechanism, 1.0, n_records=50, runs=4_000, seed=seed) for seed in (1, 1, 2)
    )
    assert once == again
    assert once.hits != other.hits


# -- by a classifier -------------------------------------------------------------------------------


def shifted(by: float) -> Callable[[int], np.ndarray]:
    rng = np.random.default_rng(int(by * 10) + 5)
    return lambda runs: rng.laplace(by, 1.0, (runs, 2))


def test_a_classifier_finds_what_is_there_in_either_direction():
    """Two columns, each moved by 4 scales: eps = 8."""
    for first, second in ((0.0, 4.0), (4.0, 0.0)):
        found = sample_classifier("x", 1, 1.0, shifted(first), shifted(second), runs=1_000)
        assert found.violates
        assert 2 < found.lower_bound < 8
        assert (found.method, found.runs_a_side) == (CLASSIFIER, 500)


def test_outputs_that_give_the_table_away_are_the_grossest_violation():
    """Without any noise, a classifier is certain and gives all runs of a table the same score."""
    found = sample_classifier(
        "x", 1, 1.0, lambda runs: np.zeros((runs, 1)), lambda runs: np.ones((runs, 1)), runs=400
    )
    assert found.violates
    assert found.hits in ((200, 0), (0, 200))
    assert found.lower_bound > 2


def test_a_classifier_finds_nothing_where_there_is_nothing():
    found = sample_classifier("x", 1, 0.01, shifted(0.0), shifted(0.0), runs=600)
    assert found.lower_bound == 0.0


def test_a_violation_in_one_direction_only_is_found():
    """Under the second table an output occurs that the first never has."""
    rng = np.random.default_rng(3)

    def sometimes(chance: float) -> Callable[[int], np.ndarray]:
        return lambda runs: (rng.random((runs, 1)) < chance).astype(float)

    for first, second in ((0.0, 0.2), (0.2, 0.0)):
        found = sample_classifier("x", 1, 1.0, sometimes(first), sometimes(second), runs=1_000)
        assert found.violates


def sampled(mechanism: Mechanism, m: int, runs: int, eps: float = 1.0) -> object:
    old, new = worst_tables(mechanism, m)
    return sample_classifier(
        mechanism.name,
        mechanism.n_clusters,
        eps,
        mechanism_sampler(mechanism, old, 0),
        mechanism_sampler(mechanism, new, 1),
        runs=runs,
    )


@pytest.mark.parametrize("name", ["gupt", "lloyd"])
def test_correct_mechanisms_without_a_density_pass(name):
    mechanism = calibrate_mechanism(name, Decimal(1), n_records=8, n_clusters=2, grid=LINE.grid())
    assert not sampled(mechanism, 8, 200).violates


def test_planted_fault_a_hundredth_of_the_noise_is_found():
    sound = Gupt.calibrate(Decimal(1), n_records=8, n_clusters=1, grid=LINE.grid())
    faulty = replace(sound, noise_scale=sound.noise_scale / 100)
    assert sampled(faulty, 8, 300).violates
    lloyd = Lloyd.calibrate(
        Decimal(1), n_clusters=1, grid=LINE.grid(), neighbours=REPLACE, iterations=1
    )
    faulty = replace(lloyd, count_scale=lloyd.count_scale / 100, sum_scale=lloyd.sum_scale / 100)
    assert sampled(faulty, 8, 300).violates


@pytest.mark.parametrize("relation", [REPLACE, ADD])
def test_the_worst_tables_are_neighbours(relation):
    mechanism = calibrate_mechanism(
        "lloyd", Decimal(1), n_records=8, n_clusters=2, grid=SQUARE.grid(), neighbours=relation
    )
    old, new = (list(map(tuple, table.tolist())) for table in worst_tables(mechanism, 8))
    for row in new:
        if row in old:
            old.remove(row)
    assert len(old) == 1, "one record of the first is not in the second"
    assert len(new) == 8
    sizes = [len(table) for table in worst_tables(mechanism, 8)]
    assert sizes == ([8, 8] if relation is REPLACE else [9, 8])


def test_features_are_one_row_a_run():
    outputs = np.arange(12).reshape(2, 3, 2)
    assert features(outputs).tolist() == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]
    assert features(outputs).dtype == np.float64


@pytest.mark.statistical
def test_diffprivlibs_kmeans_can_be_audited():
    """An example of auditing anything that runs: a few hundred runs show no violation, and the same
    code at a thousand times the eps does."""
    models = pytest.importorskip("diffprivlib.models")

    def sampler(points: np.ndarray, eps: float, seed: int) -> Callable[[int], np.ndarray]:
        def sample(runs: int) -> np.ndarray:
            fitted = [
                models.KMeans(1, epsilon=eps, bounds=(0.0, 1.0), random_state=seed + run).fit(
                    points
                )
                for run in range(runs)
            ]
            return features(np.stack([model.cluster_centers_ for model in fitted]))

        return sample

    new = np.zeros((8, 1))
    old = new.copy()
    old[0] = 1.0
    for eps, violates in ((1.0, False), (1000.0, True)):
        found = sample_classifier(
            "diffprivlib", 1, 1.0, sampler(old, eps, 0), sampler(new, eps, 10**6), runs=150
        )
        assert found.violates is violates
