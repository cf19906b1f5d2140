"""The table of PE-means (2026) beside dpkv: twelve tables of blobs, and iris.

    python audits/pe_means_table.py             print the figures
    python audits/pe_means_table.py --write     and keep them in pe_means_table.json and .svg

A figure is the area under the loss per record (mean squared distance to the nearest center) over
eps = 0.25, 0.5, 1, 2, 4, by trapezoids; records are centred and scaled into the unit ball, and
neighbours are add-remove. Blobs are scikit-learn's ``make_blobs(20000, d, centers=k,
random_state=1)``, rounded to four decimals. dpkv's bounds are the cube of the largest absolute
coordinate, once with delta = m^-1.1, as the others have, and once with pure eps; diffprivlib's
KMeans is run on the same tables and bounds. The figures of PE-means (the better of its variants),
Google's clustering and FastLloyd are quoted as they were printed.

No constant of the synopsis was chosen on these tables. ``--columns 64 --write`` renews the rows of
tables of 64 columns and keeps the others.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

import dpkv
from dpkv.audits import diffprivlib_kmeans
from dpkv.domain import Box
from dpkv.mechanisms import Neighbours, calibrate_mechanism
from dpkv.mechanisms.synopsis import WeightedPoints
from dpkv.mechanisms.synopsis.clustering import cluster
from dpkv.noise import SeededEntropy
from dpkv.records import run_on_points
from dpkv.seeding import lloyd, potential

OUT = Path(__file__).with_suffix(".json")
PICTURE = Path(__file__).with_suffix(".svg")
EPS = ("0.25", "0.5", "1", "2", "4")
PRINTED = {  # (k, d): PE-means, Google, FastLloyd; iris is (3, 4)
    (4, 4): (0.0778, 0.1305, 0.1777),
    (16, 4): (0.0445, 0.0979, 0.0990),
    (64, 4): (0.0379, 0.1289, 0.0818),
    (4, 16): (0.0955, 0.1395, 0.7110),
    (16, 16): (0.0668, 0.1596, 0.7160),
    (64, 16): (0.1183, 0.3872, 0.7631),
    (4, 64): (0.0974, 0.1090, 1.462),
    (16, 64): (0.1189, 0.2258, 1.748),
    (64, 64): (0.3070, 0.7878, 2.200),
    (4, 128): (0.1097, 0.1186, 1.760),
    (16, 128): (0.1562, 0.2838, 2.304),
    (64, 128): (0.5740, 0.9675, 2.720),
    (3, 4): (0.2894, 0.6892, 0.3979),
}
IRIS = (3, 4)
RIVALS = ("PE-means", "Google", "FastLloyd")
FAIR = "dpkv, delta"
"""The way whose terms are those of the printed figures."""


@dataclass(frozen=True)
class Row:
    """The areas of one table, and the largest and the smallest of the runs with delta."""

    table: str
    k: int
    d: int
    runs: int
    """Of dpkv; of diffprivlib it is one."""
    without_privacy: float
    areas: dict[str, float]
    spread: tuple[float, float]

    @property
    def ahead(self) -> bool:
        """Whether dpkv is ahead of every printed figure."""
        return all(self.areas[FAIR] < self.areas[rival] for rival in RIVALS)


def scaled(values: np.ndarray) -> np.ndarray:
    """Return records centred and scaled into the unit ball."""
    centred = values - values.mean(axis=0)
    return np.asarray(centred / np.linalg.norm(centred, axis=1).max())


def table_of(k: int, d: int) -> tuple[str, np.ndarray]:
    """Return a table and its name."""
    from sklearn.datasets import load_iris, make_blobs  # noqa: PLC0415 (slow to import)

    if (k, d) == IRIS:
        return "iris", scaled(load_iris().data)
    blobs = make_blobs(20_000, d, centers=k, random_state=1)[0]
    return "blobs", scaled(np.round(blobs, 4))


def release(values: np.ndarray, k: int, eps: str, seed: int, delta: float) -> np.ndarray:
    """Return the centers of the synopsis, by the code of a release."""
    half = float(np.abs(values).max())
    grid = Box((-half,) * values.shape[1], (half,) * values.shape[1]).grid()
    mechanism = calibrate_mechanism(
        "synopsis",
        Decimal(eps),
        n_records=len(values),
        n_clusters=k,
        grid=grid,
        neighbours=Neighbours.ADD_REMOVE,
        delta=Decimal(f"{delta:.3g}"),
    )
    points = grid.quantise(values).astype(np.int32)
    return grid.restore(grid.clip(run_on_points(mechanism, points, SeededEntropy(seed)).centers))


def fit_diffprivlib(values: np.ndarray, k: int, eps: str, seed: int, _delta: float) -> np.ndarray:
    """Return the centers of diffprivlib's KMeans."""
    half = np.full(values.shape[1], float(np.abs(values).max()))
    return diffprivlib_kmeans.fit(values, (-half, half), k, float(eps), seed)


