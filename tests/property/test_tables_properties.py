"""Whatever the bytes of a table: its records are read right, or it is refused in a sentence."""

from __future__ import annotations

import csv
import gzip
import io
import tempfile
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpkv.errors import DpkvError
from dpkv.tables import Table, csvfile, open_table, prepare, read_table
from dpkv.tables.facts import Missing

LIMIT = 2.0**53
untimed = settings(deadline=None)
MARK = "secretvalue"


@contextmanager
def table_file(content: bytes):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "table.csv")
        path.write_bytes(content)
        yield path


def attempt(content: bytes, block_bytes: int = csvfile.BLOCK_BYTES, **options) -> Table | str:
    """Read a table, or return the sentence of its refusal; anything else is a crash."""
    with table_file(content) as path, mock.patch.object(csvfile, "BLOCK_BYTES", block_bytes):
        try:
            table = read_table(path, workspace=path.parent / "workspace", **options)
        except DpkvError as refusal:
            sentence = str(refusal).replace(str(path), "TABLE")
            assert sentence
            assert [entry.name for entry in path.parent.iterdir()] == [path.name]
            return sentence
        assert table.values.dtype == np.float64
        assert table.values.shape == (table.n_records, len(table.columns))
        assert table.n_records >= 1
        assert len(table.columns) >= 1
        assert (np.abs(table.values) <= LIMIT).all()
        assert table.values.flags.writeable
        return table


ordinary = st.floats(-LIMIT, LIMIT).map(repr) | st.integers(-(2**53), 2**53).map(str)
extreme = st.sampled_from(
    [*"+-.eE0", "1e400", "-1e400", "1e-400", "9" * 400, "0." + "3" * 500, "1" + "0" * 5000, "2e53"]
)
missing = st.sampled_from(
    [
        "",
        " ",
        "NaN",
        "nan",
        "NA",
        "Na",
        "nil",
        "NULL",
        "None",
        "inf",
        "-Infinity",
        "#N/A",
        "\t",
        "\f",
    ]
)
words = st.text(max_size=8) | st.sampled_from(["True", "0x10", "1_0", "1,5", "٣", "\u00a05", "a b"])
quoting = st.sampled_from(['"{}"', ' "{}"', '"{}" ', '"{}"""', '"{}', '{}"', '"{}\n"', '"a"{}'])
quoted = st.builds(str.format, quoting, ordinary | words)
cells = ordinary | ordinary | extreme | missing | words | quoted
line_ends = st.sampled_from(["\n", "\r\n", "\r", "\n\n", "\n \n", "\r\r"])
delimiters = st.sampled_from([",", ";", "\t", "|", ", "])


@st.composite
def structured(draw, cell=cells) -> bytes:
    """Something like a table: rows of cells, now and then ragged, with or without names."""
    width = draw(st.integers(1, 4))
    widths = st.just(width) | st.just(width) | st.just(width) | st.integers(0, 5)
    delimiter, end = draw(delimiters), draw(line_ends)
    lines = [delimiter.join(f"c{i}" for i in range(width))] if draw(st.booleans()) else []
    for _ in range(draw(st.integers(0, 6))):
        count = draw(widths)
        lines.append(delimiter.join(draw(st.lists(cell, min_size=count, max_size=count))))
    text = draw(st.sampled_from(["", "\ufeff", "\n"])) + end.join(lines)
    return (text + draw(st.sampled_from([end, ""]))).encode("utf-8", "surrogatepass")


headers = st.sampled_from([None, True, False])
block_sizes = st.sampled_from([1, 7, 64, csvfile.BLOCK_BYTES])
limits = st.sampled_from([0, 1 << 20])


@untimed
@given(structured(), headers, block_sizes, limits)
@example(b"a,b\n1,2\n3,nil\n", None, 64, 0)
@example(b"a,b\n1,2\n3,\x0c\n", None, 64, 0)
@example(b"a,b\n\r,\n3,4\n", True, 64, 0)  # pandas loses a row after a blank line ended by CR
@example(b'a\n"', True, 64, 0)
def test_structured_text_is_read_or_refused(content, header, block_bytes, limit):
    attempt(content, block_bytes, header=header, memory_limit=limit)


@untimed
@given(st.binary(max_size=200), headers, block_sizes)
@example(b"PAR1", None, 64)
@example(b"\x1f\x8b", None, 64)
@example(b"\xef\xbb\xbf", None, 64)
@example(b"\r", True, 64)
def test_any_bytes_are_read_or_refused(content, header, block_bytes):
    attempt(content, block_bytes, header=header)


few_bytes = st.lists(st.sampled_from(b'12,,\n\n\r" \t5.e-'), max_size=30).map(bytes)


@untimed
@given(few_bytes, headers, st.sampled_from([1, 3, 8]))
def test_blocks_change_nothing(content, header, block_bytes):
    whole, blocked = attempt(content, header=header), attempt(content, block_bytes, header=header)
    if isinstance(whole, Table) or isinstance(blocked, Table):
        assert not isinstance(whole, str), whole
        assert not isinstance(blocked, str), blocked
        assert blocked.columns == whole.columns
        assert blocked.values.tolist() == whole.values.tolist()


