"""The workspace ``.dpkv/``: what dpkv keeps beside the user's files, readable by its owner only."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def private_folder(workspace: Path, name: str) -> Path:
    """Return ``workspace/name``, made for the owner alone and hidden from version control."""
    folder = workspace / name
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    ignore = workspace / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")
    return folder


def remove_if_empty(workspace: Path, name: str) -> None:
    """Undo ``private_folder`` where nothing was put into the folder or the workspace."""
    with contextlib.suppress(OSError):
        (workspace / name).rmdir()
        if [entry.name for entry in workspace.iterdir()] == [".gitignore"]:
            (workspace / ".gitignore").unlink()
            workspace.rmdir()


def write_atomically(path: Path, text: str) -> None:
    """Write a whole file or nothing: a reader never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise
