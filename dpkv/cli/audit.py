"""``dpkv audit``: does it hold, how close, and how good are the centres? A report for a client."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpkv import foreign
from dpkv.cli import audit_command, options, output
from dpkv.cli.kept_calibrations import newest_calibration
from dpkv.cli.planning import as_calibrated, plan_release
from dpkv.cli.progress import ProgressBar
from dpkv.cli.release_options import ReleaseOptions
from dpkv.errors import UsageError, VerificationError
from dpkv.mechanisms.registry import PAPERS
from dpkv.settings import find_workspace
from dpkv.workspace import private_folder

if TYPE_CHECKING:
    from dpkv.audits.results import Audit, Verdict
    from dpkv.audits.run import Audited
    from dpkv.domain import Domain
    from dpkv.releases import Plan, ReleaseRecord
    from dpkv.releases.inputs import ReadTable
    from dpkv.tables.facts import TableFacts

_DEFAULT_K = range(2, 9)
_OTHER_TABLE = (
    "the release was not made from this table: give its table by --data, in the folder where it "
    "was released."
)
_OTHER_COLUMNS = (
    "the release has other columns than the table of the newest calibration: give its table by "
    "--data."
)


def audit(
    subject: Annotated[
        Path | None,
        typer.Argument(
            metavar="[DATA | RELEASE.JSON]",
            help="A table, or the record of a release. Without it, the newest calibration's table.",
            show_default=False,
        ),
    ] = None,
    eps: Annotated[float | None, typer.Option(help="The eps to audit at.")] = None,
    k: Annotated[
        str | None, typer.Option("--k", help="Numbers of centres: 4, or 2,4,8, or 2..8.")
    ] = None,
    mechanism: Annotated[
        str, typer.Option(help="The mechanism that the verdict is about.")
    ] = PAPERS,
    calibration: Annotated[str, typer.Option(help="certified or published noise.")] = "certified",
    out: Annotated[Path, typer.Option(help="A new folder for the report.")] = Path("audit"),
    data: Annotated[
        list[Path] | None,
        typer.Option(
            help="The table of a release, where the newest calibration is of another; once for "
            "each of several files."
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer runs; about a minute.")] = False,
    public: Annotated[
        bool,
        typer.Option("--public", help="Leave out all that depends on the data beyond the release."),
    ] = False,
    compare_eps: Annotated[
        str | None,
        typer.Option(help="More eps at which accuracy is compared, such as 0.1,0.5,2."),
    ] = None,
    runs: Annotated[int, typer.Option(help="Runs of every rival in the comparison.")] = 30,
    seed: Annotated[int, typer.Option(help="Seed of simulations and searches.")] = 0,
    plant: Annotated[
        str | None,
        typer.Option(
            help="Self-test: plant a fault that must be reported, such as half-noise; an unknown "
            "name lists them all."
        ),
    ] = None,
    gamma: Annotated[float | None, typer.Option(help="Smoothing of the D^2 picks.")] = None,
    bounds: options.BoundsText = None,
    columns: options.Columns = None,
    header: options.Header = None,
    scale: options.Scale = True,
    missing: options.MissingRule = None,
    encoding: options.Encoding = None,
    decimal: options.Decimal = None,
    memory_limit: options.MemoryLimit = 512,
    command: audit_command.Command = None,
    claim: audit_command.ClaimText = None,
    schema: audit_command.Schema = None,
    budget: audit_command.BudgetText = None,
    alpha: audit_command.Alpha = None,
    min_rows: audit_command.MinRows = None,
    jobs: audit_command.Jobs = None,
    state: audit_command.State = None,
    junit: audit_command.Junit = None,
    pair: audit_command.PairFile = None,
    with_time: audit_command.WithTime = False,
    as_json: options.AsJson = False,
) -> None:
    """Audit a release, or what a table would be released with, and write a report.

    Exact privacy loss with witnesses, sampled lower bounds, conformance of the sampler, and the
    comparison with Forgy-DP, GUPT, DPLloyd and diffprivlib. With --command, audit any mechanism of
    anybody's, by running it. Exit code 3 where a claim is violated.

    Example:  dpkv audit patients.csv --eps 1 --k 2..5 --bounds=-10,10 --out audit

    Example:  dpkv audit --command 'python mine.py {input} {output} {seed}' --schema s.json
    --claim eps=1,neighbours=add-remove
    """
    black_box = audit_command.CommandAudit(
        command, claim, schema, budget, alpha, min_rows, jobs, state, junit, pair, with_time,
        seed, out, as_json,
    )  # fmt: skip
    if black_box.says_anything or command is not None:
        others = (subject, eps, k, data or None, compare_eps, plant, gamma, bounds, columns, header)
        if command is not None and any(value is not None for value in others):
            raise UsageError("--command goes with --claim, --schema and their kind, not a table.")
        audit_command.audit_command(black_box)
        return
    from dpkv.audits.run import Job, run_audit
    from dpkv.releases.settling import settle
    from dpkv.validation import exact_eps, whole_number

    whole_number("runs", runs, at_least=2)
    more_eps = tuple(
        f"{exact_eps('--compare-eps', text):f}" for text in (compare_eps or "").split(",") if text
    )
    whole_number("seed", seed, at_least=0)
    target = output.check_new_folder(out)
    record, vouched_by = _release_of(subject)
    said = eps, bounds, gamma, columns, plant
    chosen = mechanism != PAPERS or calibration != "certified" or missing is not None
    if record is not None and (chosen or not scale or any(value is not None for value in said)):
        raise UsageError(
            "a release is audited as it was made: only --data, --schema, --header, --encoding, "
            "--decimal, --k, --quick, --public, --runs, --seed and --out go with it."
        )
    if record is None and bounds == "private":
        raise UsageError(
            "--bounds private belongs to a release: give bounds in numbers, or audit the release."
        )
    ks = tuple(sorted(set(options.parse_counts(k)))) if k is not None else None
    asked = ReleaseOptions(
        k=str((ks or (2,))[0]),
        data=data or ([] if subject is None else [subject]),
        eps=eps,
        mechanism=mechanism,
        calibration=calibration,
        bounds=bounds,
        gamma=gamma,
        columns=columns,
        header=header,
        scale=scale,
        missing=missing,
        schema=schema,
        encoding=encoding,
        decimal=decimal,
        memory_limit=memory_limit,
    )
    if record is None:
        asked, ks = as_calibrated(asked, ks)
        plan, records, dataset = plan_release(asked).read()
        plan = settle(plan, records.n_records).plan
    else:
        records, dataset = _table_of(record, data, asked)
        plan = record.plan
    if public and not plan.end_to_end:
        raise UsageError(
            "--public needs a release that is private end to end: this one's noise or bounds "
            "depend on the data."
        )
    with output.new_folder(target) as folder, ProgressBar("auditing") as bar:
        found = run_audit(
            Job(
                values=records.values,
                columns=records.columns,
                label=records.label,
                domain=_domain(plan, records, record),
                plan=plan,
                ks=_counts(ks, record, records.n_records),
                n_persons=None if plan.unit.persons is None else records.n_records,
                release=record,
                vouched_by=vouched_by,
                seed=seed,
                quick=quick,
                runs=runs,
                more_eps=more_eps,
                plant=plant,
                command=shlex.join(["dpkv", *sys.argv[1:]]),
                cache=private_folder(find_workspace(), "audits") / "comparison.jsonl",
                identity=f"{dataset} {plan.columns} {header} {plan.table} {plan.schema_digest}",
                progress=bar.describe,
            )
        )
        result = found.audit.public() if public else found.audit
        _write(found, result, folder)
    if as_json:
        output.print_json_text(result.to_json())
    else:
        _show(result, target)
    if not result.verdict.holds:
        raise VerificationError(f"{result.verdict.headline}: {'; '.join(result.verdict.reasons)}.")


def _release_of(subject: Path | None) -> tuple[ReleaseRecord | None, tuple[str, ...]]:
    """Return the release that a JSON subject records, and who vouches for it; None for a table."""
    from dpkv.releases.kept_releases import parse_record
    from dpkv.releases.signing import trusted_here
    from dpkv.releases.verify import failed, verify, vouchers

    if subject is None or subject.suffix.lower() != ".json":
        return None, ()
    record = parse_record(foreign.text_of(subject), subject)
    if record.kind != "release":
        raise UsageError(f"{subject} is a simulation: audit a release, or the table itself.")
    home = find_workspace() if find_workspace().is_dir() else None
    checks = verify(record, workspace=home, trusted_keys=trusted_here(home))
    if wrong := failed(checks):
        reasons = "; ".join(f"{check.name}: {check.detail}" for check in wrong)
        raise VerificationError(f"{subject} does not check out: {reasons}")
    return record, vouchers(record, checks)


def _table_of(
    record: ReleaseRecord, data: list[Path] | None, asked: ReleaseOptions
) -> tuple[ReadTable, str]:
    """Read the table of a release as the release did; see that it is the one it was made from."""
    from dpkv.releases.inputs import FileInput
    from dpkv.tables.labels import column_names

    kept = newest_calibration(find_workspace()) if not data else None
    calibration = None if kept is None else kept.record
    charged = _charged_dataset(record)
    if not data:
        if calibration is None or calibration.data_file is None:
            raise UsageError("give the table of the release by --data.")
        table, header = Path(calibration.data_file), calibration.header
        asked = replace(
            asked,
            header=header,
            schema=None if calibration.schema_file is None else Path(calibration.schema_file),
            encoding=calibration.encoding,
            decimal=calibration.decimal,
        )
        if not {column.name for column in record.plan.table} <= set(column_names(table, header)):
            raise UsageError(_OTHER_COLUMNS)
        if charged not in (None, calibration.data_fingerprint):
            raise UsageError(_OTHER_TABLE)  # before a cell of it is complained of
        data = [table]
    source = FileInput(
        data,
        _facts_of(record, data, asked),
        memory_limit=options.memory_bytes(asked.memory_limit),
        workspace=find_workspace(),
    )
    source.check()
    with ProgressBar(f"reading {source.label}") as bar:
        records = source.read(bar.update)
    dataset = source.fingerprint(find_workspace())
    changed = calibration is not None and calibration.data_fingerprint != dataset
    if changed or charged not in (None, dataset):
        raise UsageError(_OTHER_TABLE)
    if record.n_records not in (None, records.n_records):
        raise UsageError("the release has another number of records: give its table by --data.")
    return records, dataset


def _facts_of(record: ReleaseRecord, data: list[Path], asked: ReleaseOptions) -> TableFacts:
    """Return what the release took the table for; the schema that it names says the rest."""
    from dpkv.tables.described import facts_by, schema_of

    plan = record.plan
    schema = (
        None
        if plan.schema_digest is None
        else schema_of(asked.schema, data[0] if len(data) == 1 else None)
    )
    if plan.schema_digest != (None if schema is None else schema.digest):
        found = "there is none beside the table" if schema is None else "this is another one"
        raise UsageError(f"the release was made by a schema, and {found}: give that by --schema.")
    names = [facts.name for facts in plan.table]
    facts = facts_by(
        schema,
        columns=names,
        header=asked.header,
        person=plan.unit.person_column,
        encoding=asked.encoding,
        decimal=asked.decimal,
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


def _charged_dataset(record: ReleaseRecord) -> str | None:
    """Return the fingerprint of the release's table, where the ledger here has it."""
    from dpkv.ledger import NAMED, Ledger

    entry = (
        None
        if record.ledger is None
        else Ledger(find_workspace()).read().entry(record.ledger.number)
    )
    if entry is None or entry.release_id != record.release_id or entry.dataset.startswith(NAMED):
        return None
    return entry.dataset


