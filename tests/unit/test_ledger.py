"""The budget ledger: exact sums, one charge a release, nothing lost, nothing altered unnoticed."""

from __future__ import annotations

import decimal
import functools
import json
import os
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import FrozenInstanceError, asdict, replace
from datetime import datetime, tzinfo
from decimal import Decimal
from hashlib import sha256
from pathlib import Path

import pytest
from support.points import PATIENCE

from dpkv.errors import (
    BudgetError,
    DpkvError,
    LedgerError,
    ParameterError,
    UsageError,
    VerificationError,
)
from dpkv.ledger import (
    Entry,
    Ledger,
    budget_units,
    charge_units,
    delta_charge_units,
    entry_digest,
)
from dpkv.ledger import entries as entries_module
from dpkv.ledger import ledger as ledger_module
from dpkv.ledger import sqlite as module
from dpkv.ledger.accounts import Accounts
from dpkv.ledger.verified import load_base, save_base

PLAN = "a" * 64


def charge(ledger: Ledger, release_id: str = "r1", eps: str = "0.1", **changes: object) -> Entry:
    given = {
        "dataset": "d1",
        "label": "patients.csv",
        "neighbours": "replace-one",
        "end_to_end": True,
        "plan_digest": PLAN,
    }
    return ledger.charge(release_id=release_id, eps=Decimal(eps), **{**given, **changes}).entry


def set_budget(ledger: Ledger, eps: str, dataset: str = "d1") -> Entry:
    return ledger.set_budget(dataset=dataset, label="patients.csv", eps=Decimal(eps)).entry


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def raw(path: Path, *statements: str) -> None:
    """Run SQL on the file behind the ledger's back."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


def without_triggers(path: Path, *statements: str) -> None:
    drops = [f"DROP TRIGGER {name}" for name in ("no_update", "no_delete", "only_append")]
    raw(path, *drops, "PRAGMA ignore_check_constraints=ON", *statements)


def run(program: str, *arguments: object, prefix: tuple[str, ...] = ()) -> str:
    """Run a program in a fresh interpreter and return what it printed."""
    command = [*prefix, sys.executable, "-W", "error", "-c", PRELUDE + program]
    done = subprocess.run(
        [*command, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


PRELUDE = """
import os, resource, signal, sys
from decimal import Decimal
from pathlib import Path
from dpkv.errors import BudgetError, LedgerError
from dpkv.ledger import Ledger

ledger = Ledger(Path(sys.argv[1]))

def charge(release_id, eps="0.1"):
    ledger.charge(
        release_id=release_id, dataset="d1", label="x", eps=Decimal(eps),
        neighbours="replace-one", end_to_end=True, plan_digest="a" * 64,
    )
