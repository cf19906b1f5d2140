"""Are broken mechanisms found, and correct ones left alone? The auditor on both kinds.

    python audits/blackbox.py [NAME ...] [--budget 10m] [--runs 60000] [--repeat 20] [--jobs 2]

Every known-broken mechanism of ``dpkv/audits/blackbox/subjects.py`` is audited within the budget,
until it is found. Every correct one is audited ``--repeat`` times, on other seeds, with ``--runs``
runs each. Prints a table; with ``--write``, keeps it in ``blackbox.json`` beside itself, in place
of earlier results of the same names. Exit code 3 where a broken one is missed or a correct one
accused.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

from joblib.externals.loky import get_reusable_executor
from rich.console import Console
from rich.table import Table

from dpkv.audits import audit_mechanism
from dpkv.audits.blackbox.subjects import SUBJECTS, Subject

RESULT = Path(__file__).with_suffix(".json")
_ALPHA = 1e-6


def main() -> int:
    """Audit all subjects, print and write down."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--budget", default="10m", help="for a broken mechanism: time, or runs")
    parser.add_argument("--runs", type=int, default=60_000, help="for a correct one, each time")
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args()
    subjects = [one for one in SUBJECTS if not chosen.names or one.name in chosen.names]
    rows = []
    for subject in subjects:
        if subject.broken:
            rows.append(_attack(subject, chosen.budget, chosen.jobs))
        else:
            rows.append(_repeat(subject, chosen.runs, chosen.repeat, chosen.jobs))
        print(rows[-1], file=sys.stderr, flush=True)
    _show(rows)
    if chosen.write:
        _keep(rows)
    return 0 if all(row["as_expected"] for row in rows) else 3


def _keep(rows: list[dict[str, Any]]) -> None:
    """Write results down, in the order of the subjects."""
    known = json.loads(RESULT.read_text("utf-8"))["rows"] if RESULT.exists() else []
    by_name = {row["name"]: row for row in [*known, *rows]}
    ordered = [by_name[one.name] for one in SUBJECTS if one.name in by_name]
    text = json.dumps({"alpha": _ALPHA, "rows": ordered}, indent=2)
    RESULT.write_text(text + "\n", encoding="utf-8")


def _attack(subject: Subject, budget: str, jobs: int) -> dict[str, Any]:
    began, before = time.monotonic(), _processor_seconds()
    found = audit_mechanism(
        subject.mechanism, subject.claim, subject.domain, budget=budget, alpha=_ALPHA, jobs=jobs
    )
    assert found.best is not None
    assert found.witness is not None
    return {
        "name": subject.name,
        "kind": "broken",
        "what": subject.what,
        "claim": subject.claim,
        "as_expected": not found.holds,
        "found": 0 if found.holds else 1,
        "audits": 1,
        "shown": round(found.lower_bound, 3),
        "runs": found.runs,
        "seconds": round(time.monotonic() - began, 1),
        "processor_seconds": round(_processor_seconds() - before, 1),
        "event": found.best.words,
        "pair": found.witness.family,
    }


def _repeat(subject: Subject, runs: int, repeat: int, jobs: int) -> dict[str, Any]:
    began, before = time.monotonic(), _processor_seconds()
    audits = [
        audit_mechanism(
            subject.mechanism, subject.claim, subject.domain, budget=runs, alpha=_ALPHA,
            seed=seed, jobs=jobs,
        )
        for seed in range(repeat)
    ]  # fmt: skip
    accused = sum(not found.holds for found in audits)
    return {
        "name": subject.name,
        "kind": "correct",
        "what": subject.what,
        "claim": subject.claim,
        "as_expected": accused == 0,
        "found": accused,
        "audits": repeat,
        "shown": round(max(found.lower_bound for found in audits), 3),
        "runs": runs,
        "seconds": round(time.monotonic() - began, 1),
        "processor_seconds": round(_processor_seconds() - before, 1),
    }


def _processor_seconds() -> float:
    """Return what this process and its workers have used; they end, for the time of others counts
    only once they were waited for."""
    get_reusable_executor().shutdown(wait=True)
    kinds = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    used = [resource.getrusage(kind) for kind in kinds]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _show(rows: list[dict[str, Any]]) -> None:
    table = Table("mechanism", "kind", "claim", "accused", "shown", "runs", "s", "cpu s")
    for row in rows:
        accused = f"{row['found']} of {row['audits']}"
        figures = row["runs"], row["seconds"], row["processor_seconds"]
        table.add_row(
            row["name"], row["kind"], row["claim"], accused, str(row["shown"]), *map(str, figures)
        )
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
