"""What the paper promises of each algorithm, and what Table `tcomp` says of the others.

The first part are the bounds on the expected potential that follow from `thmain`; each is
``expected_potential_bound`` with the bias and the variance of its instance. With an estimated
optimum, stretching or varsigma the result is an estimate of the bound, not the bound.

The second part are the formulas of Table `tcomp`, a function each. Those that the table gives as
O(.) or Omega(.) are evaluated with constant 1 and no lower terms: they are orders of magnitude, not
bounds. Logarithms are natural.
"""

from __future__ import annotations

import math
from typing import SupportsIndex

from dpkv.errors import ParameterError
from dpkv.seeding.potentials import expected_potential_bound
from dpkv.validation import non_negative_finite, positive_finite, whole_number

# -- bounds that follow from thmain ----------------------------------------------------------------


def kmeans_plusplus_bound(n_clusters: SupportsIndex, optimum: float) -> float:
    """Return (2 + log k) 8 phi_opt: identity probe, Dirac density."""
    return expected_potential_bound(n_clusters, optimum)


def protected_bound(n_clusters: SupportsIndex, optimum: float, node_spread: float) -> float:
    """Return `thDKM`, protected: (2 + log k) (10 phi_opt + 6 phi_s^F).

    The bias is at most 2 phi_opt + 2 phi_s^F, and the variance is phi_s^F.
    """
    bias = _moved(optimum, node_spread)
    return expected_potential_bound(n_clusters, optimum, bias=bias, variance=node_spread)


def private_bound(
    n_clusters: SupportsIndex, optimum: float, node_spread: float, variance: float
) -> float:
    """Return `thDKM`, private: (2 + log k) (10 phi_opt + 4 phi_s^F + 2 phi_var)."""
    bias = _moved(optimum, node_spread)
    return expected_potential_bound(n_clusters, optimum, bias=bias, variance=variance)


def streaming_bound(
    n_clusters: SupportsIndex, optimum: float, probe_spread: float, stretching: float
) -> float:
    """Return what the proof of `thSKM` gives: (2 + log k) ((10 + 4 eta) phi_opt + 4 phi_s).

    The bias is at most 2 phi_opt + 2 phi_s^probe and counts twice in `thmain`. The theorem as
    printed has half of that: see ``printed_streaming_bound``.
    """
    bias = _moved(optimum, probe_spread)
    return expected_potential_bound(n_clusters, optimum, bias=bias, stretching=stretching)


def printed_streaming_bound(
    n_clusters: SupportsIndex, optimum: float, probe_spread: float, stretching: float
) -> float:
    """Return `thSKM` as printed: (2 + log k) ((8 + 4 eta) phi_opt + 2 phi_s^probe).

    It takes the bias to be at most phi_opt + phi_s^probe. That holds where every point is the mean
    of the records probed to it and these share an optimal cluster, but the printed proof shows
    only twice as much, so in general the bound is ``streaming_bound``.
    """
    spread = non_negative_finite("probe_spread", probe_spread)
    return expected_potential_bound(
        n_clusters, optimum, bias=optimum + spread, stretching=stretching
    )


def online_bound(n_clusters: SupportsIndex, optimum: float, varsigma: float) -> float:
    """Return `thOKM`: (2 + log k) (4 + 32 / varsigma^2) phi_opt.

    The stretching is 8 / varsigma^2 - 1. A varsigma of 0 (a minibatch that misses a cluster)
    promises nothing: infinity.
    """
    varsigma = non_negative_finite("varsigma", varsigma)
    if varsigma > 1.0:
        raise ParameterError("varsigma", "at most 1", varsigma)
    if varsigma**2 == 0.0:
        return math.inf
    stretching = 8.0 / varsigma**2 - 1.0
    return expected_potential_bound(n_clusters, optimum, stretching=stretching)


def _moved(optimum: float, spread: float) -> float:
    """Return what (x + y)^2 <= 2 x^2 + 2 y^2 makes of records moved by ``spread`` in all."""
    spread = non_negative_finite("spread", spread)
    return 2.0 * spread + 2.0 * non_negative_finite("optimum", optimum)


# -- Table tcomp: distributed, k-means|| (1-4) -----------------------------------------------------


def parallel_communication(n_nodes: int, oversampling: float, single_potential: float) -> float:
    """Return (1), theirs: n^2 l log phi_1."""
    return _count("n_nodes", n_nodes) ** 2 * parallel_points_shared(oversampling, single_potential)


def dk_communication(n_nodes: int, n_clusters: int) -> float:
    """Return (1) and (I), ours: n^2 k."""
    return float(_count("n_nodes", n_nodes) ** 2 * _count("n_clusters", n_clusters))


def parallel_records_a_center(n_records: int) -> float:
    """Return (2), theirs: all m records are looked at for a centre."""
    return float(_count("n_records", n_records))


def dk_records_a_center(n_records: int, smallest_node: int) -> float:
    """Return (2), ours as printed: max_i m / m_i."""
    m, least = _count("n_records", n_records), _count("smallest_node", smallest_node)
    if least > m:
        raise ParameterError("smallest_node", f"at most the number of records, {m}", least)
    return m / least


