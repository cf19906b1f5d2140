"""Reading tables: CSV in all its spellings, Parquet, blocks, memory-mapped copies, preparation."""

from __future__ import annotations

import decimal
import errno
import gzip
import os
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpkv.domain import Box, L1Ball
from dpkv.errors import DomainError, ParameterError, TableError, UsageError
from dpkv.tables import csvfile, open_table, prepare, read_table
from dpkv.tables.chunk import Rows
from dpkv.tables.facts import Missing
from dpkv.tables.labels import read_labels
from dpkv.tables.store import RecordStore

ROWS = [[1.5, -2.0], [0.1, 3e-7], [4.0, 5.0]]


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    """Tables and workspaces stay out of the checkout."""
    monkeypatch.chdir(tmp_path)


def saved(text: str | bytes, name: str = "table.csv") -> Path:
    path = Path(name)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def read(text: str | bytes, **options):
    return read_table(saved(text), **options)


def refused(text: str | bytes, **options) -> str:
    with pytest.raises(TableError) as refusal:
        read(text, **options)
    assert not Path(".dpkv").exists()
    return str(refusal.value)


# --- CSV -------------------------------------------------------------------------------------

SPELLINGS = {
    "plain": "a,b\n1.5,-2\n.1,3e-7\n4,5\n",
    "no end of line at the end": "a,b\n1.5,-2\n.1,3e-7\n4,5",
    "CRLF": "a,b\r\n1.5,-2\r\n.1,3e-7\r\n4,5\r\n",
    "CR": "a,b\r1.5,-2\r.1,3e-7\r4,5\r",
    "CR, no end of line at the end": "a,b\r1.5,-2\r.1,3e-7\r4,5",
    "mixed ends of lines": "a,b\r\n1.5,-2\r.1,3e-7\n4,5\r",
    "byte order mark": "\ufeffa,b\n1.5,-2\n.1,3e-7\n4,5\n",
    "semicolon": "a;b\n1.5;-2\n.1;3e-7\n4;5\n",
    "tab": "a\tb\n1.5\t-2\n.1\t3e-7\n4\t5\n",
    "pipe": "a|b\n1.5|-2\n.1|3e-7\n4|5\n",
    "blank lines": "\n\na,b\n\n1.5,-2\n  \n.1,3e-7\n4,5\n\n\n",
    "blanks around cells": " a , b \n 1.5 , -2 \n .1,  3e-7\n4\t, 5\n",
    "quoted cells": '"a","b"\n"1.5","-2"\n.1,"3e-7"\n"4",5\n',
    "quotes after blanks": 'a, "b"\n1.5, "-2"\n.1, "3e-7"\n4, 5\n',
    "signs and exponents": "a,b\n+1.5,-2.0E0\n1e-1,3E-07\n4.,05\n",
}


@pytest.mark.parametrize("text", SPELLINGS.values(), ids=SPELLINGS)
@pytest.mark.parametrize("zipped", [False, True], ids=["bare", "gzip"])
def test_csv_spellings(text, zipped):
    table = read(gzip.compress(text.encode()) if zipped else text)
    assert table.columns == ("a", "b")
    assert table.values.tolist() == ROWS
    assert table.values.dtype == np.float64
    assert table.values.flags.c_contiguous
    assert (table.n_records, table.mapped_file, table.reused) == (3, None, False)
    assert (table.counts, table.person_keys, table.weights) == (None, None, None)
    assert not Path(".dpkv").exists()


def test_gzip_of_several_members():
    assert (
        read(gzip.compress(b"a,b\n1.5,-2\n.1,") + gzip.compress(b"3e-7\n4,5")).values.tolist()
        == ROWS
    )


@pytest.mark.parametrize(
    ("text", "header", "columns", "n_rows"),
    [
        ("1,2\n3,4\n", None, ("x1", "x2"), 2),
        ("1,2\n3,4\n", False, ("x1", "x2"), 2),
        ("1,2\n3,4\n", True, ("1", "2"), 1),
        ("height,weight\n3,4\n", None, ("height", "weight"), 1),
        ("height,weight\n3,4\n", True, ("height", "weight"), 1),
        ("x 1,nan\n3,4\n", None, ("x 1", "nan"), None),
        ('"height, cm",weight\n3,4\n', None, ("height, cm", "weight"), 1),
    ],
)
def test_header(text, header, columns, n_rows):
    if n_rows is None:  # a name beside what may be a number: the caller must say
        assert "--header or --no-header" in refused(text, header=header)
        return
    table = read(text, header=header)
    assert table.columns == columns
    assert table.n_records == n_rows


def test_a_header_forced_away_makes_its_names_cells():
    assert '"x1", "x2" are not numeric' in refused("a,b\nc,d\n", header=False)


def test_columns_choose_and_order():
    text = "a,name,b,c\n1,x,2,3\n4,y,5,6\n"
    assert read(text, columns=["c", "a"]).values.tolist() == [[3, 1], [6, 4]]
    assert read(text, columns=["c", "a"]).columns == ("c", "a")
    assert read("1,2,3\n4,5,6\n", columns=["x3", "x2"]).values.tolist() == [[3, 2], [6, 5]]


def test_line_ends_and_delimiters_in_a_quoted_cell_of_an_unused_column():
    text = 'a,note,b\n1,"two\nlines, ""quoted""",2\n3,"CR\rCRLF\r\n,,",4\n5,,6\n'
    assert read(text, columns=["b", "a"]).values.tolist() == [[2, 1], [4, 3], [6, 5]]
    assert "line 8, column" in refused(text + "x,y,z\n", columns=["a"])


