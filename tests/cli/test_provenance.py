"""What a release says besides its record: which calibration, which account, and warnings."""

from __future__ import annotations

import json
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from support.run import Run, in_process, refusal

import dpkv.calibration.record
from dpkv.cli import kept_calibrations as kept
from dpkv.ledger import Ledger

QUICK = ("--header", "--k=2", "--method=randomized", "--n-est=100")
DIRECT = ("release", "--header", "--k=2", "--data=t.csv", "--bounds=-1,1")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    rows = "".join(f"{x / 40 - 1},{1 - x / 40}\n" for x in range(80))
    (tmp_path / "t.csv").write_text("a,b\n" + rows, encoding="utf-8")
    return tmp_path


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path) -> Run:
    return in_process(monkeypatch, capsys, home)


def printed(run: Run, *arguments: str) -> str:
    result = run(*arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout


def record_of(folder: Path) -> Any:
    return json.loads((folder / "release.json").read_text(encoding="utf-8"))


# --- calibrations -----------------------------------------------------------------------------


def set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the clock that calibrations are stamped by to a time long ago."""

    class LongAgo(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime(2001, 1, 1, tzinfo=tz)

    monkeypatch.setattr(dpkv.calibration.record, "datetime", LongAgo)


def test_a_clock_that_is_set_back_does_not_make_the_older_calibration_newer(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed(run, "calibrate", "t.csv", "--eps=1", "--bounds=-1,1", *QUICK)
    set_back(monkeypatch)
    printed(run, "calibrate", "t.csv", "--eps=0.5", "--bounds=-2,2", *QUICK)
    text = printed(run, "release", "--k=2")
    assert record_of(home / "release")["plan"]["eps"] == "0.5"
    assert (
        "calibration .dpkv/calibrations/000002.json: table t.csv, eps = 0.5, bounds -2..2" in text
    )


def test_only_what_is_taken_is_said_to_be(run: Run) -> None:
    printed(run, "calibrate", "t.csv", "--eps=1", "--bounds=-1,1;-2,2", *QUICK)
    path = ".dpkv/calibrations/000001.json"
    expected = {
        ("--out=1",): f"calibration {path}: table t.csv, eps = 1, bounds -1..1, -2..2\n",
        ("--out=2", "--eps=0.5"): f"calibration {path}: table t.csv, bounds -1..1, -2..2\n",
        ("--out=3", "--bounds=-3,3"): f"calibration {path}: table t.csv, eps = 1\n",
    }
    for options, words in expected.items():
        lines = printed(run, "release", "--k=2", *options).splitlines()
        assert any(f"{line.strip()}\n".endswith(words) for line in lines)
    assert "calibration" not in printed(run, *DIRECT, "--eps=1", "--out=4")
    assert f"calibration {path}: table" in printed(run, "simulate", "--k=2")


def test_bounds_of_the_data_are_said_to_be(run: Run) -> None:
    printed(run, "calibrate", "t.csv", "--eps=1", *QUICK)
    told = refusal(run("release", "--k=2"))
    assert "the newest calibration read its bounds from the data" in told
    shown = printed(run, "release", "--k=2", "--bounds=data")
    assert "READ FROM THE DATA, which leaks them" in shown


def test_json_says_what_was_taken_from_which_calibration(run: Run, home: Path) -> None:
    printed(run, "calibrate", "t.csv", "--eps=1", "--bounds=-1,1", *QUICK)
    found = json.loads(printed(run, "release", "--k=2", "--json"))["curator_only"]
    taken = found["taken_from_calibration"]
    assert Path(taken["file"]) == home / ".dpkv" / "calibrations" / "000001.json"
    assert (Path(taken["table"]), taken["eps"]) == ((home / "t.csv").resolve(), 1.0)
    assert taken["bounds"]["upper"] == [1.0, 1.0]
    found = json.loads(printed(run, *DIRECT, "--eps=1", "--json", "--out=2"))
    assert found["curator_only"]["taken_from_calibration"] is None


def test_calibrations_at_once_take_different_numbers(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process takes the number between looking and writing."""
    printed(run, "calibrate", "t.csv", "--eps=1", "--bounds=-1,1", *QUICK)
    write_once, raced = kept.write_once, []

    def raced_for(path: Path, text: str) -> bool:
        if not raced:
            raced.append(path.name)
            path.write_text("another's", encoding="utf-8")
        return write_once(path, text)

    monkeypatch.setattr(kept, "write_once", raced_for)
    printed(run, "calibrate", "t.csv", "--eps=0.5", "--bounds=-1,1", *QUICK)
    names = sorted(path.name for path in (home / ".dpkv" / "calibrations").iterdir())
    assert names == ["000001.json", "000002.json", "000003.json"] and raced == ["000002.json"]
    printed(run, "release", "--k=2")
    assert record_of(home / "release")["plan"]["eps"] == "0.5"


def test_numbers_count_beyond_six_digits_and_above_names_by_time(run: Run, home: Path) -> None:
    folder = home / ".dpkv" / "calibrations"
    printed(run, "calibrate", "t.csv", "--eps=1", "--bounds=-1,1", *QUICK)
    (folder / "000001.json").rename(folder / "2026-01-01T000000Z-001.json")
    printed(run, "release", "--k=2", "--out=1")
    assert record_of(home / "1")["plan"]["eps"] == "1"
    for name, eps in {"000001": 0.5, "999999": 0.25, "1000000": 0.125}.items():
        printed(run, "calibrate", "t.csv", f"--eps={eps}", "--bounds=-1,1", *QUICK)
        newest = max(folder.glob("[0-9]*.json"), key=lambda path: path.stat().st_mtime_ns)
        newest.rename(folder / f"{name}.json")
        printed(run, "release", "--k=2", f"--out={name}")
        assert record_of(home / name)["plan"]["eps"] == str(eps)


# --- the account ------------------------------------------------------------------------------


def test_every_release_says_which_account_of_which_ledger(run: Run, home: Path) -> None:
    text = printed(run, *DIRECT, "--eps=1", "--out=1")
    (account,) = Ledger(home / ".dpkv").read().accounts()
    assert f".dpkv/ledger.sqlite, account t.csv ({account.dataset[:8]});" in text
    named = printed(run, *DIRECT, "--eps=1", "--dataset=zebra", "--out=2")
    assert ".dpkv/ledger.sqlite, account name:zebra;" in named
    charged = json.loads(printed(run, *DIRECT, "--eps=1", "--out=3", "--json"))["curator_only"]
    assert charged["charged_to"] == {
        "ledger": str(home / ".dpkv" / "ledger.sqlite"),
        "account": account.dataset,
    }
    for folder in "123":  # none of it is published
        text = (home / folder / "release.json").read_text(encoding="utf-8")
        assert account.dataset not in text and ".dpkv" not in text and "zebra" not in text


def test_another_relation_is_refused_before_the_charge(run: Run, home: Path) -> None:
    add_remove = ("--mechanism=forgy", "--neighbours=add-remove", "--eps=0.5")
    printed(run, *DIRECT, "--eps=1", "--id=mine", "--out=1")
    told = refusal(run(*DIRECT, *add_remove, "--out=2"))
    assert "is for replace-one neighbours, and add-remove ones do not add up with them" in told
    assert "ask with --neighbours replace-one" in told and not (home / "2").exists()
    printed(run, *DIRECT, *add_remove, "--dataset=people", "--out=2")
    printed(run, *DIRECT, "--eps=1", "--id=mine", "--out=3")


def test_a_lost_key_stops_a_release_but_not_one_by_name(run: Run, home: Path) -> None:
    printed(run, *DIRECT, "--eps=1", "--out=1")
    (home / ".dpkv" / "keys" / "fingerprint.key").unlink()
    for command in (
        (*DIRECT, "--eps=1", "--out=2"),
        ("ledger", "set-budget", "t.csv", "--eps=2"),
        ("calibrate", "t.csv", "--eps=1", "--bounds=-1,1", *QUICK),
    ):
        assert "is gone, and a new one would give every table a new budget" in refusal(
            run(*command)
        )
    assert len(Ledger(home / ".dpkv").read().accounts()) == 1 and not (home / "2").exists()
    printed(run, "ledger", "set-budget", "name:people", "--eps=2")
    printed(run, *DIRECT, "--eps=1", "--out=3", "--dataset=people")


@pytest.mark.parametrize("fault", ["rolled back", "deleted"])
def test_a_ledger_older_than_its_releases_stops_every_charge(
    fault: str, run: Run, home: Path
) -> None:
    printed(run, *DIRECT, "--eps=1", "--out=1", "--id=first")
    path = home / ".dpkv" / "ledger.sqlite"
    earlier = path.read_bytes()
    printed(run, *DIRECT, "--eps=1", "--out=2", "--id=second")
    if fault == "deleted":
        path.unlink()
    else:
        path.write_bytes(earlier)
    lacking = "lacks entry 3" if fault == "rolled back" else "lacks entry 1"
    assert lacking in refusal(run("ledger", "verify"), exit_code=3)
    for name in ("third", "second"):
        sentence = refusal(run(*DIRECT, "--eps=1", "--out=3", f"--id={name}"))
        assert lacking in sentence and "restore a ledger" in sentence
    assert not (home / "3").exists()
    assert path.exists() == (fault != "deleted")


# --- signing keys -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "told"),
    [(0o600, False), (0o400, False), (0o644, True), (0o640, True), (0o602, True)],
    ids=["its owner's", "read-only", "readable by all", "by the group", "writable by all"],
)
def test_a_signing_key_that_is_open_to_others_is_told(
    mode: int, told: bool, run: Run, home: Path
) -> None:
    pem = ed25519.Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    (home / "key.pem").write_bytes(pem)
    (home / "key.pem").chmod(mode)
    result = run(*DIRECT, "--eps=1", "--sign=key.pem")
    assert result.returncode == 0
    warned = f"warning: --sign key.pem is open to other users (mode {mode:o})"
    assert result.stderr.startswith(warned) == told
    assert told or "open to other users" not in result.stderr
    assert record_of(home / "release")["signature"] is not None
