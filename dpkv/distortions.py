"""Distortions D(a || c) that seeding can measure: squared L2, Bregman and total Jensen divergences.

The record is the first argument and the center the second (the paper's extension to non-metric
spaces), so that the mean of a cluster minimises every Bregman divergence. Seeding itself never asks
for a minimiser, which is why distortions without a closed-form one work as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpkv import kernels
from dpkv.errors import ParameterError, UsageError
from dpkv.types import Float64s, Floats

Generator = Callable[[Floats], Float64s]
"""A convex function, vectorised: (n, d) points to n values."""


class Distortion(Protocol):
    """How far a record is from a center."""

    def check(self, points: Floats) -> None:
        """Raise UsageError when some point is outside the distortion's domain."""

    def to_center(self, points: Floats, center: Floats) -> Float64s:
        """Return D(a || center) for every row a of ``points``: n numbers, never negative."""


@dataclass(frozen=True)
class SquaredEuclidean:
    """||a - c||^2, the distortion of k-means. Seeding runs it through the compiled kernels."""

    def check(self, points: Floats) -> None:
        """Accept every finite point."""

    def to_center(self, points: Floats, center: Floats) -> Float64s:
        """Return the squared distances to ``center``."""
        points = np.ascontiguousarray(points, dtype=np.float64)
        return np.asarray(kernels.assign_nearest(points, center[np.newaxis])[1])


@dataclass(frozen=True, eq=False)
class Mahalanobis:
    """(a - c)' Q (a - c), the quadratic Bregman divergence of a positive semi-definite Q."""

    matrix: NDArray[np.float64]
    _root: NDArray[np.float64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        matrix = np.asarray(self.matrix, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:  # noqa: PLR2004
            raise ParameterError("matrix", "square", f"shape {matrix.shape}")
        if not np.isfinite(matrix).all() or not np.allclose(matrix, matrix.T):
            raise ParameterError("matrix", "finite and symmetric", "one that is not")
        values, vectors = np.linalg.eigh(matrix)
        if values.min() < -1e-10 * max(1.0, abs(values).max()):
            raise ParameterError("matrix", "positive semi-definite", "one that is not")
        object.__setattr__(self, "matrix", matrix)
        object.__setattr__(self, "_root", vectors * np.sqrt(values.clip(min=0)))

    def check(self, points: Floats) -> None:
        """Accept points with as many columns as the matrix."""
        if points.shape[1] != len(self.matrix):
            raise ParameterError(
                "matrix", f"{points.shape[1]} columns wide like the data", len(self.matrix)
            )

    def to_center(self, points: Floats, center: Floats) -> Float64s:
        """Return (a - c)' Q (a - c) for every row a."""
        rotated = (points - center) @ self._root
        return np.asarray(np.einsum("ij,ij->i", rotated, rotated))


class _PositiveOnly:
    """Shared by the divergences that live on positive vectors."""

    def check(self, points: Floats) -> None:
        """Accept strictly positive points."""
        if not (points > 0).all():
            raise UsageError(
                f"the {type(self).__name__} distortion needs strictly positive numbers: shift or "
                "clip the columns, or choose another distortion."
            )


@dataclass(frozen=True)
class KullbackLeibler(_PositiveOnly):
    """Generalised KL: sum a log(a/c) - a + c, the Bregman divergence of sum x log x."""

    def to_center(self, points: Floats, center: Floats) -> Float64s:
        """Return the generalised KL divergence of every row from ``center``."""
        points = points.astype(np.float64)  # near the center the terms cancel, beyond float32
        terms = points * np.log(points / center) - points + center
        return np.asarray(np.maximum(terms.sum(axis=1), 0.0))


@dataclass(frozen=True)
class ItakuraSaito(_PositiveOnly):
    """Itakura-Saito: sum a/c - log(a/c) - 1, the Bregman divergence of -sum log x."""

    def to_center(self, points: Floats, center: Floats) -> Float64s:
        """Return the Itakura-Saito divergence of every row from ``center``."""
        ratio = points.astype(np.float64) / center  # near the center the terms cancel
        return np.asarray(np.maximum((ratio - np.log(ratio) - 1.0).sum(axis=1), 0.0))


def squared_norm(points: Floats) -> Float64s:
    """Return sum x^2, a convex generator on all of R^d."""
    return np.asarray(np.einsum("ij,ij->i", points, points))


def negative_entropy(points: Floats) -> Float64s:
    """Return sum x log x, a convex generator on positive vectors."""
    return np.asarray((points * np.log(points)).sum(axis=1))


def burg(points: Floats) -> Float64s:
    """Return -sum log x, a convex generator on positive vectors."""
    return np.asarray(-np.log(points).sum(axis=1))


@dataclass(frozen=True)
class TotalJensen:
    """Total Jensen divergence tJ_alpha of any convex generator; it has no closed-form minimiser.

    tJ_alpha(a, c) = J_alpha(a, c) / sqrt(1 + U^2), with the skew Jensen divergence
    J_alpha(a, c) = alpha phi(a) + (1 - alpha) phi(c) - phi(alpha a + (1 - alpha) c)
    and the slope of the chord U = (phi(a) - phi(c)) / ||a - c||.
    """

    generator: Generator = squared_norm
    alpha: float = 0.5

    def __post_init__(self) -> None:
        if not 0.0 < self.alpha < 1.0:
            raise ParameterError("alpha", "strictly between 0 and 1", self.alpha)

    def check(self, points: Floats) -> None:
        """Accept points where the generator is finite."""
        with np.errstate(divide="ignore", invalid="ignore"):
            finite = np.isfinite(self.generator(points)).all()
        if not finite:
            raise UsageError(
                "the TotalJensen distortion's generator must be finite on every record: "
                "shift or clip the columns, or choose another generator."
            )

    def to_center(self, points: Floats, center: Floats) -> Float64s:
        """Return tJ_alpha(a, center) for every row a."""
        points, center = points.astype(np.float64), center.astype(np.float64)
        at_points, at_center = self.generator(points), self.generator(center[np.newaxis, :])
        between = self.alpha * points + (1.0 - self.alpha) * center
        skew = self.alpha * at_points + (1.0 - self.alpha) * at_center - self.generator(between)
        squared_length = SquaredEuclidean().to_center(points, center)
        apart = squared_length > 0.0
        slope_squared = np.divide(
            (at_points - at_center) ** 2, squared_length, out=np.zeros(len(points)), where=apart
        )
        total = np.maximum(skew, 0.0) / np.sqrt(1.0 + slope_squared)
        return np.where(apart, total, 0.0)


SQUARED_EUCLIDEAN = SquaredEuclidean()
