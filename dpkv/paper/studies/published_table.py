"""Table 10 (results) and its averages, Table 2: k-variates++ against Forgy-DP and GUPT at eps = 1.

For every table and k: eps~ as printed, as the paper's formula gives it (random search, R the
diameter or the radius; and with spread and monotonicity bounded from the safe side), as certified
by Theorem A, and the ceiling log(1 + m (e^eps - 1)) that every calibration has to respect. Then the
potentials over those of k-variates++ at the printed, the recomputed and the certified noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from dpkv.calibration import calibrate, certify, uniform_pick_ceiling
from dpkv.domain import Box, data_domain
from dpkv.paper.datasets.clinic import clinic_patients
from dpkv.paper.datasets.recipes import load_paper_table
from dpkv.paper.enclosing_ball import enclosing_radius
from dpkv.paper.printed_figures import PRINTED_AT_EPS_ONE
from dpkv.paper.published_calibration import published_eps_tilde
from dpkv.paper.randomized_estimates import estimate, random_neighbourhoods
from dpkv.paper.studies.drawing import COLORS, canvas, finish
from dpkv.paper.studies.mechanism_contest import (
    CERTIFIED,
    CLAMPED,
    FORGY,
    FREE,
    GUPT,
    PRINTED,
    RECOMPUTED,
    RIVALS,
    Arena,
    contest,
    contestants,
    mean_of,
    ratio,
)
from dpkv.paper.studies.runner import rng_of
from dpkv.paper.studies.study import Case, Figures, Finished, Rows, Study, Summary
from dpkv.types import Float64s

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAPERS_NAMES = {"lifesci": "LifeSci", "house_rgb_unique": "Image", "europediff": "EuropeDiff"}
CONTROL = "clinic_patients"
PRINTED_RATIOS: dict[str, dict[int, tuple[float, float]]] = {
    "LifeSci": {2: (311, 1.6), 3: (172, 0.4), 4: (6, 0.02)},
    "Image": {2: (300, 4.8), 3: (77, 0.9)},
    "EuropeDiff": {
        2: (1200, 46.1),
        3: (3120, 66.5),
        4: (3750, 55.0),
        5: (4000, 51.0),
        6: (5000, 36.0),
        7: (2600, 26.0),
        8: (350, 2.0),
    },
}
"""rho'_phi of Forgy-DP and of GUPT, as Table 10 (results) prints them."""
PRINTED_EPS_TILDE = dict(PRINTED_AT_EPS_ONE.values())
_EPS = 1.0  # of the printed table
_LEAST_SHOWN = -8.0
_AGREES = 1.0  # in eps~: what the random search and the choice of R may make of it


@dataclass(frozen=True)
class PublishedTableSettings:
    """What is run; ``bounded`` also bounds spread and monotonicity from the safe side."""

    seed: int
    tables: tuple[str, ...]
    control_ks: tuple[int, ...]
    eps: float
    gamma: float
    bounded: bool
    n_est: int
    runs: int


def ks_of(settings: PublishedTableSettings, table: str) -> tuple[int, ...]:
    """Return the k that the paper prints for a table."""
    name = PAPERS_NAMES.get(table)
    return settings.control_ks if name is None else tuple(PRINTED_RATIOS[name])


def cases(settings: PublishedTableSettings) -> list[Case]:
    """Return the calibration of every table, then every k."""
    return [
        case
        for table in settings.tables
        for case in (
            Case(f"{table}, calibration", weight=10.0),
            *(Case(f"{table}, k = {k}") for k in ks_of(settings, table)),
        )
    ]


@lru_cache(maxsize=1)
def arena_of(table: str) -> tuple[Arena, Float64s, Box] | None:
    """Return a table on its grid; bounds are the data's own, as in the paper."""
    values = clinic_patients() if table == CONTROL else load_paper_table(table)
    if values is None:
        return None
    domain = data_domain(values, scaled=False)
    return Arena.of(values, domain), values, domain


