"""A ledger in PostgreSQL: the same entries and answers as in SQLite, shared, killed, and moved."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from support.points import PATIENCE, child_environment
from support.postgres import PASSWORD, Server, running_server
from support.run import RELEASE, Run, in_process, refusal

from dpkv.errors import BudgetError, DpkvError, LedgerError, UsageError
from dpkv.ledger import Entry, Ledger, entry_digest
from dpkv.ledger.move import move
from dpkv.ledger.postgres import PostgresStore
from dpkv.ledger.sqlite import SqliteStore

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(sys.platform == "win32", reason="forks and signals"),
    pytest.mark.xdist_group("postgres"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_server() as found:
        yield found


@pytest.fixture
def address(server: Server) -> str:
    return server.make_database()


@pytest.fixture
def shared(address: str, tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / ".dpkv", PostgresStore(address))


def charge(ledger: Ledger, release_id: str = "r1", eps: str = "0.1", **more: object) -> Entry:
    return ledger.charge(
        release_id=release_id,
        dataset="d1",
        label="é.csv",
        eps=Decimal(eps),
        neighbours="replace-one",
        end_to_end=True,
        plan_digest="a" * 64,
        **more,  # type: ignore[typeddict-item]
    ).entry


def use(ledger: Ledger) -> list[str]:
    """Do what can be done with a ledger, and return what was answered."""
    told = [str(len(ledger.prepare())), str(len(ledger.verify()))]
    ledger.set_budget(dataset="d1", label="x", eps=Decimal("0.5"), delta=Decimal("1e-6"))
    for number in range(3):
        told.append(str(charge(ledger, f"r{number}").number))
    told.append(str(charge(ledger, "r0").number))
    told.append(str(ledger.keep(release_id="r0", record_digest="b" * 64).entry.number))
    refused = (
        lambda: charge(ledger, "more", "0.4"),
        lambda: charge(ledger, "r0", "0.2"),
        lambda: ledger.keep(release_id="r0", record_digest="c" * 64),
        lambda: ledger.keep(release_id="nobody", record_digest="c" * 64),
    )
    for call in refused:
        with pytest.raises(DpkvError) as error:
            call()
        told.append(str(error.value))
    chain = ledger.verify()
    told += [str(account) for account in chain.accounts()]
    told += [f"{e.kind} {e.release_id} {e.nano_eps} {e.end_to_end}" for e in chain.entries]
    return told


def test_both_stores_answer_alike(shared: Ledger, tmp_path: Path) -> None:
    assert use(shared) == use(Ledger(tmp_path / "own"))
    assert len(shared.read()) == 5
    for entry in shared.read().entries:
        assert entry.digest == entry_digest(entry)


def test_machines_share_one_budget(shared: Ledger, address: str, tmp_path: Path) -> None:
    other = Ledger(tmp_path / "another machine", PostgresStore(address))
    shared.set_budget(dataset="d1", label="x", eps=Decimal("0.2"))
    charge(shared, "a")
    charge(other, "b")
    for ledger in (shared, other):
        with pytest.raises(BudgetError, match="remaining 0"):
            charge(ledger, "c")


def altered(address: str, *statements: str) -> None:
    import psycopg

    with psycopg.connect(address, autocommit=True) as db:
        for statement in statements:
            db.execute(statement)


def test_the_table_is_append_only_and_the_chain_finds_what_is_not(
    shared: Ledger, address: str
) -> None:
    import psycopg

    for number in range(3):
        charge(shared, f"r{number}")
    for statement in (
        "UPDATE dpkv.entries SET nano_eps = 0 WHERE number = 2",
        "DELETE FROM dpkv.entries WHERE number = 3",
        "TRUNCATE dpkv.entries",
    ):
        with pytest.raises(psycopg.Error, match="append-only"):
            altered(address, statement)
    altered(
        address,
        "ALTER TABLE dpkv.entries DISABLE TRIGGER USER",
        "UPDATE dpkv.entries SET nano_eps = 0 WHERE number = 2",
    )
    for call in (shared.verify, shared.read, lambda: charge(shared, "new")):
        with pytest.raises(LedgerError, match="entry 2 was altered"):
            call()


def test_a_ledger_rolled_back_is_found(shared: Ledger, address: str) -> None:
    charge(shared, "a")
    charge(shared, "b")
    altered(
        address,
        "ALTER TABLE dpkv.entries DISABLE TRIGGER USER",
        "DELETE FROM dpkv.entries WHERE number = 2",
    )
    with pytest.raises(LedgerError, match="lacks entry 2 as this workspace saw it"):
        charge(shared, "c")


def test_what_goes_wrong_is_told_without_the_password(
    server: Server, address: str, tmp_path: Path
) -> None:
    wrong = server.address("postgres", password="wrong-" + PASSWORD)
    nowhere = f"postgresql://curator:{PASSWORD}@/x?host={tmp_path}"
    missing = server.address("missing")
    read_only = server.make_database()
    altered(read_only, f"ALTER DATABASE {read_only.split('?')[0].split('/')[-1]} SET "
                       "default_transaction_read_only = on")  # fmt: skip
    for given, words in (
        (wrong, "refuses the user or the password"),
        (nowhere, "cannot be reached"),
        (missing, "has no database of that name"),
        (read_only, "is read-only"),
    ):
        ledger = Ledger(tmp_path / ".dpkv", PostgresStore(given))
        with pytest.raises(LedgerError, match=words) as error:
            charge(ledger)
        assert PASSWORD not in str(error.value) and error.value.__cause__ is None
    with pytest.raises(UsageError, match="must read postgresql://") as refused:
        PostgresStore(f"postgresql://u:{PASSWORD}@[/x")
    assert PASSWORD not in str(refused.value)
    assert PASSWORD not in PostgresStore(address).place


def test_a_server_that_does_not_wait_for_its_disk_is_refused(
    shared: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpkv.ledger import postgres

    monkeypatch.setattr(postgres, "_setting", lambda *_: "off")
    with pytest.raises(LedgerError, match="have fsync turned on"):
        charge(shared)


# --- moving -------------------------------------------------------------------------------------


@pytest.fixture
def own(tmp_path: Path) -> Ledger:
    ledger = Ledger(tmp_path / ".dpkv")
    ledger.set_budget(dataset="d1", label="x", eps=Decimal(1))
    for number in range(3):
        charge(ledger, f"r{number}")
    return ledger


def test_a_ledger_is_carried_over_and_back(own: Ledger, address: str) -> None:
    before = own.verify().entries
    store = PostgresStore(address)
    chain = move(own, store)
    assert chain.entries[:4] == before and chain.entries[4].kind == "moved"
    with pytest.raises(LedgerError, match="was moved to postgresql://curator@"):
        charge(own, "late")
    assert len(own.verify()) == 5, "the old one stays readable"
    shared = Ledger(own.workspace, store)
    charge(shared, "there")
    back = move(shared, SqliteStore(own.workspace))
    assert [entry.kind for entry in back.entries] == [
        "budget", "charge", "charge", "charge", "moved", "charge", "moved",
    ]  # fmt: skip
    assert charge(own, "home").number == 8
    with pytest.raises(LedgerError, match=r"was moved to .*ledger\.sqlite"):
        charge(Ledger(own.workspace.with_name("another"), store), "late")
    assert own.verify().account("d1").n_charges == 5


def test_an_interrupted_move_is_finished_by_asking_again(
    own: Ledger, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpkv.ledger import postgres

    store = PostgresStore(address)
    insert = postgres._PostgresSession.insert

    def interrupted(session: object, entry: Entry) -> None:
        if entry.number == 3:
            raise KeyboardInterrupt
        insert(session, entry)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(postgres._PostgresSession, "insert", interrupted)
        with pytest.raises(KeyboardInterrupt):
            move(own, store)
    with pytest.raises(LedgerError, match="was moved to"):
        charge(own, "late")  # never two that accept charges
    assert len(move(own, store)) == 5
    assert charge(Ledger(own.workspace, store), "there").number == 6


def test_a_move_never_mixes_two_ledgers(own: Ledger, address: str, tmp_path: Path) -> None:
    other = Ledger(tmp_path / "other", PostgresStore(address))
    charge(other, "somebody else's")
    with pytest.raises(LedgerError, match=r"has entries that .* does not know"):
        move(own, PostgresStore(address))
    assert charge(own, "still open").number == 5


def test_a_workspace_with_a_ledger_of_its_own_does_not_charge_elsewhere(
    own: Ledger, address: str
) -> None:
    with pytest.raises(LedgerError, match=r"with 4 entries .*carry it over with 'dpkv ledger move"):
        charge(Ledger(own.workspace, PostgresStore(address)), "elsewhere")


# --- the command --------------------------------------------------------------------------------


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    (tmp_path / "t.csv").write_text("a,b\n0.1,0.2\n0.5,0.5\n-0.5,-0.5\n", encoding="utf-8")
    return in_process(monkeypatch, capsys, tmp_path, secret=PASSWORD)


def test_releases_from_two_folders_share_a_moved_budget(
    run: Run, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("ledger", "set-budget", "t.csv", "--eps=1").returncode == 0
    assert run(*RELEASE, "--out=1").returncode == 0
    monkeypatch.setenv("DPKV_LEDGER", address)
    assert "carry it over" in refusal(run(*RELEASE, "--out=2"))
    moved = run("ledger", "move", "postgres")
    assert moved.stdout.startswith("4 entries of .dpkv/ledger.sqlite are in postgresql://curator@")
    second = tmp_path / "second"
    second.mkdir()
    (second / "t.csv").write_bytes((tmp_path / "t.csv").read_bytes())
    monkeypatch.chdir(second)
    done = run(*RELEASE, "--out=2", "--json")
    facts = json.loads(done.stdout)["curator_only"]["charged_to"]
    assert facts["ledger"].startswith("postgresql://curator@") and PASSWORD not in done.stdout
    assert "remaining 0, short by 0.5" in refusal(run(*RELEASE, "--out=3"), exit_code=4)
    assert run("verify", "2/release.json").returncode == 0
    monkeypatch.chdir(tmp_path)
    assert run("verify", "1/release.json").returncode == 0
    assert run("ledger", "move", "sqlite").returncode == 0
    monkeypatch.delenv("DPKV_LEDGER")
    assert "remaining 0" in refusal(run(*RELEASE, "--out=3"), exit_code=4)
    for path in tmp_path.rglob("*.json"):
        assert PASSWORD not in path.read_text(encoding="utf-8")


def test_a_server_that_vanishes_between_charge_and_keep_publishes_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_server() as server:
        monkeypatch.setenv("DPKV_LEDGER", server.make_database())
        keep = Ledger.keep

        def vanished(ledger: Ledger, **named: str) -> object:
            server.kill()
            return keep(ledger, **named)

        with monkeypatch.context() as patch:
            patch.setattr(Ledger, "keep", vanished)
            done = run(*RELEASE, "--id=mine", "--out=1")
        assert done.returncode == 2 and not (tmp_path / "1").exists()
        lines = done.stderr.splitlines()
        assert any("not known whether release mine was charged" in line for line in lines)
        assert lines[-1].startswith("dpkv: error: the ledger postgresql://curator@")
        server.start_again()
        assert run(*RELEASE, "--id=mine", "--out=1").returncode == 0
        assert Ledger(tmp_path / ".dpkv").verify().accounts()[0].n_charges == 1


def command_lines() -> str:
    """Return the command line of every process, as anybody on the machine may read it."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:  # it has ended
            continue
    return "\n".join(found)


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="no list of processes here")
def test_no_process_list_and_no_traceback_shows_the_password(
    run: Run, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``run`` looks for it in all that is printed."""
    from dpkv.ledger import postgres

    listed: list[str] = []

    def looked(*_: object) -> None:
        listed.append(command_lines())
        raise RuntimeError("a fault that nobody foresaw")

    monkeypatch.setenv("DPKV_LEDGER", address)
    monkeypatch.setenv("DPKV_DEBUG", "1")
    monkeypatch.setattr(postgres._PostgresSession, "insert", looked)
    done = run(*RELEASE, "--id=mine", "--out=1")
    assert done.returncode == 1 and "Traceback" in done.stderr and "looked" in done.stderr
    assert "postgres: curator" in listed[0] and PASSWORD not in listed[0]
    wait = [sys.executable, "-c", "print(flush=True); input()", PASSWORD]
    with subprocess.Popen(wait, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as planted:
        assert planted.stdout is not None
        planted.stdout.readline()
        assert PASSWORD in command_lines(), "the planted fault"
        planted.communicate(b"\n")


# --- kills --------------------------------------------------------------------------------------

CHARGES = """
import os, sys
from decimal import Decimal
from pathlib import Path
from dpkv.errors import BudgetError, LedgerError
from dpkv.ledger import Ledger

ledger, name, n_charges = Ledger(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3])
for number in range(n_charges):
    while True:
        try:
            ledger.charge(
                release_id=f"{name}-{number}", dataset="d1", label="x", eps=Decimal("0.1"),
                neighbours="replace-one", end_to_end=True, plan_digest="a" * 64,
            )
            print(f"charged {name}-{number}", flush=True)
        except BudgetError:
            print(f"refused {name}-{number}", flush=True)
        except LedgerError as error:
            if "cannot be reached" not in str(error) and "shut down" not in str(error):
                raise
            continue  # the server is being killed: ask again with the same id
        break
