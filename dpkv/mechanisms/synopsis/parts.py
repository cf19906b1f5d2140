"""The parts of a synopsis that an audit samples: each with all of eps, where it shows most.

A classifier that sees only the centers sees little: clustering, which is free, hides most of what
the parts let through. So each part is audited by itself, through the code of a release, with the
noise that it would have if it cost everything that the whole costs; and at an eps of at least 2,
where few runs show most, all noise being scaled alike:

tree    as many records in one place as make a test undecided, one of them there or elsewhere;
counts  a few records, one of them in one corner or the other;
places  a record at one end of its cell or at the other;
step    one Lloyd step of one cluster in the middle, one record being far away or not.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from functools import partial

import numpy as np

from dpkv.accounting import Neighbours
from dpkv.corners import farthest_pair
from dpkv.mechanisms.mechanism import AuditPart
from dpkv.mechanisms.synopsis import refine
from dpkv.mechanisms.synopsis.cells import PrivateCells
from dpkv.mechanisms.synopsis.mechanism import Synopsis
from dpkv.records.questions import Ask, Clusters, calibrate_test
from dpkv.types import Integers

_NEXT_TO_NOTHING = 1e12  # a scale of noise that hides whatever it is added to
_ALL_RECORDS = 2**40  # in one first cell: all of the tree is tested
_FEW, _SOME = 3, 200


def parts_of(mechanism: Synopsis, times: float = 1.0) -> tuple[AuditPart, ...]:
    """Return the parts to audit at ``times`` the eps of the whole, each with its tables."""
    start, end = farthest_pair(mechanism.grid)
    middle = mechanism.grid.middle
    test = _focused_tree(mechanism, times)
    counts = _focused(mechanism, times, "count_scale", "cell-counts")
    step = _focused(mechanism, times, "sum_scale", "residual-sums")
    found = [
        _part("tree", test, _tables(test, end, test.threshold // test.unit.shares, end, start)),
        _part("counts", counts, _tables(counts, middle, _FEW, end, start)),
        _part("step", step, _tables(step, middle, _SOME, end, middle)),
    ]
    if mechanism.mean_scale is not None:
        means = _focused(mechanism, times, "mean_scale", "cell-places")
        found.append(_part("places", means, _tables(means, end, _FEW, end, start)))
    return tuple(found)


def _part(name: str, focused: Synopsis, tables: tuple[Integers, Integers]) -> AuditPart:
    look = {"tree": _seen_of_tree, "step": _seen_of_step}.get(name, _seen_of_cells)
    schedule = focused.lloyd_schedule if name == "step" else focused.schedule
    return AuditPart(name, focused, *tables, schedule, partial(look, focused))


def _tables(
    mechanism: Synopsis, common: Integers, n_common: int, one: Integers, other: Integers
) -> tuple[Integers, Integers]:
    """Return neighbours: common records and one more, which differs or is missing."""
    rest = np.tile(common, (n_common, 1))
    first = np.concatenate([rest, one[np.newaxis]]).astype(np.int32)
    if mechanism.neighbours is Neighbours.ADD_REMOVE:
        return first, rest.astype(np.int32)
    return first, np.concatenate([rest, other[np.newaxis]]).astype(np.int32)


# -- all of eps on one part ------------------------------------------------------------------------


def _focused(mechanism: Synopsis, times: float, scale: str, part: str) -> Synopsis:
    """Return the mechanism with as little noise in one part as if it were the only one.

    The public first grid is so fine that a few records in different places are in different cells.
    """
    step = next(step for step in mechanism.steps() if step.name == part)
    if step.rho is not None:  # Gaussian noise keeps its own budget, but for a single step
        share = step.times**-0.5
    else:
        share = float(step.eps or 0) / float(mechanism.cost()) / times
    changed = {scale: getattr(mechanism, scale) * share}
    return _others_silent(mechanism, n_clusters=1, n_steps=1, first_cell=1, least_cell=1, **changed)


def _focused_tree(mechanism: Synopsis, times: float) -> Synopsis:
    test = calibrate_test(
        mechanism.cost() * Decimal(times),
        decay=mechanism.decay / mechanism.tree_scale,
        floor=mechanism.floor / mechanism.tree_scale,
        levels=mechanism.levels,
        neighbours=mechanism.neighbours,
        unit=mechanism.unit,
    )
    return _others_silent(
        mechanism,
        tree_scale=test.scale,
        decay=test.decay,
        floor=test.floor,
        most_threshold=None,
        first_cell=_ALL_RECORDS,
        least_cell=_ALL_RECORDS,
    )


def _others_silent(mechanism: Synopsis, **changes: float | None) -> Synopsis:
    silent: dict[str, float | None] = {
        "fewest": None,
        "tree_scale": mechanism.tree_scale,
        "count_scale": _NEXT_TO_NOTHING,
        "norm_scale": _NEXT_TO_NOTHING,
        "sum_scale": _NEXT_TO_NOTHING,
    }
    for name in ("mean_scale", "core_scale", "reach_scale"):
        if getattr(mechanism, name) is not None:
            silent[name] = _NEXT_TO_NOTHING
    return replace(mechanism, **{**silent, **changes})  # type: ignore[arg-type]


# -- what is looked at -----------------------------------------------------------------------------


def _seen_of_tree(mechanism: Synopsis, ask: Ask) -> list[float]:
    cells = mechanism.private_cells(ask)
    start, end = _corners(mechanism, cells)
    ends = [float(_leaf_of(cells, corner)[1]) for corner in (start, end)]
    return [*ends, float(len(cells.counts))]


def _seen_of_cells(mechanism: Synopsis, ask: Ask) -> list[float]:
    cells = mechanism.private_cells(ask)
    seen = []
    for corner in _corners(mechanism, cells):
        leaf, depth = _leaf_of(cells, corner)
        seen += [float(depth), float(cells.counts[leaf])]
        if cells.offsets is not None:
            seen.append(float(cells.offsets[leaf].sum()))
    return seen


def _seen_of_step(mechanism: Synopsis, ask: Ask) -> list[float]:
    before = refine.Estimate(
        mechanism.grid.middle[np.newaxis],
        np.asarray([float(_SOME * mechanism.unit.shares)]),
        np.asarray([1.0]),
        np.asarray([float(mechanism.grid.diam2_squared)]),
    )
    after = mechanism.lloyd_step(ask, Clusters(before.centers, mechanism.grid), before)
    moved = (after.centers - before.centers)[0]
    return [*map(float, moved), float(np.abs(moved).sum()), float(moved.sum())]


def _corners(mechanism: Synopsis, cells: PrivateCells) -> Integers:
    """Return where the two ends of the domain are among the cells."""
    return cells.space.apply(np.stack(farthest_pair(mechanism.grid)))


def _leaf_of(cells: PrivateCells, place: Integers) -> tuple[int, int]:
    """Return the number of the leaf that holds a place, and how deep it is."""
    tree, cell, depth = cells.tree, 0, 0
    while tree.children[cell] >= 0:
        cell = int(tree.children[cell])
        if (place > tree.upper[cell]).any() or (place < tree.lower[cell]).any():
            cell += 1
        depth += 1
    return int((tree.children[:cell] < 0).sum()), depth
