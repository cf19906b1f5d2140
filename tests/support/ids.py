"""Plain words as test ids: the same in every process and at every time, and easy to type."""

from __future__ import annotations

import re

PLAIN = re.compile(r"[A-Za-z0-9 _.,:;=+*^~|!?@#&%/$()'\"-]*")
_LONGEST = 60


def plain_id(value: object, name: str) -> str | None:
    """Return an id for a parameter's value, or None for what pytest numbers by itself.

    What cannot be a plain word is called by the parameter's name, and pytest numbers that.
    """
    text = _shown(value)
    if text is None:
        return None
    return text if len(text) <= _LONGEST and PLAIN.fullmatch(text) else name


def _shown(value: object) -> str | None:
    match value:
        case float():
            return f"{value:.4g}"
        case int() | str():
            return str(value)
        case bytes():
            return repr(value)
        case dict():
            return " ".join(f"{key} {held}" for key, held in value.items())
    return getattr(value, "__name__", None)
