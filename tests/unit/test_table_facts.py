"""Columns by their public facts: categories, truth values, missing cells, persons, weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpkv.errors import DpkvError, ParameterError, TableError
from dpkv.tables import Table, csvfile, load, open_table
from dpkv.tables.facts import (
    WEIGHT_LEVELS,
    Booleans,
    Column,
    Dialect,
    Missing,
    TableFacts,
    WeightColumn,
)

IGNORE, CATEGORY = Missing("ignore"), Missing("category")
VISITS = """\
patient,age,sex,smoker,w
7,31,F,true,1
8,40,M ,false,0.5
7,,F,true,9
,22,x,no,
8,9e99,,"",-1
p 9, 50 ,"F",False,nil
"""


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def facts(rule: Missing = IGNORE, **changes: Any) -> TableFacts:
    options: dict[str, Any] = {
        "columns": (
            Column("sex", ("F", "M"), missing=rule),
            Column("age", missing=rule if rule.kind != "category" else IGNORE),
            Column("smoker", booleans=Booleans(), missing=Missing("fill", 0.5)),
        ),
        "person": "patient",
        "weight": WeightColumn("w", 2.0, IGNORE),
        "dialect": Dialect(header=True),
        **changes,
    }
    return TableFacts(**options)


def read(text: str | bytes, how: TableFacts, **options: Any) -> Table:
    path = Path("visits.csv")
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load(open_table(path, how), **options)


def partition(keys: np.ndarray) -> list[int]:
    """Name persons by the order in which they come."""
    return pd.factorize(keys)[0].tolist()


EXPECTED = [[1, 0, 31, 1], [0, 1, 40, 0], [1, 0, 0, 1], [1, 0, 22, 0.5], [1, 0, 0, 0.5]]
EXPECTED += [[1, 0, 50, 0]]


@pytest.mark.parametrize("memory_limit", [0, 1 << 20], ids=["mapped", "in memory"])
@pytest.mark.parametrize("block_bytes", [1, 64, 1 << 23])
def test_every_kind_of_column(
    memory_limit: int, block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csvfile, "BLOCK_BYTES", block_bytes)
    Path("visits.csv").write_text(VISITS, encoding="utf-8")
    for reused in (False, memory_limit == 0):
        table = load(open_table("visits.csv", facts()), memory_limit=memory_limit)
        assert table.reused == reused
        assert table.columns == ("sex=F", "sex=M", "age", "smoker")
        assert table.values.tolist() == EXPECTED
        assert table.counts is not None and table.person_keys is not None
        assert table.weights is not None
        # What weighs nothing: no age, no category, and a weight that is no number.
        assert table.counts.tolist() == [True, True, False, False, False, False]
        assert table.weights[:3].tolist() == [WEIGHT_LEVELS // 2, WEIGHT_LEVELS // 4, WEIGHT_LEVELS]
        assert table.weights[4] == 0
        assert partition(table.person_keys) == [0, 1, 0, 2, 1, 3]


def test_each_rule_for_categories() -> None:
    table = read(VISITS, facts(CATEGORY))
    assert table.columns[:3] == ("sex=F", "sex=M", "sex=(missing)")
    assert table.values[:, :3].argmax(axis=1).tolist() == [0, 1, 0, 2, 2, 0]
    assert (table.values[:, :3].sum(axis=1) == 1).all()
    filled = facts(columns=(Column("sex", ("F", "M"), missing=Missing("fill", "M")),))
    assert read(VISITS, filled).values.argmax(axis=1).tolist() == [0, 1, 0, 1, 1, 0]
    strict = facts(columns=(Column("sex", ("F", "M")),))
    with pytest.raises(TableError, match='line 5, column "sex": none of the column\'s categories'):
        read(VISITS, strict)
    with pytest.raises(TableError, match='line 5, column "smoker": neither true nor false'):
        read(VISITS, facts(columns=(Column("smoker", booleans=Booleans()),)))


def test_a_category_that_spells_like_a_missing_cell_is_a_category() -> None:
    how = TableFacts((Column("land", ("NA", "true")),), dialect=Dialect(header=True))
    assert read("land\nNA\ntrue\n", how).values.tolist() == [[1, 0], [0, 1]]


IDS = {
    "text": ["a", "b", "a", "", None],
    "numbers": [7, 8, 7, None, float("nan")],
    "numbers and text": [7, "8", "7", "", None],
    "floats and text": [7.0, "x", "7", None, ""],
}


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
def test_persons_of_every_kind(ids: list[Any]) -> None:
    cells = ["" if one is None or str(one) == "nan" else str(one).removesuffix(".0") for one in ids]
    how = TableFacts((Column("a"),), person="who", dialect=Dialect(header=True))
    rows = "".join(f"{number},{cell}\n" for number, cell in enumerate(cells))
    table = read("a,who\n" + rows, how)
    assert table.person_keys is not None
    assert partition(table.person_keys) == [0, 1, 0, 2, 3]  # nobody's rows are persons of their own


@pytest.mark.parametrize(
    "ids", [[7, 8, 7, None, 9], ["a", "b", "a", None, "c"], [7.0, 8.0, 7.0, None, 9.5]]
)
def test_persons_of_parquet(ids: list[Any]) -> None:
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"who": ids, "a": range(5), "sex": ["F", "M", "?", None, "F"]})
    frame["up"] = [True, False, True, None, True]
    frame.to_parquet("visits.parquet")
    columns = (
        Column("a"),
        Column("sex", ("F", "M"), missing=CATEGORY),
        Column("up", booleans=Booleans(), missing=Missing("fill", 0.5)),
    )
    table = load(open_table("visits.parquet", TableFacts(columns, person="who")))
    assert table.person_keys is not None
    assert partition(table.person_keys) == [0, 1, 0, 2, 3]
    assert table.values[:, 1:4].argmax(axis=1).tolist() == [0, 1, 2, 2, 0]
    assert table.values[:, 4].tolist() == [1, 0, 1, 0.5, 1]


def test_keys_of_persons_are_keyed_and_leave_no_id_in_the_workspace() -> None:
    read(VISITS.replace("p 9", "secretid"), facts(), memory_limit=0)
    files = [path for path in Path(".dpkv").rglob("*") if path.is_file()]
    assert {path.suffix for path in files} >= {".f64", ".persons", ".counts", ".weights"}
    assert not any(b"secretid" in path.read_bytes() for path in files)


ENCODED = {
    "UTF-16": ("utf-16", None),
    "UTF-16, said": ("utf-16", "utf-16"),
    "Latin-1": ("latin-1", "latin-1"),
    "Windows": ("cp1252", "cp1252"),
    "UTF-8 with a mark": ("utf-8-sig", None),
}


@pytest.mark.parametrize(("spelled", "said"), ENCODED.values(), ids=ENCODED)
@pytest.mark.parametrize("block_bytes", [3, 1 << 23])
def test_encodings(
    spelled: str, said: str | None, block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csvfile, "BLOCK_BYTES", block_bytes)
    columns = (Column("größe"), Column("süß", ("ä", "ö")))
    how = TableFacts(columns, dialect=Dialect(header=True, encoding=said))
    table = read("größe,süß\n1,ö\n2,ä\n".encode(spelled), how)
    assert table.values.tolist() == [[1, 0, 1], [2, 1, 0]]


def test_decimal_commas() -> None:
    how = TableFacts(dialect=Dialect(header=True, decimal=","), missing=Missing("fill", -1.0))
    table = read("a;b\n1,5;2\n-0,25;x\n1.5;3,0\n,5;1e2\n", how)
    assert table.values.tolist() == [[1.5, 2], [-0.25, -1], [-1, 3], [0.5, 100]]
    strict = TableFacts(dialect=Dialect(header=True, decimal=","))
    assert read("a;b\n1,5;2\n", strict).values.tolist() == [[1.5, 2]]
    with pytest.raises(TableError, match=r"column 1 is not numeric|not a number"):
        read("a;b\n1.5;2\n", strict)


def test_codes_for_missing_cells() -> None:
    dialect = Dialect(header=True, missing_values=("-99", "unknown"))
    how = TableFacts((Column("a"),), Missing(), "who", dialect=dialect)
    with pytest.raises(TableError, match='line 3, column "a": empty, NaN or infinite'):
        read("a,who\n1,x\n-99,y\n", how)
    how = TableFacts((Column("a", missing=IGNORE),), person="who", dialect=dialect)
    table = read("a,who\n1,unknown\n-99,unknown\n-99.0,-99\n", how)
    assert table.counts is not None and table.person_keys is not None
    assert table.counts.tolist() == [True, False, False]
    assert len(set(table.person_keys.tolist())) == 3


def test_ragged_rows_and_unknown_columns_are_refused_as_ever() -> None:
    with pytest.raises(TableError, match="line 3: the row has 1 cells"):
        read("a,who\n1,2\n3\n", TableFacts((Column("a"),), person="who"))
    with pytest.raises(DpkvError, match='no column "sex"'):
        read("a,who\n1,2\n", TableFacts((Column("sex", ("F",)),), person="who"))


BAD = {
    "category rule": (lambda: Column("a", missing=CATEGORY), "missing must be"),
    "fill of text": (lambda: Column("a", missing=Missing("fill", "x")), "missing must be fill"),
    "fill too large": (lambda: Column("a", missing=Missing("fill", 1e300)), "missing must be"),
    "fill of no category": (
        lambda: Column("a", ("F",), missing=Missing("fill", "M")),
        "one of the column's categories",
    ),
    "weights without bound": (lambda: WeightColumn("w", float("inf")), "weight must be bounded"),
    "decimal mark": (lambda: Dialect(decimal="x"), "decimal must be"),
    "one mark for both": (lambda: Dialect(decimal=",", delimiter=","), "another mark"),
}


@pytest.mark.parametrize(("make", "message"), BAD.values(), ids=BAD)
def test_facts_that_are_none(make: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        make()
