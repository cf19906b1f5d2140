"""Entropy and scales: what may enter a release, extremes, refusals. Distributions are tested in
``statistical/test_mechanisms_exactly.py``."""

from __future__ import annotations

import inspect
import math
import random
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from support.run import dpkv as run_dpkv

import dpkv
from dpkv.errors import ParameterError
from dpkv.noise import OperatingSystemEntropy, SeededEntropy, smallest_scale

FARTHEST = 2**62


@pytest.fixture(params=["system", "seeded"])
def entropy(request: pytest.FixtureRequest):
    return OperatingSystemEntropy() if request.param == "system" else SeededEntropy(11)


# -- no seed can enter a release -------------------------------------------------------------------


def parameters(function: object) -> set[str]:
    return set(inspect.signature(function).parameters)


SEEDLIKE = ("seed", "rng", "random_state", "entropy", "generator")


@pytest.mark.parametrize(
    "function",
    [
        dpkv.release,
        OperatingSystemEntropy,
        OperatingSystemEntropy.below,
        OperatingSystemEntropy.add_laplace,
        OperatingSystemEntropy.coins,
    ],
)
def test_nothing_of_a_release_takes_a_seed(function):
    assert not {name for name in parameters(function) if any(word in name for word in SEEDLIKE)}


def test_the_check_sees_a_seed_where_there_is_one():
    assert "seed" in parameters(dpkv.simulate)
    assert "seed" in parameters(SeededEntropy)


def test_operating_system_entropy_takes_no_arguments():
    assert not parameters(OperatingSystemEntropy)
    with pytest.raises(TypeError):
        OperatingSystemEntropy(1)
    with pytest.raises(TypeError):
        OperatingSystemEntropy(seed=1)


@pytest.mark.processes
def test_the_command_has_no_seed(tmp_path: Path):
    release = run_dpkv("release", "--help", cwd=tmp_path)
    simulate = run_dpkv("simulate", "--help", cwd=tmp_path)
    assert (release.returncode, simulate.returncode) == (0, 0)
    assert "--seed" in simulate.stdout
    assert "--seed" not in release.stdout
    assert "--rng" not in release.stdout


def draws(entropy) -> tuple:
    noisy = entropy.add_laplace(np.zeros(20, np.int64), 1e6)
    return entropy.below(2**128), tuple(noisy.tolist()), entropy.coins()


def test_two_releases_draw_differently_whatever_global_generators_say():
    """Each of the three parts agrees by chance with probability below 2^-100."""
    found = []
    for _ in range(2):
        random.seed(5)
        np.random.seed(5)  # noqa: NPY002
        found.append(draws(OperatingSystemEntropy()))
    for first, second in zip(*found, strict=True):
        assert first != second


def test_seeded_draws_repeat_and_depend_on_the_seed():
    assert draws(SeededEntropy(5)) == draws(SeededEntropy(5))
    assert draws(SeededEntropy(5)) != draws(SeededEntropy(6))
    assert draws(SeededEntropy(np.random.SeedSequence(5))) == draws(SeededEntropy(5))


def test_seeded_draws_leave_global_generators_alone():
    np.random.seed(5)  # noqa: NPY002
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    draws(SeededEntropy(5))
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


@pytest.mark.parametrize("seed", [-1, 1.5, True, None, "5"])
def test_refused_seeds(seed):
    with pytest.raises(ParameterError, match="seed must be a whole number"):
        SeededEntropy(seed)


# -- integers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("bound", [1, 2, 3, 255, 256, 257, 2**64 - 1, 2**64, 2**64 + 1, 10**60])
def test_below_stays_below(entropy, bound):
    found = [entropy.below(bound) for _ in range(200)]
    assert all(type(number) is int for number in found)
    assert all(0 <= number < bound for number in found)


# -- noise -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (3, 2), (2, 0)])
def test_noise_keeps_shape_and_type_and_leaves_the_values_alone(entropy, shape):
    values = np.full(shape, 5, np.int64)
    noisy = entropy.add_laplace(values, 1e9)
    assert noisy.shape == shape
    assert noisy.dtype == np.int64
    assert (values == 5).all()


@pytest.mark.parametrize("scale", [0.0, 5e-324, 1e-300, 1e-3])
def test_no_noise_and_next_to_none(entropy, scale):
    """At 1e-3 a number other than 0 has probability 2 exp(-1000)."""
    values = np.array([[5, -3], [FARTHEST, -FARTHEST]])
    assert entropy.add_laplace(values, scale).tolist() == values.tolist()


@pytest.mark.parametrize("scale", [2.0**61, 1e19, 1e300])
def test_noise_beyond_int64_is_cut(entropy, scale):
    """Both signs fail to come among 900 with probability 2^-899; a wrapped sum would lose one."""
    values = np.tile([2**50, -(2**50), 0], 300)
    noisy = entropy.add_laplace(values, scale)
    assert np.abs(noisy).max() == FARTHEST
    for column in noisy.reshape(-1, 3).T:
        assert {-1, 1} <= set(np.sign(column).tolist())


def test_the_largest_scale_of_all():
    """A release has it exactly. (The simulation's floats are tested below.)"""
    noisy = OperatingSystemEntropy().add_laplace(np.zeros(200, np.int64), 1.7e308)
    assert set(np.abs(noisy).tolist()) == {FARTHEST}  # closer has probability 1e-289


def test_the_largest_scale_of_all_in_a_simulation():
    noisy = SeededEntropy(1).add_laplace(np.zeros(1000, np.int64), 1.7e308)
    assert np.abs(noisy).max() <= FARTHEST


# -- the least noise -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sensitivity", "eps", "scale"),
    [
        (0, 1.0, 0.0),
        (1, 1.0, 1.0),
        (65535, 0.5, 131070.0),
        (3, 4.0, 0.75),
        (1, 2.0**-1000, 2.0**1000),
        (2**53, 2.0**60, 2.0**-7),
    ],
)
def test_scales_that_floats_hold_exactly(sensitivity, eps, scale):
    assert smallest_scale(sensitivity, eps) == scale


def too_small(scale: float, sensitivity: int, eps: float) -> bool:
    return Fraction(sensitivity) > Fraction(scale) * Fraction(eps)


@pytest.mark.parametrize("sensitivity", [1, 3, 7, 65535, 3 * 65535 * 15, 2**53 - 1])
@pytest.mark.parametrize("eps", [0.1, 0.3, 1 / 3, 1e-3, 9.7, 1e-290, 1e6, 1e300])
def test_the_least_scale_and_not_a_float_less(sensitivity, eps):
    scale = smallest_scale(sensitivity, eps)
    assert not too_small(scale, sensitivity, eps)
    assert too_small(math.nextafter(scale, 0.0), sensitivity, eps)


def test_rounding_up_matters():
    """The quotient of the floats alone is too small for one eps in a few: the check above bites."""
    short = [eps for eps in np.linspace(0.01, 5, 500) if too_small(65535 / eps, 65535, eps)]
    assert 50 < len(short) < 450


@pytest.mark.parametrize(("sensitivity", "eps"), [(1, 5e-324), (65535, 1e-305), (2**60, 1e-300)])
def test_a_noise_that_is_not_finite_is_refused(sensitivity, eps):
    with pytest.raises(ParameterError, match="eps must be large enough for a finite noise"):
        smallest_scale(sensitivity, eps)
