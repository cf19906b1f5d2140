"""Private cells, and the weighted points that stand for them: all of it post-processing.

Noisy counts are noisy: most empty leaves do not look empty. So mass is handed down the tree. A
subtree whose noisy total stands out of its noise keeps its records apart; one that does not gives
its mass to its sibling; and where neither child stands out, the cell stays whole. A kept cell is
one weighted point, the mean of its leaves' own points by their noisy counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpkv.kernels import compiled
from dpkv.records.questions import PLACE_UNIT, PublicMap, Tree
from dpkv.records.questions.tree import LEAF
from dpkv.types import Float64s, Integers

_PRIOR_PLACE = 0.25  # variance of a leaf's mean about its middle, in half sides squared
_CRUMB = 1e-6


@dataclass(frozen=True, eq=False)
class PrivateCells:
    """Cells with noisy counts, and maybe noisy places of the records in them: a private summary."""

    space: PublicMap
    tree: Tree
    counts: Integers
    """Of the leaves, in order; may be negative."""
    offsets: Integers | None
    """Of the leaves: the noisy sum of places, ``PLACE_UNIT`` being half a side."""
    count_scale: float
    offset_scale: float

    @property
    def total(self) -> float:
        """About how many records there are."""
        return max(1.0, float(self.counts.sum()))


@dataclass(frozen=True, eq=False)
class WeightedPoints:
    """What is clustered: points in mapped coordinates, the records they stand for, their spread."""

    points: Float64s
    weights: Float64s
    spread: Float64s
    """Squared distance at which a point may be off the mean of its records."""


def weighted_points(cells: PrivateCells, n_clusters: int) -> WeightedPoints:
    """Return one weighted point a cell that stands out, and at least k of them."""
    tree, leaves = cells.tree, cells.tree.leaves
    raw = np.zeros(len(tree.children))
    raw[leaves] = cells.counts
    kept, mass = _kept_cells(tree.children, raw, cells.count_scale)
    home = _homes(tree.children, kept)[leaves]
    places, spread = leaf_points(cells)
    inside = home >= 0
    shares = np.maximum(cells.counts[inside], 0.0) + _CRUMB
    numbers = np.flatnonzero(kept)
    points = _means(places[inside], shares, home[inside], len(raw))[numbers]
    sides = (tree.upper[numbers] - tree.lower[numbers]).astype(np.float64)
    whole = (sides * sides).sum(axis=1) / 12.0
    own = np.zeros(len(raw))
    own[leaves] = spread
    alone = tree.children[numbers] == LEAF
    found = WeightedPoints(points, mass[numbers], np.where(alone, own[numbers], whole))
    return _padded(found, cells.space, n_clusters)


def leaf_points(cells: PrivateCells) -> tuple[Float64s, Float64s]:
    """Return where a leaf's records are on average, and the squared error of that."""
    leaves, tree = cells.tree.leaves, cells.tree
    half = (tree.upper[leaves] - tree.lower[leaves]) / 2.0
    middle = (tree.upper[leaves] + tree.lower[leaves]) / 2.0
    if cells.offsets is None:
        return middle, (half * half).sum(axis=1) / 3.0
    least = math.sqrt(2.0) * cells.count_scale
    counts = np.maximum(cells.counts, least)[:, np.newaxis]
    noise = 2.0 * (cells.offset_scale / PLACE_UNIT / counts) ** 2
    trust = _PRIOR_PLACE / (_PRIOR_PLACE + noise)
    place = np.clip(trust * cells.offsets / PLACE_UNIT / counts, -1.0, 1.0)
    return middle + half * place, (half * half * trust * noise).sum(axis=1)


def _means(points: Float64s, shares: Float64s, home: Integers, n_cells: int) -> Float64s:
    """Return the weighted mean of every home's points."""
    total = np.maximum(np.bincount(home, shares, n_cells), _CRUMB)
    columns = [np.bincount(home, shares * column, n_cells) for column in points.T]
    return np.asarray(np.stack(columns, axis=1) / total[:, np.newaxis])


def _padded(found: WeightedPoints, space: PublicMap, n_clusters: int) -> WeightedPoints:
    """Fill up with points of next to no weight, spread over the space, where there are below k."""
    missing = n_clusters - len(np.unique(found.points, axis=0))
    if missing <= 0:
        return found
    from scipy.stats import qmc  # noqa: PLC0415 (slow to import)

    uniform = qmc.Halton(space.n_dimensions, scramble=False).random(missing + 1)[1:]
    extra = space.lowest + uniform * (space.highest - space.lowest)
    sides = (space.highest - space.lowest).astype(np.float64)
    return WeightedPoints(
        np.concatenate([found.points, extra]),
        np.append(found.weights, np.full(missing, _CRUMB)),
        np.append(found.spread, np.full(missing, (sides * sides).sum() / 12.0)),
    )


@compiled
def _totals(children, raw, scale):  # type: ignore[no-untyped-def]
    """Return every subtree's noisy total, its leaves, and whether it stands out of its noise."""
    n_cells = len(children)
    totals, leaves = np.zeros(n_cells), np.zeros(n_cells)
    seen = np.zeros(n_cells, np.bool_)
    lead = math.log((n_cells + 1) / 2.0 + 1.0) + 1.0  # above the largest of so many noises
    for cell in range(n_cells - 1, -1, -1):
        child = children[cell]
        if child < 0:
            totals[cell], leaves[cell] = raw[cell], 1.0
            seen[cell] = raw[cell] >= scale * lead
        else:
            totals[cell] = totals[child] + totals[child + 1]
            leaves[cell] = leaves[child] + leaves[child + 1]
            due = scale * max(lead, 2.0 * math.sqrt(leaves[cell] * lead))
            seen[cell] = seen[child] or seen[child + 1] or totals[cell] >= due
    return totals, leaves, seen


@compiled
def _kept_cells(children, raw, scale):  # type: ignore[no-untyped-def]
    """Hand the mass down from the top; return which cells keep theirs, and the mass."""
    totals, leaves, seen = _totals(children, raw, scale)
    n_cells = len(children)
    mass, kept = np.full(n_cells, -1.0), np.zeros(n_cells, np.bool_)
    mass[0] = max(totals[0], 1.0)
    for cell in range(n_cells):
        child = children[cell]
        if mass[cell] <= 0.0:
            continue
        if child < 0 or not (seen[child] or seen[child + 1]):
            kept[cell] = True
        elif seen[child] and seen[child + 1]:
            surplus = mass[cell] - totals[child] - totals[child + 1]
            first = totals[child] + surplus * leaves[child] / leaves[cell]
            if mass[cell] > scale:
                first = min(max(first, 0.5 * scale), mass[cell] - 0.5 * scale)
            else:
                first = 0.5 * mass[cell]
            mass[child], mass[child + 1] = first, mass[cell] - first
        elif seen[child]:
            mass[child] = mass[cell]
        else:
            mass[child + 1] = mass[cell]
    return kept, mass


@compiled
def _homes(children, kept):  # type: ignore[no-untyped-def]
    """Return the kept cell that every cell lies in, or -1."""
    home = np.full(len(children), -1)
    for cell in range(len(children)):
        if kept[cell]:
            home[cell] = cell
        if children[cell] >= 0 and home[cell] >= 0:
            home[children[cell]] = home[children[cell] + 1] = home[cell]
    return home
