"""`dpkv verify`: pass, or exactly what fails; exit codes 0, 2 and 3."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from support.run import Run, dpkv, in_process, refusal

import dpkv as package
from dpkv import foreign
from dpkv.domain import Domain
from dpkv.releases.canonical import digest
from dpkv.releases.files import release_files
from dpkv.releases.kept_releases import parse_record
from dpkv.releases.produce import restore_centers
from dpkv.releases.signing import SigningKey
from dpkv.tables.centers import centers_csv

X = np.random.default_rng(0).uniform(-0.9, 0.9, (60, 2))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a signed release, its keys and its workspace."""
    folder = tmp_path_factory.mktemp("made")
    key = ed25519.Ed25519PrivateKey.generate()
    for name, holder in (("ours", key), ("theirs", ed25519.Ed25519PrivateKey.generate())):
        (folder / f"{name}.pem").write_bytes(
            holder.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
    asked: dict[str, Any] = {"k": 3, "eps": 1.0, "bounds": (-1, 1), "release_id": "mine"}
    record = package.release(X, **asked, workspace=folder / ".dpkv").record
    for place, kept in (("release", record), ("signed", SigningKey(key).sign(record))):
        (folder / place).mkdir()
        for name, text in release_files(kept).items():
            (folder / place / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def home(made: Path, tmp_path: Path) -> Path:
    """A copy of it that may be damaged."""
    return shutil.copytree(made, tmp_path / "home")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path) -> Run:
    return in_process(monkeypatch, capsys, home, "verify")


RECORD = Path("release") / "release.json"
SIGNED = Path("signed") / "release.json"


def edit(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    fields = json.loads(path.read_text(encoding="utf-8"))
    change(fields)
    path.write_text(json.dumps(fields), encoding="utf-8")


def complaint(result: subprocess.CompletedProcess[str]) -> str:
    """Return the one sentence of a record that does not check out."""
    assert result.returncode == 3, result.stderr
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("dpkv: error: ") and "release.json does not check out: " in line
    assert "pass." not in result.stdout, "the verdict is not contradicted"
    return line.partition("does not check out: ")[2]


def checks(result: subprocess.CompletedProcess[str]) -> dict[str, bool | None]:
    return {check["name"]: check["passed"] for check in json.loads(result.stdout)["checks"]}


def test_pass_and_fail_in_processes(home: Path) -> None:
    result = dpkv("verify", RECORD, cwd=home)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert "entry 1 of 2, chain unbroken" in result.stdout
    assert "FAIL" not in result.stdout
    assert "pass. The release is 1-differentially private" in result.stdout
    edit(home / RECORD, lambda fields: fields.update(spent=0.1))
    result = dpkv("verify", RECORD, cwd=home)
    assert "accounting: spent is stated as 0.1, and is " in complaint(result)
    assert "FAIL" in result.stdout


EDITS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "eps": (lambda f: f["plan"].update(eps="0.5"), "above eps = 0.5"),
    "promise": (lambda f: f["guarantee"].update(eps="0.5"), "promise: "),
    "proof": (lambda f: f["guarantee"].update(proof="perfectly-safe"), "promise: "),
    "noise": (lambda f: f["mechanism"].update(noise_scale=1.0), "accounting: "),
    "smoothing": (lambda f: f["mechanism"].update(smoothing_steps=10**12), "accounting: "),
    "gamma": (lambda f: f["plan"].update(gamma=10.0), "mechanism: "),
    "steps": (lambda f: f["steps"].pop(), "accounting: "),
    "spent": (lambda f: f.update(spent=0.25), "spent is stated as 0.25"),
    "centers": (lambda f: f["clusters"][0]["center"].__setitem__(0, 0.123), "centres: "),
    "grid centers": (lambda f: f["grid_centers"][0].__setitem__(0, 77), "centres: "),
    "digest": (lambda f: f.update(centers_digest="0" * 64), "digest: "),
    "notes": (lambda f: f["notes"].append("bounds-of-data"), "promise: "),
    "domain": (lambda f: f["bounds"]["domain"].update(upper=[2.0, 2.0]), "bounds and grid: "),
    "columns": (lambda f: f.update(columns=["age", "income"]), "digest: "),
    "records": (lambda f: f.update(n_records=10**6), "mechanism: "),
    "visibility": (lambda f: f.update(visibility="curator-only"), "promise: "),
    "entry": (lambda f: f["ledger"].update(number=9), "ledger: the ledger has no entry 9"),
    "entry digest": (lambda f: f["ledger"].update(digest="0" * 64), "ledger: "),
    "charge": (lambda f: f["ledger"].update(charged="0.1"), "ledger: the charge is misstated"),
    "no entry": (lambda f: f.update(ledger=None), "kept copy: "),
    "date": (lambda f: f.update(created="2001-01-01T00:00:00+00:00"), "kept copy: "),
    "versions": (lambda f: f["versions"].update(numpy="0.1"), "kept copy: "),
    "id": (lambda f: f.update(release_id="yours"), "ledger: the entry is of another release"),
}


@pytest.mark.parametrize(("change", "words"), EDITS.values(), ids=EDITS)
def test_an_altered_record_is_found(
    change: Callable[[dict[str, Any]], Any], words: str, run: Run, home: Path
) -> None:
    edit(home / RECORD, change)
    assert words in complaint(run(RECORD))
    result = run(RECORD, "--json")
    assert result.returncode == 3 and json.loads(result.stdout)["passed"] is False
    assert False in checks(result).values()


@pytest.mark.parametrize("kind", ["record", "signed"])
def test_an_altered_signed_record_is_found_without_a_workspace(
    kind: str, run: Run, home: Path
) -> None:
    shutil.rmtree(home / ".dpkv")
    path = SIGNED if kind == "signed" else RECORD
    edit(home / path, lambda fields: fields.update(created="2001-01-01T00:00:00+00:00"))
    result = run(path)
    if kind == "signed":
        assert "signature: the signature does not fit the record" in complaint(result)
    else:
        assert result.returncode == 0, "nothing here tells when a release was made"


def test_json_of_a_good_record(run: Run) -> None:
    result = run(RECORD, "--json")
    assert result.returncode == 0 and result.stderr == ""
    fields = json.loads(result.stdout)
    assert fields["kind"] == "verification" and fields["passed"] is True
    assert fields["release_id"] == "mine"
    assert checks(result) == {
        "bounds and grid": True, "mechanism": True, "accounting": True, "promise": True,
        "centres": True, "clusters": True, "digest": True, "ledger": True, "kept copy": True,
        "signature": None, "vouched for": True,
    }  # fmt: skip


def test_an_altered_file_of_centers_is_found(run: Run, home: Path) -> None:
    table = home / "release" / "centers.csv"
    text = table.read_text(encoding="utf-8")
    for altered in (text.replace("\n", "\r\n"), text + "1.0,1.0\n", text.replace("x1", "x9"), ""):
        table.write_bytes(altered.encode())
        assert "digest: the file of centres was altered" in complaint(run(RECORD))
    table.write_bytes(b"\xff\xfe\0")
    assert "centers.csv cannot be read" in refusal(run(RECORD))
    table.unlink()
    result = run(RECORD)
    assert result.returncode == 0 and "no file of centres beside it" in result.stdout


def test_without_a_ledger_it_says_that_it_was_not_checked(run: Run, home: Path) -> None:
    for options in (["--workspace=nowhere"], ["--workspace=release"]):
        result = run(RECORD, "--json", *options)
        assert result.returncode == 0
        assert [name for name, passed in checks(result).items() if passed is None] == [
            "ledger", "kept copy", "signature", "vouched for",
        ]  # fmt: skip
        assert "no ledger here: ask the curator" in run(RECORD, *options).stdout
    assert sorted(path.name for path in (home / "release").iterdir()) == [
        "centers.csv",
        "release.json",
    ]


def test_the_ledger_may_be_elsewhere(run: Run, home: Path) -> None:
    (home / ".dpkv").rename(home / "kept")
    result = run(RECORD, "--workspace=kept", "--json")
    assert result.returncode == 0 and checks(result)["ledger"] is True


def test_a_tampered_ledger_is_found(run: Run, home: Path) -> None:
    with closing(sqlite3.connect(home / ".dpkv" / "ledger.sqlite", isolation_level=None)) as db:
        db.execute("DROP TRIGGER no_update")
        db.execute("UPDATE entries SET nano_eps = 1")
    assert "ledger: " in complaint(run(RECORD)) and "entry 1 was altered" in run(RECORD).stderr
    (home / ".dpkv" / "ledger.sqlite").write_bytes(b"text " * 1000)
    assert "is not a SQLite database" in complaint(run(RECORD))


def test_signatures(run: Run, home: Path) -> None:
    signed_home = home / ".dpkv" / "releases" / "mine.json"
    shutil.copy(home / SIGNED, signed_home)
    result = run(SIGNED, "--public-key=ours.pem")
    assert result.returncode == 0 and "by the key expected" in result.stdout
    assert "signed by another key than expected" in complaint(
        run(SIGNED, "--public-key=theirs.pem")
    )
    assert "which is unknown here" in run(SIGNED).stdout
    unsigned = complaint(run(RECORD, "--public-key=ours.pem"))
    assert "signature: a signature was expected, and there is none" in unsigned
    for bad, words in {
        "nowhere.pem": "cannot be read",
        str(RECORD): "--public-key must be",
    }.items():
        assert words in refusal(run(SIGNED, f"--public-key={bad}"))


NO_RECORDS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is not JSON"),
    "cut off": (b'{"schema_version": 1, "kind": "rel', "is not JSON"),
    "another kind": (b'{"schema_version": 1, "kind": "calibration"}', "is not a release record"),
    "a list": (b"[]", "is not a release record"),
    "text": (b"hello", "is not JSON"),
    "binary": (b"\x89PNG\r\n\x1a\n\xff\xfe\0\0", "cannot be read: it must be a text file"),
    "UTF-16": ("{}".encode("utf-16"), "cannot be read: it must be a text file"),
    "deep": (b"[" * 5000, "is no release record: it is nested too deeply"),
}


