"""Entries of the ledger: what they hold, how they are chained, and what they add up to."""

from __future__ import annotations

import hashlib
import json
import math
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, get_args

from dpkv.accounting.composition import Kind as PriceKind
from dpkv.accounting.composition import Price, write_prices
from dpkv.accounting.exact import downward, upward
from dpkv.errors import ParameterError, UsageError
from dpkv.validation import LARGEST_EPS, one_of

NEIGHBOURS = ("replace-one", "add-remove")
UNITS = ("row", "person")
_KINDS = get_args(PriceKind)
NAMED = "name:"
"""How the ledger's name of a data set begins where a person chose it; others are fingerprints."""
BEFORE_THE_FIRST = "0" * 64
_BILLIONTH = Decimal("1e-9")
_ATTO = Decimal(10**18)
_SALT_BYTES = 16


Kind = Literal["charge", "kept", "budget", "checkpoint", "moved"]


@dataclass(frozen=True)
class Entry:
    """One line of the ledger.

    A charge for a release, the note that its centers are kept, a budget, a checkpoint of all
    entries before it, or the note that the ledger goes on elsewhere. ``nano_eps`` is billionths
    of the eps that counts against the budget, or is the budget's, for the entry's neighbours and
    unit. Fields that may be None belong to some kinds only.
    """

    number: int
    kind: Kind
    release_id: str | None
    dataset: str
    label: str
    nano_eps: int
    atto_delta: int
    """Billionths of billionths of the delta that counts."""
    end_to_end: bool | None
    neighbours: str | None
    unit: str | None
    """What counts as one: a row, or a person with all rows."""
    plan_digest: str | None
    record_digest: str | None
    details: str
    """Canonical JSON of what only some kinds have; empty where there is none."""
    created: str
    previous: str
    salt: str
    """128 random bits: a published digest confirms no guess of the other fields without them."""
    digest: str

    @property
    def eps(self) -> Decimal:
        """The eps that counts against the budget, or is the budget's."""
        return eps_of_units(self.nano_eps)

    @cached_property
    def more(self) -> dict[str, Any]:
        """What only some kinds of entries have."""
        found = json.loads(self.details) if self.details else {}
        return found if isinstance(found, dict) else {}

    @property
    def person(self) -> str | None:
        """The column that says whose rows are whose, where persons are protected."""
        return self.more.get("person") if self.unit == "person" else None

    @property
    def delta(self) -> Decimal:
        """The delta that counts against the budget, or is the budget's."""
        return delta_of_units(self.atto_delta)


def charge_units(eps: Decimal) -> int:
    """Return the billionths that ``eps`` counts against a budget, rounded up."""
    return _units(eps, ROUND_CEILING)


def delta_charge_units(delta: Decimal) -> int:
    """Return the units of 1e-18 that ``delta`` counts against a budget, rounded up."""
    context = upward(traps=False)
    units = context.multiply(delta, _ATTO)
    return int(min(units, _ATTO).to_integral_value(ROUND_CEILING, context=context))


def rho_units(rho: Fraction) -> int:
    """Return the units of 1e-18 that rho counts against a budget, rounded up."""
    return math.ceil(rho * 10**18)


def rho_budget_units(rho: Decimal) -> int:
    """Return the units of 1e-18 of a budget in rho, rounded down."""
    if not rho.is_finite() or not 0 < rho <= LARGEST_EPS:
        raise ParameterError("rho", f"a number above 0 and at most {LARGEST_EPS}", str(rho))
    return math.floor(Fraction(rho) * 10**18)


def delta_budget_units(delta: Decimal) -> int:
    """Return the units of 1e-18 of a budget's delta, rounded down."""
    if not delta.is_finite() or not 0 <= delta < 1:
        raise ParameterError("delta", "at least 0 and below 1", str(delta))
    context = downward(traps=False)
    return int(context.multiply(delta, _ATTO).to_integral_value(ROUND_FLOOR, context=context))


