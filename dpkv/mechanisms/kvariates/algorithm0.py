"""Algorithm 0 on the grid: k rounds, each a record that is picked and released through a density.

Every round is one question, a noisy pick. ``records/questions/pick.py`` has the proofs, "theorem-a"
and "local". "none" is no proof: the noise follows the paper's formula from figures of the
data.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from dpkv.accounting import Step
from dpkv.mechanisms.clusters import RECORDS_RELEASED
from dpkv.mechanisms.mechanism import (
    GRID_STEPS,
    Mechanism,
    Noise,
    Outcome,
    Proof,
    positive_or_pointless,
)
from dpkv.records.questions import Ask, Density, LaplaceDensity, NoisyPick, PickProof, PickTerms
from dpkv.seeding.algorithm0 import Drawn, algorithm0
from dpkv.seeding.exact import check_exact
from dpkv.types import Integers


@dataclass(frozen=True)
class Algorithm0(Mechanism):
    """Algorithm 0 with one density in all rounds."""

    why: ClassVar[str] = "every centre is a noisy record, whichever was picked"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_exact(self.grid.diam2_squared, self.unit.shares)

    @property
    @abstractmethod
    def density(self) -> Density:
        """What every picked record is released through."""

    @property
    def smoothing(self) -> int | None:
        """What is added to every squared distance; None picks uniformly."""
        return 0

    @property
    def pick_terms(self) -> PickTerms:
        """What every round has in common."""
        return PickTerms(self.density, self.smoothing, self.pick_proof, self.n_records_needed)

    @property
    def pick_proof(self) -> PickProof:
        """Why a round's price holds: the local argument, which needs nothing of the selection."""
        return "local"

    @property
    def proof(self) -> Proof:
        """The same."""
        return self.pick_proof

    @property
    def log_ratio(self) -> Fraction:
        """A bound of log rho: what one released record may cost on its own (the paper's eps~)."""
        return self.density.log_ratio

    def schedule(self) -> Iterator[Step]:
        """Return the k rounds."""
        terms = self.pick_terms
        yield terms.step(self.neighbours, self.unit, first=True)
        if self.n_clusters > 1:
            later = terms.step(self.neighbours, self.unit, first=False)
            yield from (later for _ in range(self.n_clusters - 1))

    @property
    def untold(self) -> str | None:
        """Nothing is asked about clusters."""
        return RECORDS_RELEASED

    def closed_form(self) -> Algorithm0:
        """Return the mechanism: a center's probability is a sum over the records."""
        return self

    def run(self, ask: Ask) -> Outcome:
        """Run Algorithm 0, a question a round."""
        terms = self.pick_terms
        centers = np.empty((self.n_clusters, self.grid.n_features), np.int64)

        def next_draw(t: int, reference: Integers | None) -> Drawn:
            if reference is not None:
                centers[t - 1] = reference
            return Drawn(ask(NoisyPick(terms, centers[:t])))

        def settle(drawn: Integers) -> Integers:
            return np.asarray(self.grid.clip(drawn[np.newaxis])[0])

        return Outcome(np.asarray(algorithm0(self.n_clusters, next_draw, settle=settle).draws))


@dataclass(frozen=True)
class ProductLaplace(Algorithm0):
    """Algorithm 0 with discrete product-Laplace noise of scale ``noise_scale``, in grid steps."""

    noise_scale: float

    def __post_init__(self) -> None:
        super().__post_init__()
        positive_or_pointless(self.noise_scale, self.grid)

    @property
    def density(self) -> LaplaceDensity:
        """Noise on every coordinate."""
        return LaplaceDensity(self.grid, self.noise_scale)

    def noises(self) -> tuple[Noise, ...]:
        """Return the noise of a center's coordinates."""
        return (Noise("center-coordinate", self.noise_scale, GRID_STEPS),)

    def parameters(self) -> dict[str, Any]:
        """Return the noise."""
        return {"noise_scale": self.noise_scale}

    def _predicted_error(self, n_shares: int) -> float:  # noqa: ARG002
        """A center moves by the noise itself."""
        return self._noise_share(1.0) ** 2
