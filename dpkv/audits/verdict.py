"""Adding up what an audit found: does the claim hold, as far as was tried?"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpkv.accounting.exact import float_above
from dpkv.audits.report.numbers import lower
from dpkv.audits.results import (
    NOT_VOUCHED,
    Audit,
    Conformance,
    DataLoss,
    RunLoss,
    SampledBound,
    Verdict,
    WorstCaseLoss,
)
from dpkv.mechanisms import Mechanism
from dpkv.releases import Plan

_ROUNDING = 1e-9  # of the floating-point losses; worst cases are judged by interval arithmetic


@dataclass(frozen=True)
class Findings:
    """What every kind of test found."""

    worst: tuple[WorstCaseLoss, ...]
    runs: tuple[RunLoss, ...]
    losses: tuple[DataLoss, ...]
    sampled: tuple[SampledBound, ...]
    conforming: tuple[Conformance, ...]


def verdict_of(
    plan: Plan,
    found: Findings,
    mechanism: Mechanism,
    utility: str | None,
    *,
    vouched: bool,
    unit: str,
) -> Verdict:
    """Add up: any violation by the audited mechanism, or a test that failed, breaks the claim."""
    own = [bound for bound in found.sampled if bound.mechanism == mechanism.name]
    reasons = _reasons(plan, found, own, mechanism)
    largest, method = max(_lower_bounds(plan, found, own), default=(0.0, _say_of_parts(own)))
    claim = f"eps = {plan.eps} ({plan.neighbours.value}{unit})"
    kept = f"No violation of {claim} was found{'' if vouched else f', but {NOT_VOUCHED}'}"
    return Verdict(
        holds=not reasons,
        headline=f"The claim {claim} is violated" if reasons else kept,
        reasons=tuple(reasons),
        lower_bound=largest,
        lower_bound_method=method,
        claimed_eps=float(plan.exact_eps),
        utility=utility,
    )


def _lower_bounds(plan: Plan, found: Findings, own: list[SampledBound]) -> list[tuple[float, str]]:
    """Return what bounds eps from below, and by which method."""
    bounds = [(loss.loss, f"exact, witness {loss.witness_file}") for loss in found.worst]
    bounds += [
        (run.loss, f"exact, a whole run on chosen tables, k = {run.k}")
        for run in found.runs
        if run.loss is not None and all(one.unit == "eps" for one in run.questions)
    ]
    # Parts of a synopsis are audited at an eps of their own, which is no bound of this claim.
    here = [bound for bound in own if bound.claimed_eps == float(plan.exact_eps)]
    return bounds + [(bound.lower_bound, bound.method) for bound in here]


def _reasons(
    plan: Plan, found: Findings, own: list[SampledBound], mechanism: Mechanism
) -> list[str]:
    """Return everything that breaks the claim."""
    most = float_above(plan.exact_eps) * (1.0 + _ROUNDING)
    reasons = [
        f"k = {loss.k}: an output is e^{lower(loss.loss)} times likelier under a neighbour"
        for loss in found.worst
        if loss.violates
    ]
    reasons += [
        f"k = {bound.k}: runs show eps >= {lower(bound.lower_bound)}, claimed "
        f"{bound.claimed_eps:g} (wrong with probability at most {bound.alpha:g})"
        for bound in own
        if bound.violates
    ]
    reasons += [f"k = {run.k}: {run.problem}; {run.tables}" for run in found.runs if run.violates]
    reasons += [
        f"k = {loss.k}: on these records a release loses {lower(largest_of(loss))}"
        for loss in found.losses
        if largest_of(loss) > most
    ]
    reasons += [
        f"{test.name}: {test.detail} ({_by_chance(test)})"
        for test in found.conforming
        if not test.passed
    ]
    if mechanism.is_proved and mechanism.cost() > plan.exact_eps:
        reasons.append(f"its steps cost {float(mechanism.cost()):.4g}, more than claimed")
    return reasons


def tried(audit: Audit) -> str:
    """Say what an audit tried, and how often it accuses what is sound."""
    losses = sum(len(loss.simulated_losses) for loss in audit.data_losses)
    parts = [
        f"{len(audit.worst_cases) + len(audit.run_losses)} searches for the worst case",
        f"exact losses of {losses} releases" if losses else "",
        f"{len(audit.sampled)} sampled bounds",
        f"{len(audit.conformance)} tests of conformance",
    ]
    chance = math.fsum(bound.alpha for bound in audit.sampled)
    chance += math.fsum(test.level for test in audit.conformance)
    said = ", ".join(part for part in parts if part)
    return f"tried: {said}; something sound is accused with probability at most {chance:.1g}"


def _by_chance(test: Conformance) -> str:
    """Say how often a test fails of sound code."""
    return f"by chance with probability {test.level:g}" if test.level else "never by chance"


def _say_of_parts(bounds: list[SampledBound]) -> str:
    """Say what runs of parts showed, where nothing bounds the whole."""
    if not bounds:
        return "nothing was tried"
    most = max(bounds, key=lambda bound: bound.lower_bound / bound.claimed_eps)
    return (
        f"runs of its parts alone; with all of eps = {most.claimed_eps:g} one of them showed "
        f"{lower(most.lower_bound)}"
    )


def largest_of(loss: DataLoss) -> float:
    """Return the largest loss that was found on the records."""
    return max((loss.release_loss or 0.0, *loss.simulated_losses), default=0.0)
