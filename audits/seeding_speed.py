"""Seeding speed: dpkv.kmeans_plusplus against scikit-learn's, on the same arrays in one run.

    python audits/seeding_speed.py            the three bars, and a few cases around them
    python audits/seeding_speed.py --write    the same, kept in audits/seeding_speed.json

The two take turns, the ratio is that of their median times, and scikit-learn draws one candidate a
round (n_local_trials=1), which is the distribution dpkv draws from. A bar that is missed makes the
command fail.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numba
import numpy as np
import sklearn
from sklearn.cluster import kmeans_plusplus as sklearn_kmeans_plusplus

import dpkv

ROUNDS = 7


@dataclass(frozen=True)
class Case:
    """A table to seed, and the ratio to reach (None: for information)."""

    n_records: int
    n_features: int
    k: int
    shape: str
    dtype: str
    bar: float | None

    def table(self) -> np.ndarray:
        """Make the table: clusters of spread 0.02 in [-1, 1]^d, one a center, or uniform points."""
        rng = np.random.default_rng(20160619)
        size = (self.n_records, self.n_features)
        if self.shape == "uniform":
            return rng.uniform(-1.0, 1.0, size).astype(self.dtype)
        places = rng.uniform(-1.0, 1.0, (self.k, self.n_features))
        noise = 0.02 * rng.standard_normal(size)
        return (places[rng.integers(self.k, size=self.n_records)] + noise).astype(self.dtype)


CASES = (
    Case(10**6, 15, 10, "clustered", "float64", 3.0),
    Case(10**6, 2, 10, "clustered", "float64", 3.0),
    Case(10**6, 2, 100, "clustered", "float64", 8.0),
    Case(10**6, 15, 10, "uniform", "float64", 3.0),
    Case(10**6, 2, 10, "uniform", "float64", 3.0),
    Case(10**6, 2, 100, "uniform", "float64", None),
    Case(10**6, 15, 100, "clustered", "float64", None),
    Case(10**6, 15, 10, "clustered", "float32", None),
    Case(10**6, 2, 100, "clustered", "float32", None),
)


def seconds(function: Callable[[], object]) -> float:
    """Return how long one call takes."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def measure(case: Case) -> dict[str, object]:
    """Time both on one table, turn by turn, and the memory dpkv takes beside the table."""
    table = case.table()
    dpkv.kmeans_plusplus(table[:2000], 5, rng=0)  # compiled, or loaded from the cache, beforehand
    ours, theirs, reading = [], [], []
    for round_ in range(ROUNDS):
        theirs.append(
            seconds(
                lambda seed=round_: sklearn_kmeans_plusplus(
                    table, case.k, n_local_trials=1, random_state=seed
                )
            )
        )
        ours.append(seconds(lambda seed=round_: dpkv.kmeans_plusplus(table, case.k, rng=seed)))
        reading.append(seconds(table.sum))
    tracemalloc.start()
    dpkv.kmeans_plusplus(table, case.k, rng=0)
    extra = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    ours_median, theirs_median = statistics.median(ours), statistics.median(theirs)
    return {
        **asdict(case),
        "dpkv_ms": 1e3 * ours_median,
        "sklearn_ms": 1e3 * theirs_median,
        "ratio": theirs_median / ours_median,
        "over_one_numpy_sum": ours_median / statistics.median(reading),
        "extra_memory_share": extra / table.nbytes,
    }


def main() -> int:
    """Run every case, print a table, and return 1 when a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="keep the figures beside this file")
    write = parser.parse_args().write
    print(
        "     records   d    k  table      dtype      sklearn      dpkv   ratio   bar  "
        "over a sum()  extra memory"
    )
    rows = []
    for number, case in enumerate(CASES, start=1):
        print(f"case {number} of {len(CASES)} ...", end="\r", file=sys.stderr, flush=True)
        row = measure(case)
        rows.append(row)
        bar = "    -" if case.bar is None else f"{case.bar:5.0f}"
        print(
            f"{case.n_records:12d} {case.n_features:3d} {case.k:4d}  {case.shape:9s}  {case.dtype}"
            f"  {row['sklearn_ms']:8.1f} ms {row['dpkv_ms']:6.1f} ms  {row['ratio']:5.1f}x {bar}x"
            f"  {row['over_one_numpy_sum']:10.1f}x  {row['extra_memory_share']:11.0%}",
            flush=True,
        )
    missed = [row for row in rows if row["bar"] is not None and row["ratio"] < row["bar"]]
    if write:
        record = {
            "command": "python audits/seeding_speed.py --write",
            "cores": os.cpu_count(),
            "machine": platform.machine(),
            "python": platform.python_version(),
            "dpkv": dpkv.__version__,
            "numba": numba.__version__,
            "numpy": np.__version__,
            "scikit-learn": sklearn.__version__,
            "cases": rows,
        }
        target = Path(__file__).with_suffix(".json")
        target.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    print("every bar is reached" if not missed else f"{len(missed)} bars are missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
