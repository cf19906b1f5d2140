"""What whole runs lose: the worst that a search finds, and what runs on the curator's records lose.

Both hold for every mechanism alike, since both are sums over a run's questions
(``records/transcript.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import partial

import numpy as np

from dpkv.accounting import Neighbours
from dpkv.audits.losses import list_replacements
from dpkv.audits.results import DataLoss, QuestionLoss, RunLoss
from dpkv.audits.run_witness import RunWitness, run_witness_of
from dpkv.audits.whole_run import ROUNDING, FoundLoss, Scene, search_runs
from dpkv.domain import Domain
from dpkv.mechanisms import Mechanism
from dpkv.noise import SeededEntropy
from dpkv.records import Records, Transcript, curator_of, one_row_each
from dpkv.types import Integers

_MOST_RECORDS = 1000
"""Of a table on which runs are replayed: of a larger one, evenly spaced records."""
_MOST_SEARCHED = 100_000
"""Records of a mechanism whose proof needs their number: a larger one is searched at few."""
_CHANGED, _PLACES = 12, 6
"""Records that are replaced or removed, and places where records are put, a run."""

Calibrator = Callable[[int, int], Mechanism]


@dataclass(frozen=True)
class Search:
    """How hard to search."""

    tries: int
    seed: int
    weight: int = 1


@dataclass(frozen=True, eq=False)
class WorstRuns:
    """The worst runs found, and the witness of the largest."""

    losses: tuple[RunLoss, ...]
    witness: RunWitness | None = None


def worst_runs(
    calibrated: Calibrator,
    k: int,
    m: int,
    eps: Decimal,
    how: Search,
    domain: Domain | None = None,
) -> WorstRuns:
    """Return the worst runs found: for k centers, and for one, where most of a price is reached.

    A witness is written where the domain is known.
    """
    found: list[RunLoss] = []
    witnesses: list[RunWitness | None] = []
    for n_clusters in dict.fromkeys((k, 1)):
        for n_records in _sizes(calibrated(max(m, n_clusters), n_clusters), n_clusters, m):
            worst = search_runs(
                partial(_for_so_many, calibrated, n_clusters),
                n_clusters=n_clusters,
                tries=how.tries,
                seed=how.seed,
                n_records=n_records,
                weight=how.weight,
            )
            if worst is not None:
                mechanism = _for_so_many(calibrated, n_clusters, worst.scene.n_records)
                found.append(_loss_of(worst, mechanism, eps))
                as_weighed = how.weight == 1  # a witness weighs records as is sound
                written = (
                    domain and as_weighed and run_witness_of(worst, mechanism, domain, f"{eps:f}")
                )
                witnesses.append(written or None)
    if not found:
        return WorstRuns(())
    best = max(range(len(found)), key=lambda place: _rank(found[place]))
    witness = witnesses[best]
    if witness is not None:
        name = f"witness-run-{found[best].mechanism}.json"
        found[best] = found[best].model_copy(update={"witness_file": name})
    return WorstRuns(tuple(found), witness)


def _rank(loss: RunLoss) -> tuple[bool, float]:
    return loss.violates, math.inf if loss.share is None else loss.share


def _for_so_many(calibrated: Calibrator, k: int, n_records: int) -> Mechanism:
    """Return the mechanism for so many records, or for k of them where there are fewer."""
    return calibrated(max(n_records, k), k)


def _sizes(mechanism: Mechanism, k: int, m: int) -> tuple[int | None, ...]:
    """Return the numbers of records to search at; None leaves them to the search."""
    if mechanism.n_records_needed is None:
        return (None,)
    return tuple(dict.fromkeys((k, *([max(m, k)] if m <= _MOST_SEARCHED else []))))


def _loss_of(found: FoundLoss, mechanism: Mechanism, eps: Decimal) -> RunLoss:
    problem = _problem(found, float(eps))
    finite = math.isfinite(found.loss)
    bound = min(found.price, float(eps)) or 1.0
    return RunLoss(
        mechanism=mechanism.name,
        k=mechanism.n_clusters,
        n_records=found.scene.n_records,
        claimed_eps=float(eps),
        price=bound,
        loss=found.loss if finite else None,
        share=found.loss / bound if finite else None,
        questions=_questions(found),
        tables=_words(found.scene, mechanism.neighbours, removed=found.removed),
        violates=bool(problem),
        problem=problem,
        breaks_plan=found.broke_plan is not None,
    )


def _problem(found: FoundLoss, eps: float) -> str:
    """Return what breaks the claim."""
    if found.broke_plan is not None:
        return found.broke_plan
    if math.isinf(found.loss):
        return "an answer is impossible on a neighbour"
    if found.loss > eps * (1.0 + ROUNDING):
        return f"a run loses {_down(found.loss)}"
    if found.largest_share > 1.0 + ROUNDING:
        return f"a question loses {_down(found.largest_share)} times its price"
    return ""


def _down(value: float) -> str:
    return f"{math.floor(value * 1000) / 1000:.3f}"


def _questions(found: FoundLoss) -> tuple[QuestionLoss, ...]:
    """Return equal kinds of questions once, with the largest loss of each."""
    kinds: dict[str, QuestionLoss] = {}
    for step, loss in zip(found.steps, found.losses, strict=True):
        price = step.rho if step.rho is not None else step.eps
        known = kinds.get(step.name)
        if known is None or (known.loss is not None and abs(loss) > known.loss):
            kinds[step.name] = QuestionLoss(
                name=step.name,
                loss=abs(loss) if math.isfinite(loss) else None,
                price=None if price is None else float(price),
                unit="eps" if step.rho is None else "rho",
            )
    return tuple(kinds.values())


def _words(scene: Scene, neighbours: Neighbours, *, removed: bool) -> str:
    """Return a scene in words; places are shares of the domain's diagonal."""
    groups = [f"{count} at {place / 32:.2g}" for place, count in scene.groups if count]
    common = f"records in common: {', '.join(groups) or 'none'}; "
    if neighbours is Neighbours.ADD_REMOVE:
        change = "missing from the likelier table" if removed else "in the likelier table alone"
        return f"{common}one at {scene.old / 32:.2g} is {change}"
    here, there = (scene.new, scene.old) if removed else (scene.old, scene.new)
    return f"{common}one at {here / 32:.2g} in the likelier table, at {there / 32:.2g} in the other"


