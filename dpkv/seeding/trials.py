"""Independent runs of a named instance, with Lloyd's iterations or without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from dpkv.kernels import Floats
from dpkv.seeding.instances import ALGORITHMS
from dpkv.seeding.potentials import lloyd, potential
from dpkv.validation import as_records, cluster_count, one_of, whole_number


@dataclass(frozen=True, eq=False)
class Trial:
    """One run."""

    centers: Floats
    seeding_potential: float
    potential: float
    """After Lloyd's iterations; the seeding's own where there were none."""
    lloyd_iterations: int


@dataclass(frozen=True, eq=False)
class Trials:
    """Independent runs on the same records."""

    algorithm: str
    n_clusters: int
    seed: int
    with_lloyd: bool
    runs: tuple[Trial, ...]

    @property
    def best(self) -> Trial:
        """The run with the lowest potential."""
        return min(self.runs, key=lambda run: run.potential)

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the centers as plain JSON values."""
        return {
            "algorithm": self.algorithm,
            "k": self.n_clusters,
            "seed": self.seed,
            "lloyd": self.with_lloyd,
            "runs": [
                {
                    "seeding_potential": run.seeding_potential,
                    "potential": run.potential,
                    "lloyd_iterations": run.lloyd_iterations,
                }
                for run in self.runs
            ],
            "best_run": self.runs.index(self.best),
            "best_potential": self.best.potential,
        }


def check_trials(
    algorithm: str, n_clusters: SupportsIndex, repeat: SupportsIndex, seed: SupportsIndex
) -> tuple[int, int, int]:
    """Return k, repeat and seed as ints, refusing bad ones; also before a table is read."""
    one_of("algorithm", algorithm, tuple(ALGORITHMS))
    return (
        whole_number("k", n_clusters, at_least=1),
        whole_number("repeat", repeat, at_least=1),
        whole_number("seed", seed, at_least=0),
    )


def run_trials(
    data: ArrayLike,
    n_clusters: SupportsIndex,
    *,
    algorithm: str = "kmeans++",
    repeat: SupportsIndex = 1,
    lloyd_steps: bool = False,
    seed: SupportsIndex = 0,
    progress: Callable[[float], None] | None = None,
) -> Trials:
    """Run a named instance ``repeat`` times. Run i draws from child i of ``seed``."""
    k, repeat, seed = check_trials(algorithm, n_clusters, repeat, seed)
    records = as_records(data)
    cluster_count(k, len(records), "k")
    runs: list[Trial] = []

    def tell(share: float) -> None:
        if progress is not None:
            progress((len(runs) + share) / repeat)

    for child in np.random.SeedSequence(seed).spawn(repeat):
        centers, _ = ALGORITHMS[algorithm](records, k, rng=np.random.default_rng(child))
        runs.append(_finished(records, centers, lloyd_steps, tell))
        tell(0.0)
    return Trials(algorithm, k, seed, lloyd_steps, tuple(runs))


def _finished(
    records: Floats, centers: Floats, lloyd_steps: bool, progress: Callable[[float], None]
) -> Trial:
    at_start = potential(records, centers)
    if not lloyd_steps:
        return Trial(centers, at_start, at_start, 0)
    end = lloyd(records, centers, progress=progress)
    return Trial(end.centers, at_start, end.potential, end.n_iterations)
