"""``dpkv ledger``: what every data set has spent, its budget, and whether the chain holds."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpkv.cli import options, output
from dpkv.cli.progress import ProgressBar
from dpkv.errors import LedgerError, UsageError, VerificationError
from dpkv.settings import find_workspace

if TYPE_CHECKING:
    from dpkv.ledger import Account, Entry, Ledger

SHOWN_FINGERPRINT = 8  # characters
_EMPTY = "the ledger is empty: nothing was released from this folder"


def show(
    delta: Annotated[
        str,
        typer.Option(help="At which delta to compose the charges of an account without its own."),
    ] = "0",
    as_json: options.AsJson = False,
) -> None:
    """Show budgets, what was spent, and every entry.

    The plain sum of all charges always holds. What they cost composed is less from a few charges
    on, at a small delta: by zCDP, or by privacy-loss distributions where no price depended on what
    earlier releases showed. What is left is what the next charge may cost.

    Example:  dpkv ledger show
    """
    from dpkv.ledger import Ledger
    from dpkv.validation import exact_delta

    chance = exact_delta("--delta", delta)
    with ProgressBar("verifying the ledger") as bar:
        # Sums of one that lacks charges would be too small.
        chain = Ledger(find_workspace()).verify(bar.update)
    accounts, entries = chain.accounts(), chain.entries
    if as_json:
        output.print_json(
            {
                "schema_version": 1,
                "kind": "ledger",
                "visibility": "curator-only",
                "accounts": [_account_fields(account, entries, chance) for account in accounts],
                "entries": [_entry_fields(entry) for entry in entries],
            }
        )
        return
    if not entries:
        output.say(_EMPTY)
        return
    output.print_table(
        "budgets",
        [
            "data", "fingerprint", "protects", "budget", "plain sum", "composed", "left",
            "releases", "not end to end",
        ],
        [_account_cells(account, entries, chance) for account in accounts],
    )  # fmt: skip
    output.print_table(
        "entries",
        ["entry", "when (UTC)", "what", "data", "eps"],
        [_entry_cells(e) for e in entries],
    )
    if any(account.n_conditional for account in accounts):
        output.note(
            "warning: some releases are conditional on the data: the sums are no end-to-end "
            "guarantee."
        )


def set_budget(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA", help="The table, its fingerprint from 'show', or name:NAME."
        ),
    ],
    eps: Annotated[
        str | None, typer.Option(help="What all releases together may cost.", show_default=False)
    ] = None,
    delta: Annotated[str, typer.Option(help="The delta of all releases together.")] = "0",
    rho: Annotated[
        str | None, typer.Option(help="A budget in zCDP instead of --eps.", show_default=False)
    ] = None,
    neighbours: Annotated[
        str | None,
        typer.Option(
            help="replace-one or add-remove (default: the account's, or replace-one).",
            show_default=False,
        ),
    ] = None,
    unit: Annotated[
        str | None,
        typer.Option(help="row or person (default: the account's, or row).", show_default=False),
    ] = None,
    prices: Annotated[
        str,
        typer.Option(
            help="adaptive: what a release costs may depend on what earlier ones showed; or fixed: "
            "you state that it does not, and charges are composed more tightly."
        ),
    ] = "adaptive",
    as_json: options.AsJson = False,
) -> None:
    """Set what all releases of a table together may cost; later ones are refused beyond it.

    The budget is for one relation and one unit, and so is the account: releases for others are
    refused.

    Example:  dpkv ledger set-budget patients.csv --eps 3
    """
    from dpkv.ledger import Ledger
    from dpkv.validation import exact_delta, exact_eps, one_of

    if eps is None and rho is None:
        raise UsageError("--eps or --rho must be given: what may all releases together cost?")
    amount = None if eps is None else exact_eps("--eps", eps)
    zcdp, chance = None if rho is None else exact_eps("--rho", rho), exact_delta("--delta", delta)
    one_of("--prices", prices, ("adaptive", "fixed"))
    ledger = Ledger(find_workspace())
    dataset, label = _dataset(ledger, data)
    chain = ledger.set_budget(
        dataset=dataset,
        label=label,
        eps=amount,
        delta=chance,
        rho=zcdp,
        neighbours=neighbours,
        unit=unit,
        fixed_prices=prices == "fixed",
    ).chain
    account = chain.account(dataset)
    if as_json:
        fields = _account_fields(account, chain.entries, chance)
        output.print_json({"schema_version": 1, "kind": "budget", **fields})
        return
    output.say(f"{label}: {describe_budget(account)} ({account.protects})")


def describe_budget(account: Account) -> str:
    """Say what an account may spend, has spent, and has left."""
    from dpkv.ledger.entries import delta_of_units

    if account.rho_budget is not None:
        spent = "-" if account.rho_spent is None else f"{delta_of_units(account.rho_spent):f}"
        return (
            f"budget rho {delta_of_units(account.rho_budget):f}, {spent} spent, "
            f"{account.remaining:f} left"
        )
    beyond = ""
    if account.delta_budget or account.delta_spent:
        beyond = f"; delta {account.delta_budget:f}, {account.delta_spent:f} spent"
    return (
        f"budget {account.budget:f}, {account.counted:f} spent, {account.remaining:f} left{beyond}"
    )


def verify(
    against: Annotated[
        Path | None,
        typer.Option(
            help="A checkpoint that the ledger must extend: nothing cut off, nothing rewritten.",
            show_default=False,
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Check every entry of the chain; exit code 3 where one was altered or is missing.

    Example:  dpkv ledger verify
    """
    from dpkv.ledger import Ledger
    from dpkv.releases.checkpoints import check_extends, read_checkpoint

    checkpoint = None if against is None else read_checkpoint(against)
    try:
        with ProgressBar("verifying the ledger") as bar:
            chain = Ledger(find_workspace()).verify(bar.update)
    except LedgerError as error:
        raise VerificationError(str(error)) from None
    count, told = len(chain), ""
    if checkpoint is not None:
        check_extends(chain, checkpoint)
        told = f", extends the checkpoint of {checkpoint.n_entries} entries by the key "
        told += checkpoint.public_key
    if as_json:
        output.print_json({"schema_version": 1, "kind": "ledger-check", "passed": True, "n": count})
    elif count:
        output.say(f"pass: {count} entries, chain unbroken{told}")
    else:
        output.say(_EMPTY)


