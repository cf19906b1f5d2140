"""From a request and its table to a plan: the one way that every release, rehearsal and audit goes.

    a request is checked, and the table is looked at  ->  the records are read  ->  the plan is
    complete

Nothing here charges anybody, and nothing but the published calibration looks at a record.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpkv.domain import Domain, data_domain
from dpkv.errors import ParameterError
from dpkv.releases.inputs import Input, ReadTable
from dpkv.releases.plan import BoundsSource, Plan, check_width
from dpkv.releases.produce import published_eps_tilde
from dpkv.releases.request import Request
from dpkv.releases.unit_facts import UnitFacts
from dpkv.tables.described import domain_by
from dpkv.tables.facts import TableFacts
from dpkv.types import Progress, StageProgress
from dpkv.validation import cluster_count, truth


@dataclass(frozen=True, eq=False)
class Preparation:
    """A table that was looked at, and what is planned for it."""

    request: Request
    source: Input
    domain: Domain | None
    """Where bounds are given."""
    plan: Plan

    def read(self, progress: Progress | None = None) -> ReadTable:
        """Read the records."""
        return self.source.read(progress)

    def complete(
        self,
        table: ReadTable,
        *,
        eps_tilde: float | None = None,
        progress: StageProgress | None = None,
    ) -> Plan:
        """Return the plan, with the published calibration's eps~ where that is asked for.

        ``eps_tilde`` is that figure where it is known already.
        """
        plan = self.plan
        if plan.calibration != "published":
            return plan
        if eps_tilde is None:
            cluster_count(plan.k, table.n_records, "k")
            domain = self.domain or data_domain(table.values, scaled=plan.scaled)
            working = np.asarray(domain.to_working(table.values), dtype=np.float64)
            eps_tilde = published_eps_tilde(plan, working, domain, progress)
        return plan.model_copy(update={"eps_tilde": eps_tilde})


def prepare_release(request: Request, source: Input) -> Preparation:
    """Check everything that can be checked before a record is read."""
    kind, domain = as_bounds(request, source.facts)
    unit = UnitFacts.of(
        source.facts,
        has_persons=request.person is not None,
        rows_per_person=request.rows_per_person,
        one_row_per_person=request.one_row_per_person,
    )
    source.check()
    plan = Plan.of(
        k=request.k,
        eps=request.eps,
        bounds=kind,
        columns=source.columns,
        table=source.facts,
        unit=unit,
        domain=domain,
        mechanism=request.mechanism,
        neighbours=request.neighbours,
        calibration=request.calibration,
        gamma=request.gamma,
        iterations=request.iterations,
        density=request.density,
        lloyd_steps=request.lloyd_steps,
        delta=request.delta,
        bounds_share=request.bounds_share,
        scaled=request.scaled,
        clamp=request.clamp,
        schema_digest=None if request.described is None else request.described.digest,
        about=request.about,
    )
    return Preparation(request, source, domain, plan)


def as_bounds(request: Request, facts: TableFacts) -> tuple[BoundsSource, Domain | None]:
    """Return where bounds come from, and the domain where they are given."""
    bounds, schema = request.bounds, request.described
    if bounds is None and schema is None:
        raise ParameterError(
            "bounds", "low and high, a Domain, 'private' or 'data'", None, "They must be public."
        )
    if isinstance(bounds, str):
        if bounds not in ("private", "data"):
            raise ParameterError("bounds", "numbers, 'private' or 'data'", bounds)
        if any(column.categories or column.influence != 1.0 for column in facts.used):
            raise ParameterError(
                "bounds", "numbers for a table with categories or influence", bounds
            )
        return ("private" if bounds == "private" else "data"), None
    if isinstance(bounds, Domain):
        domain = bounds
    else:
        found = domain_by(facts, bounds, schema, scaled=truth("scaled", request.scaled))
        assert found is not None
        domain = found
    if domain.source != "given":
        raise ParameterError(
            "bounds", "a domain that was given, not read from data", f"source {domain.source!r}"
        )
    check_width(domain, len(facts.coordinates))
    return "given", domain
