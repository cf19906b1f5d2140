"""Randomness for mechanisms: exact and from the operating system, or seeded and for study only.

A mechanism draws through ``Entropy`` and cannot tell which it was given, so a seeded simulation
runs the very code of a release. Only ``OperatingSystemEntropy`` may serve a release: it takes no
seed, its integers come from ``secrets``, and its noise from OpenDP's sampler, which is exact for
the rational number that the scale, a float, stands for. No probability passes through a float.
"""

from __future__ import annotations

import math
import secrets
from fractions import Fraction
from functools import cache
from typing import Any, Protocol

import numpy as np

from dpkv.errors import ParameterError
from dpkv.types import Int64s
from dpkv.validation import whole_number

_COIN_BITS = 128
_FARTHEST = 2**62  # noise beyond it is cut: no difference from a point of a grid can overflow
_LARGEST_SEEDED_SCALE = 1e300
_LARGEST_SEEDED_SPREAD = 2.0**80  # all but a millionth of that is cut, as of any larger one
_NEXT_TO_NONE = 0.02  # a Gaussian below it is 0 but with probability 2 exp(-1250)


class Entropy(Protocol):
    """What mechanisms draw from."""

    def below(self, bound: int) -> int:
        """Return a uniform integer in [0, bound), for a bound of any size."""

    def add_laplace(self, values: Int64s, scale: float) -> Int64s:
        """Return the values plus independent discrete Laplace noise, P(z) ~ exp(-|z| / scale)."""

    def add_gaussian(self, values: Int64s, scale: float) -> Int64s:
        """Return the values plus discrete Gaussian noise, P(z) ~ exp(-z^2 / (2 scale^2))."""

    def coins(self) -> int:
        """Return the seed of a generator for steps whose probabilities no proof relies on."""


class OperatingSystemEntropy:
    """The only entropy of a release. There is no seed."""

    def below(self, bound: int) -> int:
        """Return a uniform integer in [0, bound)."""
        return secrets.randbelow(bound)

    def add_laplace(self, values: Int64s, scale: float) -> Int64s:
        """Return the values plus discrete Laplace noise, sampled exactly by OpenDP."""
        noisy = _opendp_laplace(scale)(values.reshape(-1).tolist())
        return _cut(np.asarray(noisy, dtype=np.int64)).reshape(values.shape)

    def add_gaussian(self, values: Int64s, scale: float) -> Int64s:
        """Return the values plus discrete Gaussian noise, sampled exactly by OpenDP."""
        noisy = _opendp_gaussian(scale)(values.reshape(-1).tolist())
        return _cut(np.asarray(noisy, dtype=np.int64)).reshape(values.shape)

    def coins(self) -> int:
        """Return the operating system's coins, which nobody can choose."""
        return secrets.randbits(_COIN_BITS)


class SeededEntropy:
    """Reproducible draws, for simulation: what they produce must never be released."""

    def __init__(self, seed: int | np.random.SeedSequence) -> None:
        if not isinstance(seed, np.random.SeedSequence):
            seed = np.random.SeedSequence(whole_number("seed", seed, at_least=0))
        self._rng = np.random.default_rng(seed)

    def below(self, bound: int) -> int:
        """Return a uniform integer in [0, bound), by rejection."""
        if bound < 1:
            raise ValueError("bound must be positive")
        bits = (bound - 1).bit_length()
        n_bytes = -(-bits // 8)
        while True:
            drawn = int.from_bytes(self._rng.bytes(n_bytes)) >> (8 * n_bytes - bits)
            if drawn < bound:
                return drawn

    def add_laplace(self, values: Int64s, scale: float) -> Int64s:
        """Return the values plus the difference of two geometric variables.

        The floor of an exponential variable of mean ``scale`` is geometric with ratio
        exp(-1/scale), and the difference of two such is discrete Laplace.
        """
        if scale == 0.0:
            return values
        mean = min(scale, _LARGEST_SEEDED_SCALE)
        geometric = np.floor(self._rng.exponential(mean, (2, *values.shape)))
        noise = np.clip(geometric[0] - geometric[1], -float(_FARTHEST), float(_FARTHEST))
        return _cut(values + noise.astype(np.int64))

    def add_gaussian(self, values: Int64s, scale: float) -> Int64s:
        """Return the values plus discrete Gaussian noise, by rejection from discrete Laplace.

        With a Laplace scale of t = floor(scale) + 1, a proposal z is kept with probability
        exp(-(|z| - scale^2 / t)^2 / (2 scale^2)): what is kept has weight exp(-z^2 / (2 scale^2)).
        """
        if scale < _NEXT_TO_NONE:
            return values
        scale = min(scale, _LARGEST_SEEDED_SPREAD)
        variance, mean = scale * scale, math.floor(scale) + 1.0
        noise = np.empty(values.size, np.int64)
        waiting = np.arange(values.size)
        while waiting.size:
            drawn = self.add_laplace(np.zeros(waiting.size, np.int64), mean)
            surplus = np.abs(drawn.astype(np.float64)) - variance / mean
            kept = self._rng.random(waiting.size) < np.exp(-surplus * surplus / (2.0 * variance))
            noise[waiting[kept]] = drawn[kept]
            waiting = waiting[~kept]
        return _cut(values + noise.reshape(values.shape))

    def coins(self) -> int:
        """Return coins that the seed decides."""
        return int.from_bytes(self._rng.bytes(_COIN_BITS // 8))


def smallest_scale(sensitivity: int, eps: float) -> float:
    """Return the least float b with sensitivity / b <= eps, both compared exactly."""
    if not eps >= 0:
        raise ParameterError("eps", "greater than 0", eps)
    if sensitivity == 0:
        return 0.0
    try:
        scale = sensitivity / eps
    except (OverflowError, ZeroDivisionError):
        scale = math.inf
    while math.isfinite(scale) and Fraction(sensitivity) > Fraction(scale) * Fraction(eps):
        scale = math.nextafter(scale, math.inf)
    if not math.isfinite(scale):
        raise ParameterError("eps", "large enough for a finite noise", eps)
    return scale


def _cut(values: Int64s) -> Int64s:
    return np.clip(values, -_FARTHEST, _FARTHEST)


@cache
def _opendp_laplace(scale: float) -> Any:
    """Return OpenDP's measurement: integers in, integers plus discrete Laplace noise out."""
    from opendp.domains import atom_domain, vector_domain  # noqa: PLC0415 (slow to import)
    from opendp.measurements import make_laplace  # noqa: PLC0415
    from opendp.metrics import l1_distance  # noqa: PLC0415
    from opendp.mod import enable_features  # noqa: PLC0415

    enable_features("contrib")
    space = vector_domain(atom_domain(T="i64")), l1_distance(T="i64")
    return make_laplace(*space, scale=scale)


@cache
def _opendp_gaussian(scale: float) -> Any:
    """Return OpenDP's measurement: integers in, integers plus discrete Gaussian noise out."""
    from opendp.domains import atom_domain, vector_domain  # noqa: PLC0415 (slow to import)
    from opendp.measurements import make_gaussian  # noqa: PLC0415
    from opendp.metrics import l2_distance  # noqa: PLC0415
    from opendp.mod import enable_features  # noqa: PLC0415

    enable_features("contrib")
    space = vector_domain(atom_domain(T="i64")), l2_distance(T="f64")
    return make_gaussian(*space, scale=scale)
