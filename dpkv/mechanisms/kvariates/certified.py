"""k-variates++ certified by Theorem A: smoothed D^2 seeding, through noise or through windows.

The theorem (``accounting/theorem_a.py``) asks nothing of the density but its ratio rho, and gives
the largest log rho that eps allows. Product-Laplace noise gets its scale from that; a window gets a
rational rho that is below it, and the side of least expected error (``windows.py``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

from dpkv.accounting import ROW, Neighbours, Unit
from dpkv.accounting.exact import float_below
from dpkv.accounting.theorem_a import certify, largest_ratio
from dpkv.grid import Grid
from dpkv.mechanisms.kvariates.algorithm0 import Algorithm0, ProductLaplace
from dpkv.mechanisms.kvariates.windows import best_window, expected_squares
from dpkv.mechanisms.mechanism import (
    DENSITIES,
    GRID_STEPS,
    Densities,
    Mechanism,
    Noise,
    Proof,
    Terms,
)
from dpkv.noise import smallest_scale
from dpkv.records.questions import PickProof, WindowDensity
from dpkv.validation import MOST_RECORDS, cluster_count, whole_number

WINDOWS_PROOF = "theorem-a-window"
_MOST_SMOOTHING = 10**400  # above the largest float times the squared diameter of any grid


@dataclass(frozen=True)
class Certified(Algorithm0):
    """D^2 seeding smoothed by gamma; eps-DP by Theorem A for replace-one neighbours."""

    n_records: int
    smoothing_steps: int | None
    """S, in squared grid steps; None is gamma = infinity."""

    why: ClassVar[str] = "Theorem A: sampling amplification of every round"
    relations: ClassVar[tuple[Neighbours, ...]] = (Neighbours.REPLACE_ONE,)
    knows_units: ClassVar[bool] = True
    needs_even_units: ClassVar[bool] = True
    densities: ClassVar[tuple[Densities, ...]] = DENSITIES
    takes_lloyd_steps: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("n_records", self.n_records, at_least=1, at_most=MOST_RECORDS)
        cluster_count(self.n_clusters, self.n_records, "k")
        if self.smoothing_steps is not None:
            whole_number(
                "smoothing_steps", self.smoothing_steps, at_least=1, at_most=_MOST_SMOOTHING
            )

    @property
    def smoothing(self) -> int | None:
        """S, which Theorem A calls gamma diam2^2."""
        return self.smoothing_steps

    @property
    def gamma(self) -> float | Fraction:
        """The smoothing as a share of diam2^2, exactly; infinite where picks are uniform."""
        return self.pick_terms.gamma

    @property
    def pick_proof(self) -> PickProof:
        """Theorem A."""
        return "theorem-a"

    @property
    def n_records_needed(self) -> int:
        """m, which Theorem A takes as public."""
        return self.n_records

    def parameters(self) -> dict[str, Any]:
        """Return smoothing and the number of records."""
        return {"n_records": self.n_records, "smoothing_steps": self.smoothing_steps}


@dataclass(frozen=True)
class KVariates(Certified, ProductLaplace):
    """Certified k-variates++ with product-Laplace noise."""

    name: ClassVar[str] = "kvariates"
    title: ClassVar[str] = "k-variates++, certified by Theorem A"

    @classmethod
    def of_proof(cls, proof: Proof) -> type[Mechanism]:
        """Return the form that goes by a proof of that code."""
        from dpkv.mechanisms.kvariates import completed  # noqa: PLC0415 (it needs this module)

        forms: dict[Proof, type[Mechanism]] = {
            WINDOWS_PROOF: WindowKVariates,
            completed.LLOYD_PROOF: completed.CompletedKVariates,
        }
        return forms.get(proof, cls)

    @classmethod
    def for_terms(cls, terms: Terms) -> Mechanism:
        """Return the mechanism with the least noise that Theorem A allows."""
        from dpkv.mechanisms.kvariates import completed  # noqa: PLC0415 (it needs this module)

        return completed.for_terms(terms)

    @classmethod
    def calibrate(
        cls,
        eps: Decimal,
        *,
        n_records: int,
        n_clusters: int,
        grid: Grid,
        gamma: float,
        unit: Unit = ROW,
    ) -> KVariates:
        """Return the mechanism with the least noise that Theorem A allows for ``eps``."""
        certificate = certify(
            float_below(eps), n_records=n_records, n_clusters=n_clusters, gamma=gamma
        )
        return cls(
            n_clusters=n_clusters,
            grid=grid,
            neighbours=Neighbours.REPLACE_ONE,
            noise_scale=smallest_scale(grid.diam1, certificate.eps_tilde),
            n_records=n_records,
            smoothing_steps=_smoothing_steps(gamma, grid),
            unit=unit,
        )

    def with_windows(self) -> WindowKVariates:
        """Return the windows of the same eps~."""
        density = best_window(self.grid, largest_ratio(float(self.log_ratio) * (1.0 - 1e-12)))
        return WindowKVariates(
            n_clusters=self.n_clusters,
            grid=self.grid,
            neighbours=self.neighbours,
            unit=self.unit,
            n_records=self.n_records,
            smoothing_steps=self.smoothing_steps,
            density_ratio=density.ratio,
            window_reach=density.reach,
        )

    def parameters(self) -> dict[str, Any]:
        """Return noise, smoothing and the number of records."""
        return {"noise_scale": self.noise_scale, **super().parameters()}


@dataclass(frozen=True)
class WindowKVariates(Certified):
    """Certified k-variates++ with windows."""

    density_ratio: float
    """rho: the rational number that the float stands for."""
    window_reach: int
    """From the middle of a window to its end, along an axis, in grid steps."""

    name: ClassVar[str] = "kvariates"
    title: ClassVar[str] = "k-variates++ with windows, certified by Theorem A"

    def __post_init__(self) -> None:
        super().__post_init__()
        assert self.density.stays_inside  # and its figures make sense

    @classmethod
    def for_terms(cls, terms: Terms) -> Mechanism:
        """Return the mechanism of largest ratio that Theorem A allows."""
        return KVariates.for_terms(terms)

    @classmethod
    def calibrate(
        cls,
        eps: Decimal,
        *,
        n_records: int,
        n_clusters: int,
        grid: Grid,
        gamma: float,
        unit: Unit = ROW,
    ) -> WindowKVariates:
        """Return the mechanism of largest ratio that Theorem A allows for ``eps``."""
        certificate = certify(
            float_below(eps), n_records=n_records, n_clusters=n_clusters, gamma=gamma
        )
        density = best_window(grid, largest_ratio(certificate.eps_tilde))
        return cls(
            n_clusters=n_clusters,
            grid=grid,
            neighbours=Neighbours.REPLACE_ONE,
            n_records=n_records,
            smoothing_steps=_smoothing_steps(gamma, grid),
            unit=unit,
            density_ratio=density.ratio,
            window_reach=density.reach,
        )

    @property
    def density(self) -> WindowDensity:
        """Two levels."""
        return WindowDensity(self.grid, self.density_ratio, self.window_reach)

    @property
    def proof(self) -> Proof:
        """Theorem A, of windows."""
        return WINDOWS_PROOF

    def noises(self) -> tuple[Noise, ...]:
        """Return how far a center's coordinates are off, whatever moved them."""
        return (Noise("center-coordinate", self.spread_of_a_coordinate, GRID_STEPS, "window"),)

    @property
    def spread_of_a_coordinate(self) -> float:
        """The root of a coordinate's expected squared error, in grid steps."""
        columns = max(1, self.grid.n_features)
        return math.sqrt(expected_squares(self.density) / columns)

    def parameters(self) -> dict[str, Any]:
        """Return window, smoothing and the number of records."""
        return {
            **super().parameters(),
            "density_ratio": self.density_ratio,
            "window_reach": self.window_reach,
        }

    def _predicted_error(self, n_shares: int) -> float:  # noqa: ARG002
        """A center is a record, off by what the window adds."""
        return self._noise_share(1.0) ** 2


def _smoothing_steps(gamma: float, grid: Grid) -> int | None:
    """Return S of Theorem A, rounded up to a whole number of squared steps."""
    if math.isinf(gamma):
        return None
    return max(1, math.ceil(Fraction(gamma) * grid.diam2_squared))
