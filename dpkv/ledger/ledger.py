"""The ledger itself: prepare, charge, set a budget, read, verify."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from dpkv.errors import ParameterError
from dpkv.ledger.database import Database, append, count_write
from dpkv.ledger.entries import (
    Account,
    Entry,
    account_of,
    budget_units,
    charge_units,
    check_affordable,
    draft,
    identifier,
    same_release,
)


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
        with self._database.writing() as db:
            self._database.chain(db)
            count_write(db)

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
            draft("charge", dataset, label, charge_units(eps, neighbours)),
            release_id=identifier("release_id", release_id),
            end_to_end=bool(end_to_end),
            neighbours=neighbours,
            plan_digest=plan_digest,
        )
        with self._database.writing() as db:
            chain = self._database.chain(db)
            for entry in chain:
                if entry.release_id == release_id:
                    return same_release(entry, wanted)
            check_affordable(chain, wanted)
            return append(db, chain, wanted)

    def set_budget(self, *, dataset: str, label: str, eps: Decimal) -> Entry:
        """Set the budget of a data set, for replace-one neighbours; the newest one counts."""
        budget = draft("budget", dataset, label, budget_units(eps))
        with self._database.writing() as db:
            return append(db, self._database.chain(db), budget)

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
        return next((entry for entry in self.entries() if entry.release_id == release_id), None)

    def verify(self) -> int:
        """Return the number of entries, or refuse naming the first entry that does not check out.

        A removed tail is not found: compare with a published record (see the module's docstring).
        """
        return len(self._database.read(thorough=True))
