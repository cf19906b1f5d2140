"""An audit from beginning to end: what to test, in which order, and what it adds up to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from dpkv.audits.conformance import concerns, conformance_tests
from dpkv.audits.faults import Fault, plant_fault
from dpkv.audits.job import Job, Planter
from dpkv.audits.privacy import Calibrator, data_loss, sampled_bounds, worst_case_loss
from dpkv.audits.published_ratio_bound import audit_ratio_bound
from dpkv.audits.results import (
    Audit,
    CalibrationRow,
    Conformance,
    DataLoss,
    PublishedBound,
    RunLoss,
    SampledBound,
    UtilityRow,
    WorstCaseLoss,
)
from dpkv.audits.rivals import CONTENDERS, own_contender
from dpkv.audits.run_losses import Search, replayed_losses, worst_runs
from dpkv.audits.run_witness import RunWitness
from dpkv.audits.subject import settings_of, subject_of
from dpkv.audits.utility import compare, rivals
from dpkv.audits.verdict import Findings, verdict_of
from dpkv.audits.witness import Witness
from dpkv.calibration import Calibration, CalibrationSettings, calibrate_working
from dpkv.mechanisms import MECHANISMS, Mechanism, Neighbours, calibrate_mechanism
from dpkv.noise import Entropy, OperatingSystemEntropy
from dpkv.releases import ReleaseRecord, wording
from dpkv.types import Integers

__all__ = ["Audited", "Job", "run_audit"]

RELEASE_ALONE = (
    "This audit saw the record of the release, and the private cells where they were beside it: "
    "nothing of the table. Tests of the code that draws belong to whoever ran it, and are left out."
)


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
    judged = job.mechanism(fault, job.known_ks[0])
    here = job.values is not None  # else whoever audits did not draw
    sampled = _sample_bounds(job, fault) if runs_at_all and here else ()
    conforming = _conformance(job, fault) if here else ()
    rows = _utility(job, calibration)
    found = Findings(worst, runs, losses, sampled, conforming)
    audit = Audit(
        subject=subject_of(job),
        settings=settings_of(job),
        verdict=verdict_of(
            job.plan,
            found,
            judged,
            _utility_headline(rows),
            vouched=_is_vouched(job),
            unit=_unit_of(job),
        ),
        calibration=_calibration_rows(calibration) if job.is_the_papers else (),
        worst_cases=worst,
        run_losses=runs,
        data_losses=losses,
        sampled=sampled,
        conformance=conforming,
        published_bound=_published_bound(job) if job.is_the_papers and here else None,
        utility=rows,
        rivals=rivals(job.domain.n_features, job.plan.neighbours.value) if rows else (),
        notes=_notes(job),
    )
    return Audited(audit, witnesses)


def _published_bound(job: Job) -> PublishedBound:
    return audit_ratio_bound(200 if job.quick else 2000, job.seed)


def _notes(job: Job) -> tuple[str, ...]:
    """Return what must be said of the release, and of what this audit saw."""
    notes = () if job.release is None else wording.warnings(job.release)
    return (*notes, RELEASE_ALONE) if job.values is None else notes


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


# -- does it hold ----------------------------------------------------------------------------------


def _worst_cases(
    job: Job, fault: Planter | None
) -> tuple[tuple[WorstCaseLoss, ...], dict[str, Witness | RunWitness]]:
    losses: list[WorstCaseLoss] = []
    witnesses: dict[str, Witness | RunWitness] = {}
    if job.plan.neighbours is Neighbours.ADD_REMOVE:  # the search is over replaced records
        return (), {}
    public = job.plan.end_to_end and fault is None
    for done, k in enumerate(job.known_ks):
        job.progress("searching for the worst case", done / len(job.ks))
        mechanism = job.mechanism(fault, k)
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
    k, m = min(job.known_ks), max(1, job.n_records)

    def describe(n_records: int, n_clusters: int) -> Mechanism:
        return job.mechanism(fault, n_clusters, None if n_records == m else n_records)

    how = Search(16 if job.quick else 60, job.seed)
    found = worst_runs(describe, k, m, job.eps, how, job.domain)
    names = [loss.witness_file for loss in found.losses if loss.witness_file is not None]
    if found.witness is None or not names:
        return found.losses, {}
    public = job.plan.end_to_end and fault is None
    seen: Literal["public", "curator-only"] = "public" if public else "curator-only"
    return found.losses, {names[0]: found.witness.model_copy(update={"visibility": seen})}


def _data_losses(job: Job, fault: Planter | None) -> tuple[DataLoss, ...]:
    """Return losses on the curator's records: of the release, or of the first and last k."""
    if not job.is_of_rows or job.values is None:
        return ()  # these losses are of rows
    judged = job.known_ks
    ks = (job.plan.k,) if job.release is not None else (judged[0], judged[-1])
    if job.mechanism(fault, ks[0]).grid.n_features != len(job.columns):
        return ()  # a fault that shows in other domains alone
    return tuple(_data_loss(job, fault, k) for k in dict.fromkeys(ks))


