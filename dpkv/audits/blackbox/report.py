"""One page on an audit of a black box: claim, verdict, curves, tables, and how to repeat it.

HTML and Markdown are two ways to print the same facts; the JSON is the audit itself.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from dpkv.audits.blackbox.plots import curves_svg
from dpkv.audits.blackbox.results import PROVES_NOTHING, BlackBoxAudit, TablePair

_MOST_ROWS = 12
_MOST_COLUMNS = 8
_SHOWN_EVENTS = 6
_SHOWN_FAMILIES = 60


def render(audit: BlackBoxAudit) -> dict[str, str]:
    """Return the report's files by name."""
    facts = _facts(audit)
    page = _environment(escaping=True).get_template("blackbox.html.j2")
    text = _environment(escaping=False).get_template("blackbox.md.j2")
    css = Markup(_css("report.css"))
    return {
        "report.html": page.render(**facts, css=css, plot=Markup(curves_svg(audit))) + "\n",
        "report.md": text.render(**facts) + "\n",
        "audit.json": audit.to_json(),
    }


def _facts(audit: BlackBoxAudit) -> dict[str, Any]:
    pair = audit.witness
    return {
        "audit": audit,
        "status": "No violation found" if audit.holds else "Violated",
        "meaning": f"{PROVES_NOTHING}." if audit.holds else _accusation(audit),
        "events": audit.events[:_SHOWN_EVENTS],
        "tables": () if pair is None else _small_tables(pair),
        "columns": () if pair is None else pair.columns[:_MOST_COLUMNS],
        "families": audit.families[:_SHOWN_FAMILIES],
        "more_families": max(0, len(audit.families) - _SHOWN_FAMILIES),
        "share": _share,
    }


def _accusation(audit: BlackBoxAudit) -> str:
    return (
        f"A mechanism that keeps this claim is accused with probability at most {audit.alpha:g}, "
        "over the whole search."
    )


def _share(bounds: tuple[float, float]) -> str:
    return f"[{bounds[0]:.4g}, {bounds[1]:.4g}]"


def _small_tables(pair: TablePair) -> tuple[tuple[str, list[list[str]], int], ...]:
    """Return both tables as they are shown: a title, rows of cells, and rows left out."""
    found = []
    for title, rows in (("first table", pair.first), ("second table", pair.second)):
        cells = [
            ["(missing)" if cell is None else f"{cell:g}" for cell in row[:_MOST_COLUMNS]]
            for row in rows[-_MOST_ROWS:]
        ]
        size = "1 row" if len(rows) == 1 else f"{len(rows)} rows"
        found.append((f"{title}: {size}", cells, max(0, len(rows) - _MOST_ROWS)))
    return tuple(found)


@cache
def _environment(*, escaping: bool) -> Environment:
    environment = Environment(
        loader=FunctionLoader(_source), autoescape=escaping, undefined=StrictUndefined
    )
    environment.filters["line"] = _on_one_line
    return environment


def _on_one_line(text: str) -> str:
    """Return what a mechanism may have written, as a line of code."""
    return "".join(c if c.isprintable() else " " for c in text).replace("`", "'")


def _source(name: str) -> str:
    folder = resources.files("dpkv.audits.blackbox") / "templates"
    return (folder / name).read_text(encoding="utf-8")


def _css(name: str) -> str:
    folder = resources.files("dpkv.audits.report") / "templates"
    return (folder / name).read_text(encoding="utf-8")