@untimed
@given(structured(ordinary), st.data())
def test_mutated_gzip_is_read_or_refused(content, data):
    zipped = bytearray(gzip.compress(content))
    for _ in range(data.draw(st.integers(1, 3))):
        zipped[data.draw(st.integers(0, len(zipped) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(zipped)) | st.just(len(zipped)))
    attempt(bytes(zipped[:cut]) + data.draw(st.binary(max_size=8)), header=True)


def parquet_file() -> bytes:
    file = io.BytesIO()
    columns = {"a": list(range(50)), "é": [row / 7 for row in range(50)]}
    pq.write_table(pa.table(columns), file, compression="none")
    return file.getvalue()


PARQUET = parquet_file()


@untimed
@given(
    st.dictionaries(
        # Most of the damage goes to the footer, which says what everything else means.
        st.integers(4, len(PARQUET) - 1) | st.integers(len(PARQUET) - 600, len(PARQUET) - 9),
        st.integers(0, 255),
        min_size=1,
        max_size=4,
    )
)
def test_mutated_parquet_is_read_or_refused(damage):
    content = bytearray(PARQUET)
    for position, byte in damage.items():
        content[position] = byte
    attempt(bytes(content))


tables_of_floats = st.integers(1, 4).flatmap(
    lambda width: st.lists(
        st.lists(st.floats(-LIMIT, LIMIT), min_size=width, max_size=width), min_size=1, max_size=20
    )
)


@untimed
@given(tables_of_floats, st.sampled_from(["\n", "\r\n"]), st.sampled_from(",;\t|"), block_sizes)
def test_numbers_come_back_to_the_last_bit(rows, end, delimiter, block_bytes):
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator=end, delimiter=delimiter)
    writer.writerow([f"c{i}" for i in range(len(rows[0]))])
    writer.writerows([map(repr, row) for row in rows])
    table = attempt(text.getvalue().encode(), block_bytes)
    assert isinstance(table, Table), table
    expected = np.array(rows)
    assert table.values.tobytes() == expected.tobytes()  # also the sign of zero


decimals = st.from_regex(r"-?[0-9]{1,40}\.[0-9]{0,40}(e-?[0-9]{1,3})?", fullmatch=True)


@untimed
@given(st.lists(decimals, min_size=1, max_size=20))
def test_any_decimal_is_the_nearest_float(numbers):
    # Python's float() is correctly rounded, however many digits there are.
    expected = [[float(number)] for number in numbers]
    table = attempt(("c\n" + "\n".join(numbers) + "\n").encode())
    if np.abs(expected).max() > LIMIT:
        assert isinstance(table, str)
    else:
        assert isinstance(table, Table), table
        assert table.values.tobytes() == np.array(expected).tobytes()


marked = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "1", '"', "-", " ", "7777777"]),
    st.sampled_from([MARK, f"{MARK}\n{MARK}", "1234512345e300", "1234512345" * 3, "nan12345"]),
    st.sampled_from(["", '"', "9", " ", '""']),
)


@untimed
@given(structured(ordinary | missing | marked | marked), st.booleans(), block_sizes)
def test_a_refusal_never_shows_a_cell(content, header, block_bytes):
    if header:  # the first line holds names, which may be shown
        content = b"c0,c1\n" + content
    refusal = attempt(content, block_bytes, header=header)
    if isinstance(refusal, str):
        assert MARK not in refusal
        assert "12345" not in refusal
        assert "7777777" not in refusal


@untimed
@given(structured(ordinary | missing), st.floats(-100, 0), st.floats(0, 100))
def test_prepared_records_lie_within_the_bounds(content, low, high):
    with table_file(content) as path:
        try:
            source = open_table(path, missing=Missing("fill", 3.0))
            prepared = prepare(source, bounds=(low, high), scaled=False)
        except DpkvError:
            return
        assert ((prepared.working >= low) & (prepared.working <= high)).all()


any_text = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
any_cell = ordinary | extreme | missing | words | any_text


@untimed
@given(
    st.lists(st.tuples(any_cell, any_cell), min_size=1, max_size=6),
    st.data(),
    st.sampled_from(["\n", "\r\n"]),
    block_sizes,
)
@example([("1", "2"), ("x", "-0")], None, "\n", 64)
def test_where_cells_are_filled_a_row_becomes_what_it_becomes_alone(rows, data, end, block_bytes):
    rows = [tuple(cell.replace("\0", "") for cell in row) for row in rows]

    def filled(some: list[tuple[str, str]]) -> list[list[float]]:
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator=end, quoting=csv.QUOTE_ALL)
        writer.writerows([("a", "b"), *some])
        content = text.getvalue().encode()
        with table_file(content) as path, mock.patch.object(csvfile, "BLOCK_BYTES", block_bytes):
            source = open_table(path, header=True, missing=Missing("fill", 0.5))
            prepared = prepare(source, bounds=(-LIMIT, LIMIT), scaled=False)
        assert prepared.table.n_records == len(some)
        return prepared.table.values.tolist()

    assert repr(filled(rows)) == repr([filled([row])[0] for row in rows])
    if data is not None:  # whatever another row holds
        place = data.draw(st.integers(0, len(rows) - 1))
        other = [row if at == place else ("text", "") for at, row in enumerate(rows)]
        assert repr(filled(other)[place]) == repr(filled(rows)[place])


@untimed
@given(st.lists(any_cell.map(lambda cell: cell.replace("\0", "")), max_size=6), block_sizes)
def test_one_column_has_as_many_records_as_lines(cells, block_bytes):
    lines = [" ".join(cell.split()).replace('"', "").replace(",", "") for cell in cells]
    content = "".join(f"{line}\n" for line in ["name", *lines]).encode()
    with table_file(content) as path, mock.patch.object(csvfile, "BLOCK_BYTES", block_bytes):
        source = open_table(path, header=True, missing=Missing("fill", 0.5))
        if not lines:
            return
        prepared = prepare(source, bounds=(0, 1))
        assert prepared.table.n_records == len(lines)
