"""Whom a release charges, and what the curator is told before it does."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from dpkv.accounting.composition import prices_of
from dpkv.known_tables import note_charge, point_out, point_out_missing
from dpkv.ledger import Chain, Charge, Ledger, Written, draft_charge
from dpkv.releases.record import all_steps
from dpkv.releases.settling import Settled


def warn_caller(sentence: str) -> None:
    """Tell whoever releases from Python."""
    warnings.warn(f"{sentence}.", stacklevel=5)  # at the caller of dpkv.release


@dataclass(frozen=True)
class Charging:
    """Whom to charge: the ledger, the data set's name in it, and the release's id."""

    ledger: Ledger
    dataset: str
    release_id: str
    known: Chain
    """What the ledger held when it was prepared."""
    warn: Callable[[str], None] = warn_caller
    """Called before the charge with what the curator should know of it."""
    table: str | None = None
    """What the user's registry of tables calls it; None where that cannot be used."""

    @property
    def is_repeated(self) -> bool:
        """Whether the release was charged before."""
        return self.known.find(self.release_id) is not None

    def point_out(self) -> None:
        """Tell the curator, before anything is charged, of what this ledger does not count."""
        if self.is_repeated:
            return
        for found in (
            point_out(self.table, self.ledger),
            point_out_missing(self.ledger, self.known),
        ):
            if found is not None:
                self.warn(found)

    def tell(self, settled: Settled) -> None:
        """Refuse, before anything is charged, a promise that is not the account's."""
        if not self.is_repeated:
            account = self.known.account(self.dataset)
            person = settled.plan.unit.person_column
            account.check_promise(settled.plan.neighbours.value, settled.promise.unit, person)

    def check_whole(self, settled: Settled, label: str) -> None:
        """Refuse a release that the budget has not enough left for; nothing is charged."""
        self.ledger.read().check(draft_charge(**self._whole(settled, label)))

    def charge_bounds(self, settled: Settled, label: str, entry_id: str) -> Written:
        """Charge the account for finding bounds, on disk before this returns."""
        assert settled.finder is not None
        bounds: Charge = {
            **self._whole(settled, label),
            "release_id": entry_id,
            "eps": settled.plan.split.parts[0],
            "delta": Decimal(0),
            "prices": prices_of(settled.finder.steps()),
        }
        return self._noted(self.ledger.charge(**bounds))

    def charge(self, settled: Settled, label: str) -> Written:
        """Charge the account for all but the bounds, on disk before this returns."""
        centers: Charge = {
            **self._whole(settled, label),
            "eps": settled.plan.split.parts[-1],
            "prices": prices_of(settled.mechanism.steps()),
        }
        return self._noted(self.ledger.charge(**centers))

    def _noted(self, written: Written) -> Written:
        note_charge(self.table, self.ledger, written.entry)
        return written

    def _whole(self, settled: Settled, label: str) -> Charge:
        plan = settled.plan
        return {
            "release_id": self.release_id,
            "dataset": self.dataset,
            "label": label,
            "eps": plan.exact_eps,
            "delta": plan.exact_delta,
            "neighbours": plan.neighbours.value,
            "unit": settled.promise.unit,
            "person": plan.unit.person_column,
            "end_to_end": plan.end_to_end,
            "plan_digest": plan.digest,
            "prices": prices_of(all_steps(settled.finder, settled.mechanism)),
        }
