"""Algorithm 0 as it runs against Algorithm 0 by enumeration, on every kind of instance.

Each comparison raises a false alarm with probability below 1e-9, and the planted faults at the end
go through the very same comparison.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from scipy import stats
from support import enumeration
from support.chance import FALSE_ALARM, fits_distribution, implausible
from support.enumeration import Run, all_runs, last_pick, picks, project

import dpkv
from dpkv import distortions, kernels
from dpkv.seeding import (
    CallableDensity,
    CallableProbe,
    Gaussian,
    MinibatchProbe,
    NearestPointProbe,
    ProductLaplace,
    Seeding,
    UniformOnSubset,
    algorithm0,
    nearest,
)

# Coordinates are multiples of a quarter: exact in float32, so that real and enumerated runs
# release the very same points. All are positive, for the divergences that need it.
TABLE = np.array([[1.0, 1.0], [1.25, 1.0], [3.0, 2.0], [4.0, 0.5], [0.5, 3.0]])
TWINS = np.array([[1.0, 1.0], [1.0, 1.0], [3.0, 2.0], [3.0, 2.0], [1.0, 1.0]])
WEIGHT = [0.0, 1.0, 3.0, 0.5, 6.0]
OPENING = [2.0, 0.0, 1.0, 0.0, 1.0]
GROUPS = [0, 1, 0, 1, 1]
BATCHES = [1, 2, 1, 3, 2]
SUMMARY = [(1.0, 1.5), (3.5, 1.0), (0.5, 2.5)]
OFFSETS = {(0.5, -0.25): 0.7, (-0.25, 2.0): 0.3}

N_RUNS = 1000
N_RUNS_BESIDE_A_FAULT = 3000


def shake(record: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    offset = list(OFFSETS)[int(rng.random() > 0.7)]
    return record + np.asarray(offset, dtype=record.dtype)


@dataclass(frozen=True)
class Case:
    """The same instance twice: as keywords of dpkv.kvariates, and of the enumeration."""

    real: dict[str, Any] = field(default_factory=dict)
    ideal: dict[str, Any] = field(default_factory=dict)
    data: np.ndarray = field(default_factory=lambda: TABLE)
    k: int = 3
    discrete: bool = True
    """Whether draws are compared as well as picks."""

    def __and__(self, other: Case) -> Case:
        return Case(
            self.real | other.real,
            self.ideal | other.ideal,
            self.data,
            self.k,
            self.discrete and other.discrete,
        )


PROBES = {
    "identity": Case(),
    "summary points": Case(
        {"probe": NearestPointProbe(np.array(SUMMARY))},
        {"probe": enumeration.nearest_point(SUMMARY)},
    ),
    "minibatch": Case(
        {"probe": MinibatchProbe(np.array(BATCHES))},
        {"probe": enumeration.minibatch(BATCHES), "batches": BATCHES},
    ),
    "moving": Case(
        {"probe": CallableProbe(lambda t, data, centers: data[:, ::-1] * t - centers[-1:])},
        {
            "probe": lambda t, records, centers: [
                (b * t - centers[-1][0], a * t - centers[-1][1]) for a, b in records
            ]
        },
    ),
    "mirrored": Case(
        {"probe": CallableProbe(lambda _t, data, _c: data[:, ::-1], fixed=True)},
        {"probe": lambda _t, records, _c: [(b, a) for a, b in records]},
    ),
}

# Distances to picked records do not depend on the noise, so that enumeration stays exact for
# continuous densities under reference="picked".
DENSITIES = {
    "dirac": Case(),
    "group": Case(
        {"density": UniformOnSubset(np.array(GROUPS))},
        {"density": enumeration.uniform_on_group(GROUPS)},
    ),
    "shaken": Case({"density": CallableDensity(shake)}, {"density": enumeration.shaken(OFFSETS)}),
    "laplace": Case(
        {"density": ProductLaplace(2.0), "reference": "picked"},
        {"reference": "picked"},
        discrete=False,
    ),
    "gaussian": Case(
        {"density": Gaussian(np.array([1.0, 3.0])), "reference": "picked"},
        {"reference": "picked"},
        discrete=False,
    ),
}

WEIGHTS = {
    "plain": Case(),
    "weighted": Case({"sample_weight": WEIGHT}, {"weight": WEIGHT}),
    "opened": Case(
        {"sample_weight": WEIGHT, "first_weight": OPENING},
        {"weight": WEIGHT, "first_weight": OPENING},
    ),
}

REFERENCES = {
    name: Case({"reference": name}, {"reference": name}) for name in ("released", "picked")
}


def as_run(seeding: Seeding) -> Run:
    return tuple(
        (int(i), tuple(x)) for i, x in zip(seeding.indices, seeding.draws.tolist(), strict=True)
    )


def repeats(run: Run) -> tuple[bool, ...]:
    """Return which rounds picked a record again: without smoothing, D_t = 0 speaks against it."""
    rows = picks(run)
    return tuple(row in rows[:t] for t, row in enumerate(rows))


def disagreement(case: Case, n_runs: int = N_RUNS) -> str | None:
    """Return where kvariates and the enumeration differ, or None: the check of this file."""
    expected = all_runs(case.data.tolist(), case.k, **case.ideal)
    rng = np.random.default_rng(2016)
    observed = [
        as_run(dpkv.kvariates(case.data, case.k, rng=rng, **case.real)) for _ in range(n_runs)
    ]
    views: list[Callable[[Run], Any]] = [picks, last_pick, repeats]  # coarse ones see more
    if case.discrete:
        views.append(lambda run: run)
    for view in views:
        wrong = implausible(map(view, observed), project(expected, view), FALSE_ALARM / len(views))
        if wrong:
            return wrong
    return None


# -- every kind of instance ------------------------------------------------------------------------


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("density", DENSITIES)
@pytest.mark.parametrize("probe", PROBES)
def test_probe_density_and_weight(probe: str, density: str, weight: str) -> None:
    case = PROBES[probe] & DENSITIES[density] & WEIGHTS[weight]
    assert disagreement(case) is None


LOWER, UPPER = (1.0, 0.75), (3.5, 2.5)
BOX = dpkv.Box(LOWER, UPPER)
BOX_DIAM2_SQUARED = 2.5**2 + 1.75**2  # by hand


def smoothed(gamma: float) -> Case:
    """Clip to a box that the shaken records leave, and smooth."""
    return Case(
        {"gamma": gamma, "domain": BOX},
        {"smoothing": gamma * BOX_DIAM2_SQUARED, "clip": enumeration.clip_to(LOWER, UPPER)},
    )


@pytest.mark.parametrize("probe", ["identity", "minibatch"])
@pytest.mark.parametrize("weight", ["plain", "weighted"])
@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("gamma", [0.0, 0.1, math.inf])
def test_smoothing_and_reference(gamma: float, reference: str, weight: str, probe: str) -> None:
    case = PROBES[probe] & DENSITIES["shaken"] & smoothed(gamma)
    assert disagreement(case & REFERENCES[reference] & WEIGHTS[weight]) is None


def test_smoothing_on_an_l1_ball() -> None:
    ball = dpkv.L1Ball((2.0, 1.5), 8.0)  # wide enough that nothing is clipped
    case = Case({"gamma": 0.01, "domain": ball}, {"smoothing": 0.01 * 16.0**2})
    assert disagreement(case & DENSITIES["shaken"]) is None


MATRIX = [[2.0, 0.5], [0.5, 0.25]]


def generators() -> dict[str, tuple[Callable[..., Any], Callable[[Any], float]]]:
    return {
        "squared norm": (distortions.squared_norm, lambda x: sum(v * v for v in x)),
        "negative entropy": (
            distortions.negative_entropy,
            lambda x: sum(v * math.log(v) for v in x),
        ),
        "burg": (distortions.burg, lambda x: -sum(map(math.log, x))),
    }


DISTORTIONS = {
    "squared": Case({}, {}),
    "kl": Case(
        {"distortion": distortions.KullbackLeibler()}, {"distortion": enumeration.kullback_leibler}
    ),
    "itakura-saito": Case(
        {"distortion": distortions.ItakuraSaito()}, {"distortion": enumeration.itakura_saito}
    ),
    "mahalanobis": Case(
        {"distortion": distortions.Mahalanobis(np.array(MATRIX))},
        {"distortion": enumeration.mahalanobis(MATRIX)},
    ),
} | {
    f"total jensen, {name}": Case(
        {"distortion": distortions.TotalJensen(vectorised, 0.3)},
        {"distortion": enumeration.total_jensen(plain, 0.3)},
    )
    for name, (vectorised, plain) in generators().items()
}


def typed(case: Case, dtype: str) -> Case:
    return Case(case.real, case.ideal, case.data.astype(dtype), case.k, case.discrete)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("distortion", DISTORTIONS)
def test_distortion(distortion: str, reference: str, dtype: str) -> None:
    case = DENSITIES["shaken"] & DISTORTIONS[distortion] & REFERENCES[reference]
    assert disagreement(typed(case, dtype)) is None


@pytest.mark.parametrize("distortion", DISTORTIONS)
def test_distortion_with_a_moving_probe_and_weights(distortion: str) -> None:
    assert disagreement(PROBES["minibatch"] & DISTORTIONS[distortion] & WEIGHTS["weighted"]) is None


# -- rounds in which no distance decides -----------------------------------------------------------


def on_twins(case: Case, k: int) -> Case:
    return Case(case.real, case.ideal, TWINS, k, case.discrete)


@pytest.mark.parametrize("distortion", ["squared", "kl"])
@pytest.mark.parametrize("weight", ["plain", "weighted"])
@pytest.mark.parametrize("k", [3, 4])
def test_duplicates_make_rounds_uniform(k: int, weight: str, distortion: str) -> None:
    case = on_twins(WEIGHTS[weight] & DISTORTIONS[distortion], k)
    assert disagreement(case) is None
    rounds = dpkv.kvariates(case.data, k, rng=1, **case.real).uniform_rounds
    assert rounds == tuple(range(3, k + 1))  # two distinct points, both found by then


@pytest.mark.parametrize("weight", ["plain", "weighted"])
def test_duplicates_in_minibatches(weight: str) -> None:
    assert disagreement(on_twins(PROBES["minibatch"] & WEIGHTS[weight], 3)) is None


def test_a_batch_without_weight_opens_to_every_record() -> None:
    weight = [0.0, 1.0, 0.0, 0.5, 2.0]  # batch 1 weighs nothing
    case = PROBES["minibatch"] & Case({"sample_weight": weight}, {"weight": weight})
    assert disagreement(case) is None


# -- continuous noise ------------------------------------------------------------------------------

SCALES = (0.5, 4.0)
NOISES = {
    "laplace": (ProductLaplace, stats.laplace),
    "gaussian": (Gaussian, stats.norm),
}


def noise_of(density: Any, reference: str, n_runs: int = 4000) -> np.ndarray:
    """Return draws minus picked records: (runs, rounds, columns)."""
    rng = np.random.default_rng(7)
    runs = (
        dpkv.kvariates(TABLE, 2, density=density, reference=reference, rng=rng)
        for _ in range(n_runs)
    )
    return np.stack([run.draws - TABLE[run.indices] for run in runs])


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("name", NOISES)
def test_noise_has_its_marginals_and_is_independent(name: str, reference: str) -> None:
    density, law = NOISES[name]
    noise = noise_of(density(np.array(SCALES)), reference)
    for t in range(2):
        for column, scale in enumerate(SCALES):
            assert fits_distribution(noise[:, t, column], law(scale=scale))
    # Independence: all sixteen patterns of signs over rounds and columns are equally likely.
    signs = [tuple(row) for row in (noise > 0).reshape(-1, 4).tolist()]
    patterns = np.array(np.meshgrid(*[[False, True]] * 4)).reshape(4, -1).T.tolist()
    assert implausible(signs, {tuple(p): 1 / 16 for p in patterns}) is None


@pytest.mark.parametrize("name", NOISES)
def test_planted_fault_noise_at_half_its_scale(name: str) -> None:
    density, law = NOISES[name]
    noise = noise_of(density(np.array(SCALES) / 2), "released")
    for column, scale in enumerate(SCALES):
        assert not fits_distribution(noise[:, 0, column], law(scale=scale))


# -- the lazy sampler ------------------------------------------------------------------------------


class Journal:
    """Counts the ways in which SquaredNearest came by its draws."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: Counter[str] = Counter()
        propose, whole_pass = kernels.propose, nearest.SquaredNearest._pass

        def counted_propose(uniforms: Any, running: Any, points: Any, pending: Any, *rest: Any):
            index = propose(uniforms, running, points, pending, *rest)
            if len(pending):
                self.seen["refused" if index < 0 else "accepted while centers waited"] += 1
            return index

        def counted_pass(keeper: nearest.SquaredNearest, smoothing: float) -> None:
            waiting = len(keeper._pending)
            self.seen["pass for several centers" if waiting > 1 else "pass for one"] += 1
            whole_pass(keeper, smoothing)

        monkeypatch.setattr(kernels, "propose", counted_propose)
        monkeypatch.setattr(nearest.SquaredNearest, "_pass", counted_pass)

    def require(self, *ways: str) -> None:
        for way in ways:
            assert self.seen[way] >= 50, f"{way!r} hardly happened: {self.seen}"


