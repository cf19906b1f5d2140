"""The published bound by enumeration, against picks in fractions and brute force.

`bruteforce` and the fractions here are written from the paper's definitions and share no code with
dpkv.
"""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest
from support import bruteforce

from dpkv.audits import published_ratio_bound
from dpkv.audits.published_ratio_bound import (
    Instance,
    audit_ratio_bound,
    largest_ratio,
    output_densities,
    random_instance,
    ratio_bound_of,
)

Point = tuple[int, ...]


def squared(a: Point, b: Point) -> int:
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))


def pick_chances(table: list[Point], reference: list[Point]) -> list[Fraction]:
    """Return the chance of every record, by distances to the reference; of none, uniform."""
    nearest = [min((squared(a, c) for c in reference), default=0) for a in table]
    if not any(nearest):
        return [Fraction(1, len(table))] * len(table)
    return [Fraction(near, sum(nearest)) for near in nearest]


def sequences(table: list[Point], k: int) -> dict[tuple[int, ...], Fraction]:
    """Return the chance of every sequence of picks, with distances to the picked records."""
    found: dict[tuple[int, ...], Fraction] = {(): Fraction(1)}
    for _ in range(k):
        longer = {}
        for rows, chance in found.items():
            for row, pick in enumerate(pick_chances(table, [table[r] for r in rows])):
                longer[(*rows, row)] = chance * pick
        found = longer
    assert sum(found.values()) == 1
    return found


def instance_of(
    table: list[Point],
    k: int,
    scale: float,
    outputs: np.ndarray,
    neighbour: list[Point] | None = None,
) -> Instance:
    other = table if neighbour is None else neighbour
    return Instance(
        np.array(table, float), np.array(other, float), k, scale, np.asarray(outputs, float)
    )


TABLES: dict[str, list[Point]] = {
    "line": [(0,), (1,), (5,), (9,)],
    "plane": [(0, 0), (4, 0), (0, 3), (6, 8), (1, 1)],
    "equal records": [(0,), (0,), (7,), (7,)],
    "all equal": [(2, 2), (2, 2), (2, 2)],
    "fewer places than centers": [(0,), (3,), (3,)],
}


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("name", TABLES)
def test_without_noise_outputs_have_the_chances_of_their_picks(name, k):
    """Noise so small that an output gives its records away: densities are chances and add up."""
    table = TABLES[name]
    expected: dict[tuple[Point, ...], Fraction] = defaultdict(Fraction)
    for rows, chance in sequences(table, k).items():
        expected[tuple(table[row] for row in rows)] += chance
    outputs = list(product(sorted(set(table)), repeat=k))
    instance = instance_of(table, k, 1e-4, np.array(outputs))
    for reference in ("picked", "released"):
        found = output_densities(instance.table, instance, reference)
        assert math.fsum(found) == pytest.approx(1.0, abs=1e-12)
        for output, density in zip(outputs, found, strict=True):
            assert density == pytest.approx(float(expected[output]), rel=1e-12, abs=1e-300)


def densities_by_hand(
    table: list[Point], k: int, scale: float, output: np.ndarray, reference: str
) -> float:
    """Return the density of one output up to the noise's normaliser, in 40 digits."""

    def likelihood(x: np.ndarray, a: Point) -> mpmath.mpf:
        gap = mpmath.fsum(abs(mpmath.mpf(float(u)) - v) for u, v in zip(x, a, strict=True))
        return mpmath.exp(-gap / mpmath.mpf(scale))

    with mpmath.workdps(40):
        if reference == "picked":
            terms = [
                mpmath.mpf(chance.numerator)
                / chance.denominator
                * mpmath.fprod(likelihood(x, table[r]) for x, r in zip(output, rows, strict=True))
                for rows, chance in sequences(table, k).items()
            ]
            return float(mpmath.fsum(terms))
        density = mpmath.mpf(1)
        for t in range(k):
            centers = [tuple(Fraction(float(v)) for v in x) for x in output[:t]]
            chances = pick_chances(table, centers)  # type: ignore[arg-type]
            density *= mpmath.fsum(
                mpmath.mpf(c.numerator) / c.denominator * likelihood(output[t], a)
                for c, a in zip(chances, table, strict=True)
            )
        return float(density)


@pytest.mark.parametrize("reference", ["picked", "released"])
@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("name", TABLES)
def test_noisy_outputs_against_fractions(name, k, reference):
    table, rng = TABLES[name], np.random.default_rng(k)
    outputs = rng.integers(-20, 60, (4, k, len(table[0]))) / 4.0
    outputs[0] = table[0]
    instance = instance_of(table, k, 2.5, outputs)
    found = output_densities(instance.table, instance, reference)
    expected = [densities_by_hand(table, k, 2.5, output, reference) for output in outputs]
    assert found == pytest.approx(expected, rel=1e-12)


