"""What the entries of a data set add up to, one entry at a time: the sums are never recomputed.

An account is of one relation and one unit: promises of different ones do not add up.
``accounting/composition.py`` says which ways of adding up are proved, and for what.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

from dpkv.accounting.composition import Composed, Price, Prices, compose, rho_of
from dpkv.accounting.exact import float_below, upward
from dpkv.accounting.zcdp import eps_of_rho
from dpkv.errors import BudgetError, UsageError
from dpkv.ledger.entries import Entry, delta_of_units, eps_of_units, rho_units

_ATTO = 10**18
_INFINITE = Decimal("Infinity")
_MOST_PRICES = 400
"""Of one account; further ones are rounded up to two digits."""
_COARSE = upward(2)
_APART = 10**6
_PROTECTED = {"row": "rows", "person": "persons"}


def protected(unit: str, person: str | None) -> str:
    """Say what a unit protects, and by which column persons are told apart."""
    return _PROTECTED[unit] + ("" if person is None else f" by {person}")


@dataclass(frozen=True)
class Account:
    """What one data set has spent; ``remaining`` can be negative."""

    dataset: str
    label: str = ""
    neighbours: str | None = None
    """The relation of all that was charged and of the budget; None where there is neither yet."""
    unit: str | None = None
    person: str | None = None
    """The column that says whose rows are whose, once an entry named it."""
    nano_budget: int | None = None
    """Billionths of the newest budget's eps; None where there is no budget in eps."""
    atto_budget: int = 0
    rho_budget: int | None = None
    """Units of 1e-18 of the newest budget's rho; None where there is no budget in rho."""
    fixed_prices: bool = False
    """Whether it was stated that no price depends on what earlier releases showed."""
    nano_spent: int = 0
    atto_spent: int = 0
    rho_spent: int | None = 0
    """None where a charge has no price in zCDP."""
    first_release: str = ""
    first_rho: int | None = 0
    """Of the first release alone, which decides how deltas are added up."""
    prices: Prices = field(default_factory=dict)
    n_charges: int = 0
    n_conditional: int = 0
    """Charges whose guarantee is not end to end."""

    def with_entry(self, entry: Entry) -> Account:
        """Return the account with one more entry of its data set."""
        known = replace(
            self,
            label=entry.label,
            neighbours=entry.neighbours or self.neighbours,
            unit=entry.unit or self.unit,
            person=entry.person or self.person,
        )
        if entry.kind == "charge":
            return known._charged(entry)
        if entry.kind != "budget":
            return known
        rho = entry.more.get("rho")
        return replace(
            known,
            nano_budget=entry.nano_eps if rho is None else None,
            atto_budget=entry.atto_delta,
            rho_budget=rho,
            fixed_prices=entry.more.get("prices") == "fixed",
        )

    def _charged(self, entry: Entry) -> Account:
        prices, rho = prices_of_entry(entry), rho_of_entry(entry)
        counts = dict(self.prices)
        for price in prices:
            name = (price.kind, f"{price.amount:f}")
            if name not in counts and len(counts) >= _MOST_PRICES:
                name = (price.kind, f"{_COARSE.plus(price.amount):f}")
            counts[name] = counts.get(name, 0) + price.times
        # Private bounds have a charge of their own, under the id of their release.
        release = (entry.release_id or "").partition(":")[0]
        first = self.first_release if self.n_charges else release
        return replace(
            self,
            nano_spent=self.nano_spent + entry.nano_eps,
            atto_spent=self.atto_spent + entry.atto_delta,
            rho_spent=_plus(self.rho_spent, rho),
            first_release=first,
            first_rho=_plus(self.first_rho, rho) if release == first else self.first_rho,
            prices=counts,
            n_charges=self.n_charges + 1,
            n_conditional=self.n_conditional + (not entry.end_to_end),
        )

    @property
    def budget(self) -> Decimal | None:
        """The eps that all releases together may cost, where that is set."""
        return None if self.nano_budget is None else eps_of_units(self.nano_budget)

    @property
    def spent(self) -> Decimal:
        """The plain sum of eps."""
        return eps_of_units(self.nano_spent)

    @property
    def remaining(self) -> Decimal | None:
        """What is left of the budget, as the next charge would find it: of eps, or of rho."""
        if self.rho_budget is not None:
            spent = self.rho_spent
            return None if spent is None else delta_of_units(self.rho_budget - spent)
        if self.nano_budget is None:
            return None
        counted = self.nano_spent if self.nano_counted is None else self.nano_counted
        return eps_of_units(self.nano_budget - counted)

    @property
    def delta_budget(self) -> Decimal | None:
        """None where there is no budget in eps; a budget of eps alone has a delta of 0."""
        return None if self.nano_budget is None else delta_of_units(self.atto_budget)

    @property
    def delta_spent(self) -> Decimal:
        """The sum of deltas."""
        return delta_of_units(self.atto_spent)

    @property
    def protects(self) -> str:
        """The relation and the unit, in words."""
        relation = self.neighbours or "replace-one"
        return f"{relation}, {protected(self.unit or 'row', self.person)}"

    def composed(self, delta: Decimal) -> Composed:
        """Return the smallest figure for what was spent, at a delta, if prices were fixed."""
        prices = [Price(kind, Decimal(text), n) for (kind, text), n in self.prices.items()]
        return compose(prices, delta, sum_eps=self.spent, sum_delta=self.delta_spent)

    @cached_property
    def nano_counted(self) -> int | None:
        """Billionths of the eps that count against the budget, rounded up; None: beyond any.

        Of the ways of adding up that may decide, the smallest.
        """
        if self.nano_budget is None or self.n_charges == 0:
            return self.nano_spent
        ways = [self.nano_spent] if self._sums_count else []
        found = _INFINITE
        if self.atto_budget and self.fixed_prices:
            found = self.composed(delta_of_units(self.atto_budget)).eps
        elif self._rho_counts:
            found = self._eps_of_rho(self.rho_spent)
        if found.is_finite():
            ways.append(math.ceil(Fraction(found) * 10**9))
        return min(ways, default=None)

    @property
    def counted(self) -> Decimal:
        """The eps that counts against the budget; the plain sum where there is no such figure."""
        counted = self.nano_counted
        return self.spent if counted is None else eps_of_units(counted)

    @property
    def _sums_count(self) -> bool:
        """Whether plain sums may decide; where they have deltas, not beside the zCDP filter."""
        within = self.atto_spent <= self.atto_budget
        return within and (self.atto_spent == 0 or self.fixed_prices or not self._rho_counts)

    @cached_property
    def _rho_counts(self) -> bool:
        """Whether the zCDP filter decides: the first release must have been within its bound."""
        if self.atto_budget == 0 or self.nano_budget is None:
            return False
        return self._eps_of_rho(self.first_rho) <= eps_of_units(self.nano_budget)

    def _eps_of_rho(self, rho: int | None) -> Decimal:
        if rho is None:
            return _INFINITE
        return eps_of_rho(Fraction(rho, _ATTO), float_below(delta_of_units(self.atto_budget)))

    @property
    def is_within_budget(self) -> bool:
        """Whether what was charged is what the budget allows, as far as there is one.

        Figures at a delta are found in floats, which two machines may round apart.
        """
        if self.rho_budget is not None:
            return self.rho_spent is not None and self.rho_spent <= self.rho_budget
        if self.nano_budget is None:
            return True
        room = self.nano_budget // _APART if self.atto_budget else 0
        counted = self.nano_counted
        return counted is not None and counted <= self.nano_budget + room

    def check_promise(self, neighbours: str, unit: str, person: str | None = None) -> None:
        """Refuse another relation or unit than the account's: persons of another column, too."""
        if self.neighbours not in (None, neighbours):
            raise UsageError(
                f"{_called(self)} is for {self.neighbours} neighbours, and {neighbours} ones do "
                "not add up with them (a replace-one release publishes the number of records, "
                "which an add-remove promise keeps private): ask with --neighbours "
                f"{self.neighbours}, or decide on a budget of its own under another --dataset."
            )
        others = None not in (self.person, person) and self.person != person
        if self.unit not in (None, unit) or others:
            raise UsageError(
                f"{_called(self)} protects {protected(self.unit or 'row', self.person)}, and what "
                f"protects {protected(unit, person)} does not add up with it: release for the same "
                "unit, or decide on a budget of its own under another --dataset."
            )

    def check_affordable(self, wanted: Entry) -> None:
        """Refuse a charge of another promise, or of more than is left."""
        self.check_promise(wanted.neighbours or "replace-one", wanted.unit or "row", wanted.person)
        after = self.with_entry(wanted)
        if self.rho_budget is not None:
            self._check_rho(after)
        elif self.nano_budget is not None:
            self._check_eps(after, wanted)

    def _check_rho(self, after: Account) -> None:
        assert self.rho_budget is not None
        if self.rho_spent is None or after.rho_spent is None:
            raise UsageError(
                f"{_called(self)} has a budget in rho, and this release has no price in zCDP: "
                "set a budget in eps and delta."
            )
        missing = after.rho_spent - self.rho_budget
        if missing > 0:
            raise BudgetError(
                requested=delta_of_units(after.rho_spent - self.rho_spent),
                remaining=delta_of_units(self.rho_budget - self.rho_spent),
                difference=delta_of_units(missing),
                what="rho",
                protects=self.protects,
            )

    def _check_eps(self, after: Account, wanted: Entry) -> None:
        assert self.nano_budget is not None
        if after.nano_counted is not None:
            missing = after.nano_counted - self.nano_budget
            if missing <= 0:
                return
            raise BudgetError(
                requested=wanted.eps,
                remaining=eps_of_units(wanted.nano_eps - missing),
                difference=eps_of_units(missing),
                protects=self.protects,
            )
        left = self.atto_budget - self.atto_spent
        raise BudgetError(
            requested=wanted.delta,
            remaining=delta_of_units(left),
            difference=delta_of_units(wanted.atto_delta - left),
            what="delta",
            protects=self.protects,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        prices = [[*name, times] for name, times in self.prices.items()]
        return {**asdict(replace(self, prices={})), "prices": prices}

    @classmethod
    def from_dict(cls, known: dict[str, Any]) -> Self:
        """Read what ``to_dict`` returned."""
        prices = {(kind, amount): times for kind, amount, times in known["prices"]}
        return cls(**{**known, "prices": prices})


def prices_of_entry(entry: Entry) -> tuple[Price, ...]:
    """Return the prices that an entry keeps, or the one that it states."""
    known = entry.more.get("prices")
    if known:
        return tuple(Price(kind, Decimal(amount), times) for kind, amount, times in known)
    return (Price("opaque" if entry.atto_delta else "pure", entry.eps),)


def rho_of_entry(entry: Entry) -> int | None:
    """Return what a charge costs in zCDP, in units of 1e-18, rounded up; None if unknown."""
    total = rho_of(prices_of_entry(entry))
    return None if total is None else rho_units(total)


def _plus(one: int | None, two: int | None) -> int | None:
    return None if one is None or two is None else one + two


def _called(account: Account) -> str:
    return f"the account of {account.label or account.dataset}"


class Accounts(MutableMapping[str, Account]):
    """Accounts by the ledger's names of data sets, in the order in which they first appeared.

    Those that were noted are texts until somebody asks for them: there may be tens of thousands.
    """

    def __init__(self, known: Mapping[str, Account | str] | None = None) -> None:
        self._known: dict[str, Account | str] = dict(known or {})

    def __getitem__(self, name: str) -> Account:
        found = self._known[name]
        if isinstance(found, str):
            found = self._known[name] = Account.from_dict(json.loads(found))
        return found

    def __setitem__(self, name: str, account: Account) -> None:
        self._known[name] = account

    def __delitem__(self, name: str) -> None:
        del self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def copy(self) -> Accounts:
        """Return accounts to which entries may be added without a change to these."""
        return Accounts(self._known)

    def texts(self) -> Iterator[tuple[str, str]]:
        """Return every name with its account as a line of text."""
        for name, found in self._known.items():
            if isinstance(found, str):
                yield name, found
            else:
                yield name, json.dumps(found.to_dict(), separators=(",", ":"))


def add_entry(accounts: Accounts, entry: Entry) -> None:
    """Put an entry into the account that it belongs to, if it belongs to one."""
    if entry.kind in ("charge", "kept", "budget"):
        account = accounts.get(entry.dataset, Account(entry.dataset))
        accounts[entry.dataset] = account.with_entry(entry)
