"""What a release says of missing cells: public rules, and centers that may come of them.

How many rows a rule touched is private, and said nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dpkv.releases.table_facts import ColumnFacts
from dpkv.tables.naming import list_labels

if TYPE_CHECKING:
    from dpkv.releases.plan import Plan
    from dpkv.releases.record import ReleaseRecord

RULES = {
    "refuse": "refuse the table",
    "fill": "filled with {value}",
    "ignore": "their row counts for nothing",
    "category": "a category of their own",
}
"""What becomes of missing cells, by rule."""
FILLED = (
    "in {name} a missing cell was filled with {value}, and there sits centre {centers}: it may "
    "stand for rows whose value is not known"
)
"""Said of centers that may be an artefact of a rule for missing cells."""
_NEAR = 0.01  # of the column's width, and of a share


def rules_of(plan: Plan) -> str:
    """Return which rule was used for the missing cells of which columns."""
    by_rule = dict[str, list[str]]()
    for facts in plan.table:
        rule = RULES[facts.missing].format(value=_told(facts))
        by_rule.setdefault(rule, []).append(facts.name)
    if len(by_rule) <= 1:
        return "".join(by_rule)
    return "; ".join(f"{rule}: {list_labels(names)}" for rule, names in by_rule.items())


def filled_centers(record: ReleaseRecord) -> tuple[str, ...]:
    """Return which centers sit where missing cells were filled: they may stand for nobody's values.

    From the centers and the public rules alone.
    """
    return tuple(_filled(record))


def _filled(record: ReleaseRecord) -> Iterator[str]:
    domain = record.bounds.domain
    for facts in record.plan.table:
        if facts.missing != "fill" or "upper" not in domain:
            continue
        name = f"{facts.name}={facts.fill}" if facts.categories else facts.name
        place = record.columns.index(name)
        value = 1.0 if facts.categories else float(facts.fill or 0.0)
        near = _NEAR * (domain["upper"][place] - domain["lower"][place])
        at = [n for n, c in enumerate(record.centers, 1) if abs(c[place] - value) <= near]
        if at:
            shown = ", ".join(map(str, at))
            yield FILLED.format(name=facts.name, value=_told(facts), centers=shown)


def _told(facts: ColumnFacts) -> str:
    value = facts.fill
    return f"{value:g}" if isinstance(value, float) else str(value)