ALL_WAYS = ("accepted while centers waited", "refused", "pass for one", "pass for several centers")


@pytest.fixture
def eager_to_propose(monkeypatch: pytest.MonkeyPatch) -> Journal:
    """Make proposals look cheap, so that even five records are worth being lazy about."""
    monkeypatch.setattr(nearest, "PROPOSAL_COST", 0)
    return Journal(monkeypatch)


LAZY = {
    "plain": Case(k=4),
    "weighted": Case(k=4) & WEIGHTS["weighted"],
    "opened": Case(k=4) & WEIGHTS["opened"],
    "summary points": Case(k=4) & PROBES["summary points"],
    "smoothed": Case(k=4) & smoothed(0.1),
    "smoothed, weighted": Case(k=4) & smoothed(0.1) & WEIGHTS["weighted"],
    "shaken": Case() & DENSITIES["shaken"],
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", LAZY)
def test_lazy_draws_are_exact(name: str, dtype: str, eager_to_propose: Journal) -> None:
    case = typed(LAZY[name], dtype)
    assert disagreement(case) is None
    eager_to_propose.require(*ALL_WAYS[:3], *ALL_WAYS[3:] * (case.k > 3))


N_LARGE = 3000
WAYPOINTS = np.array(
    [[0.0, 0.0], [8.0, 8.0], [8.0, 0.0], [0.0, 8.0], [4.0, 4.0], [4.0, 0.0]], dtype=np.float32
)


def crowd() -> tuple[np.ndarray, np.ndarray]:
    """Return records round the waypoints, several blocks of them, and weights with zeros."""
    rng = np.random.default_rng(3)
    near = rng.integers(len(WAYPOINTS), size=N_LARGE)
    records = WAYPOINTS[near] + rng.normal(size=(N_LARGE, 2))
    return records, rng.choice([0.0, 1.0, 2.5], size=N_LARGE)


def late_picks_disagree(dtype: str, weighted: bool, gamma: float) -> str | None:
    """Compare picks on a table of several blocks with their exact probabilities, by groups.

    The density leads from waypoint to waypoint whatever was picked, so that the centers of every
    run are the same and the exact probability of each round's pick is known.
    """
    records, weights = crowd()
    records = records.astype(dtype)
    waypoints = WAYPOINTS.astype(dtype)
    domain = dpkv.Box((-16.0, -16.0), (16.0, 16.0))
    rng = np.random.default_rng(11)
    indices = []
    for _ in range(4000):
        route = iter(waypoints)
        seeding = dpkv.kvariates(
            records,
            len(waypoints),
            density=CallableDensity(lambda _record, _rng, route=route: next(route)),
            sample_weight=weights if weighted else None,
            gamma=gamma,
            domain=domain,
            rng=rng,
        )
        indices.append(seeding.indices)
    picked = np.stack(indices)

    gaps = records[:, None, :].astype(float) - waypoints[None].astype(float)
    squares = (gaps**2).sum(axis=2)
    blocks = np.arange(N_LARGE) // 600
    for t in range(1, len(waypoints)):
        masses = squares[:, :t].min(axis=1) + gamma * 2 * 32.0**2
        masses *= weights if weighted else 1.0
        # Records that the newest center came near are what laziness could get wrong.
        groups = blocks * 10 + squares[:, : t + 1].argmin(axis=1)
        totals = np.bincount(groups, masses) / masses.sum()
        expected = {group: float(total) for group, total in enumerate(totals) if total > 0}
        wrong = implausible(groups[picked[:, t]].tolist(), expected, FALSE_ALARM / len(waypoints))
        if wrong:
            return f"round {t + 1}: {wrong}"
    return None


@pytest.mark.parametrize(
    ("dtype", "weighted", "gamma"),
    [("float64", False, 0.0), ("float32", True, 0.0), ("float64", True, 0.005)],
)
def test_lazy_draws_on_several_blocks(
    dtype: str, weighted: bool, gamma: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(monkeypatch)
    assert late_picks_disagree(dtype, weighted, gamma) is None
    journal.require(*ALL_WAYS)


# -- planted faults --------------------------------------------------------------------------------


def wrap_keeper(monkeypatch: pytest.MonkeyPatch, wrap: Callable[[Any], Any]) -> None:
    keep = nearest.keep_nearest
    monkeypatch.setattr(algorithm0, "keep_nearest", lambda *arguments: wrap(keep(*arguments)))


class OffByOne:
    """Reads the weights one record to the left."""

    def __init__(self, keeper: Any) -> None:
        self.add, self._draw = keeper.add, keeper.draw

    def draw(self, smoothing: float, rng: np.random.Generator) -> int | None:
        index = self._draw(smoothing, rng)
        return None if index is None else (index + 1) % len(TABLE)


class Forgetful:
    """Hears of a center one round late."""

    def __init__(self, keeper: Any) -> None:
        self._add, self.draw = keeper.add, keeper.draw
        self._late: Any = None

    def add(self, center: np.ndarray) -> None:
        self._add(center if self._late is None else self._late)
        self._late = center.copy()


def ignore_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    keep = nearest.keep_nearest
    monkeypatch.setattr(
        algorithm0, "keep_nearest", lambda records, _weights, *rest: keep(records, None, *rest)
    )


def halve_smoothing(monkeypatch: pytest.MonkeyPatch) -> None:
    smoothing = algorithm0._smoothing
    monkeypatch.setattr(algorithm0, "_smoothing", lambda *arguments: smoothing(*arguments) / 2)


def mix_up_references(monkeypatch: pytest.MonkeyPatch) -> None:
    swapped = {"released": "picked", "picked": "released"}
    kvariates = dpkv.kvariates
    monkeypatch.setattr(
        dpkv,
        "kvariates",
        lambda *rest, reference, **names: kvariates(*rest, reference=swapped[reference], **names),
    )


def shift_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    propose = kernels.propose
    monkeypatch.setattr(kernels, "propose", lambda *rest: (propose(*rest) + 1) % len(TABLE))


def swap_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    def backwards(_self: Any, points: np.ndarray, center: np.ndarray) -> np.ndarray:
        ratio = center / points
        return (ratio - np.log(ratio) - 1.0).sum(axis=1)

    monkeypatch.setattr(distortions.ItakuraSaito, "to_center", backwards)


FAULTS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], list[Case]]] = {
    "off by one": (
        lambda patch: wrap_keeper(patch, OffByOne),
        [PROBES["identity"], PROBES["moving"] & DENSITIES["shaken"], DISTORTIONS["kl"]],
    ),
    "off by one in the kernel": (shift_the_kernel, [Case(), WEIGHTS["weighted"]]),
    "newest center forgotten": (
        lambda patch: wrap_keeper(patch, Forgetful),
        [Case(), DENSITIES["laplace"], DENSITIES["shaken"], DISTORTIONS["itakura-saito"]],
    ),
    "weights ignored": (
        ignore_weights,
        [WEIGHTS["weighted"], WEIGHTS["opened"] & PROBES["minibatch"]],
    ),
    "references mixed up": (
        mix_up_references,
        [DENSITIES["shaken"] & REFERENCES[name] for name in REFERENCES] + [DENSITIES["laplace"]],
    ),
    "smoothing at half its value": (
        halve_smoothing,
        [smoothed(0.1), smoothed(0.1) & DENSITIES["shaken"] & REFERENCES["picked"]],
    ),
    "center before record in a divergence": (swap_arguments, [DISTORTIONS["itakura-saito"]]),
    "centers never clipped": (
        lambda patch: patch.setattr(dpkv.Box, "clip", lambda _box, values: values),
        [smoothed(0.0) & DENSITIES["shaken"]],
    ),
}


