"""The chain of entries as it was at one reading: who asks several things reads it once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import NamedTuple

from dpkv.ledger.entries import (
    Account,
    Entry,
    account_of,
    charge_units,
    check_affordable,
    delta_charge_units,
    draft,
    mixed_relations,
)

_PURE = Decimal(0)


@dataclass(frozen=True)
class Chain:
    """All entries, in their order. The chain was whole when it was read."""

    entries: tuple[Entry, ...]

    def __len__(self) -> int:
        return len(self.entries)

    def find(self, release_id: str) -> Entry | None:
        """Return the charge for that release."""
        return self._find("charge", release_id)

    def kept(self, release_id: str) -> Entry | None:
        """Return the note that the centers of that release exist."""
        return self._find("kept", release_id)

    def entry(self, number: int) -> Entry | None:
        """Return the entry of that number."""
        return self.entries[number - 1] if 1 <= number <= len(self) else None

    def account(self, dataset: str) -> Account:
        """Return what a data set has spent and has left."""
        return account_of(self.entries, dataset)

    def accounts(self) -> tuple[Account, ...]:
        """Return the account of every data set, in the order in which they first appeared."""
        names = dict.fromkeys(entry.dataset for entry in self.entries)
        return tuple(account_of(self.entries, name) for name in names)

    def mixed_relations(self, *, release_id: str, dataset: str, neighbours: str) -> str | None:
        """Return what to say before this charge, where it mixes relations on one account."""
        return mixed_relations(self.entries, dataset, neighbours, release_id)

    def check(self, *, dataset: str, eps: Decimal, delta: Decimal = _PURE, neighbours: str) -> None:
        """Refuse what the budget has not enough left for; nothing is charged or set aside."""
        wanted = replace(
            draft("charge", dataset, "", charge_units(eps, neighbours)),
            neighbours=neighbours,
            atto_delta=delta_charge_units(delta, eps, neighbours),
        )
        check_affordable(self.entries, wanted)

    def _find(self, kind: str, release_id: str) -> Entry | None:
        own = (e for e in self.entries if e.kind == kind and e.release_id == release_id)
        return next(own, None)


class Written(NamedTuple):
    """An entry of the ledger, new or found there, and the chain that has it."""

    entry: Entry
    chain: Chain
