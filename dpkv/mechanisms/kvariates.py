"""k-variates++ with product-Laplace densities, on the grid: three named releases of Algorithm 0.

``kvariates``   D^2 seeding smoothed by gamma, certified by Theorem A (``calibration/amplified.py``)
``laplace``     D^2 seeding without smoothing, at the Laplace mechanism's noise sigma_2
``forgy``       uniform picks at the same noise: Forgy-DP

The noise of a center has ratio rho = exp(diam1 / b) on the grid, exactly: P(x | a) / P(x | a') =
exp((|x - a'|_1 - |x - a|_1) / b) and |a - a'|_1 <= diam1.

Proof "theorem-a". Weights are integers: D_t(a) + S with S = ceil(gamma diam2^2) in squared steps.
Theorem A holds with the gamma that S / diam2^2 is, at least the one asked for.

Proof "local". Given the centers so far, the distribution of the next one is a mixture of p_a over
the records a, however they are picked. All p_a are within a factor rho of each other at every x, so
any two mixtures are: of neighbouring tables, and of any two tables at all. k rounds cost k log rho.
This holds for replace-one and for add/remove alike.

"published" is no proof: the noise follows the paper's formula from figures of the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from dpkv.calibration.amplified import certify, round_costs
from dpkv.grid import Grid
from dpkv.kernels import Integers
from dpkv.mechanisms.mechanism import (
    GRID_STEPS,
    Mechanism,
    Neighbours,
    Noise,
    Proof,
    Step,
    laplace_step,
    positive_or_pointless,
    refuse_add_remove,
)
from dpkv.noise import Entropy, smallest_scale
from dpkv.seeding.algorithm0 import seeding_rounds
from dpkv.seeding.exact import ExactPicker
from dpkv.validation import cluster_count, float_below, positive_finite, whole_number

NEEDS_PUBLIC_M = "Its proof takes the number of records as public; under add/remove it is not."


@dataclass(frozen=True)
class Algorithm0(Mechanism):
    """Algorithm 0 with discrete product-Laplace noise of scale ``noise_scale``, in grid steps."""

    noise_scale: float

    def __post_init__(self) -> None:
        super().__post_init__()
        positive_or_pointless(self.noise_scale, self.grid)

    @property
    def smoothing(self) -> int | None:
        """What is added to every squared distance; None picks uniformly."""
        return 0

    @property
    def proof(self) -> Proof:
        """The local argument, which needs nothing of the selection."""
        return "local"

    @property
    def log_ratio(self) -> Fraction:
        """log rho = diam1 / b: what one noisy center may cost on its own (the paper's eps~)."""
        return Fraction(self.grid.diam1) / Fraction(self.noise_scale or 1.0)

    def steps(self) -> tuple[Step, ...]:
        """Return the k rounds."""
        price = self.grid.diam1, self.noise_scale
        return (laplace_step("one noisy centre", *price, self.n_clusters),)

    def noises(self) -> tuple[Noise, ...]:
        """Return the noise of a center's coordinates."""
        return (Noise("each coordinate of each centre", self.noise_scale, GRID_STEPS),)

    def parameters(self) -> dict[str, Any]:
        """Return the noise."""
        return {"noise_scale": self.noise_scale}

    def _run(self, points: Integers, entropy: Entropy) -> Integers:
        picker = ExactPicker(
            points,
            diam2_squared=self.grid.diam2_squared,
            smoothing=self.smoothing,
            below=entropy.below,
        )

        def draw(index: int) -> Integers:
            return entropy.add_laplace(points[index].astype(np.int64), self.noise_scale)

        def settle(drawn: Integers) -> Integers:
            return np.asarray(self.grid.clip(drawn[np.newaxis])[0])

        rounds = seeding_rounds(self.n_clusters, picker, draw=draw, settle=settle)
        return np.asarray(rounds.draws)


@dataclass(frozen=True)
class KVariates(Algorithm0):
    """D^2 seeding smoothed by gamma; eps-DP by Theorem A for replace-one neighbours."""

    n_records: int
    smoothing_steps: int | None
    """S, in squared grid steps; None is gamma = infinity."""

    name: ClassVar[str] = "kvariates"
    title: ClassVar[str] = "k-variates++, certified by Theorem A"

    def __post_init__(self) -> None:
        super().__post_init__()
        cluster_count(self.n_clusters, whole_number("n_records", self.n_records, at_least=1), "k")
        refuse_add_remove(self.name, self.neighbours, NEEDS_PUBLIC_M)
        if self.smoothing_steps is not None:
            whole_number("smoothing_steps", self.smoothing_steps, at_least=1)

    @classmethod
    def calibrated(
        cls, eps: Decimal, *, n_records: int, n_clusters: int, grid: Grid, gamma: float
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
        )

    @property
    def smoothing(self) -> int | None:
        """S, which Theorem A calls gamma diam2^2."""
        return self.smoothing_steps

    @property
    def gamma(self) -> float | Fraction:
        """The smoothing as a share of diam2^2, exactly; infinite where picks are uniform."""
        if self.smoothing_steps is None or self.grid.diam2_squared == 0:
            return math.inf
        return Fraction(self.smoothing_steps, self.grid.diam2_squared)

    @property
    def proof(self) -> Proof:
        """Theorem A."""
        return "theorem-a"

    @property
    def n_records_needed(self) -> int:
        """m, which Theorem A takes as public."""
        return self.n_records

    def steps(self) -> tuple[Step, ...]:
        """Return the first round, a uniform pick, and the others."""
        first, later = round_costs(self.log_ratio, self.n_records, self.gamma)
        opening = Step("round 1: uniform pick, one noisy centre", first)
        if self.n_clusters == 1:
            return (opening,)
        rest = "a later round: smoothed D^2 pick, one noisy centre"
        return opening, Step(rest, later, self.n_clusters - 1)

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
    def calibrated(
        cls, eps: Decimal, *, n_clusters: int, grid: Grid, neighbours: Neighbours
    ) -> Algorithm0:
        """Return the mechanism whose k rounds cost at most ``eps``."""
        scale = smallest_scale(n_clusters * grid.diam1, float_below(eps))
        return cls(n_clusters=n_clusters, grid=grid, neighbours=neighbours, noise_scale=scale)


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

    def __post_init__(self) -> None:
        super().__post_init__()
        positive_finite("eps_tilde", self.eps_tilde)

    @classmethod
    def calibrated(cls, eps_tilde: float, *, n_clusters: int, grid: Grid) -> Published:
        """Return the mechanism at the paper's noise for ``eps_tilde``."""
        return cls(
            n_clusters=n_clusters,
            grid=grid,
            neighbours=Neighbours.REPLACE_ONE,
            noise_scale=smallest_scale(grid.diam1, eps_tilde),
            eps_tilde=eps_tilde,
        )

    @property
    def proof(self) -> Proof:
        """None."""
        return "published"

    def steps(self) -> tuple[Step, ...]:
        """Return nothing: no step has a price that is proved."""
        return ()

    def parameters(self) -> dict[str, Any]:
        """Return the noise and the eps~ it came from."""
        return {**super().parameters(), "eps_tilde": self.eps_tilde}
