"""The report's part on accuracy: how good the centres are, and what they are compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dpkv.audits.report.blocks import (
    Block,
    Cell,
    Heading,
    Items,
    Picture,
    Section,
    TableBlock,
    Text,
    chunks,
    plain,
)
from dpkv.audits.report.numbers import ABSENT, count, counts, exact, interval, number
from dpkv.audits.results import Audit, UtilityRow

_WHAT = (
    "Potentials are sums of squared distances of the records to their nearest centre; smaller is "
    "better. The ratio is a rival's mean potential over that of certified k-variates++ (rho'_phi "
    "of the paper): above 1, k-variates++ is the better. Intervals are in brackets, rounded "
    "outward."
)
NOT_TO_CHOOSE_BY = (
    "Accuracy depends on the records: no guarantee covers a k, mechanism, gamma or columns that "
    "were chosen by it. A synopsis can be clustered with any k, for nothing"
)
_FAILED, _PARTLY = "failed", "†"


def utility_section(audit: Audit) -> Section:
    """Return the comparison: for every eps a plot, ratios, and distances from the optimum."""
    title = "Utility"
    if not audit.utility:
        return Section("utility", title, ())
    what = f"{_WHAT} {NOT_TO_CHOOSE_BY}."
    blocks: list[Block] = [Text(what), Text(_runs(audit.utility))]
    for index, (eps, rows) in enumerate(by_eps(audit.utility), start=1):
        blocks.extend(_comparison(eps, rows, index))
    blocks.extend(_failures(audit.utility))
    return Section("utility", title, tuple(blocks))


def by_eps(rows: Sequence[UtilityRow]) -> list[tuple[float, list[UtilityRow]]]:
    """Return the rows of every eps, smallest eps first."""
    return [(eps, [row for row in rows if row.eps == eps]) for eps in sorted({r.eps for r in rows})]


def names_of(rows: Sequence[UtilityRow]) -> list[str]:
    """Return what is compared, in order."""
    return list(dict.fromkeys(row.name for row in rows))


def _runs(rows: Sequence[UtilityRow]) -> str:
    most = max(row.runs for row in rows)
    if all(row.runs == most for row in rows):
        return f"Every figure is a mean over {count(most)} runs."
    return f"Every figure is a mean over {count(most)} runs, or over those that did not fail."


def _comparison(eps: float, rows: list[UtilityRow], index: int) -> list[Block]:
    at = f"at eps = {exact(eps)}"
    picture = Picture(
        f"ratios-{index}",
        f"Potential over that of certified k-variates++, {at}, with 95 % intervals, each by "
        "itself. Above the line, k-variates++ is the better. Hollow markers have no privacy.",
        f"Potential ratios of {count(len(names_of(rows)))} ways to find centres over k, {at}; the "
        "tables have the values.",
    )
    return [
        Heading(f"Comparison {at}"),
        *_over_released(index, at, rows),
        picture,
        *_pivots(f"ratio-{index}", f"Potential over certified k-variates++, {at}", rows, _ratio),
        *_pivots(f"optimum-{index}", f"Potential over k-means without privacy, {at}", rows, _over),
        *_pivots(f"potential-{index}", f"Mean potential, {at}", rows, _potential),
    ]


def _over_released(index: int, at: str, rows: list[UtilityRow]) -> list[TableBlock]:
    """Return the potentials over those of the released mechanism, where there is one."""
    own = [row.name for row in rows if row.own_ratio_interval == (1.0, 1.0)]
    if not own:
        return []
    caption = f"Potential over the released mechanism's ({own[0]}), {at}: above 1, it is the better"
    return _pivots(f"own-{index}", caption, rows, _own)


def _pivots(
    name: str, caption: str, rows: list[UtilityRow], cell: Callable[[UtilityRow], Cell]
) -> list[TableBlock]:
    ks = sorted({row.k for row in rows})
    parts = chunks(ks)
    if len(parts) == 1:
        return [_pivot(f"{name}-1", caption, rows, ks, cell)]
    return [
        _pivot(f"{name}-{part}", f"{caption}, k = {counts(tuple(shown))}", rows, shown, cell)
        for part, shown in enumerate(parts, start=1)
    ]


def _pivot(
    name: str,
    caption: str,
    rows: list[UtilityRow],
    ks: Sequence[int],
    cell: Callable[[UtilityRow], Cell],
) -> TableBlock:
    found = {(row.name, row.k): row for row in rows}
    return TableBlock(
        name,
        caption,
        ("", *(f"k = {k}" for k in ks)),
        tuple(
            (
                Cell(way, _privacy(rows, way)),
                *(cell(found[way, k]) if (way, k) in found else Cell(ABSENT) for k in ks),
            )
            for way in names_of(rows)
        ),
    )


def _privacy(rows: list[UtilityRow], way: str) -> str:
    return "" if all(row.private for row in rows if row.name == way) else "no privacy"


def _ratio(row: UtilityRow) -> Cell:
    return _figure(row, row.ratio, interval(row.ratio_interval))


def _own(row: UtilityRow) -> Cell:
    return _figure(row, row.own_ratio, interval(row.own_ratio_interval))


def _over(row: UtilityRow) -> Cell:
    return _figure(row, row.over_optimum, interval(row.over_optimum_interval))


def _potential(row: UtilityRow) -> Cell:
    return _figure(row, row.potential, "")


def _figure(row: UtilityRow, value: float | None, note: str) -> Cell:
    if value is None:
        return Cell(_FAILED if row.failure else ABSENT)
    return Cell(number(value) + (f" {_PARTLY}" if row.failure else ""), note)


def _failures(rows: Sequence[UtilityRow]) -> list[Block]:
    """Say why what failed did so; the same reason at several k is said once."""
    reasons: dict[tuple[str, float, str], list[int]] = {}
    for row in rows:
        if row.failure:
            reasons.setdefault((row.name, row.eps, row.failure), []).append(row.k)
    if not reasons:
        return []
    said = tuple(
        f"{name}, eps = {exact(eps)}, k = {counts(tuple(ks))}: {reason}"
        for (name, eps, reason), ks in reasons.items()
    )
    blocks: list[Block] = [Heading("What failed, and why"), Items(said)]
    if any(row.failure and row.potential is not None for row in rows):
        blocks.append(Text(f"Figures marked {_PARTLY} are over the runs that did not fail."))
    return blocks


def rivals_section(audit: Audit) -> Section:
    """Return what was compared with, its version, and what is known of it."""
    title = "Rivals"
    if not audit.rivals:
        return Section("rivals", title, ())
    table = TableBlock(
        "rivals",
        "What is compared",
        ("name", "what", "version", "note"),
        tuple(plain(row.name, row.what, row.version, row.note) for row in audit.rivals),
        words=frozenset({0, 1, 2, 3}),
    )
    return Section("rivals", title, (table,))
