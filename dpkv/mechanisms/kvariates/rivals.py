"""What k-variates++ is compared with: the same algorithm at the noise of the Laplace mechanism.

``laplace``     D^2 seeding without smoothing, at the Laplace mechanism's noise sigma_2
``forgy``       uniform picks at the same noise: Forgy-DP
``Published``   D^2 seeding at the paper's sigma_1, as printed, which nothing proves
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

from dpkv.accounting import ROW, Neighbours, Unit
from dpkv.accounting.exact import float_below
from dpkv.errors import UsageError
from dpkv.grid import Grid
from dpkv.mechanisms.kvariates.algorithm0 import ProductLaplace
from dpkv.mechanisms.mechanism import Terms
from dpkv.noise import smallest_scale
from dpkv.records.questions import PickProof
from dpkv.validation import positive_finite


@dataclass(frozen=True)
class Laplace(ProductLaplace):
    """D^2 seeding at the Laplace mechanism's noise, sigma_2."""

    name: ClassVar[str] = "laplace"
    title: ClassVar[str] = "Laplace mechanism on k-variates++ (sigma_2)"
    knows_units: ClassVar[bool] = True

    @classmethod
    def for_terms(cls, terms: Terms) -> ProductLaplace:
        """Return the mechanism whose k rounds cost at most eps."""
        return cls.calibrate(
            terms.eps,
            n_clusters=terms.n_clusters,
            grid=terms.grid,
            neighbours=terms.neighbours,
            unit=terms.unit,
        )

    @classmethod
    def calibrate(
        cls,
        eps: Decimal,
        *,
        n_clusters: int,
        grid: Grid,
        neighbours: Neighbours,
        unit: Unit = ROW,
    ) -> ProductLaplace:
        """Return the mechanism whose k rounds cost at most ``eps``."""
        scale = smallest_scale(n_clusters * grid.diam1, float_below(eps))
        return cls(
            n_clusters=n_clusters, grid=grid, neighbours=neighbours, noise_scale=scale, unit=unit
        )


@dataclass(frozen=True)
class Forgy(Laplace):
    """Uniform picks at the noise sigma_2: Forgy-DP, as the paper compares with it."""

    name: ClassVar[str] = "forgy"
    title: ClassVar[str] = "Forgy-DP (uniform picks, sigma_2)"

    @property
    def smoothing(self) -> None:
        """Every round picks uniformly."""
        return


@dataclass(frozen=True)
class Published(ProductLaplace):
    """k-variates++ at sigma_1 as printed: the noise depends on the data, and nothing proves it."""

    eps_tilde: float

    name: ClassVar[str] = "kvariates"
    title: ClassVar[str] = "k-variates++ at the published sigma_1"
    why: ClassVar[str] = "none: the noise is the paper's, as printed"
    relations: ClassVar[tuple[Neighbours, ...]] = (Neighbours.REPLACE_ONE,)

    def __post_init__(self) -> None:
        super().__post_init__()
        positive_finite("eps_tilde", self.eps_tilde)

    @classmethod
    def for_terms(cls, terms: Terms) -> Published:  # noqa: ARG003
        """Refuse: its noise follows from figures of the data, not from public terms."""
        raise UsageError("the published calibration needs its eps~ first.")

    @classmethod
    def calibrate(cls, eps_tilde: float, *, n_clusters: int, grid: Grid) -> Published:
        """Return the mechanism at the paper's noise for ``eps_tilde``."""
        positive_finite("eps_tilde", eps_tilde)
        return cls(
            n_clusters=n_clusters,
            grid=grid,
            neighbours=Neighbours.REPLACE_ONE,
            noise_scale=smallest_scale(grid.diam1, eps_tilde),
            eps_tilde=eps_tilde,
        )

    @property
    def pick_proof(self) -> PickProof:
        """None."""
        return "none"

    def parameters(self) -> dict[str, Any]:
        """Return the noise and the eps~ it came from."""
        return {**super().parameters(), "eps_tilde": self.eps_tilde}
