"""A sample of the attacks of ``audits/attack.py``, and faults that they must find."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.points import PATIENCE, child_environment
from support.run import dpkv

pytest.importorskip("resource", reason="forks, signals and limits")

from support import attacks
from support.attacks import RELEASE, Attempt, faults_of, faults_of_end

from dpkv.ledger import Ledger

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="waits by pidfd")


def test_a_sample_of_every_attack_finds_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "audits" / "attack.py"), "--small"],
        cwd=tmp_path,
        env=child_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=6 * PATIENCE,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "0 faults"
    assert list(tmp_path.iterdir()) == []


# -- planted faults --------------------------------------------------------------------------------


@pytest.fixture
def released(tmp_path: Path) -> Path:
    """A folder with a release, charged to a budget."""
    attacks.make_table(tmp_path)
    assert dpkv("ledger", "set-budget", "t.csv", "--eps", "0.1", cwd=tmp_path).returncode == 0
    assert dpkv(*RELEASE, "--out=out", "--id=mine", cwd=tmp_path).returncode == 0
    assert faults_of(tmp_path) == []
    return tmp_path


def test_centres_without_a_charge_are_found(released: Path) -> None:
    (released / ".dpkv" / "ledger.sqlite").unlink()
    assert faults_of(released) != []


def test_other_centres_of_the_same_id_are_found(released: Path) -> None:
    path = released / ".dpkv" / "releases" / "mine.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    (released / "out-other").mkdir()
    for name in ("centers.csv", "release.json"):
        text = (released / "out" / name).read_text(encoding="utf-8")
        (released / "out-other" / name).write_text(text, encoding="utf-8")
    centers = released / "out-other" / "centers.csv"
    text = centers.read_text(encoding="utf-8")
    centers.write_text(
        text.replace(str(record["clusters"][0]["center"][0]), "0.5"), encoding="utf-8"
    )
    assert "out-other: two sets of centres for one id" in faults_of(released)


def test_half_a_release_is_found(released: Path) -> None:
    (released / "out" / "release.json").unlink()
    assert "out: half a release is there" in faults_of(released)


def test_more_than_the_budget_is_found(released: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpkv.ledger.accounts.Account.check_affordable", lambda *_: None)
    entry = Ledger(released / ".dpkv").read().find("mine")
    assert entry is not None
    Ledger(released / ".dpkv").charge(
        release_id="second",
        dataset=entry.dataset,
        label=entry.label,
        eps=entry.eps,
        neighbours="replace-one",
        end_to_end=True,
        plan_digest="a" * 64,
    )
    assert "more was spent than the budget" in faults_of(released)


ENDS = {
    "hangs": (None, "", "hangs"),
    "an exit code of nobody's": (1, "dpkv: error: unexpected", "exit code 1"),
    "two sentences": (2, "dpkv: error: a\ndpkv: error: b", "not one sentence"),
    "no sentence": (2, "", "not one sentence"),
    "a traceback": (2, "Traceback (most recent call last):\ndpkv: error: b", "a traceback"),
    "a terminal's escapes": (2, "dpkv: error: \x1b[2J", "control characters"),
    "a number of a record": (2, "dpkv: error: 0.123456789 is wrong", "a record's value"),
    "a word of a record": (2, "dpkv: error: 'Zebedee' is wrong", "a record's value"),
}


@pytest.mark.parametrize(("code", "err", "fault"), ENDS.values(), ids=ENDS)
def test_bad_ends_are_found(code: int | None, err: str, fault: str) -> None:
    (found,) = faults_of_end(Attempt(code, "", err, 0.0), {"0.123456789", "Zebedee"})
    assert fault in found


def test_a_good_end_is_none() -> None:
    err = "reading t.csv: 50%\ndpkv: error: --k must be at least 1."
    assert faults_of_end(Attempt(2, "", err, 0.0), {"0.123456789"}) == []
