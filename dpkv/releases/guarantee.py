"""What a release promises, in codes: from the plan and the mechanism, never from the data.

``wording.py`` says it in words.
"""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from dpkv.mechanisms import Mechanism, Neighbours
from dpkv.releases.codes import (
    Assumption,
    Code,
    Note,
    Status,
    Unit,
    Unprotected,
)
from dpkv.releases.frozen import Frozen
from dpkv.releases.plan import BoundsSource, Plan, check_plain_delta, check_plain_eps
from dpkv.tables.facts import Kind


class Guarantee(Frozen):
    """The promise, the relation it is for, and what it takes for granted."""

    status: Status
    eps: str | None
    """A decimal number, exactly; None where no proof covers the release end to end."""
    delta: str
    """Likewise; 0 is pure eps."""
    neighbours: Neighbours
    unit: Unit
    proof: Code
    """Why the centers' price holds: the mechanism's own code."""
    bounds: BoundsSource
    """How the bounds are known; private ones have a price of their own."""
    assumptions: tuple[Assumption, ...]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.eps is not None) != self.end_to_end:
            raise ValueError("an eps belongs to a guarantee that is proved, and only to that")
        if self.eps is not None:
            check_plain_eps(self.eps)
        check_plain_delta(self.delta)
        return self

    @property
    def end_to_end(self) -> bool:
        """Whether a proof covers the release from the records to what is published."""
        return self.status == "proved"


def guarantee(plan: Plan, mechanism: Mechanism, *, simulated: bool = False) -> Guarantee:
    """Return what a release by this plan and mechanism promises."""
    status = _status(plan, mechanism, simulated)
    proved = status == "proved"
    return Guarantee(
        status=status,
        eps=plan.eps if proved else None,
        delta=plan.delta if proved else "0",
        neighbours=plan.neighbours,
        unit=mechanism.unit.kind,
        proof=mechanism.proof,
        bounds=plan.bounds,
        assumptions=_assumptions(plan, mechanism),
    )


def _status(plan: Plan, mechanism: Mechanism, simulated: bool) -> Status:
    if simulated:
        return "simulated"
    if plan.calibration == "published" or not mechanism.is_proved:
        return "conditional-published-noise"
    return "conditional-data-bounds" if plan.bounds == "data" else "proved"


_BOUNDS_ASSUMPTIONS: dict[BoundsSource, Assumption] = {
    "given": "bounds-chosen-without-data",
    "private": "bounds-found-with-part-of-eps",
    "data": "bounds-read-from-data",
}
_UNPROTECTED_BOUNDS: dict[BoundsSource, Unprotected] = {
    "given": "bounds",
    "private": "bounds-paid-for",
    "data": "bounds-of-data",
}


def _assumptions(plan: Plan, mechanism: Mechanism) -> tuple[Assumption, ...]:
    """Return what the promise takes for granted."""
    return (
        "person-is-one-row" if mechanism.unit.kind == "row" else "person-is-all-rows-of-an-id",
        _BOUNDS_ASSUMPTIONS[plan.bounds],
        "settings-chosen-without-data",
        *(("earlier-steps-not-fitted",) if plan.behind_steps else ()),
        *_rules_for_cells(plan),
        "sound-machine-and-randomness",
        "only-centers-synopsis-and-record-published"
        if mechanism.makes_synopsis
        else "only-centers-and-record-published",
        "releases-add-up",
        "one-relation-per-account",
        "fingerprint-key-secret",
    )


_CELL_RULES: dict[Kind, Assumption] = {
    "refuse": "unusable-tables-refused",
    "fill": "unusable-cells-filled",
    "ignore": "unusable-rows-count-nothing",
    "category": "unusable-cells-are-a-category",
}


def _rules_for_cells(plan: Plan) -> tuple[Assumption, ...]:
    """Return what becomes of cells that are missing, by each rule that some column has."""
    rules = {facts.missing for facts in plan.table}
    return tuple(code for kind, code in _CELL_RULES.items() if kind in rules)


_NUMBERS: dict[tuple[Unit, Neighbours], Unprotected] = {
    ("row", Neighbours.REPLACE_ONE): "record-count",
    ("row", Neighbours.ADD_REMOVE): "at-least-one-record",
    ("person", Neighbours.REPLACE_ONE): "person-count",
    ("person", Neighbours.ADD_REMOVE): "at-least-one-person",
}


def not_protected(plan: Plan) -> tuple[Unprotected, ...]:
    """Return what the release tells everyone."""
    facts: list[Unprotected] = [
        _NUMBERS[plan.weighing.unit.kind, plan.neighbours],
        "center-count",
        _UNPROTECTED_BOUNDS[plan.bounds],
        "column-names",
    ]
    if "unusable-tables-refused" in _rules_for_cells(plan):
        facts.append("all-rows-usable")
    facts.append("time-and-memory")
    if plan.calibration == "published":
        facts.append("noise-from-records")
    return tuple(facts)


def notes_of(plan: Plan, *, simulated: bool) -> tuple[Note, ...]:
    """Return what must be said wherever the release is mentioned."""
    notes: list[Note] = []
    if simulated:
        notes.append("simulated")
    if plan.calibration == "published":
        notes.append("published-noise")
    if plan.bounds == "data":
        notes.append("bounds-of-data")
    return tuple(notes)