def checkpoint(
    sign: Annotated[Path, typer.Option(help="The Ed25519 key (PEM) that signs the checkpoint.")],
    out: Annotated[Path, typer.Option(help="A new file for it.")] = Path("checkpoint.json"),
    as_json: options.AsJson = False,
) -> None:
    """Sign the ledger's head, to publish or to mail: whoever has it sees if entries are lost.

    It says how many entries there are, the digest of the last one, and the root of a Merkle tree
    over all. Later releases quote it.

    Example:  dpkv ledger checkpoint --sign key.pem
    """
    from dpkv.ledger import Ledger
    from dpkv.releases.checkpoints import make_checkpoint
    from dpkv.releases.signing import SigningKey

    key = SigningKey.from_pem(sign)
    _check_new_file(out)
    made = make_checkpoint(Ledger(find_workspace()), key)
    _write_new(out, made.to_json())
    if as_json:
        output.print_json_text(made.to_json())
    else:
        output.say(f"checkpoint of {made.n_entries} entries, root {made.root}, written to {out}")


def prove(
    entry: Annotated[
        str, typer.Argument(metavar="ENTRY", help="The entry's number, or the release's id.")
    ],
    against: Annotated[Path, typer.Option(help="The checkpoint to prove it for.")] = Path(
        "checkpoint.json"
    ),
    out: Annotated[Path, typer.Option(help="A new file for the proof.")] = Path("proof.json"),
    as_json: options.AsJson = False,
) -> None:
    """Prove that an entry is among those of a checkpoint, to somebody who has no ledger.

    Example:  dpkv ledger prove 2 --against checkpoint.json
    """
    from dpkv.ledger import Ledger
    from dpkv.releases import checkpoints

    known = checkpoints.read_checkpoint(against)
    _check_new_file(out)
    chain = Ledger(find_workspace()).verify()
    charged = chain.find(entry)
    if charged is None and not entry.isdecimal():
        raise UsageError(f"ENTRY must be a number or the id of a release. Got {entry!r} instead.")
    number = charged.number if charged is not None else int(entry[:18])
    proof = checkpoints.prove(chain, number, known)
    _write_new(out, proof.to_json())
    if as_json:
        output.print_json_text(proof.to_json())
    else:
        output.say(f"proof that entry {number} is in the checkpoint, written to {out}")


