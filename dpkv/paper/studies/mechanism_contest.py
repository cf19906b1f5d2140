"""k-variates++ against Forgy-DP, GUPT and sample and aggregate on equal terms, for the studies.

All but the last, which is a simulation, run through the code of a release with seeded draws, on the
same grid and with the same L1 diameter. The potential is measured twice: with centres clamped to
the domain, as dpkv releases them, and with centres where the noise has put them, as the paper's
figures must have been taken (clamped, no ratio could come near the printed thousands).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from dpkv.audits import sample_aggregate
from dpkv.audits.sample_aggregate import SampleAggregate
from dpkv.domain import Box
from dpkv.grid import Grid
from dpkv.mechanisms import Forgy, Gupt, KVariates, Mechanism, Neighbours, Published
from dpkv.noise import SeededEntropy
from dpkv.records import run_on_points
from dpkv.seeding import potential
from dpkv.types import Float64s, Floats, Integers

CERTIFIED, PRINTED, RECOMPUTED = "certified", "printed", "recomputed"
FORGY, GUPT, GUPT_THIRD = "forgy-dp", "gupt", "gupt-third"
"""The last spends a third of eps on the noise, as the original does that has to find bounds."""
AGGREGATE = sample_aggregate.NAME
RIVALS = {
    FORGY: "Forgy-DP",
    GUPT: "GUPT with all of eps",
    GUPT_THIRD: "GUPT with a third of it",
    AGGREGATE: "sample and aggregate",
}
CLAMPED, FREE = "clamped", "free"


Runner = Mechanism | SampleAggregate


@dataclass(frozen=True, eq=False)
class Arena:
    """Records on a grid, and the same points in the user's coordinates."""

    grid: Grid
    points: Integers
    values: Float64s
    diam2: float
    """Of the domain, in the user's coordinates."""

    @classmethod
    def of(cls, values: Floats, domain: Box) -> Arena:
        """Quantise records to the domain's grid."""
        grid = domain.grid()
        points = grid.quantise(values)
        return cls(grid, points, grid.restore(points), domain.diam2)


def contestants(
    arena: Arena, eps: float, n_clusters: int, gamma: float, eps_tildes: Mapping[str, float | None]
) -> dict[str, Runner]:
    """Return the mechanisms by name; ``eps_tildes`` are of published calibrations, if positive."""
    grid, k, exact = arena.grid, n_clusters, Decimal(str(eps))
    size: dict[str, Any] = {"n_records": len(arena.points), "n_clusters": k}
    mechanisms: dict[str, Runner] = {
        CERTIFIED: KVariates.calibrate(exact, **size, grid=grid, gamma=gamma),
        FORGY: Forgy.calibrate(exact, n_clusters=k, grid=grid, neighbours=Neighbours.REPLACE_ONE),
        GUPT: Gupt.calibrate(exact, **size, grid=grid),
        GUPT_THIRD: Gupt.calibrate(exact / 3, **size, grid=grid),
        AGGREGATE: SampleAggregate.calibrate(eps, **size, n_features=grid.n_features),
    }
    for name, eps_tilde in eps_tildes.items():
        if eps_tilde is not None and eps_tilde > 0.0:
            mechanisms[name] = Published.calibrate(eps_tilde, n_clusters=k, grid=grid)
    return mechanisms


def contest(
    arena: Arena, mechanisms: Mapping[str, Runner], runs: int, rng: np.random.Generator
) -> dict[str, dict[str, float]]:
    """Return the mean potentials of every mechanism and their relative standard errors."""
    found = {}
    for name, mechanism in mechanisms.items():
        seeds = rng.integers(2**63, size=runs)
        both = np.array([_potentials(arena, mechanism, int(seed)) for seed in seeds])
        found[name] = {
            CLAMPED: float(both[:, 0].mean()),
            FREE: float(both[:, 1].mean()),
            f"{CLAMPED}_error": _relative_error(both[:, 0]),
            f"{FREE}_error": _relative_error(both[:, 1]),
        }
    return found


def _potentials(arena: Arena, mechanism: Runner, seed: int) -> tuple[float, float]:
    if isinstance(mechanism, SampleAggregate):
        found = mechanism.find_centers(arena.values, arena.diam2, np.random.default_rng(seed))
        clipped = arena.grid.restore(arena.grid.quantise(found))
        return potential(arena.values, clipped), potential(arena.values, found)
    drawn = run_on_points(mechanism, arena.points, SeededEntropy(seed)).centers
    clamped, free = arena.grid.restore(arena.grid.clip(drawn)), arena.grid.restore(drawn)
    return potential(arena.values, clamped), potential(arena.values, free)


def _relative_error(values: Float64s) -> float:
    if len(values) == 1 or not values.mean():
        return 0.0
    return float(values.std(ddof=1) / math.sqrt(len(values)) / values.mean())


def ratio(
    found: Mapping[str, Mapping[str, float]], rival: str, ours: str, how: str
) -> float | None:
    """Return rho'_phi = phi(rival) / phi(ours), above 1 where ours is better; None if not run."""
    if rival not in found or ours not in found or not found[ours][how]:
        return None
    return found[rival][how] / found[ours][how]


def mean_of(values: Sequence[float | None]) -> float | None:
    """Return the mean of the numbers that are there."""
    there = [value for value in values if value is not None]
    return sum(there) / len(there) if there else None
