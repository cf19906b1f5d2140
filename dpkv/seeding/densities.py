"""Local densities: what a picked record is released through (Table 3, reductions).

A density draws a center given the picked record, and knows the mean mu_a and the trace of the
covariance Sigma_a at every record, which the bound of Theorem 1 (expected potential) asks for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpkv.errors import ParameterError, UsageError
from dpkv.types import Float64s, Floats
from dpkv.validation import non_negative_finite

Scale = float | NDArray[np.float64]


@dataclass(frozen=True)
class Moments:
    """The densities' first two moments, for any slice of the records."""

    means: Callable[[slice], Floats]
    traces: Callable[[slice], Float64s]


class Density(Protocol):
    """A family of densities p_a, one at every record a."""

    def sample(self, data: Floats, index: int, rng: np.random.Generator) -> Floats:
        """Draw x from p_a for the record at ``index``."""

    def moments(self, data: Floats) -> Moments:
        """Return mu_a and tr Sigma_a."""


def _constant(trace: float) -> Callable[[slice], Float64s]:
    return lambda rows: np.full(rows.stop - rows.start, trace)


def _per_column(name: str, scale: Scale, n_features: int) -> Float64s:
    scales = np.asarray(scale, dtype=np.float64)
    if scales.ndim and scales.shape != (n_features,):
        raise ParameterError(
            name, f"one number, or one per column ({n_features})", f"shape {scales.shape}"
        )
    return np.broadcast_to(scales, (n_features,))


def _check_scale(name: str, scale: Scale) -> None:
    try:
        scales = np.atleast_1d(np.asarray(scale, dtype=np.float64))
    except (TypeError, ValueError):
        raise ParameterError(name, "a number, or one per column", scale) from None
    for value in scales:
        non_negative_finite(name, float(value))


@dataclass(frozen=True, eq=False)
class Dirac:
    """The picked record itself, or its ``anchors`` row (sk-means++ anchors at the summary)."""

    anchors: Floats | None = None

    def _anchors(self, data: Floats) -> Floats:
        if self.anchors is None:
            return data
        anchors = np.asarray(self.anchors)
        if anchors.shape != data.shape:
            raise ParameterError(
                "anchors", f"of the data's shape, {data.shape}", f"shape {anchors.shape}"
            )
        return anchors

    def sample(self, data: Floats, index: int, rng: np.random.Generator) -> Floats:  # noqa: ARG002
        """Return the anchor of the record at ``index``."""
        return np.asarray(self._anchors(data)[index])

    def moments(self, data: Floats) -> Moments:
        """Return the anchors, and no variance."""
        anchors = self._anchors(data)
        return Moments(lambda rows: anchors[rows], _constant(0.0))


@dataclass(frozen=True, eq=False)
class ProductLaplace:
    """The record plus independent Laplace noise; ``scale`` b for all columns or one per column."""

    scale: Scale

    def __post_init__(self) -> None:
        _check_scale("scale", self.scale)

    def sample(self, data: Floats, index: int, rng: np.random.Generator) -> Floats:
        """Return the record plus noise. Floating-point noise: for simulation, not for a release."""
        scales = _per_column("scale", self.scale, data.shape[1])
        return np.asarray(data[index] + rng.laplace(0.0, scales))

    def moments(self, data: Floats) -> Moments:
        """Return the records, and a variance of 2 b^2 a column."""
        scales = _per_column("scale", self.scale, data.shape[1])
        return Moments(lambda rows: data[rows], _constant(float(2.0 * (scales**2).sum())))


@dataclass(frozen=True, eq=False)
class Gaussian:
    """The record plus independent Gaussian noise; ``sigma`` for all columns or one per column."""

    sigma: Scale

    def __post_init__(self) -> None:
        _check_scale("sigma", self.sigma)

    def sample(self, data: Floats, index: int, rng: np.random.Generator) -> Floats:
        """Return the record plus noise. Floating-point noise: for simulation, not for a release."""
        sigmas = _per_column("sigma", self.sigma, data.shape[1])
        return np.asarray(data[index] + rng.normal(0.0, sigmas))

    def moments(self, data: Floats) -> Moments:
        """Return the records, and a variance of sigma^2 a column."""
        sigmas = _per_column("sigma", self.sigma, data.shape[1])
        return Moments(lambda rows: data[rows], _constant(float((sigmas**2).sum())))


@dataclass(frozen=True, eq=False)
class UniformOnSubset:
    """A uniform record of the picked record's group: protected dk-means++ (Theorem 2).

    ``groups[a]`` names the group (the peer's shard) of record a.
    """

    groups: NDArray[np.integer[Any]]

    @cached_property
    def _membership(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return each record's group number, the records group by group, and the groups' starts."""
        _, numbers, counts = np.unique(self.groups, return_inverse=True, return_counts=True)
        members = np.argsort(numbers, kind="stable")
        return numbers, members, np.concatenate([[0], np.cumsum(counts)])

    def sample(self, data: Floats, index: int, rng: np.random.Generator) -> Floats:
        """Return a uniformly drawn record of the group of the record at ``index``."""
        numbers, members, starts = self._check_membership(data)
        group = numbers[index]
        return np.asarray(data[members[rng.integers(starts[group], starts[group + 1])]])

    def moments(self, data: Floats) -> Moments:
        """Return the groups' means and total variances."""
        numbers, members, starts = self._check_membership(data)
        sizes = np.diff(starts)
        means = np.empty((len(sizes), data.shape[1]))
        traces = np.empty(len(sizes))
        for group, (start, stop) in enumerate(pairwise(starts)):
            records = data[members[start:stop]].astype(np.float64)
            means[group], traces[group] = records.mean(axis=0), records.var(axis=0).sum()
        return Moments(lambda rows: means[numbers[rows]], lambda rows: traces[numbers[rows]])

    def _check_membership(
        self, data: Floats
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        if np.shape(self.groups) != (len(data),):
            raise ParameterError(
                "groups", f"one label per record, {len(data)}", f"shape {np.shape(self.groups)}"
            )
        return self._membership


@dataclass(frozen=True)
class CallableDensity:
    """Any sampler ``(record, rng) -> center``. Give ``moments_of`` to evaluate bounds with it."""

    sampler: Callable[[Floats, np.random.Generator], Floats]
    moments_of: Callable[[Floats], Moments] | None = None

    def sample(self, data: Floats, index: int, rng: np.random.Generator) -> Floats:
        """Call the sampler on the picked record and check the shape of what it returns."""
        center = np.asarray(self.sampler(data[index], rng))
        if center.shape != (data.shape[1],):
            raise ParameterError(
                "density", f"a function returning {data.shape[1]} numbers", f"shape {center.shape}"
            )
        if not np.isfinite(center).all():
            raise UsageError("density must return finite numbers: check the function.")
        return center

    def moments(self, data: Floats) -> Moments:
        """Return what ``moments_of`` says."""
        if self.moments_of is None:
            raise UsageError(
                "density has no known mean and variance: pass moments_of= to evaluate a bound."
            )
        return self.moments_of(data)
