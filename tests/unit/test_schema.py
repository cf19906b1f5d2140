"""Schemas: what they say, what they leave open, and every way of being none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpkv
from dpkv.errors import SchemaError, UsageError
from dpkv.paper.datasets import hospital
from dpkv.releases.missing_cells import rules_of
from dpkv.releases.verify import failed, verify
from dpkv.tables.facts import Dialect
from dpkv.tables.schema import TableSchema, find_schema, read_schema, schema_path
from dpkv.tables.schema_check import fit_table
from dpkv.tables.shapes import draft_schema

SECRET = "secretcell"
TABLE = f"""\
patient id,seen,age,height,smoker,city
a1,2024-01-31,31,"1,75",true,{SECRET}
b2,2024-02-28,40,"1,8",false,x
"""


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def number(name: str = "age", low: Any = 0, high: Any = 110, **settings: Any) -> dict[str, Any]:
    constraints = {"minimum": low, "maximum": high}
    return {"name": name, "type": "number", "constraints": constraints, "dpkv": settings}


def category(*texts: Any, name: str = "sex", **settings: Any) -> dict[str, Any]:
    return {"name": name, "type": "string", "constraints": {"enum": texts}, "dpkv": settings}


def saved(*fields: Any, **more: Any) -> Path:
    path = Path("table.schema.json")
    path.write_text(json.dumps({"fields": fields, **more}), encoding="utf-8")
    return path


def test_a_draft_says_what_is_open_and_holds_no_value() -> None:
    path = Path("visits.csv")
    path.write_text(TABLE, encoding="utf-8")
    draft = draft_schema(path, Dialect())
    text = json.dumps(draft)
    assert not any(cell in text for cell in (SECRET, "a1", "2024", "31", "1,75", "40"))
    types = {field["name"]: (field["type"], field["dpkv"]["role"]) for field in draft["fields"]}
    assert types == {
        "patient id": ("string", "person"),
        "seen": ("date", "ignore"),
        "age": ("integer", "number"),
        "height": ("number", "number"),
        "smoker": ("boolean", "number"),
        "city": ("string", "category"),
    }
    assert draft["fields"][3]["decimalChar"] == ","
    schema_path(path).write_text(text, encoding="utf-8")
    assert find_schema(path) == Path("visits.schema.json")
    schema = read_schema(Path("visits.schema.json"))
    question = schema.open_questions()
    assert question is not None
    assert 'minimum, maximum of "age"' in question and '(constraints.enum) of "city"' in question
    with pytest.raises(SchemaError, match='still lacks: minimum, maximum of "age"'):
        schema.facts(["age"])
    assert schema.facts(["smoker"]).coordinates == ("smoker",)


def test_a_draft_of_parquet() -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"id": [1, 2], "a": [0.5, 1], "b": ["x", SECRET], "c": [True, False]})
    frame.to_parquet("visits.parquet")
    draft = draft_schema(Path("visits.parquet"), Dialect())
    assert [field["type"] for field in draft["fields"]] == [
        "integer",
        "number",
        "string",
        "boolean",
    ]
    assert draft["fields"][0]["dpkv"] == {"role": "person"}
    assert SECRET not in json.dumps(draft)


def test_what_a_schema_says() -> None:
    fields = [
        {"name": "who", "type": "string", "dpkv": {"role": "person"}},
        number("age", missing="fill:50", influence=2),
        category("F", "M", missing="category"),
        {"name": "up", "type": "boolean", "trueValues": ["yes"], "falseValues": ["no"]},
        {"name": "w", "type": "number", "constraints": {"maximum": 9}, "dpkv": {"role": "weight"}},
        {"name": "note", "type": "string", "title": "anything", "dpkv": {"role": "ignore"}},
        category(1, 2, 3.5, name="stage"),
    ]
    own = {"header": True, "delimiter": ";", "encoding": "latin1"}
    facts = read_schema(saved(*fields, missingValues=["", "-9"], dpkv=own)).facts()
    assert facts.coordinates[:5] == ("age", "sex=F", "sex=M", "sex=(missing)", "up")
    assert facts.coordinates[5:] == ("stage=1", "stage=2", "stage=3.5")
    assert (facts.person, facts.weight.name, facts.weight.most) == ("who", "w", 9.0)  # type: ignore[union-attr]
    assert facts.dialect == Dialect(True, "latin-1", ";", ".", ("-9",))
    assert [str(c.missing) for c in facts.used] == ["fill:50.0", "category", "refuse", "refuse"]
    schema = read_schema(Path("table.schema.json"))
    assert schema.bounds(["age", "sex", "up"]) == [(0, 110), 3, (0, 1)]
    assert schema.facts(["age"]).used[0].influence == 2.0
    other = read_schema(saved(*fields[:-1], dpkv=own))
    assert schema.digest != other.digest and len(schema.digest) == 64


NESTED = "[" * 100_000
BAD: dict[str, tuple[Any, str]] = {
    "empty": ("", "is not JSON: see its line 1"),
    "not UTF-8": (b"\xff\xfe\xff", "it is no UTF-8 text"),
    "a list": ("[]", "it: input should be"),
    "no fields": ("{}", "fields: field required"),
    "no field": ('{"fields": []}', "fields: list should have at least 1 item"),
    "nested junk": (NESTED, "nested too deeply"),
    "nested in a field": ('{"fields": ' + NESTED, "nested too deeply"),
    "NaN": ('{"fields": [{"name": "a", "constraints": {"minimum": NaN}}]}', "NaN is no number"),
    "too large": ('{"fields": [{"name": "a", "constraints": {"minimum": 1e999}}]}', "too large"),
    "a property twice": ('{"fields": [{"name": "a"}], "fields": []}', "stands in it twice"),
    "a column twice": ([number(), number()], "two fields of one name"),
    "reversed bounds": ([number(low=5, high=1)], "minimum and maximum in this order"),
    "equal text": ([number(low="zero")], "constraints.minimum"),
    "bounds beyond": ([number(high=1e300)], "must stay within"),
    "categories that repeat": ([category("F", "F")], "texts that do not repeat"),
    "a number that repeats a text": ([category("1", 1)], "texts that do not repeat"),
    "no categories": ([category()], "still lacks: categories"),
    "a blank category": ([category("F", " ")], "printable"),
    "a category of junk": ([category("F", {"a": 1})], "constraints.enum"),
    "an unknown role": ([number(role="weigh")], "dpkv.role"),
    "an unknown setting": ([number(rule="ignore")], "dpkv.rule: extra inputs"),
    "an unknown rule": ([number(missing="drop")], "missing must be refuse, ignore"),
    "a rule of categories": ([number(missing="category")], "for a column of numbers"),
    "a fill that is none": ([category("F", missing="fill:M")], "one of the column's categories"),
    "two persons": ([number(), number("p", role="person"), number("q", role="person")], "several"),
    "no influence": ([number(influence=0)], "influence must be between"),
    "infinite influence": ([number(influence=1e9)], "influence must be between"),
    "two decimal marks": ([number() | {"decimalChar": ","}, number("b")], "two decimalChars"),
    "nothing to use": ([number(role="ignore")], "has no column that enters distances"),
    "a date as a number": ([number(role="number") | {"type": "date"}], "type must be integer"),
    "true and false alike": (
        [{"name": "a", "type": "boolean", "trueValues": ["1"], "falseValues": ["1"]}],
        "other texts than falseValues",
    ),
    "an unknown encoding": ({"dpkv": {"encoding": "ebcdic"}}, "encoding must be one of"),
    "an unknown delimiter": ({"dpkv": {"delimiter": "ab"}}, "delimiter must be"),
}


@pytest.mark.parametrize(("contents", "message"), BAD.values(), ids=BAD)
def test_bad_schemas_are_refused_in_a_sentence(contents: Any, message: str) -> None:
    Path("table.csv").write_text("age,sex,b,p,q,a\n1,F,2,3,4,1\n" * 3, encoding="utf-8")
    path = Path("table.schema.json")
    if isinstance(contents, (bytes, str)):
        path.write_bytes(contents if isinstance(contents, bytes) else contents.encode())
    elif isinstance(contents, dict):
        saved(number(), **contents)
    else:
        saved(*contents)
    with pytest.raises(UsageError, match=message) as refusal:
        dpkv.release("table.csv", k=1, eps=1)
    assert len(str(refusal.value)) < 600 and "\n" not in str(refusal.value)
    assert not Path(".dpkv").exists()


def test_a_schema_of_200_megabytes_is_not_read() -> None:
    path = Path("table.schema.json")
    with path.open("wb") as file:
        file.truncate(200 << 20)
    with pytest.raises(SchemaError, match="larger than 8 MB"):
        read_schema(path)


USES = {
    "an unknown column": ({"columns": ["weight"]}, "no field 'weight'"),
    "a person that is used": ({"columns": ["age", "who"]}, "column of persons: it cannot be used"),
    "a column of the schema that the file has not": ({"columns": ["sex"]}, 'no column "sex"'),
    "a schema that is not there": ({"schema": "nowhere.json"}, "does not exist"),
    "private bounds of categories": ({"bounds": "private", "columns": ["city"]}, "with categories"),
    "unscaled categories": ({"scaled": False, "columns": ["city"]}, "belong to a scaled domain"),
}


@pytest.mark.parametrize(("options", "message"), USES.values(), ids=USES)
def test_uses_that_do_not_fit(options: dict[str, Any], message: str) -> None:
    Path("table.csv").write_text("who,age,city\n1,2,x\n", encoding="utf-8")
    who = {"name": "who", "type": "string", "dpkv": {"role": "person"}}
    saved(who, number(), category("F"), category("x", "y", name="city"), dpkv={"header": True})
    with pytest.raises(UsageError, match=message):
        dpkv.release("table.csv", k=1, eps=1, mechanism="lloyd", **options)
    assert not Path(".dpkv/ledger.sqlite").exists()


def test_options_override_a_schema() -> None:
    Path("table.csv").write_text("age,sex\n" + "5,F\n,M\n" * 30, encoding="utf-8")
    saved(number(), category("F", "M"), dpkv={"header": True})
    asked: dict[str, Any] = {"k": 2, "eps": 1, "mechanism": "lloyd", "seed": 0}
    with pytest.raises(UsageError, match="empty, NaN or infinite"):
        dpkv.simulate("table.csv", **asked)
    found = dpkv.simulate("table.csv", missing="ignore", **asked).record
    assert [facts.missing for facts in found.plan.table] == ["ignore", "ignore"]
    assert found.plan.schema_digest == read_schema(Path("table.schema.json")).digest
    found = dpkv.simulate("table.csv", missing="ignore", bounds={"age": [0, 9]}, **asked).record
    assert found.bounds.domain["upper"] == [9.0, 1.0, 1.0]


def hospital_table(rows: int) -> Path:
    path = Path("visits.csv")
    path.write_text(hospital.hospital_visits(1, rows), encoding="utf-8")
    schema_path(path).write_text(hospital.schema_text(), encoding="utf-8")
    return path


def test_the_hospital_is_as_its_schema_says() -> None:
    path = hospital_table(3000)
    n_rows, fits = fit_table(path, read_schema(schema_path(path)))
    assert n_rows == 3000
    assert all(fit.n_outside == 0 for fit in fits)
    assert all(3000 * 0.05 < fit.n_missing < 3000 * 0.15 for fit in fits)
    lines = path.read_text(encoding="utf-8").splitlines()[1:]
    visits = np.unique([line.split(",")[0] for line in lines], return_counts=True)[1]
    assert visits.max() <= hospital.MOST_VISITS and len(visits) < 1500
    incomplete = sum(",," in line or line.endswith(",") for line in lines)
    assert 0.2 < incomplete / 3000 < 0.3


@pytest.mark.parametrize("mechanism", ["synopsis", "lloyd", "gupt", "laplace", "forgy"])
def test_shares_of_every_column_add_up_to_one(mechanism: str) -> None:
    path = hospital_table(2000)
    workspace = Path(".dpkv")
    done = dpkv.release(path, k=3, eps=2, mechanism=mechanism)
    names = list(done.record.columns)
    for column, count in (("sex=", 2), ("region=", 4)):
        shares = done.centers[:, [name.startswith(column) for name in names]]
        assert shares.shape == (3, count)
        np.testing.assert_allclose(shares.sum(axis=1), 1.0, atol=1e-9)
        assert (shares >= 0).all()
    assert done.record.plan.schema_digest is not None
    assert not failed(verify(done.record, workspace=workspace))


@pytest.mark.parametrize(
    "asked",
    [{"mechanism": name} for name in ("auto", "kvariates")]
    + [{"mechanism": "kvariates", "density": "window", "lloyd_steps": n} for n in (None, 0)],
    ids=["auto", "kvariates", "windows", "windows without steps"],
)
def test_theorem_a_takes_categories_where_every_row_counts(asked: dict[str, Any]) -> None:
    path = hospital_table(2000)
    schema = json.loads(schema_path(path).read_text(encoding="utf-8"))
    for field in schema["fields"]:
        field["dpkv"]["missing"] = "category" if field["type"] == "string" else "fill:60"
    schema["fields"][0]["dpkv"] = {"role": "person"}
    schema["fields"][1]["dpkv"] = {"role": "ignore"}
    schema_path(path).write_text(json.dumps(schema), encoding="utf-8")
    done = dpkv.release(path, k=3, eps=2, **asked)
    sexes = [name.startswith("sex=") for name in done.record.columns]
    np.testing.assert_allclose(done.centers[:, sexes].sum(axis=1), 1.0, atol=1e-9)
    assert sum(sexes) == 3
    assert not failed(verify(done.record, workspace=Path(".dpkv")))


def test_theorem_a_takes_no_rows_of_no_weight() -> None:
    path = hospital_table(200)
    with pytest.raises(UsageError, match="kvariates"):
        dpkv.release(path, k=2, eps=1, mechanism="kvariates")


def test_nothing_published_depends_on_who_is_incomplete() -> None:
    """The same seed on tables that differ in their blanks publishes the same but for the draws."""
    path = hospital_table(400)
    records = []
    for blank in (False, True):
        if blank:
            lines = path.read_text(encoding="utf-8").splitlines()
            lines[7] = lines[7].split(",")[0] + ",,,,,,"
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        done = dpkv.simulate(path, k=2, eps=1, mechanism="lloyd", seed=0)
        fields = json.loads(done.record.to_json())
        for drawn in ("centers", "grid_centers", "centers_digest", "created", "clusters"):
            fields.pop(drawn, None)
        records.append(fields)
    assert records[0] == records[1]


def test_a_schema_can_be_given_as_an_object() -> None:
    path = hospital_table(300)
    schema = read_schema(schema_path(path))
    assert isinstance(schema, TableSchema)
    schema_path(path).unlink()
    found = dpkv.simulate(path, k=2, eps=1, mechanism="lloyd", seed=0, schema=schema)
    assert found.record.plan.schema_digest == schema.digest


def test_a_centre_at_a_fill_value_is_flagged() -> None:
    values = np.concatenate([np.full((200, 1), 20.0), np.full((200, 1), np.nan)])
    asked: dict[str, Any] = {"k": 2, "eps": 50, "mechanism": "synopsis", "bounds": (0, 100)}
    told = dpkv.simulate(values, missing="fill:70", seed=0, **asked).record.explanation.warnings
    assert any("filled with 70, and there sits centre" in sentence for sentence in told)
    clean = dpkv.simulate(np.nan_to_num(values, nan=50.0), missing="fill:70", seed=0, **asked)
    assert not any("filled with" in sentence for sentence in clean.record.explanation.warnings)


def test_a_centre_at_a_filled_category_is_flagged_and_rules_are_told() -> None:
    path = Path("t.csv")
    path.write_text("sex,age\n" + "F,20\n" * 99 + "M,60\n" * 99 + ",60\n" * 9, encoding="utf-8")
    settings = number(missing="ignore"), category("F", "M", missing="fill:M")
    saved(*settings, dpkv={"header": True})
    asked: dict[str, Any] = {"k": 2, "eps": 50, "mechanism": "synopsis", "seed": 0}
    record = dpkv.simulate(path, schema="table.schema.json", **asked).record
    told = record.explanation.warnings
    assert any("in sex a missing cell was filled with M, and there" in one for one in told)
    assert rules_of(record.plan) == "their row counts for nothing: age; filled with M: sex"
    assert rules_of(record.plan.model_copy(update={"table": record.plan.table[1:]})) == (
        "filled with M"
    )