# -- on the curator's records ----------------------------------------------------------------------


def replayed_losses(
    calibrated: Calibrator, k: int, points: Integers, eps: Decimal, *, runs: int, seed: int
) -> DataLoss:
    """Return what simulated runs on records lose, each against the worst of its neighbours tried.

    Every neighbour is a record less, a record more, or one elsewhere. Questions with Gaussian
    noise, whose loss is a matter of chance and of delta, are left out.
    """
    chosen = np.linspace(0, len(points) - 1, min(len(points), _MOST_RECORDS)).astype(np.int64)
    points = points[chosen]
    mechanism = calibrated(len(points), k)
    losses = []
    tried = 0
    for child in np.random.SeedSequence([seed, 17]).spawn(runs):
        records = one_row_each(points, mechanism.unit.shares)
        curator = curator_of(mechanism, records, SeededEntropy(child))
        centers = mechanism.run(curator).centers
        transcript = curator.transcript
        neighbours = list(_neighbours(mechanism, points, centers, np.random.default_rng(child)))
        tried = len(neighbours)
        each = (_pure_loss(transcript, mechanism, records, other) for other in neighbours)
        losses.append(max(map(abs, each), default=0.0))
    return DataLoss(
        mechanism=mechanism.name,
        k=mechanism.n_clusters,
        claimed_eps=float(eps),
        release_loss=None,
        simulated_losses=tuple(losses),
        n_replacements=tried,
    )


def _neighbours(
    mechanism: Mechanism, points: Integers, centers: Integers, rng: np.random.Generator
) -> Iterator[Records]:
    places = list_replacements(mechanism.grid, centers, _PLACES).astype(points.dtype)
    rows = rng.choice(len(points), min(_CHANGED, len(points)), replace=False)
    shares = mechanism.unit.shares
    if mechanism.neighbours is Neighbours.ADD_REMOVE:
        for row in rows if len(points) > 1 else ():
            yield one_row_each(np.delete(points, row, axis=0), shares)
        for place in places:
            yield one_row_each(np.vstack([points, place[np.newaxis]]), shares)
        return
    for row in rows:
        for place in places:
            other = points.copy()
            other[row] = place
            yield one_row_each(other, shares)


def _pure_loss(
    transcript: Transcript, mechanism: Mechanism, records: Records, other: Records
) -> float:
    steps = [
        exchange.question.step(mechanism.neighbours, mechanism.unit)
        for exchange in transcript.exchanges
    ]
    pairs = zip(transcript.exchanges, steps, strict=True)
    return math.fsum(one.loss(records, other) for one, step in pairs if step.rho is None)
