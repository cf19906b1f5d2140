from __future__ import annotations

import math
import re
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances_argmin, pairwise_distances_argmin_min
from support import enumeration

import dpkv
from dpkv import kernels
from dpkv.distortions import ItakuraSaito, KullbackLeibler, SquaredEuclidean, TotalJensen
from dpkv.errors import DomainError, ParameterError, TableError, UsageError
from dpkv.seeding import (
    CallableDensity,
    CallableProbe,
    Dirac,
    Gaussian,
    MinibatchProbe,
    NearestPointProbe,
    ProductLaplace,
    UniformOnSubset,
)
from dpkv.seeding.nearest import draw_index
from dpkv.seeding.trials import TableProblem, solve
from dpkv.validation import as_records

RNG = np.random.default_rng(0)
DATA = RNG.normal(size=(700, 3))  # more than two blocks
CENTERS = RNG.normal(size=(7, 3))
WEIGHTS = RNG.choice([0.0, 1.0, 2.5], size=700)
TINY = [(0.0, 0.0), (0.5, 0.0), (4.0, 1.0), (4.0, 2.0), (9.0, 0.0), (9.5, 0.5), (8.0, 0.5)]
BOX = dpkv.Box((-1.0, -1.0, -1.0), (1.0, 1.0, 1.0))


# -- potential and assignment ----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_potential_and_assignment_against_scikit_learn(dtype: str) -> None:
    data, centers = DATA.astype(dtype), CENTERS.astype(dtype)
    labels, distances = pairwise_distances_argmin_min(data.astype(float), centers.astype(float))
    tolerance = {"float32": 1e-5, "float64": 1e-12}[dtype]
    np.testing.assert_array_equal(dpkv.assign(data, centers), labels)
    assert dpkv.potential(data, centers) == pytest.approx((distances**2).sum(), rel=tolerance)
    assert dpkv.potential(data, centers, sample_weight=WEIGHTS) == pytest.approx(
        (WEIGHTS * distances**2).sum(), rel=tolerance
    )


def test_potential_and_assignment_with_another_distortion() -> None:
    data, centers = np.exp(DATA), np.exp(CENTERS)
    table = np.array(
        [[enumeration.kullback_leibler(tuple(a), tuple(c)) for c in centers] for a in data]
    )
    options = {"distortion": KullbackLeibler()}
    np.testing.assert_array_equal(dpkv.assign(data, centers, **options), table.argmin(axis=1))
    assert dpkv.potential(data, centers, **options) == pytest.approx(table.min(axis=1).sum())
    weighted = dpkv.potential(data, centers, sample_weight=WEIGHTS, **options)
    assert weighted == pytest.approx((WEIGHTS * table.min(axis=1)).sum())


def test_assignment_takes_the_first_of_equals() -> None:
    assert dpkv.assign([[0.0], [3.0]], [[1.0], [-1.0], [1.0], [3.0], [3.0]]).tolist() == [0, 3]
    ties = dpkv.assign([[1.0]], [[2.0], [1.0], [1.0]], distortion=KullbackLeibler())
    assert ties.tolist() == [1]


def test_more_centers_than_records_are_allowed() -> None:
    assert dpkv.potential([[1.0, 1.0]], np.arange(10.0).reshape(5, 2)) == 1.0  # nearest is (0, 1)


# -- Lloyd -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_lloyd_ends_where_scikit_learn_ends(weighted: bool) -> None:
    data = DATA + 6 * np.random.default_rng(1).integers(3, size=(700, 1))
    weights = WEIGHTS if weighted else None
    init = data[:5]
    theirs = KMeans(5, init=init, n_init=1, tol=0.0, max_iter=1000, algorithm="lloyd")
    theirs.fit(data, sample_weight=weights)
    ours = dpkv.lloyd(data, init, sample_weight=weights, tolerance=0.0, max_iterations=1000)
    assert ours.potential == pytest.approx(theirs.inertia_, rel=1e-9)
    np.testing.assert_allclose(ours.centers, theirs.cluster_centers_, rtol=1e-9)


