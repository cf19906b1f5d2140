"""Carrying a ledger from one store to another: the same entries, with a note of where it goes on.

    the old ledger is closed by an entry that names the new one  ->  the entries are copied
    ->  the copy is verified

So that at no moment two ledgers accept charges. What is interrupted is finished by asking again.
"""

from __future__ import annotations

from dpkv.errors import LedgerError
from dpkv.ledger.chain import Chain, read_chain
from dpkv.ledger.ledger import Ledger
from dpkv.ledger.store import IDENTITY, Store
from dpkv.ledger.verified import NOTHING


def move(source: Ledger, target: Store) -> Chain:
    """Carry all entries of a ledger to another store, and return the chain that is there."""
    with target.failures_told(), target.writing() as session:  # made where there is none
        identity = session.fact(IDENTITY) or ""
        there = read_chain(session, target.place, NOTHING)
    whole = source.verify()
    _check_prefix(there, whole, target)
    moved = source.close_for(identity, target.place)
    with target.failures_told(), target.writing() as session:
        there = read_chain(session, target.place, NOTHING)
        _check_prefix(there, moved, target)
        for entry in moved.entries[len(there) :]:
            session.insert(entry)
    with target.failures_told(), target.reading() as session:
        copied = read_chain(session, target.place, NOTHING)
    if copied.entries != moved.entries:
        raise LedgerError(
            f"the ledger {target.place} was written by others while it was made: move it elsewhere."
        )
    return copied


def _check_prefix(there: Chain, source: Chain, target: Store) -> None:
    if there.entries != source.entries[: len(there)]:
        raise LedgerError(
            f"the ledger {target.place} has entries that {source.place} does not know: move to an "
            "empty database, or back to where this ledger came from."
        )
