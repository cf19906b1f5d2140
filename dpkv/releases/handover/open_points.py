"""What a hand-over leaves open, because a record cannot know it and only people can say."""

from __future__ import annotations

import re

OPEN = "TO FILL IN"
"""What a text begins with that somebody must replace."""
_POINT = re.compile(rf"{OPEN}: ([^\n\"]+)")


def left_open(what: str) -> str:
    """Return the text that stands where somebody must answer."""
    return f"{OPEN}: {what}"


def open_points(text: str) -> tuple[str, ...]:
    """Return all that a text leaves open, in its order."""
    return tuple(found.rstrip(". ") for found in _POINT.findall(text))
