"""The workspace ``.dpkv/``: what dpkv keeps beside the user's files, readable by its owner only."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dpkv.errors import UsageError

if TYPE_CHECKING:
    from dpkv.kernels import Floats

_KEY_BYTES = 32
_OWN_NAMES = {"keys", "tables", "calibrations", "releases", "audits", "ledger.sqlite"}
_HASHED_ROWS = 1 << 16
_HASHED_BYTES = 1 << 20


def private_folder(workspace: Path, name: str) -> Path:
    """Return ``workspace/name``, made for the owner alone and hidden from version control."""
    folder = workspace / name
    _refuse_foreign(workspace)
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


def _refuse_foreign(workspace: Path) -> None:
    """Refuse to turn a folder of the user's own files into a workspace."""
    try:
        names = {entry.name for entry in workspace.iterdir()}
    except OSError:  # not there yet, or refused later in better words
        return
    if names and not names & _OWN_NAMES and ".gitignore" not in names:
        raise UsageError(f"{workspace} holds other files: choose another folder as workspace.")
    if workspace.resolve() == Path.cwd():
        raise UsageError("the workspace must be a folder of its own, not the current one.")


def check_private(folder: Path) -> None:
    """Refuse a folder that somebody else could have planted, and close one that is open to all."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise UsageError(f"{folder} must be a plain folder: remove it, or work elsewhere.")
    if hasattr(os, "getuid") and status.st_uid != os.getuid():
        raise UsageError(f"{folder} belongs to another user: work elsewhere.")
    if status.st_mode & 0o077:
        folder.chmod(0o700)


def remove_if_empty(workspace: Path, name: str) -> None:
    """Undo ``private_folder`` where nothing was put into the folder or the workspace."""
    with contextlib.suppress(OSError):
        (workspace / name).rmdir()
        if [entry.name for entry in workspace.iterdir()] == [".gitignore"]:
            (workspace / ".gitignore").unlink()
            workspace.rmdir()


def array_fingerprint(values: Floats, workspace: Path) -> str:
    """Return a keyed hash of records: tells the same ones again, and nothing without the key.

    A plain hash would let anyone test a guess of the whole table. Float32 and float64 arrays of
    the same numbers are the same.
    """
    digest = hashlib.blake2b(key=_secret_key(workspace), digest_size=16)
    digest.update(json.dumps(list(values.shape)).encode())
    for start in range(0, len(values), _HASHED_ROWS):
        digest.update(values[start : start + _HASHED_ROWS].astype("<f8").tobytes())
    return digest.hexdigest()


def file_fingerprint(path: Path, workspace: Path) -> str:
    """Return a keyed hash of a file's bytes: the same table whichever of its columns are used."""
    digest = hashlib.blake2b(key=_secret_key(workspace), digest_size=16)
    with path.open("rb") as file:
        while block := file.read(_HASHED_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _secret_key(workspace: Path) -> bytes:
    """Return the workspace's key, made when it is first needed."""
    path = private_folder(workspace, "keys") / "fingerprint.key"
    if not path.exists():
        write_once(path, secrets.token_bytes(_KEY_BYTES))
    return path.read_bytes()


def write_atomically(path: Path, contents: str | bytes) -> None:
    """Write a whole file, for its owner alone, or nothing: a reader never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _finished_file(path, contents) as temporary:
        temporary.replace(path)


def write_once(path: Path, contents: str | bytes) -> bool:
    """Write a whole file unless there is one already; tell whether it was written.

    The first of two that race wins, and nobody ever sees half of it.
    """
    with _finished_file(path, contents) as temporary:
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
    sync_folder(path.parent)
    return True


@contextlib.contextmanager
def _finished_file(path: Path, contents: str | bytes) -> Iterator[Path]:
    """Yield a file beside ``path`` that holds the contents on disk, and remove it if it is left."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(contents.encode() if isinstance(contents, str) else contents)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def sync_folder(folder: Path) -> None:
    """Bring a folder's list of files to the disk, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
