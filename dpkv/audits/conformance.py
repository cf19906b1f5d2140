"""Does the code draw what the description says? Goodness-of-fit tests of the release's own draws.

Four tests of the very objects a release uses, with the operating system's randomness: picks
against their exact probabilities, noise against the discrete Laplace distribution, whole centers
against their exact distribution on a tiny grid, and windows against theirs. And one rule without
chance: every draw is an integer point of the grid, for floats off it give a neighbour away.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from scipy import stats

from dpkv.audits.results import Conformance
from dpkv.domain import Box
from dpkv.grid import BoxGrid, L1BallGrid
from dpkv.mechanisms import KVariates, Mechanism, Neighbours
from dpkv.noise import Entropy
from dpkv.records import run_on_points
from dpkv.records.questions import WindowDensity
from dpkv.seeding.exact import ExactPicker
from dpkv.types import Float64s

DEFAULT_LEVEL = 1e-9
_EXPECTED = 10.0  # counts below it are pooled, as chi-square asks
_TINY_BITS = 2
_SCALE = 3.7


def conformance_tests(
    entropy: Callable[[], Entropy], *, runs: int = 20_000, level: float = DEFAULT_LEVEL
) -> tuple[Conformance, ...]:
    """Test what ``entropy`` draws; each test fails by chance with probability ``level``."""
    return (
        _integers(entropy(), runs),
        _selection(entropy(), runs, level),
        _noise(entropy(), runs, level),
        _centers(entropy(), runs // 4, level),
        _windows(entropy(), runs // 4, level),
    )


def concerns(test: Conformance, mechanism: Mechanism) -> bool:
    """Tell whether a mechanism draws what a test is about: by its steps and its noise alone."""
    picks = any(step.name == "smoothed-pick" for step in mechanism.schedule())
    windows = any(noise.distribution == "window" for noise in mechanism.noises())
    needed = {"picks": picks, "centres": picks and not windows, "windows": windows}
    return needed.get(test.name, True)


def _integers(entropy: Entropy, runs: int) -> Conformance:
    """Every noisy value is a whole number: the support is the same for every record."""
    drawn = np.asarray(entropy.add_laplace(np.zeros(runs, np.int64), _SCALE))
    off = int((drawn != np.rint(drawn)).sum())
    return Conformance(
        name="draws lie on the grid",
        statistic=float(off),
        p_value=1.0 if off == 0 else 0.0,
        level=0.0,
        runs=runs,
        passed=off == 0,
        detail=f"{off} of {runs} draws are no whole numbers of grid steps",
    )


def _selection(entropy: Entropy, runs: int, level: float) -> Conformance:
    """Picks of one round after the first, over a table whose weights span several sizes."""
    points = np.asarray([[0, 0], [1, 0], [5, 3], [40, 2], [7, 60], [63, 63]], np.int32)
    center, smoothing = np.asarray([2, 1]), 25
    picker = ExactPicker(points, diam2_squared=2 * 63**2, smoothing=smoothing, below=entropy.below)
    picker.add(center)
    counts = np.zeros(len(points))
    for _ in range(runs):
        pick = picker.by_distance()
        assert pick is not None
        counts[pick] += 1
    weights = ((points - center) ** 2).sum(axis=1) + smoothing
    return _chi_square("picks", counts, weights / weights.sum(), runs, level)


def _noise(entropy: Entropy, runs: int, level: float) -> Conformance:
    """Discrete Laplace noise, cell by cell and the two tails."""
    drawn = np.rint(np.asarray(entropy.add_laplace(np.zeros(runs, np.int64), _SCALE)))
    reach = math.ceil(3.0 * _SCALE)
    places = np.clip(drawn, -reach, reach).astype(np.int64) + reach
    counts = np.bincount(places, minlength=2 * reach + 1).astype(np.float64)
    return _chi_square("noise", counts, _clipped_laplace(0, -reach, reach, _SCALE), runs, level)


def _clipped_laplace(at: int, low: int, high: int, scale: float) -> Float64s:
    """Return the probabilities of clip(at + noise, low, high), from the tails' closed form."""
    q = math.exp(-1.0 / scale)
    cells = np.arange(low, high + 1)
    chances = (1.0 - q) / (1.0 + q) * q ** np.abs(cells - at)
    chances[0] = q ** (at - low) / (1.0 + q)
    chances[-1] = q ** (high - at) / (1.0 + q)
    return np.asarray(chances)


