"""What many pure steps cost together at a delta: the loss of randomised responses, added up.

Any eps-DP step is dominated by randomised response with odds e^eps, whose privacy loss is +eps with
probability e^eps / (1 + e^eps), and -eps otherwise; and so is any adaptive composition of steps by
the composition of their responses, as long as the *prices* do not depend on earlier answers
(Kairouz, Oh and Viswanath, 2015, Theorem 3.2; Murtagh and Vadhan, 2016, Lemma 3.2). With L the sum
of the independent losses, the composition is (eps, delta)-DP for

    delta(eps) = E[max(0, 1 - exp(eps - L))].

The distribution of L is worked out on a lattice. Every price is rounded *up* to a multiple of the
lattice's step, which makes it the price of a weaker promise that holds as well; then the losses lie
on the lattice, and nothing else is rounded but floating-point numbers. These are all positive and
only added and multiplied, so that no digits cancel: their relative error is below ``_SLACK``, by
which delta is raised. Of a step that is done often, improbable numbers of heads are left out: those
above the rest as an infinite loss, those below as the lowest one that is kept.

Google's dp-accounting convolves by Fourier transforms of which the rounding is not bounded: of the
seven compositions that audits/accountants.py compares with exact sums, two come out below them (by
1e-10 and 8e-10 of eps). So it is the second opinion of the tests, not the accountant.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction

import numpy as np

from dpkv.accounting.exact import upward
from dpkv.types import Float64s

_FINENESS = 400
"""Lattice steps per typical price, where prices have no common measure of that size."""
_MOST_WORK = 60_000_000
"""Additions of one composition; a longer one gets a coarser lattice, up to a point."""
_COARSEST = 8
_LEFT_OUT = 1e-40
_SLACK = 1e-9
_UNIT = Decimal("1e-9")


def eps_of_pure_steps(steps: Iterable[tuple[Fraction, int]], delta: float) -> Decimal | None:
    """Return what steps of those prices, each so many times, cost at delta; rounded up.

    None where it would take too long; the steps' sum, or zCDP, is then the price.
    """
    prices = _gather(steps)
    if not prices:
        return Decimal(0)
    lattice = _lattice(prices)
    if lattice is None:
        return None
    step, units = lattice
    losses = _Losses(float(step))
    for times, count in units:
        losses.add(times, count)
    total = float(sum(unit * count for unit, count in units) * step)
    return _smallest_eps(losses, delta, total * (1.0 + 1e-12))


def _gather(steps: Iterable[tuple[Fraction, int]]) -> list[tuple[Fraction, int]]:
    counts: dict[Fraction, int] = {}
    for price, times in steps:
        if price > 0 and times > 0:
            counts[price] = counts.get(price, 0) + times
    return sorted(counts.items())


def _lattice(
    prices: list[tuple[Fraction, int]],
) -> tuple[Fraction, list[tuple[int, int]]] | None:
    """Return a step and the prices in whole steps, rounded up; None where all would be too long."""
    common = Fraction(
        math.gcd(*(price.numerator * _over(prices, price) for price, _ in prices)),
        math.lcm(*(price.denominator for price, _ in prices)),
    )
    squares = sum((price * price * times for price, times in prices), Fraction(0))
    typical = squares / sum((price * times for price, times in prices), Fraction(0))
    step, fineness = common, _FINENESS
    while _work(prices, step) > _MOST_WORK:
        if fineness < _COARSEST:
            return None
        step, fineness = _rounded(typical / fineness), fineness // 2
    units: dict[int, int] = {}
    for price, times in prices:
        unit = math.ceil(price / step)
        units[unit] = units.get(unit, 0) + times
    return step, sorted(units.items())


def _over(prices: list[tuple[Fraction, int]], price: Fraction) -> int:
    return math.lcm(*(other.denominator for other, _ in prices)) // price.denominator


def _rounded(step: Fraction) -> Fraction:
    """Return a step with few digits, so that exact numbers stay short."""
    return Fraction(float(step)).limit_denominator(10**12) or step


def _work(prices: list[tuple[Fraction, int]], step: Fraction) -> float:
    """Return about how many additions a composition takes."""
    width, work = 1.0, 0.0
    for price, times in prices:
        kept = min(times + 1.0, 30.0 * math.sqrt(times) + 30.0)
        width += 2.0 * kept * float(price / step)
        work += kept * width
    return work


class _Losses:
    """The distribution of a sum of losses, in lattice steps; never below the true one in order."""

    def __init__(self, step: float) -> None:
        self.step = step
        self.lowest = 0
        self.masses: Float64s = np.ones(1)
        self.infinite = 0.0

    def add(self, unit: int, count: int) -> None:
        """Add so many independent losses of plus or minus ``unit`` steps."""
        heads, chances, beyond = _heads(count, unit * self.step)
        self.infinite = self.infinite + beyond
        spread = 2 * unit * (len(chances) - 1)
        masses = np.zeros(len(self.masses) + spread)
        for number, chance in enumerate(chances):
            start = 2 * unit * number
            masses[start : start + len(self.masses)] += chance * self.masses
        self.masses = masses
        self.lowest += unit * (2 * heads - count)

    def delta(self, eps: float) -> float:
        """Return delta(eps), never too small."""
        losses = (self.lowest + np.arange(len(self.masses))) * self.step
        above = losses > eps
        chances = self.masses[above]
        # The losses themselves are rounded: by far less than 1e-12 of what exceeds eps.
        found = float(chances @ -np.expm1(eps - losses[above])) + 1e-12 * float(chances.sum())
        return (found + self.infinite) * (1.0 + _SLACK) + 1e-280


def _heads(count: int, eps: float) -> tuple[int, Float64s, float]:
    """Return the probable numbers of heads: the lowest, their chances, and that of higher ones.

    A binomial distribution from its most probable value on, by ratios of neighbours. Lower numbers
    count as the lowest.
    """
    odds = math.exp(eps)
    chance = odds / (1.0 + odds)
    middle = min(count, int((count + 1) * chance))
    up: list[float] = [1.0]
    down: list[float] = []
    for number in range(middle, count):
        ratio = odds * (count - number) / (number + 1)
        if up[-1] * ratio < _LEFT_OUT:
            break
        up.append(up[-1] * ratio)
    for number in range(middle, 0, -1):
        ratio = number / (odds * (count - number + 1))
        last = down[-1] if down else 1.0
        if last * ratio < _LEFT_OUT:
            break
        down.append(last * ratio)
    weights = np.array([*reversed(down), *up])
    lowest = middle - len(down)
    # Weights fall ever faster from the peak, so what is left out is below count * _LEFT_OUT of all,
    # by which dividing by the sum of the rest makes chances too large, and none too small.
    return lowest, weights / float(weights.sum()), count * _LEFT_OUT


def _smallest_eps(losses: _Losses, delta: float, most: float) -> Decimal:
    """Return about the least eps at which delta is not exceeded; it is not exceeded there."""
    low, high = 0.0, most
    for _ in range(60):
        middle = 0.5 * (low + high)
        if losses.delta(middle) <= delta:
            high = middle
        else:
            low = middle
        if high - low <= 1e-10 * most:
            break
    return Decimal(high).quantize(_UNIT, rounding=ROUND_CEILING, context=upward())
