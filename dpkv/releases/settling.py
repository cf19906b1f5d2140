"""A plan made definite, once, before anything is charged: mechanism, prices and promise.

Everything here follows from the plan and from what is public of the records. What could not be
carried out is refused here, so that nothing but the run itself is left once the ledger is charged.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from dpkv.accounting import cost_of
from dpkv.accounting.exact import float_above, upward
from dpkv.domain import Box, Domain
from dpkv.errors import UsageError
from dpkv.grid import Grid
from dpkv.mechanisms import (
    AUTO,
    Choice,
    Mechanism,
    Neighbours,
    PrivateBounds,
    Published,
    Terms,
    choose,
    for_terms,
)
from dpkv.releases.guarantee import Guarantee, guarantee
from dpkv.releases.plan import Chosen, Plan, check_width
from dpkv.releases.record import all_steps
from dpkv.validation import cluster_count

_UP = upward(200)


@dataclass(frozen=True)
class Settled:
    """A plan that can be carried out, and all that is known of it before the records are used."""

    plan: Plan
    n_records: int
    mechanism: Mechanism
    """Calibrated in the given bounds; in a cube, where bounds are found later."""
    finder: PrivateBounds | None
    """What finds the bounds, where they are found privately."""
    simulated: bool
    promise: Guarantee

    def mechanism_in(self, domain: Domain) -> Mechanism:
        """Return the mechanism in the bounds that are used.

        Bounds that were found later have a grid that is nowhere finer than the cube's, so that what
        could be calibrated there can be calibrated here.
        """
        if self.plan.domain is not None:
            return self.mechanism
        return mechanism_of(self.plan, domain.grid(self.plan.grid_bits), self.n_records)


def settle(plan: Plan, n_records: int, *, simulated: bool = False) -> Settled:
    """Choose the mechanism where that was left to dpkv, calibrate it, and state the promise."""
    if plan.neighbours is Neighbours.REPLACE_ONE:  # elsewhere m is private, and may be below k
        cluster_count(plan.fewest or plan.k, n_records, "k")
    domain = assumed_domain(plan)
    check_width(domain, len(plan.columns))
    plan, mechanism = _choose(plan, domain.grid(plan.grid_bits), n_records)
    promise = guarantee(plan, mechanism, simulated=simulated)
    return Settled(plan, n_records, mechanism, bounds_mechanism(plan), simulated, promise)


def _choose(plan: Plan, grid: Grid, n_records: int) -> tuple[Plan, Mechanism]:
    """Return the plan with its mechanism, and without a delta that would be of no use."""
    if plan.mechanism != AUTO:
        mechanism = mechanism_of(plan, grid, n_records)
    else:
        found = choose(terms_of(plan, grid, n_records))
        mechanism = found.mechanism
    if plan.exact_delta > 0 and mechanism.delta == 0.0:  # Laplace noise is less
        return _choose(plan.model_copy(update={"delta": "0"}), grid, n_records)
    if plan.mechanism != AUTO:
        return plan, mechanism
    chosen = {"mechanism": found.name, "density": found.density, "chosen": Chosen.of(found)}
    return plan.model_copy(update=chosen), mechanism


def is_chosen_as_stated(plan: Plan, n_records: int) -> bool:
    """Tell whether a plan's reason for its mechanism is what the public facts give."""
    if plan.chosen is None:
        return True
    grid = assumed_domain(plan).grid(plan.grid_bits)
    found: Choice = choose(terms_of(plan, grid, n_records))
    stated = plan.mechanism, plan.density, plan.chosen
    return stated == (found.name, found.density, Chosen.of(found))


def assumed_domain(plan: Plan) -> Domain:
    """Return the domain, or a cube of as many columns where it is not known yet.

    Predictions are relative to the domain, and no box has a finer grid than a cube.
    """
    if plan.domain is not None:
        return Domain.from_dict(plan.domain)
    width = len(plan.columns)
    return Box((0.0,) * width, (1.0,) * width)


def mechanism_of(plan: Plan, grid: Grid, n_records: int) -> Mechanism:
    """Return the mechanism that the plan asks for, once the grid is known."""
    if plan.calibration == "published":
        if plan.eps_tilde is None:
            raise UsageError("the published calibration needs its eps~ first.")
        return Published.calibrate(plan.eps_tilde, n_clusters=plan.k, grid=grid)
    return for_terms(plan.mechanism, terms_of(plan, grid, n_records))


def terms_of(plan: Plan, grid: Grid, n_records: int) -> Terms:
    """Return what a plan's mechanism is calibrated for."""
    return Terms.of(
        plan.split.parts[-1],
        n_records=n_records,
        n_clusters=plan.k,
        grid=grid,
        neighbours=plan.neighbours,
        delta=plan.exact_delta,
        gamma=plan.gamma,
        iterations=plan.iterations,
        density=plan.density,
        lloyd_steps=plan.lloyd_steps,
        fewest=plan.fewest,
        unit=plan.weighing.unit,
    )


def bounds_mechanism(plan: Plan) -> PrivateBounds | None:
    """Return what finds the bounds, where they are found privately."""
    if plan.bounds != "private":
        return None
    return PrivateBounds.calibrate(
        plan.split.parts[0],
        n_features=len(plan.columns),
        neighbours=plan.neighbours,
        unit=plan.weighing.unit_before_grid,
    )


def spent(finder: PrivateBounds | None, mechanism: Mechanism) -> float | None:
    """Return what all steps cost, rounded up; None where no proof gives a figure."""
    if not mechanism.is_proved:
        return None
    return float_above(total_cost(finder, mechanism))


def total_cost(finder: PrivateBounds | None, mechanism: Mechanism) -> Decimal:
    """Return what finding the bounds and the centers cost together, rounded up.

    Pure prices add up exactly. One that holds with a delta is worked out on its own first.
    """
    if finder is not None and mechanism.delta > 0:
        return _UP.add(finder.cost(), mechanism.cost())
    return cost_of(all_steps(finder, mechanism), mechanism.delta)
