"""Audits: of dpkv's own releases, and of anybody's mechanism.

``blackbox`` is for any mechanism, by runs alone; everything else is about dpkv's own, whose answers
have closed-form probabilities.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpkv.audits.blackbox import assert_private, audit_mechanism

__all__ = ["assert_private", "audit_mechanism"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from dpkv.audits import blackbox  # noqa: PLC0415 (heavy)

        return getattr(blackbox, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
