"""`dpkv release` in processes that race, are killed, are interrupted, or find no room to write."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.points import MOMENTS, PATIENCE, POINTS, Stopped, child_environment, owner_of
from support.run import dpkv, sentences

from dpkv.ledger import Ledger
from dpkv.releases import verify
from dpkv.releases.kept_releases import parse_record
from dpkv.releases.verify import failed

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="forks and signals")

RELEASE = ("release", "--header", "--k=2", "--data=t.csv", "--bounds=-1,1", "--eps=0.1")
ENVIRONMENT = child_environment()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    rows = "".join(f"{x / 40 - 1},{1 - x / 40}\n" for x in range(80))
    (tmp_path / "t.csv").write_text("a,b\n" + rows, encoding="utf-8")
    return tmp_path


def started(home: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "dpkv", *arguments],
        cwd=home,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def helper(program: str, home: Path, *arguments: str, prefix: tuple[str, ...] = ()) -> Any:
    """Run a program that has imported dpkv and forks, and return the JSON that it prints."""
    done = subprocess.run(
        [*prefix, sys.executable, "-c", PRELUDE + program, *arguments],
        cwd=home,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


PRELUDE = """
import json, os, shutil, signal, subprocess, sys, tempfile, traceback
from pathlib import Path
import dpkv, dpkv.cli, dpkv.releases, dpkv.tables, dpkv.releases.signing
from dpkv.ledger import Ledger
from support.points import MOMENTS, act_at, announce, announced, raise_at, until_stopped

RELEASE = ["release", "--header", "--k=2", "--data=t.csv", "--bounds=-1,1", "--eps=0.1"]
given = sys.argv[1:]

def command(*arguments):
    sys.argv = ["dpkv", *map(str, arguments)]
    try:
        dpkv.cli.main()
    except SystemExit as leaving:
        return int(leaving.code or 0)

def forked(work):
    child = os.fork()
    if child:
        return child
    code = 99
    try:
        with open(os.devnull, "w") as nowhere, open(f"{os.getpid()}.err", "w") as errors:
            os.dup2(nowhere.fileno(), 1)
            os.dup2(errors.fileno(), 2)
            code = work()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)

def ended(child):
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    file = Path(f"{child}.err")
    text = file.read_text() if file.exists() else ""
    file.unlink(missing_ok=True)
    return code, text

def charges():
    return [e.release_id for e in Ledger(Path(".dpkv")).read().entries if e.kind == "charge"]

# One release, so that what is compiled or imported late is there in every child.
results, sys.stdout = sys.stdout, open(os.devnull, "w")
table = Path.cwd()
warm = tempfile.mkdtemp(dir=".")
os.chdir(warm)
command(*(a.replace("t.csv", "../t.csv") for a in RELEASE), "--out=warm")
os.chdir("..")
shutil.rmtree(warm)

def report(*found):
    print(json.dumps(found), file=results)
"""


def charges(home: Path) -> list[str]:
    return [e.release_id or "" for e in Ledger(home / ".dpkv").read().entries if e.kind == "charge"]


def complete(folder: Path, home: Path) -> str:
    """Return the id of the release in a folder, which must be whole and verify."""
    assert sorted(path.name for path in folder.iterdir()) == ["centers.csv", "release.json"]
    path = folder / "release.json"
    record = parse_record(path.read_text(encoding="utf-8"), path)
    text = (folder / "centers.csv").read_text(encoding="utf-8")
    checks = verify(record, csv_text=text, workspace=home / ".dpkv")
    assert not failed(checks)
    assert [check.name for check in checks if check.passed is None] == ["signature"]
    return record.release_id or ""


def sound(home: Path) -> tuple[list[str], list[str]]:
    """Return the ids charged and the ids released, having checked all that must always hold."""
    Ledger(home / ".dpkv").verify()
    charged = charges(home)
    assert len(set(charged)) == len(charged), "no release is charged twice"
    kept = [path.stem for path in (home / ".dpkv" / "releases").glob("[!.]*.json")]
    published = [complete(path, home) for path in home.glob("out*")]
    assert len(set(published)) == len(published)
    assert set(published) <= set(kept) <= set(charged), "nothing is released without its charge"
    return charged, kept


# --- races ------------------------------------------------------------------------------------


def test_eight_releases_against_a_budget_for_five(home: Path) -> None:
    assert dpkv("ledger", "set-budget", "t.csv", "--eps", "0.5", cwd=home).returncode == 0
    processes = [started(home, *RELEASE, f"--out=out{number}") for number in range(8)]
    ends = [(process.communicate(timeout=PATIENCE), process.returncode) for process in processes]
    assert sorted(code for _, code in ends) == [0] * 5 + [4] * 3
    for number, ((out, err), code) in enumerate(ends):
        assert (home / f"out{number}").exists() == (code == 0)
        if code == 4:
            assert out == "" and "requested eps 0.1, remaining 0, short by 0.1" in err
    charged, kept = sound(home)
    assert len(charged) == len(kept) == 5
    assert not [path for path in home.iterdir() if path.name.startswith(".out")]


def test_processes_with_the_same_id_get_the_same_release(home: Path) -> None:
    """On a workspace that none of them finds."""
    processes = [started(home, *RELEASE, "--id=mine", f"--out=o{n}", "--json") for n in range(4)]
    ends = [process.communicate(timeout=PATIENCE) for process in processes]
    assert [sentences(err) for _, err in ends] == [[]] * 4
    assert len({out for out, _ in ends}) == 1
    assert charges(home) == ["mine"]
    assert {complete(home / f"o{number}", home) for number in range(4)} == {"mine"}


SAME_ID = """
seen = []
for number in range(5):
    read, write = os.pipe()
    def work():
        os.close(write)
        os.read(read, 1)  # until all are there
        return command(*RELEASE, f"--id=race{number}", f"--out=out-{number}-{os.getpid()}")
    children = [forked(work) for _ in range(4)]
    os.close(read)
    os.close(write)
    seen += [ended(child) for child in children]
