"""Tables in object stores, by fsspec's store in memory: the same releases, and sentences."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpkv
from dpkv.engine.file_parts import FilePart
from dpkv.errors import TableError
from dpkv.releases.inputs import FileInput
from dpkv.tables.facts import numeric_facts
from dpkv.tables.finding import find_files, folder_of
from dpkv.tables.objects import ObjectPath, as_path

fsspec = pytest.importorskip("fsspec", reason="needs pip install 'dpkv[objects]'")

ROWS = pd.DataFrame(np.random.default_rng(0).uniform(-1, 1, (120, 2)), columns=["a", "b"])


@pytest.fixture
def store(tmp_path: Path) -> Iterator[str]:
    """The rows in two objects of both formats, and beside them what is no table."""
    memory = fsspec.filesystem("memory")
    memory.pipe("/bucket/t/part-0.csv", ROWS[:50].to_csv(index=False).encode())
    ROWS[50:].to_parquet(tmp_path / "part")
    memory.pipe("/bucket/t/part-1.parquet", (tmp_path / "part").read_bytes())
    memory.pipe("/bucket/t/notes.md", b"no table")
    yield "memory://bucket/t"
    memory.rm("/bucket", recursive=True)


def centers(data: object, **options: object) -> list[list[float]]:
    asked = {"k": 2, "eps": 2, "bounds": (-1, 1), "header": True, **options}
    done = dpkv.simulate(data, seed=4, **asked)  # type: ignore[arg-type]
    return done.centers.tolist()


def test_a_table_in_a_store_is_released_as_one_on_disk(store: str, tmp_path: Path) -> None:
    ROWS.to_csv(tmp_path / "whole.csv", index=False)
    expected = centers(tmp_path / "whole.csv")
    assert centers(store) == expected
    assert centers(f"{store}/part-*") == expected
    assert centers([f"{store}/part-0.csv", f"{store}/part-1.parquet"]) == expected
    assert centers(store, columns=["b"]) != expected


def test_its_account_is_that_of_its_contents(store: str, tmp_path: Path) -> None:
    ROWS[:50].to_csv(tmp_path / "here.csv", index=False)
    there = FileInput(as_path(f"{store}/part-0.csv"), numeric_facts())
    here = FileInput(tmp_path / "here.csv", numeric_facts())
    assert there.fingerprint(tmp_path / "w") == here.fingerprint(tmp_path / "w")


def test_a_release_from_a_store(store: str, tmp_path: Path) -> None:
    done = dpkv.release(store, k=2, eps=1, bounds=(-1, 1), header=True, workspace=tmp_path / "w")
    assert done.record.n_records == len(ROWS)
    assert done.account is not None and float(done.account.spent) == 1


def test_an_object_that_changes_meanwhile_stops_the_release(store: str, tmp_path: Path) -> None:
    source = FileInput([as_path(f"{store}/part-0.csv")], numeric_facts())
    source.read()
    part = FilePart.of(as_path(f"{store}/part-0.csv"), numeric_facts())
    part.check()
    changed = ROWS[1:51].to_csv(index=False).encode()
    fsspec.filesystem("memory").pipe("/bucket/t/part-0.csv", changed)
    with pytest.raises(TableError, match="was changed while it was read"):
        source.fingerprint(tmp_path / "w")
    with pytest.raises(TableError, match="was changed while it was released from"):
        part.check()


@pytest.mark.parametrize("made", [str, Path])
def test_addresses(made: type) -> None:
    path = as_path(made("s3://bucket/a b/x.csv"))
    assert isinstance(path, ObjectPath)
    assert str(path) == f"{path}" == "s3://bucket/a b/x.csv"
    assert (path.scheme, path.name, str(path.parent)) == ("s3", "x.csv", "s3://bucket/a b")
    assert pickle.loads(pickle.dumps(path)) == path
    assert str(folder_of([path, path.parent / "c" / "y.csv"])) == "s3://bucket/a b"


def test_a_file_address_is_a_file_and_a_file_stays_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert as_path("file:///tmp/a%20b.csv") == Path("/tmp/a b.csv")
    assert not isinstance(as_path("C:/x.csv"), ObjectPath)
    monkeypatch.chdir(tmp_path)
    odd = Path("s3:/bucket/x.csv")
    odd.parent.mkdir(parents=True)
    odd.write_text("a\n1\n")
    assert find_files([odd]) == [odd] and not isinstance(find_files([odd])[0], ObjectPath)


def test_what_is_not_there_is_refused(store: str) -> None:
    for name, said in [
        (f"{store}/gone.csv", "does not exist"),
        (f"{store}/gone-*.csv", "no file fits"),
        ("memory://nobody", "does not exist"),
        ("nostore://bucket/x.csv", "no kind of address"),
        ("s3://key:secret@bucket/x.csv", "has credentials in it"),
    ]:
        with pytest.raises(TableError, match=said) as error:
            centers(name)
        assert "secret" not in str(error.value)
    with pytest.raises(TableError, match="must not be given twice"):
        centers([store, f"{store}/part-0.csv"])


@pytest.mark.parametrize("where", ["info", "open", "read"])
def test_a_store_that_fails_is_told_in_a_sentence_that_quotes_nothing(
    store: str, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("0.31337")

    memory = fsspec.filesystem("memory")
    failing = type(memory.open("/bucket/t/part-0.csv")) if where == "read" else type(memory)
    with monkeypatch.context() as patched, pytest.raises(TableError) as error:
        patched.setattr(failing, where, fail, raising=False)
        centers(f"{store}/part-0.csv")
    assert "0.31337" not in str(error.value)
    assert "RuntimeError" in str(error.value)


def test_a_manifest_names_the_files(store: str, tmp_path: Path) -> None:
    ROWS[:50].to_csv(tmp_path / "a.csv", index=False)
    lines = ["# the visits", "", "a.csv", f"{store}/part-1.parquet"]
    manifest = tmp_path / "visits.manifest"
    manifest.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert centers(manifest) == centers(store)
    shuffled = tmp_path / "again.manifest"
    shuffled.write_text("\n".join(lines[::-1]), encoding="utf-8")

    def account(path: Path) -> str:
        return FileInput(path, numeric_facts()).fingerprint(tmp_path / "w")

    both = FileInput(find_files([store]), numeric_facts())
    assert account(manifest) == account(shuffled) == both.fingerprint(tmp_path / "w")


def test_a_manifest_may_lie_in_the_store(store: str) -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe("/bucket/t/all.manifest", b"part-0.csv\npart-1.parquet\n")
    assert centers(f"{store}/all.manifest") == centers(f"{store}/part-*")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (b"\n# nothing\n", "names no file"),
        (b"gone.csv\n", "does not exist"),
        (b"other.manifest\n", "names another manifest"),
        (b"a.csv\na.csv\n", "must not be given twice"),
        (b"\xff\xfe\x00", "is no manifest"),
    ],
)
def test_a_bad_manifest_is_refused(tmp_path: Path, lines: bytes, said: str) -> None:
    ROWS.to_csv(tmp_path / "a.csv", index=False)
    (tmp_path / "x.manifest").write_bytes(lines)
    with pytest.raises(TableError, match=said):
        centers(tmp_path / "x.manifest")
