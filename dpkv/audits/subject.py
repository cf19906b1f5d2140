"""What an audit is about, as its record says it."""

from __future__ import annotations

from dpkv.audits.job import Job
from dpkv.audits.publication import publication_of
from dpkv.audits.results import AuditSettings, Subject
from dpkv.releases import ReleaseRecord, frames, wording
from dpkv.releases.guarantee import guarantee
from dpkv.releases.missing_cells import rules_of


def settings_of(job: Job) -> AuditSettings:
    """Return how the audit is run."""
    return AuditSettings(
        seed=job.seed,
        quick=job.quick,
        runs=job.runs,
        alpha=job.effort.alpha,
        command=job.command,
        planted_fault=job.plant,
    )


def subject_of(job: Job) -> Subject:
    """Return what is audited: a table, or a release and what it says of itself."""
    mechanism = job.mechanism(None, job.known_ks[0])
    promise = guarantee(job.plan, mechanism)
    release, opened = job.release, job.opened
    return Subject(
        label=job.label,
        release_id=None if release is None else release.release_id,
        statement=wording.statement(promise),
        assumptions=wording.assumptions(promise),
        eps=job.plan.eps,
        neighbours=job.plan.neighbours.value,
        unit=promise.unit,
        protects=wording.protects(job.plan, promise),
        missing=rules_of(job.plan),
        n_records=job.n_records if release is None or job.values is not None else release.n_records,
        n_features=len(job.columns),
        columns=job.columns,
        bounds=job.plan.bounds,
        domain=job.domain.to_dict(),
        mechanism=job.plan.mechanism,
        title=mechanism.title,
        end_to_end=promise.end_to_end,
        ks=job.ks,
        released_centers=None if release is None else release.centers,
        vouched_by=None if opened is None else opened.vouched_by,
        groups=() if release is None else _groups(release),
        groups_note="" if release is None else frames.note_of(release),
        publication=None if opened is None else publication_of(opened),
        sample=len(job.values) if job.sampled and job.values is not None else None,
    )


def _groups(release: ReleaseRecord) -> tuple[tuple[str, ...], ...]:
    header, rows = frames.cells_of(release)
    return (tuple(header), *map(tuple, rows))
