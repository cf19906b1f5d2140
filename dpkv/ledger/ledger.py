"""The ledger itself: prepare, charge, set a budget, read, verify."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from dpkv.errors import ParameterError, UsageError
from dpkv.ledger.chain import Chain, Written
from dpkv.ledger.database import Database, append, count_write
from dpkv.ledger.entries import (
    budget_units,
    charge_units,
    check_affordable,
    delta_budget_units,
    delta_charge_units,
    draft,
    identifier,
    same_release,
)

_PURE = Decimal(0)


class Ledger:
    """The ledger of a workspace. Every call opens the file, reads the chain once and closes it.

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

    def prepare(self) -> Chain:
        """Make the ledger where there is none, check it, and prove that it can be written."""
        with self._database.writing() as (db, chain):
            count_write(db)
        self._database.tidy()
        return chain

    def read(self) -> Chain:
        """Return every entry, the chain being whole; none where there is no ledger."""
        return self._database.read(thorough=False)

    def verify(self) -> Chain:
        """Return the chain, or refuse naming the first entry that does not check out.

        A removed tail is found only where a kept or published release quotes a digest from there.
        """
        return self._database.read(thorough=True)

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
    ) -> Written:
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
            charged = chain.find(release_id)
            if charged is not None:
                return Written(same_release(charged, wanted), chain)
            check_affordable(chain.entries, wanted)
            return append(db, chain, wanted)

    def keep(self, *, release_id: str, record_digest: str) -> Written:
        """Note the one record of a release that was charged, before anybody sees it.

        Refuses where another record of that release has been kept already.
        """
        with self._database.writing() as (db, chain):
            charged = chain.find(release_id)
            if charged is None:
                raise UsageError(f"release {release_id!r} was not charged: it cannot be kept.")
            kept = chain.kept(release_id)
            if kept is None:
                note = draft("kept", charged.dataset, charged.label, 0)
                note = replace(note, release_id=release_id, record_digest=record_digest)
                return append(db, chain, note)
            if kept.record_digest != record_digest:
                raise UsageError(
                    f"release {release_id!r} was kept with other centres (entry {kept.number}): "
                    "restore its file from a backup, or take a new id."
                )
            return Written(kept, chain)

    def set_budget(
        self, *, dataset: str, label: str, eps: Decimal, delta: Decimal = _PURE
    ) -> Written:
        """Set the budget of a data set, for replace-one neighbours; the newest one counts."""
        budget = replace(
            draft("budget", dataset, label, budget_units(eps)),
            atto_delta=delta_budget_units(delta),
        )
        with self._database.writing() as (db, chain):
            return append(db, chain, budget)
