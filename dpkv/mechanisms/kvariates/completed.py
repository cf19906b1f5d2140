"""k-variates++ completed by private Lloyd steps: seeding under Theorem A, then local optimisation.

The seeding costs what Theorem A says, and gives k centers. Each step then asks two questions about
the records' residuals, as a synopsis does (``synopsis/refine.py``): it costs what
``records/questions/residuals.py`` proves, whatever the centers are. Questions are asked one after
another, each with what was answered before in hand, and their prices add up: proof
"theorem-a-lloyd". The number of steps follows from public facts alone (``worthwhile_steps``);
shares of eps and gamma are constants, measured by ``audits/windows_layout.py``.

A seeding may put two centers into one cluster and miss another, which Lloyd's iterations cannot
mend. The noisy histograms show both: between steps idle centers are moved (``idle_centers.py``).
That is post-processing, as radii and blending are.

What a step starts from are public numbers: a cluster is taken to have m / k records until a noisy
histogram says more, and a center to be off by what its density adds and by half of the domain.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np

from dpkv.accounting import ROW, Neighbours, Step, Unit
from dpkv.accounting.exact import float_below
from dpkv.accounting.split import Split
from dpkv.errors import UsageError
from dpkv.grid import Grid
from dpkv.mechanisms.kvariates.certified import Certified, KVariates, WindowKVariates
from dpkv.mechanisms.kvariates.idle_centers import (
    SETTLING_STEPS,
    estimate_spread,
    move_idle_centers,
)
from dpkv.mechanisms.mechanism import (
    CLIP_RADII,
    DENSITIES,
    RECORDS,
    Densities,
    Mechanism,
    Noise,
    Outcome,
    Proof,
    Terms,
    members,
)
from dpkv.mechanisms.synopsis import refine
from dpkv.mechanisms.synopsis.estimates import estimate_by_steps
from dpkv.noise import smallest_scale
from dpkv.records.questions import Ask, Clusters, norms_step, residuals_step
from dpkv.types import Integers
from dpkv.validation import MOST_ITERATIONS, positive_finite, whole_number

_LARGEST_PRODUCT = 2**62  # of two norms: beyond it int64 would overflow
LLOYD_PROOF = "theorem-a-lloyd"
_BIAS, _SKEW, _STRETCH = 10.0, 0.2, 1.0  # as a synopsis has them in few columns
_STEP_SHARE = 0.85  # of eps, for all steps: windows lose little where they get less
_STEPS_FROM = (5.0, 2), (30.0, 4), (3000.0, 6), (10_000.0, 8)
"""Eps times the records of a cluster, and how many steps are worth it from there on."""
_CUT = 0.125  # of the domain: the radius that residuals are cut to, for predictions
_MISSED = 0.02  # squared error of a seeding that has gone wrong, on average
_NORM_SHARE = 0.15  # of a step, for the histograms of norms


@dataclass(frozen=True)
class CompletedKVariates(Mechanism):
    """Certified k-variates++, and private Lloyd steps from its centers."""

    n_records: int
    smoothing_steps: int | None
    noise_scale: float | None
    """Of product-Laplace noise; None where the density is a window."""
    density_ratio: float | None
    window_reach: int | None
    n_steps: int
    norm_scale: float
    sum_scale: float

    name: ClassVar[str] = "kvariates"
    title: ClassVar[str] = "k-variates++ under Theorem A, then private Lloyd steps"
    why: ClassVar[str] = "Theorem A for the seeding; Lloyd steps of bounded sensitivity are added"
    relations: ClassVar[tuple[Neighbours, ...]] = (Neighbours.REPLACE_ONE,)
    knows_units: ClassVar[bool] = True
    needs_even_units: ClassVar[bool] = True
    densities: ClassVar[tuple[Densities, ...]] = DENSITIES
    takes_lloyd_steps: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.noise_scale is None) == (self.density_ratio is None):
            raise UsageError("a seeding has one density: noise, or a window.")
        if (self.density_ratio is None) != (self.window_reach is None):
            raise UsageError("a window has a ratio and a reach.")
        if self.grid.diam1**2 >= _LARGEST_PRODUCT:
            raise UsageError("the grid is too fine for exact residuals: use fewer columns.")
        whole_number("n_steps", self.n_steps, at_least=1, at_most=MOST_ITERATIONS)
        for name in ("norm_scale", "sum_scale"):
            positive_finite(name, getattr(self, name))
        assert self.seeding.n_clusters  # and its figures make sense

    @classmethod
    def for_terms(cls, terms: Terms) -> Mechanism:
        """Return the mechanism that costs at most eps."""
        return for_terms(terms)

    @classmethod
    def calibrate(
        cls,
        eps: Decimal,
        *,
        n_records: int,
        n_clusters: int,
        grid: Grid,
        gamma: float,
        density: Densities,
        n_steps: int,
        step_share: float,
        unit: Unit = ROW,
    ) -> CompletedKVariates:
        """Return the mechanism that costs at most ``eps``, of which the steps get a share."""
        first, steps = Split.of(eps, 1.0 - step_share, step_share).parts
        norms, sums = Split.of(steps, _NORM_SHARE, 1.0 - _NORM_SHARE, times=n_steps).parts
        form = WindowKVariates if density == "window" else KVariates
        seeding = form.calibrate(
            first, n_records=n_records, n_clusters=n_clusters, grid=grid, gamma=gamma, unit=unit
        )
        changed = unit.changed(Neighbours.REPLACE_ONE)
        fields = {"noise_scale": None, "density_ratio": None, "window_reach": None}
        return cls(
            n_clusters=n_clusters,
            grid=grid,
            neighbours=Neighbours.REPLACE_ONE,
            unit=unit,
            **{**fields, **seeding.parameters()},
            n_steps=n_steps,
            norm_scale=smallest_scale(changed, float_below(norms)),
            sum_scale=smallest_scale(changed, float_below(sums)),
        )

    @property
    def seeding(self) -> Certified:
        """What the first k questions are, as a mechanism of its own."""
        common: dict[str, Any] = {
            "n_clusters": self.n_clusters,
            "grid": self.grid,
            "neighbours": self.neighbours,
            "unit": self.unit,
            "n_records": self.n_records,
            "smoothing_steps": self.smoothing_steps,
        }
        if self.noise_scale is not None:
            return KVariates(noise_scale=self.noise_scale, **common)
        return WindowKVariates(
            density_ratio=self.density_ratio,  # type: ignore[arg-type]
            window_reach=self.window_reach,  # type: ignore[arg-type]
            **common,
        )

    @property
    def proof(self) -> Proof:
        """Theorem A, and the sensitivities of the steps."""
        return LLOYD_PROOF

    @property
    def n_records_needed(self) -> int:
        """m, which Theorem A takes as public."""
        return self.n_records

    @property
    def step_noise(self) -> refine.StepNoise:
        """The noise of a Lloyd step."""
        return refine.StepNoise(
            self.norm_scale,
            self.sum_scale,
            gaussian=False,
            bias=_BIAS,
            skew=_SKEW,
            stretch=_STRETCH,
        )

    def schedule(self) -> Iterator[Step]:
        """Return the rounds of the seeding, and the two questions of every step."""
        yield from self.seeding.schedule()
        norms = norms_step(self.norm_scale, self.neighbours, self.unit)
        sums = residuals_step(self.sum_scale, self.neighbours, self.unit, gaussian=False)
        for _ in range(self.n_steps):
            yield norms
            yield sums

    def noises(self) -> tuple[Noise, ...]:
        """Return the noise of the seeding and of the steps."""
        return (
            *self.seeding.noises(),
            Noise("residual-norm-bin", self.norm_scale, RECORDS),
            Noise("residual-sum-coordinate", self.sum_scale, CLIP_RADII),
        )

    def parameters(self) -> dict[str, Any]:
        """Return seeding and steps."""
        names = (
            "n_records", "smoothing_steps", "noise_scale", "density_ratio", "window_reach",
            "n_steps", "norm_scale", "sum_scale",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names}

    @property
    def untold(self) -> str | None:
        """Lloyd steps tell all."""
        return None

    def run(self, ask: Ask) -> Outcome:
        """Seed, and move the centers by private Lloyd steps, idle ones to where they are missed."""
        estimate = self._opening(self.grid.clip(self.seeding.run(ask).centers))
        noise, grid = self.step_noise, self.grid
        for left in reversed(range(self.n_steps)):
            clusters, before = Clusters(estimate.centers, grid), estimate
            histogram = refine.count_norms(ask, clusters, before, noise, grid)
            estimate = refine.step_by_norms(ask, clusters, before, histogram, noise, grid)
            if left >= SETTLING_STEPS:
                spread = estimate_spread(histogram, before, estimate, noise, grid)
                estimate = move_idle_centers(estimate, spread, grid, ask.coins)
        total = self.public_shares(self.n_records)
        told = estimate_by_steps(before, estimate, noise, grid, total)
        return Outcome(estimate.centers, clusters=told.worth(self.unit.counted(1.0)))

    def _opening(self, centers: Integers) -> refine.Estimate:
        """Return what is known before the first step, from public facts."""
        k, shares = self.n_clusters, float(self.n_records * self.unit.shares)
        width = self.grid.diam1 / max(1, self.grid.n_features)
        return refine.Estimate(
            centers,
            np.full(k, shares / k),
            np.full(k, shares**2),
            np.full(k, max(1.0, (width / 4.0) ** 2)),
        )

    def _predicted_error(self, n_shares: int) -> float:
        """A center moves by the noise of its sums; some seedings miss a cluster for good."""
        size = members(n_shares, self.n_clusters)
        half = max(1.0, self.grid.diam1 / max(1, self.grid.n_features) / 2.0)
        radius = _CUT * self.grid.n_features * 2.0
        missed = _MISSED if self.n_clusters > 1 else 0.0
        return (self._noise_share(size) * half * radius) ** 2 + missed


def for_terms(terms: Terms) -> Mechanism:
    """Return k-variates++ for terms: by itself, or completed by Lloyd steps."""
    assert terms.n_records is not None
    density = terms.density or "laplace"
    facts: dict[str, Any] = {
        "n_records": terms.n_records,
        "n_clusters": terms.n_clusters,
        "grid": terms.grid,
        "gamma": terms.gamma,
        "unit": terms.unit,
    }
    n_steps = terms.lloyd_steps
    if n_steps is None:
        n_steps = worthwhile_steps(terms) if density == "window" else 0
    if n_steps == 0:
        form = WindowKVariates if density == "window" else KVariates
        return form.calibrate(terms.eps, **facts)
    return CompletedKVariates.calibrate(
        terms.eps, **facts, density=density, n_steps=n_steps, step_share=_STEP_SHARE
    )


def worthwhile_steps(terms: Terms) -> int:
    """Return how many steps the records of a cluster have eps for."""
    assert terms.n_records is not None
    each = float(terms.eps) * terms.n_records / terms.n_clusters
    return max((steps for least, steps in _STEPS_FROM if each >= least), default=1)
