"""An audit from beginning to end: what to test, in which order, and what it adds up to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Literal

import numpy as np

from dpkv.accounting import ROW
from dpkv.audits.conformance import conformance_tests
from dpkv.audits.faults import Fault, plant_fault
from dpkv.audits.privacy import Calibrator, Effort, data_loss, sampled_bounds, worst_case_loss
from dpkv.audits.published_ratio_bound import audit_ratio_bound
from dpkv.audits.results import (
    Audit,
    AuditSettings,
    CalibrationRow,
    DataLoss,
    RunLoss,
    SampledBound,
    Subject,
    UtilityRow,
    WorstCaseLoss,
)
from dpkv.audits.run_losses import Search, replayed_losses, worst_runs
from dpkv.audits.run_witness import RunWitness
from dpkv.audits.utility import compare, rivals
from dpkv.audits.verdict import Findings, verdict_of
from dpkv.audits.witness import Witness
from dpkv.calibration import Calibration, CalibrationSettings, calibrate_working
from dpkv.domain import Domain
from dpkv.mechanisms import (
    MECHANISMS,
    Mechanism,
    Neighbours,
    calibrate_mechanism,
    from_description,
)
from dpkv.noise import Entropy, OperatingSystemEntropy
from dpkv.releases import Plan, ReleaseRecord, frames, wording
from dpkv.releases.guarantee import guarantee
from dpkv.releases.settling import mechanism_of
from dpkv.types import Floats, Integers, StageProgress

Planter = Callable[[int, int], Fault]
_SYNTHETIC_POINTS = 400


@dataclass(frozen=True, eq=False)
class Job:
    """What to audit, and how hard to try."""

    values: Floats
    columns: tuple[str, ...]
    label: str
    domain: Domain
    plan: Plan
    ks: tuple[int, ...]
    n_persons: int | None = None
    """Where the plan is for persons: how many there are."""
    release: ReleaseRecord | None = None
    vouched_by: tuple[str, ...] = ()
    """Who vouches for the release's record."""
    seed: int = 0
    quick: bool = False
    runs: int = 30
    plant: str | None = None
    command: str = ""
    utility: bool = True
    more_eps: tuple[str, ...] = ()
    """Further eps at which the comparison is made."""
    cache: Path | None = None
    identity: str = ""
    """An opaque name of the data for the cache."""
    progress: StageProgress = field(default=lambda _label, _share: None)

    @property
    def effort(self) -> Effort:
        """How much is tried: less under ``quick``."""
        if self.quick:
            return Effort(6, 40_000, 2_000, 10, 1e-6, self.seed)
        return Effort(24, 200_000, 10_000, 100, 1e-6, self.seed)

    @property
    def eps(self) -> Decimal:
        """The eps that is claimed."""
        return self.plan.exact_eps

    @property
    def n_records(self) -> int:
        """The number of rows, or of persons."""
        return len(self.values) if self.n_persons is None else self.n_persons

    @property
    def is_of_rows(self) -> bool:
        """Whether every row is a record of its own, of the same weight."""
        return self.plan.weighing.unit == ROW


@dataclass(frozen=True, eq=False)
class Audited:
    """An audit, and the witnesses that go with it, by file name."""

    audit: Audit
    witnesses: dict[str, Witness | RunWitness]


