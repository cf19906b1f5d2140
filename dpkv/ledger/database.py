"""The ledger's SQLite file: made whole or not at all, opened with care, commits on the disk."""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import astuple, fields, replace
from datetime import UTC, datetime
from pathlib import Path

from dpkv.errors import BrokenLedgerError, LedgerError
from dpkv.ledger.chain import Chain, Written
from dpkv.ledger.entries import BEFORE_THE_FIRST, Entry, entry_digest, fault
from dpkv.ledger.quotes import Quote, find_quotes
from dpkv.unfinished import remove_abandoned, unfinished_folder
from dpkv.workspace import check_private, is_own_file, private_folder

_APPLICATION_ID = int.from_bytes(b"dpkv", "big")
_SCHEMA_VERSION = 3
_BUSY_SECONDS = 60.0
_JOURNALS = ("-wal", "-shm", "-journal")

# REPLACE deletes without asking a DELETE trigger, hence the one on INSERT.
_SCHEMA = f"""
CREATE TABLE entries (
  number INTEGER PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ('charge', 'kept', 'budget')),
  release_id TEXT, dataset TEXT NOT NULL, label TEXT NOT NULL,
  nano_eps INTEGER NOT NULL CHECK (nano_eps >= 0),
  end_to_end INTEGER CHECK (end_to_end IN (0, 1)),
  neighbours TEXT CHECK (neighbours IN ('replace-one', 'add-remove')),
  plan_digest TEXT, record_digest TEXT,
  created TEXT NOT NULL, previous TEXT NOT NULL, digest TEXT NOT NULL,
  atto_delta INTEGER NOT NULL CHECK (atto_delta >= 0),
  salt TEXT NOT NULL,
  UNIQUE (kind, release_id)
) STRICT;
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

_RESTORE = "restore a backup of the workspace, and never delete the ledger"
_SALT_BYTES = 16
_UNFINISHED = ".ledger-"
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


_COLUMNS = ", ".join(field.name for field in fields(Entry))
_SELECT = f"SELECT {_COLUMNS} FROM entries ORDER BY number"
_INSERT = f"INSERT INTO entries ({_COLUMNS}) VALUES ({', '.join('?' for _ in fields(Entry))})"


class Database:
    """The file of a ledger. Every use opens it and closes it; nothing is kept between."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self.path = workspace / "ledger.sqlite"

    def read(self, *, thorough: bool) -> Chain:
        """Return the whole chain, checked; nothing where there is no ledger.

        A ``thorough`` reading also asks SQLite, and compares the chain with the kept releases.
        """
        with self._failures_told():
            quotes = find_quotes(self.workspace) if thorough else ()
            chain = self._read_chain(thorough=thorough) if self._is_there() else Chain(())
            self._check_quotes(quotes, chain)
            return chain

    def _read_chain(self, *, thorough: bool) -> Chain:
        with self._opened() as db:
            chain = self._chain(db)
            if thorough and (found := _pragma(db, "integrity_check(1)")) != "ok":
                raise BrokenLedgerError(f"the ledger {self.path} is damaged ({found}): {_RESTORE}.")
            return chain

    @contextlib.contextmanager
    def writing(self) -> Iterator[tuple[sqlite3.Connection, Chain]]:
        """Open the ledger for one transaction, which anything but a clean end undoes.

        Yields the connection and the chain, which is whole and has what kept releases quote.
        """
        with self._failures_told():
            # Before the chain is read: what is kept by then was charged by then, in any process.
            quotes = find_quotes(self.workspace)
            if not self._is_there():
                self._check_quotes(quotes, Chain(()))
                self._create()
            with self._opened() as db:
                db.execute("BEGIN IMMEDIATE")  # locks before it reads: no two charges overlap
                chain = self._chain(db)
                self._check_quotes(quotes, chain)
                yield db, chain
                db.execute("COMMIT")  # closing without it rolls back, Ctrl-C included

    def _check_quotes(self, quotes: Sequence[Quote], chain: Chain) -> None:
        """Refuse a ledger that was rolled back or begun anew beside the releases it paid for."""
        digests = [entry.digest for entry in chain.entries]
        for quote in sorted(quotes, key=lambda quote: quote.number):
            if quote.digest not in digests[quote.number - 1 : quote.number]:
                raise BrokenLedgerError(
                    f"the ledger {self.path} lacks entry {quote.number} as the kept release "
                    f"{quote.path} quotes it, so it was rolled back, replaced or begun anew: "
                    "restore a ledger that is as new as its releases, and never delete it."
                )

    @contextlib.contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        uri = f"{self.path.absolute().as_uri()}?mode=rw"  # never creates
        with _connection(uri) as db:
            if _pragma(db, "application_id") != _APPLICATION_ID:
                raise LedgerError(f"the ledger {self.path} is another program's file: {_RESTORE}.")
            if (version := _pragma(db, "user_version")) != _SCHEMA_VERSION:
                raise LedgerError(
                    f"the ledger {self.path} has schema version {version}, and this dpkv reads "
                    f"version {_SCHEMA_VERSION} alone: use the version of dpkv that wrote it."
                )
            yield db

    def _is_there(self) -> bool:
        """Tell whether there is a ledger, having refused one that somebody could have planted."""
        try:
            check_private(self.workspace)
        except FileNotFoundError:
            return False
        # The journals first: a ledger that another process makes meanwhile is no missing one.
        journals = [self._is_own_file(end, writable=True) for end in _JOURNALS]
        there = self._is_own_file()
        if any(journals) and not there:
            raise LedgerError(f"the ledger {self.path} is gone, its journal is not: {_RESTORE}.")
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
            path.chmod(0o600)  # its journals will copy the mode
            with contextlib.suppress(FileExistsError):
                # The first of two that race wins. SQLite puts the name on disk with its first WAL.
                os.link(path, self.path)

    @contextlib.contextmanager
    def _failures_told(self) -> Iterator[None]:
        """Turn what SQLite or the system says into one sentence with what to do."""
        code = 0
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte is the plain code
            reason = _REASONS.get(code, f"cannot be used ({error}): {_RESTORE}")
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

    def _chain(self, db: sqlite3.Connection) -> Chain:
        """Read every entry, or refuse at the first that breaks the chain."""
        entries: list[Entry] = []
        previous = BEFORE_THE_FIRST
        for number, row in enumerate(db.execute(_SELECT).fetchall(), start=1):
            entry = Entry(*row)
            if (wrong := fault(entry, number, previous)) is not None:
                raise BrokenLedgerError(
                    f"the ledger {self.path} does not check out: {wrong}: {_RESTORE}."
                )
            truth = None if entry.end_to_end is None else bool(entry.end_to_end)
            entries.append(replace(entry, end_to_end=truth))  # SQLite keeps it as 0 or 1
            previous = entry.digest
        return Chain(tuple(entries))


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


def append(db: sqlite3.Connection, chain: Chain, draft: Entry) -> Written:
    """Write a draft as the next entry of the chain."""
    placed = replace(
        draft,
        number=len(chain) + 1,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        salt=secrets.token_hex(_SALT_BYTES),
        previous=chain.entries[-1].digest if chain.entries else BEFORE_THE_FIRST,
    )
    entry = replace(placed, digest=entry_digest(placed))
    db.execute(_INSERT, astuple(entry))
    return Written(entry, Chain((*chain.entries, entry)))


def count_write(db: sqlite3.Connection) -> None:
    """Write something that matters to nobody, to prove that writing works."""
    db.execute(
        "INSERT INTO probe (id, writes) VALUES (1, 1) "
        "ON CONFLICT (id) DO UPDATE SET writes = writes + 1"
    )
