"""``dpkv seed`` with input it must refuse: one sentence, exit code 2, nothing written."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.run import dpkv, refusal

from dpkv import cli
from dpkv.cli.progress import ProgressBar
from dpkv.tables import csvfile

SECRET = "31337.25"  # stands in the tables' cells; no message may show it
DIGITS = "31337"
GOOD = f"height,weight\n1,2\n3,4\n5,{SECRET}\n"
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def in_process(capsys, monkeypatch) -> Run:
    """Run the command line as ``dpkv()`` does, without the second that a process costs."""

    def run(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
        monkeypatch.chdir(cwd)
        monkeypatch.setattr(sys, "argv", ["dpkv", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as leaving:
            cli.main()
        printed = capsys.readouterr()
        return subprocess.CompletedProcess(
            arguments, int(leaving.value.code or 0), printed.out, printed.err
        )

    return run


def everything_in(folder: Path) -> dict[str, bytes | None]:
    """Every path below the folder, with its contents where it is a file."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def refused(run: Run, folder: Path, *arguments: str | Path) -> str:
    """Return the sentence of a refusal that wrote nothing and shows no record."""
    before = everything_in(folder)
    sentence = refusal(run("seed", *arguments, cwd=folder))
    assert everything_in(folder) == before
    assert DIGITS not in sentence
    return sentence


def saved(folder: Path, content: str | bytes, name: str = "table.csv") -> str:
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return name


# --- tables ----------------------------------------------------------------------------------

TABLES = {
    "empty": ("", "table.csv is empty"),
    "header only": ("height,weight\n", "table.csv has no rows"),
    "long row": (GOOD + f"1,2,{SECRET}\n", "table.csv, line 5: the row has 3 cells"),
    "short row": (GOOD + f"{SECRET}\n", "table.csv, line 5: the row has 1 cells"),
    "text": (GOOD + f"1,about {SECRET}\n", "table.csv, line 5, column 2: not a number"),
    "text column": (
        f"height,name\n{SECRET},Ann\n{SECRET},Bob\n",
        "table.csv: column 2 is not numeric: choose the others with --columns, by name",
    ),
    "no number at all": (f"a,b\nx{SECRET},y\nz,w\n", "table.csv: no column is numeric"),
    "NaN": (GOOD + f"{SECRET},nan\n", "table.csv, line 5, column 2: empty, NaN or inf"),
    "missing": (GOOD + f"{SECRET},\n", "table.csv, line 5, column 2: empty, NaN or inf"),
    "infinity": (GOOD + f"-inf,{SECRET}\n", "table.csv, line 5, column 1: empty, NaN"),
    "1e400": (GOOD + f"{DIGITS}e400,1\n", "table.csv, line 5, column 1: empty, NaN"),
    "1e300": (GOOD + f"{DIGITS}e300,1\n", "line 5, column 1: the number is beyond ±2^53"),
    "2^70": (GOOD + f"{2**70},{SECRET}\n", "line 5, column 1: the number is beyond ±2^53"),
    "-2^63": (GOOD + f"-{2**63},{SECRET}\n", "line 5, column 1: the number is beyond ±2^53"),
    "2^53 + 2": (GOOD + f"{2**53 + 2},1\n", "line 5, column 1: the number is beyond ±2^53"),
    "400 digits": (GOOD + DIGITS * 80 + ",1\n", "table.csv, line 5, column 1: empty, NaN"),
    "overlong cell": (GOOD + "x" + DIGITS * 40_000 + ",1\n", "line 5, column 1: not a numb"),
    "open quote": (
        GOOD + f'1,"{SECRET}\n',
        "table.csv: a quote opened on or after line 5 is never",
    ),
    "duplicate names": (
        "height,height\n1,2\n",
        "table.csv has duplicate column names, in columns 1, 2",
    ),
    "nameless column": (f",height\n{SECRET},2\n", "table.csv: column 1 has no name"),
    "binary": (b"\x7fELF\x02\x01\x01\0\0\0" + bytes(50), "table.csv is a binary file"),
    "UTF-16 without a mark": (GOOD.encode("utf-16-le"), "table.csv is a binary file"),
    "damaged gzip": (gzip.compress(GOOD.encode(), mtime=0)[:-9], "table.csv is damaged"),
    "damaged Parquet": (b"PAR1" + bytes(80) + b"PAR1", "table.csv is damaged"),
    "blanks between cells": (f"1 {SECRET}\n3 4\n", "table.csv seems to be separated by blanks"),
    "first row unclear": (f"height,{SECRET}\n3,4\n", "table.csv: the first row is neither"),
}
IN_A_PROCESS = ["empty", "header only", "long row", "text", "NaN", "1e400", "2^70", "binary"]


