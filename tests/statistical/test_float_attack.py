"""The attack on floating-point noise: it tells neighbours apart by bits that only one can produce.

A float near 0 has finer steps than one near 1. So 0 + noise often is a number that 1 + noise can
never be, and one output settles which record there was, whatever eps was claimed (Mironov, CCS
2012). The attack below is written for any pair of samplers. It must succeed on numpy's Laplace
noise and fail on what a release does, whose outputs are points of one public grid.

Every verdict "separated" is wrong with probability below 1e-9.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats
from support.chance import FALSE_ALARM

from dpkv.domain import Box, Domain, L1Ball
from dpkv.grid import Grid
from dpkv.mechanisms import Forgy, KVariates, Neighbours
from dpkv.noise import OperatingSystemEntropy
from dpkv.records import run_on_points

Sampler = Callable[[int], np.ndarray]
"""From a number of outputs to that many, for one fixed input."""
Event = Callable[[np.ndarray], np.ndarray]

# -- the attack ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """What an attack shows about eps, with confidence 1 - 1e-9."""

    event: str
    here: float
    """How often the event came for the one input."""
    there: float
    """How often it came for the other."""
    eps: float
    """A lower bound on eps."""


def lowest_bit(values: np.ndarray) -> np.ndarray:
    """Return the exponent of the lowest bit that is set: values are odd multiples of 2 to it."""
    mantissas, exponents = np.frexp(values)
    whole = np.ldexp(mantissas, 53).astype(np.int64)
    trailing = np.where(whole == 0, 2000, np.frexp((whole & -whole).astype(np.float64))[1] - 1)
    return exponents - 53 + trailing


def candidate_events(outputs: np.ndarray) -> dict[str, Event]:
    """Return events of the low-order bits, and events of the size, to choose among."""
    bits = {f"no multiple of 2^{e}": (lambda y, e=e: lowest_bit(y) < e) for e in range(-75, -30)}
    cuts = np.quantile(outputs, np.linspace(0.02, 0.98, 25)).tolist()
    sizes = {f"above {cut:.3g}": (lambda y, cut=cut: y > cut) for cut in cuts}
    return bits | sizes


def least_ratio(event: Event, here: np.ndarray, there: np.ndarray) -> tuple[float, float, float]:
    """Return both frequencies, and a lower bound on the log of the probabilities' ratio.

    Clopper and Pearson's exact bounds, each wrong with probability 0.5e-9 at most.
    """
    n, seen, other = len(here), int(event(here).sum()), int(event(there).sum())
    low = stats.beta.ppf(FALSE_ALARM / 2, seen, n - seen + 1) if seen else 0.0
    high = stats.beta.isf(FALSE_ALARM / 2, other + 1, n - other) if other < n else 1.0
    bound = math.log(low / high) if low > 0 else -math.inf
    return seen / n, other / n, bound


def attack(sample_a: Sampler, sample_b: Sampler, n: int) -> Verdict:
    """Choose the most telling event on n outputs of each input, and judge it on n fresh ones."""
    first, second = sample_a(n), sample_b(n)
    events = candidate_events(np.concatenate([first, second]))
    events |= {f"not: {name}": (lambda y, e=event: ~e(y)) for name, event in events.items()}
    scores = {
        (name, swapped): least_ratio(event, *pair)[2]
        for name, event in events.items()
        for swapped, pair in enumerate([(first, second), (second, first)])
    }
    name, swapped = max(scores, key=lambda key: scores[key])
    fresh = [sample_a(n), sample_b(n)]
    here, there, eps = least_ratio(events[name], fresh[swapped], fresh[1 - swapped])
    return Verdict(name, here, there, eps)


def separates(sample_a: Sampler, sample_b: Sampler, claimed: float, n: int) -> bool:
    """Tell whether the samplers are not ``claimed``-private; wrongly with probability < 1e-9."""
    return attack(sample_a, sample_b, n).eps > claimed


def test_lowest_bits():
    values = np.array([1.0, 3.0, 0.75, -0.75, 2.0**-60, 1 + 2.0**-52, 6.0, 5e-324])
    assert lowest_bit(values).tolist() == [0, 0, -2, -2, -60, -52, 1, -1074]
    assert lowest_bit(np.array([0.0]))[0] > 1000  # a multiple of everything


# -- it succeeds on floating-point noise -----------------------------------------------------------


def numpy_laplace(record: float, scale: float, seed: int) -> Sampler:
    rng = np.random.default_rng(seed)
    return lambda n: record + rng.laplace(0.0, scale, n)


def test_numpy_laplace_is_separated():
    """1 + noise always is a multiple of 2^-53: between -1/2 and 1/2 the sum is exact, and noise
    of such a size has that step. 0 + noise is none for about every fourth output, which then
    settles that the record was 0."""
    verdict = attack(numpy_laplace(0.0, 1.0, 1), numpy_laplace(1.0, 1.0, 2), 20_000)
    assert verdict.event.startswith("no multiple of 2^-5")
    assert verdict.there == 0.0
    assert verdict.here > 0.2
    assert verdict.eps > 4.0  # where 1 was claimed; only the number of outputs limits it


@pytest.mark.parametrize(("a", "b", "scale"), [(0.0, 1.0, 10.0), (0.0, 3.0, 1.0), (0.25, 2.0, 4.0)])
def test_other_inputs_are_separated_too(a, b, scale):
    claimed = abs(b - a) / scale
    assert separates(numpy_laplace(a, scale, 3), numpy_laplace(b, scale, 4), claimed, 20_000)


def test_noise_as_it_is_claimed_is_not_separated():
    """Rounded to a coarse grid the very same noise shows no more than its eps."""

    def rounded(sampler: Sampler) -> Sampler:
        return lambda n: np.rint(sampler(n) * 1024) / 1024

    first, second = numpy_laplace(0.0, 1.0, 5), numpy_laplace(1.0, 1.0, 6)
    assert not separates(rounded(first), rounded(second), 1.001, 20_000)


def test_the_attack_sees_sizes_as_well():
    """Too little noise is found without any bits: half of it costs 2 where 1 is claimed."""
    assert separates(numpy_laplace(0.0, 0.5, 7), numpy_laplace(1.0, 0.5, 8), 1.0, 20_000)


# -- it fails on a release -------------------------------------------------------------------------

DOMAINS: dict[str, tuple[Domain, tuple[float, ...], tuple[float, ...]]] = {
    "unit interval": (Box((0.0,), (1.0,)), (0.0,), (1.0,)),
    "odd bounds": (Box((-0.3,), (7.1,)), (-0.3,), (7.1,)),
    "not scaled": (Box((0.0, 0.0), (3.0, 1.0), scaled=False), (0.0, 0.0), (3.0, 1.0)),
    "ball": (L1Ball((0.1, 0.2), 1.0), (1.1, 0.2), (-0.9, 0.2)),
}
N_OUTPUTS = 2000


def points(domain: Domain, record: tuple[float, ...]) -> tuple[Grid, np.ndarray]:
    grid = domain.grid()
    return grid, grid.quantise(np.array([record])).astype(np.int32)


def released(domain: Domain, record: tuple[float, ...], scale: float) -> Sampler:
    """Release a table of one record n times at once: Forgy's picks are independent of each other.

    The entropy, the noise and the way back to the user's coordinates are a release's own.
    """
    grid, table = points(domain, record)

    def sample(n: int) -> np.ndarray:
        mechanism = Forgy(n, grid, Neighbours.REPLACE_ONE, scale)
        drawn = run_on_points(mechanism, table, OperatingSystemEntropy()).centers
        return grid.restore(drawn)[:, 0]

    return sample


@pytest.mark.parametrize("name", DOMAINS)
def test_a_release_is_not_separated(name):
    """Each center is claimed to cost 1, and neighbours are as far apart as they can be."""
    domain, a, b = DOMAINS[name]
    scale = float(domain.grid().diam1)
    verdict = attack(released(domain, a, scale), released(domain, b, scale), N_OUTPUTS)
    assert verdict.eps <= 1.0


def test_planted_fault_a_release_with_a_third_of_its_noise_is_separated():
    domain, a, b = DOMAINS["unit interval"]
    scale = domain.grid().diam1 / 3
    assert separates(released(domain, a, scale), released(domain, b, scale), 1.0, N_OUTPUTS)


def test_kvariates_is_not_separated():
    """The mechanism that releases by default, run by run: one record, one center, eps = 1."""
    domain, *records = DOMAINS["unit interval"]
    entropy = OperatingSystemEntropy()

    def run_by_run(record: tuple[float, ...]) -> Sampler:
        grid, table = points(domain, record)
        mechanism = KVariates(1, grid, Neighbours.REPLACE_ONE, float(grid.diam1), 1, 1)
        assert mechanism.cost() == 1

        def sample(n: int) -> np.ndarray:
            drawn = [run_on_points(mechanism, table, entropy).centers[0] for _ in range(n)]
            return grid.restore(np.array(drawn))[:, 0]

        return sample

    assert not separates(*map(run_by_run, records), 1.0, 1000)


# -- because both inputs have the same outputs -----------------------------------------------------


def off_the_grid(outputs: np.ndarray, grid: Grid) -> int:
    """Count outputs that are no point of the public grid, bit by bit."""
    step, origin = grid.steps[0], grid.origin[0]
    levels = np.rint((outputs - origin) / step).astype(np.int64)
    rows = np.zeros((len(levels), grid.n_features), np.int64)
    rows[:, 0] = levels
    return int((grid.restore(rows)[:, 0] != outputs).sum())


@pytest.mark.parametrize("name", DOMAINS)
def test_all_outputs_are_points_of_the_public_grid(name):
    """Not a statistical test: one output off the grid would be one too many."""
    domain, a, b = DOMAINS[name]
    middle = tuple((x + y) / 2 + 0.01 for x, y in zip(a, b, strict=True))
    for record in (a, b, middle):
        outputs = released(domain, record, domain.grid().diam1 / 2)(N_OUTPUTS)
        assert off_the_grid(outputs, domain.grid()) == 0


def test_planted_faults_that_leave_the_grid():
    """Noise on the grid added to a record that is not on it, and noise in floats."""
    domain, *_ = DOMAINS["unit interval"]
    grid, record = domain.grid(), 0.123456
    _, table = points(domain, (record,))
    mechanism = Forgy(N_OUTPUTS, grid, Neighbours.REPLACE_ONE, 1000.0)
    drawn = run_on_points(mechanism, table, OperatingSystemEntropy()).centers
    noise = drawn[:, 0] - table[0, 0]
    unrounded = record + noise * grid.steps[0]
    assert off_the_grid(unrounded, grid) > N_OUTPUTS * 0.9
    assert off_the_grid(numpy_laplace(record, 0.1, 9)(N_OUTPUTS), grid) > N_OUTPUTS * 0.9