def run_audit(job: Job) -> Audited:
    """Carry out an audit."""
    fault = _fault(job)
    calibration = _calibration(job)
    worst, witnesses = _worst_cases(job, fault)
    runs, of_run = _run_losses(job, fault)
    witnesses |= of_run
    runs_at_all = not any(run.breaks_plan for run in runs)
    losses = _data_losses(job, fault) if runs_at_all else ()
    judged = _mechanism(job, fault, _known_ks(job)[0])
    sampled = _sample_bounds(job, fault) if runs_at_all else ()
    job.progress("conformance", 0.0)
    entropy: Callable[[], Entropy] = OperatingSystemEntropy
    if fault is not None:
        entropy = fault(job.n_records, job.ks[0]).entropy
    conforming = conformance_tests(entropy, runs=4_000 if job.quick else 20_000)
    rows = _utility(job, calibration)
    found = Findings(worst, runs, losses, sampled, conforming)
    audit = Audit(
        subject=_subject(job),
        settings=_settings(job),
        verdict=verdict_of(
            job.plan,
            found,
            judged,
            _utility_headline(rows),
            vouched=_is_vouched(job),
            unit=_unit_of(job),
        ),
        calibration=_calibration_rows(calibration),
        worst_cases=worst,
        run_losses=runs,
        data_losses=losses,
        sampled=sampled,
        conformance=conforming,
        published_bound=audit_ratio_bound(200 if job.quick else 2000, job.seed),
        utility=rows,
        rivals=rivals(job.domain.n_features, job.plan.neighbours.value),
        synthetic_points=_synthetic(job.domain),
        notes=() if job.release is None else wording.warnings(job.release),
    )
    return Audited(audit, witnesses)


# -- what is audited -------------------------------------------------------------------------------


def _fault(job: Job) -> Planter | None:
    """Return what plants the fault for (records, centers), if one is asked for."""
    name = job.plant
    if name is None:
        return None

    def plant(n_records: int, n_clusters: int) -> Fault:
        return plant_fault(
            name,
            job.eps,
            n_records=n_records,
            n_clusters=n_clusters,
            domain=job.domain,
            gamma=job.plan.gamma,
        )

    plant(job.n_records, job.ks[0])  # refuses an unknown name at once
    return plant


def _mechanism(job: Job, fault: Planter | None, k: int, n_records: int | None = None) -> Mechanism:
    """Return the audited mechanism for k centers: the release's own, the planned, or a faulty."""
    m = job.n_records if n_records is None else n_records
    if fault is not None:
        return fault(m, k).mechanism
    own = job.release is not None and n_records is None and k == job.plan.k
    if own and job.release is not None:  # what the record describes is what was released
        grid = job.domain.grid(job.plan.grid_bits)
        return from_description(job.release.mechanism, grid)
    plan = job.plan.model_copy(update={"k": k})
    return mechanism_of(plan, job.domain.grid(plan.grid_bits), m)


# -- does it hold ----------------------------------------------------------------------------------


def _worst_cases(
    job: Job, fault: Planter | None
) -> tuple[tuple[WorstCaseLoss, ...], dict[str, Witness | RunWitness]]:
    losses: list[WorstCaseLoss] = []
    witnesses: dict[str, Witness | RunWitness] = {}
    if job.plan.neighbours is Neighbours.ADD_REMOVE:  # the search is over replaced records
        return (), {}
    public = job.plan.end_to_end and fault is None
    for done, k in enumerate(_known_ks(job)):
        job.progress("searching for the worst case", done / len(job.ks))
        mechanism = _mechanism(job, fault, k)
        exact = mechanism.closed_form()
        if exact is not None:
            found = worst_case_loss(
                exact, job.n_records, job.domain, job.eps, job.effort, public=public
            )
            losses.append(found[0])
            witnesses[found[0].witness_file or ""] = found[1]
    return tuple(losses), witnesses


def _run_losses(
    job: Job, fault: Planter | None
) -> tuple[tuple[RunLoss, ...], dict[str, Witness | RunWitness]]:
    """Return the worst whole runs found, of the first k: for any mechanism and relation."""
    job.progress("searching for the worst run", 0.0)
    k, m = min(_known_ks(job)), len(job.values)

    def describe(n_records: int, n_clusters: int) -> Mechanism:
        return _mechanism(job, fault, n_clusters, None if n_records == m else n_records)

    how = Search(16 if job.quick else 60, job.seed)
    found = worst_runs(describe, k, m, job.eps, how, job.domain)
    names = [loss.witness_file for loss in found.losses if loss.witness_file is not None]
    if found.witness is None or not names:
        return found.losses, {}
    public = job.plan.end_to_end and fault is None
    seen: Literal["public", "curator-only"] = "public" if public else "curator-only"
    return found.losses, {names[0]: found.witness.model_copy(update={"visibility": seen})}