def test_a_row_index_without_a_name_must_be_left_out_by_the_caller():
    assert "column 1 has no name" in refused(",a\n0,5\n1,6\n")
    assert read(",a\n0,5\n1,6\n", columns=["a"]).values.tolist() == [[5], [6]]


REFUSED_CSV = {
    "empty": ("", {}, "is empty"),
    "blank": ("\n \n\r\n", {}, "is empty"),
    "empty gzip": (gzip.compress(b"", mtime=0), {}, "is empty"),
    "header only": ("a,b\n", {}, "has no rows"),
    "header and blanks": ("a,b\n\n  \n\t\n", {}, "has no rows"),
    "short row": ("a,b\n1,2\n3\n", {}, "line 3: the row has 1 cells where the table has 2"),
    "long row": ("a,b\n1,2\n\n3,4,5\n", {}, "line 4: the row has 3 cells where the table has 2"),
    "delimiter at the end": ("a,b\n1,2,\n", {}, "line 2: the row has 3 cells"),
    "text cell": ("a,b\n1,2\n3,oops\n", {}, "line 3, column 2: not a number"),
    "text column": (
        "a,b\n1,x\n3,y\n",
        {},
        "column 2 is not numeric: choose the others with --columns, by name",
    ),
    "missing": ("a,b\n1,2\n,4\n", {}, "line 3, column 1: empty, NaN or infinite"),
    "NaN": ("a,b\n1,2\n3,NaN\n", {}, "line 3, column 2: empty, NaN or infinite"),
    "infinite": ("a,b\n1,2\n3,-inf\n", {}, "line 3, column 2: empty, NaN or infinite"),
    "overflow": ("a,b\n1,2\n3,1e400\n", {}, "line 3, column 2: empty, NaN or infinite"),
    "beyond 2^53": ("a,b\n1,2\n3,9007199254740994\n", {}, "line 3, column 2: .* beyond ±2\\^53"),
    "quoted nothing": ('a\n1\n""\n3\n', {}, "line 3, column 1: empty"),
    "rows of nothing": ("a\tb\n\t\n\t\n", {}, "line 2, column 1: empty"),
    "other words for nothing": ("a,b\n1,2\n3,nil\n", {}, "line 3, column 2: not a number"),
    "a tab for nothing": ("a,b\n1,2\n3,\t\n", {}, "line 3, column 2: not a number"),
    "hard blank": ("a,b\n1,2\n3,\u00a04\n", {}, "line 3, column 2: not a number"),
    "hexadecimal": ("a,b\n1,2\n3,0x1F\n", {}, "line 3, column 2: not a number"),
    "underscore": ("a,b\n1,2\n3,1_0\n", {}, "line 3, column 2: not a number"),
    "decimal comma": ("a;b\n1;2\n3;4,5\n", {}, "line 3, column 2: not a number"),
    "decimal commas": ("a;b\n1;2,5\n3;4,5\n", {}, "column 2 is not numeric: say --decimal ,"),
    "dates": ("a,b\n1,2024-01-31\n3,2024-02-01\n", {}, "turn dates into numbers first"),
    "truth values": ("a,b\n1,true\n3,false\n", {}, "describe truth values as boolean"),
    "Excel": (b"PK\x03\x04" + b"x" * 50, {}, "save the sheet as CSV"),
    "an old Excel file": (bytes.fromhex("d0cf11e0a1b11ae1") + b"x" * 50, {}, "save the sheet"),
    "boolean": ("a,b\n1,2\n3,True\n", {}, "line 3, column 2: not a number"),
    "overlong cell": ("a,b\n1,2\n3," + "x" * 200_000 + "\n", {}, "line 3, column 2: not a"),
    "overlong name": ("x" * 200_000 + ",b\n1,2\n", {}, "overlong cell in its first row"),
    "quote within a cell": ('a,b\n1,2\n"x" "y,z",5\n', {}, "line 3: the row has 3 cells"),
    "open quote": ('a,b\n1,2\n3,"4\n5,6\n', {}, "quote opened on or after line 3 is never closed"),
    "blanks between cells": ("1 2\n3 4\n", {}, "separated by blanks"),
    "mixed first row": ("a,2\n3,4\n", {}, "--header or --no-header"),
    "duplicate names": ("a,b,a\n1,2,3\n", {}, "duplicate column names, in columns 1, 3"),
    "NUL": ("a,b\n1,2\n3,\0\n", {}, "binary file"),
    "NUL at the start": ("a\0,b\n1,2\n", {}, "binary file"),
    "UTF-16 without a mark": ("a,b\n1,2\n".encode("utf-16-le"), {}, "binary file"),
    "Latin-1 header": ("größe,b\n1,2\n".encode("latin-1"), {}, "not UTF-8"),
    "Latin-1 cell": ("a,b\n1,2\n3,ö\n".encode("latin-1"), {}, "line 3, column 2: not a number"),
    "cut gzip": (gzip.compress(b"a,b\n1,2\n" * 50, mtime=0)[:-12], {}, "is damaged"),
    "gzip and rubbish": (gzip.compress(b"a,b\n1,2\n", mtime=0) + b"rubbish", {}, "is damaged"),
    "gzip head only": (b"\x1f\x8b\x08\x00", {}, "is damaged"),
    "unknown column": (
        "a,b\n1,2\n",
        {"columns": ["c"]},
        'no column "c": check the spelling, and --header',
    ),
    "column twice": ("a,b\n1,2\n", {"columns": ["a", "a"]}, "must not name a column twice"),
    "no column": ("a,b\n1,2\n", {"columns": []}, "at least one column"),
}