def run(settings: PublishedTableSettings, case: Case) -> Figures:
    """Calibrate a table for all k, or run the contest for one."""
    table, part = case.name.split(", ")
    prepared = arena_of(table)
    if prepared is None:
        return {"missing": True}
    arena, values, domain = prepared
    if part == "calibration":
        return _calibration(settings, table, values, domain)
    k = int(part.removeprefix("k = "))
    rng = rng_of(settings.seed, case.name)
    eps_tildes = {PRINTED: _printed_eps(table, k), RECOMPUTED: _recompute(settings, table, k)}
    mechanisms = contestants(arena, settings.eps, k, settings.gamma, eps_tildes)
    return {"phi": contest(arena, mechanisms, settings.runs, rng)}


def _printed_eps(table: str, k: int) -> float | None:
    name = PAPERS_NAMES.get(table)
    return None if name is None else PRINTED_EPS_TILDE[name].get(k)


@lru_cache(maxsize=16)
def search(settings: PublishedTableSettings, table: str, k: int) -> tuple[float, float]:
    """Return spread, R being the diameter, and monotonicity by the paper's random search."""
    prepared = arena_of(table)
    assert prepared is not None
    values = prepared[1]
    rng = rng_of(settings.seed, table, "random search", k)
    found = estimate(values, random_neighbourhoods(values, k, settings.n_est, rng))
    return found.spread(_diameter(table)), found.monotonicity


@lru_cache(maxsize=1)
def _diameter(table: str) -> float:
    prepared = arena_of(table)
    assert prepared is not None
    return 2.0 * enclosing_radius(prepared[1])


def _recompute(settings: PublishedTableSettings, table: str, k: int) -> float | None:
    return published_eps_tilde(settings.eps, k, *search(settings, table, k)).value


def _calibration(
    settings: PublishedTableSettings, table: str, values: Float64s, domain: Box
) -> Figures:
    ks, eps = ks_of(settings, table), settings.eps
    found: Figures = {"records": len(values), "columns": values.shape[1], "by_k": {}}
    for k in ks:
        spread, fall = search(settings, table, k)
        size = {"n_records": len(values), "n_clusters": k}
        found["by_k"][str(k)] = {
            "diameter": published_eps_tilde(eps, k, spread, fall).value,
            "radius": published_eps_tilde(eps, k, spread / 4.0, fall).value,  # R is squared
            "bounded": None,
            CERTIFIED: certify(eps, **size, gamma=settings.gamma).eps_tilde,
        }
        printed = _printed_eps(table, k)
        if printed is not None:
            loss = first_round_loss(values, domain, printed)
            found["by_k"][str(k)]["first_round_loss"] = loss
    if settings.bounded:
        rng = rng_of(settings.seed, table, "calibration")
        record = calibrate(values, eps=eps, k=ks, domain=domain, n_est=1, rng=rng)
        for row in record.rows:
            found["by_k"][str(row.k)]["bounded"] = row.published.eps_tilde
    return found


def first_round_loss(values: Float64s, domain: Box, eps_tilde: float) -> float:
    """Return a privacy loss that round 1 has on *this* table with product-Laplace noise of eps~.

    The record that weighs least at a corner of the box is replaced by one in that corner, and the
    corner is released: log of (sum - least + 1) over the sum of exp(-|corner - a|_1 eps~ / diam1).
    The largest over all corners is a lower bound on the loss of a whole release.
    """
    losses = []
    for corner in product(*zip(domain.lower, domain.upper, strict=True)):
        shares = np.exp(-np.abs(values - corner).sum(axis=1) * (eps_tilde / domain.diam1))
        losses.append(math.log1p((1.0 - shares.min()) / shares.sum()))
    return max(losses)


def tabulate(settings: PublishedTableSettings, finished: Finished) -> Rows:
    """Return a row for every table and k."""
    given = [t for t in settings.tables if "missing" not in finished[f"{t}, calibration"]]
    return [
        _row(settings, table, k, finished[f"{table}, calibration"], finished[f"{table}, k = {k}"])
        for table in given
        for k in ks_of(settings, table)
    ]


def summarise(settings: PublishedTableSettings, rows: Rows) -> Summary:
    """Return the rows, and the averages of Table 2 (averages)."""
    given = dict.fromkeys(row["table"] for row in rows)
    averages = [_averages(table, [r for r in rows if r["table"] == table]) for table in given]
    missing = [table for table in settings.tables if table not in given]
    return {"averages": averages, "missing": missing, "rows": rows}


