"""The expected potential of noisy seeding stays below the bound of Theorem 1 (expected potential).

The optimum is exact (every partition is tried), and every term of the bound is worked out here. A
claim "E[phi] <= bound" is refuted when a lower confidence limit of E[min(phi, 3 bound)] exceeds the
bound: clipping only lowers the mean and makes Hoeffding's inequality hold at any sample size, so
that correct code is refuted with probability below 1e-9 (`FALSE_ALARM`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from support.chance import FALSE_ALARM
from support.enumeration import (
    all_runs,
    closest,
    optimum,
    potential,
    released,
    squared,
    uniform_on_group,
)

import dpkv
from dpkv.seeding import Dirac, Gaussian, ProductLaplace, UniformOnSubset

# Three clusters, tight compared with the noise below, so that the noise terms decide the bound.
RECORDS = [
    (0.0, 0.0), (0.25, 0.0), (0.0, 0.5), (8.0, 0.0), (8.25, 0.5), (4.0, 9.0), (4.0, 9.5),
]  # fmt: skip
TABLE = np.array(RECORDS)
GROUPS = [0, 0, 1, 1, 1, 2, 2]  # the second shard spans two clusters
M = len(RECORDS)
OPTIMA = {k: optimum(RECORDS, k) for k in (1, 2, 3)}


@dataclass(frozen=True)
class Noise:
    """A density and its variance term, by hand."""

    density: Any
    variance: float


def group_mean(group: int) -> tuple[float, ...]:
    members = [a for a, g in zip(RECORDS, GROUPS, strict=True) if g == group]
    return tuple(sum(column) / len(members) for column in zip(*members, strict=True))


MATES_MEAN = [group_mean(group) for group in GROUPS]

NOISES = {
    "none": Noise(Dirac(), 0.0),
    "laplace": Noise(ProductLaplace(1.5), M * 2 * 2 * 1.5**2),  # records, columns, 2 b^2
    "gaussian": Noise(Gaussian(np.array([0.5, 3.0])), M * (0.5**2 + 3.0**2)),
    "shards": Noise(
        UniformOnSubset(np.array(GROUPS)),
        sum(squared(a, mean) for a, mean in zip(RECORDS, MATES_MEAN, strict=True)),
    ),
}


def bias(name: str, k: int) -> float:
    means = MATES_MEAN if name == "shards" else RECORDS
    centers = OPTIMA[k][1]
    pairs = zip(RECORDS, means, strict=True)
    return sum(squared(mean, closest(a, centers)) for a, mean in pairs)


def bound_of_theorem_1(name: str, k: int, variance: float) -> float:
    return (2 + math.log(k)) * (6 * OPTIMA[k][0] + 2 * bias(name, k) + 2 * variance)


def potentials(density: Any, k: int, n_runs: int = 2000) -> np.ndarray:
    rng = np.random.default_rng(5)
    runs = (dpkv.kvariates(TABLE, k, density=density, rng=rng) for _ in range(n_runs))
    return np.array([dpkv.potential(TABLE, run.centers) for run in runs])


def margin(width: float, n: int, false_alarm: float) -> float:
    """Hoeffding: how far the mean of n numbers in a range of this width strays one way."""
    return width * math.sqrt(math.log(1 / false_alarm) / (2 * n))


def refuted(bound: float, observed: np.ndarray) -> bool:
    ceiling = 3 * bound
    mean = np.minimum(observed, ceiling).mean()
    return bool(mean - margin(ceiling, len(observed), FALSE_ALARM) > bound)


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("name", NOISES)
def test_expected_potential_is_within_the_bound(name: str, k: int) -> None:
    noise = NOISES[name]
    bound = bound_of_theorem_1(name, k, noise.variance)
    terms = dpkv.noise_terms(TABLE, OPTIMA[k][1], noise.density)
    ours = dpkv.expected_potential_bound(k, OPTIMA[k][0], bias=terms.bias, variance=terms.variance)
    assert ours == pytest.approx(bound, rel=1e-12)
    assert not refuted(bound, potentials(noise.density, k))


@pytest.mark.parametrize("name", ["laplace", "gaussian"])
def test_planted_fault_bound_without_its_variance_term(name: str) -> None:
    assert refuted(bound_of_theorem_1(name, 3, variance=0.0), potentials(NOISES[name].density, 3))


@pytest.mark.parametrize(
    ("name", "louder"),
    [("laplace", ProductLaplace(9.0)), ("gaussian", Gaussian(np.array([3.0, 18.0])))],
)
def test_planted_fault_noise_louder_than_declared(name: str, louder: Any) -> None:
    assert refuted(bound_of_theorem_1(name, 3, NOISES[name].variance), potentials(louder, 3))


# -- without sampling, and against the exact expectation -------------------------------------------


def exact_potentials(k: int) -> dict[float, float]:
    """Return potential -> probability over all runs that release through the shards."""
    runs = all_runs(RECORDS, k, density=uniform_on_group(GROUPS))
    spread: dict[float, float] = {}
    for run, chance in runs.items():
        phi = potential(RECORDS, released(run))
        spread[phi] = spread.get(phi, 0.0) + chance
    return spread


def strays(observed: np.ndarray, exact: dict[float, float]) -> bool:
    mean = sum(phi * chance for phi, chance in exact.items())
    return bool(abs(observed.mean() - mean) > margin(max(exact), len(observed), FALSE_ALARM / 2))


@pytest.mark.parametrize("k", [1, 2, 3])
def test_exact_expectation_through_shards(k: int) -> None:
    exact = exact_potentials(k)
    assert sum(phi * p for phi, p in exact.items()) <= bound_of_theorem_1(
        "shards", k, NOISES["shards"].variance
    )
    assert not strays(potentials(NOISES["shards"].density, k, 4000), exact)


def test_planted_fault_seeding_without_distances() -> None:
    rng = np.random.default_rng(5)
    density = NOISES["shards"].density
    runs = (dpkv.kvariates(TABLE, 3, density=density, gamma=math.inf, rng=rng) for _ in range(4000))
    blind = np.array([dpkv.potential(TABLE, run.centers) for run in runs])
    assert strays(blind, exact_potentials(3))


@pytest.mark.parametrize("name", NOISES)
def test_one_center_has_twice_the_optimum_plus_the_noise(name: str) -> None:
    """For k = 1, E[phi] = phi_opt + sum ||mu_a - mean||^2 + variance, exactly.

    The potentials of Gaussian and Laplace noise are not bounded, so this asks the mean of 4000 runs
    to be within 8 standard errors. A normal mean strays that far with probability 1e-15; the worst
    skewness here (about 7, a squared Laplace variable) raises that by a factor of about
    exp(7 * 8^3 / (6 sqrt(4000))) < 2e4, well below 1e-9.
    """
    noise = NOISES[name]
    observed = potentials(noise.density, 1, 4000)
    expected = OPTIMA[1][0] + bias(name, 1) + noise.variance
    error = observed.std() / math.sqrt(len(observed))
    assert abs(observed.mean() - expected) < 8 * error
    assert abs(observed.mean() - 1.5 * expected) > 8 * error  # and the check can tell
