"""One table in many files: the same release as from one, and one account whatever their order."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpkv
from dpkv.errors import TableError
from dpkv.releases.inputs import FileInput
from dpkv.tables import finding
from dpkv.tables.facts import Missing, numeric_facts

RNG = np.random.default_rng(0)
ROWS = RNG.uniform(-1, 1, (90, 2))
CUTS = (0, 20, 20, 75, 90)  # uneven, and one part that has no rows
SECRET = "0.31337"


def write_csv(path: Path, rows: np.ndarray, columns: str = "a,b") -> Path:
    lines = [columns, *(",".join(repr(float(x)) for x in row) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_parquet(path: Path, rows: np.ndarray) -> Path:
    pq.write_table(pa.table({"a": rows[:, 0], "b": rows[:, 1]}), path)
    return path


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    """The rows in parts of both formats."""
    folder = tmp_path / "parts"
    folder.mkdir()
    found = []
    for number, (start, stop) in enumerate(pairwise(CUTS)):
        write, end = (write_parquet, "parquet") if number % 2 else (write_csv, "csv")
        found.append(write(folder / f"part-{number}.{end}", ROWS[start:stop]))
    (folder / ".hidden.csv").write_text("no,table\n", encoding="utf-8")
    (folder / "notes.md").write_text("no table", encoding="utf-8")
    return found


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return write_csv(tmp_path / "whole.csv", ROWS)


def centers(data: object, mechanism: str = "synopsis", **options: object) -> list[list[float]]:
    asked = {"k": 3, "eps": 2, "bounds": (-1, 1), "header": True, **options}
    done = dpkv.simulate(data, seed=4, mechanism=mechanism, **asked)  # type: ignore[arg-type]
    return done.centers.tolist()


@pytest.mark.parametrize("mechanism", ["kvariates", "synopsis", "gupt", "lloyd"])
def test_many_files_are_released_as_one(parts: list[Path], whole: Path, mechanism: str) -> None:
    expected = centers(whole, mechanism)
    assert centers(parts[0].parent, mechanism) == expected
    assert centers(parts, mechanism) == expected
    assert centers(str(parts[0].parent / "part-*"), mechanism) == expected


def test_files_left_out_are_noticed(parts: list[Path], whole: Path) -> None:
    """The planted fault: the last file is not read."""
    assert centers(parts[:-1]) != centers(whole)


def test_rows_of_one_person_may_lie_in_several_files(tmp_path: Path) -> None:
    rows = ["id,x", "p,0.5", "q,-0.5", "p,0.25"]
    (tmp_path / "all.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    folder = tmp_path / "f"
    folder.mkdir()
    for number, row in enumerate(rows[1:]):
        (folder / f"{number}.csv").write_text(f"{rows[0]}\n{row}\n", encoding="utf-8")
    facts = replace(numeric_facts(["x"]), person="id")
    keys = FileInput(folder, facts, workspace=tmp_path / "w").read().person_keys
    assert keys is not None
    assert keys[0] == keys[2] != keys[1]


def test_a_rule_for_missing_cells_is_for_all_files(parts: list[Path]) -> None:
    parts[0].write_text("a,b\n0.5,\n" + "0.5,0.5\n" * 30, encoding="utf-8")
    filled = FileInput(parts[0].parent, numeric_facts(missing=Missing.parse("fill:0.125")))
    assert filled.read().values[0].tolist() == [0.5, 0.125]


def test_a_bad_cell_is_named_by_its_file_and_never_shown(parts: list[Path]) -> None:
    parts[2].write_text(f"a,b\n{SECRET},0.5\n{SECRET},\n", encoding="utf-8")
    with pytest.raises(TableError, match=r"part-2\.csv, .*empty, NaN or infinite") as error:
        centers(parts)
    assert SECRET not in str(error.value)


@pytest.mark.parametrize("columns", ["b,a", "a,b,c", "a"])
def test_files_must_have_the_same_columns(parts: list[Path], columns: str) -> None:
    write_csv(parts[2], np.zeros((3, len(columns.split(",")))), columns)
    with pytest.raises(TableError, match="must have the same columns"):
        centers(parts)


def test_columns_that_are_named_may_stand_in_any_order(parts: list[Path], whole: Path) -> None:
    write_csv(parts[2], ROWS[20:75, ::-1], "b,a")
    assert centers(parts, columns=["a", "b"]) == centers(whole, columns=["a", "b"])


def test_what_names_no_file_is_refused(parts: list[Path], tmp_path: Path) -> None:
    with pytest.raises(TableError, match="twice"):
        finding.find_files([parts[0], parts[0].parent])
    with pytest.raises(TableError, match="no file fits"):
        finding.find_files([tmp_path / "other-*.csv"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(TableError, match="holds no table"):
        finding.find_files([tmp_path / "empty"])
    with pytest.raises(TableError, match="does not exist"):
        centers([*parts, tmp_path / "gone.csv"])


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path: Path) -> None:
    odd = write_csv(tmp_path / "part[1].csv", ROWS)
    write_csv(tmp_path / "part1.csv", ROWS[:50])
    assert finding.find_files([odd]) == [odd]


def test_the_account_is_that_of_the_set_of_files(parts: list[Path], tmp_path: Path) -> None:
    workspace = tmp_path / "w"

    def account(paths: list[Path]) -> str:
        return FileInput(paths, numeric_facts()).fingerprint(workspace)

    known = account(parts)
    assert account(parts[::-1]) == known
    parts[1] = parts[1].rename(parts[1].with_name("renamed.parquet"))
    assert account(parts) == known
    assert account(parts[:-1]) != known
    assert account(parts[:1]) != account(parts[1:2])
    whole = write_csv(tmp_path / "one.csv", ROWS)
    assert account([whole]) == FileInput(whole, numeric_facts()).fingerprint(workspace)


def test_a_budget_is_spent_whatever_the_order(parts: list[Path], tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    asked = {"k": 2, "eps": 1, "bounds": (-1, 1), "header": True, "workspace": workspace}
    once = dpkv.release(parts, **asked)
    again = dpkv.release(parts[::-1], **asked)
    assert once.account is not None
    assert again.account is not None
    assert float(again.account.spent) == 2 * float(once.account.spent)


def test_a_file_that_changes_meanwhile_stops_the_release(parts: list[Path], tmp_path: Path) -> None:
    source = FileInput(parts, numeric_facts(), workspace=tmp_path / "w")
    source.read()
    write_csv(parts[0], ROWS[:5])
    with pytest.raises(TableError, match=r"part-0\.csv was changed while it was read"):
        source.fingerprint(tmp_path / "w")


def test_a_copy_on_disk_is_found_again_until_a_file_changes(
    parts: list[Path], tmp_path: Path
) -> None:
    def read() -> tuple[int, list[str]]:
        table = FileInput(parts, numeric_facts(), memory_limit=64, workspace=tmp_path / "w").read()
        notes = sorted(str(note) for note in (tmp_path / "w" / "tables").glob("*.json"))
        return len(table.values), notes

    first = read()
    assert first[0] == 90
    assert read() == first
    assert len(json.loads(Path(first[1][0]).read_text(encoding="utf-8"))["state"]) == len(parts)
    write_csv(parts[0], ROWS[:5])
    rows, notes = read()
    assert rows == 75
    assert notes != first[1]
