"""Builders of summaries against plain Python that remembers every record."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

import dpkv
from dpkv.errors import ParameterError, TableError
from dpkv.seeding import BUILDERS, online_kmeans, summarise_stream
from dpkv.seeding.summaries import BLOCK_ROWS

RNG = np.random.default_rng(0)
MIXTURE = RNG.normal(size=(9000, 3)) + 6.0 * RNG.integers(0, 3, (9000, 1))
CIRCLES = np.round(4.0 * RNG.normal(size=(700, 2))) / 4.0  # duplicates, ties, no rounding


def squared(a: np.ndarray, b: np.ndarray) -> float:
    return float(((a - b) ** 2).sum())


@dataclass
class Carrier:
    """A point with the records it carries."""

    place: np.ndarray
    records: list[np.ndarray] = field(default_factory=list)


def nearest(point: np.ndarray, carriers: list[Carrier]) -> Carrier:
    return min(carriers, key=lambda carrier: squared(point, carrier.place))


def reservoir(data: np.ndarray, n: int, seed: int) -> list[Carrier]:
    """The builder's own draws: one uniform number a record."""
    uniforms = np.random.default_rng(seed).random(len(data))
    kept: list[Carrier] = []
    for i, a in enumerate(data):
        slot = len(kept) if len(kept) < n else int(uniforms[i] * (i + 1))
        if slot >= n:
            nearest(a, kept).records.append(a)
            continue
        newcomer = Carrier(a, [a])
        if slot == len(kept):
            kept.append(newcomer)
            continue
        leaving, kept[slot] = kept[slot], newcomer
        stay = [carrier for j, carrier in enumerate(kept) if j != slot] or [newcomer]
        nearest(leaving.place, stay).records += leaving.records
    return kept


def facility(data: np.ndarray, n: int, seed: int) -> list[Carrier]:
    first, again = np.random.default_rng(seed).spawn(2)
    uniforms = first.random(len(data))
    kept: list[Carrier] = []
    cost = 0.0
    for a, u in zip(data, uniforms, strict=True):
        while True:
            best = nearest(a, kept) if kept else None
            gap = np.inf if best is None else squared(a, best.place)
            if not (gap > 0 and u * cost < gap):
                best.records.append(a)
                break
            if len(kept) < n:
                kept.append(Carrier(a, [a]))
                break
            if cost == 0.0:
                gaps = [
                    min(squared(c.place, b.place) for b in kept[:j]) for j, c in enumerate(kept)
                    if j
                ]  # fmt: skip
                cost = sum(gaps) / len(gaps) / 2
            while len(kept) >= n:
                cost *= 2
                served: list[Carrier] = []
                for old, v in zip(kept, again.random(len(kept)), strict=True):
                    heir = nearest(old.place, served) if served else None
                    if heir is None or v * cost < len(old.records) * squared(old.place, heir.place):
                        served.append(old)
                    else:
                        heir.records += old.records
                kept = served
    return kept


REFERENCES = {"reservoir": reservoir, "facility": facility}


def compare(found, expected: list[Carrier]) -> None:
    np.testing.assert_array_equal(found.points, [carrier.place for carrier in expected])
    assert found.weights.tolist() == [len(carrier.records) for carrier in expected]
    spread = sum(squared(a, carrier.place) for carrier in expected for a in carrier.records)
    assert found.spread == pytest.approx(spread, rel=1e-9)


@pytest.mark.parametrize("builder", REFERENCES)
@pytest.mark.parametrize("n", [2, 5, 40])
def test_builders_against_plain_python(builder, n):
    for data in (CIRCLES, MIXTURE[:600]):
        found = summarise_stream(data, n, builder=builder, rng=n)
        compare(found, REFERENCES[builder](data, n, n))


@pytest.mark.parametrize("builder", REFERENCES)
def test_planted_fault_a_stream_read_backwards_shows(builder):
    found = summarise_stream(CIRCLES[::-1].copy(), 5, builder=builder, rng=5)
    with pytest.raises(AssertionError):
        compare(found, REFERENCES[builder](CIRCLES, 5, 5))


def test_planted_fault_records_that_move_without_their_spread_show():
    """What the spread would be if a leaving point handed over its weight and nothing else."""
    kept = reservoir(CIRCLES, 5, 5)
    found = summarise_stream(CIRCLES, 5, builder="reservoir", rng=5)
    compare(found, kept)
    for carrier in kept:
        carrier.records = [carrier.place] * len(carrier.records)
    with pytest.raises(AssertionError):
        compare(found, kept)


@pytest.mark.parametrize("builder", BUILDERS)
@pytest.mark.parametrize("n", [1, 7, 300])
def test_what_every_builder_keeps(builder, n):
    found = summarise_stream(MIXTURE, n, builder=builder, rng=1)
    assert found.builder == builder
    assert 1 <= len(found.points) <= n
    assert found.n_records == len(MIXTURE) == found.weights.sum()
    assert (found.weights >= 1).all()
    exact = dpkv.potential(MIXTURE, found.points)
    assert exact <= found.spread * (1 + 1e-9)  # of the nearest, at most of the carrying ones


def test_the_grid_keeps_the_moments_of_its_cells():
    found = summarise_stream(MIXTURE, 60, builder="grid", rng=1)
    mean = MIXTURE.mean(axis=0)
    np.testing.assert_allclose(found.weights @ found.points / len(MIXTURE), mean, rtol=1e-10)
    between = found.weights @ ((found.points - mean) ** 2).sum(axis=1)
    assert found.spread + between == pytest.approx(((MIXTURE - mean) ** 2).sum(), rel=1e-10)


