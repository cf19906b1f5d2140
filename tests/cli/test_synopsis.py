"""``--mechanism synopsis`` and what its private cells are good for, in real processes."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from support.run import Run, dpkv, in_process, refusal

import dpkv as package
from dpkv.releases.files import release_files
from dpkv.releases.kept_releases import parse_record
from dpkv.releases.signing import SigningKey

ROOT = Path(__file__).resolve().parents[2]
RELEASE = ("release", "--header", "--k=3", "--data=t.csv", "--bounds=-10,10")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "datasets" / "clinic_patients.csv", tmp_path / "t.csv")
    return tmp_path


def test_a_synopsis_is_exported_verified_and_clustered_again(home: Path) -> None:
    asked = (*RELEASE, "--eps=1", "--mechanism=synopsis", "--export-synopsis", "--id=one")
    assert dpkv(*asked, cwd=home).returncode == 0
    checked = dpkv("verify", "release/release.json", "--json", cwd=home)
    assert checked.returncode == 0, checked.stderr
    found = {check["name"]: check["passed"] for check in json.loads(checked.stdout)["checks"]}
    assert found["synopsis"] is True
    ledger = (home / ".dpkv" / "ledger.sqlite").read_bytes()
    seeded = ("seed", "--synopsis=release/synopsis.json", "--k=7", "--seed=1", "--json")
    again = dpkv(*seeded, cwd=home)
    assert again.returncode == 0, again.stderr
    result = json.loads(again.stdout)
    assert (result["spent"], len(result["centers"]), result["release_id"]) == (0, 7, "one")
    assert (result["standing"], result["vouched_by"]) == ("confirmed", ["the ledger here"])
    assert result["guarantee"].startswith("The release is 1-differentially private")
    assert len((home / "centers-from-synopsis.csv").read_text().splitlines()) == 8
    assert (home / ".dpkv" / "ledger.sqlite").read_bytes() == ledger
    path = home / "release" / "synopsis.json"
    path.write_text(path.read_text().replace('"kind": "synopsis"', '"kind":  "synopsis"'))
    altered = dpkv("verify", "release/release.json", cwd=home)
    assert altered.returncode == 3
    assert "the file of the synopsis was altered" in altered.stderr


# -- what a file claims ----------------------------------------------------------------------------

X = np.random.default_rng(0).uniform(-0.9, 0.9, (400, 2))
SYNOPSIS = Path("release") / "synopsis.json"
CLAIM = "The file claims, unverified: The release is "


def write(folder: Path, done: package.Release) -> None:
    folder.mkdir(exist_ok=True)
    for name, text in release_files(done.record, done.synopsis).items():
        (folder / name).write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a release, its synopsis and its workspace."""
    folder = tmp_path_factory.mktemp("made")
    asked: dict[str, Any] = {"k": 3, "eps": 1, "bounds": (-1, 1), "mechanism": "synopsis"}
    write(folder / "release", package.release(X, **asked, workspace=folder / ".dpkv"))
    write(folder / "simulated", package.simulate(X, **asked, seed=1))
    leaky = package.release(X, **{**asked, "bounds": "data"}, workspace=folder / ".dpkv")
    write(folder / "leaky", leaky)
    return folder


@pytest.fixture
def claims(made: Path, tmp_path: Path) -> Path:
    """A copy of it that may be altered."""
    return shutil.copytree(made, tmp_path / "home")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], claims: Path) -> Run:
    return in_process(monkeypatch, capsys, claims)


def edit(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    fields = json.loads(path.read_text(encoding="utf-8"))
    change(fields)
    path.write_text(json.dumps(fields), encoding="utf-8")


def tiny_eps(fields: dict[str, Any]) -> None:
    promise = fields["guarantee"]
    assert promise["eps"] == "1"
    promise["eps"] = "0.001"


def drop(fields: dict[str, Any]) -> None:
    fields["counts"][0] += 5


def nothing(_: dict[str, Any]) -> None:
    """Another spelling of the same JSON."""


UNCONFIRMED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "edited guarantee": (lambda home: edit(home / SYNOPSIS, tiny_eps), "the synopsis was altered"),
    "edited counts": (lambda home: edit(home / SYNOPSIS, drop), "the synopsis was altered"),
    "other spelling": (lambda home: edit(home / SYNOPSIS, nothing), "the synopsis was altered"),
    "no record": (lambda home: (home / "release" / "release.json").unlink(), "no record of it"),
    "no ledger": (lambda _: None, "nobody vouches for its record"),
}
"""What was done to a release of which the workspace is gone, and why it is not believed."""


