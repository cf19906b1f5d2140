"""Speed of a synopsis release beside the clustering without privacy that it replaces.

    python audits/synopsis_speed.py            print the figures (2 GB of memory, a few minutes)
    python audits/synopsis_speed.py --quick    small tables: does it run at all?
    python audits/synopsis_speed.py --write    and keep the figures in audits/synopsis_speed.json

Both sides get the same array of records in memory. dpkv rounds them to the grid, grows the private
cells, clusters them and moves the centers by private Lloyd steps; scikit-learn runs
``KMeans(n_clusters=k, n_init=1)``. They take turns, and medians are compared, in seconds on the
clock and in seconds of processor time (all cores), which a busy machine disturbs less.

Noise is that of a release: exact, from the operating system, by OpenDP's sampler.

The physical limit beside it: reading the array once, at the speed at which this machine sums it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import KMeans

import dpkv
from dpkv.domain import Domain
from dpkv.mechanisms import calibrate_mechanism
from dpkv.mechanisms.synopsis import clustering, mechanism
from dpkv.noise import Entropy, OperatingSystemEntropy
from dpkv.records import run_on_points
from dpkv.tables.store import map_rows

SIZES = ((1_000_000, 2, 8), (1_000_000, 10, 10), (4_000_000, 10, 10))
QUICK = ((20_000, 2, 4), (80_000, 2, 4))
MANY_CENTERS = (100, 1000, 10_000)
ROUNDS = 3


def clustered(n_records: int, n_features: int, n_clusters: int) -> np.ndarray:
    """Return records in [-1, 1] around a few centers."""
    rng = np.random.default_rng(20160619)
    centers = rng.uniform(-0.8, 0.8, (n_clusters, n_features))
    noise = rng.normal(0, 0.05, (n_records, n_features))
    return np.clip(centers[rng.integers(n_clusters, size=n_records)] + noise, -1, 1)


def release(values: np.ndarray, k: int, entropy: Entropy) -> Any:
    """Return what a release at eps = 1 makes of records in memory."""
    grid = Domain.bounded((-1, 1), values.shape[1]).grid()
    points = map_rows(values, grid.quantise, mapped=False, workspace=".", dtype=np.int32)
    mechanism = calibrate_mechanism(
        "synopsis", Decimal(1), n_records=len(values), n_clusters=k, grid=grid
    )
    return run_on_points(mechanism, points, entropy)


def taken(work: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds that work takes on the clock, and of processor time."""
    clock, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - clock, time.process_time() - processor


def side_by_side(sides: dict[str, Callable[[], object]]) -> dict[str, tuple[float, float]]:
    """Return the median times of some ways to work, which take turns."""
    for work in sides.values():
        work()  # compiled, or loaded from the cache, beforehand
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    for _ in range(ROUNDS):
        for name, work in sides.items():
            found[name].append(taken(work))
    return {
        name: (statistics.median(t[0] for t in times), statistics.median(t[1] for t in times))
        for name, times in found.items()
    }


def measured(n_records: int, n_features: int, k: int) -> dict[str, float]:
    """Return the times of one size, and their ratios."""
    values = clustered(n_records, n_features, k)
    times = side_by_side(
        {
            "dpkv": lambda: release(values, k, OperatingSystemEntropy()),
            "scikit-learn": lambda: KMeans(n_clusters=k, n_init=1, random_state=0).fit(values),
            "reading once": values.sum,
        }
    )
    spent = clustering_share(values, k)
    ours, theirs = times["dpkv"], times["scikit-learn"]
    return {
        "records": n_records,
        "columns": n_features,
        "k": k,
        **{f"{name}, clock s": clock for name, (clock, _) in times.items()},
        **{f"{name}, processor s": processor for name, (_, processor) in times.items()},
        "times faster, clock": theirs[0] / ours[0],
        "times faster, processor": theirs[1] / ours[1],
        "processor ns a record": ours[1] / n_records * 1e9,
        "readings of the array": ours[0] / times["reading once"][0],
        "share of clustering": spent,
    }


def clustering_share(values: np.ndarray, k: int) -> float:
    """Return the share of a release's processor time that goes into clustering its cells."""
    plain, spent = clustering.cluster, [0.0]

    def clocked(*arguments: Any) -> Any:
        start = time.process_time()
        try:
            return plain(*arguments)
        finally:
            spent[0] += time.process_time() - start

    mechanism.cluster = clocked
    try:
        whole = taken(lambda: release(values, k, OperatingSystemEntropy()))[1]
    finally:
        mechanism.cluster = plain
    return spent[0] / max(whole, 1e-9)


def many_centers(n_records: int, numbers: tuple[int, ...]) -> list[dict[str, float]]:
    """Return how the time grows with k."""
    values = clustered(n_records, 2, 50)
    found = []
    for k in numbers:
        clock, processor = taken(lambda k=k: release(values, k, OperatingSystemEntropy()))
        found.append({"records": n_records, "k": k, "clock s": clock, "processor s": processor})
    return found


def sentence(row: dict[str, float]) -> str:
    """Return what was found of one size, for people."""
    return (
        f"{row['records']:.0f} x {row['columns']:.0f}, k = {row['k']:.0f}: "
        f"{row['times faster, processor']:.1f}x scikit-learn by processor time, "
        f"{row['times faster, clock']:.1f}x by the clock ({row['dpkv, clock s']:.2f} s), "
        f"{row['processor ns a record']:.0f} ns a record, as long as reading the array "
        f"{row['readings of the array']:.0f} times; clustering takes "
        f"{row['share of clustering']:.0%}"
    )


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="keep the figures beside this file")
    parser.add_argument("--quick", action="store_true", help="small tables")
    asked = parser.parse_args()
    rows = [measured(*size) for size in (QUICK if asked.quick else SIZES)]
    for row in rows:
        print(sentence(row))
    per_record = rows[-1]["processor ns a record"] / rows[-2]["processor ns a record"]
    print(f"a record of the last table takes {per_record:.2f} times that of the one before")
    grown = many_centers(20_000 if asked.quick else 200_000, MANY_CENTERS)
    for line in grown:
        print(f"k = {line['k']}: {line['processor s']:.2f} s of processor time")
    if asked.write:
        record = {
            "command": "python audits/synopsis_speed.py --write",
            "cores": os.cpu_count(),
            "machine": platform.machine(),
            "python": platform.python_version(),
            "dpkv": dpkv.__version__,
            "numpy": np.__version__,
            "tables": rows,
            "per_record_of_the_last_over_the_one_before": per_record,
            "many_centers": grown,
        }
        target = Path(__file__).with_suffix(".json")
        target.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
