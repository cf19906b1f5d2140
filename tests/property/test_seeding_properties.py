"""What must hold for every table, every k and every instance of Algorithm 0."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import dpkv
from dpkv.distortions import (
    SQUARED_EUCLIDEAN,
    ItakuraSaito,
    KullbackLeibler,
    TotalJensen,
    burg,
    negative_entropy,
)
from dpkv.domain import data_domain
from dpkv.seeding import (
    CallableDensity,
    Dirac,
    Gaussian,
    MinibatchProbe,
    NearestPointProbe,
    ProductLaplace,
    UniformOnSubset,
)

LIMIT = 2.0**53
RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

anything = st.floats(-LIMIT, LIMIT, width=32) | st.floats(-100, 100, width=32)
few = st.integers(-2, 2).map(float)  # many duplicates
positive = st.floats(2.0**-10, 2.0**10, width=32)
seeds = st.integers(0, 2**32)


def tables(elements: st.SearchStrategy[float]) -> st.SearchStrategy[np.ndarray]:
    shapes = st.tuples(st.integers(1, 12), st.integers(1, 4))
    dtypes = st.sampled_from([np.float32, np.float64])
    return st.tuples(dtypes, shapes).flatmap(lambda spec: arrays(*spec, elements=elements))


@st.composite
def tables_with_k(draw, elements=anything | few):
    data = draw(tables(elements))
    return data, draw(st.integers(1, len(data)))


@st.composite
def weights_for(draw, m: int):
    weight = draw(arrays(float, m, elements=st.sampled_from([0.0, 0.5, 1.0, 3.0])))
    weight[draw(st.integers(0, m - 1))] = 1.0
    return draw(st.none() | st.just(weight))


@st.composite
def instances(draw, data: np.ndarray):
    """Keywords of kvariates that suit the data."""
    m = len(data)
    labels = arrays(np.int64, m, elements=st.integers(1, 4))
    noise = st.sampled_from([0.0, 1e-3, 10.0])
    densities = st.one_of(
        st.just(Dirac()),
        noise.map(ProductLaplace),
        noise.map(Gaussian),
        labels.map(UniformOnSubset),
        st.just(CallableDensity(lambda record, _rng: record[::-1])),
    )
    probes = st.none() | labels.map(MinibatchProbe) | st.just(NearestPointProbe(data[: 1 + m // 3]))
    domain = draw(st.none() | st.just(data_domain(data)))
    return {
        "density": draw(densities),
        "probe": draw(probes),
        "domain": domain,
        "gamma": draw(st.sampled_from([0.0, np.inf] if domain is None else [0.0, 0.1, np.inf])),
        "reference": draw(st.sampled_from(["released", "picked"])),
        "sample_weight": draw(weights_for(m)),
        "first_weight": draw(weights_for(m)),
    }


@RELAXED
@given(st.data())
def test_no_instance_crashes(data_source):
    data, k = data_source.draw(tables_with_k())
    options = data_source.draw(instances(data))
    seeding = dpkv.kvariates(data, k, rng=data_source.draw(seeds), **options)
    assert seeding.centers.shape == seeding.draws.shape == (k, data.shape[1])
    assert seeding.centers.dtype == data.dtype
    assert np.isfinite(seeding.centers).all()
    assert ((seeding.indices >= 0) & (seeding.indices < len(data))).all()
    assert set(seeding.uniform_rounds) <= set(range(2, k + 1))
    weight, opening = options["sample_weight"], options["first_weight"]
    if weight is not None:
        assert (weight[seeding.indices[1:]] > 0).all()
    if opening is not None:
        assert opening[seeding.indices[0]] > 0
    if options["domain"] is not None:
        assert (seeding.centers >= data.min(axis=0)).all()
        assert (seeding.centers <= data.max(axis=0)).all()


@RELAXED
@given(
    tables_with_k(positive),
    st.sampled_from(
        [
            KullbackLeibler(),
            ItakuraSaito(),
            TotalJensen(negative_entropy, 0.3),
            TotalJensen(burg, 0.7),
            TotalJensen(),
        ]
    ),
    seeds,
)
def test_no_distortion_crashes(table, distortion, seed):
    data, k = table
    seeding = dpkv.kvariates(data, k, distortion=distortion, rng=seed)
    np.testing.assert_array_equal(seeding.centers, data[seeding.indices])
    assert dpkv.potential(data, seeding.centers, distortion=distortion) >= 0.0


@RELAXED
@given(tables_with_k(), seeds)
def test_kmeans_plusplus_returns_the_records_it_picked(table, seed):
    data, k = table
    centers, indices = dpkv.kmeans_plusplus(data, k, rng=seed)
    np.testing.assert_array_equal(centers, data[indices])


@RELAXED
@given(tables(anything | few), st.integers(0, 3), seeds)
def test_kmeans_plusplus_covers_few_distinct_records(data, spare, seed):
    k = min(len(data), len(np.unique(data, axis=0)) + spare)
    centers, _ = dpkv.kmeans_plusplus(data, k, rng=seed)
    assert dpkv.potential(data, centers) == 0.0


@RELAXED
@given(tables_with_k(few | st.floats(-100, 100, width=32)), seeds)
def test_without_smoothing_no_record_is_picked_twice_before_all_are_covered(table, seed):
    data, k = table
    seeding = dpkv.kvariates(data, k, rng=seed)
    decided = min(seeding.uniform_rounds, default=k + 1) - 1
    rows = data[seeding.indices[:decided]]
    assert len(np.unique(rows, axis=0)) == decided


@RELAXED
@given(st.data())
def test_lloyd_never_raises_the_potential(data_source):
    data, k = data_source.draw(tables_with_k())
    weight = data_source.draw(weights_for(len(data)))
    centers = dpkv.forgy(data, k, rng=data_source.draw(seeds))[0]
    before = dpkv.potential(data, centers, sample_weight=weight)
    for steps in (1, 2, 50):
        end = dpkv.lloyd(data, centers, sample_weight=weight, max_iterations=steps, tolerance=0.0)
        assert end.potential <= before
        assert end.potential == dpkv.potential(data, end.centers, sample_weight=weight)
        before = end.potential


@RELAXED
@given(tables_with_k(), st.randoms(use_true_random=False), seeds)
def test_columns_may_come_in_any_order(table, random, seed):
    data, k = table
    centers, _ = dpkv.forgy(data, k, rng=seed)
    order = random.sample(range(data.shape[1]), data.shape[1])
    expected = dpkv.potential(data, centers)
    permuted = dpkv.potential(data[:, order], centers[:, order])
    assert permuted == pytest.approx(expected, rel=1e-5)  # float32 sums in another order


@RELAXED
@given(tables_with_k(), st.integers(-30, 30), seeds, st.data())
def test_only_ratios_of_weights_matter(table, exponent, seed, data_source):
    data, k = table
    weight = data_source.draw(weights_for(len(data)))
    weight = np.ones(len(data)) if weight is None else weight
    scaled = weight * 2.0**exponent  # a power of two changes no rounding
    plain = dpkv.kvariates(data, k, sample_weight=weight, rng=seed)
    again = dpkv.kvariates(data, k, sample_weight=scaled, rng=seed)
    np.testing.assert_array_equal(plain.indices, again.indices)
    assert plain.uniform_rounds == again.uniform_rounds


@RELAXED
@given(tables_with_k(), seeds, st.data())
def test_records_without_weight_do_not_count(table, seed, data_source):
    data, k = table
    weight = data_source.draw(weights_for(len(data)))
    centers, _ = dpkv.forgy(data, k, rng=seed)
    kept = np.ones(len(data), bool) if weight is None else weight > 0
    counted = None if weight is None else weight[kept]
    expected = dpkv.potential(data[kept], centers, sample_weight=counted)
    found = dpkv.potential(data, centers, sample_weight=weight, distortion=SQUARED_EUCLIDEAN)
    assert found == pytest.approx(expected, rel=1e-9)
