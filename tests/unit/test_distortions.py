from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import special
from scipy.spatial import distance

from dpkv.distortions import (
    SQUARED_EUCLIDEAN,
    ItakuraSaito,
    KullbackLeibler,
    Mahalanobis,
    TotalJensen,
    burg,
    negative_entropy,
    squared_norm,
)
from dpkv.errors import ParameterError, UsageError

RNG = np.random.default_rng(0)
POINTS = RNG.uniform(0.1, 5.0, size=(40, 3))
CENTER = np.array([0.5, 2.0, 4.0])
ROOT = RNG.normal(size=(3, 3))
MATRIX = ROOT @ ROOT.T

ALL = {
    "squared": SQUARED_EUCLIDEAN,
    "mahalanobis": Mahalanobis(MATRIX),
    "kl": KullbackLeibler(),
    "itakura-saito": ItakuraSaito(),
    "jensen, squared norm": TotalJensen(squared_norm, 0.3),
    "jensen, negative entropy": TotalJensen(negative_entropy, 0.3),
    "jensen, burg": TotalJensen(burg, 0.3),
}


# -- values ----------------------------------------------------------------------------------------


def test_squared_against_scipy() -> None:
    expected = [distance.sqeuclidean(a, CENTER) for a in POINTS]
    np.testing.assert_allclose(SQUARED_EUCLIDEAN.to_center(POINTS, CENTER), expected, rtol=1e-12)


def test_mahalanobis_against_scipy() -> None:
    expected = [distance.mahalanobis(a, CENTER, MATRIX) ** 2 for a in POINTS]
    np.testing.assert_allclose(Mahalanobis(MATRIX).to_center(POINTS, CENTER), expected, rtol=1e-10)


def test_mahalanobis_of_a_singular_matrix_ignores_its_null_space() -> None:
    flat = Mahalanobis(np.array([[1.0, 1.0], [1.0, 1.0]]))
    points = np.array([[1.0, -1.0], [2.0, 1.0]])
    np.testing.assert_allclose(flat.to_center(points, np.zeros(2)), [0.0, 9.0], atol=1e-12)


def test_kl_against_scipy() -> None:
    expected = (special.rel_entr(POINTS, CENTER) - POINTS + CENTER).sum(axis=1)
    np.testing.assert_allclose(KullbackLeibler().to_center(POINTS, CENTER), expected, rtol=1e-12)


def test_itakura_saito_is_kl_of_rates_at_one() -> None:
    # a/c - log(a/c) - 1 = kl_div(1, a/c), which scipy calculates
    expected = special.kl_div(1.0, POINTS / CENTER).sum(axis=1)
    np.testing.assert_allclose(ItakuraSaito().to_center(POINTS, CENTER), expected, rtol=1e-12)


def bregman(
    generator: Callable[[Any], float], gradient: Callable[[Any], Any], a: Any, c: Any
) -> float:
    return generator(a) - generator(c) - float(np.dot(gradient(c), a - c))


@pytest.mark.parametrize(
    ("name", "generator", "gradient"),
    [
        ("squared", lambda x: float(x @ x), lambda x: 2 * x),
        ("mahalanobis", lambda x: float(x @ MATRIX @ x), lambda x: 2 * MATRIX @ x),
        ("kl", lambda x: float(x @ np.log(x)), lambda x: 1 + np.log(x)),
        ("itakura-saito", lambda x: float(-np.log(x).sum()), lambda x: -1 / x),
    ],
)
def test_bregman_divergences_have_their_generators(
    name: str, generator: Callable[[Any], float], gradient: Callable[[Any], Any]
) -> None:
    expected = [bregman(generator, gradient, a, CENTER) for a in POINTS]
    np.testing.assert_allclose(ALL[name].to_center(POINTS, CENTER), expected, rtol=1e-9)


