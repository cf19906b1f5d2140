"""Extreme points of a domain's grid: where one record shows most."""

from __future__ import annotations

from itertools import product

import numpy as np

from dpkv.grid import Grid, L1BallGrid
from dpkv.simplices import ProductGrid
from dpkv.types import Int64s

_MOST_CORNERS = 6  # columns; beyond it only some of the 2^d corners are tried


def domain_corners(grid: Grid) -> Int64s:
    """Return extreme points of the domain; all of them for few columns, else some."""
    d = grid.n_features
    if isinstance(grid, L1BallGrid):
        axes = np.eye(d, dtype=np.int64) * grid.reach
        return np.concatenate([axes, -axes])
    if d <= _MOST_CORNERS:
        cube = np.asarray(list(product((0.0, 1.0), repeat=d)))
    else:
        cube = np.concatenate([np.zeros((1, d)), np.ones((1, d)), np.eye(d), 1.0 - np.eye(d)])
    if isinstance(grid, ProductGrid):
        ends = np.stack(grid.box)
        return np.unique(grid.corners(np.concatenate([ends, grid.spread(cube)])), axis=0)
    return grid.spread(cube)


def farthest_pair(grid: Grid) -> tuple[Int64s, Int64s]:
    """Return two extreme points that are as far apart as the domain allows, in L1 and then L2."""
    corners = domain_corners(grid)
    gaps = (corners[:, None, :] - corners[None, :, :]).astype(np.float64)
    lengths = np.abs(gaps).sum(axis=2), np.sqrt((gaps * gaps).sum(axis=2))
    start, end = np.unravel_index(int((lengths[0] + 1e-6 * lengths[1]).argmax()), lengths[0].shape)
    return corners[start], corners[end]
