"""The plots of a report: from the audit's figures alone, never from records."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpkv.audits.report.axes import is_positive, scale, tick
from dpkv.audits.report.groups import center_keys, centers_figure, curve_figure, curve_keys
from dpkv.audits.report.histograms import CLAIM, RELEASE, SIMULATED, histograms
from dpkv.audits.report.legend import Key
from dpkv.audits.report.svg import COLORS, NARROW, WIDE, canvas, inline_svg
from dpkv.audits.report.utility import by_eps, names_of
from dpkv.audits.results import Audit, CalibrationRow, DataLoss, UtilityRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKERS = "os^Dvp<>hX*P"
_SERIES = ("green", "orange", "grey", "blue", "gold", "purple", "pink", "teal", "brown")
_FEW_PANELS = 5

Drawer = Callable[[float], "Figure"]
"""Draws for a page of that width, in inches."""


@dataclass(frozen=True)
class Plot:
    """A plot as SVG for a wide and for a narrow page, and what its markers mean."""

    wide: str
    narrow: str
    keys: tuple[Key, ...]


def draw(name: str, audit: Audit, alt: str) -> Plot:
    """Return the plot of that name."""
    drawer, keys = _drawer_of(name, audit)
    wide = inline_svg(drawer(WIDE), f"{name}-wide", alt)
    narrow = inline_svg(drawer(NARROW), f"{name}-narrow", alt)
    return Plot(wide, narrow, tuple(keys))


def _drawer_of(name: str, audit: Audit) -> tuple[Drawer, list[Key]]:
    if name == "noise":
        return lambda width: noise_figure(audit.calibration, width), _noise_keys(audit.calibration)
    if name == "losses":
        return lambda width: loss_figure(audit.data_losses, width), _loss_keys(audit.data_losses)
    if name == "centers":
        return lambda width: centers_figure(audit.subject, width), center_keys(audit.subject)
    if name == "curve":
        return lambda width: curve_figure(audit.subject, width), curve_keys()
    rows = by_eps(audit.utility)[int(name.removeprefix("ratios-")) - 1][1]
    return lambda width: ratio_figure(rows, width), ratio_keys(rows)


_NOISE = (
    (Key("Laplace mechanism, sigma_2", "grey", "s"), "laplace"),
    (Key("certified", "green", "o"), "certified"),
    (Key("published, sigma_1", "orange", "^"), "published"),
)


def _noise_keys(rows: Sequence[CalibrationRow]) -> list[Key]:
    return [key for key, field in _NOISE if any(is_positive(getattr(row, field)) for row in rows)]


def noise_figure(rows: Sequence[CalibrationRow], width: float) -> Figure:
    """Draw the published, the certified and the Laplace noise against k."""
    with canvas(width, 3.3) as figure:
        axes = figure.add_subplot()
        drawn: list[float] = []
        for key, field in _NOISE:
            shown = [row for row in rows if is_positive(getattr(row, field))]
            values = [float(getattr(row, field)) for row in shown]
            axes.plot([row.k for row in shown], values, key.marker + "-", color=COLORS[key.color])
            drawn += values
        scale(axes, drawn)
        axes.set_xticks([row.k for row in rows])
        axes.set_xlabel("number of centres k")
        axes.set_ylabel("noise (standard deviation)")
        axes.grid(visible=True)
    return figure


def _loss_keys(losses: Sequence[DataLoss]) -> list[Key]:
    released = any(row.release_loss is not None for row in losses)
    return [SIMULATED, CLAIM, *([RELEASE] if released else [])]


def loss_figure(losses: Sequence[DataLoss], width: float) -> Figure:
    """Draw the losses of simulated releases, a histogram for each mechanism and k."""
    shown = [row for row in losses if row.simulated_losses or row.release_loss is not None]
    with canvas(width, 0.7 + (0.6 if len(shown) <= _FEW_PANELS else 0.45) * len(shown)) as figure:
        panels = figure.subplots(max(len(shown), 1), 1, sharex=True, squeeze=False)[:, 0]
        histograms(list(panels), shown)
        panels[-1].xaxis.set_major_formatter(tick)
        panels[-1].tick_params(axis="x", length=3.5)
        panels[-1].set_xlabel("privacy loss")
    return figure


def ratio_keys(rows: Sequence[UtilityRow]) -> list[Key]:
    """Return a marker for each way to find centres; hollow where it has no privacy."""
    private = {row.name: row.private for row in rows}
    return [
        Key(
            name,
            _SERIES[place % len(_SERIES)],
            _MARKERS[place % len(_MARKERS)],
            hollow=not private[name],
        )
        for place, name in enumerate(names_of(rows))
    ]


def ratio_figure(rows: Sequence[UtilityRow], width: float) -> Figure:
    """Draw potential ratios with their intervals over k, a marker for each way to find centres."""
    keys, ks = ratio_keys(rows), sorted({row.k for row in rows})
    with canvas(width, 3.8) as figure:
        axes = figure.add_subplot()
        for place, key in enumerate(keys):
            shift = 0.76 * ((place + 0.5) / len(keys) - 0.5)
            own = [row for row in rows if row.name == key.label and is_positive(row.ratio)]
            _ratios(axes, own, [ks.index(row.k) + shift for row in own], key)
        axes.axhline(1.0, color=COLORS["ink"], linewidth=0.9, linestyle=(0, (4, 3)))
        for between in range(1, len(ks)):
            axes.axvline(between - 0.5, color=COLORS["soft"], linewidth=0.8)
        scale(axes, [1.0, *(row.ratio for row in rows if row.ratio and is_positive(row.ratio))])
        axes.set_xticks(range(len(ks)), [str(k) for k in ks])
        axes.set_xlim(-0.5, len(ks) - 0.5)
        axes.tick_params(axis="x", length=0)
        axes.set_xlabel("number of centres k")
        axes.set_ylabel("potential ratio")
        axes.grid(visible=True, axis="y")
    return figure


def _ratios(axes: Axes, rows: Sequence[UtilityRow], places: list[float], key: Key) -> None:
    if not rows:
        return
    axes.errorbar(
        places,
        [row.ratio or 0.0 for row in rows],
        yerr=np.asarray([_reach(row) for row in rows]).T,
        linestyle="",
        marker=key.marker,
        markersize=4.6,
        color=COLORS[key.color],
        markerfacecolor=COLORS["paper" if key.hollow else key.color],
        elinewidth=1.1,
    )


def _reach(row: UtilityRow) -> tuple[float, float]:
    """Return how far the interval goes below and above; a log axis ends before zero."""
    value = row.ratio or 0.0
    if row.ratio_interval is None or not all(map(math.isfinite, row.ratio_interval)):
        return 0.0, 0.0
    low, high = row.ratio_interval
    return min(max(value - low, 0.0), 0.999 * value), max(high - value, 0.0)