def _centers(entropy: Entropy, runs: int, level: float) -> Conformance:
    """Both centers of k = 2 on a grid of four levels, against the sum over all picks."""
    grid = Box((0.0,), (3.0,)).grid(_TINY_BITS)
    table = [0, 0, 1, 3]
    mechanism = KVariates(
        n_clusters=2,
        grid=grid,
        neighbours=Neighbours.REPLACE_ONE,
        noise_scale=1.5,
        n_records=len(table),
        smoothing_steps=2,
    )
    points = np.asarray(table, np.int32)[:, np.newaxis]
    counts = np.zeros((4, 4))
    for _ in range(runs):
        drawn = np.rint(run_on_points(mechanism, points, entropy).centers).astype(np.int64)
        first, second = grid.clip(drawn)[:, 0]
        counts[first, second] += 1
    expected = _exact_pairs(mechanism, table)
    return _chi_square("centres", counts.reshape(-1), expected.reshape(-1), runs, level)


def _windows(entropy: Entropy, runs: int, level: float) -> Conformance:
    """Draws of one record through a window, in a small box and in a small ball, point by point."""
    grids = BoxGrid((0.0, 0.0), (1.0, 1.0), (4, 2)), L1BallGrid((0.0, 0.0), (1.0, 1.0), 2)
    counts, chances = [], []
    for grid in grids:
        low, high = grid.box
        places = np.indices(tuple((high - low + 1).tolist())).reshape(2, -1).T + low
        density, record = WindowDensity(grid, 2.5, 1), places[len(places) // 2]
        drawn = density.draw_each(np.tile(record, (runs, 1)), entropy)
        seen = (drawn[:, np.newaxis] == places).all(axis=2).sum(axis=0)
        due = [density.log_likelihoods(record[np.newaxis], place)[0] for place in places]
        counts.append(seen[np.isfinite(due)])  # what is drawn elsewhere is missing here
        chances.append(np.exp(due)[np.isfinite(due)])
    seen_of_all = np.concatenate(counts).astype(np.float64)
    return _chi_square("windows", seen_of_all, np.concatenate(chances), runs, level)


def _exact_pairs(mechanism: KVariates, table: Sequence[int]) -> Float64s:
    """Return P(first, second) of two clamped centers, by the formula of Algorithm 0."""
    released = np.stack([_clipped_laplace(a, 0, 3, mechanism.noise_scale) for a in table])
    opening = released.mean(axis=0)
    pairs = np.empty((4, 4))
    for first in range(4):
        weights = [Fraction((a - first) ** 2 + (mechanism.smoothing or 0)) for a in table]
        shares = np.asarray([float(weight / sum(weights)) for weight in weights])
        pairs[first] = opening[first] * (shares @ released)
    return pairs


def _chi_square(
    name: str, counts: Float64s, chances: Float64s, runs: int, level: float
) -> Conformance:
    """Compare counts with their expectations, rare outcomes pooled."""
    expected = chances * runs
    rare = expected < _EXPECTED
    seen, due = counts[~rare], expected[~rare]
    if rare.any():
        seen, due = np.append(seen, counts[rare].sum()), np.append(due, expected[rare].sum())
    statistic = float((((seen - due) ** 2) / due).sum())
    p_value = float(stats.chi2.sf(statistic, len(due) - 1))
    return Conformance(
        name=name,
        statistic=statistic,
        p_value=p_value,
        level=level,
        runs=runs,
        passed=p_value >= level,
        detail=f"chi-square over {len(due)} outcomes",
    )
