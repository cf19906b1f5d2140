"""The report's part on what was released: the centres, from the release alone."""

from __future__ import annotations

from collections.abc import Sequence

from dpkv.audits.report.blocks import (
    MOST_COLUMNS,
    Cell,
    Picture,
    Section,
    TableBlock,
    Text,
    chunks,
    plain,
)
from dpkv.audits.report.numbers import count, exact, number
from dpkv.audits.results import Audit, Subject

_TITLE = "The release"
_NONE = (
    "Nothing has been released: there are no centres to draw. The verdict is about what a release "
    "would cost."
)
_DRAWN = "Released centres and made-up points all over the bounds; no record is drawn."
_ONLY_CENTERS = "Released centres; no record is drawn."
_PLANE = 2
_MOST_GROUPS = 30

Numbered = tuple[int, tuple[float, ...]]
"""A centre and its number, from 1."""


def centers_section(audit: Audit) -> Section:
    """Return the released centres, drawn and in figures, and where records may lie."""
    subject = audit.subject
    if subject.released_centers is None:
        return Section("release", _TITLE, (Text(_NONE), *_bounds_tables(subject)))
    named = (
        f"{count(len(subject.released_centers))} centres in the columns' own units. "
        "They are what the guarantee is about, and all that is published."
    )
    picture = Picture(
        "centers",
        " ".join((_DRAWN if audit.synthetic_points else _ONLY_CENTERS, _axes(subject))),
        f"Scatter plot of {count(len(subject.released_centers))} released centres and "
        f"{count(len(audit.synthetic_points))} synthetic points; the table has the centres.",
    )
    groups = _groups_table(subject)
    return Section("release", _TITLE, (*groups, Text(named), picture, *_center_tables(subject)))


def _groups_table(subject: Subject) -> tuple[TableBlock | Text, ...]:
    """Return the groups as people read them, where a row fits the page."""
    if len(subject.groups) < _PLANE or len(subject.groups[0]) > MOST_COLUMNS:
        return (Text(subject.groups_note),) if subject.groups_note else ()
    header, *rows = subject.groups
    shown = tuple(plain(*row) for row in rows[:_MOST_GROUPS])
    notes = (subject.groups_note,) if subject.groups_note else ()
    caption = "The groups, each with the standard error that is due to noise"
    if "±" not in "".join("".join(row) for row in rows):
        caption = "The groups"
    return (TableBlock("groups", caption, header, shown, notes=notes),)


def _axes(subject: Subject) -> str:
    if subject.n_features <= _PLANE:
        return "The axes are the columns."
    return (
        f"The axes are the two principal components of what is drawn, over all "
        f"{count(subject.n_features)} columns, each scaled to its spread."
    )


def _center_tables(subject: Subject) -> tuple[TableBlock, ...]:
    centers = subject.released_centers or ()
    numbered = list(enumerate(centers, start=1))
    parts = chunks(numbered)
    return tuple(
        _centers(subject, part, index, whole=len(parts) == 1) for index, part in enumerate(parts, 1)
    )


def _centers(subject: Subject, part: Sequence[Numbered], index: int, *, whole: bool) -> TableBlock:
    bounds = _bounds(subject)
    rows = tuple(
        (Cell(name, _between(bounds, column)), *plain(*(number(c[column]) for _, c in part)))
        for column, name in enumerate(subject.columns)
    )
    header = ("column", *(f"centre {place}" for place, _ in part))
    caption = f"The released centres{'' if whole else f', {part[0][0]} to {part[-1][0]}'}"
    return TableBlock(f"centers-{index}", caption, header, rows, notes=_ball(subject))


def _bounds_tables(subject: Subject) -> tuple[TableBlock | Text, ...]:
    bounds = _bounds(subject)
    if bounds is None:
        return tuple(Text(note) for note in _ball(subject))
    rows = tuple(
        plain(name, exact(low), exact(high))
        for name, (low, high) in zip(subject.columns, bounds, strict=True)
    )
    return (TableBlock("bounds", "Where records may lie", ("column", "from", "to"), rows),)


def _bounds(subject: Subject) -> list[tuple[float, float]] | None:
    low, high = subject.domain.get("lower"), subject.domain.get("upper")
    if not isinstance(low, list | tuple) or not isinstance(high, list | tuple):
        return None
    return [(float(a), float(b)) for a, b in zip(low, high, strict=True)]


def _between(bounds: list[tuple[float, float]] | None, column: int) -> str:
    return "" if bounds is None else "from {} to {}".format(*map(exact, bounds[column]))


def _ball(subject: Subject) -> tuple[str, ...]:
    radius = subject.domain.get("radius")
    if not isinstance(radius, int | float):
        return ()
    return (f"Records may lie within L1 distance {exact(float(radius))} of a public point.",)
