"""``dpkv ledger``: what every data set has spent, its budget, and whether the chain holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpkv.cli import options, output
from dpkv.cli.accounts import (
    SHOWN_FINGERPRINT,
    account_fields,
    account_rows,
    describe_budget,
    entry_cells,
    entry_fields,
)
from dpkv.cli.progress import ProgressBar
from dpkv.errors import LedgerError, UsageError, VerificationError
from dpkv.settings import find_workspace

if TYPE_CHECKING:
    from dpkv.ledger import Ledger

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
                "accounts": [account_fields(account, entries, chance) for account in accounts],
                "entries": [entry_fields(entry) for entry in entries],
            }
        )
        return
    if not entries:
        output.say(_EMPTY)
        return
    for account in accounts:
        output.print_facts(*account_rows(account, entries, chance))
    output.print_table(
        "entries",
        ["entry", "when (UTC)", "what", "data", "eps"],
        [entry_cells(e) for e in entries],
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
        typer.Option(
            help="row or person (default: what the schema beside the table says, or the account's, "
            "or row).",
            show_default=False,
        ),
    ] = None,
    schema: options.SchemaFile = None,
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
    person = None if unit == "row" else _person_column(data, schema)
    chain = ledger.set_budget(
        dataset=dataset,
        label=label,
        eps=amount,
        delta=chance,
        rho=zcdp,
        neighbours=neighbours,
        unit=unit if person is None else "person",
        person=person,
        fixed_prices=prices == "fixed",
    ).chain
    account = chain.account(dataset)
    if as_json:
        fields = account_fields(account, chain.entries, chance)
        output.print_json({"schema_version": 1, "kind": "budget", **fields})
        return
    output.say(f"{label}: {describe_budget(account)} ({account.protects})")


def verify(
    against: Annotated[
        Path | None,
        typer.Option(
            help="A checkpoint that the ledger must extend: nothing cut off, nothing rewritten.",
            show_default=False,
        ),
    ] = None,
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="Verify every entry, and every sum, also what was verified from here before.",
        ),
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Check the chain; exit code 3 where an entry was altered or is missing.

    As a charge does, it goes on from where this workspace verified a long ledger before. --full
    and --against read everything, and also find a charge that no budget allowed.

    Example:  dpkv ledger verify --full
    """
    from dpkv.ledger import Ledger
    from dpkv.ledger.admission import check_admitted
    from dpkv.releases.checkpoints import check_extends, read_checkpoint

    checkpoint = None if against is None else read_checkpoint(against)
    whole, ledger = full or checkpoint is not None, Ledger(find_workspace())
    try:
        with ProgressBar("verifying the ledger") as bar:
            chain = ledger.verify(bar.update) if whole else ledger.read(bar.update)
        if chain.base.number == 0:
            check_admitted(chain.entries, chain.place)
    except LedgerError as error:
        raise VerificationError(str(error)) from None
    count, earlier = len(chain), chain.base.number
    if checkpoint is not None:
        check_extends(chain, checkpoint)
    if as_json:
        answer = {"passed": True, "n": count, "verified_earlier": earlier}
        output.print_json({"schema_version": 1, "kind": "ledger-check", **answer})
        return
    if not count:
        output.say(_EMPTY)
        return
    told = f"pass: {count} entries, chain unbroken"
    if earlier:
        told += f"; {earlier} of them were verified from here before, and --full reads them again"
    if checkpoint is not None:
        told += f", extends the checkpoint of {checkpoint.n_entries} entries by the key "
        told += checkpoint.public_key
    output.say(told)


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


def _person_column(data: str, schema: Path | None) -> str | None:
    """Return the column that the table's schema says names persons, if it has one."""
    from dpkv.tables.described import schema_of

    path = Path(data)
    found = schema_of(schema, path if path.is_file() else None)
    return None if found is None else found.person


def _dataset(ledger: Ledger, data: str) -> tuple[str, str]:
    """Return what the ledger calls a table, and its label: a file, a fingerprint or name:NAME."""
    from dpkv.ledger import NAMED
    from dpkv.releases.api import name_dataset
    from dpkv.releases.inputs import WatchedFile, fingerprint_of_files
    from dpkv.tables.finding import find_files, folder_of, names_files

    if data.startswith(NAMED):
        return name_dataset(data.removeprefix(NAMED)), data
    if data and names_files(data):
        files = find_files([data])
        several = f"{len(files)} files of {folder_of(files).name}"
        label = several if len(files) > 1 else files[0].name
        return fingerprint_of_files([WatchedFile(file) for file in files], find_workspace()), label
    known = [account for account in ledger.read().accounts() if account.dataset.startswith(data)]
    if len(known) != 1 or len(data) < SHOWN_FINGERPRINT:
        raise UsageError(
            "DATA must be a table's file, folder, pattern or manifest, or a fingerprint that 'dpkv "
            f"ledger show' lists. Got {data!r} instead."
        )
    return known[0].dataset, known[0].label