def test_one_step_of_lloyd_by_hand() -> None:
    data = [[0.0], [1.0], [10.0], [20.0]]
    step = dpkv.lloyd(data, [[0.0], [9.0]], sample_weight=[1, 1, 3, 1], max_iterations=1)
    assert step.centers.ravel().tolist() == [0.5, 12.5]
    assert step.potential == 0.25 + 0.25 + 3 * 2.5**2 + 7.5**2
    assert step.n_iterations == 1


def test_lloyd_without_iterations_is_the_potential() -> None:
    still = dpkv.lloyd(DATA, CENTERS, max_iterations=0)
    np.testing.assert_array_equal(still.centers, CENTERS)
    assert (still.potential, still.n_iterations) == (dpkv.potential(DATA, CENTERS), 0)


def test_a_center_without_records_keeps_its_place() -> None:
    centers = dpkv.lloyd([[0.0], [1.0]], [[0.0], [99.0]]).centers
    assert centers.ravel().tolist() == [0.5, 99.0]
    weightless = dpkv.lloyd([[0.0], [9.0]], [[1.0], [8.0]], sample_weight=[1, 0]).centers
    assert weightless.ravel().tolist() == [0.0, 8.0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_lloyd_reports_the_potential_of_the_centers_it_returns(dtype: str) -> None:
    data = DATA.astype(dtype)
    result = dpkv.lloyd(data, data[:6], tolerance=0.0)
    assert result.centers.dtype == dtype
    assert result.potential == dpkv.potential(data, result.centers)


# -- the optimum and the bound ---------------------------------------------------------------------


@pytest.mark.parametrize("weight", [None, [1.0, 3.0, 0.5, 1.0, 2.0, 1.0, 0.0]])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_estimated_optimum_is_the_optimum_of_tiny_data(k: int, weight: list[float] | None) -> None:
    estimate = dpkv.estimate_optimum(TINY, k, sample_weight=weight, restarts=40, rng=0)
    exact, centers = enumeration.optimum(TINY, k, weight)
    assert estimate.potential == pytest.approx(exact, rel=1e-9)
    np.testing.assert_allclose(np.sort(estimate.centers, axis=0), np.sort(centers, axis=0))
    assert estimate.restarts == 40
    assert "estimate" in estimate.label


def test_estimated_optimum_errs_upwards() -> None:
    exact, _ = enumeration.optimum(TINY, 3)
    found = [dpkv.estimate_optimum(TINY, 3, restarts=1, rng=seed).potential for seed in range(60)]
    assert min(found) >= exact * (1 - 1e-12)
    assert max(found) > exact * 1.5  # one restart alone may miss


def test_more_restarts_never_hurt() -> None:
    few = dpkv.estimate_optimum(DATA, 6, restarts=1, rng=3).potential
    many = dpkv.estimate_optimum(DATA, 6, restarts=8, rng=3).potential
    assert many <= few


LINE = np.array([[0.0], [2.0], [10.0], [14.0]])
LINE_OPTIMUM = [[1.0], [12.0]]  # phi_opt = 1 + 1 + 4 + 4


@pytest.mark.parametrize(
    ("density", "weight", "bias", "variance"),
    [
        (Dirac(), None, 10.0, 0.0),
        (Dirac(LINE + 1.0), None, 0.0 + 4.0 + 1.0 + 9.0, 0.0),
        (ProductLaplace(0.5), None, 10.0, 4 * 2 * 0.25),
        (Gaussian(3.0), None, 10.0, 4 * 9.0),
        (Gaussian(3.0), [1, 0, 2, 0.5], 1.0 + 8.0 + 2.0, 3.5 * 9.0),
        # shards {0, 14} and {2, 10}: means 7 and 6, variances 49 and 16
        (UniformOnSubset(np.array([4, 9, 9, 4])), None, 36.0 + 25.0 + 36.0 + 25.0, 130.0),
        (UniformOnSubset(np.array([4, 9, 9, 4])), [0, 0, 1, 0], 36.0, 16.0),
    ],
)
def test_noise_terms_by_hand(density: Any, weight: Any, bias: float, variance: float) -> None:
    terms = dpkv.noise_terms(LINE, LINE_OPTIMUM, density, sample_weight=weight)
    assert terms.bias == pytest.approx(bias)
    assert terms.variance == pytest.approx(variance)


def test_noise_terms_add_up_columns_with_scales_of_their_own() -> None:
    scales = np.array([1.0, 2.0, 3.0])
    laplace = dpkv.noise_terms(DATA, CENTERS, ProductLaplace(scales))
    gaussian = dpkv.noise_terms(DATA, CENTERS, Gaussian(scales))
    assert laplace.variance == pytest.approx(700 * 2 * 14.0)
    assert gaussian.variance == pytest.approx(700 * 14.0)
    assert laplace.bias == pytest.approx(dpkv.potential(DATA, CENTERS))


def test_bound_by_hand() -> None:
    assert dpkv.expected_potential_bound(1, 5.0) == 2.0 * (6 * 5 + 2 * 5)
    value = dpkv.expected_potential_bound(4, 5.0, bias=1.0, variance=3.0, stretching=0.5)
    assert value == pytest.approx((2 + math.log(4)) * (8 * 5 + 2 * 1 + 2 * 3))
    plusplus = dpkv.expected_potential_bound(9, 1.0)
    assert plusplus == pytest.approx(8 * (2 + math.log(9)))  # k-means++


@pytest.mark.parametrize("name", ["optimum", "bias", "variance", "stretching"])
@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
def test_bound_refuses_terms_that_are_none(name: str, bad: float) -> None:
    terms = {"optimum": 1.0} | {name: bad}
    with pytest.raises(ParameterError, match=name):
        dpkv.expected_potential_bound(2, **terms)


# -- seeding: degenerate data ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"distortion": TotalJensen()},
        {"probe": MinibatchProbe(np.arange(1, 8))},
        {"probe": NearestPointProbe(np.ones((2, 3)))},
        {"sample_weight": np.arange(7.0)},
    ],
)
def test_identical_records_neither_crash_nor_loop(options: dict[str, Any]) -> None:
    same = np.ones((7, 3))
    seeding = dpkv.kvariates(same, 7, rng=0, **options)
    np.testing.assert_array_equal(seeding.centers, same)
    assert seeding.uniform_rounds == (2, 3, 4, 5, 6, 7)
    assert dpkv.lloyd(same, seeding.centers).potential == 0.0


