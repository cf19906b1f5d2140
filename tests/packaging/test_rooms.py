"""Who may reach a record: the private room has one door, and these are the only keys to it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "dpkv"
QUESTIONS = "dpkv.records.questions"
PUBLIC_OF_TABLES = {"facts", "finding", "naming", "centers", "labels", "schema", "described"}
"""What ``dpkv.tables`` has that is not about rows: names, public facts, published centres."""
HOLDS_RECORDS = {
    "ArrayRecords",
    "Block",
    "Curator",
    "Records",
    "RecordStore",
    "curator_of",
    "load",
    "map_rows",
    "run_on_points",
}
"""Names that stand for records or for what opens the door, wherever they are imported from."""
PUBLIC_OF_RECORDS = {"Rule", "Weighing"}
"""What of ``dpkv.records.persons`` is a description: how rows are weighed, not what they weigh."""
ROOMS = {
    "mechanisms": set[str](),
    "releases": {"inputs.py", "remote_inputs.py", "produce.py", "charged_bounds.py"},
    "audits/report": set(),
    # Seeding is not private; a draft looks at the shape of cells, and a check is the curator's.
    "cli": {"reading.py", "seed_sources.py", "schema.py"},
}
"""The rooms outside, and their modules that prepare a table or run a release."""


def imports_of(source: str) -> Iterator[tuple[str, str]]:
    """Yield (module, name) of all that a source imports, wherever in it; the name may be empty."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute here"
            yield from ((str(node.module), alias.name) for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            given = node.args[0] if node.args else None
            yield (given.value, "") if isinstance(given, ast.Constant) else ("", "")


def faults_of(source: str, *, has_key: bool = False) -> list[str]:
    """Return the imports of a module outside of the room by which it could reach a record."""
    if has_key:
        return []
    wrong = []
    for module, name in imports_of(source):
        of_records = module == "dpkv.records" or module.startswith("dpkv.records.")
        asks = module == QUESTIONS or module.startswith(f"{QUESTIONS}.")
        asks |= module == "dpkv.records.persons" and name in PUBLIC_OF_RECORDS
        of_tables = module == "dpkv.tables" or module.startswith("dpkv.tables.")
        part = module.removeprefix("dpkv.tables").removeprefix(".") or name
        private = of_tables and part.split(".")[0] not in PUBLIC_OF_TABLES
        whole = module == "dpkv" and name in ("records", "tables")
        stands_for_records = name in HOLDS_RECORDS and module != "dpkv.audits.report.blocks"
        if (of_records and not asks) or private or whole or stands_for_records:
            wrong.append(f"{module} {name}".strip())
    return wrong


MODULES = [(room, path) for room in ROOMS for path in sorted((PACKAGE / room).rglob("*.py"))]


@pytest.mark.parametrize(
    ("room", "path"), MODULES, ids=lambda value: getattr(value, "stem", "room")
)
def test_no_module_outside_can_reach_a_record(room: str, path: Path) -> None:
    has_key = path.name in ROOMS[room] and path.parent == PACKAGE / room
    assert faults_of(path.read_text(encoding="utf-8"), has_key=has_key) == []


def test_the_keys_are_used() -> None:
    """A module that needs its key no longer gives it back."""
    for room, names in ROOMS.items():
        for name in names:
            assert faults_of((PACKAGE / room / name).read_text(encoding="utf-8")), (room, name)


def test_mechanisms_and_questions_read_no_files() -> None:
    for folder in (PACKAGE / "mechanisms", PACKAGE / "records", PACKAGE / "accounting"):
        for path in folder.rglob("*.py"):
            source = path.read_text(encoding="utf-8")
            named = {module.split(".")[0] for module, _ in imports_of(source)}
            assert not named & {"pandas", "pyarrow", "io", "pathlib"}, path
            assert not any(module.startswith("dpkv.tables") for module, _ in imports_of(source))


@pytest.mark.parametrize(
    "source",
    [
        "from dpkv.records import ArrayRecords",
        "from dpkv.records.block import Block",
        "import dpkv.records.arrays",
        "def f():\n    from dpkv.records.curator import Curator",
        "from dpkv import records",
        "from dpkv.tables import load",
        "from dpkv.tables.table import open_table",
        "from dpkv.releases.produce import ArrayRecords",
        "from dpkv.records.questions.question import Records",
        "importlib.import_module('dpkv.records.arrays')",
    ],
)
def test_a_way_to_the_records_is_seen(source: str) -> None:
    assert faults_of(source)


@pytest.mark.parametrize(
    "source",
    ["from dpkv.records.questions import Ask", "from dpkv.tables.naming import default_names"],
)
def test_what_is_public_may_be_imported(source: str) -> None:
    assert not faults_of(source)
