"""Which tables the ledgers of one user know, so that a budget is not spent twice unawares.

A ledger knows nothing of the others: the same file, released from a sibling folder, has a budget of
its own there. So every charge is noted in the user's data folder, and a table that another ledger
has charged is pointed out before this one does. It is a help, not a guard: whatever is wrong with
the folder, releases go on without it.

    keys/registry.key       the registry's own key
    tables/TABLE/LEDGER     where that ledger is; TABLE is a keyed hash of the table, LEDGER a
                            hash of the ledger's identity, which one begun anew does not share
    heads/LEDGER            the number and the digest of the newest charge to that ledger

There is one small file for each, so that any number of processes may add theirs. A whole workspace
that was copied, or restored from a backup, has all that it knows of itself; but where the other
copy charged since, it lacks the newest charge.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from collections.abc import Callable, Iterator

from dpkv import foreign
from dpkv.fingerprints import TableKey
from dpkv.ledger import IDENTITY, Chain, Entry, Ledger
from dpkv.settings import registry_path
from dpkv.workspace import is_own_file, private_folder, write_atomically, write_once

_KEY_BYTES = 32
_TABLES = "tables"
_HEADS = "heads"
_MOST_SHOWN = 300  # characters of a path


def name_table(fingerprint: Callable[[TableKey], str]) -> str | None:
    """Return what the registry calls a table; None where there is no registry to use."""
    with _best_effort():
        path = private_folder(registry_path(), "keys") / "registry.key"
        if not is_own_file(path):
            write_once(path, secrets.token_bytes(_KEY_BYTES))
        key = foreign.read_bytes(path)
        if len(key) == _KEY_BYTES:
            return fingerprint(TableKey(key))
    return None


def note_charge(table: str | None, ledger: Ledger, entry: Entry) -> None:
    """Note that a ledger charged a table, by that entry."""
    with _best_effort():
        head = private_folder(registry_path(), _HEADS) / _name_of(ledger)
        write_atomically(head, f"{entry.number} {entry.digest}\n", durable=False)
    if table is None:
        return
    with _best_effort():
        folder = private_folder(registry_path(), _TABLES) / table
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / _name_of(ledger)
        if not path.exists():
            write_once(path, _place_of(ledger) + "\n")


def other_ledgers(table: str | None, ledger: Ledger) -> tuple[str, ...]:
    """Return where the other ledgers are, or were, that charged a table."""
    found: list[str] = []
    if table is None:
        return ()
    with _best_effort():
        own, here = _name_of(ledger), _place_of(ledger)
        for path in sorted((registry_path() / _TABLES / table).iterdir()):
            if path.name == own or path.name.startswith("."):
                continue
            text = foreign.read_text(path)[:_MOST_SHOWN]
            place = "".join(c for c in text if c.isprintable())
            found.append(f"{place}, an earlier one" if place == here else place)
    return tuple(found)


def point_out(table: str | None, ledger: Ledger) -> str | None:
    """Return a sentence on the other ledgers that charged a table, if there are any."""
    others = other_ledgers(table, ledger)
    if not others:
        return None
    more = f" and {len(others) - 1} more" if len(others) > 1 else ""
    return (
        "another ledger charged this table before, and what it spent is not counted here: "
        f"{others[0]}{more}"
    )


def point_out_missing(ledger: Ledger, known: Chain) -> str | None:
    """Return a sentence where a ledger lacks what was charged to it, or to a copy of it."""
    with _best_effort():
        path = registry_path() / _HEADS / _name_of(ledger)
        number, _, digest = foreign.read_text(path).strip().partition(" ")
        chain = known if _has(known, int(number), digest) else ledger.read()  # noted meanwhile
        if not _has(chain, int(number), digest):
            return (
                f"entry {number} was charged to this ledger or a copy of it, and is not here: the "
                "workspace was copied or restored from a backup, and what was spent since is not "
                "counted"
            )
    return None


def carry_notes(source: Ledger, target: Ledger) -> None:
    """Let a ledger that was moved stand for the one that it continues."""
    with _best_effort():
        old, new = _name_of(source), _name_of(target)
        for folder in (registry_path() / _TABLES).iterdir():
            path = folder / old
            if path.is_file() and old != new:
                write_once(folder / new, _place_of(target) + "\n")
                path.unlink()


@contextlib.contextmanager
def _best_effort() -> Iterator[None]:
    """Do without the registry where it cannot be used."""
    with contextlib.suppress(Exception):
        yield


def _has(chain: Chain, number: int, digest: str) -> bool:
    entry = chain.entry(number)
    return entry is not None and entry.digest == digest


def _name_of(ledger: Ledger) -> str:
    identity = ledger.fact(IDENTITY) or _place_of(ledger)
    return hashlib.sha256(identity.encode()).hexdigest()[:32]


def _place_of(ledger: Ledger) -> str:
    return ledger.place if ledger.is_shared else str(ledger.path.absolute())