def budget_units(eps: Decimal) -> int:
    """Return the billionths of a budget of ``eps``, rounded down."""
    return _units(eps, ROUND_FLOOR)


def _units(eps: Decimal, rounding: str) -> int:
    if not eps.is_finite() or not 0 < eps <= LARGEST_EPS:
        raise ParameterError("eps", f"a number above 0 and at most {LARGEST_EPS}", str(eps))
    context = (upward if rounding == ROUND_CEILING else downward)(traps=False)
    return int(eps.quantize(_BILLIONTH, context=context).scaleb(9, context))


def eps_of_units(units: int) -> Decimal:
    """Return billionths as eps, exactly whatever the decimal context, without idle zeros."""
    return _decimal(units, 9)


def delta_of_units(units: int) -> Decimal:
    """Return units of 1e-18 as delta, likewise."""
    return _decimal(units, 18)


def _decimal(units: int, places: int) -> Decimal:
    whole, part = divmod(abs(units), 10**places)
    sign = "-" if units < 0 else ""
    return Decimal(f"{sign}{whole}.{part:0{places}d}".rstrip("0").rstrip("."))


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=repr)
"""``default``: a value that no entry may have must fail the comparison, not the encoder."""


def entry_digest(entry: Entry) -> str:
    """Return the SHA-256 of the canonical JSON of every field but the digest; truth is 0 or 1."""
    known = dict(vars(entry))
    del known["digest"]
    known.pop("more", None)  # made from the details
    if isinstance(entry.end_to_end, bool):
        known["end_to_end"] = int(entry.end_to_end)
    return hashlib.sha256(_ENCODER.encode(known).encode("ascii")).hexdigest()


def write_details(**facts: object) -> str:
    """Return details as canonical JSON; those that are None are left out."""
    known = {name: value for name, value in facts.items() if value is not None}
    return _ENCODER.encode(known) if known else ""


def check_promise(neighbours: str, unit: str) -> None:
    """Refuse what is no relation, or no unit."""
    one_of("neighbours", neighbours, NEIGHBOURS)
    one_of("unit", unit, UNITS)


def persons_named(unit: str, person: str | None) -> str | None:
    """Return the column that says whose rows are whose, where persons are protected."""
    if person is not None and unit != "person":
        raise ParameterError("person", "left out where rows are protected", person)
    return None if person is None else identifier("person", person)


def identifier(parameter: str, text: str) -> str:
    """Return text that can name something, refusing what cannot be printed."""
    if not text or not text.isprintable():
        raise ParameterError(parameter, "printable text that is not empty", text)
    return text


def draft(kind: Kind, dataset: str, label: str, units: int = 0) -> Entry:
    """Return an entry without its place in the chain; its label can be stored and shown."""
    name = identifier("dataset", dataset)
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in label)
    return Entry(
        number=0,
        kind=kind,
        release_id=None,
        dataset=name,
        label=shown,
        nano_eps=units,
        atto_delta=0,
        end_to_end=None,
        neighbours=None,
        unit=None,
        plan_digest=None,
        record_digest=None,
        details="",
        created="",
        previous="",
        salt="",
        digest="",
    )


def draft_charge(
    *,
    release_id: str,
    dataset: str,
    label: str,
    eps: Decimal,
    delta: Decimal = Decimal(0),
    neighbours: str,
    unit: str = "row",
    person: str | None = None,
    end_to_end: bool,
    plan_digest: str,
    prices: Iterable[Price] = (),
) -> Entry:
    """Return a charge for a release, without its place in the chain.

    ``prices`` are those of its steps; where there are none, (eps, delta) is all that is known.
    """
    if not re.fullmatch("[0-9a-f]{64}", plan_digest):
        raise ParameterError("plan_digest", "64 hexadecimal digits in lower case", plan_digest)
    check_promise(neighbours, unit)
    return replace(
        draft("charge", dataset, label, charge_units(eps)),
        release_id=identifier("release_id", release_id),
        end_to_end=bool(end_to_end),
        neighbours=neighbours,
        unit=unit,
        plan_digest=plan_digest,
        atto_delta=delta_charge_units(delta),
        details=write_details(
            prices=write_prices(prices) or None, person=persons_named(unit, person)
        ),
    )


