"""Theorem A, the amplified certificate: how much noise k rounds of Algorithm 0 need, end to end.

Setting. Replace-one neighbours, m public, a public domain of L2 diameter diam2. Centers are clipped
to the domain before distances are measured to them (``reference="released"``), and round t > 1
picks record a with probability proportional to D_t(a) + gamma diam2^2. Let rho bound
p_a(x) / p_a'(x) over all x and all a, a' of the domain. Then the ordered output is eps-DP with

    eps = log(1 + (rho - 1)/m) + (k - 1) log(1 + w (rho - 1)),    w = (1 + gamma) / (1 + gamma m).

Proof. Fix the centers released so far; D_t(a) is then a function of a alone. Let s be the density
of x_t averaged over the m - 1 common records by their (unchanged) relative weights, p and p' the
densities of the two differing records, v and v' their selection probabilities. The conditional
densities of x_t are (1 - v) s + v p and (1 - v') s + v' p'. At any x, the values s, p, p' are
within a factor rho of each other. For fixed p, p' the ratio of the two is a Moebius function of s,
hence monotone, hence largest at an end of the range of s, where it is at most 1 + v' (rho - 1) or
1 / (1 - v (1 - 1/rho)). With v, v' <= w the first form at w covers both, because
(1 + w (rho - 1)) (1 - w (1 - 1/rho)) = 1 + w (1 - w) (rho - 1)^2 / rho >= 1. A record weighs at
most (1 + gamma) diam2^2 and every other at least gamma diam2^2, so v, v' <= w; in round 1 both are
1/m. Multiply over the rounds; both directions are covered by symmetry. QED.

At the edges: for m = 1 there is no s, v = v' = 1 and the ratio is at most rho; where diam2 = 0 all
records are alike and every round picks uniformly, as the first.

Product-Laplace noise of scale b has rho = exp(diam1 / b), so eps~ = log rho gives b = diam1 / eps~.
Nothing here depends on the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import SupportsIndex

from dpkv.accounting.exact import (
    ABOVE_ROUNDING,
    DIGITS,
    float_above,
    float_below,
    log_above,
    nearest,
    quotient,
    upward_decimal,
)
from dpkv.errors import ParameterError
from dpkv.validation import cluster_count, non_negative, positive_finite, whole_number

DEFAULT_GAMMA = 0.1
_LARGEST_LOG_RATIO = 600.0  # of a density whose ratio is a float
_LARGE = 1000.0  # beyond it rho itself is not worth writing down


@dataclass(frozen=True)
class AmplifiedCertificate:
    """eps-DP of k-variates++ by Theorem A: replace-one neighbours, m and the domain public."""

    eps: float
    n_records: int
    n_clusters: int
    gamma: float
    eps_tilde: float
    """log rho: what one noisy center may cost on its own."""

    @property
    def spent(self) -> float:
        """The eps that ``eps_tilde`` costs, rounded up; never above ``eps``."""
        return float_above(exact_cost(self.eps_tilde, self.n_records, self.n_clusters, self.gamma))

    def sigma(self, diam1: float) -> float:
        """Return the noise's standard deviation for a domain of this L1 diameter, rounded up."""
        return round_sigma(diam1, self.eps_tilde)


def round_sigma(diam1: float, eps_tilde: float) -> float:
    """Return sqrt(2) diam1 / eps~, rounded up; no noise for a domain that is a point."""
    if diam1 == 0.0:
        return 0.0
    sigma = math.nextafter(math.sqrt(2.0) * diam1 / eps_tilde * (1.0 + 1e-15), math.inf)
    if math.isinf(sigma):
        raise ParameterError("eps", "large enough for a finite noise", eps_tilde)
    return sigma


def selection_weight(n_records: int, gamma: float | Fraction, context: Context) -> Decimal:
    """Return w, the largest selection probability of one record in a round after the first."""
    if math.isinf(gamma):
        return context.divide(Decimal(1), Decimal(n_records))
    smoothing = Fraction(gamma)
    return quotient((1 + smoothing) / (1 + smoothing * n_records), context)


def exact_cost(
    eps_tilde: float | Fraction, n_records: int, n_clusters: int, gamma: float | Fraction
) -> Decimal:
    """Return eps of Theorem A for rho = exp(eps_tilde), rounded up in the 50th significant digit.

    Every operation names its context: Python's default one has 28 digits, and 1 + 1e-300 needs 300.
    """
    first, later = round_costs(eps_tilde, n_records, gamma)
    if n_clusters == 1:
        return first
    context = nearest(DIGITS)
    total = context.fma(Decimal(n_clusters - 1), later, first)
    return context.multiply(total, ABOVE_ROUNDING)


