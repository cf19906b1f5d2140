"""The picture of a release: where the private cells say records are, and the centres among them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpkv.audits.report.axes import scale
from dpkv.audits.report.centers import planes_of
from dpkv.audits.report.legend import Key
from dpkv.audits.report.svg import COLORS, NARROW, canvas, clean
from dpkv.audits.results import Density, Subject
from dpkv.types import Float64s

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LEVELS = 9
"""Shades of the heat map."""
_DARKEST = 0.85
_LARGEST_RING = 26.0  # points across, of the largest group
_WITHIN = math.sqrt(-2.0 * math.log(0.1))
"""Standard errors along each axis: an ellipse of so many holds 90 % of a normal distribution."""
_WITHIN_OF_ONE = 1.645  # likewise of one column
_EDGE = 0.88  # of an axis: beyond it a name goes to the other side
_MOST_NAMED = 40  # centres with numbers
_CENTRE = Key("a centre", "ink", "D")
_RING = Key("size of its group", "orange", "o", hollow=True)
_ELLIPSE = Key("where noise may have moved it, 90 %", "claim", "o", hollow=True)
_RECORDS = Key("records, by the private cells: darker is more", "blue", "s")
_CURVE, _CHOSEN = Key("private potential", "green", "o"), Key("chosen", "orange", "D")


def center_keys(subject: Subject) -> list[Key]:
    """Return what the marks of the picture stand for."""
    told, planes = subject.publication, planes_of(subject)
    if told is None:
        return [_CENTRE]
    flat = any(len(columns) > 1 for columns in planes)
    keys = [_RECORDS] if told.densities else []
    keys += [_CENTRE]
    keys += [_RING] if told.sizes and flat else []
    return keys + ([_ELLIPSE] if told.center_sd else [])


def centers_figure(subject: Subject, width: float) -> Figure:
    """Draw a panel for every plane: heat map, rings, ellipses, centres."""
    told, planes = subject.publication, planes_of(subject)
    densities: list[Density | None] = list(told.densities) if told is not None else []
    panels = list(zip(planes, densities or [None] * len(planes), strict=True))
    across = 1 if width == NARROW else len(panels)
    down = -(-len(panels) // across)
    each = min(width / across, 5.2 if densities else 4.0)
    with canvas(width, 0.4 + down * (0.88 * each if len(planes[0]) > 1 else 2.4)) as figure:
        for place, (columns, density) in enumerate(panels, start=1):
            axes = figure.add_subplot(down, across, place)
            if len(columns) == 1:
                _draw_line(axes, subject, columns[0], density)
            else:
                _draw_plane(axes, subject, columns, density)
            longest = 44 if across == 1 else 22
            axes.set_xlabel(clean(columns[0], longest if width != NARROW else 34))
    return figure


def _draw_plane(
    axes: Axes, subject: Subject, columns: tuple[str, ...], density: Density | None
) -> None:
    from matplotlib.patches import Ellipse  # noqa: PLC0415 (slow to import)

    told = subject.publication
    places = [subject.columns.index(name) for name in columns]
    centers = np.asarray(subject.released_centers, dtype=np.float64)[:, places]
    if density is not None:
        _shade(axes, density)
    axes.set_ylabel(clean(columns[1], 22))
    if told is not None and told.sizes:
        largest = max(*told.sizes, 1e-300)
        across = [_LARGEST_RING * math.sqrt(max(size, 0.0) / largest) for size in told.sizes]
        sizes, rim = [one**2 for one in across], COLORS["orange"]
        x, y = centers.T
        axes.scatter(x, y, s=sizes, facecolors="none", edgecolors=rim, linewidths=1.4)
    for (x, y), errors in zip(centers, told.center_sd if told is not None else (), strict=False):
        wide, high = (2.0 * _WITHIN * errors[place] for place in places)
        axes.add_patch(
            Ellipse((x, y), wide, high, facecolor="none", edgecolor=COLORS["claim"], linewidth=1.2)
        )
    axes.plot(*centers.T, "D", markersize=4.2, color=COLORS["ink"],
              markeredgecolor=COLORS["paper"], markeredgewidth=0.7)  # fmt: skip
    for axis, place in enumerate(places):
        ends = _extent(subject, place, () if density is None else density.edges[axis])
        if axis:
            axes.set_ylim(ends)
        else:
            axes.set_xlim(ends)
    axes.locator_params(nbins=5)
    for number, (x, y) in enumerate(centers[:_MOST_NAMED], start=1):
        _name(axes, str(number), x, y)


def _name(axes: Axes, text: str, x: float, y: float) -> None:
    """Write beside a centre; at the edge of the picture on the inner side."""
    across, up = axes.transAxes.inverted().transform(axes.transData.transform((x, y)))
    left, below = across > _EDGE, up > _EDGE
    name = axes.annotate(
        text,
        (x, y),
        xytext=(-5 if left else 5, -4 if below else 4),
        textcoords="offset points",
        ha="right" if left else "left",
        va="top" if below else "bottom",
        fontweight="bold",
    )
    name.set_in_layout(False)


def _shade(axes: Axes, density: Density) -> None:
    """Draw bins of equal shade as one shape, runs of them joined: the page stays small."""
    from matplotlib.patches import PathPatch  # noqa: PLC0415 (slow to import)
    from matplotlib.path import Path  # noqa: PLC0415

    across, up = (np.asarray(edges) for edges in density.edges)
    shades = _shades(np.asarray(density.records))
    for shade in range(1, _LEVELS + 1):
        corners: list[tuple[float, float]] = []
        for row in range(shades.shape[1]):
            own = np.flatnonzero(np.diff(np.concatenate([[0], shades[:, row] == shade, [0]])))
            for first, last in own.reshape(-1, 2):
                left, right, low, high = across[first], across[last], up[row], up[row + 1]
                corners += [(left, low), (right, low), (right, high), (left, high), (left, low)]
        if corners:
            codes = [Path.MOVETO, *[Path.LINETO] * 3, Path.CLOSEPOLY] * (len(corners) // 5)
            alpha = _DARKEST * shade / _LEVELS
            axes.add_patch(
                PathPatch(Path(corners, codes), facecolor=COLORS["blue"], alpha=alpha, linewidth=0)
            )


def _shades(records: Float64s) -> Float64s:
    """Return the shade of every bin: even steps of the root, so that thin places show as well."""
    most = float(records.max(initial=0.0))
    if not most > 0.0:
        return np.zeros(records.shape)
    return np.asarray(np.rint(_LEVELS * np.sqrt(records / most)))


def _draw_line(axes: Axes, subject: Subject, column: str, density: Density | None) -> None:
    """Draw one column: how many records lie where, and the centres with their errors below."""
    told, place = subject.publication, subject.columns.index(column)
    centers = np.asarray(subject.released_centers, dtype=np.float64)[:, place]
    top = 1.0
    if density is not None:
        heights = np.asarray(density.records[0])
        top = max(float(heights.max(initial=0.0)), 1e-300)
        axes.stairs(heights, density.edges[0], fill=True, color=COLORS["blue"], alpha=0.5)
    if told is not None and told.center_sd:
        errors = [_WITHIN_OF_ONE * own[place] for own in told.center_sd]
        axes.errorbar(centers, np.full(len(centers), -0.08 * top), xerr=errors, linestyle="",
                      color=COLORS["claim"], elinewidth=1.4)  # fmt: skip
    axes.plot(centers, np.full(len(centers), -0.08 * top), "D", markersize=4.2,
              color=COLORS["ink"], clip_on=False)  # fmt: skip
    axes.set_yticks([])
    axes.set_ylim(-0.16 * top, 1.05 * top)
    ends = _extent(subject, place, () if density is None else density.edges[0])
    axes.set_xlim(ends)


def _extent(subject: Subject, place: int, edges: tuple[float, ...] = ()) -> tuple[float, float]:
    """Return where the axis of a column begins and ends: at the bounds, and beyond any centre."""
    own = [*edges, *(center[place] for center in subject.released_centers or ())]
    low, high = subject.domain.get("lower"), subject.domain.get("upper")
    if isinstance(low, list | tuple) and isinstance(high, list | tuple):
        own += [float(low[place]), float(high[place])]
    least, most = min(own), max(own)
    room = 0.03 * (most - least) or 1.0
    return least - room, most + room


def curve_keys() -> list[Key]:
    """Return what the marks of the curve stand for."""
    return [_CURVE, _CHOSEN]


def curve_figure(subject: Subject, width: float) -> Figure:
    """Draw the private potentials for every number of centres, and the number that was chosen."""
    told, chosen = subject.publication, len(subject.released_centers or ())
    curve = np.asarray(told.curve if told is not None else ())
    ks = np.arange(1, len(curve) + 1)
    positive = bool((curve > 0).all())
    with canvas(width, 3.0) as figure:
        axes = figure.add_subplot()
        axes.plot(ks, curve, "-", color=COLORS["green"])
        axes.plot(ks, curve, "o", markersize=3.0, color=COLORS["green"])
        at = min(chosen, len(curve)) - 1
        axes.plot([at + 1], [curve[at]], "D", markersize=7.0, color=COLORS["orange"],
                  markeredgecolor=COLORS["paper"])  # fmt: skip
        if positive:
            scale(axes, curve.tolist())
        axes.set_xlabel("number of centres k")
        axes.set_ylabel("potential")
        axes.grid(visible=True)
    return figure
