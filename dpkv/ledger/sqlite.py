"""The ledger's SQLite file: made whole or not at all, opened with care, commits on the disk."""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
from collections.abc import Iterator
from dataclasses import astuple, fields, replace
from pathlib import Path
from typing import Any

from dpkv.errors import BrokenLedgerError, LedgerError
from dpkv.ledger.entries import Entry
from dpkv.ledger.locks import check_locks
from dpkv.ledger.store import IDENTITY, RESTORE, Session
from dpkv.unfinished import remove_abandoned, unfinished_folder
from dpkv.workspace import check_private, is_own_file, private_folder

_APPLICATION_ID = int.from_bytes(b"dpkv", "big")
_SCHEMA_VERSION = 4
_BUSY_SECONDS = 60.0
_JOURNALS = ("-wal", "-shm", "-journal")
_MISPLACED = 7

# REPLACE deletes without asking a DELETE trigger, hence the one on INSERT.
_SCHEMA = f"""
CREATE TABLE entries (
  number INTEGER PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ('charge', 'kept', 'budget', 'checkpoint', 'moved')),
  release_id TEXT, dataset TEXT NOT NULL, label TEXT NOT NULL,
  nano_eps INTEGER NOT NULL CHECK (nano_eps >= 0),
  atto_delta INTEGER NOT NULL CHECK (atto_delta >= 0),
  end_to_end INTEGER CHECK (end_to_end IN (0, 1)),
  neighbours TEXT CHECK (neighbours IN ('replace-one', 'add-remove')),
  unit TEXT CHECK (unit IN ('row', 'person')),
  plan_digest TEXT, record_digest TEXT,
  details TEXT NOT NULL,
  created TEXT NOT NULL, previous TEXT NOT NULL, salt TEXT NOT NULL, digest TEXT NOT NULL,
  UNIQUE (kind, release_id)
) STRICT;
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE probe (id INTEGER PRIMARY KEY CHECK (id = 1), writes INTEGER NOT NULL) STRICT;
CREATE TRIGGER no_update BEFORE UPDATE ON entries
  BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER no_delete BEFORE DELETE ON entries
  BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER only_append BEFORE INSERT ON entries
  WHEN NEW.number <> (SELECT coalesce(max(number), 0) + 1 FROM entries)
    OR EXISTS (SELECT 1 FROM entries
      WHERE release_id = NEW.release_id AND kind = NEW.kind)
  BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {_SCHEMA_VERSION};
"""

_UNFINISHED = ".ledger-"
_REASONS = {
    sqlite3.SQLITE_READONLY: "is read-only: make the file, its folder and the disk writable",
    sqlite3.SQLITE_FULL: "cannot be written, as the disk is full: make room",
    sqlite3.SQLITE_IOERR: "cannot be read or written, as the disk is full or failing: make room",
    sqlite3.SQLITE_BUSY: "is locked by another process: try again when that has ended",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened, as its folder or its disk is read-only or closed: "
    "make both writable",
    sqlite3.SQLITE_NOTADB: f"is not a SQLite database: {RESTORE}",
    sqlite3.SQLITE_CORRUPT: f"is damaged: {RESTORE}",
}


_COLUMNS = ", ".join(field.name for field in fields(Entry))
_SELECT = f"SELECT {_COLUMNS} FROM entries"
_INSERT = f"INSERT INTO entries ({_COLUMNS}) VALUES ({', '.join('?' for _ in fields(Entry))})"


