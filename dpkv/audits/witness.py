"""Witnesses: two neighbouring tables and an output, whose probabilities anyone can recompute.

A witness proves a lower bound on eps without a confidence level: at the claimed noise, this output
is exp(loss) times likelier under one table than under the other. ``check_witness`` recomputes both
probabilities in interval arithmetic from the description alone.
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, FiniteFloat, model_validator

from dpkv.accounting.exact import float_above, float_below
from dpkv.audits.intervals import (
    LaplaceLevels,
    Levels,
    WindowLevels,
    ball_window,
    box_window,
    log_probability_bounds,
)
from dpkv.audits.worst_case import WorstCase
from dpkv.domain import Domain
from dpkv.errors import UsageError
from dpkv.grid import FEWEST_BITS, GRID_BITS, MOST_BITS, BoxGrid, Grid, L1BallGrid
from dpkv.mechanisms import Algorithm0, Mechanism, describe, from_description
from dpkv.records.questions import Density, LaplaceDensity, WindowDensity
from dpkv.releases.frozen import Frozen
from dpkv.releases.parsing import parse
from dpkv.releases.verify import Check
from dpkv.simplices import ProductGrid
from dpkv.validation import MOST_RECORDS

_DOWN, _UP = (Context(prec=60, rounding=way) for way in (ROUND_FLOOR, ROUND_CEILING))
_NUMBER = re.compile(r"[0-9]{1,40}(\.[0-9]{1,80})?", re.ASCII)
_FARTHEST = 2**62
_MOST_OUTPUTS, _MOST_DISTANCES, _MOST_DIFFERENCES = 10_000, 200_000, 4_000_000
"""What is recomputed of a file; more would take longer than some seconds."""
_AGREE = 1e-12  # how far, relatively, a stated logarithm may be from its bounds


class Witness(Frozen):
    """Neighbouring tables on the grid, an output, and how likely it is under both."""

    schema_version: Literal[1] = 1
    kind: Literal["witness"] = "witness"
    visibility: Literal["public", "curator-only"]
    """Curator-only where the tables are the curator's own."""
    claimed_eps: str
    mechanism: dict[str, Any]
    domain: dict[str, Any]
    grid_bits: int = GRID_BITS
    common: tuple[tuple[int, ...], ...]
    counts: tuple[Annotated[int, Field(ge=0, le=MOST_RECORDS)], ...]
    """How often each of the common points occurs in both tables."""
    old: tuple[int, ...]
    new: tuple[int, ...]
    output: tuple[tuple[int, ...], ...]
    log_probability_old: FiniteFloat
    log_probability_new: FiniteFloat
    """Natural logarithms, up to a constant that both share: the noise's normaliser."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        claimed = Decimal(self.claimed_eps) if _NUMBER.fullmatch(self.claimed_eps) else None
        if claimed is None:
            raise ValueError("claimed_eps must be a decimal number")
        if len(self.common) != len(self.counts) or min(self.counts, default=0) < 0:
            raise ValueError("every common point needs a count of at least 0")
        points = (*self.common, self.old, self.new, *self.output)
        if {len(point) for point in points} != {len(self.old)} or not self.output:
            raise ValueError("all points must have as many coordinates")
        if max((abs(x) for point in points for x in point), default=0) > _FARTHEST:
            raise ValueError("a coordinate is beyond every grid")
        return self

    def to_json(self) -> str:
        """Return the witness as JSON text."""
        return self.model_dump_json(indent=2) + "\n"

    @property
    def loss(self) -> float:
        """The stated loss, rounded down."""
        exact = Decimal(self.log_probability_old), Decimal(self.log_probability_new)
        return float_below_signed(_DOWN.subtract(*exact))


def witness_of(
    found: WorstCase,
    mechanism: Algorithm0,
    domain: Domain,
    claimed_eps: str,
    *,
    public: bool = True,
) -> Witness:
    """Write a worst case down, with its probabilities in interval arithmetic.

    It is public where neither the noise nor the bounds are the data's.
    """
    stated = Witness(
        visibility="public" if public else "curator-only",
        grid_bits=bits_of(mechanism.grid, domain),
        claimed_eps=claimed_eps,
        mechanism=describe(mechanism),
        domain=domain.to_dict(),
        common=(tuple(found.common.tolist()),),
        counts=(found.n_common,),
        old=tuple(found.old.tolist()),
        new=tuple(found.new.tolist()),
        output=tuple(map(tuple, found.output.tolist())),
        log_probability_old=0.0,
        log_probability_new=0.0,
    )
    old, new = (_bounds(stated, mechanism, record) for record in (stated.old, stated.new))
    return stated.model_copy(
        update={
            "log_probability_old": float_below_signed(old[0]),
            "log_probability_new": float_above(new[1]),
        }
    )


def bits_of(grid: Grid, domain: Domain) -> int:
    """Return how fine the grid over the domain is; the usual where it is no grid of it."""
    fine = [GRID_BITS, *range(FEWEST_BITS, MOST_BITS + 1)]
    return next((bits for bits in fine if domain.grid(bits) == grid), GRID_BITS)


def float_below_signed(value: Decimal) -> float:
    """Return the largest float that is not above ``value``, of any sign."""
    return -float_above(value.copy_negate()) if value < 0 else float_below(value)


def parse_witness(text: str, path: object) -> Witness:
    """Return the witness that a file holds."""
    found = parse(Witness, text, path, "witness")
    distances = (len(found.common) + 1) * len(found.output)
    if (
        len(found.output) > _MOST_OUTPUTS
        or distances > _MOST_DISTANCES
        or distances * len(found.old) > _MOST_DIFFERENCES
    ):
        raise UsageError(f"{path} has too many points to be recomputed: take a smaller witness.")
    return found


def rebuild(witness: Witness) -> Mechanism:
    """Return the mechanism that a witness is about."""
    grid = Domain.from_dict(witness.domain).grid(witness.grid_bits)
    return from_description(witness.mechanism, grid)


def loss_bounds(witness: Witness) -> tuple[Decimal, Decimal]:
    """Return bounds of the witness's loss, recomputed."""
    return _difference(*_both_bounds(witness, rebuild(witness)))


