"""A small ledger with one bit flipped, again and again: what happens to reading and to charging.

    python audits/flipped_ledger.py                 4,800 flips
    python audits/flipped_ledger.py --flips 480     fewer of them, as evenly spread
    python audits/flipped_ledger.py --write         and keep the counts beside this file

The ledger has a budget, charges and notes, and its file is whole, without a journal. The flips are
spread evenly over the file, a bit of every so many bytes in turn. After each, ``verify`` is asked
and then a charge, as commands ask them: with what the workspace knows of the ledger, and again
without it, as somebody who has the file alone. It counts

    refused        the charge was refused, with one sentence
    harmless       it was taken, and ``verify`` finds what was there before, and the charge
    let through    it was taken, and ``verify`` refuses the ledger, or finds other entries
    not dpkv's     either of them ended in an error that is no sentence of dpkv's

The last two must be none; exit code 3 says that they are not.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import sqlite3
import sys
import tempfile
from collections import Counter
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import dpkv
from dpkv.errors import LedgerError
from dpkv.ledger import Entry, Ledger

FLIPS, _RELEASES = 4_800, 8
BAD = ("let through", "not dpkv's")


def charge(ledger: Ledger, name: str) -> None:
    """Charge a release, as one does."""
    ledger.charge(
        release_id=name, dataset="d1", label="t.csv", eps=Decimal("0.1"), neighbours="replace-one",
        end_to_end=True, plan_digest="a" * 64,
    )  # fmt: skip


def fill(workspace: Path) -> tuple[Entry, ...]:
    """Make the ledger, in one file, and return its entries."""
    ledger = Ledger(workspace)
    ledger.set_budget(dataset="d1", label="t.csv", eps=Decimal(3))
    for number in range(_RELEASES):
        charge(ledger, f"r{number}")
        ledger.keep(release_id=f"r{number}", record_digest="b" * 64)
    with closing(sqlite3.connect(ledger.path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return ledger.verify().entries


def fate(workspace: Path, truth: tuple[Entry, ...]) -> tuple[str, str]:
    """Ask a ledger and charge it; return what came of it, and what is to be told of that."""
    ledger = Ledger(workspace)
    try:
        try:
            found = ledger.verify().entries
        except LedgerError:
            found = None
        try:
            charge(ledger, "new")
        except LedgerError as error:
            return "refused", str(error)
        try:
            after = ledger.verify().entries
        except LedgerError as error:
            return "let through", str(error)
    except Exception as error:
        return "not dpkv's", f"{type(error).__name__}: {error}"
    if found != truth or after[:-1] != truth or after[-1].release_id != "new":
        return "let through", "other entries than before"
    return "harmless", ""


def campaign(folder: Path, flips: int, *, knowing: bool) -> tuple[Counter[str], list[str]]:
    """Flip bits, one at a time; return the counts, and the places of what must not be."""
    home, tried = folder / f"whole-{knowing}", folder / "tried"
    truth = fill(home)
    if not knowing:
        shutil.rmtree(home / "chain")
    whole = (home / "ledger.sqlite").read_bytes()
    counts: Counter[str] = Counter()
    bad = []
    for number in range(flips):
        place = number * len(whole) // flips
        bit = number % 8
        shutil.rmtree(tried, ignore_errors=True)
        shutil.copytree(home, tried)
        flipped = bytearray(whole)
        flipped[place] ^= 1 << bit
        (tried / "ledger.sqlite").write_bytes(flipped)
        found, told = fate(tried, truth)
        counts[found] += 1
        if found in BAD:
            bad.append(f"byte {place} bit {bit}: {found}: {told.replace(str(folder), '')}")
    return counts, bad


def main() -> int:
    """Print the counts, and keep them where that is wanted."""
    parser = argparse.ArgumentParser(description="Flip bits of a ledger.")
    parser.add_argument("--flips", type=int, default=FLIPS)
    parser.add_argument("--write", action="store_true", help="keep them in flipped_ledger.json")
    asked = parser.parse_args()
    results, faults = {}, 0
    for knowing in (True, False):
        told = "with the workspace's notes" if knowing else "with the file alone"
        with tempfile.TemporaryDirectory() as folder:
            counts, bad = campaign(Path(folder), asked.flips, knowing=knowing)
        results[told] = {name: counts[name] for name in ("refused", "harmless", *BAD)}
        print(f"{told}: " + ", ".join(f"{n} {name}" for name, n in results[told].items()))
        print("".join(f"  {line}\n" for line in bad), end="", flush=True)
        faults += len(bad)
    if asked.write:
        result = {
            "schema_version": 1,
            "kind": "flipped-ledger",
            "dpkv_version": dpkv.__version__,
            "python": platform.python_version(),
            "sqlite": sqlite3.sqlite_version,
            "entries": 1 + 2 * _RELEASES,
            "flips": asked.flips,
            "counts": results,
        }
        path = Path(__file__).with_suffix(".json")
        path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return 3 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
