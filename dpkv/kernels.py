"""The few compiled loops every squared distance goes through.

Records are cut into blocks. A kernel handles a range of blocks, releases the GIL and leaves one sum
a block behind, so that threads need no locks and sums do not depend on the number of threads.
Nothing in this module knows about privacy.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from dpkv.types import Float64s, Floats, Indices, Integers

Kernel = Callable[..., Any]

BLOCK = 256
"""Records a block: they stay in the first-level cache while several centers are measured to them,
and a draw walks through half a block on average."""

_CLUSTER_PARTS = 16  # fixed, so that sums do not depend on the number of threads
_WORTH_A_THREAD = 100_000  # numbers read; below this, waking a thread costs more than it saves


def compiled(function: Kernel) -> Kernel:
    """Compile without the GIL, with reassociated sums (never assuming NaN away), cached on disk.

    Where neither the package nor the user's cache folder can be written, it compiles every time.
    """
    options: dict[str, Any] = {"nogil": True, "fastmath": {"reassoc", "contract", "nsz", "arcp"}}
    try:
        kernel: Kernel = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # numba found no folder for its cache
        kernel = numba.njit(**options)(function)
    return kernel


def compiled_exactly(function: Kernel) -> Kernel:
    """Compile likewise, with every division of floats rounded as IEEE 754 says."""
    try:
        kernel: Kernel = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:
        kernel = numba.njit(nogil=True)(function)
    return kernel


N_THREADS = int(numba.get_num_threads())
_pool: ThreadPoolExecutor | None = None


def _forget_pool() -> None:
    global _pool  # noqa: PLW0603
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)  # a forked child inherits no threads


def over_blocks(function: Callable[..., None], n_blocks: int, work: int, *arguments: Any) -> None:
    """Call ``function(*arguments, first, last)`` over ranges of blocks, on all cores when it pays.

    ``work`` is the count of numbers read in all.
    """
    global _pool  # noqa: PLW0603
    threads = min(N_THREADS, n_blocks, 1 + work // _WORTH_A_THREAD)
    if threads <= 1:
        function(*arguments, 0, n_blocks)
        return
    if _pool is None:
        _pool = ThreadPoolExecutor(N_THREADS, thread_name_prefix="dpkv")
    cuts = [n_blocks * part // threads for part in range(threads + 1)]
    others = [
        _pool.submit(function, *arguments, cuts[part], cuts[part + 1]) for part in range(1, threads)
    ]
    function(*arguments, cuts[0], cuts[1])
    for other in others:
        other.result()


def block_count(n_records: int) -> int:
    """Return how many blocks hold ``n_records`` records; block b starts at record b * BLOCK."""
    return -(-n_records // BLOCK)


def block_sums(weights: Float64s | None, n_records: int) -> Float64s:
    """Return the total weight of every block; records count one each when ``weights`` is None."""
    starts = np.arange(block_count(n_records)) * BLOCK
    if weights is None:
        return np.minimum(n_records - starts, BLOCK).astype(np.float64)
    return np.add.reduceat(weights, starts)


# -- seeding: distances, minima and block sums in a single pass over the records ------------------


@compiled
def _lower_block(points, center, nearest, start, stop):  # type: ignore[no-untyped-def]
    """nearest[i] <- min(nearest[i], ||points[i] - center||^2) for one block."""
    features = points.shape[1]
    if features == 2:  # noqa: PLR2004 (maps are the common case, and this form vectorises)
        first, second = center[0], center[1]
        for i in range(start, stop):
            u = points[i, 0] - first
            v = points[i, 1] - second
            nearest[i] = min(nearest[i], u * u + v * v)
    else:
        for i in range(start, stop):
            distance = nearest.dtype.type(0)
            for j in range(features):
                difference = points[i, j] - center[j]
                distance += difference * difference
            nearest[i] = min(nearest[i], distance)


@compiled
def _lower_block_by_four(points, centers, c, nearest, start, stop):  # type: ignore[no-untyped-def]
    """Account for centers c..c+3 in one block: each record is loaded once for the four."""
    features = points.shape[1]
    if features == 2:  # noqa: PLR2004
        a0, a1, b0, b1 = centers[c, 0], centers[c, 1], centers[c + 1, 0], centers[c + 1, 1]
        e0, e1, f0, f1 = centers[c + 2, 0], centers[c + 2, 1], centers[c + 3, 0], centers[c + 3, 1]
        for i in range(start, stop):
            x, y = points[i, 0], points[i, 1]
            a = (x - a0) * (x - a0) + (y - a1) * (y - a1)
            b = (x - b0) * (x - b0) + (y - b1) * (y - b1)
            e = (x - e0) * (x - e0) + (y - e1) * (y - e1)
            f = (x - f0) * (x - f0) + (y - f1) * (y - f1)
            nearest[i] = min(nearest[i], a, b, e, f)
    else:
        for i in range(start, stop):
            a = b = e = f = nearest.dtype.type(0)
            for j in range(features):
                x = points[i, j]
                a += (x - centers[c, j]) * (x - centers[c, j])
                b += (x - centers[c + 1, j]) * (x - centers[c + 1, j])
                e += (x - centers[c + 2, j]) * (x - centers[c + 2, j])
                f += (x - centers[c + 3, j]) * (x - centers[c + 3, j])
            nearest[i] = min(nearest[i], a, b, e, f)


@compiled
def lower_nearest(  # type: ignore[no-untyped-def]
    points, centers, nearest, weights, sums, first, last
):
    """Account for all of ``centers`` in blocks first..last, reading the records once.

    Empty ``weights`` means all one. Integer points with int64 ``nearest``, ``weights`` and ``sums``
    are handled exactly.
    """
    n_centers = len(centers)
    for block in range(first, last):
        start, stop = block * BLOCK, min(len(points), (block + 1) * BLOCK)
        c = 0
        while c + 4 <= n_centers:
            _lower_block_by_four(points, centers, c, nearest, start, stop)
            c += 4
        while c < n_centers:
            _lower_block(points, centers[c], nearest, start, stop)
            c += 1
        total = sums.dtype.type(0)
        if weights.size:
            for i in range(start, stop):
                total += weights[i] * nearest[i]
        else:
            for i in range(start, stop):
                total += nearest[i]
        sums[block] = total


@compiled
def _locate(nearest, weights, smoothing, start, stop, target):  # type: ignore[no-untyped-def]
    """Return the record of a block at which the running sum of w (D + smoothing) passes target."""
    running = 0.0
    last_positive = start
    for i in range(start, stop):
        mass = nearest[i] + smoothing
        if weights.size:
            mass *= weights[i]
        if mass > 0.0:
            last_positive = i
            running += mass
            if running > target:
                return i
    return last_positive  # rounding left a crumb beyond the last positive record


@compiled
def propose(  # type: ignore[no-untyped-def]
    uniforms, running, points, pending, nearest, weights, smoothing
):
    """Draw a record by rejection, or return -1 when every proposal of ``uniforms`` was refused.

    Proposals come from the stored distances, which may not have heard of the ``pending`` centers
    yet. Distances only fall, so refusing a proposal a with probability
    1 - (D_t(a) + smoothing) / (stored D(a) + smoothing) leaves exactly the distribution of D_t.
    """
    for attempt in range(len(uniforms)):
        target = uniforms[attempt, 0] * running[-1]
        block = np.searchsorted(running, target, side="right")
        block = min(block, len(running) - 1)
        while block > 0 and running[block] == running[block - 1]:
            block -= 1  # the product rounded up to the total, and the last blocks weigh nothing
        before = running[block - 1] if block else 0.0
        start, stop = block * BLOCK, min(len(points), (block + 1) * BLOCK)
        i = _locate(nearest, weights, smoothing, start, stop, target - before)
        if len(pending) == 0:
            return i
        current = nearest[i]
        for c in range(len(pending)):
            distance = nearest.dtype.type(0)
            for j in range(points.shape[1]):
                difference = points[i, j] - pending[c, j]
                distance += difference * difference
            current = min(current, distance)
        if uniforms[attempt, 1] * (nearest[i] + smoothing) < current + smoothing:
            return i
    return -1


# -- assignment and cluster sums ------------------------------------------------------------------


@compiled
def _reach_of(columns, rows, centers_by_feature, c, reach):  # type: ignore[no-untyped-def]
    """Measure many records to a center, up to four columns at a time."""
    features = len(columns)
    left = features % 4
    if left == 0:
        for i in range(rows):
            reach[i] = 0
    elif left == 1:
        u = centers_by_feature[0, c]
        for i in range(rows):
            reach[i] = (columns[0, i] - u) ** 2
    elif left == 2:  # noqa: PLR2004
        u, v = centers_by_feature[0, c], centers_by_feature[1, c]
        for i in range(rows):
            reach[i] = (columns[0, i] - u) ** 2 + (columns[1, i] - v) ** 2
    elif left == 3:  # noqa: PLR2004
        u, v, w = centers_by_feature[0, c], centers_by_feature[1, c], centers_by_feature[2, c]
        for i in range(rows):
            near = (columns[0, i] - u) ** 2 + (columns[1, i] - v) ** 2
            reach[i] = near + (columns[2, i] - w) ** 2
    for j in range(left, features, 4):
        u, v = centers_by_feature[j, c], centers_by_feature[j + 1, c]
        w, x = centers_by_feature[j + 2, c], centers_by_feature[j + 3, c]
        for i in range(rows):
            near = (columns[j, i] - u) ** 2 + (columns[j + 1, i] - v) ** 2
            far = (columns[j + 2, i] - w) ** 2 + (columns[j + 3, i] - x) ** 2
            reach[i] += near + far


@compiled
def _measure(points, start, stop, centers_by_feature, columns, reach, nearest, chosen):  # type: ignore[no-untyped-def]
    """Find the first of the nearest centers of a block of records, and how far it is, squared.

    Records are taken column by column, so that many are measured to a center at once.
    """
    rows = stop - start
    for i in range(rows):
        for j in range(points.shape[1]):
            columns[j, i] = points[start + i, j]
    _reach_of(columns, rows, centers_by_feature, 0, nearest)
    chosen[:] = 0
    if len(columns) == 2:  # noqa: PLR2004 (maps are the common case: one loop, nothing between)
        first, second = columns[0], columns[1]
        for c in range(1, centers_by_feature.shape[1]):
            u, v = centers_by_feature[0, c], centers_by_feature[1, c]
            for i in range(rows):
                distance = (first[i] - u) ** 2 + (second[i] - v) ** 2
                chosen[i] = c if distance < nearest[i] else chosen[i]
                nearest[i] = min(distance, nearest[i])
        return
    for c in range(1, centers_by_feature.shape[1]):
        _reach_of(columns, rows, centers_by_feature, c, reach)
        for i in range(rows):
            chosen[i] = c if reach[i] < nearest[i] else chosen[i]
            nearest[i] = min(reach[i], nearest[i])


@compiled
def nearest_labels(points, centers_by_feature, labels, first, last):  # type: ignore[no-untyped-def]
    """Label the records by their nearest center, the first of equals."""
    kind = centers_by_feature.dtype
    columns = np.empty((points.shape[1], BLOCK), kind)
    reach, nearest = np.empty(BLOCK, kind), np.empty(BLOCK, kind)
    for block in range(first, last):
        start, stop = block * BLOCK, min(len(points), (block + 1) * BLOCK)
        own = labels[start:stop]
        _measure(points, start, stop, centers_by_feature, columns, reach, nearest, own)


@compiled
def _assign(  # type: ignore[no-untyped-def]
    points, centers_by_feature, weights, labels, distances, sums, first, last
):
    columns = np.empty((points.shape[1], BLOCK), points.dtype)
    reach = np.empty(BLOCK, points.dtype)
    for block in range(first, last):
        start, stop = block * BLOCK, min(len(points), (block + 1) * BLOCK)
        own, far = labels[start:stop], distances[start:stop]
        _measure(points, start, stop, centers_by_feature, columns, reach, far, own)
        total = 0.0
        for i in range(start, stop):
            total += (weights[i] if weights.size else 1.0) * distances[i]
        sums[block] = total


def assign_nearest(
    points: Floats, centers: Floats, weights: Float64s | None = None
) -> tuple[NDArray[np.int32], Floats, float]:
    """Return each record's nearest center, its squared distance, and the (weighted) potential."""
    by_feature = np.ascontiguousarray(np.asarray(centers, dtype=points.dtype).T)
    labels = np.empty(len(points), np.int32)
    distances = np.empty(len(points), points.dtype)
    n_blocks = block_count(len(points))
    sums = np.empty(n_blocks)
    work = points.size * len(centers)
    over_blocks(
        _assign, n_blocks, work, points, by_feature, or_empty(weights), labels, distances, sums
    )
    return labels, distances, float(sums.sum())


