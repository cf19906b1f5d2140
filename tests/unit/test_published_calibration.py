"""The paper's calibration as printed: eps~ and noise, likelihood ratio, many records."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from dpkv.paper import published_calibration
from dpkv.paper.published_calibration import (
    LAPLACE_IS_BETTER,
    likelihood_ratio_bound,
    potential_bounds,
    published_eps_tilde,
    sigma_kvariates,
    sigma_laplace,
    sublinear_regime,
)

USUAL = [
    # eps, k, spread, monotonicity
    (1.0, 2, 0.001, 0.5),
    (1.0, 3, 1e-4, 2.0),
    (0.1, 4, 1e-9, 0.0),
    (5.0, 8, 1e-12, 10.0),
    (0.5, 2, 0.25, 3.0),
    (2.0, 1, 0.3, 1.0),  # f(1) = 1/16 and no factor of either
]


def ratio_as_printed(k: int, spread: float, monotonicity: float, rho: float) -> Fraction:
    """(1+dw)^(k-1) + f(k) dw (1+ds)^(k-1) rho in fractions, with f(k) = 4^(2k-4)."""
    dw, ds = Fraction(spread), Fraction(monotonicity)
    return (1 + dw) ** (k - 1) + Fraction(4) ** (2 * k - 4) * dw * (1 + ds) ** (k - 1) * Fraction(
        rho
    )


@pytest.mark.parametrize(("eps", "k", "spread", "monotonicity"), USUAL)
def test_eps_tilde_as_printed(eps, k, spread, monotonicity):
    kept = ratio_as_printed(k, spread, monotonicity, 0)
    price = ratio_as_printed(k, spread, monotonicity, 1) - kept
    expected = math.log((Fraction(math.exp(eps)) - kept) / price)
    assert published_eps_tilde(eps, k, spread, monotonicity).value == pytest.approx(expected)


@pytest.mark.parametrize(("eps", "k", "spread", "monotonicity"), USUAL)
def test_the_likelihood_ratio_at_eps_tilde_is_e_to_the_eps(eps, k, spread, monotonicity):
    eps_tilde = published_eps_tilde(eps, k, spread, monotonicity).value
    ratio = likelihood_ratio_bound(k, spread, monotonicity, eps_tilde)
    assert ratio == pytest.approx(math.exp(eps), rel=1e-12)


def test_the_likelihood_ratio_as_printed():
    for k, spread, monotonicity, rho in [(2, 0.5, 3.0, 7.0), (5, 0.01, 0.2, 2.5), (3, 9.0, 0, 1.0)]:
        expected = float(ratio_as_printed(k, spread, monotonicity, rho))
        found = likelihood_ratio_bound(k, spread, monotonicity, math.log(rho))
        assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("eps", "k", "spread", "monotonicity", "defined"),
    [
        (1.0, 2, math.e - 1, 0.0, False),  # e^eps = (1+dw)^(k-1)
        (1.0, 5, 0.5, 0.0, False),
        (1.0, 3, math.inf, 0.0, False),
        (1.0, 3, 0.01, math.inf, False),
        (1.0, 4, 0.01, 1.0, True),  # defined, and below eps/k
    ],
)
def test_where_the_laplace_mechanism_is_better(eps, k, spread, monotonicity, defined):
    found = published_eps_tilde(eps, k, spread, monotonicity)
    assert (found.value is not None) is defined
    assert LAPLACE_IS_BETTER in found.note
    if defined:
        assert found.value <= eps / k


def test_no_note_where_the_printed_noise_is_the_smaller_one():
    found = published_eps_tilde(1.0, 2, 1e-4, 1.0)
    assert found.value > 1.0 / 2
    assert found.note == ""


def test_the_note_comes_exactly_when_eps_tilde_reaches_eps_over_k():
    # k = 2, ds = 0: eps~ = eps/2 when e^eps - 1 - dw = dw e^(eps/2), so dw = e^(eps/2) - 1
    spread = math.expm1(0.5)
    assert published_eps_tilde(1.0, 2, spread * 1.001, 0.0).note == LAPLACE_IS_BETTER
    assert published_eps_tilde(1.0, 2, spread * 0.999, 0.0).note == ""


def test_a_hair_above_undefined_is_a_number():
    eps = math.nextafter(math.log1p(0.1), 1.0)  # e^eps and 1 + dw differ by less than an ulp of 1
    found = published_eps_tilde(eps, 2, 0.1, 0.1)
    assert found.value < -30
    assert LAPLACE_IS_BETTER in found.note


def test_large_values_do_not_overflow():
    assert published_eps_tilde(1e4, 2, 0.1, 1.0).value == pytest.approx(1e4 - math.log(0.2))
    assert published_eps_tilde(1.0, 500, 1e-9, 1e300).value < -300000
    assert published_eps_tilde(1.0, 300, 1e300, 1.0).value is None
    assert likelihood_ratio_bound(10, 1e300, 1.0, 0.0) == math.inf
    assert likelihood_ratio_bound(2, 0.1, 1.0, 1e4) == math.inf
    assert potential_bounds(1.0, 10, 2, 1e300).printed == math.inf


def test_sigmas_as_printed():
    radius = 3.5  # the paper's L1 ball, of diameter 2 R
    assert sigma_kvariates(2 * radius, 7.6) == pytest.approx(2 * math.sqrt(2) * radius / 7.6)
    expected = 2 * math.sqrt(2) * 4 * radius / 0.5
    assert expected <= sigma_laplace(2 * radius, 4, 0.5) <= expected * (1 + 1e-14)


def test_potential_bounds_in_both_readings():
    optimum, m, d, radius, eps_tilde = 12.0, 1000, 7, 3.0, 2.5
    sigma = 2 * math.sqrt(2) * radius / eps_tilde
    bounds = potential_bounds(optimum, m, d, sigma)
    assert bounds.printed == pytest.approx(8 * (optimum + m * radius**2 / eps_tilde**2))
    # Theorem 1 (expected potential) with phi_bias = phi_opt and phi_var = m d sigma^2
    assert bounds.dimension_aware == pytest.approx(6 * optimum + 2 * optimum + 2 * m * d * sigma**2)
    assert potential_bounds(optimum, m, d, 0.0) == published_calibration.PotentialBounds(96.0, 96.0)


def test_sublinear_regime_as_printed():
    # delta = 1/2, rho_D = 1: k <= sqrt(m) / 16
    m, d, eps_tilde = 10_000, 2, 3.0
    for k, applies in [(1, True), (6, True), (7, False)]:
        regime = sublinear_regime(m, k, d, eps_tilde)
        assert (regime.largest_k, regime.applies) == (6, applies)
        g = 4 / m ** (1 / 4 + 1 / (d + 1)) + (64 / k ** (2 / d)) ** k * math.exp(2 * eps_tilde) / m
        assert regime.g == pytest.approx(g)
    assert sublinear_regime(m, 2, d, None).g is None
    assert sublinear_regime(m, 200, d, 1e4).g is None  # beyond every float
    wide = sublinear_regime(m, 2, d, 1.0, density_ratio=3.0, failure_probability=0.4)
    assert wide.largest_k == math.floor(0.4**2 * 100 / 12)
