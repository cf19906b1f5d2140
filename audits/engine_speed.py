"""Speed of seeding over shards, beside the same seeding of the whole table in memory.

    python audits/engine_speed.py            print the figures
    python audits/engine_speed.py --write    and keep them in audits/engine_speed.json

2 x 10^6 records x 15 columns, k = 10, 8 shards. The local engine builds its nodes (which check
their records) and runs protected dk-means++ and k-means++; the other side is k-means++ of the same
array in one piece. Dask's overhead is the time of a question that needs no work, asked of all nodes
of a cluster of two worker processes, and the time of a whole run beside the local engine's.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import dpkv
from dpkv.engine import (
    FileShard,
    LocalTransport,
    Node,
    Peers,
    dk_protected,
    partitioned_kmeans_plusplus,
)
from dpkv.engine.dask_engine import dask_transport
from dpkv.engine.requests import Describe
from dpkv.engine.shards import ShardRecords, load_all

N_RECORDS, N_FEATURES, N_CLUSTERS, N_SHARDS = 2_000_000, 15, 10, 8
_TURNS, _QUESTIONS = 7, 50


def clustered(n_records: int) -> np.ndarray:
    """Return records in [0, 1] around ten centers."""
    rng = np.random.default_rng(20160619)
    centers = rng.uniform(0, 1, (10, N_FEATURES))
    noise = rng.normal(0, 0.05, (n_records, N_FEATURES))
    return np.clip(centers[rng.integers(10, size=n_records)] + noise, 0, 1)


def local_peers(records: np.ndarray) -> Peers:
    """Return nodes that hold the records in consecutive shards."""
    parts = np.array_split(records, N_SHARDS)
    return Peers(LocalTransport([Node(ShardRecords(part, part)) for part in parts]))


def turn_by_turn(*sides: Callable[[int], object]) -> list[float]:
    """Return the median seconds of each side, measured in turn."""
    seconds: list[list[float]] = [[] for _ in sides]
    for side in sides:
        side(0)  # compiled, or loaded from the cache, beforehand
    for turn in range(_TURNS):
        for side, times in zip(sides, seconds, strict=True):
            start = time.perf_counter()
            side(turn)
            times.append(time.perf_counter() - start)
    return [float(np.median(times)) for times in seconds]


def local_figures(records: np.ndarray) -> dict[str, float]:
    """Return how much longer seeding takes over shards."""
    whole, kmeans, protected = turn_by_turn(
        lambda seed: dpkv.kmeans_plusplus(records, N_CLUSTERS, rng=seed),
        lambda seed: partitioned_kmeans_plusplus(local_peers(records), N_CLUSTERS, rng=seed),
        lambda seed: dk_protected(local_peers(records), N_CLUSTERS, rng=seed),
    )
    return {
        "whole_table_s": whole,
        "kmeans_over_shards_s": kmeans,
        "dk_protected_s": protected,
        "kmeans_ratio": kmeans / whole,
        "dk_protected_ratio": protected / whole,
    }


def dask_figures(records: np.ndarray, folder: Path) -> dict[str, float]:
    """Return what a round trip costs, and a whole run beside the local engine on the same files."""
    columns = tuple(f"x{j}" for j in range(records.shape[1]))
    shards = []
    for number, part in enumerate(np.array_split(records, N_SHARDS)):
        path = folder / f"shard{number}.csv"
        np.savetxt(path, part, delimiter=",", header=",".join(columns), comments="", fmt="%.6f")
        shards.append(FileShard(str(path), columns, seed=0, number=number))
    local = Peers(
        LocalTransport([Node(r, s.secret()) for r, s in zip(load_all(shards), shards, strict=True)])
    )
    with dask_transport(shards, n_workers=2) as transport:
        peers = Peers(transport)
        asked = time.perf_counter()
        for _ in range(_QUESTIONS):
            peers.ask_all(Describe())
        overhead = (time.perf_counter() - asked) / _QUESTIONS
        here, there = turn_by_turn(
            lambda seed: dk_protected(local, N_CLUSTERS, rng=seed, run=str(seed)),
            lambda seed: dk_protected(peers, N_CLUSTERS, rng=seed, run=str(seed)),
        )
    return {
        "dask_round_s": overhead,
        "dask_run_s": there,
        "local_run_s": here,
        "dask_ratio": there / here,
    }


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="keep the figures beside this file")
    write = parser.parse_args().write
    found = local_figures(clustered(N_RECORDS))
    print(
        f"local engine, {N_SHARDS} shards: k-means++ {found['kmeans_ratio']:.2f}x, protected "
        f"dk-means++ {found['dk_protected_ratio']:.2f}x the time of one table"
    )
    with tempfile.TemporaryDirectory() as folder:
        found |= dask_figures(clustered(N_RECORDS // 10), Path(folder))
    print(
        f"dask: {1000 * found['dask_round_s']:.1f} ms a round of {N_SHARDS} nodes; a run of "
        f"{N_RECORDS // 10} records takes {found['dask_ratio']:.0f}x the local engine's time"
    )
    if write:
        record = {
            "command": "python audits/engine_speed.py --write",
            "cores": os.cpu_count(),
            "machine": platform.machine(),
            "python": platform.python_version(),
            "dpkv": dpkv.__version__,
            "numpy": np.__version__,
            **found,
        }
        target = Path(__file__).with_suffix(".json")
        target.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
