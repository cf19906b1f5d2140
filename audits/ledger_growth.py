"""How a ledger's operations grow with its entries.

    python audits/ledger_growth.py            fill a ledger to 100,000 entries and print the growth
    python audits/ledger_growth.py --write    and keep the figures in audits/ledger_growth.json

Entries are written as charges and notes are, half of each, over ten data sets, without the waits of
single transactions; and in the end over as many data sets as there are charges. At each size the
operations are done as a command does them, each from nothing but the files: the processor time is
the median of some turns. ``charge`` is the charge that a release makes, ``release`` is all that a
release asks of the ledger: prepare it, look for the id, charge, keep.
"""

from __future__ import annotations

import argparse
import json
import platform
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import dpkv
from dpkv.ledger import Ledger
from dpkv.ledger.entries import charge_units, draft, place_behind
from dpkv.ledger.sqlite import SqliteStore

SIZES = (0, 1_000, 10_000, 100_000)
_TURNS, _DATA_SETS = 5, 10
Figures = dict[str, float]


def fill(workspace: Path, n_entries: int, n_data_sets: int = _DATA_SETS) -> None:
    """Append charges and notes that they are kept, until there are so many entries."""
    chain = Ledger(workspace).read()
    number, digest = len(chain), chain.digest
    with SqliteStore(workspace).writing() as session:
        while number < n_entries:
            turn = number // 2
            name = {"release_id": f"filled-{turn}"}
            plain = draft("kept", f"name:{turn % n_data_sets}", "filled")
            entry = replace(plain, record_digest=secrets.token_hex(32), **name)
            if number % 2 == 0:
                entry = replace(
                    plain,
                    kind="charge",
                    nano_eps=charge_units(Decimal("0.1")),
                    end_to_end=True,
                    neighbours="replace-one",
                    unit="row",
                    plan_digest=secrets.token_hex(32),
                    **name,
                )
            placed = place_behind(entry, number, digest)
            session.insert(placed)
            number, digest = placed.number, placed.digest


def charge(workspace: Path) -> str:
    """Charge a release of a fresh id, as a release does."""
    name = secrets.token_hex(8)
    Ledger(workspace).charge(
        release_id=name,
        dataset="name:0",
        label="measured",
        eps=Decimal("0.1"),
        neighbours="replace-one",
        end_to_end=True,
        plan_digest="0" * 64,
    )
    return name


def release(workspace: Path) -> None:
    """Ask of the ledger what a release asks of it."""
    ledger = Ledger(workspace)
    ledger.prepare().find("another")
    name = charge(workspace)
    ledger.keep(release_id=name, record_digest="0" * 64).chain.account("name:0")


OPERATIONS: dict[str, Callable[[Path], object]] = {
    "charge": charge,
    "release": release,
    "read accounts": lambda workspace: Ledger(workspace).read().accounts(),
    "verify all": lambda workspace: Ledger(workspace).verify(),
    "read all entries": lambda workspace: Ledger(workspace).verify().entries,
}


def measure(operation: Callable[[Path], object], workspace: Path) -> float:
    """Return the median processor time of an operation, in seconds."""
    times = []
    for _ in range(_TURNS):
        started = time.process_time()
        operation(workspace)
        times.append(time.process_time() - started)
    return statistics.median(times)


def grow(sizes: list[int], n_data_sets: int) -> tuple[dict[str, Figures], int]:
    """Fill a ledger to those sizes; return the figures at each, and the bytes of the file."""
    figures: dict[str, Figures] = {}
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder) / ".dpkv"
        Ledger(workspace).prepare()
        for size in sorted(sizes):
            fill(workspace, size, n_data_sets)
            Ledger(workspace).verify()
            figures[str(size)] = {
                name: round(measure(operation, workspace), 4)
                for name, operation in OPERATIONS.items()
            }
            told = ", ".join(f"{name} {1e3 * t:.1f} ms" for name, t in figures[str(size)].items())
            print(f"{size} entries, {n_data_sets} data sets: {told}", flush=True)
        return figures, (workspace / "ledger.sqlite").stat().st_size


def main() -> int:
    """Print the figures, and keep them where that is wanted."""
    parser = argparse.ArgumentParser(description="How a ledger's operations grow.")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--write", action="store_true", help="keep them in ledger_growth.json")
    asked = parser.parse_args()
    most = max(asked.sizes)
    figures, size_of_file = grow(asked.sizes, _DATA_SETS)
    print(f"{size_of_file / max(1, most):.0f} bytes an entry")
    many, _ = grow([most], max(1, most // 2))
    if asked.write:
        result = {
            "schema_version": 2,
            "kind": "ledger-growth",
            "dpkv_version": dpkv.__version__,
            "python": platform.python_version(),
            "data_sets": _DATA_SETS,
            "processor_seconds": figures,
            "with_a_data_set_per_charge": many,
            "bytes": size_of_file,
        }
        path = Path(__file__).with_suffix(".json")
        path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