@compiled
def _two_nearest(  # type: ignore[no-untyped-def]
    points, centers_by_feature, labels, nearest, second, first, last
):
    columns = np.empty((points.shape[1], BLOCK), points.dtype)
    reach = np.empty(BLOCK, points.dtype)
    for block in range(first, last):
        start, stop = block * BLOCK, min(len(points), (block + 1) * BLOCK)
        own, close, other = labels[start:stop], nearest[start:stop], second[start:stop]
        _measure(points, start, stop, centers_by_feature, columns, reach, close, own)
        other[:] = np.inf
        for c in range(centers_by_feature.shape[1]):
            _reach_of(columns, stop - start, centers_by_feature, c, reach)
            for i in range(stop - start):
                better = c != own[i] and reach[i] < other[i]
                other[i] = reach[i] if better else other[i]


def two_nearest(points: Floats, centers: Floats) -> tuple[NDArray[np.int32], Floats, Floats]:
    """Return each record's nearest center, and its squared distances to the nearest two."""
    by_feature = np.ascontiguousarray(np.asarray(centers, dtype=points.dtype).T)
    labels = np.empty(len(points), np.int32)
    nearest, second = np.empty(len(points), points.dtype), np.empty(len(points), points.dtype)
    work = points.size * len(centers)
    arrays = points, by_feature, labels, nearest, second
    over_blocks(_two_nearest, block_count(len(points)), work, *arrays)
    return labels, nearest, second


