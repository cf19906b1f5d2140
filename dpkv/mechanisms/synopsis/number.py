"""How many clusters? Chosen from the private cells: post-processing, so it spends nothing.

The curve is the weighted potential of the cells' points for every number of clusters, from many
down to one: two clusters that cost least to join are joined (Ward), and a few of Lloyd's iterations
follow. Cells that hardly stand out of their own noise are left out first, so that noise far from
everything is no cluster.

The rule is the largest jump of the transformed curve (Sugar and James, 2003): of potential^-y, with
y = 1, or half the number of dimensions where that is less. Joining two clusters that lie apart
costs much, cutting one in two saves little, and the transformation makes the two comparable at all
levels.
"""

from __future__ import annotations

import math

import numpy as np

from dpkv.kernels import assign_nearest
from dpkv.mechanisms.synopsis.cells import PrivateCells, WeightedPoints, weighted_points
from dpkv.seeding.algorithm0 import kvariates
from dpkv.seeding.potentials import lloyd
from dpkv.types import Float64s

_UNRESOLVED, _PROJECTED = 0.3, 0.1  # of where points may be: what blurs the curve
_STARTS = 4
_BEYOND = 1.5  # times the most clusters: joining begins with so many
_ITERATIONS, _AFTER_JOINING = 30, 3


def standing_out(found: WeightedPoints, cells: PrivateCells) -> WeightedPoints:
    """Return the points that no noise on so many cells would make; all where none is."""
    least = cells.count_scale * (math.log(len(cells.counts) + 1.0) + 1.0)
    kept = found.weights >= least
    if not kept.any():
        return found
    rest = found.points[kept], found.weights[kept], found.spread[kept], found.doubt[kept]
    return WeightedPoints(*rest)


def potential_curve(cells: PrivateCells, most: int, rng: np.random.Generator) -> Float64s:
    """Return the potentials for 1 to ``most`` clusters, or as many as cells can tell apart.

    What cells cannot resolve is added to all of them alike, and blurs jumps that are no larger.
    """
    found = standing_out(weighted_points(cells, 1), cells)
    points, weights = found.points, found.weights
    begin = min(math.ceil(_BEYOND * most) + 1, len(np.unique(points, axis=0)))
    tries = [
        lloyd(
            points,
            kvariates(points, begin, sample_weight=weights, rng=rng).centers,
            sample_weight=weights,
            max_iterations=_ITERATIONS,
            tolerance=1e-4,
        )
        for _ in range(_STARTS)
    ]
    centers = np.asarray(min(tries, key=lambda tried: tried.potential).centers)
    curve = np.empty(begin)
    for number in range(begin, 0, -1):
        made = lloyd(points, centers, sample_weight=weights, max_iterations=_AFTER_JOINING)
        curve[number - 1] = made.potential
        if number > 1:
            labels = assign_nearest(points, np.asarray(made.centers))[0]
            mass = np.asarray(np.bincount(labels, weights, number), dtype=np.float64)
            centers = _joined(np.asarray(made.centers), mass)
    share = _UNRESOLVED if cells.space.matrix is None else _PROJECTED
    unresolved = share * float(weights @ found.spread)
    return np.asarray(np.minimum.accumulate(curve)[: min(most, begin)] + unresolved)


def _joined(centers: Float64s, mass: Float64s) -> Float64s:
    """Return one center less: the two that cost least to join become their mean."""
    squares = ((centers[:, np.newaxis, :] - centers) ** 2).sum(axis=2)
    sums = np.maximum(mass[:, np.newaxis] + mass, 1e-300)
    cost = squares * mass[:, np.newaxis] * mass / sums
    np.fill_diagonal(cost, np.inf)
    one, other = np.unravel_index(int(cost.argmin()), cost.shape)
    share = mass[one] / sums[one, other]
    mean = share * centers[one] + (1.0 - share) * centers[other]
    rest = np.delete(centers, [one, other], axis=0)
    return np.vstack([rest, mean])


def choose_number(curve: Float64s, n_dimensions: int, fewest: int) -> int:
    """Return the number of clusters, ``fewest`` at least, at which the curve jumps most."""
    if len(curve) <= fewest:
        return fewest
    power = min(1.0, n_dimensions / 2.0)
    least = max(float(curve[0]) * 1e-12, 1e-300)
    heights = np.append(0.0, np.maximum(curve, least) ** -power)
    jumps = np.diff(heights)[fewest - 1 :]
    return fewest + int(jumps.argmax())
