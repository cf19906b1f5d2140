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

_TITLE = "The groups"
_NONE = (
    "Nothing has been released: there are no centres to draw. The verdict is about what a release "
    "would cost."
)
_ONLY_CENTERS = "The released centres; nothing in the picture is a record."
_DENSITY = (
    "Darker means more records, as the private cells tell: they are part of the release, and "
    "nothing in the picture is a record."
)
_MARKS = "A diamond is a centre, with its number."
_RINGS = "A ring's area is the size of its group."
_ELLIPSES = (
    "With a probability of 90 % a centre's ellipse holds where it would be without noise; one that "
    "is not seen is smaller than the diamond."
)
_CURVE = (
    "The sum of squared distances to the nearest centre, as the private cells tell it, for every "
    "number of centres: the number was chosen where the fall ends."
)
_PLANE = 2
_MOST_GROUPS = 30

Numbered = tuple[int, tuple[float, ...]]
"""A centre and its number, from 1."""


def centers_section(audit: Audit) -> Section:
    """Return the released groups as people read them, drawn; and where records may lie."""
    subject = audit.subject
    if subject.released_centers is None:
        return Section("release", _TITLE, (Text(_NONE), *_bounds_tables(subject)))
    groups = _groups_tables(subject)
    tables = groups or _center_tables(subject)
    said = () if groups or not subject.groups_note else (Text(subject.groups_note),)
    pictures = (*_pictures_of_centers(subject), *_picture_of_curve(subject))
    return Section("release", _TITLE, (*tables, *said, *pictures))


def _groups_tables(subject: Subject) -> tuple[TableBlock, ...]:
    """Return a row for every group; where that is too wide, a row for every column."""
    if len(subject.groups) < _PLANE:
        return ()
    header, *rows = subject.groups
    notes = (subject.groups_note,) if subject.groups_note else ()
    caption = "The groups, each with the standard error that is due to noise"
    if "±" not in "".join("".join(row) for row in rows):
        caption = "The groups"
    if len(header) <= MOST_COLUMNS:
        shown = tuple(plain(*row) for row in rows[:_MOST_GROUPS])
        if len(rows) > _MOST_GROUPS:
            notes = (f"The first {_MOST_GROUPS} of {count(len(rows))}.", *notes)
        return (TableBlock("groups", caption, header, shown, notes=notes),)
    parts = chunks(rows[:_MOST_GROUPS])
    return tuple(
        TableBlock(
            "groups" if part == 1 else f"groups-{part}",
            caption if part == 1 else "More of the groups",
            (header[0], *(row[0] for row in own)),
            tuple(
                plain(name, *(row[place] for row in own))
                for place, name in enumerate(header[1:], start=1)
            ),
            notes=notes if part == len(parts) else (),
        )
        for part, own in enumerate(parts, start=1)
    )


def _pictures_of_centers(subject: Subject) -> tuple[Picture, ...]:
    """Return the picture of the centres, over the private density where that is known."""
    told, centers = subject.publication, subject.released_centers or ()
    drawn = planes_of(subject)
    if not drawn:
        return ()
    dense = told is not None and bool(told.densities)
    said = [_DENSITY if dense else _ONLY_CENTERS, _MARKS]
    if told is not None and told.sizes and len(drawn[0]) == _PLANE:
        said.append(_RINGS)
    if told is not None and told.center_sd:
        said.append(_ELLIPSES)
    left_out = subject.n_features - len({name for names in drawn for name in names})
    if left_out and dense:
        said.append("Of the columns, those are drawn in which the groups differ most.")
    elif left_out:
        said.append("Of the columns, the first are drawn.")
    over = " and ".join(", ".join(names) for names in drawn)
    what = "Heat map of the private density" if dense else "Plot"
    alt = f"{what} over {over}, with {count(len(centers))} centres; the table has their places."
    return (Picture("centers", " ".join(said), alt),)


def planes_of(subject: Subject) -> tuple[tuple[str, ...], ...]:
    """Return the columns of every panel: those of the densities, or the first two columns."""
    told = subject.publication
    if told is not None and told.densities:
        return tuple(density.columns for density in told.densities)
    numbers = tuple(name for name in subject.columns if "=" not in name)
    return (numbers[:_PLANE],) if numbers else ()


def _picture_of_curve(subject: Subject) -> tuple[Picture, ...]:
    """Return the picture of the potentials by which the number of centres was chosen."""
    told = subject.publication
    if told is None or not told.curve:
        return ()
    alt = (
        f"Line plot of the private potential for 1 to {count(len(told.curve))} centres; "
        f"{count(len(subject.released_centers or ()))} were chosen."
    )
    return (Picture("curve", _CURVE, alt),)


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
