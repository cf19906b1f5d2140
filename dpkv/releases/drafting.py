"""A release's record before the charge: all of it but what the run will show.

Everything that can fail is done for the draft: calibrating, adding up prices, writing the record as
JSON and reading it back, and every sentence that will be said of it. What is left for afterwards is
filled in: the centers, digests, references to the ledger, and bounds that are found by looking at
the records.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np

from dpkv.accounting import cost_of
from dpkv.accounting.steps import gather_steps
from dpkv.domain import Domain
from dpkv.errors import PlanError
from dpkv.ledger import Entry
from dpkv.mechanisms import Mechanism, Neighbours, Outcome, describe
from dpkv.releases.canonical import digest
from dpkv.releases.charged_bounds import PaidBounds
from dpkv.releases.clusters import cluster_fields
from dpkv.releases.files import centers_text
from dpkv.releases.guarantee import not_protected, notes_of
from dpkv.releases.record import (
    BoundsRecord,
    GridRecord,
    LedgerReference,
    ReleaseRecord,
    all_steps,
    noise_records,
    step_records,
)
from dpkv.releases.settling import Settled, assumed_domain, spent
from dpkv.releases.synopsis import PrivateSynopsis
from dpkv.releases.wording import explain
from dpkv.tables.centers import centers_csv
from dpkv.types import Float64s, Int64s


@dataclass(frozen=True, eq=False)
class Draft:
    """A record to be filled in, and the mechanism that it describes."""

    settled: Settled
    mechanism: Mechanism
    record: ReleaseRecord

    def fit(self, domain: Domain) -> Draft:
        """Return the draft in the bounds that are used, where they were not known before.

        Nothing is rendered anew: words do not depend on where the bounds are.
        """
        if self.settled.plan.domain is not None:
            return self
        mechanism = self.settled.mechanism_in(domain)
        _check_prices(self.settled, mechanism)
        facts = _facts_in(domain, self.settled, mechanism)
        return replace(self, mechanism=mechanism, record=self.record.model_copy(update=facts))

    def fill_in(
        self,
        points: Int64s,
        centers: Float64s,
        made: Outcome,
        *,
        release_id: str | None,
        created: str,
        entry: Entry | None,
        bounds: PaidBounds,
        synopsis: PrivateSynopsis | None,
    ) -> ReleaseRecord:
        """Return the record of a run."""
        paid = None if bounds.entry is None else LedgerReference.of(bounds.entry)
        domain = Domain.from_dict(self.record.bounds.domain)
        known = cluster_fields(made, centers, self.mechanism.grid, domain)
        found: dict[str, Any] = {
            **known,
            "release_id": release_id,
            "created": created,
            "bounds": self.record.bounds.model_copy(update={"ledger": paid}),
            "grid_centers": tuple(map(tuple, points.tolist())),
            "synopsis_digest": None if synopsis is None else synopsis.digest,
            "ledger": None if entry is None else LedgerReference.of(entry),
        }
        filled = self.record.model_copy(update=found)
        return filled.model_copy(update={"centers_digest": digest(centers_text(filled))})


def draft_release(settled: Settled) -> Draft:
    """Return the draft of a release that can be carried out; refuse any other."""
    domain = assumed_domain(settled.plan)
    mechanism = settled.mechanism_in(domain)
    _check_prices(settled, mechanism)
    record = _template(settled, domain, mechanism)
    explain(record)
    if ReleaseRecord.model_validate_json(record.to_json()) != record:
        raise PlanError("a mechanism's description changes when it is written as JSON.")
    return Draft(settled, mechanism, record)


def _check_prices(settled: Settled, mechanism: Mechanism) -> None:
    """Refuse what the curator would: a plan that costs more than will be charged for it."""
    plan, finder = settled.plan, settled.finder
    parts = [] if finder is None else [(finder.cost(), plan.split.parts[0])]
    if mechanism.is_proved:
        cost = cost_of(gather_steps(mechanism.schedule()), mechanism.delta)
        parts.append((cost, plan.split.parts[-1]))
    if any(cost > share for cost, share in parts) or Decimal(mechanism.delta) > plan.exact_delta:
        raise PlanError("a mechanism's plan costs more than is charged for it.")
    if mechanism.n_records_needed not in (None, settled.n_records):
        raise PlanError("a mechanism is for another number of records.")


def _template(settled: Settled, domain: Domain, mechanism: Mechanism) -> ReleaseRecord:
    plan, promise, simulated = settled.plan, settled.promise, settled.simulated
    nothing = centers_csv(plan.columns, np.empty((0, len(plan.columns))))
    return ReleaseRecord(
        kind="simulation" if simulated else "release",
        visibility="public" if promise.end_to_end else "curator-only",
        releasable=promise.end_to_end,
        release_id=None,
        guarantee=promise,
        plan=plan,
        randomness="seeded" if simulated else "operating-system",
        n_records=None if plan.neighbours is Neighbours.ADD_REMOVE else settled.n_records,
        columns=plan.columns,
        not_protected=not_protected(plan),
        notes=notes_of(plan, simulated=simulated),
        clusters=(),
        potential=None,
        curve=None,
        untold=mechanism.untold,
        grid_centers=(),
        clamped=plan.clamp,
        centers_digest=digest(nothing),
        synopsis_digest=None,
        ledger=None,
        **_facts_in(domain, settled, mechanism),
    )


def _facts_in(domain: Domain, settled: Settled, mechanism: Mechanism) -> dict[str, Any]:
    """Return the fields that depend on where the bounds are."""
    plan, finder = settled.plan, settled.finder
    return {
        "mechanism": describe(mechanism),
        "steps": step_records(all_steps(finder, mechanism)),
        "spent": spent(finder, mechanism),
        "noise": noise_records(finder, mechanism),
        "bounds": BoundsRecord(
            source=plan.bounds,
            domain=domain.to_dict(),
            mechanism=None if finder is None else finder.parameters(),
            ledger=None,
        ),
        "grid": GridRecord.of(mechanism.grid, plan.grid_bits),
    }
