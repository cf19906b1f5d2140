"""What the curator should hear before a release is charged, from public facts alone.

The number of records counts only where the relation makes it public; nothing here looks at a row.
"""

from __future__ import annotations

from collections.abc import Iterator

from dpkv.mechanisms import Neighbours
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
    if settled.mechanism.is_hopeless(n_records):
        yield (
            f"with eps = {plan.eps} and k = {plan.k}, --mechanism {plan.mechanism} is predicted to "
            "give centres that are no better than ones chosen without the data"
        )