def test_total_jensen_by_hand() -> None:
    # phi = x^2, a = 3, c = 1, alpha = 1/4: J = 9/4 + 3/4 - (3/2)^2 = 3/4, U = (9 - 1) / 2 = 4
    skew = Fraction(9, 4) + Fraction(3, 4) - Fraction(3, 2) ** 2
    measured = TotalJensen(squared_norm, 0.25).to_center(np.array([[3.0]]), np.array([1.0]))
    assert measured.item() == pytest.approx(float(skew) / math.sqrt(17), rel=1e-14)


PLAIN = {
    squared_norm: lambda x: math.fsum(v * v for v in x),
    negative_entropy: lambda x: math.fsum(v * math.log(v) for v in x),
    burg: lambda x: -math.fsum(map(math.log, x)),
}


@pytest.mark.parametrize("alpha", [0.05, 0.3, 0.5, 0.95])
@pytest.mark.parametrize("generator", PLAIN)
def test_total_jensen_against_its_definition(generator: Any, alpha: float) -> None:
    phi = PLAIN[generator]
    expected = []
    for a in POINTS:
        skew = alpha * phi(a) + (1 - alpha) * phi(CENTER) - phi(alpha * a + (1 - alpha) * CENTER)
        slope = (phi(a) - phi(CENTER)) / math.dist(a, CENTER)
        expected.append(skew / math.hypot(1, slope))
    measured = TotalJensen(generator, alpha).to_center(POINTS, CENTER)
    np.testing.assert_allclose(measured, expected, rtol=1e-9)


# -- what every distortion has ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_zero_exactly_where_record_and_center_agree(name: str) -> None:
    points = np.vstack([POINTS, CENTER])
    measured = ALL[name].to_center(points, CENTER)
    assert measured.shape == (41,)
    assert measured[-1] == 0.0
    assert (measured[:-1] > 0).all()


@pytest.mark.parametrize("name", ALL)
def test_never_negative_next_to_the_center(name: str) -> None:
    crumbs = CENTER * (1 + np.linspace(-1e-8, 1e-8, 101)[:, np.newaxis])  # pure cancellation
    assert (ALL[name].to_center(crumbs, CENTER) >= 0).all()


@pytest.mark.parametrize("name", ALL)
def test_float32_records_lose_nothing_to_cancellation(name: str) -> None:
    points = (CENTER * (1 + np.random.default_rng(1).uniform(0.001, 0.002, size=(20, 3)))).astype(
        np.float32
    )
    center = CENTER.astype(np.float32)
    exact = ALL[name].to_center(points.astype(np.float64), center.astype(np.float64))
    np.testing.assert_allclose(ALL[name].to_center(points, center), exact, rtol=1e-4)


@pytest.mark.parametrize("name", ["kl", "itakura-saito", "jensen, burg"])
def test_the_record_comes_first(name: str) -> None:
    there = ALL[name].to_center(POINTS, CENTER)
    back = np.array([ALL[name].to_center(CENTER[np.newaxis], a).item() for a in POINTS])
    assert not np.allclose(there, back, rtol=0.05)


@pytest.mark.parametrize("name", ["squared", "mahalanobis", "kl", "itakura-saito"])
def test_the_mean_minimises_bregman_divergences(name: str) -> None:
    """Only the divergence of records *from* the center has this; the order matters."""
    mean = POINTS.mean(axis=0)
    least = ALL[name].to_center(POINTS, mean).sum()
    for step in np.vstack([np.eye(3), -np.eye(3)]) * 0.05:
        assert ALL[name].to_center(POINTS, mean + step).sum() > least


# -- total Jensen ----------------------------------------------------------------------------------


@pytest.mark.parametrize("generator", PLAIN)
def test_total_jensen_is_symmetric_at_one_half(generator: Any) -> None:
    measure = TotalJensen(generator, 0.5)
    there = measure.to_center(POINTS, CENTER)
    back = [measure.to_center(CENTER[np.newaxis], a).item() for a in POINTS]
    np.testing.assert_allclose(there, back, rtol=1e-9)


@pytest.mark.parametrize("generator", PLAIN)
def test_swapping_arguments_is_swapping_alpha(generator: Any) -> None:
    there = TotalJensen(generator, 0.3).to_center(POINTS, CENTER)
    other = TotalJensen(generator, 0.7)
    back = [other.to_center(CENTER[np.newaxis], a).item() for a in POINTS]
    np.testing.assert_allclose(there, back, rtol=1e-9)