@compiled
def _clusters(  # type: ignore[no-untyped-def]
    points, centers_by_feature, weights, sums, masses, potentials, n_parts, first, last
):
    n_records, features = points.shape
    kind = centers_by_feature.dtype
    columns = np.empty((features, BLOCK), kind)
    reach, nearest = np.empty(BLOCK, kind), np.empty(BLOCK, kind)
    chosen = np.empty(BLOCK, np.int32)
    for part in range(first, last):
        end = n_records * (part + 1) // n_parts
        for start in range(n_records * part // n_parts, end, BLOCK):
            stop = min(end, start + BLOCK)
            _measure(points, start, stop, centers_by_feature, columns, reach, nearest, chosen)
            for i in range(stop - start):
                best = chosen[i]
                weight = weights[start + i] if weights.size else weights.dtype.type(1)
                potentials[part] += weight * nearest[i]
                masses[part, best] += weight
                for j in range(features):
                    sums[part, best, j] += weight * columns[j, i]


def clusters(
    points: Floats, centers: Floats, weights: Float64s | None = None
) -> tuple[Float64s, Float64s, float]:
    """Return the sum of records and the weight of each cluster, and the potential.

    One pass, and nothing kept for a record: a table on disk stays there.
    """
    parts = _CLUSTER_PARTS
    by_feature = np.ascontiguousarray(np.asarray(centers, dtype=points.dtype).T)
    sums = np.zeros((parts, *by_feature.T.shape))
    masses, potentials = np.zeros((parts, len(centers))), np.zeros(parts)
    work = points.size * len(centers)
    arrays = (points, by_feature, or_empty(weights), sums, masses, potentials)
    over_blocks(_clusters, parts, work, *arrays, parts)
    return sums.sum(axis=0), masses.sum(axis=0), float(potentials.sum())


@compiled
def _lloyd(points, weights, current, most, tolerance, n_parts):  # type: ignore[no-untyped-def]
    """Move ``current`` as ``lloyd_iterations`` does; return the potential and the iterations."""
    k, features = current.shape
    sums, masses = np.empty((n_parts, k, features)), np.empty((n_parts, k))
    potentials = np.empty(n_parts)
    by_feature, kept = np.ascontiguousarray(current.T), current.copy()
    phi, done = np.inf, 0
    while True:
        sums[:], masses[:], potentials[:] = 0.0, 0.0, 0.0
        _clusters(points, by_feature, weights, sums, masses, potentials, n_parts, 0, n_parts)
        fallen = potentials.sum()
        if fallen > phi:  # float rounding at the fixed point
            return phi, done
        gain, phi = phi - fallen, fallen
        current[:] = kept
        if done == most or (done > 0 and gain <= tolerance * phi):
            return phi, done
        done += 1
        for c in range(k):
            mass = masses[:, c].sum()
            for j in range(features):
                if mass > 0.0:
                    kept[c, j] = sums[:, c, j].sum() / mass
                by_feature[j, c] = kept[c, j]


def lloyd_from_each(
    points: Floats, starts: Sequence[Floats], weights: Floats, *, most: int, tolerance: float
) -> list[tuple[Float64s, float]]:
    """Run Lloyd's iterations from several starts side by side, each on one core.

    For problems so small that handing every iteration to all cores would cost more than it saves.
    """
    moved = [np.array(start, np.float64) for start in starts]
    potentials = np.empty(len(starts))

    def run(first: int, last: int) -> None:
        for number in range(first, last):
            found = _lloyd(points, weights, moved[number], most, tolerance, _CLUSTER_PARTS)
            potentials[number] = found[0]

    over_blocks(run, len(starts), len(starts) * points.size * len(starts[0]))
    return list(zip(moved, potentials.tolist(), strict=True))


def integer_clusters(
    points: Integers, centers: Integers, weights: Indices | None = None
) -> tuple[Integers, Integers]:
    """Return the weighted sum of the points of each cluster and their weight, exactly.

    No weights, or none at all, means that all are one. No sum can leave int64 while all weights
    together are at most 2^63 / max|coordinate|.
    """
    parts = _CLUSTER_PARTS
    sums = np.zeros((parts, *centers.shape), np.int64)
    counts, potentials = np.zeros((parts, len(centers)), np.int64), np.zeros(parts)
    by_feature = np.ascontiguousarray(centers.T, dtype=np.int64)
    heavy = np.empty(0, np.int64) if weights is None else weights
    arrays = (points, by_feature, heavy, sums, counts, potentials)
    over_blocks(_clusters, parts, points.size * len(centers), *arrays, parts)
    return sums.sum(axis=0), counts.sum(axis=0)


# -- extent ---------------------------------------------------------------------------------------


@compiled_exactly  # with reassociated sums some compilers drop what only a NaN changes
def _magnitude(flat, peaks, taint, first, last):  # type: ignore[no-untyped-def]
    for block in range(first, last):
        peak = flat.dtype.type(0)
        bad = 0
        for i in range(block * BLOCK, min(flat.size, (block + 1) * BLOCK)):
            size = abs(flat[i])
            if size < np.inf:  # neither infinite nor NaN
                peak = max(peak, size)
            else:
                bad += 1
        peaks[block], taint[block] = peak, bad


def largest_magnitude(points: Floats) -> float:
    """Return the largest absolute value, or NaN when some number is not finite."""
    flat = points.reshape(-1)
    n_blocks = block_count(flat.size)
    peaks, taint = np.empty(n_blocks), np.empty(n_blocks)
    over_blocks(_magnitude, n_blocks, flat.size, flat, peaks, taint)
    return float(peaks.max(initial=0.0)) if (taint == 0).all() else float("nan")


@compiled
def _extent(points, lowest, highest, first, last):  # type: ignore[no-untyped-def]
    for block in range(first, last):
        start, stop = block * BLOCK, min(len(points), (block + 1) * BLOCK)
        for j in range(points.shape[1]):
            lowest[block, j] = highest[block, j] = points[start, j]
        for i in range(start + 1, stop):
            for j in range(points.shape[1]):
                lowest[block, j] = min(lowest[block, j], points[i, j])
                highest[block, j] = max(highest[block, j], points[i, j])


def column_extent(points: Floats) -> tuple[Float64s, Float64s]:
    """Return the smallest and the largest value of every column of finite records."""
    n_blocks = block_count(len(points))
    lowest = np.empty((n_blocks, points.shape[1]))
    highest = np.empty((n_blocks, points.shape[1]))
    over_blocks(_extent, n_blocks, points.size, points, lowest, highest)
    return lowest.min(axis=0), highest.max(axis=0)


def or_empty(weights: Float64s | None) -> Float64s:
    """Return the kernels' spelling of "every record counts alike"."""
    return np.empty(0) if weights is None else weights
