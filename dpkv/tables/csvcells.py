"""Cells of CSV text: numbers, texts and ids of the columns that are wanted, and nothing else.

pandas turns text into numbers. What it would let pass silently, such as truth values, is caught
here, and no number depends on what stands in other cells.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpkv.tables.chunk import Texts
from dpkv.tables.facts import MISSING_WORDS
from dpkv.types import Float64s

_BOOLEANS = (b"True", b"False", b"true", b"false", b"TRUE", b"FALSE")
_DATE = r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ].*)?"
_DECIMAL_COMMA = r"[-+]?\d+,\d+"


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of some consecutive rows."""

    numbers: Float64s
    numeric: NDArray[np.bool_] | None
    """Which cells of numbers are numbers or missing; None where all are."""
    texts: dict[int, Texts]
    ids: NDArray[np.object_] | None


@dataclass(frozen=True)
class CellReader:
    """What cells to read, by the positions of their columns, and how they are spelled."""

    delimiter: str
    n_columns: int
    numbers: tuple[int, ...]
    texts: tuple[int, ...] = ()
    ids: int | None = None
    decimal: str = "."
    missing_values: tuple[str, ...] = field(default=())

    def read(self, text: bytes) -> Cells:
        """Return the cells of whole records; ``ValueError`` where there are none to be found."""
        text = self._prepared(text)
        try:
            if self.numbers and any(part in text for part in _BOOLEANS):
                raise ValueError  # pandas would take a column of True and False for numbers
            return self._read(text, np.float64)
        except ValueError:  # pandas' own message would show the cell
            return self._mended(text)

    def read_ids(self, text: bytes) -> NDArray[np.object_]:
        """Return the text of the column of ids alone."""
        assert self.ids is not None
        return self.texts_of(text, self.ids)

    def texts_of(self, text: bytes, place: int) -> NDArray[np.object_]:
        """Return the text of one column, whatever it is taken for."""
        frame = self._frame(self._prepared(text), [place], dtype=object, na_filter=False)
        return _stripped(frame[place].to_numpy())

    def every_text(self, text: bytes) -> list[NDArray[np.object_]]:
        """Return the text of every column."""
        places = range(self.n_columns)
        frame = self._frame(self._prepared(text), places, dtype=object, na_filter=False)
        return [_stripped(frame[place].to_numpy()) for place in places]

    def _prepared(self, text: bytes) -> bytes:
        if b"\r" in text:  # pandas loses a row of empty cells after a blank line that ends with CR
            text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if self.n_columns == 1 and not text.strip(b"\n"):  # pandas finds no column in blank lines
            text = text.replace(b"\n", b'""\n')
        return text

    def _read(self, text: bytes, kind: type) -> Cells:
        """Return the cells with the columns of numbers as floats, or as text."""
        if not self.texts and self.ids is None:
            return Cells(self._numbers(text, kind), None, {}, None)
        kinds: dict[int, Any] = dict.fromkeys(self.texts, "category")
        kinds.update(dict.fromkeys(self.numbers, kind))
        if self.ids is not None:
            kinds[self.ids] = object
        # Text cells are what they are, whatever they hold.
        words = [*MISSING_WORDS, *self.missing_values]
        missing = dict.fromkeys(self.numbers, words)
        frame = self._frame(text, kinds, dtype=kinds, keep_default_na=False, na_values=missing)
        numbers: NDArray[Any] = np.empty((len(frame), len(self.numbers)), kind)
        for column, place in enumerate(self.numbers):
            numbers[:, column] = frame[place].to_numpy()
        texts = {place: _texts_of(frame[place]) for place in self.texts}
        ids = None if self.ids is None else _stripped(frame[self.ids].to_numpy())
        return Cells(numbers, None, texts, ids)

    def _numbers(self, text: bytes, kind: type) -> NDArray[Any]:
        """Return the columns of numbers in their order."""
        values = list(self.missing_values) or None
        frame = self._frame(text, self.numbers, dtype=kind, na_values=values)
        cells = np.asarray(frame.to_numpy(dtype=kind))
        in_file = sorted(self.numbers)  # the order in which pandas gives them
        if list(self.numbers) != in_file:
            cells = cells[:, np.searchsorted(in_file, self.numbers)]
        # pandas gives a view that must not be written to where it can: of one column, say.
        return np.require(cells, kind, ["C", "W"])

    def _frame(self, text: bytes, places: Iterable[int], **options: Any) -> pd.DataFrame:
        return _frame_of(
            text,
            sep=self.delimiter,
            names=range(self.n_columns),
            usecols=sorted(places),
            decimal=self.decimal,
            skip_blank_lines=self.n_columns > 1,
            **options,
        )

    def _mended(self, text: bytes) -> Cells:
        """Return the cells of text in which some cells of numbers are none.

        The parser of blocks without text reads the other cells, so that no number depends on
        whether there is text somewhere near it.
        """
        found = self._read(text, object)
        cells = found.numbers
        if not cells.shape[1]:
            raise ValueError  # there is no number to mend
        present, numeric = self._numeric(cells)
        spelled = np.where(present & numeric, cells, "")
        kept = io.StringIO(newline="")
        csv.writer(kept).writerows(self._with_points(spelled).tolist())
        frame = _frame_of(
            kept.getvalue().encode(),
            dtype=np.float64,
            names=range(cells.shape[1]),
            skip_blank_lines=False,
            na_values=list(self.missing_values),
        )
        numbers = np.require(frame.to_numpy(dtype=np.float64), np.float64, ["C", "W"])
        return Cells(numbers, numeric, found.texts, found.ids)

    def _numeric(self, cells: NDArray[Any]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Tell, of text cells, which are not missing, and which are numbers or missing."""
        flat = pd.Series(cells.ravel(), dtype=object)
        present = flat.notna().to_numpy()
        if self.decimal == ",":
            pointed = flat.str.contains(".", regex=False, na=False)
            flat = flat.where(~pointed, "text").str.replace(",", ".", n=1, regex=False)
        numeric = ~present | pd.to_numeric(flat, errors="coerce").notna().to_numpy()
        return present.reshape(cells.shape), numeric.reshape(cells.shape)

    def _with_points(self, cells: NDArray[Any]) -> NDArray[Any]:
        if self.decimal == ".":
            return cells
        flat = [str(cell).replace(",", ".") for cell in cells.ravel()]
        return np.array(flat, dtype=object).reshape(cells.shape)


def looks_of(cells: NDArray[Any]) -> str | None:
    """Return what a column of text seems to hold, by the shape of its cells."""
    texts = pd.Series(cells, dtype=object)
    present = texts[~texts.isin(MISSING_WORDS)]
    if not len(present):
        return None
    for kind, shape in (("dates", _DATE), ("decimal commas", _DECIMAL_COMMA)):
        if present.str.fullmatch(shape).all():
            return kind
    return "truth values" if present.str.lower().isin(["true", "false"]).all() else None


def _frame_of(text: bytes, **options: Any) -> pd.DataFrame:
    """Return CSV text without a header as pandas reads it."""
    frame: pd.DataFrame = pd.read_csv(
        io.BytesIO(text),
        header=None,
        index_col=False,
        skipinitialspace=True,
        low_memory=False,
        encoding="utf-8",
        encoding_errors="replace",
        **options,
    )
    return frame


def _texts_of(column: pd.Series) -> Texts:
    return Texts(
        column.cat.codes.to_numpy().astype(np.int64), column.cat.categories.to_numpy(dtype=object)
    )


def _stripped(cells: NDArray[Any]) -> NDArray[np.object_]:
    texts = np.empty(len(cells), dtype=object)
    texts[:] = [str(cell).strip() for cell in cells]
    return texts