@pytest.mark.parametrize(
    ("generator", "name"),
    [(squared_norm, "squared"), (negative_entropy, "kl"), (burg, "itakura-saito")],
)
def test_total_jensen_tends_to_a_bregman_divergence(generator: Any, name: str) -> None:
    """As alpha -> 0, tJ_alpha / alpha -> B(a || c) / sqrt(1 + U^2)."""
    alpha = 1e-6
    phi = generator(POINTS) - generator(CENTER[np.newaxis])
    slope = phi / np.linalg.norm(POINTS - CENTER, axis=1)
    limit = ALL[name].to_center(POINTS, CENTER) / np.sqrt(1 + slope**2)
    scaled = TotalJensen(generator, alpha).to_center(POINTS, CENTER) / alpha
    np.testing.assert_allclose(scaled, limit, rtol=1e-4, atol=1e-8)


def test_total_jensen_of_the_squared_norm_is_invariant_under_rotation() -> None:
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    measure = TotalJensen(squared_norm, 0.3)
    plain = measure.to_center(POINTS, CENTER)
    rotated = measure.to_center(POINTS @ rotation.T, CENTER @ rotation.T)
    np.testing.assert_allclose(rotated, plain, rtol=1e-10)


def test_total_jensen_of_another_generator_is_not_invariant() -> None:
    quarter_turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    points, center = np.array([[1.0, 2.0]]), np.array([3.0, 5.0])
    measure = TotalJensen(lambda x: x**2 @ np.array([1.0, 5.0]), 0.3)
    plain = measure.to_center(points, center)
    assert not np.allclose(measure.to_center(points @ quarter_turn.T, quarter_turn @ center), plain)


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [0.0, -1.0])
@pytest.mark.parametrize("measure", [KullbackLeibler(), ItakuraSaito()])
def test_positive_divergences_refuse_other_points(measure: Any, bad: float) -> None:
    measure.check(POINTS)
    points = POINTS.copy()
    points[7, 1] = bad
    with pytest.raises(UsageError, match="strictly positive"):
        measure.check(points)


@pytest.mark.parametrize("bad", [0.0, -1.0])
@pytest.mark.parametrize("generator", [negative_entropy, burg])
def test_total_jensen_refuses_points_outside_its_generator(generator: Any, bad: float) -> None:
    measure = TotalJensen(generator)
    measure.check(POINTS)
    points = POINTS.copy()
    points[7, 1] = bad
    with pytest.raises(UsageError, match="generator must be finite"):
        measure.check(points)


def test_everywhere_finite_distortions_accept_any_sign() -> None:
    for measure in (SQUARED_EUCLIDEAN, Mahalanobis(MATRIX), TotalJensen(squared_norm)):
        measure.check(-POINTS)


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, 1.5, math.nan, math.inf])
def test_total_jensen_refuses_alpha_outside_the_open_interval(alpha: float) -> None:
    with pytest.raises(ParameterError, match="alpha must be strictly between 0 and 1"):
        TotalJensen(squared_norm, alpha)


@pytest.mark.parametrize(
    ("matrix", "why"),
    [
        ([[1.0, 2.0, 3.0]], "square"),
        ([1.0, 2.0], "square"),
        ([[1.0, 2.0], [0.0, 1.0]], "symmetric"),
        ([[1.0, math.nan], [math.nan, 1.0]], "finite"),
        ([[1.0, 2.0], [2.0, 1.0]], "positive semi-definite"),
    ],
)
def test_mahalanobis_refuses_other_matrices(matrix: Any, why: str) -> None:
    with pytest.raises(ParameterError, match=why):
        Mahalanobis(np.array(matrix))


def test_mahalanobis_refuses_points_of_another_width() -> None:
    with pytest.raises(ParameterError, match="2 columns wide"):
        Mahalanobis(MATRIX).check(POINTS[:, :2])
