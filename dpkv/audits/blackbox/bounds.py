"""What held-out runs show: events, both of whose probabilities are bounded, all at once.

Events, and the pairs of tables they are of, are chosen before any of the runs that judge them.
Over a whole audit the probability is at most alpha that any bound of any event is wrong. So all
that is concluded from them holds together: the largest eps, every point of the trade-off curve, the
verdict.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from dpkv.audits.blackbox.claim import Claim
from dpkv.types import Float64s


@dataclass(frozen=True)
class Event:
    """An event on held-out runs of one pair of tables, in one direction."""

    pair: str
    """The key of the pair."""
    swapped: bool
    """Whether the event is likelier under the second table of the pair."""
    words: str
    hits: tuple[int, int]
    """Runs in the event: under the table where it is likelier, and under the other."""
    runs: tuple[int, int]
    p: tuple[float, float]
    """Bounds of the probability where it is likelier."""
    q: tuple[float, float]
    """Bounds of the probability under the other table."""

    def shown(self, claim: Claim) -> float:
        """Return the least eps, or mu, that allows the event."""
        return float(claim.shown_by(np.asarray(self.p[0]), np.asarray(self.q[1])))

    def breaks(self, claim: Claim) -> bool:
        """Tell whether the event lies outside of what is claimed."""
        return self.shown(claim) > claim.level


def clopper_pearson(hits: np.ndarray, runs: int, alpha: float) -> tuple[Float64s, Float64s]:
    """Return bounds of probabilities, each of which is wrong with probability at most alpha / 2."""
    hits = np.asarray(hits, np.float64)
    with np.errstate(invalid="ignore"):
        low = stats.beta.ppf(alpha / 2, hits, runs - hits + 1)
        high = stats.beta.isf(alpha / 2, hits + 1, runs - hits)
    return np.where(hits == 0, 0.0, low), np.where(hits == runs, 1.0, high)


def most_shown(claim: Claim, p_hits: np.ndarray, q_hits: np.ndarray, runs: tuple[int, int],
               alpha: float) -> Float64s:  # fmt: skip
    """Return, for events, what each of them would show if these runs had been held out."""
    low = clopper_pearson(p_hits, runs[0], alpha)[0]
    high = clopper_pearson(q_hits, runs[1], alpha)[1]
    return claim.shown_by(low, high)


def promise(p_hits: np.ndarray, q_hits: np.ndarray, runs: tuple[int, int]) -> Float64s:
    """Return what few runs promise: the log-ratio of shares, less its standard error.

    A bound would prefer an event that always happens to one that might show much in more runs.
    """
    first, second = (p_hits + 1.0) / (runs[0] + 2.0), (q_hits + 1.0) / (runs[1] + 2.0)
    errors = np.sqrt((1.0 - first) / (p_hits + 1.0) + (1.0 - second) / (q_hits + 1.0))
    return np.asarray(np.log(first) - np.log(second) - errors)


def largest_shown_by(claim: Claim, runs: int, alpha: float) -> float:
    """Return the most that so many runs a side could show, of whatever mechanism."""
    every, none = np.asarray([runs]), np.asarray([0])
    return float(most_shown(claim, every, none, (runs, runs), alpha)[0])


def curve_of(events: list[Event]) -> tuple[Float64s, Float64s]:
    """Return q and 1 - p of the upper bound on the trade-off curve: the events' lower convex hull.

    Guessing by coin between two events, or none and all, is a test as well.
    """
    points = sorted({(0.0, 1.0), (1.0, 0.0), *((e.q[1], 1.0 - e.p[0]) for e in events)})
    hull: list[tuple[float, float]] = []
    for point in points:
        while len(hull) > 1 and not _turns_left(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    found = np.asarray(hull)
    return found[:, 0], found[:, 1]


def _turns_left(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]) > 0


def delta_shown(events: list[Event], eps: Float64s) -> Float64s:
    """Return a lower bound on delta at every eps: the largest p - e^eps q."""
    found = np.zeros(len(eps))
    for event in events:
        found = np.maximum(found, event.p[0] - np.exp(eps) * event.q[1])
    return found
