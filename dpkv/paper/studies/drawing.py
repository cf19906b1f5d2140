"""What the figures of all studies share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dpkv.audits.report.svg import COLORS, STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["COLORS", "SERIES", "canvas", "finish"]

SERIES = ("green", "orange", "blue", "purple", "grey", "gold", "pink", "teal", "brown")
"""Colours in the order that lines take them."""


@contextmanager
def canvas(width: float, height: float) -> Iterator[Figure]:
    """Yield a new figure in the house's style, on white."""
    from matplotlib import rc_context  # noqa: PLC0415 (slow to import)
    from matplotlib.figure import Figure  # noqa: PLC0415

    with rc_context({**STYLE, "figure.facecolor": "white", "font.size": 8.5}):
        yield Figure(figsize=(width, height), layout="constrained")


def finish(axes: Axes, title: str, x: str = "", y: str = "") -> None:
    """Name a panel and its axes."""
    axes.set_title(title, fontsize=9, loc="left")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(visible=True)
