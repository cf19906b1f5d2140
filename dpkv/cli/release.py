"""``dpkv release`` and ``dpkv simulate``: centres that may be published, and a seeded rehearsal."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpkv.cli import output
from dpkv.cli.accounts import describe_budget
from dpkv.cli.clusters import show_clusters
from dpkv.cli.confirming import confirm_charge, tell_prediction
from dpkv.cli.grouping import takes
from dpkv.cli.planning import ReleaseJob, Taken, plan_release
from dpkv.cli.progress import progress_shown
from dpkv.cli.provenance import describe_account, describe_taken, with_curators_facts
from dpkv.cli.release_options import ReleaseOptions
from dpkv.errors import BoundsNotFoundError, LedgerError, UsageError, UserInterruptError
from dpkv.mechanisms.registry import MECHANISMS, names_with
from dpkv.settings import find_workspace

if TYPE_CHECKING:
    from dpkv.ledger import Ledger
    from dpkv.releases import Charging, Release, ReleaseRecord, Settled
    from dpkv.releases.record import NoiseRecord

_BOUNDS_TOLD = {
    "given": "given, taken as public",
    "private": "found privately, with {share:.0%} of eps",
    "data": "READ FROM THE DATA, which leaks them",
}


@takes(ReleaseOptions)
def release(
    asked: ReleaseOptions,
    *,
    out: Annotated[
        Path, typer.Option(help="A new folder for the centres and their record.")
    ] = Path("release"),
    release_id: Annotated[
        str | None,
        typer.Option(
            "--id",
            help="An id for the release: asking again with it repeats that release, charged once.",
        ),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(
            help="A name for the data set whose budget is charged (default: the file's contents)."
        ),
    ] = None,
    sign: Annotated[
        Path | None, typer.Option(help="Sign the record with this Ed25519 key (PEM).")
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Charge without asking; scripts are never asked.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Say what the release would charge and leave, without reading a record or "
            "charging.",
        ),
    ] = False,
) -> None:
    """Release k centres that may be published, charge the budget, and write the record.

    The noise is exact, from the operating system, without a seed. The charge is on disk before the
    records are used, and is never refunded. 'dpkv verify' re-checks the record.

    Example:  dpkv release patients.csv --header --k 4 --eps 1 --bounds=-10,10
    """
    from dpkv.known_tables import name_table
    from dpkv.ledger import Ledger
    from dpkv.releases.api import name_dataset
    from dpkv.releases.charging import Charging
    from dpkv.releases.produce import carry_out, check_release_id
    from dpkv.releases.settling import settle
    from dpkv.releases.signing import SigningKey, find_exposure

    name = check_release_id(release_id)
    account = None if dataset is None else name_dataset(dataset)
    key = None if sign is None else SigningKey.from_pem(sign)
    if sign is not None and (exposed := find_exposure(sign)) is not None:
        _note_warning(exposed)
    target = output.check_new_folder(out)
    _check_export(asked.export_synopsis, asked.mechanism)
    job = plan_release(asked)
    ledger = Ledger(find_workspace())
    if dry_run:
        _show_price(job, ledger, name, account, as_json=asked.as_json)
        return
    known = ledger.prepare()
    plan, records, account = job.read(account)
    with progress_shown():
        table = name_table(job.source.fingerprint)
    charging = Charging(ledger, account, name, known, _note_warning, table)
    charging.point_out()
    settled = settle(plan, records.n_records)
    _check_export(asked.export_synopsis, settled.plan.mechanism)
    _caution(settled, job)
    tell_prediction(settled)
    if not yes and not charging.is_repeated:
        confirm_charge(settled, records.label if dataset is None else dataset)
    with output.new_folder(target) as folder, _charge_told(charging):
        with progress_shown():
            done = carry_out(settled, records, charging, key=key)
        files = _write(done, folder, asked.export_synopsis)
        if asked.as_json:
            output.print_json(with_curators_facts(done.record, charging, job.taken))
        else:
            told = [
                ["budget", _budget_line(done)],
                ["ledger", describe_account(charging, records.label)],
                *_advice(settled),
            ]
            _show(done.record, told, files, job.taken)
        _warn(done.record)
        _tell_unused_delta(asked.delta, done.record)


def _show_price(
    job: ReleaseJob, ledger: Ledger, name: str, account: str | None, *, as_json: bool
) -> None:
    """Say what a release would charge, and what it would leave; refuse it as the release would.

    Nothing is written, and of the table nothing is read but its header and, where its account goes
    by its contents, the bytes that are hashed.
    """
    from dpkv.releases.dry_run import price_ahead

    account = job.find_account(account)
    found = price_ahead(
        job.preparation.plan,
        ledger.read(),
        account=account,
        label=job.source.label,
        release_id=name,
    )
    left = "" if found.remaining is None else f"{found.remaining:f}"
    if as_json:
        answer = {
            "kind": "price",
            "eps": found.eps,
            "delta": found.delta,
            "neighbours": found.account.neighbours,
            "unit": found.account.unit,
            "account": account,
            "remaining": left or None,
            "remaining_is": found.remaining_is,
        }
        output.print_json({"schema_version": 1, **answer})
        return
    beyond = f", delta {found.delta}" if found.delta != "0" else ""
    told = {
        "no budget": "no budget is set",
        "exact": f"{left} would be left",
        "at least": f"at least {left} would be left",
        "unknown": "what the budget has left then follows from the prices of its steps, and these "
        "from the number of records, which was not read",
    }[found.remaining_is]
    output.say(f"would charge eps {found.eps}{beyond} ({found.account.protects}); {told}")
    output.say(
        f"account {account} of {ledger.place}; no record was read, nothing charged or written"
    )


@contextlib.contextmanager
def _charge_told(charging: Charging) -> Iterator[None]:
    """Whatever stops a release, say whether it was charged and how to finish it."""
    try:
        yield
    except BoundsNotFoundError:  # says itself what was charged; the id is of no further use
        raise
    except BrokenPipeError:  # whoever reads has heard enough, and the files are written
        raise
    except BaseException as error:
        charged = _charged_if_known(charging.ledger, charging.release_id)
        told = "before anything was charged." if charged is None else charged
        if isinstance(error, KeyboardInterrupt):
            raise UserInterruptError(f"interrupted {told}") from None
        if not charging.is_repeated and charged is not None:
            output.note(f"stopped {told}")
        raise


def _charged_if_known(ledger: Ledger, name: str) -> str | None:
    """Return what of a release was charged; of a ledger that vanished, that it is not known."""
    try:
        return _charged(ledger, name)
    except LedgerError:
        return (
            "with a ledger that cannot be read, so that it is not known whether release "
            f"{name} was charged: run again with --id {name} when it can, and it is charged once."
        )


def _charged(ledger: Ledger, name: str) -> str | None:
    """Return what of a release was charged, and how to go on; None where nothing was."""
    from dpkv.releases.charged_bounds import bounds_id

    chain = ledger.read()
    if chain.find(name) is not None:
        return (
            f"after release {name} was charged: run again with --id {name}, and it is finished "
            "without a second charge."
        )
    if chain.find(bounds_id(name)) is not None:
        return (
            f"after the bounds of release {name} were charged: run again with --id {name}, and "
            "only the rest is charged."
        )
    return None


@takes(ReleaseOptions)
def simulate(
    asked: ReleaseOptions,
    *,
    seed: Annotated[int, typer.Option(help="Seed of the simulation.")] = 0,
    out: Annotated[
        Path, typer.Option(help="A new folder for the centres and their record.")
    ] = Path("simulation"),
) -> None:
    """Rehearse a release with a seed: the same code, no budget, and nothing that may be published.

    Whoever knows the seed can undo the noise, so everything written says that it is not releasable.

    Example:  dpkv simulate patients.csv --header --k 4 --eps 1 --bounds=-10,10 --seed 0
    """
    from dpkv.releases.produce import rehearse
    from dpkv.releases.settling import settle
    from dpkv.validation import whole_number

    whole_number("seed", seed, at_least=0)
    target = output.check_new_folder(out)
    _check_export(asked.export_synopsis, asked.mechanism)
    job = plan_release(asked)
    plan, records, _ = job.read()
    settled = settle(plan, records.n_records, simulated=True)
    _check_export(asked.export_synopsis, settled.plan.mechanism)
    _caution(settled, job)
    with output.new_folder(target) as folder:
        with progress_shown():
            done = rehearse(settled, records, seed=seed)
        files = _write(done, folder, asked.export_synopsis)
    if asked.as_json:
        output.print_json_text(done.record.to_json())
    else:
        _show(done.record, [["budget", "not touched"], *_advice(settled)], files, job.taken)
    _warn(done.record)
    _tell_unused_delta(asked.delta, done.record)


def _write(done: Release, folder: output.NewFolder, export_synopsis: bool) -> list[Path]:
    """Write centres and record, and a synopsis if wanted, into a new folder, all or nothing."""
    from dpkv.releases.files import release_files

    record = done.record
    if export_synopsis and done.synopsis is None:
        if record.synopsis_digest is not None:
            raise UsageError("the synopsis of this release is gone from the workspace: restore it.")
        output.note(f"no synopsis to export: auto chose {record.plan.mechanism}.")
    files = release_files(record, done.synopsis if export_synopsis else None)
    return folder.fill(files, private=record.visibility != "public")


def _check_export(export_synopsis: bool, mechanism: str) -> None:
    """Refuse, before anything is charged, to export what no synopsis will be there for."""
    kind = MECHANISMS.get(mechanism)  # auto may take one that makes cells; a bad name is told later
    if export_synopsis and kind is not None and not kind.makes_synopsis:
        able = " or ".join(names_with("makes_synopsis"))
        raise UsageError(
            f"--export-synopsis needs --mechanism {able}: no other makes private cells."
        )


def _caution(settled: Settled, job: ReleaseJob) -> None:
    """Say, before anything is charged, what speaks against a release that can be carried out."""
    from dpkv.releases.cautions import cautions, cautions_about_table

    for sentence in (*cautions_about_table(job.preparation), *cautions(settled)):
        _note_warning(sentence)


def _advice(settled: Settled) -> list[list[str]]:
    """Return what would serve better, as facts to show."""
    from dpkv.releases.cautions import advice

    return [["closer", sentence] for sentence in advice(settled)]


def _budget_line(done: Release) -> str:
    record, account = done.record, done.account
    assert account is not None and done.charged_to is not None
    charged = "" if record.charged is None else f"charged {record.charged:f}; "
    if done.charged_to.is_repeated and record.ledger is not None:
        charged = f"repeated, charged before (entry {record.ledger.number}); "
    if account.remaining is None:
        beyond = f", delta {account.delta_spent:f}" if account.delta_spent else ""
        return f"{charged}{account.spent:f}{beyond} spent in all, no budget is set"
    if account.rho_budget is not None:
        return f"{charged}{describe_budget(account)}"
    line = f"{charged}{account.counted:f} of {account.budget:f} spent, {account.remaining:f} left"
    if account.delta_spent or account.delta_budget:
        line += f"; delta {account.delta_spent:f} of {account.delta_budget:f} spent"
    return line


def _tell_unused_delta(asked: float, record: ReleaseRecord) -> None:
    """Say where a delta that was asked for made nothing better."""
    if asked > 0 and record.plan.exact_delta == 0:
        output.note("delta was not used, nor charged: Laplace noise is less here.")


def _show(
    record: ReleaseRecord, spent: list[list[str]], files: list[Path], taken: Taken | None
) -> None:
    from dpkv.releases import wording
    from dpkv.releases.missing_cells import rules_of

    plan, promise = record.plan, record.guarantee
    eps = f"eps = {plan.eps}" if promise.end_to_end else "none proved"
    if promise.delta != "0":
        eps += f", delta = {plan.delta}"
    chosen, weighed = wording.choice(plan), wording.weighing(plan)
    rows = [
        *([["from", describe_taken(taken)]] if taken is not None else []),
        ["centres", f"{len(record.clusters)}, by {wording.title(record)}"],
        ["privacy", f"{eps}, {plan.neighbours.value} neighbours"],
        ["protects", wording.protects(plan, promise)],
        *([["rows", weighed]] if weighed else []),
        ["missing", rules_of(plan)],
        *([["why", chosen]] if chosen else []),
        ["bounds", _bounds_told(record)],
        *(["noise", _noise_told(noise, record)] for noise in record.noise),
        *spent,
        ["files", ", ".join(map(str, files))],
    ]
    output.print_facts(f"release {record.release_id}" if record.release_id else record.kind, rows)
    show_clusters(record)
    output.say(record.summary)


def _bounds_told(record: ReleaseRecord) -> str:
    told = _BOUNDS_TOLD[record.plan.bounds].format(share=record.plan.bounds_share)
    domain = record.bounds.domain
    if record.plan.bounds == "given" or "lower" not in domain:
        return told
    pairs = zip(record.columns, domain["lower"], domain["upper"], strict=True)
    shown = output.first_few(f"{name} {low:g}..{high:g}" for name, low, high in pairs)
    return f"{told}: {shown}"


def _noise_told(noise: NoiseRecord, record: ReleaseRecord) -> str:
    from dpkv.releases.wording import part

    added_to = part(noise.added_to, record)
    if noise.column_sd is None:
        return f"on {added_to}: sd {noise.sd:.4g} {part(noise.unit, record)}"
    pairs = zip(record.columns, noise.column_sd, strict=True)
    shown = output.first_few(f"{sd:.4g} in {name}" for name, sd in pairs)
    return f"on {added_to}: sd {shown}"


def _warn(record: ReleaseRecord) -> None:
    from dpkv.releases.wording import warnings

    for sentence in warnings(record):
        _note_warning(sentence)


def _note_warning(sentence: str) -> None:
    output.note(f"warning: {sentence}.")
