"""The formulas of Table 1 (comparison), a function each.

Those that the table gives as O(.) or Omega(.) are evaluated with constant 1 and no lower terms:
they are orders of magnitude, not bounds. Logarithms are natural.
"""

from __future__ import annotations

import math

from dpkv.errors import ParameterError
from dpkv.seeding.approximation_guarantees import kmeans_plusplus_guarantee
from dpkv.validation import non_negative_finite, positive_finite, whole_number

# -- distributed, k-means|| (1-4) -----------------------------------------------------


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


# -- distributed, coresets (I-III) ----------------------------------------------------


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
    return factor * kmeans_plusplus_guarantee(n_clusters, optimum)


# -- streams (i, ii) and on-line (a, b) -----------------------------------------------


def sharp_approximation(n_clusters: int, optimum: float, stretching: float) -> float:
    """Return (ii), theirs: (2 + log k) (1 + eta) 32 phi_opt; eta is *their* inner approximation."""
    factor = 1.0 + non_negative_finite("stretching", stretching)
    return 4.0 * factor * kmeans_plusplus_guarantee(n_clusters, optimum)


def online_facility_approximation(n_records: int, optimum: float) -> float:
    """Return (b), theirs: log(m) phi_opt."""
    return math.log(_count("n_records", n_records)) * non_negative_finite("optimum", optimum)


# -- differential privacy (A-C, alpha, beta) ------------------------------------------


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
