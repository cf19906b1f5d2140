"""Which mechanism promises the least error, from public facts alone: ``--mechanism auto``.

The prediction is rough on purpose: the squared error of a center's coordinate over the squared half
width of the domain, for k clusters of equal size, at most 1. It is worked out from the mechanisms'
own noise, and from the number of records only where that is public.

- Algorithm 0 moves a center by the noise itself.
- GUPT moves it by the noise over the number of blocks, and lines up clusters only where there are
  few: half of the domain is lost for every further one.
- DPLloyd moves it by the noise of a sum over the records of a cluster; a public start misses
  clusters, which Lloyd's iterations rarely mend. Where noise drowns everything it stays at that
  start, which is spread over the domain and better than centers that are noise.
- A synopsis finds the clusters that stand out of the noise of its cells, and moves their centers by
  the noise of a sum, cut to an eighth of the domain.

Where the number of records is private, nothing can be predicted and the synopsis is taken: it is
the most accurate wherever records are many, which is where a release is of use.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

from dpkv.calibration.amplified import DEFAULT_GAMMA
from dpkv.errors import UsageError
from dpkv.grid import Grid
from dpkv.mechanisms.catalogue import MECHANISMS, calibrated, check_request
from dpkv.mechanisms.gupt import Gupt
from dpkv.mechanisms.kvariates import Algorithm0
from dpkv.mechanisms.lloyd import Lloyd
from dpkv.mechanisms.mechanism import Mechanism, Neighbours
from dpkv.mechanisms.synopsis import Synopsis

_MISSED_BY_A_PUBLIC_START, _OF_A_PUBLIC_START = 0.1, 0.5
_STANDS_OUT = 2.0  # scales of a count's noise
_CUT = 0.125  # of the domain: the radius that residuals are cut to


@dataclass(frozen=True)
class Choice:
    """The mechanism that is taken, and why."""

    name: str
    reason: str


def choose(
    eps: Decimal,
    *,
    n_records: int,
    n_clusters: int,
    grid: Grid,
    neighbours: Neighbours,
    gamma: float = DEFAULT_GAMMA,
    delta: Decimal = Decimal(0),
) -> Choice:
    """Return the mechanism of least predicted error; ``n_records`` is used where it is public."""
    if neighbours is Neighbours.ADD_REMOVE:
        return Choice(Synopsis.name, "auto: the number of records is private, nothing predicts")
    if delta > 0:
        return Choice(Synopsis.name, "auto: the only mechanism with a use for delta")
    errors: dict[str, float] = {}
    for name in MECHANISMS:
        try:
            check_request(name, neighbours, None, delta)
            mechanism = calibrated(
                name,
                eps,
                n_records=n_records,
                n_clusters=n_clusters,
                grid=grid,
                neighbours=neighbours,
                gamma=gamma,
            )
        except UsageError:
            continue
        errors[name] = predicted_error(mechanism, n_records)
    ranked = sorted(errors, key=lambda name: (errors[name], name != Synopsis.name))
    shown = ", ".join(f"{name} {errors[name]:.2g}" for name in ranked[:3])
    return Choice(
        ranked[0], f"auto: least predicted squared error of a centre, of the domain's: {shown}"
    )


def predicted_error(mechanism: Mechanism, n_records: int) -> float:
    """Return the predicted squared error of a coordinate, of the domain's half width squared."""
    half = max(1.0, mechanism.grid.diam1 / max(1, mechanism.grid.n_features) / 2.0)
    members = max(1.0, n_records / mechanism.n_clusters)
    sd = mechanism.noises()[-1].sd
    if isinstance(mechanism, Algorithm0):
        error = (sd / half) ** 2
    elif isinstance(mechanism, Gupt):
        lost = 1.0 - 0.5 ** (mechanism.n_clusters - 1)
        error = (sd / mechanism.n_blocks / half) ** 2 + lost
    elif isinstance(mechanism, Lloyd):
        missed = _MISSED_BY_A_PUBLIC_START if mechanism.n_clusters > 1 else 0.0
        error = min((sd / members / half) ** 2 + missed, _OF_A_PUBLIC_START)
    elif isinstance(mechanism, Synopsis):
        radius = _CUT * mechanism.grid.n_features * 2.0
        unseen = _STANDS_OUT * mechanism.count_scale / members
        error = (sd * radius / members) ** 2 + unseen**2
    else:
        error = 1.0
    return min(1.0, error) if math.isfinite(error) else 1.0
