"""How far long work is, told from where it is done to whoever shows it, if anybody does.

What is told goes to the terminal of whoever runs dpkv and nowhere else: how long a release takes is
not protected, and no record says it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpkv.types import StageProgress  # it needs numpy, and --help does not

_listener: ContextVar[StageProgress | None] = ContextVar("dpkv progress", default=None)


def report(stage: str, share: float) -> None:
    """Tell what is being done, and which share of it is."""
    listener = _listener.get()
    if listener is not None:
        listener(stage, share)


@contextlib.contextmanager
def told_to(listener: StageProgress) -> Iterator[None]:
    """Have whatever is done in a block tell a listener how far it is."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
