"""``dpkv schema``, and from a draft to a release over persons in three commands."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from support.run import Run, in_process, refusal

from dpkv.audits.run import Job
from dpkv.errors import UsageError
from dpkv.paper.datasets import hospital

SECRET = "31337"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "v.csv").write_text(hospital.hospital_visits(2, 1500), encoding="utf-8")
    return tmp_path


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path) -> Run:
    return in_process(monkeypatch, capsys, home, secret=SECRET)


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def test_from_a_draft_to_a_release_over_persons(run: Run, home: Path) -> None:
    drafted = run("schema", "v.csv")
    assert drafted.returncode == 0, drafted.stderr
    assert "schema written to v.schema.json: 7 columns" in drafted.stdout
    assert "the schema still lacks: minimum, maximum" in drafted.stderr
    asked = ("release", "v.csv", "--k=2", "--eps=1", "--mechanism=synopsis")
    assert "the schema still lacks" in refusal(run(*asked))
    assert "exists: remove it first" in refusal(run("schema", "v.csv"))
    (home / "v.schema.json").write_text(hospital.schema_text(), encoding="utf-8")
    result = run(*asked)
    assert result.returncode == 0, result.stderr
    record = json.loads((home / "release" / "release.json").read_text(encoding="utf-8"))
    assert len(record["plan"]["schema_digest"]) == 64
    assert record["plan"]["unit"]["person_column"] == "patient_id"
    for row in rows_of(home / "release" / "centers.csv"):
        assert abs(float(row["sex=F"]) + float(row["sex=M"]) - 1.0) < 1e-9
    assert run("verify", "release/release.json").returncode == 0


def test_a_check_is_for_the_curators_eyes(run: Run, home: Path) -> None:
    (home / "own.json").write_text(hospital.schema_text(), encoding="utf-8")
    assert "has no schema beside it" in refusal(run("schema", "v.csv", "--check"))
    result = run("schema", "v.csv", "--check", "--schema=own.json")
    assert result.returncode == 0 and "for the curator's eyes only" in result.stdout
    told = json.loads(run("schema", "v.csv", "--check", "--schema=own.json", "--json").stdout)
    assert told["visibility"] == "curator-only" and told["n_rows"] == 1500
    ages = [row["age"] for row in rows_of(home / "v.csv")]
    assert told["columns"][0]["n_missing"] == ages.count("")


def test_numbers_by_a_schema_are_calibrated_and_released(run: Run, home: Path) -> None:
    field = {"name": "höhe", "type": "number", "decimalChar": ","}
    field["constraints"] = {"minimum": 0, "maximum": 4}  # type: ignore[assignment]
    schema = {"fields": [field], "dpkv": {"header": True, "encoding": "latin-1", "delimiter": ";"}}
    (home / "t.schema.json").write_text(json.dumps(schema), encoding="utf-8")
    rows = "".join(f"{number % 4},5;x\n" for number in range(150))
    (home / "t.csv").write_bytes(f"höhe;note\n{rows}".encode("latin-1"))
    done = run("calibrate", "t.csv", "--eps=1", "--k=2", "--method=randomized", "--n-est=50")
    assert done.returncode == 0, done.stderr
    done = run("release", "--k=2")
    assert done.returncode == 0, done.stderr
    record = json.loads((home / "release" / "release.json").read_text(encoding="utf-8"))
    assert record["columns"] == ["höhe"] and record["bounds"]["domain"]["upper"] == [4.0]
    assert record["plan"]["schema_digest"] is not None


def test_a_budget_is_for_the_unit_of_the_schema(run: Run, home: Path) -> None:
    (home / "v.schema.json").write_text(hospital.schema_text(), encoding="utf-8")
    told = run("ledger", "set-budget", "v.csv", "--eps=3")
    assert told.stdout == "v.csv: budget 3, 0 spent, 3 left (replace-one, persons by patient_id)\n"
    asked = ("release", "v.csv", "--k=2", "--eps=1", "--mechanism=lloyd")
    assert run(*asked).returncode == 0
    other = ("--person=visit_date", "--columns=age", "--out=other")
    assert "protects persons by patient_id, and what protects persons by visit_date does" in (
        refusal(run(*asked, *other))
    )
    accounts = json.loads(run("ledger", "show", "--json").stdout)["accounts"]
    assert [(a["unit"], a["person"], a["spent"]) for a in accounts] == [
        ("person", "patient_id", "1")
    ]


def test_an_audit_reads_a_table_by_the_schema_of_its_release(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth = {"name": "smokes", "type": "boolean", "trueValues": ["oui"], "falseValues": ["non"]}
    number = {"name": "x", "type": "number", "constraints": {"minimum": 0, "maximum": 9}}
    number["dpkv"] = {"missing": "fill:5"}
    schema = {"fields": [truth, number], "missingValues": ["-9"], "dpkv": {"header": True}}
    schema["dpkv"]["delimiter"] = ";"  # type: ignore[index]
    text = json.dumps(schema)
    (home / "t.schema.json").write_text(text, encoding="utf-8")
    rows = "".join(f"{('oui', 'non')[n % 2]};{n % 10 if n % 7 else -9}\n" for n in range(120))
    (home / "t.csv").write_text(f"smokes;x\n{rows}", encoding="utf-8")
    assert run("release", "t.csv", "--k=2", "--eps=1", "--mechanism=lloyd").returncode == 0
    jobs: list[Job] = []

    def kept(job: Job) -> None:
        jobs.append(job)
        raise UsageError("enough")

    monkeypatch.setattr("dpkv.audits.run.run_audit", kept)
    asked = ("audit", "release/release.json", "--data=t.csv")
    assert "enough" in refusal(run(*asked))
    assert sorted(set(jobs[0].values[:, 0])) == [0.0, 1.0]
    assert jobs[0].values[0, 1] == 5.0 and jobs[0].values.min() == 0.0
    (home / "t.schema.json").write_text(text.replace("-9", "-8"), encoding="utf-8")
    assert "made by a schema, and this is another one" in refusal(run(*asked))
    (home / "t.schema.json").rename(home / "own.json")
    assert "there is none beside the table: give that by --schema" in refusal(run(*asked))
    (home / "own.json").write_text(text, encoding="utf-8")
    assert "enough" in refusal(run(*asked, "--schema=own.json"))


def test_seeding_takes_a_schema(run: Run, home: Path) -> None:
    schema = json.loads(hospital.schema_text())
    for field in schema["fields"]:
        if field["type"] in ("integer", "number"):
            field["dpkv"]["missing"] = "fill:50"
        elif field["name"] in ("sex", "region"):
            field["dpkv"]["missing"] = "category"
    (home / "own.json").write_text(json.dumps(schema), encoding="utf-8")
    asked = ("seed", "v.csv", "--k=2", "--seed=0", "--json")
    told = run(*asked, "--schema=own.json")
    assert told.returncode == 0, told.stderr
    assert "sex=(missing)" in json.loads(told.stdout)["columns"]
    assert "belong to one table" in refusal(run(*asked, "--schema=own.json", "--shards=2"))