def _domain(plan: Plan, records: ReadTable, record: ReleaseRecord | None) -> Domain:
    from dpkv.domain import Domain, data_domain

    if record is not None:
        return Domain.from_dict(record.bounds.domain)
    if plan.domain is not None:
        return Domain.from_dict(plan.domain)
    return data_domain(records.values, scaled=plan.scaled)


def _counts(
    ks: tuple[int, ...] | None, record: ReleaseRecord | None, n_records: int
) -> tuple[int, ...]:
    from dpkv.validation import cluster_count

    if record is not None:
        if record.plan.fewest is not None:
            raise UsageError(
                "a release that chose k itself cannot be audited yet: 'dpkv verify' re-checks its "
                "record, and an audit of the table with --k and --mechanism synopsis audits the "
                "same questions."
            )
        ks = tuple(sorted({record.plan.k, *(ks or ())}))
    wanted = ks or tuple(k for k in _DEFAULT_K if k <= n_records) or (1,)
    return tuple(cluster_count(k, n_records, "k") for k in wanted)


def _write(found: Audited, result: Audit, folder: output.NewFolder) -> None:
    """Write the report, the record and the witnesses, all or nothing."""
    from dpkv.audits.report import render

    files = render(result)
    files |= {name: witness.to_json() for name, witness in found.witnesses.items()}
    folder.fill(files, private=result.visibility != "public")


