"""What the calibrator claims, by trying everything: plain, slow, and sharing no code with dpkv.

Neighbourhoods N are sets of distinct *rows*; rows may hold equal records.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import combinations

import numpy as np

Points = np.ndarray

# -- tables to try ---------------------------------------------------------------------------------


def tables(seed: int) -> dict[str, Callable[[int, int], Points]]:
    """Return ways to draw a table of m records and d columns, by name."""
    rng = np.random.default_rng(seed)
    return {
        "uniform": lambda m, d: rng.random((m, d)),
        "clustered": lambda m, d: rng.normal(0, 0.01, (m, d)) + rng.integers(0, 3, (m, 1)),
        "tight clusters": lambda m, d: rng.normal(0, 1e-7, (m, d)) + rng.integers(0, 3, (m, 1)),
        "collinear": lambda m, d: rng.random((m, 1)) * rng.random((1, d)),
        "duplicates": lambda m, d: rng.integers(0, 3, (m, d)).astype(float),
        "outlier": lambda m, d: _with_outlier(rng.random((m, d)), 10.0 ** rng.integers(1, 12)),
        "offset": lambda m, d: 10.0 ** rng.integers(3, 15) + rng.random((m, d)),
        "tiny": lambda m, d: 1e-150 * rng.random((m, d)),
        "huge": lambda m, d: 1e15 * rng.random((m, d)),
    }


def _with_outlier(points: Points, distance: float) -> Points:
    points[-1] += distance
    return points


def instances(seed: int, rounds: int, m: tuple[int, int]) -> Iterator[tuple[str, Points, int]]:
    """Yield (name, records, k) over all kinds of tables, ``rounds`` times each."""
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        for name, table in tables(int(rng.integers(2**32))).items():
            n_records = int(rng.integers(m[0], m[1] + 1))
            k = int(rng.integers(2, min(5, n_records) + 1))
            yield name, table(n_records, int(rng.integers(1, 5))), k


# -- spread and monotonicity -----------------------------------------------------------------------


def squared_distances(a: Points, b: Points) -> Points:
    return ((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2)


def least_remaining(points: Points, n_centers: int) -> float:
    """Return the least potential over all N of that size and all removed records."""
    distances = squared_distances(points, points)
    least = math.inf
    for chosen in combinations(range(len(points)), n_centers):
        near = distances[list(chosen)].min(axis=0).tolist()
        for removed in range(len(points)):
            least = min(least, math.fsum(near[:removed] + near[removed + 1 :]))
    return least


def monotonicity(points: Points, k: int) -> float:
    """Return max phi(N) / phi(N + mean(A)) - 1 over N of 1 to k-1 rows and N-packed A outside N."""
    largest = 1.0
    rows = range(len(points))
    for size in range(1, min(k, len(points))):
        for chosen in combinations(rows, size):
            outside = [row for row in rows if row not in chosen]
            near = squared_distances(points, points[list(chosen)]).min(axis=1)
            ratios = {
                subset: _fall(points, near, list(subset))
                for count in range(1, len(outside) + 1)
                for subset in combinations(outside, count)
            }
            for subset, ratio in sorted(ratios.items(), key=lambda item: -item[1]):
                if ratio <= largest:
                    break
                if packed(points[list(subset)], near[list(subset)]):
                    largest = ratio
                    break
    return largest - 1.0


def _fall(points: Points, near: Points, subset: list[int]) -> float:
    anchor = points[subset[0]]  # so that means far from the origin are not rounded away
    mean = (points[subset] - anchor).mean(axis=0)
    to_mean = (((points - anchor) - mean) ** 2).sum(axis=1)
    before, after = math.fsum(near), math.fsum(np.minimum(near, to_mean))
    if before == 0:
        return 1.0
    return before / after if after > 0 else math.inf


def packed(points: Points, near: Points) -> bool:
    """Tell whether some x is as close to every point as its center is: whether all balls meet.

    x minimises the largest ||a - x||^2 - near_a. It does so for some d + 1 or fewer of the points
    already, at which the expression is equal: of the solutions, the one closest to the points.
    """
    centred = points - points[0]
    depth = math.inf
    for count in range(1, min(len(points), points.shape[1] + 1) + 1):
        for active in combinations(range(len(points)), count):
            first, rest = active[0], list(active[1:])
            rows = centred[rest] - centred[first]
            equal = ((rows**2).sum(axis=1) - near[rest] + near[first]) / 2.0
            x = centred[first]
            if rest:
                x = x + np.linalg.lstsq(rows, equal, rcond=None)[0]
            depth = min(depth, float((((centred - x) ** 2).sum(axis=1) - near).max()))
    return depth <= 1e-9 * float(near.max())


# -- Theorem A -------------------------------------------------------------------------------------


def affordable(
    eps: float, eps_tilde: float, m: int, k: int, gamma: float, *, kept_back: str = "0"
) -> bool:
    """Tell whether (1 + (rho-1)/m) (1 + w (rho-1))^(k-1) <= e^eps for rho = e^eps~.

    In products of 80 digits and more (twice as many again as a small eps or a large m swallows,
    since costs may differ in the square of eps only), with w an exact fraction: nothing of dpkv's
    logarithms and sums. ``kept_back`` is a share of eps that must be left over.
    """
    w = Fraction(1, m) if math.isinf(gamma) else (1 + Fraction(gamma)) / (1 + Fraction(gamma) * m)
    with localcontext() as context:
        swallowed = max(0, -Decimal(eps_tilde).adjusted()) + len(str(m))
        context.prec = 80 + 2 * swallowed
        surplus = Decimal(eps_tilde).exp() - 1
        first = 1 + surplus / m
        later = 1 + surplus * w.numerator / w.denominator
        budget = Decimal(eps) * (1 - Decimal(kept_back))
        return first * later ** (k - 1) <= budget.exp()
