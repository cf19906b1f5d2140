"""Theorem A: golden values, the edges of floats, and the theorem itself on tiny domains."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from itertools import product

import mpmath
import pytest
from scipy import optimize
from support import enumeration
from support.bruteforce import affordable

from dpkv.calibration import certify, uniform_pick_ceiling
from dpkv.errors import ParameterError

EUROPE = 169308


# -- the solver ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("k", "expected"), [(2, 9.98), (4, 8.67), (8, 7.75)])
def test_golden_values(k, expected):
    # eps = 1, gamma = 0.1 and EuropeDiff's m; SciPy's root of the theorem's formula agrees
    eps_tilde = certify(1.0, n_records=EUROPE, n_clusters=k, gamma=0.1).eps_tilde
    assert round(eps_tilde, 2) == expected
    w = weight(EUROPE, 0.1)
    root = optimize.brentq(lambda x: bound(math.exp(x), EUROPE, k, w) - 1.0, 0.1, 20.0)
    assert eps_tilde == pytest.approx(root, rel=1e-10)


@pytest.mark.parametrize("eps", [1e-300, 1e-40, 1e-12, 0.1, 1.0, 3.0, 50.0, 700.0, 1e4])
@pytest.mark.parametrize(("m", "k"), [(1, 1), (2, 1), (2, 2), (1000, 3), (EUROPE, 8), (10**30, 5)])
@pytest.mark.parametrize("gamma", [1e-6, 0.1, 1e6, math.inf])
def test_the_largest_float_that_eps_affords(eps, m, k, gamma):
    certificate = certify(eps, n_records=m, n_clusters=k, gamma=gamma)
    assert affordable(eps, certificate.eps_tilde, m, k, gamma)
    above = math.nextafter(certificate.eps_tilde, math.inf)
    assert not affordable(eps, above, m, k, gamma, kept_back="1e-45")
    assert certificate.spent <= eps


@pytest.mark.parametrize("eps", [0.01, 0.5, 1.0, 10.0])
def test_moderate_eps_is_spent_to_twelve_digits(eps):
    for k in (1, 2, 8):
        spent = certify(eps, n_records=5000, n_clusters=k).spent
        assert eps * (1 - 1e-12) <= spent <= eps


def test_a_coarse_decimal_context_of_the_caller_changes_nothing():
    expected = certify(1e-20, n_records=1000, n_clusters=3)
    with decimal.localcontext() as context:
        context.prec = 5
        assert certify(1e-20, n_records=1000, n_clusters=3) == expected


@pytest.mark.parametrize("m", [1, 7, EUROPE])
def test_one_cluster_is_one_uniform_pick(m):
    closed_form = math.log(1 + m * (math.e - 1))
    assert certify(1.0, n_records=m, n_clusters=1).eps_tilde == pytest.approx(closed_form, 1e-14)
    assert uniform_pick_ceiling(1.0, m) == pytest.approx(closed_form, 1e-14)
    assert certify(1.0, n_records=m, n_clusters=1, gamma=0.0).eps_tilde > 0  # gamma plays no part


def test_infinite_gamma_is_forgy():
    # k uniform picks share eps evenly, so each is one pick at eps/k
    for k in (2, 5):
        forgy = certify(1.0, n_records=400, n_clusters=k, gamma=math.inf).eps_tilde
        assert forgy == pytest.approx(math.log1p(400 * math.expm1(1.0 / k)), rel=1e-14)


@pytest.mark.parametrize(
    ("eps", "m"),
    [(1e300, 1000), (1.0, 10**400), (1e-320, 10)],
    ids=["eps 1e300", "m 1e400", "subnormal eps"],
)
def test_the_far_ends_of_floats_and_integers(eps, m):
    certificate = certify(eps, n_records=m, n_clusters=2)
    assert 0 < certificate.eps_tilde < math.inf
    assert certificate.spent <= eps
    assert certificate.eps_tilde <= uniform_pick_ceiling(eps, m) * (1 + 1e-14)


def test_sigma_is_the_laplace_scale_times_root_two_rounded_up():
    certificate = certify(1.0, n_records=1000, n_clusters=3)
    exact = math.sqrt(2) * 2.5 / certificate.eps_tilde
    assert exact < certificate.sigma(2.5) < exact * (1 + 1e-14)


@pytest.mark.parametrize(
    ("parameter", "changed"),
    [
        *[("eps", {"eps": eps}) for eps in (0.0, -1.0, math.nan, math.inf, "one", None)],
        *[("n_records", {"n_records": m}) for m in (0, -3, 2.5)],
        *[("k", {"n_clusters": k}) for k in (0, 11, 1.5, True)],
        *[("gamma", {"gamma": gamma}) for gamma in (0.0, -0.1, math.nan, "much")],
    ],
)
def test_refusals_name_the_parameter(parameter, changed):
    arguments = {"eps": 1.0, "n_records": 10, "n_clusters": 2, "gamma": 0.1} | changed
    with pytest.raises(ParameterError) as refusal:
        certify(arguments.pop("eps"), **arguments)
    assert refusal.value.parameter == parameter


# -- the theorem -----------------------------------------------------------------------------------

Chances = Callable[[float, float], float]
"""(record, output) to a probability."""


def randomised_response(domain: list[float], rho: float) -> Chances:
    """Release the record, or any other point of the domain rho times less often."""
    return lambda a, x: (rho if a == x else 1.0) / (rho + len(domain) - 1)


def truncated_laplace(domain: list[float], rho: float) -> Chances:
    """Chances that fall with distance; the end points of [0, 1] are a factor rho apart."""

    def chances(a: float, x: float) -> float:
        return rho ** -(abs(a - x)) / sum(rho ** -(abs(a - y)) for y in domain)

    return chances


def largest_ratio(domain: list[float], chances: Chances) -> float:
    return max(chances(a, x) / chances(b, x) for a, b, x in product(domain, repeat=3))


def largest_loss(domain: list[float], chances: Chances, m: int, k: int, gamma: float) -> float:
    """Return the largest log ratio over all outputs and all replace-one neighbours."""
    density = {(a,): {(x,): chances(a, x) for x in domain} for a in domain}
    distributions = {}
    for table in product(domain, repeat=m):
        runs = enumeration.all_runs(
            [[a] for a in table],
            k,
            density=lambda index, records: density[records[index]],
            smoothing=gamma * (max(domain) - min(domain)) ** 2,
        )
        distributions[table] = enumeration.project(runs, enumeration.released)
    losses = [
        math.log(chance / distributions[other][output])
        for table, distribution in distributions.items()
        for place, value in product(range(m), domain)
        for other in [(*table[:place], value, *table[place + 1 :])]
        for output, chance in distribution.items()
    ]
    return max(losses)


def bound(rho: float, m: int, k: int, w: float) -> float:
    return math.log1p((rho - 1) / m) + (k - 1) * math.log1p(w * (rho - 1))


def weight(m: int, gamma: float) -> float:
    return (1 + gamma) / (1 + gamma * m)


ENDS, LINE = [0.0, 1.0], [0.0, 0.5, 1.0]
SMALL = [
    # domain, density, m, k
    (ENDS, randomised_response, 2, 2),
    (ENDS, randomised_response, 2, 3),
    (ENDS, randomised_response, 3, 2),
    (ENDS, randomised_response, 3, 3),
    (LINE, randomised_response, 2, 3),
    (LINE, randomised_response, 3, 2),
    (LINE, truncated_laplace, 2, 2),
    (LINE, truncated_laplace, 3, 2),
    (LINE, truncated_laplace, 2, 3),
    (LINE, truncated_laplace, 3, 3),
]


def used_up(claimed_weight: Callable[[int, float], float], smoothing_share: float = 1.0):
    """Return, for every small instance, the largest loss over the claimed bound."""
    shares = []
    for (domain, density, m, k), rho, gamma in product(SMALL, (2.0, 30.0), (0.02, 0.3)):
        chances = density(domain, rho)
        loss = largest_loss(domain, chances, m, k, gamma * smoothing_share)
        ratio = largest_ratio(domain, chances)
        shares.append(loss / bound(ratio, m, k, claimed_weight(m, gamma)))
    return shares


def test_no_tiny_instance_exceeds_theorem_a_and_some_come_close():
    shares = used_up(weight)
    print(f"Theorem A is used up to {max(shares):.1%}, {min(shares):.1%} at least")
    assert max(shares) <= 1 + 1e-12
    assert max(shares) > 0.85  # 92 % measured


def test_the_same_search_catches_a_weight_of_half_the_size():
    assert max(used_up(lambda m, gamma: weight(m, gamma) / 2)) > 1.01


def test_the_same_search_catches_a_seeding_that_forgets_gamma():
    assert max(used_up(weight, smoothing_share=0.0)) > 1.01


def test_the_solver_agrees_with_the_theorem_as_enumerated():
    # The noise that certify allows for eps = 1 really costs at most 1, and most of it.
    eps_tilde = certify(1.0, n_records=3, n_clusters=2, gamma=0.1).eps_tilde
    loss = largest_loss(ENDS, randomised_response(ENDS, math.exp(eps_tilde)), 3, 2, 0.1)
    assert 0.6 < loss <= 1.0 + 1e-12


@pytest.mark.parametrize("k", [1, 2, 4, 8, 50])
@pytest.mark.parametrize(("eps", "m"), [(0.1, 1000), (1.0, 169308), (10.0, 20000)])
def test_eps_tilde_against_the_root_that_mpmath_finds(eps: float, m: int, k: int) -> None:
    # An independent route: solve Theorem A's equation for log rho in 50 digits.
    gamma = 0.1
    with mpmath.workdps(50):
        w = (1 + mpmath.mpf(gamma)) / (1 + mpmath.mpf(gamma) * m)

        def excess(x: mpmath.mpf) -> mpmath.mpf:
            surplus = mpmath.expm1(x)
            return mpmath.log1p(surplus / m) + (k - 1) * mpmath.log1p(w * surplus) - eps

        ceiling = mpmath.log1p(m * mpmath.expm1(eps))
        bracket = (mpmath.mpf(eps) / k / 2, ceiling + 1)
        root = mpmath.findroot(excess, bracket, solver="bisect", maxsteps=400)
        found = certify(eps, n_records=m, n_clusters=k, gamma=gamma).eps_tilde
        assert mpmath.mpf(found) <= root
        assert root - found < 1e-14 * root
