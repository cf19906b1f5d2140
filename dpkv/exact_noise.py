"""Discrete Laplace noise, exact, many numbers at a time, from the operating system's bits.

Probabilities are those of Canonne, Kamath and Steinke (2020): coins whose chances are quotients of
integers, and nothing else. No number here is a float but the scale, which stands for the rational
number that it is. Numbers that are drawn side by side are independent: each has bits of its own,
and a number that a rejection asks for again is drawn from new ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
Bits = Callable[[int], bytes]
"""So many uniform random bytes."""

_SMALLEST, _LARGEST = 2.0**-9, 2.0**40
"""Scales between which numerator and denominator are below 2^62, and no noise that ever comes
leaves int64: beyond 2^62 it is with a chance of exp(-2^22) or less."""
_WORD_BITS, _BYTE_BITS = 64, 8


def can_draw(scale: float) -> bool:
    """Tell whether integers of 64 bits hold all that noise of this scale takes."""
    return _SMALLEST <= scale <= _LARGEST


def laplace(n: int, scale: float, bits: Bits = os.urandom) -> Int64s:
    """Return n independent integers z, each with probability proportional to exp(-|z| / scale)."""
    exact = Fraction(scale)
    found = np.empty(n, np.int64)
    waiting = np.arange(n)
    while waiting.size:
        size = _geometric(waiting.size, exact, bits)
        negative = _below(2, waiting.size, bits) == 1
        kept = (size != 0) | ~negative  # or zero would come twice as often
        found[waiting[kept]] = np.where(negative, -size, size)[kept]
        waiting = waiting[~kept]
    return found


def _geometric(n: int, scale: Fraction, bits: Bits) -> Int64s:
    """Return integers of which each is z >= 0 with probability proportional to exp(-z / scale).

    With scale = t / s: an integer x with probability proportional to exp(-x / t), as u + t v with u
    below t accepted with probability exp(-u / t) and v by coins of chance exp(-1), has
    z = floor(x / s) as wanted.
    """
    t, s = scale.numerator, scale.denominator
    u = np.empty(n, np.int64)
    waiting = np.arange(n)
    while waiting.size:
        drawn = _below(t, waiting.size, bits)
        kept = _survive(drawn, t, bits)
        u[waiting[kept]] = drawn[kept]
        waiting = waiting[~kept]
    whole, rest = np.divmod(u, s)
    t_whole, t_rest = divmod(t, s)
    going = np.arange(n)
    while going.size:
        going = going[_survive(np.ones(going.size, np.int64), 1, bits)]
        whole[going] += t_whole
        rest[going] += t_rest
        over = going[rest[going] >= s]
        rest[over] -= s
        whole[over] += 1
    return whole


def _survive(numerators: Int64s, denominator: int, bits: Bits) -> NDArray[np.bool_]:
    """Toss coins of chances exp(-numerator / denominator), which are quotients of at most 1.

    The first failure of coins with chances g, g/2, g/3, ... is at an odd place with probability
    1 - g + g^2/2 - ... = exp(-g). A coin of chance g/j is one of chance g and one of chance 1/j.
    """
    found = np.empty(numerators.size, np.bool_)
    tossed, place = np.arange(numerators.size), 1
    while tossed.size:
        passed = _below(place, tossed.size, bits) == 0
        passed[passed] = _below(denominator, int(passed.sum()), bits) < numerators[tossed[passed]]
        found[tossed[~passed]] = place % 2 == 1
        tossed, place = tossed[passed], place + 1
    return found


def _below(bound: int, n: int, bits: Bits) -> Int64s:
    """Return n uniform integers in [0, bound), by rejection."""
    n_bits = (bound - 1).bit_length()
    if n_bits == 0:
        return np.zeros(n, np.int64)
    width = _BYTE_BITS if n_bits <= _BYTE_BITS else _WORD_BITS
    kind: Any = np.uint8 if width == _BYTE_BITS else np.uint64
    found = np.empty(n, np.int64)
    done = 0
    while done < n:
        raw = np.frombuffer(bits((n - done) * width // _BYTE_BITS), kind)
        drawn = (raw >> kind(width - n_bits)).astype(np.int64)
        drawn = drawn[drawn < bound]
        found[done : done + drawn.size] = drawn
        done += drawn.size
    return found
