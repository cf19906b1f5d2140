"""Entries of the ledger: what they hold, how they are chained, and what they add up to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Literal

from dpkv.accounting.exact import ABOVE_ROUNDING, downward, upward
from dpkv.errors import BudgetError, ParameterError, UsageError
from dpkv.validation import LARGEST_EPS

NEIGHBOURS = ("replace-one", "add-remove")
NAMED = "name:"
"""How the ledger's name of a data set begins where a person chose it; others are fingerprints."""
BEFORE_THE_FIRST = "0" * 64
_BILLIONTH = Decimal("1e-9")
_ATTO = Decimal(10**18)


@dataclass(frozen=True)
class Entry:
    """One line of the ledger: a charge for a release, its centers being kept, or a budget.

    ``nano_eps`` is billionths of the eps that counts against the budget, for replace-one
    neighbours. The fields that may be None are those of charges only, but for ``record_digest``,
    which a kept release has.
    """

    number: int
    kind: Literal["charge", "kept", "budget"]
    release_id: str | None
    dataset: str
    label: str
    nano_eps: int
    end_to_end: bool | None
    neighbours: str | None
    plan_digest: str | None
    record_digest: str | None
    created: str
    previous: str
    digest: str
    atto_delta: int = 0
    """Billionths of billionths of the delta that counts."""
    salt: str = ""
    """128 random bits: a published digest confirms no guess of the other fields without them."""

    @property
    def eps(self) -> Decimal:
        """The eps that counts against the budget (or is the budget), for replace-one neighbours."""
        return _eps(self.nano_eps)

    @property
    def delta(self) -> Decimal:
        """The delta that counts against the budget, or is the budget's."""
        return _delta(self.atto_delta)


@dataclass(frozen=True)
class Account:
    """What one data set has spent, for replace-one neighbours; ``remaining`` can be negative."""

    dataset: str
    label: str
    budget: Decimal | None
    spent: Decimal
    remaining: Decimal | None
    n_charges: int
    n_conditional: int
    """Charges whose guarantee is not end to end."""
    delta_budget: Decimal | None = None
    """None where there is no budget; a budget of eps alone has a delta of 0."""
    delta_spent: Decimal = Decimal(0)
    delta_remaining: Decimal | None = None


def charge_units(eps: Decimal, neighbours: str) -> int:
    """Return the billionths that ``eps`` counts against a replace-one budget, rounded up."""
    if neighbours not in NEIGHBOURS:
        raise ParameterError("neighbours", f"one of {', '.join(NEIGHBOURS)}", neighbours)
    # Replace-one neighbours D = C + {x} and D' = C + {y} are both one step of add-remove from C, so
    # P[M(D) in S] <= e^eps P[M(C) in S] <= e^(2 eps) P[M(D') in S]: add-remove counts twice.
    times = 2 if neighbours == "add-remove" else 1
    return _units(eps, times, ROUND_CEILING)


def delta_charge_units(delta: Decimal, eps: Decimal, neighbours: str) -> int:
    """Return the units of 1e-18 that ``delta`` counts against a replace-one budget, rounded up.

    Two steps of add-remove, as above: P[M(D) in S] <= e^eps (e^eps P[M(D') in S] + delta) + delta,
    so delta counts 1 + e^eps times. More than 1 means nothing more.
    """
    if neighbours not in NEIGHBOURS:
        raise ParameterError("neighbours", f"one of {', '.join(NEIGHBOURS)}", neighbours)
    if delta == 0:
        return 0
    context = upward(traps=False)
    times = Decimal(1)
    if neighbours == "add-remove":
        # Decimal's exp rounds to nearest whatever the context, hence the last factor.
        times = context.multiply(context.add(times, context.exp(eps)), ABOVE_ROUNDING)
    units = context.multiply(context.multiply(delta, times), _ATTO)
    return int(min(units, _ATTO).to_integral_value(ROUND_CEILING, context=context))


def delta_budget_units(delta: Decimal) -> int:
    """Return the units of 1e-18 of a budget's delta, rounded down."""
    if not delta.is_finite() or not 0 <= delta < 1:
        raise ParameterError("delta", "at least 0 and below 1", str(delta))
    context = downward(traps=False)
    return int(context.multiply(delta, _ATTO).to_integral_value(ROUND_FLOOR, context=context))


def budget_units(eps: Decimal) -> int:
    """Return the billionths of a budget of ``eps``, rounded down."""
    return _units(eps, 1, ROUND_FLOOR)


def _units(eps: Decimal, times: int, rounding: str) -> int:
    if not eps.is_finite() or not 0 < eps <= LARGEST_EPS:
        raise ParameterError("eps", f"a number above 0 and at most {LARGEST_EPS}", str(eps))
    # 60 digits reach far below a billionth, so rounding the product first cannot pass over one.
    context = (upward if rounding == ROUND_CEILING else downward)(traps=False)
    product = context.multiply(eps, Decimal(times))
    return int(product.quantize(_BILLIONTH, context=context).scaleb(9, context))


def _eps(units: int) -> Decimal:
    """Return billionths as eps, exactly whatever the decimal context, without idle zeros."""
    return _decimal(units, 9)


def _delta(units: int) -> Decimal:
    """Return units of 1e-18 as delta, likewise."""
    return _decimal(units, 18)


