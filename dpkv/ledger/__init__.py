"""The budget ledger: what every release of a data set has cost, in one append-only SQLite file.

Entries are chained: each holds the SHA-256 of all its other fields, among them the digest of the
entry before (a delta only where it is not 0). The chain has no key, on purpose: a published release
record quotes the digest of its entry, and anyone who holds a record can then check the ledger up to
that entry.

What the chain finds: an entry that was altered, removed from the middle, or moved. What it does not
find: a tail that was cut off, a chain rewritten from some entry to its end, or a ledger begun anew,
unless it is compared with a published record that quotes a digest from there. Nor does it tell who
wrote an entry: whoever may write the file may also raise a budget.

A charge is never taken back, and there is nothing here that deletes. No value of a record and no
seed is ever in the ledger; a data set goes by a keyed fingerprint that is made elsewhere.
"""

from dpkv.ledger.entries import (
    NEIGHBOURS,
    Account,
    Entry,
    budget_units,
    charge_units,
    delta_charge_units,
    entry_digest,
)
from dpkv.ledger.ledger import Ledger
from dpkv.validation import LARGEST_EPS

__all__ = [
    "LARGEST_EPS",
    "NEIGHBOURS",
    "Account",
    "Entry",
    "Ledger",
    "budget_units",
    "charge_units",
    "delta_charge_units",
    "entry_digest",
]
