"""The worst neighbours and output that can be found: a lower bound on eps without any sampling.

Theorem A's proof says where to look: all records but one at a point, the differing record there or
as far away as the domain allows, and centers on the line between. The search moves one center, or
one of the points, at a time along that line and over the corners, keeps what raises the loss, and
starts again from elsewhere. It never overstates: whatever it finds is a pair of tables and an
output with exactly that loss.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpkv.audits.losses import log_ratio_of_tables
from dpkv.corners import farthest_pair
from dpkv.grid import Grid
from dpkv.mechanisms import Algorithm0
from dpkv.types import Integers

_LINE = 33  # places tried along the diagonal
_SWEEPS = 6


@dataclass(frozen=True, eq=False)
class WorstCase:
    """Two neighbouring tables and an output whose probabilities differ by exp(loss)."""

    common: Integers
    """The point where the m - 1 common records are."""
    n_common: int
    old: Integers
    new: Integers
    output: Integers
    loss: float
    """log P(output | table with old) - log P(output | table with new), never negative."""


def worst_case(
    mechanism: Algorithm0, n_records: int, *, restarts: int = 24, seed: int = 0
) -> WorstCase:
    """Search for the pair of tables of ``n_records`` records and the output of largest loss."""
    rng = np.random.default_rng(seed)
    line = _diagonal(mechanism.grid)
    best: WorstCase | None = None
    for attempt in range(restarts):
        places = _opening(attempt, mechanism.n_clusters, rng)
        found = _climb(mechanism, n_records, line, places)
        if best is None or found.loss > best.loss:
            best = found
    assert best is not None
    return best


def _opening(attempt: int, k: int, rng: np.random.Generator) -> list[int]:
    """Return places on the line: common, old, new, then the k centers."""
    end = _LINE - 1
    if attempt == 0:  # the differing record lies far from the rest, and the last center on it
        return [0, end, 0, *([0] * (k - 1)), end]
    if attempt == 1:
        return [0, end, 0, *([end] * k)]
    return [int(place) for place in rng.integers(0, _LINE, k + 3)]


def _diagonal(grid: Grid) -> Integers:
    """Return points from one extreme of the domain to the one farthest from it."""
    start, end = farthest_pair(grid)
    share = np.linspace(0.0, 1.0, _LINE)[:, np.newaxis]
    between = start + share * (end - start)
    return grid.clip(np.rint(between).astype(np.int64))


def _climb(mechanism: Algorithm0, n_records: int, line: Integers, places: list[int]) -> WorstCase:
    """Move one place at a time to where the loss is largest, until nothing helps."""
    loss = _loss(mechanism, n_records, line, places)
    for _ in range(_SWEEPS):
        before = abs(loss)
        for moving in range(len(places)):
            for place in range(_LINE):
                tried = [*places[:moving], place, *places[moving + 1 :]]
                value = _loss(mechanism, n_records, line, tried)
                if abs(value) > abs(loss):
                    loss, places = value, tried
        if abs(loss) <= before * (1.0 + 1e-9):
            break
    return _describe(n_records, line, places, loss)


def _loss(mechanism: Algorithm0, n_records: int, line: Integers, places: list[int]) -> float:
    common, old, new = (line[place] for place in places[:3])
    counts = np.asarray([n_records - 1])
    output = line[places[3:]]
    return log_ratio_of_tables(mechanism, common[np.newaxis], counts, old, new, output)


def _describe(n_records: int, line: Integers, places: list[int], loss: float) -> WorstCase:
    common, old, new = (line[place] for place in places[:3])
    if loss < 0:
        old, new, loss = new, old, -loss
    return WorstCase(common, n_records - 1, old, new, line[places[3:]], loss)
