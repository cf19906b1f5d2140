"""No core dumps while records are in memory: a dump would be a copy of them that nobody guards."""

from __future__ import annotations

import contextlib
import ctypes
import sys
from pathlib import Path

_PATTERN = Path("/proc/sys/kernel/core_pattern")
_PR_SET_DUMPABLE = 4
_NOT_A_FILE = ("|", "@")  # to a program, to a socket


def switch_off() -> None:
    """Keep this process from leaving a core dump, where the platform allows.

    The soft limit alone does it where dumps go to a file. Linux does not apply it where they go to
    a program, as on most desktops: only there is the process made undumpable, since that also keeps
    debuggers of the same user, and some files of /proc, from it.
    """
    try:
        import resource  # noqa: PLC0415 (not on every platform)
    except ImportError:
        return
    with contextlib.suppress(OSError, ValueError):
        _, most = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (0, most))
    if sys.platform == "linux" and _limit_is_ignored():
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _limit_is_ignored() -> bool:
    try:
        return _PATTERN.read_text(encoding="utf-8", errors="replace").startswith(_NOT_A_FILE)
    except OSError:
        return True  # not known: to be safe
