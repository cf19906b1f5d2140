"""Probabilities in interval arithmetic: Python integers as fixed-point bounds, below and above.

Shares no code with the floating-point losses, so that it checks them. A number is kept as two
integers, ``low <= value * 2^PRECISION <= high``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Protocol

PRECISION = 256
ONE = 1 << PRECISION
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
                int(scaled.multiply(low, Decimal(ONE))),
                int(scaled.multiply(high, Decimal(ONE))) + 1,
            )
        ]
        self._known: dict[int, Interval] = {}

    def power(self, exponent: int) -> Interval:
        """Return exp(-exponent / b)."""
        if exponent not in self._known:
            self._known[exponent] = self._multiply(exponent)
        return self._known[exponent]

    def _multiply(self, exponent: int) -> Interval:
        product = Interval(ONE, ONE)
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
    levels: Levels,
) -> tuple[Decimal, Decimal]:
    """Return bounds of the log-probability of an ordered output, up to a constant of the output.

    ``points`` with ``counts`` are the table, ``output`` the draws and ``centers`` these moved into
    the domain. The constant, the normaliser of the density, is the same for every table.
    """
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
        least, most = _round_bounds(points, counts, weights, drawn, levels)
        low, high = context.add(low, least), context.add(high, most)
        if round_ + 1 < len(output):
            nearest = [
                _closer(known, point, center) for known, point in zip(nearest, points, strict=True)
            ]
    slack = context.multiply(_SLACK, Decimal(1 + len(output)))
    return context.subtract(low, slack), context.add(high, slack)


def round_loss(
    rows: Sequence[tuple[Point, int]],
    centers: Sequence[Point],
    smoothing: int | None,
    drawn: Point,
    levels: Levels,
) -> tuple[Decimal, Decimal]:
    """Return bounds of the log-probability of one pick, given the centers before it."""
    points, counts = [point for point, _ in rows], [count for _, count in rows]
    weights = [1] * len(points)
    if smoothing is not None and centers:
        squares = [
            min(sum((a - c) ** 2 for a, c in zip(point, one, strict=True)) for one in centers)
            for point in points
        ]
        smoothed = [square + smoothing for square in squares]
        if any(weight * count for weight, count in zip(smoothed, counts, strict=True)):
            weights = smoothed
    return _round_bounds(points, counts, weights, drawn, levels)


def _closer(known: int | None, point: Point, center: Point) -> int:
    squared = sum((a - c) ** 2 for a, c in zip(point, center, strict=True))
    return squared if known is None else min(known, squared)


def _round_bounds(
    points: Sequence[Point],
    counts: Sequence[int],
    weights: Sequence[int],
    drawn: Point,
    levels: Levels,
) -> tuple[Decimal, Decimal]:
    """Return bounds of log(sum W p / sum W) for one round."""
    masses = [weight * count for weight, count in zip(weights, counts, strict=True)]
    some = [point for point, mass in zip(points, masses, strict=True) if mass]
    shift, likelihoods = levels.of(some, drawn)
    total = ZERO
    for likelihood, mass in zip(likelihoods, filter(None, masses), strict=True):
        total += likelihood.times(mass)
    low, high = total.over(sum(masses)).log_bounds()
    return _quotient(shift, ROUND_FLOOR, low), _quotient(shift, ROUND_CEILING, high)


class Levels(Protocol):
    """How likely a density makes a point, given the record, up to a constant of the point."""

    def of(self, points: Sequence[Point], drawn: Point) -> tuple[Fraction, list[Interval]]:
        """Return the logarithm of a common factor, and the rest of every record's likelihood."""


class LaplaceLevels:
    """exp(-|x - a|_1 / b), with distances from the least of them: far points do not underflow."""

    def __init__(self, scale: float) -> None:
        self._powers = Powers(scale)

    def of(self, points: Sequence[Point], drawn: Point) -> tuple[Fraction, list[Interval]]:
        """Return minus the least distance over b, and the powers of what is left."""
        distances = [sum(abs(x - a) for x, a in zip(drawn, point, strict=True)) for point in points]
        offset = min(distances)
        rest = [self._powers.power(distance - offset) for distance in distances]
        return -offset * self._powers.exponent, rest


class WindowLevels:
    """1 in the record's window and 1 / rho elsewhere, both rational."""

    def __init__(self, ratio: float, holds: Callable[[Point, Point], bool]) -> None:
        rho = Fraction(ratio)
        scaled = rho.denominator * ONE
        self._high = Interval(ONE, ONE)
        self._low = Interval(scaled // rho.numerator, -(-scaled // rho.numerator))
        self._holds = holds

    def of(self, points: Sequence[Point], drawn: Point) -> tuple[Fraction, list[Interval]]:
        """Return the levels, which need no common factor."""
        found = [self._high if self._holds(point, drawn) else self._low for point in points]
        return Fraction(0), found


def box_window(tops: Sequence[int], reach: int) -> Callable[[Point, Point], bool]:
    """Return what tells whether a point is in a record's window in a box."""

    def is_near(a: int, x: int, top: int) -> bool:
        end = max(min(2 * reach, top), min(a + reach, top))
        return end - 2 * reach <= x <= end

    return lambda point, drawn: all(map(is_near, point, drawn, tops))


def ball_window(whole: int, reach: int) -> Callable[[Point, Point], bool]:
    """Return what tells whether a point is in a record's window in an L1 ball."""
    room = max(0, whole - reach)

    def holds(point: Point, drawn: Point) -> bool:
        middle = shorten(point, room)
        return sum(abs(x - c) for x, c in zip(drawn, middle, strict=True)) <= min(reach, whole)

    return holds


def shorten(point: Point, most: int) -> list[int]:
    """Return a point whose sizes are lowered alike, the last steps in order, to add up to most."""
    sizes = [abs(a) for a in point]
    surplus = sum(sizes) - most
    if surplus > 0:
        low, high = 0, max(sizes)
        while low < high:  # the least cut with which nothing is too much
            cut = (low + high) // 2
            low, high = (
                (cut + 1, high) if sum(max(s - cut, 0) for s in sizes) > most else (low, cut)
            )
        left = most - sum(max(s - low, 0) for s in sizes)
        lowered = []
        for s in sizes:
            one_more = s >= low > 0 and left > 0
            left -= one_more
            lowered.append(max(s - low, 0) + one_more)
        sizes = lowered
    return [s if a >= 0 else -s for s, a in zip(sizes, point, strict=True)]


def _quotient(value: Fraction, rounding: str, plus: Decimal) -> Decimal:
    """Return a rational plus a decimal, rounded one way."""
    context = Context(prec=_DIGITS, rounding=rounding)
    return context.add(context.divide(Decimal(value.numerator), Decimal(value.denominator)), plus)
