"""Replay thousands of runs on neighbouring tables: does any answer cost more than its price?

    python audits/transcripts.py [--pairs 5000] [--person-pairs 2000] [--seed 2016]

Every mechanism, 1 to 40 columns, both relations, boxes, unscaled boxes and balls, with and without
delta, honest and adversarial answers; then the same over persons with several rows and over rows
with weights. Prints the largest loss of a question over its price, and the largest loss of a whole
run, by mechanism, unit and relation; writes ``transcripts.json`` beside itself, with how many pairs
were of every kind.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from dpkv.audits.replay_cases import ReplayCase, Wanted, cases, person_cases
from dpkv.audits.transcripts import AdversarialEntropy, Replayed, replay
from dpkv.domain import Box
from dpkv.noise import SeededEntropy

RESULT = Path(__file__).with_suffix(".json")
ENTROPIES = (SeededEntropy, AdversarialEntropy)
Found = list[tuple[ReplayCase, Replayed]]


def main() -> int:
    """Replay, print and write down."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--pairs", type=int, default=5000)
    parser.add_argument("--person-pairs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=2016)
    parser.add_argument("--out", type=Path, default=RESULT)
    chosen = parser.parse_args()
    found: dict[tuple[str, str, str], Found] = defaultdict(list)
    every: Iterator[ReplayCase] = chain(
        cases(chosen.seed, chosen.pairs, ENTROPIES),
        person_cases(chosen.seed, chosen.person_pairs, ENTROPIES),
    )
    total = chosen.pairs + chosen.person_pairs
    for case in track(every, "replaying", total=total, console=Console(stderr=True)):
        wanted = case.wanted
        kind = wanted.name, _unit_of(wanted), wanted.relation.value
        result = replay(wanted, case.points, case.neighbour, case.entropy)
        found[kind].append((case, result))
    rows = [_row(*kind, results) for kind, results in sorted(found.items())]
    _show(rows)
    covered = {name: dict(sorted(counts.items())) for name, counts in _count_kinds(found)}
    result = {
        "pairs": chosen.pairs,
        "person_pairs": chosen.person_pairs,
        "seed": chosen.seed,
        "covered": covered,
        "rows": rows,
    }
    chosen.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return 0 if all(row["holds"] == row["pairs"] for row in rows) else 3


def _row(name: str, unit: str, relation: str, found: Found) -> dict[str, object]:
    results = [result for _, result in found]
    runs = [result.loss / result.price for result in results if result.price > 0]
    return {
        "mechanism": name,
        "unit": unit,
        "neighbours": relation,
        "pairs": len(results),
        "holds": sum(result.holds for result in results),
        "largest_question_over_price": max(result.largest_share for result in results),
        "largest_run_over_price": max(runs, default=0.0),
    }


def _count_kinds(found: dict[tuple[str, str, str], Found]) -> Iterator[tuple[str, Counter[Any]]]:
    """Yield how many pairs had every domain, delta, number of columns and kind of answers."""
    every = [case for kind in found.values() for case, _ in kind]
    yield "domain", Counter(_domain_of(case.wanted) for case in every)
    yield "delta", Counter(f"{case.wanted.delta:f}" for case in every)
    yield "columns", Counter(case.wanted.domain.n_features for case in every)
    adversarial = (isinstance(case.entropy, AdversarialEntropy) for case in every)
    yield "answers", Counter("adversarial" if so else "honest" for so in adversarial)


def _unit_of(wanted: Wanted) -> str:
    if wanted.unit.kind == "row" and not wanted.unit.is_plain:
        return "weighted row"
    return wanted.unit.kind


def _domain_of(wanted: Wanted) -> str:
    if not isinstance(wanted.domain, Box):
        return "ball"
    return "box" if wanted.domain.scaled else "unscaled box"


def _show(rows: list[dict[str, object]]) -> None:
    table = Table("mechanism", "unit", "neighbours", "pairs", "hold", "question/price", "run/price")
    for row in rows:
        *counts, question, run = row.values()
        table.add_row(*map(str, counts), f"{question:.4f}", f"{run:.4f}")
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
