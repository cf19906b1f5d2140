"""The discrete Laplace distribution by its closed forms, in 40 digits: P(z) ~ exp(-|z| / scale)."""

from __future__ import annotations

from collections.abc import Sequence

import mpmath
import numpy as np

DIGITS = 40


def probability(z: int, scale: float) -> mpmath.mpf:
    """Return P(z) = (1 - q) / (1 + q) q^|z| with q = exp(-1 / scale)."""
    with mpmath.workdps(DIGITS):
        q = mpmath.exp(-1 / mpmath.mpf(scale))
        return (1 - q) / (1 + q) * q ** abs(z)


def at_most(z: int, scale: float) -> mpmath.mpf:
    """Return P(Z <= z), from the geometric series of the tail."""
    with mpmath.workdps(DIGITS):
        q = mpmath.exp(-1 / mpmath.mpf(scale))
        return q**-z / (1 + q) if z < 0 else 1 - q ** (z + 1) / (1 + q)


def bins(edges: Sequence[int], scale: float) -> dict[int, float]:
    """Return the probability of every bin: of edges[i-1] < z <= edges[i], open at both ends."""
    below = [mpmath.mpf(0), *(at_most(edge, scale) for edge in edges), mpmath.mpf(1)]
    return {i: float(below[i + 1] - below[i]) for i in range(len(edges) + 1)}


def bin_numbers(values: np.ndarray, edges: Sequence[int]) -> list[int]:
    """Return the bin of every value."""
    return np.searchsorted(np.asarray(edges), values.reshape(-1), side="left").tolist()


def residues(n: int, scale: float) -> dict[int, float]:
    """Return the distribution of Z modulo n: two geometric series for every residue but 0."""
    with mpmath.workdps(DIGITS):
        q = mpmath.exp(-1 / mpmath.mpf(scale))
        front = (1 - q) / (1 + q) / (1 - q**n)
        chances = {0: front * (1 + q**n)}
        chances |= {r: front * (q**r + q ** (n - r)) for r in range(1, n)}
        return {r: float(chance) for r, chance in chances.items()}


def up_to(farthest: int, scale: float) -> dict[int, float]:
    """Return the distribution of Z with both tails gathered at -farthest and at farthest."""
    tail = float(at_most(-farthest, scale))
    inner = {z: float(probability(z, scale)) for z in range(1 - farthest, farthest)}
    return {-farthest: tail, **inner, farthest: tail}