def _data_loss(job: Job, fault: Planter | None, k: int) -> DataLoss:
    """Return losses by the closed form that covers every record, or else by replaying runs."""
    assert job.values is not None
    m = len(job.values) if job.sampled else None
    mechanism = job.mechanism(fault, k, m)
    points = mechanism.grid.quantise(job.values).astype(np.int32)
    exact = mechanism.closed_form()
    if exact is not None and mechanism.neighbours is Neighbours.REPLACE_ONE:
        return data_loss(
            exact,
            points,
            job.eps,
            job.effort,
            None if job.sampled else _released_points(job.release),
            lambda share: job.progress("exact losses", share),
        )
    job.progress("replaying runs", 0.0)
    return replayed_losses(
        lambda n_records, k: job.mechanism(fault, k, n_records),
        k,
        points,
        job.eps,
        runs=3 if job.quick else 10,
        seed=job.seed,
    )


def _conformance(job: Job, fault: Planter | None) -> tuple[Conformance, ...]:
    """Return tests of what draws for the audited mechanism; all where a fault is planted."""
    job.progress("conformance", 0.0)
    entropy: Callable[[], Entropy] = OperatingSystemEntropy
    if fault is not None:
        entropy = fault(job.n_records, job.ks[0]).entropy
    found = conformance_tests(entropy, runs=4_000 if job.quick else 20_000)
    if fault is not None:
        return found
    mechanism = job.mechanism(None, job.known_ks[0])
    return tuple(test for test in found if concerns(test, mechanism))


def _released_points(release: ReleaseRecord | None) -> Integers | None:
    return None if release is None else np.asarray(release.grid_centers, dtype=np.int64)


def _sample_bounds(job: Job, fault: Planter | None) -> tuple[SampledBound, ...]:
    """Return sampled bounds of the audited mechanism and, unless quick, of all the others."""
    job.progress("sampled bounds", 0.0)
    k = min(job.known_ks)

    def describe(n_records: int, n_clusters: int) -> Mechanism:
        return job.mechanism(fault, n_clusters, n_records)

    found = list(sampled_bounds(describe, k, job.eps, job.effort))
    replaced = job.plan.neighbours is Neighbours.REPLACE_ONE
    alone = job.quick or fault is not None or job.release is not None
    known = MECHANISMS if replaced and not alone else {}
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


def _calibration(job: Job) -> Calibration | None:
    """Return the paper's calibration of these records: it is shown, or compared with."""
    if job.values is None or not (job.is_the_papers or _is_compared(job)):
        return None
    working = np.asarray(job.domain.to_working(job.values), dtype=np.float64)
    method = "randomized" if job.quick else "auto"
    settings = CalibrationSettings(float(job.eps), job.plan.gamma, method)
    return calibrate_working(
        working, job.domain, settings, k=job.compared_ks, rng=job.seed, progress=job.progress
    )


def _calibration_rows(calibration: Calibration | None) -> tuple[CalibrationRow, ...]:
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
        for row in (() if calibration is None else calibration.rows)
    )


def _is_compared(job: Job) -> bool:
    if job.plant is not None:  # how accurate a faulty release is, is not asked
        return False
    return job.utility and job.is_of_rows  # rivals know nothing of persons and weights


def _utility(job: Job, calibration: Calibration | None) -> tuple[UtilityRow, ...]:
    if job.values is None or calibration is None or not _is_compared(job):
        return ()
    figures = {row.k: row.published.eps_tilde for row in calibration.rows}
    own = own_contender(job.plan) if job.release is not None else None
    others = [one for one in CONTENDERS if own is None or one.name != own.name]
    names_data = job.identity if own in (None, *CONTENDERS) else f"{job.identity} {job.plan.digest}"
    return compare(
        job.values,
        job.domain,
        ks=job.compared_ks,
        epsilons=list(dict.fromkeys((job.plan.eps, *job.more_eps))),
        runs=job.runs,
        seed=job.seed,
        neighbours=job.plan.neighbours.value,
        gamma=job.plan.gamma,
        published_eps_tilde=lambda eps, k: figures[k] if eps == job.plan.eps else None,
        progress=partial(job.progress, "comparing with rivals"),
        cache=job.cache,
        identity=names_data,
        contenders=others if own is None else [own, *others],
        own=None if own is None else own.name,
    )


def _unit_of(job: Job) -> str:
    """Return what a verdict says of the unit of privacy."""
    return "" if job.is_of_rows else f", one {job.plan.weighing.unit.kind}"


def _is_vouched(job: Job) -> bool:
    """Tell whether anybody vouches for the release; without one there is nothing to vouch for."""
    return job.opened is None or bool(job.opened.vouched_by)


def _utility_headline(rows: tuple[UtilityRow, ...]) -> str | None:
    """Return how far from the floor the released mechanism is, or else the best with a proof."""
    own = [row for row in rows if row.own_ratio_interval == (1.0, 1.0) and row.over_optimum]
    if own and own[0].over_optimum is not None:
        return (
            f"at k = {own[0].k} centres by this mechanism cost {own[0].over_optimum:.4f} times the "
            "potential of k-means without privacy, on average"
        )
    last = [row for row in rows if row.k == rows[-1].k and row.name in MECHANISMS]
    last = [row for row in last if row.eps == rows[0].eps]
    last = [row for row in last if row.over_optimum is not None]
    if not last:
        return None
    best = min(last, key=lambda row: row.over_optimum or 0.0)
    return (
        f"at k = {best.k} the most accurate release that is proved private is {best.name}, with "
        f"{best.over_optimum:.4f} times the potential of k-means without privacy"
    )
