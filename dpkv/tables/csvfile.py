"""CSV files, plain or gzipped, read in blocks of whole records.

pandas turns text into numbers; what it would let pass silently (short rows, long rows, text in a
numeric column) is caught before or after it, and no message shows a cell. A first row may be a
record that is taken for names, so a message calls a column by its name only where a person typed
that name, and else by its number.

What becomes of a row depends on that row alone. In a file of one column every line is a row, a
blank one a row whose cell is missing; in one of several columns a blank line has no delimiter and
is no row.
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
from dpkv.tables.naming import (
    choose_columns,
    default_names,
    is_header,
    not_numeric,
    numbered,
    quoted,
)
from dpkv.tables.pipe import Pipe
from dpkv.tables.scan import walk_records

BLOCK_BYTES = 1 << 23
LONGEST_RECORD = 1 << 26
MOST_COLUMNS = 1_000_000
_PEEK_BYTES = 1 << 16
_DELIMITERS = ",;\t|"
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
    ``typed`` tells whether a person named the columns, if they are named.
    """

    def __init__(
        self,
        path: Path,
        columns: Sequence[str] | None,
        header: bool | None,
        pipe: Pipe | None = None,
        *,
        typed: bool = True,
    ) -> None:
        self.path = path
        self._pipe = pipe
        self._delimiter, self._names = ",", tuple[str, ...]()  # until the first line is known
        first = self._first_line(header)
        self._delimiter = max(_DELIMITERS, key=re.sub(r'"[^"]*"', "", first).count)
        if first.count(self._delimiter) >= MOST_COLUMNS:
            raise TableError(
                f"{path} has more than {MOST_COLUMNS} columns in its first row: it is no CSV table "
                "of records, or its lines do not end."
            )
        cells = self._cells(first, header)
        self.header_guessed = header is None
        self._has_header = is_header(path, cells) if header is None else header
        self._names = tuple(cells) if self._has_header else default_names(len(cells))
        public = not self._has_header
        self.columns = choose_columns(path, self._names, columns, public=public, typed=typed)
        places = {name: position for position, name in enumerate(self._names)}
        self._positions = [places[name] for name in self.columns]
        by_name = public or (columns is not None and typed)
        self.labels = quoted(self.columns) if by_name else numbered(self._positions)

    @property
    def layout(self) -> dict[str, Any]:
        """What decides the numbers read, besides the file and the columns."""
        return {"delimiter": self._delimiter, "header": self._has_header}

    def _first_line(self, header: bool | None) -> str:
        """Return the first line that is not blank; where all of them are, one missing cell.

        A first row that is said to be a record may hold anything, as any record may.
        """
        n_blank = 0
        for piece, _ in self._pieces(_PEEK_BYTES):
            self._refuse_binary(piece)
            for line in piece.removeprefix(_BOM).splitlines():
                if line.strip():
                    return self._decoded(line, "replace" if header is False else "strict")
                n_blank += 1
        if n_blank and header is False:
            return ""
        raise TableError(f"{self.path} is empty: it must hold at least one row.")

    def _cells(self, line: str, header: bool | None) -> list[str]:
        try:
            rows = csv.reader([line], delimiter=self._delimiter, skipinitialspace=True)
            return [cell.strip() for cell in next(rows)] or [""]
        except csv.Error:  # a cell of over 128 KB
            if header is False:  # how many there are is all that matters
                return [""] * max(1, self._walk(f"{line}\n".encode(), 0)[3])
            raise TableError(
                f"{self.path} has an overlong cell in its first row: it is not a CSV table."
            ) from None

    def _decoded(self, line: bytes, errors: str) -> str:
        try:
            return line.decode("utf-8", errors)
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
            if text and (self._one_column or text.strip(blanks)):
                yield _Block(text, line, share)
            line += _count_lines(text)

    @property
    def _one_column(self) -> bool:
        return len(self._names) == 1

    def chunks(self, *, lenient: bool = False) -> Iterator[Chunk]:
        """Yield float64 chunks in file order; blocks ahead are parsed on the other cores.

        ``lenient`` takes a cell of text for a missing one.
        """
        waiting: deque[Future[Chunk]] = deque()
        with ThreadPoolExecutor(N_THREADS, thread_name_prefix="dpkv-csv") as pool:
            try:
                for block in self._blocks():
                    waiting.append(pool.submit(self._parse, block, lenient))
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
            cells = self._read(block.text, object, as_text=True)[:, 0]
            if len(cells) != rows:
                raise self._unreadable(block)
            yield np.array([cell.strip() for cell in cells], dtype=object)

    def _parse(self, block: _Block, lenient: bool) -> Chunk:
        self._refuse_binary(block.text)
        rows = self._refuse_ragged(block)
        try:
            if any(part in block.text for part in _BOOLEANS):
                raise ValueError  # pandas would take a column of True and False for numbers
            values = self._read(block.text, np.float64)
        except ValueError:  # pandas' own message would show the cell
            values = self._numbers(block, lenient)
        if len(values) != rows:
            raise self._unreadable(block)
        # pandas gives a view that must not be written to where it can: of one column, say.
        values = np.require(values, np.float64, ["C", "W"])
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

    def _read(self, text: bytes, dtype: type, *, as_text: bool = False) -> NDArray[Any]:
        """Return the cells of the columns used, in their order."""
        if b"\r" in text:  # pandas loses a row of empty cells after a blank line that ends with CR
            text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if self._one_column and not text.strip(b"\n"):  # pandas finds no column in blank lines
            text = text.replace(b"\n", b'""\n')
        cells = _cells_of(
            text,
            dtype,
            sep=self._delimiter,
            names=range(len(self._names)),
            usecols=self._positions,
            na_filter=not as_text,
            skip_blank_lines=not self._one_column,
        )
        in_file = sorted(self._positions)  # the order in which pandas gives them
        if self._positions == in_file:
            return cells
        return cells[:, np.searchsorted(in_file, self._positions)]

    def _numbers(self, block: _Block, lenient: bool) -> NDArray[np.float64]:
        """Return the numbers of a block that may hold text; raise what is wrong, unless lenient."""
        try:
            cells = self._read(block.text, object)
            present, numeric = _numeric_cells(cells)
            if not numeric.all() and not lenient:
                raise self._explain(block, numeric)
            # The parser of blocks without text reads the other cells, so that no number depends on
            # whether there is text somewhere near it.
            kept = io.StringIO(newline="")
            csv.writer(kept).writerows(np.where(present & numeric, cells, "").tolist())
            names = range(cells.shape[1])
            return _cells_of(kept.getvalue().encode(), np.float64, names=names)
        except TableError:
            raise
        except ValueError:
            raise self._unreadable(block) from None

    def _explain(self, block: _Block, numeric: NDArray[np.bool_]) -> TableError:
        """Find the columns, or else the cell, that are not numbers."""
        ever = np.asarray(numeric.any(axis=0))
        if not ever.any() and self.header_guessed:
            return TableError(
                f"{self.path}: no column is numeric: encode the columns, or say --no-header if the "
                "first row is a record."
            )
        if not ever.all():
            return not_numeric(self.path, self.columns, self.labels, ever)
        row, column = np.argwhere(~numeric)[0]
        return TableError(
            f"{self.path}, line {self._line_of_row(block, int(row))}, column "
            f"{self.labels[column]}: not a number. Mend that cell, or leave the column out with "
            "--columns."
        )

    def _line_of_row(self, block: _Block, row: int) -> int:
        """Return the line at which the given row of a block starts."""
        return block.first_line + self._walk(_ended(block.text), row)[2]

    def _unreadable(self, block: _Block) -> TableError:
        return TableError(f"{self.path} cannot be read as CSV near line {block.first_line}.")


def _cells_of(text: bytes, dtype: type, **options: Any) -> NDArray[Any]:
    """Return the cells of CSV text without a header, as numbers or as text."""
    options = {"skip_blank_lines": False, **options}
    frame = pd.read_csv(
        io.BytesIO(text),
        header=None,
        dtype=dtype,
        index_col=False,
        skipinitialspace=True,
        low_memory=False,
        encoding="utf-8",
        encoding_errors="replace",
        **options,
    )
    return np.asarray(frame.to_numpy(dtype=dtype))


def _numeric_cells(
    cells: NDArray[np.object_],
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Tell, of text cells, which are not missing, and which are numbers or missing."""
    flat = pd.Series(cells.ravel(), dtype=object)
    present = flat.notna().to_numpy()
    numeric = ~present | pd.to_numeric(flat, errors="coerce").notna().to_numpy()
    return present.reshape(cells.shape), numeric.reshape(cells.shape)


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
