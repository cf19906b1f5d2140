"""The paper's heat maps over (m, k) on unit balls: k-variates++ against Forgy-DP and GUPT.

Sample and aggregate, which the paper compares with in words, is in the figures beside the maps.

White cells of the published maps are where eps~ of the paper's formula does not exceed eps, so that
the Laplace mechanism does as well. Noise is product-Laplace for the L1 diameter of the cube around
the ball, 2 d, the same for all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dpkv.calibration import certify, uniform_pick_ceiling
from dpkv.domain import Box
from dpkv.paper.datasets.families import ball
from dpkv.paper.published_calibration import published_eps_tilde
from dpkv.paper.randomized_estimates import estimate, random_neighbourhoods
from dpkv.paper.studies.drawing import canvas, finish
from dpkv.paper.studies.mechanism_contest import (
    AGGREGATE,
    CERTIFIED,
    FORGY,
    FREE,
    GUPT,
    RECOMPUTED,
    Arena,
    contest,
    contestants,
    mean_of,
    ratio,
)
from dpkv.paper.studies.runner import rng_of
from dpkv.paper.studies.study import Case, Figures, Finished, Rows, Study, Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DRAWN = (FORGY, GUPT)  # as in the paper
_CONTENDERS = (*_DRAWN, AGGREGATE)
_KINDS = (RECOMPUTED, CERTIFIED)


@dataclass(frozen=True)
class HeatMapSettings:
    """What is run. ``n_est`` is of the random search, which sees the first ``searched`` records."""

    seed: int
    dimensions: tuple[int, ...]
    sizes: tuple[int, ...]
    ks: tuple[int, ...]
    eps: float
    gamma: float
    n_est: int
    searched: int
    runs: int


def cases(settings: HeatMapSettings) -> list[Case]:
    """Return every cell."""
    return [
        Case(f"d = {d}, m = {m}, k = {k}", weight=float(d * m * k) + 1e5)
        for d in settings.dimensions
        for m in settings.sizes
        for k in settings.ks
    ]


@lru_cache(maxsize=1)
def arena_of(settings: HeatMapSettings, n_features: int, n_records: int) -> Arena:
    """Return the ball on the grid of the cube around it."""
    points = ball(n_records, n_features, rng_of(settings.seed, "ball", n_features, n_records))
    domain = Box((-1.0,) * n_features, (1.0,) * n_features, scaled=False)
    return Arena.of(points, domain)


def run(settings: HeatMapSettings, case: Case) -> Figures:
    """Find eps~ of one cell by the paper's formula, and run the contest."""
    d, m, k = (int(part.split(" = ")[1]) for part in case.name.split(", "))
    arena = arena_of(settings, d, m)
    rng = rng_of(settings.seed, case.name)
    published = _estimate_eps_tilde(settings, arena, m, k, rng)
    mechanisms = contestants(arena, settings.eps, k, settings.gamma, {RECOMPUTED: published})
    return {
        "d": d,
        "m": m,
        "k": k,
        "published": published,
        "phi": contest(arena, mechanisms, settings.runs, rng),
    }


def _estimate_eps_tilde(
    settings: HeatMapSettings, arena: Arena, m: int, k: int, rng: np.random.Generator
) -> float | None:
    """Return eps~ by the random search on a sample; the remaining potential grows with m."""
    sample = np.ascontiguousarray(arena.values[: settings.searched])
    found = estimate(sample, random_neighbourhoods(sample, k, settings.n_est, rng))
    spread = found.spread(2.0) * len(sample) / m  # R is the ball's diameter
    return published_eps_tilde(settings.eps, k, spread, found.monotonicity).value


def tabulate(settings: HeatMapSettings, finished: Finished) -> Rows:
    """Return the ratios of every cell."""
    return [_row(settings, found) for found in finished.values()]


def summarise(settings: HeatMapSettings, rows: Rows) -> Summary:
    """Return the rows, and the eps that they are for."""
    return {"eps": settings.eps, "rows": rows}


