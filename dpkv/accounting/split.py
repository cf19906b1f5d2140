"""Budget splits: parts of an eps that never add up to more than it."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from dpkv.accounting.exact import downward, nearest
from dpkv.errors import ParameterError

_DOWN = downward(50)


@dataclass(frozen=True)
class Split:
    """Parts of ``eps``, each spent ``times`` times; all together at most ``eps``."""

    eps: Decimal
    parts: tuple[Decimal, ...]
    times: int = 1

    def __post_init__(self) -> None:
        if any(part <= 0 for part in self.parts):
            raise ParameterError("a budget share", "greater than 0", min(self.parts))
        if self.spent > self.eps:
            raise ParameterError("budget shares", f"at most {self.eps} together", self.spent)

    @property
    def spent(self) -> Decimal:
        """The sum of all parts, exactly."""
        exact = nearest(400)
        total = Decimal(0)
        for part in self.parts:
            total = exact.add(total, part)
        return exact.multiply(total, Decimal(self.times))

    @classmethod
    def of(cls, eps: Decimal, *shares: float, times: int = 1) -> Split:
        """Split ``eps`` in proportion to ``shares``, rounded down."""
        exact = nearest(400)
        weights = [Decimal(share) for share in shares]
        total = Decimal(0)
        for weight in weights:
            total = exact.add(total, weight)
        whole = exact.multiply(total, Decimal(times))
        parts = tuple(_DOWN.divide(exact.multiply(eps, weight), whole) for weight in weights)
        return cls(eps, parts, times)