def parallel_points_shared(oversampling: float, single_potential: float) -> float:
    """Return (3), theirs: l log phi_1, with at least one round."""
    rounds = math.log(positive_finite("single_potential", single_potential))
    return positive_finite("oversampling", oversampling) * max(1.0, rounds)


def dk_points_shared(n_clusters: int) -> float:
    """Return (3) and (II), ours: k."""
    return float(_count("n_clusters", n_clusters))


def parallel_approximation(n_clusters: int, optimum: float) -> float:
    """Return (4), theirs: log(k) phi_opt."""
    return math.log(_count("n_clusters", n_clusters)) * non_negative_finite("optimum", optimum)


# -- Table tcomp: distributed, coresets (I-III) ----------------------------------------------------


def coreset_communication(
    n_nodes: int, n_clusters: int, n_features: int, coreset_eps: float
) -> float:
    """Return (I), theirs: n k d / eps^4 + n^2 k log(n k)."""
    n, k = _count("n_nodes", n_nodes), _count("n_clusters", n_clusters)
    return n * coreset_points_shared(n, k, n_features, coreset_eps)


def coreset_points_shared(
    n_nodes: int, n_clusters: int, n_features: int, coreset_eps: float
) -> float:
    """Return (II), theirs: k d / eps^4 + n k log(n k)."""
    n, k = _count("n_nodes", n_nodes), _count("n_clusters", n_clusters)
    d, eps = _count("n_features", n_features), positive_finite("coreset_eps", coreset_eps)
    return _over(float(k * d), eps, 4) + n * k * math.log(n * k)


def coreset_approximation(n_clusters: int, optimum: float, coreset_eps: float) -> float:
    """Return (III), theirs: (2 + log k) (1 + eps) 8 phi_opt."""
    factor = 1.0 + positive_finite("coreset_eps", coreset_eps)
    return factor * kmeans_plusplus_bound(n_clusters, optimum)


# -- Table tcomp: streams (i, ii) and on-line (a, b) -----------------------------------------------


def sharp_approximation(n_clusters: int, optimum: float, stretching: float) -> float:
    """Return (ii), theirs: (2 + log k) (1 + eta) 32 phi_opt; eta is *their* inner approximation."""
    factor = 1.0 + non_negative_finite("stretching", stretching)
    return 4.0 * factor * kmeans_plusplus_bound(n_clusters, optimum)


def online_facility_approximation(n_records: int, optimum: float) -> float:
    """Return (b), theirs: log(m) phi_opt."""
    return math.log(_count("n_records", n_records)) * non_negative_finite("optimum", optimum)


# -- Table tcomp: differential privacy (A-C, alpha, beta) ------------------------------------------


def sample_aggregate_noise(
    n_clusters: int, eps: float, radius: float, separability: float
) -> float:
    """Return (B), theirs: lambda k R / eps."""
    scale = positive_finite("separability", separability) * _count("n_clusters", n_clusters)
    return _over(scale * positive_finite("radius", radius), positive_finite("eps", eps), 1)


def kvariates_noise(n_records: int, eps: float, radius: float) -> float:
    """Return (B), ours as printed: R / (eps + log m)."""
    log_m = math.log(_count("n_records", n_records))
    return positive_finite("radius", radius) / (positive_finite("eps", eps) + log_m)


def sample_aggregate_approximation(
    n_clusters: int, n_records: int, optimum: float, eps: float, radius: float, separability: float
) -> float:
    """Return (C), theirs: phi_opt + m lambda^2 k R^2 / eps^2."""
    m, k = _count("n_records", n_records), _count("n_clusters", n_clusters)
    spread = positive_finite("separability", separability) * positive_finite("radius", radius)
    noise = m * k * _over(spread, positive_finite("eps", eps), 1) ** 2
    return non_negative_finite("optimum", optimum) + noise


def kvariates_approximation(
    n_clusters: int, n_records: int, optimum: float, eps: float, radius: float
) -> float:
    """Return (C) and (beta), ours as printed: log(k) (phi_opt + m R^2 / (eps + log m)^2)."""
    noise = n_records * kvariates_noise(n_records, eps, radius) ** 2
    total = non_negative_finite("optimum", optimum) + noise
    return math.log(_count("n_clusters", n_clusters)) * total


def subspace_approximation(
    n_clusters: int, n_records: int, optimum: float, eps: float, radius: float
) -> float:
    """Return (beta), theirs: phi_opt + k m log(m) R^2 / eps^2."""
    m, k = _count("n_records", n_records), _count("n_clusters", n_clusters)
    reach = _over(positive_finite("radius", radius), positive_finite("eps", eps), 1)
    return non_negative_finite("optimum", optimum) + k * m * math.log(m) * reach**2


def _count(name: str, value: int) -> int:
    return whole_number(name, value, at_least=1)


def _over(numerator: float, base: float, power: int) -> float:
    """Return numerator / base^power, infinity where it leaves the floats."""
    divisor = base**power
    return numerator / divisor if divisor > 0.0 else math.inf
