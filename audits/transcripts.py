"""Replay thousands of runs on neighbouring tables: does any answer cost more than its price?

    python audits/transcripts.py [--pairs 5000] [--seed 2016]

Every mechanism, 1 to 40 columns, both relations, boxes, unscaled boxes and balls, with and without
delta, honest and adversarial answers. Prints the largest loss of a question over its price, and the
largest loss of a whole run, by mechanism and relation; writes ``transcripts.json`` beside itself.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from dpkv.audits.replay_cases import cases
from dpkv.audits.transcripts import AdversarialEntropy, Replayed, replay
from dpkv.noise import SeededEntropy

RESULT = Path(__file__).with_suffix(".json")


def main() -> int:
    """Replay, print and write down."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--pairs", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=2016)
    parser.add_argument("--out", type=Path, default=RESULT)
    chosen = parser.parse_args()
    found: dict[tuple[str, str], list[Replayed]] = defaultdict(list)
    every = cases(chosen.seed, chosen.pairs, [SeededEntropy, AdversarialEntropy])
    console = Console(stderr=True)
    for case in track(every, "replaying", total=chosen.pairs, console=console):
        kind = case.wanted.name, case.wanted.relation.value
        found[kind].append(replay(case.wanted, case.points, case.neighbour, case.entropy))
    rows = [_row(*kind, results) for kind, results in sorted(found.items())]
    _show(rows)
    result = {"pairs": chosen.pairs, "seed": chosen.seed, "rows": rows}
    chosen.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return 0 if all(row["holds"] == row["pairs"] for row in rows) else 3


def _row(name: str, relation: str, results: list[Replayed]) -> dict[str, object]:
    runs = [result.loss / result.price for result in results if result.price > 0]
    return {
        "mechanism": name,
        "neighbours": relation,
        "pairs": len(results),
        "holds": sum(result.holds for result in results),
        "largest_question_over_price": max(result.largest_share for result in results),
        "largest_run_over_price": max(runs, default=0.0),
    }


def _show(rows: list[dict[str, object]]) -> None:
    table = Table("mechanism", "neighbours", "pairs", "hold", "question/price", "run/price")
    for row in rows:
        *counts, question, run = row.values()
        table.add_row(*map(str, counts), f"{question:.4f}", f"{run:.4f}")
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
