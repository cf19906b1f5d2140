"""What to audit, and how hard to try."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from dpkv.accounting import ROW
from dpkv.audits.faults import Fault
from dpkv.audits.privacy import Effort
from dpkv.audits.publication import Opened
from dpkv.domain import Domain
from dpkv.mechanisms import PAPERS, Mechanism, from_description
from dpkv.releases import Plan, ReleaseRecord
from dpkv.releases.settling import mechanism_of
from dpkv.types import Floats, StageProgress

Planter = Callable[[int, int], Fault]


@dataclass(frozen=True, eq=False)
class Job:
    """A table, or a release with or without its table; and how hard to try."""

    values: Floats | None
    """The rows, or a sample of them; None where only the release is there."""
    columns: tuple[str, ...]
    label: str
    domain: Domain
    plan: Plan
    ks: tuple[int, ...]
    n_units: int | None = None
    """How many records or persons there are, where these are not as many as rows are here."""
    sampled: bool = False
    """Whether the rows are a sample."""
    opened: Opened | None = None
    """The release, verified."""
    seed: int = 0
    quick: bool = False
    runs: int = 30
    plant: str | None = None
    command: str = ""
    utility: bool = True
    more_eps: tuple[str, ...] = ()
    """Further eps at which the comparison is made."""
    cache: Path | None = None
    identity: str = ""
    """An opaque name of the data for the cache."""
    progress: StageProgress = field(default=lambda _label, _share: None)

    @property
    def effort(self) -> Effort:
        """How much is tried: less under ``quick``."""
        if self.quick:
            return Effort(6, 40_000, 2_000, 10, 1e-6, self.seed)
        return Effort(24, 200_000, 10_000, 100, 1e-6, self.seed)

    @property
    def eps(self) -> Decimal:
        """The eps that is claimed."""
        return self.plan.exact_eps

    @property
    def release(self) -> ReleaseRecord | None:
        """The record of the release."""
        return None if self.opened is None else self.opened.record

    @property
    def n_records(self) -> int:
        """The number of rows, or of persons; of a release that protects it, about how many."""
        if self.n_units is not None:
            return self.n_units
        return 0 if self.values is None else len(self.values)

    @property
    def is_of_rows(self) -> bool:
        """Whether every row is a record of its own, of the same weight."""
        return self.plan.weighing.unit == ROW

    @property
    def is_the_papers(self) -> bool:
        """Whether the paper's mechanism is audited, which has calibrations and a bound."""
        return self.plan.mechanism == PAPERS

    @property
    def known_ks(self) -> tuple[int, ...]:
        """The k whose mechanism is known: published noise is that of the plan's k alone."""
        return (self.plan.k,) if self.plan.calibration == "published" else self.ks

    @property
    def compared_ks(self) -> tuple[int, ...]:
        """The k at which accuracy is compared: what was chosen, where it was chosen privately."""
        if self.release is None or self.plan.fewest is None:
            return self.ks
        return (len(self.release.clusters),)

    def mechanism(self, fault: Planter | None, k: int, n_records: int | None = None) -> Mechanism:
        """Return the audited mechanism for k centers: the release's, the planned, or a faulty."""
        m = self.n_records if n_records is None else n_records
        if fault is not None:
            return fault(m, k).mechanism
        if self.release is not None and n_records is None and k == self.plan.k:
            grid = self.domain.grid(self.plan.grid_bits)  # what the record describes was released
            return from_description(self.release.mechanism, grid)
        other = {"fewest": None} if k != self.plan.k else {}
        plan = self.plan.model_copy(update={"k": k, **other})
        return mechanism_of(plan, self.domain.grid(plan.grid_bits), m)
