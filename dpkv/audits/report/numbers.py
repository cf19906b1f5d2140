"""Numbers as text: every figure of a report is written once, here."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal

ABSENT = "–"
_DIGITS = 4
_ALL_DIGITS = 17  # of a float
_PLAIN = range(-4, 9)  # magnitudes written without a power of ten
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_GAP = "\N{NARROW NO-BREAK SPACE}"


def count(value: int) -> str:
    """Return a whole number, with thousands set apart from five digits on."""
    grouped = f"{value:,}".replace(",", _GAP) if abs(value) >= 10_000 else str(value)  # noqa: PLR2004
    return grouped.replace("-", "−")


def number(value: float | None, *, digits: int = _DIGITS, rounding: str = ROUND_HALF_EVEN) -> str:
    """Return a measured number to some significant digits."""
    if value is None:
        return ABSENT
    if not math.isfinite(value):
        return "undefined" if math.isnan(value) else "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    whole = Decimal(repr(value)).adjusted() + 1
    return _write(_round(value, max(digits, whole if whole in _PLAIN else 0), rounding))


def exact(value: float) -> str:
    """Return a number that someone chose, as short as it can be written."""
    if not math.isfinite(value) or value == 0:
        return number(value)
    return _write(Decimal(repr(value)).normalize())


def lower(value: float | None, *, beside: float | None = None) -> str:
    """Return a lower bound, rounded down; with digits enough to tell it from ``beside``."""
    if value is None or beside is None or not math.isfinite(value) or value == beside:
        return number(value, rounding=ROUND_FLOOR)
    digits = _DIGITS
    while digits < _ALL_DIGITS and _round(value, digits, ROUND_FLOOR) == Decimal(repr(beside)):
        digits += 1
    return number(value, digits=digits, rounding=ROUND_FLOOR)


def interval(ends: tuple[float, float] | None) -> str:
    """Return an interval, rounded outward."""
    if ends is None:
        return ""
    low, high = ends
    return f"[{number(low, rounding=ROUND_FLOOR)}, {number(high, rounding=ROUND_CEILING)}]"


def counts(values: tuple[int, ...]) -> str:
    """Return whole numbers in a row: "2 to 5" where they follow each other."""
    if len(values) > 2 and values == tuple(range(values[0], values[-1] + 1)):  # noqa: PLR2004
        return f"{values[0]} to {values[-1]}"
    return ", ".join(map(str, values))


def _round(value: float, digits: int, rounding: str) -> Decimal:
    """Return the number with exactly so many significant digits, zeros included."""
    rounded = Context(prec=digits, rounding=rounding).create_decimal(repr(value))
    return rounded.quantize(Decimal(1).scaleb(rounded.adjusted() + 1 - digits))


def _write(value: Decimal) -> str:
    magnitude = value.adjusted() if value else 0
    if magnitude not in _PLAIN:
        mantissa = value.scaleb(-magnitude)
        text = f"{mantissa:f}×10{str(magnitude).translate(_RAISED)}"
        return text.replace("-", "−")
    whole, point, fraction = f"{value:f}".replace("-", "−").partition(".")
    digits = whole.lstrip("−")
    if len(digits) > _DIGITS:
        whole = whole.replace(digits, count(int(digits)))
    return whole + point + fraction
