"""How private cells spread over one or two coordinates: post-processing, so it spends nothing.

A cell's records are taken to lie evenly in it, around the place where they are on average where
that was asked for, as synthetic rows are (``synthesis.py``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpkv.mechanisms.synopsis.cells import PrivateCells, leaf_points
from dpkv.mechanisms.synopsis.synthesis import draw_rows, leaf_masses
from dpkv.types import Float64s

_DRAWN = 60_000  # rows, where cells lie across the coordinates
_LEAST_REACH = 0.5  # grid steps


def marginal(cells: PrivateCells, axes: Sequence[int], edges: Sequence[Float64s]) -> Float64s:
    """Return about how many records lie between the edges of one coordinate, or of two.

    Coordinates are the grid's. Cells of a public projection lie across them: there rows are drawn.
    """
    if cells.space.matrix is not None:
        rows = cells.space.lift(draw_rows(cells, _DRAWN, np.random.default_rng(0)))
        found = np.histogramdd(rows[:, list(axes)], [np.asarray(one) for one in edges])[0]
        return np.asarray(found * (leaf_masses(cells).sum() / _DRAWN))
    masses, leaves = leaf_masses(cells), cells.tree.leaves
    lower, upper = cells.tree.lower[leaves], cells.tree.upper[leaves]
    middle = leaf_points(cells, masses)[0]
    reach = np.maximum((upper - lower) / 2.0 - np.abs(middle - (upper + lower) / 2.0), _LEAST_REACH)
    shares = [
        _between(middle[:, axis] - reach[:, axis], middle[:, axis] + reach[:, axis], own)
        for axis, own in zip(axes, edges, strict=True)
    ]
    first = shares[0] * masses[:, np.newaxis]
    return np.asarray(first.sum(axis=0) if len(shares) == 1 else first.T @ shares[1])


def _between(low: Float64s, high: Float64s, edges: Float64s) -> Float64s:
    """Return which share of every interval lies between which edges."""
    reached = np.clip(edges[np.newaxis], low[:, np.newaxis], high[:, np.newaxis])
    reached[:, 0], reached[:, -1] = low, high  # all of it lies within the outermost edges
    return np.asarray(np.diff(reached, axis=1) / (high - low)[:, np.newaxis])
