"""Compiled loops of a grid summary: a hash table of cells, each with the moments of its records."""

from __future__ import annotations

import numpy as np

from dpkv import kernels
from dpkv.types import Float64s, Indices

FARTHEST = 2.0**62
"""Cells from the origin beyond which a cell's number leaves int64."""


class Cells:
    """At most ``capacity`` cells: their numbers, and count, mean and spread of their records."""

    def __init__(self, capacity: int, n_features: int) -> None:
        self.keys = np.empty((capacity, n_features), np.int64)
        self.masses = np.empty(capacity)
        self.means = np.empty((capacity, n_features))
        self.spreads = np.empty(capacity)
        self.slots = np.full(1 << (2 * capacity).bit_length(), -1, np.int64)
        self.count = 0

    @property
    def arrays(self) -> tuple[Indices, Float64s, Float64s, Float64s, Indices]:
        """What the loops write to."""
        return self.keys, self.masses, self.means, self.spreads, self.slots


@kernels.compiled
def _slot_of(key, keys, slots):  # type: ignore[no-untyped-def]
    """Return the slot of the table that holds the cell, or the empty one where it belongs."""
    mixed = np.uint64(1469598103934665603)
    for j in range(len(key)):
        mixed = (mixed ^ np.uint64(key[j])) * np.uint64(1099511628211)
        mixed ^= mixed >> np.uint64(29)
    slot = np.int64(mixed & np.uint64(len(slots) - 1))
    while slots[slot] >= 0:
        cell = slots[slot]
        same = True
        for j in range(len(key)):
            if keys[cell, j] != key[j]:
                same = False
                break
        if same:
            return slot
        slot = (slot + 1) & (len(slots) - 1)
    return slot


@kernels.compiled
def _pool(cell, mass, mean, spread, masses, means, spreads):  # type: ignore[no-untyped-def]
    """Add records of which count, mean and spread about the mean are known (Chan's update)."""
    total = masses[cell] + mass
    gap = 0.0
    for j in range(len(mean)):
        difference = mean[j] - means[cell, j]
        gap += difference * difference
        means[cell, j] += difference * (mass / total)
    spreads[cell] += spread + gap * (masses[cell] * mass / total)
    masses[cell] = total


@kernels.compiled
def fill(  # type: ignore[no-untyped-def]
    records, start, origin, width, capacity, keys, masses, means, spreads, slots, count
):
    """Put records from ``start`` on into their cells.

    Stops before a record that needs one cell too many, or a cell too far to have a number. Returns
    the next record and the count.
    """
    key = np.empty(records.shape[1], np.int64)
    for i in range(start, len(records)):
        for j in range(records.shape[1]):
            position = np.floor((records[i, j] - origin[j]) / width[j])
            if not abs(position) < FARTHEST:
                return i, count
            key[j] = np.int64(position)
        slot = _slot_of(key, keys, slots)
        cell = slots[slot]
        if cell >= 0:
            _pool(cell, 1.0, records[i], 0.0, masses, means, spreads)
            continue
        if count == capacity:
            return i, count
        slots[slot] = count
        keys[count], means[count] = key, records[i]
        masses[count], spreads[count] = 1.0, 0.0
        count += 1
    return len(records), count


@kernels.compiled
def coarsen(  # type: ignore[no-untyped-def]
    column, bit, keys, masses, means, spreads, slots, count
):
    """Join the cells of a column two by two, those 2i - bit and 2i + 1 - bit; return the count."""
    slots[:] = -1
    kept = 0
    for i in range(count):
        keys[i, column] = (keys[i, column] + bit) >> 1
        slot = _slot_of(keys[i], keys, slots)
        cell = slots[slot]
        if cell >= 0:
            _pool(cell, masses[i], means[i], spreads[i], masses, means, spreads)
            continue
        slots[slot] = kept
        keys[kept], means[kept] = keys[i], means[i]
        masses[kept], spreads[kept] = masses[i], spreads[i]
        kept += 1
    return kept
