"""The core of the bounds: the part of the space that cells are made in, where bounds are loose.

Cells halve the widest side again and again. Where the records fill a small part of wide bounds, the
first halvings separate nothing, and in many columns there are none left afterwards. So two noisy
questions come first (``records/questions/core.py`` has the proof), and the rest is post-processing:

1. of every column, the window that explains its noisy bins best as so many records, spread evenly
   within and none outside; the whole column where none does so clearly;
2. the least stretch of the box of all windows that leaves out hardly any record.

Nothing is shrunk where the noise could hide more than a few records outside. Records outside the
core count with the cells at its border, and Lloyd steps see them where they are.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np

from dpkv.grid import Grid
from dpkv.records.questions import (
    CORE_BINS,
    CORE_PARTS,
    CORE_STRETCHES,
    Ask,
    CoreColumns,
    CoreReach,
    PublicMap,
)
from dpkv.simplices import ProductGrid
from dpkv.types import Integers

_CLEARLY = 2.0  # nats by which a window must be likelier than no records at all
_OUTSIDE = 0.01  # of the records: so many may be outside, or as many as noise would make
_FEW_COLUMNS, _MUCH = 3, 0.25  # of every side on average: with less, cells gain much
_NOISY = 0.02  # of the records: noise of more of them takes a longer stretch than was seen
_FALSE, _PLACES = 0.1, 4.0  # how often noise may widen a table; about as many places per bin
_HIDDEN, _MOST_HIDDEN = 1.5, 0.07  # standard deviations; of the records: more would be too many
_WORTH = 0.7  # of a side: where more of it is left the whole side stays


def find_core(
    ask: Ask, space: PublicMap, n_records: float, columns_scale: float, reach_scale: float
) -> PublicMap:
    """Return the space within which cells are made."""
    noisy = ask(CoreColumns(space, columns_scale))
    windows = [find_window(column, n_records, columns_scale, len(noisy)) for column in noisy]
    lower, upper = _sides(space, windows)
    histogram = ask(CoreReach(space, lower, upper, reach_scale))
    stretch = least_stretch(histogram, n_records, reach_scale)
    if space.n_dimensions > _FEW_COLUMNS:
        sides = (upper - lower + 1) / (space.highest - space.lowest + 1)
        roughly = roughly_stretch(histogram, n_records, reach_scale)
        if roughly is not None and roughly * np.exp(np.log(sides).mean()) <= _MUCH:
            stretch = roughly
    if stretch is None:
        return space
    more = np.ceil((upper - lower + 1) * (stretch - 1.0) / 2.0).astype(np.int64)
    lower = np.maximum(lower - more, space.lowest)
    upper = np.maximum(np.minimum(upper + more, space.highest), lower)
    whole = upper - lower > _WORTH * (space.highest - space.lowest)
    if whole.all():
        return space
    return replace(
        space,
        is_core=True,
        lowest=np.where(whole, space.lowest, lower),
        highest=np.where(whole, space.highest, upper),
    )


def find_window(noisy: Integers, n_records: float, scale: float, n_columns: int) -> tuple[int, int]:
    """Return the first bin of a window and the one after its last.

    That n records lie evenly in w bins of a sum S is likelier than that none do by the factor whose
    logarithm is (n / w) (S - n / 2) over the variance of a bin's noise, if that were Gaussian. To
    the likeliest window come bins beside it whose sum stands out of its own noise, the clearest
    first.
    """
    sums = np.concatenate([[0], np.cumsum(noisy)]).astype(np.float64)
    starts, ends = np.triu_indices(len(sums), 1)
    inside, widths = sums[ends] - sums[starts], ends - starts
    gains = n_records / widths * (inside - n_records / 2.0)
    best = int(gains.argmax())
    if gains[best] < _CLEARLY * 2.0 * scale**2:
        return 0, len(noisy)
    low, high = int(starts[best]), int(ends[best])
    rare = math.log(_PLACES * len(noisy) * n_columns / _FALSE)
    noise = scale * np.sqrt(rare * (4.0 * widths + rare))  # Chernoff's bound, about
    while True:
        clearness = np.where((ends <= low) | (starts >= high), inside / noise, 0.0)
        clearest = int(clearness.argmax())
        if clearness[clearest] <= 1.0:
            return low, high
        low, high = min(low, int(starts[clearest])), max(high, int(ends[clearest]))


def least_stretch(histogram: Integers, n_records: float, scale: float) -> float | None:
    """Return how far to stretch a box; None where none clearly holds all but a few records.

    A small cluster far away is worth more than what is gained by fine cells.
    """
    beyond = np.cumsum(histogram[::-1])[::-1][1:]
    deviations = scale * np.sqrt(2.0 * np.arange(len(beyond), 0, -1))
    enough = np.flatnonzero(beyond + deviations <= _OUTSIDE * n_records)
    return CORE_STRETCHES[int(enough[0])] / CORE_PARTS if enough.size else None


def roughly_stretch(histogram: Integers, n_records: float, scale: float) -> float | None:
    """Return how far to stretch a box where noise may hide more records outside.

    In many columns cells of all of a wide domain are worth next to nothing.
    """
    if is_hidden(n_records, scale):
        return None
    beyond = np.cumsum(histogram[::-1])[::-1][1:]
    deviations = scale * np.sqrt(2.0 * np.arange(len(beyond), 0, -1))
    enough = np.flatnonzero(beyond <= np.maximum(_OUTSIDE * n_records, deviations))
    if not enough.size:
        return None
    found = int(enough[0])
    if deviations[found] > _NOISY * n_records:  # there may be more than were seen
        found = min(found + 1, len(CORE_STRETCHES) - 1)
    return CORE_STRETCHES[found] / CORE_PARTS


def may_find_core(grid: Grid, scale: float, n_records: int | None) -> bool:
    """Tell whether it is worth asking, by public facts alone; ``n_records`` where it is public.

    The cells of columns of categories are another matter: they follow the categories.
    """
    if isinstance(grid, ProductGrid) and grid.groups:
        return False
    return n_records is None or not is_hidden(n_records, scale)


def is_hidden(n_records: float, scale: float) -> bool:
    """Tell whether noise could hide too many records outside a box."""
    deviation = scale * math.sqrt(2.0 * len(CORE_STRETCHES))
    return _HIDDEN * deviation > _MOST_HIDDEN * n_records


def _sides(space: PublicMap, windows: list[tuple[int, int]]) -> tuple[Integers, Integers]:
    """Return the box of all windows, in whole coordinates."""
    starts, ends = np.asarray(windows).T
    width = space.highest - space.lowest + 1
    lower = space.lowest + -(-starts * width // CORE_BINS)
    upper = space.lowest + -(-ends * width // CORE_BINS) - 1
    return lower, np.maximum(upper, lower)


def share_of(core: PublicMap, space: PublicMap) -> Fraction:
    """Return the square of the core's diagonal, as a share of that of the space."""
    inner, outer = (
        sum(int(side) ** 2 for side in (one.highest - one.lowest).tolist()) for one in (core, space)
    )
    return Fraction(max(inner, 1), max(outer, 1))
