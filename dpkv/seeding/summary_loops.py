"""Compiled loops of a one-pass summary: which point carries a record, and what it carries.

A point s that carries the records B keeps their number, their drift, the sum of (a - s) over B,
and their spread, the sum of ||a - s||^2. These three say exactly what the spread becomes when B
moves to another point s': with v = s - s',

    sum ||a - s'||^2 = spread + 2 v . drift + |B| ||v||^2,    sum (a - s') = drift + |B| v.

So the spread of the final assignment is known after one pass, however often records moved, and no
record is kept. Distances to the points that stood before a block of records come from
``kernels.assign_nearest``, on all cores; these loops add what changed inside the block.
"""

from __future__ import annotations

import numpy as np

from dpkv import kernels
from dpkv.types import Float64s


class Carriers:
    """The points of a summary and what each carries; room for ``capacity`` of them."""

    def __init__(self, capacity: int, n_features: int) -> None:
        self.places = np.empty((capacity, n_features))
        self.masses = np.empty(capacity)
        self.drifts = np.empty((capacity, n_features))
        self.spreads = np.empty(capacity)
        self.count = 0

    @property
    def arrays(self) -> tuple[Float64s, Float64s, Float64s, Float64s]:
        """What the loops write to."""
        return self.places, self.masses, self.drifts, self.spreads

    @property
    def points(self) -> Float64s:
        """Where the points are."""
        return self.places[: self.count]

    def grow(self, capacity: int) -> None:
        """Make room for more."""
        for name in ("places", "masses", "drifts", "spreads"):
            old = getattr(self, name)
            new = np.empty((capacity, *old.shape[1:]))
            new[: self.count] = old[: self.count]
            setattr(self, name, new)

    def nearest(self, records: Float64s) -> tuple[np.ndarray, Float64s]:
        """Return the nearest point of each record and its squared distance."""
        if not self.count:
            return np.full(len(records), -1, np.int32), np.full(len(records), np.inf)
        labels, distances, _ = kernels.assign_nearest(records, self.points)
        return labels, distances.astype(np.float64, copy=False)


@kernels.compiled
def _squared_distance(a, b):  # type: ignore[no-untyped-def]
    total = 0.0
    for j in range(len(a)):
        total += (a[j] - b[j]) * (a[j] - b[j])
    return total


@kernels.compiled
def _open(i, record, places, masses, drifts, spreads):  # type: ignore[no-untyped-def]
    """Put a new point at a record, which it carries."""
    places[i] = record
    masses[i] = 1.0
    drifts[i] = 0.0
    spreads[i] = 0.0


@kernels.compiled
def _join(i, record, distance, places, masses, drifts, spreads):  # type: ignore[no-untyped-def]
    """Let point i carry one more record."""
    masses[i] += 1.0
    spreads[i] += distance
    for j in range(len(record)):
        drifts[i, j] += record[j] - places[i, j]


@kernels.compiled
def _receive(  # type: ignore[no-untyped-def]
    i, place, mass, drift, spread, places, masses, drifts, spreads
):
    """Let point i carry all that a point at ``place`` carried."""
    gained = spread
    for j in range(len(place)):
        v = place[j] - places[i, j]
        gained += 2.0 * v * drift[j] + mass * v * v
        drifts[i, j] += drift[j] + mass * v
    spreads[i] += max(gained, 0.0)  # rounding may leave a negative crumb
    masses[i] += mass


@kernels.compiled
def _scan(point, places, first, last, skipped):  # type: ignore[no-untyped-def]
    """Return the first of the points first..last nearest to a point, and how far it is."""
    best, least = -1, np.inf
    for c in range(first, last):
        if c != skipped:
            distance = _squared_distance(point, places[c])
            if distance < least:
                best, least = c, distance
    return best, least


@kernels.compiled
def serve(  # type: ignore[no-untyped-def]
    records, start, labels, distances, n_known, uniforms, cost, limit, stop_at,
    places, masses, drifts, spreads, count,
):  # fmt: skip
    """Serve records from ``start`` on: each opens a point with chance min(1, D^2 / cost).

    ``labels`` and ``distances`` know the first ``n_known`` points. Stops before a record that
    would open more than ``limit``, and after the one that opens number ``stop_at``. Returns the
    next record and the count.
    """
    for i in range(start, len(records)):
        best, distance = labels[i], distances[i]
        newer, closer = _scan(records[i], places, n_known, count, -1)
        if closer < distance:
            best, distance = newer, closer
        if distance > 0.0 and uniforms[i] * cost < distance:
            if count == limit:
                return i, count
            _open(count, records[i], places, masses, drifts, spreads)
            count += 1
            if count == stop_at:
                return i + 1, count
        else:
            _join(best, records[i], distance, places, masses, drifts, spreads)
    return len(records), count


@kernels.compiled
def consolidate(  # type: ignore[no-untyped-def]
    uniforms, cost, places, masses, drifts, spreads, count
):
    """Serve the points themselves, each counting as much as it carries; return how many stay."""
    kept = 0
    for i in range(count):
        best, distance = _scan(places[i], places, 0, kept, -1)
        if kept == 0 or uniforms[i] * cost < masses[i] * distance:
            places[kept] = places[i]
            masses[kept], spreads[kept] = masses[i], spreads[i]
            drifts[kept] = drifts[i]
            kept += 1
        else:
            _receive(
                best, places[i], masses[i], drifts[i], spreads[i], places, masses, drifts, spreads
            )
    return kept


@kernels.compiled
def mean_gap(places, count):  # type: ignore[no-untyped-def]
    """Return the mean squared distance of a point to the nearest one before it."""
    total = 0.0
    for i in range(1, count):
        total += _scan(places[i], places, 0, i, -1)[1]
    return total / max(1, count - 1)


@kernels.compiled
def sample_uniformly(  # type: ignore[no-untyped-def]
    records, n_before, labels, distances, uniforms, size, places, masses, drifts, spreads,
    count,
):  # fmt: skip
    """Keep a uniform sample of ``size`` records as points; every other record joins the nearest.

    Record number i takes the place of a point with chance size / i, each alike. What the leaving
    point carried goes to the nearest of those that stay. Returns the count.
    """
    fresh = np.empty(len(records), np.int64)  # places that changed in this block
    is_fresh = np.zeros(size, np.bool_)
    n_fresh = 0
    for i in range(len(records)):
        slot = count
        if count == size:
            slot = int(uniforms[i] * (n_before + i + 1))
        if slot >= size:
            best, distance = labels[i], distances[i]
            if is_fresh[best]:
                best, distance = _scan(records[i], places, 0, count, -1)
            else:
                for f in range(n_fresh):
                    closer = _squared_distance(records[i], places[fresh[f]])
                    if closer < distance or (closer == distance and fresh[f] < best):
                        best, distance = fresh[f], closer
            _join(best, records[i], distance, places, masses, drifts, spreads)
            continue
        if slot < count:
            heir = _scan(places[slot], places, 0, count, slot)[0]
            place, drift = places[slot].copy(), drifts[slot].copy()
            mass, spread = masses[slot], spreads[slot]
            _open(slot, records[i], places, masses, drifts, spreads)
            if heir < 0:
                heir = slot  # a sample of one
            _receive(heir, place, mass, drift, spread, places, masses, drifts, spreads)
        else:
            _open(slot, records[i], places, masses, drifts, spreads)
            count += 1
        if not is_fresh[slot]:
            is_fresh[slot] = True
            fresh[n_fresh] = slot
            n_fresh += 1
    return count
