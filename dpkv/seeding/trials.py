"""Independent runs of a seeding algorithm, with Lloyd's iterations or without.

``Problem`` is what a run needs of an algorithm and its records, which may be a table in memory, the
shards of many nodes, or a stream that has passed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Protocol, SupportsIndex

import numpy as np

from dpkv.seeding.instances import ALGORITHMS
from dpkv.seeding.potentials import LloydResult, lloyd, potential
from dpkv.types import Floats, Progress
from dpkv.validation import cluster_count, whole_number


@dataclass(frozen=True, eq=False)
class Found:
    """The centers of a run, and what else the algorithm tells of it, as plain JSON values."""

    centers: Floats
    details: dict[str, Any] = field(default_factory=dict)


class Problem(Protocol):
    """An algorithm and the records it runs on."""

    @property
    def algorithm(self) -> str:
        """The algorithm's name."""

    @property
    def n_records(self) -> int | None:
        """Number of records, or None before a stream has passed."""

    def seed(self, n_clusters: int, rng: np.random.Generator, progress: Progress) -> Found:
        """Run the algorithm once."""

    def potential(self, centers: Floats) -> float:
        """Return phi of all records, or NaN where they are gone."""

    def lloyd(self, centers: Floats, progress: Progress) -> LloydResult:
        """Run Lloyd's iterations on all records."""


@dataclass(frozen=True, eq=False)
class TableProblem:
    """A named instance on records in memory."""

    records: Floats
    algorithm: str

    @property
    def n_records(self) -> int:
        """Number of records."""
        return len(self.records)

    def seed(self, n_clusters: int, rng: np.random.Generator, progress: Progress) -> Found:  # noqa: ARG002
        """Run the instance once."""
        return Found(ALGORITHMS[self.algorithm](self.records, n_clusters, rng=rng)[0])

    def potential(self, centers: Floats) -> float:
        """Return phi of all records."""
        return potential(self.records, centers)

    def lloyd(self, centers: Floats, progress: Progress) -> LloydResult:
        """Run Lloyd's iterations on all records."""
        return lloyd(self.records, centers, progress=progress)


@dataclass(frozen=True, eq=False)
class Trial:
    """One run."""

    centers: Floats
    seeding_potential: float
    potential: float
    """After Lloyd's iterations; the seeding's own where there were none."""
    lloyd_iterations: int
    details: dict[str, Any] = field(default_factory=dict)
    """What the algorithm tells of the run."""


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
                    "seeding_potential": _as_json_number(run.seeding_potential),
                    "potential": _as_json_number(run.potential),
                    "lloyd_iterations": run.lloyd_iterations,
                    **run.details,
                }
                for run in self.runs
            ],
            "best_run": self.runs.index(self.best),
            "best_potential": _as_json_number(self.best.potential),
        }


def _as_json_number(potential: float) -> float | None:
    """Return a potential as JSON has it: what was not measured is null."""
    return None if math.isnan(potential) else potential


def check_trials(
    n_clusters: SupportsIndex, repeat: SupportsIndex, seed: SupportsIndex
) -> tuple[int, int, int]:
    """Return k, repeat and seed as ints, refusing bad ones; also before a table is read."""
    return (
        whole_number("k", n_clusters, at_least=1),
        whole_number("repeat", repeat, at_least=1),
        whole_number("seed", seed, at_least=0),
    )


def solve(
    problem: Problem,
    n_clusters: SupportsIndex,
    *,
    repeat: SupportsIndex = 1,
    lloyd_steps: bool = False,
    seed: SupportsIndex = 0,
    progress: Progress | None = None,
) -> Trials:
    """Run any problem ``repeat`` times. Run i draws from child i of ``seed``."""
    k, repeat, seed = check_trials(n_clusters, repeat, seed)
    if problem.n_records is not None:
        cluster_count(k, problem.n_records, "k")
    runs: list[Trial] = []

    def tell(share: float) -> None:
        if progress is not None:
            progress((len(runs) + share) / repeat)

    for child in np.random.SeedSequence(seed).spawn(repeat):
        found = problem.seed(k, np.random.default_rng(child), tell)
        runs.append(_finish(problem, found, lloyd_steps, tell))
        tell(0.0)
    return Trials(problem.algorithm, k, seed, lloyd_steps, tuple(runs))


def _finish(problem: Problem, found: Found, lloyd_steps: bool, progress: Progress) -> Trial:
    at_start = problem.potential(found.centers)
    if not lloyd_steps:
        return Trial(found.centers, at_start, at_start, 0, found.details)
    end = problem.lloyd(found.centers, progress)
    return Trial(end.centers, at_start, end.potential, end.n_iterations, found.details)