report(seen, charges())
"""


def test_a_tight_race_for_the_same_id(home: Path) -> None:
    seen, charged = helper(SAME_ID, home)
    assert all((code, sentences(text)) == (0, []) for code, text in seen)
    assert sorted(charged) == [f"race{number}" for number in range(5)]
    for number in range(5):
        folders = list(home.glob(f"out-{number}-*"))
        assert len(folders) == 4
        assert len({(folder / "release.json").read_bytes() for folder in folders}) == 1
        assert complete(folders[0], home) == f"race{number}"


# --- kill -9 ----------------------------------------------------------------------------------

KILLED = """
fault, moments = given[0] == "released first", json.loads(given[1])
charge, keep = Ledger.charge, Ledger.keep
if fault:  # else a ledger beside a release that it did not pay for would stop all that follow
    import dpkv.ledger.ledger
    dpkv.ledger.ledger.find_quotes = lambda workspace: ()

def work(point, when, write, wait):
    act_at(point, when, announce(write, wait=wait))
    for step in range(10**6):
        later = []
        if fault:  # the planted fault: another ledger is charged until the release is out
            shadow = Ledger(Path(f"shadow-{os.getpid()}-{step}"))
            def charge_later(ledger, **named):
                later.append(lambda: charge(ledger, **named))
                return charge(shadow, **named)
            Ledger.charge = charge_later
            Ledger.keep = lambda ledger, **named: keep(shadow, **named)
        command(*RELEASE, f"--out=out-{os.getpid()}-{step}")
        for write_charge in later:
            write_charge()

missed = []
for point, when in moments:
    for wait in (True, False):  # dead at the point itself, and wherever it is when we come
        read, write = os.pipe()
        child = forked(lambda: work(point, when, write, wait))
        os.close(write)
        if not announced(read):
            missed.append(point)
        os.close(read)
        os.kill(child, signal.SIGKILL)
        ended(child)
