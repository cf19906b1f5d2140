"""Accounts and entries of a ledger, for people and for programs."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpkv.ledger import Account, Entry

SHOWN_FINGERPRINT = 8  # characters
_BY = {"zcdp": "zCDP", "loss distribution": "privacy-loss distributions"}


def describe_budget(account: Account) -> str:
    """Say what an account may spend, has spent, and has left."""
    from dpkv.ledger.entries import delta_of_units

    if account.rho_budget is not None:
        spent = "-" if account.rho_spent is None else f"{delta_of_units(account.rho_spent):f}"
        return (
            f"budget rho {delta_of_units(account.rho_budget):f}, {spent} spent, "
            f"{account.remaining:f} left"
        )
    beyond = ""
    if account.delta_budget or account.delta_spent:
        beyond = f"; delta {account.delta_budget:f}, {account.delta_spent:f} spent"
    return (
        f"budget {account.budget:f}, {account.counted:f} spent, {account.remaining:f} left{beyond}"
    )


def _n_releases(account: Account, entries: tuple[Entry, ...]) -> int:
    """Return how many releases were charged; private bounds have charges of their own."""
    from dpkv.releases.charged_bounds import release_of_bounds

    charges = [e for e in entries if e.kind == "charge" and e.dataset == account.dataset]
    return sum(release_of_bounds(charge.release_id) is None for charge in charges)


def account_fields(account: Account, entries: tuple[Entry, ...], chance: Decimal) -> dict[str, Any]:
    """Return what an account has, for a program."""
    from dpkv.accounting.exact import round_up
    from dpkv.ledger.entries import delta_of_units

    delta = account.delta_budget or chance
    composed = account.composed(delta)
    in_rho, rho = account.rho_budget is not None, account.rho_spent
    return {
        "dataset": account.dataset,
        "label": account.label,
        "neighbours": account.neighbours,
        "unit": account.unit,
        "person": account.person,
        "prices": "fixed" if account.fixed_prices else "adaptive",
        "budget": None if account.budget is None else f"{account.budget:f}",
        "spent": f"{account.spent:f}",
        "counted": f"{account.counted:f}",
        "remaining": None if account.remaining is None or in_rho else f"{account.remaining:f}",
        "delta_budget": None if account.delta_budget is None else f"{account.delta_budget:f}",
        "delta_spent": f"{account.delta_spent:f}",
        "rho_budget": None if not in_rho else f"{delta_of_units(account.rho_budget or 0):f}",
        "rho_spent": None if rho is None else f"{delta_of_units(rho):f}",
        "composed": {
            "eps": f"{round_up(composed.eps):f}",
            "delta": f"{delta:f}",
            "by": composed.way,
        },
        "releases": _n_releases(account, entries),
        "not_end_to_end": account.n_conditional,
    }


def entry_fields(entry: Entry) -> dict[str, Any]:
    """Return what an entry has, for a program."""
    return {
        "number": entry.number,
        "kind": entry.kind,
        "release_id": entry.release_id,
        "dataset": entry.dataset,
        "label": entry.label,
        "eps": f"{entry.eps:f}",
        "delta": f"{entry.delta:f}",
        "end_to_end": entry.end_to_end,
        "neighbours": entry.neighbours,
        "unit": entry.unit,
        "person": entry.person,
        "prices": entry.more.get("prices"),
        "created": entry.created,
        "digest": entry.digest,
    }


def account_rows(
    account: Account, entries: tuple[Entry, ...], chance: Decimal
) -> tuple[str, list[list[str]]]:
    """Return the title of an account and what is to be told of it, for people."""
    rows = [
        ["protects", account.protects],
        ["budget", _budget_told(account)],
        ["releases", _releases_told(account, entries)],
        ["plain sum", _with_delta(f"{account.spent:f}", account.delta_spent)],
        ["composed", _composed_told(account, chance)],
        ["counted", _counted_told(account)],
        ["left", "" if account.remaining is None else f"{account.remaining:f}"],
    ]
    title = f"account {account.label} ({account.dataset[:SHOWN_FINGERPRINT]})"
    return title, [row for row in rows if row[1]]


def _with_delta(eps: str, delta: Decimal | None) -> str:
    return f"{eps}, delta {delta:f}" if delta else eps


def _budget_told(account: Account) -> str:
    from dpkv.ledger.entries import delta_of_units

    if account.rho_budget is not None:
        return f"rho {delta_of_units(account.rho_budget):f}"
    if account.budget is None:
        return "none"
    told = _with_delta(f"{account.budget:f}", account.delta_budget)
    return f"{told}, for prices fixed in advance" if account.fixed_prices else told


def _releases_told(account: Account, entries: tuple[Entry, ...]) -> str:
    told = str(_n_releases(account, entries))
    return f"{told}, {account.n_conditional} not end to end" if account.n_conditional else told


def _composed_told(account: Account, chance: Decimal) -> str:
    """Say what the charges cost together, where that is less than their sum."""
    from dpkv.accounting.exact import round_up

    delta = account.delta_budget or chance
    composed = account.composed(delta)
    if composed.way == "sum" or not composed.eps.is_finite():
        return ""
    told = f"{round_up(composed.eps):f} at delta {delta:f}, by {_BY[composed.way]}"
    return told if account.fixed_prices else f"{told}, if prices were fixed in advance"


def _counted_told(account: Account) -> str:
    """Say what counts against the budget, where that is not the plain sum."""
    from dpkv.ledger.entries import delta_of_units

    if account.rho_budget is not None:
        spent = account.rho_spent
        return "" if spent is None else f"rho {delta_of_units(spent):f}"
    if account.budget is None or account.counted == account.spent:
        return ""
    told = f"{account.counted:f}"
    return told if account.fixed_prices else f"{told}, by the privacy filter for zCDP"


def entry_cells(entry: Entry) -> list[str]:
    """Return the row of an entry in the table of entries."""
    from dpkv.releases.charged_bounds import release_of_bounds

    what: str = "release" if entry.kind == "charge" else entry.kind
    found_for = release_of_bounds(entry.release_id)
    if found_for is not None:
        what = "bounds of" if entry.kind == "charge" else f"{what} bounds of"
    what = f"{what} {found_for or entry.release_id or ''}".rstrip()
    if entry.kind == "charge" and not entry.end_to_end:
        what += " (conditional)"
    when = entry.created[:16].replace("T", " ")
    eps = f"{entry.eps:f}" if entry.kind in ("charge", "budget") else ""
    if entry.delta:
        eps += f", delta {entry.delta:f}"
    return [str(entry.number), when, what, entry.label, eps]