@pytest.mark.parametrize(("contents", "words"), NO_RECORDS.values(), ids=NO_RECORDS)
def test_what_is_no_record_is_refused(contents: bytes, words: str, run: Run, home: Path) -> None:
    (home / RECORD).write_bytes(contents)
    sentence = refusal(run(RECORD))
    assert words in sentence and "release.json" in sentence


def test_another_version_is_refused(run: Run, home: Path) -> None:
    edit(home / RECORD, lambda fields: fields.update(schema_version=1))
    sentence = refusal(run(RECORD))
    assert "is not a release record of this version of dpkv (see schema_version)" in sentence


def test_paths_that_are_no_record(run: Run, home: Path) -> None:
    assert "nowhere.json does not exist: check the path" in refusal(run("nowhere.json"))
    assert "release cannot be read" in refusal(run("release"))
    assert "cannot be read" in refusal(run(home / RECORD / "below"))
    sentence = refusal(dpkv("verify", "nowhere.json", cwd=home))
    assert "nowhere.json does not exist" in sentence


def texts(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where a record has text."""
    for key, below in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(below, (dict, list)):
            yield from texts(below, (*path, key))
        elif isinstance(below, str):
            yield (*path, key)


def test_unprintable_text_of_a_record_stays_off_the_terminal(run: Run, home: Path) -> None:
    """Records come from others."""
    original = (home / SIGNED).read_text(encoding="utf-8")
    for path in texts(json.loads(original)):
        fields = json.loads(original)
        place = fields
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = "\x1b[31mred\x07"
        (home / SIGNED).write_text(json.dumps(fields), encoding="utf-8")
        result = run(SIGNED)
        assert result.returncode in (2, 3), path
        assert not set("\x1b\x07") & set(result.stdout + result.stderr), path
    (home / SIGNED).write_text(original.replace('"kind"', '"\\u001b[2J"', 1), encoding="utf-8")
    assert "\x1b" not in refusal(run(SIGNED))


def vouched_by(result: subprocess.CompletedProcess[str]) -> list[str]:
    fields = json.loads(result.stdout)
    assert fields["vouched_for"] is bool(fields["vouched_by"])
    assert checks(result)["vouched for"] is (True if fields["vouched_by"] else None)
    return fields["vouched_by"]


def key_of(path: Path) -> str:
    return json.loads(path.read_text(encoding="utf-8"))["signature"]["public_key"]


def test_strict_wants_somebody_who_vouches(run: Run, home: Path) -> None:
    assert run(RECORD, "--strict").returncode == 0, "the ledger here does"
    shutil.rmtree(home / ".dpkv")
    for path in (RECORD, SIGNED):
        assert "vouched for: by nobody" in complaint(run(path, "--strict"))
    for named in ("--public-key=ours.pem", "--trusted-keys=ours.pem"):
        assert run(SIGNED, "--strict", named).returncode == 0, "a key that was named does"
    assert "vouched for" in complaint(run(SIGNED, "--strict", "--trusted-keys=theirs.pem"))
    assert "signature" in complaint(run(SIGNED, "--strict", "--public-key=theirs.pem"))


def test_strict_wants_a_figure_that_is_proved(run: Run, home: Path) -> None:
    pair = np.repeat([[-0.5, -0.5], [0.5, 0.5]], 150, axis=0) + np.linspace(0, 0.01, 300)[:, None]
    asked: dict[str, Any] = {"k": 2, "eps": 15.0, "bounds": (-1, 1), "calibration": "published"}
    done = package.release(pair, **asked, workspace=home / ".dpkv")
    (home / "published").mkdir()
    for name, text in release_files(done.record).items():
        (home / "published" / name).write_text(text, encoding="utf-8")
    path = Path("published") / "release-conditional.json"
    assert run(path).returncode == 0
    result = run(path, "--strict")
    assert result.returncode == 3 and "accounting: no figure can be proved" in result.stderr


def test_who_vouches_is_said(run: Run, home: Path) -> None:
    key = f"the key {key_of(home / SIGNED)}"
    assert vouched_by(run(RECORD, "--json")) == ["the ledger here"]
    assert "by the ledger here" in run(RECORD).stdout
    (home / ".dpkv" / "releases" / "mine.json").write_bytes((home / SIGNED).read_bytes())
    named = "--public-key=ours.pem"
    assert vouched_by(run(SIGNED, "--json")) == ["the ledger here"]
    assert vouched_by(run(SIGNED, "--json", named)) == ["the ledger here", key]
    shutil.rmtree(home / ".dpkv")
    for path in (RECORD, SIGNED):
        assert vouched_by(run(path, "--json")) == []
        assert "pass, but nobody vouches for it" in run(path).stdout
    assert vouched_by(run(SIGNED, "--json", named)) == [key]
    assert "pass. The release is 1-diff" in run(SIGNED, named).stdout
    (home / ".dpkv" / "keys").mkdir(parents=True)
    both = (home / "theirs.pem").read_text() + (home / "ours.pem").read_text()
    (home / ".dpkv" / "keys" / "trusted.pem").write_text(both, encoding="utf-8")
    assert vouched_by(run(SIGNED, "--json")) == [key]
    assert vouched_by(run(SIGNED, "--json", "--trusted-keys=theirs.pem")) == []


def forge(path: Path, values: np.ndarray) -> None:
    """Replace a record's centres, and everything that would tell; sign it with a fresh key."""
    record = parse_record(path.read_text(encoding="utf-8"), path)
    domain = Domain.from_dict(record.bounds.domain)
    grid = domain.grid(record.plan.grid_bits)
    points = grid.quantise(values)
    centers = restore_centers(grid, domain, points)
    moved = zip(record.clusters, centers.tolist(), strict=True)
    clusters = tuple(one.model_copy(update={"center": tuple(place)}) for one, place in moved)
    forged = record.model_copy(
        update={
            "clusters": clusters,
            "grid_centers": tuple(map(tuple, points.tolist())),
            "centers_digest": digest(centers_csv(record.columns, centers, record.sizes)),
            "ledger": None,
            "release_id": None,
            "signature": None,
        }
    )
    signed = SigningKey(ed25519.Ed25519PrivateKey.generate()).sign(forged)
    for name, text in release_files(signed).items():
        path.with_name(name).write_text(text, encoding="utf-8")


def test_a_forged_record_with_a_signature_of_nobody_does_not_pass_as_vouched_for(
    run: Run, home: Path
) -> None:
    """Three exact rows of the table as centres; here is a ledger, and it knows nothing of them."""
    forge(home / RECORD, X[:3])
    result = run(RECORD, "--json")
    assert checks(result)["digest"] is True, "it is consistent"
    assert vouched_by(result) == []
    told = run(RECORD).stdout
    assert "pass, but nobody vouches for it" in told and "pass. " not in told
    assert "charged to no ledger, though there is one here" in told
    assert "which is unknown here" in told
    claim = "The record claims: The release is 1-differentially private"
    assert claim in told and told.count("The release is") == 1
    assert json.loads(result.stdout)["statement"].startswith(claim)
    assert "vouched for: by nobody" in complaint(run(RECORD, "--strict"))
    assert "signed by another key" in complaint(run(RECORD, "--public-key=ours.pem"))


# --- files that are no files ------------------------------------------------------------------


def test_a_pipe_or_a_device_is_refused_and_not_waited_for(run: Run, home: Path) -> None:
    places = [RECORD, Path("release") / "centers.csv", Path(".dpkv") / "releases" / "mine.json"]
    for place in places:
        kept = (home / place).read_bytes()
        for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero")):
            (home / place).unlink()
            make(home / place)
            result = run(RECORD)
            assert result.returncode in (2, 3)
            assert "cannot be read" in result.stderr and "text file" not in result.stderr
        (home / place).unlink()
        (home / place).write_bytes(kept)
    for option in ("--public-key", "--trusted-keys"):
        os.mkfifo(home / f"{option}.pem")
        sentence = refusal(run(SIGNED, f"{option}={option}.pem"))
        assert "cannot be read: it is not an ordinary file" in sentence


def test_a_file_that_is_too_large_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "MOST_RECORD_BYTES", 1000)
    assert "release.json cannot be read: it is larger than " in refusal(run(RECORD))