def test_weight_on_a_single_record_picks_it_every_time() -> None:
    seeding = dpkv.kvariates(DATA, 3, sample_weight=np.eye(700)[5], rng=0)
    assert seeding.indices.tolist() == [5, 5, 5]
    assert seeding.uniform_rounds == (2, 3)


def test_as_many_centers_as_distinct_records_finds_all() -> None:
    for seed in range(20):
        seeding = dpkv.kvariates(TINY, 7, rng=seed)
        assert sorted(seeding.indices) == list(range(7))
        assert seeding.uniform_rounds == ()
        assert dpkv.potential(TINY, seeding.centers) == 0.0


def test_one_center_and_one_record() -> None:
    assert dpkv.kvariates(DATA, 1, rng=0).centers.shape == (1, 3)
    seeding = dpkv.kvariates([[4.0, 5.0]], 1, rng=0)
    assert seeding.centers.tolist() == [[4.0, 5.0]]
    assert seeding.indices.tolist() == [0]


def test_smoothing_leaves_no_round_uniform() -> None:
    domain = dpkv.Box((0.0,) * 3, (2.0,) * 3)
    assert dpkv.kvariates(np.ones((7, 3)), 7, gamma=0.1, domain=domain, rng=0).uniform_rounds == ()


# -- seeding: what comes back ----------------------------------------------------------------------


def test_centers_are_the_picked_records_without_noise() -> None:
    seeding = dpkv.kvariates(DATA, 20, rng=0)
    np.testing.assert_array_equal(seeding.centers, DATA[seeding.indices])
    np.testing.assert_array_equal(seeding.draws, seeding.centers)


