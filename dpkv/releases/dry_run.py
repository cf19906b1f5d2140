"""What a release would charge and leave, before a record is read.

The eps and the delta of a charge are the plan's. What they leave of a budget with a delta, or in
rho, also depends on the prices of the release's steps, and these on the number of records, which
nobody has counted yet. Of a release in pure eps a single step of that eps costs the most; of one
with a delta nothing is said.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from dpkv.accounting.composition import Price
from dpkv.errors import BudgetError
from dpkv.ledger import Account, Chain, draft_charge
from dpkv.releases.plan import Plan

_HARDLY_ANYTHING = Decimal("1e-15")

Known = Literal["no budget", "exact", "at least", "unknown"]


@dataclass(frozen=True)
class Ahead:
    """The charge of a release that was not made."""

    eps: str
    delta: str
    account: Account
    """As it would be after the charge, as far as that is known."""
    remaining: Decimal | None
    remaining_is: Known


def price_ahead(plan: Plan, known: Chain, *, account: str, label: str, release_id: str) -> Ahead:
    """Return what a release would charge; refuse it where the budget certainly would."""
    before = known.account(account)
    if known.find(release_id) is not None:  # it is charged once
        return Ahead("0", "0", before, before.remaining, _known(before, exact=True))

    def after(price: Price) -> Account:
        wanted = draft_charge(
            release_id=release_id,
            dataset=account,
            label=label,
            eps=plan.exact_eps,
            delta=plan.exact_delta,
            neighbours=plan.neighbours.value,
            unit=plan.weighing.unit.kind,
            person=plan.unit.person_column,
            end_to_end=plan.end_to_end,
            plan_digest=plan.digest,
            prices=(price,),
        )
        before.check_affordable(wanted)
        return before.with_entry(wanted)

    is_sum = before.rho_budget is None and not before.atto_budget
    whole = Price("pure", plan.exact_eps)
    least = after(whole if is_sum else Price("zcdp", _HARDLY_ANYTHING))
    if is_sum:
        return Ahead(plan.eps, plan.delta, least, least.remaining, _known(least, exact=True))
    if plan.exact_delta == 0:
        try:
            most = after(whole)
        except BudgetError:
            pass
        else:
            return Ahead(plan.eps, plan.delta, most, most.remaining, _known(most, exact=False))
    return Ahead(plan.eps, plan.delta, least, None, "unknown")


def _known(account: Account, *, exact: bool) -> Known:
    if account.remaining is None:
        return "no budget"
    return "exact" if exact else "at least"
