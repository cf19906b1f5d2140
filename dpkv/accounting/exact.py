"""Exact numbers: decimals whose rounding is stated, and the floats on the safe side of them.

Python's default decimal context has 28 digits and rounds to nearest, which is neither exact nor on
the safe side. So every operation on a price names a context of this module.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

DIGITS = 60
"""Significant digits of a price."""


def nearest(digits: int) -> Context:
    """Return a context of so many digits that rounds to nearest."""
    return Context(prec=digits)


def upward(digits: int = DIGITS, *, traps: bool = True) -> Context:
    """Return a context of so many digits that rounds up; without traps, infinities are numbers."""
    return Context(prec=digits, rounding=ROUND_CEILING, traps=None if traps else [])


def downward(digits: int = DIGITS, *, traps: bool = True) -> Context:
    """Return a context that rounds down, of so many digits; without traps, as ``upward``."""
    return Context(prec=digits, rounding=ROUND_FLOOR, traps=None if traps else [])


ABOVE_ROUNDING = Decimal(10**50 + 1).scaleb(-50, nearest(DIGITS))
"""A factor that lifts a result of ``DIGITS`` digits above all its roundings to nearest."""


def quotient(value: Fraction, context: Context) -> Decimal:
    """Return a rational in a context."""
    return context.divide(Decimal(value.numerator), Decimal(value.denominator))


def upward_decimal(value: Fraction) -> Decimal:
    """Return a rational as a Decimal: exactly where it is a float's value, else rounded up."""
    if value.denominator & (value.denominator - 1) == 0:
        digits = len(str(value.numerator)) + value.denominator.bit_length()
        return quotient(value, nearest(digits + 1))
    return quotient(value, upward())


def log_above(value: Fraction) -> Decimal:
    """Return the natural logarithm of a rational that is at least 1, rounded up."""
    surplus = value - 1
    if surplus == 0:
        return Decimal(0)
    small = max(0, -quotient(surplus, nearest(DIGITS)).adjusted())
    context = nearest(DIGITS + small)  # 1 + 1e-300 needs 300 digits more than its logarithm
    exact = context.add(Decimal(1), quotient(surplus, context))
    return context.multiply(context.ln(exact), ABOVE_ROUNDING)


def round_up(value: Decimal, places: int = 6) -> Decimal:
    """Return a figure to show: never below the value, without idle zeros."""
    if not value.is_finite():
        return value
    unit = Decimal(1).scaleb(-places)
    text = f"{value.quantize(unit, rounding=ROUND_CEILING, context=upward(80)):f}"
    return Decimal(text.rstrip("0").rstrip(".") if "." in text else text)


def float_above(value: Decimal) -> float:
    """Return the least float that is not below ``value``."""
    number = float(value)
    return number if Decimal(number) >= value else math.nextafter(number, math.inf)


def float_below(value: Decimal) -> float:
    """Return the largest float that is not above a positive ``value``."""
    number = float(value)
    return number if Decimal(number) <= value else math.nextafter(number, 0.0)
