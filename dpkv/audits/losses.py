"""The exact privacy loss of a release against every neighbour.

Given the centers so far, the next one has probability

    sum_a W_t(a) p_a(x_t) / sum_a W_t(a),      W_1 = 1,  W_t(a) = D_t(a) + S,

so the whole ordered output has a closed form, and replacing one record changes one term of each
sum. The loss log P(x | A) - log P(x | A') is therefore exact, for every record and any replacement,
in O(k) once the sums are known. Here in floating point, for speed; ``witness`` re-checks it
in interval arithmetic.

Clamping a center to a box changes p_a(x) by a factor that does not depend on a: at a bound, the
tail of the noise is q^dist / (1 + q) where inside it is q^dist (1 - q) / (1 + q). So the loss of a
clamped output has the same formula. For an L1 ball it is the loss of the output before clamping.
What is drawn from a window lies in the domain, so that nothing is clamped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpkv import kernels
from dpkv.corners import domain_corners
from dpkv.errors import UsageError
from dpkv.grid import Grid
from dpkv.mechanisms import Algorithm0
from dpkv.types import Float64s, Integers

LARGEST_LOG_RATIO = 650
"""Beyond it a likelihood would underflow; such an eps promises nothing anyway."""


@kernels.compiled
def _round_weights(points, centers, smoothing, weights, first, last):  # type: ignore[no-untyped-def]
    """Fill weights[i, t] = W_t(a)."""
    n_rounds, features = centers.shape
    for block in range(first, last):
        for i in range(block * kernels.BLOCK, min(len(points), (block + 1) * kernels.BLOCK)):
            closest = np.inf
            for t in range(n_rounds):
                weight = 1.0
                if t > 0 and smoothing >= 0.0:
                    weight = closest + smoothing
                weights[i, t] = weight
                squared = 0.0
                for j in range(features):
                    gap = float(centers[t, j] - points[i, j])
                    squared += gap * gap
                closest = min(closest, squared)


@kernels.compiled
def _without(value, i, t, kind, tops, sums, rest):  # type: ignore[no-untyped-def]
    """Set rest[kind, t] to the sum without record i: never the difference of two near equals.

    The largest term is kept apart from the sum of the others, so what is left of a sum is not lost
    where one record makes up nearly all of it.
    """
    if i == int(tops[kind, 0, t]):
        rest[kind, t] = sums[kind, t]
    else:
        rest[kind, t] = max(0.0, sums[kind, t] - value) + tops[kind, 1, t]


@kernels.compiled
def _extreme_losses(  # type: ignore[no-untyped-def]
    weights, likelihoods, new_weights, new_likelihoods, tops, sums, densities, best, first, last
):
    """For each record find the replacements of largest and of smallest loss.

    ``tops`` and ``sums`` are described at ``_sums``; ``densities`` are the rounds' own.
    """
    n_records, n_rounds = weights.shape
    rest = np.empty((3, n_rounds))
    for block in range(first, last):
        for i in range(block * kernels.BLOCK, min(n_records, (block + 1) * kernels.BLOCK)):
            for t in range(n_rounds):
                _without(weights[i, t], i, t, 0, tops, sums, rest)
                _without(weights[i, t] * likelihoods[i, t], i, t, 1, tops, sums, rest)
                _without(likelihoods[i, t], i, t, 2, tops, sums, rest)
            highest, lowest = 0.0, np.inf
            to_highest, to_lowest = 0, 0
            for r in range(len(new_weights)):
                ratio = 1.0  # P(x | A) / P(x | A')
                for t in range(n_rounds):
                    total = rest[0, t] + new_weights[r, t]
                    mass = rest[1, t] + new_weights[r, t] * new_likelihoods[r, t]
                    if total <= 0.0:  # every distance is zero: a uniform pick
                        total = float(n_records)
                        mass = rest[2, t] + new_likelihoods[r, t]
                    ratio *= (total / mass) * (densities[t])
                if ratio > highest:
                    highest, to_highest = ratio, r
                if ratio < lowest:
                    lowest, to_lowest = ratio, r
            best[i, 0], best[i, 1] = highest, to_highest
            best[i, 2], best[i, 3] = lowest, to_lowest


@dataclass(frozen=True, eq=False)
class Losses:
    """The extreme losses of one output, over all records and the replacements tried."""

    largest: float
    """The largest |log P(x | A) - log P(x | A')|."""
    record: int
    replacement: Integers
    by_record: Float64s
    """For each record, its largest absolute loss."""


def exact_losses(
    mechanism: Algorithm0, points: Integers, output: Integers, replacements: Integers
) -> Losses:
    """Return the exact loss of ``output`` against every record's replacement by each point."""
    weights, likelihoods = round_factors(mechanism, points, output)
    new_weights, new_likelihoods = round_factors(mechanism, replacements, output)
    best = np.empty((len(points), 4))
    work = len(points) * len(replacements) * len(output)
    kernels.over_blocks(
        _extreme_losses,
        kernels.block_count(len(points)),
        work,
        weights,
        likelihoods,
        new_weights,
        new_likelihoods,
        *_sums(weights, likelihoods),
        best,
    )
    with np.errstate(divide="ignore"):
        up, down = np.log(best[:, 0]), -np.log(best[:, 2])
    by_record = np.maximum(up, down)
    record = int(by_record.argmax())
    column = 1 if up[record] >= down[record] else 3
    chosen = replacements[int(best[record, column])]
    return Losses(float(by_record[record]), record, np.asarray(chosen), by_record)


def _sums(weights: Float64s, likelihoods: Float64s) -> tuple[Float64s, Float64s, Float64s]:
    """Return what the kernel needs of W, of W p and of p, a round.

    The place and the value of the largest term of each, the sum of all others, and the rounds'
    densities sum W p / sum W (the mean of p where no record has weight).
    """
    kinds = (weights, weights * likelihoods, likelihoods)
    places = [kind.argmax(axis=0) for kind in kinds]
    tops = np.stack(
        [np.stack([place, kind.max(axis=0)]) for place, kind in zip(places, kinds, strict=True)]
    )
    sums = np.empty((3, weights.shape[1]))
    for row, (place, kind) in enumerate(zip(places, kinds, strict=True)):
        others = kind.copy()
        others[place, np.arange(kind.shape[1])] = 0.0
        sums[row] = others.sum(axis=0)
    total, mass, plain = sums + tops[:, 1]
    densities = np.divide(mass, total, out=plain / len(weights), where=total > 0)
    return tops.astype(np.float64), sums, densities


def round_factors(
    mechanism: Algorithm0, points: Integers, output: Integers
) -> tuple[Float64s, Float64s]:
    """Return W_t(a) and p_a(x_t), the latter up to a factor of the round, for all records."""
    if mechanism.log_ratio > LARGEST_LOG_RATIO:
        raise UsageError(
            f"losses are calculated up to eps~ = {LARGEST_LOG_RATIO}: choose a smaller eps."
        )
    outputs = np.asarray(output, dtype=np.int64)
    weights = np.empty((len(points), len(outputs)))
    smoothing = -1.0 if mechanism.smoothing is None else float(mechanism.smoothing)
    kernels.over_blocks(
        _round_weights,
        kernels.block_count(len(points)),
        points.size * len(outputs),
        np.ascontiguousarray(points),
        np.ascontiguousarray(mechanism.grid.clip(outputs), dtype=np.int64),
        smoothing,
        weights,
    )
    density = mechanism.density
    likelihoods = [density.relative_likelihoods(points, drawn) for drawn in outputs]
    return weights, np.stack(likelihoods, axis=1)


def list_replacements(grid: Grid, output: Integers, n_points: int = 256) -> Integers:
    """Return public points to replace records by: corners, the output itself, and a spread.

    Depends on the grid and the output alone.
    """
    from scipy.stats import qmc  # noqa: PLC0415 (slow to import)

    corners = domain_corners(grid)
    first = np.concatenate([grid.clip(np.asarray(output, dtype=np.int64)), corners])
    kept = np.sort(np.unique(first, axis=0, return_index=True)[1])[:n_points]
    fixed = first[kept]
    missing = n_points - len(fixed)
    if missing > 0:
        uniform = qmc.Halton(grid.n_features, scramble=False).random(missing + 1)[1:]
        fixed = np.concatenate([fixed, grid.spread(uniform)])
    return fixed


def log_ratio_of_tables(
    mechanism: Algorithm0,
    groups: Integers,
    counts: NDArray[np.int64],
    old: Integers,
    new: Integers,
    output: Integers,
) -> float:
    """Return log P(x | A) - log P(x | A') for A of ``groups`` by ``counts`` and the record ``old``.

    A' has ``new`` in place of ``old``. For tables of many equal records this costs next to nothing.
    """
    points = np.concatenate([groups, old[np.newaxis], new[np.newaxis]])
    weights, likelihoods = round_factors(mechanism, points, output)
    here = np.concatenate([counts, [1, 0]]).astype(np.float64)
    there = np.concatenate([counts, [0, 1]]).astype(np.float64)
    logs = _log_densities(weights, likelihoods, here) - _log_densities(weights, likelihoods, there)
    return math.fsum(logs.tolist())


def _log_densities(weights: Float64s, likelihoods: Float64s, counts: Float64s) -> Float64s:
    """Return the logarithm of every round's density; a round without weights picks uniformly."""
    total, plain = counts @ weights, counts @ likelihoods / counts.sum()
    mixed = np.divide(counts @ (weights * likelihoods), total, out=plain, where=total > 0)
    return np.asarray(np.log(mixed))
