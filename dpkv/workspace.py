"""The workspace ``.dpkv/``: what dpkv keeps beside the user's files, readable by its owner only."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dpkv.errors import UsageError

if TYPE_CHECKING:
    from dpkv.kernels import Floats

_KEY_BYTES = 32
_HASHED_ROWS = 1 << 16


def private_folder(workspace: Path, name: str) -> Path:
    """Return ``workspace/name``, made for the owner alone and hidden from version control."""
    folder = workspace / name
    workspace.parent.mkdir(parents=True, exist_ok=True)
    for place in (workspace, folder):
        with contextlib.suppress(FileExistsError):
            place.mkdir(mode=0o700)
        check_private(place)
    with contextlib.suppress(FileExistsError):  # O_EXCL follows no symbolic link
        handle = os.open(workspace / ".gitignore", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write("*\n")
    return folder


def check_private(folder: Path) -> None:
    """Refuse a folder that somebody else could have planted, and close one that is open to all."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise UsageError(f"{folder} must be a plain folder: remove it, or work elsewhere.")
    if hasattr(os, "getuid") and status.st_uid != os.getuid():
        raise UsageError(f"{folder} belongs to another user: remove it, or work elsewhere.")
    if status.st_mode & 0o077:
        folder.chmod(0o700)


def remove_if_empty(workspace: Path, name: str) -> None:
    """Undo ``private_folder`` where nothing was put into the folder or the workspace."""
    with contextlib.suppress(OSError):
        (workspace / name).rmdir()
        if [entry.name for entry in workspace.iterdir()] == [".gitignore"]:
            (workspace / ".gitignore").unlink()
            workspace.rmdir()


def fingerprint(values: Floats, columns: Sequence[str], workspace: Path) -> str:
    """Return a keyed hash of a table: tells the same table again, and nothing without the key.

    A plain hash would let anyone test a guess of the whole table.
    """
    digest = hashlib.blake2b(key=_secret_key(workspace), digest_size=16)
    digest.update(json.dumps([list(columns), list(values.shape), str(values.dtype)]).encode())
    for start in range(0, len(values), _HASHED_ROWS):
        digest.update(values[start : start + _HASHED_ROWS].tobytes())
    return digest.hexdigest()


def _secret_key(workspace: Path) -> bytes:
    """Return the workspace's key, made when it is first needed."""
    path = private_folder(workspace, "keys") / "fingerprint.key"
    if not path.exists():
        handle, temporary = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)  # the first of two that race wins, and both read its key
        Path(temporary).unlink()
    return path.read_bytes()


def write_atomically(path: Path, contents: str | bytes) -> None:
    """Write a whole file, for its owner alone, or nothing: a reader never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(contents.encode() if isinstance(contents, str) else contents)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise
