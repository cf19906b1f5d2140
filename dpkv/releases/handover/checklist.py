"""A checklist by NIST SP 800-226, filled in from the record; what people must answer is left open.

The guidelines (March 2025) order what a guarantee depends on as a pyramid: its parameters and unit,
its algorithms, and how it is deployed. The items here are the parts of that pyramid, each with the
hazards that the guidelines name there. The guidelines prescribe no form; this one is dpkv's.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from dpkv.releases.handover.marked_up import (
    as_code,
    as_text,
    in_words,
    sentence,
    told_domain,
    told_errors,
    told_sizes,
)
from dpkv.releases.handover.open_points import left_open
from dpkv.releases.record import ReleaseRecord
from dpkv.releases.wording import ERRORS_COVER, Explanation, odds, weighing

_USUAL_EPS = 1
_SUSPICIOUS_DELTA = Decimal("1e-5")
_WEAK_EPS = 10
_BOUNDS = {
    "given": "The bounds were given as public",
    "private": "The bounds were found by noisy histograms, with a share of eps",
    "data": "The bounds were read from the data, which leaks them",
}


@dataclass(frozen=True)
class Item:
    """A part of the pyramid: what the record answers, what to beware of, what people answer."""

    part: str
    answers: tuple[str, ...] = ()
    hazards: tuple[str, ...] = ()
    """Those of the guidelines' hazards that this release has."""
    asked: tuple[str, ...] = ()


def checklist_text(record: ReleaseRecord) -> str:
    """Return the checklist in Markdown."""
    lines = [
        f"# NIST SP 800-226 checklist: {record.kind} {as_code(record.release_id or 'no id')}",
        "",
        f"Written by dpkv from the record of {record.created[:10]}. Ticked points are answered by "
        "the record, and dpkv verify recomputes what can be recomputed; open ones only people can "
        "answer. Hazards are those that the guidelines name and this release has.",
    ]
    for layer, items in checklist(record).items():
        lines += ["", f"## {layer}", ""]
        for item in items:
            lines += [f"### {item.part}", ""]
            lines += [f"- [x] {sentence(one)}" for one in item.answers]
            lines += [f"- **Hazard:** {sentence(one)}" for one in item.hazards]
            lines += [f"- [ ] {left_open(one)}" for one in item.asked]
            lines.append("")
        lines.pop()
    return "\n".join(lines) + "\n"


def checklist(record: ReleaseRecord) -> dict[str, tuple[Item, ...]]:
    """Return the items by layer of the pyramid, from the top."""
    told = record.explanation
    return {
        "The guarantee": (
            _parameters(record, told),
            _variant(record),
            _unit(record, told),
            _comparisons(record),
            _other_releases(record),
        ),
        "Algorithms, utility and bias": (
            _algorithms(record, told),
            _correctness(record),
            _utility(record),
            _bias(record),
        ),
        "Deployment": (
            _queries(),
            _trust(record, told),
            _side_channels(record, told),
            _security(told),
            _collection(record),
        ),
    }


def _parameters(record: ReleaseRecord, told: Explanation) -> Item:
    promise = record.guarantee
    answers, hazards = [told.statement], [*told.warnings]
    if promise.eps is None:
        hazards.append("there is no eps from end to end, so nothing below is a guarantee")
    else:
        if (meant := odds(promise.eps)) is not None:
            answers.append(f"In odds: {meant}")
        if Decimal(promise.eps) > _WEAK_EPS:
            hazards.append(f"an eps above {_WEAK_EPS} may not protect anybody in practice")
        elif Decimal(promise.eps) > _USUAL_EPS:
            hazards.append(
                f"an eps above {_USUAL_EPS} is more than is widely held to protect strongly"
            )
    asked = ("why this eps, who decided, and what all releases of these people may cost together",)
    return Item("Privacy parameters", tuple(answers), tuple(hazards), asked)


def _variant(record: ReleaseRecord) -> Item:
    delta = Decimal(record.guarantee.delta)
    prices = tuple(record.explanation.steps)
    if delta == 0:
        return Item("Variant", ("pure differential privacy: delta is 0", *prices))
    answers = (
        f"approximate differential privacy, with delta = {delta:f}. Prices of single steps are "
        "given as they were before conversion",
        *prices,
    )
    hazards = ["with a probability of up to delta the bound by eps may fail"]
    number = record.n_records
    if delta > _SUSPICIOUS_DELTA or (number is not None and delta * number**2 > 1):
        hazards.append(
            "delta is large: the guidelines call more than 1e-5 suspicious, and ask for no more "
            "than one over the square of the number of records"
        )
    return Item("Variant", answers, tuple(hazards), ("why this delta",))


