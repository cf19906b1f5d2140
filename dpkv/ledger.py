"""The budget ledger: what every release of a data set has cost, in one append-only SQLite file.

Entries are chained: each holds the SHA-256 of all its other fields, among them the digest of the
entry before. The chain has no key, on purpose: a published release record quotes the digest of its
entry, and anyone who holds a record can then check the ledger up to that entry.

What the chain finds: an entry that was altered, removed from the middle, or moved. What it does not
find: a tail that was cut off, a chain rewritten from some entry to its end, or a ledger begun anew,
unless it is compared with a published record that quotes a digest from there. Nor does it tell who
wrote an entry: whoever may write the file may also raise a budget.

A charge is never taken back, and there is nothing here that deletes. No value of a record and no
seed is ever in the ledger; a data set goes by a keyed fingerprint that is made elsewhere.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import sqlite3
import stat
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields, replace
from datetime import UTC, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from pathlib import Path
from typing import Literal

from dpkv.errors import BudgetError, LedgerError, ParameterError, UsageError
from dpkv.workspace import check_private, private_folder

NEIGHBOURS = ("replace-one", "add-remove")
LARGEST_EPS = Decimal(1_000_000)

_APPLICATION_ID = int.from_bytes(b"dpkv", "big")
_SCHEMA_VERSION = 1
_BUSY_SECONDS = 60.0
_BILLIONTH = Decimal("1e-9")
_BEFORE_THE_FIRST = "0" * 64
_JOURNALS = ("-wal", "-shm", "-journal")

# REPLACE deletes without asking a DELETE trigger, hence the one on INSERT.
_SCHEMA = f"""
CREATE TABLE entries (
  number INTEGER PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ('charge', 'budget')),
  release_id TEXT UNIQUE, dataset TEXT NOT NULL, label TEXT NOT NULL,
  nano_eps INTEGER NOT NULL CHECK (nano_eps >= 0),
  end_to_end INTEGER CHECK (end_to_end IN (0, 1)),
  neighbours TEXT CHECK (neighbours IN ('replace-one', 'add-remove')),
  plan_digest TEXT,
  created TEXT NOT NULL, previous TEXT NOT NULL, digest TEXT NOT NULL
) STRICT;
CREATE TABLE probe (id INTEGER PRIMARY KEY CHECK (id = 1), writes INTEGER NOT NULL) STRICT;
CREATE TRIGGER no_update BEFORE UPDATE ON entries
  BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER no_delete BEFORE DELETE ON entries
  BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER only_append BEFORE INSERT ON entries
  WHEN NEW.number <> (SELECT coalesce(max(number), 0) + 1 FROM entries)
    OR EXISTS (SELECT 1 FROM entries WHERE release_id = NEW.release_id)
  BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {_SCHEMA_VERSION};
