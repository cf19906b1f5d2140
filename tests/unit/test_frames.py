"""Data frames of every library are the same table: names, categories, persons, missing cells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpkv
from dpkv.errors import DpkvError, TableError
from dpkv.ledger import Ledger
from dpkv.releases.inputs import open_input
from dpkv.releases.request import Request
from dpkv.tables.schema import TableSchema

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

SCHEMA = TableSchema.model_validate(
    {
        "fields": [
            {"name": "who", "type": "string", "dpkv": {"role": "person"}},
            {
                "name": "age",
                "type": "number",
                "constraints": {"minimum": 0, "maximum": 99},
                "dpkv": {"missing": "ignore"},
            },
            {
                "name": "sex",
                "type": "string",
                "constraints": {"enum": ["F", "M"]},
                "dpkv": {"missing": "category"},
            },
            {"name": "up", "type": "boolean", "dpkv": {"missing": "fill:0.5"}},
        ]
    }
)
CELLS: dict[str, list[Any]] = {
    "who": ["a", "b", "a", None, "c"],
    "age": [1.0, 2.5, None, 40.0, 1e300],
    "sex": ["F", "M", "x", None, "F"],
    "up": [True, False, None, True, False],
    "seen": [1, 2, 3, 4, 5],
}


class Exporter:
    """Another library's frame, of which only Arrow's C stream is known."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


