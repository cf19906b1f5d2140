"""What the curator should hear before a release is charged, from public facts alone.

The number of records counts only where the relation makes it public; nothing here looks at a row.
"""

from __future__ import annotations

from collections.abc import Iterator

from dpkv.mechanisms import Neighbours
from dpkv.releases.preparation import Preparation
from dpkv.releases.settling import Settled
from dpkv.releases.wording import factor

_WEAK_EPS = 10
_FEW_RECORDS = 100
_NOUNS = {"row": "records", "person": "persons"}


def cautions(settled: Settled) -> Iterator[str]:
    """Yield sentences about a plan that can be carried out."""
    plan = settled.plan
    if plan.exact_eps > _WEAK_EPS:
        yield (
            f"eps = {plan.eps} is above {_WEAK_EPS}, which promises next to nothing: odds may "
            f"change by a factor of {factor(plan.eps)}"
        )
    if plan.neighbours is Neighbours.REPLACE_ONE:
        yield from _about_few(settled)


def cautions_about_table(preparation: Preparation) -> Iterator[str]:
    """Yield sentences about how the table was described, before a record of it is read."""
    plan, schema = preparation.plan, preparation.request.described
    if plan.unit.persons is None:
        yield (
            "this protects one row, not one person: where a person may have several rows, name "
            "their column by --person"
        )
    names = [column.name for column in plan.table if not column.categories]
    if schema is None or preparation.request.bounds is None or plan.domain is None:
        return
    described = dict(zip(names, schema.bounds(names), strict=True))
    lower, upper = plan.domain.get("lower"), plan.domain.get("upper")
    if lower is None or upper is None:
        return
    ends = dict(zip(plan.columns, zip(lower, upper, strict=True), strict=True))
    given = {tuple(map(float, ends[name])) for name in names}
    if len(given) == 1 and len(names) > 1 and len(set(described.values())) > 1:
        (low, high), (name, own) = given.pop(), next(iter(described.items()))
        yield (
            f"one pair of bounds, {low:g} to {high:g}, is given for columns that the schema says "
            f"are different ({_spelled(name, own)}, ...): without --bounds each has its own"
        )


def _spelled(name: str, bounds: tuple[float, float] | int) -> str:
    return name if isinstance(bounds, int) else f"{name} {bounds[0]:g} to {bounds[1]:g}"


def advice(settled: Settled) -> Iterator[str]:
    """Yield sentences about what would serve better, at the same price."""
    mechanism = settled.mechanism
    windows = mechanism.with_windows()
    if windows is not None and settled.plan.density is None:
        yield (
            "with --density window a coordinate of a centre would typically be off by "
            f"{windows.typical_error():.2g} of half the width of the bounds, in place of "
            f"{mechanism.typical_error():.2g}, and private Lloyd steps would follow"
        )


def _about_few(settled: Settled) -> Iterator[str]:
    plan, n_records = settled.plan, settled.n_records
    if n_records < _FEW_RECORDS:
        yield (
            f"there are fewer than {_FEW_RECORDS} {_NOUNS[plan.weighing.unit.kind]}: little but "
            "noise is to be expected of so few"
        )
    if plan.calibration == "published":  # its noise depends on the records
        return
    if plan.fewest is None and settled.mechanism.is_hopeless(n_records):
        yield (
            f"with eps = {plan.eps} and k = {plan.k}, --mechanism {plan.mechanism} is predicted to "
            "give centres that are no better than ones chosen without the data"
        )
