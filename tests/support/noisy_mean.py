"""A mechanism of somebody's own: the noisy mean, k times over. ``conftest.py`` registers it.

No other file knows it: the tests that go round the registry find it there, and hold it to what they
hold every mechanism to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np

from dpkv.accounting import Step
from dpkv.accounting.exact import float_below
from dpkv.accounting.split import Split
from dpkv.mechanisms import MECHANISMS, Mechanism, Noise, Outcome, Terms
from dpkv.mechanisms.mechanism import GRID_STEPS, positive_or_pointless
from dpkv.noise import smallest_scale
from dpkv.records.questions import Ask, ClusterSums, RecordCount, cluster_sums_step, count_step
from dpkv.validation import positive_finite


@MECHANISMS.register
@dataclass(frozen=True)
class NoisyMean(Mechanism):
    """The sum of all records over their number, each with noise."""

    count_scale: float
    sum_scale: float

    name: ClassVar[str] = "noisy-mean"
    title: ClassVar[str] = "Mean of all records"
    why: ClassVar[str] = "a count and a sum of bounded sensitivity"

    def __post_init__(self) -> None:
        super().__post_init__()
        positive_finite("count_scale", self.count_scale)
        positive_or_pointless(self.sum_scale, self.grid, "sum_scale")

    @classmethod
    def for_terms(cls, terms: Terms) -> NoisyMean:
        """Give half of eps to the number of records where it is private, and the rest to sums."""
        counts, sums = Split.of(terms.eps, 0.5, 0.5).parts
        changed = terms.neighbours.changed_records
        if terms.n_records is not None:
            counts, sums = Decimal(1), terms.eps  # asking for what is public costs nothing
        return cls(
            n_clusters=terms.n_clusters,
            grid=terms.grid,
            neighbours=terms.neighbours,
            count_scale=smallest_scale(1, float_below(counts)),
            sum_scale=smallest_scale(changed * terms.grid.radius1, float_below(sums)),
        )

    @property
    def proof(self) -> str:
        """A code."""
        return "sensitivity"

    def schedule(self) -> Iterator[Step]:
        """Return the two prices."""
        yield count_step(self.count_scale, self.neighbours)
        yield cluster_sums_step(self.grid, self.sum_scale, self.neighbours)

    def noises(self) -> tuple[Noise, ...]:
        """Return the noise that counts."""
        return (Noise("cluster-sum-coordinate", self.sum_scale, GRID_STEPS),)

    def parameters(self) -> dict[str, Any]:
        """Return both scales."""
        return {"count_scale": self.count_scale, "sum_scale": self.sum_scale}

    def _predicted_error(self, n_records: int) -> float:
        return self._noise_share(n_records) ** 2

    def run(self, ask: Ask) -> Outcome:
        """Ask twice, and divide."""
        middle = self.grid.middle[np.newaxis]
        number = max(1, int(ask(RecordCount(self.count_scale))[0]))
        offset = ask(ClusterSums(middle, self.grid, self.sum_scale))
        mean = middle + np.floor_divide(offset, number)
        return Outcome(np.repeat(self.grid.clip(mean), self.n_clusters, axis=0))
