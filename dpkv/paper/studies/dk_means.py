"""Protected dk-means++ against k-means++ and k-means|| (Figure 4, Tables 8 and 9).

Every true cluster is the data of a peer; then each record moves to another peer with probability p.
For real tables peers are the Voronoi cells of records picked by k-means++ or at random (Forgy).
Reported are rho_phi(H) = 100 (phi(dk-means++) - phi(H)) / phi(H) and the spread of the Forgy nodes,
phi_s^F(p) / phi_s^F(0) (Figure 11).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dpkv.engine import LocalTransport, Node, Peers, dk_protected, kmeans_parallel
from dpkv.engine.shards import ShardRecords, simulate_secret
from dpkv.paper.datasets.families import Labelled, hyperrectangles, move_records
from dpkv.paper.datasets.recipes import load_paper_table
from dpkv.paper.studies.drawing import COLORS, SERIES, canvas, finish
from dpkv.paper.studies.runner import rng_of
from dpkv.paper.studies.study import Case, Figures, Finished, Rows, Study, Summary
from dpkv.seeding import assign, kmeans_plusplus, potential
from dpkv.types import Float64s

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SYNTHETIC = "hyperrectangles"
PLUSPLUS, PARALLEL = "kmeans++", "kmeans-parallel"
RIVALS = {PLUSPLUS: "k-means++", PARALLEL: "k-means||"}
_SMALL_MOVES = 10  # per cent: what "small p" means below
_BASE = "rivals"


@dataclass(frozen=True)
class DkMeansSettings:
    """What is run. ``moves`` are per cent; a table is a name, then a replicate or a start."""

    seed: int
    tables: tuple[str, ...]
    rows: int
    columns: int
    largest_cluster: int
    longest_edge: float
    peers: int
    moves: tuple[int, ...]
    ks: tuple[int, ...]
    runs: int
    rival_runs: int


def cases(settings: DkMeansSettings) -> list[Case]:
    """Return the rivals of every table, then every p."""
    return [
        Case(f"{table}, {part}", weight=weight)
        for table in settings.tables
        for part, weight in (
            (_BASE, 4.0 * settings.rival_runs / settings.runs),
            *((f"p = {p}%", 1.0) for p in settings.moves),
        )
    ]


@lru_cache(maxsize=1)
def held_by_peers(settings: DkMeansSettings, table: str) -> Labelled | None:
    """Return a table and the peer of each record at p = 0; None where its file is not given."""
    name, _, variant = table.partition("/")
    rng = rng_of(settings.seed, table, "peers")
    if name == SYNTHETIC:
        return hyperrectangles(
            settings.rows,
            settings.columns,
            rng,
            largest_cluster=settings.largest_cluster,
            longest_edge=settings.longest_edge,
        )
    points = load_paper_table(name)
    if points is None:
        return None
    if variant == "forgy":
        rows = np.sort(rng.choice(len(points), settings.peers, replace=False))
    else:
        _, rows = kmeans_plusplus(points, settings.peers, rng=rng)
    cells = assign(points, points[rows])  # of equal records the first one holds the cell
    return Labelled(points, np.unique(cells, return_inverse=True)[1])


def peers_of(held: Labelled, seed: int) -> Peers:
    """Return nodes that hold the records of a label each, and answer alike when asked again."""
    order = np.argsort(held.labels, kind="stable")
    parts = np.split(held.points[order], np.cumsum(np.bincount(held.labels))[:-1])
    nodes = [
        Node(ShardRecords(part, part), simulate_secret(seed, number))
        for number, part in enumerate(parts)
    ]
    return Peers(LocalTransport(nodes))


def run(settings: DkMeansSettings, case: Case) -> Figures:
    """Run the rivals on a table, or dk-means++ on it after records have moved."""
    table, part = case.name.split(", ")
    held = held_by_peers(settings, table)
    if held is None:
        return {"missing": True}
    rng = rng_of(settings.seed, case.name)
    if part == _BASE:
        return _run_rivals(settings, held, rng)
    share = int(part.removeprefix("p = ").removesuffix("%")) / 100.0
    peers = peers_of(move_records(held, share, rng), settings.seed)
    phi = {
        str(k): _moments([_run_protected(peers, k, rng) for _ in range(settings.runs)])
        for k in settings.ks
    }
    return {"spread": peers.spread(), "peers": peers.n_nodes, "phi": phi}


def _run_protected(peers: Peers, k: int, rng: np.random.Generator) -> float:
    seeding = dk_protected(peers, k, rng=rng, run=rng.bytes(16).hex())
    return peers.potential(seeding.centers)


def _run_rivals(settings: DkMeansSettings, held: Labelled, rng: np.random.Generator) -> Figures:
    """Run both rivals on the whole table; neither depends on how it is divided."""
    points = held.points
    whole = peers_of(Labelled(points, np.zeros(len(points), np.int64)), settings.seed)
    runs = range(settings.rival_runs)
    found: Figures = {"records": len(points), "columns": points.shape[1]}
    for name in RIVALS:
        found[name] = {
            str(k): _moments([_run_rival(name, whole, points, k, rng) for _ in runs])
            for k in settings.ks
        }
    return found


def _run_rival(
    name: str, whole: Peers, points: Float64s, k: int, rng: np.random.Generator
) -> float:
    if name == PLUSPLUS:
        return potential(points, kmeans_plusplus(points, k, rng=rng)[0])
    return potential(points, kmeans_parallel(whole, k, rng=rng).centers)


def _moments(values: list[float]) -> dict[str, float]:
    """Return the mean and its standard error."""
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return {"mean": float(np.mean(values)), "error": spread / math.sqrt(len(values))}


def tabulate(settings: DkMeansSettings, finished: Finished) -> Rows:
    """Return rho_phi for every table, p and k."""
    given = [name for name in settings.tables if "missing" not in finished[f"{name}, {_BASE}"]]
    return [row for table in given for row in _rows(settings, table, finished)]


def summarise(settings: DkMeansSettings, rows: Rows) -> Summary:
    """Return the rows, and their averages by kind of table."""
    given = {row["table"] for row in rows}
    kinds = dict.fromkeys(row["kind"] for row in rows)
    return {
        "kinds": [_kind_summary(kind, [r for r in rows if r["kind"] == kind]) for kind in kinds],
        "missing": [name for name in settings.tables if name not in given],
        "rows": rows,
    }


def _kind(table: str) -> str:
    """Return what replicates share: the synthetic family, or a real table with its start."""
    return SYNTHETIC if table.startswith(SYNTHETIC) else table


def _rows(settings: DkMeansSettings, table: str, finished: Finished) -> Rows:
    base = finished[f"{table}, {_BASE}"]
    at_zero = finished[f"{table}, p = {settings.moves[0]}%"]["spread"]
    rows = []
    for p in settings.moves:
        found = finished[f"{table}, p = {p}%"]
        for k in settings.ks:
            phi = found["phi"][str(k)]
            row = {"kind": _kind(table), "table": table, "p": p, "k": k, "peers": found["peers"]}
            row |= {"spread_ratio": found["spread"] / at_zero, "phi": phi["mean"]}
            for name in RIVALS:
                ratio, error = _rho(phi, base[name][str(k)])
                row |= {f"rho_{name}": ratio, f"error_{name}": error}
            rows.append(row)
    return rows


def _rho(ours: dict[str, float], theirs: dict[str, float]) -> tuple[float, float]:
    """Return rho_phi in per cent and its standard error."""
    quotient = ours["mean"] / theirs["mean"]
    relative = math.hypot(ours["error"] / ours["mean"], theirs["error"] / theirs["mean"])
    return 100.0 * (quotient - 1.0), 100.0 * quotient * relative


def _kind_summary(kind: str, rows: Rows) -> dict[str, Any]:
    most = max(row["p"] for row in rows)
    ks = sorted({row["k"] for row in rows})
    summary: dict[str, Any] = {"kind": kind, "tables": len({row["table"] for row in rows})}
    summary["largest_move"] = most
    summary["spread_ratio_at_largest_move"] = _mean(rows, "spread_ratio", p=most)
    summary["peers"] = min(row["peers"] for row in rows)
    for name in RIVALS:
        column = f"rho_{name}"
        small = [row for row in rows if row["p"] <= _SMALL_MOVES]
        summary[name] = {
            "small_moves": {str(k): _mean(small, column, k=k) for k in ks},
            "largest_move": {str(k): _mean(rows, column, k=k, p=most) for k in ks},
            "share_beaten": float(np.mean([row[column] < 0.0 for row in rows])),
            "worst_small_move": max(row[column] for row in small),
        }
    return summary


def _mean(rows: Rows, column: str, **where: int) -> float:
    chosen = [row[column] for row in rows if all(row[name] == v for name, v in where.items())]
    return float(np.mean(chosen))


def tell(summary: Summary) -> list[str]:
    """Return what was found, a sentence each."""
    sentences = []
    for kind in summary["kinds"]:
        means = [kind[name]["small_moves"] for name in RIVALS]
        five = ""
        if "5" in means[0]:
            five = f"; at k = 5 {means[0]['5']:+.1f} % and {means[1]['5']:+.1f} %"
        sentences.append(
            f"{kind['kind']}: for p up to {_SMALL_MOVES} % protected dk-means++ is on average "
            f"{_range(means[0])} of k-means++ and {_range(means[1])} of k-means||, by k{five}"
        )
        largest = [kind[name]["largest_move"] for name in RIVALS]
        sentences.append(
            f"{kind['kind']}: at p = {kind['largest_move']} % it is {_range(largest[0])} and "
            f"{_range(largest[1])}; the peers' spread is {kind['spread_ratio_at_largest_move']:.1f}"
            f" times that at p = 0; {kind[PLUSPLUS]['share_beaten']:.0%} of all averages are below "
            f"k-means++, {kind[PARALLEL]['share_beaten']:.0%} below k-means||"
        )
    if summary["missing"]:
        sentences.append("not given, left out: " + ", ".join(summary["missing"]))
    return sentences


def _range(by_k: dict[str, float]) -> str:
    return f"within {min(by_k.values()):+.1f} .. {max(by_k.values()):+.1f} %"


def draw(summary: Summary) -> Figure:
    """Draw rho_phi over (k, p) and the spread against p, a row for each kind of table."""
    kinds = [kind["kind"] for kind in summary["kinds"]]
    with canvas(9.6, 0.4 + 2.3 * len(kinds)) as figure:
        panels = figure.subplots(len(kinds), 3, squeeze=False)
        for line, kind in zip(panels, kinds, strict=True):
            rows = [row for row in summary["rows"] if row["kind"] == kind]
            for axes, (name, title) in zip(line, RIVALS.items(), strict=False):
                _surface(axes, rows, f"rho_{name}", f"{kind} vs {title}")
            _spreads(line[2], rows)
    return figure


def _surface(axes: Axes, rows: Rows, column: str, title: str) -> None:
    """Draw rho_phi in colours: blue where protected dk-means++ is better, red where it is worse."""
    moves, ks = sorted({row["p"] for row in rows}), sorted({row["k"] for row in rows})
    values = np.array([[_mean(rows, column, p=p, k=k) for p in moves] for k in ks])
    reach = max(1.0, float(np.quantile(np.abs(values), 0.95)))
    step = (moves[-1] - moves[0]) / max(1, len(moves) - 1) / 2.0 or 0.5
    extent = (moves[0] - step, moves[-1] + step, ks[0] - 0.5, ks[-1] + 0.5)
    image = axes.imshow(
        values,
        cmap="RdBu_r",
        vmin=-reach,
        vmax=reach,
        aspect="auto",
        origin="lower",
        extent=extent,
        interpolation="none",
    )
    axes.figure.colorbar(image, ax=axes, label="rho_phi (%)")
    finish(axes, title, "p (%)", "k")
    axes.grid(visible=False)
    axes.set_yticks(ks)


def _spreads(axes: Axes, rows: Rows) -> None:
    for color, table in zip(SERIES * 3, dict.fromkeys(row["table"] for row in rows), strict=False):
        own = {row["p"]: row["spread_ratio"] for row in rows if row["table"] == table}
        axes.plot(list(own), list(own.values()), color=COLORS[color], linewidth=1.2)
    finish(axes, "spread(p) / spread(0)", "p (%)")
    axes.set_ylim(bottom=0.0)


STUDY = Study("dk-means", DkMeansSettings, cases, run, tabulate, summarise, draw, tell)
