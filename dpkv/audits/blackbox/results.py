"""What an audit of a black box found, as frozen JSON: every form of the report is made from it."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Literal

import numpy as np
from pydantic import Field

from dpkv import __version__
from dpkv.audits.blackbox.bounds import Event, curve_of, delta_shown
from dpkv.audits.blackbox.claim import Claim
from dpkv.audits.blackbox.search import Search
from dpkv.audits.blackbox.tables import Pair, TableDomain
from dpkv.releases.frozen import Frozen
from dpkv.releases.record import software_versions
from dpkv.types import Float64s

_MOST_EVENTS = 24
_LARGEST_EPS = 20.0
PROVES_NOTHING = (
    "Nothing was found, which proves nothing: only a proof can show that a mechanism is private"
)


class CertifiedEvent(Frozen):
    """An event on runs that no choice has seen, with bounds of its probabilities."""

    words: str
    likelier_under: Literal["first", "second"]
    """The table of the pair under which it is likelier."""
    pair: str
    runs: tuple[int, int]
    hits: tuple[int, int]
    likelier: tuple[float, float]
    """Bounds of its probability under that table."""
    other: tuple[float, float]
    """Bounds of its probability under the other."""
    shown: float
    """The least eps, or mu, that allows it."""


class TablePair(Frozen):
    """Two neighbouring tables; a missing cell is null."""

    key: str
    family: str
    columns: tuple[str, ...]
    first: tuple[tuple[float | None, ...], ...]
    second: tuple[tuple[float | None, ...], ...]

    @classmethod
    def of(cls, pair: Pair, domain: TableDomain) -> TablePair:
        """Return a pair as JSON has it."""
        names = tuple(column.name for column in domain.columns)
        return cls(
            key=pair.key,
            family=pair.family,
            columns=names,
            first=_plain(pair.first),
            second=_plain(pair.second),
        )

    def to_pair(self) -> Pair:
        """Return the tables as arrays."""
        return Pair(self._array(self.first), self._array(self.second), self.family)

    def _array(self, rows: tuple[tuple[float | None, ...], ...]) -> Float64s:
        filled = [[math.nan if cell is None else cell for cell in row] for row in rows]
        return np.asarray(filled, np.float64).reshape(len(rows), len(self.columns))


def _plain(table: Float64s) -> tuple[tuple[float | None, ...], ...]:
    return tuple(tuple(None if math.isnan(v) else float(v) for v in row) for row in table)


class Stage(Frozen):
    """A round of the search."""

    number: int
    runs: int
    alpha: float
    pairs_tried: int
    events: int
    largest_possible: float
    """The most that its held-out runs could have shown of any mechanism."""


class Curve(Frozen):
    """A curve as points."""

    x: tuple[float, ...]
    y: tuple[float, ...]


class BlackBoxAudit(Frozen):
    """Everything that an audit of a black box found."""

    schema_version: Literal[1] = 1
    kind: Literal["black-box-audit"] = "black-box-audit"
    dpkv_version: str = __version__
    versions: dict[str, str] = Field(default_factory=software_versions)
    created: str = Field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    mechanism: str
    claim: str
    unit: str
    claimed: float
    holds: bool
    """Whether no violation was found."""
    headline: str
    lower_bound: float
    """On eps at the claimed delta, or on mu."""
    alpha: float
    """The probability, at most, that this audit accuses a mechanism that keeps its claim."""
    best: CertifiedEvent | None
    witness: TablePair | None
    """The pair of tables of the best event."""
    events: tuple[CertifiedEvent, ...]
    trade_off: Curve
    """An upper bound on the trade-off curve: 1 - p over q."""
    deltas: Curve
    """A lower bound on delta at every eps."""
    runs: int
    pairs_tried: int
    families: tuple[str, ...]
    stages: tuple[Stage, ...]
    seconds: float
    seed: int
    again: str
    """How to run it again."""

    def to_json(self) -> str:
        """Return the audit as JSON text."""
        return self.model_dump_json(indent=2) + "\n"

    @property
    def claimed_region(self) -> Claim:
        """The claim."""
        return Claim.parse(self.claim)


def audit_of(search: Search, *, seconds: float, again: str) -> BlackBoxAudit:
    """Return what a search found."""
    events = [event for done in search.rounds for event in done.events]
    events.sort(key=lambda event: -event.shown(search.claim))
    best = events[0] if events else None
    level = max(0.0, best.shown(search.claim)) if best is not None else 0.0
    holds = not search.violations()
    q, miss = curve_of(events)
    grid = np.linspace(0.0, max(3.0, 2.0 * search.claim.level), 121)
    return BlackBoxAudit(
        mechanism=search.runner.how,
        claim=search.claim.text,
        unit=search.claim.unit,
        claimed=search.claim.level,
        holds=holds,
        headline=_headline(search, level, holds=holds),
        lower_bound=level,
        alpha=search.alpha,
        best=None if best is None else _certified(best, search.claim),
        witness=None if best is None else TablePair.of(search.tried[best.pair], search.domain),
        events=tuple(_certified(event, search.claim) for event in events[:_MOST_EVENTS]),
        trade_off=Curve(x=tuple(q.tolist()), y=tuple(miss.tolist())),
        deltas=Curve(x=tuple(grid.tolist()), y=tuple(delta_shown(events, grid).tolist())),
        runs=search.runs,
        pairs_tried=len(search.tried),
        families=tuple(dict.fromkeys(pair.family for pair in search.tried.values())),
        stages=tuple(
            Stage(
                number=done.number,
                runs=done.runs,
                alpha=done.alpha,
                pairs_tried=done.pairs,
                events=len(done.events),
                largest_possible=min(done.largest_possible, _LARGEST_EPS),
            )
            for done in search.rounds
        ),
        seconds=seconds,
        seed=search.seed,
        again=again,
    )


def _certified(event: Event, claim: Claim) -> CertifiedEvent:
    return CertifiedEvent(
        words=event.words,
        likelier_under="second" if event.swapped else "first",
        pair=event.pair,
        runs=event.runs,
        hits=event.hits,
        likelier=event.p,
        other=event.q,
        shown=max(0.0, event.shown(claim)),
    )


def _headline(search: Search, level: float, *, holds: bool) -> str:
    claim, unit = search.claim, search.claim.unit
    relation = claim.neighbours.value
    at = f" at delta = {claim.delta}" if claim.delta else ""
    if not holds:
        return (
            f"The claim {claim.text} is violated: {unit} is at least {_down(level)}{at} "
            f"({relation}), and this is wrong with probability at most {search.alpha:g}"
        )
    return (
        f"No violation of {claim.text} was found in {search.runs} runs on {len(search.tried)} "
        f"pairs of tables; {unit} >= {_down(level)}{at} was shown ({relation})"
    )


def _down(value: float) -> str:
    return f"{math.floor(value * 1000) / 1000:.3f}"
