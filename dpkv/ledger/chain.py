"""The chain of entries as it was at one reading: who asks several things reads it once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from dpkv.errors import BrokenLedgerError
from dpkv.ledger.accounts import Account, Accounts, add_entry
from dpkv.ledger.entries import Entry, entry_digest, fault
from dpkv.ledger.store import RESTORE, Session
from dpkv.ledger.verified import NOTHING, Base
from dpkv.types import Progress

_TOLD_EVERY = 1024


@dataclass(frozen=True)
class Chain:
    """All entries: those verified before, known by their sums, and the newer ones themselves."""

    base: Base = NOTHING
    tail: tuple[Entry, ...] = ()
    place: str = ""
    reader: Callable[[], AbstractContextManager[Session]] | None = None
    """Opens the store, for older entries; None where there are none."""

    def __len__(self) -> int:
        return self.base.number + len(self.tail)

    @property
    def digest(self) -> str:
        """The digest of the newest entry."""
        return self.tail[-1].digest if self.tail else self.base.digest

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """Every entry, in order; those verified before are read and verified again."""
        if self.base.number == 0:
            return self.tail
        assert self.reader is not None
        with self.reader() as session:
            whole = read_chain(session, self.place, NOTHING)
        return whole.tail[: len(self)]

    def find(self, release_id: str) -> Entry | None:
        """Return the charge for that release."""
        return self._find("charge", release_id)

    def kept(self, release_id: str) -> Entry | None:
        """Return the note that the centers of that release exist."""
        return self._find("kept", release_id)

    def entry(self, number: int) -> Entry | None:
        """Return the entry of that number."""
        if not 1 <= number <= len(self):
            return None
        if number > self.base.number:
            return self.tail[number - self.base.number - 1]
        return self._old(lambda session: session.row(number))

    @cached_property
    def _accounts(self) -> Accounts:
        known = self.base.accounts.copy()
        for entry in self.tail:
            add_entry(known, entry)
        return known

    def account(self, dataset: str) -> Account:
        """Return what a data set has spent and has left."""
        return self._accounts.get(dataset, Account(dataset))

    def accounts(self) -> tuple[Account, ...]:
        """Return the account of every data set, in the order in which they first appeared."""
        return tuple(self._accounts.values())

    def check(self, wanted: Entry) -> None:
        """Refuse what the budget has not enough left for; nothing is charged or set aside."""
        self.account(wanted.dataset).check_affordable(wanted)

    def with_entry(self, entry: Entry) -> Chain:
        """Return the chain with one more entry."""
        return replace(self, tail=(*self.tail, entry))

    def read_by(self, reader: Callable[[], AbstractContextManager[Session]]) -> Chain:
        """Return the chain with another way to look older entries up."""
        return replace(self, reader=reader)

    def as_base(self) -> Base:
        """Return all that is known of the chain as the verified beginning of a longer one."""
        return Base(len(self), self.digest, self._accounts, self.checkpoint)

    @property
    def checkpoint(self) -> str | None:
        """The digest of the newest checkpoint that was made of the ledger."""
        return newest_checkpoint(self.tail) or self.base.checkpoint

    def _find(self, kind: str, release_id: str) -> Entry | None:
        own = (e for e in self.tail if e.kind == kind and e.release_id == release_id)
        found = next(own, None)
        if found is not None or self.base.number == 0:
            return found
        old = self._old(lambda session: session.find(kind, release_id))
        return old if old is not None and old.number <= self.base.number else None

    def _old(self, look: Callable[[Session], Entry | None]) -> Entry | None:
        """Look up an older entry, which must at least be what its own digest says."""
        assert self.reader is not None
        with self.reader() as session:
            found = look(session)
        if found is not None and found.digest != entry_digest(found):
            raise _broken(self.place, f"entry {found.number} was altered")
        return found


def newest_checkpoint(entries: Sequence[Entry]) -> str | None:
    """Return the digest of the newest checkpoint that entries note."""
    noted = (entry.record_digest for entry in reversed(entries) if entry.kind == "checkpoint")
    return next(noted, None)


class Written(NamedTuple):
    """An entry of the ledger, new or found there, and the chain that has it."""

    entry: Entry
    chain: Chain


def read_chain(session: Session, place: str, base: Base, progress: Progress | None = None) -> Chain:
    """Read what is behind a verified beginning, or refuse at the first that breaks the chain."""
    if base.number:
        last = session.row(base.number)
        if last is None or last.digest != base.digest or entry_digest(last) != base.digest:
            raise _broken(
                place,
                f"entry {base.number} is another one than this workspace verified earlier",
            )
    entries: list[Entry] = []
    previous, number, count = base.digest, base.number, session.count()
    for number, entry in enumerate(session.rows(base.number or None), start=base.number + 1):
        if (wrong := fault(entry, number, previous)) is not None:
            raise _broken(place, wrong)
        entries.append(entry)
        previous = entry.digest
        if progress is not None and number % _TOLD_EVERY == 0:
            progress(number / max(count, number))
    if number != count:
        raise _broken(place, "an entry is missing, and 'dpkv ledger verify --full' says which")
    return Chain(base, tuple(entries), place)


def check_base(whole: Chain, base: Base, workspace_file: str) -> None:
    """Refuse a noted beginning whose sums are not those of the entries themselves."""
    if base.number > len(whole):
        return  # the missing entries are told in better words
    known = Accounts()
    for entry in whole.tail[: base.number]:
        add_entry(known, entry)
    noted = newest_checkpoint(whole.tail[: base.number])
    if (known, noted) != (base.accounts, base.checkpoint):
        raise BrokenLedgerError(
            f"{workspace_file} states other sums than the ledger {whole.place} has: remove that "
            "file, and find out who altered it."
        )


def _broken(place: str, wrong: str) -> BrokenLedgerError:
    return BrokenLedgerError(f"the ledger {place} does not check out: {wrong}: {RESTORE}.")
