"""How a release scales over Dask workers of this machine, and what that projects to.

    python audits/release_scaling.py            print the figures
    python audits/release_scaling.py --write    and keep them in audits/release_scaling.json

A table lies in Parquet files of equal size. The synopsis is released from it (seeded noise) on a
cluster that is started here, with one thread a worker:

strong scaling    the same files on more workers
weak scaling      as many files for every worker

Questions and answers are counted in messages and in bytes, as they are pickled. The projection is
arithmetic on what was measured, for workers like these that do not wait for each other's disks; it
is no measurement.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dpkv
from dpkv.domain import Domain
from dpkv.engine.dask_engine import dask_transport
from dpkv.engine.file_parts import FilePart, answer_from_part
from dpkv.mechanisms import calibrate_mechanism
from dpkv.noise import SeededEntropy
from dpkv.records import curator_of
from dpkv.records.remote import RemoteRecords, count_rows
from dpkv.tables.facts import numeric_facts

COLUMNS, K = 3, 10
PROJECTED_ROWS, PROJECTED_WORKERS = 10**9, 16
NETWORK = 1e8  # bytes a second to and from the curator: one gigabit
ROUND_TRIP = 5e-3  # seconds a round of Dask tasks takes beside the work, on a local network


class Counted:
    """A carrier that counts rounds and bytes."""

    def __init__(self, inner: Any) -> None:
        self._inner, self.rounds, self.sent, self.received = inner, 0, 0, 0

    def ask(self, node: int, request: Any) -> Any:
        """Pass one task on."""
        return self._counted([request], lambda: [self._inner.ask(node, request)])[0]

    def ask_each(self, requests: Sequence[Any]) -> list[Any]:
        """Pass a round of tasks on."""
        return self._counted(requests, lambda: self._inner.ask_each(requests))

    def _counted(self, requests: Sequence[Any], work: Any) -> list[Any]:
        self.rounds += 1
        self.sent += sum(len(pickle.dumps(request)) for request in requests)
        found: list[Any] = work()
        self.received += sum(len(pickle.dumps(answer)) for answer in found)
        return found


def write_files(folder: Path, n_files: int, rows: int) -> list[Path]:
    """Write files with records around a few centers."""
    rng = np.random.default_rng(20160619)
    centers = rng.uniform(-0.8, 0.8, (K, COLUMNS))
    paths = []
    for number in range(n_files):
        values = centers[rng.integers(K, size=rows)] + rng.normal(0, 0.05, (rows, COLUMNS))
        paths.append(folder / f"part-{number}.parquet")
        frame = pd.DataFrame(np.clip(values, -1, 1), columns=[f"x{j}" for j in range(COLUMNS)])
        frame.to_parquet(paths[-1])
    return paths


def released(paths: list[Path], workers: int) -> dict[str, float]:
    """Return the times of a release on so many workers."""
    grid = Domain.bounded((-1, 1), COLUMNS).grid()
    facts = numeric_facts()
    parts = [replace(FilePart.of(path, facts), grid=grid) for path in paths]
    with dask_transport(parts, work=answer_from_part, n_workers=workers) as transport:
        transport.ask_each([count_rows] * len(parts))  # compiled, or loaded, and read once
        run(Counted(transport), grid)
        transport.move_to([replace(part, grid=None) for part in parts])
        transport.ask_each([count_rows] * len(parts))  # what was kept is dropped
        transport.move_to(parts)
        start = time.perf_counter()
        sizes = transport.ask_each([count_rows] * len(parts))
        read = time.perf_counter() - start
        counted = Counted(transport)
        start = time.perf_counter()
        run(counted, grid, sizes)
        asked = time.perf_counter() - start
    return {
        "workers": workers,
        "files": len(paths),
        "rows": sum(sizes),
        "reading_s": read,
        "questions_s": asked,
        "rounds": counted.rounds,
        "sent_bytes": counted.sent,
        "received_bytes": counted.received,
    }


def run(carrier: Counted, grid: Any, sizes: Sequence[int] | None = None) -> None:
    """Run the mechanism on the parts."""
    if sizes is None:
        sizes = carrier.ask_each([count_rows] * carrier._inner.n_nodes)
    mechanism = calibrate_mechanism(
        "synopsis", Decimal(1), n_records=sum(sizes), n_clusters=K, grid=grid
    )
    mechanism.run(curator_of(mechanism, RemoteRecords(carrier, sizes), SeededEntropy(0)))


def project(one: dict[str, float]) -> dict[str, float]:
    """Return what one worker's figures come to for many rows on many workers."""
    share = PROJECTED_ROWS / PROJECTED_WORKERS / one["rows"]
    parts = PROJECTED_WORKERS / one["files"]
    moved = (one["sent_bytes"] + one["received_bytes"]) * parts
    seconds = (one["reading_s"] + one["questions_s"]) * share
    seconds += moved / NETWORK + one["rounds"] * ROUND_TRIP
    return {
        "rows": PROJECTED_ROWS,
        "workers": PROJECTED_WORKERS,
        "rounds": one["rounds"],
        "bytes_moved": moved,
        "seconds": seconds,
        "bytes_a_worker": PROJECTED_ROWS / PROJECTED_WORKERS * (4 * COLUMNS + 8 + 4),
    }


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="keep the figures beside this file")
    parser.add_argument("--rows", type=int, default=500_000, help="rows of a file")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = write_files(Path(folder), 4, asked.rows)
        strong = [released(paths, workers) for workers in (1, 2)]
        weak = [released(paths[: 2 * workers], workers) for workers in (1, 2)]
    for name, rows in (("strong", strong), ("weak", weak)):
        for row in rows:
            print(
                f"{name}: {row['workers']:.0f} workers, {row['rows']:.0f} rows in "
                f"{row['files']:.0f} files: reading {row['reading_s']:.2f} s, questions "
                f"{row['questions_s']:.2f} s in {row['rounds']:.0f} rounds, "
                f"{row['sent_bytes'] / 1e6:.1f} MB sent, {row['received_bytes'] / 1e6:.1f} MB back"
            )
    projected = project(weak[0])
    print(
        f"projection (arithmetic, not measured): {projected['rows']:.0f} rows on "
        f"{projected['workers']:.0f} workers: {projected['seconds']:.0f} s, "
        f"{projected['bytes_moved'] / 1e6:.0f} MB moved in {projected['rounds']:.0f} rounds, "
        f"{projected['bytes_a_worker'] / 1e9:.1f} GB a worker"
    )
    if asked.write:
        record = {
            "command": "python audits/release_scaling.py --write",
            "cores": os.cpu_count(),
            "load": os.getloadavg()[0],
            "machine": platform.machine(),
            "dpkv": dpkv.__version__,
            "strong": strong,
            "weak": weak,
            "projection": projected,
        }
        target = Path(__file__).with_suffix(".json")
        target.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
