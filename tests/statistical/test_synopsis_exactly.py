"""The synopsis: its tree's whole distribution, its price against every neighbour, Gaussian noise.

Trees on a line of eight points are enumerated in plain Python (``support/trees.py``). The largest
likelihood ratio over all tables, neighbours and trees is compared with the price, and the trees
that the code grows with their exact probabilities (false alarms below 1e-9 a test). Planted faults
go through the same comparisons."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import combinations_with_replacement
from typing import Any

import mpmath
import numpy as np
import pytest
from support import trees
from support.chance import implausible

from dpkv.grid import BoxGrid
from dpkv.mechanisms import Neighbours
from dpkv.noise import OperatingSystemEntropy, SeededEntropy
from dpkv.records import ArrayRecords
from dpkv.records.questions import CellSplits, TreeTest, public_map

REPLACE, ADD = Neighbours.REPLACE_ONE, Neighbours.ADD_REMOVE
N_POINTS, MOST_RECORDS = 8, 5
LINE = BoxGrid((0.0,), (1.0,), (N_POINTS - 1,))

TESTS = {
    "decay above floor": trees.Test(1.3, decay=2, floor=1, levels=3, threshold=3),
    "floor is decay": trees.Test(2.0, decay=1, floor=1, levels=3, threshold=2),
    "deep floor": trees.Test(0.7, decay=1, floor=3, levels=3, threshold=4),
    "two levels": trees.Test(3.0, decay=3, floor=2, levels=2, threshold=1),
}


def tables(n_records: int) -> Iterator[tuple[int, ...]]:
    """Yield every table of so many records, as counts of the points."""
    for places in combinations_with_replacement(range(N_POINTS), n_records):
        yield tuple(places.count(point) for point in range(N_POINTS))


def moved(table: tuple[int, ...], **steps: int) -> tuple[int, ...]:
    counts = list(table)
    for point, step in steps.items():
        counts[int(point[1:])] += step
    return tuple(counts)


@cache
def log_probabilities(table: tuple[int, ...], test: trees.Test, untested: int) -> np.ndarray:
    shapes = trees.shapes(N_POINTS, untested + test.levels)
    found = [
        trees.log_probability(table, tree, test, -untested)
        for tree in shapes
        if tree is not None or not untested
    ]
    return np.asarray(found)


def largest_loss(test: trees.Test, neighbours: Neighbours, untested: int = 0) -> float:
    """Return the largest |log ratio| over all tables, neighbours and trees."""
    worst = 0.0
    for n_records in range(MOST_RECORDS):
        for table in tables(n_records):
            for added in range(N_POINTS):
                more = moved(table, **{f"p{added}": 1})
                if neighbours is ADD:
                    worst = max(worst, _gap(table, more, test, untested))
                    continue
                for other in range(added):
                    less = moved(table, **{f"p{other}": 1})
                    worst = max(worst, _gap(less, more, test, untested))
    return worst


def _gap(table: tuple[int, ...], other: tuple[int, ...], test: trees.Test, untested: int) -> float:
    first, second = (log_probabilities(one, test, untested) for one in (table, other))
    return float(np.abs(first - second).max())


def as_test(test: trees.Test) -> TreeTest:
    return TreeTest(test.scale, test.decay, test.floor, test.levels)


@pytest.mark.parametrize("neighbours", [REPLACE, ADD])
@pytest.mark.parametrize("name", TESTS)
def test_no_neighbour_and_no_tree_costs_more_than_is_charged(name, neighbours):
    test = TESTS[name]
    price = float(as_test(test).cost(neighbours))
    worst = largest_loss(test, neighbours)
    assert worst <= price * (1.0 + 1e-12)
    if neighbours is ADD:
        assert worst > 0.95 * price, "the certificate is far from what happens"


@pytest.mark.parametrize("neighbours", [REPLACE, ADD])
def test_paths_that_part_before_the_first_test_reach_the_price(neighbours):
    """Replacing a record then adds it to one tree and removes it from another."""
    test = TESTS["two levels"]
    price, worst = float(as_test(test).cost(neighbours)), largest_loss(test, neighbours, 1)
    assert 0.95 * price < worst <= price * (1.0 + 1e-12)


def test_a_forgotten_decay_costs_more_than_is_charged():
    sound = TESTS["decay above floor"]
    price = float(as_test(sound).cost(ADD))
    assert largest_loss(replace(sound, decay=0), ADD) > price


def test_a_replaced_record_that_is_priced_as_an_added_one_costs_more():
    test = TESTS["two levels"]
    assert largest_loss(test, REPLACE, 1) > float(as_test(test).cost(ADD))


@pytest.mark.parametrize("neighbours", [REPLACE, ADD])
@pytest.mark.parametrize(
    "test",
    [
        *TESTS.values(),
        trees.Test(17.25, decay=34, floor=17, levels=24, threshold=0),
        trees.Test(0.05, decay=1, floor=1, levels=24, threshold=0),
        trees.Test(1e6, decay=2_000_000, floor=1_000_000, levels=24, threshold=0),
    ],
)
def test_the_price_is_the_theorems_rounded_up(test, neighbours):
    """Against tails in mpmath, whose differences have fewer digits at extreme scales."""
    price = str(as_test(test).cost(neighbours))
    gap = trees.relative_gap(price, test, replaced=neighbours is REPLACE)
    assert abs(gap) <= 1e-24


# -- the trees that are grown ----------------------------------------------------------------------

ENTROPIES: dict[str, Callable[[], Any]] = {
    "system": OperatingSystemEntropy,
    "seeded": lambda: SeededEntropy(2016),
}
TABLE = (3, 0, 0, 1, 0, 2, 0, 0)
RUNS = 3000


def grown(test: TreeTest, threshold: int, entropy: Any, *, untested: int = 0) -> list[str]:
    points = np.repeat(np.arange(N_POINTS), TABLE).astype(np.int32)[:, np.newaxis]
    question = CellSplits(public_map(LINE, 1), test, untested, threshold)
    records = ArrayRecords(points)
    return [question.answer(records, entropy).splits for _ in range(RUNS)]


@pytest.mark.parametrize("entropy", ENTROPIES)
@pytest.mark.parametrize("name", ["decay above floor", "floor is decay"])
def test_trees_come_with_their_exact_probabilities(name, entropy):
    test = TESTS[name]
    found = grown(as_test(test), test.threshold, ENTROPIES[entropy]())
    assert implausible(found, trees.distribution(TABLE, test)) is None


@pytest.mark.parametrize(
    "fault",
    [{"decay": 0}, {"floor": 0}, {"scale": 0.9}, {"levels": 2}],
    ids=lambda change: next(iter(change)),
)
def test_faulty_trees_are_told_apart(fault):
    test = TESTS["decay above floor"]
    found = grown(replace(as_test(test), **fault), test.threshold, SeededEntropy(1))
    assert implausible(found, trees.distribution(TABLE, test)) is not None


def test_first_levels_are_split_without_a_test():
    test = TESTS["decay above floor"]
    found = grown(as_test(test), test.threshold, SeededEntropy(3), untested=1)
    assert all(tree.startswith("1") for tree in found)
    halves = (TABLE[:4], TABLE[4:])
    chance = math.prod(1.0 - test.splits(sum(half), 0) for half in halves)
    seen = ["bare" if tree == "100" else "more" for tree in found]
    assert implausible(seen, {"bare": chance, "more": 1.0 - chance}) is None


# -- discrete Gaussian noise -----------------------------------------------------------------------

N_DRAWS = 20_000


def gaussian_bins(scale: float) -> dict[int, float]:
    """Return P(z) of every z near 0, and of both tails, by summing the weights in mpmath."""
    far = math.ceil(3 * scale)
    with mpmath.workdps(30):
        weights = {
            z: mpmath.exp(-(mpmath.mpf(z) ** 2) / (2 * mpmath.mpf(scale) ** 2))
            for z in range(-40 * far, 40 * far + 1)
        }
        total = sum(weights.values())
        bins: dict[int, Any] = {}
        for z, weight in weights.items():
            place = max(-far, min(far, z))
            bins[place] = bins.get(place, 0) + weight / total
    return {z: float(chance) for z, chance in bins.items()}


def not_gaussian(noise: np.ndarray, scale: float) -> str | None:
    far = math.ceil(3 * scale)
    return implausible(np.clip(noise, -far, far).tolist(), gaussian_bins(scale))


@pytest.mark.parametrize("entropy", ENTROPIES)
@pytest.mark.parametrize("scale", [0.4, 1.0, 7.5])
def test_noise_is_discrete_gaussian(scale, entropy):
    values = np.arange(N_DRAWS, dtype=np.int64) - 7
    noise = ENTROPIES[entropy]().add_gaussian(values, scale) - values
    assert not_gaussian(noise, scale) is None


@pytest.mark.parametrize("entropy", ENTROPIES)
@pytest.mark.parametrize("factor", [0.7, 1.3])
def test_a_wrong_spread_is_told(entropy, factor):
    noise = ENTROPIES[entropy]().add_gaussian(np.zeros(N_DRAWS, np.int64), 7.5 * factor)
    assert not_gaussian(noise, 7.5) is not None


def test_rounded_continuous_noise_is_told():
    noise = np.rint(np.random.default_rng(0).normal(0, 0.4, N_DRAWS)).astype(np.int64)
    assert not_gaussian(noise, 0.4) is not None
