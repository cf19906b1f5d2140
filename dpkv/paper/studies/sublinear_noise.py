"""Sublinear noise: eps~ against m (Tables 4 to 6 (eps~) and 7 (spread, monotonicity)).

Clusters that are uniform in random boxes join a table one by one. At chosen sizes m the spread and
the monotonicity are estimated by the paper's random search, and eps~ follows from its formula
for several eps. Fitted are eps~ = a + b log m, and where m is at least
``constant_from``, spread = a / m and a constant monotonicity. The certified eps~ of Theorem A,
which needs no data, and the ceiling that no calibration can exceed are on the same axes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dpkv.calibration import certify, uniform_pick_ceiling
from dpkv.paper.datasets.families import hyperrectangles
from dpkv.paper.enclosing_ball import enclosing_radius
from dpkv.paper.published_calibration import published_eps_tilde
from dpkv.paper.randomized_estimates import estimate, random_neighbourhoods
from dpkv.paper.studies.drawing import COLORS, canvas, finish
from dpkv.paper.studies.runner import rng_of
from dpkv.paper.studies.study import Case, Figures, Finished, Rows, Study, Summary
from dpkv.types import Float64s

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FEWEST = 3  # points that a fit of two numbers can be judged by


@dataclass(frozen=True)
class SublinearNoiseSettings:
    """What is run. ``shapes`` are pairs (d, k); ``sizes`` the m at which figures are taken."""

    seed: int
    shapes: tuple[tuple[int, int], ...]
    epsilons: tuple[float, ...]
    sizes: tuple[int, ...]
    n_est: int
    largest_cluster: int
    longest_edge: float
    gamma: float
    constant_from: int


def cases(settings: SublinearNoiseSettings) -> list[Case]:
    """Return every shape at every size."""
    return [
        Case(f"d = {d}, k = {k}, m = {m}", weight=float(d * k * m))
        for d, k in settings.shapes
        for m in settings.sizes
    ]


@lru_cache(maxsize=1)
def table_of(settings: SublinearNoiseSettings, n_features: int) -> Float64s:
    """Return the largest table; a smaller one is the beginning of it, as clusters joined it."""
    return hyperrectangles(
        max(settings.sizes),
        n_features,
        rng_of(settings.seed, "table", n_features),
        largest_cluster=settings.largest_cluster,
        longest_edge=settings.longest_edge,
    ).points


def run(settings: SublinearNoiseSettings, case: Case) -> Figures:
    """Estimate spread and monotonicity at one size."""
    d, k, m = (int(part.split(" = ")[1]) for part in case.name.split(", "))
    points = np.ascontiguousarray(table_of(settings, d)[:m])
    rng = rng_of(settings.seed, case.name)
    found = estimate(points, random_neighbourhoods(points, k, settings.n_est, rng))
    diameter = 2.0 * enclosing_radius(points)
    return {
        "d": d,
        "k": k,
        "m": m,
        "diameter": diameter,
        "spread": found.spread(diameter),
        "monotonicity": found.monotonicity,
    }


def tabulate(settings: SublinearNoiseSettings, finished: Finished) -> Rows:
    """Return eps~ of every case and eps."""
    return [row for found in finished.values() for row in _rows(settings, found)]


def summarise(settings: SublinearNoiseSettings, rows: Rows) -> Summary:
    """Return the rows, and the fits of every shape."""
    fits = [
        _shape_fit(settings, [row for row in rows if (row["d"], row["k"]) == shape], shape)
        for shape in settings.shapes
    ]
    return {"fits": fits, "rows": rows}


def _rows(settings: SublinearNoiseSettings, found: Figures) -> Rows:
    rows = []
    for eps in settings.epsilons:
        k, m, width, fall = found["k"], found["m"], found["spread"], found["monotonicity"]
        row = {"d": found["d"], "k": k, "eps": eps, "m": m, "spread": width, "monotonicity": fall}
        row["published"] = published_eps_tilde(eps, k, width, fall).value
        row["published_radius"] = published_eps_tilde(eps, k, width / 4.0, fall).value
        row["certified"] = certify(eps, n_records=m, n_clusters=k, gamma=settings.gamma).eps_tilde
        row["ceiling"] = uniform_pick_ceiling(eps, m)
        rows.append(row)
    return rows


def _shape_fit(
    settings: SublinearNoiseSettings, rows: Rows, shape: tuple[int, int]
) -> dict[str, Any]:
    own = [row for row in rows if row["eps"] == settings.epsilons[0]]
    m = np.array([found["m"] for found in own], np.float64)
    spread = np.array([found["spread"] for found in own])
    fall = np.array([found["monotonicity"] for found in own])
    large = m >= settings.constant_from
    return {
        "d": shape[0],
        "k": shape[1],
        "spread_times_m": _inverse_fit(m[large], spread[large]) if large.sum() > 1 else None,
        "monotonicity": float(fall[large].mean()) if large.any() else None,
        "monotonicity_least": float(fall[large].min()) if large.any() else None,
        "monotonicity_most": float(fall[large].max()) if large.any() else None,
        "eps_tilde": [
            _eps_fit([row for row in rows if row["eps"] == eps], settings.constant_from)
            for eps in settings.epsilons
        ],
    }


def _inverse_fit(m: Float64s, spread: Float64s) -> dict[str, float]:
    """Fit spread = a / m by least squares on logarithms, where each point has the same say."""
    a = float(np.exp(np.mean(np.log(spread * m))))
    slope = float(np.polyfit(np.log(m), np.log(spread), 1)[0])
    return {"a": a, "slope_of_logarithms": slope}


def _eps_fit(rows: Rows, large_from: int) -> dict[str, Any]:
    """Fit eps~ = a + b log m where eps~ is defined, and say from which m it is worth having.

    Once there are more clusters than centres the spread falls as 1 / m and b should be 1; before,
    eps~ climbs faster. So the fit is made for all m and again for large m alone.
    """
    eps, k = rows[0]["eps"], rows[0]["k"]
    defined = [row for row in rows if row["published"] is not None]
    return {
        "eps": eps,
        "all": _line_fit(defined),
        "large": _line_fit([row for row in defined if row["m"] >= large_from]),
        "first_m_above_laplace": _first(defined, "published", eps / k),
        "first_m_above_eps": _first(defined, "published", eps),
        "certified_first_m_above_eps": _first(rows, "certified", eps),
        **{name: rows[-1][name] for name in ("m", "published", "certified", "ceiling")},
    }


def _line_fit(rows: Rows) -> dict[str, float] | None:
    if len(rows) < _FEWEST:
        return None
    x = np.log([row["m"] for row in rows])
    y = np.array([row["published"] for row in rows])
    b, a = np.polyfit(x, y, 1)
    rest = float(((y - a - b * x) ** 2).sum() / ((y - y.mean()) ** 2).sum())
    return {"a": float(a), "b": float(b), "r_squared": 1.0 - rest}


def _first(rows: Rows, column: str, above: float) -> int | None:
    return next((row["m"] for row in rows if row[column] > above), None)


def tell(summary: Summary) -> list[str]:
    """Return what was found, a sentence each."""
    sentences = []
    for fit in summary["fits"]:
        where = f"d = {fit['d']}, k = {fit['k']}"
        sentences.append(f"{where}: {_constants(fit)}")
        for one in fit["eps_tilde"]:
            sentences.append(f"{where}, eps = {one['eps']:g}: {_about_eps(one)}")
    return sentences


def _constants(fit: dict[str, Any]) -> str:
    width = fit["spread_times_m"]
    if width is None:
        return "m is too small for spread and monotonicity to settle"
    return (
        f"for large m the spread is {width['a']:.3g} / m (exponent "
        f"{width['slope_of_logarithms']:.2f}, the paper's is -1), the monotonicity "
        f"{fit['monotonicity']:.2f} on average, between {fit['monotonicity_least']:.2f} and "
        f"{fit['monotonicity_most']:.2f}"
    )


def _about_eps(one: dict[str, Any]) -> str:
    if one["all"] is None:
        return "the published eps~ is undefined nearly everywhere"
    fits = [f"{_line(one['all'])} over all m"]
    if one["large"] is not None:
        fits.append(f"{_line(one['large'])} for large m")
    published = "undefined" if one["published"] is None else f"{one['published']:.2f}"
    first = one["first_m_above_laplace"]
    worth = "never" if first is None else f"from m = {first} on"
    return (
        f"published eps~ is {', '.join(fits)}, worth having {worth}; at m = {one['m']} it is "
        f"{published}, the certified one {one['certified']:.2f}, the ceiling {one['ceiling']:.2f}"
    )


def _line(fit: dict[str, float]) -> str:
    return f"{fit['a']:.2f} + {fit['b']:.2f} log m (R^2 = {fit['r_squared']:.2f})"


def draw(summary: Summary) -> Figure:
    """Draw a row for each shape: eps~ for every eps, then spread and monotonicity."""
    fits = summary["fits"]
    epsilons = [one["eps"] for one in fits[0]["eps_tilde"]]
    with canvas(2.6 * (len(epsilons) + 2), 2.5 * len(fits)) as figure:
        panels = figure.subplots(len(fits), len(epsilons) + 2, squeeze=False)
        for line, fit in zip(panels, fits, strict=True):
            rows = [r for r in summary["rows"] if (r["d"], r["k"]) == (fit["d"], fit["k"])]
            for axes, eps in zip(line, epsilons, strict=False):
                _eps_panel(axes, [row for row in rows if row["eps"] == eps], fit)
            own = [row for row in rows if row["eps"] == epsilons[0]]
            _delta_panels(line[-2], line[-1], own, fit)
        handles, labels = panels[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4)
    return figure


def _eps_panel(axes: Axes, rows: Rows, fit: dict[str, Any]) -> None:
    eps = rows[0]["eps"]
    m = np.array([row["m"] for row in rows], np.float64)
    shown = [row for row in rows if row["published"] is not None]
    x, y = [row["m"] for row in shown], [row["published"] for row in shown]
    axes.plot(x, y, "o", markersize=3, color=COLORS["orange"], label="published, by the data")
    line = next(one for one in fit["eps_tilde"] if one["eps"] == eps)
    if line["all"] is not None:
        fitted = line["all"]["a"] + line["all"]["b"] * np.log(m)
        axes.plot(m, fitted, color=COLORS["orange"], label="a + b log m")
    for name, color, style in (("certified", "green", "-"), ("ceiling", "grey", "--")):
        axes.plot(m, [row[name] for row in rows], style, color=COLORS[color], label=name)
    axes.axhline(eps, color=COLORS["ink"], linewidth=0.8, linestyle=":", label="eps")
    finish(axes, f"d = {fit['d']}, k = {fit['k']}, eps = {eps:g}", "m", "eps~")


def _delta_panels(left: Axes, right: Axes, rows: Rows, fit: dict[str, Any]) -> None:
    m = np.array([row["m"] for row in rows], np.float64)
    left.loglog(m, [row["spread"] for row in rows], "o", markersize=3, color=COLORS["blue"])
    if fit["spread_times_m"] is not None:
        left.loglog(m, fit["spread_times_m"]["a"] / m, color=COLORS["blue"])
    finish(left, "spread and a / m", "m")
    right.plot(m, [row["monotonicity"] for row in rows], "o", markersize=3, color=COLORS["purple"])
    if fit["monotonicity"] is not None:
        right.axhline(fit["monotonicity"], color=COLORS["purple"])
    finish(right, "monotonicity and a constant", "m")
    right.set_ylim(bottom=0.0)


STUDY = Study(
    "sublinear-noise", SublinearNoiseSettings, cases, run, tabulate, summarise, draw, tell
)
