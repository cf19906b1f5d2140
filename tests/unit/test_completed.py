"""k-variates++ with private Lloyd steps: prices, descriptions, idle centers, what it reaches."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from dpkv.audits.transcripts import AdversarialEntropy, replay
from dpkv.domain import Box, L1Ball
from dpkv.errors import ParameterError, PlanError, UsageError
from dpkv.mechanisms import (
    KVariates,
    Neighbours,
    Outcome,
    Terms,
    WindowKVariates,
    check_request,
    choose,
    describe,
    for_terms,
    from_description,
)
from dpkv.mechanisms.kvariates.completed import CompletedKVariates
from dpkv.mechanisms.kvariates.idle_centers import Spread, estimate_spread, move_idle_centers
from dpkv.mechanisms.synopsis.refine import Estimate, bin_edges
from dpkv.noise import SeededEntropy
from dpkv.records import ArrayRecords, curator_of, run_on_points
from dpkv.records.questions import RecordCount
from dpkv.releases.plan import Plan
from dpkv.seeding import estimate_optimum, potential

SQUARE = Box((0.0, 0.0), (1.0, 1.0))
DOMAINS = {"box": SQUARE, "ball": L1Ball((0.0,) * 3, 1.0), "point": Box((1.0,), (1.0,))}
REPLACE = Neighbours.REPLACE_ONE


def wanted(domain: Box | L1Ball = SQUARE, eps: str = "1", m: int = 600, k: int = 3, **others):
    terms = Terms.of(Decimal(eps), n_records=m, n_clusters=k, grid=domain.grid(), **others)
    return for_terms("kvariates", terms)


# -- prices and descriptions -----------------------------------------------------------------------


@pytest.mark.parametrize("density", ["laplace", "window"])
@pytest.mark.parametrize("n_steps", [1, 3, 8])
@pytest.mark.parametrize("eps", ["0.01", "1", "7.3"])
@pytest.mark.parametrize("domain", DOMAINS)
def test_prices_are_within_eps_and_are_those_of_the_parts(domain, eps, n_steps, density):
    mechanism = wanted(DOMAINS[domain], eps, density=density, lloyd_steps=n_steps)
    assert isinstance(mechanism, CompletedKVariates)
    assert mechanism.cost() <= Decimal(eps)
    if domain != "point":
        assert mechanism.cost() > Decimal(eps) * Decimal("0.999")
    steps = n_steps * (
        Fraction(2) / Fraction(mechanism.norm_scale) + 2 / Fraction(mechanism.sum_scale)
    )
    assert Fraction(mechanism.cost()) >= Fraction(mechanism.seeding.cost()) * 999 / 1000 + steps
    names = [step.name for step in mechanism.schedule()]
    rounds = ["uniform-pick", "smoothed-pick", "smoothed-pick"]
    assert names == rounds + ["residual-norms", "residual-sums"] * n_steps


@pytest.mark.parametrize("density", ["laplace", "window"])
def test_a_description_survives_json(density):
    mechanism = wanted(density=density, lloyd_steps=2)
    described = json.loads(json.dumps(describe(mechanism), allow_nan=False))
    assert described["proof"] == "theorem-a-lloyd"
    assert from_description(described, SQUARE.grid()) == mechanism
    other = {"noise_scale": 3.0} if density == "window" else {"density_ratio": 3.0}
    for changed in (other, {"n_steps": 0}, {"n_steps": 1.5}, {"sum_scale": 0.0}, {"norm_scale": -1},
                    {"window_reach": 5.5}, {"proof": "theorem-a"}, {"n_records": 2}):  # fmt: skip
        with pytest.raises(UsageError, match="does not make sense"):
            from_description({**described, **changed}, SQUARE.grid())


def test_what_is_asked_for_is_what_comes():
    assert isinstance(wanted(), KVariates)
    assert isinstance(wanted(density="laplace"), KVariates)
    assert isinstance(wanted(density="window", lloyd_steps=0), WindowKVariates)
    assert wanted(density="window").n_steps == 4
    assert [wanted(density="window", m=m, k=1).n_steps for m in (3, 10, 100, 10**4)] == [1, 2, 4, 8]
    with pytest.raises(ParameterError, match=r"lloyd_steps must be left out unless .* 'kvariates'"):
        check_request("forgy", REPLACE, lloyd_steps=1)
    plan = {"k": 2, "eps": 1, "bounds": "data", "columns": ("x",)}
    with pytest.raises(ParameterError, match="lloyd_steps must be a whole number"):
        Plan.of(**plan, lloyd_steps=-1)
    for wrong in ({"density": "window"}, {"lloyd_steps": 2}):
        with pytest.raises(ParameterError, match="for the published calibration"):
            Plan.of(**plan, calibration="published", **wrong)


def test_auto_weighs_windows():
    """Where it wins it says so, and does not where a synopsis or the rest are predicted better."""
    found = choose(Terms.of(Decimal(1), n_records=600, n_clusters=3, grid=SQUARE.grid()))
    assert "kvariates" in dict(found.predicted) or len(found.predicted) == 3
    assert found.density == ("window" if found.name == "kvariates" else None)
    own = wanted(density="window")
    shown = dict(found.predicted).get("kvariates")
    assert shown is None or shown == float(f"{own.predicted_error(600):.2g}")


# -- runs ------------------------------------------------------------------------------------------


def two_pairs(seed: int, m: int = 600) -> np.ndarray:
    """Return three round clusters on the grid of the square."""
    rng = np.random.default_rng(seed)
    middles = np.array([[0.2, 0.2], [0.8, 0.3], [0.4, 0.85]])
    values = middles[rng.integers(3, size=m)] + rng.normal(0.0, 0.03, (m, 2))
    return SQUARE.grid().quantise(values).astype(np.int32)


@pytest.mark.parametrize("density", ["laplace", "window"])
@pytest.mark.parametrize("entropy", [SeededEntropy, AdversarialEntropy])
def test_replays_hold(density, entropy):
    mechanism = wanted(density=density, lloyd_steps=4, m=60)
    points = two_pairs(1, 60)
    other = points.copy()
    other[7] = (0, 2**16 - 1)
    for seed in range(8):
        assert replay(lambda _: mechanism, points, other, entropy(seed)).holds


class OneStepMore(CompletedKVariates):
    """A planted fault: one more question than the plan has."""

    def run(self, ask):
        centers = super().run(ask).centers
        ask(RecordCount(1.0))
        return Outcome(centers)


def test_a_step_too_many_is_refused_at_the_door():
    sound = wanted(density="window", lloyd_steps=1)
    own = {name: getattr(sound, name) for name in (f.name for f in fields(sound))}
    program = OneStepMore(**own)
    with pytest.raises(PlanError, match="one question more"):
        program.run(curator_of(program, ArrayRecords(two_pairs(0)), SeededEntropy(1)))
    less = replace(sound, sum_scale=sound.sum_scale * 0.99)
    with pytest.raises(PlanError, match="costs more than was charged"):
        curator_of(less, ArrayRecords(two_pairs(0)), SeededEntropy(1), charged=Decimal(1))


def test_it_finds_clusters_where_seeding_alone_does_not():
    """A mean of 12 runs on one table at eps = 2: 1.1 with steps, and more than 2 without."""
    points = two_pairs(3, 6000)
    grid = SQUARE.grid()
    values = grid.restore(points)
    best = potential(values, estimate_optimum(values, 3, rng=0).centers)
    means = {}
    for steps in (0, None):
        mechanism = wanted(eps="2", m=6000, density="window", lloyd_steps=steps)
        runs = [run_on_points(mechanism, points, SeededEntropy(seed)).centers for seed in range(12)]
        means[steps] = np.mean([potential(values, grid.restore(grid.clip(c))) for c in runs]) / best
    assert means[None] < 1.5
    assert means[0] > 2.0


# -- idle centers ----------------------------------------------------------------------------------


def estimate_at(centers: list[tuple[int, int]], counts: list[float]) -> Estimate:
    k = len(centers)
    return Estimate(np.array(centers), np.array(counts), np.full(k, 10.0), np.full(k, 100.0))


def test_an_idle_center_goes_to_the_wide_cluster():
    before = estimate_at([(1000, 1000), (1100, 1000), (40000, 40000)], [500.0, 500.0, 1000.0])
    spread = Spread(np.array([500.0, 500.0, 1000.0]), np.array([1e6, 1e6, 1e11]), 50.0)
    moved = move_idle_centers(before, spread, SQUARE.grid(), np.random.default_rng(0))
    assert (moved.centers[1] == before.centers[1]).all()
    radius = np.sqrt(1e8)
    for cluster, other in ((0, 2), (2, 0)):
        gap = np.linalg.norm(moved.centers[cluster] - np.array([40000, 40000]))
        assert gap == pytest.approx(radius / 2, abs=2)
        assert np.linalg.norm(moved.centers[cluster] - moved.centers[other]) > radius * 0.99
    assert moved.counts.tolist() == [500.0, 500.0, 500.0]


@pytest.mark.parametrize(
    ("squares", "least"), [([1e6, 1e6, 1e6], 50.0), ([1e6, 1e6, 1e11], 5000.0)]
)
def test_nothing_moves_where_nothing_is_gained_or_told_from_noise(squares, least):
    before = estimate_at([(1000, 1000), (9000, 1000), (40000, 40000)], [500.0, 500.0, 1000.0])
    spread = Spread(np.array([500.0, 500.0, 1000.0]), np.array(squares), least)
    moved = move_idle_centers(before, spread, SQUARE.grid(), np.random.default_rng(0))
    assert (moved.centers == before.centers).all()


def test_the_spread_of_a_round_cluster_is_about_right():
    """Within 40 %: bins are a factor of sqrt(2) wide, and L1 norms stand for L2 ones."""
    mechanism, grid = wanted(density="window", lloyd_steps=1), SQUARE.grid()
    rng = np.random.default_rng(2)
    offsets = rng.normal(0.0, 3000.0, (4000, 2))
    edges = bin_edges(grid, squared=False)
    norms = np.abs(offsets).sum(axis=1)
    histogram = np.histogram(norms, np.concatenate([[-1], edges]))[0][np.newaxis]
    here = estimate_at([(30000, 30000)], [4000.0])
    quiet = replace(mechanism.step_noise, norm_scale=1.0)
    spread = estimate_spread(histogram, here, here, quiet, grid)
    assert spread.squares[0] == pytest.approx((offsets**2).sum(), rel=0.4)
    assert spread.counts[0] == pytest.approx(4000, rel=0.02)
