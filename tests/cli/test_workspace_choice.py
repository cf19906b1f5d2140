"""Which workspace is meant: by option, environment or settings; and what a release would cost."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import NoReturn

import pytest
from support.run import RELEASE, Run, in_process, refusal

import dpkv
from dpkv.settings import find_ledger_address, find_workspace
from dpkv.tables.csvfile import CsvSource

TABLE = "a,b\n0.31337,0.2\n0.5,0.5\n-0.5,-0.5\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "t.csv").write_text(TABLE, encoding="utf-8")
    return tmp_path


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path) -> Run:
    return in_process(monkeypatch, capsys, home / "one", secret="31337")


def settle(home: Path, text: str) -> None:
    (home / "config" / "dpkv").mkdir(parents=True, exist_ok=True)
    (home / "config" / "dpkv" / "settings.toml").write_text(text, encoding="utf-8")


def test_a_budget_holds_from_every_folder_that_names_its_workspace(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = home / "budgets"
    option = f"--workspace={shared}"
    assert run(option, "ledger", "set-budget", "t.csv", "--eps=1").returncode == 0
    assert run(option, *RELEASE, "--out=1").returncode == 0
    monkeypatch.setenv("DPKV_WORKSPACE", str(shared))
    assert run(*RELEASE, "--out=2").returncode == 0
    monkeypatch.delenv("DPKV_WORKSPACE")
    settle(home, f"workspace = {str(shared)!r}\n")
    told = refusal(run(*RELEASE, "--out=3"), exit_code=4)
    assert "remaining 0, short by 0.5" in told
    assert run("verify", "1/release.json").returncode == 0
    assert not (home / "one" / ".dpkv").exists()
    assert run("--workspace=.dpkv", *RELEASE, "--out=3").returncode == 0, "the option goes first"


def test_an_option_is_for_one_command(run: Run, home: Path) -> None:
    assert run(f"--workspace={home / 'w'}", "ledger", "show").returncode == 0
    assert run("ledger", "show").returncode == 0
    assert find_workspace() == Path(".dpkv")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("workspace = ", "must be TOML"),
        ("workspace = 1\n", "must set workspace and ledger alone, as texts"),
        ("password = 'x'\n", "must set workspace and ledger alone"),
    ],
)
def test_bad_settings_are_told(run: Run, home: Path, text: str, words: str) -> None:
    settle(home, text)
    assert words in refusal(run("ledger", "show"))


def test_a_bad_address_is_told(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle(home, "ledger = 'mysql://x'\n")
    assert find_ledger_address() == "mysql://x"
    assert "DPKV_LEDGER must be an address such as postgresql://" in refusal(run("ledger", "show"))
    monkeypatch.setenv("DPKV_LEDGER", "sqlite:///x")
    assert "DPKV_LEDGER must be an address" in refusal(run("ledger", "show"))


def test_a_dry_run_prices_and_charges_nothing(run: Run, home: Path) -> None:
    assert run("ledger", "set-budget", "t.csv", "--eps=0.8").returncode == 0
    done = run(*RELEASE, "--dry-run")
    assert done.stdout.startswith("would charge eps 0.5 (replace-one, rows); 0.3 would be left\n")
    stated = json.loads(run(*RELEASE, "--dry-run", "--json").stdout)
    assert (stated["eps"], stated["remaining"], stated["unit"]) == ("0.5", "0.3", "row")
    assert len(json.loads(run("ledger", "show", "--json").stdout)["entries"]) == 1
    assert not (home / "one" / "release").exists()
    assert run(*RELEASE, "--id=mine").returncode == 0
    repeated = run(*RELEASE, "--id=mine", "--out=2", "--dry-run").stdout
    assert repeated.startswith("would charge eps 0 (replace-one, rows); 0.3 would be left")
    told = refusal(run(*RELEASE, "--dry-run", "--out=3"), exit_code=4)
    assert "requested eps 0.5, remaining 0.3, short by 0.2" in told
    other = refusal(run(*RELEASE, "--neighbours=add-remove", "--dry-run", "--out=3"))
    assert "is for replace-one neighbours" in other


@pytest.mark.parametrize("budget", ["eps", "rho"])
def test_a_dry_run_knows_what_it_cannot_know(run: Run, budget: str) -> None:
    """Beside a delta the steps decide, whose prices depend on a number that was not read."""

    def set_budget(amount: str) -> None:
        delta = ["--delta=1e-6"] if budget == "eps" else []
        assert run("ledger", "set-budget", "t.csv", f"--{budget}={amount}", *delta).returncode == 0

    def stated(*more: str) -> dict[str, str]:
        return json.loads(run(*asked, "--dry-run", "--json", *more).stdout)

    set_budget("2")
    asked = ("release", "t.csv", "--header", "--k=2", "--bounds=-1,1", "--eps=1")
    asked = (*asked, "--mechanism=synopsis")
    before, beside_a_delta = stated(), stated("--delta=1e-6")
    assert (before["remaining"], before["remaining_is"]) == (
        "1" if budget == "eps" else "1.5", "at least"
    )  # fmt: skip
    assert (beside_a_delta["remaining"], beside_a_delta["remaining_is"]) == (None, "unknown")
    told = run(*asked, "--delta=1e-6", "--dry-run").stdout
    assert "would charge eps 1, delta 0.000001 (replace-one, rows); what the budget has" in told
    assert run(*asked).returncode == 0
    account = json.loads(run("ledger", "show", "--json").stdout)["accounts"][0]
    left = 2 - Decimal(account["rho_spent"]) if budget == "rho" else Decimal(account["remaining"])
    assert left >= Decimal(before["remaining"])
    set_budget("0.01")  # less than is spent: certainly refused
    for more in ((), ("--delta=1e-6",)):
        assert "budget refused" in refusal(run(*asked, *more, "--dry-run", "--out=2"), 4)


def test_a_dry_run_asks_for_no_rows(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of a table whose account goes by its bytes: only those are hashed."""

    def read(_: CsvSource) -> NoReturn:
        raise RuntimeError("a row was asked for")

    assert run("ledger", "set-budget", "t.csv", "--eps=2").returncode == 0
    ledger = home / "one" / ".dpkv" / "ledger.sqlite"
    before = ledger.read_bytes()
    monkeypatch.setattr(CsvSource, "chunks", read)
    for more in ((), ("--dataset=people",)):
        done = run(*RELEASE, "--dry-run", *more)
        assert done.returncode == 0
        assert "no record was read, nothing charged or written" in done.stdout
    assert ledger.read_bytes() == before
    assert run(*RELEASE).returncode == 1, "the planted fault"


