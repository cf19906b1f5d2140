"""What the entries of a data set add up to, one entry at a time: the sums are never recomputed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from typing import Any, Self

from dpkv.errors import BudgetError
from dpkv.ledger.entries import Entry, delta_of_units, eps_of_units


@dataclass(frozen=True)
class Account:
    """What one data set has spent, for replace-one neighbours; ``remaining`` can be negative."""

    dataset: str
    label: str = ""
    nano_budget: int | None = None
    """Billionths of the newest budget's eps; None where there is no budget."""
    atto_budget: int = 0
    nano_spent: int = 0
    atto_spent: int = 0
    n_charges: int = 0
    n_conditional: int = 0
    """Charges whose guarantee is not end to end."""
    relations: tuple[str, ...] = ()
    """For which neighbours something was charged."""

    def with_entry(self, entry: Entry) -> Account:
        """Return the account with one more entry of its data set."""
        if entry.kind == "budget":
            return replace(
                self,
                label=entry.label,
                nano_budget=entry.nano_eps,
                atto_budget=entry.atto_delta,
            )
        if entry.kind != "charge":
            return replace(self, label=entry.label)
        relation = entry.neighbours or ""
        return replace(
            self,
            label=entry.label,
            nano_spent=self.nano_spent + entry.nano_eps,
            atto_spent=self.atto_spent + entry.atto_delta,
            n_charges=self.n_charges + 1,
            n_conditional=self.n_conditional + (not entry.end_to_end),
            relations=tuple(sorted({*self.relations, relation})),
        )

    @property
    def budget(self) -> Decimal | None:
        """The eps that all releases together may cost, where that is set."""
        return None if self.nano_budget is None else eps_of_units(self.nano_budget)

    @property
    def spent(self) -> Decimal:
        """The sum of eps."""
        return eps_of_units(self.nano_spent)

    @property
    def remaining(self) -> Decimal | None:
        """What is left of the budget's eps."""
        return (
            None if self.nano_budget is None else eps_of_units(self.nano_budget - self.nano_spent)
        )

    @property
    def delta_budget(self) -> Decimal | None:
        """None where there is no budget; a budget of eps alone has a delta of 0."""
        return None if self.nano_budget is None else delta_of_units(self.atto_budget)

    @property
    def delta_spent(self) -> Decimal:
        """The sum of deltas."""
        return delta_of_units(self.atto_spent)

    @property
    def delta_remaining(self) -> Decimal | None:
        """What is left of the budget's delta."""
        if self.nano_budget is None:
            return None
        return delta_of_units(self.atto_budget - self.atto_spent)

    def check_affordable(self, wanted: Entry) -> None:
        """Refuse a charge of more than is left: by sequential composition the eps add up."""
        if self.nano_budget is None:
            return
        doubled = wanted.neighbours == "add-remove"
        missing = self.nano_spent + wanted.nano_eps - self.nano_budget
        if missing > 0:
            raise BudgetError(
                requested=wanted.eps,
                remaining=eps_of_units(self.nano_budget - self.nano_spent),
                difference=eps_of_units(missing),
                doubled=doubled,
            )
        missing = self.atto_spent + wanted.atto_delta - self.atto_budget
        if wanted.atto_delta and missing > 0:
            raise BudgetError(
                requested=wanted.delta,
                remaining=delta_of_units(self.atto_budget - self.atto_spent),
                difference=delta_of_units(missing),
                doubled=doubled,
                what="delta",
            )

    def mixed_relations(self, neighbours: str) -> str | None:
        """Return what to say before the account is charged for releases under both relations.

        The sum stays right, for replace-one neighbours. But a replace-one release publishes the
        number of records, which is what an add-remove release protects.
        """
        if not set(self.relations) - {neighbours}:
            return None
        together = "all of them together are private for replace-one neighbours alone"
        if neighbours == "replace-one":
            return (
                "this replace-one release publishes the number of records, which earlier "
                f"add-remove releases charged to the same account keep private: {together}"
            )
        return (
            "earlier replace-one releases charged to the same account published the number of "
            f"records, which an add-remove release would keep private: {together}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, known: dict[str, Any]) -> Self:
        """Read what ``to_dict`` returned."""
        return cls(**{**known, "relations": tuple(known["relations"])})


Accounts = dict[str, Account]
"""By the ledger's names of data sets, in the order in which they first appeared."""


def add_entry(accounts: Accounts, entry: Entry) -> None:
    """Put an entry into the account that it belongs to, if it belongs to one."""
    if entry.kind in ("charge", "kept", "budget"):
        account = accounts.get(entry.dataset, Account(entry.dataset))
        accounts[entry.dataset] = account.with_entry(entry)
