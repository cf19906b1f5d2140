"""What somebody hostile, or a failing machine, can do to a release: tried, and counted.

    python audits/attack.py                  every attack, a few minutes
    python audits/attack.py --small          a sample, as in `make test`
    python audits/attack.py --only tampering hostile
    python audits/attack.py --write          and keep the figures in audits/attack.json, which
                                             renews those of the attacks that were carried out

The ledger under kills, with fresh ids and with retries of the same id; signals at every named point
of a release; a disk without room; files altered at every place; hostile files. What must hold:
never centres without a charge, never two sets of centres for one id, never more than the budget,
the chain unbroken; one sentence and a documented exit code for every refusal; no record's value in
any output; no more than 2 s of processor time to verify a file. The exit code is 3 where something
did not hold.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import os
import platform
import random
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

HOME = Path(__file__).resolve().parent
sys.path.insert(0, str(HOME.parent / "tests"))

from support import attacks, mutants  # noqa: E402
from support.attacks import RELEASE, Attempt  # noqa: E402
from support.points import MOMENTS, raise_at  # noqa: E402

import dpkv  # noqa: E402

MOST_SECONDS = 2.0  # of processor time, to verify a file
PATIENCE = 120.0  # seconds after which a command that was given a hostile file hangs
SHOWN = 40
Figures = dict[str, float]


@dataclass
class Attack:
    """One kind of attack: where it happens, how large it is, and what it found."""

    folder: Path
    small: bool
    altered: int
    figures: Figures = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def size(self, small: int, full: int) -> int:
        """Return how often something is tried."""
        return small if self.small else full

    def count(self, what: str, number: float = 1) -> None:
        """Add to a figure."""
        self.figures[what] += number

    def note(self, about: str, faults: list[str]) -> None:
        """Keep what did not hold; where the folder was is nobody's business."""
        self.faults += [f"{about}: {fault}".replace(str(self.folder), "...") for fault in faults]

    def room(self, name: str) -> tuple[Path, set[str]]:
        """Return a new folder with a table, and the cells that nobody may print."""
        folder = self.folder / name
        return folder, attacks.make_table(folder)


def spread(moments: list[tuple[str, str]], number: int) -> Iterator[tuple[str, str]]:
    """Yield so many of the moments, evenly; again and again where there are fewer."""
    step = max(1, len(moments) // number)
    return itertools.islice(itertools.cycle(moments[::step]), number)


# -- kills -----------------------------------------------------------------------------------------


def kills(attack: Attack) -> None:
    """Kill releases with fresh ids at named points, and wherever they are soon after."""
    folder, secrets = attack.room("kills")
    n_kills = attack.size(6, 224)
    budget = n_kills / 30  # for a third of them: the rest must be refused
    attacks.attempt(folder, "ledger", "set-budget", "t.csv", f"--eps={budget}")
    for number, (point, when) in enumerate(spread(list(MOMENTS), n_kills)):
        wait = number // len(MOMENTS) % 2 == 0
        found = attacks.killed_at(folder, point, when, *RELEASE, f"--out=out{number}", wait=wait)
        attack.count("killed" if found.code == -signal.SIGKILL else "ended before")
        allowed = frozenset({-signal.SIGKILL})
        attack.note(f"{when} {point}", attacks.faults_of_end(found, secrets, allowed))
    attack.count("charges", len(attacks.charged_ids(folder)))
    attack.note("after the kills", attacks.faults_of(folder))


def events(attack: Attack) -> None:
    """Kill or interrupt a release when it calls its n-th function, evenly over all of them."""
    folder, secrets = attack.room("events")
    total = attacks.count_events(folder, *RELEASE, "--out=out-counted")
    attack.count("functions called", total)
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        n_tries = attack.size(2, 100)
        for step in range(n_tries):
            event = 1 + (2 * step + 1) * total // (2 * n_tries)
            name = f"out-{number:d}-{step}"
            found = attacks.signalled_at_event(folder, event, number, *RELEASE, f"--out={name}")
            attack.count(f"{number.name} sent")
            if number == signal.SIGKILL:
                continue
            allowed = frozenset({128 + number})
            attack.note(f"{number.name} at {event}", attacks.faults_of_end(found, secrets, allowed))
    attack.note("after the events", attacks.faults_of(folder))


def retries(attack: Attack) -> None:
    """Ask for the same id again and again, killed each time, until it is let through."""
    folder, secrets = attack.room("retries")
    drawn = random.Random(0)
    n_ids = attack.size(2, 40)
    for number in range(n_ids):
        asked = (*RELEASE, f"--id=retry-{number}")
        for step, (point, when) in enumerate(drawn.sample(MOMENTS, attack.size(2, 5))):
            out = f"--out=out-{number}-{step}"
            found = attacks.killed_at(folder, point, when, *asked, out, wait=step % 2 == 0)
            attack.count("killed" if found.code == -signal.SIGKILL else "ended before")
        for last in range(2):
            found = attacks.attempt(folder, *asked, f"--out=out-{number}-last-{last}")
            faults = attacks.faults_of_end(found, secrets)
            attack.note(f"retry {number}", faults or ["refused"] * (found.code != 0))
    charged = attacks.charged_ids(folder)
    attack.count("charges", len(charged))
    if sorted(charged) != sorted(f"retry-{number}" for number in range(n_ids)):
        attack.note("retries", ["the charges are not one an id"])
    attack.note("after the retries", attacks.faults_of(folder))


def signals(attack: Attack) -> None:
    """Send SIGINT, SIGTERM and SIGKILL at every point, and finish what was charged."""
    moments = list(spread(list(MOMENTS), attack.size(3, len(MOMENTS))))
    kinds = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
    for place, ((point, when), number) in enumerate(itertools.product(moments, kinds)):
        folder, secrets = attack.room(f"signals-{place}")
        found = attacks.attempt(
            folder, *RELEASE, "--out=out", prepare=_raising(point, when, number)
        )
        about = f"{number.name} {when} {point}"
        attack.count(f"{number.name} sent")
        expected = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}[number]
        attack.note(about, attacks.faults_of_end(found, secrets, frozenset({expected})))
        if found.code != expected:
            attack.note(about, [f"exit code {found.code}"])
        attack.note(about, _finished(folder, found, number != signal.SIGKILL))
        shutil.rmtree(folder)