def _known_ks(job: Job) -> tuple[int, ...]:
    """Return the k whose mechanism is known: published noise is that of the plan's k alone."""
    return (job.plan.k,) if job.plan.calibration == "published" else job.ks


def _data_losses(job: Job, fault: Planter | None) -> tuple[DataLoss, ...]:
    """Return losses on the curator's records: of the release, or of the first and last k."""
    if not job.is_of_rows:
        return ()  # these losses are of rows
    judged = _known_ks(job)
    ks = (job.plan.k,) if job.release is not None else (judged[0], judged[-1])
    if _mechanism(job, fault, ks[0]).grid.n_features != len(job.columns):
        return ()  # a fault that shows in other domains alone
    return tuple(_data_loss(job, fault, k) for k in dict.fromkeys(ks))


def _data_loss(job: Job, fault: Planter | None, k: int) -> DataLoss:
    """Return losses by the closed form that covers every record, or else by replaying runs."""
    mechanism = _mechanism(job, fault, k)
    points = mechanism.grid.quantise(job.values).astype(np.int32)
    exact = mechanism.closed_form()
    if exact is not None and mechanism.neighbours is Neighbours.REPLACE_ONE:
        return data_loss(
            exact,
            points,
            job.eps,
            job.effort,
            _released_points(job.release),
            lambda share: job.progress("exact losses", share),
        )
    job.progress("replaying runs", 0.0)
    return replayed_losses(
        lambda n_records, k: _mechanism(job, fault, k, n_records),
        k,
        points,
        job.eps,
        runs=3 if job.quick else 10,
        seed=job.seed,
    )


def _released_points(release: ReleaseRecord | None) -> Integers | None:
    return None if release is None else np.asarray(release.grid_centers, dtype=np.int64)


def _sample_bounds(job: Job, fault: Planter | None) -> tuple[SampledBound, ...]:
    """Return sampled bounds of the audited mechanism and, unless quick, of all the others."""
    job.progress("sampled bounds", 0.0)
    k = min(_known_ks(job))

    def describe(n_records: int, n_clusters: int) -> Mechanism:
        return _mechanism(job, fault, n_clusters, n_records)

    found = list(sampled_bounds(describe, k, job.eps, job.effort))
    replaced = job.plan.neighbours is Neighbours.REPLACE_ONE
    known = MECHANISMS if replaced and not job.quick and fault is None else {}
    even = job.plan.weighing.unit.even
    others = [name for name, kind in known.items() if even or not kind.needs_even_units]
    others = [name for name in others if job.is_of_rows or known[name].knows_units]
    for done, name in enumerate(others):
        job.progress("sampled bounds", (1 + done) / (1 + len(others)))
        if name != job.plan.mechanism:
            found += sampled_bounds(_calibrator(job, name), k, job.eps, job.effort)
    return tuple(found)


def _calibrator(job: Job, name: str) -> Calibrator:
    grid = job.domain.grid(job.plan.grid_bits)
    return lambda n_records, n_clusters: calibrate_mechanism(
        name,
        job.eps,
        n_records=n_records,
        n_clusters=n_clusters,
        grid=grid,
        gamma=job.plan.gamma,
        unit=job.plan.weighing.unit,
    )


# -- how good --------------------------------------------------------------------------------------


def _calibration(job: Job) -> Calibration:
    working = np.asarray(job.domain.to_working(job.values), dtype=np.float64)
    method = "randomized" if job.quick else "auto"
    settings = CalibrationSettings(float(job.eps), job.plan.gamma, method)
    return calibrate_working(
        working, job.domain, settings, k=job.ks, rng=job.seed, progress=job.progress
    )


def _calibration_rows(calibration: Calibration) -> tuple[CalibrationRow, ...]:
    return tuple(
        CalibrationRow(
            k=row.k,
            certified_eps_tilde=row.certified.eps_tilde,
            certified=row.certified.sigma,
            laplace=row.laplace.sigma,
            published_eps_tilde=row.published.eps_tilde,
            published=row.published.sigma,
            published_note=row.published.note,
        )
        for row in calibration.rows
    )


