"""Which tables are neighbours: what a privacy figure protects."""

from __future__ import annotations

from enum import StrEnum

from dpkv.validation import one_of


class Neighbours(StrEnum):
    """The relation that a price is for."""

    REPLACE_ONE = "replace-one"
    """One record is replaced by another; the number of records is public."""
    ADD_REMOVE = "add-remove"
    """One record is added or removed; the number of records is protected as well."""

    @property
    def changed_records(self) -> int:
        """How many records one table has that the other has not, at most, both ways together."""
        return 2 if self is Neighbours.REPLACE_ONE else 1


def as_neighbours(value: str) -> Neighbours:
    """Return the neighbouring relation of that name."""
    return Neighbours(one_of("neighbours", value, tuple(member.value for member in Neighbours)))
