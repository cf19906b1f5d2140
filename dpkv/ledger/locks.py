"""Whether the disk of a workspace keeps two writers apart.

SQLite relies on locks of the file system. Some grant them to everybody who asks, and then two
charges overwrite each other. Linux has locks that belong to an open file instead of a process, so
that one process can ask for the same one twice, and must be refused.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from dpkv.errors import LedgerError

try:
    import fcntl
except ImportError:  # Windows, which locks by itself
    fcntl = None  # type: ignore[assignment]


def check_locks(file: Path) -> None:
    """Refuse a disk that locks a file for two at once; one that cannot be asked is believed.

    ``file`` must be one that nobody opens or locks for another purpose.
    """
    if not hasattr(fcntl, "F_OFD_SETLK"):
        return
    opened: list[int] = []
    try:
        for _ in range(2):
            handle = os.open(file, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            opened.append(handle)
            # struct flock: the whole file, for writing, without waiting
            fcntl.fcntl(
                handle,
                fcntl.F_OFD_SETLK,
                struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0),
            )
    except OSError:  # refused, by this process or another one: as it must be
        return
    finally:
        for handle in opened:
            os.close(handle)
    raise LedgerError(
        f"the disk of {file.parent} locks a file for two at once, so that charges could overwrite "
        "each other: keep the workspace on another disk, or the ledger in PostgreSQL."
    )
