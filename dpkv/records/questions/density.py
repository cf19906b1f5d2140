"""What a picked record is released through, on the grid: product-Laplace noise, or a window.

A density is a probability p_a for every record a. All that a proof needs of it is a bound rho of
p_a(x) / p_a'(x) over all x and all a, a' of the grid.

Product-Laplace. Independent discrete Laplace noise of scale b on every coordinate: on the grid
p_a(x) / p_a'(x) = exp((|x - a'|_1 - |x - a|_1) / b) <= exp(diam1 / b) = rho. What is drawn may lie
outside the domain.

Window. Among the densities on a bounded domain with ratio rho, two levels are best: one in a window
around the record, and one that is rho times lower elsewhere. With N points in the grid and V in
each window (``windows.py``), p_a(x) = rho / S inside a's window and 1 / S outside, where
S = rho V + N - V is the same for every record. So p_a(x) / p_a'(x) is 1, rho or 1 / rho, exactly.
With rho = p / q it is the mixture of the whole grid, of weight q N, and of the window, of weight
(p - q) V: every point gets q of the first, and a point inside p - q more. One draw below their sum
decides, and uniform whole numbers do the rest.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from dpkv.accounting import Step, laplace_step
from dpkv.accounting.exact import float_above, log_above
from dpkv.accounting.theorem_a import round_costs, round_costs_of_ratio
from dpkv.errors import ParameterError
from dpkv.grid import Grid
from dpkv.noise import Entropy
from dpkv.records.questions.question import log_tanh_half
from dpkv.records.questions.windows import Windows, windows_of
from dpkv.types import Float64s, Integers
from dpkv.validation import positive_finite, whole_number


@dataclass(frozen=True)
class Density(ABC):
    """How a record of the grid is released."""

    grid: Grid

    @property
    @abstractmethod
    def log_ratio(self) -> Fraction:
        """A bound of log rho: what one released record may cost on its own (the paper's eps~)."""

    @property
    @abstractmethod
    def stays_inside(self) -> bool:
        """Whether whatever is drawn lies in the domain."""

    @abstractmethod
    def local_step(self, name: str) -> Step:
        """Return the price of one record: log rho."""

    @abstractmethod
    def round_costs(self, n_records: int, gamma: float | Fraction) -> tuple[Decimal, Decimal]:
        """Return what Theorem A says of the first round, and of every later one, rounded up."""

    @abstractmethod
    def draw(self, point: Integers, entropy: Entropy) -> Integers:
        """Return the record as it is released."""

    def draw_each(self, points: Integers, entropy: Entropy) -> Integers:
        """Return many records as they are released, independently."""
        return np.stack([self.draw(point, entropy) for point in points])

    @abstractmethod
    def log_likelihoods(self, points: Integers, x: Integers) -> Float64s:
        """Return log p_a(x) for every record a and one x."""

    @abstractmethod
    def relative_likelihoods(self, points: Integers, x: Integers) -> Float64s:
        """Return p_a(x) up to a factor of x that keeps it in range; either may be one for all."""


@dataclass(frozen=True)
class LaplaceDensity(Density):
    """Discrete product-Laplace noise."""

    scale: float
    """b, in grid steps."""

    @property
    def log_ratio(self) -> Fraction:
        """Log rho = diam1 / b."""
        return Fraction(self.grid.diam1) / Fraction(self.scale or 1.0)

    @property
    def stays_inside(self) -> bool:
        """Noise knows no bounds."""
        return False

    def local_step(self, name: str) -> Step:
        """Return the price diam1 / b, exactly."""
        return laplace_step(name, self.grid.diam1, self.scale)

    def round_costs(self, n_records: int, gamma: float | Fraction) -> tuple[Decimal, Decimal]:
        """Return what Theorem A says of rho = exp(diam1 / b)."""
        return round_costs(self.log_ratio, n_records, gamma)

    def draw(self, point: Integers, entropy: Entropy) -> Integers:
        """Return the record with noise."""
        return entropy.add_laplace(point.astype(np.int64), self.scale)

    def draw_each(self, points: Integers, entropy: Entropy) -> Integers:
        """Return the records, each with noise of its own."""
        return self.draw(points, entropy)

    def log_likelihoods(self, points: Integers, x: Integers) -> Float64s:
        """Return the log-probabilities of the noise that it takes."""
        gaps = self._gaps(points, x)
        if self.scale == 0.0:
            return np.where(gaps == 0, 0.0, -np.inf)
        return np.asarray(len(x) * log_tanh_half(1.0 / self.scale) - gaps / self.scale)

    def relative_likelihoods(self, points: Integers, x: Integers) -> Float64s:
        """Return exp(-distance / b), distances measured from that of ``x`` to the domain."""
        away = np.abs(x - self.grid.clip(np.atleast_2d(x))).sum(axis=1, dtype=np.float64)
        return np.asarray(np.exp((away - self._gaps(points, x)) / (self.scale or 1.0)))

    def _gaps(self, points: Integers, x: Integers) -> Float64s:
        gaps = np.abs(points.astype(np.int64) - x).sum(axis=1, dtype=np.float64)
        return np.asarray(gaps)


@dataclass(frozen=True)
class WindowDensity(Density):
    """Two levels: one in a window around the record, a lower one elsewhere."""

    ratio: float
    """rho: the rational number that the float stands for, at least 1."""
    reach: int
    """From the middle of a window to its end, along an axis, in grid steps."""

    def __post_init__(self) -> None:
        if positive_finite("density_ratio", self.ratio) < 1.0:
            raise ParameterError("density_ratio", "at least 1", self.ratio)
        whole_number("window_reach", self.reach, at_least=0, at_most=2**31)

    @cached_property
    def windows(self) -> Windows:
        """Where the windows are."""
        return windows_of(self.grid, self.reach)

    @cached_property
    def _weights(self) -> tuple[int, int]:
        """The weights of the whole grid and of the window, as whole numbers."""
        rho = Fraction(self.ratio)
        surplus = rho.numerator - rho.denominator
        return rho.denominator * self.windows.n_points, surplus * self.windows.n_inside

    @property
    def log_ratio(self) -> Fraction:
        """Log rho, rounded up."""
        return _log_ratio(self.ratio)

    @property
    def stays_inside(self) -> bool:
        """Both levels end with the domain."""
        return True

    @property
    def near(self) -> float:
        """The probability that a record is released as a point of its own window."""
        anywhere, inside = self._weights
        rho = Fraction(self.ratio)
        return (inside + rho.denominator * self.windows.n_inside) / (anywhere + inside)

    def local_step(self, name: str) -> Step:
        """Return the price log rho, rounded up."""
        return Step(name, log_above(Fraction(self.ratio)))

    def round_costs(self, n_records: int, gamma: float | Fraction) -> tuple[Decimal, Decimal]:
        """Return what Theorem A says of rho."""
        return round_costs_of_ratio(Fraction(self.ratio), n_records, gamma)

    def draw(self, point: Integers, entropy: Entropy) -> Integers:
        """Return a point of the record's window, or one of anywhere."""
        anywhere, inside = self._weights
        if entropy.below(anywhere + inside) < anywhere:
            return self.windows.draw_anywhere(entropy)
        return self.windows.draw_inside(point.astype(np.int64), entropy)

    def log_likelihoods(self, points: Integers, x: Integers) -> Float64s:
        """Return the logarithms of the two levels; nothing is released outside the domain."""
        if not self._is_possible(x):
            return np.full(len(points), -np.inf)
        rho = Fraction(self.ratio)
        total = math.log(sum(self._weights))
        inside = self.windows.hold(points, x)
        low, high = math.log(rho.denominator) - total, math.log(rho.numerator) - total
        return np.where(inside, high, low)

    def relative_likelihoods(self, points: Integers, x: Integers) -> Float64s:
        """Return the two levels over the higher one."""
        if not self._is_possible(x):
            raise ParameterError("output", "inside the domain", "a point outside of it")
        return np.where(self.windows.hold(points, x), 1.0, 1.0 / self.ratio)

    def _is_possible(self, x: Integers) -> bool:
        return bool((self.grid.clip(np.atleast_2d(x)) == x).all())


@lru_cache(maxsize=256)
def _log_ratio(ratio: float) -> Fraction:
    return Fraction(float_above(log_above(Fraction(ratio))))
