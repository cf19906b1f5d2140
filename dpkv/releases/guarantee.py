"""What a release promises, in words: built from the plan and the mechanism, never from the data."""

from __future__ import annotations

import math

from dpkv.calibration.amplified import float_above
from dpkv.mechanisms import Mechanism, Neighbours, Synopsis
from dpkv.releases.plan import Frozen, Plan

CONDITIONAL = "conditional on the data, not an end-to-end guarantee"
NOT_RELEASABLE = "a seeded simulation, not releasable: whoever knows the seed can undo the noise"

_PROOFS = {
    "theorem-a": "Theorem A: sampling amplification of every round (dpkv/calibration/amplified.py)",
    "local": "every centre is a noisy record, whichever was picked (dpkv/mechanisms/kvariates.py)",
    "synopsis": "cells, counts and Lloyd steps add up, the tree by a certified sum "
    "(dpkv/mechanisms/synopsis)",
    "published": "none: the noise is the paper's, as printed",
}
_SENSITIVITY = {
    "gupt": "one record changes one block (dpkv/mechanisms/gupt.py)",
    "lloyd": "counts and sums of bounded sensitivity (dpkv/mechanisms/lloyd.py)",
}
_BOUNDS_PROOF = "; bounds by noisy histograms (dpkv/mechanisms/bounds.py), composed by addition"
_RELATION = {
    Neighbours.REPLACE_ONE: "replacing any one record by any other",
    Neighbours.ADD_REMOVE: "adding or removing any one record",
}


class Guarantee(Frozen):
    """The promise, the relation it is for, and what it takes for granted."""

    eps: float | None
    """None where no proof covers the release end to end."""
    delta: float = 0.0
    neighbours: Neighbours
    end_to_end: bool
    proof: str
    statement: str
    assumptions: tuple[str, ...]


def guarantee(plan: Plan, mechanism: Mechanism, *, simulated: bool = False) -> Guarantee:
    """Return what a release by this plan and mechanism promises."""
    end_to_end = plan.end_to_end and mechanism.proof != "published" and not simulated
    return Guarantee(
        eps=float_above(plan.exact_eps) if end_to_end else None,
        delta=float_above(plan.exact_delta) if end_to_end else 0.0,
        neighbours=plan.neighbours,
        end_to_end=end_to_end,
        proof=_proof(plan, mechanism),
        statement=_statement(plan, simulated),
        assumptions=_assumptions(plan),
    )


def _proof(plan: Plan, mechanism: Mechanism) -> str:
    reason = _PROOFS.get(mechanism.proof) or _SENSITIVITY[mechanism.name]
    return reason + (_BOUNDS_PROOF if plan.bounds == "private" else "")


def _statement(plan: Plan, simulated: bool) -> str:
    if simulated:
        return f"No guarantee: {NOT_RELEASABLE}."
    if plan.calibration == "published":
        return (
            f"No guarantee is proved: {CONDITIONAL}. The noise is the paper's for eps = {plan.eps} "
            "and depends on the records itself."
        )
    if plan.bounds == "data":
        return (
            f"No end-to-end guarantee: the bounds were read from the data, which leaks them. The "
            f"centres are {CONDITIONAL}."
        )
    if plan.exact_delta > 0:
        return _approximate(plan)
    return (
        f"The release is {plan.eps}-differentially private: {_RELATION[plan.neighbours]} changes "
        f"the probability of any outcome by a factor of at most e^{plan.eps} = {_factor(plan):.4g}."
    )


def _approximate(plan: Plan) -> str:
    """Return the statement of a release that is private but for a chance of delta."""
    return (
        f"The release is ({plan.eps}, {plan.delta})-differentially private: "
        f"{_RELATION[plan.neighbours]} changes the probability of any outcome by a factor of at "
        f"most e^{plan.eps} = {_factor(plan):.4g}, and by {plan.delta} beyond it."
    )


def _factor(plan: Plan) -> float:
    """Return e^eps, infinite where floats end."""
    return math.exp(float(plan.eps)) if float(plan.eps) < 700 else math.inf  # noqa: PLR2004


def _assumptions(plan: Plan) -> tuple[str, ...]:
    """Return what the promise takes for granted."""
    bounds = {
        "given": "the bounds were chosen without looking at the data",
        "private": "the bounds were found with a part of eps, and may be published",
        "data": "the bounds were read from the data and leak them",
    }[plan.bounds]
    return (
        "a person is one record: someone with several records is protected for one of them",
        bounds,
        "the curator's machine, the operating system's randomness and OpenDP's sampler are sound",
        f"only {_published(plan)} are published: not the time it took, not the workspace",
        "other releases of the same data add up: the ledger keeps their sum",
    )


def _published(plan: Plan) -> str:
    if plan.mechanism == Synopsis.name:
        return "the centres, the private synopsis and this record"
    return "the centres and this record"


def not_protected(plan: Plan) -> tuple[str, ...]:
    """Return what the release tells everyone."""
    facts = ["the number of centres", "the bounds", f"the {len(plan.columns)} column names"]
    many = plan.neighbours is Neighbours.REPLACE_ONE
    facts.insert(0, "the number of records" if many else "that there is at least one record")
    if plan.bounds == "private":
        facts[facts.index("the bounds")] = "the bounds, whose own cost is part of eps"
    if plan.bounds == "data":
        facts[facts.index("the bounds")] = "the bounds, which are the data's extreme values"
    if plan.calibration == "published":
        facts.append("the noise, which depends on the records")
    return tuple(facts)