def test_the_grid_is_no_coarser_than_it_must_be():
    """On a line a grid of n cells that halves when full keeps more than a quarter of them."""
    line = np.random.default_rng(1).uniform(-3, 5, (20_000, 1))
    found = summarise_stream(line, 64, builder="grid", rng=1)
    assert len(found.points) > 16
    assert found.spread < 20_000 * (8.0 / 16) ** 2 / 4


def test_the_grid_follows_records_far_away():
    far = np.vstack([MIXTURE[:500], [[2.0**53, -(2.0**53), 0.0]], MIXTURE[500:900]])
    found = summarise_stream(far, 10, builder="grid", rng=1)
    assert found.weights.sum() == 901
    tiny = summarise_stream(
        np.vstack([np.zeros((50, 2)), np.full((5, 2), 2.0**53)]), 4, builder="grid"
    )
    assert sorted(tiny.weights) == [5, 50]


@pytest.mark.parametrize("builder", BUILDERS)
def test_few_records_are_kept_as_they_are(builder):
    found = summarise_stream(MIXTURE[:50], 50, builder=builder, rng=1)
    np.testing.assert_array_equal(found.points, MIXTURE[:50])
    assert found.weights.tolist() == [1.0] * 50
    assert found.spread == 0.0


@pytest.mark.parametrize("builder", ["facility", "grid"])
def test_duplicates_are_one_point(builder):
    found = summarise_stream(np.repeat([[1.0, 2.0], [3.0, 4.0]], 40, axis=0), 7, builder=builder)
    assert sorted(found.weights) == [40, 40]
    assert found.spread == 0.0


def test_the_facility_builder_spends_points_where_distance_is():
    """A few far records would seldom be in a uniform sample, and cost it dear."""
    rare = np.vstack([RNG.normal(size=(20_000, 2)), 1000.0 + RNG.normal(size=(3, 2))])
    rare = RNG.permutation(rare)
    by_facility = summarise_stream(rare, 30, builder="facility", rng=1).spread
    assert by_facility < 0.1 * summarise_stream(rare, 30, builder="reservoir", rng=1).spread


@pytest.mark.parametrize("builder", BUILDERS)
def test_an_iterator_is_consumed_once_and_chunks_do_not_matter(builder):
    whole = summarise_stream(MIXTURE, 50, builder=builder, rng=3)
    for size in (1, 777, BLOCK_ROWS, len(MIXTURE)):
        once = iter([MIXTURE[i : i + size] for i in range(0, len(MIXTURE), size)])
        found = summarise_stream(once, 50, builder=builder, rng=3)
        assert next(once, None) is None
        np.testing.assert_array_equal(found.points, whole.points)
        np.testing.assert_array_equal(found.weights, whole.weights)
        assert found.spread == whole.spread


def test_refusals():
    with pytest.raises(ParameterError, match="summary_points must be a whole number of at least 1"):
        summarise_stream(MIXTURE, 0)
    with pytest.raises(ParameterError, match="builder must be one of"):
        summarise_stream(MIXTURE, 5, builder="tree")
    with pytest.raises(TableError, match="at least one record"):
        summarise_stream(iter([]), 5)


# -- on-line k-means (Liberty et al.) --------------------------------------------------------------


def on_line(data: np.ndarray, k: int, seed: int, lower_bound: float | None = None):
    """From the paper's pseudocode, with the same uniform numbers."""
    uniforms = np.random.default_rng(seed).random(len(data))
    kept: list[Carrier] = []
    f = 0.0 if lower_bound is None else lower_bound / (k * np.log(len(data)))
    opening, q, phases = lower_bound is None, 0, 1
    for n, (a, u) in enumerate(zip(data, uniforms, strict=True), start=1):
        gap = min((squared(a, c.place) for c in kept), default=np.inf)
        if opening:
            if gap > 0:
                kept.append(Carrier(a, [a]))
                if len(kept) == k + 1:
                    pairs = [squared(b.place, c.place) for b in kept for c in kept if b is not c]
                    f, opening = min(pairs) / 2 / k, False
                continue
        elif u < min(gap / f, 1.0):
            kept.append(Carrier(a, [a]))
            q += 1
            if q >= 3 * k * (1 + np.log(n)):
                q, f, phases = 0, 2 * f, phases + 1
            continue
        nearest(a, kept).records.append(a)
    return kept, phases


@pytest.mark.parametrize("lower_bound", [None, 50.0])
def test_on_line_k_means_against_plain_python(lower_bound):
    data = np.vstack([CIRCLES, MIXTURE[:300, :2]])
    expected, phases = on_line(data, 3, 9, lower_bound)
    found = online_kmeans(data, 3, lower_bound=lower_bound, rng=9)
    np.testing.assert_array_equal(found.centers, [c.place for c in expected])
    assert found.weights.tolist() == [len(c.records) for c in expected]
    cost = sum(squared(a, c.place) for c in expected for a in c.records)
    assert found.cost == pytest.approx(cost)
    assert (found.n_phases, found.n_records) == (phases, len(data))


def test_on_line_k_means_over_blocks_and_few_distinct_records():
    found = online_kmeans(iter(MIXTURE), 4, rng=1)
    assert found.weights.sum() == len(MIXTURE)
    assert len(found.centers) > 5
    assert len(online_kmeans(np.zeros((10, 2)), 4, rng=1).centers) == 1
    with pytest.raises(ParameterError, match="n_records must be given when lower_bound is"):
        online_kmeans(iter(MIXTURE), 4, lower_bound=1.0)
    with pytest.raises(ParameterError, match="lower_bound must be a finite number greater than 0"):
        online_kmeans(MIXTURE, 4, lower_bound=0.0)
