"""A release and its table, opened for an audit: the record is verified before a word is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dpkv import foreign
from dpkv.audits.job import Job
from dpkv.audits.publication import Opened
from dpkv.domain import Domain, data_domain
from dpkv.errors import UsageError, VerificationError
from dpkv.ledger import NAMED, Account, Ledger
from dpkv.releases import Plan, PrivateSynopsis, Release, ReleaseRecord, verify
from dpkv.releases.files import centers_name, synopsis_name
from dpkv.releases.inputs import FileInput, ReadTable
from dpkv.releases.kept_releases import load_synopsis, parse_record
from dpkv.releases.signing import trusted_here
from dpkv.releases.synopsis import parse_synopsis
from dpkv.releases.verify import failed, vouchers
from dpkv.tables.described import facts_by, schema_of
from dpkv.tables.facts import TableFacts
from dpkv.types import Floats
from dpkv.validation import cluster_count

OTHER_TABLE = (
    "the release was not made from this table: give its table by --data, in the folder where it "
    "was released."
)
SAMPLE = 50_000
"""Rows: of a larger table the curator's part is of so many, drawn at random."""
_ALL_KS = range(2, 9)
_UNKNOWN_RECORDS = 1_000  # where nothing published tells how many they are


def open_release(
    subject: Release | ReleaseRecord | Path,
    home: Path | None,
    *,
    public_key: str | None = None,
) -> Opened:
    """Verify a release and what lies beside it; refuse one that does not check out.

    ``home`` is the workspace whose ledger, keys and kept synopses are looked at.
    """
    record, texts, label = _texts_of(subject)
    if record.kind != "release":
        raise UsageError(f"{label} is a simulation: audit a release, or the table itself.")
    trusted = trusted_here(home)
    checks = verify(record, workspace=home, public_key=public_key, trusted_keys=trusted, **texts)
    if wrong := failed(checks):
        reasons = "; ".join(f"{check.name}: {check.detail}" for check in wrong)
        raise VerificationError(f"{label} does not check out: {reasons}")
    text = texts["synopsis_text"]
    synopsis = None if text is None else parse_synopsis(text, synopsis_name(record))
    if synopsis is None and home is not None and record.release_id is not None:
        synopsis = _kept_synopsis(home, record)
    return Opened(record, checks, vouchers(record, checks), synopsis, _account(home, record))


def _kept_synopsis(home: Path, record: ReleaseRecord) -> PrivateSynopsis | None:
    """Return the private cells that the workspace keeps of a release that its ledger knows."""
    return load_synopsis(home, record) if _entry(home, record) is not None else None


def _texts_of(
    subject: Release | ReleaseRecord | Path,
) -> tuple[ReleaseRecord, dict[str, str | None], str]:
    texts: dict[str, str | None] = {"csv_text": None, "synopsis_text": None}
    if isinstance(subject, ReleaseRecord):
        return subject, texts, "the record"
    if isinstance(subject, Release):
        if subject.synopsis is not None:
            texts["synopsis_text"] = subject.synopsis.to_json()
        return subject.record, texts, "the release"
    record = parse_record(foreign.text_of(subject), subject)
    for name, file in (
        ("csv_text", centers_name(record)),
        ("synopsis_text", synopsis_name(record)),
    ):
        texts[name] = foreign.text_if_there(subject.with_name(file))
    return record, texts, str(subject)


def _entry_dataset(home: Path | None, record: ReleaseRecord) -> str | None:
    entry = _entry(home, record)
    return None if entry is None else entry.dataset


def _entry(home: Path | None, record: ReleaseRecord):  # type: ignore[no-untyped-def]
    """Return the entry of the ledger here that charged the release, if it has it."""
    if home is None or record.ledger is None:
        return None
    entry = Ledger(home).read().entry(record.ledger.number)
    return entry if entry is not None and entry.release_id == record.release_id else None


def _account(home: Path | None, record: ReleaseRecord) -> Account | None:
    """Return what the ledger here knows of the budget that was charged."""
    dataset = _entry_dataset(home, record)
    return None if dataset is None or home is None else Ledger(home).read().account(dataset)


# -- the table -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class OpenedTable:
    """The rows of a table, or a sample of them, and how many units there are in all."""

    values: Floats
    n_units: int
    sampled: bool
    dataset: str
    label: str


def charged_dataset(record: ReleaseRecord, home: Path | None) -> str | None:
    """Return the fingerprint of the release's table, where the ledger here has it."""
    dataset = _entry_dataset(home, record)
    return None if dataset is None or dataset.startswith(NAMED) else dataset