def test_centers_are_draws_clipped_to_the_domain() -> None:
    seeding = dpkv.kvariates(DATA, 20, density=Gaussian(2.0), domain=BOX, rng=0)
    assert (np.abs(seeding.draws) > 1).any()
    np.testing.assert_array_equal(seeding.centers, np.clip(seeding.draws, -1.0, 1.0))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_results_keep_the_dtype(dtype: str) -> None:
    seeding = dpkv.kvariates(DATA.astype(dtype), 4, density=Gaussian(1.0), rng=0)
    assert seeding.centers.dtype == seeding.draws.dtype == dtype


def test_seeds_and_generators() -> None:
    first = dpkv.kvariates(DATA, 8, rng=5)
    np.testing.assert_array_equal(first.indices, dpkv.kvariates(DATA, 8, rng=5).indices)
    generator = np.random.default_rng(5)
    np.testing.assert_array_equal(first.indices, dpkv.kvariates(DATA, 8, rng=generator).indices)
    onwards = dpkv.kvariates(DATA, 8, rng=generator).indices  # the generator has moved on
    other = dpkv.kvariates(DATA, 8, rng=6).indices
    fresh = [dpkv.kvariates(DATA, 8).indices for _ in range(2)]
    sequences = {tuple(rows) for rows in (first.indices, onwards, other, *fresh)}
    assert len(sequences) == 5


def test_trials_run_on_children_of_the_seed() -> None:
    trials = solve(TableProblem(DATA, "kmeans++"), 4, repeat=3, seed=9, lloyd_steps=True)
    for child, run in zip(np.random.SeedSequence(9).spawn(3), trials.runs, strict=True):
        seeds, _ = dpkv.kmeans_plusplus(DATA, 4, rng=np.random.default_rng(child))
        assert run.seeding_potential == dpkv.potential(DATA, seeds)
        assert run.potential == dpkv.lloyd(DATA, seeds).potential
    assert trials.best.potential == min(run.potential for run in trials.runs)


# -- seeding: what goes in -------------------------------------------------------------------------

WHOLE = RNG.integers(-50, 50, size=(60, 4))


def read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


FORMS: dict[str, Callable[[np.ndarray], Any]] = {
    "lists": lambda a: a.tolist(),
    "int64": lambda a: a,
    "int8": lambda a: a.astype(np.int8),
    "float16": lambda a: a.astype(np.float16),
    "object": lambda a: a.astype(object),
    "long double": lambda a: a.astype(np.longdouble),
    "big-endian": lambda a: a.astype(">f8"),
    "fortran": lambda a: np.asfortranarray(a, dtype=float),
    "every other row": lambda a: np.repeat(a, 2, axis=0).astype(float)[::2],
    "every other column": lambda a: np.repeat(a, 2, axis=1).astype(float)[:, ::2],
    "reversed": lambda a: a[::-1].astype(float)[::-1],
    "read-only": lambda a: read_only(a.astype(float)),
    "pandas": lambda a: pd.DataFrame(a, columns=list("wxyz")),
    "pandas, nullable": lambda a: pd.DataFrame(a).astype("Int64"),
    "pandas, mixed": lambda a: pd.DataFrame(a).astype({0: float, 1: np.int16}),
}


@pytest.mark.parametrize("form", FORMS)
def test_any_form_of_the_same_numbers_gives_the_same_answers(form: str) -> None:
    plain, data = WHOLE.astype(float), FORMS[form](WHOLE)
    weights = np.arange(60)
    seeding = dpkv.kvariates(data, 5, sample_weight=weights, rng=1)
    expected = dpkv.kvariates(plain, 5, sample_weight=weights, rng=1)
    np.testing.assert_array_equal(seeding.indices, expected.indices)
    np.testing.assert_array_equal(seeding.centers, expected.centers)
    assert dpkv.potential(data, expected.centers) == dpkv.potential(plain, expected.centers)
    assert dpkv.lloyd(data, plain[:3]).potential == dpkv.lloyd(plain, plain[:3]).potential


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floats_in_memory_order_are_used_in_place(dtype: str) -> None:
    array = DATA.astype(dtype)
    assert as_records(array) is array
    array.flags.writeable = False
    assert as_records(array) is array
    assert np.shares_memory(as_records(array[100:300]), array)