"""


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / ".dpkv")


@pytest.fixture
def filled(ledger: Ledger) -> Ledger:
    """A budget and three charges: entries 1 to 4."""
    set_budget(ledger, "1")
    for number in range(3):
        charge(ledger, f"r{number}", end_to_end=number != 1)
    return ledger


# Units


@pytest.mark.parametrize(
    ("eps", "units"),
    [
        ("0.1", 100_000_000),
        ("1e-9", 1),
        ("1e-10", 1),
        ("0.1000000001", 100_000_001),
        ("1e-999999", 1),
        ("0.1" + "0" * 200 + "1", 100_000_001),
        ("1000000", 10**15),
    ],
)
def test_a_charge_is_rounded_up(eps: str, units: int) -> None:
    assert charge_units(Decimal(eps)) == units


@pytest.mark.parametrize(
    ("eps", "units"), [("0.1", 10**8), ("0.1999999999", 199_999_999), ("1e-12", 0), ("1e6", 10**15)]
)
def test_a_budget_is_rounded_down(eps: str, units: int) -> None:
    assert budget_units(Decimal(eps)) == units


@pytest.mark.parametrize("eps", ["NaN", "sNaN", "Infinity", "-Infinity", "0", "-0", "-1", "1e7"])
def test_an_eps_outside_its_range_is_refused(ledger: Ledger, eps: str) -> None:
    for refused in (
        lambda: charge(ledger, eps=eps),
        lambda: set_budget(ledger, eps),
        lambda: charge_units(Decimal(eps)),
    ):
        with pytest.raises(
            ParameterError, match="eps must be a number above 0 and at most 1000000"
        ):
            refused()
    assert not ledger.path.exists()


def test_units_do_not_depend_on_the_decimal_context(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(decimal.DefaultContext.traps, decimal.Inexact, True)
    with decimal.localcontext() as context:
        context.prec = 3
        context.traps[decimal.Inexact] = True
        set_budget(ledger, "123456.789012345")
        entry = charge(ledger, eps="1234.5678901239")
        assert entry.nano_eps == 1_234_567_890_124
        assert str(ledger.read().account("d1").remaining) == "122222.221122221"


def test_figures_come_without_idle_zeros(filled: Ledger) -> None:
    account = filled.read().account("d1")
    assert (str(account.budget), str(account.spent), str(account.remaining)) == ("1", "0.3", "0.7")
    assert str(set_budget(filled, "100").eps) == "100"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"neighbours": "nobody"}, "neighbours must be one of 'replace-one', 'add-remove'"),
        ({"unit": "family"}, "unit must be one of 'row', 'person'"),
        ({"plan_digest": "A" * 64}, "plan_digest must be 64 hexadecimal digits"),
        ({"plan_digest": "a" * 63}, "plan_digest must be 64 hexadecimal digits"),
        ({"plan_digest": "a" * 64 + "\n"}, "plan_digest must be 64 hexadecimal digits"),
        ({"release_id": ""}, "release_id must be printable"),
        ({"release_id": "a\nb"}, "release_id must be printable"),
        ({"dataset": "\udc80"}, "dataset must be printable"),
    ],
)
def test_other_parameters_are_checked_too(
    ledger: Ledger, changes: dict[str, object], words: str
) -> None:
    with pytest.raises(ParameterError, match=words):
        charge(ledger, **changes)
    assert not ledger.path.exists()


# Charges and budgets


def test_an_entry_says_what_was_charged(ledger: Ledger) -> None:
    entry = charge(ledger, "r1", "0.25", neighbours="add-remove", end_to_end=False)
    assert entry == ledger.read().entry(1) == ledger.read().find("r1") == ledger.read().entries[0]
    assert (entry.number, entry.kind, entry.release_id) == (1, "charge", "r1")
    assert (entry.nano_eps, entry.eps) == (250_000_000, Decimal("0.25"))
    assert (entry.neighbours, entry.end_to_end) == ("add-remove", False)
    assert entry.created.endswith("+00:00") and len(entry.created) == 25
    assert ledger.read().entry(2) is None and ledger.read().find("r2") is None
    with pytest.raises(FrozenInstanceError):
        entry.nano_eps = 0  # type: ignore[misc]


def test_the_chain_is_what_the_docstring_says(filled: Ledger) -> None:
    """Recomputed from the raw file with nothing of the module."""
    with closing(sqlite3.connect(filled.path)) as db:
        db.row_factory = sqlite3.Row
        rows = [dict(row) for row in db.execute("SELECT * FROM entries ORDER BY number")]
    previous = "0" * 64
    for row, entry in zip(rows, filled.read().entries, strict=True):
        digest = row.pop("digest")
        assert re.fullmatch("[0-9a-f]{32}", row["salt"])
        text = json.dumps(row, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        assert digest == sha256(text.encode()).hexdigest() == entry.digest == entry_digest(entry)
        assert row["previous"] == previous
        previous = digest


def test_five_tenths_fit_a_half_exactly(ledger: Ledger) -> None:
    set_budget(ledger, "0.5")
    for number in range(5):
        charge(ledger, f"r{number}")
    assert ledger.read().account("d1").remaining == 0
    with pytest.raises(BudgetError):
        charge(ledger, "one more", "1e-30")
    assert ledger.read().account("d1").n_charges == 5


def test_a_refusal_says_requested_remaining_and_difference(ledger: Ledger) -> None:
    set_budget(ledger, "0.5")
    with pytest.raises(BudgetError) as refused:
        charge(ledger, eps="1")
    error = refused.value
    assert (error.requested, error.remaining, error.difference) == (
        1,
        Decimal("0.5"),
        Decimal("0.5"),
    )
    assert str(error).startswith(
        "budget refused: requested eps 1, remaining 0.5, short by 0.5 (replace-one, rows); nothing "
        "was charged or written. "
    )
    assert len(ledger.verify()) == 1


def test_tiny_figures_are_not_told_in_powers_of_ten(ledger: Ledger) -> None:
    set_budget(ledger, "1e-9")
    with pytest.raises(BudgetError, match=r"remaining 0\.000000001, short by 0\.000000001"):
        charge(ledger, eps="2e-9")


def test_without_a_budget_there_is_no_limit(ledger: Ledger) -> None:
    charge(ledger, eps="1000000")
    account = ledger.read().account("d1")
    assert account.budget is None and account.remaining is None and account.spent == 1_000_000


def test_the_newest_budget_counts_and_may_be_below_what_is_spent(filled: Ledger) -> None:
    set_budget(filled, "0.1")
    assert filled.read().account("d1").remaining == Decimal("-0.2")
    with pytest.raises(BudgetError, match=r"remaining -0\.2, short by 0\.3"):
        charge(filled, "more")
    set_budget(filled, "0.4")
    charge(filled, "more")
    assert filled.read().account("d1").remaining == 0


def test_accounts_are_kept_apart(filled: Ledger) -> None:
    charge(filled, "other", "2", dataset="d2", label="array")
    first, second = filled.read().accounts()
    assert (first.dataset, first.n_charges, first.n_conditional) == ("d1", 3, 1)
    assert (second.dataset, second.label, second.budget) == ("d2", "array", None)
    assert second == filled.read().account("d2")
    assert filled.read().account("d3").spent == 0 and filled.read().account("d3").n_charges == 0


def test_the_newest_label_is_shown(filled: Ledger) -> None:
    charge(filled, "again", label="patients-renamed.csv")
    assert filled.read().account("d1").label == "patients-renamed.csv"


def test_any_file_name_can_be_a_label(ledger: Ledger) -> None:
    assert charge(ledger, label="é\udc80\x1b[2J\n.csv").label == r"é\udc80\x1b[2J\n.csv"
    assert len(ledger.verify()) == 1


def test_the_same_release_is_charged_once(filled: Ledger) -> None:
    before = filled.read().entries
    set_budget(filled, "0.1")  # even when nothing is left
    assert charge(filled, "r0", label="moved.csv") == before[1]
    assert len(filled.verify()) == 5


@pytest.mark.parametrize(
    "changes",
    [
        {"dataset": "d2"},
        {"eps": "0.2"},
        {"neighbours": "add-remove"},
        {"unit": "person"},
        {"end_to_end": False},
        {"plan_digest": "b" * 64},
    ],
)
def test_a_release_id_is_not_taken_twice(filled: Ledger, changes: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=r"'r0' was charged for another release \(entry 2\)"):
        charge(filled, "r0", **changes)
    assert len(filled.verify()) == 4


def test_reading_where_there_is_no_ledger_creates_nothing(ledger: Ledger) -> None:
    assert ledger.read().entries == () == ledger.read().accounts()
    assert (
        len(ledger.verify()) == 0
        and ledger.read().entry(1) is None
        and ledger.read().find("r1") is None
    )
    assert ledger.read().account("d1").budget is None
    assert not ledger.workspace.exists()
    ledger.workspace.mkdir()
    assert ledger.read().entries == () and list(ledger.workspace.iterdir()) == []


def test_preparing_really_writes(ledger: Ledger) -> None:
    ledger.prepare()
    ledger.prepare()
    assert len(ledger.verify()) == 0
    with closing(sqlite3.connect(ledger.path)) as db:
        assert db.execute("SELECT writes FROM probe").fetchall() == [(2,)]
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    with ledger._sqlite._opened() as db:
        assert db.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL


def test_the_errors_have_their_exit_codes() -> None:
    codes = (BudgetError.exit_code, LedgerError.exit_code, VerificationError.exit_code)
    assert codes == (4, 2, 3)
    assert not issubclass(BudgetError, UsageError) and issubclass(VerificationError, DpkvError)


# Delta


@pytest.mark.parametrize(
    ("delta", "units"),
    [("0", 0), ("1e-6", 10**12), ("1e-18", 1), ("1.5e-18", 2), ("1e-30", 1), ("0.5", 5 * 10**17)],
)
def test_a_delta_is_charged_rounded_up(delta: str, units: int) -> None:
    assert delta_charge_units(Decimal(delta)) == units


def test_a_budget_of_eps_alone_allows_no_delta(filled: Ledger) -> None:
    with pytest.raises(BudgetError, match=r"requested delta 0\.000001, remaining 0, short by"):
        charge(filled, "new", delta=Decimal("1e-6"))
    assert len(filled.read().entries) == 4
    charge(filled, "new")


def test_deltas_add_up_to_the_budgets(ledger: Ledger) -> None:
    ledger.set_budget(dataset="d1", label="x", eps=Decimal(5), delta=Decimal("3e-6"))
    for name in "abc":
        charge(ledger, name, delta=Decimal("1e-6"))
    account = ledger.read().account("d1")
    assert (account.delta_budget, account.delta_spent) == (Decimal("0.000003"),) * 2
    with pytest.raises(BudgetError, match=r"smaller delta") as refused:
        charge(ledger, "d", delta=Decimal("1e-18"))
    assert refused.value.difference == Decimal("1e-18")
    with pytest.raises(UsageError, match="charged for another release"):
        charge(ledger, "a", delta=Decimal("2e-6"))
    assert len(ledger.verify()) == 4


def test_an_altered_delta_is_found(ledger: Ledger) -> None:
    charge(ledger, delta=Decimal("1e-6"))
    assert len(ledger.verify()) == 1
    without_triggers(ledger.path, "UPDATE entries SET atto_delta = 0")
    with pytest.raises(LedgerError, match="entry 1 was altered"):
        ledger.verify()


# Tampering


COPY = (
    "INSERT OR {} INTO entries SELECT {}, kind, {}, dataset, label, 1, atto_delta, end_to_end, "
    "neighbours, unit, plan_digest, record_digest, details, created, previous, salt, digest "
    "FROM entries WHERE number = 2"
)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET nano_eps = 0 WHERE number = 2",
        "DELETE FROM entries WHERE number = 3",
        COPY.format("REPLACE", "2", "release_id"),
        COPY.format("REPLACE", "5", "release_id"),
        COPY.format("IGNORE", "9", "'new'"),
    ],
)
def test_plain_changes_are_stopped(filled: Ledger, statement: str) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        raw(filled.path, statement)
    assert len(filled.verify()) == 4
    without_triggers(filled.path, statement)  # the planted fault: it is the triggers that stop it
    with pytest.raises(LedgerError):
        filled.verify()


ALTERED = [
    ("kind = 'budget'", "entry 3 was altered"),
    ("release_id = 'other'", "entry 3 was altered"),
    ("dataset = 'd2'", "entry 3 was altered"),
    ("label = 'other.csv'", "entry 3 was altered"),
    ("nano_eps = nano_eps - 1", "entry 3 was altered"),
    ("end_to_end = 1", "entry 3 was altered"),
    ("end_to_end = 2", "entry 3 was altered"),
    ("neighbours = 'add-remove'", "entry 3 was altered"),
    ("plan_digest = NULL", "entry 3 was altered"),
    ("created = '2020-01-01T00:00:00+00:00'", "entry 3 was altered"),
    ("previous = digest", "entry 3 was altered"),
    ("salt = '00'", "entry 3 was altered"),
    ("digest = previous", "entry 3 was altered"),
    ("number = 9", "entry 3 is missing"),
]


@pytest.mark.parametrize(("change", "words"), ALTERED)
def test_an_altered_entry_is_found_by_every_call(filled: Ledger, change: str, words: str) -> None:
    without_triggers(filled.path, f"UPDATE entries SET {change} WHERE number = 3")
    for call in (filled.verify, filled.read, filled.prepare, lambda: charge(filled, "new")):
        with pytest.raises(LedgerError, match=f"{words}: restore a backup"):
            call()


def test_dropping_the_triggers_alone_alters_no_entry(filled: Ledger) -> None:
    without_triggers(filled.path)
    assert len(filled.verify()) == 4


def test_a_removed_entry_is_found(filled: Ledger) -> None:
    without_triggers(filled.path, "DELETE FROM entries WHERE number = 2")
    with pytest.raises(LedgerError, match="entry 2 is missing"):
        filled.verify()
    with pytest.raises(LedgerError, match="entry 2 is missing"):
        charge(filled, "new")


def test_a_removed_entry_is_found_after_renumbering(filled: Ledger) -> None:
    shift = "UPDATE entries SET number = number - 1 WHERE number = {}"
    without_triggers(
        filled.path, "DELETE FROM entries WHERE number = 2", shift.format(3), shift.format(4)
    )
    with pytest.raises(LedgerError, match="entry 2 was altered"):
        filled.verify()


def test_a_swapped_pair_is_found(filled: Ledger) -> None:
    moves = ((2, 99), (3, 2), (99, 3))
    without_triggers(
        filled.path, *(f"UPDATE entries SET number = {b} WHERE number = {a}" for a, b in moves)
    )
    with pytest.raises(LedgerError, match="entry 2 was altered"):
        filled.verify()


def forge(ledger: Ledger, number: int, **changes: object) -> None:
    """Alter an entry and put its own digest right again."""
    entry = ledger.read().entry(number)
    assert entry is not None
    forged = Entry(**{**asdict(entry), **changes})
    sets = ", ".join(f"{name} = {value!r}" for name, value in changes.items())
    digest = entry_digest(forged)
    without_triggers(
        ledger.path, f"UPDATE entries SET {sets}, digest = '{digest}' WHERE number = {number}"
    )


def test_a_forged_digest_breaks_the_chain_at_the_next_entry(filled: Ledger) -> None:
    forge(filled, 2, nano_eps=1)
    with pytest.raises(LedgerError, match="chain is broken between entry 2 and entry 3"):
        filled.verify()


def forget(ledger: Ledger) -> None:
    """Remove what the workspace knows of its ledger."""
    shutil.rmtree(ledger.workspace / "chain")


def test_what_the_chain_does_not_find_is_found_by_a_published_digest(filled: Ledger) -> None:
    """The newest entry can be rewritten where nobody has seen it, but not its published digest."""
    published = filled.read().entries[-1]
    forge(filled, 4, nano_eps=1)
    with pytest.raises(LedgerError, match="lacks entry 4 as this workspace saw it"):
        filled.verify()
    forget(filled)
    assert len(filled.verify()) == 4
    altered = filled.read().entry(published.number)
    assert altered is not None and altered.digest != published.digest
    raw(filled.path, "DELETE FROM entries WHERE number = 4")
    assert len(filled.verify()) == 3 and filled.read().entry(published.number) is None


def test_a_damaged_index_is_found(filled: Ledger) -> None:
    """An entry that the unique index does not know: every row is right, the file is not."""
    name = "sqlite_autoindex_entries_1"
    with closing(sqlite3.connect(filled.path)) as db:
        page = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (name,)).fetchone()[
            0
        ]
        size = db.execute("PRAGMA page_size").fetchone()[0]
    contents = bytearray(filled.path.read_bytes())
    cells = slice((page - 1) * size + 3, (page - 1) * size + 5)  # how many cells the page has
    assert int.from_bytes(contents[cells], "big") == 4
    contents[cells] = (3).to_bytes(2, "big")
    filled.path.write_bytes(contents)
    with pytest.raises(LedgerError, match="damaged"):
        filled.verify()


def test_damaged_pages_are_told_in_one_sentence(filled: Ledger) -> None:
    contents = bytearray(filled.path.read_bytes())
    contents[4096:] = os.urandom(len(contents) - 4096)
    filled.path.write_bytes(contents)
    with pytest.raises(LedgerError, match="restore a backup"):
        filled.verify()


def test_no_damaged_byte_ends_in_anything_but_a_sentence(filled: Ledger) -> None:
    """In the schema and in texts, a damaged byte is no UTF-8."""
    whole, truth = filled.path.read_bytes(), filled.read().entries
    for place in range(0, len(whole), 31):
        filled.path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x80]) + whole[place + 1 :])
        for call in (filled.verify, filled.read, filled.prepare):
            try:
                found = call()
            except LedgerError:
                continue
            assert found.entries == truth
        for end in ("-wal", "-shm"):
            Path(f"{filled.path}{end}").unlink(missing_ok=True)


# Salts


def test_a_digest_confirms_no_guess(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same charge at the same time has another digest in another ledger."""

    class Stopped(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime(2001, 1, 1, tzinfo=tz)

    monkeypatch.setattr(entries_module, "datetime", Stopped)
    entries = [charge(Ledger(tmp_path / name / ".dpkv")) for name in ("one", "two")]
    one, two = ({**asdict(entry), "salt": "", "digest": ""} for entry in entries)
    assert one == two
    assert entries[0].digest != entries[1].digest


# Kept releases


def keep(ledger: Ledger, entry: Entry, *, n_centers: int = 1, **form: object) -> Path:
    """Put a record into the workspace that quotes an entry, as a release does."""
    path = ledger.workspace / "releases" / f"{entry.release_id}.json"
    path.parent.mkdir(mode=0o700, exist_ok=True)
    record = {
        "columns": ['a "ledger": {', '\\"ledger": null, "x'],
        "centers": [[0.5]] * n_centers,
        "bounds": {"ledger": None},
        "ledger": {"number": entry.number, "digest": entry.digest, "charged": "0.1"},
        "signature": None,
    }
    path.write_text(json.dumps(record, **form), encoding="utf-8")  # type: ignore[arg-type]
    return path


def writes(ledger: Ledger) -> dict[str, Callable[[], object]]:
    return {
        "prepare": ledger.prepare,
        "charge": lambda: charge(ledger, "new"),
        "set a budget": lambda: set_budget(ledger, "9"),
        "verify": ledger.verify,
    }


def rolled_back(ledger: Ledger) -> None:
    earlier = ledger.path.read_bytes()
    keep(ledger, charge(ledger, "later"))
    ledger.path.write_bytes(earlier)


def deleted(ledger: Ledger) -> None:
    keep(ledger, charge(ledger, "later"))
    ledger.path.unlink()


def begun_anew(ledger: Ledger) -> None:
    kept = keep(ledger, charge(ledger, "later"))
    aside = kept.rename(ledger.workspace / "aside")
    ledger.path.unlink()
    forget(ledger)
    for number in range(6):
        charge(ledger, f"r{number}")
    charge(ledger, "later")
    aside.rename(kept)


@pytest.mark.parametrize("fault", [rolled_back, deleted, begun_anew])
@pytest.mark.parametrize(
    "form",
    [{"indent": 2}, {"indent": 2, "n_centers": 5000}, {}, {"sort_keys": True, "n_centers": 5000}],
    ids=["as written", "many centres", "one line", "sorted"],
)
def test_a_ledger_that_lacks_what_a_kept_release_quotes_is_found(
    filled: Ledger,
    fault: Callable[[Ledger], None],
    form: dict[str, object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(globals(), "keep", functools.partial(keep, **form))
    fault(filled)
    before = filled.path.read_bytes() if filled.path.exists() else None
    for call in writes(filled).values():
        with pytest.raises(LedgerError, match=r"lacks entry 5 as .*later\.json quotes it"):
            call()
    assert (filled.path.read_bytes() if filled.path.exists() else None) == before


def test_a_ledger_beside_its_releases_is_whole(filled: Ledger) -> None:
    for number in range(3):
        keep(filled, filled.read().entries[1 + number])
    for call in writes(filled).values():
        call()
    assert len(filled.verify()) == 6


def test_other_files_beside_releases_quote_nothing(filled: Ledger, tmp_path: Path) -> None:
    quoted = keep(filled, replace(filled.read().entries[1], release_id="x", digest="0" * 64))
    folder = quoted.parent
    quoted.rename(tmp_path / "elsewhere.json")
    (folder / "link.json").symlink_to(tmp_path / "elsewhere.json")
    (folder / "folder.json").mkdir()
    os.mkfifo(folder / "pipe.json")
    for name, text in {
        "notes.txt": '{"ledger": {"number": 9, "digest": "0"}}',
        ".unfinished.json": '{"ledger": {"number": 9, "digest": "0"}}',
        f"r0.synopsis-{'0' * 16}.json": '{"ledger": {"number": 9, "digest": "0"}}',
        "empty.json": "",
        "text.json": "ledger",
        "uncharged.json": '{"ledger": null}',
        "half.json": '{"ledger": {"number": 9}}',
        "odd.json": '{"ledger": {"number": "9", "digest": 9}}',
        "cut.json": '{"ledger": {"number": 9, "dig',
    }.items():
        (folder / name).write_text(text, encoding="utf-8")
    for call in writes(filled).values():
        call()


def test_a_release_kept_while_the_chain_is_read_is_no_fault(
    filled: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor one that is charged and kept while another process waits to write."""
    names = iter("abcdef")

    def another_process() -> None:
        other = Ledger(filled.workspace)
        with monkeypatch.context() as undone:
            undone.setattr(ledger_module, "read_chain", read)
            undone.setattr(module.SqliteStore, "_opened", opened)
            keep(other, charge(other, next(names), dataset="d2"))

    read, opened = ledger_module.read_chain, module.SqliteStore._opened

    def chain_then_other(*given: object) -> object:
        found = read(*given)  # type: ignore[arg-type]
        another_process()
        return found

    def other_then_opened(store: module.SqliteStore) -> object:
        another_process()
        return opened(store)

    monkeypatch.setattr(ledger_module, "read_chain", chain_then_other)
    assert len(filled.verify()) == 4
    monkeypatch.setattr(ledger_module, "read_chain", read)
    monkeypatch.setattr(module.SqliteStore, "_opened", other_then_opened)
    filled.verify()
    for call in writes(filled).values():
        call()
    monkeypatch.undo()
    filled.verify()


# Relations and units


@pytest.mark.parametrize("begun", ["charge", "budget"])
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"neighbours": "add-remove"}, "is for replace-one neighbours.*publishes the number of"),
        ({"unit": "person"}, "protects rows, and what protects persons does not add up"),
        ({}, None),
    ],
    ids=["another relation", "another unit", "the same"],
)
def test_an_account_is_of_one_relation_and_unit(
    ledger: Ledger, begun: str, changes: dict[str, object], words: str | None
) -> None:
    if begun == "charge":
        charge(ledger, "old")
    else:
        set_budget(ledger, "5")
    charge(ledger, "elsewhere", dataset="d2", **changes)
    if words is None:
        charge(ledger, "new", **changes)
        return
    for refused in (
        lambda: charge(ledger, "new", **changes),
        lambda: ledger.set_budget(dataset="d1", label="x", eps=Decimal(1), **changes),  # type: ignore[arg-type]
    ):
        with pytest.raises(UsageError, match=words):
            refused()
    assert len(ledger.verify()) == 2


def test_a_budget_takes_relation_and_unit_of_its_account(ledger: Ledger) -> None:
    charge(ledger, neighbours="add-remove", unit="person")
    budget = set_budget(ledger, "1")
    assert (budget.neighbours, budget.unit) == ("add-remove", "person")
    assert ledger.read().account("d1").protects == "add-remove, persons"


def test_persons_of_another_column_are_another_unit(ledger: Ledger) -> None:
    ledger.set_budget(dataset="d1", label="patients.csv", eps=Decimal(9), unit="person")
    for column in (None, "patient", "patient", None):
        charge(ledger, f"r{len(ledger.read())}", unit="person", person=column)
    account = ledger.read().account("d1")
    assert (account.person, account.protects) == ("patient", "replace-one, persons by patient")
    with pytest.raises(UsageError, match="by patient, and what protects persons by household"):
        charge(ledger, "other", unit="person", person="household")
    with pytest.raises(ParameterError, match="person must be left out"):
        charge(ledger, "other", person="patient")
    assert len(ledger.verify()) == 5


# Files that are not a ledger of one's own


@pytest.mark.parametrize("contents", [b"number,eps\n" * 50, b"number,eps\n" * 1000])
def test_a_file_that_is_no_database_is_refused_and_kept(ledger: Ledger, contents: bytes) -> None:
    ledger.workspace.mkdir()
    ledger.path.write_bytes(contents)
    for call in (ledger.prepare, ledger.verify, lambda: charge(ledger)):
        with pytest.raises(LedgerError, match="not a SQLite database: restore a backup"):
            call()
    assert ledger.path.read_bytes() == contents


def test_another_programs_database_is_refused(filled: Ledger) -> None:
    raw(filled.path, "PRAGMA application_id = 7")
    for call in (filled.prepare, filled.verify, lambda: charge(filled)):
        with pytest.raises(LedgerError, match="another program's file"):
            call()


@pytest.mark.parametrize("contents", [b"", b"x"])
def test_an_empty_file_is_no_ledger(ledger: Ledger, contents: bytes) -> None:
    ledger.workspace.mkdir()
    ledger.path.write_bytes(contents)
    with pytest.raises(LedgerError, match="another program's file"):
        ledger.prepare()


@pytest.mark.parametrize("version", [0, 1, 3, 5])
def test_another_schema_is_refused(filled: Ledger, version: int) -> None:
    raw(filled.path, f"PRAGMA user_version = {version}")
    for call in (filled.prepare, filled.verify, lambda: charge(filled)):
        with pytest.raises(LedgerError, match=f"schema version {version}.*use the version of dpkv"):
            call()


def test_a_ledger_without_its_table_is_told_in_one_sentence(filled: Ledger) -> None:
    raw(filled.path, "ALTER TABLE entries RENAME TO elsewhere")
    with pytest.raises(LedgerError, match="no such table"):
        filled.verify()


def test_everything_is_for_its_owner_alone(ledger: Ledger) -> None:
    old = os.umask(0)
    try:
        ledger.prepare()
        assert mode(ledger.path) == 0o600
        with ledger._sqlite.writing():
            names = {path.name: mode(path) for path in ledger.workspace.iterdir()}
    finally:
        os.umask(old)
    assert mode(ledger.workspace) == 0o700
    assert {name for name in names if name.startswith("ledger")} == {
        "ledger.sqlite",
        "ledger.sqlite-wal",
        "ledger.sqlite-shm",
    }
    assert set(names.values()) == {0o600}


def test_an_open_ledger_is_closed_again(filled: Ledger) -> None:
    filled.workspace.chmod(0o755)
    filled.path.chmod(0o644)
    filled.verify()
    assert (mode(filled.workspace), mode(filled.path)) == (0o700, 0o600)


@pytest.mark.parametrize("end", ["", "-wal", "-shm", "-journal"])
def test_a_planted_link_is_refused(filled: Ledger, tmp_path: Path, end: str) -> None:
    victim = tmp_path / "victim"
    shutil.copy(filled.path, victim)
    before = victim.read_bytes()
    planted = Path(f"{filled.path}{end}")
    planted.unlink(missing_ok=True)
    planted.symlink_to(victim)
    for call in (filled.prepare, filled.verify, lambda: charge(filled, "new")):
        with pytest.raises(LedgerError, match="must be a plain file"):
            call()
    assert victim.read_bytes() == before


def test_a_dangling_link_creates_nothing_elsewhere(ledger: Ledger, tmp_path: Path) -> None:
    ledger.workspace.mkdir()
    ledger.path.symlink_to(tmp_path / "victim")
    with pytest.raises(LedgerError, match="must be a plain file"):
        ledger.prepare()
    assert not (tmp_path / "victim").exists()


def test_a_linked_workspace_is_refused(filled: Ledger, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(filled.workspace)
    with pytest.raises(UsageError, match="plain folder"):
        Ledger(tmp_path / "link").verify()


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can give away")
@pytest.mark.parametrize("name", [".", "ledger.sqlite"])
def test_what_belongs_to_another_user_is_refused(filled: Ledger, name: str) -> None:
    os.chown(filled.workspace / name, 12345, 12345)
    for call in (filled.prepare, filled.verify, lambda: charge(filled, "new")):
        with pytest.raises(UsageError, match="another user"):
            call()


def test_a_ledger_deleted_beside_its_journal_is_not_begun_anew(filled: Ledger) -> None:
    Path(f"{filled.path}-wal").write_bytes(b"")
    assert len(filled.verify()) == 4
    Path(f"{filled.path}-wal").write_bytes(b"")
    filled.path.unlink()
    with pytest.raises(LedgerError, match="is gone, its journal is not"):
        filled.prepare()


def test_a_workspace_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ledger = Ledger(tmp_path / "file" / ".dpkv")
    for call in (ledger.prepare, ledger.verify):
        with pytest.raises(LedgerError, match="cannot be used: Not a directory"):
            call()


def test_a_name_full_of_signs_is_no_trouble(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "50% off?mode=ro#é" / ".dpkv")
    charge(ledger)
    assert len(ledger.verify()) == 1 and ledger.path.exists()


def test_a_relative_workspace_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    charge(Ledger(Path(".dpkv")))
    assert len(Ledger(tmp_path / ".dpkv").verify()) == 1
    assert sorted(path.name for path in Path(".dpkv").iterdir()) == [
        ".gitignore",
        "chain",
        "ledger.sqlite",
    ]


def test_an_old_sqlite_is_told(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    with pytest.raises(LedgerError, match=r"needs SQLite 3\.37"):
        ledger.prepare()


# Interrupts, locks, full and read-only disks, kills, races


@pytest.mark.parametrize("at", ["COMMIT", "BEGIN IMMEDIATE", "INSERT INTO entries"])
@pytest.mark.parametrize("after", [False, True])
def test_ctrl_c_leaves_a_whole_entry_or_nothing(
    filled: Ledger, monkeypatch: pytest.MonkeyPatch, at: str, after: bool
) -> None:
    class Interrupted(sqlite3.Connection):
        def execute(self, sql: str, *given: object) -> sqlite3.Cursor:
            if not sql.startswith(at):
                return super().execute(sql, *given)
            if after:
                super().execute(sql, *given)
            raise KeyboardInterrupt

    connect = sqlite3.connect
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, factory=Interrupted, **k))
        with pytest.raises(KeyboardInterrupt):
            charge(filled, "interrupted")
    monkeypatch.setattr(module, "_BUSY_SECONDS", 0.0)  # no lock is left behind
    committed = at == "COMMIT" and after
    assert len(filled.verify()) == (5 if committed else 4)
    assert charge(filled, "interrupted").number == 5
    assert len(filled.verify()) == 5


def test_a_locked_ledger_is_told(filled: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BUSY_SECONDS", 0.05)
    with closing(sqlite3.connect(filled.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match="locked by another process: try again"):
            charge(filled, "new")
        assert len(filled.verify()) == 4  # readers need not wait
        other.execute("ROLLBACK")
        assert charge(filled, "new").number == 5


CHARGE_AT_A_SIGNAL = """
print("ready", flush=True)
sys.stdin.readline()
try:
    charge(sys.argv[2])
    print("charged")
except BudgetError as error:
    print("refused", error.remaining)
"""


@pytest.mark.processes
@pytest.mark.parametrize("fitting", [5, 8])
def test_eight_processes_share_a_budget(ledger: Ledger, fitting: int) -> None:
    set_budget(ledger, str(Decimal("0.1") * fitting))
    answers = at_once(CHARGE_AT_A_SIGNAL, ledger)
    assert sorted(answers) == ["charged"] * fitting + ["refused 0"] * (8 - fitting)
    assert ledger.read().account("d1").n_charges == fitting
    assert ledger.read().account("d1").remaining == 0 and len(ledger.verify()) == 1 + fitting


@pytest.mark.processes
def test_eight_processes_may_make_the_ledger_at_once(ledger: Ledger) -> None:
    assert at_once(CHARGE_AT_A_SIGNAL, ledger) == ["charged"] * 8
    assert len(ledger.verify()) == 8
    assert sorted(p.name for p in ledger.workspace.iterdir()) == [
        ".gitignore",
        "chain",
        "ledger.sqlite",
    ]


def at_once(program: str, ledger: Ledger) -> list[str]:
    """Return what eight processes print that are let go together."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PRELUDE + program, str(ledger.workspace), f"release {number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(8)
    ]
    for process in processes:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return [process.communicate(timeout=PATIENCE)[0].strip() for process in processes]


CHARGE_UNTIL_FULL = """
limit = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
acknowledged = 0
try:
    ledger.prepare()
    while acknowledged < 400:
        charge(f"r{acknowledged}")
        acknowledged += 1
    print(acknowledged, "no limit met")
except LedgerError as error:
    print(acknowledged, error)
"""


@pytest.mark.processes
@pytest.mark.parametrize("limit", [1 << 12, 1 << 16])
def test_no_room_left_refuses_and_loses_nothing(ledger: Ledger, limit: int) -> None:
    acknowledged, _, message = run(CHARGE_UNTIL_FULL, ledger.workspace, limit).partition(" ")
    assert "the disk is full or failing: make room" in message or "File too large" in message
    assert int(acknowledged) == len(ledger.verify())
    assert (int(acknowledged) > 0) == (limit == 1 << 16)
    charge(ledger, "with room again")


@pytest.mark.processes
def test_with_room_the_same_charges_go_through(ledger: Ledger) -> None:
    assert run(CHARGE_UNTIL_FULL, ledger.workspace, 1 << 24) == "400 no limit met"


def own_mounts() -> tuple[str, ...]:
    """Return the command that runs a program with mounts of its own, or skip."""
    prefix = ("unshare", "--mount", "--propagation", "private")
    try:
        tried = subprocess.run(
            [*prefix, "mount", "-t", "tmpfs", "none", "/tmp"], capture_output=True, check=False
        )
    except FileNotFoundError:
        pytest.skip("no unshare here")
    if tried.returncode:
        pytest.skip("no right to mount here")
    return prefix


ON_A_SMALL_DISK = """
import subprocess
place = str(Path(sys.argv[1]).parent)
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", place], check=True)

def attempts(number):
    for call in (ledger.prepare, lambda: charge(f"r{number}")):
        try:
            call()
            print("written")
        except LedgerError as error:
            print(error)
"""

FILLED_UP = """
attempts(1)
filler = Path(place) / "filler"
try:
    with filler.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
except OSError:
    pass
attempts(2)
filler.unlink()
print(len(ledger.verify()))
attempts(2)
print(len(ledger.verify()))
"""


@pytest.mark.processes
def test_a_full_disk_is_told(tmp_path: Path) -> None:
    lines = run(ON_A_SMALL_DISK + FILLED_UP, tmp_path / ".dpkv", prefix=own_mounts()).splitlines()
    assert lines[:2] == ["written"] * 2
    assert all("the disk is full" in line and "make room" in line for line in lines[2:4])
    assert lines[4:] == ["1", "written", "written", "2"]


READ_ONLY = """
def remount(how):
    subprocess.run(["mount", "-o", f"remount,{how}", place], check=True)

remount("ro")
attempts(1)
remount("rw")
attempts(1)
remount("ro")
attempts(2)
remount("rw")
print(len(ledger.verify()))
"""


@pytest.mark.processes
def test_a_read_only_disk_is_told(tmp_path: Path) -> None:
    lines = run(ON_A_SMALL_DISK + READ_ONLY, tmp_path / ".dpkv", prefix=own_mounts()).splitlines()
    assert all("cannot be used: Read-only file system" in line for line in lines[:2])
    assert lines[2:4] == ["written"] * 2
    assert all("as its folder or its disk is read-only" in line for line in lines[4:6])
    assert lines[6:] == ["1"]


WRITE_PROTECTED = """
ledger.path.chmod(0o400)
print(len(ledger.verify()))
for call in (ledger.prepare, lambda: charge("new")):
    try:
        call()
        print("written")
    except LedgerError as error:
        print(error)
ledger.path.chmod(0o600)
charge("new")
print(len(ledger.verify()))
"""


def as_anyone() -> tuple[str, ...]:
    """Return the command that takes from root the right to write what is write-protected."""
    if not hasattr(os, "getuid") or os.getuid() != 0:
        return ()
    if shutil.which("setpriv") is None:
        pytest.skip("root may write anything, and no setpriv here")
    return ("setpriv", "--bounding-set=-dac_override,-dac_read_search")


@pytest.mark.processes
def test_a_write_protected_ledger_is_told(filled: Ledger) -> None:
    """Its journals copy its mode: they must not keep it read-only afterwards."""
    lines = run(WRITE_PROTECTED, filled.workspace, prefix=as_anyone()).splitlines()
    assert (lines[0], lines[3:]) == ("4", ["5"])
    assert all("is read-only: make the file, its folder" in line for line in lines[1:3])


KILLED = """
import itertools, sqlite3
early = sys.argv[2] == "early"
connect = sqlite3.connect

class Dying(sqlite3.Connection):
    left = None
    def execute(self, *arguments):
        if Dying.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        if Dying.left is not None:
            Dying.left -= 1
        return super().execute(*arguments)

def acknowledge_charges(names, write, n_statements):
    sqlite3.connect = lambda *given, **named: connect(*given, factory=Dying, **named)
    for name in names:
        Dying.left = n_statements
        if early:
            os.write(write, f"{name}\\n".encode())
        charge(name)
        if not early:
            os.write(write, f"{name}\\n".encode())

def acknowledged_by(names, n_statements=None, kill_after=None):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        acknowledge_charges(names, write, n_statements)
        os._exit(0)
    os.close(write)
    with open(read) as pipe:
        if kill_after is not None:
            told = [next(pipe) for _ in range(kill_after)]
            os.kill(child, signal.SIGKILL)
        else:
            told = []
        told += list(pipe)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code, {line.strip() for line in told}

acknowledged, n_kills = set(), 0
for number in range(25):  # wherever it is when the kill comes: in the second charge, or later
    names = (f"run {number}, {step}" for step in itertools.count())
    code, told = acknowledged_by(names, kill_after=1 + number % 3)
    acknowledged |= told
    n_kills += code == -signal.SIGKILL
for statement in itertools.count():  # before every statement of a charge
    code, told = acknowledged_by([f"statement {statement}"], n_statements=statement)
    acknowledged |= told
    n_kills += code == -signal.SIGKILL
    if code == 0:
        break
written = {entry.release_id for entry in ledger.read().entries}
assert len(ledger.verify()) == len(written)
assert statement > 3, "a charge is more than that"
lost, untold = len(acknowledged - written), len(written - acknowledged)
print(n_kills == 25 + statement, lost, untold <= n_kills)
"""


@pytest.mark.processes
def test_a_killed_process_loses_no_acknowledged_charge(ledger: Ledger) -> None:
    assert run(KILLED, ledger.workspace, "late") == "True 0 True"
    assert charge(ledger, "afterwards").number == len(ledger.verify())


@pytest.mark.processes
def test_the_kills_would_show_a_charge_acknowledged_too_early(ledger: Ledger) -> None:
    _, lost, _ = run(KILLED, ledger.workspace, "early").split()
    assert int(lost) > 0


# What a workspace knows of its ledger: nothing is lost by it, and a lost tail is found


def rolled_back_to(ledger: Ledger, contents: bytes) -> None:
    ledger.path.write_bytes(contents)
    for end in ("-wal", "-shm"):
        Path(f"{ledger.path}{end}").unlink(missing_ok=True)


def test_a_rolled_back_ledger_is_found_without_any_release(filled: Ledger) -> None:
    """A lowered budget undone by restoring the file of before."""
    before = filled.path.read_bytes()
    set_budget(filled, "0.3")
    rolled_back_to(filled, before)
    for call in (filled.read, filled.verify, filled.prepare, lambda: charge(filled, "new")):
        with pytest.raises(LedgerError, match="lacks entry 5 as this workspace saw it"):
            call()
    forget(filled)  # the planted fault: it is that note which tells
    charge(filled, "new")


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"facts": 1, "sha256": "0"}', None])
@pytest.mark.parametrize("name", ["newest.json", "verified.txt"])
def test_a_damaged_note_of_the_workspace_counts_as_none(
    long: Ledger, name: str, damage: bytes | None
) -> None:
    path = long.workspace / "chain" / name
    contents = path.read_bytes()
    path.write_bytes(contents.replace(b'"number":', b'"number":1') if damage is None else damage)
    assert len(long.read()) == len(long.verify()) == 7
    assert charge(long, "new", "0.01").number == 8


@pytest.fixture
def long(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """A budget and six charges, the first entries being known by their sums alone."""
    monkeypatch.setattr(ledger_module, "EVERY", 3)
    set_budget(ledger, "1")
    for number in range(6):
        charge(ledger, f"r{number}", end_to_end=number != 1)
    assert ledger.read().base.number > 0
    return ledger


def test_a_long_ledger_answers_as_a_whole_one_does(long: Ledger) -> None:
    chain, whole = long.read(), long.verify()
    assert chain.base.number >= 3 and len(chain.tail) < 3 and whole.base.number == 0
    assert len(chain) == len(whole) == 7
    assert chain.accounts() == whole.accounts() and chain.digest == whole.digest
    assert chain.entries == whole.entries
    assert [chain.entry(number) for number in range(9)] == [whole.entry(n) for n in range(9)]
    for name in ("r0", "r5", "r9"):
        assert chain.find(name) == whole.find(name)
    known = long.read()
    assert len(known.tail) == 0 and known.entries == whole.entries, "verified up to its end"
    before = whole.entries[1]
    assert charge(long, "r0", label="moved.csv") == before  # still charged once
    with pytest.raises(UsageError, match="'r0' was charged for another release"):
        charge(long, "r0", "0.2")
    with pytest.raises(BudgetError, match=r"remaining 0\.4"):
        charge(long, "more", "0.5")


def test_an_altered_old_entry_changes_no_charge_and_is_found(long: Ledger) -> None:
    """Its sums are known; only a look at the entry itself, or at all of them, finds it."""
    without_triggers(long.path, "UPDATE entries SET nano_eps = 0 WHERE number = 2")
    with pytest.raises(BudgetError, match=r"remaining 0\.4"):
        charge(long, "more", "0.5")
    for call in (long.verify, lambda: long.read().entry(2), lambda: charge(long, "r0")):
        with pytest.raises(LedgerError, match="entry 2 was altered"):
            call()


@pytest.mark.parametrize("number", [1, 3])
def test_a_removed_old_entry_is_found_by_every_call(long: Ledger, number: int) -> None:
    without_triggers(long.path, f"DELETE FROM entries WHERE number = {number}")
    for call in (long.verify, long.read, long.prepare, lambda: charge(long, "new")):
        with pytest.raises(LedgerError, match=r"is missing|is another one"):
            call()


def test_a_beginning_rewritten_is_found_by_every_call(long: Ledger) -> None:
    """The entry at which the noted sums end, with a digest that fits it."""
    number = long.read().base.number
    forge(long, number, nano_eps=1)
    for call in (long.read, long.prepare, lambda: charge(long, "new")):
        with pytest.raises(LedgerError, match="another one than this workspace verified"):
            call()


def test_forged_sums_are_found_by_a_whole_verification(long: Ledger) -> None:
    base = load_base(long.workspace)
    forged = {name: replace(one, nano_spent=0) for name, one in base.accounts.items()}
    save_base(long.workspace, replace(base, accounts=Accounts(forged)))
    with pytest.raises(LedgerError, match=r"verified\.txt states other sums"):
        long.verify()


@pytest.mark.skipif(sys.platform != "linux", reason="locks of open files")
def test_a_disk_that_grants_every_lock_is_refused(
    filled: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpkv.ledger import locks

    own = filled.workspace / ".gitignore"
    locks.check_locks(own)
    locks.check_locks(own.with_name("nobody made it"))
    monkeypatch.setattr(locks.fcntl, "fcntl", lambda *_: 0)
    for call in (filled.prepare, lambda: charge(filled, "new"), lambda: set_budget(filled, "9")):
        with pytest.raises(LedgerError, match="locks a file for two at once"):
            call()
    monkeypatch.undo()
    assert len(filled.verify()) == 4 and charge(filled, "new").number == 5


def test_a_charge_that_lying_locks_lost_publishes_nothing(filled: Ledger) -> None:
    """Two writers that no lock kept apart: the second overwrote what the first had committed."""
    before = filled.path.read_bytes()
    lost = charge(filled, "lost")
    rolled_back_to(filled, before)
    (filled.workspace / "chain" / "newest.json").unlink()  # the other process knows of nothing
    assert charge(filled, "other").number == lost.number
    with pytest.raises(UsageError, match="'lost' was not charged: it cannot be kept"):
        filled.keep(release_id="lost", record_digest="c" * 64)
    keep(filled, lost)
    for call in writes(filled).values():
        with pytest.raises(LedgerError, match="lacks entry 5 as the kept release"):
            call()
