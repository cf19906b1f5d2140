"""Pairs of neighbouring tables that are likely to show a fault, and changes that may show more.

A fault shows where the one record that differs matters most, and that is rarely in the middle of
things: among no records, few, or many that are equal; at opposite ends of the domain; where a cell
is empty. The first pairs are of that kind. Others mix the same parts at random, and a guided search
changes those that showed most.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dpkv.accounting import Neighbours
from dpkv.audits.blackbox.tables import Pair, TableDomain
from dpkv.types import Float64s

_SIZES = (0, 1, 2, 4, 5, 10, 20, 50)
_BASES = ("at the lower end", "in the middle", "at the upper end", "at zero", "in two clusters",
          "at both ends", "anywhere")  # fmt: skip
_RECORDS = ("lower end", "upper end", "zero", "middle", "one column up", "half up", "half down",
            "every other up", "anywhere")  # fmt: skip
_MISSING = ("empty cells", "one empty cell")
_OPENINGS = (
    # (records in common, where they lie, one record, what replaces it)
    (0, "at zero", "upper end", "lower end"),
    (1, "at the lower end", "upper end", "lower end"),
    (4, "at the lower end", "upper end", "lower end"),
    (0, "at zero", "zero", "upper end"),
    (1, "in the middle", "upper end", "lower end"),
    (4, "in the middle", "upper end", "lower end"),
    (0, "at zero", "half up", "half down"),
    (2, "at zero", "half up", "half down"),
    (0, "at zero", "one column up", "lower end"),
    (20, "at the lower end", "upper end", "lower end"),
    (1, "at zero", "zero", "upper end"),
    (5, "at the upper end", "lower end", "upper end"),
    (4, "at both ends", "every other up", "lower end"),
    (10, "in two clusters", "upper end", "middle"),
    (50, "in the middle", "upper end", "lower end"),
    (5, "anywhere", "upper end", "lower end"),
    (1, "at the upper end", "lower end", "upper end"),
    (2, "at the lower end", "lower end", "upper end"),
)


class Pairs:
    """Makes pairs for a domain and a relation; the same seed makes the same ones."""

    def __init__(self, domain: TableDomain, neighbours: Neighbours, seed: int) -> None:
        self._domain = domain
        self._relation = neighbours
        self._rng = np.random.default_rng([seed, 20])
        self._lower = np.asarray([column.lower for column in domain.columns])
        self._upper = np.asarray([column.upper for column in domain.columns])
        missing = any(column.may_be_missing for column in domain.columns)
        self._kinds = (*_RECORDS, *(_MISSING if missing else ()))

    def __iter__(self) -> Iterator[Pair]:
        """Yield first what shows most faults, then parts mixed at random, without an end."""
        for size, base, record, other in _OPENINGS:
            yield self._pair(size, base, record, other)
        for kind in self._kinds[len(_RECORDS) :]:
            for size in (0, 2):
                yield self._pair(size, "in the middle", kind, "middle")
        while True:
            size, base = self._rng.choice(_SIZES), self._rng.choice(_BASES)
            record, other = self._rng.choice(self._kinds, 2, replace=False)
            yield self._pair(int(size), str(base), str(record), str(other))

    def change(self, pair: Pair) -> Pair:
        """Return a pair a little different: fewer or more common rows, or other records."""
        common, one, other = self._parts(pair)
        what = self._rng.choice(["fewer", "more", "double", "move", "record", "other", "column"])
        if what == "fewer" and len(common):
            common = np.delete(common, self._rng.integers(len(common)), axis=0)
        elif what == "more":
            common = np.vstack([common, self._record(self._any())])
        elif what == "double":
            common = np.vstack([common, common])[: _SIZES[-1]]
        elif what == "move" and len(common):
            common = np.tile(self._record(self._any()), (len(common), 1))
        elif what == "other" and self._relation is Neighbours.REPLACE_ONE:
            other = self._record(self._any())
        elif what == "column":
            column = self._rng.integers(self._domain.width)
            one = one.copy()
            one[0, column] = self._record(self._any())[0, column]
        else:
            one = self._record(self._any())
        return self._neighbours(common, one, other, "guided search")

    def _any(self) -> str:
        return str(self._rng.choice(self._kinds))

    def _parts(self, pair: Pair) -> tuple[Float64s, Float64s, Float64s]:
        common, one = pair.first[:-1], pair.first[-1:]
        other = pair.second[-1:] if self._relation is Neighbours.REPLACE_ONE else one
        return common, one, other

    def _pair(self, size: int, base: str, record: str, other: str) -> Pair:
        family = f"{size} records {base} and one at {record}" if size else f"one at {record}"
        if self._relation is Neighbours.REPLACE_ONE:
            family += f", or at {other} instead"
        common = self._common(size, base)
        return self._neighbours(common, self._record(record), self._record(other), family)

    def _neighbours(self, common: Float64s, one: Float64s, other: Float64s, family: str) -> Pair:
        removed = self._relation is Neighbours.ADD_REMOVE
        short = self._domain.min_rows - len(common) - (0 if removed else 1)
        if short > 0:
            filler = common[:1] if len(common) else self._record("lower end")
            common = np.vstack([common, np.tile(filler, (short, 1))])
        first = np.vstack([common, one])
        second = common.copy() if removed else np.vstack([common, other])
        return Pair(first, second, family)

    def _common(self, size: int, base: str) -> Float64s:
        record = {
            "at the lower end": "lower end",
            "in the middle": "middle",
            "at the upper end": "upper end",
            "at zero": "zero",
        }.get(base)
        if record is not None:
            return np.tile(self._record(record), (size, 1))
        if base == "anywhere":
            share = self._rng.uniform(size=(size, self._domain.width))
        else:
            ends = (0.0, 1.0) if base == "at both ends" else (0.25, 0.75)
            share = np.tile(np.asarray(ends)[np.arange(size) % 2, np.newaxis], self._domain.width)
            share = share.reshape(size, self._domain.width)
        return self._domain.fit(self._lower + share * (self._upper - self._lower))

    def _record(self, kind: str) -> Float64s:
        """Return one row."""
        width = self._domain.width
        share, places = np.full(width, 0.5), np.arange(width)
        match kind:
            case "lower end":
                share = np.zeros(width)
            case "upper end":
                share = np.ones(width)
            case "one column up":
                share = (places == 0).astype(np.float64)
            case "half up":
                share = (places < (width + 1) // 2).astype(np.float64)
            case "half down":
                share = (places >= (width + 1) // 2).astype(np.float64)
            case "every other up":
                share = (places % 2 == 0).astype(np.float64)
            case "anywhere":
                share = self._rng.uniform(size=width)
        row = self._lower + share * (self._upper - self._lower)
        if kind == "zero":
            row = np.zeros(width)
        row = self._domain.fit(row)
        if kind in _MISSING:
            able = np.asarray([column.may_be_missing for column in self._domain.columns])
            able &= (kind == "empty cells") | (np.cumsum(able) == 1)
            row = np.where(able, np.nan, row)
        return np.asarray(row[np.newaxis])
