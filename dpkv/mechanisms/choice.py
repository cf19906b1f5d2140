"""Which mechanism promises the least error, from public facts alone: ``--mechanism auto``.

Every mechanism predicts its own error: the squared error of a center's coordinate over the squared
half width of the domain, for k clusters of equal size, at most 1. The predictions are rough on
purpose. They are worked out from the noise, and from the number of records where that is public.

Where the number of records is private nothing can be predicted, and where a delta is given few
mechanisms have a use for it. There the one with the highest ``preference`` that covers the request
is taken: the most accurate wherever records are many, which is where a release is of use.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpkv.errors import UsageError
from dpkv.mechanisms.mechanism import Terms
from dpkv.mechanisms.registry import MECHANISMS, for_terms


@dataclass(frozen=True)
class Choice:
    """The mechanism that is taken, and why."""

    name: str
    reason: str


def choose(terms: Terms) -> Choice:
    """Return the mechanism of least predicted error."""
    if terms.n_records is None:
        return Choice(_preferred(terms), "auto: the number of records is private, nothing predicts")
    if terms.delta > 0:
        return Choice(_preferred(terms), "auto: the only mechanism with a use for delta")
    errors: dict[str, float] = {}
    for name in MECHANISMS:
        try:
            mechanism = for_terms(name, terms)
        except UsageError:
            continue
        errors[name] = mechanism.predicted_error(terms.n_records)
    ranked = sorted(errors, key=lambda name: (errors[name], -MECHANISMS[name].preference))
    shown = ", ".join(f"{name} {errors[name]:.2g}" for name in ranked[:3])
    return Choice(
        ranked[0], f"auto: least predicted squared error of a centre, of the domain's: {shown}"
    )


def _preferred(terms: Terms) -> str:
    able = [
        name
        for name, kind in MECHANISMS.items()
        if terms.neighbours in kind.relations and (kind.uses_delta or terms.delta == 0)
    ]
    return max(able, key=lambda name: MECHANISMS[name].preference)
