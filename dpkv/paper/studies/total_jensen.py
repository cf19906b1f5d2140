"""Total Jensen divergences: seeding approximates where no minimiser has a closed form.

The paper's extension to non-metric spaces replaces D_t by tJ_alpha and promises an expected
potential of at most omega log k (6 phi_opt + 2 phi_bias + 2 phi_var) for some constant omega. Here
the potential of seeding is put over the best that is known: clusters and numerical minimisers of
their tJ sums in turn, from many starts. Seeding itself never asks for a minimiser.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import minimize

from dpkv.distortions import Generator, TotalJensen, burg, negative_entropy, squared_norm
from dpkv.domain import Box
from dpkv.paper.datasets.families import positive
from dpkv.paper.studies.drawing import COLORS, canvas, finish
from dpkv.paper.studies.runner import rng_of
from dpkv.paper.studies.study import Case, Figures, Finished, Rows, Study, Summary
from dpkv.seeding import ProductLaplace, assign, forgy, kmeans_plusplus, kvariates, potential
from dpkv.types import Float64s

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GENERATORS: dict[str, Generator] = {
    "squared-norm": squared_norm,
    "negative-entropy": negative_entropy,
    "burg": burg,
}
OURS, NOISY, EUCLIDEAN, UNIFORM = "tJ", "tJ, noisy", "squared L2", "uniform"
_COLORS = {OURS: "green", NOISY: "teal", EUCLIDEAN: "orange", UNIFORM: "grey"}
_SETTLED = 1e-4  # of the potential: where the search for the best clustering stops
_MOST_STEPS = 30


@dataclass(frozen=True)
class TotalJensenSettings:
    """What is run; ``noise`` is the scale of product-Laplace densities."""

    seed: int
    rows: int
    columns: int
    clusters: int
    generators: tuple[str, ...]
    alphas: tuple[float, ...]
    ks: tuple[int, ...]
    noise: float
    runs: int
    restarts: int


def cases(settings: TotalJensenSettings) -> list[Case]:
    """Return every divergence and k."""
    return [
        Case(f"{name}, alpha = {alpha:g}, k = {k}", weight=float(k))
        for name in settings.generators
        for alpha in settings.alphas
        for k in settings.ks
    ]


@lru_cache(maxsize=1)
def table_of(settings: TotalJensenSettings) -> Float64s:
    """Return log-normal clusters, so that every generator is defined."""
    rng = rng_of(settings.seed, "table")
    return positive(settings.rows, settings.columns, settings.clusters, rng).points


def run(settings: TotalJensenSettings, case: Case) -> Figures:
    """Seed by each rule many times, and search for the best clustering."""
    name, alpha, k = (part.rpartition(" = ")[2] for part in case.name.split(", "))
    distortion = TotalJensen(GENERATORS[name], float(alpha))
    points, rng = table_of(settings), rng_of(settings.seed, case.name)
    ways = _ways(settings, points, distortion, int(k), rng)
    phi = {
        way: [potential(points, seed(), distortion=distortion) for _ in range(settings.runs)]
        for way, seed in ways.items()
    }
    searched = [
        search_potential(points, ways[OURS](), distortion) for _ in range(settings.restarts)
    ]
    best = min([*searched, *(min(values) for values in phi.values())])
    return {
        "generator": name,
        "alpha": float(alpha),
        "k": int(k),
        "best": best,
        "mean": {way: float(np.mean(values)) for way, values in phi.items()},
        "error": {
            way: float(np.std(values, ddof=1) / math.sqrt(len(values)))
            for way, values in phi.items()
        },
    }


def _ways(
    settings: TotalJensenSettings,
    points: Float64s,
    distortion: TotalJensen,
    k: int,
    rng: np.random.Generator,
) -> dict[str, Callable[[], Float64s]]:
    low, high = points.min(axis=0), points.max(axis=0)
    domain = Box(tuple(map(float, low)), tuple(map(float, high)), scaled=False)
    noise = ProductLaplace(settings.noise)

    def by_divergence() -> Float64s:
        return np.asarray(kvariates(points, k, distortion=distortion, rng=rng).centers)

    def through_noise() -> Float64s:
        seeding = kvariates(points, k, distortion=distortion, density=noise, domain=domain, rng=rng)
        return np.asarray(seeding.centers)

    return {
        OURS: by_divergence,
        NOISY: through_noise,
        EUCLIDEAN: lambda: np.asarray(kmeans_plusplus(points, k, rng=rng)[0]),
        UNIFORM: lambda: np.asarray(forgy(points, k, rng=rng)[0]),
    }


def search_potential(points: Float64s, centers: Float64s, distortion: TotalJensen) -> float:
    """Return the potential after clusters and numerical minimisers have settled."""
    current, phi = centers.copy(), potential(points, centers, distortion=distortion)
    for _ in range(_MOST_STEPS):
        labels = assign(points, current, distortion=distortion)
        for number in np.unique(labels):
            current[number] = minimiser(points[labels == number], current[number], distortion)
        fallen = potential(points, current, distortion=distortion)
        if fallen > phi * (1.0 - _SETTLED):
            return min(phi, fallen)
        phi = fallen
    return phi


def minimiser(cluster: Float64s, start: Float64s, distortion: TotalJensen) -> Float64s:
    """Return a local minimiser of the cluster's tJ sum, no worse than ``start``.

    Searched in logarithms, which keeps it positive.
    """

    def cost(logarithm: Float64s) -> float:
        return float(distortion.to_center(cluster, np.exp(logarithm)).sum())

    begin = min((np.log(start), np.log(cluster).mean(axis=0)), key=cost)
    found = minimize(cost, begin, method="L-BFGS-B", options={"maxiter": 50})
    return np.exp(found.x) if found.fun <= cost(begin) else np.exp(begin)


def tabulate(_settings: TotalJensenSettings, finished: Finished) -> Rows:
    """Return every way's mean potential over the best known."""
    rows = []
    for found in finished.values():
        row: dict[str, Any] = {name: found[name] for name in ("generator", "alpha", "k", "best")}
        for way, mean in found["mean"].items():
            row[way] = mean / found["best"]
            row[f"{way} error"] = found["error"][way] / found["best"]
        row["8 (2 + log k)"] = 8.0 * (2.0 + math.log(found["k"]))
        rows.append(row)
    return rows


