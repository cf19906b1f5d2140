"""CSV files, plain or gzipped, read in blocks of whole records.

pandas turns text into numbers; what it would let pass silently (short rows, long rows, text in a
numeric column) is caught before or after it, and no message shows a cell.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpkv.errors import TableError
from dpkv.kernels import N_THREADS
from dpkv.tables.chunk import Chunk
from dpkv.tables.naming import choose_columns, default_names, is_number, not_numeric
from dpkv.tables.pipe import Pipe
from dpkv.tables.scan import walk_records

BLOCK_BYTES = 1 << 23
LONGEST_RECORD = 1 << 26
_PEEK_BYTES = 1 << 16
_DELIMITERS = ",;\t|"
_MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "<na>", "#n/a", "nil"})
_BOM = b"\xef\xbb\xbf"
_BOOLEANS = (b"True", b"False", b"true", b"false", b"TRUE", b"FALSE")


@dataclass(frozen=True)
class _Block:
    """Whole records of the file, and where they stand in it."""

    text: bytes
    first_line: int
    share: float


class CsvSource:
    """A CSV file whose delimiter, header and columns are known.

    With a ``pipe`` its bytes are read instead, exactly once, and ``path`` is just a name for it.
    """

    def __init__(
        self,
        path: Path,
        columns: Sequence[str] | None,
        header: bool | None,
        pipe: Pipe | None = None,
    ) -> None:
        self.path = path
        self._pipe = pipe
        self._delimiter, self._names = ",", tuple[str, ...]()  # until the first line is known
        first = self._first_line()
        self._delimiter = max(_DELIMITERS, key=re.sub(r'"[^"]*"', "", first).count)
        cells = self._cells(first)
        self._guessed_header = header is None
        self._has_header = _is_header(path, cells) if header is None else header
        self._names = tuple(cells) if self._has_header else default_names(len(cells))
        self.columns = choose_columns(path, self._names, columns)
        self._positions = [self._names.index(name) for name in self.columns]

    @property
    def layout(self) -> dict[str, Any]:
        """What decides the numbers read, besides the file and the columns."""
        return {"delimiter": self._delimiter, "header": self._has_header}

    def _first_line(self) -> str:
        for piece, _ in self._pieces(_PEEK_BYTES):
            self._refuse_binary(piece)
            for line in piece.removeprefix(_BOM).splitlines():
                if line.strip():
                    return self._decoded(line)
        raise TableError(f"{self.path} is empty: it must hold at least one row.")

    def _cells(self, line: str) -> list[str]:
        try:
            rows = csv.reader([line], delimiter=self._delimiter, skipinitialspace=True)
            return [cell.strip() for cell in next(rows)]
        except csv.Error:  # a cell of over 128 KB
            raise TableError(
                f"{self.path} has an overlong cell in its first row: it is not a CSV table."
            ) from None

    def _decoded(self, line: bytes) -> str:
        try:
            return line.decode("utf-8")
        except UnicodeDecodeError:
            raise TableError(f"{self.path} is not UTF-8 text: save it as UTF-8 CSV.") from None

    def _refuse_binary(self, text: bytes) -> None:
        if b"\0" in text:
            give = "a CSV or Parquet table" if self._pipe is None else "CSV; Parquet must be a file"
            raise TableError(f"{self.path} is a binary file: give {give}.")

    def _open(self) -> tuple[BinaryIO, BinaryIO]:
        """Return the stream of text bytes and the file under it, whose position is the progress."""
        file = self.path.open("rb") if self._pipe is None else self._pipe.open()
        zipped = file.peek(2)[:2] == b"\x1f\x8b"
        return (cast(BinaryIO, gzip.GzipFile(fileobj=file, mode="rb")) if zipped else file), file

    def _share(self, file: BinaryIO) -> float:
        """Return how much of the file has been read; of a pipe nobody knows."""
        if self._pipe is not None:
            return 0.0
        return min(1.0, file.tell() / max(1, os.fstat(file.fileno()).st_size))

    def _pieces(self, piece_bytes: int) -> Iterator[tuple[bytes, float]]:
        """Yield the bytes cut after whole records, with the share of the file read so far."""
        stream, file = self._open()
        rest = b""
        try:
            with file:
                while piece := stream.read(max(piece_bytes, len(rest))):  # doubles: linear in all
                    rest += piece
                    cut = self._last_record_end(rest)
                    if cut == 0 and len(rest) > LONGEST_RECORD:
                        raise TableError(
                            f"{self.path} has a row of over {LONGEST_RECORD >> 20} MB: it is not a "
                            "CSV table, or a quote in it is never closed."
                        )
                    if cut:
                        yield rest[:cut], self._share(file)
                        rest = rest[cut:]
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise TableError(f"{self.path} is damaged: its gzip data end too early.") from None
        if rest:
            yield rest, 1.0

    def _last_record_end(self, text: bytes) -> int:
        if b'"' in text:
            return self._walk(text)[0]
        if b"\n" in text:
            return text.rfind(b"\n") + 1
        return text.rfind(b"\r", 0, -1) + 1  # a last CR may be half of a CRLF

    def _walk(self, text: bytes, row: int = -1) -> tuple[int, int, int, int]:
        """Walk over whole records, looking for a ragged one or for the given row."""
        codes, wanted = np.frombuffer(text, np.uint8), len(self._names)
        end, rows, line, cells = walk_records(codes, ord(self._delimiter), wanted, row)
        return int(end), int(rows), int(line), int(cells)

    def _blocks(self) -> Iterator[_Block]:
        """Yield the records after the header, block by block."""
        line = 1
        blanks = b" \t\r\n".replace(self._delimiter.encode(), b"")
        waiting_for_header = self._has_header
        for piece, share in self._pieces(BLOCK_BYTES):
            text = piece.removeprefix(_BOM) if line == 1 else piece
            if waiting_for_header:
                text, skipped, found = _without_first_line(text)
                line += skipped
                waiting_for_header = not found
            if text.strip(blanks):
                yield _Block(text, line, share)
            line += _count_lines(text)

    def chunks(self) -> Iterator[Chunk]:
        """Yield float64 chunks in file order; blocks ahead are parsed on the other cores."""
        waiting: deque[Future[Chunk]] = deque()
        with ThreadPoolExecutor(N_THREADS, thread_name_prefix="dpkv-csv") as pool:
            try:
                for block in self._blocks():
                    waiting.append(pool.submit(self._parse, block))
                    if len(waiting) > N_THREADS:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()

    def texts(self) -> Iterator[NDArray[np.object_]]:
        """Yield the text of the one column used, row for row as ``chunks`` yields numbers."""
        for block in self._blocks():
            self._refuse_binary(block.text)
            rows = self._refuse_ragged(block)
            cells = self._read(block.text, str, as_text=True)[self._positions[0]]
            if len(cells) != rows:
                raise self._unreadable(block)
            yield cells.str.strip().to_numpy(dtype=object)

    def _parse(self, block: _Block) -> Chunk:
        self._refuse_binary(block.text)
        rows = self._refuse_ragged(block)
        try:
            if any(part in block.text for part in _BOOLEANS):
                raise ValueError  # pandas would take a column of True and False for numbers
            frame = self._read(block.text, np.float64)
        except ValueError:  # pandas' own message would show the cell
            frame = self._explained(block)
        if len(frame) != rows:
            raise self._unreadable(block)
        # pandas gives a view that must not be written to where it can: of one column, say.
        values = np.require(frame[self._positions].to_numpy(), np.float64, ["C", "W"])
        return Chunk(values, block.share, lambda row: f"line {self._line_of_row(block, row)}")

    def _refuse_ragged(self, block: _Block) -> int:
        """Return the number of rows, all of them with as many cells as there are columns."""
        wanted = len(self._names)
        text = _ended(block.text)
        end, rows, line, cells = self._walk(text)
        if line >= 0:
            raise TableError(
                f"{self.path}, line {block.first_line + line}: the row has {cells} cells where the "
                f"table has {wanted} columns: mend that line."
            )
        if end < len(text):
            raise TableError(
                f"{self.path}: a quote opened on or after line {block.first_line} is never closed: "
                "mend the file."
            )
        return rows

    def _read(self, text: bytes, dtype: type, *, as_text: bool = False) -> pd.DataFrame:
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
            na_filter=not as_text,
            encoding="utf-8",
            encoding_errors="replace",
        )

    def _explained(self, block: _Block) -> pd.DataFrame:
        """Return the numbers if all used cells are some, else raise what is wrong with them."""
        try:
            frame = self._read(block.text, str)
        except ValueError:
            raise self._unreadable(block) from None
        used = frame[self._positions]
        if all(_is_number(used[position]).all() for position in self._positions):
            try:
                return self._read(block.text, np.float64)
            except ValueError:
                raise self._unreadable(block) from None
        raise self._explain(block, used)

    def _explain(self, block: _Block, frame: pd.DataFrame) -> TableError:
        """Find the columns, or else the cell, that are not numbers."""
        numeric = np.column_stack([_is_number(frame[p]) for p in self._positions])
        ever = [bool(column.any()) for column in numeric.T]
        never = [column for column, ok in zip(self.columns, ever, strict=True) if not ok]
        if len(never) == len(self.columns) and self._guessed_header:
            return TableError(
                f"{self.path}: no column is numeric: encode the columns, or say --no-header if the "
                "first row is a record."
            )
        if never:
            return not_numeric(self.path, never, self.columns)
        row, column = np.argwhere(~numeric)[0]
        return TableError(
            f"{self.path}, line {self._line_of_row(block, int(row))}, column "
            f'"{self.columns[column]}": not a number. Mend that cell, or leave the column out '
            "with --columns."
        )

    def _line_of_row(self, block: _Block, row: int) -> int:
        """Return the line at which the given row of a block starts; blank lines are no rows."""
        return block.first_line + self._walk(_ended(block.text), row)[2]

    def _unreadable(self, block: _Block) -> TableError:
        return TableError(f"{self.path} cannot be read as CSV near line {block.first_line}.")


def _is_header(path: Path, cells: list[str]) -> bool:
    """Tell whether the first row is a header: cells with a letter, none of them a number."""
    numbers = [_looks_numeric(cell) for cell in cells]
    present = [
        cell
        for cell, n in zip(cells, numbers, strict=True)
        if not n and cell.lower() not in _MISSING
    ]
    unclear = [c for c in present if any(map(str.isdigit, c)) and not any(map(str.isalpha, c))]
    if any(len(cell.split()) > 1 and all(map(_looks_numeric, cell.split())) for cell in unclear):
        raise TableError(
            f"{path} seems to be separated by blanks: save it with commas between the cells."
        )
    if unclear or (present and any(numbers)):
        raise TableError(
            f"{path}: the first row is neither all names nor all numbers: say --header or "
            "--no-header, and choose the numeric columns with --columns."
        )
    return bool(present)


def _looks_numeric(cell: str) -> bool:
    return is_number(cell) and "_" not in cell


def _is_number(cells: pd.Series) -> NDArray[np.bool_]:
    """Tell, of text cells, which are numbers or missing."""
    return np.asarray(cells.isna() | pd.to_numeric(cells, errors="coerce").notna())


def _without_first_line(text: bytes) -> tuple[bytes, int, bool]:
    """Drop the first line that is not blank and all before it.

    Returns what is left, how many lines went, and whether such a line was found.
    """
    dropped = 0
    while text:
        line = re.match(rb"[^\r\n]*(\r\n|\r|\n|$)", text)
        assert line is not None
        text = text[line.end() :]
        dropped += 1
        if line.group().strip():
            return text, dropped, True
    return text, dropped, False


def _count_lines(text: bytes) -> int:
    return text.count(b"\n") + text.count(b"\r") - text.count(b"\r\n")


def _ended(text: bytes) -> bytes:
    """Return records of which also the last one ends its line."""
    return text if text.endswith(b"\n") else text + b"\n"
