"""``dpkv audit --command``: anybody's mechanism, by files, in any language."""

from __future__ import annotations

import json
import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dpkv import foreign
from dpkv.cli import output
from dpkv.cli.progress import ProgressBar
from dpkv.errors import UsageError, VerificationError

if TYPE_CHECKING:
    from dpkv.audits.blackbox import BlackBoxAudit, Claim, TableDomain
    from dpkv.audits.blackbox.tables import Pair


@dataclass(frozen=True)
class CommandAudit:
    """The options of an audit of a command."""

    command: str
    claim: str | None
    schema: Path | None
    budget: str
    alpha: float
    min_rows: int
    jobs: int
    state: Path | None
    junit: Path | None
    pair: Path | None
    with_time: bool
    seed: int
    out: Path
    as_json: bool


def audit_command(wanted: CommandAudit) -> None:
    """Audit a command, write the report, and say what was found; exit code 3 is a violation."""
    from dpkv.audits.blackbox import Budget, Claim, CommandRunner, audit_runner, domain_of
    from dpkv.validation import whole_number

    if wanted.claim is None or wanted.schema is None:
        raise UsageError(
            "--command needs --claim, such as eps=1,neighbours=add-remove, and --schema, the "
            "columns of the table with their bounds."
        )
    claim, budget = Claim.parse(wanted.claim), Budget.parse(wanted.budget)
    rows = whole_number("--min-rows", wanted.min_rows, at_least=0)
    domain = domain_of(wanted.schema, min_rows=rows)
    jobs = whole_number("--jobs", wanted.jobs, at_least=0) or os.cpu_count() or 1
    runner = CommandRunner(wanted.command, domain, wanted.seed, jobs)
    pair = None if wanted.pair is None else _pair_of(wanted.pair, domain, claim)
    target = output.check_new_folder(wanted.out)
    junit = None if wanted.junit is None else output.check_new_file(wanted.junit)
    with output.new_folder(target) as folder, ProgressBar("auditing") as bar:
        found = audit_runner(
            runner,
            claim,
            domain,
            budget=budget,
            alpha=wanted.alpha,
            seed=wanted.seed,
            state=wanted.state,
            with_time=wanted.with_time,
            pair=pair,
            progress=bar.describe,
            again=shlex.join(["dpkv", *sys.argv[1:]]),
        )
        _write(found, folder, junit)
    if wanted.as_json:
        output.print_json_text(found.to_json())
    else:
        _show(found, target)
    if not found.holds:
        raise VerificationError(f"{found.headline}.")


def _pair_of(path: Path, domain: TableDomain, claim: Claim) -> Pair:
    """Return the pair of tables that an earlier audit found."""
    from dpkv.audits.blackbox.results import TablePair

    try:
        record = json.loads(foreign.text_of(path))
        kept = TablePair.model_validate(record.get("witness", record))
        pair = kept.to_pair()
    except (ValueError, AttributeError):
        raise UsageError(f"--pair {path} holds no pair of tables: name an audit.json.") from None
    if kept.columns != tuple(column.name for column in domain.columns):
        raise UsageError(f"--pair {path} has other columns than the schema.")
    if not pair.is_of(claim.neighbours):
        raise UsageError(f"--pair {path}: its tables are no {claim.neighbours.value} neighbours.")
    return pair


def _write(found: BlackBoxAudit, folder: output.NewFolder, junit: Path | None) -> None:
    from dpkv.audits.blackbox.junit import junit_xml
    from dpkv.audits.blackbox.report import render

    folder.fill(render(found), private=False)  # tables here are made up
    if junit is not None:
        output.write_public(junit, junit_xml(found))


def _show(found: BlackBoxAudit, folder: Path) -> None:
    from dpkv.audits.blackbox.results import PROVES_NOTHING

    rows = [
        ["verdict", "nothing found" if found.holds else "VIOLATED"],
        ["claimed", found.claim],
        ["shown", f"{found.unit} >= {max(0.0, found.lower_bound - 5e-4):.3f}"],
        ["tried", f"{found.runs} runs on {found.pairs_tried} pairs of tables"],
        ["false alarms", f"at most {found.alpha:g} an audit"],
    ]
    if found.best is not None and not found.holds:
        rows.append(["event", found.best.words])
    rows.append(["report", str(folder / "report.html")])
    output.print_facts(f"audit of {found.mechanism}", rows)
    output.say(f"{found.headline}.")
    if found.holds:
        output.note(f"{PROVES_NOTHING}.")
