"""The ledger itself: prepare, charge, set a budget, read, verify."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from dpkv.errors import ParameterError, UsageError
from dpkv.ledger.database import Database, append, count_write
from dpkv.ledger.entries import (
    Account,
    Entry,
    account_of,
    budget_units,
    charge_units,
    check_affordable,
    delta_budget_units,
    delta_charge_units,
    draft,
    identifier,
    mixed_relations,
    same_release,
)

_PURE = Decimal(0)


class Ledger:
    """The ledger of a workspace. Every call opens the file and closes it; nothing is kept between.

    A call that is interrupted or killed has written its whole entry or nothing. When it is not
    known which, charging the same ``release_id`` again tells, and charges once.
    """

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self._database = Database(workspace)

    @property
    def path(self) -> Path:
        """Where the ledger is, or will be."""
        return self._database.path

    def prepare(self) -> None:
        """Make the ledger where there is none, check it, and prove that it can be written."""
        with self._database.writing() as (db, _):
            count_write(db)
        self._database.tidy()

    def charge(
        self,
        *,
        release_id: str,
        dataset: str,
        label: str,
        eps: Decimal,
        delta: Decimal = _PURE,
        neighbours: str,
        end_to_end: bool,
        plan_digest: str,
    ) -> Entry:
        """Charge a release, on disk before this returns; the same release again is charged once."""
        if not re.fullmatch("[0-9a-f]{64}", plan_digest):
            raise ParameterError("plan_digest", "64 hexadecimal digits in lower case", plan_digest)
        wanted = replace(
            draft("charge", dataset, label, charge_units(eps, neighbours)),
            release_id=identifier("release_id", release_id),
            end_to_end=bool(end_to_end),
            neighbours=neighbours,
            plan_digest=plan_digest,
            atto_delta=delta_charge_units(delta, eps, neighbours),
        )
        with self._database.writing() as (db, chain):
            charged = _find(chain, "charge", release_id)
            if charged is not None:
                return same_release(charged, wanted)
            check_affordable(chain, wanted)
            return append(db, chain, wanted)

    def mixed_relations(self, *, release_id: str, dataset: str, neighbours: str) -> str | None:
        """Return what to say before this charge, where it mixes relations on one account."""
        return mixed_relations(self.entries(), dataset, neighbours, release_id)

    def check(self, *, dataset: str, eps: Decimal, delta: Decimal = _PURE, neighbours: str) -> None:
        """Refuse what the budget has not enough left for; nothing is charged or set aside."""
        wanted = replace(
            draft("charge", dataset, "", charge_units(eps, neighbours)),
            neighbours=neighbours,
            atto_delta=delta_charge_units(delta, eps, neighbours),
        )
        check_affordable(self.entries(), wanted)

    def keep(self, *, release_id: str, record_digest: str) -> Entry:
        """Note the one record of a release that was charged, before anybody sees it.

        Refuses where another record of that release has been kept already.
        """
        with self._database.writing() as (db, chain):
            charged = _find(chain, "charge", release_id)
            if charged is None:
                raise UsageError(f"release {release_id!r} was not charged: it cannot be kept.")
            kept = _find(chain, "kept", release_id)
            if kept is None:
                note = draft("kept", charged.dataset, charged.label, 0)
                note = replace(note, release_id=release_id, record_digest=record_digest)
                return append(db, chain, note)
            if kept.record_digest != record_digest:
                raise UsageError(
                    f"release {release_id!r} was kept with other centres (entry {kept.number}): "
                    "restore its file from a backup, or take a new id."
                )
            return kept

    def kept(self, release_id: str) -> Entry | None:
        """Return the note that the centers of that release exist."""
        return _find(self.entries(), "kept", release_id)

    def set_budget(
        self, *, dataset: str, label: str, eps: Decimal, delta: Decimal = _PURE
    ) -> Entry:
        """Set the budget of a data set, for replace-one neighbours; the newest one counts."""
        budget = replace(
            draft("budget", dataset, label, budget_units(eps)),
            atto_delta=delta_budget_units(delta),
        )
        with self._database.writing() as (db, chain):
            return append(db, chain, budget)

    def account(self, dataset: str) -> Account:
        """Return what a data set has spent and has left."""
        return account_of(self.entries(), dataset)

    def accounts(self) -> tuple[Account, ...]:
        """Return the account of every data set, in the order in which they first appeared."""
        entries = self.entries()
        return tuple(
            account_of(entries, name) for name in dict.fromkeys(e.dataset for e in entries)
        )

    def entries(self) -> tuple[Entry, ...]:
        """Return every entry, the chain being whole; none where there is no ledger."""
        return self._database.read(thorough=False)

    def entry(self, number: int) -> Entry | None:
        """Return the entry of that number."""
        return next((entry for entry in self.entries() if entry.number == number), None)

    def find(self, release_id: str) -> Entry | None:
        """Return the charge for that release."""
        return _find(self.entries(), "charge", release_id)

    def verify(self) -> int:
        """Return the number of entries, or refuse naming the first entry that does not check out.

        A removed tail is found only where a kept or published release quotes a digest from there.
        """
        return len(self._database.read(thorough=True))


def _find(chain: Sequence[Entry], kind: str, release_id: str) -> Entry | None:
    return next((e for e in chain if e.kind == kind and e.release_id == release_id), None)