@pytest.mark.parametrize(("text", "options", "message"), REFUSED_CSV.values(), ids=REFUSED_CSV)
@pytest.mark.parametrize("memory_limit", [0, 1 << 20])
def test_refused_csv(text, options, message, memory_limit):
    with pytest.raises(TableError, match=message):
        read(text, **options, memory_limit=memory_limit)
    assert [path.name for path in Path().iterdir()] == ["table.csv"]  # nothing left behind


def test_no_row_is_lost_where_the_parser_loses_one():
    # Left to itself, pandas drops the row of two empty cells after a blank line that ends with CR.
    assert "line 4, column 1: empty" in refused("a,b\n1,2\n\r,\n3,4\n")


def test_paths_that_are_no_table(tmp_path):
    with pytest.raises(TableError, match="is a directory"):
        read_table(tmp_path)
    with pytest.raises(TableError, match="does not exist"):
        read_table("nowhere.csv")
    os.mkfifo("pipe")
    with pytest.raises(TableError, match="not a regular file"):
        read_table("pipe")


def test_a_file_that_vanishes_between_opening_and_reading():
    source = open_table(saved("a,b\n1,2\n"))
    source.path.unlink()
    with pytest.raises(TableError, match=r"table\.csv cannot be read: No such file"):
        prepare(source)


def test_a_record_longer_than_any_table_has(monkeypatch):
    monkeypatch.setattr(csvfile, "LONGEST_RECORD", 1000)
    monkeypatch.setattr(csvfile, "BLOCK_BYTES", 100)
    assert "a quote in it is never closed" in refused('a,b\n1,"' + "2\n" * 1000)


# --- blank lines -----------------------------------------------------------------------------

NAN = float("nan")
FILLED = Missing("fill", -1.0)
ONE_COLUMN = {
    "between records": ("a\n1\n\n3\n", [1, NAN, 3]),
    "the last record": ("a\n1\n2\n\n", [1, 2, NAN]),
    "the first record": ("a\n\n2\n3\n", [NAN, 2, 3]),
    "a line of spaces": ("a\n1\n   \n3\n", [1, NAN, 3]),
    "spaces, no end of line at the end": ("a\n1\n2\n ", [1, 2, NAN]),
    "no end of line at the end": ("a\n1\n\n3", [1, NAN, 3]),
    "an end of line at the end adds nothing": ("a\n1\n2\n", [1, 2]),
    "quoted nothing": ('a\n1\n""\n3\n', [1, NAN, 3]),
    "blank before the header": ("\n \na\n1\n\n", [1, NAN]),
    "nothing but missing cells": ("a\n\n\n\n", [NAN, NAN, NAN]),
    "a quoted line end in a cell": ('a\n1\n"2\n\n"\n\n4\n', [1, 2, NAN, 4]),
}


def one_column(text: str | bytes, **options) -> list[float]:
    """Return the column as it is read, with -1 in place of what is missing."""
    source = open_table(saved(text), missing=FILLED, **options)
    prepared = prepare(source, bounds=(-10, 8), scaled=False)
    return prepared.working[:, 0].tolist()


@pytest.mark.parametrize(("text", "column"), ONE_COLUMN.values(), ids=ONE_COLUMN)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("zipped", [False, True], ids=["bare", "gzip"])
@pytest.mark.parametrize("block_bytes", [1, 3, 1 << 23])
def test_a_blank_line_of_one_column_is_a_record(
    text, column, end, zipped, block_bytes, monkeypatch
):
    monkeypatch.setattr(csvfile, "BLOCK_BYTES", block_bytes)
    spelled = text.replace("\n", end).encode()
    found = one_column(gzip.compress(spelled) if zipped else spelled)
    assert found == [-1 if number is NAN else number for number in column]


@pytest.mark.parametrize("text", ["\n2\n3\n", "  \n2\n3", "\ufeff\n2\n3\n"])
def test_a_missing_first_record_of_one_column_without_a_header(text):
    assert one_column(text, header=False) == [-1, 2, 3]


def test_a_table_of_missing_cells_alone():
    assert one_column("\n \n\r\n", header=False) == [-1, -1, -1]
    assert "is empty" in refused("\ufeff", header=False)


def test_a_blank_line_of_one_column_is_refused_with_its_line():
    assert "line 3, column 1: empty, NaN or infinite" in refused("a\n1\n\n3\n")
    assert "line 4, column 1: empty, NaN or infinite" in refused("a\n1\n2\n \n")


def test_a_blank_label_of_one_column_is_told():
    with pytest.raises(TableError, match="has rows without a label in column 's'"):
        read_labels(saved("s\nx\n\ny\n"), "s")


def test_a_blank_line_of_several_columns_is_no_record():
    # Missing cells have delimiters between them, so that nothing of a record is lost.
    source = open_table(saved("a,b\n1,2\n\n,\n  \n3,4\n\n"), missing=FILLED)
    prepared = prepare(source, bounds=(-10, 8), scaled=False)
    assert prepared.working.tolist() == [[1, 2], [-1, -1], [3, 4]]


# --- cells that are no numbers ---------------------------------------------------------------