def _unit(record: ReleaseRecord, told: Explanation) -> Item:
    plan, promise = record.plan, record.guarantee
    bounded = promise.neighbours.value == "replace-one"
    answers = [
        f"protected: {told.protects}",
        f"neighbouring tables: {promise.neighbours.value}, which is "
        + ("bounded" if bounded else "unbounded")
        + " differential privacy",
    ]
    if (weights := weighing(plan)) is not None:
        answers.append(f"contributions are bounded: {weights}")
    hazards, asked = [], ["whether what is to be kept secret lies within this unit"]
    if promise.unit == "row":
        hazards.append("events are protected, not people, where somebody has several rows")
        asked.append("whether each person has one row")
    else:
        asked.append("whether an id stands for one person, and each person has one id")
    if bounded:
        hazards.append("the size of the table is published exactly, and not protected")
    return Item("Unit of privacy", tuple(answers), tuple(hazards), tuple(asked))


def _comparisons(record: ReleaseRecord) -> Item:
    promise = record.guarantee
    told = (
        f"to be quoted whole: eps = {promise.eps or 'none'}, delta = {promise.delta}, "
        f"{promise.neighbours.value}, unit: {promise.unit}. Figures for another delta, relation or "
        "unit cannot be compared with it"
    )
    return Item("Comparing guarantees", (told,))


def _other_releases(record: ReleaseRecord) -> Item:
    if record.charged is not None and record.ledger is not None:
        told = (
            f"a ledger was charged eps = {record.charged:f} before the records were used, by its "
            f"entry {record.ledger.number}; it adds up all releases of one account and knows of no "
            "other"
        )
    else:
        told = "no ledger was charged: whoever made the release keeps the account"
    return Item(
        "Other releases of the same data",
        (told,),
        (),
        (
            "what else was published of the same data or people, with or without differential "
            "privacy",
        ),
    )


def _algorithms(record: ReleaseRecord, told: Explanation) -> Item:
    answers = [told.title, told.why, *told.noise]
    if told.chosen is not None:
        answers.append(f"chosen by public facts alone: {told.chosen}")
    answers.append(f"values outside of the bounds were cut to them. {_BOUNDS[record.plan.bounds]}")
    return Item(
        "Algorithms",
        tuple(answers),
        (),
        ("whether the settings were chosen without looking at the data",),
    )


def _correctness(record: ReleaseRecord) -> Item:
    software = in_words(f"{name} {as_code(number)}" for name, number in record.versions.items())
    return Item(
        "Correctness",
        (
            f"software: dpkv {as_code(record.dpkv_version)}, with {software}. Noise is drawn by "
            "OpenDP; the mechanism and its accounting are dpkv's own, with published proofs",
            "dpkv verify recomputes grid, prices and promise from the record; dpkv audit searches "
            "for violations, which supplements the proofs and replaces none",
        ),
        ("a mechanism of dpkv's own is a custom implementation: review it, or have it reviewed",),
        ("who reviewed or audited it",),
    )


def _utility(record: ReleaseRecord) -> Item:
    answers = [one for one in (told_errors(record), told_sizes(record)) if one is not None]
    if answers:
        answers.append(ERRORS_COVER)
    else:
        answers.append("the mechanism tells no errors of its centres")
    if record.plan.about is not None and record.plan.about.purpose is not None:
        answers.append(f"purpose: {as_text(record.plan.about.purpose)}")
    return Item("Utility", tuple(answers), (), ("which use the accuracy must serve, and does it",))


def _bias(record: ReleaseRecord) -> Item:
    hazards = ["noise weighs more on small groups than on large ones"]
    if record.clamped:
        hazards.append(
            "centres that come out outside of the bounds are moved into them, which is a bias"
        )
    hazards.append("records outside of the bounds were cut to them, which is a bias")
    return Item(
        "Bias", (), tuple(hazards), ("which groups the errors burden most, and what follows",)
    )


def _queries() -> Item:
    return Item(
        "Query model",
        (
            "data release: all questions were planned and priced before the records were used, "
            "and nobody can ask more of them",
        ),
    )


def _trust(record: ReleaseRecord, told: Explanation) -> Item:
    publisher = None if record.plan.about is None else record.plan.about.publisher
    named = () if publisher is None else (f"published by {as_text(publisher)}",)
    return Item(
        "Trust model",
        (f"central: {told.model}", *named, *told.assumptions),
        ("where an assumption fails, the guarantee means nothing",),
        ("who the curator is, and whether each assumption holds",),
    )


def _side_channels(record: ReleaseRecord, told: Explanation) -> Item:
    return Item(
        "Side channels",
        (
            "floating-point: all private choices and noise are exact, in integers on a public "
            f"grid of 2^{record.grid.bits} levels",
            f"randomness: {told.randomness}",
            f"not protected: {in_words(told.not_protected)}",
        ),
        (),
        ("who could watch the machine while it ran",),
    )


def _security(told: Explanation) -> Item:
    return Item(
        "Security and access control",
        ("the workspace is readable by its owner alone, and error messages show no record",),
        (),
        (
            "how the records and the workspace are kept secure, at rest and in use",
            "who has access to them, and by which policy",
            *(("what is to be published, and what is not",) if told.warnings else ()),
        ),
    )


def _collection(record: ReleaseRecord) -> Item:
    return Item(
        "Data collection exposure",
        (f"columns that were used: {told_domain(record)}",),
        (),
        ("whether the data had to be collected, and when they are deleted",),
    )
