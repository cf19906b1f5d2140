"""Whether every charge of a chain was one that its budget allowed when it was written.

dpkv writes no other; but whoever can write to the database, or to what a workspace notes of it, can
put one there that is chained like any. Within one budget what is spent only grows, so that the last
charge before the next budget, or before the end, speaks for all before it.
"""

from __future__ import annotations

from collections.abc import Iterable

from dpkv.errors import BrokenLedgerError, UsageError
from dpkv.ledger.accounts import Account, Accounts, add_entry
from dpkv.ledger.entries import Entry

_FIND_OUT = "it was written by something else than dpkv, so find out by whom"


def check_admitted(entries: Iterable[Entry], place: str) -> None:
    """Refuse a ledger with a charge beyond its budget, or of another relation or unit."""
    accounts = Accounts()
    last: dict[str, Entry] = {}
    for entry in entries:
        name = entry.dataset
        account = accounts.get(name, Account(name))
        if entry.kind in ("charge", "budget"):
            _check_promise(account, entry, place)
        if entry.kind == "budget" and name in last:
            _check_last(account, last.pop(name), place)
        if entry.kind == "charge":
            last[name] = entry
        add_entry(accounts, entry)
    for name, entry in last.items():
        _check_last(accounts[name], entry, place)


def _check_promise(account: Account, entry: Entry, place: str) -> None:
    try:
        account.check_promise(entry.neighbours or "", entry.unit or "", entry.person)
    except UsageError:
        raise BrokenLedgerError(
            f"the ledger {place} does not check out: entry {entry.number} is of another relation "
            f"or unit than its account: {_FIND_OUT}."
        ) from None


def _check_last(account: Account, entry: Entry, place: str) -> None:
    if not account.is_within_budget:
        raise BrokenLedgerError(
            f"the ledger {place} does not check out: by entry {entry.number} (release "
            f"{entry.release_id}) more is charged than the budget of {account.label} allows: "
            f"{_FIND_OUT}."
        )