ANY_CELL = {
    "text": "oops",
    "a boolean": "True",
    "a quoted line": '"two\nlines, ""quoted"""',
    "overlong": "x" * 200_000,
    "not UTF-8": "\udcff\udcfe",
    "a number of 400 digits": "9" * 400,
    "hexadecimal": "0x1F",
    "a word for nothing": "nil",
    "nothing": "",
    "a tab": "\t",
    "a formula": "=1+1",
    "NUL": "1\0",
    "a mark of UTF-16": "\udcff\udcfe",
    "a mark of gzip": "\x1f\udc8b\x08",
    "a mark of Excel": "PK\x03\x04",
}


@pytest.mark.parametrize("cell", ANY_CELL.values(), ids=ANY_CELL)
@pytest.mark.parametrize("row", [0, 1, 3], ids=["first", "middle", "last"])
@pytest.mark.parametrize("header", ["a,b\n", ""], ids=["header", "no header"])
def test_any_cell_can_be_filled(cell, row, header):
    rows = ["1,2", "-0,.1", "3e0,4", "5, 6"]
    if not header and row == 0 and "\n" in cell:
        return  # the first row says how many columns there are: it must not go on
    rows[row] = f"{cell},7"
    text = (header + "\n".join(rows) + "\n").encode("utf-8", "surrogateescape")
    source = open_table(saved(text), header=bool(header), missing=FILLED)
    prepared = prepare(source, bounds=(-10, 8), scaled=False)
    expected = np.array([[1, 2], [-0.0, 0.1], [3, 4], [5, 6]])
    expected[row] = -1, 7
    assert prepared.table.values.tobytes() == expected.tobytes()


# --- what may be a record is not shown -------------------------------------------------------

SECRET = "secretcell"
NOT_SHOWN = {
    "JSON": (f'[{{"n": "{SECRET}", "n": "{SECRET}"}},\n{{"n": 1, "n": 2}}]\n', {}),
    "JSON with a header": (f'["{SECRET}","{SECRET}"]\n[1,2]\n', {"header": True}),
    "duplicates": (f"{SECRET},{SECRET}\n1,2\n", {}),
    "text below": (f"{SECRET},b\nx,2\n", {}),
    "text beside numbers below": (f"{SECRET},b\n1,2\nx,3\n", {}),
    "nothing below": (f"{SECRET},b\n1,2\n,3\n", {}),
    "a number too large": (f"{SECRET},b\n1,2\n1e300,3\n", {"header": True}),
    "unknown column": (f"{SECRET},b\n1,2\n", {"columns": ["c"]}),
    "numeric columns to choose": (f"a,{SECRET}\nx,2\n", {}),
    "columns that nobody typed": (f"a,{SECRET}\n1,x\n", {"columns": [SECRET], "typed": False}),
    "unknown and not typed": ("a,b\n1,x\n", {"columns": [SECRET], "typed": False}),
}


@pytest.mark.parametrize(("text", "options"), NOT_SHOWN.values(), ids=NOT_SHOWN)
def test_a_first_row_is_never_shown(text, options):
    with pytest.raises(TableError) as refusal:
        prepare(open_table(saved(text), **options))
    assert SECRET not in str(refusal.value)


def test_names_that_a_person_typed_are_shown():
    text = "a,b\n1,2\nx,3\n"
    assert 'column "a": not a number' in refused(text, columns=["a", "b"])
    assert 'column "x1": not a number' in refused("1,2\nx,3\n", header=False)


# --- many columns ----------------------------------------------------------------------------


class CountedName(str):
    """A name that counts how often names are compared."""

    __slots__ = ()
    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        CountedName.compared += 1
        return str.__eq__(self, other)


@pytest.mark.parametrize("choose", [False, True], ids=["all", "chosen"])
def test_the_work_of_naming_columns_grows_with_their_number(choose, monkeypatch):
    width = 500
    names = [CountedName(f"c{place}") for place in range(width)]
    monkeypatch.setattr(csvfile.CsvSource, "_first_row", lambda *_: names)
    CountedName.compared = 0
    wanted = [f"c{place}" for place in reversed(range(width))] if choose else None
    row = ",".join(map(str, range(width)))
    table = read(",".join(names) + f"\n{row}\n", columns=wanted)
    assert table.values.tolist() == [list(range(width))[:: -1 if choose else 1]]
    assert CountedName.compared < 20 * width


# --- blocks ----------------------------------------------------------------------------------

WORDS = ["", '"a, ""b"""', '"two\nlines"', '"\r\n"', "é", ' "x\ny"']


def long_table(end: str, delimiter: str) -> tuple[bytes, list[list[float]], list[int]]:
    """A table, its numbers, and the line at which each row starts."""
    rng = np.random.default_rng(1)
    text, lines, rows = delimiter.join(["a", "word", "b"]) + end, [], []
    for row in range(120):
        if row % 7 == 0:
            text += end
        numbers = rng.normal(size=2).tolist()
        # Every CR, LF and CRLF is one end of a line, in quotes as well.
        lines.append(text.replace("\r\n", "\n").replace("\r", "\n").count("\n") + 1)
        word = WORDS[row % len(WORDS)].replace(",", delimiter)
        text += delimiter.join([repr(numbers[0]), word, repr(numbers[1])]) + end
        rows.append(numbers)
    return text.encode(), rows, lines


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("delimiter", [",", "\t"])
@pytest.mark.parametrize("block_bytes", [5, 64, 1 << 23])
def test_blocks_change_nothing(end, delimiter, block_bytes, monkeypatch):
    monkeypatch.setattr(csvfile, "BLOCK_BYTES", block_bytes)
    text, rows, lines = long_table(end, delimiter)
    assert read(text, columns=["b", "a"]).values.tolist() == [[b, a] for a, b in rows]
    for wrong in (0, 50, 119):
        cells = [repr(number).encode() for number in rows[wrong]]
        for cell, reason in ((b"", "empty, NaN"), (b"1e300", "the number is beyond")):
            message = refused(text.replace(cells[1], cell), columns=["a", "b"])
            assert f'line {lines[wrong]}, column "b": {reason}' in message
        message = refused(text.replace(cells[0], cells[0] + delimiter.encode()), columns=["a"])
        assert f"line {lines[wrong]}: the row has 4 cells where the table has 3" in message


