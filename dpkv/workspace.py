"""The workspace ``.dpkv/``: what dpkv keeps beside the user's files, readable by its owner only."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from dpkv.errors import UsageError

RELEASES = "releases"
"""The folder of a workspace in which releases are kept."""
CHAIN = "chain"
"""The folder of a workspace that notes what it knows of its ledger."""
_OWN_NAMES = {
    "keys",
    "tables",
    "calibrations",
    "bounds",
    RELEASES,
    CHAIN,
    "audits",
    "ledger.sqlite",
}


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


def is_own_file(
    path: Path, *, writable: bool = False, error: type[UsageError] = UsageError
) -> bool:
    """Tell whether a file is there, refusing what is not a plain file of this user's own.

    One that others may read is closed to them. ``writable`` ones must be so for their owner.
    """
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            raise error(f"{path} must be a plain file: find out who put it there.")
        if hasattr(os, "getuid") and status.st_uid != os.getuid():
            raise error(f"{path} belongs to another user: find out who put it there.")
        if status.st_mode & 0o077 or (writable and not status.st_mode & stat.S_IWUSR):
            path.chmod(0o600)
    except FileNotFoundError:
        return False
    return True


def write_atomically(path: Path, contents: str | bytes, *, durable: bool = True) -> None:
    """Write a whole file, for its owner alone, or nothing: a reader never sees half of it.

    Without ``durable`` a power cut may bring the file of before back, or lose it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _finished_file(path, contents, durable=durable) as temporary:
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
def _finished_file(path: Path, contents: str | bytes, *, durable: bool = True) -> Iterator[Path]:
    """Yield a file beside ``path`` that holds the contents on disk, and remove it if it is left."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(contents.encode() if isinstance(contents, str) else contents)
            file.flush()
            if durable:
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