"""


def test_killed_clients_and_a_killed_server_lose_no_acknowledged_charge(tmp_path: Path) -> None:
    """The small sample of audits/shared_ledger.py: 4 processes x 12 charges, 4 kills."""
    with running_server() as server:
        address = server.make_database()
        shared = Ledger(tmp_path / ".dpkv", PostgresStore(address))
        shared.set_budget(dataset="d1", label="x", eps=Decimal(3))
        environment = {**child_environment(), "DPKV_LEDGER": address}
        clients = [
            subprocess.Popen(
                [sys.executable, "-c", CHARGES, str(tmp_path / f"w{n}"), f"c{n}", "12"],
                env=environment,
                stdout=subprocess.PIPE,
                text=True,
            )
            for n in range(4)
        ]
        lines: list[str] = []
        try:
            for client in clients:
                assert client.stdout is not None
                lines.append(client.stdout.readline())
            clients[0].kill()
            server.kill()
            server.start_again()
            for client in clients:
                client.wait(timeout=PATIENCE)  # what it prints fits into the pipe
                assert client.stdout is not None
                lines += client.stdout.read().splitlines()  # with what readline read ahead
        finally:
            for client in clients:
                client.kill()
                client.communicate()
        told = {line.split()[1] for line in lines if line.startswith("charged")}
        chain = shared.verify()
        written = {entry.release_id for entry in chain.entries if entry.kind == "charge"}
        assert told <= written and len(written - told) <= 1, "but for the client that was killed"
        assert chain.account("d1").nano_spent <= 3 * 10**9
        assert len(written) == 30, "the budget was used up"
        assert any(line.startswith("refused") for line in lines)


def test_a_budget_checked_outside_the_lock_would_be_passed(shared: Ledger, address: str) -> None:
    """The planted fault: two charges that both read before either writes."""
    shared.set_budget(dataset="d1", label="x", eps=Decimal("0.1"))
    chain = shared.read()
    charge(shared, "first")
    store = PostgresStore(address)
    last = chain.entries[-1]
    late = replace(last, number=last.number + 1, kind="charge", release_id="late")
    refused = pytest.raises(LedgerError, match="cannot be used")
    with refused, store.failures_told(), store.writing() as session:
        session.insert(late)
