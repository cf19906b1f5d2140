"""What a record says of the clusters, from a mechanism's estimates; and whether it may be so."""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from dpkv.domain import Domain
from dpkv.grid import Grid
from dpkv.mechanisms import Outcome
from dpkv.mechanisms.clusters import NO_DISTANCES
from dpkv.releases.frozen import Frozen
from dpkv.types import Float64s

NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_SIZE_DECIMALS = 1
_DIGITS = 4  # of errors and radii: noise leaves no more of them
_HALF_UNIT = 0.06  # of a size's last decimal, and what floats may add


class ClusterRecord(Frozen):
    """A released center and what is known of its records; None where that cannot be told."""

    center: tuple[float, ...]
    center_sd: tuple[NonNegative, ...] | None
    """The standard error of every coordinate that is due to noise, in the column's unit."""
    size: NonNegative | None
    """About how many records are nearest to the center, ..."""
    size_sd: NonNegative | None
    """... and the standard error of that."""
    radius: NonNegative | None
    """Root mean squared distance of those records from the center, in working coordinates."""


class PotentialRecord(Frozen):
    """The sum of all records' squared distances to their centers, as told by noisy answers."""

    value: NonNegative
    sd: NonNegative


def cluster_fields(made: Outcome, centers: Float64s, grid: Grid, domain: Domain) -> dict[str, Any]:
    """Return a record's clusters, potential and curve, in the user's units."""
    told, step = made.clusters, step_length(grid, domain)
    curve = None if made.curve is None else tuple((made.curve * step**2).tolist())
    rows = [tuple(center) for center in centers.tolist()]
    if told is None:
        nothing = {"center_sd": None, "size": None, "size_sd": None, "radius": None}
        return {
            "clusters": tuple(ClusterRecord(center=row, **nothing) for row in rows),
            "potential": None,
            "curve": curve,
        }
    told = told.within(math.sqrt(grid.diam2_squared))
    errors = told.center_sd * np.asarray(grid.steps)
    radii = [None] * len(rows) if told.radii is None else [_short(r * step) for r in told.radii]
    clusters = tuple(
        ClusterRecord(
            center=row,
            center_sd=tuple(map(_short, error)),
            size=round(float(size), _SIZE_DECIMALS),
            size_sd=_short(size_sd),
            radius=radius,
        )
        for row, error, size, size_sd, radius in zip(
            rows, errors, told.sizes, told.size_sd, radii, strict=True
        )
    )
    potential = None
    if told.potential is not None and told.potential_sd is not None:
        value, sd = told.potential * step**2, told.potential_sd * step**2
        potential = PotentialRecord(value=_short(value), sd=_short(sd))
    return {"clusters": clusters, "potential": potential, "curve": curve}


def step_length(grid: Grid, domain: Domain) -> float:
    """Return the length of a grid step in working coordinates, where distances are measured."""
    farthest = math.sqrt(grid.diam2_squared)
    return domain.working.diam2 / farthest if farthest > 0 else 0.0


def find_contradiction(
    clusters: tuple[ClusterRecord, ...],
    potential: PotentialRecord | None,
    untold: str | None,
    domain: Domain,
    total: float | None,
) -> str | None:
    """Return why clusters cannot be what a mechanism told that cannot tell ``untold``.

    ``total`` is what all sizes add up to, where that is public.
    """
    tells_sizes, tells_radii = untold in (None, NO_DISTANCES), untold is None
    known = [
        ((cluster.center_sd, cluster.size, cluster.size_sd), (cluster.radius, potential))
        for cluster in clusters
    ]
    for sizes, radii in known:
        wrong = any((figure is not None) != tells_sizes for figure in sizes)
        if wrong or any((figure is not None) != tells_radii for figure in radii):
            return "a figure of a cluster is stated that the mechanism does not tell, or is missing"
    if any(len(cluster.center_sd or cluster.center) != len(cluster.center) for cluster in clusters):
        return "the errors of a centre are not one per column"
    if any((cluster.radius or 0.0) > 1.001 * domain.working.diam2 for cluster in clusters):
        return "a radius is longer than the bounds are wide"
    if potential is not None and _far_from(clusters, potential):
        return "the potential is not that of the sizes and radii"
    stated = math.fsum(cluster.size or 0.0 for cluster in clusters)
    if tells_sizes and total and abs(stated - total) > _HALF_UNIT * len(clusters):
        return "the sizes do not add up to the number of records"
    return None


def _far_from(clusters: tuple[ClusterRecord, ...], potential: PotentialRecord) -> bool:
    """Tell whether a potential is another one than sizes and radii make, rounding aside."""
    stated = [(cluster.size or 0.0, cluster.radius or 0.0) for cluster in clusters]
    value = math.fsum(size * radius**2 for size, radius in stated)
    rounding = math.fsum(_HALF_UNIT * radius**2 for _, radius in stated) + 2e-3 * value
    return abs(potential.value - value) > rounding + 1e-3 * potential.value


def differ(stated: float | None, true: float) -> bool:
    """Tell whether a stated size is another one than was computed again."""
    return stated is None or abs(stated - true) > 2.0 * _HALF_UNIT + 1e-6 * abs(true)


def _short(number: float) -> float:
    """Return a number with a few significant digits."""
    return float(f"{float(number):.{_DIGITS - 1}e}")
