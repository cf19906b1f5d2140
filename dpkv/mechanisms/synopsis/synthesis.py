"""Synthetic rows from private cells: post-processing, so it spends nothing.

Every cell gets rows in proportion to the records that it is expected to hold, and they lie evenly
in it, around the place where its records are on average where that was asked for. Nothing finer
than the cells is known of the records, and nothing finer is made up.
"""

from __future__ import annotations

import numpy as np

from dpkv.mechanisms.synopsis.cells import PrivateCells, leaf_points
from dpkv.mechanisms.synopsis.masses import expected_masses
from dpkv.types import Float64s


def leaf_masses(cells: PrivateCells) -> Float64s:
    """Return how many records every leaf is expected to hold."""
    counts = np.zeros(len(cells.tree.children))
    counts[cells.tree.leaves] = cells.counts
    means = expected_masses(cells.tree.children, counts, cells.count_scale).means
    return np.maximum(means[cells.tree.leaves], 0.0)


def draw_rows(cells: PrivateCells, n_rows: int, rng: np.random.Generator) -> Float64s:
    """Return rows in mapped coordinates, in random order."""
    masses, tree, leaves = leaf_masses(cells), cells.tree, cells.tree.leaves
    if not masses.sum() > 0.0:
        masses = np.ones(len(leaves))
    own = np.repeat(np.arange(len(leaves)), rng.multinomial(n_rows, masses / masses.sum()))
    rng.shuffle(own)
    half = (tree.upper[leaves] - tree.lower[leaves]) / 2.0
    middle = leaf_points(cells, masses)[0]
    reach = half - np.abs(middle - (tree.upper[leaves] + tree.lower[leaves]) / 2.0)
    places = rng.uniform(-1.0, 1.0, (n_rows, half.shape[1]))
    return np.asarray(middle[own] + reach[own] * places)
