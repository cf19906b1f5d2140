"""The paper's calibration, as printed: its Theorems 5 (likelihood ratio), 6 (likelihood ratio for
many records) and 7 (calibrated noise).

It depends on the data (spread and monotonicity are computed from them) and its proof measures
distances to the picked records, so it is offered *as published*: conditional on the data, not an
end-to-end guarantee. Nothing here may be called eps-DP.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpkv.accounting.theorem_a import round_sigma

LABEL = "as published: conditional on the data, not an end-to-end guarantee"
LAPLACE_IS_BETTER = "Laplace mechanism is better here"
_LARGEST_LOG = 709.0  # of a float, rounded down


def log_permutation_factor(n_clusters: int) -> float:
    """Return the logarithm of f(k) = 4^(2k - 4), the paper's price of reordering k picks."""
    return (2 * n_clusters - 4) * math.log(4.0)


@dataclass(frozen=True)
class PublishedEpsilon:
    """eps~ of Theorem 7 (calibrated noise), or why there is none."""

    value: float | None
    note: str
    """Empty, or what a reader must know: where eps~ is undefined or not worth having."""

    @property
    def usable(self) -> float | None:
        """The eps~ that noise can be calibrated to: a positive one."""
        return self.value if self.value is not None and self.value > 0 else None


def published_eps_tilde(
    eps: float, n_clusters: int, spread: float, monotonicity: float
) -> PublishedEpsilon:
    """Return eps~ = log((e^eps - (1+dw)^(k-1)) / (f(k) dw (1+ds)^(k-1))).

    Worked in logarithms, so that large k, eps or spreads do not overflow.
    """
    rounds = n_clusters - 1
    for name, figure in (("spread", spread), ("monotonicity", monotonicity)):
        if not math.isfinite(figure):
            return PublishedEpsilon(
                None, f"eps~ undefined (no finite {name} is known): {LAPLACE_IS_BETTER}"
            )
    log_spent = rounds * math.log1p(spread)
    if eps <= log_spent:
        return PublishedEpsilon(
            None, f"eps~ undefined (e^eps <= (1+dw)^(k-1)): {LAPLACE_IS_BETTER}"
        )
    log_left = eps + math.log(-math.expm1(log_spent - eps))
    value = log_left - _log_price(n_clusters, spread, monotonicity)
    note = LAPLACE_IS_BETTER if value <= eps / n_clusters else ""
    return PublishedEpsilon(value, note)


def _log_price(n_clusters: int, spread: float, monotonicity: float) -> float:
    """Return log(f(k) dw (1+ds)^(k-1))."""
    falls = (n_clusters - 1) * math.log1p(monotonicity)
    return log_permutation_factor(n_clusters) + math.log(spread) + falls


def likelihood_ratio_bound(
    n_clusters: int, spread: float, monotonicity: float, log_density_ratio: float
) -> float:
    """Return (1+dw)^(k-1) + f(k) dw (1+ds)^(k-1) rho(R), the bound of Theorem 5 (likelihood ratio).

    rho(R) is given by its logarithm; the result is infinite where it exceeds every float.
    """
    kept = (n_clusters - 1) * math.log1p(spread)
    changed = _log_price(n_clusters, spread, monotonicity) + log_density_ratio
    return _exp(kept) + _exp(changed)


def _exp(value: float) -> float:
    return math.exp(value) if value < _LARGEST_LOG else math.inf


def sigma_kvariates(diam1: float, eps_tilde: float) -> float:
    """Return sigma_1 = 2 sqrt(2) R / eps~ of Theorem 7; the L1 diameter is the paper's 2 R."""
    return math.sqrt(2.0) * diam1 / eps_tilde


def sigma_laplace(diam1: float, n_clusters: int, eps: float) -> float:
    """Return sigma_2 = 2 sqrt(2) k R / eps, the Laplace mechanism's; rounded up."""
    return round_sigma(n_clusters * diam1, eps)


@dataclass(frozen=True)
class PotentialBounds:
    """The two readings of Phi in Theorem 7; the bound on E[phi] is (2 + log k) times either."""

    printed: float
    """8 (phi_opt + m R^2 / eps~^2): as printed, which forgets a factor 2 and the dimension."""
    dimension_aware: float
    """8 phi_opt + 2 m d sigma^2: what Theorem 1 gives for d independent Laplace variables."""


def potential_bounds(
    optimum: float, n_records: int, n_features: int, sigma: float
) -> PotentialBounds:
    """Return Phi_1 (or Phi_2, for the Laplace mechanism's sigma) in both readings."""
    # printed: R over eps~ (or over eps/k) is sigma / (2 sqrt(2))
    printed = 8.0 * (optimum + n_records * sigma * sigma / 8.0)
    return PotentialBounds(printed, 8.0 * optimum + 2.0 * n_records * n_features * sigma * sigma)


@dataclass(frozen=True)
class SublinearRegime:
    """Where Theorem 6 applies, at its most favourable: a uniform density and delta near 1/2."""

    largest_k: int
    applies: bool
    g: float | None
    """g(m, k, d, R): the likelihood ratio is at most 1 + rho_D^k g with probability 1 - delta."""
    density_ratio: float
    failure_probability: float


def sublinear_regime(
    n_records: int,
    n_clusters: int,
    n_features: int,
    eps_tilde: float | None,
    *,
    density_ratio: float = 1.0,
    failure_probability: float = 0.5,
) -> SublinearRegime:
    """Return Theorem 6's largest k, delta^2 sqrt(m) / (4 rho_D), and its g at noise eps~.

    rho(2R) of product-Laplace noise calibrated to eps~ is exp(2 eps~).
    """
    limit = failure_probability**2 * math.sqrt(n_records) / (4.0 * density_ratio)
    largest = math.floor(limit)
    value: float | None = None
    if eps_tilde is not None:
        log_second = (
            n_clusters * (math.log(64.0) - 2.0 / n_features * math.log(n_clusters))
            + 2.0 * eps_tilde
            - math.log(n_records)
        )
        value = 4.0 / n_records ** (0.25 + 1.0 / (n_features + 1)) + _exp(log_second)
        value = value if math.isfinite(value) else None
    return SublinearRegime(
        largest, n_clusters <= largest, value, density_ratio, failure_probability
    )
