"""Private cells, and the weighted points that stand for them: all of it post-processing.

A leaf is one weighted point: the records that it is expected to hold (``masses.py``), where they
are on average. Subtrees of hardly any records are one point together, which is faster to cluster.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpkv.kernels import compiled
from dpkv.mechanisms.synopsis.masses import expected_masses
from dpkv.records.questions import PLACE_UNIT, PublicMap, Tree
from dpkv.records.questions.tree import LEAF
from dpkv.types import Float64s, Integers

_PRIOR_PLACE = 0.25  # variance of a leaf's mean about its middle, in half sides squared
_CRUMB = 1e-6
_HARDLY_ANY = 0.5  # scales of a count's noise: below that a subtree is one point, ...
_POINTS, _POINTS_A_CLUSTER = 1024, 64  # ... and below one of so many parts of all records


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
    doubt: Float64s
    """Variance of the weights."""


def weighted_points(cells: PrivateCells, n_clusters: int) -> WeightedPoints:
    """Return weighted points: leaves, and subtrees of hardly any records; at least k of them."""
    tree, leaves = cells.tree, cells.tree.leaves
    counts = np.zeros(len(tree.children))
    counts[leaves] = cells.counts
    masses = expected_masses(tree.children, counts, cells.count_scale)
    fine_enough = masses.means[0] / max(_POINTS, _POINTS_A_CLUSTER * n_clusters)
    least = max(_HARDLY_ANY * cells.count_scale, fine_enough)
    kept = _kept_cells(tree.children, masses.means, least)
    numbers, home = np.flatnonzero(kept), _homes(tree.children, kept)[leaves]
    places, spread = leaf_points(cells, masses.means[leaves])
    points = _means(places, masses.means[leaves] + _CRUMB, home, len(counts))[numbers]
    sides = (tree.upper[numbers] - tree.lower[numbers]).astype(np.float64)
    whole = (sides * sides).sum(axis=1) / 12.0
    own = np.zeros(len(counts))
    own[leaves] = spread
    found = WeightedPoints(
        points,
        masses.means[numbers] + _CRUMB,
        np.where(tree.children[numbers] == LEAF, own[numbers], whole),
        masses.variances[numbers],
    )
    return _padded(found, cells.space, n_clusters)


def leaf_points(cells: PrivateCells, masses: Float64s | None = None) -> tuple[Float64s, Float64s]:
    """Return where a leaf's records are on average, and the squared error of that.

    ``masses`` are how many they are thought to be; the noisy counts where that is left out.
    """
    counts = cells.counts if masses is None else masses
    leaves, tree = cells.tree.leaves, cells.tree
    half = (tree.upper[leaves] - tree.lower[leaves]) / 2.0
    middle = (tree.upper[leaves] + tree.lower[leaves]) / 2.0
    if cells.offsets is None:
        return middle, (half * half).sum(axis=1) / 3.0
    least = math.sqrt(2.0) * cells.count_scale
    counts = np.maximum(counts, least)[:, np.newaxis]
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
        np.append(found.doubt, np.zeros(missing)),
    )


@compiled
def _kept_cells(children, means, least):  # type: ignore[no-untyped-def]
    """Return the cells that become points: leaves, and whole subtrees of next to no records."""
    kept, inside = np.zeros(len(children), np.bool_), np.zeros(len(children), np.bool_)
    for cell in range(len(children)):
        child = children[cell]
        kept[cell] = not inside[cell] and (child < 0 or means[cell] < least)
        if child >= 0:
            inside[child] = inside[child + 1] = inside[cell] or kept[cell]
    return kept


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