def _raising(point: str, when: str, number: int) -> Callable[[], None]:
    return lambda: raise_at(point, when, number)


def _finished(folder: Path, stopped: Attempt, tells: bool) -> list[str]:
    """Ask again for what was charged; return what is wrong with that."""
    faults = attacks.faults_of(folder)
    charged = attacks.charged_ids(folder)
    if not charged:
        return faults + ["centres without a charge"] * (folder / "out").exists()
    if tells and charged[0] not in stopped.err + stopped.out:
        faults.append("charged, and the id is not told")
    again = attacks.attempt(folder, *RELEASE, f"--id={charged[0]}", "--out=out-again")
    if again.code != 0 or attacks.charged_ids(folder) != charged:
        faults.append(f"could not be finished at no further cost: {again.err}")
    return faults + attacks.faults_of(folder)


# -- no room ---------------------------------------------------------------------------------------


def no_room(attack: Attack) -> None:
    """Let no file grow beyond a size, from nothing to more than a release needs."""
    n_sizes = attack.size(4, 60)
    for step in range(n_sizes):
        folder, secrets = attack.room(f"room-{step}")
        limit = (step * 96 // n_sizes) << 10
        found = attacks.attempt(folder, *RELEASE, "--out=out", prepare=attacks.limited(limit))
        attack.count("released" if found.code == 0 else "refused")
        about = f"files of at most {limit} bytes"
        attack.note(about, attacks.faults_of_end(found, secrets))
        attack.note(about, _finished(folder, found, tells=True))
        shutil.rmtree(folder)


# -- altered files ---------------------------------------------------------------------------------


def tampering(attack: Attack) -> None:
    """Alter every place of a record, a synopsis and a witness, and verify what comes out."""
    folder, _ = attack.room("tampering")
    made = [
        attacks.attempt(folder, *RELEASE, "--out=out"),
        attacks.attempt(
            folder, *RELEASE, "--mechanism=synopsis", "--export-synopsis", "--out=cells"
        ),
    ]
    files = [folder / "out" / "release.json", folder / "cells" / "synopsis.json"]
    if not attack.small:
        asked = ("audit", "out/release.json", "--data=t.csv", "--quick", "--out=audit")
        made.append(attacks.attempt(folder, *asked))
        files += sorted((folder / "audit").glob("witness*.json"))
    attack.note("making the files", [found.err for found in made if found.code != 0])
    for path in files:
        _tamper(attack, folder, path)


def _tamper(attack: Attack, folder: Path, path: Path) -> None:
    true = path.read_text(encoding="utf-8")
    texts = [mutant.text for mutant in mutants.sampled(true, attack.size(40, attack.altered))]
    (folder / "name").write_text(str(path.relative_to(folder)), encoding="utf-8")
    (folder / "true.json").write_text(true, encoding="utf-8")
    os.environ[attacks.WORKSHOP] = str(folder)
    try:
        found = mutants.outcomes("support.attacks:judge", [true, *texts])
    finally:
        path.write_text(true, encoding="utf-8")
    attack.count(f"altered {path.name}", len(texts))
    slowest = max(outcome.seconds for outcome in found)
    key = f"slowest seconds, {path.name}"
    attack.figures[key] = round(max(attack.figures[key], slowest), 3)
    names = [f"{path.name} as it is", *map(str, mutants.sampled(true, len(texts)))]
    for name, outcome in zip(names, found, strict=True):
        if outcome.seconds > MOST_SECONDS or outcome.word == mutants.ENDED:
            attack.note(f"{path.name}, {name}", [f"took {outcome.seconds:.1f} s"])
        elif outcome.word.startswith("fault"):
            attack.note(f"{path.name}, {name}", [outcome.word])
        attack.count(f"{path.name}: {outcome.word.split(':')[0]}")


# -- hostile files ---------------------------------------------------------------------------------

SECRETS = {"0.987654321", "Zebedee"}
"""What stands in records of hostile files."""
_RECORD = b"0.987654321,0.5\n0.25,0.125\n" * 5
_JSON_RECORD = b'{"name": "Zebedee", "x": 0.987654321}'


def hostile_files(folder: Path, *, small: bool) -> dict[str, Path]:
    """Write files that nobody should send, and return them by what they are."""
    contents = {
        "nothing": b"",
        "only a header": b"a,b\n",
        "deep JSON": b"[" * 100_000 + b"]" * 100_000,
        "deep object": b'{"a":' * 100_000,
        "huge numbers": b"a,b\n1e400,1\n" + b"9" * 5000 + b",2\n" + _RECORD,
        "ragged rows": b"a,b\n1,2\n1,2,3\nZebedee\n" + _RECORD,
        "text among numbers": b"a,b\n1,2\nZebedee,0.987654321\n" + _RECORD,
        "NUL bytes": b"a,b\n1,2\n\x00\x00,3\n" + _RECORD,
        "invalid UTF-8": b"a,b\n1,2\n\xff\xfe\xc3,3\n" + _RECORD,
        "terminal escapes": b"\x1b[2Ja,\x1b]0;owned\x07b\n1,\x1b[31m2\n" + _RECORD,
        "a formula": b'=HYPERLINK("http://x"),b\n' + _RECORD,
        "JSON lines": b"[" + b",\n".join([_JSON_RECORD] * 9) + b"]",
        "random bytes": random.Random(1).randbytes(50_000),
        "a damaged gzip": gzip.compress(b"a,b\n" + _RECORD, mtime=0)[:-9],
        "a record of nothing": b'{"schema_version": 1, "kind": "release"}',
        "another kind of record": b'{"kind": "synopsis", "cells": [1e400, NaN]}',
        "repeated keys": b'{"kind": "release", "kind": "witness"}',
    }
    if not small:
        columns = b",".join(b"c%d" % n for n in range(100_000))
        zeros = b",".join([b"0"] * 100_000)
        contents |= {
            "JSON on one line": b"[" + b", ".join([_JSON_RECORD] * 9) + b"]",
            "1e5 columns": columns + b"\n" + zeros + b"\n" + zeros + b"\n",
            "1e5 columns without names": zeros + b"\n" + zeros + b"\n",
            "a million empty lines": b"a,b\n" + b"\n" * 1_000_000 + _RECORD,
            "one long line": b"1," * 20_000_000,
            "a gzip bomb": gzip.compress(b"0" * (1 << 29), mtime=0),
        }
    paths = {}
    for number, (name, content) in enumerate(contents.items()):
        end = "json" if b"{" in content[:2] or content[:1] == b"[" else "csv"
        paths[name] = folder / f"hostile-{number}.{end}"
        paths[name].write_bytes(content)
    (folder / "folder.csv").mkdir()
    (folder / "loop.csv").symlink_to("loop.csv")
    paths |= {"a folder": folder / "folder.csv", "a link to itself": folder / "loop.csv"}
    if not small:
        os.mkfifo(folder / "queue.csv")
        (folder / "zero.csv").symlink_to("/dev/zero")
        paths |= {"a FIFO": folder / "queue.csv", "a device": folder / "zero.csv"}
    return paths


COMMANDS = {
    "release": ("release", "--header", "--k=2", "--bounds=-1,1", "--eps=0.1", "--data={}"),
    "verify": ("verify", "{}"),
    "seed": ("seed", "{}", "--k=2"),
    "seed a synopsis": ("seed", "--synopsis={}", "--k=2"),
    "calibrate": ("calibrate", "{}", "--eps=1", "--k=2", "--bounds=-1,1"),
    "set-budget": ("ledger", "set-budget", "{}", "--eps=1"),
    "audit": ("audit", "{}"),
    "centres beside a record": ("verify", "swapped/release.json"),
}


def hostile(attack: Attack) -> None:
    """Give every command every hostile file."""
    folder, secrets = attack.room("hostile")
    attacks.attempt(folder, *RELEASE, "--out=swapped")
    paths = hostile_files(folder, small=attack.small)
    names = ("release", "verify") if attack.small else tuple(COMMANDS)
    for (about, path), name in itertools.product(paths.items(), names):
        if name == "seed" and about == "a FIFO":
            continue  # a stream is what seed reads: it waits for whoever writes
        if name.startswith("centres"):
            (folder / "swapped" / "centers.csv").unlink(missing_ok=True)
            (folder / "swapped" / "centers.csv").symlink_to(path)
        arguments = [word.format(path.name) for word in COMMANDS[name]]
        if name not in ("verify", "calibrate", "set-budget", "centres beside a record"):
            arguments.append(f"--out=done-{name}-{path.stem}.csv".replace(" ", "-"))
        prepare = attacks.starved(seconds=20, megabytes=4096)
        found = attacks.attempt(folder, *arguments, prepare=prepare, patience=PATIENCE)
        attack.count("accepted" if found.code == 0 else "refused")
        attack.note(f"{name}, {about}", attacks.faults_of_end(found, SECRETS | secrets))
        if "verify" in COMMANDS[name]:
            slowest = max(attack.figures["slowest seconds of verify"], found.seconds)
            attack.figures["slowest seconds of verify"] = round(slowest, 3)
            slow = found.seconds > MOST_SECONDS
            attack.note(f"{name}, {about}", [f"took {found.seconds:.1f} s"] * slow)


# -- the command -----------------------------------------------------------------------------------

ATTACKS: dict[str, Callable[[Attack], None]] = {
    "kills": kills,
    "retries": retries,
    "events": events,
    "signals": signals,
    "no room": no_room,
    "tampering": tampering,
    "hostile": hostile,
}


def run(names: list[str], folder: Path, *, small: bool, altered: int) -> dict[str, Attack]:
    """Carry the attacks out, each in a folder of its own."""
    attacks.warm_up(folder / "warm")
    found = {}
    for name in names:
        place = folder / name.replace(" ", "-")
        found[name] = Attack(place, small, altered)
        ATTACKS[name](found[name])
        told = ", ".join(f"{what} {number:g}" for what, number in found[name].figures.items())
        print(f"{name}: {told}; {len(found[name].faults)} faults", flush=True)
        for fault in found[name].faults[:SHOWN]:
            print(f"  {fault}", flush=True)
        shutil.rmtree(place, ignore_errors=True)
    return found


def main() -> int:
    """Run the attacks, print what they found, and keep it where that is wanted."""
    parser = argparse.ArgumentParser(description="Attack dpkv, and count what holds.")
    parser.add_argument("--small", action="store_true", help="a sample of every attack")
    parser.add_argument("--only", nargs="+", choices=list(ATTACKS), default=list(ATTACKS))
    parser.add_argument("--altered", type=int, default=20_000, help="most altered texts a file")
    parser.add_argument("--write", action="store_true", help="keep the figures in attack.json")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = run(asked.only, Path(folder).resolve(), small=asked.small, altered=asked.altered)
    if asked.write:
        keep(found)
    n_faults = sum(len(attack.faults) for attack in found.values())
    print(f"{n_faults} faults")
    return 3 if n_faults else 0


def keep(found: dict[str, Attack]) -> None:
    """Renew the figures of the attacks that were carried out; the others stay as they were."""
    path = HOME / "attack.json"
    known = json.loads(path.read_text(encoding="utf-8"))["attacks"] if path.exists() else {}
    for name, attack in found.items():
        known[name] = {
            "dpkv_version": dpkv.__version__,
            "python": platform.python_version(),
            "figures": dict(attack.figures),
            "n_faults": len(attack.faults),
            "faults": attack.faults[:SHOWN],
        }
    result = {
        "schema_version": 1,
        "kind": "attack",
        "n_faults": sum(attack["n_faults"] for attack in known.values()),
        "not_carried_out": [name for name in ATTACKS if name not in known],
        "attacks": {name: known[name] for name in ATTACKS if name in known},
    }
    path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
