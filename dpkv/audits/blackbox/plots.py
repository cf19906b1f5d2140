"""The plot of a black-box audit: what was shown, beside what is claimed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpkv.audits.blackbox.results import BlackBoxAudit
from dpkv.audits.report.svg import COLORS, STYLE, inline_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIZE = (7.4, 3.4)
_NOTHING = 1e-9


def curves_svg(audit: BlackBoxAudit) -> str:
    """Return the trade-off curve and the (eps, delta) curve as SVG."""
    alt = (
        f"Left: trade-off of errors, shown and claimed ({audit.claim}). Right: lower bound on "
        f"delta at every eps, beside the claim. {audit.headline}."
    )
    return inline_svg(curves_figure(audit), "curves", alt)


def curves_figure(audit: BlackBoxAudit) -> Figure:
    """Draw the trade-off curve and the (eps, delta) curve."""
    from matplotlib import rc_context  # noqa: PLC0415 (slow to import)
    from matplotlib.figure import Figure  # noqa: PLC0415

    with rc_context(STYLE):
        figure = Figure(figsize=_SIZE, layout="constrained")
        left, right = figure.subplots(1, 2)
        _draw_trade_off(left, audit)
        _draw_deltas(right, audit)
    return figure


def _draw_trade_off(axes: Axes, audit: BlackBoxAudit) -> None:
    claim = audit.claimed_region
    q = np.linspace(0.0, 1.0, 401)
    allowed = claim.trade_off(q)
    axes.fill_between(q, allowed, 1.0, color=COLORS["soft"], alpha=0.5, linewidth=0)
    axes.plot(q, allowed, color=COLORS["claim"], label="claimed: no test may lie below")
    lower = sorted((event.other[0], 1.0 - event.likelier[1]) for event in audit.events)
    points = [(0.0, 1.0), *lower, (1.0, 0.0)]
    grid = np.linspace(0.0, 1.0, 401)
    upper = np.interp(grid, audit.trade_off.x, audit.trade_off.y)
    best = np.minimum.accumulate([miss for _, miss in points])
    beneath = np.minimum(upper, np.interp(grid, [at for at, _ in points], best))
    axes.fill_between(grid, beneath, upper, color=COLORS["blue"], alpha=0.25, linewidth=0)
    axes.plot(grid, upper, color=COLORS["blue"], label="shown: upper bound of the curve")
    for event in audit.events:
        share = event.hits[1] / event.runs[1], 1.0 - event.hits[0] / event.runs[0]
        axes.plot(*share, ".", color=COLORS["blue"])
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="event on the other table", ylabel="missed")
    axes.set_title("trade-off of errors", loc="left")
    axes.legend(fontsize=7, loc="upper right")


def _draw_deltas(axes: Axes, audit: BlackBoxAudit) -> None:
    claim = audit.claimed_region
    eps = np.asarray(audit.deltas.x)
    shown, allowed = np.asarray(audit.deltas.y), claim.delta_at(eps)
    axes.plot(eps, np.maximum(allowed, 0.0), color=COLORS["claim"], label="claimed")
    axes.plot(eps, np.where(shown > _NOTHING, shown, np.nan), color=COLORS["blue"],
              label="shown: at least this")  # fmt: skip
    axes.set(xlim=(0, float(eps[-1])), ylim=(0, None), xlabel="eps", ylabel="delta")
    axes.set_title("delta at every eps", loc="left")
    axes.legend(fontsize=7, loc="upper right")