def test_nothing_writes_to_the_callers_data() -> None:
    data, before = DATA.copy(), DATA.copy()
    weights, weights_before = WEIGHTS.copy(), WEIGHTS.copy()
    probe = MinibatchProbe(np.arange(700) % 4 + 1)
    dpkv.kvariates(data, 4, probe=probe, density=Gaussian(1.0), domain=BOX, rng=0)
    dpkv.kvariates(data, 4, sample_weight=weights, distortion=SquaredEuclidean(), rng=0)
    dpkv.lloyd(data, data[:3], sample_weight=weights)
    np.testing.assert_array_equal(data, before)
    np.testing.assert_array_equal(weights, weights_before)


@pytest.mark.parametrize(
    "work",
    [
        lambda data: dpkv.kvariates(data, 20, rng=0),
        lambda data: dpkv.kvariates(data, 3, density=Gaussian(1.0), rng=0),
        lambda data: dpkv.potential(data, data[:5]),
        lambda data: dpkv.lloyd(data, data[:5], max_iterations=2),
        lambda data: dpkv.noise_terms(data, data[:5], ProductLaplace(1.0)),
    ],
)
def test_no_copy_of_the_data_is_made(work: Callable[[np.ndarray], Any]) -> None:
    data = np.random.default_rng(0).random((800_000, 8))  # 51 MB
    work(data[:1000])  # compiles
    tracemalloc.start()
    try:
        work(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < data.nbytes // 2


def test_results_do_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    data = np.random.default_rng(0).random((100_001, 7)).astype(np.float32)
    weights = np.random.default_rng(1).random(len(data))
    results = []
    for threads in (1, 2, 3):
        monkeypatch.setattr(kernels, "N_THREADS", threads)
        monkeypatch.setattr(kernels, "_pool", None)
        seeding = dpkv.kvariates(data, 9, sample_weight=weights, rng=4)
        end = dpkv.lloyd(data, seeding.centers, sample_weight=weights, max_iterations=3)
        labels = dpkv.assign(data, end.centers)
        results.append((seeding.indices.tolist(), end.potential, end.centers.tolist(), labels))
        assert (kernels._pool is not None) == (threads > 1)  # or the table was too small
    for other in results[1:]:
        assert other[:3] == results[0][:3]
        np.testing.assert_array_equal(other[3], results[0][3])


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("k", "why"),
    [
        (0, "at least 1"),
        (-2, "at least 1"),
        (701, "at most the number of records, 700"),
        (True, "a whole number"),
        (2.0, "a whole number"),
        ("2", "a whole number"),
        (None, "a whole number"),
    ],
)
@pytest.mark.parametrize(
    "seeder", [dpkv.kvariates, dpkv.kmeans_plusplus, dpkv.forgy, dpkv.estimate_optimum]
)
def test_refused_number_of_clusters(seeder: Any, k: Any, why: str) -> None:
    with pytest.raises(ParameterError, match=why):
        seeder(DATA, k, rng=0)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ([[1.0, math.nan]], "NaN or infinity"),
        ([[1.0], [math.inf]], "NaN or infinity"),
        ([[-math.inf]], "NaN or infinity"),
        (np.float32([[1.0], [math.nan]]), "NaN or infinity"),
        ([[2.0**53 * 1.01]], "within ±2^53"),
        ([[-(2.0**60)]], "within ±2^53"),
        ([[10**400]], "numeric"),
        ([1.0, 2.0], "matrix"),
        (np.zeros((2, 2, 2)), "matrix"),
        (np.zeros((3, 0)), "matrix"),
        (np.zeros((0, 3)), "at least one record"),
        ([["a", "b"]], "numeric"),
        ([[1.0], [1.0, 2.0]], "numeric"),
        ([[1.0 + 2.0j]], "numeric"),
        (pd.DataFrame({"x": [1.0], "y": ["red"]}), "numeric"),
        (pd.DataFrame({"x": pd.to_datetime(["2020-01-01"])}), "numeric"),
        (pd.DataFrame({"x": pd.array([1, None], dtype="Int64")}), "NaN or infinity"),
    ],
)
@pytest.mark.parametrize(
    "entry",
    [
        lambda data: dpkv.kvariates(data, 1, rng=0),
        lambda data: dpkv.potential(data, [[0.0]]),
        lambda data: dpkv.lloyd(data, [[0.0]]),
    ],
)
def test_refused_data(entry: Callable[[Any], Any], data: Any, why: str) -> None:
    with pytest.raises(TableError, match=re.escape(why)):
        entry(data)


