"""What must hold of Theorem A's solver for every eps, m, k and gamma."""

from __future__ import annotations

import math

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from support.bruteforce import affordable

from dpkv.calibration import certify, uniform_pick_ceiling

often = settings(deadline=None, max_examples=100)

epsilons = st.floats(0.01, 10) | st.floats(1e-300, 1e4)
record_counts = st.integers(1, 1000) | st.integers(1, 10**30)
cluster_counts = st.integers(1, 30)
gammas = st.floats(0.01, 1) | st.floats(1e-12, 1e12) | st.just(math.inf)


def eps_tilde(eps: float, m: int, k: int, gamma: float) -> float:
    return certify(eps, n_records=m, n_clusters=k, gamma=gamma).eps_tilde


@often
@example(eps=2.171992918391044e-163, m=2, k=1, gamma=math.inf)  # 2 eps costs eps + eps^2 / 2
@given(epsilons, record_counts, cluster_counts, gammas)
def test_never_costs_more_than_eps_and_lies_between_its_bounds(eps, m, k, gamma):
    assume(k <= m)
    certificate = certify(eps, n_records=m, n_clusters=k, gamma=gamma)
    assert affordable(eps, certificate.eps_tilde, m, k, gamma)
    above = math.nextafter(certificate.eps_tilde, math.inf)
    assert not affordable(eps, above, m, k, gamma, kept_back="1e-45")
    assert certificate.spent <= eps
    assert certificate.eps_tilde >= math.nextafter(eps / k, 0.0)
    assert certificate.eps_tilde <= uniform_pick_ceiling(eps, m) * (1 + 1e-14)


@often
@given(st.tuples(epsilons, epsilons), record_counts, cluster_counts, gammas)
def test_grows_with_eps(pair, m, k, gamma):
    assume(k <= m)
    low, high = sorted(pair)
    assert eps_tilde(low, m, k, gamma) <= eps_tilde(high, m, k, gamma)


@often
@given(epsilons, record_counts, st.tuples(cluster_counts, cluster_counts), gammas)
def test_falls_with_k(eps, m, pair, gamma):
    few, many = sorted(pair)
    assume(many <= m)
    assert eps_tilde(eps, m, few, gamma) >= eps_tilde(eps, m, many, gamma)


@often
@given(epsilons, st.tuples(record_counts, record_counts), cluster_counts, gammas)
def test_grows_with_m(eps, pair, k, gamma):
    few, many = sorted(pair)
    assume(k <= few)
    assert eps_tilde(eps, few, k, gamma) <= eps_tilde(eps, many, k, gamma)


@often
@given(epsilons, record_counts, cluster_counts, st.tuples(gammas, gammas))
def test_grows_with_gamma(eps, m, k, pair):
    assume(k <= m)
    low, high = sorted(pair)
    assert eps_tilde(eps, m, k, low) <= eps_tilde(eps, m, k, high)
