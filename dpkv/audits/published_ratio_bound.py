"""The published bound, put to the test: Theorem 5 on random small instances, by enumeration.

Its proof measures distances to the *picked records*, so the probability of an output is a sum over
all m^k sequences of picks; that is done here for small m, with the exact spread and monotonicity.
Beside it the same with distances to the released centers, as Algorithm 0 is written and run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import numpy as np

from dpkv.audits.results import PublishedBound
from dpkv.paper.dual_bounds import WeightedRecords
from dpkv.paper.monotonicity import exact_monotonicity
from dpkv.paper.published_calibration import likelihood_ratio_bound
from dpkv.paper.spread import exact_remaining
from dpkv.types import Float64s

_OUTPUTS = 24


@dataclass(frozen=True, eq=False)
class Instance:
    """A table in the unit cube, a neighbour, a noise, and outputs to compare them at."""

    table: Float64s
    neighbour: Float64s
    n_clusters: int
    scale: float
    outputs: Float64s
    """(outputs, k, d)."""


def audit_ratio_bound(instances: int, seed: int = 0) -> PublishedBound:
    """Return how close likelihood ratios come to the published bound, and how often they exceed it.

    A ratio is that of the neighbour over the table, and the bound that of the table's own figures.
    """
    rng = np.random.default_rng(seed)
    tightest, violations, violations_as_run, tried = 0.0, 0, 0, 0
    while tried < instances:
        instance = random_instance(rng)
        bound = ratio_bound_of(instance)
        if not math.isfinite(bound):
            continue
        tried += 1
        picked = largest_ratio(instance, reference="picked")
        released = largest_ratio(instance, reference="released")
        tightest = max(tightest, picked / bound)
        violations += picked > bound * (1.0 + 1e-9)
        violations_as_run += released > bound * (1.0 + 1e-9)
    return PublishedBound(
        instances=tried,
        tightest=tightest,
        violations=violations,
        violations_as_run=violations_as_run,
    )


def random_instance(rng: np.random.Generator) -> Instance:
    """Return tables of 3 to 6 records of several kinds: spread out, clustered, with an outlier."""
    m, d, k = int(rng.integers(3, 7)), int(rng.integers(1, 3)), int(rng.integers(2, 4))
    table = rng.random((m, d))
    kind = rng.integers(3)
    if kind == 1:
        table = rng.integers(0, 2, (m, 1)) * 0.9 + 0.1 * table
    elif kind == 2:  # noqa: PLR2004
        table = np.concatenate([0.05 * table[:-1], np.ones((1, d))])
    neighbour = table.copy()
    corner, inside = rng.integers(0, 2, d), rng.random(d)
    neighbour[rng.integers(m)] = corner if rng.integers(2) else inside
    outputs = rng.random((_OUTPUTS, k, d))
    both = np.concatenate([table, neighbour])
    outputs[::2] = both[rng.integers(len(both), size=(len(outputs[::2]), k))]
    return Instance(table, neighbour, k, float(10.0 ** rng.uniform(-1, 1)), outputs)


def ratio_bound_of(instance: Instance) -> float:
    """Return the published bound for the instance's table, R being the cube's diameter."""
    d = instance.table.shape[1]
    distinct, counts = np.unique(instance.table, axis=0, return_counts=True)
    data = WeightedRecords(distinct, counts.astype(np.float64))
    if data.size < instance.n_clusters + 1:
        return math.inf
    remaining = exact_remaining(data, instance.n_clusters - 1)
    spread = remaining.spread(math.sqrt(d))
    fall = exact_monotonicity(data, instance.n_clusters).value
    if not (math.isfinite(spread) and math.isfinite(fall)):
        return math.inf
    return likelihood_ratio_bound(instance.n_clusters, spread, fall, d / instance.scale)


def largest_ratio(instance: Instance, *, reference: str) -> float:
    """Return the largest ratio P(x | neighbour) / P(x | table) over the instance's outputs."""
    table = output_densities(instance.table, instance, reference)
    neighbour = output_densities(instance.neighbour, instance, reference)
    return float((neighbour / table).max())


def output_densities(table: Float64s, instance: Instance, reference: str) -> Float64s:
    """Return the density of every output, up to the noise's normaliser, by enumeration of picks."""
    outputs, k, m = instance.outputs, instance.n_clusters, len(table)
    gaps = np.abs(outputs[:, :, np.newaxis, :] - table).sum(axis=3)
    likelihoods = np.exp(-gaps / instance.scale)  # (outputs, k, m)
    if reference == "released":
        return _as_run(table, outputs, likelihoods)
    squared = ((table[:, np.newaxis] - table[np.newaxis]) ** 2).sum(axis=2)
    total = np.zeros(len(outputs))
    for sequence in product(range(m), repeat=k):
        chance = _sequence_probability(squared, sequence)
        if chance > 0.0:
            total += chance * np.prod(
                [likelihoods[:, t, a] for t, a in enumerate(sequence)], axis=0
            )
    return total


def _sequence_probability(squared: Float64s, sequence: tuple[int, ...]) -> float:
    """Return the chance of picking these records in turn, by distances to the picked ones."""
    chance = 1.0 / len(squared)
    for t in range(1, len(sequence)):
        nearest = squared[:, sequence[:t]].min(axis=1)
        whole = float(nearest.sum())
        chance *= float(nearest[sequence[t]]) / whole if whole > 0 else 1.0 / len(squared)
    return chance


def _as_run(table: Float64s, outputs: Float64s, likelihoods: Float64s) -> Float64s:
    """Return the densities with distances to the released centers: a product of mixtures."""
    density = likelihoods[:, 0].mean(axis=1)
    nearest = np.full(likelihoods[:, 0].shape, np.inf)
    for t in range(1, outputs.shape[1]):
        gaps = outputs[:, t - 1, np.newaxis, :] - table
        nearest = np.minimum(nearest, (gaps**2).sum(axis=2))
        weights = np.where(nearest.any(axis=1, keepdims=True), nearest, 1.0)
        density *= (weights * likelihoods[:, t]).sum(axis=1) / weights.sum(axis=1)
    return np.asarray(density)