def draft_budget(
    *,
    dataset: str,
    label: str,
    eps: Decimal | None = None,
    delta: Decimal = Decimal(0),
    rho: Decimal | None = None,
    neighbours: str,
    unit: str,
    person: str | None = None,
    fixed_prices: bool = False,
) -> Entry:
    """Return a budget, in eps and delta or in rho, without its place in the chain."""
    check_promise(neighbours, unit)
    if (eps is None) == (rho is None):
        raise UsageError("a budget is stated in eps, with or without delta, or in rho: give one.")
    if rho is not None and (delta != 0 or fixed_prices):
        raise UsageError("a budget in rho has no delta, and needs no word on prices.")
    return replace(
        draft("budget", dataset, label, 0 if eps is None else budget_units(eps)),
        atto_delta=delta_budget_units(delta),
        neighbours=neighbours,
        unit=unit,
        details=write_details(
            rho=None if rho is None else rho_budget_units(rho),
            prices="fixed" if fixed_prices else None,
            person=persons_named(unit, person),
        ),
    )


def place_behind(draft: Entry, number: int, digest: str) -> Entry:
    """Return a draft as the entry behind the one of that number and digest, made now."""
    placed = replace(
        draft,
        number=number + 1,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        salt=secrets.token_hex(_SALT_BYTES),
        previous=digest,
    )
    return replace(placed, digest=entry_digest(placed))


def fault(entry: Entry, number: int, previous: str) -> str | None:
    """Return what is wrong with the entry at a place of the chain, if anything is."""
    if entry.number != number:
        return f"entry {number} is missing"
    if entry.digest != entry_digest(entry):
        return f"entry {number} was altered"
    if entry.previous != previous:
        return f"the chain is broken between entry {number - 1} and entry {number}"
    if not _is_sound(entry):
        return f"entry {number} holds what dpkv never writes"
    return None


def _is_sound(entry: Entry) -> bool:
    """Tell whether an entry holds what one of its kind may: no price below 0, above all.

    Whoever can write to a database can chain anything, and a negative price would be a refund.
    """
    try:
        facts = entry.more
        prices, rho, person = facts.get("prices"), facts.get("rho"), facts.get("person")
        if entry.kind == "charge" and prices is not None:
            amounts = [(Decimal(amount), times) for kind, amount, times in prices if kind in _KINDS]
            if len(amounts) != len(prices) or not all(
                amount.is_finite() and amount >= 0 and type(times) is int and times > 0
                for amount, times in amounts
            ):
                return False
    except (ValueError, TypeError, ArithmeticError, RecursionError):
        return False
    return (
        entry.nano_eps >= 0
        and entry.atto_delta >= 0
        and (entry.kind != "budget" or prices in (None, "fixed"))
        and (rho is None or (type(rho) is int and rho >= 0))
        and (person is None or isinstance(person, str))
        and (
            entry.kind not in ("charge", "budget")
            or (entry.neighbours in NEIGHBOURS and entry.unit in UNITS)
        )
    )


def same_release(entry: Entry, wanted: Entry) -> Entry:
    """Return the earlier charge of the same release; what is only told may differ."""
    placed = replace(
        entry,
        number=0,
        label=wanted.label,
        details=wanted.details,
        created="",
        previous="",
        digest="",
        salt="",
    )
    if placed != wanted:
        raise UsageError(
            f"release id {entry.release_id!r} was charged for another release (entry "
            f"{entry.number}): take a new id."
        )
    return entry
