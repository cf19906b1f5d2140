"""Tables of persons with several rows, on a grid, and their neighbours: what an audit replays."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpkv.accounting import Neighbours
from dpkv.records import ArrayRecords
from dpkv.records.persons import RowFacts, Weighing, owners_of
from dpkv.types import Integers


@dataclass(frozen=True, eq=False)
class PersonTable:
    """Rows, whose they are, whether they count and what they weigh, and how that is used."""

    how: Weighing
    points: Integers
    names: NDArray[np.uint64]
    """Of every row's person."""
    counts: NDArray[np.bool_]
    weights: NDArray[np.int64]
    """Survey weights, in shares; used where ``how`` says so."""

    def __len__(self) -> int:
        """Return the number of persons, or of rows where each is a person."""
        return self.facts.n_records

    @property
    def facts(self) -> RowFacts:
        """What is known of the rows beside their points."""
        return RowFacts(
            len(self.points),
            None if self.how.persons is None else owners_of(self.names),
            self.counts if self.how.may_ignore else None,
            self.weights if self.how.most_weight is not None else None,
        )

    @property
    def records(self) -> ArrayRecords:
        """What questions are asked of."""
        return self.facts.records(self.points, self.how)

    def without(self, person: int) -> PersonTable:
        """Return the table without the rows of a person."""
        return self._of(np.flatnonzero(self.names != np.uint64(person)))

    def replaced(self, person: int, other: PersonTable) -> PersonTable:
        """Return the table with all rows of another table, of one person, in the person's place."""
        own = self.names == np.uint64(person)
        first, others = int(own.argmax()), np.flatnonzero(~own)
        before, after = others[others < first], others[others > first]
        return self._of(before).followed_by(other).followed_by(self._of(after))

    def followed_by(self, other: PersonTable) -> PersonTable:
        """Return the rows of both, in this order."""
        return replace(
            self,
            points=np.concatenate([self.points, other.points]),
            names=np.concatenate([self.names, other.names]),
            counts=np.concatenate([self.counts, other.counts]),
            weights=np.concatenate([self.weights, other.weights]),
        )

    def _of(self, rows: Integers) -> PersonTable:
        return replace(
            self,
            points=self.points[rows],
            names=self.names[rows],
            counts=self.counts[rows],
            weights=self.weights[rows],
        )


def group_rows(
    rng: np.random.Generator, how: Weighing, points: Integers, most_rows: int
) -> PersonTable:
    """Return a table of these rows in which persons have up to about so many, by chance."""
    n_rows = len(points)
    most_persons = max(1, -(-2 * n_rows // (1 + most_rows)))
    names = rng.integers(0, most_persons, n_rows)
    names[0], names[-1] = 0, 1  # two persons at least
    if how.persons is None:
        names = np.arange(n_rows)
    counts = rng.random(n_rows) < rng.choice([0.2, 0.8])
    weights = np.minimum(rng.integers(0, 2 * how.shares, n_rows), how.shares)
    return PersonTable(how, points, names.astype(np.uint64), counts, weights)


def neighbour_of_persons(
    rng: np.random.Generator, table: PersonTable, places: Integers, relation: Neighbours
) -> PersonTable:
    """Return the table without a person, or with one whose rows are at ``places`` instead."""
    person = int(rng.choice(table.names))
    if relation is Neighbours.ADD_REMOVE:
        return table.without(person)
    name = person if rng.integers(2) else int(table.names.max()) + 1
    other = PersonTable(
        table.how,
        places,
        np.full(len(places), name, np.uint64),
        rng.random(len(places)) < rng.choice([0.2, 0.8, 1.0]),
        np.minimum(rng.integers(0, 2 * table.how.shares, len(places)), table.how.shares),
    )
    return table.replaced(person, other)