def test_largest_magnitude_itself_is_accepted() -> None:
    assert dpkv.kvariates([[2.0**53], [-(2.0**53)]], 2, rng=0).uniform_rounds == ()


@pytest.mark.parametrize("name", ["sample_weight", "first_weight"])
@pytest.mark.parametrize(
    ("weight", "why"),
    [
        (np.ones(699), "one number a record"),
        (np.ones((700, 1)), "one number a record"),
        (1.0, "one number a record"),
        (-np.ones(700), "never negative"),
        (np.where(np.arange(700) == 3, -1e-9, 1.0), "never negative"),
        (np.zeros(700), "positive somewhere"),
        (np.full(700, math.nan), "finite"),
        (np.full(700, math.inf), "finite"),
        (np.full(700, 1e308), "finite"),  # their sum is not
        (["heavy"] * 700, "numeric"),
    ],
)
def test_refused_weights(name: str, weight: Any, why: str) -> None:
    with pytest.raises(ParameterError, match=f"{name} must be .*{why}"):
        dpkv.kvariates(DATA, 2, rng=0, **{name: weight})


@pytest.mark.parametrize(
    ("options", "error", "why"),
    [
        ({"gamma": -0.1, "domain": BOX}, ParameterError, "gamma"),
        ({"gamma": math.nan, "domain": BOX}, ParameterError, "gamma"),
        ({"gamma": "much", "domain": BOX}, ParameterError, "gamma"),
        ({"gamma": 0.1}, ParameterError, "domain must be given when gamma is positive"),
        ({"domain": dpkv.Box((0.0,), (1.0,))}, DomainError, "1 columns"),
        ({"reference": "relased"}, ParameterError, "'released', 'picked'"),
        ({"rng": -1}, ParameterError, "rng"),
        ({"rng": 1.5}, ParameterError, "rng"),
        ({"rng": True}, ParameterError, "rng"),
        ({"rng": "seed"}, ParameterError, "rng"),
        ({"distortion": KullbackLeibler()}, UsageError, "strictly positive"),
        ({"density": ProductLaplace(np.ones(2))}, ParameterError, "one per column"),
        ({"density": UniformOnSubset(np.zeros(3))}, ParameterError, "one label per record"),
        ({"density": Dirac(np.zeros((2, 3)))}, ParameterError, "anchors"),
        ({"density": Dirac(np.full((700, 3), math.nan))}, UsageError, "finite"),
        ({"density": CallableDensity(lambda _a, _g: np.ones(2))}, ParameterError, "3 numbers"),
        ({"density": CallableDensity(lambda _a, _g: 1.0)}, ParameterError, "3 numbers"),
        ({"density": CallableDensity(lambda a, _g: a * math.nan)}, UsageError, "finite"),
        ({"density": CallableDensity(lambda a, _g: a + math.inf)}, UsageError, "finite"),
        ({"density": Gaussian(1e200)}, UsageError, "not finite"),  # squares overflow
        ({"probe": CallableProbe(lambda _t, data, _c: data[:5])}, ParameterError, "shape"),
        ({"probe": CallableProbe(lambda _t, data, _c: data[:, :2])}, ParameterError, "shape"),
        ({"probe": CallableProbe(lambda _t, data, _c: data * math.nan)}, UsageError, "finite"),
        ({"probe": CallableProbe(lambda _t, d, _c: d * math.inf, True)}, UsageError, "finite"),
        ({"probe": MinibatchProbe(np.ones(3))}, ParameterError, "batches"),
        ({"probe": NearestPointProbe(np.ones((4, 2)))}, ParameterError, "points"),
        ({"probe": NearestPointProbe(np.ones((0, 3)))}, ParameterError, "points"),
        ({"probe": NearestPointProbe(np.full((4, 3), math.nan))}, UsageError, "points"),
    ],
)
def test_refused_options(options: dict[str, Any], error: type[UsageError], why: str) -> None:
    with pytest.raises(error, match=why):
        dpkv.kvariates(DATA, 3, **({"rng": 0} | options))


