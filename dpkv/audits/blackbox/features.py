"""Numbers that tell outputs apart: coordinates, sums, differences, sizes, and the bits of floats.

A float near 0 has finer steps than one near 1, so 0 + noise often is a number that 1 + noise can
never be (Mironov, CCS 2012). The place of the lowest bit that is set shows that.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from dpkv.audits.blackbox.observations import Sample
from dpkv.types import Float64s

_MOST_COORDINATES = 48
_MOST_IN_PAIRS = 7
_MOST_BITS = 16
_NO_BIT = 2000.0
_DIGITS = 9  # of sums and differences: what is exact but for rounding counts as equal


@dataclass(frozen=True, eq=False)
class Features:
    """One column a feature, with its name in words."""

    values: Float64s
    names: tuple[str, ...]
    n_coordinates: int
    """How many of the first are the coordinates themselves."""


def features_of(sample: Sample, *, width: int, with_time: bool) -> Features:
    """Return the features of every run; ``width`` is that of the widest output."""
    key = width, with_time
    if key not in sample.cache:
        sample.cache[key] = _features(sample, width, with_time=with_time)
    found: Features = sample.cache[key]
    return found


def _features(sample: Sample, width: int, *, with_time: bool) -> Features:
    numbers = _padded(sample.numbers, width)
    shown = numbers[:, :_MOST_COORDINATES]
    columns = [shown]
    names = [f"number {place + 1}" for place in range(shown.shape[1])]
    if width > 1:
        for name, column in _aggregates(numbers):
            columns.append(column[:, np.newaxis])
            names.append(name)
        pairs = _pairs_of(min(width, _MOST_COORDINATES))
        for one, other in pairs:
            difference = _rounded(numbers[:, one] - numbers[:, other])
            columns.append(difference[:, np.newaxis])
            names.append(f"number {one + 1} - number {other + 1}")
            if width <= _MOST_IN_PAIRS:
                columns.append(_rounded(numbers[:, one] + numbers[:, other])[:, np.newaxis])
                names.append(f"number {one + 1} + number {other + 1}")
    bits = lowest_bits(numbers[:, :_MOST_BITS])
    columns.append(bits)
    names += [f"place of the lowest bit of number {place + 1}" for place in range(bits.shape[1])]
    if with_time:
        columns.append(sample.seconds[:, np.newaxis])
        names.append("seconds")
    return Features(np.hstack(columns), tuple(names), shown.shape[1])


def _padded(numbers: Float64s, width: int) -> Float64s:
    kept = numbers[:, :width]
    missing = width - kept.shape[1]
    return np.pad(kept, ((0, 0), (0, missing)), constant_values=np.nan) if missing else kept


def _aggregates(numbers: Float64s) -> list[tuple[str, Float64s]]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # rows without numbers
        return [
            ("sum of all numbers", np.nansum(numbers, axis=1)),
            ("least number", np.nanmin(numbers, axis=1)),
            ("largest number", np.nanmax(numbers, axis=1)),
            ("spread of the numbers", np.nanmax(numbers, axis=1) - np.nanmin(numbers, axis=1)),
            ("sum of squares", np.nansum(numbers * numbers, axis=1)),
        ]


def _pairs_of(width: int) -> list[tuple[int, int]]:
    if width <= _MOST_IN_PAIRS:
        return [(i, j) for i in range(width) for j in range(i)]
    return [(i + 1, i) for i in range(width - 1)]


def _rounded(values: Float64s) -> Float64s:
    with np.errstate(invalid="ignore"):
        return np.asarray(np.round(values, _DIGITS) + 0.0)


def lowest_bits(values: Float64s) -> Float64s:
    """Return e for values that are odd multiples of 2^e."""
    finite = np.where(np.isfinite(values), values, 0.0)
    mantissas, exponents = np.frexp(finite)
    whole = np.ldexp(mantissas, 53).astype(np.int64)
    trailing = np.frexp((whole & -whole).astype(np.float64))[1] - 1
    places = exponents - 53.0 + trailing
    return np.where(np.isfinite(values), np.where(whole == 0, _NO_BIT, places), np.nan)
