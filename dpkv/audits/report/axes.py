"""Axes of plots: logarithmic where values differ much, with ticks worth reading."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpkv.audits.report.numbers import exact

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LOG_FROM = 12.0  # largest over smallest value, from which an axis is logarithmic
_FEW_DECADES = 2.5  # up to which 2 and 5 are worth a tick


def is_positive(value: float | None) -> bool:
    """Tell whether there is a value that a logarithmic axis can show."""
    return value is not None and math.isfinite(value) and value > 0


def tick(value: float, _position: float | None = None) -> str:
    """Return the label of a tick."""
    return exact(float(f"{value:.6g}"))


def scale(axes: Axes, values: Sequence[float]) -> None:
    """Make the value axis logarithmic where the values differ much, with ticks worth reading."""
    from matplotlib.ticker import LogLocator  # noqa: PLC0415 (slow to import)

    if not values or max(values) < _LOG_FROM * min(values):
        axes.set_ylim(bottom=0.0)
        return
    axes.set_yscale("log")
    decades = math.log10(max(values) / min(values))
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if decades < _FEW_DECADES else (1,)))
    axes.yaxis.set_major_formatter(tick)
    axes.minorticks_off()
