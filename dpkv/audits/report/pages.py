"""Printing a context: as one HTML file that needs nothing else, and as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib import resources

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from dpkv.audits.report.blocks import Cell, Context, Picture
from dpkv.audits.report.plots import draw
from dpkv.audits.results import Audit

# What Markdown would take for a mark, where it would: sigma_1 and [1, 2] mean themselves.
_MARKS = re.compile(r"[\\`*|$]|~(?=\S)|(?<![^\W_])_|_(?![^\W_])|\](?=[(\[:])|^[-+#](?=[\s#-])")
_NUMBERED = re.compile(r"^(\d+)(?=[.)](?:\s|$))")
_BREAKS = re.compile(r"[\x00-\x20\x7f-\x9f\u2028\u2029]+")
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def html(report: Context, audit: Audit) -> str:
    """Return the report as a single self-contained page."""
    plots = {picture.name: draw(picture.name, audit, picture.alt) for picture in _pictures(report)}
    page = _environment(escaping=True).get_template("report.html.j2")
    return page.render(report=report, plots=plots, css=Markup(_source("report.css"))) + "\n"


def markdown(report: Context) -> str:
    """Return the report as Markdown, without its pictures."""
    return _environment(escaping=False).get_template("report.md.j2").render(report=report) + "\n"


def _pictures(report: Context) -> Iterator[Picture]:
    for section in report.sections:
        for block in section.blocks:
            if isinstance(block, Picture):
                yield block


@cache
def _environment(*, escaping: bool) -> Environment:
    environment = Environment(
        loader=FunctionLoader(_source),
        autoescape=escaping,
        undefined=StrictUndefined,
    )
    environment.filters.update(md=_escape, cell=_cell, code=_indent)
    return environment


def _source(name: str) -> str:
    folder = resources.files("dpkv.audits.report") / "templates"
    return (folder / name).read_text(encoding="utf-8")


def _escape(text: str) -> str:
    """Return text on one line that Markdown shows as it is."""
    line = _BREAKS.sub(" ", text).strip()
    return _NUMBERED.sub(r"\1\\", _MARKS.sub(r"\\\g<0>", line)).translate(_ENTITIES)


def _cell(cell: Cell) -> str:
    text, note = _escape(cell.text), _escape(cell.note)
    if not note:
        return text
    return f"{text} {note if cell.note.startswith('[') else f'({note})'}"


def _indent(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