kept = {path.stem for path in Path(".dpkv/releases").glob("[!.]*.json")}
charged = set(charges())
report(len(charged), sorted(kept - charged), sorted(charged - kept), missed)
"""


def test_kill_9_at_fifty_moments(home: Path) -> None:
    """Each point of a release, the process waiting there or running on."""
    n_kills = 2 * len(MOMENTS)
    assert n_kills >= 50
    charged, unpaid, unfinished, missed = helper(KILLED, home, "charged first", json.dumps(MOMENTS))
    assert missed == []
    assert unpaid == []
    assert len(unfinished) <= n_kills
    late = MOMENTS[MOMENTS.index(("the charge", "after")) :]
    assert charged >= len([moment for moment in late if moment[0] != "making room"])
    sound(home)
    verified = dpkv("ledger", "verify", cwd=home)
    assert verified.returncode == 0 and "chain unbroken" in verified.stdout
    for name in unfinished[:1]:  # what was paid for can be had, at no further cost
        result = dpkv(*RELEASE, f"--id={name}", "--out=out-finished", cwd=home)
        assert result.returncode == 0, result.stderr
        assert complete(home / "out-finished", home) == name
    assert len(charges(home)) == charged


def test_the_kills_would_show_a_release_before_its_charge(home: Path) -> None:
    """A process that waits at such a moment when it is killed has kept what nobody paid for."""
    moments = [("keeping", "after"), ("moving the folder", "before"), ("showing", "before")]
    _, unpaid, _, missed = helper(KILLED, home, "charged first", json.dumps(moments))
    assert (unpaid, missed) == ([], [])
    _, unpaid, _, missed = helper(KILLED, home, "released first", json.dumps(moments))
    assert len(unpaid) >= len(moments) and missed == []


@pytest.mark.parametrize("point", POINTS)
def test_a_point_names_a_function(point: str) -> None:
    assert callable(getattr(*owner_of(point)))


def test_kill_9_of_the_real_command(home: Path) -> None:
    """Two at a time, each at a point of its own."""
    moments = [
        (("making the ledger", "after"), ("the charge", "before")),
        (("the charge", "after"), ("the first question", "after")),
        (("keeping", "after"), ("moving the folder", "before")),
    ]
    for number, pair in enumerate(moments):
        places = [
            Stopped(*moment, *RELEASE, f"--out=out{number}{side}", cwd=home)
            for side, moment in zip("ab", pair, strict=True)
        ]
        for stopped in places:
            with stopped:
                assert stopped.reached()
                assert stopped.signalled(signal.SIGKILL)[0] == -signal.SIGKILL
    charged, kept = sound(home)
    assert (len(charged), len(kept)) == (4, 2)


# --- Ctrl-C -----------------------------------------------------------------------------------

INTERRUPTED = """
found = {}
for point, when in MOMENTS:
    folder = Path(f"{when} {point}")
    folder.mkdir()
    os.chdir(folder)
    os.symlink("../t.csv", "t.csv")
    def work():
        raise_at(point, when, signal.SIGINT)
        return command(*RELEASE, "--out=out")
    code, text = ended(forked(work))
    charged = charges()
    left = sorted(p.name for p in Path(".").iterdir() if p.name not in (".dpkv", "t.csv"))
    again = ""
    if charged:
        again = ended(forked(lambda: command(*RELEASE, f"--id={charged[0]}", "--out=out2")))
    found[str(folder)] = [code, text, charged, left, again, charges()]
    os.chdir("..")
report(found)
"""


def test_ctrl_c_anywhere_in_a_release(home: Path) -> None:
    faults = []
    (found,) = helper(INTERRUPTED, home)
    for place, (code, text, charged, left, again, later) in found.items():
        lines = sentences(text)
        whole = left == ["out"]
        if code != 130:
            faults.append(f"{place}: exit code {code}")
        if len(lines) != 1 or not lines[0].startswith("dpkv: error: interrupted "):
            faults.append(f"{place}: {text!r}")
        if left and not whole:
            faults.append(f"{place}: {left} lie about")
        if whole:
            complete(home / place / "out", home / place)
        if len(charged) > 1 or later != charged:
            faults.append(f"{place}: charged {len(charged)} times, then {len(later)}")
        if charged and charged[0] not in text:
            faults.append(f"{place}: charged, and the sentence does not tell the id: {text!r}")
        if charged:
            assert again[0] == 0 and sentences(again[1]) == [], again
            assert complete(home / place / "out2", home / place) == charged[0]
    assert faults == []


@pytest.mark.parametrize(
    ("point", "when"),
    [
        ("reading the table", "before"),
        ("the charge", "before"),
        ("the charge", "after"),
        ("the first question", "after"),
        ("keeping", "after"),
        ("moving the folder", "before"),
        ("showing", "before"),
    ],
)
def test_ctrl_c_of_the_real_command(point: str, when: str, home: Path) -> None:
    with Stopped(point, when, *RELEASE, "--out=out", cwd=home) as stopped:
        assert stopped.reached()
        charged = charges(home)
        code, out, err = stopped.signalled(signal.SIGINT)
    assert (code, out) == (130, "")
    (line,) = sentences(err)
    assert line.startswith("dpkv: error: interrupted")
    assert charges(home) == charged
    left = {path.name for path in home.iterdir()} - {".dpkv", "t.csv"}
    assert left == ({"out"} if point == "showing" else set())
    if left:
        assert complete(home / "out", home) == charged[0]
    if charged:
        assert f"--id {charged[0]}" in err
        result = dpkv(*RELEASE, f"--id={charged[0]}", "--out=again", cwd=home)
        assert result.returncode == 0, result.stderr
        assert complete(home / "again", home) == charged[0]
        assert charges(home) == charged


WHILE_IMPORTING = """
import os, runpy, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
module, sys.argv = sys.argv[1], ["dpkv", *sys.argv[2:]]
"""


@pytest.mark.parametrize("module", ["typer", "dpkv.cli.release", "numpy", "dpkv.releases.produce"])
def test_ctrl_c_while_modules_are_imported(module: str, home: Path) -> None:
    program = WHILE_IMPORTING.replace("sys.argv[1]:", "module:") + (
        "runpy.run_module('dpkv', run_name='__main__')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, module, *RELEASE, "--out=out"],
        cwd=home,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode in (130, -signal.SIGINT)
    assert "Traceback" not in done.stderr and len(done.stderr.strip().splitlines()) <= 1
    assert charges(home) == [] and not (home / "out").exists()


TERMINATED = """
def work():
    raise_at("the first question", "before", getattr(signal, given[0]))
    return command(*RELEASE, "--out=out")
