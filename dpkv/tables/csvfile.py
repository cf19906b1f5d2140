"""CSV files, plain or gzipped, read in blocks of whole records.

Short and long rows are caught before the cells are read, and no message shows a cell. A first row
may be a record that is taken for names, so a message calls a column by its name only where a person
typed that name, and else by its number.

What becomes of a row depends on that row alone. In a file of one column every line is a row, a
blank one a row whose cell is missing; in one of several columns a blank line has no delimiter and
is no row.
"""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from dpkv.errors import TableError
from dpkv.kernels import N_THREADS
from dpkv.tables.chunk import Chunk
from dpkv.tables.csvcells import CellReader, Cells, looks_of
from dpkv.tables.encodings import in_utf8
from dpkv.tables.facts import Column, TableFacts
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
_VOTES = 200
_DELIMITERS = ",;\t|"
_BOM = b"\xef\xbb\xbf"


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
        self, path: Path, facts: TableFacts, pipe: Pipe | None = None, *, typed: bool = True
    ) -> None:
        self.path = path
        self._pipe = pipe
        self._dialect = dialect = facts.dialect
        # Where no rule refuses a cell, one with a NUL is just no number and no category; and where
        # the file begins with a record, its bytes decide nothing.
        self._any_cell = facts.takes_any_cell
        self._any_start = self._any_cell and dialect.header is False
        self._delimiter, self._names = ",", tuple[str, ...]()  # until the first line is known
        cells = self._first_record() if dialect.header is False else self._first_row()
        self.header_guessed = dialect.header is None
        self._has_header = is_header(path, cells) if dialect.header is None else dialect.header
        self.names_guessed = self.header_guessed and self._has_header
        self._names = tuple(cells) if self._has_header else default_names(len(cells))
        public = not self._has_header
        wanted = facts.wanted
        chosen = choose_columns(path, self._names, wanted, public=public, typed=typed)
        self.facts = facts.describing(chosen)
        self._places = {name: place for place, name in enumerate(self._names)}
        self.columns = self.facts.coordinates
        by_name = public or (wanted is not None and typed)
        names = self.facts.names
        self.labels = quoted(names) if by_name else numbered([self._places[n] for n in names])
        self._reader = self._make_reader()

    def _make_reader(self) -> CellReader:
        facts, place = self.facts, self._places
        numbers = [place[c.name] for c in facts.used if c.is_number]
        numbers += [place[facts.weight.name]] if facts.weight is not None else []
        return CellReader(
            self._delimiter,
            len(self._names),
            numbers=tuple(numbers),
            texts=tuple(place[c.name] for c in facts.used if not c.is_number),
            ids=None if facts.person is None else place[facts.person],
            decimal=self._dialect.decimal,
            missing_values=self._dialect.missing_values,
        )

    def _found_delimiter(self, line: str) -> str:
        possible = _DELIMITERS.replace(self._dialect.decimal, "")
        return max(possible, key=re.sub(r'"[^"]*"', "", line).count)

    @property
    def layout(self) -> dict[str, Any]:
        """What decides the numbers read, besides the file and the columns."""
        return {"delimiter": self._delimiter, "header": self._has_header, "facts": repr(self.facts)}

    def _first_row(self) -> list[str]:
        """Return the cells of the first line that is not blank, which may be names."""
        for piece in self._beginnings():
            line = next((line for line in piece.splitlines() if line.strip()), None)
            if line is not None:
                break
        else:
            raise TableError(f"{self.path} is empty: it must hold at least one row.")
        first = self._decoded(line)
        self._delimiter = self._dialect.delimiter or self._found_delimiter(first)
        self._check_width(first.count(self._delimiter) + 1)
        try:
            rows = csv.reader([first], delimiter=self._delimiter, skipinitialspace=True)
            return [cell.strip() for cell in next(rows)] or [""]
        except csv.Error:  # a cell of over 128 KB
            raise TableError(
                f"{self.path} has an overlong cell in its first row: it is not a CSV table."
            ) from None

    def _first_record(self) -> list[str]:
        """Return as many texts as the first record has cells; where all lines are blank, one.

        That record may hold anything, as any may. So the delimiter is what most of the first lines
        have, and no line break or other mark in a cell of the first tells of more cells or fewer.
        """
        empty = True
        for piece in self._beginnings():
            empty &= not piece
            lines = [line.decode("utf-8", "replace") for line in piece.splitlines()[:_VOTES]]
            votes = Counter(self._found_delimiter(line) for line in lines if line.strip())
            if votes:
                self._delimiter = self._dialect.delimiter or votes.most_common(1)[0][0]
                width = max(1, self._walk(_ended(piece), 0)[3])
                self._check_width(width)
                return [""] * width
        if empty:
            raise TableError(f"{self.path} is empty: it must hold at least one row.")
        return [""]

    def _beginnings(self) -> Iterator[bytes]:
        """Yield whole records from the beginning of the file on."""
        for number, (piece, _) in enumerate(self._pieces(_PEEK_BYTES)):
            text = self._without_nul(piece)
            yield text if number else text.removeprefix(_BOM)

    def _check_width(self, width: int) -> None:
        if width > MOST_COLUMNS:
            raise TableError(
                f"{self.path} has more than {MOST_COLUMNS} columns in its first row: it is no CSV "
                "table of records, or its lines do not end."
            )

    def _decoded(self, line: bytes) -> str:
        try:
            return line.decode("utf-8")
        except UnicodeDecodeError:
            raise TableError(
                f"{self.path} is not UTF-8 text: save it as UTF-8, or say what it is with "
                "--encoding latin-1."
            ) from None

    def _without_nul(self, text: bytes) -> bytes:
        """Refuse a binary file; where any cell is taken, a NUL spoils the cell it stands in."""
        if b"\0" not in text:
            return text
        if self._any_cell:
            return text.replace(b"\0", b"?")
        self._refuse_binary(text)
        return text

    def _refuse_binary(self, text: bytes) -> None:
        if b"\0" in text:
            give = "a CSV or Parquet table" if self._pipe is None else "CSV; Parquet must be a file"
            raise TableError(f"{self.path} is a binary file: give {give}.")

    def _open(self) -> tuple[BinaryIO, BinaryIO]:
        """Return the stream of bytes and the file under it, whose position is the progress."""
        file = self.path.open("rb") if self._pipe is None else self._pipe.open()
        self._size = 0 if self._pipe is not None else self.path.stat().st_size
        marked = file.peek(2)[:2] == b"\x1f\x8b"
        zipped = self.path.suffix == ".gz" if self._any_start else marked
        return (cast(BinaryIO, gzip.GzipFile(fileobj=file, mode="rb")) if zipped else file), file

    def _share(self, file: BinaryIO) -> float:
        """Return how much of the file has been read; of a pipe nobody knows."""
        if self._pipe is not None:
            return 0.0
        return min(1.0, file.tell() / max(1, self._size))

    def _pieces(self, piece_bytes: int) -> Iterator[tuple[bytes, float]]:
        """Yield the bytes cut after whole records, with the share of the file read so far."""
        stream, file = self._open()
        rest = b""
        try:
            with file:
                text = in_utf8(stream, self._dialect.encoding, guess=not self._any_start)
                while piece := text.read(max(piece_bytes, len(rest))):  # doubles: linear in all
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
            text = self._without_nul(piece.removeprefix(_BOM) if line == 1 else piece)
            if waiting_for_header:
                text, skipped, found = _without_first_line(text)
                line += skipped
                waiting_for_header = not found
            if text and (len(self._names) == 1 or text.strip(blanks)):
                yield _Block(text, line, share)
            line += _count_lines(text)

    def chunks(self) -> Iterator[Chunk]:
        """Yield the cells in file order; blocks ahead are parsed on the other cores."""
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

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns of the file."""
        return self._names

    @property
    def delimiter(self) -> str:
        """What stands between cells."""
        return self._delimiter

    @property
    def has_header(self) -> bool:
        """Whether the first row holds names."""
        return self._has_header

    def first_texts(self) -> list[NDArray[np.object_]]:
        """Return the text of every column in the first rows, for a look at their shape."""
        for block in self._blocks():
            self._refuse_ragged(block)
            return self._reader.every_text(block.text)
        return [np.empty(0, object) for _ in self._names]

    def ids(self) -> Iterator[NDArray[np.object_]]:
        """Yield the text of the column of persons, row for row as ``chunks`` yields the rest."""
        for block in self._blocks():
            rows = self._refuse_ragged(block)
            cells = self._reader.read_ids(block.text)
            if len(cells) != rows:
                raise self._unreadable(block)
            yield cells

    def _parse(self, block: _Block) -> Chunk:
        rows = self._refuse_ragged(block)
        try:
            cells = self._reader.read(block.text)
        except ValueError:
            raise self._unreadable(block) from None
        if len(cells.numbers) != rows:
            raise self._unreadable(block)
        if cells.numeric is not None:
            self._refuse_text(block, cells)
        return Chunk(
            cells.numbers,
            block.share,
            lambda row: f"line {self._line_of_row(block, row)}",
            {self._names[place]: texts for place, texts in cells.texts.items()},
            cells.ids,
        )

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

    def _refuse_text(self, block: _Block, cells: Cells) -> None:
        """Raise what is wrong with the columns, or else the cell, that must hold numbers."""
        facts = self.facts
        read = [column for column in facts.used if column.is_number]
        if facts.weight is not None:
            read.append(Column(facts.weight.name, missing=facts.weight.missing))
        strict = [place for place, column in enumerate(read) if column.missing.kind == "refuse"]
        assert cells.numeric is not None
        numeric = cells.numeric[:, strict]
        if numeric.all():
            return
        ever = np.asarray(numeric.any(axis=0))
        if len(strict) == len(facts.names) and not ever.any() and self.header_guessed:
            raise TableError(
                f"{self.path}: no column is numeric. Describe columns of text in a schema ('dpkv "
                "schema' drafts one), or say --no-header if the first row is a record."
            )
        names = [read[place].name for place in strict]
        labels = [self.labels[facts.names.index(name)] for name in names]
        if not ever.all():
            looks = looks_of(self._reader.texts_of(block.text, self._places[names[ever.argmin()]]))
            raise not_numeric(self.path, names, labels, ever, looks)
        row, column = np.argwhere(~numeric)[0]
        raise TableError(
            f"{self.path}, line {self._line_of_row(block, int(row))}, column "
            f"{labels[column]}: not a number. Mend that cell, or leave the column out with "
            "--columns."
        )

    def _line_of_row(self, block: _Block, row: int) -> int:
        """Return the line at which the given row of a block starts."""
        return block.first_line + self._walk(_ended(block.text), row)[2]

    def _unreadable(self, block: _Block) -> TableError:
        return TableError(f"{self.path} cannot be read as CSV near line {block.first_line}.")


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
