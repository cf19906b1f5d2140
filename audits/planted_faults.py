"""Does the audit find every planted fault, and does it leave sound mechanisms alone?

    python audits/planted_faults.py [NAME ...] [--sound 100] [--jobs 2] [--write]

Every fault (or those that are named) is planted in an audit of the bundled table with default
settings, ``dpkv audit TABLE --eps 1 --k 3 --bounds=-10,10 --plant NAME``: the exit code must be 3,
and processor time is told, which other work on the machine hardly changes. Then sound mechanisms
are audited ``--sound`` times, going round the mechanisms, relations, delta and units: quick audits
of made-up records, with fewer runs and without the comparison of accuracy, each on a seed of its
own. All must pass; the chance that any does not, by bad luck, is told. With ``--write``, keeps what
was run in ``planted_faults.json`` beside itself, in place of earlier results of the same names.
Exit code 3 where a fault is missed or a sound mechanism accused.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from dpkv.audits.faults import FAULTS
from dpkv.audits.privacy import Effort
from dpkv.audits.results import Audit
from dpkv.audits.run import Job, run_audit
from dpkv.domain import Box
from dpkv.mechanisms import MECHANISMS
from dpkv.releases import Plan
from dpkv.releases.unit_facts import UnitFacts

RESULT = Path(__file__).with_suffix(".json")
TABLE = RESULT.parent.parent / "datasets" / "clinic_patients.csv"
VIOLATED = 3
_DELTA, _ALPHA = "1e-6", 1e-6
_UNITS = UnitFacts(), UnitFacts(persons="share"), UnitFacts(weight_column="w", most_weight=2.5)
_RECORDS = 200
_RUNS = 300
"""Of sampled bounds of sound mechanisms: fewer than an audit has, at the same false alarms."""
_DOMAINS = {2: Box((-10.0,) * 2, (10.0,) * 2), 5: Box((-10.0,) * 5, (10.0,) * 5)}


class ShortJob(Job):
    """A quick audit with fewer runs."""

    @property
    def effort(self) -> Effort:
        """How much is tried."""
        return Effort(3, 20 * _RUNS, _RUNS, 3, _ALPHA, self.seed, part_runs=_RUNS)


def main() -> int:
    """Audit, print and write down."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(FAULTS))
    parser.add_argument("--sound", type=int, default=None, help="audits of sound mechanisms")
    parser.add_argument("--jobs", type=int, default=2, help="of these, beside each other")
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args()
    alone = chosen.sound is not None
    names = chosen.names or ([] if alone else list(FAULTS))
    result = json.loads(RESULT.read_text("utf-8")) if RESULT.exists() else {"faults": {}}
    fine = True
    for name in names:
        found = _audit_fault(name)
        print(name, found, flush=True)
        fine &= found["exit_code"] == VIOLATED
        result["faults"][name] = found
        _keep(result, write=chosen.write)
    count = chosen.sound if alone else 0 if chosen.names else 100
    if count:
        for result["sound"] in _audit_sound(count, chosen.jobs):
            _keep(result, write=chosen.write)
        print(json.dumps(result["sound"], indent=2))
        fine &= result["sound"]["accused"] == 0
    return 0 if fine else VIOLATED


def _keep(result: dict[str, Any], *, write: bool) -> None:
    if write:
        ordered = {name: result["faults"][name] for name in FAULTS if name in result["faults"]}
        RESULT.write_text(json.dumps({**result, "faults": ordered}, indent=2) + "\n", "utf-8")


# -- faults ----------------------------------------------------------------------------------------