@pytest.mark.parametrize("block_bytes", [64, 1 << 23])
def test_line_of_text_in_a_later_block(block_bytes, monkeypatch):
    monkeypatch.setattr(csvfile, "BLOCK_BYTES", block_bytes)
    lines = [f"{row},{row}" for row in range(100)]
    lines[60] = "60,sixty"
    message = refused("a,b\n" + "\n".join(lines))
    # A block of nothing but text names the column instead; here numbers surround the word.
    assert "line 62, column 2: not a number" in message


def test_blocks_of_blank_lines(monkeypatch):
    monkeypatch.setattr(csvfile, "BLOCK_BYTES", 16)
    table = read("\n" * 50 + "a,b\n" + "\n" * 50 + "1,2\n" + " \n" * 50 + "3,4\n" + "\r\n" * 50)
    assert table.values.tolist() == [[1, 2], [3, 4]]


def test_progress_grows_to_one(monkeypatch):
    monkeypatch.setattr(csvfile, "BLOCK_BYTES", 64)
    shares: list[float] = []
    read("a,b\n" + "1,2\n" * 500, progress=shares.append)
    assert len(shares) > 10
    assert shares == sorted(shares)
    assert 0 < shares[0] < 1
    assert shares[-1] == 1.0


# --- Parquet ---------------------------------------------------------------------------------


def parquet(columns: dict, name: str = "table.parquet", **options) -> Path:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    path = Path(name)
    pq.write_table(pa.table(columns), path, **options)
    return path


def test_parquet_numbers():
    pa = pytest.importorskip("pyarrow")
    path = parquet(
        {
            "int": pa.array([1, -(2**53), 3], pa.int64()),
            "byte": pa.array([0, 255, 7], pa.uint8()),
            "float": [0.1, 2.5, -1e-300],
            "single": pa.array([0.5, 0.25, 1.0], pa.float32()),
            "decimal": [decimal.Decimal("1.10"), decimal.Decimal("-2.25"), decimal.Decimal("0.01")],
        }
    )
    table = read_table(path)
    assert table.columns == ("int", "byte", "float", "single", "decimal")
    assert table.values.dtype == np.float64
    assert table.values.tolist() == [
        [1, 0, 0.1, 0.5, 1.1],
        [-(2**53), 255, 2.5, 0.25, -2.25],
        [3, 7, -1e-300, 1.0, 0.01],
    ]


def test_parquet_columns_choose_and_order_whatever_the_others_hold():
    path = parquet({"a": [1, 2], "text": ["x", "y"], "list": [[1], [2]], "b": [3.0, 4.0]})
    assert read_table(path, columns=["b", "a"]).values.tolist() == [[3, 1], [4, 2]]


def test_parquet_needs_no_suffix_and_ignores_header():
    path = parquet({"a": [1, 2]}, name="table")
    assert read_table(path, header=False).values.tolist() == [[1], [2]]


@pytest.mark.parametrize(
    "values", [["x"], [[1.0]], [{"inner": 1}], [True], [b"x"]], ids=lambda v: type(v[0]).__name__
)
def test_parquet_columns_that_are_not_numeric_are_named(values):
    path = parquet({"good": [1], "bad": values})
    with pytest.raises(TableError, match=r'column "bad" is not numeric: .*--columns good'):
        read_table(path)


def test_parquet_null_is_named_by_its_row(monkeypatch):
    from dpkv.tables import parquet as module

    monkeypatch.setattr(module, "_BATCH_ROWS", 2)
    path = parquet({"a": [1, 2, 3, 4, 5], "b": [1.0, 2.0, 3.0, None, 5.0]})
    with pytest.raises(TableError, match='row 4, column "b": empty, NaN or infinite'):
        read_table(path)
    assert read_table(path, columns=["a"]).values.ravel().tolist() == [1, 2, 3, 4, 5]


def test_parquet_integers_that_float64_cannot_hold():
    pa = pytest.importorskip("pyarrow")
    path = parquet({"a": pa.array([1, 2**64 - 1], pa.uint64())})
    with pytest.raises(TableError, match=r'row 2, column "a": .* beyond'):
        read_table(path)


def test_parquet_without_rows():
    pa = pytest.importorskip("pyarrow")
    with pytest.raises(TableError, match="has no rows"):
        read_table(parquet({"a": pa.array([], pa.int64())}))


def test_parquet_damaged():
    path = parquet({"a": list(range(5000))}, compression="none", use_dictionary=False)
    whole = path.read_bytes()
    for damaged in (whole[:-6], b"PAR1", b"PAR1" + b"\xff" * 100, b"PAR1" + bytes(40) + b"PAR1"):
        path.write_bytes(damaged)
        with pytest.raises(TableError, match="is damaged"):
            read_table(path)
    path = parquet({"zz": [1]}, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"zz", b"\xff\xfe"))  # a name that is not UTF-8
    with pytest.raises(TableError, match="is damaged"):
        read_table(path)
    path.write_bytes(whole[:4] + b"\xff" * 60 + whole[64:])  # the footer is fine, the page is not
    with pytest.raises(TableError, match="is damaged: its data cannot be read"):
        read_table(path)