def _row(settings: HeatMapSettings, found: Figures) -> dict[str, Any]:
    row: dict[str, Any] = {name: found[name] for name in ("d", "m", "k")}
    size = {"n_records": found["m"], "n_clusters": found["k"]}
    row[f"eps_tilde_{RECOMPUTED}"] = found["published"]
    row[f"eps_tilde_{CERTIFIED}"] = certify(settings.eps, **size, gamma=settings.gamma).eps_tilde
    row["eps_tilde_ceiling"] = uniform_pick_ceiling(settings.eps, found["m"])
    worth = found["published"] is not None and found["published"] > settings.eps
    row["published_adds_less_noise"] = worth
    for ours in _KINDS:
        for rival in _CONTENDERS:
            row[f"{rival} over {ours}"] = ratio(found["phi"], rival, ours, FREE)
            row[f"{rival} over {ours}, clamped"] = ratio(found["phi"], rival, ours, "clamped")
    return row


def tell(summary: Summary) -> list[str]:
    """Return what was found, a few sentences for each dimension."""
    sentences = []
    for d in dict.fromkeys(row["d"] for row in summary["rows"]):
        rows = [row for row in summary["rows"] if row["d"] == d]
        most = max(row["m"] for row in rows)
        white = sum(not row["published_adds_less_noise"] for row in rows)
        last = [row["k"] for row in rows if row["m"] == most and row["published_adds_less_noise"]]
        reach = f"up to k = {max(last)}" if last else "for no k"
        sentences.append(
            f"d = {d}: the published eps~ exceeds eps in {len(rows) - white} of {len(rows)} cells, "
            f"at m = {most} {reach}; the certified one in "
            f"{sum(row[f'eps_tilde_{CERTIFIED}'] > summary['eps'] for row in rows)}"
        )
        for rival in _measured(rows):
            values = [row[f"{rival} over {CERTIFIED}"] for row in rows]
            better = sum(value is not None and value > 1.0 for value in values)
            sentences.append(
                f"d = {d}: certified k-variates++ beats {rival} in {better} of {len(rows)} cells, "
                f"with a mean ratio of {mean_of(values) or 0.0:.3g}"
            )
    return sentences


def _measured(rows: Rows) -> list[str]:
    """Return the rivals that a result has: one kept from before may lack the last."""
    return [rival for rival in _CONTENDERS if f"{rival} over {CERTIFIED}" in rows[0]]


def draw(summary: Summary) -> Figure:
    """Draw a map for each rival and dimension, published above certified."""
    dimensions = list(dict.fromkeys(row["d"] for row in summary["rows"]))
    columns = [(rival, d) for rival in _DRAWN for d in dimensions]
    with canvas(2.9 * len(columns), 5.0) as figure:
        panels = figure.subplots(len(_KINDS), len(columns), squeeze=False)
        for line, ours in zip(panels, _KINDS, strict=True):
            for axes, (rival, d) in zip(line, columns, strict=True):
                rows = [row for row in summary["rows"] if row["d"] == d]
                _map(axes, rows, rival, ours)
                label = "published" if ours == RECOMPUTED else ours
                finish(axes, f"{label} vs {rival}, d = {d}", "m", "k")
                axes.grid(visible=False)
    return figure


def _map(axes: Axes, rows: Rows, rival: str, ours: str) -> None:
    """Colour the logarithm of the ratio: red where k-variates++ is better, white where it has no
    advantage in noise.
    """
    sizes, ks = sorted({row["m"] for row in rows}), sorted({row["k"] for row in rows})
    values = np.full((len(ks), len(sizes)), np.nan)
    for row in rows:
        value = row[f"{rival} over {ours}"]
        shown = ours == CERTIFIED or row["published_adds_less_noise"]
        if value is not None and shown:
            values[ks.index(row["k"]), sizes.index(row["m"])] = np.log10(value)
    reach = max(1.0, float(np.nanmax(np.abs(values), initial=0.0)))
    image = axes.imshow(
        values,
        cmap="RdGy_r",
        vmin=-reach,
        vmax=reach,
        aspect="auto",
        origin="lower",
        interpolation="none",
    )
    axes.figure.colorbar(image, ax=axes, label="log10 of the ratio")
    axes.set_xticks(range(len(sizes)), [f"{m:.0e}".replace("e+0", "e") for m in sizes], fontsize=7)
    axes.set_yticks(range(len(ks)), [str(k) for k in ks])


STUDY = Study("heat-maps", HeatMapSettings, cases, run, tabulate, summarise, draw, tell)
