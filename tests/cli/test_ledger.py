"""`dpkv ledger`: budgets, entries, and whether the chain holds."""

from __future__ import annotations

import json
import sqlite3
import stat
import subprocess
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest
from support.run import Run, dpkv, in_process, refusal

from dpkv.ledger import Ledger

SECRET = "0.31337"  # stands in every table; nothing printed may show it
RELEASE = ("release", "--header", "--k=2", "--data=t.csv", "--bounds=-1,1", "--eps")
OTHER = ("release", "--header", "--k=2", "--data=u.csv", "--bounds=-1,1", "--eps")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name, other in (("t.csv", "0.1"), ("u.csv", "0.2")):
        rows = f"a,b\n{SECRET},{other}\n0.5,0.5\n-0.5,-0.5\n"
        (tmp_path / name).write_text(rows, encoding="utf-8")
    return tmp_path


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path) -> Run:
    return in_process(monkeypatch, capsys, home, secret="31337")


def printed(result: subprocess.CompletedProcess[str]) -> str:
    assert result.returncode == 0, result.stderr
    return result.stdout


def shown(run: Run) -> dict[str, list[dict[str, object]]]:
    return json.loads(printed(run("ledger", "show", "--json")))


def tampered(home: Path, statement: str) -> None:
    with closing(sqlite3.connect(home / ".dpkv" / "ledger.sqlite", isolation_level=None)) as db:
        for trigger in ("no_update", "no_delete", "only_append"):
            db.execute(f"DROP TRIGGER {trigger}")
        db.execute(statement)


def test_a_budget_and_releases_in_processes(home: Path) -> None:
    first = dpkv("ledger", "set-budget", "t.csv", "--eps", "0.30", cwd=home)
    assert printed(first) == "t.csv: budget 0.3, 0 spent, 0.3 left (replace-one, rows)\n"
    printed(dpkv(*RELEASE, "0.1", cwd=home))
    table = printed(dpkv("ledger", "show", cwd=home))
    assert "t.csv" in table and "0.3" in table and "0.2" in table and "release" in table
    assert printed(dpkv("ledger", "verify", cwd=home)) == "pass: 3 entries, chain unbroken\n"


def test_show_as_json(run: Run, home: Path) -> None:
    printed(run("ledger", "set-budget", "t.csv", "--eps=2.5"))
    printed(run(*RELEASE, "1", "--id=first", "--out=1"))
    asked = [option for option in RELEASE if not option.startswith("--bounds")]
    printed(run(*asked, "0.5", "--id=second", "--out=2", "--bounds=data"))
    printed(run(*OTHER, "1", "--out=3"))
    ledger = shown(run)
    assert ledger["kind"] == "ledger" and ledger["visibility"] == "curator-only"
    mine, other = ledger["accounts"]
    assert (mine["label"], mine["budget"], mine["spent"], mine["remaining"]) == (
        "t.csv", "2.5", "1.5", "1",
    )  # fmt: skip
    assert (mine["releases"], mine["not_end_to_end"]) == (2, 1)
    assert (other["label"], other["budget"], other["remaining"]) == ("u.csv", None, None)
    budget, *rest = ledger["entries"]
    assert (budget["kind"], budget["release_id"], budget["eps"]) == ("budget", None, "2.5")
    assert [entry["kind"] for entry in rest] == ["charge", "kept"] * 3
    assert [entry["release_id"] for entry in rest[:4]] == ["first"] * 2 + ["second"] * 2
    assert [entry["end_to_end"] for entry in rest[::2]] == [True, False, True]
    record = json.loads((home / "1" / "release.json").read_text(encoding="utf-8"))
    assert record["ledger"]["digest"] == ledger["entries"][1]["digest"]
    result = run("ledger", "show")
    assert "second (conditional)" in result.stdout
    assert "some releases are conditional on the data" in result.stderr


FIFTY = {
    "adaptive": ["5", "3.172903", "3.542291", "0.457708"],
    "fixed": ["5", "3.172903", "3.172902", "0.827097"],
}


