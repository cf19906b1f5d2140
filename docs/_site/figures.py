"""Draws the figures of the site into docs/figures: ``python docs/_site/figures.py [FOLDER]``.

Everything is seeded and made up; nothing in a figure is a release.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import dpkv
from dpkv.accounting.theorem_a import certify
from dpkv.paper.datasets.clinic import clinic_patients
from dpkv.seeding import ProductLaplace

FOLDER = Path(__file__).resolve().parents[1] / "figures"
INK, SOFT = "#3f51b5", "#90a4ae"
WARM = "#e65100"
STYLE = {
    "svg.fonttype": "path",
    "svg.hashsalt": "dpkv",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "white",
}


def draw_beliefs() -> Figure:
    """The most that a belief can become after a release, by eps."""
    figure, axes = _canvas(6.4, 3.6)
    before = np.linspace(0.001, 0.999, 400)
    for eps, color in zip((0.1, 0.5, 1, 2, 5), _shades(5), strict=True):
        odds = before / (1 - before) * math.exp(eps)
        axes.plot(before, odds / (1 + odds), color=color, label=f"eps = {eps:g}")
    axes.plot(before, before, color=SOFT, linestyle=":", label="nothing learned")
    axes.set(
        xlabel="belief before the release", ylabel="most that it becomes", xlim=(0, 1), ylim=(0, 1)
    )
    axes.legend(frameon=False, loc="lower right")
    return figure


def draw_rounds() -> Figure:
    """Three rounds of k-variates++ on a small table."""
    points = clinic_patients()[::120]
    box = dpkv.Domain.bounded((-10.0, 10.0), n_features=2)
    run = dpkv.kvariates(points, 3, density=ProductLaplace(scale=0.6), gamma=0.1, domain=box, rng=6)
    figure = Figure(figsize=(9, 3.3), layout="constrained")
    for number, axes in enumerate(figure.subplots(1, 3), start=1):
        earlier = np.asarray(run.centers)[: number - 1]
        if number == 1:
            weights = np.ones(len(points))
        else:
            squares = ((points[:, None, :] - earlier[None, :, :]) ** 2).sum(axis=2).min(axis=1)
            weights = squares + 0.1 * 800.0
        axes.scatter(*points.T, s=16, c=weights, cmap="Blues", vmin=-0.3 * weights.max())
        axes.scatter(*earlier.T, marker="s", s=46, color=INK, zorder=3)
        picked, released = points[run.indices[number - 1]], run.centers[number - 1]
        axes.annotate(
            "", released, picked, arrowprops={"arrowstyle": "->", "color": WARM}, zorder=4
        )
        axes.scatter(
            *picked, marker="o", s=60, facecolor="none", edgecolor=WARM, linewidth=1.6, zorder=4
        )
        axes.scatter(*released, marker="s", s=46, color=WARM, zorder=4)
        axes.set(
            title=f"round {number}",
            xlim=(-10, 10),
            ylim=(-10, 10),
            xticks=[],
            yticks=[],
            aspect="equal",
        )
    return figure


def draw_theorem_a() -> Figure:
    """The noise of Theorem A and of the Laplace mechanism against the number of records."""
    figure, axes = _canvas(6.4, 3.6)
    records = np.unique(np.geomspace(100, 10**7, 40).astype(int))
    for k, color in zip((2, 5, 20), _shades(3), strict=True):
        share = [1 / certify(1.0, n_records=int(m), n_clusters=k).eps_tilde for m in records]
        axes.loglog(records, share, color=color, label=f"Theorem A, k = {k}")
        axes.axhline(k, color=color, linestyle="--", linewidth=1)
    axes.text(
        records[0] * 1.1, 22, "dashed: Laplace mechanism, same k", va="bottom", color="#555555"
    )
    axes.set(xlabel="records", ylabel="noise scale / diameter", ylim=(0.012, 60))
    axes.legend(frameon=False, ncols=3, loc="lower left", fontsize=8.5)
    return figure


def draw_synopsis() -> Figure:
    """The cells of a private synopsis of the bundled table, simulated."""
    made = dpkv.simulate(
        clinic_patients(), k=5, eps=1.0, bounds=(-10, 10), mechanism="synopsis", seed=3
    )
    assert made.synopsis is not None
    cells, grid = made.synopsis.cells, made.synopsis.grid
    leaves = cells.tree.leaves
    steps, origin = np.array(grid.steps), np.array(grid.origin)
    lower = cells.tree.lower[leaves] * steps + origin
    upper = (cells.tree.upper[leaves] + 1) * steps + origin
    sides = upper - lower
    density = np.maximum(cells.counts, 0) / sides.prod(axis=1)
    figure, axes = _canvas(5.2, 4.8)
    boxes = [Rectangle(tuple(low), *side) for low, side in zip(lower, sides, strict=True)]
    shown = PatchCollection(boxes, cmap="Blues", edgecolor="white", linewidth=0.3)
    shown.set_array(np.sqrt(density))
    axes.add_collection(shown)
    axes.scatter(*np.asarray(made.centers).T, marker="s", s=50, color=WARM, edgecolor="white")
    axes.set(xlim=(-10, 10), ylim=(-10, 10), aspect="equal", xlabel="east_km", ylabel="north_km")
    return figure


def _canvas(width: float, height: float) -> tuple[Figure, Any]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def _shades(number: int) -> Iterable[str]:
    return ("#9fa8da", "#7986cb", "#5c6bc0", "#3949ab", "#1a237e")[-number:]


FIGURES: dict[str, Callable[[], Figure]] = {
    "beliefs": draw_beliefs,
    "rounds": draw_rounds,
    "theorem-a": draw_theorem_a,
    "synopsis": draw_synopsis,
}


def main(folder: Path) -> None:
    """Draw all figures."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in FIGURES.items():
        with rc_context(STYLE):
            draw().savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})
        print(f"plot written to {folder.name}/{name}.svg")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
