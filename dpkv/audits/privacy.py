"""Does it hold? Every privacy test of a mechanism, exact and sampled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from dpkv.audits.losses import exact_losses, list_replacements
from dpkv.audits.results import DataLoss, SampledBound, WorstCaseLoss
from dpkv.audits.sampled_lower_bounds import Sampler, features, sample_classifier, sample_likelihood
from dpkv.audits.witness import Witness, loss_bounds, witness_of
from dpkv.audits.worst_case import worst_case
from dpkv.corners import farthest_pair
from dpkv.domain import Domain
from dpkv.grid import BoxGrid
from dpkv.mechanisms import Algorithm0, Mechanism, Neighbours
from dpkv.mechanisms.mechanism import AuditPart
from dpkv.noise import SeededEntropy
from dpkv.records import Curator, one_row_each, run_on_points
from dpkv.simplices import ProductGrid
from dpkv.types import Float64s, Integers

SIZES = (50, 2000)
"""Records of the tables that likelihood audits run on: few, and so many that one hardly shows."""
TELLING_EPS = Decimal(2)
"""Parts are audited at this eps at least: there few runs show most. All noise is scaled alike."""
FEWEST_PART_RUNS = 10_000
_LOSS_REPLACEMENTS = 32

Calibrator = Callable[[int, int], Mechanism]
"""Returns the mechanism for (records, centers) at the audited eps."""


@dataclass(frozen=True)
class Effort:
    """How much is tried."""

    restarts: int
    likelihood_runs: int
    classifier_runs: int
    simulated_losses: int
    alpha: float
    seed: int
    part_runs: int | None = None
    """Of each part of a mechanism; None is as many as a classifier has, or more."""


def worst_case_loss(
    mechanism: Algorithm0,
    n_records: int,
    domain: Domain,
    eps: Decimal,
    effort: Effort,
    *,
    public: bool = True,
) -> tuple[WorstCaseLoss, Witness]:
    """Search for the largest loss at these public facts, and write its witness down."""
    found = worst_case(mechanism, n_records, restarts=effort.restarts, seed=effort.seed)
    witness = witness_of(found, mechanism, domain, f"{eps:f}", public=public)
    name = f"witness-{mechanism.name}-k{mechanism.n_clusters}.json"
    loss = WorstCaseLoss(
        mechanism=mechanism.name,
        k=mechanism.n_clusters,
        claimed_eps=float(eps),
        loss=max(0.0, witness.loss),
        witness_file=name,
        violates=loss_bounds(witness)[0] > eps,
    )
    return loss, witness


def data_loss(
    mechanism: Algorithm0,
    points: Integers,
    eps: Decimal,
    effort: Effort,
    released: Integers | None,
    progress: Callable[[float], None],
) -> DataLoss:
    """Return the exact losses of the release, and of simulated ones, on the curator's records."""
    of_release = None
    # Moving draws onto a ball merges draws that no formula covers; a box merges only tails.
    unmoved = mechanism.density.stays_inside or isinstance(mechanism.grid, BoxGrid)
    unmoved &= not isinstance(mechanism.grid, ProductGrid)
    if released is not None and unmoved:
        tried = list_replacements(mechanism.grid, released)
        of_release = exact_losses(mechanism, points, released, tried).largest
    losses = []
    for child in np.random.SeedSequence(effort.seed).spawn(effort.simulated_losses):
        # Clamping to a box changes no loss.
        output = run_on_points(mechanism, points, SeededEntropy(child)).centers
        tried = list_replacements(mechanism.grid, output, _LOSS_REPLACEMENTS)
        losses.append(exact_losses(mechanism, points, output, tried).largest)
        progress(len(losses) / effort.simulated_losses)
    return DataLoss(
        mechanism=mechanism.name,
        k=mechanism.n_clusters,
        claimed_eps=float(eps),
        release_loss=of_release,
        simulated_losses=tuple(losses),
        n_replacements=_LOSS_REPLACEMENTS,
    )