def test_a_dry_run_prices_persons(run: Run, home: Path) -> None:
    rows = "who,a,b\nx,0.1,0.2\ny,0.5,0.5\nx,-0.5,-0.5\n"
    (home / "one" / "visits.csv").write_text(rows, encoding="utf-8")
    asked = ("release", "visits.csv", *RELEASE[2:], "--person=who", "--columns=a,b")
    assert run("ledger", "set-budget", "visits.csv", "--eps=2", "--unit=person").returncode == 0
    told = run(*asked, "--dry-run").stdout
    assert told.startswith(
        "would charge eps 0.5 (replace-one, persons by who); 1.5 would be left\n"
    )
    stated = json.loads(run(*asked, "--dry-run", "--json").stdout)
    assert (stated["unit"], stated["remaining"]) == ("person", "1.5")
    done = run(*asked)
    assert done.returncode == 0 and "1.5 left" in done.stdout, "as the release says itself"
    rows_instead = run(
        "release", "visits.csv", *RELEASE[2:], "--columns=a,b", "--out=2", "--dry-run"
    )
    assert "protects persons" in refusal(rows_instead), "the planted fault"


def test_python_takes_the_workspace_that_commands_take(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the time of each call: a default fixed at import would be the planted fault."""
    monkeypatch.chdir(home / "one")
    points, facts = [[0.0], [0.5], [1.0]], {"bounds": (0, 1), "mechanism": "lloyd"}

    def places() -> list[Path]:
        released = dpkv.release(points, k=1, eps=1, **facts)
        fitted = dpkv.PrivateKMeans(1, **facts).fit(points)
        assert all(check.passed is not False for check in dpkv.verify(released))
        assert all(check.passed is not False for check in dpkv.verify(fitted.privacy_))
        assert released.charged_to is not None
        assert len(released.charged_to.ledger.read().accounts()) == 1
        return [released.charged_to.ledger.workspace]

    assert places() == [Path(".dpkv")]
    settle(home, f"workspace = {str(home / 'settled')!r}\n")
    assert places() == [home / "settled"]
    monkeypatch.setenv("DPKV_WORKSPACE", str(home / "named"))
    assert places() == [home / "named"]
    kept = dpkv.release(points, k=1, eps=1, workspace="./auto", **facts).charged_to
    assert kept is not None and kept.ledger.workspace == Path("auto")


def test_a_dry_run_reads_no_record(run: Run, home: Path) -> None:
    """A cell that no release would accept is not seen."""
    bad = "a,b\n0.31337,x\n0.5,0.5\n"
    (home / "one" / "bad.csv").write_text(bad, encoding="utf-8")
    asked = ("release", "bad.csv", *RELEASE[2:])
    assert run(*asked, "--dataset=people", "--dry-run").returncode == 0
    assert run(*asked, "--dataset=people").returncode == 2, "the planted fault"


def test_what_a_sibling_folder_charged_is_pointed_out(run: Run, home: Path) -> None:
    assert "another ledger" not in run(*RELEASE).stderr
    sibling = f"--workspace={home / 'two'}"
    done = run(sibling, *RELEASE, "--out=2")
    assert done.returncode == 0
    where = home / "one" / ".dpkv" / "ledger.sqlite"
    said = [line for line in done.stderr.splitlines() if "another ledger" in line]
    assert said == [
        "warning: another ledger charged this table before, and what it spent is not counted here: "
        f"{where}."
    ]
    (home / "one" / "t.csv").write_text(TABLE + "0.25,0.25\n", encoding="utf-8")
    assert "another ledger" not in run(sibling, *RELEASE, "--out=3").stderr, "another file"