def test_parquet_progress_grows_to_one(monkeypatch):
    from dpkv.tables import parquet as module

    monkeypatch.setattr(module, "_BATCH_ROWS", 2)
    shares: list[float] = []
    read_table(parquet({"a": [1, 2, 3, 4, 5]}), progress=shares.append)
    assert shares == [0.4, 0.8, 1.0]


# --- memory-mapped copies --------------------------------------------------------------------

WORKSPACE = Path(".dpkv")


def copies() -> set[str]:
    return {path.name for path in (WORKSPACE / "tables").glob("*.f64")}


def numbered(n_rows: int) -> str:
    return "a,b\n" + "".join(f"{row},{row / 7!r}\n" for row in range(n_rows))


@pytest.fixture
def small_blocks(monkeypatch):
    """Let a reading go over from memory to the file in its midst."""
    monkeypatch.setattr(csvfile, "BLOCK_BYTES", 256)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("memory_limit", [0, 100, 3000])
def test_mapped_copy_holds_the_same_numbers(memory_limit):
    expected = [[row, row / 7] for row in range(300)]
    table = read(numbered(300), memory_limit=memory_limit)
    assert table.values.tolist() == expected
    assert table.mapped_file is not None
    assert np.fromfile(table.mapped_file).reshape(-1, 2).tolist() == expected
    assert not table.reused


def test_a_table_of_just_the_limit_stays_in_memory():
    text = numbered(300)
    both_copies = 2 * 300 * 2 * 8  # as read, and in working coordinates
    assert read(text, memory_limit=both_copies).mapped_file is None
    assert not WORKSPACE.exists()
    assert read(text, memory_limit=both_copies - 1).mapped_file is not None


def test_mapped_copy_is_for_its_owner_alone():
    table = read(numbered(10), memory_limit=0)
    assert stat.S_IMODE((WORKSPACE / "tables").stat().st_mode) == 0o700
    assert stat.S_IMODE(table.mapped_file.stat().st_mode) == 0o600
    assert (WORKSPACE / ".gitignore").read_text() == "*\n"


def test_writing_to_the_records_never_changes_the_copy():
    table = read(numbered(10), memory_limit=0)
    before = table.mapped_file.read_bytes()
    table.values[:] = 0.0
    assert table.mapped_file.read_bytes() == before


def test_mapped_copy_is_used_again():
    path = saved(numbered(10))
    first = read_table(path, memory_limit=0)
    shares: list[float] = []
    again = read_table(path, memory_limit=0, progress=shares.append)
    assert again.reused
    assert not shares  # nothing was read
    assert again.mapped_file == first.mapped_file
    assert again.values.tolist() == first.values.tolist()
    assert again.columns == first.columns


def test_mapped_copy_is_not_used_once_the_file_has_changed():
    path = saved("a\n1\n2\n")
    read_table(path, memory_limit=0)
    kept_time = path.stat()
    path.write_text("a\n3\n4\n")
    # As long as before, and as old as before: only the inode's own clock tells.
    os.utime(path, ns=(kept_time.st_atime_ns, kept_time.st_mtime_ns))
    table = read_table(path, memory_limit=0)
    assert not table.reused
    assert table.values.tolist() == [[3], [4]]
    assert read_table(path, memory_limit=0).reused
    assert len(copies()) == 1


def test_mapped_copies_of_other_readings_are_kept_apart():
    path = saved("1,2\n3,4\n")
    readings = [
        ({}, [[1, 2], [3, 4]]),
        ({"columns": ["x2"]}, [[2], [4]]),
        ({"columns": ["x2", "x1"]}, [[2, 1], [4, 3]]),
        ({"header": True}, [[3, 4]]),
    ]
    for reused in (False, True):
        for options, expected in readings:
            table = read_table(path, memory_limit=0, **options)
            assert table.values.tolist() == expected
            assert table.reused == reused
    assert len(copies()) == 4


@pytest.mark.parametrize("harm", ["cut the copy", "cut the note", "another note", "no note"])
def test_a_harmed_copy_is_made_anew(harm):
    path = saved(numbered(10))
    copy = read_table(path, memory_limit=0).mapped_file
    note = copy.with_suffix(".json")
    if harm == "cut the copy":
        copy.write_bytes(copy.read_bytes()[:-8])
    elif harm == "cut the note":
        note.write_text(note.read_text()[:-5])
    elif harm == "another note":
        note.write_text("[]")
    else:
        note.unlink()
    table = read_table(path, memory_limit=0)
    assert not table.reused
    assert table.values.tolist() == [[row, row / 7] for row in range(10)]


@pytest.mark.usefixtures("small_blocks")
def test_nothing_is_left_of_a_reading_that_failed():
    assert "line 302" in refused(numbered(300) + "1,\n", memory_limit=0)
    assert [path.name for path in Path().iterdir()] == ["table.csv"]


@pytest.mark.usefixtures("small_blocks")
def test_nothing_is_left_of_a_reading_that_was_interrupted():
    def interrupt(share: float) -> None:
        if share > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read(numbered(300), memory_limit=0, progress=interrupt)
    assert [path.name for path in Path().iterdir()] == ["table.csv"]


