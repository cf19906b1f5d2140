"""What a report is made of: plain frozen data with every number already written.

The HTML and the Markdown are two ways to print the same blocks, so they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, TypeVar

Tone = Literal["", "good", "bad"]
MOST_COLUMNS = 6
"""How many figures fit beside each other on paper; a wider table is split."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    kind: ClassVar[str] = "text"
    text: str


@dataclass(frozen=True)
class Items:
    """A list of short statements."""

    kind: ClassVar[str] = "items"
    items: tuple[str, ...]


@dataclass(frozen=True)
class Heading:
    """A heading inside a section."""

    kind: ClassVar[str] = "heading"
    text: str


@dataclass(frozen=True)
class Code:
    """A command, to be copied as it is."""

    kind: ClassVar[str] = "code"
    text: str


@dataclass(frozen=True)
class Picture:
    """Where a plot goes; ``name`` says which."""

    kind: ClassVar[str] = "picture"
    name: str
    caption: str
    alt: str
    """What it shows, for whoever cannot see it."""


@dataclass(frozen=True)
class Cell:
    """A cell of a table; ``note`` stands under the text, smaller."""

    text: str
    note: str = ""
    tone: Tone = ""


@dataclass(frozen=True)
class TableBlock:
    """A table; ``words`` are the columns to the left that hold words, not figures."""

    kind: ClassVar[str] = "table"
    name: str
    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    words: frozenset[int] = frozenset({0})
    codes: frozenset[int] = frozenset()
    """Columns of file names."""
    notes: tuple[str, ...] = ()


Block = Text | Items | Heading | Code | Picture | TableBlock


@dataclass(frozen=True)
class Section:
    """A part of the report."""

    name: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Gauge:
    """The lower bound against the claim; the places are in percent of the scale."""

    bound: str
    claimed: str
    bound_place: float
    claimed_place: float
    method: str
    sentence: str


@dataclass(frozen=True)
class Banner:
    """What must be read before anything else."""

    title: str
    text: str


@dataclass(frozen=True)
class VerdictCard:
    """The answer on one screen."""

    holds: bool
    status: str
    headline: str
    reasons: tuple[str, ...]
    gauge: Gauge
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Context:
    """A whole report."""

    title: str
    label: str
    subtitle: str
    visibility: str
    banners: tuple[Banner, ...]
    verdict: VerdictCard
    sections: tuple[Section, ...] = field(default=())


def plain(*texts: str) -> tuple[Cell, ...]:
    """Return cells without notes."""
    return tuple(Cell(text) for text in texts)


def verdict_cell(violates: bool, good: str, bad: str) -> Cell:
    """Return a cell that says how it went, in words, a sign and a colour."""
    return Cell(f"✕ {bad}", tone="bad") if violates else Cell(f"✓ {good}", tone="good")


def without_repeats(table: TableBlock) -> TableBlock:
    """Return the table with a first column that always says the same moved to the caption."""
    said = {row[0] for row in table.rows}
    if len(said) != 1 or len(table.header) == 1:
        return table
    return replace(
        table,
        caption=f"{table.caption}: {said.pop().text}",
        header=table.header[1:],
        rows=tuple(row[1:] for row in table.rows),
        words=frozenset(place - 1 for place in table.words if place),
        codes=frozenset(place - 1 for place in table.codes if place),
    )


def chunks(values: Sequence[_T], size: int = MOST_COLUMNS) -> list[Sequence[_T]]:
    """Return the values in pieces of nearly equal length, none longer than ``size``."""
    pieces = -(-len(values) // size)
    return [
        values[piece * len(values) // pieces : (piece + 1) * len(values) // pieces]
        for piece in range(pieces)
    ]
