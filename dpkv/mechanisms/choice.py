"""Which mechanism promises the least error, from public facts alone: ``--mechanism auto``.

Of the mechanisms that come with dpkv, so that anybody can check the choice, every one predicts its
own error: the squared error of a center's coordinate over the squared half width of the domain, for
k clusters of equal size, at most 1. The predictions are rough on purpose. They are worked out from
the noise, and from the number of records where that is public.

Where the number of records is private nothing can be predicted, and where a delta is given few
mechanisms have a use for it. There the one with the highest ``preference`` that covers the request
is taken: the most accurate wherever records are many, which is where a release is of use.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import Literal

from dpkv.errors import UsageError
from dpkv.mechanisms.mechanism import Densities, Mechanism, Terms
from dpkv.mechanisms.registry import MECHANISMS, PAPERS, for_terms

Rule = Literal["smallest-predicted-error", "private-record-count", "use-for-delta"]
"""What decided: predictions, or where there are none the preference among those that are able."""
_SHOWN = 3


@dataclass(frozen=True)
class Choice:
    """The mechanism that is taken, and why."""

    mechanism: Mechanism
    """Calibrated for the terms."""
    rule: Rule
    predicted: tuple[tuple[str, float], ...] = ()
    """The best mechanisms and their predicted errors, in two digits: alike on every machine."""

    density: Densities | None = None
    """What its records are released through, where there is a choice."""

    @property
    def name(self) -> str:
        """What the registry calls it."""
        return self.mechanism.name


def choose(terms: Terms) -> Choice:
    """Return the mechanism with the smallest predicted error."""
    if terms.n_records is None:
        return _prefer(terms, "private-record-count")
    if terms.delta > 0:
        return _prefer(terms, "use-for-delta")
    able: list[Mechanism] = []
    for name in MECHANISMS.shipped:
        with contextlib.suppress(UsageError):
            own = MECHANISMS[name].best_density()
            able.append(for_terms(name, replace(terms, density=own, lloyd_steps=None)))
    if not able:
        raise UsageError("no mechanism can do what is asked for: try a larger eps.")
    errors = {one.name: one.predicted_error(terms.n_records) for one in able}
    ranked = sorted(able, key=lambda one: (errors[one.name], -one.preference))
    shown = ranked[:_SHOWN]
    shown += [one for one in ranked[_SHOWN:] if one.name == PAPERS]
    errors_shown = tuple((one.name, float(f"{errors[one.name]:.2g}")) for one in shown)
    best = ranked[0]
    density = MECHANISMS[best.name].best_density()
    return Choice(best, "smallest-predicted-error", errors_shown, density)


def _prefer(terms: Terms, rule: Rule) -> Choice:
    able = [
        kind
        for kind in (MECHANISMS[name] for name in MECHANISMS.shipped)
        if terms.neighbours in kind.relations
        and (kind.uses_delta or terms.delta == 0)
        and (kind.chooses_number or terms.fewest is None)
        and (kind.knows_units or terms.unit.is_plain)
        and (terms.unit.even or not kind.needs_even_units)
    ]
    best = max(able, key=lambda kind: kind.preference)
    own = replace(terms, density=best.best_density(), lloyd_steps=None)
    return Choice(best.for_terms(own), rule, density=own.density)