@pytest.mark.parametrize(("change", "words"), UNCONFIRMED.values(), ids=UNCONFIRMED)
def test_a_claim_that_nothing_confirms_is_not_repeated_as_true(
    change: Callable[[Path], Any], words: str, run: Run, claims: Path
) -> None:
    shutil.rmtree(claims / ".dpkv")
    change(claims)
    result = run("seed", f"--synopsis={SYNOPSIS}", "--k=2", "--seed=1")
    assert result.returncode == 0, result.stderr
    assert "NOT CONFIRMED" in result.stdout
    (last,) = (line for line in result.stdout.splitlines() if "differentially private" in line)
    assert last.startswith(CLAIM) and words in last
    assert (claims / "centers-from-synopsis-unverified.csv").exists()
    assert not (claims / "centers-from-synopsis.csv").exists()
    fields = json.loads(run("seed", f"--synopsis={SYNOPSIS}", "--k=2", "--json").stdout)
    assert (fields["standing"], fields["guarantee"]) == ("unverified", None)
    assert fields["releasable"] is False and fields["vouched_by"] == []
    assert words in fields["reason"] and fields["statement"].startswith(CLAIM)
    found = package.read_synopsis(claims / SYNOPSIS, workspace=claims / ".dpkv")
    assert found.standing is not None and found.standing.statement == fields["statement"]


def test_an_edited_synopsis_is_found_beside_the_ledger_too(run: Run, claims: Path) -> None:
    edit(claims / SYNOPSIS, tiny_eps)
    result = run("seed", f"--synopsis={SYNOPSIS}", "--k=2")
    assert CLAIM in result.stdout and "NOT CONFIRMED" in result.stdout
    checked = run("verify", SYNOPSIS)
    assert checked.returncode == 3
    assert "the file of the synopsis was altered" in checked.stderr


def test_the_kept_record_confirms_a_synopsis_on_its_own(run: Run, claims: Path) -> None:
    (claims / "release" / "release.json").unlink()
    asked = ("seed", f"--synopsis={SYNOPSIS}", "--k=2", "--json")
    assert json.loads(run(*asked).stdout)["standing"] == "confirmed"
    (claims / "release" / "release.json").write_text("{", encoding="utf-8")
    assert json.loads(run(*asked).stdout)["standing"] == "confirmed"
    checked = run("verify", SYNOPSIS, "--json")
    assert checked.returncode == 0
    assert json.loads(checked.stdout)["vouched_by"] == ["the ledger here"]


def test_a_trusted_key_confirms_a_synopsis(run: Run, claims: Path) -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    path = claims / "release" / "release.json"
    signed = SigningKey(key).sign(parse_record(path.read_text(encoding="utf-8"), path))
    path.write_text(signed.to_json(), encoding="utf-8")
    shutil.rmtree(claims / ".dpkv")
    asked = ("seed", f"--synopsis={SYNOPSIS}", "--k=2", "--json")
    assert json.loads(run(*asked).stdout)["standing"] == "unverified"
    (claims / ".dpkv" / "keys").mkdir(parents=True)
    (claims / ".dpkv" / "keys" / "trusted.pem").write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    fields = json.loads(run(*asked).stdout)
    assert fields["standing"] == "confirmed"
    assert fields["vouched_by"] == [f"the key {SigningKey(key).public_key}"]


@pytest.mark.parametrize(
    ("file", "suffix", "words"),
    [
        ("simulated/synopsis-not-releasable.json", "not-releasable", "a seeded simulation"),
        ("leaky/synopsis-conditional.json", "conditional", "conditional on the data"),
    ],
    ids=["simulated", "conditional"],
)
def test_what_is_made_of_a_stamped_synopsis_is_stamped(
    file: str, suffix: str, words: str, run: Run, claims: Path
) -> None:
    result = run("seed", f"--synopsis={file}", "--k=2")
    assert result.returncode == 0, result.stderr
    assert "differentially private" not in result.stdout and words in result.stdout
    assert [path.name for path in claims.glob("*.csv")] == [f"centers-from-synopsis-{suffix}.csv"]
    fields = json.loads(run("seed", f"--synopsis={file}", "--k=2", "--json").stdout)
    assert fields["releasable"] is False and fields["guarantee"] is None
    assert suffix in fields["centers_file"]
    run("seed", f"--synopsis={file}", "--k=2", "--out=mine.csv")
    assert [path.name for path in claims.glob("mine*")] == [f"mine-{suffix}.csv"]


