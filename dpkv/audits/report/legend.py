"""Legends beside a plot, not in it: a page wraps long names, a plot cannot."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_CENTRE, _RADIUS = 7.0, 5.0
_THIN, _THICK = 1.4, 3.0


@dataclass(frozen=True)
class Key:
    """What a colour and a marker stand for; colours are names of the page's plot colours."""

    label: str
    color: str
    marker: str
    hollow: bool = False

    @property
    def swatch(self) -> str:
        """The marker as a small SVG element."""
        fill = "var(--plot-paper)" if self.hollow else f"var(--plot-{self.color})"
        width = _THICK if self.marker == "|" else _THIN
        return (
            '<svg viewBox="0 0 14 14" aria-hidden="true">'
            f'<path d="{_outline(self.marker)}" fill="{fill}" '
            f'stroke="var(--plot-{self.color})" stroke-width="{width}"/></svg>'
        )


def _outline(marker: str) -> str:
    from matplotlib.markers import MarkerStyle  # noqa: PLC0415 (slow to import)

    style = MarkerStyle(marker)
    path = style.get_path().transformed(style.get_transform())
    scale = _RADIUS / np.abs(np.asarray(path.vertices, np.float64)).max()
    pieces = []
    for polygon in path.to_polygons(closed_only=False):
        corners = _CENTRE + np.asarray(polygon, np.float64) * (scale, -scale)
        pieces.append("M" + "L".join(f"{x:.2f} {y:.2f}" for x, y in corners))
    return "".join(pieces)
