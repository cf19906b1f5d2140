"""The ledger itself: prepare, charge, set a budget, read, verify."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import NotRequired, TypedDict, Unpack

from dpkv.accounting.composition import Price
from dpkv.errors import BrokenLedgerError, LedgerError, UsageError
from dpkv.ledger.chain import Chain, Written, check_base, read_chain
from dpkv.ledger.entries import (
    Entry,
    draft,
    draft_budget,
    draft_charge,
    place_behind,
    same_release,
    write_details,
)
from dpkv.ledger.postgres import SCHEMES, PostgresStore
from dpkv.ledger.quotes import Quote, find_quotes
from dpkv.ledger.sqlite import SqliteStore
from dpkv.ledger.store import IDENTITY, Session, Store
from dpkv.ledger.verified import (
    EVERY,
    NOTHING,
    Base,
    Seen,
    base_path,
    load_base,
    load_seen,
    save_base,
    save_seen,
)
from dpkv.settings import find_ledger_address
from dpkv.types import Progress

_PURE = Decimal(0)
_NEWER = "restore a ledger that is as new as its releases, and never delete it"


class Charge(TypedDict):
    """What a charge states."""

    release_id: str
    dataset: str
    label: str
    eps: Decimal
    delta: NotRequired[Decimal]
    neighbours: str
    unit: NotRequired[str]
    person: NotRequired[str | None]
    """The column that says whose rows are whose."""
    end_to_end: bool
    plan_digest: str
    prices: NotRequired[Iterable[Price]]
    """Of the release's steps, which an account adds up more tightly than their sum."""