class SqliteStore:
    """The file of a ledger, in a workspace."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self.path = workspace / "ledger.sqlite"

    @property
    def place(self) -> str:
        """The path of the file."""
        return str(self.path)

    @contextlib.contextmanager
    def reading(self) -> Iterator[Session]:
        """Open a ledger that is there, to read one state of it."""
        with self._opened() as db:
            db.execute("BEGIN")
            yield _SqliteSession(db, self.place)

    @contextlib.contextmanager
    def writing(self) -> Iterator[Session]:
        """Open the ledger for one transaction, which anything but a clean end undoes."""
        if not self.exists():
            self._create()
        with self._opened() as db:
            db.execute("BEGIN IMMEDIATE")  # locks before it reads: no two charges overlap
            check_locks(self.workspace / ".gitignore")
            yield _SqliteSession(db, self.place)
            db.execute("COMMIT")  # closing without it rolls back, Ctrl-C included

    @contextlib.contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        uri = f"{self.path.absolute().as_uri()}?mode=rw"  # never creates
        with _connection(uri) as db:
            if _pragma(db, "application_id") != _APPLICATION_ID:
                raise LedgerError(f"the ledger {self.path} is another program's file: {RESTORE}.")
            if (version := _pragma(db, "user_version")) != _SCHEMA_VERSION:
                raise LedgerError(
                    f"the ledger {self.path} has schema version {version}, and this dpkv reads "
                    f"version {_SCHEMA_VERSION} alone: use the version of dpkv that wrote it."
                )
            yield db

    def exists(self) -> bool:
        """Tell whether there is a ledger, having refused one that somebody could have planted."""
        try:
            check_private(self.workspace)
        except FileNotFoundError:
            return False
        # The journals first: a ledger that another process makes meanwhile is no missing one.
        journals = [self._is_own_file(end, writable=True) for end in _JOURNALS]
        there = self._is_own_file()
        if any(journals) and not there:
            raise LedgerError(f"the ledger {self.path} is gone, its journal is not: {RESTORE}.")
        return there

    def tidy(self) -> None:
        """Remove what runs left that were killed while they made the ledger."""
        remove_abandoned(self.workspace, _UNFINISHED)

    def _is_own_file(self, end: str = "", *, writable: bool = False) -> bool:
        # A journal copies the mode of its ledger, and must not stay read-only when that is not.
        return is_own_file(Path(f"{self.path}{end}"), writable=writable, error=LedgerError)

    def _create(self) -> None:
        """Make an empty ledger elsewhere and link it into place: there is never half of one."""
        private_folder(self.workspace, ".")
        new = self.workspace / f"{_UNFINISHED}{secrets.token_hex(8)}"
        with unfinished_folder(new) as folder:
            path = folder.absolute() / "new.sqlite"
            with _connection(path.as_uri()) as db:
                db.execute("PRAGMA journal_mode=WAL")
                db.executescript(_SCHEMA)
                _SqliteSession(db, self.place).note_fact(IDENTITY, secrets.token_hex(16))
            path.chmod(0o600)  # its journals will copy the mode
            with contextlib.suppress(FileExistsError):
                # The first of two that race wins. SQLite puts the name on disk with its first WAL.
                os.link(path, self.path)

    @contextlib.contextmanager
    def failures_told(self) -> Iterator[None]:
        """Turn what SQLite or the system says into one sentence with what to do."""
        code = 0
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte is the plain code
            reason = _REASONS.get(code, f"cannot be used ({error}): {RESTORE}")
        except UnicodeError:  # in what SQLite says of a damaged file
            code = sqlite3.SQLITE_CORRUPT
            reason = _REASONS[code]
        except OSError as error:
            reason = f"cannot be used: {error.strerror or error}; mend its folder or its disk first"
        else:
            return
        broken = code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)
        kind = BrokenLedgerError if broken else LedgerError
        raise kind(f"the ledger {self.path} {reason}.")


class _SqliteSession:
    """An open file; what a ledger needs of it, and no more."""

    def __init__(self, db: sqlite3.Connection, place: str) -> None:
        self._db = db
        self._place = place

    def count(self) -> int:
        """Return how many entries there are."""
        return int(self._db.execute("SELECT count(*) FROM entries").fetchone()[0])

    def rows(self, after: int | None) -> Iterator[Entry]:
        """Return the entries behind that number, or all, in their order."""
        condition = "" if after is None else f"WHERE number > {after:d}"
        for row in self._db.execute(f"{_SELECT} {condition} ORDER BY number"):
            yield _entry(row)

    def row(self, number: int) -> Entry | None:
        """Return the entry of that number."""
        return self._one("number = ?", number)

    def find(self, kind: str, release_id: str) -> Entry | None:
        """Return the entry of that kind for a release."""
        return self._one("kind = ? AND release_id = ?", kind, release_id)

    def _one(self, condition: str, *given: object) -> Entry | None:
        row = self._db.execute(f"{_SELECT} WHERE {condition}", given).fetchone()
        return None if row is None else _entry(row)

    def insert(self, entry: Entry) -> None:
        """Append an entry."""
        self._db.execute(_INSERT, astuple(entry))

    def fact(self, name: str) -> str | None:
        """Return what is noted under that name."""
        found = self._db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if found is None else str(found[0])

    def note_fact(self, name: str, value: str) -> None:
        """Note something under a name that has nothing yet."""
        self._db.execute("INSERT INTO facts (name, value) VALUES (?, ?)", (name, value))

    def count_write(self) -> None:
        """Write something that matters to nobody, to prove that writing works."""
        self._db.execute(
            "INSERT INTO probe (id, writes) VALUES (1, 1) "
            "ON CONFLICT (id) DO UPDATE SET writes = writes + 1"
        )

    def check(self) -> None:
        """Refuse a file that SQLite finds damaged: its indexes, its free pages, its schema."""
        if (found := _pragma(self._db, "integrity_check(1)")) != "ok":
            raise BrokenLedgerError(f"the ledger {self._place} is damaged ({found}): {RESTORE}.")


def _entry(row: tuple[Any, ...]) -> Entry:
    truth = row[_MISPLACED]
    entry = Entry(*row)
    # SQLite keeps truth as 0 or 1; anything else stays as it is, for the digest to refuse.
    return replace(entry, end_to_end=bool(truth)) if truth in (0, 1) else entry


@contextlib.contextmanager
def _connection(uri: str) -> Iterator[sqlite3.Connection]:
    """Connect without the implicit transactions of sqlite3, every commit going to the disk."""
    if sqlite3.sqlite_version_info < (3, 37):
        raise LedgerError("the ledger needs SQLite 3.37 or newer: use a newer Python.")
    db = sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
    with contextlib.closing(db):
        db.text_factory = _text
        db.execute("PRAGMA synchronous=FULL")
        db.execute("PRAGMA fullfsync=ON")  # macOS: a plain fsync stops at the drive's cache
        yield db


def _text(contents: bytes) -> str:
    """Return text as it is; damaged text as some other, whose digest will not fit."""
    return contents.decode("utf-8", errors="replace")


def _pragma(db: sqlite3.Connection, name: str) -> object:
    return db.execute(f"PRAGMA {name}").fetchone()[0]