@dataclass(frozen=True)
class Spelling:
    """How the files of a table are spelled, as far as somebody says."""

    schema: Path | None = None
    header: bool | None = None
    encoding: str | None = None
    decimal: str | None = None


def read_table_of(
    record: ReleaseRecord,
    data: Sequence[Path],
    home: Path,
    *,
    spelling: Spelling | None = None,
    memory_limit: int,
    expected: str | None = None,
    reading: Callable[[FileInput], ReadTable] | None = None,
    seed: int = 0,
) -> OpenedTable:
    """Read the table of a release as the release did; see that it is the one it was made from.

    ``expected`` is what a calibration says that its fingerprint is.
    """
    charged = charged_dataset(record, home)
    facts = _facts_of(record, data, spelling or Spelling())
    # The names are those of the release: they are out already.
    source = FileInput(data, facts, memory_limit=memory_limit, workspace=home, publishes=False)
    source.check()
    records = source.read() if reading is None else reading(source)
    dataset = source.fingerprint(home)
    if (expected not in (None, dataset)) or charged not in (None, dataset):
        raise UsageError(OTHER_TABLE)
    if record.n_records not in (None, records.n_records):
        raise UsageError("the release has another number of records: give its table by --data.")
    return sample_of(records, dataset, seed)


def _facts_of(record: ReleaseRecord, data: Sequence[Path], spelling: Spelling) -> TableFacts:
    """Return what the release took the table for; the schema that it names says the rest."""
    plan, schema = record.plan, None
    if plan.schema_digest is not None:
        schema = schema_of(spelling.schema, data[0] if len(data) == 1 else None)
    if plan.schema_digest != (None if schema is None else schema.digest):
        found = "there is none beside the table" if schema is None else "this is another one"
        raise UsageError(f"the release was made by a schema, and {found}: give that by --schema.")
    names = [facts.name for facts in plan.table]
    facts = facts_by(
        schema,
        columns=names,
        header=spelling.header,
        person=plan.unit.person_column,
        encoding=spelling.encoding,
        decimal=spelling.decimal,
    )
    spelled = {column.name: column.booleans for column in facts.used}
    return replace(
        facts,
        columns=tuple(
            replace(one.column, booleans=spelled[one.name] if one.truth_values else None)
            for one in plan.table
        ),
        person=plan.unit.person_column,
        weight=plan.unit.weight_facts,
    )


def sample_of(records: ReadTable, dataset: str, seed: int) -> OpenedTable:
    """Return a table's rows, or a sample of those of a large one, in memory."""
    values = records.values
    sampled = len(values) > SAMPLE
    if sampled:
        rng = np.random.default_rng([seed, len(values)])
        rows = np.sort(rng.choice(len(values), SAMPLE, replace=False, shuffle=False))
        values = np.asarray(values[rows])
    return OpenedTable(values, records.n_records, sampled, dataset, records.label)


# -- what is audited -------------------------------------------------------------------------------


def domain_of(plan: Plan, values: Floats | None, record: ReleaseRecord | None) -> Domain:
    """Return where records may lie."""
    if record is not None:
        return Domain.from_dict(record.bounds.domain)
    if plan.domain is not None:
        return Domain.from_dict(plan.domain)
    assert values is not None
    return data_domain(values, scaled=plan.scaled)


def counts_of(
    ks: tuple[int, ...] | None, record: ReleaseRecord | None, n_records: int
) -> tuple[int, ...]:
    """Return the numbers of centers to audit."""
    if record is not None:
        if record.plan.fewest is not None and ks is not None:
            raise UsageError("a release that chose k itself is audited as it was made: omit --k.")
        return tuple(sorted({record.plan.k, *(ks or ())}))
    wanted = ks or tuple(k for k in _ALL_KS if k <= n_records) or (1,)
    return tuple(cluster_count(k, n_records, "k") for k in wanted)


def about_so_many(record: ReleaseRecord) -> int:
    """Return how many records or persons a release is of, or about how many by its own sizes."""
    if record.n_records is not None:
        return record.n_records
    return max(1, round(sum(record.sizes))) if record.sizes else _UNKNOWN_RECORDS


def job_of(opened: Opened, table: OpenedTable | None, ks: tuple[int, ...] | None) -> Job:
    """Return the audit of a release: with its table, or of the release alone."""
    record = opened.record
    n_units = about_so_many(record) if table is None else table.n_units
    return Job(
        values=None if table is None else table.values,
        columns=record.columns,
        label=(record.release_id or "a release") if table is None else table.label,
        domain=domain_of(record.plan, None, record),
        plan=record.plan,
        ks=counts_of(ks, record, n_units),
        n_units=n_units,
        sampled=table is not None and table.sampled,
        opened=opened,
    )