class Exchanger:
    """Another library's frame, of which only the interchange protocol is known."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __dataframe__(self, *given: Any, **named: Any) -> Any:
        return self._table.__dataframe__(*given, **named)


FRAMES = {
    "pandas": pd.DataFrame,
    "pandas, objects": lambda cells: pd.DataFrame(cells).astype(object),
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
    "Arrow's C stream": lambda cells: Exporter(pa.table(cells)),
    "the interchange protocol": lambda cells: Exchanger(pa.table(cells)),
}


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def asked(**options: Any) -> Request:
    return Request(**{"k": 1, "eps": 1, "bounds": None, "mechanism": "lloyd", **options})


@pytest.mark.parametrize("kind", FRAMES)
def test_every_frame_is_the_same_table(kind: str) -> None:
    source = open_input(FRAMES[kind](CELLS), asked(schema=SCHEMA), ".dpkv")
    table = source.read()
    assert table.columns == ("age", "sex=F", "sex=M", "sex=(missing)", "up")
    assert table.values[:, 0].tolist() == [1, 2.5, 0, 40, 0]
    assert table.values[:, 1:4].argmax(axis=1).tolist() == [0, 1, 2, 2, 0]
    assert table.values[:, 4].tolist() == [1, 0, 0.5, 1, 0]
    assert table.counts is not None and table.person_keys is not None
    assert table.counts.tolist() == [True, True, False, True, False]
    assert pd.factorize(table.person_keys)[0].tolist() == [0, 1, 0, 2, 3]


def test_every_frame_has_the_same_account() -> None:
    marks = {
        open_input(make(CELLS), asked(schema=SCHEMA), ".dpkv").fingerprint(Path(".dpkv"))
        for kind, make in FRAMES.items()
    }
    assert len(marks) == 1
    other = {**CELLS, "sex": ["F", "M", "x", None, "M"]}
    found = open_input(pd.DataFrame(other), asked(schema=SCHEMA), ".dpkv")
    assert found.fingerprint(Path(".dpkv")) not in marks
    numbers = {"a": [0.5, 1.0], "b": [2.0, 3.0]}
    plain = {
        open_input(data, asked(bounds=(0, 9)), ".dpkv").fingerprint(Path(".dpkv"))
        for data in (*(make(numbers) for make in FRAMES.values()), np.array([[0.5, 2], [1, 3]]))
    }
    assert len(plain) == 1


def test_a_person_may_be_named_by_its_column() -> None:
    for make in FRAMES.values():
        frame = make({name: CELLS[name] for name in ("who", "seen")})
        table = open_input(frame, asked(bounds=(0, 9), person="who"), ".dpkv").read()
        assert table.columns == ("seen",)
        assert pd.factorize(table.person_keys)[0].tolist() == [0, 1, 0, 2, 3]  # type: ignore[arg-type]


def test_texts_of_an_array_may_name_persons() -> None:
    """As numbers they would all be missing, and every row a person of its own."""
    schema = TableSchema.model_validate(
        {
            "fields": [
                {"name": "who", "type": "string", "dpkv": {"role": "person"}},
                {"name": "a", "type": "number", "constraints": {"minimum": 0, "maximum": 9}},
            ]
        }
    )
    cells = [["ann", 1.0], ["bob", 2.5], ["ann", 3.0]]
    for data in (np.array(cells, dtype=object), cells):
        request = asked(schema=schema)
        named = pd.DataFrame(data, columns=["who", "a"])
        expected = open_input(named, request, ".dpkv").read()
        frame = open_input(data, asked(schema=_called(schema)), ".dpkv").read()
        for table in (expected, frame):
            assert table.values[:, 0].tolist() == [1.0, 2.5, 3.0]
            assert pd.factorize(table.person_keys)[0].tolist() == [0, 1, 0]  # type: ignore[arg-type]


def _called(schema: TableSchema) -> TableSchema:
    """Return a schema whose fields are called as those of an array."""
    fields = [
        field.model_copy(update={"name": f"x{number}"})
        for number, field in enumerate(schema.fields, start=1)
    ]
    return schema.model_copy(update={"fields": type(schema.fields)(fields)})


def test_persons_and_weights_may_come_beside_a_frame() -> None:
    columns = {"age": CELLS["seen"], "sex": CELLS["sex"], "up": CELLS["up"]}
    told = {"person": [7, "b", 7, None, None], "weight": [1, 2, 3, 4, 5], "most_weight": 4}
    for make in FRAMES.values():
        table = open_input(make(columns), asked(schema=SCHEMA, **told), ".dpkv").read()
        assert pd.factorize(table.person_keys)[0].tolist() == [0, 1, 0, 2, 3]  # type: ignore[arg-type]
        assert table.weights is not None
        assert table.weights.tolist() == [1024, 2048, 3072, 4096, 4096]
    with pytest.raises(DpkvError, match="person must be one value per row"):
        open_input(pl.DataFrame(columns), asked(schema=SCHEMA, person=[1]), ".dpkv")
    taken = pl.DataFrame({"age": [1.0], "weight": [1.0]})
    with pytest.raises(DpkvError, match="weight must be the name of its column"):
        open_input(taken, asked(bounds=(0, 9), weight=[1], most_weight=1), ".dpkv")


def test_arrays_may_have_a_schema() -> None:
    field = {"name": "x1", "type": "number", "constraints": {"minimum": 0, "maximum": 9}}
    schema = TableSchema.model_validate({"fields": [field]})
    found = dpkv.simulate(np.ones((4, 1)), k=1, eps=1, seed=0, schema=schema)
    assert found.record.bounds.domain["upper"] == [9.0]
    with pytest.raises(DpkvError, match="no field 'a'"):
        dpkv.simulate(np.ones((4, 1)), k=1, eps=1, seed=0, schema=schema, columns=["a"])


BAD = {
    "text": (pl.DataFrame({"a": ["x", "secretcell"]}), 'column "a" is not numeric'),
    "dates": (pl.DataFrame({"a": pd.to_datetime(["2024-01-31"] * 2)}), "turn dates into numbers"),
    "lists": (pl.DataFrame({"a": [[1], [2]]}), 'column "a" is not numeric'),
    "nothing": (pl.DataFrame({"a": [1.0, None]}), 'record 2, column "a": empty, NaN or infinite'),
    "no rows": (pl.DataFrame({"a": np.empty(0)}), "has no rows"),
    "not computed": (pl.LazyFrame({"a": [1.0]}), "not computed yet"),
}


@pytest.mark.parametrize(("frame", "message"), BAD.values(), ids=BAD)
def test_frames_that_are_refused(frame: Any, message: str) -> None:
    with pytest.raises(TableError, match=message) as refusal:
        dpkv.release(frame, k=1, eps=1, bounds=(0, 9))
    assert "secretcell" not in str(refusal.value)
    assert not Ledger(Path(".dpkv")).read().entries


@pytest.mark.parametrize("kind", ["path", "table", "pandas", "polars", "pyarrow", "stream"])
def test_every_function_takes_every_kind_of_table(tmp_path: Path, kind: str) -> None:
    values = np.random.default_rng(0).uniform(0.1, 0.9, (90, 2))
    frame = pd.DataFrame(values, columns=["a", "b"])
    frame.to_csv(tmp_path / "t.csv", index=False)
    data: Any = {
        "path": tmp_path / "t.csv",
        "table": dpkv.read_table(tmp_path / "t.csv", header=True),
        "pandas": frame,
        "polars": pl.from_pandas(frame),
        "pyarrow": pa.table(frame),
        "stream": Exporter(pa.table(frame)),
    }[kind]
    fields = [
        {"name": name, "type": "number", "constraints": {"minimum": 0, "maximum": 1}}
        for name in ("b", "a")
    ]
    schema = TableSchema.model_validate({"fields": fields, "dpkv": {"header": True}})
    asked: dict[str, Any] = {"k": 2, "eps": 1, "mechanism": "lloyd", "schema": schema}
    rehearsed = dpkv.simulate(data, seed=0, **asked)
    assert rehearsed.record.columns == ("b", "a")
    exact = dpkv.simulate(values[:, ::-1], seed=0, columns=["b", "a"], **asked)
    np.testing.assert_array_equal(rehearsed.centers, exact.centers)
    assert dpkv.release(data, workspace=None, **asked).record.n_records == 90
    calibrated = dpkv.calibrate(data, eps=1, k=2, schema=schema, method="randomized", n_est=20)
    assert calibrated.columns == ("b", "a") and calibrated.domain["source"] == "given"
    model = dpkv.PrivateKMeans(2, 1.0, mechanism="lloyd", schema=schema, workspace=None).fit(data)
    assert set(model.feature_names_in_) == {"a", "b"}
    assert model.predict(frame[list(model.feature_names_in_)]).shape == (90,)


def test_a_table_whose_first_row_may_be_a_record_is_not_released(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("Ann,Bob\n" + "0.5,0.25\n" * 30, encoding="utf-8")
    asked: dict[str, Any] = {"k": 1, "eps": 1, "bounds": (0, 1), "seed": 0}
    table = dpkv.read_table(tmp_path / "t.csv", missing="fill:0")
    with pytest.raises(TableError, match="names or a record"):
        dpkv.simulate(table, **asked)
    table = dpkv.read_table(tmp_path / "t.csv", header=False, missing="ignore")
    with pytest.raises(TableError, match="empty, NaN or infinite"):
        dpkv.simulate(table, **asked)
    done = dpkv.simulate(table, **asked, missing="ignore")
    assert done.record.n_records == 31
