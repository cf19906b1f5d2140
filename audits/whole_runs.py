"""How near do whole runs come to their price? The largest loss found, for every mechanism.

    python audits/whole_runs.py [--tries 40] [--seed 0] [--write]

Tables, neighbours and adversarial answers are searched (``dpkv/audits/whole_run.py``) for every
mechanism, relation and unit of privacy, with and without delta, in 2, 10 and 40 columns and for 1
and 3 centres; the number with the largest loss over its price is kept. Of that run a witness
is written and recomputed by interval arithmetic, as ``dpkv verify`` does. eps is 1 in all. With
``--write``, keeps ``whole_runs.json`` beside itself. Exit code 3 where a run loses more than its
price, or a witness is not recomputed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from dpkv.accounting import PERSON, ROW, Neighbours
from dpkv.audits.run_witness import check_run_witness, parse_run_witness, run_witness_of
from dpkv.audits.whole_run import FoundLoss, search_runs
from dpkv.domain import Box
from dpkv.mechanisms import MECHANISMS, Mechanism, calibrate_mechanism
from dpkv.records.persons import Weighing

RESULT = Path(__file__).with_suffix(".json")
EPS = Decimal(1)
_DELTA = Decimal("1e-6")
_COLUMNS, _CENTERS = (2, 10, 40), (1, 3)
_UNITS = {"row": ROW, "person": PERSON, "weighted row": Weighing(most_weight=2.5).unit}


@dataclass(frozen=True)
class Case:
    """A mechanism but for the numbers of records and of centres."""

    name: str
    relation: Neighbours
    delta: Decimal
    unit: str
    columns: int

    @property
    def domain(self) -> Box:
        """A box of so many columns."""
        return Box((0.0,) * self.columns, (1.0,) * self.columns)

    def calibrate(self, n_records: int, k: int) -> Mechanism:
        """Return the mechanism for so many records and centres."""
        return calibrate_mechanism(
            self.name,
            EPS,
            n_records=max(n_records, k),
            n_clusters=k,
            grid=self.domain.grid(),
            neighbours=self.relation,
            delta=self.delta,
            unit=_UNITS[self.unit],
        )


def main() -> int:
    """Search, print and write down."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--tries", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args()
    every = list(_cases())
    shown = track(every, "searching", console=Console(stderr=True))
    rows = [_search(case, chosen.tries, chosen.seed) for case in shown]
    _show(rows)
    if chosen.write:
        result = {"eps": f"{EPS:f}", "tries": chosen.tries, "seed": chosen.seed, "rows": rows}
        RESULT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return 0 if all(row["holds"] and row["witness_recomputed"] for row in rows) else 3


def _cases() -> Iterator[Case]:
    for name, kind in MECHANISMS.items():
        for relation in kind.relations:
            for delta in (Decimal(0), _DELTA) if kind.uses_delta else (Decimal(0),):
                for unit, own in _UNITS.items():
                    covered = own == ROW or kind.knows_units
                    if covered and (own.even or not kind.needs_even_units):
                        yield from (Case(name, relation, delta, unit, d) for d in _COLUMNS)


def _search(case: Case, tries: int, seed: int) -> dict[str, object]:
    """Return the run with the largest loss over its price, over the numbers of centres."""
    found = [(k, _worst(case, k, tries, seed)) for k in _CENTERS]
    k, worst = max(found, key=lambda one: (one[1].violates, one[1].share))
    mechanism = case.calibrate(worst.scene.n_records, k)
    return {
        "mechanism": case.name,
        "neighbours": case.relation.value,
        "unit": case.unit,
        "delta": f"{case.delta:f}" if case.delta else "0",
        "columns": case.columns,
        "k": k,
        "gaussian_questions": sum(step.rho is not None for step in worst.steps),
        "questions": len(worst.steps),
        "loss_over_price": round(worst.share, 6),
        "question_over_price": round(worst.largest_share, 6),
        "holds": not any(one.violates for _, one in found),
        "witness_recomputed": _is_recomputed(case, worst, mechanism),
    }


def _worst(case: Case, k: int, tries: int, seed: int) -> FoundLoss:
    needed = case.calibrate(k, k).n_records_needed
    found = search_runs(
        lambda n_records: case.calibrate(n_records, k),
        n_clusters=k,
        tries=tries,
        seed=seed,
        n_records=None if needed is None else k,
    )
    assert found is not None
    return found


def _is_recomputed(case: Case, worst: FoundLoss, mechanism: Mechanism) -> bool:
    witness = run_witness_of(worst, mechanism, case.domain, f"{EPS:f}")
    if witness is None:
        return False
    read = parse_run_witness(witness.to_json(), "witness")
    return all(check.passed for check in check_run_witness(read))


def _show(rows: list[dict[str, object]]) -> None:
    table = Table("mechanism", "neighbours", "unit", "delta", "columns", "k", "loss/price")
    names = ("mechanism", "neighbours", "unit", "delta", "columns", "k")
    for row in rows:
        table.add_row(*(str(row[name]) for name in names), f"{row['loss_over_price']:.4f}")
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