def _show(result: Audit, folder: Path) -> None:
    from dpkv.audits.report.utility import NOT_TO_CHOOSE_BY
    from dpkv.audits.results import vouched_words
    from dpkv.audits.verdict import tried

    verdict = result.verdict
    rows = [
        ["verdict", "HOLDS, as far as was tried" if verdict.holds else "VIOLATED"],
        ["claimed", f"eps = {verdict.claimed_eps:g}, {result.subject.neighbours} neighbours"],
        ["protects", result.subject.protects],
        ["shown", _shown(verdict)],
    ]
    if (who := result.subject.vouched_by) is not None:
        rows.append(["vouched for", vouched_words(who)])
    if verdict.utility is not None:
        rows.append(["accuracy", verdict.utility])
    rows.append(["report", str(folder / "report.html")])
    output.print_facts(f"audit of {result.subject.label}", rows)
    output.say(f"{verdict.headline}.")
    if verdict.holds:
        output.note(f"{tried(result)}; that proves nothing, the mechanism's own proof does.")
    if result.visibility != "public":
        output.note("for the curator only: --public leaves out what depends on the data.")
    if result.utility:
        output.note(f"{NOT_TO_CHOOSE_BY}.")


def _shown(verdict: Verdict) -> str:
    from dpkv.audits.report.numbers import lower

    if verdict.lower_bound == 0:
        return f"no loss of the whole ({verdict.lower_bound_method})"
    return f"eps >= {lower(verdict.lower_bound)} ({verdict.lower_bound_method})"