@pytest.mark.parametrize(("content", "message"), TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("memory_limit", [0, 512])
def test_tables(content, message, memory_limit, tmp_path, in_process):
    table = saved(tmp_path, content)
    sentence = refused(
        in_process, tmp_path, table, "--k", "2", f"--memory-limit={memory_limit}", "--out=c.csv"
    )
    assert message in sentence


@pytest.mark.parametrize("name", IN_A_PROCESS)
def test_tables_in_a_process(name, tmp_path):
    content, message = TABLES[name]
    sentence = refused(dpkv, tmp_path, saved(tmp_path, content), "--k=2", "--memory-limit=0")
    assert message in sentence


def test_trouble_late_in_the_file_leaves_no_copy_of_its_beginning(
    tmp_path, in_process, monkeypatch
):
    monkeypatch.setattr(csvfile, "BLOCK_BYTES", 1024)
    seen = []  # what lay in the workspace while rows were read

    def watch(_bar: ProgressBar, _share: float) -> None:
        seen.append(any((tmp_path / ".dpkv" / "tables").glob("reading-*")))

    monkeypatch.setattr(ProgressBar, "update", watch)
    table = saved(tmp_path, "a,b\n" + f"{SECRET},{SECRET}\n" * 500 + f"{SECRET},oops\n")
    sentence = refused(in_process, tmp_path, table, "--k=2", "--memory-limit=0")
    assert "line 502, column 2: not a number" in sentence
    assert len(seen) > 5
    assert all(seen)


def test_paths_that_are_no_table(tmp_path, in_process):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for path, message in {
        "nowhere.csv": "nowhere.csv does not exist",
        "folder": "folder holds no table",
        "pipe": "pipe is not a regular file",
        "/dev/null": "/dev/null is not a regular file",
    }.items():
        before = sorted(tmp_path.rglob("*"))
        sentence = refusal(in_process("seed", path, "--k", "2", cwd=tmp_path))
        assert message in sentence
        assert sorted(tmp_path.rglob("*")) == before


def test_missing_file_in_a_process(tmp_path):
    assert "nowhere.csv does not exist" in refused(dpkv, tmp_path, "nowhere.csv", "--k", "2")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file(tmp_path, in_process):
    table = saved(tmp_path, GOOD)
    (tmp_path / table).chmod(0)
    sentence = refusal(in_process("seed", table, "--k", "2", cwd=tmp_path))
    assert "table.csv cannot be read: Permission denied" in sentence


# --- parameters ------------------------------------------------------------------------------

PARAMETERS = {
    "k of 0": (["--k=0"], "k must be a whole number of at least 1. Got 0"),
    "negative k": (["--k=-3"], "k must be a whole number of at least 1. Got -3"),
    "k above the records": (["--k=4"], "must be at most the number of records, 3. Got 4"),
    "unknown algorithm": (["--k=2", "--algorithm=magic"], "algorithm must be one of"),
    "repeat of 0": (["--k=2", "--repeat=0"], "repeat must be a whole number of at least 1"),
    "negative repeat": (["--k=2", "--repeat=-1"], "repeat must be a whole number of at least 1"),
    "negative seed": (["--k=2", "--seed=-1"], "seed must be a whole number of at least 0"),
    "negative limit": (["--k=2", "--memory-limit=-1"], "--memory-limit must be at least 0"),
    "unknown column": (["--k=2", "--columns=age"], 'no column "age": check the spelling'),
    "empty column": (["--k=2", "--columns=height,"], 'no column ""'),
    "column twice": (["--k=2", "--columns=height,height"], "columns must not name a column twice"),
    "out is a folder": (["--k=2", "--out=."], "--out must be a file"),
    "rows of no weight": (
        ["--k=2", "--missing=ignore"],
        "missing must be 'refuse' or 'fill:VALUE'",
    ),
    "unknown rule": (["--k=2", "--missing=drop"], "missing must be refuse, ignore, category or"),
}


@pytest.mark.parametrize(("options", "message"), PARAMETERS.values(), ids=PARAMETERS)
def test_parameters(options, message, tmp_path, in_process):
    assert message in refused(in_process, tmp_path, saved(tmp_path, GOOD), *options)


@pytest.mark.parametrize("name", ["k above the records", "out is a folder"])
def test_parameters_in_a_process(name, tmp_path):
    options, message = PARAMETERS[name]
    assert message in refused(dpkv, tmp_path, saved(tmp_path, GOOD), *options)


@pytest.mark.parametrize("options", [["--k=abc"], ["--k=1.5"], [], ["--k=2", "--nonsense"]])
def test_usage(options, tmp_path, in_process):
    # The command line's own parser answers with its usage; only the rest is as everywhere.
    table = saved(tmp_path, GOOD)
    before = everything_in(tmp_path)
    result = in_process("seed", table, *options, cwd=tmp_path)
    assert result.returncode == 2
    assert result.stdout == ""
    assert "Usage: " in result.stderr
    assert "Traceback" not in result.stderr
    assert DIGITS not in result.stderr
    assert everything_in(tmp_path) == before


def test_usage_in_a_process(tmp_path):
    table = saved(tmp_path, GOOD)
    result = dpkv("seed", table, "--k", "abc", cwd=tmp_path)
    assert result.returncode == 2
    assert result.stdout == ""
    assert "'--k'" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == [table]


# --- bounds ----------------------------------------------------------------------------------

BOUNDS = {
    "reversed": ("9,1", "bounds of column 1 must be low,high in this order"),
    "second pair reversed": ("0,1;9,1", "bounds of column 2 must be low,high in this order"),
    "one number": ("5", "--bounds must be low,high pairs separated by semicolons"),
    "three numbers": ("1,2,3", "--bounds must be low,high pairs separated by semicolons"),
    "too many pairs": ("0,1;0,1;0,1", "each of the 2 columns"),
    "infinite": ("0,inf", "bounds of column 1 must be finite"),
    "NaN": ("nan,1", "bounds of column 1 must be finite"),
    "too large": ("0,1e16", "bounds of column 1 must stay within ±2^53"),
    "missing file": ("nowhere.json", "--bounds must be low,high pairs or a JSON file"),
    "a folder": (".", "--bounds must be low,high pairs or a JSON file"),
    "nothing": ("", "--bounds must be low,high pairs or a JSON file"),
}


@pytest.mark.parametrize(("bounds", "message"), BOUNDS.values(), ids=BOUNDS)
def test_bounds(bounds, message, tmp_path, in_process):
    table = saved(tmp_path, GOOD)
    # A limit of 0 would leave a copy of the table, had it been read first.
    sentence = refused(
        in_process, tmp_path, table, "--k=2", f"--bounds={bounds}", "--memory-limit=0"
    )
    assert message in sentence


BOUNDS_FILES = {
    "not JSON": ("{]", "bounds.json is not JSON: see its line 1"),
    "empty": ("", "bounds.json is not JSON"),
    "the table itself": (GOOD, "bounds.json is not JSON"),
    "a number": ("5", "bounds.json must hold an object or a list"),
    "binary": (b"\xff\xfe\x00", "a JSON file that can be read"),
    "a column lacks": ('{"height": [0, 1]}', "Got none for number 2 of them"),
    "numbers by name": ('{"height": 0, "weight": 1}', "one low,high pair for each name"),
    "reversed": ('{"height": [0, 1], "weight": [1, 0]}', "column 2 must be low,high"),
    "wrong length": ('{"lower": [0, 0, 0], "upper": [1, 1, 1]}', "Got 3 and 3"),
    "text": ('[["a", "b"], [0, 1]]', "bounds must be numbers"),
    "too many digits": ('{"lower": 0, "upper": 1' + "0" * 400 + "}", "upper must be numbers"),
    "negative radius": ('{"center": [0, 0], "radius": -1}', "radius must be finite and at least 0"),
}


@pytest.mark.parametrize(("content", "message"), BOUNDS_FILES.values(), ids=BOUNDS_FILES)
def test_bounds_files(content, message, tmp_path, in_process):
    table, bounds = saved(tmp_path, GOOD), saved(tmp_path, content, "bounds.json")
    assert message in refused(in_process, tmp_path, table, "--k=2", f"--bounds={bounds}")


# --- not bad at all --------------------------------------------------------------------------


@pytest.mark.parametrize("bounds", [[], ["--bounds=7,7;0,10"], ["--bounds=0,10", "--no-scale"]])
def test_a_constant_column_is_allowed(bounds, tmp_path, in_process):
    table = saved(tmp_path, "a,b\n7,1\n7,2\n7,9\n")
    result = in_process("seed", table, "--k=3", "--out=c.csv", *bounds, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    centers = (tmp_path / "c.csv").read_text().split()
    assert [line.split(",")[0] for line in centers] == ["a", "7.0", "7.0", "7.0"]
    # k-means++ never takes a record twice while another is left.
    assert sorted(float(line.split(",")[1]) for line in centers[1:]) == pytest.approx([1, 2, 9])


def test_nothing_but_constant_columns_in_a_process(tmp_path):
    table = saved(tmp_path, "a,b\n7,5\n7,5\n7,5\n")
    result = dpkv("seed", table, "--k=2", "--bounds=7,7;5,5", "--out=c.csv", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "c.csv").read_text().splitlines() == ["a,b", "7.0,5.0", "7.0,5.0"]
