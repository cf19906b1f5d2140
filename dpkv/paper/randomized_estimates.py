"""The paper's randomised estimates of spread and monotonicity (its appendix on experiments)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from dpkv import kernels
from dpkv.paper.calibration_loops import sampled_potentials
from dpkv.paper.spread import spread_of
from dpkv.types import Float64s, Indices

DEFAULT_DRAWS = 5000
_MOST_WORK = 2e10  # numbers compared: some seconds
_PROMISING = 64
_MOST_NUMBERS = 2**24  # of centers held at a time: 128 MB, however many columns there are
_WIDE = 1000  # columns, from which on a short table is turned into its span
_TINY = np.finfo(np.float64).tiny
_CANCELS = 1e-3  # what remains over what is taken away: below it, rounding would show
CAVEAT = "random search: underestimates the spread, and the monotonicity unless by luck"


@dataclass(frozen=True)
class RandomizedEstimates:
    """What ``n_draws`` random neighbourhoods showed."""

    least_remaining: float
    monotonicity: float
    n_draws: int
    caveat: str = CAVEAT

    def spread(self, radius: float) -> float:
        """Return R^2 over the least potential seen to remain."""
        return spread_of(self.least_remaining, radius)


@dataclass(frozen=True, eq=False)
class Draws:
    """Random neighbourhoods: k - 1 records of N and one added record; and one taken away."""

    points: Float64s
    rows: Indices
    """(draws, k): the rows of the k - 1 records of N, then the added one."""
    removed: Indices
    """(draws,): the row of the removed record."""

    @property
    def centers(self) -> Float64s:
        """(draws, k, features): the records themselves."""
        return np.asarray(self.points[self.rows])

    def some(self, which: Indices) -> Draws:
        """Return some of the draws."""
        return Draws(self.points, self.rows[which], self.removed[which])

    def in_parts(self) -> Iterator[Draws]:
        """Yield the draws in parts whose records fit in memory, in their order."""
        numbers = self.rows.shape[1] * self.points.shape[1]
        size = max(1, _MOST_NUMBERS // max(1, numbers))
        for start in range(0, len(self.rows), size):
            yield self.some(np.arange(start, min(start + size, len(self.rows))))


def random_neighbourhoods(
    points: Float64s, n_clusters: int, n_draws: int, rng: np.random.Generator
) -> Draws:
    """Draw N, the added record (distinct from N) and the removed one, ``n_draws`` times.

    Distinct records by Floyd's algorithm, all draws at once: no retries, even where k is m.
    """
    m = len(points)
    rows = np.empty((n_draws, n_clusters), np.int64)
    for place, newest in enumerate(range(m - n_clusters, m)):
        drawn = rng.integers(newest + 1, size=n_draws)
        taken = (rows[:, :place] == drawn[:, np.newaxis]).any(axis=1)
        rows[:, place] = np.where(taken, newest, drawn)
    rows = rng.permuted(rows, axis=1)  # sets are uniform before, places only now
    return Draws(points, rows, rng.integers(m, size=n_draws))


def _keep_promising(points: Float64s, draws: Draws) -> Draws:
    """Return the draws worth a look at all records: all of them, unless the table is very large.

    There, potentials on a sample of the records tell which draws may leave least or fall most, and
    only those are kept. A random search has seen less then, never more.
    """
    work = float(points.size) * draws.rows.size
    if work <= _MOST_WORK or len(draws.removed) <= 2 * _PROMISING:
        return draws
    stride = int(np.ceil(work / _MOST_WORK))
    before, after = _potentials(np.ascontiguousarray(points[::stride]), draws).T
    least = np.argpartition(before, _PROMISING)[:_PROMISING]
    steepest = np.argpartition(after / np.maximum(before, _TINY), _PROMISING)[:_PROMISING]
    return draws.some(np.union1d(least, steepest))


def _turn_into_span(points: Float64s) -> Float64s:
    """Return points with the same distances in fewer columns: m records span m - 1 dimensions.

    Equal records stay equal to the last bit, so that a potential of 0 stays 0.
    """
    if points.shape[1] <= max(_WIDE, len(points)):
        return points
    distinct, which = np.unique(points, axis=0, return_inverse=True)
    turned = np.asarray(np.linalg.qr((distinct - distinct[0]).T, mode="r")).T
    return np.ascontiguousarray(turned[which])


def _potentials(points: Float64s, draws: Draws) -> Float64s:
    """Return the potentials of the points with N, and with the added record, draw by draw."""
    return np.concatenate([sampled_potentials(points, part.centers) for part in draws.in_parts()])


def _to_removed(points: Float64s, draws: Draws) -> Float64s:
    """Return the removed record's squared distance to the nearest of N, draw by draw."""
    found = []
    for part in draws.in_parts():
        gaps = part.centers[:, :-1] - points[part.removed][:, np.newaxis]
        found.append(np.einsum("ijk,ijk->ij", gaps, gaps).min(axis=1))
    return np.concatenate(found)


def estimate(points: Float64s, draws: Draws) -> RandomizedEstimates:
    """Return the least remaining potential and the largest fall of the potential over the draws.

    The fall is phi(N) / phi(N + x) - 1 for a random record x, the paper's stand-in for the mean of
    an N-packed set.
    """
    n_draws = len(draws.removed)
    points = _turn_into_span(points)
    draws = _keep_promising(points, replace(draws, points=points))
    potentials = _potentials(points, draws)
    to_removed = _to_removed(points, draws)
    remaining = potentials[:, 0] - to_removed
    for draw in np.flatnonzero(remaining < _CANCELS * to_removed):  # an outlier: leave it out
        distances = kernels.assign_nearest(points, points[draws.rows[draw, :-1]])[1]
        distances[draws.removed[draw]] = 0.0
        remaining[draw] = distances.sum()
    before, after = potentials.T
    falls = np.divide(before, after, out=np.full(len(before), np.inf), where=after > 0)
    falls[before == 0] = 1.0
    return RandomizedEstimates(float(remaining.min()), float(falls.max()) - 1.0, n_draws)
