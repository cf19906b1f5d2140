"""``dpkv audit``: does it hold, how close, and how good are the centres? A report for a client."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

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
    from dpkv.audits.opening import OpenedTable
    from dpkv.audits.publication import Opened
    from dpkv.audits.results import Audit, Verdict
    from dpkv.audits.run import Audited, Job
    from dpkv.releases import Plan
    from dpkv.releases.inputs import FileInput, ReadTable

_NO_TABLE = (
    "give the table of the release by --data; or --public, for what the release alone can say."
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
        typer.Option(
            "--public",
            help="Leave out all that depends on the data beyond the release; without --data, "
            "the release and its synopsis are all that is read, in seconds.",
        ),
    ] = False,
    public_key: Annotated[
        Path | None, typer.Option(help="Whose signature is expected (PEM).")
    ] = None,
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

    Example:  dpkv audit release/release.json --public

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
    from dpkv.audits.opening import counts_of, domain_of, job_of, sample_of
    from dpkv.audits.run import Job, run_audit
    from dpkv.releases.settling import settle
    from dpkv.validation import exact_eps, whole_number

    whole_number("runs", runs, at_least=2)
    more_eps = tuple(
        f"{exact_eps('--compare-eps', text):f}" for text in (compare_eps or "").split(",") if text
    )
    whole_number("seed", seed, at_least=0)
    target = output.check_new_folder(out)
    opened = _release_of(subject, public_key)
    said = eps, bounds, gamma, columns, plant
    chosen = mechanism != PAPERS or calibration != "certified" or missing is not None
    if opened is not None and (chosen or not scale or any(value is not None for value in said)):
        raise UsageError(
            "a release is audited as it was made: only --data, --schema, --header, --encoding, "
            "--decimal, --k, --quick, --public, --public-key, --runs, --seed and --out go with it."
        )
    if opened is None and bounds == "private":
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
    if opened is not None:
        _check_public(opened.record.plan, public)
        alone = public and not data
        table = None if alone else _table_of(opened, data, asked, seed)
        job = job_of(opened, table, ks)
    else:
        asked, ks = as_calibrated(asked, ks)
        plan, records, dataset = plan_release(asked, publishes=public).read()
        plan = settle(plan, records.n_records).plan
        _check_public(plan, public)
        table = sample_of(records, dataset, seed)
        job = Job(
            values=table.values,
            columns=records.columns,
            label=records.label,
            domain=domain_of(plan, table.values, None),
            plan=plan,
            ks=counts_of(ks, None, table.n_units),
            n_units=table.n_units,
            sampled=table.sampled,
        )
    with output.new_folder(target) as folder, ProgressBar("auditing") as bar:
        found = run_audit(
            replace(
                job,
                seed=seed,
                quick=quick or job.values is None,
                runs=runs,
                more_eps=more_eps,
                plant=plant,
                command=shlex.join(["dpkv", *sys.argv[1:]]),
                cache=private_folder(find_workspace(), "audits") / "comparison.jsonl"
                if job.values is not None
                else None,
                identity="" if table is None else _identity(table, job, header, seed),
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


def _identity(table: OpenedTable, job: Job, header: bool | None, seed: int) -> str:
    """Name the rows that are compared, opaquely."""
    sample = seed if table.sampled else None
    facts = f"{job.plan.table} {job.plan.schema_digest}"
    return f"{table.dataset} {job.columns} {header} {facts} {sample}"


def _check_public(plan: Plan, public: bool) -> None:
    if public and not plan.end_to_end:
        raise UsageError(
            "--public needs a release that is private end to end: this one's noise or bounds "
            "depend on the data."
        )


def _release_of(subject: Path | None, public_key: Path | None) -> Opened | None:
    """Return the release that a JSON subject records, verified; None for a table."""
    from dpkv.audits.opening import open_release
    from dpkv.releases.signing import public_key_text

    if subject is None or subject.suffix.lower() != ".json":
        if public_key is not None:
            raise UsageError("--public-key goes with the record of a release.")
        return None
    home = find_workspace() if find_workspace().is_dir() else None
    key = None if public_key is None else public_key_text(public_key)
    return open_release(subject, home, public_key=key)


def _table_of(
    opened: Opened, data: list[Path] | None, asked: ReleaseOptions, seed: int
) -> OpenedTable:
    """Read the table of a release: the one that is named, or the newest calibration's."""
    from dpkv.audits.opening import OTHER_TABLE, Spelling, charged_dataset, read_table_of
    from dpkv.tables.labels import column_names

    record, home = opened.record, find_workspace()
    spelling = Spelling(asked.schema, asked.header, asked.encoding, asked.decimal)
    expected = None
    if not data:
        kept = newest_calibration(home)
        calibration = None if kept is None else kept.record
        if calibration is None or calibration.data_file is None:
            raise UsageError(_NO_TABLE)
        table, header = Path(calibration.data_file), calibration.header
        schema = None if calibration.schema_file is None else Path(calibration.schema_file)
        spelling = Spelling(schema, header, calibration.encoding, calibration.decimal)
        expected = calibration.data_fingerprint
        if not {column.name for column in record.plan.table} <= set(column_names(table, header)):
            raise UsageError(_OTHER_COLUMNS)
        if charged_dataset(record, home) not in (None, expected):
            raise UsageError(OTHER_TABLE)  # before a cell of it is complained of
        data = [table]

    def reading(source: FileInput) -> ReadTable:
        with ProgressBar(f"reading {source.label}") as bar:
            return source.read(bar.update)

    return read_table_of(
        record,
        data,
        home,
        spelling=spelling,
        memory_limit=options.memory_bytes(asked.memory_limit),
        expected=expected,
        reading=reading,
        seed=seed,
    )


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