@pytest.mark.parametrize("prices", FIFTY)
def test_fifty_releases_are_shown_with_their_sum_and_what_they_cost_together(
    run: Run, home: Path, prices: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """3.172902734019 is exact: tests/unit/test_composition.py works it out by binomials."""
    asked = ("name:people", "--eps=4", "--delta=1e-6", f"--prices={prices}")
    printed(run("ledger", "set-budget", *asked))
    ledger = Ledger(home / ".dpkv")
    for number in range(50):
        ledger.charge(
            release_id=f"r{number}", dataset="name:people", label="people", eps=Decimal("0.1"),
            neighbours="replace-one", end_to_end=True, plan_digest="a" * 64,
        )  # fmt: skip
    monkeypatch.setenv("COLUMNS", "80")
    text = printed(run("ledger", "show"))
    account = text.partition("entries")[0].splitlines()[1:]
    rows = dict(line.strip().split(maxsplit=1) for line in account if line.strip())
    assert rows["protects"] == "replace-one, rows" and rows["releases"] == "50"
    assert rows["budget"].startswith("4, delta 0.000001")
    found = [rows["plain"].split()[-1], *(rows[name] for name in ("composed", "counted", "left"))]
    for words, figure in zip(found, FIFTY[prices], strict=True):
        assert words.startswith(figure)
    assert "at delta 0.000001, by privacy-loss distributions" in rows["composed"]
    told = shown(run)["accounts"][0]
    assert told["spent"] == "5" and told["composed"] == {
        "eps": "3.172903", "delta": "0.000001", "by": "loss distribution"
    }  # fmt: skip


def test_an_empty_ledger(run: Run, home: Path) -> None:
    assert "the ledger is empty" in printed(run("ledger", "show"))
    assert shown(run)["entries"] == [] and shown(run)["accounts"] == []
    assert printed(run("ledger", "verify")).startswith("the ledger is empty")
    assert sorted(path.name for path in home.iterdir()) == ["t.csv", "u.csv"], "nothing is made"


def test_a_budget_by_fingerprint(run: Run, home: Path) -> None:
    printed(run(*RELEASE, "1"))
    fingerprint = str(shown(run)["accounts"][0]["dataset"])
    (home / "t.csv").unlink()
    for name in (fingerprint, fingerprint[:8]):
        assert printed(run("ledger", "set-budget", name, "--eps=3")).startswith(
            "t.csv: budget 3, 1 spent, 2 left"
        )
    (home / "empty").mkdir()
    assert "empty holds no table" in refusal(run("ledger", "set-budget", "empty", "--eps=3"))
    for name in (fingerprint[:7], "0" * 32, "nowhere.csv", ""):
        sentence = refusal(run("ledger", "set-budget", name, "--eps=3"))
        assert (
            "DATA must be a table's file, folder, pattern or manifest, or a fingerprint" in sentence
        )
    assert [entry["kind"] for entry in shown(run)["entries"]] == ["charge", "kept", *["budget"] * 2]


def test_a_budget_may_be_below_what_is_spent(run: Run) -> None:
    printed(run(*RELEASE, "1"))
    text = printed(run("ledger", "set-budget", "t.csv", "--eps=0.5"))
    assert text == "t.csv: budget 0.5, 1 spent, -0.5 left (replace-one, rows)\n"
    sentence = refusal(run(*RELEASE, "0.1", "--out=2"), exit_code=4)
    assert "requested eps 0.1, remaining -0.5, short by 0.6" in sentence


@pytest.mark.parametrize(
    ("eps", "words"),
    [
        ("0", "--eps must be greater than 0"),
        ("-1", "--eps must be greater than 0"),
        ("nan", "--eps must be greater than 0"),
        ("inf", "--eps must be greater than 0"),
        ("1e9", "--eps must be greater than 0 and at most 1000000"),
        ("abc", "--eps must be a number. Got 'abc'"),
        ("", "--eps must be a number"),
    ],
)
def test_a_budget_is_a_number(eps: str, words: str, run: Run, home: Path) -> None:
    assert words in refusal(run("ledger", "set-budget", "t.csv", f"--eps={eps}"))
    assert not (home / ".dpkv").exists()


def test_a_budget_is_exact(run: Run) -> None:
    printed(run("ledger", "set-budget", "t.csv", "--eps=0.3"))
    for number in range(3):
        printed(run(*RELEASE, "0.1", f"--out={number}"))
    assert "remaining 0," in refusal(run(*RELEASE, "1e-9", "--out=4"), exit_code=4)


TAMPERED = {
    "a charge lowered": "UPDATE entries SET nano_eps = 1 WHERE number = 2",
    "a budget raised": "UPDATE entries SET nano_eps = 9 WHERE number = 1",
    "an entry removed": "DELETE FROM entries WHERE number = 1",
    "another relation": "UPDATE entries SET neighbours = 'add-remove' WHERE number = 2",
}


@pytest.mark.parametrize("statement", TAMPERED.values(), ids=TAMPERED)
def test_a_tampered_ledger_is_found_and_charges_nothing(
    statement: str, run: Run, home: Path
) -> None:
    printed(run("ledger", "set-budget", "t.csv", "--eps=2"))
    printed(run(*RELEASE, "1", "--id=mine"))
    tampered(home, statement)
    sentence = refusal(run("ledger", "verify"), exit_code=3)
    assert "does not check out: entry " in sentence and "restore a backup" in sentence
    for command in (
        ("ledger", "show"),
        ("ledger", "set-budget", "t.csv", "--eps=3"),
        (*RELEASE, "0.1", "--out=2"),
        (*RELEASE, "1", "--id=mine", "--out=2"),
    ):
        assert "does not check out: entry " in refusal(run(*command))
    assert not (home / "2").exists()
    with closing(sqlite3.connect(home / ".dpkv" / "ledger.sqlite")) as db:
        (count,) = db.execute("SELECT count(*) FROM entries").fetchone()
    assert count == (2 if "DELETE" in statement else 3)


@pytest.mark.parametrize("contents", [b"text " * 2000, b"", b"SQLite format 3\0" + bytes(4000)])
def test_what_is_no_ledger_is_refused(contents: bytes, run: Run, home: Path) -> None:
    (home / ".dpkv").mkdir(mode=0o700)
    path = home / ".dpkv" / "ledger.sqlite"
    path.write_bytes(contents)
    assert "restore a backup" in refusal(run("ledger", "verify"), exit_code=3)
    for command in (("ledger", "show"), ("ledger", "set-budget", "t.csv", "--eps=3")):
        assert "restore a backup" in refusal(run(*command))
    assert path.read_bytes() == contents, "kept as it is"


def test_a_lost_ledger_beside_its_journal_is_not_begun_anew(run: Run, home: Path) -> None:
    printed(run(*RELEASE, "1"))
    (home / ".dpkv" / "ledger.sqlite").rename(home / "taken.sqlite")
    (home / ".dpkv" / "ledger.sqlite-wal").write_bytes(b"")
    sentence = refusal(run(*RELEASE, "1", "--out=2"))
    assert "is gone, its journal is not" in sentence
    assert not (home / "2").exists()


def test_a_ledger_that_is_gone_beside_its_releases_is_not_shown_as_empty(
    run: Run, home: Path
) -> None:
    printed(run(*RELEASE, "1", "--id=mine"))
    (home / ".dpkv" / "ledger.sqlite").unlink()
    told = refusal(run("ledger", "show"))
    assert "lacks entry 1 as the kept release" in told and "mine.json" in told
    stated = run("ledger", "show", "--json")
    assert stated.returncode == 2
    assert told == json.loads(stated.stdout)["error"] and "entries" not in stated.stdout


def test_a_workspace_of_others_is_closed_or_refused(run: Run, home: Path) -> None:
    printed(run(*RELEASE, "1"))
    (home / ".dpkv").chmod(0o755)
    (home / ".dpkv" / "ledger.sqlite").chmod(0o644)
    printed(run("ledger", "show"))
    assert stat.S_IMODE((home / ".dpkv").stat().st_mode) == 0o700
    assert stat.S_IMODE((home / ".dpkv" / "ledger.sqlite").stat().st_mode) == 0o600
    (home / ".dpkv").rename(home / "elsewhere")
    (home / ".dpkv").symlink_to(home / "elsewhere")
    assert "must be a plain folder" in refusal(run(*RELEASE, "1", "--out=2"))


def test_ledger_alone_shows_its_commands(run: Run) -> None:
    text = printed(run("ledger", "--help"))
    for name in ("show", "set-budget", "verify"):
        assert name in text


def test_a_named_data_set_has_one_budget(run: Run) -> None:
    text = printed(run("ledger", "set-budget", "name:people", "--eps=1"))
    assert text.startswith("name:people: budget 1, 0 spent, 1 left")
    printed(run(*RELEASE, "0.5", "--dataset=people", "--out=1"))
    printed(run(*OTHER, "0.5", "--dataset=people", "--out=2"))
    sentence = refusal(run(*RELEASE, "0.5", "--dataset=people", "--out=3"), exit_code=4)
    assert "remaining 0, short by 0.5" in sentence
    printed(run(*RELEASE, "0.5", "--out=4"))  # another account: the file's own
    assert shown(run)["accounts"][0]["dataset"] == "name:people"
    for name in ("", " ", "a\nb"):
        assert "dataset must be a printable name" in refusal(
            run(*RELEASE, "0.5", f"--dataset={name}", "--out=5")
        )
    assert "dataset must be" in refusal(run("ledger", "set-budget", "name:", "--eps=1"))
