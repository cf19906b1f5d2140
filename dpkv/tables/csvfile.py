"""CSV files, plain or gzipped, read in blocks of whole lines.

pandas turns text into numbers; what it would let pass silently (short rows, long rows, text in a
numeric column) is caught before or after it, and no message shows a cell.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import pandas as pd

from dpkv import kernels
from dpkv.errors import TableError
from dpkv.kernels import Float64s
from dpkv.tables.naming import choose_columns, default_names, not_numeric

BLOCK_BYTES = 1 << 24
_LONGEST_LINE = 1 << 26
_PEEK_BYTES = 1 << 16
_DELIMITERS = ",;\t|"
_MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "<na>", "#n/a", "nil"})
_BOM = b"\xef\xbb\xbf"


class CsvSource:
    """A CSV file whose delimiter, header and columns are known."""

    def __init__(self, path: Path, columns: Sequence[str] | None, header: bool | None) -> None:
        self.path = path
        first = self._first_line()
        self._delimiter = max(_DELIMITERS, key=first.count)
        cells = [cell.strip() for cell in next(csv.reader([first], delimiter=self._delimiter))]
        self._has_header = _is_header(path, cells) if header is None else header
        self._names = tuple(cells) if self._has_header else default_names(len(cells))
        self.columns = choose_columns(path, self._names, columns)
        self._positions = [self._names.index(name) for name in self.columns]

    def _first_line(self) -> str:
        for block, _ in self._blocks(_PEEK_BYTES):
            self._refuse_binary(block)
            for line in block.decode("utf-8-sig", errors="replace").splitlines():
                if line.strip():
                    if "�" in line:
                        raise TableError(f"{self.path} is not UTF-8 text: save it as UTF-8 CSV.")
                    return line
        raise TableError(f"{self.path} is empty: it must hold at least one row.")

    def _refuse_binary(self, block: bytes) -> None:
        if b"\0" in block:
            raise TableError(f"{self.path} is a binary file: give a CSV or Parquet table.")

    def _open(self) -> tuple[BinaryIO, BinaryIO]:
        """Return the stream of text bytes and the file under it, whose position is the progress."""
        file = self.path.open("rb")
        zipped = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        return (cast(BinaryIO, gzip.GzipFile(fileobj=file)) if zipped else file), file

    def _blocks(self, block_bytes: int) -> Iterator[tuple[bytes, float]]:
        """Yield whole lines, about ``block_bytes`` at a time, with the share of the file read."""
        size = max(1, self.path.stat().st_size)
        stream, file = self._open()
        rest = b""
        try:
            with file:
                while piece := stream.read(block_bytes):
                    rest += piece
                    cut = rest.rfind(b"\n") + 1
                    if cut == 0 and len(rest) > _LONGEST_LINE:
                        raise TableError(f"{self.path} has no line breaks: it is not a CSV table.")
                    if cut:
                        yield rest[:cut], min(1.0, file.tell() / size)
                        rest = rest[cut:]
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise TableError(f"{self.path} is damaged: its gzip data end too early.") from None
        if rest:
            yield rest, 1.0

    def chunks(self) -> Iterator[tuple[Float64s, float]]:
        """Yield float64 chunks with the share of the file read so far."""
        line = 1
        waiting_for_header = self._has_header
        for block, share in self._blocks(BLOCK_BYTES):
            self._refuse_binary(block)
            text = block.removeprefix(_BOM) if line == 1 else block
            self._refuse_ragged(text, line)
            lines_in_block = text.count(b"\n")
            if waiting_for_header:
                text, skipped = _without_first_line(text)
                line += skipped
                lines_in_block -= skipped
                waiting_for_header = False
            if text.strip():
                yield self._parse(text, line), share
            line += lines_in_block

    def _refuse_ragged(self, text: bytes, first_line: int) -> None:
        wanted = len(self._names)
        row, found = _first_ragged(
            np.frombuffer(text, np.uint8), ord(self._delimiter), ord('"'), wanted
        )
        if row >= 0:
            raise TableError(
                f"{self.path}, line {first_line + row}: the row has {found} cells where the table "
                f"has {wanted} columns: mend that line."
            )

    def _read(self, text: bytes, dtype: type) -> pd.DataFrame:
        return pd.read_csv(
            io.BytesIO(text),
            sep=self._delimiter,
            header=None,
            names=list(range(len(self._names))),
            usecols=self._positions,
            dtype=dtype,
            index_col=False,
            skipinitialspace=True,
            low_memory=False,
            keep_default_na=dtype is np.float64,
            encoding="utf-8",
            encoding_errors="replace",
        )

    def _parse(self, text: bytes, first_line: int) -> Float64s:
        try:
            frame = self._read(text, np.float64)
        except ValueError:  # pandas' own message would show the cell
            raise self._explain(text, first_line) from None
        return np.ascontiguousarray(frame[self._positions].to_numpy(np.float64))

    def _explain(self, text: bytes, first_line: int) -> TableError:
        """Find the columns, or else the cell, that are not numbers."""
        try:
            frame = self._read(text, str)[self._positions].fillna("")
        except ValueError:
            return TableError(f"{self.path} cannot be read as CSV near line {first_line}.")
        numeric = np.column_stack([_is_number(frame[p]) for p in self._positions])
        never = [c for c, ok in zip(self.columns, numeric.any(axis=0), strict=True) if not ok]
        if never:
            return not_numeric(self.path, never, self.columns)
        row, column = np.argwhere(~numeric)[0]
        return TableError(
            f"{self.path}, line {_line_of_row(text, first_line, int(row))}, column "
            f'"{self.columns[column]}": not a number. Mend that cell, or leave the column out '
            "with --columns."
        )

    def where(self, row: int) -> str:
        """Name a row by its line, counting as a text editor does."""
        for block, first_line, first_row in self._numbered_blocks():
            rows = sum(1 for text in block.splitlines() if text.strip())
            if row < first_row + rows:
                return f"line {_line_of_row(block, first_line, row - first_row)}"
        return f"row {row + 1}"

    def _numbered_blocks(self) -> Iterator[tuple[bytes, int, int]]:
        line, row = 1, -int(self._has_header)
        for block, _ in self._blocks(BLOCK_BYTES):
            yield block, line, row
            line += block.count(b"\n")
            row += sum(1 for text in block.splitlines() if text.strip())


def _is_header(path: Path, cells: list[str]) -> bool:
    """Tell whether the first row is a header: no cell of it is a number."""
    numbers = [_looks_numeric(cell) for cell in cells]
    words = [not n and cell.lower() not in _MISSING for n, cell in zip(numbers, cells, strict=True)]
    if any(words) and any(numbers):
        raise TableError(
            f"{path}: the first row mixes names and numbers: say --header or --no-header."
        )
    return any(words)


def _looks_numeric(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def _is_number(cells: pd.Series) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    text = cells.str.strip()
    parsed = pd.to_numeric(text, errors="coerce").notna()
    return np.asarray(parsed | text.str.lower().isin(_MISSING))


def _without_first_line(text: bytes) -> tuple[bytes, int]:
    """Drop everything up to the first line that is not blank; return how many lines went."""
    dropped = 0
    for line in text.splitlines(keepends=True):
        dropped += 1
        text = text[len(line) :]
        if line.strip():
            break
    return text, dropped


def _line_of_row(text: bytes, first_line: int, row: int) -> int:
    """Return the line of the given row of a block; blank lines are no rows."""
    for offset, line in enumerate(text.splitlines()):
        if line.strip():
            if row == 0:
                return first_line + offset
            row -= 1
    return first_line


@kernels.compiled
def _first_ragged(text, delimiter, quote, wanted):  # type: ignore[no-untyped-def]
    """Return (line offset, cells) of the first row whose cell count is not ``wanted``, or (-1, 0).

    Lines end with LF, CRLF or CR. Blank lines are no rows. Delimiters inside quotes do not count.
    """
    line_feed, carriage_return, space = 10, 13, 32
    line = 0
    cells = 1
    blank = True
    inside = False
    for i in range(len(text) + 1):
        at_end = i == len(text)
        byte = line_feed if at_end else text[i]
        if inside and not at_end:
            inside = byte != quote
        elif byte == quote:
            inside = True
            blank = False
        elif byte == delimiter:
            cells += 1
            blank = False
        elif byte in (line_feed, carriage_return):
            if not blank and cells != wanted:
                return line, cells
            if byte == line_feed or (i + 1 < len(text) and text[i + 1] != line_feed):
                line += 1
            cells = 1
            blank = True
        elif byte != space:
            blank = False
    return -1, 0
