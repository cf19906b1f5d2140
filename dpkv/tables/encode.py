"""From cells to coordinates: numbers as they are, categories as indicators, missing cells by rule.

What becomes of a row is a function of that row and of the public facts. Under rules that refuse
nothing every row becomes a row, whatever its cells hold, so that neither whether there is a release
nor anything public in it depends on what is missing.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpkv.errors import TableError
from dpkv.tables.chunk import Chunk, Rows, Texts
from dpkv.tables.facts import MISSING_WORDS, WEIGHT_LEVELS, Booleans, Column, Missing, TableFacts
from dpkv.tables.person_keys import Reading, hash_persons, is_missing
from dpkv.types import Float64s, Int64s
from dpkv.validation import usable_numbers

_ADVICE = (
    "Clean the table, or choose what such a cell becomes: --missing ignore or --missing fill:VALUE."
)


class Encoder:
    """Turns the chunks of one table, in their order, into rows."""

    def __init__(
        self,
        facts: TableFacts,
        path: Path,
        labels: tuple[str, ...],
        reading: Reading | None = None,
    ) -> None:
        self._facts = facts
        self._reading = reading or Reading()
        self._path = path
        self._labels = dict(zip(facts.names, labels, strict=True))
        self._words = (*MISSING_WORDS, *facts.dialect.missing_values)
        self._plain = all(column.is_number for column in facts.used)
        rules = [column.missing for column in facts.used]
        rules += [facts.weight.missing] if facts.weight is not None else []
        self._may_ignore = any(rule.kind == "ignore" for rule in rules)
        self._done = 0

    def encode(self, chunk: Chunk) -> Rows:
        """Return the rows of a chunk, refusing it where a rule says so."""
        counts = np.ones(chunk.n_rows, bool) if self._may_ignore else None
        values = self._coordinates(chunk, counts)
        weights = None if self._facts.weight is None else self._weights(chunk, counts)
        keys = None
        if chunk.persons is not None:
            nobody = is_missing(chunk.persons, self._words)
            keys = hash_persons(chunk.persons, nobody, self._done, self._reading)
        self._done += chunk.n_rows
        return Rows(values, counts, keys, weights)

    def _coordinates(self, chunk: Chunk, counts: NDArray[np.bool_] | None) -> Float64s:
        used, numbers = self._facts.used, chunk.values
        self._refuse_numbers(chunk)
        if self._plain and self._facts.weight is None:
            for place, column in enumerate(used):
                self._mend(numbers[:, place], column.missing, counts)
            return numbers
        values = np.zeros((chunk.n_rows, sum(column.width for column in used)))
        start = position = 0
        for column in used:
            if column.categories:
                self._indicate(values[:, start : start + column.width], column, chunk, counts)
            elif column.booleans is not None:
                cells = self._truths(column, column.booleans, chunk)
                self._mend(cells, column.missing, counts)
                values[:, start] = cells
            else:
                cells = numbers[:, position].copy()
                self._mend(cells, column.missing, counts)
                values[:, start] = cells
                position += 1
            start += column.width
        return values

    def _refuse_numbers(self, chunk: Chunk) -> None:
        """Refuse the first cell, row by row, that is no number where its rule is to refuse."""
        rules = [(column.name, column.missing) for column in self._facts.used if column.is_number]
        if self._facts.weight is not None:
            rules.append((self._facts.weight.name, self._facts.weight.missing))
        places = [place for place, (_, rule) in enumerate(rules) if rule.kind == "refuse"]
        if not places:
            return
        all_strict = len(places) == chunk.values.shape[1]
        cells = chunk.values if all_strict else chunk.values[:, places]
        usable = usable_numbers(cells)
        if usable.all():
            return
        finite = np.isfinite(cells)
        row, place = np.argwhere(~usable if finite.all() else ~finite)[0]
        where = self._place(chunk, int(row), rules[places[place]][0])
        if finite.all():
            raise TableError(
                f"{where}: the number is beyond ±2^53, where float64 cannot tell whole numbers "
                "apart: rescale the column."
            )
        raise TableError(f"{where}: empty, NaN or infinite. {_ADVICE}")

    def _mend(self, cells: Float64s, rule: Missing, counts: NDArray[np.bool_] | None) -> None:
        """Give every cell that is no number of a record what its rule says, in place."""
        if rule.kind == "refuse":
            return
        unusable = ~usable_numbers(cells)
        if rule.kind == "ignore":
            assert counts is not None
            counts &= ~unusable
        cells[unusable] = float(rule.value) if rule.value is not None else 0.0

    def _indicate(
        self,
        out: Float64s,
        column: Column,
        chunk: Chunk,
        counts: NDArray[np.bool_] | None,
    ) -> None:
        """Write a 1 for the category of every row: exactly one, whatever the cell holds."""
        codes = _matched(chunk.texts[column.name], column.categories)
        unknown = codes < 0
        rule = column.missing
        if rule.kind == "refuse" and unknown.any():
            where = self._place(chunk, int(np.argmax(unknown)), column.name)
            raise TableError(
                f"{where}: none of the column's categories. Mend that cell, add the category to "
                "the schema, or choose a rule for missing cells."
            )
        if rule.kind == "ignore":
            assert counts is not None
            counts &= ~unknown
            codes[unknown] = 0
        elif rule.kind == "fill":
            codes[unknown] = column.categories.index(str(rule.value))
        elif rule.kind == "category":
            codes[unknown] = len(column.categories)
        out[np.arange(len(codes)), codes] = 1.0

    def _truths(self, column: Column, booleans: Booleans, chunk: Chunk) -> Float64s:
        texts = booleans.false + booleans.true
        codes = _matched(chunk.texts[column.name], texts)
        unknown = codes < 0
        if column.missing.kind == "refuse" and unknown.any():
            where = self._place(chunk, int(np.argmax(unknown)), column.name)
            raise TableError(f"{where}: neither true nor false. {_ADVICE}")
        cells = np.asarray(codes >= len(booleans.false), dtype=np.float64)
        cells[unknown] = np.nan
        return cells

    def _weights(self, chunk: Chunk, counts: NDArray[np.bool_] | None) -> Int64s:
        """Return the weights in whole levels; the bound is public, so a level never exceeds it."""
        assert self._facts.weight is not None
        facts = self._facts.weight
        cells = chunk.values[:, -1].copy()
        self._mend(cells, facts.missing, counts)
        shares = np.clip(cells, 0.0, facts.most) / facts.most
        return np.minimum(np.rint(shares * WEIGHT_LEVELS), WEIGHT_LEVELS).astype(np.int64)

    def _place(self, chunk: Chunk, row: int, name: str) -> str:
        """Name a cell, never what stands in it."""
        return f"{self._path}, {chunk.locate(row)}, column {self._labels[name]}"


def _matched(texts: Texts, known: tuple[str, ...]) -> Int64s:
    """Return the place of every row's text among the known ones; -1 for any other."""
    places = {name: place for place, name in enumerate(known)}
    table = np.array([places.get(str(name).strip(), -1) for name in texts.names], dtype=np.int64)
    if not table.size:
        return np.full(len(texts.codes), -1, np.int64)
    return np.where(texts.codes >= 0, table[texts.codes], -1)