def _audit_fault(name: str) -> dict[str, Any]:
    """Plant a fault in a default audit, in a process of its own."""
    options = ["--eps=1", "--k=3", "--bounds=-10,10", f"--plant={name}", "--out=audit"]
    command = [sys.executable, "-m", "dpkv", "audit", str(TABLE), *options]
    with tempfile.TemporaryDirectory() as folder:
        before = _processor_seconds(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            check=False,
        )
        used = _processor_seconds(resource.RUSAGE_CHILDREN) - before
        record = Path(folder) / "audit" / "audit.json"
        reasons = json.loads(record.read_text("utf-8"))["verdict"]["reasons"]
    return {
        "exit_code": done.returncode,
        "processor_seconds": round(used, 1),
        "reasons": reasons,
    }


def _processor_seconds(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


# -- sound mechanisms ------------------------------------------------------------------------------


def _audit_sound(count: int, jobs: int) -> Iterator[dict[str, Any]]:
    """Audit sound mechanisms so many times, and yield what came of all so far."""
    accused: list[str] = []
    audits: Counter[str] = Counter()
    chance = used = 0.0
    plans = list(islice(cycle(_plans()), count))
    found = Parallel(n_jobs=jobs, return_as="generator_unordered", pre_dispatch="2*n_jobs")(
        delayed(_audit_one)(plan, seed) for seed, plan in enumerate(plans)
    )
    for done, (kind, audit, seconds) in enumerate(found, start=1):
        audits[kind] += 1
        used += seconds
        chance += sum(bound.alpha for bound in audit.sampled)
        chance += sum(test.level for test in audit.conformance)
        if not audit.verdict.holds:
            accused.append(f"{kind}: {'; '.join(audit.verdict.reasons)}")
        print(f"{done} of {count}: {kind}", file=sys.stderr, flush=True)
        yield {
            "audits": done,
            "accused": len(accused),
            "accusations": accused,
            "chance_of_any_false_alarm": float(f"{chance:.2g}"),
            "of": dict(sorted(audits.items())),
            "processor_seconds": round(used, 1),
        }


def _audit_one(plan: Plan, seed: int) -> tuple[str, Audit, float]:
    """Return what an audit is of, what it found, and its processor time."""
    before = time.process_time()
    with threadpool_limits(1):
        audit = run_audit(_job(plan, seed)).audit
    return _words(plan), audit, time.process_time() - before


def _plans() -> Iterator[Plan]:
    """Yield every mechanism, relation, delta and unit once."""
    for name, kind in MECHANISMS.items():
        for relation in kind.relations:
            for delta in ("0", _DELTA) if kind.uses_delta else ("0",):
                for unit in _UNITS if kind.knows_units else _UNITS[:1]:
                    if unit.weighing.unit.even or not kind.needs_even_units:
                        columns = 5 if delta != "0" else 2  # in few, noise is Laplace anyway
                        yield Plan.of(
                            k=2,
                            eps=1,
                            delta=delta,
                            mechanism=name,
                            neighbours=relation.value,
                            unit=unit,
                            bounds="given",
                            columns=[f"x{number + 1}" for number in range(columns)],
                            domain=_DOMAINS[columns],
                        )


def _words(plan: Plan) -> str:
    delta = f", delta {plan.delta}" if plan.delta != "0" else ""
    weighted = "weighted " if plan.unit.most_weight is not None else ""
    unit = f"{weighted}{plan.weighing.unit.kind}"
    return f"{plan.mechanism}, {plan.neighbours.value}, {unit}{delta}"


def _job(plan: Plan, seed: int) -> Job:
    """Return a quick audit of made-up records, in three clusters."""
    rng, width = np.random.default_rng(seed), len(plan.columns)
    middles = rng.uniform(-8.0, 8.0, (3, width))[rng.integers(3, size=_RECORDS)]
    return ShortJob(
        values=np.clip(middles + rng.normal(0.0, 0.5, middles.shape), -10.0, 10.0),
        columns=plan.columns,
        label="made-up records",
        domain=_DOMAINS[width],
        plan=plan,
        ks=(plan.k,),
        n_units=_RECORDS,
        seed=seed,
        quick=True,
        utility=False,
    )


if __name__ == "__main__":
    sys.exit(main())