def _row(
    settings: PublishedTableSettings, table: str, k: int, calibration: Figures, contested: Figures
) -> dict[str, Any]:
    m, by_k, phi = calibration["records"], calibration["by_k"][str(k)], contested["phi"]
    name = PAPERS_NAMES.get(table, "")
    printed = PRINTED_RATIOS.get(name, {}).get(k, (None, None))
    row: dict[str, Any] = {"table": table, "m": m, "d": calibration["columns"], "k": k}
    row |= {"eps_tilde_printed": _printed_eps(table, k), "eps_tilde_diameter": by_k["diameter"]}
    row |= {"eps_tilde_radius": by_k["radius"], "eps_tilde_bounded": by_k["bounded"]}
    row |= {"eps_tilde_certified": by_k[CERTIFIED]}
    row["eps_tilde_ceiling"] = uniform_pick_ceiling(settings.eps, m)
    row["first_round_loss_printed"] = by_k.get("first_round_loss")
    row |= {"rho_forgy_printed": printed[0], "rho_gupt_printed": printed[1]}
    for how in (FREE, CLAMPED):
        for ours in (PRINTED, RECOMPUTED, CERTIFIED):
            for rival in RIVALS:
                row[f"{how}: {rival} over {ours}"] = ratio(phi, rival, ours, how)
    row["why"] = reason(row)
    return row


def reason(row: dict[str, Any]) -> str:
    """Return why a printed eps~ holds, differs or cannot hold."""
    printed, ceiling = row["eps_tilde_printed"], row["eps_tilde_ceiling"]
    if printed is None:
        return "not in the paper"
    low, high = row["eps_tilde_diameter"], row["eps_tilde_radius"]
    if printed > ceiling:
        return (
            f"no guarantee over all tables of this size: {printed} is above the ceiling "
            f"{ceiling:.1f} that one uniform pick sets"
        )
    if low is None or high is None:
        return "the formula is undefined on these data"
    if low - _AGREES <= printed <= high + _AGREES:
        return "the formula gives it, between R the diameter and R the radius"
    side = "above" if printed > high else "below"
    return f"{side} what the formula gives ({low:.1f} to {high:.1f}), though below the ceiling"


def _averages(table: str, rows: Rows) -> dict[str, Any]:
    columns = [name for name in rows[0] if name not in ("table", "m", "d", "why")]
    return {"table": table} | {name: mean_of([row[name] for row in rows]) for name in columns}


def tell(summary: Summary) -> list[str]:
    """Return what was found, a sentence for each table and k."""
    sentences = []
    for row in summary["rows"]:
        sentences.append(
            f"{row['table']}, k = {row['k']}: eps~ printed {_shown(row['eps_tilde_printed'])}, by "
            f"the formula {_shown(row['eps_tilde_diameter'])} (diameter) to "
            f"{_shown(row['eps_tilde_radius'])} (radius), certified "
            f"{_shown(row['eps_tilde_certified'])}, ceiling {_shown(row['eps_tilde_ceiling'])}: "
            f"{row['why']}{_on_this_table(row)}"
        )
    for row in summary["averages"]:
        free, clamped = (_of_rivals(row, how, CERTIFIED) for how in (FREE, CLAMPED))
        printed = f"{_shown(row['rho_forgy_printed'])} and {_shown(row['rho_gupt_printed'])}"
        *names, last = (RIVALS[rival] for rival in _measured(row))
        sentences.append(
            f"{row['table']}, averages: potentials of Forgy-DP and GUPT over k-variates++ are "
            f"printed as {printed}; of {', '.join(names)} and {last} "
            f"we find {_of_rivals(row, FREE, PRINTED)} at the printed eps~, {free} certified, and "
            f"{clamped} certified where centres are clamped to the domain"
        )
    if summary["missing"]:
        sentences.append("not given, left out: " + ", ".join(summary["missing"]))
    return sentences


def _on_this_table(row: dict[str, Any]) -> str:
    """Say where round 1 alone, on the table itself, loses more than the whole release may."""
    loss = row["first_round_loss_printed"]
    return "" if loss is None or loss <= _EPS else f"; round 1 alone loses {loss:.2f} on this table"