def test_a_minibatch_probe_checks_its_length_even_when_no_distance_is_measured() -> None:
    with pytest.raises(ParameterError, match="batches"):
        dpkv.kvariates(DATA, 1, probe=MinibatchProbe(np.ones(701)), rng=0)


def test_a_minibatch_probe_takes_a_list() -> None:
    picked = {
        tuple(
            dpkv.kvariates(TINY, 2, probe=MinibatchProbe([1, 2, 3, 3, 3, 3, 3]), rng=seed).indices
        )
        for seed in range(20)
    }
    assert picked == {(0, 1)}


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf, np.array([1.0, -1.0])])
@pytest.mark.parametrize("density", [ProductLaplace, Gaussian])
def test_refused_scales(density: Any, bad: Any) -> None:
    with pytest.raises(ParameterError, match=r"scale|sigma"):
        density(bad)


def test_a_released_center_outside_the_distortions_domain_is_refused() -> None:
    below = CallableDensity(lambda record, _rng: -record)
    positive = np.exp(DATA)
    with pytest.raises(UsageError, match="strictly positive"):
        dpkv.kvariates(positive, 2, density=below, distortion=ItakuraSaito(), rng=0)
    picked = {"reference": "picked", "density": below, "distortion": ItakuraSaito()}
    assert (dpkv.kvariates(positive, 2, rng=0, **picked).centers < 0).all()


def test_a_density_without_moments_has_no_noise_terms() -> None:
    with pytest.raises(UsageError, match="moments_of"):
        dpkv.noise_terms(DATA, CENTERS, CallableDensity(lambda record, _rng: record))


@pytest.mark.parametrize("entry", [dpkv.potential, dpkv.assign, dpkv.lloyd])
def test_centers_of_another_width_are_refused(entry: Any) -> None:
    with pytest.raises(ParameterError, match="centers must be 3 columns wide"):
        entry(DATA, CENTERS[:, :2])


@pytest.mark.parametrize(
    "options", [{"max_iterations": -1}, {"max_iterations": 2.5}, {"tolerance": -1e-9}]
)
def test_lloyd_refuses_bad_limits(options: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=next(iter(options))):
        dpkv.lloyd(DATA, CENTERS, **options)


