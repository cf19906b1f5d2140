"""The report's part on calibration: how much noise, by which account."""

from __future__ import annotations

from dpkv.audits.report.blocks import Cell, Picture, Section, TableBlock, Text, plain
from dpkv.audits.report.numbers import ABSENT, number
from dpkv.audits.results import Audit, CalibrationRow

_WHAT = (
    "Noise is a standard deviation on each coordinate, in the mechanism's working coordinates. "
    "Certified noise follows from public facts alone, and the guarantee is for it. The Laplace "
    "mechanism (sigma_2) is what plain noise on every centre would need."
)
_PUBLISHED = (
    "The published noise (sigma_1) is the paper's own formula. It depends on the records and is "
    "not an end-to-end guarantee."
)
_LEFT_OUT = "The published noise depends on the records and is left out of the public variant."
_HEADER = ("k", "certified eps~", "certified noise", "Laplace noise, sigma_2")


_ADDED = (
    "What was added to the answers that the release was made from, as standard deviations. All of "
    "it follows from public facts, and is drawn from the operating system's randomness."
)


def noise_section(audit: Audit) -> Section:
    """Return the noise of the mechanism that was released; nothing without a release."""
    told = audit.subject.publication
    title = "The noise of this release"
    if told is None or not told.noise:
        return Section("noise", title, ())
    rows = tuple(plain(one.added_to, number(one.sd), one.unit) for one in told.noise)
    table = TableBlock(
        "release-noise",
        "Noise, by what it was added to",
        ("added to", "standard deviation", "in"),
        rows,
        words=frozenset({0, 2}),
    )
    return Section("noise", title, (Text(_ADDED), table))


def calibration_section(audit: Audit) -> Section:
    """Return the calibration as a table and a plot."""
    rows, public = audit.calibration, audit.visibility == "public"
    title = "Calibration"
    if not rows:
        return Section("calibration", title, ())
    shown = "" if public else ", and the published noise where it is defined"
    picture = Picture(
        "noise",
        "Noise against the number of centres. Less is better.",
        f"Line plot over k of the certified noise and the Laplace noise{shown}; "
        "the table has the values.",
    )
    second = Text(_LEFT_OUT if public else _PUBLISHED)
    table = _public_table(rows) if public else _table(rows)
    drawn = (picture,) if len(rows) > 1 else ()
    return Section("calibration", title, (Text(_WHAT), second, *drawn, table))


def _public_table(rows: tuple[CalibrationRow, ...]) -> TableBlock:
    return TableBlock(
        "calibration",
        "Noise for each number of centres",
        _HEADER,
        tuple(_row(row) for row in rows),
        words=frozenset(),
    )


def _table(rows: tuple[CalibrationRow, ...]) -> TableBlock:
    published = ("published eps~", "published noise, sigma_1")
    notes = dict.fromkeys(row.published_note for row in rows if row.published_note)
    marks = dict(zip(notes, "abcdefghijklmnopqrstuvwxyz", strict=False))
    return TableBlock(
        "calibration",
        "Noise for each number of centres",
        (*_HEADER, *published),
        tuple((*_row(row), *_published_cells(row, marks)) for row in rows),
        words=frozenset(),
        notes=tuple(f"{mark}: {note}" for note, mark in marks.items()),
    )


def _row(row: CalibrationRow) -> tuple[Cell, ...]:
    values = row.certified_eps_tilde, row.certified, row.laplace
    return plain(str(row.k), *map(number, values))


def _published_cells(row: CalibrationRow, marks: dict[str, str]) -> tuple[Cell, ...]:
    mark = marks.get(row.published_note, "")
    absent = f"{ABSENT} {mark}".rstrip()
    noise = absent if row.published is None else f"{number(row.published)} {mark}".rstrip()
    return plain(number(row.published_eps_tilde), noise)
