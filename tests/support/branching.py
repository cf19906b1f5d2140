"""Entropy that is not random: every outcome of a mechanism in turn, or what its noise is added to.

Handing a mechanism these in place of real entropy turns statements about its distribution into
statements about finitely many runs of the very code that releases.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping
from fractions import Fraction
from itertools import product

import numpy as np


class Branching:
    """Takes the branch of every draw that a path says; beyond the path's end, the first one."""

    def __init__(self, path: list[int], noise: Mapping[int, Fraction]) -> None:
        self.path = path
        self.widths: list[int] = []
        self.chance = Fraction(1)
        self.scales: list[float] = []
        self._noise = list(noise.items())

    def _branch(self, width: int) -> int:
        depth = len(self.widths)
        self.widths.append(width)
        if depth == len(self.path):
            self.path.append(0)
        return self.path[depth]

    def below(self, bound: int) -> int:
        self.chance /= bound
        return self._branch(bound)

    def add_laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        self.scales.append(scale)
        noisy = values.astype(np.int64)
        for place in np.ndindex(values.shape):
            offset, chance = self._noise[self._branch(len(self._noise))]
            noisy[place] += offset
            self.chance *= chance
        return noisy

    def coins(self) -> int:
        raise AssertionError("this mechanism must draw through below and add_laplace alone")

    def next_path(self) -> list[int] | None:
        """Return the path after this one, in order, or None after the last."""
        for depth in reversed(range(len(self.widths))):
            if self.path[depth] + 1 < self.widths[depth]:
                return [*self.path[:depth], self.path[depth] + 1]
        return None


def every_outcome(
    run: Callable[[Branching], Hashable], noise: Mapping[int, Fraction]
) -> tuple[dict[Hashable, Fraction], set[float]]:
    """Return the exact distribution of ``run``, and the scales of noise that it asked for.

    ``noise`` stands in for discrete Laplace noise: a coordinate's offset and its probability.
    """
    chances: dict[Hashable, Fraction] = defaultdict(Fraction)
    scales: set[float] = set()
    path: list[int] | None = []
    while path is not None:
        entropy = Branching(path, noise)
        chances[run(entropy)] += entropy.chance
        scales.update(entropy.scales)
        path = entropy.next_path()
    return dict(chances), scales


class Watched:
    """Remembers what noise is added to and of which scale; ``answers`` are returned in its place.

    Without answers the values come back as they are. Equal answers on two tables fix everything
    that was released so far, which is what a proof of sensitivity conditions on.
    """

    def __init__(
        self, answers: Callable[[int, np.ndarray], np.ndarray] | None = None, coins: int = 7
    ) -> None:
        self.values: list[np.ndarray] = []
        self.scales: list[float] = []
        self._answers = answers
        self._coins = coins

    def below(self, bound: int) -> int:
        raise AssertionError(f"nothing is picked here, but an integer below {bound} was asked for")

    def add_laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        self.values.append(values.copy())
        self.scales.append(scale)
        if self._answers is None:
            return values
        return self._answers(len(self.values) - 1, values)

    def coins(self) -> int:
        return self._coins


# -- the same distributions by hand ----------------------------------------------------------------

Point = tuple[int, ...]


def noisy_points(a: Point, noise: Mapping[int, Fraction]) -> dict[Point, Fraction]:
    """Return where independent noise of the coordinates may move a point, and how likely."""
    moved: dict[Point, Fraction] = {}
    for offsets in product(noise, repeat=len(a)):
        chance = Fraction(1)
        for offset in offsets:
            chance *= noise[offset]
        moved[tuple(x + o for x, o in zip(a, offsets, strict=True))] = chance
    return moved


def squared(a: Point, c: Point) -> int:
    return sum((x - y) ** 2 for x, y in zip(a, c, strict=True))


def into_box(tops: Point) -> Callable[[Point], Point]:
    return lambda x: tuple(min(max(v, 0), top) for v, top in zip(x, tops, strict=True))


def ball(reach: int, n_features: int) -> list[Point]:
    sides = product(range(-reach, reach + 1), repeat=n_features)
    return [point for point in sides if sum(map(abs, point)) <= reach]


def into_ball(reach: int) -> Callable[[Point], Point]:
    """Return the map to the ball's nearest point; of equals, to the larger in the first columns."""

    def clip(x: Point) -> Point:
        return min(ball(reach, len(x)), key=lambda p: (squared(x, p), [-abs(v) for v in p]))

    return clip


def algorithm0(
    records: list[Point],
    k: int,
    noise: Mapping[int, Fraction],
    *,
    smoothing: int | None,
    clip: Callable[[Point], Point],
) -> dict[tuple[Point, ...], Fraction]:
    """Return the distribution of Algorithm 0's k draws; ``smoothing`` None picks uniformly."""
    releases: dict[tuple[Point, ...], Fraction] = {(): Fraction(1)}
    for _ in range(k):
        longer: dict[tuple[Point, ...], Fraction] = defaultdict(Fraction)
        for draws, chance in releases.items():
            weights = [1] * len(records)
            if draws and smoothing is not None:
                centers = [clip(x) for x in draws]
                weights = [min(squared(a, c) for c in centers) + smoothing for a in records]
                weights = weights if any(weights) else [1] * len(records)
            for a, weight in zip(records, weights, strict=True):
                for x, likelihood in noisy_points(a, noise).items():
                    longer[(*draws, x)] += chance * likelihood * weight / sum(weights)
        releases = {draws: chance for draws, chance in longer.items() if chance}
    return releases