@pytest.mark.parametrize(
    ("fault", "case"),
    [
        pytest.param(plant, case, id=f"{name} {number}")
        for name, (plant, cases) in FAULTS.items()
        for number, case in enumerate(cases)
    ],
)
def test_planted_fault_is_caught(
    fault: Callable[[pytest.MonkeyPatch], None], case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert disagreement(case, N_RUNS_BESIDE_A_FAULT) is None
    fault(monkeypatch)
    assert disagreement(case, N_RUNS_BESIDE_A_FAULT) is not None


def never_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take stale proposals as they come."""
    propose = kernels.propose
    monkeypatch.setattr(
        kernels,
        "propose",
        lambda uniforms, running, points, pending, *rest: propose(
            uniforms, running, points, pending[:0], *rest
        ),
    )


@pytest.mark.parametrize("name", LAZY)
def test_planted_fault_stale_proposals_accepted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest, "PROPOSAL_COST", 0)
    never_refuse(monkeypatch)
    assert disagreement(LAZY[name]) is not None


def test_planted_fault_stale_proposals_accepted_on_several_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    never_refuse(monkeypatch)
    assert late_picks_disagree("float64", False, 0.0) is not None


def test_planted_fault_running_sums_of_the_wrong_block(monkeypatch: pytest.MonkeyPatch) -> None:
    propose = kernels.propose

    def shifted(uniforms: Any, running: Any, *rest: Any) -> Any:
        sums = np.diff(running, prepend=0.0)
        return propose(uniforms, np.array(list(accumulate(np.roll(sums, 1)))), *rest)

    monkeypatch.setattr(kernels, "propose", shifted)
    assert late_picks_disagree("float64", False, 0.0) is not None
