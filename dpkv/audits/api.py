"""``dpkv.audit``: what ``dpkv audit release.json`` does, from Python."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dpkv.audits.opening import OpenedTable, job_of, open_release, read_table_of, sample_of
from dpkv.audits.results import Audit, Verdict
from dpkv.audits.run import run_audit
from dpkv.errors import ParameterError, UsageError
from dpkv.releases import InputTable, Release, ReleaseRecord
from dpkv.releases.inputs import AnyTable
from dpkv.settings import AUTO, workspace_or_none
from dpkv.tables.store import MEMORY_LIMIT
from dpkv.validation import as_records, whole_number
from dpkv.workspace import write_atomically


@dataclass(frozen=True, eq=False)
class Report:
    """What an audit found, and the files that say it."""

    audit: Audit
    files: Mapping[str, str]
    """By name: the report as HTML and as Markdown, the audit as JSON, and the witnesses."""

    @property
    def verdict(self) -> Verdict:
        """The answer: ``holds``, ``headline``, ``lower_bound`` and why."""
        return self.audit.verdict

    def write(self, folder: str | Path) -> tuple[Path, ...]:
        """Write the files to a new folder, and return their paths."""
        home = Path(folder)
        if home.exists():
            raise ParameterError("folder", "a new folder", str(folder))
        public = self.audit.visibility == "public"
        home.mkdir(parents=True, mode=0o755 if public else 0o700)
        for name, text in self.files.items():
            write_atomically(home / name, text)
            if public:
                (home / name).chmod(0o644)
        return tuple(home / name for name in self.files)

    def __repr__(self) -> str:
        return f"<audit: {self.verdict.headline}.>"


def audit(
    release: Release | ReleaseRecord | str | Path,
    data: AnyTable | None = None,
    *,
    public: bool = False,
    quick: bool = False,
    runs: int = 30,
    seed: int = 0,
    workspace: str | Path | None = AUTO,
) -> Report:
    """Audit a release: does it hold, how close does it come to its limit, how good is it?

    The record is verified first, and one that does not check out is refused.

    Parameters
    ----------
    release : what ``dpkv.release`` returned, its record, or the path of a record.
    data : the table that it was made from: a path, or numbers in memory. Without it the audit is
        of the release alone, and takes seconds.
    public : leave out all that depends on the data beyond the release.
    quick : try less.
    runs : runs of every rival in the comparison of accuracy.
    seed : of simulations and searches.
    workspace : the curator's, for its ledger and keys; "auto" as for ``dpkv.release``; None does
        without.

    Returns
    -------
    ``Report``: ``verdict``, ``audit`` with every figure, and ``write(folder)``.

    Examples
    --------
    >>> import numpy as np, dpkv
    >>> X = np.random.default_rng(0).random((500, 2))
    >>> done = dpkv.release(X, k=2, eps=1, bounds=(0, 1), workspace=None)
    >>> dpkv.audit(done, public=True, workspace=None).verdict.holds
    True
    """
    from dpkv.audits.report import render  # noqa: PLC0415 (heavy)

    home = workspace_or_none(workspace)
    home = home if home is not None and home.is_dir() else None
    whole_number("runs", runs, at_least=2)
    whole_number("seed", seed, at_least=0)
    subject = Path(release) if isinstance(release, str) else release
    opened = open_release(subject, home)
    if public and not opened.record.plan.end_to_end:
        raise UsageError("public=True needs a release that is private end to end.")
    with tempfile.TemporaryDirectory(prefix="dpkv-audit-") as scratch:
        place = home or Path(scratch)
        table = None if data is None else _table(opened.record, data, place, seed)
        job = replace(
            job_of(opened, table, None),
            quick=quick or table is None,
            runs=runs,
            seed=seed,
            command="dpkv.audit",
        )
        found = run_audit(job)
    result = found.audit.public() if public else found.audit
    witnesses = {name: witness.to_json() for name, witness in found.witnesses.items()}
    return Report(result, {**render(result), **witnesses})


def _table(record: ReleaseRecord, data: AnyTable, home: Path, seed: int) -> OpenedTable:
    """Return the table of a release, read as the release read it."""
    if isinstance(data, (str, Path)):
        return read_table_of(record, [Path(data)], home, memory_limit=MEMORY_LIMIT, seed=seed)
    plain = all(not column.categories for column in record.plan.table)
    if not plain or record.plan.unit.persons is not None:
        raise ParameterError("data", "the path of a table with categories or persons", "an array")
    values = as_records(data)  # type: ignore[arg-type]
    if values.shape[1] != len(record.columns):
        raise ParameterError("data", f"of {len(record.columns)} columns", values.shape[1])
    if record.n_records not in (None, len(values)):
        raise UsageError("the release has another number of records than these data.")
    return sample_of(InputTable(np.asarray(values), record.columns, "array"), "", seed)
