"""Theorem B: what private dk-means++ costs, against the coordinator and all other nodes together.

Setting. Shards of public sizes m_1, ..., m_n; neighbours replace one record *inside a shard*.
Records are on a public grid of squared L2 diameter diam2^2 and L1 diameter diam1, and centers are
clipped to it before distances are measured. In round t > 1 every node sends D_t(A_i) plus discrete
Laplace noise of scale c; a node is picked from the noisy sums; the picked node sends a uniform
record of its shard plus discrete product-Laplace noise of scale b. Then all messages together are
eps-DP with

    eps = (k - 1) diam2^2 / c + k log(1 + (rho - 1) / m_min),    rho = exp(diam1 / b).

Proof. Fix all messages so far, hence the centers. A replaced record changes D_t of one shard by at
most diam2^2, since both distances lie in [0, diam2^2], and of no other; so a round's sums cost
diam2^2 / c. The pick of the node is post-processing of the sums, and uniform in round 1. If another
node is picked, its message does not depend on the replaced record. If the record's own node is,
its message is a uniform mixture of m_i densities of which one has changed, all within a factor rho
of each other: the ratio is at most 1 + (rho - 1) / m_i (Theorem A's argument with v = v' = 1/m_i).
Rounds compose by addition. QED.

A trusted coordinator gets exact sums, learns data, and picks node i in proportion to
W_i = D_t(A_i) + S m_i with a public S > 0. What everybody else sees, the centers and even which
node was picked for each, is then eps-DP:

    eps = (k - 1) diam2^2 / (S m_min) + k log(1 + (rho - 1) / m_min).

Proof. Given the past, node j and center x come next with probability q_j s_j(x), with
q_j = W_j / W and s_j the mean of node j's densities. A replaced record of node i changes W_i by at
most diam2^2 while W_i >= S m_i, so no q_j grows by more than a factor 1 + diam2^2 / (S m_min), and
s_i by no more than 1 + (rho - 1) / m_i, the other s_j not at all: the bound holds term by term, and
so for the sum over j, which is all that somebody sees who does not see the picks.
log(1 + y) <= y. Round 1 picks uniformly. QED.

Both hold for a coordinator that follows the protocol; ``bound_node`` has nodes that see to it.

Where a record may move from one shard to another, two sums and two mixtures change, sizes are no
longer public, and nothing is promised here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from dpkv.accounting import Step, cost_of, laplace_step
from dpkv.accounting.exact import float_above, float_below, upward_decimal
from dpkv.accounting.split import Split
from dpkv.accounting.theorem_a import certify, round_costs
from dpkv.errors import ParameterError
from dpkv.grid import Grid
from dpkv.mechanisms.mechanism import positive_or_pointless
from dpkv.noise import smallest_scale
from dpkv.validation import whole_number

PICK_SHARE = 0.1
"""Of eps, for picking nodes: sums are over whole shards, so a little eps leaves little noise."""
RELATION = "replace-one inside a shard"
FOLLOWS = (
    "the coordinator follows the protocol: one run of the plan's questions and no others; nodes "
    "that are bound to the plan (BoundNode) see to that themselves"
)
TRUSTED_FOLLOWS = (
    "the coordinator follows the protocol: one run of the plan's questions and no others, picks in "
    "proportion to the smoothed sums, and keeps the sums to itself"
)


@dataclass(frozen=True)
class PrivatePlan:
    """Everything public about a run of private dk-means++.

    Either ``sum_scale`` or ``smoothing`` protects the picks of nodes; the other is 0.
    """

    n_clusters: int
    grid: Grid
    shard_sizes: tuple[int, ...]
    noise_scale: float
    sum_scale: float
    """Noise of the sums; 0 sends exact sums, to a trusted coordinator."""
    smoothing: int
    """S, which a trusted coordinator adds for every record of a shard, in squared grid steps."""

    def __post_init__(self) -> None:
        whole_number("k", self.n_clusters, at_least=1)
        whole_number("smoothing", self.smoothing, at_least=0)
        positive_or_pointless(self.noise_scale, self.grid)
        if not self.trusted_coordinator:
            positive_or_pointless(self.sum_scale, self.grid, "sum_scale")

    @classmethod
    def calibrate(
        cls,
        eps: Decimal,
        *,
        n_clusters: int,
        grid: Grid,
        shard_sizes: tuple[int, ...],
        trusted_coordinator: bool = False,
    ) -> PrivatePlan:
        """Return the plan with the least noise that costs at most ``eps``."""
        smallest = min(shard_sizes)
        if smallest < n_clusters:
            raise ParameterError(
                "k", f"at most the smallest shard, {smallest} records", n_clusters, "Merge shards."
            )
        picks, centers = Split.of(eps, PICK_SHARE, 1.0 - PICK_SHARE).parts
        if n_clusters == 1:
            centers = eps
        one_pick = Split.of(picks, 1.0, times=max(1, n_clusters - 1)).parts[0]
        sum_scale, smoothing = 0.0, 0
        if trusted_coordinator:
            smoothing = max(1, math.ceil(grid.diam2_squared / (smallest * Fraction(one_pick))))
        else:
            sum_scale = smallest_scale(grid.diam2_squared, float_below(one_pick))
        certificate = certify(
            float_below(centers), n_records=smallest, n_clusters=n_clusters, gamma=math.inf
        )
        noise_scale = smallest_scale(grid.diam1, certificate.eps_tilde)
        return cls(n_clusters, grid, tuple(shard_sizes), noise_scale, sum_scale, smoothing)

    @property
    def trusted_coordinator(self) -> bool:
        """Whether the coordinator gets exact sums."""
        return self.smoothing > 0

    @property
    def log_ratio(self) -> Fraction:
        """log rho = diam1 / b: what one noisy center may cost on its own (the paper's eps~)."""
        return Fraction(self.grid.diam1) / Fraction(self.noise_scale or 1.0)

    def steps(self) -> tuple[Step, ...]:
        """Return what is spent, part by part."""
        price = round_costs(self.log_ratio, min(self.shard_sizes), math.inf)[0]
        centers = Step("shard-center", price, self.n_clusters)
        return (centers,) if self.n_clusters == 1 else (self._picks(), centers)

    def _picks(self) -> Step:
        times = self.n_clusters - 1
        if self.trusted_coordinator:
            changed = Fraction(self.grid.diam2_squared, self.smoothing * min(self.shard_sizes))
            name = "smoothed-node-pick"
            return Step(name, upward_decimal(changed), times, changed)
        return laplace_step("node-sums", self.grid.diam2_squared, self.sum_scale, times)

    def cost(self) -> Decimal:
        """Return eps of the whole, rounded up."""
        return cost_of(self.steps())

    def to_dict(self) -> dict[str, Any]:
        """Return what is promised, and to whom, as plain JSON values."""
        trusted = self.trusted_coordinator
        return {
            "eps": float_above(self.cost()),
            "neighbours": RELATION,
            "theorem": "B, trusted coordinator" if trusted else "B",
            "protects_against": "the other nodes and everybody else, not the coordinator"
            if trusted
            else "the coordinator and the other nodes together, and everybody else",
            "holds_if": TRUSTED_FOLLOWS if trusted else FOLLOWS,
            "eps_tilde": float(self.log_ratio),
            "noise_scale": self.noise_scale,
            "sum_scale": self.sum_scale,
            "smoothing": self.smoothing,
            "smallest_shard": min(self.shard_sizes),
        }