def _utility(job: Job, calibration: Calibration) -> tuple[UtilityRow, ...]:
    if not job.utility or not job.is_of_rows:  # rivals know nothing of persons and weights
        return ()
    if job.plant is not None:  # how accurate a faulty release is, is not asked
        return ()
    figures = {row.k: row.published.eps_tilde for row in calibration.rows}
    return compare(
        job.values,
        job.domain,
        ks=job.ks,
        epsilons=list(dict.fromkeys((job.plan.eps, *job.more_eps))),
        runs=job.runs,
        seed=job.seed,
        neighbours=job.plan.neighbours.value,
        gamma=job.plan.gamma,
        published_eps_tilde=lambda eps, k: figures[k] if eps == job.plan.eps else None,
        progress=lambda share: job.progress("comparing with rivals", share),
        cache=job.cache,
        identity=job.identity,
    )


def _unit_of(job: Job) -> str:
    """Return what a verdict says of the unit of privacy."""
    return "" if job.is_of_rows else f", one {job.plan.weighing.unit.kind}"


def _is_vouched(job: Job) -> bool:
    """Tell whether anybody vouches for the release; without one there is nothing to vouch for."""
    return job.release is None or bool(job.vouched_by)


def _utility_headline(rows: tuple[UtilityRow, ...]) -> str | None:
    """Return the most accurate release with a proof at the last k, and how far from the floor."""
    last = [row for row in rows if row.k == rows[-1].k and row.name in MECHANISMS]
    last = [row for row in last if row.eps == rows[0].eps]
    last = [row for row in last if row.over_optimum is not None]
    if not last:
        return None
    best = min(last, key=lambda row: row.over_optimum or 0.0)
    return (
        f"at k = {best.k} the most accurate release that is proved private is {best.name}, with "
        f"{best.over_optimum:.3g} times the potential of k-means without privacy"
    )


# -- the rest of the record ------------------------------------------------------------------------


def _settings(job: Job) -> AuditSettings:
    return AuditSettings(
        seed=job.seed,
        quick=job.quick,
        runs=job.runs,
        alpha=job.effort.alpha,
        command=job.command,
        planted_fault=job.plant,
    )


def _subject(job: Job) -> Subject:
    mechanism = _mechanism(job, None, _known_ks(job)[0])
    promise = guarantee(job.plan, mechanism)
    return Subject(
        label=job.label,
        release_id=None if job.release is None else job.release.release_id,
        statement=wording.statement(promise),
        assumptions=wording.assumptions(promise),
        eps=job.plan.eps,
        neighbours=job.plan.neighbours.value,
        unit=promise.unit,
        protects=wording.protects(job.plan, promise),
        n_records=job.n_records,
        n_features=len(job.columns),
        columns=job.columns,
        bounds=job.plan.bounds,
        domain=job.domain.to_dict(),
        mechanism=job.plan.mechanism,
        title=mechanism.title,
        end_to_end=promise.end_to_end,
        ks=job.ks,
        released_centers=None if job.release is None else job.release.centers,
        vouched_by=None if job.release is None else job.vouched_by,
        groups=() if job.release is None else _groups(job.release),
        groups_note="" if job.release is None else frames.note_of(job.release),
    )


def _groups(release: ReleaseRecord) -> tuple[tuple[str, ...], ...]:
    header, rows = frames.cells_of(release)
    return (tuple(header), *map(tuple, rows))


def _synthetic(domain: Domain) -> tuple[tuple[float, ...], ...]:
    """Return made-up points all over the domain, to show which center they would go to."""
    from scipy.stats import qmc  # noqa: PLC0415 (slow to import)

    grid = domain.grid()
    uniform = qmc.Halton(grid.n_features, scramble=False).random(_SYNTHETIC_POINTS + 1)[1:]
    return tuple(map(tuple, grid.restore(grid.spread(uniform)).tolist()))