report(*ended(forked(work)), charges())
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_terminated_release_can_be_finished(name: str, home: Path) -> None:
    code, text, (charged,) = helper(TERMINATED, home, name)
    assert code == 128 + getattr(signal, name)
    assert "Traceback" not in text
    assert charged in text, "or nobody knows how to get what was paid for"
    assert sorted(path.name for path in home.iterdir()) == [".dpkv", "t.csv"]
    result = dpkv(*RELEASE, f"--id={charged}", "--out=out", cwd=home)
    assert result.returncode == 0, result.stderr
    assert charges(home) == [charged]


# --- no room ----------------------------------------------------------------------------------


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


# The table's last row is no record: whoever reads it complains of that instead.
NO_ROOM = """
table, small = Path("t.csv").resolve(), Path("small").resolve()
whole = table.read_text()
small.mkdir()
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "none", small], check=True)

def attempt(out="out", text=whole + "oops,oops\\n"):
    table.write_text(text)
    def work():
        os.chdir(small)
        # Its own folder stays writable: what refuses is the ledger.
        asked = [a.replace("t.csv", str(table)) for a in RELEASE]
        return command(*asked, f"--out={table.parent / out}")
    return [*ended(forked(work)), (table.parent / out).exists()]

def remount(how):
    subprocess.run(["mount", "-o", f"remount,{how}", small], check=True)

found = {"nothing wrong but the table": attempt()}
shutil.rmtree(small / ".dpkv")
remount("ro")
found["read-only, no ledger"] = attempt()
remount("rw")
found["first"] = attempt("first", whole)
remount("ro")
found["read-only"] = attempt()
remount("rw")
with open(small / "filler", "wb", buffering=0) as file:
    try:
        while True:
            file.write(b"x" * 1024)
    except OSError:
        pass
found["full"] = attempt()
(small / "filler").unlink()
found["again"] = attempt("again", whole)
os.chdir(small)
report(found, charges(), len(Ledger(Path(".dpkv")).verify()))
"""


def test_a_read_only_or_full_disk_refuses_before_the_table_is_read(home: Path) -> None:
    found, charged, _ = helper(NO_ROOM, home, prefix=own_mounts())
    code, text, _ = found["nothing wrong but the table"]
    assert code == 2 and "line 82" in text, "the table is broken for whoever reads it"
    for case in ("read-only, no ledger", "read-only", "full"):
        code, text, written = found[case]
        (line,) = sentences(text)
        assert code == 2 and line.startswith("dpkv: error: the ledger "), line
        assert not written
    assert "read-only" in found["read-only"][1].lower()
    assert "Read-only file system" in found["read-only, no ledger"][1]
    assert "the disk is full" in found["full"][1]
    for case in ("first", "again"):
        assert (found[case][0], found[case][2]) == (0, True)
    assert len(charged) == 2


LIMITED = """
import resource
limit = int(given[0])
def work():
    os.dup2(1, 2)  # a file could not take the sentence
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    from dpkv.releases import inputs
    table = inputs.load
    def load(*arguments, **named):
        Path("read").mkdir()
        return table(*arguments, **named)
    inputs.load = load
    return command(*RELEASE, "--out=out")
report(ended(forked(work))[0], Path("read").exists(), Path("out").exists(), charges())
"""


@pytest.mark.parametrize("limit", [0, 4096])
def test_no_room_for_the_ledger_refuses_before_the_table_is_read(limit: int, home: Path) -> None:
    assert helper(LIMITED, home, str(limit)) == [2, False, False, []]


def test_with_room_the_table_is_read(home: Path) -> None:
    code, was_read, written, charged = helper(LIMITED, home, str(1 << 24))
    assert (code, was_read, written, len(charged)) == (0, True, True, 1)
