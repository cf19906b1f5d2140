"""Budget splits: golden parts, and refusals. That parts never add up to more than eps, for every
input, is in ``property/test_mechanism_properties.py``."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest

from dpkv.errors import ParameterError
from dpkv.mechanisms import Split


def test_parts_that_decimals_hold_exactly():
    assert Split.of(Decimal(1), 1.0, 3.0).parts == (Decimal("0.25"), Decimal("0.75"))
    assert Split.of(Decimal("0.3"), 1.0).parts == (Decimal("0.3"),)
    assert Split.of(Decimal(2), 0.5, 0.5, times=4).parts == (Decimal("0.25"), Decimal("0.25"))


def test_thirds_are_rounded_down_in_the_fiftieth_digit():
    split = Split.of(Decimal(1), 1.0, 1.0, 1.0)
    assert split.parts == (Decimal("0." + 50 * "3"),) * 3
    assert split.spent == Decimal("0." + 50 * "9")
    assert split.spent < split.eps


def test_a_share_is_the_float_that_was_given_and_not_a_tenth():
    """0.1 and 0.9 add up to a hair above 1 as floats; the shares are taken of that sum."""
    first, second = Split.of(Decimal(1), 0.1, 0.9).parts
    total = Fraction(0.1) + Fraction(0.9)
    assert abs(Fraction(first) - Fraction(0.1) / total) < Fraction(1, 10**49)
    assert abs(Fraction(second) - Fraction(0.9) / total) < Fraction(1, 10**49)
    assert Fraction(first) + Fraction(second) <= 1


def test_what_is_spent_is_exact_beyond_pythons_28_digits():
    tiny = Decimal("1e-60")
    split = Split(Decimal(2), (Decimal(1), tiny), times=1)
    assert split.spent == Decimal("1." + 59 * "0" + "1")
    with pytest.raises(ParameterError, match="at most 1 together"):
        Split(Decimal(1), (Decimal(1), tiny))


def test_times_counts():
    assert Split(Decimal(1), (Decimal("0.2"), Decimal("0.3")), times=2).spent == 1
    with pytest.raises(ParameterError, match="budget shares must be at most 1 together"):
        Split(Decimal(1), (Decimal("0.2"), Decimal("0.3")), times=3)


@pytest.mark.parametrize("part", ["0", "-0.1"])
def test_a_part_must_be_positive(part):
    with pytest.raises(ParameterError, match="a budget share must be greater than 0"):
        Split(Decimal(1), (Decimal("0.5"), Decimal(part)))


@pytest.mark.parametrize("shares", [(0.0, 1.0), (-0.5, 1.5)])
def test_shares_must_be_positive(shares):
    with pytest.raises(ParameterError, match="a budget share must be greater than 0"):
        Split.of(Decimal(1), *shares)