def round_costs(
    eps_tilde: float | Fraction, n_records: int, gamma: float | Fraction
) -> tuple[Decimal, Decimal]:
    """Return what the first round costs, and what every later one does, each rounded up."""
    exact = Fraction(eps_tilde)
    if n_records == 1:  # there is no later round; not a digit to round where eps~ is a float
        return (upward_decimal(exact),) * 2
    rough = quotient(exact, nearest(DIGITS))
    context = nearest(DIGITS + max(0, -rough.adjusted()) + Decimal(n_records).adjusted())
    x = quotient(exact, context)
    weights = (
        context.divide(Decimal(1), Decimal(n_records)),
        selection_weight(n_records, gamma, context),
    )
    first, later = (context.multiply(_round_cost(x, w, context), ABOVE_ROUNDING) for w in weights)
    return first, later


def round_costs_of_ratio(
    ratio: Fraction, n_records: int, gamma: float | Fraction
) -> tuple[Decimal, Decimal]:
    """Return the same for a rational rho: log(1 + w (rho - 1)), each rounded up once."""
    uniform = Fraction(1, n_records)
    weight = uniform
    if not math.isinf(gamma) and n_records > 1:
        weight = (1 + Fraction(gamma)) / (1 + Fraction(gamma) * n_records)
    first, later = (log_above(1 + w * (ratio - 1)) for w in (uniform, weight))
    return first, later


def largest_ratio(eps_tilde: float) -> float:
    """Return a float rho, at least 1, that is below exp(eps_tilde) by some ulps and never above.

    Far up it stays below: such an eps promises nothing anyway.
    """
    context = nearest(DIGITS)
    limit = context.exp(Decimal(min(eps_tilde, _LARGEST_LOG_RATIO)))  # within an ulp of 60 digits
    below = math.nextafter(float_below(limit), 0.0)
    return max(1.0, below)


def _round_cost(x: Decimal, weight: Decimal, context: Context) -> Decimal:
    """Return log(1 + w (e^x - 1)); for a large x as x + log(w + (1 - w) e^-x), without overflow."""
    if x > _LARGE:
        rest = context.multiply(context.subtract(Decimal(1), weight), context.exp(-x))
        return context.add(x, context.ln(context.add(weight, rest)))
    surplus = context.subtract(context.exp(x), Decimal(1))
    return context.ln(context.fma(weight, surplus, Decimal(1)))


def certify(
    eps: float, *, n_records: SupportsIndex, n_clusters: SupportsIndex, gamma: float = DEFAULT_GAMMA
) -> AmplifiedCertificate:
    """Return the largest eps~ (in floats) whose exact cost does not exceed ``eps``."""
    eps = positive_finite("eps", eps)
    m = whole_number("n_records", n_records, at_least=1)
    k = cluster_count(n_clusters, m, "k")
    gamma = non_negative("gamma", gamma)
    if gamma == 0.0 and k > 1:
        raise ParameterError(
            "gamma", "greater than 0", gamma, "Without smoothing an outlier is picked for certain."
        )
    eps_tilde = _largest(eps, m, k, gamma)
    certificate = AmplifiedCertificate(eps, m, k, gamma, eps_tilde)
    assert exact_cost(eps_tilde, m, k, gamma) <= Decimal(eps)
    return certificate


@lru_cache(maxsize=256)  # a release, its verification and its audit ask for the same figure
def _largest(eps: float, m: int, k: int, gamma: float) -> float:
    """Bisect for eps~ between eps/k, which always suffices, and the ceiling of one uniform pick.

    A round costs log(1 + w (rho - 1)) <= log rho, so k rounds at eps/k cost at most eps. And the
    first round alone costs log(1 + (rho - 1)/m), so eps~ is at most log(1 + m (e^eps - 1)).
    """
    budget = Decimal(eps)
    low = math.nextafter(eps / k, 0.0)
    high = _ceiling(eps, m) * (1.0 + 1e-14) + 5e-324  # the ceiling is rounded by some ulps
    while exact_cost(low, m, k, gamma) > budget:  # a subnormal eps, where eps/k was rounded up
        low = math.nextafter(low, 0.0)
    while low < (middle := low + (high - low) / 2.0) < high:
        if exact_cost(middle, m, k, gamma) <= budget:
            low = middle
        else:
            high = middle
    if low == 0.0:
        raise ParameterError("eps", "large enough to be shared among k centers", eps)
    return low


def _ceiling(eps: float, n_records: int) -> float:
    """Return log(1 + m (e^eps - 1)), without overflow for a large eps or m."""
    log_surplus = eps if eps > _LARGE / 2.0 else math.log(math.expm1(eps))
    log_product = log_surplus + math.log(n_records)
    if log_product > _LARGE / 2.0:
        return log_product  # the difference is nil
    return math.log1p(n_records * math.expm1(eps))


def uniform_pick_ceiling(eps: float, n_records: SupportsIndex) -> float:
    """Return the largest eps~ that *any* calibration can have: log(1 + m (e^eps - 1)).

    One uniformly picked record released with eps~ already costs log(1 + (e^eps~ - 1)/m).
    """
    m = whole_number("n_records", n_records, at_least=1)
    return _ceiling(positive_finite("eps", eps), m)
