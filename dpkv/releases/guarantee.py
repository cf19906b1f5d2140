"""What a release promises, in words: built from the plan and the mechanism, never from the data.

All sentences of records are here.
"""

from __future__ import annotations

import math

from dpkv.accounting.exact import float_above
from dpkv.mechanisms import Mechanism, Neighbours, Synopsis
from dpkv.releases.plan import Frozen, Plan

CONDITIONAL = "conditional on the data, not an end-to-end guarantee"
LEAKED_BOUNDS = "the bounds were read from the data, which leaks them"
SEVERAL_ROWS = "somebody with several rows is protected for one of them"
NOT_RELEASABLE = "a seeded simulation, not releasable: whoever knows the seed can undo the noise"

_PROOFS = {
    "theorem-a": "Theorem A: sampling amplification of every round (dpkv/accounting/theorem_a.py)",
    "local": "every centre is a noisy record, whichever was picked (dpkv/mechanisms/kvariates.py)",
    "synopsis": "cells, counts and Lloyd steps add up, the tree by a certified sum "
    "(dpkv/mechanisms/synopsis)",
    "published": "none: the noise is the paper's, as printed",
}
_SENSITIVITY = {
    "gupt": "one record changes one block (dpkv/mechanisms/gupt.py)",
    "lloyd": "counts and sums of bounded sensitivity (dpkv/mechanisms/lloyd.py)",
}
_BOUNDS_PROOF = (
    "; bounds by noisy histograms (dpkv/mechanisms/private_bounds.py), composed by addition"
)
_ALL_ROWS_ARE_NUMBERS = "every row is of finite numbers of at most 2^53"
_LAST_POWER = 700.0
"""e^eps is a float up to here."""
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
        f"the probability of any outcome by a factor of at most {describe_factor(plan)}."
    )


def _approximate(plan: Plan) -> str:
    """Return the statement of a release that is private but for a chance of delta."""
    return (
        f"The release is ({plan.eps}, {plan.delta})-differentially private: "
        f"{_RELATION[plan.neighbours]} changes the probability of any outcome by a factor of at "
        f"most {describe_factor(plan)}, and by {plan.delta} beyond it."
    )


def describe_factor(plan: Plan) -> str:
    """Return e^eps, with its value where floats have one and four digits tell it from 1."""
    eps = float(plan.eps)
    value = f"{math.exp(eps):.4g}" if eps < _LAST_POWER else ""
    return f"e^{plan.eps}" if value in ("", "1") else f"e^{plan.eps} = {value}"


def _assumptions(plan: Plan) -> tuple[str, ...]:
    """Return what the promise takes for granted."""
    bounds = {
        "given": "the bounds were chosen without looking at the data",
        "private": "the bounds were found with a part of eps, and may be published",
        "data": "the bounds were read from the data and leak them",
    }[plan.bounds]
    return (
        f"a person is one row: {SEVERAL_ROWS}",
        bounds,
        "k, mechanism, gamma, columns and all other settings were chosen without looking at the "
        "data: what a choice made by the data tells of them is not covered",
        _readable(plan),
        "the curator's machine, the operating system's randomness and OpenDP's sampler are sound",
        f"only {_published(plan)} are published: not the workspace, nor how long it took or how "
        "much memory it used",
        "other releases about the same people add up: a ledger keeps the sum of one account in one "
        "workspace, and knows of no other",
        "all releases of one account are for one relation: a replace-one release publishes the "
        "number of records, and an add-remove promise for the same table does not survive it",
        "the workspace's fingerprint key stays secret: with it a guess of the whole table could be "
        "tested",
    )


def _readable(plan: Plan) -> str:
    """Return which tables the promise is about, and which change between them it covers."""
    accepted = "the promise is about tables that the reader accepts"
    if plan.invalid == "center":
        return f"{accepted}; a row that is not of finite numbers counts as the bounds' centre"
    return f"{accepted}: {_ALL_ROWS_ARE_NUMBERS}, or the table is refused"


def _published(plan: Plan) -> str:
    if plan.mechanism == Synopsis.name:
        return "the centres, the private synopsis and this record"
    return "the centres and this record"


def not_protected(plan: Plan) -> tuple[str, ...]:
    """Return what the release tells everyone."""
    facts = ["the number of centres", "the bounds", f"the {len(plan.columns)} column names"]
    many = plan.neighbours is Neighbours.REPLACE_ONE
    facts.insert(0, "the number of records" if many else "that there is at least one record")
    if plan.invalid == "refuse":
        facts.append(f"that {_ALL_ROWS_ARE_NUMBERS}, as there would be no release otherwise")
    facts.append("running time and memory use, to whoever can watch the machine")
    if plan.bounds == "private":
        facts[facts.index("the bounds")] = "the bounds, whose own cost is part of eps"
    if plan.bounds == "data":
        facts[facts.index("the bounds")] = "the bounds, which are the data's extreme values"
    if plan.calibration == "published":
        facts.append("the noise, which depends on the records")
    return tuple(facts)


def warnings_of(plan: Plan, *, simulated: bool) -> tuple[str, ...]:
    """Return what must be said wherever the release is mentioned."""
    notes = []
    if simulated:
        notes.append(NOT_RELEASABLE)
    if plan.calibration == "published":
        notes.append(f"published noise: {CONDITIONAL}")
    if plan.bounds == "data":
        notes.append(f"{LEAKED_BOUNDS}: {CONDITIONAL}")
    return tuple(notes)
