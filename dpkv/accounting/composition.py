"""What the prices of an account come to: three ways to add them up, each proved, and a filter.

A **figure** for prices that were fixed in advance is the smallest of

1. the plain sum of (eps, delta), which always holds;
2. zCDP: pure eps counts eps^2 / 2, Gaussian noise its rho; ``zcdp.py`` turns the sum into eps;
3. loss distributions of the pure steps (``loss_distribution.py``), joined to the zCDP of the rest:
   (eps_1, delta_1) and (eps_2, delta_2) add up.

A **filter** decides whether one more release may be made, where its price may depend on what
earlier releases showed. Not all of the above can serve:

- A plain sum of pure eps: the loss itself never exceeds it, on any path.
- Sums of rho against a bound that is fixed beforehand are a filter (Feldman and Zrnic, 2021, on
  fully adaptive Renyi filters; Whitehouse, Ramdas, Rogers and Wu, 2023, on fully adaptive zCDP). In
  brief: for the alpha that suits the bound, exp((alpha - 1)(L - alpha sum of rho)) has a mean of at
  most 1 whatever the strategy.
- One *or* the other is a filter as well: paths on which the pure sum stays within eps have no loss
  beyond eps, so they add nothing to delta, and the others are covered by the bound on rho.
- A sum of (eps, delta) with deltas above 0 is a filter by itself (Rogers et al., 2016), but adds to
  the delta of the other: which of the two counts is decided by the first release of the account,
  whose price depends on no answer. A first release beyond the bound on rho is followed by sums.
- Loss distributions are no filter for prices that depend on answers. They count where whoever set
  the budget stated that prices are fixed in advance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from typing import Literal

from dpkv.accounting.exact import float_below, upward
from dpkv.accounting.loss_distribution import eps_of_pure_steps
from dpkv.accounting.steps import Step
from dpkv.accounting.zcdp import eps_of_rho

_UP = upward()
_FINEST = Decimal("1e-15")
_SPLITS = (0.5, 0.9, 0.1)
_MOST_PRICES = 1000
"""Different prices of one account whose losses are added up."""

Kind = Literal["pure", "zcdp", "opaque"]
Way = Literal["sum", "zcdp", "loss distribution"]


@dataclass(frozen=True, order=True)
class Price:
    """What each of ``times`` steps costs."""

    kind: Kind
    """``opaque`` is an (eps, delta) of which nothing else is known."""
    amount: Decimal
    """eps or rho, rounded up."""
    times: int = 1

    @property
    def rho(self) -> Fraction | None:
        """What all of the steps cost in zCDP; None where that is not known."""
        if self.kind == "opaque":
            return None
        exact = Fraction(self.amount)
        return (exact if self.kind == "zcdp" else exact * exact / 2) * self.times


Prices = Mapping[tuple[Kind, str], int]
"""How often each price was paid, by its kind and its amount in plain digits."""


def prices_of(steps: Iterable[Step]) -> tuple[Price, ...]:
    """Return the prices of a mechanism's steps; none where a step has no proof."""
    found = []
    for step in steps:
        if not step.is_priced:
            return ()
        if step.rho is not None:
            rho = _UP.divide(Decimal(step.rho.numerator), Decimal(step.rho.denominator))
            found.append(Price("zcdp", _coarse(rho), step.times))
        elif step.eps:
            found.append(Price("pure", _coarse(step.eps), step.times))
    return tuple(found)


def _coarse(amount: Decimal) -> Decimal:
    """Return an amount rounded up, so that a ledger's entries stay short."""
    return amount.quantize(_FINEST, rounding=ROUND_CEILING, context=upward(80)).normalize(
        upward(80)
    )


def write_prices(prices: Iterable[Price]) -> list[list[str | int]]:
    """Return prices as plain JSON values."""
    return [[price.kind, f"{price.amount:f}", price.times] for price in prices]


def rho_of(prices: Iterable[Price]) -> Fraction | None:
    """Return what prices come to in zCDP; None where one is opaque."""
    total = Fraction(0)
    for price in prices:
        rho = price.rho
        if rho is None:
            return None
        total += rho
    return total


@dataclass(frozen=True)
class Composed:
    """The smallest figure that is proved, and the way it was found."""

    eps: Decimal
    way: Way


def compose(
    prices: Iterable[Price], delta: Decimal, *, sum_eps: Decimal, sum_delta: Decimal
) -> Composed:
    """Return what prices that were fixed in advance cost at ``delta``.

    The sums are those of what was charged. Infinite where they have more delta, and nothing else is
    known.
    """
    known = tuple(prices)
    chance = float_below(delta) if delta > 0 else 0.0
    found = [Composed(sum_eps if sum_delta <= delta else Decimal("Infinity"), "sum")]
    total = rho_of(known)
    if total is not None and delta > 0:
        found.append(Composed(eps_of_rho(total, chance), "zcdp"))
        if len(known) <= _MOST_PRICES:
            found += [Composed(eps, "loss distribution") for eps in _by_losses(known, chance)]
    return min(found, key=lambda one: one.eps)


def _by_losses(prices: tuple[Price, ...], delta: float) -> Iterable[Decimal]:
    pure = [(Fraction(p.amount), p.times) for p in prices if p.kind == "pure"]
    rest = sum((p.rho or Fraction(0) for p in prices if p.kind == "zcdp"), Fraction(0))
    if not pure:
        return
    for share in _SPLITS if rest else (1.0,):
        eps = eps_of_pure_steps(pure, delta * share * (1.0 - 1e-12))
        if eps is None:
            return
        yield _UP.add(eps, eps_of_rho(rest, delta * (1.0 - share) * (1.0 - 1e-12))) if rest else eps
