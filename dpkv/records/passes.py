"""The compiled passes over the records that questions make. All arithmetic is in integers.

Empty ``weights`` means that every row counts one.
"""

from __future__ import annotations

import numpy as np

from dpkv.kernels import compiled, compiled_exactly
from dpkv.records.keys import fill_keys

PLACE_UNIT = 4096
"""Half the side of a cell, in the integers that leaf means are summed in."""
_TILE = 256  # rows whose keys are kept at a time


@compiled
def _first_from(keys, index, shift, mark):  # type: ignore[no-untyped-def]
    """Return the place of the first key that is not below ``mark``."""
    entry = mark >> shift
    low = index[entry]
    if entry << shift == mark:
        return low
    high = index[entry + 1]
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < mark:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def count_between(keys, before, index, shift, lows, highs, found, first, last):  # type: ignore[no-untyped-def]
    """Count what lies between two keys, for many pairs; ``before`` sums weights, or is empty."""
    for cell in range(first, last):
        start = _first_from(keys, index, shift, lows[cell])
        stop = _first_from(keys, index, shift, highs[cell])
        found[cell] = before[stop] - before[start] if before.size else stop - start


@compiled
def _leaf_of(starts, index, shift, key):  # type: ignore[no-untyped-def]
    """Return the last leaf that starts at or before a key."""
    low, high = index[key >> shift], index[(key >> shift) + 1]
    while low < high:
        middle = (low + high + 1) >> 1
        if starts[middle] <= key:
            low = middle
        else:
            high = middle - 1
    return low


@compiled_exactly
def offset_sums(  # type: ignore[no-untyped-def]
    points, weights, lowest, highest, axes, shifts, tables, groups, depth,
    starts, index, shift, middles, inverses, reach, sums, n_parts, first, last,
):  # fmt: skip
    """Sum the records' places in their leaves, each of L1 norm at most ``reach``.

    A place is within -PLACE_UNIT..PLACE_UNIT in every dimension. ``middles`` are twice the leaves'
    middles, ``inverses`` those of their sides, or 0 for a side of one point, which has no places.
    Quotients are rounded toward zero, so that no norm is above what it is cut to.

    The quotients are those of the integers, though floats are multiplied: a/b is at most 2^12 here
    and b below 2^31, so (a + 1/2)/b has the same whole part and is 2^-32 or more away from the next
    whole number, while what rounding adds to it is below 2^-38.
    """
    n_records, dimensions = points.shape
    place, offset = np.empty(dimensions, np.int32), np.empty(dimensions)
    keys = np.empty(_TILE, np.int64)
    for part in range(first, last):
        begin, end = n_records * part // n_parts, n_records * (part + 1) // n_parts
        for tile in range(begin, end, _TILE):
            rows = min(tile + _TILE, end)
            fill_keys(
                points, lowest, highest, axes, shifts, tables, groups, depth, keys, tile, rows
            )
            for i in range(tile, rows):
                leaf = _leaf_of(starts, index, shift, keys[i - tile])
                middle, inverse = middles[leaf], inverses[leaf]
                for j in range(dimensions):
                    offset[j] = 2.0 * points[i, j] - middle[j]
                norm = 0
                for j in range(dimensions):
                    place[j] = np.int32((abs(offset[j]) * PLACE_UNIT + 0.5) * inverse[j])
                    norm += place[j]
                if norm > reach:
                    shorter = 1.0 / norm
                    for j in range(dimensions):
                        place[j] = np.int32((np.float64(place[j]) * reach + 0.5) * shorter)
                weight = weights[i] if weights.size else 1
                own = sums[part, leaf]
                for j in range(dimensions):
                    own[j] += weight * (place[j] if offset[j] > 0.0 else -place[j])


@compiled
def _norm(points, i, center, squared):  # type: ignore[no-untyped-def]
    """Return the L1 norm of a residual, or its L2 norm rounded up."""
    total = 0
    for j in range(points.shape[1]):
        offset = np.int64(points[i, j]) - center[j]
        total += offset * offset if squared else abs(offset)
    if not squared:
        return total
    root = np.int64(np.sqrt(np.float64(total)))
    while root * root < total:
        root += 1
    while root > 0 and (root - 1) * (root - 1) >= total:
        root -= 1
    return root


@compiled
def norm_histograms(  # type: ignore[no-untyped-def]
    points, weights, labels, centers, edges, squared, counts, n_parts, first, last
):
    """Count residual norms by cluster and bin; the last bin takes whatever is beyond."""
    n_records = len(points)
    for part in range(first, last):
        for i in range(n_records * part // n_parts, n_records * (part + 1) // n_parts):
            cluster = labels[i]
            norm = _norm(points, i, centers[cluster], squared)
            bin_ = 0
            for edge in edges[:-1]:  # in ascending order; counted without a branch
                bin_ += norm > edge
            counts[part, cluster, bin_] += weights[i] if weights.size else 1


@compiled
def residual_sums(  # type: ignore[no-untyped-def]
    points, weights, labels, centers, radii, squared, sums, n_parts, first, last
):
    """Sum residuals by cluster, each cut to its cluster's radius and rounded toward zero."""
    n_records = len(points)
    for part in range(first, last):
        for i in range(n_records * part // n_parts, n_records * (part + 1) // n_parts):
            cluster = labels[i]
            radius = radii[cluster]
            weight = weights[i] if weights.size else 1
            norm = _norm(points, i, centers[cluster], squared)
            for j in range(points.shape[1]):
                offset = np.int64(points[i, j]) - centers[cluster, j]
                size = abs(offset)
                if norm > radius:
                    size = size * radius // norm
                sums[part, cluster, j] += weight * (size if offset > 0 else -size)
