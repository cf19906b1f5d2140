"""zCDP to (eps, delta): golden numbers from mpmath and from the exact Gaussian curve."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction

import mpmath
import pytest

from dpkv.accounting import Step, cost_of, gaussian_step, laplace_step
from dpkv.accounting.zcdp import eps_of_rho, largest_rho, smallest_gaussian_scale
from dpkv.errors import ParameterError
from dpkv.mechanisms import Noise

CASES = [(1e-6, 1e-9), (1e-4, 1e-6), (0.02, 1e-6), (0.5, 1e-3), (2.0, 1e-12), (40.0, 0.1)]


def by_mpmath(rho: float, delta: float) -> mpmath.mpf:
    """Minimise Proposition 12 of Canonne, Kamath and Steinke over the order, in 40 digits."""
    with mpmath.workdps(40):
        rho, delta = mpmath.mpf(rho), mpmath.mpf(delta)

        def eps(t):
            a = 1 + mpmath.exp(t)
            rest = mpmath.log(1 / delta) - mpmath.log(a - 1) + a * mpmath.log(1 - 1 / a)
            return a * rho + rest / (a - 1)

        start = mpmath.log(mpmath.sqrt(mpmath.log(1 / delta) / rho))
        return min(eps(start + mpmath.mpf(step) / 400) for step in range(-2000, 2001))


@pytest.mark.parametrize(("rho", "delta"), CASES)
def test_eps_is_the_least_over_all_orders(rho, delta):
    found = float(eps_of_rho(Fraction(rho), delta))
    least = float(by_mpmath(rho, delta))
    assert found == pytest.approx(least, rel=1e-4)
    assert found <= least * (1.0 + 1e-12)  # the grid of orders is coarser than the search


def gaussian_delta(eps: float, rho: float) -> float:
    """The exact delta of continuous Gaussian noise (Balle and Wang, 2018): mu = sqrt(2 rho)."""
    with mpmath.workdps(40):
        mu, eps = mpmath.sqrt(2 * mpmath.mpf(rho)), mpmath.mpf(eps)
        phi = mpmath.ncdf
        return float(phi(mu / 2 - eps / mu) - mpmath.exp(eps) * phi(-mu / 2 - eps / mu))


@pytest.mark.parametrize(("rho", "delta"), CASES)
def test_eps_is_never_below_what_gaussian_noise_needs_and_not_far_above(rho, delta):
    eps = float(eps_of_rho(Fraction(rho), delta))
    assert gaussian_delta(eps, rho) <= delta
    assert gaussian_delta(0.75 * eps, rho) > delta


def test_half_the_rho_would_be_seen():
    """The planted fault: sigma too small by sqrt(2)."""
    eps = float(eps_of_rho(Fraction(0.01), 1e-6))
    assert gaussian_delta(eps, 0.02) > 1e-6


@pytest.mark.parametrize("eps", ["0.001", "0.1", "1", "7.5", "300"])
@pytest.mark.parametrize("delta", [1e-15, 1e-6, 0.3])
def test_the_largest_rho_fits_and_a_hair_more_does_not(eps, delta):
    rho = largest_rho(Decimal(eps), delta)
    assert eps_of_rho(Fraction(rho), delta) <= Decimal(eps)
    assert eps_of_rho(Fraction(rho * (1 + 1e-9)), delta) > Decimal(eps)


@pytest.mark.parametrize("sensitivity", [1, 2, 7, 10**9, 10**30])
@pytest.mark.parametrize("rho", [1e-9, 0.018, 3.0])
def test_the_scale_is_the_least_float_that_suffices(sensitivity, rho):
    scale = smallest_gaussian_scale(sensitivity, rho)
    assert Fraction(sensitivity, 2) <= Fraction(rho) * Fraction(scale) ** 2
    below = math.nextafter(scale, 0.0)
    assert Fraction(sensitivity, 2) > Fraction(rho) * Fraction(below) ** 2


def test_edges():
    assert smallest_gaussian_scale(0, 1.0) == 0.0
    assert eps_of_rho(Fraction(0), 1e-6) == 0
    with pytest.raises(ParameterError, match="large enough for a finite noise"):
        smallest_gaussian_scale(10**700, 1e-300)


# -- prices ----------------------------------------------------------------------------------------


def test_a_gaussian_step_is_priced_exactly():
    step = gaussian_step("x", 9, 1.5)
    assert (step.eps, step.rho) == (None, Fraction(2))
    assert gaussian_step("x", 0, 0.0).rho == 0


def more_than(together: Decimal) -> Decimal:
    return Context(prec=100).add(together, Decimal(2))


def test_gaussian_steps_become_eps_once_and_pure_steps_join_where_they_cost_less():
    steps = (gaussian_step("g", 1, 10.0, 4),)
    together = cost_of(steps, 1e-6)
    assert together == eps_of_rho(Fraction(4, 200), 1e-6)
    small, large = laplace_step("l", 1, 20.0), laplace_step("l", 1, 0.5)
    by_square = eps_of_rho(Fraction(4, 200) + Fraction(1, 800), 1e-6)
    assert cost_of((*steps, small), 1e-6) == by_square < together + Decimal("0.05")
    assert cost_of((*steps, large), 1e-6) == more_than(together)
    assert cost_of((*steps, Step("d", Decimal(2))), 1e-6) == more_than(together)


def test_gaussian_noise_without_a_delta_has_no_finite_eps():
    assert cost_of((gaussian_step("g", 1, 10.0),)) == Decimal("Infinity")


def test_the_standard_deviation_of_a_gaussian():
    """The sum of z^2 exp(-z^2 / (2 s^2)) over the sum of weights, in mpmath."""
    with mpmath.workdps(30):
        weights = [
            mpmath.exp(-(mpmath.mpf(z) ** 2) / (2 * mpmath.mpf(3.7) ** 2)) for z in range(99)
        ]
        second = sum(2 * z * z * w for z, w in enumerate(weights)) / (2 * sum(weights) - 1)
        sd = float(mpmath.sqrt(second))
    assert Noise("x", 3.7, "records", "discrete-gaussian").sd == pytest.approx(sd, rel=1e-12)
