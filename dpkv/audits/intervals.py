"""Probabilities in interval arithmetic: Python integers as fixed-point bounds, below and above.

Shares no code with the floating-point losses, so that it checks them. A number is kept as two
integers, ``low <= value * 2^PRECISION <= high``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

PRECISION = 256
_ONE = 1 << PRECISION
_DIGITS = 90
_SLACK = Decimal(1).scaleb(-80)  # relative; Decimal's exp and ln are right to the last of 90 digits

Point = Sequence[int]


@dataclass(frozen=True)
class Interval:
    """A positive real number between two rationals of denominator 2^PRECISION."""

    low: int
    high: int

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.low + other.low, self.high + other.high)

    def times(self, whole: int) -> Interval:
        """Return the product with a non-negative whole number, exactly."""
        return Interval(self.low * whole, self.high * whole)

    def over(self, whole: int) -> Interval:
        """Return the quotient by a positive whole number, rounded outward."""
        return Interval(self.low // whole, -(-self.high // whole))

    def log_bounds(self) -> tuple[Decimal, Decimal]:
        """Return bounds of the natural logarithm."""
        return _log(self.low, ROUND_FLOOR), _log(self.high, ROUND_CEILING)


ZERO = Interval(0, 0)


def _log(scaled: int, rounding: str) -> Decimal:
    if scaled <= 0:
        return Decimal("-Infinity")
    context = Context(prec=_DIGITS)
    value = context.subtract(
        context.ln(Decimal(scaled)), context.multiply(Decimal(PRECISION), context.ln(Decimal(2)))
    )
    margin = context.multiply(max(abs(value), Decimal(PRECISION)), _SLACK)
    if rounding == ROUND_FLOOR:
        return context.subtract(value, margin)
    return context.add(value, margin)


class Powers:
    """exp(-n / b) for whole n, as intervals, by repeated squaring; each found once."""

    def __init__(self, scale: float) -> None:
        context = Context(prec=_DIGITS)
        self.exponent = 1 / Fraction(scale)
        steps = Decimal(self.exponent.numerator), Decimal(self.exponent.denominator)
        value = context.exp(context.minus(context.divide(*steps)))
        margin = context.multiply(value, _SLACK)
        low, high = context.subtract(value, margin), context.add(value, margin)
        scaled = Context(prec=_DIGITS + 80)
        self._squares = [
            Interval(
                int(scaled.multiply(low, Decimal(_ONE))),
                int(scaled.multiply(high, Decimal(_ONE))) + 1,
            )
        ]
        self._known: dict[int, Interval] = {}

    def power(self, exponent: int) -> Interval:
        """Return exp(-exponent / b)."""
        if exponent not in self._known:
            self._known[exponent] = self._multiply(exponent)
        return self._known[exponent]

    def _multiply(self, exponent: int) -> Interval:
        product = Interval(_ONE, _ONE)
        for bit in range(exponent.bit_length()):
            if bit == len(self._squares):
                self._squares.append(_product(self._squares[-1], self._squares[-1]))
            if exponent >> bit & 1:
                product = _product(product, self._squares[bit])
        return product


def _product(first: Interval, second: Interval) -> Interval:
    low = (first.low * second.low) >> PRECISION
    return Interval(low, -((-first.high * second.high) >> PRECISION))


def log_probability_bounds(
    points: Sequence[Point],
    counts: Sequence[int],
    output: Sequence[Point],
    centers: Sequence[Point],
    *,
    smoothing: int | None,
    scale: float,
) -> tuple[Decimal, Decimal]:
    """Return bounds of the log-probability of an ordered output, up to a constant of the output.

    ``points`` with ``counts`` are the table, ``output`` the draws and ``centers`` these moved into
    the domain. The constant, the normaliser of the noise, is the same for every table.
    """
    powers = Powers(scale)
    low = high = Decimal(0)
    context = Context(prec=_DIGITS)
    nearest: list[int | None] = [None] * len(points)
    for round_, (drawn, center) in enumerate(zip(output, centers, strict=True)):
        weights = [
            1 if smoothing is None or closest is None else closest + smoothing
            for closest in nearest
        ]
        if not any(weight * count for weight, count in zip(weights, counts, strict=True)):
            weights = [1] * len(points)
        least, most = _round_bounds(points, counts, weights, drawn, powers)
        low, high = context.add(low, least), context.add(high, most)
        if round_ + 1 < len(output):
            nearest = [
                _closer(known, point, center) for known, point in zip(nearest, points, strict=True)
            ]
    slack = context.multiply(_SLACK, Decimal(1 + len(output)))
    return context.subtract(low, slack), context.add(high, slack)


def _closer(known: int | None, point: Point, center: Point) -> int:
    squared = sum((a - c) ** 2 for a, c in zip(point, center, strict=True))
    return squared if known is None else min(known, squared)


def _round_bounds(
    points: Sequence[Point],
    counts: Sequence[int],
    weights: Sequence[int],
    drawn: Point,
    powers: Powers,
) -> tuple[Decimal, Decimal]:
    """Return bounds of log(sum W p / sum W) for one round.

    Distances are measured from the least of them, so that far outputs do not underflow.
    """
    masses = [weight * count for weight, count in zip(weights, counts, strict=True)]
    distances = [sum(abs(x - a) for x, a in zip(drawn, point, strict=True)) for point in points]
    offset = min(distance for distance, w in zip(distances, masses, strict=True) if w)
    mass, total = ZERO, sum(masses)
    for distance, w in zip(distances, masses, strict=True):
        if w:
            mass += powers.power(distance - offset).times(w)
    low, high = mass.over(total).log_bounds()
    shift = -offset * powers.exponent
    return _quotient(shift, ROUND_FLOOR, low), _quotient(shift, ROUND_CEILING, high)


def _quotient(value: Fraction, rounding: str, plus: Decimal) -> Decimal:
    """Return a rational plus a decimal, rounded one way."""
    context = Context(prec=_DIGITS, rounding=rounding)
    return context.add(context.divide(Decimal(value.numerator), Decimal(value.denominator)), plus)
