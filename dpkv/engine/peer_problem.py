"""The algorithms that run over nodes, by name, as problems that trials can run."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from dpkv.domain import Domain
from dpkv.engine.comparators import SharedSeeding, coreset_seeding, kmeans_parallel, uniform_records
from dpkv.engine.dkmeans import dk_private, dk_protected, partitioned_kmeans_plusplus
from dpkv.engine.peers import Peers
from dpkv.engine.private_plan import PrivatePlan
from dpkv.mechanisms.mechanism import GRID_STEPS, Noise
from dpkv.noise import SeededEntropy
from dpkv.seeding.approximation_guarantees import dk_private_guarantee, dk_protected_guarantee
from dpkv.seeding.potentials import LloydResult
from dpkv.seeding.trials import Found, Trials
from dpkv.theorems import DISTRIBUTED
from dpkv.types import Floats, Progress


@dataclass(frozen=True, eq=False)
class PeerProblem:
    """A simulation of an algorithm over nodes; ``plan`` and ``domain`` serve dk-private."""

    peers: Peers
    algorithm: str
    plan: PrivatePlan | None = None
    domain: Domain | None = None
    coreset_size: int | None = None

    @property
    def n_records(self) -> int:
        """Number of records of all nodes."""
        return self.peers.n_records

    def seed(self, n_clusters: int, rng: np.random.Generator, progress: Progress) -> Found:
        """Run the algorithm once."""
        peers = self.peers
        if self.algorithm == "dk-private":
            return self._simulate_private(rng, progress)
        if self.algorithm == "dk-protected":
            run = rng.bytes(16).hex()
            seeding = dk_protected(peers, n_clusters, rng=rng, run=run, progress=progress)
            return Found(seeding.centers, {"nodes": seeding.indices.tolist()})
        if self.algorithm == "kmeans-parallel":
            return _tell_shared(kmeans_parallel(peers, n_clusters, rng=rng, progress=progress))
        if self.algorithm == "coreset":
            return _tell_shared(coreset_seeding(peers, n_clusters, size=self.coreset_size, rng=rng))
        if self.algorithm == "forgy":
            return Found(uniform_records(peers, n_clusters, rng))
        seeding = partitioned_kmeans_plusplus(peers, n_clusters, rng=rng, progress=progress)
        return Found(seeding.centers)

    def _simulate_private(self, rng: np.random.Generator, progress: Progress) -> Found:
        """Simulate the private protocol: the coordinator draws from ``rng``, too."""
        assert self.plan is not None and self.domain is not None
        entropy = SeededEntropy(int(rng.integers(2**63)))
        run = rng.bytes(16).hex()
        seeding = dk_private(self.peers, self.plan, below=entropy.below, run=run, progress=progress)
        centers = self.domain.to_working(self.plan.grid.restore(seeding.centers.astype(np.int64)))
        return Found(centers, {"nodes": seeding.indices.tolist()})

    def potential(self, centers: Floats) -> float:
        """Return phi of all records."""
        return self.peers.potential(centers)

    def lloyd(self, centers: Floats, progress: Progress) -> LloydResult:
        """Run Lloyd's iterations on all records."""
        return self.peers.lloyd(centers, progress)


def private_problem(
    peers: Peers, domain: Domain, eps: Decimal, n_clusters: int, *, trusted_coordinator: bool
) -> PeerProblem:
    """Return private dk-means++ with the least noise that ``eps`` allows."""
    plan = PrivatePlan.calibrate(
        eps,
        n_clusters=n_clusters,
        grid=domain.grid(),
        shard_sizes=peers.sizes,
        trusted_coordinator=trusted_coordinator,
    )
    return PeerProblem(peers, "dk-private", plan, domain)


def noise_variance(plan: PrivatePlan, domain: Domain) -> float:
    """Return what the noise adds to phi_var of Theorem 2, in working coordinates.

    The rest of phi_var is phi_s^F, since the noise is added to a uniform record of the shard.
    """
    ends = np.stack([np.zeros(plan.grid.n_features), np.ones(plan.grid.n_features)])
    low, high = domain.to_working(plan.grid.restore(ends.astype(np.int64)))
    sd = Noise("center-coordinate", plan.noise_scale, GRID_STEPS).sd
    return float(sum(plan.shard_sizes) * sd**2 * ((high - low) ** 2).sum())


def _tell_shared(found: SharedSeeding) -> Found:
    details: dict[str, Any] = {"rounds": found.n_rounds, "records_shared": found.records_shared}
    return Found(found.centers, details)


def peer_guarantee(problem: PeerProblem, trials: Trials, spread: float) -> dict[str, Any]:
    """Return what Theorem 2 promises, the optimum estimated by Lloyd's runs."""
    n_clusters, optimum = trials.n_clusters, trials.best.potential
    if problem.plan is None or problem.domain is None:
        value = dk_protected_guarantee(n_clusters, optimum, spread)
    else:
        variance = spread + noise_variance(problem.plan, problem.domain)
        value = dk_private_guarantee(n_clusters, optimum, spread, variance)
    of = f"{DISTRIBUTED}, with the optimum estimated by Lloyd's iterations"
    return {"value": value, "of": of}
