"""The compiled passes over the records that questions make. All arithmetic is in integers.

Empty ``weights`` means that every row counts one.
"""

from __future__ import annotations

import numpy as np

from dpkv.kernels import _closest, compiled

PLACE_UNIT = 4096
"""Half the side of a cell, in the integers that leaf means are summed in."""


@compiled
def divide(points, order, starts, stops, axes, cuts, middles, first, last):  # type: ignore[no-untyped-def]
    """Put the records of every cell that lie at or below its cut first; note where they end."""
    for cell in range(first, last):
        low, high = starts[cell], stops[cell] - 1
        axis, cut = axes[cell], cuts[cell]
        while low <= high:
            if points[order[low], axis] <= cut:
                low += 1
            else:
                order[low], order[high] = order[high], order[low]
                high -= 1
        middles[cell] = low


@compiled
def range_weights(weights, order, starts, stops, found, first, last):  # type: ignore[no-untyped-def]
    """Sum the weights of the rows of every cell."""
    for cell in range(first, last):
        total = 0
        for i in range(starts[cell], stops[cell]):
            total += weights[order[i]]
        found[cell] = total


@compiled
def offset_sums(points, weights, order, starts, stops, lower, upper, reach, sums, first, last):  # type: ignore[no-untyped-def]
    """Sum the records' places in their cells, each of L1 norm at most ``reach``.

    A place is within -PLACE_UNIT..PLACE_UNIT in every dimension. Quotients are rounded toward zero,
    so that no norm is above what it is cut to.
    """
    dimensions = points.shape[1]
    place = np.empty(dimensions, np.int64)
    for cell in range(first, last):
        for i in range(starts[cell], stops[cell]):
            row = order[i]
            weight = weights[row] if weights.size else 1
            norm = 0
            for j in range(dimensions):
                side = upper[cell, j] - lower[cell, j]
                offset = 2 * np.int64(points[row, j]) - lower[cell, j] - upper[cell, j]
                size = abs(offset) * PLACE_UNIT // side if side > 0 else 0
                place[j] = size if offset > 0 else -size
                norm += size
            for j in range(dimensions):
                size = abs(place[j])
                if norm > reach:
                    size = size * reach // norm
                sums[cell, j] += weight * (size if place[j] > 0 else -size)


@compiled
def nearest_labels(points, centers_by_feature, labels, n_parts, first, last):  # type: ignore[no-untyped-def]
    """Label the records by their nearest center, the first of equals."""
    n_records = len(points)
    reach = np.empty(centers_by_feature.shape[1], np.int64)
    for part in range(first, last):
        for i in range(n_records * part // n_parts, n_records * (part + 1) // n_parts):
            labels[i] = _closest(points, i, centers_by_feature, reach)


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
            while bin_ < len(edges) - 1 and norm > edges[bin_]:
                bin_ += 1
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
