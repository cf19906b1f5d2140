"""Hand-over formats: a release's record in the forms that others have settled on.

Everything is rendered from the record's codes and numbers. What a record cannot know, and only
people can answer, is left open and begins with ``TO FILL IN``, so that nothing is made up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dpkv.errors import ParameterError
from dpkv.releases.handover.checklist import checklist_text
from dpkv.releases.handover.open_points import OPEN, open_points
from dpkv.releases.handover.python_call import call_text
from dpkv.releases.handover.registry import entry_text
from dpkv.releases.record import ReleaseRecord

__all__ = ["FORMATS", "OPEN", "Exported", "export"]


@dataclass(frozen=True)
class Format:
    """A form that a record can be written in."""

    title: str
    file_name: str
    render: Callable[[ReleaseRecord], str]


FORMATS = {
    "registry": Format("OpenDP deployments registry, tier 3", "registry.yaml", entry_text),
    "nist": Format("NIST SP 800-226 checklist", "nist-800-226.md", checklist_text),
    "python": Format("the call that would repeat the plan", "repeat.py", call_text),
}
"""The forms by name; help texts and tests read them."""


@dataclass(frozen=True)
class Exported:
    """A record in another form."""

    to: str
    title: str
    file_name: str
    text: str
    left_open: tuple[str, ...]
    """What only people can answer."""


def export(record: ReleaseRecord, to: str) -> Exported:
    """Return a record in another form; the record is taken as it is, so verify it first."""
    if to not in FORMATS:
        raise ParameterError("to", f"one of {', '.join(FORMATS)}", to)
    form = FORMATS[to]
    text = form.render(record)
    return Exported(to, form.title, form.file_name, text, open_points(text))
