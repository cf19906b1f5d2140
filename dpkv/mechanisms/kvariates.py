"""k-variates++ with product-Laplace densities, on the grid: three named releases of Algorithm 0.

``kvariates``   D^2 seeding smoothed by gamma, certified by Theorem A (``calibration/amplified.py``)
``laplace``     D^2 seeding without smoothing, at the Laplace mechanism's noise sigma_2
``forgy``       uniform picks at the same noise: Forgy-DP

Every round is one question, a noisy pick. ``records/questions/pick.py`` has the proofs, "theorem-a"
and "local". "none" is no proof: the noise follows the paper's formula from figures of the
data.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from dpkv.accounting import ROW, Neighbours, Step, Unit
from dpkv.accounting.exact import float_below
from dpkv.accounting.theorem_a import certify
from dpkv.errors import UsageError
from dpkv.grid import Grid
from dpkv.mechanisms.mechanism import (
    GRID_STEPS,
    Mechanism,
    Noise,
    Outcome,
    Terms,
    positive_or_pointless,
)
from dpkv.noise import smallest_scale
from dpkv.records.questions import Ask, NoisyPick, PickNoise, PickProof
from dpkv.seeding.algorithm0 import Drawn, algorithm0
from dpkv.seeding.exact import check_exact
from dpkv.types import Integers
from dpkv.validation import MOST_RECORDS, cluster_count, positive_finite, whole_number

_MOST_SMOOTHING = 10**400  # above the largest float times the squared diameter of any grid


@dataclass(frozen=True)
class Algorithm0(Mechanism):
    """Algorithm 0 with discrete product-Laplace noise of scale ``noise_scale``, in grid steps."""

    noise_scale: float

    why: ClassVar[str] = "every centre is a noisy record, whichever was picked"

    def __post_init__(self) -> None:
        super().__post_init__()
        positive_or_pointless(self.noise_scale, self.grid)
        check_exact(self.grid.diam2_squared, self.unit.shares)

    @property
    def smoothing(self) -> int | None:
        """What is added to every squared distance; None picks uniformly."""
        return 0

    @property
    def proof(self) -> PickProof:
        """The local argument, which needs nothing of the selection."""
        return "local"

    @property
    def pick_noise(self) -> PickNoise:
        """What every round has in common."""
        return PickNoise(
            self.grid, self.noise_scale, self.smoothing, self.proof, self.n_records_needed
        )

    @property
    def log_ratio(self) -> Fraction:
        """log rho = diam1 / b: what one noisy center may cost on its own (the paper's eps~)."""
        return self.pick_noise.log_ratio

    def schedule(self) -> Iterator[Step]:
        """Return the k rounds."""
        noise = self.pick_noise
        yield noise.step(self.neighbours, self.unit, first=True)
        if self.n_clusters > 1:
            later = noise.step(self.neighbours, self.unit, first=False)
            yield from (later for _ in range(self.n_clusters - 1))

    def noises(self) -> tuple[Noise, ...]:
        """Return the noise of a center's coordinates."""
        return (Noise("center-coordinate", self.noise_scale, GRID_STEPS),)

    def parameters(self) -> dict[str, Any]:
        """Return the noise."""
        return {"noise_scale": self.noise_scale}

    def _predicted_error(self, n_shares: int) -> float:  # noqa: ARG002
        """A center moves by the noise itself."""
        return self._noise_share(1.0) ** 2

    def run(self, ask: Ask) -> Outcome:
        """Run Algorithm 0, a question a round."""
        noise = self.pick_noise
        centers = np.empty((self.n_clusters, self.grid.n_features), np.int64)

        def next_draw(t: int, reference: Integers | None) -> Drawn:
            if reference is not None:
                centers[t - 1] = reference
            return Drawn(ask(NoisyPick(noise, centers[:t])))

        def settle(drawn: Integers) -> Integers:
            return np.asarray(self.grid.clip(drawn[np.newaxis])[0])

        return Outcome(np.asarray(algorithm0(self.n_clusters, next_draw, settle=settle).draws))


@dataclass(frozen=True)
class KVariates(Algorithm0):
    """D^2 seeding smoothed by gamma; eps-DP by Theorem A for replace-one neighbours."""

    n_records: int
    smoothing_steps: int | None
    """S, in squared grid steps; None is gamma = infinity."""

    name: ClassVar[str] = "kvariates"
    title: ClassVar[str] = "k-variates++, certified by Theorem A"
    why: ClassVar[str] = "Theorem A: sampling amplification of every round"
    relations: ClassVar[tuple[Neighbours, ...]] = (Neighbours.REPLACE_ONE,)
    needs_even_units: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("n_records", self.n_records, at_least=1, at_most=MOST_RECORDS)
        cluster_count(self.n_clusters, self.n_records, "k")
        if self.smoothing_steps is not None:
            whole_number(
                "smoothing_steps", self.smoothing_steps, at_least=1, at_most=_MOST_SMOOTHING
            )

    @classmethod
    def for_terms(cls, terms: Terms) -> KVariates:
        """Return the mechanism with the least noise that Theorem A allows."""
        assert terms.n_records is not None
        return cls.calibrate(
            terms.eps,
            n_records=terms.n_records,
            n_clusters=terms.n_clusters,
            grid=terms.grid,
            gamma=terms.gamma,
            unit=terms.unit,
        )

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
        steps = None
        if not math.isinf(gamma):
            steps = max(1, math.ceil(Fraction(gamma) * grid.diam2_squared))
        return cls(
            n_clusters=n_clusters,
            grid=grid,
            neighbours=Neighbours.REPLACE_ONE,
            noise_scale=smallest_scale(grid.diam1, certificate.eps_tilde),
            n_records=n_records,
            smoothing_steps=steps,
            unit=unit,
        )

    @property
    def smoothing(self) -> int | None:
        """S, which Theorem A calls gamma diam2^2."""
        return self.smoothing_steps

    @property
    def gamma(self) -> float | Fraction:
        """The smoothing as a share of diam2^2, exactly; infinite where picks are uniform."""
        return self.pick_noise.gamma

    @property
    def proof(self) -> PickProof:
        """Theorem A."""
        return "theorem-a"

    @property
    def n_records_needed(self) -> int:
        """m, which Theorem A takes as public."""
        return self.n_records

    def parameters(self) -> dict[str, Any]:
        """Return noise, smoothing and the number of records."""
        return {
            **super().parameters(),
            "n_records": self.n_records,
            "smoothing_steps": self.smoothing_steps,
        }


@dataclass(frozen=True)
class Laplace(Algorithm0):
    """D^2 seeding at the Laplace mechanism's noise, sigma_2."""

    name: ClassVar[str] = "laplace"
    title: ClassVar[str] = "Laplace mechanism on k-variates++ (sigma_2)"

    @classmethod
    def for_terms(cls, terms: Terms) -> Algorithm0:
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
    ) -> Algorithm0:
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
class Published(Algorithm0):
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
    def proof(self) -> PickProof:
        """None."""
        return "none"

    def parameters(self) -> dict[str, Any]:
        """Return the noise and the eps~ it came from."""
        return {**super().parameters(), "eps_tilde": self.eps_tilde}
