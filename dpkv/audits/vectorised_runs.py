"""Many runs of Algorithm 0 at once, on a table of few distinct points, and their exact losses.

The same integer mechanism as a release, vectorised over runs with floating-point picks and seeded
noise; a test shows that both have the same distribution.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpkv.mechanisms import Algorithm0
from dpkv.noise import SeededEntropy
from dpkv.types import Float64s, Integers

Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Pair:
    """Two neighbouring tables on distinct points, each with its counts."""

    points: Integers
    old: Counts
    new: Counts


def many_runs(
    mechanism: Algorithm0,
    points: Integers,
    counts: Counts,
    n_runs: int,
    seed: np.random.SeedSequence,
) -> Integers:
    """Return (n_runs, k, d) outputs of independent runs, before clamping."""
    picks, noise = (SeededEntropy(child) for child in seed.spawn(2))
    rng = np.random.default_rng(picks.coins())
    outputs = np.empty((n_runs, mechanism.n_clusters, points.shape[1]), np.int64)
    nearest = np.full((n_runs, len(points)), np.inf)
    for round_ in range(mechanism.n_clusters):
        weights = round_weights(mechanism, nearest, counts, round_)
        running = weights.cumsum(axis=1)
        targets = rng.random(n_runs) * running[:, -1]
        picked = (running <= targets[:, np.newaxis]).sum(axis=1)
        outputs[:, round_] = mechanism.density.draw_each(points[picked], noise)
        centers = mechanism.grid.clip(outputs[:, round_])
        np.minimum(nearest, _squared_distance(centers, points), out=nearest)
    return outputs


def round_weights(
    mechanism: Algorithm0, nearest: Float64s, counts: Counts, round_: int
) -> Float64s:
    """Return every point's weight in every run, times its count.

    A run where that is zero everywhere picks uniformly.
    """
    plain = np.broadcast_to(counts.astype(np.float64), nearest.shape)
    if round_ == 0 or mechanism.smoothing is None:
        return plain
    weights = (nearest + float(mechanism.smoothing)) * counts
    return np.where(weights.any(axis=1, keepdims=True), weights, plain)


def log_ratios(mechanism: Algorithm0, pair: Pair, outputs: Integers) -> Float64s:
    """Return log P(x | old) - log P(x | new) for every output."""
    density, total = mechanism.density, np.zeros(len(outputs))
    nearest = np.full((len(outputs), len(pair.points)), np.inf)
    for round_ in range(outputs.shape[1]):
        drawn = outputs[:, round_]
        likelihoods = np.stack(
            [density.relative_likelihoods(point, drawn) for point in pair.points[:, np.newaxis]],
            axis=1,
        )
        for counts, sign in ((pair.old, 1.0), (pair.new, -1.0)):
            weights = round_weights(mechanism, nearest, counts, round_)
            total += sign * np.log((weights * likelihoods).sum(axis=1) / weights.sum(axis=1))
        centers = mechanism.grid.clip(outputs[:, round_])
        np.minimum(nearest, _squared_distance(centers, pair.points), out=nearest)
    return total


def _squared_distance(centers: Integers, points: Integers) -> Float64s:
    gaps = (centers[:, np.newaxis, :] - points[np.newaxis]).astype(np.float64)
    return np.asarray((gaps * gaps).sum(axis=2))
