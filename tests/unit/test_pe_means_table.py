"""The committed table beside PE-means: what is in it, and that its reader refuses other files."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "audits" / "pe_means_table.json"


@pytest.fixture(scope="module")
def audit() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "pe_means_table", ROOT / "audits" / "pe_means_table.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_rows_have_the_printed_figures_and_all_ways(audit: ModuleType) -> None:
    rows = audit.read()
    assert [(row.k, row.d) for row in rows] == list(audit.PRINTED)
    for row in rows:
        assert tuple(row.areas[rival] for rival in audit.RIVALS) == audit.PRINTED[row.k, row.d]
        assert set(row.areas) == {audit.FAIR, "dpkv, pure", "diffprivlib", *audit.RIVALS}
        assert row.spread[0] <= row.areas[audit.FAIR] <= row.spread[1]
        assert 0.95 * row.without_privacy < row.areas[audit.FAIR]


def test_what_is_claimed_of_the_table(audit: ModuleType) -> None:
    assert all(row.ahead for row in audit.read())


def test_losing_a_row_is_told_from_winning_it(audit: ModuleType) -> None:
    areas = {audit.FAIR: 2.0, "PE-means": 1.0, "Google": 3.0, "FastLloyd": 3.0}
    assert not audit.Row("planted", 1, 1, 1, 0.5, areas, (2.0, 2.0)).ahead


@pytest.mark.parametrize("field", ["kind", "schema_version"])
def test_another_file_is_refused(audit: ModuleType, tmp_path: Path, field: str) -> None:
    fields = json.loads(RESULT.read_text(encoding="utf-8"))
    path = tmp_path / "other.json"
    path.write_text(json.dumps({**fields, field: 7}), encoding="utf-8")
    with pytest.raises(ValueError, match="does not hold the table"):
        audit.read(path)


def test_areas_are_trapezoids(audit: ModuleType) -> None:
    assert audit.area_of([1.0] * 5) == pytest.approx(3.75)
    assert audit.area_of([4.0, 0.0, 0.0, 0.0, 0.0]) == pytest.approx(0.5)
