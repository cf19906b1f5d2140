"""``dpkv synthesize``, errors as JSON, and readers that stop reading."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.run import dpkv, in_process


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("released")
    rows = [f"{3 + i % 7 / 10},{5 + i % 5 / 10}" for i in range(500)]
    (home / "t.csv").write_text("x,y\n" + "\n".join(rows) + "\n", encoding="utf-8")
    asked = ("t.csv", "--header", "--k=2", "--eps=1", "--bounds=0,10", "--mechanism=synopsis")
    result = dpkv("release", *asked, "--export-synopsis", cwd=home)
    assert result.returncode == 0, result.stderr
    return home


def test_rows_are_drawn_from_a_synopsis(released: Path) -> None:
    result = dpkv("synthesize", "release/synopsis.json", "--rows=40", cwd=released)
    assert result.returncode == 0, result.stderr
    assert "1-differentially private" in result.stdout and "nothing is spent" in result.stdout
    with (released / "synthetic-rows.csv").open(encoding="utf-8") as file:
        names, *rows = csv.reader(file)
    assert names == ["x", "y"] and len(rows) == 40
    assert all(0 <= float(cell) <= 10 for row in rows for cell in row)


def test_unverified_claims_are_called_claims(released: Path, tmp_path: Path) -> None:
    text = (released / "release/synopsis.json").read_text(encoding="utf-8")
    (tmp_path / "synopsis.json").write_text(text, encoding="utf-8")
    result = dpkv("synthesize", "synopsis.json", "--rows=5", "--json", cwd=tmp_path)
    found = json.loads(result.stdout)
    assert found["standing"] == "unverified" and not found["releasable"]
    assert "The file claims, unverified" in found["statement"]
    assert (tmp_path / "synthetic-rows-unverified.csv").exists()


def test_centers_of_a_synopsis_are_shown_with_their_fit(released: Path) -> None:
    command = ("seed", "--synopsis", "release/synopsis.json", "--k=2", "--out=again.csv", "--json")
    found = json.loads(dpkv(*command, cwd=released).stdout)
    assert len(found["sizes"]) == len(found["centers"]) == 2
    assert abs(sum(found["sizes"]) - 500) < 200 and found["potential"] >= 0


def test_errors_are_json_where_that_was_asked_for(released: Path) -> None:
    result = dpkv("synthesize", "nowhere.json", "--rows=5", "--json", cwd=released)
    found = json.loads(result.stdout)
    assert result.returncode == found["exit_code"] == 2 and found["kind"] == "error"
    assert found["error"] in result.stderr


def test_a_reader_that_stops_reading_is_no_error(released: Path) -> None:
    asked = ["t.csv", "--header", "--k=2", "--eps=1", "--bounds=0,10", "--out=quiet", "--json"]
    run = subprocess.Popen(
        [sys.executable, "-m", "dpkv", "release", *asked],
        cwd=released,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert run.stdout is not None and run.stderr is not None
    run.stdout.close()
    told = run.stderr.read()
    run.stderr.close()
    run.wait(timeout=300)
    assert (released / "quiet" / "release.json").exists()
    assert "stopped" not in told and "error" not in told


def test_rows_have_the_columns_and_categories_of_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    values = [
        (f"{20 + i % 50}", "ab"[i % 3 == 0], "yes, no"[: 3 + 4 * (i % 2)]) for i in range(600)
    ]
    fields = [
        {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 110}},
        {"name": "kind=x", "type": "string", "constraints": {"enum": ["a", "b"]}},
        {"name": "said", "type": "string", "constraints": {"enum": ["yes", "yes, no"]}},
    ]
    (tmp_path / "t.schema.json").write_text(json.dumps({"fields": fields}), encoding="utf-8")
    with (tmp_path / "t.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["age", "kind=x", "said"], *values])
    release = in_process(monkeypatch, capsys, tmp_path, "release")
    asked = ("t.csv", "--k=2", "--eps=8", "--mechanism=synopsis", "--export-synopsis")
    made = release(*asked, "--header")
    assert made.returncode == 0, made.stderr
    synthesize = in_process(monkeypatch, capsys, tmp_path, "synthesize")
    done = synthesize("release/synopsis.json", "--rows=900")
    assert done.returncode == 0, done.stderr
    with (tmp_path / "synthetic-rows.csv").open(encoding="utf-8") as file:
        names, *rows = csv.reader(file)
    assert names == ["age", "kind=x", "said"] and len(rows) == 900
    assert {row[1] for row in rows} == {"a", "b"}
    assert {row[2] for row in rows} == {"yes", "yes, no"}
    assert 0.55 < sum(row[1] == "a" for row in rows) / 900 < 0.8  # two in three, and 6 sd of chance
    assert all(0 <= float(row[0]) <= 110 for row in rows)
