"""The registry of tables: what another ledger of the same user charged is pointed out."""

from __future__ import annotations

import shutil
import stat
import warnings
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpkv
from dpkv.known_tables import (
    carry_notes,
    name_table,
    note_charge,
    other_ledgers,
    point_out,
    point_out_missing,
)
from dpkv.ledger import Ledger

POINTS = np.random.default_rng(5).uniform(size=(40, 2))
SENTENCE = "another ledger charged this table before"


def said(data: Any, workspace: Path, **options: Any) -> list[str]:
    """Release, and return what the curator was warned of beforehand."""
    options = {"k": 2, "eps": 1, "bounds": (0, 1), "mechanism": "lloyd", **options}
    if isinstance(data, Path):
        options["header"] = True
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        dpkv.release(data, workspace=workspace, **options)
    assert all(one.filename == __file__ for one in heard), "where dpkv.release was called"
    return [str(one.message) for one in heard]


@pytest.fixture
def homes(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "one" / ".dpkv", tmp_path / "two" / ".dpkv"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    np.savetxt(path, POINTS, delimiter=",", header="a,b", comments="")
    return path


@pytest.mark.parametrize("named", [None, "people"])
@pytest.mark.parametrize("bounds", [(0, 1), "private"])
def test_a_table_that_another_ledger_charged_is_pointed_out(
    homes: tuple[Path, Path], file: Path, bounds: Any, named: str | None
) -> None:
    one, two = homes
    asked = {"bounds": bounds, "eps": 500, "dataset": named}
    assert said(file, one, **asked) == said(file, one, **asked) == []
    (sentence,) = said(file, two, **asked)
    assert sentence.startswith(SENTENCE) and sentence.endswith(f": {one / 'ledger.sqlite'}.")
    assert said(POINTS[:30], two) == [], "another table"
    assert said(file, two, release_id="mine", **asked) != []
    assert said(file, two, release_id="mine", **asked) == [], "nothing is charged"


def test_arrays_are_known_by_their_numbers(homes: tuple[Path, Path]) -> None:
    one, two = homes
    assert said(POINTS, one) == []
    assert len(said(POINTS.astype(np.float64, order="F"), two)) == 1
    assert said(POINTS + 1e-9, two) == [], "the planted fault"


def test_without_its_registry_nothing_is_known(
    homes: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The planted fault: it is the registry which tells."""
    said(POINTS, homes[0])
    monkeypatch.setenv("DPKV_REGISTRY", str(tmp_path / "another"))
    assert said(POINTS, homes[1]) == []


def test_a_ledger_begun_anew_is_another_one(homes: tuple[Path, Path]) -> None:
    home = homes[0]
    said(POINTS, home)
    home.rename(home.with_name("away"))
    (sentence,) = said(POINTS, home)
    assert sentence.endswith(f": {home / 'ledger.sqlite'}, an earlier one.")


def test_three_ledgers(homes: tuple[Path, Path], tmp_path: Path) -> None:
    for home in homes:
        said(POINTS, home)
    (sentence,) = said(POINTS, tmp_path / "three" / ".dpkv")
    assert sentence.endswith("ledger.sqlite and 1 more.")


MISSING = "is not here: the workspace was copied or restored from a backup"


def test_a_copied_workspace_is_pointed_out_where_the_other_one_charged(
    homes: tuple[Path, Path],
) -> None:
    """Both have the same identity, entries and notes; each may spend the whole budget."""
    one, two = homes
    assert said(POINTS, one) == []
    shutil.copytree(one, two)
    assert said(POINTS, two) == [], "nothing was spent elsewhere since"
    (sentence,) = said(POINTS, one)
    assert sentence.startswith("entry 3 was charged to this ledger") and MISSING in sentence
    assert said(POINTS, one) == [], "told once"
    assert len(said(POINTS, two)) == 1


def test_a_restored_workspace_is_pointed_out(homes: tuple[Path, Path], tmp_path: Path) -> None:
    home, backup = homes[0], tmp_path / "backup"
    said(POINTS, home)
    shutil.copytree(home, backup)
    said(POINTS, home)
    shutil.rmtree(home)
    shutil.copytree(backup, home)
    (sentence,) = said(POINTS, home)
    assert MISSING in sentence


def test_a_charge_of_another_process_is_not_missing(homes: tuple[Path, Path]) -> None:
    """What was noted after the chain was read is looked for again before it is missed."""
    ledger = Ledger(homes[0])
    known = ledger.prepare()
    entry = ledger.set_budget(dataset="name:x", label="x", eps=Decimal(1)).entry
    note_charge(None, ledger, entry)
    assert point_out_missing(ledger, known) is None
    note_charge(None, ledger, replace(entry, digest="0" * 64))  # the planted fault
    assert point_out_missing(ledger, known) is not None


def test_a_moved_ledger_is_the_same_one(homes: tuple[Path, Path]) -> None:
    one, two = map(Ledger, homes)
    two.prepare()
    charged = one.set_budget(dataset="name:x", label="x", eps=Decimal(1)).entry
    note_charge("a" * 32, one, charged)
    assert point_out("a" * 32, one) is None and point_out("a" * 32, two) is not None
    carry_notes(one, two)
    assert point_out("a" * 32, two) is None
    assert other_ledgers("a" * 32, one) == (str(two.path),)


def damage(registry: Path, how: str) -> None:
    (place,) = (path for path in (registry / "tables").rglob("*") if path.is_file())
    key = registry / "keys" / "registry.key"
    if how == "binary":
        place.write_bytes(b"\xff\xfe")
    elif how == "a folder":
        place.unlink()
        place.mkdir()
    elif how == "short key":
        key.write_bytes(b"x")
    elif how == "no key":
        key.unlink()
    elif how == "a link":
        key.rename(registry / "moved")
        key.symlink_to(registry / "moved")
    else:
        (registry / "tables").rename(registry / "away")
        (registry / "tables").write_text("no folder", encoding="utf-8")


@pytest.mark.parametrize(
    "how", ["binary", "a folder", "short key", "no key", "a link", "no folder"]
)
def test_a_damaged_registry_does_no_harm(
    homes: tuple[Path, Path], registry: Path, how: str
) -> None:
    said(POINTS, homes[0])
    damage(registry, how)
    assert said(POINTS, homes[1]) == []


def test_a_registry_that_cannot_be_made_does_no_harm(
    homes: tuple[Path, Path], registry: Path
) -> None:
    registry.write_text("a file", encoding="utf-8")
    assert said(POINTS, homes[0]) == said(POINTS, homes[1]) == []
    assert registry.read_text(encoding="utf-8") == "a file"


def test_the_registry_is_its_owners_and_tells_nothing_of_tables(
    homes: tuple[Path, Path], registry: Path, file: Path
) -> None:
    said(file, homes[0])
    files = [path for path in registry.rglob("*") if path.is_file()]
    modes = {stat.S_IMODE(path.stat().st_mode) for path in files}
    assert modes == {0o600} and stat.S_IMODE((registry / "keys").stat().st_mode) == 0o700
    account = Ledger(homes[0]).read().accounts()[0].dataset
    assert not any(account in str(path) for path in files), "another key than the workspace's"
    shown: list[str] = []
    name_table(lambda key: shown.append(repr(key)) or "x")
    assert shown == ["TableKey()"]


def test_where_the_registry_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from dpkv.settings import registry_path

    monkeypatch.delenv("DPKV_REGISTRY")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert registry_path() == tmp_path / "dpkv"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert registry_path() == tmp_path / ".local" / "share" / "dpkv"
