"""How far off a release's centres will be, from public facts alone, before anything is charged."""

from __future__ import annotations

from dpkv.mechanisms import Neighbours
from dpkv.releases.settling import Settled


def predicted_deviations(settled: Settled) -> tuple[float, ...] | None:
    """Return the typical error of a centre in every column's own unit.

    None where it cannot be predicted: the number of records is private, the bounds are not known
    yet, or the noise depends on the records.
    """
    plan = settled.plan
    public = plan.neighbours is Neighbours.REPLACE_ONE and plan.domain is not None
    if not public or plan.calibration == "published":
        return None
    return settled.mechanism.predicted_deviations(settled.n_records)
