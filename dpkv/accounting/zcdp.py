"""Gaussian noise in terms of (eps, delta), by way of zero-concentrated differential privacy (zCDP).

A mechanism is rho-zCDP if the Renyi divergence of order alpha between its outputs on neighbours is
at most alpha rho, for every alpha > 1 (Bun and Steinke, 2016). Three facts are used.

1. Discrete Gaussian noise of parameter sigma on integers of L2 sensitivity s is s^2 / (2 sigma^2) -
   zCDP, whatever the number of coordinates (Canonne, Kamath and Steinke, 2020, Theorem 14).
2. rho add up under adaptive composition, and pure eps is eps^2 / 2 - zCDP.
3. For any alpha > 1, rho-zCDP implies (eps, delta) with

       eps = alpha rho + (log(1 / delta) - log(alpha - 1) + alpha log(1 - 1 / alpha)) / (alpha - 1)

   (the same paper, Proposition 12). Proof in brief: with privacy loss Z under the first table,
   delta = E[max(0, 1 - exp(eps - Z))], and 1 - exp(eps - z) <= c exp((alpha - 1)(z - eps)) for all
   z, with equality at its tangent point, where c = (1 - 1 / alpha)^alpha / (alpha - 1). Take means,
   and E[exp((alpha - 1) Z)] <= exp((alpha - 1) alpha rho).

Every alpha gives a valid eps, so it may be found in floats; eps itself is calculated in decimals
and rounded up.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

from dpkv.accounting.exact import nearest, upward
from dpkv.errors import ParameterError

_EXACT = nearest(80)
_SLACK = Decimal(1).scaleb(-60)  # far above what rounding at 80 digits can lose
_UP = upward()
_SEARCH = 120


def eps_of_rho(rho: Fraction, delta: float) -> Decimal:
    """Return an eps such that rho-zCDP implies (eps, delta), rounded up."""
    if rho == 0:
        return Decimal(0)
    log_inverse = _EXACT.minus(_EXACT.ln(Decimal(delta)))
    price = _EXACT.divide(Decimal(rho.numerator), Decimal(rho.denominator))
    order = Decimal(_best_order(float(price), -math.log(delta)))
    return max(Decimal(0), _eps_at(order, price, log_inverse))


def _eps_at(surplus: Decimal, rho: Decimal, log_inverse: Decimal) -> Decimal:
    """Return fact 3 for alpha = 1 + surplus, with room for every rounding on the way."""
    alpha = _EXACT.add(Decimal(1), surplus)
    tangent = _EXACT.multiply(alpha, _EXACT.ln(_EXACT.divide(surplus, alpha)))
    slope = _EXACT.ln(surplus)
    rest = _EXACT.divide(_EXACT.add(_EXACT.subtract(log_inverse, slope), tangent), surplus)
    size = abs(log_inverse) + abs(slope) + abs(tangent)
    room = _EXACT.multiply(_SLACK, _EXACT.add(_EXACT.divide(size, surplus), abs(rest) + 1))
    return _UP.add(_EXACT.fma(alpha, rho, rest), room)


def _best_order(rho: float, log_inverse: float) -> float:
    """Return alpha - 1 that makes eps about least, by golden section on its logarithm."""
    start = math.log(math.sqrt(max(log_inverse, 1e-3) / max(rho, 1e-300)))
    low, high = start - 12.0, start + 12.0
    golden = (math.sqrt(5.0) - 1.0) / 2.0
    for _ in range(_SEARCH):
        left, right = high - golden * (high - low), low + golden * (high - low)
        if _rough_eps(left, rho, log_inverse) <= _rough_eps(right, rho, log_inverse):
            high = right
        else:
            low = left
    return math.exp((low + high) / 2.0)


def _rough_eps(log_surplus: float, rho: float, log_inverse: float) -> float:
    surplus = math.exp(log_surplus)
    tangent = -(1.0 + surplus) * math.log1p(1.0 / surplus)
    return (1.0 + surplus) * rho + (log_inverse - log_surplus + tangent) / surplus


def largest_rho(eps: Decimal, delta: float) -> float:
    """Return the largest rho (in floats) whose eps at ``delta`` does not exceed ``eps``."""
    low, high = 0.0, 1.0
    while eps_of_rho(Fraction(high), delta) <= eps:
        low, high = high, 2.0 * high
    while low < (middle := _between(low, high)) < high:
        if eps_of_rho(Fraction(middle), delta) <= eps:
            low = middle
        else:
            high = middle
        if high - low <= 1e-12 * high:
            break
    if low == 0.0:
        raise ParameterError("eps", "large enough for a finite noise", f"{eps:f}")
    return low


def _between(low: float, high: float) -> float:
    """Bisect by ratio while nothing is known below, so that tiny rho are reached."""
    return high / 1024.0 if low == 0.0 else low + (high - low) / 2.0


def smallest_gaussian_scale(sensitivity_squared: int, rho: float) -> float:
    """Return the least float sigma with sensitivity^2 / (2 sigma^2) <= rho, compared exactly."""
    if sensitivity_squared == 0:
        return 0.0
    half = Fraction(sensitivity_squared, 2) / Fraction(rho)
    try:
        scale = math.sqrt(half) * (1.0 - 1e-15)
    except OverflowError:
        raise ParameterError("eps", "large enough for a finite noise", rho) from None
    while half > Fraction(scale) ** 2:
        scale = math.nextafter(scale, math.inf)
    return scale