def test_the_ratio_is_that_of_the_neighbour_over_the_table():
    table, neighbour = [(0,), (0,), (0,)], [(0,), (0,), (9,)]
    outputs = np.array([[[9.0]], [[0.0]]])
    there = instance_of(table, 1, 1.0, outputs, neighbour)
    back = instance_of(neighbour, 1, 1.0, outputs, table)
    rho = math.exp(9)
    for reference in ("picked", "released"):
        assert largest_ratio(there, reference=reference) == pytest.approx((2 + rho) / 3)
        assert largest_ratio(back, reference=reference) == pytest.approx(3 / (2 + 1 / rho))


def test_with_distances_to_the_picked_records_the_outputs_say_nothing_of_later_picks():
    """The two references differ: an output may lie far from the record it came from."""
    table = [(0,), (1,), (9,)]
    outputs = np.array([[[9.0], [0.0]]])
    instance = instance_of(table, 2, 3.0, outputs)
    one, other = (output_densities(instance.table, instance, r) for r in ("picked", "released"))
    assert abs(one[0] / other[0] - 1) > 0.05


# -- the bound -------------------------------------------------------------------------------------


def bound_by_hand(instance: Instance) -> float:
    """(1+dw)^(k-1) + 4^(2k-4) dw (1+ds)^(k-1) rho, dw = R^2 / the least remaining potential."""
    d, k = instance.table.shape[1], instance.n_clusters
    spread = d / bruteforce.least_remaining(instance.table, k - 1)
    fall = bruteforce.monotonicity(instance.table, k)
    rho = math.exp(d / instance.scale)
    later = spread * (1 + fall) ** (k - 1)
    return (1 + spread) ** (k - 1) + 4.0 ** (2 * k - 4) * later * rho


def test_the_bound_against_brute_force():
    rng = np.random.default_rng(11)
    compared = 0
    for _ in range(40):
        instance = random_instance(rng)
        bound = ratio_bound_of(instance)
        if len(instance.table) <= 5 and math.isfinite(bound):
            assert bound == pytest.approx(bound_by_hand(instance), rel=1e-6)
            compared += 1
    assert compared > 15


def test_no_bound_where_a_table_has_too_few_places():
    outputs = np.zeros((1, 2, 1))
    assert ratio_bound_of(instance_of([(0,), (1,), (1,)], 2, 1.0, outputs)) == math.inf


def test_instances_are_small_tables_of_the_unit_cube_and_their_neighbours():
    rng = np.random.default_rng(0)
    shapes = set()
    for _ in range(200):
        instance = random_instance(rng)
        m, d = instance.table.shape
        shapes.add((m, d, instance.n_clusters))
        assert 3 <= m <= 6
        for table in (instance.table, instance.neighbour):
            assert table.min() >= 0 and table.max() <= 1
        assert (instance.table != instance.neighbour).any(axis=1).sum() <= 1
        assert instance.outputs.shape[1:] == (instance.n_clusters, d)
        assert 0.1 <= instance.scale <= 10
    assert len(shapes) == 4 * 2 * 2


# -- the audit -------------------------------------------------------------------------------------


def test_the_audit_repeats_itself_and_follows_its_seed():
    once, again, other = (audit_ratio_bound(15, seed) for seed in (3, 3, 4))
    assert once == again
    assert once.tightest != other.tightest
    assert once.instances == 15


def test_the_bound_is_not_exceeded_by_picked_references():
    found = audit_ratio_bound(60, seed=1)
    assert found.violations == 0
    assert 0 < found.tightest <= 1


def test_planted_fault_a_bound_divided_by_a_hundred_is_counted(monkeypatch):
    monkeypatch.setattr(
        published_ratio_bound, "ratio_bound_of", lambda instance: ratio_bound_of(instance) / 100
    )
    found = audit_ratio_bound(100, seed=0)
    assert found.violations > 0
    assert found.tightest > 1
    assert found.violations_as_run > 0


def test_the_tightest_ratio_is_the_largest_over_all_instances():
    rng, largest, counted = np.random.default_rng(8), 0.0, 0
    while counted < 12:
        instance = random_instance(rng)
        if math.isfinite(ratio_bound_of(instance)):
            counted += 1
            largest = max(
                largest, largest_ratio(instance, reference="picked") / ratio_bound_of(instance)
            )
    assert audit_ratio_bound(12, seed=8).tightest == largest