def test_a_failed_reading_leaves_other_copies_alone():
    good = read_table(saved(numbered(10), "good.csv"), memory_limit=0)
    with pytest.raises(TableError):
        read_table(saved(numbered(10) + "1,\n", "bad.csv"), memory_limit=0)
    assert copies() == {good.mapped_file.name}


def test_abandoned_readings_are_removed_after_an_hour():
    folder = WORKSPACE / "tables"
    folder.mkdir(parents=True)
    old, young, other = folder / "reading-old.f64", folder / "reading-young.f64", folder / "old.f64"
    for file in (old, young, other):
        file.write_bytes(b"x")
    for file, minutes in ((old, 61), (young, 30), (other, 600)):
        then = time.time() - 60 * minutes
        os.utime(file, (then, then))
    read(numbered(10), memory_limit=0)
    assert not old.exists()
    assert young.exists()
    assert other.exists()


def test_a_workspace_that_cannot_be_written_is_named():
    saved("", ".dpkv")  # a file where the folder should be
    with pytest.raises(UsageError, match=r"\.dpkv must be a plain folder"):
        read(numbered(10), memory_limit=0)


def test_a_full_disk_is_a_sentence_and_not_a_signal(monkeypatch: pytest.MonkeyPatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    source = open_table(saved(numbered(10)))
    with pytest.raises(TableError, match=r"cannot hold a binary copy of .*No space left"):
        prepare(source, bounds=(0, 1), memory_limit=0)


def test_a_table_changed_while_it_is_read_is_refused():
    path = saved(numbered(10))

    def rewrite(_: float) -> None:
        saved(numbered(11))

    with pytest.raises(TableError, match="was changed while it was read"):
        read_table(path, progress=rewrite)


def test_a_note_never_describes_the_copy_of_another_state():
    # Two runs that convert the table before and after a change, their writes interleaved.
    path = saved("1,1\n2,2\n")
    early = RecordStore([path], 2, {}, 0, WORKSPACE)
    early.append(Rows(np.array([[1.0, 1.0], [2.0, 2.0]])))
    saved("9,9\n8,8\n7,7\n")
    late = RecordStore([path], 2, {}, 0, WORKSPACE)
    late.append(Rows(np.array([[9.0, 9.0], [8.0, 8.0], [7.0, 7.0]])))
    late.finish()
    with pytest.raises(TableError, match="was changed"):
        early.finish()
    early.discard_unfinished()
    again = RecordStore([path], 2, {}, 0, WORKSPACE).earlier_copy()
    assert again is not None
    assert again[0].values.tolist() == [[9.0, 9.0], [8.0, 8.0], [7.0, 7.0]]


def test_the_note_beside_a_copy_is_for_its_owner_alone():
    table = read(numbered(10), memory_limit=0)
    assert stat.S_IMODE(table.mapped_file.with_suffix(".json").stat().st_mode) == 0o600


@pytest.mark.parametrize("text", ["PAR1,PAR2\n1,2\n", "PAR1\n1\n"])
def test_a_csv_whose_header_begins_like_parquet(text: str):
    assert read(text).columns[0] == "PAR1"


@pytest.mark.parametrize("cells", ["True\nTrue\n", "7.5\nfalse\n"])
def test_truth_values_are_no_numbers(cells: str):
    with pytest.raises(TableError, match=r"not a number|not numeric|no column is numeric"):
        read("a,b\n" + cells.replace("\n", ",1\n"))


def test_a_word_that_holds_a_truth_value_in_an_unused_column():
    assert read("a,b\n1,Falsetto\n2,x\n", columns=["a"]).values.tolist() == [[1.0], [2.0]]


def test_the_index_of_a_pandas_frame_is_no_column():
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [4.0, 5.0, 6.0]})
    frame[frame.a != 2].to_parquet("frame.parquet")
    assert read_table("frame.parquet").columns == ("a", "b")


def test_a_chosen_workspace():
    table = read(numbered(10), memory_limit=0, workspace="elsewhere/deep")
    assert table.mapped_file.parent == Path("elsewhere/deep/tables")
    assert not WORKSPACE.exists()


BOUNDED_MEMORY = """
import resource, sys
from pathlib import Path
from dpkv.tables import read_table

def peak():  # kilobytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

line = "1,2,3,4,5,6,7,8,9,0\\n"
block = line * 100_000
Path("small.csv").write_text(block)
read_table("small.csv", memory_limit=0)  # compiles, and starts the threads
before = peak()
with open("large.csv", "w") as file:
    for _ in range(75):
        file.write(block)
table = read_table("large.csv", memory_limit=8 << 20)
assert table.values.shape == (7_500_000, 10), table.values.shape
assert table.mapped_file.stat().st_size == table.values.nbytes
print(table.values.nbytes >> 20, (peak() - before) >> 10)
table.mapped_file.unlink()
Path("large.csv").unlink()
"""


@pytest.mark.processes
def test_a_large_table_is_read_in_bounded_memory():
    # 150 MB of text, 572 MB as float64, whatever of it is held. A block of 8 MB of such text takes
    # about 100 MB while it is parsed, and every core works on one: some 280 MB for two of them.
    # Held in memory, the same table makes the process grow by 1200 MB.
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(BOUNDED_MEMORY)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NUMBA_NUM_THREADS": "2"},
    )
    assert result.returncode == 0, result.stderr
    table_megabytes, grown_megabytes = map(int, result.stdout.split())
    assert table_megabytes > 570
    assert grown_megabytes < 400


# --- prepare ---------------------------------------------------------------------------------


