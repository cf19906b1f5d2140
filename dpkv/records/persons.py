"""What every row weighs, where a person counts once or rows have weights: before the curator.

    rows                       a row weighs one, or its survey weight
    persons, "share"           a person's rows share one weight, of PERSON_SHARES
    persons, "limit"           a person's first c rows weigh one each, the others nothing
    persons, "mean"            a person becomes one row: the mean of the rows, in whole grid steps

A row that does not count, for want of a value, weighs nothing; its person's other rows share all.
Whatever is decided here about a row depends on the rows of its own person alone, in their own
order, and on public facts. That is what ``docs/proofs/persons.md`` asks of it: a unit of privacy
has at most ``Weighing.unit.shares`` shares, and exactly so many where ``unit.even`` says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpkv import kernels
from dpkv.accounting import PERSON, PERSON_SHARES, ROW, Unit
from dpkv.errors import ParameterError
from dpkv.kernels import compiled
from dpkv.records.arrays import ArrayRecords
from dpkv.records.block import NO_WEIGHTS
from dpkv.records.owners import Owners
from dpkv.scratch import cuts_of
from dpkv.types import Integers, Keys
from dpkv.validation import whole_number

Rule = Literal["share", "limit", "mean"]
_FIRST_SLOTS = 1 << 12
_PARTS = 16


@dataclass(frozen=True)
class Weighing:
    """How rows are weighed: public, and all that prices need to know of it is ``unit``."""

    persons: Rule | None = None
    """How a person counts once; None where a row is a row."""
    most_rows: int | None = None
    """How many rows of a person are kept by "limit"."""
    most_weight: float | None = None
    """The largest survey weight, where rows have weights."""
    may_ignore: bool = False
    """Whether a public rule may let rows count for nothing."""
    shares: int = PERSON_SHARES
    """Of a person, where rows share them; and what stands for the largest survey weight."""

    def __post_init__(self) -> None:
        if (self.most_rows is not None) != (self.persons == "limit"):
            raise ParameterError(
                "rows_per_person", "given for persons, and no other", self.most_rows
            )
        if self.most_rows is not None:
            whole_number("rows_per_person", self.most_rows, at_least=1, at_most=PERSON_SHARES)
        if self.most_weight is not None and self.persons in ("limit", "mean"):
            raise ParameterError(
                "weight",
                "left out with rows_per_person and one_row_per_person",
                self.most_weight,
                "A person's rows share the person's weight: name the person alone.",
            )

    @property
    def unit(self) -> Unit:
        """The unit of privacy."""
        worth = self.most_weight or 1.0
        even = not self.may_ignore and self.most_weight is None
        if self.persons is None:
            shares = self.shares if self.most_weight is not None else 1
            return Unit("row", shares, even, worth)
        if self.persons == "limit":
            assert self.most_rows is not None
            return Unit("person", self.most_rows, False, float(self.most_rows))
        if self.persons == "mean":
            return Unit("person", 1, even, worth)
        return Unit("person", self.shares, even, worth)

    @property
    def unit_before_grid(self) -> Unit:
        """The unit of what is asked before there is a grid, on which means would be taken."""
        return self.shared.unit

    @property
    def shared(self) -> Weighing:
        """The weighing of rows by their persons' shares, where means come later."""
        if self.persons != "mean":
            return self
        return Weighing("share", may_ignore=self.may_ignore, shares=self.shares)


EVERY_ROW = Weighing()
assert EVERY_ROW.unit == ROW
assert Weighing("share").unit == PERSON


@dataclass(frozen=True, eq=False)
class Whole:
    """What all parts of a table know together of the persons of one part, by their numbers."""

    before: NDArray[np.int32]
    """How many rows of each count in earlier parts."""
    rows: NDArray[np.int32]
    """How many count in all parts."""
    weights: NDArray[np.int64] | None = None
    """Survey weights of those rows, added up."""


