"""Folders in the making: locked while their run lives, and removed by a later one if it was killed.

The kernel releases the lock of a process that ends in whatever way, so a folder that can be locked
has nobody who would still finish it. It must also be old: a run that has just made its folder may
not have locked it yet. Where folders cannot be locked they are left alone.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

if sys.platform != "win32":
    import fcntl

_ABANDONED_AFTER = 3600.0  # seconds


@contextlib.contextmanager
def unfinished_folder(folder: Path) -> Iterator[Path]:
    """Make a folder for its owner alone; what is still there at the end is removed."""
    folder.mkdir(mode=0o700)
    try:
        with _lock(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_abandoned(parent: Path, prefix: str) -> None:
    """Remove this user's folders ``prefix`` + 16 hexadecimal digits whose runs were killed."""
    for folder in parent.glob(f"{prefix}*"):
        if re.fullmatch("[0-9a-f]{16}", folder.name.removeprefix(prefix)):
            with contextlib.suppress(OSError), _lock(folder) as nobody_has_it:
                if nobody_has_it and _is_own_and_old(folder):
                    shutil.rmtree(folder)


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[bool]:
    """Hold the lock of a folder, which must be no link; tell whether that could be done."""
    if sys.platform == "win32":
        yield False
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            locked = True
        except OSError:  # another has it, or the file system has no locks
            locked = False
        yield locked
    finally:
        os.close(handle)


def _is_own_and_old(folder: Path) -> bool:
    status = folder.lstat()
    return status.st_uid == os.getuid() and time.time() - status.st_mtime > _ABANDONED_AFTER
