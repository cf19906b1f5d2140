"""What it costs that a person counts once: a release over persons beside the same without.

    python audits/person_speed.py            print the ratio
    python audits/person_speed.py --write    and keep it in audits/person_speed.json

A table of 10^7 rows and 3 columns, of 10^6 persons, as it is once it was read: coordinates, and a
64-bit key for every row. Timed turn by turn in one run are the whole of what follows: the grid, who
owns which row, what rows weigh, and the synopsis at eps = 1 with k = 8. Also printed: the share of
keys and weights alone, and the most memory that they took.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
import tracemalloc
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from statistics import median

import numpy as np

import dpkv
from dpkv.domain import Domain
from dpkv.grid import Grid
from dpkv.mechanisms import calibrate_mechanism
from dpkv.noise import SeededEntropy
from dpkv.records import curator_of
from dpkv.records.persons import EVERY_ROW, RowFacts, Weighing, owners_of

N_FEATURES, N_CLUSTERS = 3, 8


def table(n_rows: int, n_persons: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows around a few centers, and keys of the persons that they belong to by chance."""
    rng = np.random.default_rng(20160619)
    centers = rng.uniform(-0.8, 0.8, (N_CLUSTERS, N_FEATURES))
    values = centers[rng.integers(N_CLUSTERS, size=n_rows)]
    values += rng.normal(0, 0.05, values.shape)
    names = rng.integers(0, 2**64, n_persons, dtype=np.uint64)
    return np.clip(values, -1, 1), names[rng.integers(n_persons, size=n_rows)]


def release(grid: Grid, values: np.ndarray, keys: np.ndarray | None) -> np.ndarray:
    """Return the centers of a release from a table that was read."""
    points = np.asarray(grid.quantise(values), dtype=np.int32)
    how = EVERY_ROW if keys is None else Weighing("share")
    facts = RowFacts(len(values), None if keys is None else owners_of(keys))
    mechanism = calibrate_mechanism(
        "synopsis",
        Decimal(1),
        n_records=facts.n_records,
        n_clusters=N_CLUSTERS,
        grid=grid,
        unit=how.unit,
    )
    records = facts.records(points, how)
    return np.asarray(mechanism.run(curator_of(mechanism, records, SeededEntropy(0))).centers)


def seconds(work: Callable[[], object]) -> float:
    """Return how long some work takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def weigh(keys: np.ndarray) -> None:
    """Find whose rows are whose, and what they weigh."""
    RowFacts(len(keys), owners_of(keys)).weigh(Weighing("share"))


def measure(n_rows: int, n_persons: int, turns: int) -> dict[str, float]:
    """Return the ratio of both releases, and what keys and weights take."""
    values, keys = table(n_rows, n_persons)
    grid = Domain.bounded((-1, 1), N_FEATURES).grid()
    release(grid, values[:1000], keys[:1000])  # compiles
    release(grid, values[:1000], None)
    pairs = [
        (seconds(lambda: release(grid, values, None)), seconds(lambda: release(grid, values, keys)))
        for _ in range(turns)
    ]
    alone = seconds(lambda: weigh(keys))
    tracemalloc.start()
    weigh(keys)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {
        "ratio": round(median(of_persons / of_rows for of_rows, of_persons in pairs), 3),
        "share_of_weighing": round(alone / median(pair[0] for pair in pairs), 3),
        "bytes_per_row": round(most / n_rows, 1),
    }


def main() -> None:
    """Measure, print, and write if asked."""
    parser = argparse.ArgumentParser(description="A release over persons beside one over rows.")
    parser.add_argument("--write", action="store_true", help="Write audits/person_speed.json.")
    parser.add_argument("--rows", type=int, default=10**7)
    parser.add_argument("--persons", type=int, default=10**6)
    parser.add_argument("--turns", type=int, default=3)
    chosen = parser.parse_args()
    found = measure(chosen.rows, chosen.persons, chosen.turns)
    print(
        f"{chosen.rows} rows of {chosen.persons} persons: {found['ratio']} times the time of a "
        f"release over rows; keys and weights alone {found['share_of_weighing']} of that, and "
        f"{found['bytes_per_row']} bytes a row"
    )
    if chosen.write:
        result = {
            "dpkv": dpkv.__version__,
            "python": platform.python_version(),
            "cores": os.cpu_count(),
            "rows": chosen.rows,
            "persons": chosen.persons,
            **found,
        }
        path = Path(__file__).with_suffix(".json")
        path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
