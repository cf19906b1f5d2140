"""Page one: who released what, for whom it is safe, and what it cost, in plain words."""

from __future__ import annotations

from datetime import datetime

from dpkv.audits.report.numbers import count, counts
from dpkv.audits.results import Audit, Publication, Subject, vouched_words
from dpkv.releases.wording import odds

_RELATIONS = {
    ("row", "replace-one"): "one record is replaced by any other; the number of records is public",
    ("row", "add-remove"): "one record is added or removed; the number of records is protected as "
    "well",
    ("person", "replace-one"): "all rows of one person are replaced; the number of persons is "
    "public, that of rows is not",
    ("person", "add-remove"): "one person is added or removed, with all rows; the number of "
    "persons is protected as well",
}
_BOUNDS = {
    "given": "given in numbers, taken as public",
    "private": "found with a part of eps, and public",
    "data": "read from the data, which leaks them",
}
_NOUNS = {"row": "records", "person": "persons"}

Facts = tuple[tuple[str, str], ...]


def front_facts(audit: Audit) -> Facts:
    """Return what the first page says, term by term."""
    subject, told = audit.subject, audit.subject.publication
    who = subject.vouched_by
    vouched = () if who is None else (("Record vouched for", vouched_words(who)),)
    return (
        ("Released", _released(subject)),
        *_about(told),
        ("Protects", subject.protects),
        ("Missing cells", subject.missing),
        *_odds(audit),
        (_promise(audit), subject.statement),
        ("Neighbours", _relation(subject)),
        *_budget(told),
        *(() if told is None else (("Signature and checks", _checked(told)),)),
        *vouched,
        ("Mechanism", subject.title),
        ("Bounds", _BOUNDS[subject.bounds]),
        ("Accuracy", _accuracy(audit)),
    )


def _about(told: Publication | None) -> Facts:
    """Return what the publisher said of the release; nothing where nobody said anything."""
    if told is None:
        return ()
    said = (("By", told.publisher), ("From", told.data_about), ("Purpose", told.purpose))
    found = tuple((term, words) for term, words in said if words is not None)
    return found or (("By", "the record does not say who released it, or what for"),)


def _released(subject: Subject) -> str:
    if subject.released_centers is None:
        return f"Nothing yet. Audited: {_size(subject)}, k = {counts(subject.ks)}"
    centers = len(subject.released_centers)
    told = subject.publication
    when = "" if told is None else f", on {_day(told.created)}"
    named = "centre" if centers == 1 else "centres"
    chosen = ""
    if told is not None and told.fewest is not None:
        chosen = f" (a number chosen privately from {told.fewest} to {told.most})"
    return f"{count(centers)} {named} of groups{chosen} in {_size(subject)}{when}"


def _day(created: str) -> str:
    try:
        moment = datetime.fromisoformat(created)
    except ValueError:  # whoever wrote the record wrote something else
        return created
    return f"{moment.day} {moment:%B %Y}"


def _size(subject: Subject) -> str:
    columns = "1 column" if subject.n_features == 1 else f"{count(subject.n_features)} columns"
    if subject.n_records is None:
        return f"{columns}; the number of {_NOUNS[subject.unit]} is protected"
    return f"{count(subject.n_records)} {_NOUNS[subject.unit]}, {columns}"


def _odds(audit: Audit) -> Facts:
    """Return what eps means for what anybody may learn of one record."""
    told = odds(audit.subject.eps)
    if told is None or not audit.verdict.holds or not audit.subject.end_to_end:
        return ()
    return (("In odds", told),)


def _promise(audit: Audit) -> str:
    if not audit.verdict.holds:
        return "Claimed guarantee, not upheld"
    return "Claimed guarantee" if audit.subject.vouched_by == () else "Guarantee"


def _relation(subject: Subject) -> str:
    meaning = _RELATIONS.get((subject.unit, subject.neighbours))
    return subject.neighbours if meaning is None else f"{subject.neighbours}: {meaning}"


def _budget(told: Publication | None) -> Facts:
    if told is None:
        return ()
    if told.charged is None:
        return (("Budget", "charged to no ledger"),)
    charged = f"eps {told.charged} charged for this release"
    if told.spent is None:
        return (("Budget", f"{charged}; what is left is in the publisher's ledger, not seen here"),)
    if told.budget is None:
        return (("Budget", f"{charged}; {told.spent} spent in all, and no budget is set"),)
    return (("Budget", f"{charged}; {told.spent} of {told.budget} spent, {told.left} left"),)


def _checked(told: Publication) -> str:
    return f"{told.signed}; {count(told.checks)} checks of the record passed"


def _accuracy(audit: Audit) -> str:
    if audit.verdict.utility is not None:
        return audit.verdict.utility
    public = audit.visibility == "public"
    return "Left out of the public variant." if public else "Not compared in this audit."
