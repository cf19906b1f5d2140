"""Algorithm 0 by brute force: the exact distribution of its runs on small tables.

Written from the algorithm's statement in plain Python, sharing no code with dpkv. Time and memory
grow like m^k times the densities' outcomes, so m <= 6 and k <= 4 is what it is for.

A point is a tuple of floats. Take coordinates that floats hold exactly (quarters, say), so that the
points of an enumerated run and of a real one are the very same tuples.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import product
from typing import Any

Point = tuple[float, ...]
Run = tuple[tuple[int, Point], ...]
"""The picked row and the draw from its density, round by round."""

Distortion = Callable[[Point, Point], float]
ProbeMap = Callable[[int, list[Point], list[Point]], list[Point]]
"""(round from 1, records, centers so far) to the probed points."""
DensityMap = Callable[[int, list[Point]], dict[Point, float]]
"""(picked row, records) to the points it may be released as and their probabilities."""


# -- what varies between instances -----------------------------------------------------------------


def squared(a: Point, c: Point) -> float:
    return sum((x - y) ** 2 for x, y in zip(a, c, strict=True))


def kullback_leibler(a: Point, c: Point) -> float:
    return sum(x * math.log(x / y) - x + y for x, y in zip(a, c, strict=True))


def itakura_saito(a: Point, c: Point) -> float:
    return sum(x / y - math.log(x / y) - 1 for x, y in zip(a, c, strict=True))


def mahalanobis(matrix: Sequence[Sequence[float]]) -> Distortion:
    def distortion(a: Point, c: Point) -> float:
        gap = [x - y for x, y in zip(a, c, strict=True)]
        pairs = product(range(len(gap)), repeat=2)
        return sum(gap[i] * matrix[i][j] * gap[j] for i, j in pairs)

    return distortion


def total_jensen(generator: Callable[[Point], float], alpha: float) -> Distortion:
    def distortion(a: Point, c: Point) -> float:
        if a == c:
            return 0.0
        between = tuple(alpha * x + (1 - alpha) * y for x, y in zip(a, c, strict=True))
        skew = alpha * generator(a) + (1 - alpha) * generator(c) - generator(between)
        slope = (generator(a) - generator(c)) / math.dist(a, c)
        return skew / math.sqrt(1 + slope**2)

    return distortion


def closest(point: Point, candidates: Sequence[Point]) -> Point:
    return min(candidates, key=lambda candidate: squared(point, candidate))


def identity(_round: int, records: list[Point], _centers: list[Point]) -> list[Point]:
    return records


def nearest_point(points: Sequence[Point]) -> ProbeMap:
    return lambda _round, records, _centers: [closest(a, points) for a in records]


def minibatch(batches: Sequence[int]) -> ProbeMap:
    def probe(round_: int, records: list[Point], centers: list[Point]) -> list[Point]:
        return [
            a if batch == round_ else closest(a, centers)
            for a, batch in zip(records, batches, strict=True)
        ]

    return probe


def dirac(index: int, records: list[Point]) -> dict[Point, float]:
    return {records[index]: 1.0}


def dirac_at(anchors: Sequence[Point]) -> DensityMap:
    return lambda index, _records: {tuple(anchors[index]): 1.0}


def shaken(offsets: Mapping[Point, float]) -> DensityMap:
    """Move the record by one of a few offsets, each with its probability."""

    def density(index: int, records: list[Point]) -> dict[Point, float]:
        a = records[index]
        return {
            tuple(x + o for x, o in zip(a, offset, strict=True)): chance
            for offset, chance in offsets.items()
        }

    return density


def uniform_on_group(groups: Sequence[Hashable]) -> DensityMap:
    def density(index: int, records: list[Point]) -> dict[Point, float]:
        mates = [a for a, group in zip(records, groups, strict=True) if group == groups[index]]
        chances: dict[Point, float] = defaultdict(float)
        for mate in mates:
            chances[mate] += 1 / len(mates)
        return chances

    return density


def clip_to(lower: Sequence[float], upper: Sequence[float]) -> Callable[[Point], Point]:
    return lambda x: tuple(
        min(max(v, low), high) for v, low, high in zip(x, lower, upper, strict=True)
    )


# -- the algorithm ---------------------------------------------------------------------------------


def all_runs(
    data: Sequence[Sequence[float]],
    k: int,
    *,
    probe: ProbeMap = identity,
    density: DensityMap = dirac,
    distortion: Distortion = squared,
    weight: Sequence[float] | None = None,
    first_weight: Sequence[float] | None = None,
    batches: Sequence[int] | None = None,
    reference: str = "released",
    smoothing: float = 0.0,
    clip: Callable[[Point], Point] = lambda x: x,
) -> dict[Run, float]:
    """Return the probability of every run that is possible.

    ``smoothing`` is what is added to every D_t (gamma times the squared diameter). ``batches`` says
    in which round a record may be picked when distances do not decide (ok-means++).
    """
    records = [tuple(map(float, row)) for row in data]
    plain = [1.0] * len(records) if weight is None else list(weight)

    def pick_chances(round_: int, centers: list[Point]) -> list[float]:
        masses = [0.0] * len(records)
        if round_ > 1 and smoothing < math.inf:
            probed = probe(round_, records, centers)
            masses = [
                w * (min(distortion(p, c) for c in centers) + smoothing)
                for w, p in zip(plain, probed, strict=True)
            ]
        if round_ == 1 and first_weight is not None:
            masses = list(first_weight)
        elif not any(masses):
            masses = [w * (batches is None or batches[i] == round_) for i, w in enumerate(plain)]
            masses = masses if any(masses) else plain
        return [mass / sum(masses) for mass in masses]

    runs: dict[Run, float] = {(): 1.0}
    for round_ in range(1, k + 1):
        longer: dict[Run, float] = defaultdict(float)
        for run, chance in runs.items():
            centers = [records[i] if reference == "picked" else clip(x) for i, x in run]
            for index, pick in enumerate(pick_chances(round_, centers)):
                if pick > 0:
                    for x, likelihood in density(index, records).items():
                        longer[(*run, (index, x))] += chance * pick * likelihood
        runs = longer
    return dict(runs)


# -- reading distributions -------------------------------------------------------------------------


def project(
    probabilities: Mapping[Any, float], onto: Callable[[Any], Hashable]
) -> dict[Hashable, float]:
    """Return the distribution of ``onto(outcome)``."""
    projected: dict[Hashable, float] = defaultdict(float)
    for outcome, chance in probabilities.items():
        projected[onto(outcome)] += chance
    return dict(projected)


def picks(run: Run) -> tuple[int, ...]:
    return tuple(index for index, _ in run)


def released(run: Run) -> tuple[Point, ...]:
    return tuple(x for _, x in run)


def last_pick(run: Run) -> int:
    return run[-1][0]


# -- potentials ------------------------------------------------------------------------------------


def potential(data: Sequence[Sequence[float]], centers: Sequence[Point]) -> float:
    return sum(min(squared(tuple(a), c) for c in centers) for a in data)


def optimum(
    data: Sequence[Sequence[float]], k: int, weight: Sequence[float] | None = None
) -> tuple[float, list[Point]]:
    """Return phi_opt and optimal centers, by trying every way to label the records."""
    records = [tuple(map(float, row)) for row in data]
    weights = [1.0] * len(records) if weight is None else list(weight)
    best: tuple[float, list[Point]] = (math.inf, [])
    for labels in product(range(k), repeat=len(records)):
        centers, phi = [], 0.0
        for cluster in range(k):
            members = [i for i, label in enumerate(labels) if label == cluster]
            mass = sum(weights[i] for i in members)
            if not mass:
                continue
            center = tuple(
                sum(weights[i] * records[i][j] for i in members) / mass
                for j in range(len(records[0]))
            )
            phi += sum(weights[i] * squared(records[i], center) for i in members)
            centers.append(center)
        if phi < best[0]:
            best = (phi, centers)
    return best
