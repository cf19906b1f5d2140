"""``dpkv ledger``: what every data set has spent, its budget, and whether the chain holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpkv.cli import options, output
from dpkv.cli.reading import WORKSPACE
from dpkv.errors import LedgerError, UsageError, VerificationError

if TYPE_CHECKING:
    from dpkv.ledger import Account, Entry, Ledger

SHOWN_FINGERPRINT = 8  # characters
_EMPTY = "the ledger is empty: nothing was released from this folder"


def show(as_json: options.AsJson = False) -> None:
    """Show budgets, what was spent, and every entry.

    Example:  dpkv ledger show
    """
    from dpkv.ledger import Ledger

    chain = Ledger(WORKSPACE).verify()  # sums of one that lacks charges would be too small
    accounts, entries = chain.accounts(), chain.entries
    if as_json:
        output.print_json(
            {
                "schema_version": 1,
                "kind": "ledger",
                "visibility": "curator-only",
                "neighbours": "replace-one",
                "accounts": [_account_fields(account, entries) for account in accounts],
                "entries": [_entry_fields(entry) for entry in entries],
            }
        )
        return
    if not entries:
        output.say(_EMPTY)
        return
    output.print_table(
        "budgets (eps, replace-one neighbours)",
        ["data", "fingerprint", "budget", "spent", "left", "releases", "not end to end"],
        [_account_cells(account, entries) for account in accounts],
    )
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
    eps: Annotated[str, typer.Option(help="What all releases together may cost (replace-one).")],
    delta: Annotated[str, typer.Option(help="The delta of all releases together.")] = "0",
    as_json: options.AsJson = False,
) -> None:
    """Set what all releases of a table together may cost; later ones are refused beyond it.

    Example:  dpkv ledger set-budget patients.csv --eps 3
    """
    from dpkv.ledger import Ledger
    from dpkv.validation import exact_delta, exact_eps

    amount, chance = exact_eps("--eps", eps), exact_delta("--delta", delta)
    ledger = Ledger(WORKSPACE)
    dataset, label = _dataset(ledger, data)
    chain = ledger.set_budget(dataset=dataset, label=label, eps=amount, delta=chance).chain
    account = chain.account(dataset)
    if as_json:
        fields = _account_fields(account, chain.entries)
        output.print_json({"schema_version": 1, "kind": "budget", **fields})
        return
    beyond = ""
    if account.delta_budget or account.delta_spent:
        beyond = f"; delta {account.delta_budget:f}, {account.delta_spent:f} spent"
    output.say(
        f"{label}: budget {account.budget:f}, {account.spent:f} spent, {account.remaining:f} left"
        f"{beyond} (replace-one neighbours)"
    )


def verify(as_json: options.AsJson = False) -> None:
    """Check every entry of the chain; exit code 3 where one was altered or is missing.

    Example:  dpkv ledger verify
    """
    from dpkv.ledger import Ledger

    try:
        count = len(Ledger(WORKSPACE).verify())
    except LedgerError as error:
        raise VerificationError(str(error)) from None
    if as_json:
        output.print_json({"schema_version": 1, "kind": "ledger-check", "passed": True, "n": count})
    elif count:
        output.say(f"pass: {count} entries, chain unbroken")
    else:
        output.say(_EMPTY)


def _dataset(ledger: Ledger, data: str) -> tuple[str, str]:
    """Return what the ledger calls a table, and its label: a file, a fingerprint or name:NAME."""
    from dpkv.ledger import NAMED
    from dpkv.releases.api import name_dataset
    from dpkv.releases.inputs import WatchedFile

    path = Path(data)
    if data.startswith(NAMED):
        return name_dataset(data.removeprefix(NAMED)), data
    if path.is_file():
        return WatchedFile(path).fingerprint(WORKSPACE), path.name
    known = [account for account in ledger.read().accounts() if account.dataset.startswith(data)]
    if len(known) != 1 or len(data) < SHOWN_FINGERPRINT:
        raise UsageError(
            f"DATA must be a table's file or a fingerprint that 'dpkv ledger show' lists. "
            f"Got {data!r} instead."
        )
    return known[0].dataset, known[0].label


def _n_releases(account: Account, entries: tuple[Entry, ...]) -> int:
    """Return how many releases were charged; private bounds have charges of their own."""
    from dpkv.releases.charged_bounds import release_of_bounds

    charges = [e for e in entries if e.kind == "charge" and e.dataset == account.dataset]
    return sum(release_of_bounds(charge.release_id) is None for charge in charges)


def _account_fields(account: Account, entries: tuple[Entry, ...]) -> dict[str, Any]:
    return {
        "dataset": account.dataset,
        "label": account.label,
        "budget": None if account.budget is None else f"{account.budget:f}",
        "spent": f"{account.spent:f}",
        "remaining": None if account.remaining is None else f"{account.remaining:f}",
        "delta_budget": None if account.delta_budget is None else f"{account.delta_budget:f}",
        "delta_spent": f"{account.delta_spent:f}",
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
        "created": entry.created,
        "digest": entry.digest,
    }


def _account_cells(account: Account, entries: tuple[Entry, ...]) -> list[str]:
    return [
        account.label,
        account.dataset[:SHOWN_FINGERPRINT],
        "none" if account.budget is None else f"{account.budget:f}",
        f"{account.spent:f}",
        "-" if account.remaining is None else f"{account.remaining:f}",
        str(_n_releases(account, entries)),
        str(account.n_conditional),
    ]


def _entry_cells(entry: Entry) -> list[str]:
    from dpkv.releases.charged_bounds import release_of_bounds

    what = {"charge": "release", "kept": "kept", "budget": "budget"}[entry.kind]
    found_for = release_of_bounds(entry.release_id)
    if found_for is not None:
        what = "bounds of" if entry.kind == "charge" else f"{what} bounds of"
    what = f"{what} {found_for or entry.release_id or ''}".rstrip()
    if entry.kind == "charge" and not entry.end_to_end:
        what += " (conditional)"
    when = entry.created[:16].replace("T", " ")
    eps = "" if entry.kind == "kept" else f"{entry.eps:f}"
    if entry.delta:
        eps += f", delta {entry.delta:f}"
    return [str(entry.number), when, what, entry.label, eps]
