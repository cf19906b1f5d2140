"""One spelling of a JSON value, so that its digest means something."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def canonical(value: Any) -> bytes:
    """Return JSON with sorted keys, no spaces and no characters beyond ASCII."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def digest(contents: str | bytes) -> str:
    """Return the SHA-256 of text or bytes, in hexadecimal."""
    raw = contents.encode() if isinstance(contents, str) else contents
    return hashlib.sha256(raw).hexdigest()