def summarise(_settings: TotalJensenSettings, rows: Rows) -> Summary:
    """Return the rows: they say it all."""
    return {"rows": rows}


def tell(summary: Summary) -> list[str]:
    """Return what was found, a sentence for each divergence."""
    sentences = []
    for key in dict.fromkeys((row["generator"], row["alpha"]) for row in summary["rows"]):
        rows = [row for row in summary["rows"] if (row["generator"], row["alpha"]) == key]
        parts = [
            f"{way} {min(row[way] for row in rows):.2f} to {max(row[way] for row in rows):.2f}"
            for way in _COLORS
        ]
        most = max(row[OURS] / row["8 (2 + log k)"] for row in rows)
        sentences.append(
            f"{key[0]}, alpha = {key[1]:g}: mean potential over the best known, by seeding rule: "
            f"{', '.join(parts)}; at most {most:.3f} of 8 (2 + log k), which bounds k-means++"
        )
    return sentences


def draw(summary: Summary) -> Figure:
    """Draw the ratios against k, a panel for each divergence."""
    keys = list(dict.fromkeys((row["generator"], row["alpha"]) for row in summary["rows"]))
    with canvas(3.0 * max(1, min(3, len(keys))), 2.6 * math.ceil(len(keys) / 3)) as figure:
        panels = figure.subplots(math.ceil(len(keys) / 3), min(3, len(keys)), squeeze=False)
        for axes, key in zip(panels.flat, keys, strict=False):
            rows = [row for row in summary["rows"] if (row["generator"], row["alpha"]) == key]
            _panel(axes, rows)
            finish(axes, f"{key[0]}, alpha = {key[1]:g}", "k", "potential over the best")
        handles, labels = panels[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4)
    return figure


def _panel(axes: Axes, rows: Rows) -> None:
    ks = [row["k"] for row in rows]
    for way, color in _COLORS.items():
        axes.errorbar(
            ks,
            [row[way] for row in rows],
            yerr=[2.0 * row[f"{way} error"] for row in rows],
            marker="o",
            markersize=3,
            color=COLORS[color],
            label=f"{way} seeding",
        )
    axes.axhline(1.0, color=COLORS["ink"], linewidth=0.8)
    axes.set_xticks(ks)


STUDY = Study("total-jensen", TotalJensenSettings, cases, run, tabulate, summarise, draw, tell)