"""

_RESTORE = "restore a backup of the workspace, and never delete the ledger"
_REASONS = {
    sqlite3.SQLITE_READONLY: "is read-only: make the file, its folder and the disk writable",
    sqlite3.SQLITE_FULL: "cannot be written, as the disk is full: make room",
    sqlite3.SQLITE_IOERR: "cannot be read or written, as the disk is full or failing: make room",
    sqlite3.SQLITE_BUSY: "is locked by another process: try again when that has ended",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened, as its folder or its disk is read-only or closed: "
    "make both writable",
    sqlite3.SQLITE_NOTADB: f"is not a SQLite database: {_RESTORE}",
    sqlite3.SQLITE_CORRUPT: f"is damaged: {_RESTORE}",
}


@dataclass(frozen=True)
class Entry:
    """One line of the ledger: a charge for a release, or a budget that was set.

    ``nano_eps`` is billionths of what counts against the budget, for replace-one neighbours. The
    fields that may be None are those of charges only.
    """

    number: int
    kind: Literal["charge", "budget"]
    release_id: str | None
    dataset: str
    label: str
    nano_eps: int
    end_to_end: bool | None
    neighbours: str | None
    plan_digest: str | None
    created: str
    previous: str
    digest: str

    @property
    def eps(self) -> Decimal:
        """The eps that counts against the budget (or is the budget), for replace-one neighbours."""
        return _eps(self.nano_eps)


_COLUMNS = ", ".join(field.name for field in fields(Entry))
_SELECT = f"SELECT {_COLUMNS} FROM entries ORDER BY number"
_INSERT = f"INSERT INTO entries ({_COLUMNS}) VALUES ({', '.join('?' for _ in fields(Entry))})"


@dataclass(frozen=True)
class Account:
    """What one data set has spent, for replace-one neighbours; ``remaining`` can be negative."""

    dataset: str
    label: str
    budget: Decimal | None
    spent: Decimal
    remaining: Decimal | None
    n_charges: int
    n_conditional: int
    """Charges whose guarantee is not end to end."""


def charge_units(eps: Decimal, neighbours: str) -> int:
    """Return the billionths that ``eps`` counts against a replace-one budget, rounded up."""
    if neighbours not in NEIGHBOURS:
        raise ParameterError("neighbours", f"one of {', '.join(NEIGHBOURS)}", neighbours)
    # Replace-one neighbours D = C + {x} and D' = C + {y} are both one step of add-remove from C, so
    # P[M(D) in S] <= e^eps P[M(C) in S] <= e^(2 eps) P[M(D') in S]: add-remove counts twice.
    times = 2 if neighbours == "add-remove" else 1
    return _units(eps, times, ROUND_CEILING)


def budget_units(eps: Decimal) -> int:
    """Return the billionths of a budget of ``eps``, rounded down."""
    return _units(eps, 1, ROUND_FLOOR)


def _units(eps: Decimal, times: int, rounding: str) -> int:
    if not eps.is_finite() or not 0 < eps <= LARGEST_EPS:
        raise ParameterError("eps", f"a number above 0 and at most {LARGEST_EPS}", str(eps))
    # 60 digits reach far below a billionth, so rounding the product first cannot pass over one.
    context = Context(prec=60, rounding=rounding, traps=[])
    product = context.multiply(eps, Decimal(times))
    return int(product.quantize(_BILLIONTH, context=context).scaleb(9, context))


def _eps(units: int) -> Decimal:
    """Return billionths as eps, exactly whatever the decimal context, without idle zeros."""
    whole, part = divmod(abs(units), 10**9)
    sign = "-" if units < 0 else ""
    return Decimal(f"{sign}{whole}.{part:09d}".rstrip("0").rstrip("."))


def entry_digest(entry: Entry) -> str:
    """Return the SHA-256 of the canonical JSON of every field but the digest; truth is 0 or 1."""
    known = {name: value for name, value in vars(entry).items() if name != "digest"}
    if isinstance(entry.end_to_end, bool):
        known["end_to_end"] = int(entry.end_to_end)
    # ``default``: a value that no entry may have must fail the comparison, not the encoder.
    text = json.dumps(known, sort_keys=True, separators=(",", ":"), default=repr)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


class Ledger:
    """The ledger of a workspace. Every call opens the file and closes it; nothing is kept between.

    A call that is interrupted or killed has written its whole entry or nothing. When it is not
    known which, charging the same ``release_id`` again tells, and charges once.
    """

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self.path = workspace / "ledger.sqlite"

    def prepare(self) -> None:
        """Make the ledger where there is none, check it, and prove that it can be written."""
        with self._writing() as db:
            _chain(db, self.path)
            db.execute(
                "INSERT INTO probe (id, writes) VALUES (1, 1) "
                "ON CONFLICT (id) DO UPDATE SET writes = writes + 1"
            )

    def charge(
        self,
        *,
        release_id: str,
        dataset: str,
        label: str,
        eps: Decimal,
        neighbours: str,
        end_to_end: bool,
        plan_digest: str,
    ) -> Entry:
        """Charge a release, on disk before this returns; the same release again is charged once."""
        if not re.fullmatch("[0-9a-f]{64}", plan_digest):
            raise ParameterError("plan_digest", "64 hexadecimal digits in lower case", plan_digest)
        wanted = replace(
            _draft("charge", dataset, label, charge_units(eps, neighbours)),
            release_id=_identifier("release_id", release_id),
            end_to_end=bool(end_to_end),
            neighbours=neighbours,
            plan_digest=plan_digest,
        )
        with self._writing() as db:
            chain = _chain(db, self.path)
            for entry in chain:
                if entry.release_id == release_id:
                    return _same_release(entry, wanted)
            _check_affordable(chain, wanted)
            return _append(db, chain, wanted)

    def set_budget(self, *, dataset: str, label: str, eps: Decimal) -> Entry:
        """Set the budget of a data set, for replace-one neighbours; the newest one counts."""
        draft = _draft("budget", dataset, label, budget_units(eps))
        with self._writing() as db:
            return _append(db, _chain(db, self.path), draft)

    def account(self, dataset: str) -> Account:
        """Return what a data set has spent and has left."""
        return _account(self.entries(), dataset)

    def accounts(self) -> tuple[Account, ...]:
        """Return the account of every data set, in the order in which they first appeared."""
        entries = self.entries()
        return tuple(_account(entries, name) for name in dict.fromkeys(e.dataset for e in entries))

    def entries(self) -> tuple[Entry, ...]:
        """Return every entry, the chain being whole; none where there is no ledger."""
        return self._read(thorough=False)

    def entry(self, number: int) -> Entry | None:
        """Return the entry of that number."""
        return next((entry for entry in self.entries() if entry.number == number), None)

    def find(self, release_id: str) -> Entry | None:
        """Return the charge for that release."""
        return next((entry for entry in self.entries() if entry.release_id == release_id), None)

    def verify(self) -> int:
        """Return the number of entries, or refuse naming the first entry that does not check out.

        A removed tail is not found: compare with a published record (see the module's docstring).
        """
        return len(self._read(thorough=True))

    def _read(self, *, thorough: bool) -> tuple[Entry, ...]:
        with self._failures_told():
            if not self._is_there():
                return ()
            with self._opened() as db:
                chain = _chain(db, self.path)
                if thorough and (found := _pragma(db, "integrity_check(1)")) != "ok":
                    raise LedgerError(f"the ledger {self.path} is damaged ({found}): {_RESTORE}.")
                return chain

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Open the ledger for one transaction, which anything but a clean end undoes."""
        with self._failures_told():
            if not self._is_there():
                self._create()
            with self._opened() as db:
                db.execute("BEGIN IMMEDIATE")  # locks before it reads: no two charges overlap
                yield db
                db.execute("COMMIT")  # closing without it rolls back, Ctrl-C included

    @contextlib.contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        uri = f"{self.path.absolute().as_uri()}?mode=rw"  # never creates
        with _connection(uri) as db:
            if _pragma(db, "application_id") != _APPLICATION_ID:
                raise LedgerError(f"the ledger {self.path} is another program's file: {_RESTORE}.")
            if (version := _pragma(db, "user_version")) != _SCHEMA_VERSION:
                raise LedgerError(
                    f"the ledger {self.path} has schema version {version}, and this dpkv reads "
                    f"version {_SCHEMA_VERSION}: use the version of dpkv that wrote it."
                )
            yield db

    def _is_there(self) -> bool:
        """Tell whether there is a ledger, having refused one that somebody could have planted."""
        try:
            check_private(self.workspace)
        except FileNotFoundError:
            return False
        # The journals first: a ledger that another process makes meanwhile is no missing one.
        journals = [_is_own_file(Path(f"{self.path}{end}"), writable=True) for end in _JOURNALS]
        there = _is_own_file(self.path)
        if any(journals) and not there:
            raise LedgerError(f"the ledger {self.path} is gone, its journal is not: {_RESTORE}.")
        return there

    def _create(self) -> None:
        """Make an empty ledger elsewhere and link it into place: there is never half of one."""
        private_folder(self.workspace, ".")
        with tempfile.TemporaryDirectory(dir=self.workspace, prefix=".ledger-") as folder:
            path = Path(folder).absolute() / "new.sqlite"
            with _connection(path.as_uri()) as db:
                db.execute("PRAGMA journal_mode=WAL")
                db.executescript(_SCHEMA)
            path.chmod(0o600)  # its journals will copy the mode
            with contextlib.suppress(FileExistsError):
                # The first of two that race wins. SQLite puts the name on disk with its first WAL.
                os.link(path, self.path)

    @contextlib.contextmanager
    def _failures_told(self) -> Iterator[None]:
        """Turn what SQLite or the system says into one sentence with what to do."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte is the plain code
            reason = _REASONS.get(code, f"cannot be used ({error}): {_RESTORE}")
        except OSError as error:
            reason = f"cannot be used: {error.strerror or error}; mend its folder or its disk first"
        else:
            return
        raise LedgerError(f"the ledger {self.path} {reason}.")


@contextlib.contextmanager
def _connection(uri: str) -> Iterator[sqlite3.Connection]:
    """Connect without the implicit transactions of sqlite3, every commit going to the disk."""
    if sqlite3.sqlite_version_info < (3, 37):
        raise LedgerError("the ledger needs SQLite 3.37 or newer: use a newer Python.")
    db = sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
    with contextlib.closing(db):
        db.execute("PRAGMA synchronous=FULL")
        db.execute("PRAGMA fullfsync=ON")  # macOS: a plain fsync stops at the drive's cache
        yield db


def _pragma(db: sqlite3.Connection, name: str) -> object:
    return db.execute(f"PRAGMA {name}").fetchone()[0]


def _is_own_file(path: Path, *, writable: bool = False) -> bool:
    """Tell whether a file is there, refusing what is not a plain file of this user's own.

    A journal copies the mode of its ledger, and must not stay read-only when that no longer is.
    """
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            raise LedgerError(f"{path} must be a plain file: find out who put it there.")
        if hasattr(os, "getuid") and status.st_uid != os.getuid():
            raise LedgerError(f"{path} belongs to another user: find out who put it there.")
        if status.st_mode & 0o077 or (writable and not status.st_mode & stat.S_IWUSR):
            path.chmod(0o600)
    except FileNotFoundError:
        return False
    return True


def _identifier(parameter: str, text: str) -> str:
    if not text or not text.isprintable():
        raise ParameterError(parameter, "printable text that is not empty", text)
    return text


def _draft(kind: Literal["charge", "budget"], dataset: str, label: str, units: int) -> Entry:
    """Return an entry without its place in the chain; its label can be stored and shown."""
    name = _identifier("dataset", dataset)
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in label)
    return Entry(0, kind, None, name, shown, units, None, None, None, "", "", "")


def _chain(db: sqlite3.Connection, path: Path) -> tuple[Entry, ...]:
    """Read every entry, or refuse at the first that breaks the chain."""
    chain: list[Entry] = []
    previous = _BEFORE_THE_FIRST
    for number, row in enumerate(db.execute(_SELECT), start=1):
        entry = Entry(*row)
        if (fault := _fault(entry, number, previous)) is not None:
            raise LedgerError(f"the ledger {path} does not check out: {fault}: {_RESTORE}.")
        truth = None if entry.end_to_end is None else bool(entry.end_to_end)
        chain.append(replace(entry, end_to_end=truth))  # SQLite keeps it as 0 or 1
        previous = entry.digest
    return tuple(chain)


def _fault(entry: Entry, number: int, previous: str) -> str | None:
    if entry.number != number:
        return f"entry {number} is missing"
    if entry.digest != entry_digest(entry):
        return f"entry {number} was altered"
    if entry.previous != previous:
        return f"the chain is broken between entry {number - 1} and entry {number}"
    return None


def _append(db: sqlite3.Connection, chain: Sequence[Entry], draft: Entry) -> Entry:
    """Write a draft as the next entry of the chain."""
    placed = replace(
        draft,
        number=len(chain) + 1,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        previous=chain[-1].digest if chain else _BEFORE_THE_FIRST,
    )
    entry = replace(placed, digest=entry_digest(placed))
    db.execute(_INSERT, astuple(entry))
    return entry


def _same_release(entry: Entry, wanted: Entry) -> Entry:
    """Return the earlier charge of the same release; the label is for people and may differ."""
    placed = replace(entry, number=0, label=wanted.label, created="", previous="", digest="")
    if placed != wanted:
        raise UsageError(
            f"release id {entry.release_id!r} was charged for another release (entry "
            f"{entry.number}): take a new id."
        )
    return entry


def _check_affordable(chain: Sequence[Entry], wanted: Entry) -> None:
    """Refuse a charge of more than is left: by sequential composition the eps add up."""
    budget, spent = _totals(chain, wanted.dataset)
    if budget is not None and spent + wanted.nano_eps > budget:
        raise BudgetError(
            requested=wanted.eps,
            remaining=_eps(budget - spent),
            difference=_eps(spent + wanted.nano_eps - budget),
            doubled=wanted.neighbours == "add-remove",
        )


def _totals(entries: Sequence[Entry], dataset: str) -> tuple[int | None, int]:
    """Return the newest budget, if any, and what is spent, in billionths."""
    own = [entry for entry in entries if entry.dataset == dataset]
    budgets = [entry.nano_eps for entry in own if entry.kind == "budget"]
    spent = sum(entry.nano_eps for entry in own if entry.kind == "charge")
    return (budgets[-1] if budgets else None), spent


def _account(entries: Sequence[Entry], dataset: str) -> Account:
    own = [entry for entry in entries if entry.dataset == dataset]
    charges = [entry for entry in own if entry.kind == "charge"]
    budget, spent = _totals(own, dataset)
    return Account(
        dataset=dataset,
        label=own[-1].label if own else "",
        budget=None if budget is None else _eps(budget),
        spent=_eps(spent),
        remaining=None if budget is None else _eps(budget - spent),
        n_charges=len(charges),
        n_conditional=sum(not charge.end_to_end for charge in charges),
    )
