"""Persons whose rows lie in several parts of a table: each counts once, whatever the part.

One shuffle tells every part what it needs to know of its persons. Keys of persons are keyed hashes,
so a key's own bits say which bucket it goes to, and buckets are about equally full:

    part -> buckets     its persons' keys, how many rows of each count, and what these add up to
    bucket -> parts     the same of all parts together, how many rows came in earlier parts, and
                        whether the part is the first that has the person

With that a part weighs its own rows to the very shares that they have in one array: the parts' rows
one after another. A person belongs to the first part that has one of the person's rows, counting or
not, so that persons are numbered as in one array, too. Every step is a function of exact integers:
what is lost on the way can be done again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpkv.records.block import NO_WEIGHTS, Block, RowPersons
from dpkv.records.persons import RowFacts, Weighing, Whole, means_of, owners_of
from dpkv.types import Integers, Keys

_BUCKET_SHIFT = 32  # the lower bits say where a key is looked up


@dataclass(frozen=True, eq=False)
class Told:
    """What a part tells one bucket of its persons, in the order of their first rows there."""

    keys: Keys
    rows: NDArray[np.int32]
    """How many rows of each person count."""
    weights: NDArray[np.int64] | None
    """Survey weights of these rows, added up, where rows have any."""
    sums: Integers | None
    """Points of these rows, added up, where persons become their means."""


@dataclass(frozen=True, eq=False)
class Heard:
    """What a bucket tells a part of the same persons, in the same order."""

    before: NDArray[np.int32]
    first: NDArray[np.bool_]
    """Whether no earlier part has the person."""
    rows: NDArray[np.int32]
    weights: NDArray[np.int64] | None
    sums: Integers | None
    """Of persons that are ``first`` here; other parts need none."""


@dataclass(frozen=True, eq=False)
class PartRows:
    """The rows of one part, as they were read. Private."""

    points: NDArray[Any]
    facts: RowFacts
    keys: Keys | None = None
    """A key for every row's person."""

    @classmethod
    def of(
        cls,
        points: NDArray[Any],
        keys: Keys | None,
        counts: NDArray[np.bool_] | None,
        weights: NDArray[np.int64] | None,
    ) -> PartRows:
        """Number the persons of the rows."""
        persons = None if keys is None else owners_of(keys)
        return cls(points, RowFacts(len(points), persons, counts, weights), keys)

    def tell(self, n_buckets: int, how: Weighing) -> list[Told]:
        """Return what every bucket is told."""
        facts, keys = self.facts, self._person_keys()
        rows = facts.person_rows()
        weights = None if facts.weights is None else facts.person_weights()
        sums = facts.person_sums(self.points) if how.persons == "mean" else None
        return [
            Told(keys[own], rows[own], _some(weights, own), _some(sums, own))
            for own in _in_buckets(keys, n_buckets)
        ]

    def block(self, how: Weighing, heard: Sequence[Heard] = ()) -> Block:
        """Return the rows with what they weigh; ``heard`` is what every bucket tells."""
        if how.persons is None:
            return Block(self.points, self.facts.weigh(how))
        assert self.keys is not None
        keys = self._person_keys()
        own = _in_buckets(keys, len(heard))
        first = _joined(own, [part.first for part in heard])
        rows = _joined(own, [part.rows for part in heard])
        mine = RowPersons(self.keys, keys[first])
        if how.persons == "mean":
            sums = np.zeros((len(keys), self.points.shape[1]), np.int64)
            for places, part in zip(own, heard, strict=True):
                assert part.sums is not None
                sums[places[part.first]] = part.sums
            means, some = means_of(sums[first], rows[first])
            return Block(means, some if how.may_ignore else NO_WEIGHTS)
        weights = [part.weights for part in heard if part.weights is not None]
        whole = Whole(
            _joined(own, [part.before for part in heard]),
            rows,
            _joined(own, weights) if weights else None,
        )
        return Block(self.points, replace(self.facts, whole=whole).weigh(how), persons=mine)

    def _person_keys(self) -> Keys:
        """Return the keys of the persons, by their numbers: in the order of their first rows."""
        assert self.keys is not None and self.facts.persons is not None
        numbers = self.facts.persons.numbers
        found = np.empty(self.facts.persons.count, np.uint64)
        found[numbers] = self.keys
        return found


def settle(told: Sequence[Told]) -> list[Heard]:
    """Return what a bucket tells every part, from what the parts told it, in their order."""
    persons = owners_of(np.concatenate([part.keys for part in told]))
    ends = np.cumsum([len(part.keys) for part in told])[:-1]
    rows = np.zeros(persons.count, np.int32)
    seen = np.zeros(persons.count, np.bool_)
    weights = None if told[0].weights is None else np.zeros(persons.count, np.int64)
    sums = None
    if told[0].sums is not None:
        sums = np.zeros((persons.count, told[0].sums.shape[1]), np.int64)
    opened = []
    for part, numbers in zip(told, np.split(persons.numbers, ends), strict=True):
        opened.append((numbers, rows[numbers], ~seen[numbers]))
        seen[numbers] = True
        rows[numbers] += part.rows  # a part names a person once
        if weights is not None and part.weights is not None:
            weights[numbers] += part.weights
        if sums is not None and part.sums is not None:
            sums[numbers] += part.sums
    return [
        Heard(before, first, rows[numbers], _some(weights, numbers), _some(sums, numbers[first]))
        for numbers, before, first in opened
    ]


def count_persons(block: Block) -> int:
    """Return how many persons have their first row in this part."""
    return block.n_rows if block.persons is None else len(block.persons.first)


def _in_buckets(keys: Keys, n_buckets: int) -> list[Integers]:
    """Return the numbers of the persons that go to every bucket."""
    bucket = (keys >> np.uint64(_BUCKET_SHIFT)) % np.uint64(n_buckets)
    return [np.flatnonzero(bucket == number) for number in range(n_buckets)]


def _some(values: NDArray[Any] | None, places: NDArray[Any]) -> Any:
    return None if values is None else values[places]


def _joined(own: Sequence[Integers], parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return what buckets tell by the numbers of the persons."""
    found = np.empty(sum(map(len, own)), parts[0].dtype)
    for places, part in zip(own, parts, strict=True):
        found[places] = part
    return found