def test_a_synopsis_is_verified_by_its_record(run: Run, claims: Path) -> None:
    result = run("verify", SYNOPSIS)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("synopsis of release ")
    assert "covered by the same guarantee" in result.stdout
    assert run("verify", SYNOPSIS, "--strict").returncode == 0
    for name in ("simulated/synopsis-not-releasable.json", "leaky/synopsis-conditional.json"):
        assert run("verify", name).returncode == 0
    shutil.rmtree(claims / ".dpkv")
    assert "pass, but nobody vouches for it" in run("verify", SYNOPSIS).stdout
    (claims / "release" / "release.json").unlink()
    assert "put its release.json beside it" in refusal(run("verify", SYNOPSIS))


def test_a_pipe_or_a_device_is_no_synopsis(run: Run, claims: Path) -> None:
    os.mkfifo(claims / "pipe.json")
    (claims / "zero.json").symlink_to("/dev/zero")
    for name in ("pipe.json", "zero.json"):
        sentence = refusal(run("seed", f"--synopsis={name}", "--k=2"))
        assert "cannot be read: it is not an ordinary file" in sentence


def test_what_goes_with_a_synopsis_and_what_does_not(home: Path) -> None:
    papers = (*RELEASE, "--eps=1", "--mechanism=kvariates")
    refused = dpkv(*papers, "--export-synopsis", cwd=home)
    assert refused.returncode == 2
    assert "--export-synopsis needs --mechanism synopsis" in refused.stderr
    assert not (home / "release").exists() and not (home / ".dpkv").exists()
    for arguments, words in (
        (("seed", "--k=2"), "DATA must be given"),
        (("seed", "t.csv", "--synopsis=x.json", "--k=2"), "takes the place of DATA"),
        (("seed", "--synopsis=x.json", "--k=2"), "x.json does not exist"),
        (("seed", "--synopsis=t.csv", "--k=2"), "t.csv is not JSON"),
        ((*papers, "--delta=1e-6"), "delta must be 0 for mechanism 'kvariates'"),
    ):
        result = dpkv(*arguments, cwd=home)
        assert result.returncode == 2, arguments
        assert words in result.stderr


def test_a_delta_that_is_of_no_use_is_not_charged(home: Path) -> None:
    asked = (*RELEASE, "--eps=1", "--mechanism=synopsis", "--delta=1e-6")
    done = dpkv(*asked, cwd=home)
    assert done.returncode == 0, done.stderr
    assert "The release is 1-differentially private" in done.stdout
    assert "delta was not used, nor charged" in done.stderr
    shown = json.loads(dpkv("ledger", "show", "--json", cwd=home).stdout)
    assert shown["accounts"][0]["delta_spent"] == "0"
    assert dpkv("verify", "release/release.json", cwd=home).returncode == 0


def test_a_budget_has_a_delta_too(home: Path) -> None:
    """In twenty columns, where Gaussian noise is less than Laplace noise."""
    wide = np.random.default_rng(0).uniform(-10, 10, (400, 20))
    names = ",".join(f"c{column}" for column in range(20))
    np.savetxt(home / "t.csv", wide, delimiter=",", fmt="%.3f", header=names, comments="")
    asked = (*RELEASE, "--eps=1", "--mechanism=auto", "--delta=1e-6")
    dpkv("ledger", "set-budget", "t.csv", "--eps=5", cwd=home)
    refused = dpkv(*asked, cwd=home)
    assert refused.returncode == 4
    assert "requested delta 0.000001, remaining 0" in refused.stderr
    told = dpkv("ledger", "set-budget", "t.csv", "--eps=5", "--delta=2e-6", cwd=home)
    assert "delta 0.000002, 0 spent" in told.stdout
    done = dpkv(*asked, cwd=home)
    assert done.returncode == 0, done.stderr
    assert "the mechanism that can make use of delta" in done.stdout
    assert "(1, 0.000001)-differentially private" in done.stdout
    shown = json.loads(dpkv("ledger", "show", "--json", cwd=home).stdout)
    assert shown["accounts"][0]["delta_spent"] == "0.000001"
    assert dpkv("verify", "release/release.json", cwd=home).returncode == 0
