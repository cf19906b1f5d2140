"""Rendered reports of the example audits, each rendered and read once."""

from __future__ import annotations

from functools import cache

from dpkv.audits.report import render
from support.audit_example import audit, boundless, planned, told, utility, violated, wide
from support.pages import Element, parsed

VARIANTS = {
    "holds": audit(),
    "violated": violated(),
    "boundless": boundless(),
    "planned": planned(),
    "told": told(),
    "wide": wide(),
    "public": audit().public(),
    "two-eps": audit(utility=utility((2, 3), 0.5) + utility((2, 3), 2.0)),
}


@cache
def rendered(name: str) -> dict[str, str]:
    """Return the files of a report."""
    return render(VARIANTS[name])


@cache
def read(name: str) -> Element:
    """Return the page of a report as a tree."""
    return parsed(rendered(name)["report.html"])