def test_prepare_without_bounds_leaves_the_records_as_they_are():
    prepared = prepare(open_table(saved("a,b\n1,2\n3,9\n")))
    assert prepared.domain is None
    assert prepared.working.tolist() == [[1, 2], [3, 9]]
    assert prepared.restore(prepared.working).tolist() == [[1, 2], [3, 9]]


@pytest.mark.parametrize("memory_limit", [0, 1 << 20], ids=["mapped", "in memory"])
@pytest.mark.parametrize(
    ("bounds", "scaled", "working", "restored"),
    [
        ((0, 4), True, [[0.25, 0.5], [0.75, 1]], [[1, 2], [3, 4]]),
        ((0, 4), False, [[1, 2], [3, 4]], [[1, 2], [3, 4]]),
        ({"b": [1, 5], "a": [2, 4]}, True, [[0, 0.25], [0.5, 1]], [[2, 2], [3, 5]]),
        (Box((2, 1), (4, 5)), False, [[0, 0.25], [0.5, 1]], [[2, 2], [3, 5]]),
        ({"center": [1, 2], "radius": 5}, True, [[1, 2], [1, 7]], [[1, 2], [1, 7]]),
        (L1Ball((1, 2), 7), True, [[1, 2], [2, 8]], [[1, 2], [2, 8]]),
    ],
)
def test_prepare_clips_and_scales(bounds, scaled, working, restored, memory_limit):
    source = open_table(saved("a,b\n1,2\n3,9\n"))
    prepared = prepare(source, bounds=bounds, scaled=scaled, memory_limit=memory_limit)
    np.testing.assert_allclose(prepared.working, working, atol=1e-14)
    np.testing.assert_allclose(prepared.restore(prepared.working), restored, atol=1e-14)
    if memory_limit == 0:
        assert copies() == {prepared.table.mapped_file.name}  # working coordinates have no name
        assert prepared.table.values.tolist() == [[1, 2], [3, 9]]


@pytest.mark.parametrize("memory_limit", [0, 1 << 20], ids=["mapped", "in memory"])
def test_missing_cells_are_filled_one_by_one(memory_limit):
    text = "a,b\n1,2\nNaN,3\n4,\ninf,-inf\n1e300,0\n10,20\n"
    source = open_table(saved(text), missing=Missing("fill", 5.0))
    for _ in range(2):  # the second time from the copy, where there is one
        prepared = prepare(
            source,
            bounds=[[0, 10], [0, 40]],
            scaled=False,
            memory_limit=memory_limit,
        )
        expected = [[1, 2], [5, 3], [4, 5], [5, 5], [5, 0], [10, 20]]
        assert prepared.working.tolist() == expected
    assert prepared.table.reused == (memory_limit == 0)


@pytest.mark.parametrize("memory_limit", [0, 1 << 20], ids=["mapped", "in memory"])
def test_one_column(memory_limit):
    # pandas hands a single column out as a view that cannot be written to.
    source = open_table(saved("a\n1\nNaN\n9\n"), missing=Missing("fill", 2.0))
    prepared = prepare(source, bounds=(0, 4), memory_limit=memory_limit)
    assert prepared.working.tolist() == [[0.25], [0.5], [1.0]]


def test_a_copy_with_one_rule_is_not_used_for_another():
    path = saved("a\n1\nNaN\n")
    for value, expected in ((2, [[1], [2]]), (4, [[1], [4]])):
        table = read_table(path, missing=f"fill:{value}", memory_limit=0)
        assert table.values.tolist() == expected
    assert read_table(path, missing="ignore", memory_limit=0).counts.tolist() == [True, False]
    with pytest.raises(TableError, match="empty, NaN or infinite"):
        read_table(path, memory_limit=0)


def test_refused_rules_for_missing_cells():
    with pytest.raises(ParameterError, match=r"missing must be refuse, .* Got 'drop'"):
        read_table(saved("a\n1\n"), missing="drop")
    with pytest.raises(ParameterError, match="only releases have rows of no weight"):
        prepare(open_table(saved("a\n1\n"), missing=Missing("ignore")))


def test_bounds_of_other_columns_are_refused_before_anything_is_read():
    source = open_table(saved("a,b\n1,2\n"))
    for bounds, message in (([[0, 1]] * 3, "of the 2 columns"), (Box((0,), (1,)), "has 1 columns")):
        with pytest.raises(DomainError, match=message):
            prepare(source, bounds=bounds, memory_limit=0)
        assert not WORKSPACE.exists()


@pytest.mark.usefixtures("small_blocks")
def test_prepare_reports_progress():
    shares: list[float] = []
    prepare(open_table(saved(numbered(300))), bounds=(0, 1), progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_millions_of_columns_are_no_table():
    with pytest.raises(TableError, match="more than 1000000 columns in its first row"):
        read("1," * 1_000_001 + "1\n")


@pytest.mark.parametrize("cell", [b'"a\nb"', b";;;", b"\t|;", b"PAR1\xff\0", b'"PAR1\n\xff"', b"'"])
@pytest.mark.parametrize("rule", ["fill:7", "ignore"])
def test_nothing_in_the_first_record_makes_a_table_fail(
    tmp_path: Path, rule: str, cell: bytes
) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(cell + b",2\n" + b"1,2\n" * 9)
    table = read_table(path, header=False, missing=rule)
    assert table.values[1:].tolist() == [[1.0, 2.0]] * 9
    assert table.values[0, 1] == 2.0 and table.n_records == 10
