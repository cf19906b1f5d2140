"""Where entries are kept: the one interface that every database of a ledger has.

A store holds entries and nothing else. What they mean, whether the chain holds and what may be
written is decided elsewhere, in the same way for every store.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from dpkv.ledger.entries import Entry

RESTORE = "restore a backup of the workspace, and never delete the ledger"
IDENTITY = "identity"
"""The fact that names a store for good: 128 random bits, made with it."""


class Session(Protocol):
    """An open store. Within ``writing`` nobody else writes until it ends."""

    def count(self) -> int:
        """Return how many entries there are."""
        ...

    def rows(self, after: int | None) -> Iterator[Entry]:
        """Return the entries behind that number, or all, in their order, unchecked."""
        ...

    def row(self, number: int) -> Entry | None:
        """Return the entry of that number, unchecked."""
        ...

    def find(self, kind: str, release_id: str) -> Entry | None:
        """Return the entry of that kind for a release, unchecked."""
        ...

    def insert(self, entry: Entry) -> None:
        """Append an entry."""
        ...

    def fact(self, name: str) -> str | None:
        """Return what is noted under that name beside the entries."""
        ...

    def note_fact(self, name: str, value: str) -> None:
        """Note something under a name that has nothing yet."""
        ...

    def count_write(self) -> None:
        """Write something that matters to nobody, to prove that writing works."""
        ...

    def check(self) -> None:
        """Refuse a database that finds itself damaged."""
        ...


class Store(Protocol):
    """A database. Every use opens it and closes it; nothing is kept between."""

    @property
    def place(self) -> str:
        """How sentences call it: a path, or an address without its password."""
        ...

    def exists(self) -> bool:
        """Tell whether there is a ledger, having refused one that somebody could have planted."""
        ...

    def reading(self) -> AbstractContextManager[Session]:
        """Open a ledger that is there, to read one state of it."""
        ...

    def writing(self) -> AbstractContextManager[Session]:
        """Open the ledger, made where there is none, for one transaction.

        Anything but a clean end undoes it; after a clean end it is on disk.
        """
        ...

    def failures_told(self) -> AbstractContextManager[None]:
        """Turn what the database or the system says into one sentence with what to do."""
        ...

    def tidy(self) -> None:
        """Remove what killed runs left."""
        ...