def check_proof(
    proof: Annotated[Path, typer.Argument(metavar="PROOF", help="A proof of inclusion.")],
    record: Annotated[
        Path | None,
        typer.Option(help="The release record whose charge it must be.", show_default=False),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(help="The checkpoint as you know it.", show_default=False),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Check a proof of inclusion, without any ledger; exit code 3 where it proves nothing.

    Example:  dpkv ledger check-proof proof.json --record release.json --against checkpoint.json
    """
    from dpkv import foreign
    from dpkv.releases import checkpoints
    from dpkv.releases.kept_releases import parse_record

    found = checkpoints.read_proof(proof)
    reference = None
    if record is not None:
        reference = parse_record(foreign.text_of(record), record).ledger
        if reference is None:
            raise VerificationError(f"{record} quotes no entry of a ledger.")
    found.check(reference, None if against is None else checkpoints.read_checkpoint(against))
    if as_json:
        output.print_json({"schema_version": 1, "kind": "proof-check", "passed": True})
        return
    output.say(
        f"pass: entry {found.number} is among the {found.checkpoint.n_entries} entries that the "
        f"key {found.checkpoint.public_key} signed"
    )
    if record is None or against is None:
        output.note(
            "give --record to see that the entry is that release's, and --against for a "
            "checkpoint that you had from elsewhere: anybody can make a key."
        )


def _check_new_file(path: Path) -> None:
    if path.exists():
        raise UsageError(f"{path} is there already: choose a new file with --out.")


def _write_new(path: Path, text: str) -> None:
    from dpkv.workspace import write_once

    try:
        written = write_once(path, text)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from None
    if not written:
        _check_new_file(path)


def move(
    to: Annotated[
        str,
        typer.Argument(
            metavar="TO",
            help="postgres: from the workspace to the database that DPKV_LEDGER or your settings "
            "name; sqlite: back from there into the workspace.",
        ),
    ],
    as_json: options.AsJson = False,
) -> None:
    """Carry the ledger to another database: the same entries, verified, and the old one closed.

    The old ledger stays where it is, as a backup that takes no more charges.

    Example:  DPKV_LEDGER=postgresql://curator@db/budgets dpkv ledger move postgres
    """
    from dpkv.fingerprints import carry_key
    from dpkv.known_tables import carry_notes
    from dpkv.ledger import Ledger
    from dpkv.ledger.ledger import shared_store
    from dpkv.ledger.move import move as carry_over
    from dpkv.ledger.sqlite import SqliteStore
    from dpkv.validation import one_of

    one_of("TO", to, ("postgres", "sqlite"))
    shared = shared_store()
    if shared is None:
        raise UsageError("DPKV_LEDGER must name the database: postgresql://USER@HOST/DATABASE.")
    own = SqliteStore(find_workspace())
    source = Ledger(find_workspace(), own if to == "postgres" else shared)
    if not source.exists():
        raise UsageError(f"there is no ledger {source.place} to move.")
    chain = carry_over(source, shared if to == "postgres" else own)
    carry_key(source, to_shared=Ledger(find_workspace(), shared) if to == "postgres" else None)
    carry_notes(source, Ledger(find_workspace(), shared if to == "postgres" else own))
    if as_json:
        facts = {"from": source.place, "to": chain.place, "entries": len(chain)}
        output.print_json({"schema_version": 1, "kind": "ledger-move", **facts})
        return
    output.say(f"{len(chain)} entries of {source.place} are in {chain.place}, chain unbroken")
    if to == "sqlite":
        output.note("unset DPKV_LEDGER, or remove it from your settings: the ledger is here again.")


def _dataset(ledger: Ledger, data: str) -> tuple[str, str]:
    """Return what the ledger calls a table, and its label: a file, a fingerprint or name:NAME."""
    from dpkv.ledger import NAMED
    from dpkv.releases.api import name_dataset
    from dpkv.releases.inputs import WatchedFile, fingerprint_of_files
    from dpkv.tables.finding import find_files

    path = Path(data)
    if data.startswith(NAMED):
        return name_dataset(data.removeprefix(NAMED)), data
    if data and path.is_dir():
        files = find_files([path])
        label = f"{len(files)} files of {path.resolve().name}" if len(files) > 1 else files[0].name
        return fingerprint_of_files([WatchedFile(file) for file in files], find_workspace()), label
    if path.is_file():
        return WatchedFile(path).fingerprint(find_workspace()), path.name
    known = [account for account in ledger.read().accounts() if account.dataset.startswith(data)]
    if len(known) != 1 or len(data) < SHOWN_FINGERPRINT:
        raise UsageError(
            "DATA must be a table's file or folder, or a fingerprint that 'dpkv ledger show' "
            f"lists. Got {data!r} instead."
        )
    return known[0].dataset, known[0].label


def _n_releases(account: Account, entries: tuple[Entry, ...]) -> int:
    """Return how many releases were charged; private bounds have charges of their own."""
    from dpkv.releases.charged_bounds import release_of_bounds

    charges = [e for e in entries if e.kind == "charge" and e.dataset == account.dataset]
    return sum(release_of_bounds(charge.release_id) is None for charge in charges)


def _account_fields(
    account: Account, entries: tuple[Entry, ...], chance: Decimal
) -> dict[str, Any]:
    from dpkv.accounting.exact import round_up
    from dpkv.ledger.entries import delta_of_units

    delta = account.delta_budget or chance
    composed = account.composed(delta)
    in_rho, rho = account.rho_budget is not None, account.rho_spent
    return {
        "dataset": account.dataset,
        "label": account.label,
        "neighbours": account.neighbours,
        "unit": account.unit,
        "prices": "fixed" if account.fixed_prices else "adaptive",
        "budget": None if account.budget is None else f"{account.budget:f}",
        "spent": f"{account.spent:f}",
        "counted": f"{account.counted:f}",
        "remaining": None if account.remaining is None or in_rho else f"{account.remaining:f}",
        "delta_budget": None if account.delta_budget is None else f"{account.delta_budget:f}",
        "delta_spent": f"{account.delta_spent:f}",
        "rho_budget": None if not in_rho else f"{delta_of_units(account.rho_budget or 0):f}",
        "rho_spent": None if rho is None else f"{delta_of_units(rho):f}",
        "composed": {
            "eps": f"{round_up(composed.eps):f}",
            "delta": f"{delta:f}",
            "by": composed.way,
        },
        "releases": _n_releases(account, entries),
        "not_end_to_end": account.n_conditional,
    }


def _entry_fields(entry: Entry) -> dict[str, Any]:
    return {
        "number": entry.number,
        "kind": entry.kind,
        "release_id": entry.release_id,
        "dataset": entry.dataset,
        "label": entry.label,
        "eps": f"{entry.eps:f}",
        "delta": f"{entry.delta:f}",
        "end_to_end": entry.end_to_end,
        "neighbours": entry.neighbours,
        "unit": entry.unit,
        "prices": entry.more.get("prices"),
        "created": entry.created,
        "digest": entry.digest,
    }


def _account_cells(account: Account, entries: tuple[Entry, ...], chance: Decimal) -> list[str]:
    return [
        account.label,
        account.dataset[:SHOWN_FINGERPRINT],
        account.protects,
        _budget_told(account),
        f"{account.spent:f}",
        _composed_told(account, chance),
        "-" if account.remaining is None else f"{account.remaining:f}",
        str(_n_releases(account, entries)),
        str(account.n_conditional),
    ]


def _budget_told(account: Account) -> str:
    from dpkv.ledger.entries import delta_of_units

    if account.rho_budget is not None:
        return f"rho {delta_of_units(account.rho_budget):f}"
    if account.budget is None:
        return "none"
    return f"{account.budget:f}" + (
        f", delta {account.delta_budget}" if account.delta_budget else ""
    )


def _composed_told(account: Account, chance: Decimal) -> str:
    """Say what the charges cost together, where that is less than their sum."""
    from dpkv.accounting.exact import round_up

    delta = account.delta_budget or chance
    composed = account.composed(delta)
    if composed.way == "sum" or not composed.eps.is_finite():
        return "-"
    return f"{round_up(composed.eps):f} at delta {delta} ({composed.way})"


def _entry_cells(entry: Entry) -> list[str]:
    from dpkv.releases.charged_bounds import release_of_bounds

    what: str = "release" if entry.kind == "charge" else entry.kind
    found_for = release_of_bounds(entry.release_id)
    if found_for is not None:
        what = "bounds of" if entry.kind == "charge" else f"{what} bounds of"
    what = f"{what} {found_for or entry.release_id or ''}".rstrip()
    if entry.kind == "charge" and not entry.end_to_end:
        what += " (conditional)"
    when = entry.created[:16].replace("T", " ")
    eps = f"{entry.eps:f}" if entry.kind in ("charge", "budget") else ""
    if entry.delta:
        eps += f", delta {entry.delta:f}"
    return [str(entry.number), when, what, entry.label, eps]