def sampled_bounds(
    calibrated: Calibrator, n_clusters: int, eps: Decimal, effort: Effort
) -> tuple[SampledBound, ...]:
    """Audit a mechanism by runs: at two sizes by likelihood, or by a classifier without density."""
    probe = calibrated(max(SIZES), n_clusters)
    if probe.closed_form() is not None and probe.neighbours is Neighbours.REPLACE_ONE:
        return tuple(
            _name_size(
                sample_likelihood(
                    _algorithm0(calibrated(size, n_clusters)),
                    float(eps),
                    n_records=size,
                    runs=effort.likelihood_runs,
                    alpha=effort.alpha,
                    seed=effort.seed,
                ),
                size,
            )
            for size in SIZES
            if size >= n_clusters
        )
    if probe.audit_parts(1.0):
        return part_bounds(probe, eps, effort)
    return tuple(
        _sample_by_classifier(calibrated(size, k), size, eps, effort)
        for size, k in dict.fromkeys(probe.telling_sizes(n_clusters))
    )


def part_bounds(mechanism: Mechanism, eps: Decimal, effort: Effort) -> tuple[SampledBound, ...]:
    """Audit every part of a mechanism by runs, each with all of eps.

    A classifier that sees only the centers sees little where clustering, which is free, hides most
    of what the parts let through.
    """
    found = []
    claimed = max(eps, TELLING_EPS)
    for number, part in enumerate(mechanism.audit_parts(float(claimed / eps))):
        bound = sample_classifier(
            mechanism.name,
            mechanism.n_clusters,
            float(claimed),
            _part_sampler(part, part.first, [effort.seed, number, 0]),
            _part_sampler(part, part.second, [effort.seed, number, 1]),
            runs=effort.part_runs or max(effort.classifier_runs, FEWEST_PART_RUNS),
            alpha=effort.alpha,
            seed=effort.seed,
            delta=part.mechanism.delta,
        )
        method = f"{bound.method}; the {part.name} with all of eps = {claimed:f}"
        found.append(bound.model_copy(update={"method": method}))
    return tuple(found)


def _part_sampler(part: AuditPart, points: Integers, seed: list[int]) -> Sampler:
    entropy = SeededEntropy(np.random.SeedSequence(seed))
    neighbours, unit = part.mechanism.neighbours, part.mechanism.unit

    def look() -> list[float]:
        records = one_row_each(points, unit.shares)
        return part.look(Curator(records, entropy, neighbours, part.schedule(), unit=unit))

    return lambda runs: np.asarray([look() for _ in range(runs)])


def _sample_by_classifier(
    mechanism: Mechanism, n_records: int, eps: Decimal, effort: Effort
) -> SampledBound:
    """Audit by a classifier: a single record, or one among many, is what shows most."""
    mechanism = mechanism.most_telling()
    old, new = worst_tables(mechanism, n_records)
    bound = sample_classifier(
        mechanism.name,
        mechanism.n_clusters,
        float(eps),
        mechanism_sampler(mechanism, old, effort.seed),
        mechanism_sampler(mechanism, new, effort.seed + 1),
        runs=effort.classifier_runs,
        alpha=effort.alpha,
        seed=effort.seed,
    )
    return _name_size(bound, n_records)


def _algorithm0(mechanism: Mechanism) -> Algorithm0:
    exact = mechanism.closed_form()
    assert exact is not None
    return exact


def _name_size(bound: SampledBound, n_records: int) -> SampledBound:
    return bound.model_copy(update={"method": f"{bound.method}; {n_records} records"})


def worst_tables(mechanism: Mechanism, n_records: int) -> tuple[Integers, Integers]:
    """Return tables with all records in the middle but one, which is at opposite extremes.

    There the other records neither drown it nor does clamping hide it. Under add/remove the one
    record is there or is not.
    """
    start, end = farthest_pair(mechanism.grid)
    middle = np.tile(mechanism.grid.middle, (n_records, 1))
    if mechanism.neighbours is Neighbours.ADD_REMOVE:
        return np.concatenate([end[np.newaxis], middle]).astype(np.int32), middle
    first, second = middle.copy(), middle.copy()
    first[0], second[0] = end, start
    return first.astype(np.int32), second.astype(np.int32)


def mechanism_sampler(mechanism: Mechanism, points: Integers, seed: int) -> Sampler:
    """Return a sampler of clamped outputs by the code of a release, with seeded draws."""
    entropy = SeededEntropy(np.random.SeedSequence([seed, 7]))

    def sample(runs: int) -> Float64s:
        outputs = [
            mechanism.grid.clip(run_on_points(mechanism, points, entropy).centers)
            for _ in range(runs)
        ]
        return features(np.stack(outputs))

    return sample
