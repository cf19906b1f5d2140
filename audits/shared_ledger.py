"""Many processes charge one ledger in PostgreSQL while clients and the server are killed.

    python audits/shared_ledger.py                            16 processes x 400 charges
    python audits/shared_ledger.py --processes 4 --charges 50
    python audits/shared_ledger.py --write                    and keep what was found

A real server runs in a temporary directory. The budget is for half of the charges. Every so often
a client is killed and begun again, or the whole server is, at random. A client does what a release
does: it charges, notes that the release is kept, and publishes it by writing its name down. Begun
again, it asks for all of its releases anew. In the end the chain must be whole, the budget used up
and never passed, no release charged twice, nothing published that was not charged and kept, and
no charge that a client was told of may be missing. Exit code 3 says that one of these does not
hold.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import secrets
import subprocess
import sys
import tempfile
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

HOME = Path(__file__).resolve().parent
sys.path.insert(0, str(HOME.parent / "tests"))

from support.postgres import Server, running_server  # noqa: E402

import dpkv  # noqa: E402
from dpkv.ledger import Ledger  # noqa: E402
from dpkv.ledger.postgres import PostgresStore  # noqa: E402

CHARGES = """
import hashlib, sys
from decimal import Decimal
from pathlib import Path
from dpkv.errors import BudgetError, LedgerError
from dpkv.ledger import Ledger

ledger, name, n_charges = Ledger(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3])

def until_answered(call, **facts):
    while True:
        try:
            return call(**facts)
        except LedgerError as error:
            if "cannot be reached" not in str(error) and "shut down" not in str(error):
                raise

for number in range(n_charges):
    release = f"{name}-{number}"
    try:
        until_answered(
            ledger.charge, release_id=release, dataset="d1", label="x", eps=Decimal("0.001"),
            neighbours="replace-one", end_to_end=True, plan_digest="a" * 64,
        )
    except BudgetError:
        print(f"refused {release}", flush=True)
        continue
    print(f"charged {release}", flush=True)
    digest = hashlib.sha256(release.encode()).hexdigest()
    until_answered(ledger.keep, release_id=release, record_digest=digest)
    print(f"published {release}", flush=True)
"""


def told(logs: list[str], word: str) -> set[str]:
    """Return the releases of which clients were told that, in whole lines."""
    return {
        line.split()[1]
        for log in logs
        for line in log.splitlines(keepends=True)
        if line.endswith("\n") and line.startswith(f"{word} ")
    }


def run(
    server: Server, folder: Path, n_processes: int, n_charges: int, n_kills: int
) -> tuple[dict[str, Any], dict[str, bool]]:
    """Charge, kill, begin again; return what was counted, and what should not be."""
    address = server.make_database()
    budget = Decimal("0.001") * (n_processes * n_charges // 2)
    shared = Ledger(folder / "curator", PostgresStore(address))
    shared.set_budget(dataset="d1", label="x", eps=budget)
    environment = {**os.environ, "DPKV_LEDGER": address}

    def begin(number: int) -> subprocess.Popen[bytes]:
        with (folder / f"{number}.log").open("ab") as log:
            command = [sys.executable, "-c", CHARGES, str(folder / f"w{number}"), f"c{number}"]
            return subprocess.Popen([*command, str(n_charges)], env=environment, stdout=log)

    clients = [begin(number) for number in range(n_processes)]
    started, n_client_kills, n_server_kills = time.monotonic(), 0, 0
    try:
        while any(client.poll() is None for client in clients):
            time.sleep(1 + secrets.randbelow(3000) / 1000)
            if n_client_kills + n_server_kills >= n_kills:
                continue
            if secrets.randbelow(8) == 0:
                server.kill()
                server.start_again()
                n_server_kills += 1
                continue
            number = secrets.randbelow(n_processes)
            if clients[number].poll() is None:
                clients[number].kill()
                clients[number].wait()
                clients[number] = begin(number)  # asks again for what was charged: charged once
                n_client_kills += 1
    finally:  # an interrupted audit leaves none behind that asks for ever
        for client in clients:
            client.kill()
            client.wait()
    seconds = time.monotonic() - started
    chain = shared.verify()
    charged = [entry.release_id for entry in chain.entries if entry.kind == "charge"]
    kept = {entry.release_id for entry in chain.entries if entry.kind == "kept"}
    logs = [path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.log"))]
    published, spent = told(logs, "published"), chain.account("d1").spent
    counted = {
        "processes": n_processes,
        "charges_asked_of_each": n_charges,
        "clients_killed": n_client_kills,
        "server_killed": n_server_kills,
        "seconds": round(seconds),
        "budget": f"{budget:f}",
        "spent": f"{spent:f}",
        "charged": len(charged),
        "refused": len(told(logs, "refused")),
        "kept": len(kept),
        "published": len(published),
    }
    faults = {
        "a client failed": any(client.returncode for client in clients),
        "the budget was passed": spent > budget,
        "the budget was not used up": spent != budget,
        "a release was charged twice": len(set(charged)) != len(charged),
        "a charge that was told is missing": not told(logs, "charged") <= set(charged),
        "something was published that is not charged and kept": not published
        <= (kept & set(charged)),
        "a charged release was never published": published != set(charged),
    }
    return counted, faults


def main() -> int:
    """Run it once, print what was found, and keep it where that is wanted."""
    parser = argparse.ArgumentParser(description="Attack a shared ledger.")
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--charges", type=int, default=400)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--write", action="store_true", help="keep it in shared_ledger.json")
    asked = parser.parse_args()
    with running_server() as server, tempfile.TemporaryDirectory() as folder:
        version = server.version()
        found, faults = run(server, Path(folder), asked.processes, asked.charges, asked.kills)
    print("\n".join(f"{name.replace('_', ' ')}: {value}" for name, value in found.items()))
    wrong = [fault for fault, is_there in faults.items() if is_there]
    print("; ".join(wrong) or "chain whole, budget kept, nothing lost, nothing published unpaid")
    if asked.write:
        result = {
            "schema_version": 1,
            "kind": "shared-ledger",
            "dpkv_version": dpkv.__version__,
            "python": platform.python_version(),
            "postgres": version,
            **found,
            "faults": faults,
        }
        path = Path(__file__).with_suffix(".json")
        path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return 3 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
