"""Whose data neighbours differ in: the unit of privacy, and what it may weigh.

Rows have whole weights, in shares. A unit's rows have at most ``shares`` of them together, whatever
their number; theorems call that W. So replacing, adding or removing all rows of one unit changes
any sum over rows, of terms of norm at most r, by at most W r or 2 W r.
``docs/proofs/persons.md`` has the proofs (Theorem C), mechanism by mechanism.

    row                    a unit is one row, of one share
    person                 a unit is all rows of a person, who have PERSON_SHARES in all
    weights, rows to keep  a unit has at most so many shares, and may have none

A unit of privacy is public in every field. How many shares a row gets is a function of its unit's
own rows alone (``records/persons.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from dpkv.accounting.relation import Neighbours
from dpkv.validation import one_of, positive_finite, truth, whole_number

Kind = Literal["row", "person"]

PERSON_SHARES = 1 << 12
"""Of a person. Rows beyond so many have none; it limits nothing else."""
MOST_SHARES = 1 << 20
"""So few that sums over all rows of a table stay far below 2^63."""


@dataclass(frozen=True)
class Unit:
    """A unit of privacy."""

    kind: Kind = "row"
    shares: int = 1
    """W: what all rows of a unit weigh together, at most."""
    even: bool = True
    """Whether every unit weighs exactly W, by public rules, and not less or nothing."""
    worth: float = 1.0
    """What W shares count in results: one, or the largest survey weight."""

    def __post_init__(self) -> None:
        one_of("unit", self.kind, ("row", "person"))
        whole_number("shares", self.shares, at_least=1, at_most=MOST_SHARES)
        truth("even", self.even)
        positive_finite("worth", self.worth)

    @property
    def is_plain(self) -> bool:
        """Whether every record is one row of weight one."""
        return self == ROW

    def changed(self, neighbours: Neighbours) -> int:
        """Return how many shares one table has that the other has not, at most, both ways."""
        return neighbours.changed_records * self.shares

    @property
    def per(self) -> float:
        """How many shares make one in results."""
        return self.shares / self.worth

    def counted(self, shares: float) -> float:
        """Return what so many shares count in results."""
        return shares / self.per

    def to_dict(self) -> dict[str, Any]:
        """Return the unit as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Unit:
        """Rebuild a unit from ``to_dict``; every field is checked."""
        return cls(**facts)


ROW = Unit()
PERSON = Unit("person", PERSON_SHARES)
