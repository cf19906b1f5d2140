"""Keys: the path that every row takes through the public cells, as one number.

A cell is halved along its widest side, whatever the records are, so the whole path of a row is a
function of the row and of public facts: bit by bit, first half or second. A cell that is so many
levels deep holds the rows whose keys begin with its own path. So rows are looked at once, their
keys are sorted, and the rows of any cell are counted by two searches.

Where every side is a power of two of points, and no column has categories, all cells of a level
have the same shape. Then a key is made of the coordinates' own bits, which small tables put in
their places. Elsewhere rows descend side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpkv.kernels import compiled
from dpkv.records.questions.projection import PublicMap
from dpkv.simplices import Groups
from dpkv.types import Integers

_BYTE = 256
_COLUMN_BITS = 6
_LAST_COLUMN = (1 << _COLUMN_BITS) - 1


@dataclass(frozen=True, eq=False)
class KeyPlan:
    """How keys of so many bits are made in a space. ``tables`` is empty where rows descend."""

    depth: int
    lowest: Integers
    highest: Integers
    axes: NDArray[np.int64]
    """Of every table: the column whose bits it puts in their places, ..."""
    shifts: NDArray[np.int64]
    """... and how many bits below its eight are left out."""
    tables: NDArray[np.int64]
    groups: NDArray[np.int64]
    """Of every column: the first of its group and the one after its last; both 0 without one."""

    @property
    def arrays(self) -> tuple[NDArray[np.int64], ...]:
        """What the compiled loop takes."""
        return self.lowest, self.highest, self.axes, self.shifts, self.tables, self.groups


def plan_keys(space: PublicMap, depth: int) -> KeyPlan:
    """Return how to make keys of ``depth`` bits."""
    return _plan(space.lowest.tobytes(), space.highest.tobytes(), space.groups, depth)


@lru_cache(maxsize=16)
def _plan(lowest: bytes, highest: bytes, groups: Groups, depth: int) -> KeyPlan:
    low, high = (np.frombuffer(side, np.int64) for side in (lowest, highest))
    sides = [int(points) for points in high - low + 1]
    nothing = np.empty(0, np.int64)
    grouped = np.zeros((len(sides), 2), np.int64)
    for start, stop in groups:
        grouped[start:stop] = start, stop
    if groups or any(points & (points - 1) for points in sides):
        return KeyPlan(depth, low, high, nothing, nothing, nothing.reshape(0, _BYTE), grouped)
    axes, shifts, tables = [], [], []
    for axis, places in enumerate(_places([n.bit_length() - 1 for n in sides], depth)):
        for shift in range(0, len(places), 8):
            table = _table(places[shift : shift + 8])
            if table.any():
                axes.append(axis)
                shifts.append(shift)
                tables.append(table)
    stacked = np.stack(tables) if tables else np.zeros((1, _BYTE), np.int64)
    if not tables:  # a single point: all keys are 0
        axes, shifts = [0], [0]
    return KeyPlan(depth, low, high, np.asarray(axes), np.asarray(shifts), stacked, grouped)


def _places(bits: list[int], depth: int) -> list[list[int | None]]:
    """Return, for the bits of every column from the lowest, their places in a key."""
    left = list(bits)
    found: list[list[int | None]] = [[None] * n for n in bits]
    for level in range(min(depth, sum(bits))):
        axis = max(range(len(left)), key=left.__getitem__)  # the widest side, the first of equals
        left[axis] -= 1
        found[axis][left[axis]] = depth - 1 - level
    return found


def _table(places: list[int | None]) -> NDArray[np.int64]:
    """Return what eight bits or fewer add to a key, for every value of them."""
    values, table = np.arange(_BYTE), np.zeros(_BYTE, np.int64)
    for bit, place in enumerate(places):
        if place is not None:
            table |= ((values >> bit) & 1) << place
    return table


@compiled
def fill_keys(points, lowest, highest, axes, shifts, tables, groups, depth, keys, start, stop):  # type: ignore[no-untyped-def]
    """Make the keys of rows start..stop, the first of them at keys[0]."""
    if len(tables):
        _combine(points, lowest, axes, shifts, tables, keys, start, stop)
    else:
        _descend(points, lowest, highest, groups, depth, keys, start, stop)


@compiled
def _combine(points, lowest, axes, shifts, tables, keys, start, stop):  # type: ignore[no-untyped-def]
    for i in range(start, stop):
        key = np.int64(0)
        for t in range(len(axes)):
            axis = axes[t]
            offset = np.int64(points[i, axis]) - lowest[axis]
            key |= tables[t, (offset >> shifts[t]) & 255]
        keys[i - start] = key


@compiled
def _descend(points, lowest, highest, groups, depth, keys, start, stop):  # type: ignore[no-untyped-def]
    """Follow every row down. ``ranked`` has the width of a side, and at the end of it the column.

    So the largest is the widest side, the first of equals, and the search for it has no branches.
    """
    dimensions = len(lowest)
    lower, ranked = np.empty(dimensions, np.int64), np.empty(dimensions, np.int64)
    whole = np.empty(dimensions, np.int64)
    for j in range(dimensions):
        whole[j] = ((highest[j] - lowest[j]) << _COLUMN_BITS) | (_LAST_COLUMN - j)
    for i in range(start, stop):
        lower[:] = lowest
        ranked[:] = whole
        key = np.int64(0)
        for level in range(depth):
            largest = ranked[0]
            for j in range(1, dimensions):
                largest = max(largest, ranked[j])
            width = largest >> _COLUMN_BITS
            if width == 0:
                key <<= depth - level
                break
            rank = largest & _LAST_COLUMN
            axis = _LAST_COLUMN - rank
            cut = lower[axis] + (width >> 1)
            above = np.int64(points[i, axis] > cut)
            key = (key << 1) | above
            lower[axis] += above * ((width >> 1) + 1)
            ranked[axis] = (((width - above) >> 1) << _COLUMN_BITS) | rank
            if groups[axis, 1] > 0:
                _decide(ranked, groups[axis, 0], groups[axis, 1], axis, above)
        keys[i - start] = key


@compiled
def _decide(ranked, start, stop, axis, above):  # type: ignore[no-untyped-def]
    """Leave no width where the categories of a column are decided, as ``Level.halved`` does."""
    ranked[axis] &= _LAST_COLUMN
    n_open = 0
    for j in range(start, stop):
        n_open += ranked[j] > _LAST_COLUMN
    if above or n_open == 1:
        for j in range(start, stop):
            ranked[j] &= _LAST_COLUMN


@compiled
def all_keys(  # type: ignore[no-untyped-def]
    points, lowest, highest, axes, shifts, tables, groups, depth, keys, n_parts, first, last
):
    """Make the keys of all rows, cut into parts."""
    n_rows = len(points)
    for part in range(first, last):
        start, stop = n_rows * part // n_parts, n_rows * (part + 1) // n_parts
        own = keys[start:stop]
        fill_keys(points, lowest, highest, axes, shifts, tables, groups, depth, own, start, stop)
