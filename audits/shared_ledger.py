"""Many processes charge one ledger in PostgreSQL while clients and the server are killed.

    python audits/shared_ledger.py                            16 processes x 400 charges
    python audits/shared_ledger.py --processes 4 --charges 50

A real server runs in a temporary directory. The budget is for half of the charges. Every so often
a client is killed and begun again, or the whole server is, at random. In the end the chain must be
whole, the budget used up and never passed, no release charged twice, and no charge that a client
was told of may be missing.
"""

from __future__ import annotations

import argparse
import os
import secrets
import subprocess
import sys
import tempfile
import time
from decimal import Decimal
from pathlib import Path

HOME = Path(__file__).resolve().parent
sys.path.insert(0, str(HOME.parent / "tests"))

from support.postgres import Server, running_server  # noqa: E402

from dpkv.ledger import Ledger  # noqa: E402
from dpkv.ledger.postgres import PostgresStore  # noqa: E402

CHARGES = """
import sys
from decimal import Decimal
from pathlib import Path
from dpkv.errors import BudgetError, LedgerError
from dpkv.ledger import Ledger

ledger, name, n_charges = Ledger(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3])
for number in range(n_charges):
    while True:
        try:
            ledger.charge(
                release_id=f"{name}-{number}", dataset="d1", label="x", eps=Decimal("0.001"),
                neighbours="replace-one", end_to_end=True, plan_digest="a" * 64,
            )
            print(f"charged {name}-{number}", flush=True)
        except BudgetError:
            print(f"refused {name}-{number}", flush=True)
        except LedgerError as error:
            if "cannot be reached" not in str(error) and "shut down" not in str(error):
                raise
            continue
        break
"""


def run(server: Server, folder: Path, n_processes: int, n_charges: int, n_kills: int) -> list[str]:
    """Charge, kill, begin again; return what does not hold."""
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
    while any(client.poll() is None for client in clients):
        time.sleep(0.5 + secrets.randbelow(1000) / 1000)
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
    chain = shared.verify()
    charged = [entry.release_id for entry in chain.entries if entry.kind == "charge"]
    logs = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.log"))
    told = {line.split()[1] for line in logs.splitlines() if line.startswith("charged ")}
    spent = chain.account("d1").spent
    seconds = time.monotonic() - started
    print(f"{len(charged)} charges in {seconds:.0f} s, {spent} of {budget} spent")
    print(f"{n_client_kills} clients and {n_server_kills} times the server killed")
    faults = {
        "a client failed": any(client.returncode for client in clients),
        "the budget was passed": spent > budget,
        "the budget was not used up": spent != budget,
        "a release was charged twice": len(set(charged)) != len(charged),
        "a charge that was told is missing": not told <= set(charged),
    }
    return [fault for fault, found in faults.items() if found]


def main() -> int:
    """Run it once, and print what was found."""
    parser = argparse.ArgumentParser(description="Attack a shared ledger.")
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--charges", type=int, default=400)
    parser.add_argument("--kills", type=int, default=60)
    asked = parser.parse_args()
    with running_server() as server, tempfile.TemporaryDirectory() as folder:
        faults = run(server, Path(folder), asked.processes, asked.charges, asked.kills)
    print("; ".join(faults) or "chain whole, budget kept, nothing lost")
    return 3 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
