"""The budget ledger: what every release of a data set has cost, in one append-only SQLite file.

Entries are chained: each holds the SHA-256 of all its other fields, among them the digest of the
entry before and a random salt. The chain has no key, on purpose: a published release record quotes
the digest of its entry, and anyone who holds a record can then check the ledger up to that entry.
Without the ledger the digest tells nothing: the salt keeps guesses of the other fields, such as the
time or the data set, from being confirmed.

What the chain finds: an entry that was altered, removed from the middle, or moved. What it does not
find by itself: a tail that was cut off, a chain rewritten from some entry to its end, or a ledger
begun anew. These are found against a record that quotes a digest from there: every charge and every
verification compare the chain with all releases that the workspace keeps. Nor does the chain tell
who wrote an entry: whoever may write the file may also raise a budget.

A charge is never taken back, and there is nothing here that deletes. No value of a record and no
seed is ever in the ledger; a data set goes by a keyed fingerprint that is made elsewhere.
"""

from dpkv.ledger.accounts import Account
from dpkv.ledger.chain import Chain, Written
from dpkv.ledger.entries import (
    NAMED,
    NEIGHBOURS,
    Entry,
    budget_units,
    charge_units,
    delta_charge_units,
    draft_charge,
    entry_digest,
)
from dpkv.ledger.ledger import Charge, Ledger
from dpkv.ledger.store import IDENTITY
from dpkv.validation import LARGEST_EPS

__all__ = [
    "IDENTITY",
    "LARGEST_EPS",
    "NAMED",
    "NEIGHBOURS",
    "Account",
    "Chain",
    "Charge",
    "Entry",
    "Ledger",
    "Written",
    "budget_units",
    "charge_units",
    "delta_charge_units",
    "draft_charge",
    "entry_digest",
]