def _measured(row: dict[str, Any]) -> list[str]:
    """Return the rivals that a result has: one kept from before may lack the last."""
    return [rival for rival in RIVALS if f"{FREE}: {rival} over {CERTIFIED}" in row]


def _of_rivals(row: dict[str, Any], how: str, ours: str) -> str:
    return " / ".join(_shown(row[f"{how}: {rival} over {ours}"]) for rival in _measured(row))


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def draw(summary: Summary) -> Figure:
    """Draw eps~ against k for every table, and the ratios at the printed and certified noise."""
    tables = list(dict.fromkeys(row["table"] for row in summary["rows"]))
    with canvas(9.0, 1.0 + 2.3 * max(1, len(tables))) as figure:
        panels = figure.subplots(max(1, len(tables)), 3, squeeze=False)
        for line, table in zip(panels, tables, strict=False):
            rows = [row for row in summary["rows"] if row["table"] == table]
            _eps_panel(line[0], rows, table)
            for axes, rival in zip(line[1:], (FORGY, GUPT), strict=True):
                _ratio_panel(axes, rows, rival)
        keys = {label: line for axes in panels.flat for label, line in _labelled_artists(axes)}
        figure.legend(list(keys.values()), list(keys), loc="outside lower center", ncols=3)
    return figure


def _labelled_artists(axes: Axes) -> list[tuple[str, Artist]]:
    handles, labels = axes.get_legend_handles_labels()
    return list(zip(labels, handles, strict=True))


_EPS_LINES = (
    ("eps_tilde_radius", "eps~ by the formula, R the radius", "blue", "^"),
    ("eps_tilde_diameter", "eps~ by the formula, R the diameter", "gold", "v"),
    ("eps_tilde_certified", "eps~ certified", "green", "s"),
)
_RATIO_LINES = (
    ("{free}: {rival} over {printed}", "ratio at the printed eps~", "orange", "-"),
    ("{free}: {rival}-third over {printed}", "the same, GUPT with a third of eps", "purple", "-"),
    ("{free}: {rival} over {certified}", "ratio at the certified eps~", "green", "-"),
    ("{clamped}: {rival} over {certified}", "the same, centres clamped", "green", ":"),
)


def _eps_panel(axes: Axes, rows: Rows, table: str) -> None:
    _line(axes, rows, "eps_tilde_printed", "as printed", "claim", "X")
    for column, label, color, marker in _EPS_LINES:
        _line(axes, rows, column, label, color, marker)
    ceiling = rows[0]["eps_tilde_ceiling"]
    axes.axhline(ceiling, color=COLORS["grey"], linestyle="--", label="ceiling of eps~")
    finish(axes, f"{table}: eps~", "k")
    axes.set_xticks([row["k"] for row in rows])
    axes.set_ylim(bottom=max(_LEAST_SHOWN, axes.get_ylim()[0]))


def _ratio_panel(axes: Axes, rows: Rows, rival: str) -> None:
    names = {"free": FREE, "clamped": CLAMPED, "printed": PRINTED, "certified": CERTIFIED}
    _line(axes, rows, f"rho_{rival.partition('-')[0]}_printed", "as printed", "claim", "X")
    for template, label, color, style in _RATIO_LINES:
        column = template.format(rival=rival, **names)
        if column in rows[0]:  # only GUPT has a third
            _line(axes, rows, column, label, color, "o", style)
    axes.axhline(1.0, color=COLORS["ink"], linewidth=0.8)
    axes.set_yscale("log")
    finish(axes, f"potential of {rival} over k-variates++", "k")
    axes.set_xticks([row["k"] for row in rows])


def _line(
    axes: Axes,
    rows: Rows,
    column: str,
    label: str,
    color: str,
    marker: str,
    style: str = "-",
) -> None:
    there = [(row["k"], row[column]) for row in rows if row[column] is not None]
    if there:
        x, y = np.array(there, np.float64).T
        axes.plot(
            x, y, marker=marker, linestyle=style, markersize=4, color=COLORS[color], label=label
        )


STUDY = Study(
    "published-table", PublishedTableSettings, cases, run, tabulate, summarise, draw, tell
)
