"""One pass over a file, a pipe or an iterator: the same numbers and refusals as for a table."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from dpkv.domain import Box
from dpkv.errors import DomainError, ParameterError, TableError
from dpkv.seeding import BUILDERS, sk_means, summarise_stream
from dpkv.streams import CHUNK_ROWS, as_stream, recut
from dpkv.tables import csvfile, open_stream, open_table, prepare

TEXT = "a,b\n1.5,-2\n.1,3e-7\n4,5\n"
ROWS = [[1.5, -2.0], [0.1, 3e-7], [4.0, 5.0]]


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def all_of(stream) -> list[list[float]]:
    return np.concatenate(list(stream.chunks())).tolist()


def piped(monkeypatch, content: str | bytes) -> None:
    data = content.encode() if isinstance(content, str) else content
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))


def refusal(source, **options) -> str:
    with pytest.raises((TableError, ParameterError, DomainError)) as refused:
        all_of(open_stream(source, **options))
    assert not Path(".dpkv").exists()
    return str(refused.value)


class Trickle(io.RawIOBase):
    """A pipe whose bytes come one at a time, and which is never asked for anything but bytes."""

    def __init__(self, data: bytes) -> None:
        self._left = data

    def read1(self, _size: int) -> bytes:
        return self.read(1)

    def read(self, size: int = -1) -> bytes:
        piece, self._left = self._left[:size], self._left[size:]
        return piece


# -- files, pipes and iterators yield the same -----------------------------------------------------


@pytest.mark.parametrize("zipped", [False, True], ids=["bare", "gzip"])
@pytest.mark.parametrize("way", ["file", "stdin", "trickle", "fifo"])
def test_csv_from_anywhere(way, zipped, monkeypatch):
    content = gzip.compress(TEXT.encode()) if zipped else TEXT.encode()
    source = "-"
    if way == "stdin":
        piped(monkeypatch, content)
    elif way == "trickle":
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=Trickle(content)))
    elif way == "file":
        source = Path("table.csv")
        source.write_bytes(content)
    else:
        source = Path("pipe")
        os.mkfifo(source)
        threading.Thread(target=source.write_bytes, args=(content,), daemon=True).start()
    stream = open_stream(source)
    assert stream.columns == ("a", "b")
    assert stream.rereadable is (way == "file")
    assert all_of(stream) == ROWS
    assert stream.n_records == 3
    if way == "file":
        assert all_of(stream) == ROWS
    else:
        with pytest.raises(TableError, match="can be read only once"):
            all_of(stream)
    assert not Path(".dpkv").exists()


@pytest.mark.processes
def test_a_real_pipe_into_a_real_process(tmp_path):
    program = (
        "import sys; from dpkv.seeding import sk_means; from dpkv.tables import open_stream\n"
        "found = sk_means(open_stream('-', bounds=(-1, 1)), 3, summary_points=20, rng=1)\n"
        "print(found.summary.n_records, found.summary.weights.sum(), found.centers.shape)"
    )
    rng = np.random.default_rng(0)
    lines = "\n".join(f"{x:.4f},{y:.4f}" for x, y in rng.uniform(-1, 1, (30_000, 2)))
    done = subprocess.run(
        [sys.executable, "-c", program], input=lines, capture_output=True, text=True, check=True,
        cwd=tmp_path,
    )  # fmt: skip
    assert done.stdout.split() == ["30000", "30000.0", "(3,", "2)"]
    assert not list(tmp_path.iterdir())  # no copy of the stream is left, nor a workspace


def test_long_text_in_many_blocks(monkeypatch):
    monkeypatch.setattr(csvfile, "BLOCK_BYTES", 1000)
    values = np.random.default_rng(0).integers(-99, 99, (5000, 3)) / 4
    text = "u;v;w\r\n" + "".join(f"{a};{b};{c}\r\n" for a, b, c in values)
    piped(monkeypatch, text)
    stream = open_stream("-", columns=["w", "u"])
    assert all_of(stream) == values[:, [2, 0]].tolist()


def test_parquet_is_a_file(monkeypatch):
    frame = pd.DataFrame({"a": [1.5, 2.0], "b": [1, 2]})
    frame.to_parquet("table.parquet")
    stream = open_stream("table.parquet")
    assert stream.columns == ("a", "b")
    assert all_of(stream) == all_of(stream) == [[1.5, 1.0], [2.0, 2.0]]
    piped(monkeypatch, Path("table.parquet").read_bytes())
    assert refusal("-") == ("standard input is a binary file: give CSV; Parquet must be a file.")


@pytest.mark.parametrize(
    "items",
    [
        [[1.5, -2.0], [0.1, 3e-7], [4.0, 5.0]],
        [np.array([[1.5, -2.0], [0.1, 3e-7]]), (4, 5)],
        [np.empty((0, 2)), ROWS],
    ],
    ids=["rows", "matrices and rows", "an empty matrix"],
)
def test_iterators_of_rows_and_matrices(items):
    assert all_of(as_stream(iter(items))) == ROWS
    stream = open_stream(iter(items))
    assert stream.columns == ("x1", "x2")
    assert all_of(stream) == ROWS
    assert all_of(open_stream(iter(items), columns=["x2"])) == [[row[1]] for row in ROWS]


def test_a_matrix_is_a_stream_that_can_be_read_again():
    stream = as_stream(np.array(ROWS, np.float32))
    assert stream.rereadable
    assert all_of(stream) == all_of(stream)
    assert as_stream(stream) is stream
    large = as_stream(np.zeros((CHUNK_ROWS + 1, 1)))
    assert [len(chunk) for chunk in large.chunks()] == [CHUNK_ROWS, 1]


def test_an_iterator_may_use_its_buffer_again():
    def reusing() -> Iterator[np.ndarray]:
        buffer = np.empty(1)
        for number in range(5):
            buffer[:] = number
            yield buffer

    assert all_of(as_stream(reusing())) == [[0.0], [1.0], [2.0], [3.0], [4.0]]


def test_recut_keeps_the_records_and_their_order():
    values = np.arange(23.0)[:, np.newaxis]
    chunks = [values[:1], values[1:9], values[9:10], values[10:23]]
    pieces = list(recut(chunks, [4, 4, 10, 10, 10]))
    assert [len(piece) for piece in pieces] == [4, 4, 10, 5]
    assert np.concatenate(pieces).tolist() == values.tolist()


# -- domain ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("bounds", [(0, 2), {"center": [1, 1], "radius": 2}])
def test_the_domain_does_what_prepare_does(bounds, scaled):
    Path("table.csv").write_text(TEXT)
    stream = open_stream("table.csv", bounds=bounds, scaled=scaled)
    prepared = prepare(open_table("table.csv"), bounds=bounds, scaled=scaled)
    assert all_of(stream) == prepared.working.tolist()
    points = np.array([[0.25, 0.5]])
    assert stream.restore(points).tolist() == prepared.restore(points).tolist()


def test_missing_cells_are_refused_or_filled(monkeypatch):
    bad = "a,b\n1,2\n,3\n1e300,1\n"
    piped(monkeypatch, bad)
    assert refusal("-").startswith("standard input, line 3, column 1: empty, NaN or infinite.")
    piped(monkeypatch, bad)
    stream = open_stream("-", bounds=(0, 4), scaled=False, missing="fill:2.5")
    assert all_of(stream) == [[1.0, 2.0], [2.5, 3.0], [2.5, 1.0]]
    row = np.array([np.nan, 1.0])
    stream = open_stream(iter([row]), bounds=(0, 4), scaled=False, missing="fill:2")
    assert all_of(stream) == [[2.0, 1.0]]
    assert np.isnan(row[0])  # the caller's own array stays as it is


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([], "the stream has no rows"),
        ([[1.0, np.nan]], 'the stream, record 1, column "x2": empty, NaN or infinite'),
        ([[1.0, 2.0], [1.0]], "a stream must yield rows 2 columns wide. Got shape (1,) instead."),
        ([["a", "b"]], "a stream must yield rows of numbers"),
        ([np.zeros((2, 2, 2))], "with at least one column. Got shape (2, 2, 2) instead."),
        ([[]], "with at least one column"),
        ([[2.0**60]], "beyond ±2^53"),
    ],
)
def test_iterators_are_refused_like_tables(items, message):
    assert message in refusal(iter(items))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "standard input is empty"),
        (b"a,b\n", "standard input has no rows"),
        (b"a,b\n1,2\n3\n", "standard input, line 3: the row has 1 cells"),
        (b"a,b\nx,2\n", "column 1 is not numeric"),
        (gzip.compress(TEXT.encode(), mtime=0)[:-12], "standard input is damaged"),
        (b"a,b\n\x00,1\n", "is a binary file"),
    ],
)
def test_pipes_are_refused_like_tables(content, message, monkeypatch):
    piped(monkeypatch, content)
    assert message in refusal("-")


def test_other_refusals():
    assert "does not exist" in refusal("absent.csv")
    assert "is a directory" in refusal(".")
    Path("table.csv").write_text(TEXT)
    assert "the domain has 3 columns" in refusal("table.csv", bounds=Box((0, 0, 0), (1, 1, 1)))
    assert "missing must be 'refuse' or 'fill:VALUE'" in refusal("table.csv", missing="ignore")
    assert "missing must be refuse, ignore" in refusal("table.csv", missing="skip")
    assert "has no column" in refusal(iter(ROWS), columns=["a"])


def test_a_file_that_changes_between_two_passes_is_refused():
    Path("table.csv").write_text(TEXT)
    stream = open_stream("table.csv")
    all_of(stream)
    Path("table.csv").write_text(TEXT + "1,1\n")
    with pytest.raises(TableError, match="was changed while it was read"):
        all_of(stream)


def test_a_file_that_disappears_is_refused(monkeypatch):
    Path("table.csv").write_text(TEXT)
    stream = open_stream("table.csv")
    chunks = stream.chunks()
    next(chunks)
    Path("table.csv").unlink()
    with pytest.raises(TableError, match="was changed while it was read"):
        next(chunks)
    monkeypatch.setattr(sys, "stdin", None)
    assert "standard input is closed" in refusal("-")


def test_progress_is_told_for_a_file():
    Path("table.csv").write_text(TEXT)
    told: list[float] = []
    all_of(open_stream("table.csv", progress=told.append))
    assert told[-1] == 1.0


# -- memory ----------------------------------------------------------------------------------------


def peak_of(work) -> int:
    work()  # what is compiled or imported for the first time does not count
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def chunks_of_noise(n_chunks: int) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(0)
    for _ in range(n_chunks):
        yield rng.normal(size=(CHUNK_ROWS, 4))


@pytest.mark.parametrize("builder", BUILDERS)
def test_memory_does_not_grow_with_the_stream(builder):
    def work(n_chunks: int) -> int:
        return peak_of(lambda: summarise_stream(chunks_of_noise(n_chunks), 100, builder=builder))

    chunk = CHUNK_ROWS * 4 * 8
    assert work(24) < 6 * chunk  # as it comes, gathered, and cut into blocks; never 24 of them


def test_planted_fault_keeping_the_stream_shows_in_the_memory():
    chunk = CHUNK_ROWS * 4 * 8
    assert peak_of(lambda: sk_means(np.concatenate(list(chunks_of_noise(24))), 3)) > 6 * chunk
