"""Files that somebody else may have written: only ordinary ones of a sane size are read.

A pipe would be waited for, and a device never ends; both can stand behind an innocent name.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from dpkv.errors import UsageError

MOST_RECORD_BYTES = 256 << 20
"""Of a record, a synopsis, a witness, a calibration or a file of centers."""
MOST_KEY_BYTES = 1 << 20
"""Of a file of keys."""
_MEGABYTE = 1 << 20


def read_bytes(path: Path, most_bytes: int = MOST_RECORD_BYTES) -> bytes:
    """Return what an ordinary file holds; an ``OSError`` says why not, where it cannot be."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
    handle = os.open(path, flags | getattr(os, "O_BINARY", 0))  # without waiting for a writer
    with os.fdopen(handle, "rb") as file:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is not an ordinary file")
        contents = file.read(most_bytes + 1)
    if len(contents) > most_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {most_bytes // _MEGABYTE} MB")
    return contents


def read_text(path: Path) -> str:
    """Return the text of an ordinary file in UTF-8, with its line ends as they are."""
    return read_bytes(path, MOST_RECORD_BYTES).decode("utf-8")


def text_of(path: Path) -> str:
    """Return the text of an ordinary file in UTF-8, or say in one sentence why it cannot be."""
    text = text_if_there(path)
    if text is None:
        raise UsageError(f"{path} does not exist: check the path.")
    return text


def text_if_there(path: Path) -> str | None:
    """Return the text of an ordinary file in UTF-8; None where there is no file."""
    try:
        return read_text(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError:
        raise UsageError(f"{path} cannot be read: it must be a text file.") from None
