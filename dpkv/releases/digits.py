"""Numbers with as many digits as their error leaves any meaning: for people; records keep all."""

from __future__ import annotations

import math

_MOST_DECIMALS = 12
_OF_WIDTH = 3  # decimals beyond the order of magnitude of a column's width


def with_error(value: float, sd: float) -> tuple[str, str]:
    """Return a value and its standard error, both to the second digit of the error."""
    if not sd > 0.0 or not math.isfinite(sd):
        return f"{value:.6g}", "0"
    places = 1 - math.floor(math.log10(sd))
    if places <= 0:
        unit = 10**-places
        return f"{round(value / unit) * unit:d}", f"{round(sd / unit) * unit:d}"
    places = min(places, _MOST_DECIMALS)
    return f"{_plain_zero(value, places):.{places}f}", f"{sd:.{places}f}"


def in_width(value: float, width: float) -> str:
    """Return a value to a thousandth of the order of a column's width, where no error is known."""
    if not width > 0.0 or not math.isfinite(width):
        return f"{value:.6g}"
    places = min(max(_OF_WIDTH - math.floor(math.log10(width)), 0), _MOST_DECIMALS)
    return f"{_plain_zero(value, places):.{places}f}"


def counted(size: float, sd: float) -> str:
    """Return a number of records and its error, in whole records."""
    return f"{size:,.0f} ± {max(sd, 0.0):,.0f}"


def _plain_zero(value: float, places: int) -> float:
    return round(value, places) + 0.0  # no negative zero