_Bounds = tuple[Decimal, Decimal]


def _both_bounds(witness: Witness, mechanism: Mechanism) -> tuple[_Bounds, _Bounds]:
    """Return bounds of the output's log-probability under either table."""
    exact = mechanism.closed_form()
    if exact is None:
        raise UsageError("a witness is about a release of Algorithm 0.")
    old, new = (_bounds(witness, exact, record) for record in (witness.old, witness.new))
    return old, new


def _difference(old: _Bounds, new: _Bounds) -> _Bounds:
    return _DOWN.subtract(old[0], new[1]), _UP.subtract(old[1], new[0])


def _bounds(
    witness: Witness, mechanism: Algorithm0, record: tuple[int, ...]
) -> tuple[Decimal, Decimal]:
    centers = mechanism.grid.clip(np.asarray(witness.output, dtype=np.int64))
    return log_probability_bounds(
        [*witness.common, record],
        [*witness.counts, 1],
        witness.output,
        centers.tolist(),
        smoothing=mechanism.smoothing,
        levels=levels_of(mechanism.density),
    )


def levels_of(density: Density) -> Levels:
    """Return the density in interval arithmetic."""
    if isinstance(density, LaplaceDensity):
        return LaplaceLevels(density.scale or 1.0)
    assert isinstance(density, WindowDensity)
    grid = density.grid
    if isinstance(grid, (BoxGrid, ProductGrid)):
        return WindowLevels(density.ratio, box_window(grid.tops, density.reach))
    assert isinstance(grid, L1BallGrid)
    return WindowLevels(density.ratio, ball_window(grid.reach, density.reach))


def check_witness(witness: Witness) -> tuple[Check, ...]:
    """Return every check of a witness: its tables, its logarithms, and what it says of eps."""
    mechanism = rebuild(witness)
    points = np.asarray([*witness.common, witness.old, witness.new], dtype=np.int64)
    if points.shape[1] != mechanism.grid.n_features:
        raise UsageError("the witness's points and its bounds differ in columns.")
    moved = isinstance(mechanism.grid, ProductGrid)  # drawn in the box around, then moved inside
    exact = mechanism.closed_form()
    if exact is not None and exact.density.stays_inside and not moved:
        points = np.concatenate([points, np.asarray(witness.output, dtype=np.int64)])
    inside = bool((mechanism.grid.clip(points) == points).all())
    total = sum(witness.counts) + 1
    counted = mechanism.n_records_needed in (None, total)
    counted &= len(witness.output) == mechanism.n_clusters
    try:
        old, new = _both_bounds(witness, mechanism)
        low, _ = _difference(old, new)
        holds, stated = low <= Decimal(witness.claimed_eps), _as_stated(witness, old, new)
    except (ArithmeticError, ValueError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError("the witness's probabilities cannot be calculated.") from None
    return (
        Check("tables", inside and counted, f"neighbours of {total} records on the public grid"),
        Check("loss", stated, f"recomputed as {_shown(low)}"),
        Check(
            "claim",
            holds,
            f"this output shows eps >= {_shown(low)}, claimed {witness.claimed_eps}",
        ),
    )


def _as_stated(witness: Witness, old: _Bounds, new: _Bounds) -> bool:
    """Tell whether both logarithms are what was stated, to the digits of a float."""
    sides = (old, witness.log_probability_old), (new, witness.log_probability_new)
    for (low, high), stated in sides:
        margin = Decimal(_AGREE) * max(Decimal(1), abs(high))
        if not low - margin <= Decimal(stated) <= high + margin:
            return False
    return True


def _shown(value: Decimal) -> str:
    """Return a lower bound to nine digits, rounded down."""
    return f"{Context(prec=9, rounding=ROUND_FLOOR).plus(value):f}"
