"""Checks of parameters and record arrays, so that every entry point refuses in the same words."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpkv import kernels
from dpkv.errors import ParameterError, TableError
from dpkv.types import Floats

LARGEST_MAGNITUDE = float(2**53)
"""Beyond it float64 cannot tell neighbouring whole numbers apart; below it no square overflows."""


LARGEST_TOTAL_WEIGHT = 1e200
"""Beyond it a weighted sum of squares could overflow."""


MOST_CENTERS, MOST_ITERATIONS = 100_000, 1_000
MOST_TO_CHOOSE_FROM = 256
"""Refused beyond, where a release would be charged and then not end."""
MOST_RECORDS = 2**53
"""Refused beyond: no table has so many, and arithmetic on longer numbers takes for ever."""
LARGEST_WHOLE = 2**62
"""Of any other whole number of a description: noise is cut there, and int64 holds its sums."""
_MOST_DIGITS = 100


LARGEST_EPS = 1_000_000
"""Beyond it a privacy parameter promises nothing, and a ledger's sums could overflow."""
SMALLEST_EPS = Decimal("0.000000001")
"""The ledger's unit."""
SMALLEST_DELTA = Decimal("1e-18")
"""The ledger's unit of delta."""


def whole_number(
    name: str, value: SupportsIndex, *, at_least: int, at_most: int | None = None
) -> int:
    """Return ``value`` as an int of at least ``at_least``, and at most ``at_most``."""
    try:
        number = operator.index(value)
    except TypeError:
        raise ParameterError(name, "a whole number", value) from None
    if isinstance(value, bool) or number < at_least:
        raise ParameterError(name, f"a whole number of at least {at_least}", value)
    if at_most is not None and number > at_most:
        raise ParameterError(name, f"at most {at_most}", value)
    return number


def positive_finite(name: str, value: float) -> float:
    """Return ``value`` as a float in (0, infinity)."""
    number = _as_float(name, value)
    if not (math.isfinite(number) and number > 0):
        raise ParameterError(name, "a finite number greater than 0", value)
    return number


def non_negative_finite(name: str, value: float) -> float:
    """Return ``value`` as a float in [0, infinity)."""
    number = _as_float(name, value)
    if not (math.isfinite(number) and number >= 0):
        raise ParameterError(name, "a finite number of at least 0", value)
    return number


def non_negative(name: str, value: float) -> float:
    """Return ``value`` as a float in [0, infinity]."""
    number = _as_float(name, value)
    if not number >= 0:
        raise ParameterError(name, "a number of at least 0", value)
    return number


def _as_float(name: str, value: float) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(name, "a number", value) from None


def exact_eps(name: str, value: float | str | Decimal) -> Decimal:
    """Return a privacy parameter as the decimal number a person wrote: 0.1 is one tenth exactly.

    A float stands for the shortest decimal that rounds to it.
    """
    number = _short_decimal(name, value)
    if isinstance(value, bool) or not (number.is_finite() and 0 < number <= LARGEST_EPS):
        raise ParameterError(name, f"greater than 0 and at most {LARGEST_EPS}", value)
    if number < SMALLEST_EPS:
        raise ParameterError(name, f"at least {SMALLEST_EPS:f}, the ledger's unit", value)
    return number


def exact_delta(name: str, value: float | str | Decimal) -> Decimal:
    """Return a delta as the decimal number a person wrote: 0, or a number well below 1."""
    number = _short_decimal(name, value)
    if isinstance(value, bool) or not (number.is_finite() and 0 <= number < 1):
        raise ParameterError(name, "at least 0 and below 1", value)
    if 0 < number < SMALLEST_DELTA:
        raise ParameterError(name, f"0 or at least {SMALLEST_DELTA}, the ledger's unit", value)
    return number


def _short_decimal(name: str, value: float | str | Decimal) -> Decimal:
    """Return a decimal number that can be written down without an exponent in a line."""
    try:
        number = value if isinstance(value, Decimal) else Decimal(str(value).strip())
    except InvalidOperation:
        raise ParameterError(name, "a number", value) from None
    _, digits, exponent = number.as_tuple()
    if isinstance(exponent, int) and (len(digits) > _MOST_DIGITS or -exponent > _MOST_DIGITS):
        raise ParameterError(name, f"a number of at most {_MOST_DIGITS} digits", value)
    return number


def truth(name: str, value: bool) -> bool:
    """Return ``value`` where it is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ParameterError(name, "True or False", value)
    return bool(value)


def printable_names(name: str, values: Iterable[str]) -> tuple[str, ...]:
    """Return names that a file can hold and a terminal can show."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ParameterError(name, "a list of names", values)
    names = tuple(values)
    for place, text in enumerate(names, start=1):
        if not isinstance(text, str) or not text.isprintable():
            # What stands there instead of a name may be a column of the table, so it is not shown.
            raise ParameterError(name, "printable names", f"number {place}, which is not")
    return names


