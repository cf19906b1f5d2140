"""Charges that no budget allowed, written past dpkv: a whole verification finds them."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import astuple, fields, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support.run import Run, in_process, refusal

from dpkv.accounting.composition import Price
from dpkv.errors import BudgetError, LedgerError
from dpkv.ledger import Entry, Ledger, draft_charge
from dpkv.ledger import ledger as ledger_module
from dpkv.ledger.accounts import Accounts
from dpkv.ledger.admission import check_admitted
from dpkv.ledger.entries import place_behind
from dpkv.ledger.sqlite import SqliteStore
from dpkv.ledger.verified import load_base, save_base

DELTA = Decimal("1e-6")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / ".dpkv")


def facts(name: str, eps: str, **more: Any) -> Any:
    known = {"dataset": "d1", "label": "x", "neighbours": "replace-one", "end_to_end": True}
    return {**known, "release_id": name, "eps": Decimal(eps), "plan_digest": "a" * 64, **more}


def forced(ledger: Ledger, entry: Entry) -> None:
    """Append an entry that is chained like any, without asking the budget."""
    chain = ledger.read()
    with SqliteStore(ledger.workspace).writing() as session:
        session.insert(place_behind(entry, len(chain), chain.digest))


def check(ledger: Ledger) -> None:
    chain = ledger.verify()
    check_admitted(chain.entries, chain.place)


BUDGETS: dict[str, dict[str, Any]] = {
    "eps": {"eps": Decimal("0.5")},
    "eps and delta": {"eps": Decimal(1), "delta": DELTA},
    "fixed prices": {"eps": Decimal(1), "delta": DELTA, "fixed_prices": True},
    "rho": {"rho": Decimal("0.025")},
}


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_what_dpkv_charged_was_admitted_and_one_charge_more_was_not(
    ledger: Ledger, budget: dict[str, Any]
) -> None:
    ledger.set_budget(dataset="d1", label="x", **budget)
    with pytest.raises(BudgetError):
        for number in range(100):
            ledger.charge(**facts(f"r{number}", "0.1"))
    assert len(ledger.read()) > 5
    check(ledger)
    forced(ledger, draft_charge(**facts("more", "0.1")))
    with pytest.raises(LedgerError, match=r"by entry \d+ \(release more\) more is charged than"):
        check(ledger)


def test_a_later_budget_hides_nothing(ledger: Ledger) -> None:
    ledger.set_budget(dataset="d1", label="x", eps=Decimal("0.2"))
    ledger.charge(**facts("one", "0.2"))
    forced(ledger, draft_charge(**facts("two", "0.2")))
    ledger.set_budget(dataset="d1", label="x", eps=Decimal(5))
    with pytest.raises(LedgerError, match="release two"):
        check(ledger)


def test_a_lowered_budget_is_no_fault(ledger: Ledger) -> None:
    ledger.charge(**facts("before", "3"))
    ledger.set_budget(dataset="d1", label="x", eps=Decimal(4))
    ledger.charge(**facts("one", "1"))
    ledger.set_budget(dataset="d1", label="x", eps=Decimal("0.1"))
    check(ledger)
    ledger.charge(**facts("another", "7", dataset="d2"))
    check(ledger)


@pytest.mark.parametrize("other", [{"neighbours": "add-remove"}, {"unit": "person"}])
def test_a_charge_of_another_promise_is_found(ledger: Ledger, other: dict[str, str]) -> None:
    ledger.charge(**facts("one", "1"))
    forced(ledger, draft_charge(**facts("two", "1", **other)))
    with pytest.raises(LedgerError, match="entry 2 is of another relation or unit"):
        check(ledger)


def test_an_opaque_charge_on_a_budget_in_rho_is_found(ledger: Ledger) -> None:
    ledger.set_budget(dataset="d1", label="x", rho=Decimal(1))
    ledger.charge(**facts("one", "1", delta=DELTA, prices=(Price("zcdp", Decimal("0.1")),)))
    check(ledger)
    forced(ledger, draft_charge(**facts("two", "1", delta=DELTA)))
    with pytest.raises(LedgerError, match="release two"):
        check(ledger)


UNSOUND: list[dict[str, Any]] = [
    {"details": '{"prices":[["pure","-5",1]]}'},
    {"details": '{"prices":[["pure","NaN",1]]}'},
    {"details": '{"prices":[["pure","0.1",-1]]}'},
    {"details": '{"prices":[["pure","0.1",true]]}'},
    {"details": '{"prices":[["free","0.1",1]]}'},
    {"details": '{"prices":[["pure","0.1"]]}'},
    {"details": '{"prices":"fixed"}'},
    {"details": '{"person":5}'},
    {"details": '{"rho":-1}'},
    {"details": "{"},
    {"details": "[" * 100_000},
    {"unit": None},
    {"neighbours": None},
    {"nano_eps": -5},
    {"atto_delta": -5},
]


@pytest.mark.parametrize("unsound", UNSOUND)
def test_an_entry_that_dpkv_never_writes_is_refused_by_every_call(
    ledger: Ledger, unsound: dict[str, Any]
) -> None:
    """A refund, say: it is chained like any entry, by somebody who may write to the database."""
    ledger.set_budget(dataset="d1", label="x", eps=Decimal(1))
    forced(ledger, replace(draft_charge(**facts("fine", "0.1")), details=""))
    assert len(ledger.verify()) == 2
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as db:
        chain = ledger.read()
        bad = place_behind(replace(draft_charge(**facts("bad", "0.1")), **unsound), 2, chain.digest)
        db.execute("PRAGMA ignore_check_constraints=ON")
        marks = ", ".join("?" for _ in fields(Entry))
        db.execute(f"INSERT INTO entries VALUES ({marks})", astuple(bad))
    for call in (ledger.read, ledger.verify, lambda: ledger.charge(**facts("next", "0.1"))):
        with pytest.raises(LedgerError, match="entry 3 holds what dpkv never writes"):
            call()


# --- the command --------------------------------------------------------------------------------


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    return in_process(monkeypatch, capsys, tmp_path)


def test_sums_that_were_forged_and_put_back_are_found(
    run: Run, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A workspace's notes are made to say that nothing was spent, and put right afterwards."""
    monkeypatch.setattr(ledger_module, "EVERY", 3)
    ledger.set_budget(dataset="d1", label="x", eps=Decimal("0.5"))
    for number in range(5):
        ledger.charge(**facts(f"r{number}", "0.1"))
    assert ledger.read().base.number > 0
    base = load_base(ledger.workspace)
    forged = {name: replace(one, nano_spent=0) for name, one in base.accounts.items()}
    save_base(ledger.workspace, replace(base, accounts=Accounts(forged)))
    ledger.charge(**facts("unpaid", "0.4"))
    assert "verified.txt states other sums" in refusal(run("ledger", "verify", "--full"), 3)
    (ledger.workspace / "chain" / "verified.txt").unlink()
    told = refusal(run("ledger", "verify", "--full"), exit_code=3)
    assert "by entry 7 (release unpaid) more is charged than the budget of x allows" in told
    assert json.loads(run("ledger", "show", "--json").stdout)["accounts"][0]["remaining"] == "-0.4"


def test_a_long_ledger_is_verified_from_where_it_was_verified(
    run: Run, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_module, "EVERY", 3)
    for number in range(7):
        ledger.charge(**facts(f"r{number}", "0.1"))
    earlier = ledger.read().base.number
    assert 3 <= earlier < 7
    assert run("ledger", "verify").stdout == (
        f"pass: 7 entries, chain unbroken; {earlier} of them were verified from here before, and "
        "--full reads them again\n"
    )
    stated = json.loads(run("ledger", "verify", "--json").stdout)
    assert (stated["n"], stated["verified_earlier"]) == (7, earlier)
    assert run("ledger", "verify", "--full").stdout == "pass: 7 entries, chain unbroken\n"
    assert json.loads(run("ledger", "verify", "--full", "--json").stdout)["verified_earlier"] == 0