@dataclass(frozen=True, eq=False)
class RowFacts:
    """What is known of every row beside its point. Private."""

    n_rows: int
    persons: Owners | None = None
    counts: NDArray[np.bool_] | None = None
    """Whether a row counts; None where all do."""
    weights: NDArray[np.int64] | None = None
    """Survey weights from 0 to PERSON_SHARES, which stands for the largest."""
    whole: Whole | None = None
    """Where these are the rows of one part: what other parts know of the same persons."""

    @property
    def n_records(self) -> int:
        """The number of rows, or of persons: those that count for nothing included."""
        return self.n_rows if self.persons is None else self.persons.count

    def weigh(self, how: Weighing) -> NDArray[np.int64]:
        """Return what every row weighs, in shares; nothing where each weighs one."""
        if how.persons is None:
            return self._row_weights()
        assert self.persons is not None
        counts = self.counting()
        if how.persons == "limit":
            return self._first_rows(counts, how.most_rows or 0)
        return self._shares(counts, how.shares)

    def records(self, points: NDArray[Any], how: Weighing) -> ArrayRecords:
        """Return the records that a mechanism's questions are asked of; points are on the grid."""
        if how.persons == "mean":
            assert self.persons is not None
            means, weights = means_of(self.person_sums(points), self.person_rows())
            return ArrayRecords(means, weights if how.may_ignore else NO_WEIGHTS)
        cuts = cuts_of(points)
        return ArrayRecords(points, self.weigh(how), owners=self.persons, cuts=cuts)

    def _row_weights(self) -> NDArray[np.int64]:
        if self.weights is not None:
            return self.weights if self.counts is None else self.weights * self.counts
        return NO_WEIGHTS if self.counts is None else self.counts.astype(np.int64)

    def counting(self) -> NDArray[np.bool_]:
        """Return which rows count."""
        return np.ones(self.n_rows, np.bool_) if self.counts is None else self.counts

    def _first_rows(self, counts: NDArray[np.bool_], most: int) -> NDArray[np.int64]:
        places, _ = self._places(counts)
        return (counts & (places < most)).astype(np.int64)

    def _shares(self, counts: NDArray[np.bool_], shares: int) -> NDArray[np.int64]:
        assert self.persons is not None
        places, rows = self._places(counts)
        whole = NO_WEIGHTS
        if self.weights is not None:
            known = self.person_weights() if self.whole is None else self.whole.weights
            assert known is not None
            whole = known // np.maximum(rows, 1)
        found = np.empty(self.n_rows, np.int64)
        arrays = self.persons.numbers, counts, places, rows, whole, shares, found
        kernels.over_blocks(_share_out, _PARTS, self.n_rows, *arrays, _PARTS)
        return found

    def _places(self, counts: NDArray[np.bool_]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return how many rows of its person count before each, and of each person in all."""
        assert self.persons is not None
        places = np.empty(self.n_rows, np.int32)
        rows = np.zeros(self.persons.count, np.int32) if self.whole is None else self.whole.before
        rows = rows.copy()
        _put_in_order(self.persons.numbers, counts, rows, places)
        return places, rows if self.whole is None else self.whole.rows

    def person_rows(self) -> NDArray[np.int32]:
        """Return how many of these rows count, of every person."""
        assert self.persons is not None
        own = self.persons.numbers if self.counts is None else self.persons.numbers[self.counts]
        return np.bincount(own, minlength=self.persons.count).astype(np.int32)

    def person_weights(self) -> NDArray[np.int64]:
        """Return what these rows weigh, where rows have weights, of every person."""
        assert self.persons is not None and self.weights is not None
        found = np.zeros(self.persons.count, np.int64)
        _add_up(self.persons.numbers, self.counting(), self.weights, found)
        return found

    def person_sums(self, points: NDArray[Any]) -> Integers:
        """Return the sums of these rows' points that count, of every person."""
        assert self.persons is not None
        sums = np.zeros((self.persons.count, points.shape[1]), np.int64)
        _add_points(points, self.persons.numbers, self.counting(), sums)
        return sums


def owners_of(keys: Keys) -> Owners:
    """Return whose rows are whose, from keys that are equal where persons are.

    Keys must look random, as keyed hashes do: they are looked up as they are. Time and memory grow
    with the number of rows and persons, and nothing is sorted.
    """
    numbers = np.empty(len(keys), np.int32)
    found = np.ascontiguousarray(keys, dtype=np.uint64).view(np.int64)
    return Owners(numbers, int(_number(found, numbers, _FIRST_SLOTS)))


def means_of(
    sums: Integers, rows: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return one row a person, the mean of the rows that count, and which persons have any.

    Rounded toward zero, so that no coordinate leaves the range of the rows' own and no L1 norm is
    above theirs: a mean is on the grid and in the domain. Who has no row that counts is at zero.
    """
    size = np.abs(sums) // np.maximum(rows, 1)[:, np.newaxis]
    return (np.sign(sums) * size).astype(np.int32), np.minimum(rows, 1).astype(np.int64)


# -- loops over rows, in their order ---------------------------------------------------------------


@compiled
def _number(keys, numbers, n_slots):  # type: ignore[no-untyped-def]
    """Number the distinct keys in the order in which they first come; return how many there are."""
    slots = np.full((n_slots, 2), -1, np.int64)  # a key, and beside it its number
    count, mask = 0, n_slots - 1
    for i in range(len(keys)):
        if 2 * count > mask:
            slots = _twice_as_wide(slots)
            mask = len(slots) - 1
        slot = keys[i] & mask
        while slots[slot, 1] >= 0 and slots[slot, 0] != keys[i]:
            slot = (slot + 1) & mask
        if slots[slot, 1] < 0:
            slots[slot, 0], slots[slot, 1] = keys[i], count
            count += 1
        numbers[i] = slots[slot, 1]
    return count


@compiled
def _twice_as_wide(slots):  # type: ignore[no-untyped-def]
    """Return a table of twice as many slots with the same keys."""
    wider = np.full((2 * len(slots), 2), -1, np.int64)
    mask = len(wider) - 1
    for old in range(len(slots)):
        if slots[old, 1] < 0:
            continue
        slot = slots[old, 0] & mask
        while wider[slot, 1] >= 0:
            slot = (slot + 1) & mask
        wider[slot] = slots[old]
    return wider


@compiled
def _put_in_order(numbers, counts, rows, places):  # type: ignore[no-untyped-def]
    """Count every person's rows that count, and how many of them come before each row."""
    for i in range(len(numbers)):
        places[i] = rows[numbers[i]]
        rows[numbers[i]] += counts[i]


@compiled
def _add_up(numbers, counts, weights, total):  # type: ignore[no-untyped-def]
    """Add up the weights of every person's rows that count."""
    for i in range(len(numbers)):
        if counts[i]:
            total[numbers[i]] += weights[i]


@compiled
def _share_out(  # type: ignore[no-untyped-def]
    numbers, counts, places, rows, whole, shares, found, n_parts, first, last
):
    """Share out what every person weighs among the rows that count; the first ones get the rest.

    A person weighs ``shares``, or what ``whole`` says.
    """
    n_rows = len(numbers)
    for i in range(n_rows * first // n_parts, n_rows * last // n_parts):
        person, all_of_it = numbers[i], shares
        if whole.size:
            all_of_it = whole[person]
        found[i] = 0
        if counts[i]:
            each = all_of_it // rows[person]
            found[i] = each + (1 if places[i] < all_of_it - each * rows[person] else 0)


@compiled
def _add_points(points, numbers, counts, sums):  # type: ignore[no-untyped-def]
    """Add up the points of every person that count."""
    for i in range(len(numbers)):
        if counts[i]:
            for j in range(points.shape[1]):
                sums[numbers[i], j] += points[i, j]