def one_of(name: str, value: str, allowed: tuple[str, ...]) -> str:
    """Return ``value`` when it is among ``allowed``."""
    if not isinstance(value, str) or value not in allowed:
        raise ParameterError(name, "one of " + ", ".join(repr(a) for a in allowed), value)
    return value


def cluster_count(n_clusters: SupportsIndex, n_records: int, name: str = "n_clusters") -> int:
    """Return k, at least 1 and at most the number of records."""
    k = whole_number(name, n_clusters, at_least=1)
    if k > n_records:
        raise ParameterError(name, f"at most the number of records, {n_records}", k)
    return k


def usable_numbers(values: Floats) -> NDArray[np.bool_]:
    """Tell which numbers a record may hold: not NaN, not infinite, not beyond ±2^53."""
    return np.asarray(np.abs(values) <= LARGEST_MAGNITUDE)


def as_numbers(data: ArrayLike) -> NDArray[np.float64]:
    """Return ``data`` as a new float64 matrix; a cell that is no number, such as text, is NaN.

    Every cell becomes what it becomes by itself: one text among numbers makes numpy hold all of
    them as objects or as text, and that must not change the others.
    """
    numbers = np.array(_as_matrix(data, lenient=True), dtype=np.float64, order="C")
    numbers[np.isnan(numbers)] = np.nan  # one NaN for all, so that the same data have one digest
    return numbers


def lenient_numbers(array: NDArray[Any]) -> NDArray[np.float64]:
    """Return an array of numbers, objects or text as float64, with NaN for what is no number."""
    if array.dtype.kind in "iufb":
        with np.errstate(over="ignore"):
            return array.astype(np.float64)
    if array.dtype.kind not in "OUST":
        raise TypeError
    return np.asarray(np.frompyfunc(_number, 1, 1)(array.astype(object)), dtype=np.float64)


def _number(cell: Any) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def as_records(data: ArrayLike) -> Floats:
    """Return ``data`` as a finite, C-ordered float32 or float64 matrix, copied only if needed."""
    array = _as_matrix(data)
    magnitude = kernels.largest_magnitude(array)
    if math.isnan(magnitude):
        raise TableError("data must not contain NaN or infinity: clean those records first.")
    if magnitude > LARGEST_MAGNITUDE:
        raise TableError(
            "data must stay within ±2^53, where float64 still tells whole numbers apart: "
            "rescale the columns."
        )
    return array


def _as_matrix(data: ArrayLike, *, lenient: bool = False) -> Floats:
    try:
        if lenient and np.ma.isMaskedArray(data):
            data = np.ma.filled(data.astype(object), None)
        array = np.ma.filled(data, np.nan) if np.ma.isMaskedArray(data) else np.asarray(data)
        if lenient:
            array = lenient_numbers(array)
        if array.dtype not in (np.float32, np.float64):
            if array.dtype.kind not in "iufbO":
                raise TypeError
            with np.errstate(over="ignore"):
                array = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise TableError(
            "data must be a dense numeric array without missing values: drop or encode the other "
            "columns."
        ) from None
    if array.ndim != 2 or array.shape[1] == 0:  # noqa: PLR2004
        raise TableError(
            f"data must be a matrix with one row per record and at least one column. "
            f"Got shape {array.shape} instead."
        )
    if array.shape[0] == 0:
        raise TableError("data must hold at least one record. Got none.")
    if array.flags.c_contiguous and array.dtype.isnative:
        return array
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))


def as_weights(name: str, weight: ArrayLike | None, n_records: int) -> NDArray[np.float64] | None:
    """Return record weights as float64 of length m, or None when every record counts alike."""
    if weight is None:
        return None
    try:
        array = np.ascontiguousarray(weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise ParameterError(name, "numeric, one number a record", type(weight).__name__) from None
    if array.shape != (n_records,):
        raise ParameterError(
            name, f"one number a record, shape ({n_records},)", f"shape {array.shape}"
        )
    with np.errstate(over="ignore"):
        total = array.sum()
    if not (array >= 0).all() or not 0 < total <= LARGEST_TOTAL_WEIGHT:
        raise ParameterError(
            name, "finite, never negative, and positive somewhere", "weights that are not"
        )
    return array


def as_generator(rng: np.random.Generator | int | None) -> np.random.Generator:
    """Return a numpy Generator (SciPy's ``rng`` convention): for simulation, never a release."""
    if isinstance(rng, np.random.Generator):
        return rng
    if rng is not None:
        rng = whole_number("rng", rng, at_least=0)
    return np.random.default_rng(rng)


def check_range(fewest: int, most: int) -> None:
    """Refuse numbers of centers that nothing could be chosen from."""
    if not 1 <= fewest < most <= MOST_TO_CHOOSE_FROM:
        told = f"a range like 2..12, up to {MOST_TO_CHOOSE_FROM}"
        raise ParameterError("k", told, f"{fewest}..{most}")