class Ledger:
    """The ledger of a workspace. Every call opens it, reads what is new once, and closes it.

    A call that is interrupted or killed has written its whole entry or nothing. When it is not
    known which, charging the same ``release_id`` again tells, and charges once.
    """

    def __init__(self, workspace: Path, store: Store | None = None) -> None:
        self.workspace = workspace
        self._sqlite = SqliteStore(workspace)
        self._store: Store = store or shared_store() or self._sqlite

    @property
    def path(self) -> Path:
        """Where the ledger of the workspace is, or will be."""
        return self._sqlite.path

    @property
    def place(self) -> str:
        """How sentences call the ledger."""
        return self._store.place

    @property
    def is_shared(self) -> bool:
        """Whether the ledger is not in the workspace, but in a database that others use as well."""
        return not isinstance(self._store, SqliteStore)

    def exists(self) -> bool:
        """Tell whether there is a ledger."""
        with self._store.failures_told():
            return self._store.exists()

    def shared_fact(self, name: str, value: str) -> str:
        """Return what the store notes under a name: the value, where it has nothing yet."""
        with self._writing() as (session, _):
            known = session.fact(name)
            if known is None:
                session.note_fact(name, value)
            return value if known is None else known

    def fact(self, name: str) -> str | None:
        """Return what the store notes under a name, if there is a store."""
        with self._store.failures_told():
            if not self._store.exists():
                return None
            with self._store.reading() as session:
                return session.fact(name)

    def prepare(self) -> Chain:
        """Make the ledger where there is none, check it, and prove that it can be written."""
        with self._writing() as (session, chain):
            session.count_write()
        self._store.tidy()
        return chain.read_by(self._reader)

    def read(self, progress: Progress | None = None) -> Chain:
        """Return every entry, the chain being whole; none where there is no ledger."""
        return self._read(thorough=False, progress=progress)

    def verify(self, progress: Progress | None = None) -> Chain:
        """Return the chain, or refuse naming the first entry that does not check out.

        Every entry is verified, and the database asked whether it is whole. A removed tail is found
        where a kept or published release, a checkpoint or the workspace itself knows of it.
        """
        return self._read(thorough=True, progress=progress)

    def _read(self, *, thorough: bool, progress: Progress | None = None) -> Chain:
        with self._store.failures_told():
            base, seen, quotes = self._known(thorough=thorough)
            chain = Chain(place=self.place)
            if self._store.exists():
                with self._store.reading() as session:
                    chain = self._checked(session, base, thorough=thorough, progress=progress)
                    chain = _inside(session, chain)
                    self._compare(chain, seen, quotes)
            else:
                self._compare(chain, seen, quotes)
        chain = chain.read_by(self._reader)
        self._note(chain)
        return chain

    def close_for(self, identity: str, place: str) -> Chain:
        """Close the ledger for good, with the note that it goes on in the store of that identity.

        A ledger that was closed for that store already stays as it is.
        """
        with self._writing(closing_for=identity) as (session, chain):
            last = chain.entry(len(chain))
            if last is not None and last.kind == "moved" and last.dataset == identity:
                return chain.read_by(self._reader)
            written = self._append(session, chain, draft("moved", identity, place))
        return self._finished(written).chain

    @contextlib.contextmanager
    def _reader(self) -> Iterator[Session]:
        with self._store.failures_told(), self._store.reading() as session:
            yield session

    @contextlib.contextmanager
    def _writing(self, *, closing_for: str = "") -> Iterator[tuple[Session, Chain]]:
        """Open the ledger for one transaction, which anything but a clean end undoes.

        Yields the session and the chain, which is whole and has what is known of it elsewhere.
        """
        self._check_only_one()
        with self._store.failures_told():
            # Before the chain is read: what is kept by then was charged by then, in any process.
            base, seen, quotes = self._known(thorough=False)
            if not self._store.exists():
                self._compare(Chain(place=self.place), seen, quotes)
            with self._store.writing() as session:
                chain = _inside(session, self._checked(session, base, thorough=False))
                self._check_open(session, chain, closing_for)
                self._compare(chain, seen, quotes)
                yield session, chain

    def _check_only_one(self) -> None:
        """Refuse to write elsewhere where the workspace has a ledger of its own."""
        if self.is_shared and (n_entries := _open_entries(self._sqlite)):
            raise LedgerError(
                f"this workspace has a ledger of its own, {self._sqlite.place}, with {n_entries} "
                f"entries that {self.place} does not know: carry it over with 'dpkv ledger move "
                "postgres', or leave DPKV_LEDGER unset."
            )

    def _check_open(self, session: Session, chain: Chain, closing_for: str) -> None:
        """Refuse to write where the ledger goes on elsewhere."""
        last = chain.entry(len(chain))
        here = (session.fact(IDENTITY), closing_for)
        if last is not None and last.kind == "moved" and last.dataset not in here:
            raise LedgerError(
                f"the ledger {self.place} was moved to {last.label}: name that one in DPKV_LEDGER "
                "or in your settings, or none where it is in the workspace again."
            )

    def _known(self, *, thorough: bool) -> tuple[Base, Seen | None, Sequence[Quote]]:
        """Return what the workspace knows: a verified beginning, the newest entry, the quotes.

        The newest entry stands for the quotes of a long ledger, which has thousands of releases.
        """
        base, seen = load_base(self.workspace), load_seen(self.workspace)
        spared = base.number > 0 and seen is not None and not thorough
        return base, seen, () if spared else find_quotes(self.workspace)

    def _checked(
        self, session: Session, base: Base, *, thorough: bool, progress: Progress | None = None
    ) -> Chain:
        chain = read_chain(session, self.place, NOTHING if thorough else base, progress)
        if thorough:
            check_base(chain, base, str(base_path(self.workspace)))
        if thorough or len(chain) < EVERY:
            session.check()
        return chain

    def _compare(self, chain: Chain, seen: Seen | None, quotes: Sequence[Quote]) -> None:
        """Refuse a ledger that was rolled back or begun anew beside what it is known by."""
        for quote in sorted(quotes, key=lambda quote: quote.number):
            if not _has(chain, quote.number, quote.digest):
                raise BrokenLedgerError(
                    f"the ledger {self.place} lacks entry {quote.number} as the kept release "
                    f"{quote.path} quotes it, so it was rolled back, replaced or begun anew: "
                    f"{_NEWER}."
                )
        if seen is not None and not _has(chain, seen.number, seen.digest):
            raise BrokenLedgerError(
                f"the ledger {self.place} lacks entry {seen.number} as this workspace saw it, so "
                "it was rolled back, replaced or begun anew, or its disk lost what it had written: "
                f"{_NEWER}."
            )

    def _append(self, session: Session, chain: Chain, wanted: Entry) -> Written:
        entry = place_behind(wanted, len(chain), chain.digest)
        session.insert(entry)
        return Written(entry, chain.with_entry(entry))

    def _finished(self, written: Written) -> Written:
        """Return what was written, once it is on disk, having noted it in the workspace."""
        chain = written.chain.read_by(self._reader)
        self._note(chain, newest=True)
        return Written(written.entry, chain)

    def _note(self, chain: Chain, *, newest: bool = False) -> None:
        if newest:
            save_seen(self.workspace, Seen(len(chain), chain.digest))
        if len(chain.tail) >= EVERY and self.workspace.is_dir():
            save_base(self.workspace, chain.as_base())

    def charge(self, **facts: Unpack[Charge]) -> Written:
        """Charge a release, on disk before this returns; the same release again is charged once."""
        wanted = draft_charge(**facts)
        with self._writing() as (session, chain):
            charged = chain.find(facts["release_id"])
            if charged is not None:
                return self._found(same_release(charged, wanted), chain)
            chain.check(wanted)
            details = write_details(**{**wanted.more, "checkpoint": chain.checkpoint})
            written = self._append(session, chain, replace(wanted, details=details))
        return self._finished(written)

    def note_checkpoint(self, digest: str) -> Written:
        """Note that a checkpoint was made, so that later charges quote it."""
        with self._writing() as (session, chain):
            note = draft("checkpoint", "checkpoints", "checkpoint")
            written = self._append(session, chain, replace(note, record_digest=digest))
        return self._finished(written)

    def keep(self, *, release_id: str, record_digest: str) -> Written:
        """Note the one record of a release that was charged, before anybody sees it.

        Refuses where another record of that release has been kept already.
        """
        with self._writing() as (session, chain):
            charged = chain.find(release_id)
            if charged is None:
                raise UsageError(f"release {release_id!r} was not charged: it cannot be kept.")
            kept = chain.kept(release_id)
            if kept is None:
                note = draft("kept", charged.dataset, charged.label)
                note = replace(note, release_id=release_id, record_digest=record_digest)
                written = self._append(session, chain, note)
            elif kept.record_digest != record_digest:
                raise UsageError(
                    f"release {release_id!r} was kept with other centres (entry {kept.number}): "
                    "restore its file from a backup, or take a new id."
                )
            else:
                return self._found(kept, chain)
        return self._finished(written)

    def _found(self, entry: Entry, chain: Chain) -> Written:
        return Written(entry, chain.read_by(self._reader))

    def set_budget(
        self,
        *,
        dataset: str,
        label: str,
        eps: Decimal | None = None,
        delta: Decimal = _PURE,
        rho: Decimal | None = None,
        neighbours: str | None = None,
        unit: str | None = None,
        person: str | None = None,
        fixed_prices: bool = False,
    ) -> Written:
        """Set the budget of a data set; the newest one counts.

        Relation and unit are the account's where they are None, or replace-one and rows.
        """
        draft_budget(  # refuses before anything is made or read
            dataset=dataset, label=label, eps=eps, delta=delta, rho=rho,
            neighbours=neighbours or "replace-one", unit=unit or "row", person=person,
            fixed_prices=fixed_prices,
        )  # fmt: skip
        with self._writing() as (session, chain):
            account = chain.account(dataset)
            budget = draft_budget(
                dataset=dataset,
                label=label,
                eps=eps,
                delta=delta,
                rho=rho,
                neighbours=neighbours or account.neighbours or "replace-one",
                unit=unit or account.unit or "row",
                person=person,
                fixed_prices=fixed_prices,
            )
            account.check_promise(budget.neighbours or "", budget.unit or "", budget.person)
            written = self._append(session, chain, budget)
        return self._finished(written)


def shared_store() -> Store | None:
    """Return the database that the environment or the user's settings name, if any."""
    address = find_ledger_address()
    if address is None:
        return None
    if not address.startswith(SCHEMES):
        raise UsageError(
            "DPKV_LEDGER must be an address such as postgresql://USER@HOST/DATABASE, or unset for "
            "the ledger in the workspace."
        )
    return PostgresStore(address)


def _open_entries(store: SqliteStore) -> int:
    """Return how many entries a workspace's own ledger has, if it was not moved."""
    with store.failures_told():
        if not store.exists():
            return 0
        with store.reading() as session:
            count = session.count()
            last = session.row(count)
            return 0 if last is not None and last.kind == "moved" else count


def _inside(session: Session, chain: Chain) -> Chain:
    """Return a chain that looks older entries up in the session that is open."""
    return chain.read_by(lambda: contextlib.nullcontext(session))


def _has(chain: Chain, number: int, digest: str) -> bool:
    entry = chain.entry(number)
    return entry is not None and entry.digest == digest
