"""Whom a release charges, and what the curator is told before it does."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from dpkv.ledger import Chain, Ledger
from dpkv.ledger.chain import Written
from dpkv.releases.plan import Plan


def _warn(sentence: str) -> None:
    warnings.warn(f"{sentence}.", stacklevel=5)  # at the caller of dpkv.release


@dataclass(frozen=True)
class Charging:
    """Whom to charge: the ledger, the data set's name in it, and the release's id."""

    ledger: Ledger
    dataset: str
    release_id: str
    known: Chain
    """What the ledger held when it was prepared."""
    warn: Callable[[str], None] = _warn
    """Called before the charge with what the curator should know of it."""

    @property
    def is_repeated(self) -> bool:
        """Whether the release was charged before."""
        return self.known.find(self.release_id) is not None

    def tell(self, plan: Plan) -> None:
        """Warn, before anything is charged, of a charge that mixes relations on one account."""
        mixed = self.known.mixed_relations(
            release_id=self.release_id, dataset=self.dataset, neighbours=plan.neighbours.value
        )
        if mixed is not None:
            self.warn(mixed)

    def charge(
        self,
        plan: Plan,
        label: str,
        *,
        eps: Decimal,
        delta: Decimal = Decimal(0),
        entry_id: str | None = None,
    ) -> Written:
        """Charge the account for a part of a plan, on disk before this returns.

        ``entry_id`` is that of the release itself where it is None.
        """
        return self.ledger.charge(
            release_id=self.release_id if entry_id is None else entry_id,
            dataset=self.dataset,
            label=label,
            eps=eps,
            delta=delta,
            neighbours=plan.neighbours.value,
            end_to_end=plan.end_to_end,
            plan_digest=plan.digest,
        )
