"""Plots as SVG to put inside a page: its colours, its fonts, and no identifier twice."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = {
    "ink": "#26313d",
    "soft": "#d5dae0",
    "paper": "#fdfdfc",
    "claim": "#a3122a",
    "green": "#0b6e4f",
    "orange": "#c1440e",
    "grey": "#6b7280",
    "blue": "#1f5fbf",
    "purple": "#7b3fa0",
    "gold": "#8a6a00",
    "pink": "#b8326b",
    "teal": "#0f7a8a",
    "brown": "#7a4a2b",
}
"""What a plot is drawn in; the page's style sheet has a dark sister for each."""

STYLE: Any = {
    "svg.fonttype": "none",  # text stays text: small, searchable, in the page's own font
    "text.parse_math": False,  # a column's name may hold a dollar sign
    "font.size": 9.0,
    "axes.linewidth": 0.7,
    "axes.edgecolor": COLORS["ink"],
    "axes.labelcolor": COLORS["ink"],
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": COLORS["soft"],
    "grid.linewidth": 0.6,
    "text.color": COLORS["ink"],
    "xtick.color": COLORS["ink"],
    "ytick.color": COLORS["ink"],
    "legend.frameon": False,
    "lines.linewidth": 1.5,
    "lines.markersize": 5.5,
}

WIDE, NARROW = 7.4, 3.6
"""Inches: for a desk and paper, and for a phone."""

_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_FONT = re.compile(r"font: ([^;']*?px) [^;]*")
_VARIABLES = {value: f"var(--plot-{name})" for name, value in COLORS.items()}
_COLOR = re.compile("|".join(map(re.escape, _VARIABLES)))


@contextmanager
def canvas(width: float, height: float) -> Iterator[Figure]:
    """Lend a figure in the page's style."""
    from matplotlib import rc_context  # noqa: PLC0415 (slow to import)
    from matplotlib.figure import Figure  # noqa: PLC0415

    with rc_context(STYLE):
        yield Figure(figsize=(width, height), layout="constrained")


def inline_svg(figure: Figure, name: str, alt: str) -> str:
    """Return a figure as an SVG element; the same figure gives the same text.

    ``name`` sets its identifiers apart from those of other figures on the page.
    """
    root = ElementTree.fromstring(_draw(figure, name))
    for child in [c for c in root if c.tag.endswith("metadata")]:
        root.remove(child)
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
        element.attrib.update(_inline(dict(element.attrib), name))
        element.attrib.pop(_HREF, None)
    box = root.attrib["viewBox"]
    root.attrib.clear()
    root.attrib.update({"viewBox": box, "role": "img", "aria-label": alt})
    return ElementTree.tostring(root, encoding="unicode")


def _draw(figure: Figure, name: str) -> str:
    from matplotlib import rc_context  # noqa: PLC0415 (slow to import)

    drawn = io.StringIO()
    undated = {"Date": None, "Creator": None, "Format": None, "Type": None}
    with warnings.catch_warnings(), rc_context({**STYLE, "svg.hashsalt": name}):
        warnings.filterwarnings("ignore", message="Glyph")  # measured only: the page has the font
        figure.savefig(drawn, format="svg", metadata=undated)
    return drawn.getvalue()


def _inline(attributes: dict[str, str], name: str) -> dict[str, str]:
    """Return attributes with identifiers of this figure and colours and fonts of the page."""
    if "id" in attributes:
        attributes["id"] = f"{name}-{attributes['id']}"
    if _HREF in attributes:
        attributes["href"] = attributes[_HREF].replace("#", f"#{name}-")
    if "clip-path" in attributes:
        attributes["clip-path"] = attributes["clip-path"].replace("#", f"#{name}-")
    if "style" in attributes:
        style = _COLOR.sub(lambda found: _VARIABLES[found[0]], attributes["style"])
        attributes["style"] = _FONT.sub(r"font: \1 var(--sans)", style)
    return attributes


def clean(text: str, longest: int = 40) -> str:
    """Return text that a plot can hold: printable, on one line, not too long."""
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"
