"""The report of an audit: a pure function from what was found to three files that agree."""

from __future__ import annotations

from dpkv.audits.report.context import context
from dpkv.audits.report.pages import html, markdown
from dpkv.audits.results import Audit

__all__ = ["render"]


def render(audit: Audit) -> dict[str, str]:
    """Return the report's files by name: HTML, Markdown and JSON of the same audit.

    The same audit gives the same bytes. A public audit is stripped once more of what depends on the
    data, so that nothing slips through.
    """
    if audit.visibility == "public":
        audit = audit.public()
    report = context(audit)
    return {
        "report.html": html(report, audit),
        "report.md": markdown(report),
        "audit.json": audit.to_json(),
    }
