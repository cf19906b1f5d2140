"""Histograms of privacy losses, under each other on one logarithmic axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dpkv.audits.report.legend import Key
from dpkv.audits.report.svg import COLORS, clean
from dpkv.audits.results import DataLoss
from dpkv.types import Float64s

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIMULATED = Key("simulated releases", "green", "s")
CLAIM = Key("claimed eps", "claim", "|")
RELEASE = Key("audited release", "orange", "D")

_BINS = 48
_LEAST = 1e-9  # smaller losses, and none at all, are drawn there


def histograms(panels: Sequence[Axes], rows: Sequence[DataLoss]) -> None:
    """Draw a histogram of each row's losses, with the claim as a line."""
    edges = _bins(rows)
    several = len({row.mechanism for row in rows}) > 1
    for axes, row in zip(panels, rows, strict=False):
        _histogram(axes, row, edges)
        label = f"{clean(row.mechanism, 16)}\nk = {row.k}" if several else f"k = {row.k}"
        axes.set_ylabel(label, rotation=0, ha="right", va="center")


def _histogram(axes: Axes, row: DataLoss, edges: Float64s) -> None:
    heights, _ = np.histogram(np.clip(row.simulated_losses, edges[0], edges[-1]), edges)
    axes.stairs(heights, edges, fill=True, color=COLORS[SIMULATED.color], alpha=0.75)
    axes.axvline(row.claimed_eps, color=COLORS[CLAIM.color], linewidth=2.0)
    if row.release_loss is not None:
        place = float(np.clip(row.release_loss, edges[0], edges[-1]))
        diamond = axes.plot([place], [0.0], RELEASE.marker, color=COLORS[RELEASE.color],
                            clip_on=False, zorder=5, markeredgecolor=COLORS["paper"],
                            markersize=7.0)  # fmt: skip
        diamond[0].set_in_layout(False)  # all panels stay equally high
    axes.set_xscale("log")
    axes.set_ylim(0.0, 1.05 * max(heights.max(), 1))
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="x", length=0)
    axes.minorticks_off()


def _bins(rows: Sequence[DataLoss]) -> Float64s:
    """Return bins over all losses and claims, equally wide on a logarithmic axis."""
    losses = [loss for row in rows for loss in (*row.simulated_losses, row.release_loss or 0.0)]
    values = [v for v in (*losses, *(row.claimed_eps for row in rows)) if 0 < v < math.inf]
    low, high = max(min(values, default=1e-3), _LEAST), max(values, default=1.0)
    edges: Float64s = np.geomspace(low / 1.5, 2.0 * max(low, high), _BINS + 1)
    return edges
