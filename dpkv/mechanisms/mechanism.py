"""What a mechanism is: one frozen description that the accountant, the runner and the auditor read.

A description holds public facts only: the grid, the number of centers, the noise. From it alone
follow what every step costs (``steps``), what all of them cost (``cost``) and how to run it
(``run``). Nothing in a description depends on the records.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Any, ClassVar, Literal

from dpkv.calibration.amplified import upward_decimal
from dpkv.calibration.concentrated import eps_of_rho
from dpkv.errors import ParameterError, UsageError
from dpkv.grid import Grid
from dpkv.kernels import Integers
from dpkv.noise import Entropy
from dpkv.validation import non_negative_finite, one_of, positive_finite, whole_number

GRID_STEPS, RECORDS = "grid steps", "records"
_SUMS = Context(prec=200, rounding=ROUND_CEILING)


class Neighbours(StrEnum):
    """Which tables are neighbours: what a privacy figure protects."""

    REPLACE_ONE = "replace-one"
    """One record is replaced by another; the number of records is public."""
    ADD_REMOVE = "add-remove"
    """One record is added or removed; the number of records is protected as well."""

    @property
    def changed_records(self) -> int:
        """How many records one table has that the other has not, at most, both ways together."""
        return 2 if self is Neighbours.REPLACE_ONE else 1


def as_neighbours(value: str) -> Neighbours:
    """Return the neighbouring relation of that name."""
    return Neighbours(one_of("neighbours", value, tuple(member.value for member in Neighbours)))


Distribution = Literal["discrete Laplace", "discrete Gaussian"]


@dataclass(frozen=True)
class Step:
    """A part of a mechanism, done ``times`` times, and what each time costs, rounded up."""

    name: str
    eps: Decimal | None
    """None where the price is in zCDP, of which eps is a matter of delta."""
    times: int = 1
    exact: Fraction | None = None
    """The price where it is rational, not rounded: three thirds are one."""
    rho: Fraction | None = None
    """The price in zCDP, exactly, of a step with Gaussian noise."""


@dataclass(frozen=True)
class Noise:
    """Noise that is added to integers.

    Discrete Laplace: P(z) ~ exp(-|z| / scale); discrete Gaussian: P(z) ~ exp(-z^2 / (2 scale^2)).
    """

    added_to: str
    scale: float
    unit: str
    """What an integer counts: grid steps, or records."""
    distribution: Distribution = "discrete Laplace"

    @property
    def sd(self) -> float:
        """The standard deviation: sqrt(2 q) / (1 - q) with q = exp(-1 / scale) for Laplace.

        That of a discrete Gaussian is below its scale, and equal to it but for the tiniest.
        """
        if self.scale == 0.0 or self.distribution == "discrete Gaussian":
            return self.scale
        return math.sqrt(2.0 * math.exp(-1.0 / self.scale)) / -math.expm1(-1.0 / self.scale)


Proof = Literal["theorem-a", "local", "sensitivity", "synopsis", "published"]


@dataclass(frozen=True)
class Mechanism(ABC):
    """k centers on a public grid, from records on that grid."""

    n_clusters: int
    grid: Grid
    neighbours: Neighbours

    name: ClassVar[str]
    title: ClassVar[str]

    def __post_init__(self) -> None:
        whole_number("k", self.n_clusters, at_least=1)

    @property
    @abstractmethod
    def proof(self) -> Proof:
        """Why ``cost`` holds; "published" where nothing proves it."""

    @property
    def n_records_needed(self) -> int | None:
        """The public number of records that the proof uses, or None where it uses none."""
        return None

    @property
    def delta(self) -> float:
        """The delta that ``cost`` holds with; 0 for pure eps."""
        return 0.0

    @abstractmethod
    def steps(self) -> tuple[Step, ...]:
        """Return what is spent, part by part."""

    @abstractmethod
    def noises(self) -> tuple[Noise, ...]:
        """Return the noise that is added."""

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Return the description's own fields as plain JSON values, without k, grid, neighbours."""

    def cost(self) -> Decimal:
        """Return the eps of the whole at ``delta``, rounded up: steps compose by addition."""
        return cost_of(self.steps(), self.delta)

    def run(self, points: Integers, entropy: Entropy) -> Integers:
        """Return k centers on the grid, in the order of release, maybe outside the domain.

        ``points`` are records quantised to ``grid``. Moving the centers into the domain is
        post-processing.
        """
        self._check_points(points)
        return self._run(points, entropy)

    @abstractmethod
    def _run(self, points: Integers, entropy: Entropy) -> Integers:
        """Run on points that have been checked."""

    def _check_points(self, points: Integers) -> None:
        if points.ndim != 2 or points.shape[1] != self.grid.n_features or not len(points):  # noqa: PLR2004
            raise UsageError(
                f"the mechanism is for {self.grid.n_features} columns. Got points of shape "
                f"{points.shape} instead."
            )
        needed = self.n_records_needed
        if needed is not None and len(points) != needed:
            raise UsageError(f"the mechanism is for {needed} records. Got {len(points)} instead.")


def laplace_step(name: str, sensitivity: int, scale: float, times: int = 1) -> Step:
    """Return a step that adds noise to integers of that L1 sensitivity: it costs their quotient."""
    exact = Fraction(sensitivity) / Fraction(scale) if sensitivity else Fraction(0)
    return Step(name, upward_decimal(exact), times, exact)


def gaussian_step(name: str, sensitivity_squared: int, scale: float, times: int = 1) -> Step:
    """Return a step that adds Gaussian noise to integers of that squared L2 sensitivity."""
    rho = Fraction(0)
    if sensitivity_squared:
        rho = Fraction(sensitivity_squared, 2) / Fraction(scale) ** 2
    return Step(name, None, times, rho=rho)


def cost_of(steps: Iterable[Step], delta: float = 0.0) -> Decimal:
    """Return the eps that the steps cost together at ``delta``, rounded up.

    Pure steps add up. Steps in zCDP add up among themselves and become (eps, delta) once; pure
    steps join the one sum or the other, whichever costs less in the end.
    """
    rational, total, rho, squares = Fraction(0), Decimal(0), Fraction(0), Fraction(0)
    for step in steps:
        if step.rho is not None:
            rho += step.rho * step.times
            continue
        assert step.eps is not None
        price = Fraction(step.eps) if step.exact is None else step.exact
        squares += price * price * step.times
        if step.exact is not None:
            rational += step.exact * step.times
        else:
            total = _SUMS.fma(step.eps, Decimal(step.times), total)
    pure = _SUMS.add(total, upward_decimal(rational))
    if rho == 0:
        return pure
    if delta <= 0.0:
        return Decimal("Infinity")
    return min(_SUMS.add(pure, eps_of_rho(rho, delta)), eps_of_rho(rho + squares / 2, delta))


def positive_or_pointless(scale: float, grid: Grid, name: str = "noise_scale") -> None:
    """Refuse a noise scale that is no positive number, but for a domain that is a single point."""
    if grid.diam1 > 0 or non_negative_finite(name, scale) > 0:
        positive_finite(name, scale)


def refuse_add_remove(name: str, neighbours: Neighbours, why: str) -> None:
    """Refuse the relation that a mechanism's proof does not cover."""
    if neighbours is Neighbours.ADD_REMOVE:
        raise ParameterError("neighbours", f"'replace-one' for {name}", neighbours.value, why)
