"""sk-means++, k-means# and ok-means++ over streams; stretching and varsigma by brute force."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from support import enumeration

import dpkv
from dpkv.errors import ParameterError, TableError, UsageError
from dpkv.seeding import (
    BUILDERS,
    IdentityProbe,
    NearestPointProbe,
    OkMeans,
    estimate_optimum,
    estimate_stretching,
    estimate_varsigma,
    kmeans_sharp,
    ok_means,
    sharp_stream,
    sk_means,
    stream_potentials,
    summarise_stream,
)
from dpkv.seeding.kmeans_sharp import centers_a_round

RNG = np.random.default_rng(0)
MIXTURE = RNG.normal(size=(6000, 2)) + 20.0 * RNG.integers(0, 4, (6000, 1))
TINY = [(0.0, 0.0), (0.5, 0.0), (4.0, 1.0), (4.0, 2.0), (9.0, 0.0), (9.5, 0.5), (8.0, 0.5)]


# -- sk-means++ ------------------------------------------------------------------------------------


@pytest.mark.parametrize("builder", BUILDERS)
def test_centers_are_summary_points_and_a_second_pass_measures(builder):
    found = sk_means(MIXTURE, 4, summary_points=80, builder=builder, second_pass=True, rng=1)
    np.testing.assert_array_equal(found.centers, found.summary.points[found.indices])
    assert found.potential == pytest.approx(dpkv.potential(MIXTURE, found.centers))
    assert found.spread == pytest.approx(dpkv.potential(MIXTURE, found.summary.points))
    assert found.spread_is_exact
    assert found.spread <= found.summary.spread
    assert found.uniform_rounds == ()


def test_one_pass_over_an_iterator_leaves_what_only_two_can_tell():
    once = iter(MIXTURE)
    found = sk_means(once, 4, rng=1)
    assert next(once, None) is None
    assert found.potential is None
    assert not found.spread_is_exact
    assert found.spread == found.summary.spread
    np.testing.assert_array_equal(found.centers, sk_means(MIXTURE, 4, rng=1).centers)


def test_good_summaries_seed_about_as_well_as_the_records():
    optimum = estimate_optimum(MIXTURE, 4, rng=1).potential
    phis = [
        sk_means(MIXTURE, 4, summary_points=200, second_pass=True, rng=s).potential
        for s in range(20)
    ]
    assert np.mean(phis) <= 8 * (2 + math.log(4)) * optimum


def test_bounds_of_a_seeding():
    found = sk_means(MIXTURE, 4, summary_points=80, rng=1)
    s, factor = found.spread, 2 + math.log(4)
    assert found.guarantee(7.0, 0.5) == pytest.approx(factor * (12 * 7 + 4 * s))
    assert found.guarantee(7.0, 0.5, as_printed=True) == pytest.approx(factor * (10 * 7 + 2 * s))


def test_refusals_of_sk_means():
    with pytest.raises(ParameterError, match="summary_points must be a whole number of at least 4"):
        sk_means(MIXTURE, 4, summary_points=3)
    with pytest.raises(ParameterError, match="n_clusters must be at most the number of records, 2"):
        sk_means(MIXTURE[:2], 3)
    with pytest.raises(ParameterError, match="at most the number of distinct records, 1"):
        sk_means(np.zeros((9, 2)), 3)
    with pytest.raises(ParameterError, match="summary_points must be large enough for 2 points"):
        sk_means(MIXTURE, 2, summary_points=2, rng=1)
    with pytest.raises(UsageError, match="the stream can be read only once"):
        sk_means(iter(MIXTURE), 2, second_pass=True)
    with pytest.raises(ParameterError, match="opening must be one of"):
        sk_means(MIXTURE, 2, opening="node")


def test_potentials_of_several_sets_in_one_pass():
    sets = [MIXTURE[:1], MIXTURE[:5]]
    found = stream_potentials(iter(MIXTURE), *sets)
    assert found == pytest.approx([dpkv.potential(MIXTURE, centers) for centers in sets])


# -- stretching ------------------------------------------------------------------------------------


def stretch(cluster, probed, centers) -> float:
    """The smallest eta of Definition 1 (stretching) for one cluster and one set of centers."""
    largest = 0.0
    for i, a in enumerate(cluster):
        apart = enumeration.potential(probed, [probed[i]])
        if apart == 0:
            continue
        left = enumeration.potential(cluster, centers) / enumeration.potential(cluster, [a])
        right = enumeration.potential(probed, centers) / apart
        if left > 0:
            largest = max(largest, left / right - 1 if right else math.inf)
    return largest


POINTS = [(0.25, 0.25), (3.0, 1.0), (4.5, 2.0), (8.5, 0.0), (9.5, 0.75), (-1.0, 0.5)]
_, OPTIMAL = enumeration.optimum(TINY, 3)


def test_stretching_is_from_below_and_comes_close():
    probed = [enumeration.closest(a, POINTS) for a in TINY]
    clusters = [
        [i for i, a in enumerate(TINY) if enumeration.closest(a, OPTIMAL) == c] for c in OPTIMAL
    ]
    candidates = {*TINY, *probed}
    sets = [c for size in (1, 2, 3) for c in combinations(sorted(candidates), size)]
    truth = max(
        stretch([TINY[i] for i in A], [probed[i] for i in A], list(centers))
        for A in clusters
        for centers in sets
    )
    found = estimate_stretching(
        TINY, NearestPointProbe(np.array(POINTS)), OPTIMAL, n_sets=600, rng=1
    )
    assert 0 < found.eta <= truth
    assert found.eta == truth == math.inf  # three centers cover what a cluster is probed to
    few = estimate_stretching(TINY, NearestPointProbe(np.array(POINTS)), OPTIMAL, n_sets=1, rng=5)
    assert few.eta < truth
    assert "from below" in few.label


def test_stretching_of_one_cluster_by_brute_force():
    """With one center every set is a single point, and the enumeration is complete."""
    probed = [enumeration.closest(a, POINTS) for a in TINY]
    optimal = [tuple(np.mean(TINY, axis=0))]
    points = sorted({*TINY, *probed})
    truth = max(stretch(TINY, probed, [c]) for c in points)
    found = estimate_stretching(
        TINY, NearestPointProbe(np.array(POINTS)), optimal, n_sets=300, rng=1
    )
    assert found.eta == pytest.approx(truth)


def test_identity_does_not_stretch():
    found = estimate_stretching(MIXTURE, IdentityProbe(), MIXTURE[:4], n_sets=20, rng=1)
    assert found.eta == pytest.approx(0.0, abs=1e-9)


def test_fine_summaries_stretch_less():
    optimal = estimate_optimum(MIXTURE, 4, rng=1).centers

    def eta(n: int) -> float:
        probe = NearestPointProbe(summarise_stream(MIXTURE, n, rng=1).points)
        return estimate_stretching(MIXTURE, probe, optimal, n_sets=30, rng=1).eta

    assert eta(1500) < eta(30)


# -- k-means# --------------------------------------------------------------------------------------


def test_kmeans_sharp_picks_distinct_rows():
    rows = kmeans_sharp(MIXTURE, 8, rng=1)
    assert 8 < len(rows) == len(set(rows.tolist())) <= 8 * centers_a_round(8) == 72
    assert len(kmeans_sharp(MIXTURE, 1, rng=1)) == 1
    assert len(kmeans_sharp(np.zeros((5, 1)), 3, rng=1)) <= 5


def test_kmeans_sharp_over_blocks_holds_little():
    once = iter(MIXTURE)
    found = sharp_stream(once, 4, block_rows=100, rng=1)
    assert next(once, None) is None
    assert (found.n_records, found.n_blocks) == (6000, 60)
    assert found.most_held <= 100 + 4 * centers_a_round(4)
    assert (
        dpkv.potential(MIXTURE, found.centers) < 100 * estimate_optimum(MIXTURE, 4, rng=1).potential
    )
    np.testing.assert_array_equal(
        sharp_stream(MIXTURE, 4, block_rows=100, rng=1).centers, found.centers
    )
    with pytest.raises(ParameterError, match="block_rows must be at least 48"):
        sharp_stream(MIXTURE, 4, block_rows=47)
    with pytest.raises(ParameterError, match="at most the number of records, 3"):
        sharp_stream(MIXTURE[:3], 4)


# -- ok-means++ ------------------------------------------------------------------------------------


def test_a_center_a_minibatch():
    seen: list[int] = []
    found = ok_means(MIXTURE, 7, after_batch=lambda centers: seen.append(len(centers)), rng=1)
    assert seen == list(range(1, 8))
    assert found.n_records == 6000
    assert set(found.batch_sizes) == {857, 858}
    np.testing.assert_array_equal(found.centers, MIXTURE[found.indices])
    starts = np.concatenate([[0], np.cumsum(found.batch_sizes)])
    assert ((starts[:-1] <= found.indices) & (found.indices < starts[1:])).all()
    once = ok_means(iter(MIXTURE), 7, n_records=6000, rng=1)
    np.testing.assert_array_equal(once.centers, found.centers)


def test_minibatches_by_size_and_in_steps():
    found = ok_means(iter(MIXTURE), batch_rows=2500, rng=1)
    assert found.batch_sizes == (2500, 2500, 1000)
    seeder = OkMeans(1)
    for start in (0, 2500, 5000):
        assert seeder.partial_fit(MIXTURE[start : start + 2500]) is seeder
    np.testing.assert_array_equal(seeder.centers, found.centers)
    assert found.guarantee(3.0, 1.0) == pytest.approx((2 + math.log(3)) * 36 * 3.0)


def test_a_minibatch_of_centers_picks_uniformly():
    found = ok_means(np.zeros((6, 2)), 3, rng=1)
    assert found.uniform_rounds == (2, 3)


def test_refusals_of_ok_means():
    for options in ({}, {"n_clusters": 2, "batch_rows": 3}):
        with pytest.raises(ParameterError, match="batch_rows must be given, or else n_clusters"):
            ok_means(MIXTURE, **options)
    with pytest.raises(ParameterError, match="n_records must be given with n_clusters"):
        ok_means(iter(MIXTURE), 3)
    with pytest.raises(ParameterError, match=r"which has more records\. Got 5"):
        ok_means(iter(MIXTURE), 3, n_records=5)
    with pytest.raises(ParameterError, match=r"which has 6000 records\. Got 7000"):
        ok_means(iter(MIXTURE), 3, n_records=7000)
    with pytest.raises(ParameterError, match="at most the number of records"):
        ok_means(MIXTURE[:2], 3)
    with pytest.raises(ParameterError, match="batch must be 2 columns wide"):
        OkMeans(1).partial_fit(MIXTURE).partial_fit(MIXTURE[:, :1])
    with pytest.raises(TableError, match="at least one record"):
        ok_means(iter([]), batch_rows=2)


# -- varsigma --------------------------------------------------------------------------------------


def test_varsigma_by_brute_force():
    """One cluster of all records, one center: every set that can be sampled is enumerated."""
    batches = [1, 2, 1, 2, 1, 2, 2]
    mean = [tuple(np.mean(TINY, axis=0))]
    found = estimate_varsigma(TINY, batches, mean, n_sets=300, rng=1)
    pairs = [enumeration.squared(a, b) for a in TINY for b in TINY]  # ordered
    wide = sum(pairs) / (math.comb(7, 2) * max(pairs))
    assert found.wide == pytest.approx(wide)
    shares = [
        sum(enumeration.squared(a, c) for a, b in zip(TINY, batches, strict=True) if b == j)
        / sum(enumeration.squared(a, c) for a in TINY)
        for c in TINY
        for j in (1, 2)
    ]
    assert found.accurate == pytest.approx(min(shares))
    assert found.varsigma == min(found.wide, found.accurate)
    assert "from above" in found.label


def test_a_minibatch_without_a_cluster_promises_nothing():
    sorted_stream = MIXTURE[np.argsort(MIXTURE[:, 0])]
    batches = np.repeat([1, 2, 3], 2000)
    optimal = estimate_optimum(MIXTURE, 4, rng=1).centers
    found = estimate_varsigma(sorted_stream, batches, optimal, n_sets=4, rng=1)
    assert found.varsigma == 0.0
    mixed = estimate_varsigma(MIXTURE, batches, optimal, n_sets=4, rng=1)
    assert 0 < mixed.varsigma < 1
    # Above 2000 records the diameter is bounded, by at most twice itself.
    exact = max(math.sqrt(((MIXTURE - a) ** 2).sum(axis=1).max()) for a in MIXTURE)
    known = estimate_varsigma(MIXTURE, batches, optimal, diameter=exact, n_sets=4, rng=1)
    assert known.wide / 4 <= mixed.wide <= known.wide
    with pytest.raises(ParameterError, match="batches must be one number per record"):
        estimate_varsigma(MIXTURE, [1, 2], optimal)