def area_of(losses: list[float]) -> float:
    """Return the area under losses at ``EPS``, by trapezoids."""
    return float(np.trapezoid(losses, [float(eps) for eps in EPS]))


def measure(
    find: Callable[..., np.ndarray], values: np.ndarray, k: int, runs: int, delta: float
) -> list[float]:
    """Return the area of every run."""
    return [
        area_of(
            [
                potential(values, find(values, k, eps, 7000 + run, delta)) / len(values)
                for eps in EPS
            ]
        )
        for run in range(runs)
    ]


def without_privacy(values: np.ndarray, k: int) -> float:
    """Return the area of k-means: seeding and swaps on all records, then Lloyd's iterations."""
    points = WeightedPoints(values, np.ones(len(values)), *np.zeros((2, len(values))))
    centers = cluster(points, k, np.random.default_rng(0))
    return area_of([lloyd(values, centers).potential / len(values)] * len(EPS))


def measure_row(k: int, d: int, runs: int) -> Row:
    """Return the figures of one table."""
    name, values = table_of(k, d)
    delta = len(values) ** -1.1
    with_delta = measure(release, values, k, runs, delta)
    areas = {
        FAIR: float(np.mean(with_delta)),
        "dpkv, pure": float(np.mean(measure(release, values, k, runs, 0.0))),
        "diffprivlib": float(np.mean(measure(fit_diffprivlib, values, k, 1, 0.0))),
        **dict(zip(RIVALS, PRINTED[k, d], strict=True)),
    }
    spread = min(with_delta), max(with_delta)
    return Row(name, k, d, runs, without_privacy(values, k), areas, spread)


def read(path: Path = OUT) -> list[Row]:
    """Read kept figures back, checking what they are."""
    fields: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if (fields.get("kind"), fields.get("schema_version")) != ("pe-means-table", 1):
        raise ValueError(f"{path.name} does not hold the table of PE-means")
    rows = [Row(**{**row, "spread": tuple(row["spread"])}) for row in fields["rows"]]
    for row in rows:
        if not (row.without_privacy > 0 and all(area > 0 for area in row.areas.values())):
            raise ValueError(f"{path.name} has an area that is not above 0")
    return rows


def draw(rows: list[Row], path: Path = PICTURE) -> None:
    """Draw every table's areas over that of k-means without privacy."""
    from matplotlib.figure import Figure  # noqa: PLC0415 (slow to import)

    figure = Figure(figsize=(8.0, 4.2), layout="constrained")
    axes = figure.add_subplot()
    marks = {FAIR: "o", "dpkv, pure": "s", "PE-means": "^", "Google": "v", "FastLloyd": "x"}
    for way, mark in {**marks, "diffprivlib": "+"}.items():
        over = [row.areas[way] / row.without_privacy for row in rows]
        axes.plot(range(len(rows)), over, mark, label=way)
    axes.set_yscale("log")
    axes.set_xticks(
        range(len(rows)), [f"{row.table} {row.k}, {row.d}" for row in rows], rotation=60
    )
    axes.set_xlabel("table, k, columns")
    axes.set_ylabel("area over k-means'")
    axes.legend(fontsize="small", ncols=2)
    figure.savefig(path, metadata={"Date": None})


def keep(rows: list[Row]) -> None:
    """Write rows and their picture."""
    result = {
        "schema_version": 1,
        "kind": "pe-means-table",
        "dpkv_version": dpkv.__version__,
        "python": sys.version.split()[0],
        "eps": EPS,
        "rows": [asdict(row) for row in rows],
    }
    OUT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    draw(rows)


def show(row: Row) -> None:
    """Print a row."""
    areas = "  ".join(f"{way} {area:.4f}" for way, area in row.areas.items())
    verdict = "ahead" if row.ahead else "NOT ahead"
    print(
        f"{row.table} {row.k}, {row.d}: k-means {row.without_privacy:.4f}  {areas}  {verdict}",
        flush=True,
    )


def main() -> None:
    """Measure, print, and maybe keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--columns", type=int, action="append", help="only tables of so many")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    known = {(row.k, row.d): row for row in read()} if OUT.exists() and asked.write else {}
    for k, d in PRINTED:
        if asked.columns is None or d in asked.columns:
            known[k, d] = measure_row(k, d, asked.runs)
            show(known[k, d])
            if asked.write:
                keep([known[key] for key in PRINTED if key in known])


if __name__ == "__main__":
    main()
