"""``dpkv audit --command``: anybody's mechanism, by files, in any language."""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpkv import foreign
from dpkv.cli import output
from dpkv.cli.progress import ProgressBar
from dpkv.errors import UsageError, VerificationError

if TYPE_CHECKING:
    from dpkv.audits.blackbox import BlackBoxAudit, Claim, TableDomain
    from dpkv.audits.blackbox.tables import Pair

_PANEL = "Anybody's mechanism"
_DEFAULT_BUDGET = "10m"


def _option(*names: str, help: str) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=_PANEL, show_default=False)


Command = Annotated[
    str | None,
    _option(
        help="Audit a command instead, by files: {input} is a table as CSV, {output} where the "
        "result goes (or it is printed), {seed} a number for its randomness. With {runs}, one call "
        "writes that many results, one per line."
    ),
]
ClaimText = Annotated[
    str | None, _option(help="What it claims: eps=1,delta=1e-6,neighbours=add-remove, or mu=1,...")
]
Schema = Annotated[
    Path | None,
    typer.Option(
        help="The table's public facts (default: data.schema.json beside data.csv, where there is "
        "one); with --command, the columns of its tables, with bounds or levels.",
        show_default=False,
    ),
]
BudgetText = Annotated[
    str | None, _option(help="How much is tried: minutes (10m, the default) or runs (50000).")
]
Alpha = Annotated[
    float | None,
    _option(help="Probability, at most, of accusing a correct mechanism. Default: 1e-6."),
]
MinRows = Annotated[int | None, _option(help="Smallest number of rows in a table. Default: 0.")]
Jobs = Annotated[int | None, _option(help="How many runs at the same time. Default: one per core.")]
State = Annotated[
    Path | None, _option(help="A file that keeps what was seen, so that an audit can go on.")
]
Junit = Annotated[Path | None, _option(help="Also write the verdict as JUnit XML.")]
PairFile = Annotated[
    Path | None, _option("--pair", help="Try the tables of this audit.json alone.")
]
WithTime = Annotated[bool, _option("--with-time", help="Also use how long a run takes.")]


@dataclass(frozen=True)
class CommandAudit:
    """The options of an audit of a command."""

    command: str | None
    claim: str | None
    schema: Path | None
    budget: str | None
    alpha: float | None
    min_rows: int | None
    jobs: int | None
    state: Path | None
    junit: Path | None
    pair: Path | None
    with_time: bool
    seed: int = 0
    out: Path = Path("audit")
    as_json: bool = False

    @property
    def says_anything(self) -> bool:
        """Whether an option was given that no table has."""
        own = [getattr(self, one.name) for one in fields(self)[1:-3] if one.name != "schema"]
        return self.with_time or any(value is not None for value in own if value is not False)


def audit_command(wanted: CommandAudit) -> None:
    """Audit a command, write the report, and say what was found; exit code 3 is a violation."""
    from dpkv.audits.blackbox import (
        DEFAULT_ALPHA,
        Budget,
        Claim,
        CommandRunner,
        audit_runner,
        domain_of,
    )
    from dpkv.validation import whole_number

    if wanted.command is None:
        raise UsageError("--claim and what goes with it need --command.")
    if wanted.claim is None or wanted.schema is None:
        raise UsageError(
            "--command needs --claim, such as eps=1,neighbours=add-remove, and --schema, the "
            "columns of the table with their bounds."
        )
    claim, budget = Claim.parse(wanted.claim), Budget.parse(wanted.budget or _DEFAULT_BUDGET)
    rows = whole_number("--min-rows", wanted.min_rows or 0, at_least=0)
    domain = domain_of(wanted.schema, min_rows=rows)
    jobs = whole_number("--jobs", wanted.jobs or 0, at_least=0) or os.cpu_count() or 1
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
            alpha=DEFAULT_ALPHA if wanted.alpha is None else wanted.alpha,
            seed=wanted.seed,
            state=wanted.state,
            with_time=wanted.with_time,
            pair=pair,
            progress=bar.describe,
            again=_again(wanted),
        )
        _write(found, folder, junit)
    if wanted.as_json:
        output.print_json_text(found.to_json())
    else:
        _show(found, target)
    if not found.holds:
        raise VerificationError(f"{found.headline}.")


def _again(wanted: CommandAudit) -> str:
    """Return the command that searches anew, by the same seed, and writes over nothing."""
    options: list[tuple[str, object]] = [
        ("--command", wanted.command),
        ("--claim", wanted.claim),
        ("--schema", wanted.schema),
        ("--budget", wanted.budget or _DEFAULT_BUDGET),
        ("--alpha", wanted.alpha),
        ("--min-rows", wanted.min_rows),
        ("--jobs", wanted.jobs),
        ("--pair", wanted.pair),
        ("--seed", wanted.seed),
        ("--out", f"{wanted.out}-again"),
    ]
    words = [word for name, value in options if value is not None for word in (name, str(value))]
    return shlex.join(["dpkv", "audit", *words, *(["--with-time"] if wanted.with_time else [])])


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
