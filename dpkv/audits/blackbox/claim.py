"""What a mechanism claims: (eps, delta)-DP or mu-GDP, for a relation between tables.

A claim is a region of trade-offs. Whoever has to tell two neighbouring tables apart calls "the
first" on some event, which has probability p under the first table and q under the second. A claim
says that 1 - p is at least f(q), for its own trade-off curve f and every event (Dong, Roth and Su,
2022). So an event whose p is surely large and whose q is surely small breaks the claim.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from scipy import stats

from dpkv.accounting import Neighbours
from dpkv.errors import ParameterError
from dpkv.types import Float64s
from dpkv.validation import exact_delta, exact_eps, one_of

_KEYS = ("eps", "delta", "mu", "neighbours")
_EXAMPLE = "Write eps=1,neighbours=add-remove, or mu=0.5,neighbours=replace-one."


@dataclass(frozen=True)
class Claim:
    """What is to be tested: ``eps`` with ``delta``, or ``mu`` for Gaussian differential privacy."""

    eps: Decimal | None = None
    delta: Decimal = Decimal(0)
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    mu: Decimal | None = None

    def __post_init__(self) -> None:
        if (self.eps is None) == (self.mu is None):
            raise ParameterError("claim", "either of eps or of mu", self.text, _EXAMPLE)
        if self.mu is not None and self.delta:
            raise ParameterError("claim", "without delta where it is of mu", self.text)

    @classmethod
    def parse(cls, text: str | Claim) -> Claim:
        """Return the claim that a text such as ``eps=1,neighbours=add-remove`` makes."""
        if isinstance(text, Claim):
            return text
        pairs = [part.partition("=") for part in text.split(",") if part.strip()]
        fields = {key.strip(): value.strip() for key, _, value in pairs}
        if len(fields) != len(pairs) or not set(fields) <= set(_KEYS):
            raise ParameterError("claim", f"made of {', '.join(_KEYS)}, each once", text, _EXAMPLE)
        if "neighbours" not in fields:
            raise ParameterError("claim", "with its neighbours", text, _EXAMPLE)
        relation = one_of("neighbours", fields["neighbours"], tuple(n.value for n in Neighbours))
        return cls(
            eps=exact_eps("eps", fields["eps"]) if "eps" in fields else None,
            delta=exact_delta("delta", fields.get("delta", "0")),
            neighbours=Neighbours(relation),
            mu=exact_eps("mu", fields["mu"]) if "mu" in fields else None,
        )

    @property
    def text(self) -> str:
        """The claim as ``parse`` reads it."""
        parts = [] if self.eps is None else [f"eps={self.eps:f}"]
        parts += [] if self.mu is None else [f"mu={self.mu:f}"]
        parts += [f"delta={self.delta}"] if self.delta else []
        return ",".join([*parts, f"neighbours={self.neighbours.value}"])

    @property
    def unit(self) -> str:
        """What is bounded from below: eps, or mu."""
        return "eps" if self.mu is None else "mu"

    @property
    def level(self) -> float:
        """What is claimed of it."""
        return float(self.eps if self.mu is None else self.mu)  # type: ignore[arg-type]

    def shown_by(self, p: Float64s, q: Float64s) -> Float64s:
        """Return the least eps (or mu) that allows events of probabilities p and q.

        eps >= log((p - delta) / q) and mu >= Phi^-1(p) - Phi^-1(q).
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.mu is not None:
                found = stats.norm.ppf(p) - stats.norm.ppf(q)
            else:
                found = np.log(np.maximum(p - float(self.delta), 0.0)) - np.log(q)
        return np.where(np.isnan(found), -np.inf, found)

    def trade_off(self, q: Float64s) -> Float64s:
        """Return f(q), the least 1 - p that the claim allows."""
        if self.mu is not None:
            return np.asarray(stats.norm.cdf(stats.norm.ppf(1.0 - q) - float(self.mu)))
        growth, delta = math.exp(self.level), float(self.delta)
        steep = 1.0 - delta - growth * q
        return np.maximum(0.0, np.maximum(steep, (1.0 - delta - q) / growth))

    def delta_at(self, eps: Float64s) -> Float64s:
        """Return the delta that the claim has at every eps."""
        if self.mu is not None:
            mu = float(self.mu)
            first, second = stats.norm.cdf(mu / 2 - eps / mu), stats.norm.cdf(-mu / 2 - eps / mu)
            return np.asarray(first - np.exp(eps) * second)
        # Of (eps0, delta0): p - e^eps q is largest where both lines of the trade-off meet.
        level, delta = self.level, float(self.delta)
        meet = (1.0 - delta) / (1.0 + math.exp(level))
        return np.where(eps >= level, delta, 1.0 - meet - np.exp(eps) * meet)