def _decimal(units: int, places: int) -> Decimal:
    whole, part = divmod(abs(units), 10**places)
    sign = "-" if units < 0 else ""
    return Decimal(f"{sign}{whole}.{part:0{places}d}".rstrip("0").rstrip("."))


def entry_digest(entry: Entry) -> str:
    """Return the SHA-256 of the canonical JSON of every field but the digest; truth is 0 or 1."""
    known = {name: value for name, value in vars(entry).items() if name != "digest"}
    if isinstance(entry.end_to_end, bool):
        known["end_to_end"] = int(entry.end_to_end)
    # ``default``: a value that no entry may have must fail the comparison, not the encoder.
    text = json.dumps(known, sort_keys=True, separators=(",", ":"), default=repr)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def identifier(parameter: str, text: str) -> str:
    """Return text that can name something, refusing what cannot be printed."""
    if not text or not text.isprintable():
        raise ParameterError(parameter, "printable text that is not empty", text)
    return text


def draft(kind: Literal["charge", "kept", "budget"], dataset: str, label: str, units: int) -> Entry:
    """Return an entry without its place in the chain; its label can be stored and shown."""
    name = identifier("dataset", dataset)
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in label)
    return Entry(0, kind, None, name, shown, units, None, None, None, None, "", "", "")


def fault(entry: Entry, number: int, previous: str) -> str | None:
    """Return what is wrong with the entry at a place of the chain, if anything is."""
    if entry.number != number:
        return f"entry {number} is missing"
    if entry.digest != entry_digest(entry):
        return f"entry {number} was altered"
    if entry.previous != previous:
        return f"the chain is broken between entry {number - 1} and entry {number}"
    return None


def same_release(entry: Entry, wanted: Entry) -> Entry:
    """Return the earlier charge of the same release; the label is for people and may differ."""
    placed = replace(
        entry, number=0, label=wanted.label, created="", previous="", digest="", salt=""
    )
    if placed != wanted:
        raise UsageError(
            f"release id {entry.release_id!r} was charged for another release (entry "
            f"{entry.number}): take a new id."
        )
    return entry


def check_affordable(chain: Sequence[Entry], wanted: Entry) -> None:
    """Refuse a charge of more than is left: by sequential composition the eps add up."""
    budget, spent, delta_spent = _totals(chain, wanted.dataset)
    if budget is None:
        return
    doubled = wanted.neighbours == "add-remove"
    if spent + wanted.nano_eps > budget.nano_eps:
        raise BudgetError(
            requested=wanted.eps,
            remaining=_eps(budget.nano_eps - spent),
            difference=_eps(spent + wanted.nano_eps - budget.nano_eps),
            doubled=doubled,
        )
    if wanted.atto_delta and delta_spent + wanted.atto_delta > budget.atto_delta:
        raise BudgetError(
            requested=wanted.delta,
            remaining=_delta(budget.atto_delta - delta_spent),
            difference=_delta(delta_spent + wanted.atto_delta - budget.atto_delta),
            doubled=doubled,
            what="delta",
        )


def mixed_relations(
    entries: Sequence[Entry], dataset: str, neighbours: str, release_id: str
) -> str | None:
    """Return what to say before an account is charged for releases under both relations.

    The sum stays right, for replace-one neighbours. But a replace-one release publishes the number
    of records, which is what an add-remove release protects.
    """
    charges = [entry for entry in entries if entry.kind == "charge"]
    if any(entry.release_id == release_id for entry in charges):
        return None  # charged before
    if not {entry.neighbours for entry in charges if entry.dataset == dataset} - {neighbours}:
        return None
    together = "all of them together are private for replace-one neighbours alone"
    if neighbours == "replace-one":
        return (
            "this replace-one release publishes the number of records, which earlier add-remove "
            f"releases charged to the same account keep private: {together}"
        )
    return (
        "earlier replace-one releases charged to the same account published the number of records, "
        f"which an add-remove release would keep private: {together}"
    )


def _totals(entries: Sequence[Entry], dataset: str) -> tuple[Entry | None, int, int]:
    """Return the newest budget, if any, and what is spent: billionths of eps, units of delta."""
    own = [entry for entry in entries if entry.dataset == dataset]
    budgets = [entry for entry in own if entry.kind == "budget"]
    charges = [entry for entry in own if entry.kind == "charge"]
    spent = sum(entry.nano_eps for entry in charges)
    return (budgets[-1] if budgets else None), spent, sum(entry.atto_delta for entry in charges)


def account_of(entries: Sequence[Entry], dataset: str) -> Account:
    """Return what a data set has spent and has left."""
    own = [entry for entry in entries if entry.dataset == dataset]
    charges = [entry for entry in own if entry.kind == "charge"]
    budget, spent, delta_spent = _totals(own, dataset)
    left = None if budget is None else (budget.nano_eps - spent, budget.atto_delta - delta_spent)
    return Account(
        dataset=dataset,
        label=own[-1].label if own else "",
        budget=None if budget is None else budget.eps,
        spent=_eps(spent),
        remaining=None if left is None else _eps(left[0]),
        n_charges=len(charges),
        n_conditional=sum(not charge.end_to_end for charge in charges),
        delta_budget=None if budget is None else budget.delta,
        delta_spent=_delta(delta_spent),
        delta_remaining=None if left is None else _delta(left[1]),
    )