# -- kernels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_centers", [1, 3, 4, 5, 9])
@pytest.mark.parametrize("features", [1, 2, 3])
@pytest.mark.parametrize("m", [1, 255, 256, 257, 1000])
def test_distances_and_block_sums_against_numpy(m: int, features: int, n_centers: int) -> None:
    rng = np.random.default_rng(m)
    points, centers = rng.normal(size=(m, features)), rng.normal(size=(n_centers, features))
    weights = rng.random(m)
    expected = ((points[:, None] - centers[None]) ** 2).sum(axis=2).min(axis=1)
    edges = np.arange(0, m, 256)
    for weight in (None, weights):
        found, sums = np.full(m, np.inf), np.empty(len(edges))
        kernels.lower_nearest(points, centers, found, kernels.or_empty(weight), sums, 0, len(edges))
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        masses = expected if weight is None else expected * weight
        np.testing.assert_allclose(sums, np.add.reduceat(masses, edges), rtol=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 3.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_proposal_inverts_the_running_sum(weighted: bool, smoothing: float) -> None:
    """Whole-number masses keep every sum exact, so that the answer is one record and no other."""
    rng = np.random.default_rng(2)
    m = 700
    stored = rng.integers(0, 4, size=m).astype(float)
    weights = rng.integers(0, 3, size=m).astype(float) if weighted else None
    masses = (stored + smoothing) * (1.0 if weights is None else weights)
    edges = np.arange(0, m, 256)
    running = np.cumsum(np.add.reduceat(masses, edges))
    points, nobody = np.zeros((m, 1)), np.empty((0, 1))
    for u in [0.0, *rng.random(500), np.nextafter(1.0, 0.0)]:
        found = kernels.propose(
            np.array([[u, 0.5]]), running, points, nobody, stored,
            kernels.or_empty(weights), smoothing,
        )  # fmt: skip
        assert found == np.searchsorted(np.cumsum(masses), u * masses.sum(), side="right")


def test_a_proposal_never_lands_on_a_record_without_mass() -> None:
    """Were the product of a uniform number and the total rounded up to the total itself."""
    stored = np.zeros(1000)
    stored[3] = 0.1
    running = np.full(4, 0.1)
    one = np.array([[1.0, 0.5]])
    found = kernels.propose(
        one, running, np.zeros((1000, 1)), np.empty((0, 1)), stored, np.empty(0), 0.0
    )
    assert found == 3


class FixedUniform:
    def __init__(self, value: float) -> None:
        self.random = lambda: value


@pytest.mark.parametrize(("u", "index"), [(0.0, 1), (0.2499, 1), (0.25, 3), (0.999, 3), (1.0, 3)])
def test_draw_index_inverts_the_running_sum(u: float, index: int) -> None:
    assert draw_index(np.array([0.0, 1.0, 0.0, 3.0, 0.0]), FixedUniform(u)) == index


def test_extents_and_magnitudes() -> None:
    low, high = kernels.column_extent(DATA)
    np.testing.assert_array_equal(low, DATA.min(axis=0))
    np.testing.assert_array_equal(high, DATA.max(axis=0))
    assert kernels.largest_magnitude(DATA) == np.abs(DATA).max()
    for bad in (math.nan, math.inf, -math.inf):
        tainted = DATA.copy()
        tainted[600, 1] = bad
        assert math.isnan(kernels.largest_magnitude(tainted))


def test_cluster_sums_against_numpy() -> None:
    centers = np.vstack([DATA[:5], np.full((1, 3), 1e6)])  # the last one wins no record
    labels = ((DATA[:, None, :] - centers[None]) ** 2).sum(axis=2).argmin(axis=1)
    for weight in (None, WEIGHTS):
        sums, masses, _ = kernels.clusters(DATA, centers, weight)
        scale = np.ones(700) if weight is None else weight
        np.testing.assert_allclose(masses, np.bincount(labels, scale, minlength=6))
        for j in range(3):
            expected = np.bincount(labels, scale * DATA[:, j], minlength=6)
            np.testing.assert_allclose(sums[:, j], expected, atol=1e-12)


def test_kernels_compile_without_a_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def njit(**options: Any) -> Callable[[Any], Any]:
        def decorate(function: Any) -> Any:
            asked.append(options)
            if options.get("cache"):  # what numba says when no folder can be written
                raise RuntimeError("cannot cache function: no locator available for file")
            return function

        return decorate

    monkeypatch.setattr(kernels.numba, "njit", njit)
    assert kernels.compiled(math.sqrt) is math.sqrt
    with_cache, without = asked
    assert with_cache == without | {"cache": True}
    assert without["nogil"] is True


def test_a_thread_that_fails_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "N_THREADS", 2)
    monkeypatch.setattr(kernels, "_pool", None)

    def fails_in_the_second_half(first: int, _last: int) -> None:
        if first:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        kernels.over_blocks(fails_in_the_second_half, 10, 10**9)


def test_nearest_assignment_agrees_with_scikit_learn_on_one_center() -> None:
    assert (dpkv.assign(DATA, CENTERS[:1]) == pairwise_distances_argmin(DATA, CENTERS[:1])).all()
