"""Steps and their prices: pure eps exactly where it is rational, zCDP for Gaussian noise."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from itertools import groupby

from dpkv.accounting.exact import upward, upward_decimal
from dpkv.accounting.zcdp import eps_of_rho

_SUMS = upward(200)


@dataclass(frozen=True)
class Step:
    """A part of a mechanism, done ``times`` times, and what each time costs, rounded up."""

    name: str
    """A code: a record holds it, and words are rendered from it."""
    eps: Decimal | None
    """None where the price is in zCDP, of which eps is a matter of delta, or where nothing is
    proved."""
    times: int = 1
    exact: Fraction | None = None
    """The price where it is rational, not rounded: three thirds are one."""
    rho: Fraction | None = None
    """The price in zCDP, exactly, of a step with Gaussian noise."""

    @property
    def is_priced(self) -> bool:
        """Whether a proof gives the step a price."""
        return self.eps is not None or self.rho is not None


def laplace_step(name: str, sensitivity: int, scale: float, times: int = 1) -> Step:
    """Return a step that adds noise to integers of that L1 sensitivity: it costs their quotient."""
    exact = Fraction(sensitivity) / Fraction(scale) if sensitivity else Fraction(0)
    return Step(name, upward_decimal(exact), times, exact)


def gaussian_step(name: str, sensitivity_squared: int, scale: float, times: int = 1) -> Step:
    """Return a step that adds Gaussian noise to integers of that squared L2 sensitivity."""
    rho = Fraction(0)
    if sensitivity_squared:
        rho = Fraction(sensitivity_squared, 2) / Fraction(scale) ** 2
    return Step(name, None, times, rho=rho)


def gather_steps(schedule: Iterable[Step]) -> tuple[Step, ...]:
    """Return the steps of a schedule, equal ones counted, in the order in which they first come."""
    times: dict[Step, int] = {}
    for _, run in groupby(schedule, key=id):  # a step that is repeated at once is hashed once
        equal = list(run)
        times[equal[0]] = times.get(equal[0], 0) + sum(step.times for step in equal)
    return tuple(replace(step, times=count) for step, count in times.items())


def cost_of(steps: Iterable[Step], delta: float = 0.0) -> Decimal:
    """Return the eps that the steps cost together at ``delta``, rounded up.

    Pure steps add up. Steps in zCDP add up among themselves and become (eps, delta) once; pure
    steps join the one sum (eps) or the other (eps^2 / 2), whichever costs less in the end. Both
    figures hold and depend on public facts alone, so the smaller one holds:
    docs/proofs/synopsis.md, section 5, has the proof.
    A step that nothing proves has no finite cost.
    """
    rational, total, rho, squares = Fraction(0), Decimal(0), Fraction(0), Fraction(0)
    for step in steps:
        if step.rho is not None:
            rho += step.rho * step.times
            continue
        if step.eps is None:
            return Decimal("Infinity")
        price = Fraction(step.eps) if step.exact is None else step.exact
        squares += price * price * step.times
        if step.exact is not None:
            rational += step.exact * step.times
        else:
            total = _SUMS.fma(step.eps, Decimal(step.times), total)
    pure = _SUMS.add(total, upward_decimal(rational))
    if rho == 0:
        return pure
    if delta <= 0.0:
        return Decimal("Infinity")
    return min(_SUMS.add(pure, eps_of_rho(rho, delta)), eps_of_rho(rho + squares / 2, delta))
