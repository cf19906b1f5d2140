"""A ledger in PostgreSQL, which many machines share: the same entries, the same chain.

A charge takes the table's lock before it reads, in a serialisable transaction, so that no two
charges overlap, and its commit is on the server's disk before it returns. A server that is told not
to wait for its disk is refused.

The address may hold a password. No sentence, record or process list does: what is shown is made
from the parts that are no secret, and the driver's own words are never passed on.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from dataclasses import astuple, fields
from typing import TYPE_CHECKING, Any

from dpkv.errors import LedgerError, UsageError
from dpkv.ledger.entries import Entry
from dpkv.ledger.store import IDENTITY, Session

if TYPE_CHECKING:
    import psycopg

SCHEMES = ("postgresql://", "postgres://")
_SCHEMA_VERSION = "4"
_VERSION = "schema version"
_CONNECT_SECONDS = 15
_LOCK_SECONDS = 60
_CREATION = 0x64706B76
"""Of an advisory lock: one process makes the tables."""
_NEEDED = "a ledger in PostgreSQL needs psycopg: install it with pip install 'dpkv[postgres]'."

_TABLES = """
CREATE SCHEMA IF NOT EXISTS dpkv;
CREATE TABLE dpkv.entries (
  number BIGINT PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ('charge', 'kept', 'budget', 'checkpoint', 'moved')),
  release_id TEXT, dataset TEXT NOT NULL, label TEXT NOT NULL,
  nano_eps BIGINT NOT NULL CHECK (nano_eps >= 0),
  atto_delta BIGINT NOT NULL CHECK (atto_delta >= 0),
  end_to_end BOOLEAN,
  neighbours TEXT CHECK (neighbours IN ('replace-one', 'add-remove')),
  unit TEXT CHECK (unit IN ('row', 'person')),
  plan_digest TEXT, record_digest TEXT,
  details TEXT NOT NULL,
  created TEXT NOT NULL, previous TEXT NOT NULL, salt TEXT NOT NULL, digest TEXT NOT NULL,
  UNIQUE (kind, release_id)
);
CREATE TABLE dpkv.facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE dpkv.probe (id INTEGER PRIMARY KEY CHECK (id = 1), writes BIGINT NOT NULL);
CREATE FUNCTION dpkv.refuse() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN RAISE EXCEPTION 'the ledger is append-only'; END $$;
CREATE TRIGGER no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON dpkv.entries
  FOR EACH STATEMENT EXECUTE FUNCTION dpkv.refuse();
CREATE FUNCTION dpkv.only_append() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN
    IF NEW.number <> (SELECT coalesce(max(number), 0) + 1 FROM dpkv.entries) THEN
      RAISE EXCEPTION 'the ledger is append-only';
    END IF;
    RETURN NEW;
  END $$;
CREATE TRIGGER only_append BEFORE INSERT ON dpkv.entries
  FOR EACH ROW EXECUTE FUNCTION dpkv.only_append();
"""

_COLUMNS = ", ".join(field.name for field in fields(Entry))
_SELECT = f"SELECT {_COLUMNS} FROM dpkv.entries"
_INSERT = f"INSERT INTO dpkv.entries ({_COLUMNS}) VALUES ({', '.join('%s' for _ in fields(Entry))})"
_REASONS = {
    "28": "refuses the user or the password: see to ~/.pgpass, PGPASSWORD or the address",
    "3D": "has no database of that name: have it made first",
    "42501": "does not let this user write there: have the right to the schema dpkv granted",
    "53": "has no room or memory left: make room on the server",
    "55P03": "is locked by another process: try again when that has ended",
    "57": "was shut down meanwhile: try again when it runs",
    "25006": "is read-only: write to the server that is not a copy",
    "XX": "is damaged: restore a backup of the database, and never delete the ledger",
}
_GONE = (
    "cannot be reached, or its connection was lost: try again when the server runs; asking again "
    "with the same id charges once"
)


class PostgresStore:
    """The schema ``dpkv`` of a database."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._place = _describe(address)

    @property
    def place(self) -> str:
        """The address without its password."""
        return self._place

    def exists(self) -> bool:
        """Tell whether there is a ledger."""
        with self._connected() as db:
            return _has_tables(db)

    @contextlib.contextmanager
    def reading(self) -> Iterator[Session]:
        """Open a ledger that is there, to read one state of it."""
        with self._connected() as db:
            db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            self._check_version(db)
            yield _PostgresSession(db)
            db.execute("ROLLBACK")

    @contextlib.contextmanager
    def writing(self) -> Iterator[Session]:
        """Open the ledger for one transaction, which anything but a clean end undoes."""
        with self._connected() as db:
            if not _has_tables(db):
                self._create(db)
            db.execute("SET synchronous_commit = on")
            db.execute(f"SET lock_timeout = '{_LOCK_SECONDS}s'")
            if _setting(db, "fsync") != "on":
                raise LedgerError(
                    f"the ledger {self.place} is on a server that does not wait for its disk: "
                    "have fsync turned on there."
                )
            db.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
            # Before anything is read: the transaction's view of the table begins after the lock.
            db.execute("LOCK TABLE dpkv.entries IN SHARE ROW EXCLUSIVE MODE")
            self._check_version(db)
            yield _PostgresSession(db)
            db.execute("COMMIT")

    def _check_version(self, db: psycopg.Connection) -> None:
        version = _PostgresSession(db).fact(_VERSION)
        if version != _SCHEMA_VERSION:
            raise LedgerError(
                f"the ledger {self.place} has schema version {version}, and this dpkv reads "
                f"version {_SCHEMA_VERSION} alone: use the version of dpkv that wrote it."
            )

    def _create(self, db: psycopg.Connection) -> None:
        """Make the tables, all or none; the first of two that race wins."""
        db.execute("BEGIN")
        db.execute("SELECT pg_advisory_xact_lock(%s)", (_CREATION,))
        if not _has_tables(db):
            db.execute(_TABLES)
            session = _PostgresSession(db)
            session.note_fact(_VERSION, _SCHEMA_VERSION)
            session.note_fact(IDENTITY, secrets.token_hex(16))
        db.execute("COMMIT")

    def tidy(self) -> None:
        """Do nothing: a server cleans up after its clients."""

    @contextlib.contextmanager
    def _connected(self) -> Iterator[psycopg.Connection]:
        driver = _driver()
        with contextlib.closing(
            driver.connect(self._address, autocommit=True, connect_timeout=_CONNECT_SECONDS)
        ) as db:
            yield db

    @contextlib.contextmanager
    def failures_told(self) -> Iterator[None]:
        """Turn what the server or the system says into one sentence with what to do."""
        driver = _driver()
        try:
            yield
        except driver.Error as error:
            code = error.sqlstate or _refused(error)
            reasons = (_REASONS[key] for key in (code, code[:2]) if key in _REASONS)
            other = _GONE if not code or code[:2] == "08" else f"cannot be used (SQLSTATE {code})"
            reason = next(reasons, other)
        except OSError as error:
            reason = f"cannot be used: {error.strerror or 'the system refuses'}"
        else:
            return
        raise LedgerError(f"the ledger {self.place} {reason}.")


class _PostgresSession:
    """An open connection; what a ledger needs of it, and no more."""

    def __init__(self, db: psycopg.Connection) -> None:
        self._db = db

    def count(self) -> int:
        """Return how many entries there are."""
        return int(self._one("SELECT count(*) FROM dpkv.entries")[0])

    def rows(self, after: int | None) -> Iterator[Entry]:
        """Return the entries behind that number, or all, in their order."""
        condition = "" if after is None else f"WHERE number > {after:d}"
        for row in self._db.execute(f"{_SELECT} {condition} ORDER BY number"):
            yield Entry(*row)

    def row(self, number: int) -> Entry | None:
        """Return the entry of that number."""
        return self._entry("number = %s", number)

    def find(self, kind: str, release_id: str) -> Entry | None:
        """Return the entry of that kind for a release."""
        return self._entry("kind = %s AND release_id = %s", kind, release_id)

    def insert(self, entry: Entry) -> None:
        """Append an entry."""
        self._db.execute(_INSERT, astuple(entry))

    def fact(self, name: str) -> str | None:
        """Return what is noted under that name."""
        row = self._db.execute("SELECT value FROM dpkv.facts WHERE name = %s", (name,)).fetchone()
        return None if row is None else str(row[0])

    def note_fact(self, name: str, value: str) -> None:
        """Note something under a name that has nothing yet."""
        self._db.execute("INSERT INTO dpkv.facts (name, value) VALUES (%s, %s)", (name, value))

    def count_write(self) -> None:
        """Write something that matters to nobody, to prove that writing works."""
        self._db.execute(
            "INSERT INTO dpkv.probe (id, writes) VALUES (1, 1) "
            "ON CONFLICT (id) DO UPDATE SET writes = dpkv.probe.writes + 1"
        )

    def check(self) -> None:
        """Do nothing: a server watches over its own pages."""

    def _entry(self, condition: str, *given: object) -> Entry | None:
        row = self._db.execute(f"{_SELECT} WHERE {condition}", given).fetchone()
        return None if row is None else Entry(*row)

    def _one(self, query: str) -> tuple[Any, ...]:
        row = self._db.execute(query).fetchone()
        assert row is not None
        return row


def _driver() -> Any:
    try:
        import psycopg  # noqa: PLC0415 (an extra)
    except ImportError:
        raise UsageError(_NEEDED) from None
    return psycopg


def _refused(error: Exception) -> str:
    """Return the state of a connection that was refused, which the driver has in words alone."""
    words = str(error)
    if "authentication failed" in words or "no password" in words:
        return "28P01"
    return "3D000" if 'database "' in words and "does not exist" in words else ""


def _has_tables(db: psycopg.Connection) -> bool:
    row = db.execute("SELECT to_regclass('dpkv.facts') IS NOT NULL").fetchone()
    return row is not None and bool(row[0])


def _setting(db: psycopg.Connection, name: str) -> str:
    row = db.execute("SELECT current_setting(%s)", (name,)).fetchone()
    return "" if row is None else str(row[0])


def _describe(address: str) -> str:
    """Return an address as it may be shown, refusing one that is none."""
    _driver()
    from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415 (an extra)

    try:
        parts = conninfo_to_dict(address)
    except Exception:  # the driver's words may quote the password
        raise UsageError(
            "the address of the ledger must read postgresql://USER@HOST:PORT/DATABASE, with the "
            "password in ~/.pgpass or PGPASSWORD."
        ) from None
    user = f"{parts['user']}@" if parts.get("user") else ""
    port = f":{parts['port']}" if parts.get("port") else ""
    return f"postgresql://{user}{parts.get('host') or ''}{port}/{parts.get('dbname') or ''}"
