"""What commands print: notes to stderr, results to stdout."""

from __future__ import annotations

import contextlib
import io
import json
import os
import secrets
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpkv.cli.reading import WORKSPACE
from dpkv.errors import UsageError
from dpkv.workspace import private_folder, sync_folder, write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

    from dpkv.kernels import Floats

_UNFINISHED = ".dpkv-unfinished-"
_ABANDONED_AFTER = 3600.0  # seconds
_PICTURES = (".svg", ".png", ".pdf")


def note(sentence: str) -> None:
    """Print a sentence for the person at the terminal; it is not part of the result."""
    print(sentence, file=sys.stderr)


def print_json(result: dict[str, Any]) -> None:
    """Print one JSON object."""
    print_text(json.dumps(result, indent=2, allow_nan=False) + "\n")


def print_text(text: str) -> None:
    """Print by plain writes: a console would wrap the lines, which breaks JSON."""
    sys.stdout.write(text)


def print_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], *, n_words: int = 1
) -> None:
    """Print a table: the first columns, of words, to the left, numbers to the right."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for position, name in enumerate(header):
        table.add_column(name, justify="left" if position < n_words else "right")
    _print_titled(title, table, rows)


def print_facts(title: str, rows: Sequence[Sequence[str]]) -> None:
    """Print a small table of names and what they are."""
    from rich import box
    from rich.table import Table

    _print_titled(title, Table(box=box.SIMPLE, show_header=False), rows)


def _print_titled(title: str, table: Table, rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console

    for row in rows:
        table.add_row(*row)
    console = Console(highlight=False, markup=False)
    console.print(title, style="bold", soft_wrap=True)
    console.print(table)


def check_new_folder(path: Path) -> Path:
    """Return where a new folder goes; refuse a bad place before any work is done."""
    try:
        if path.is_symlink():
            raise UsageError(f"--out must be a new folder. {path} is a link: choose another.")
        if path.is_dir() and any(path.iterdir()):
            raise UsageError(f"--out must be a new folder. {path} holds files: choose another.")
        if path.exists() and not path.is_dir():
            raise UsageError(f"--out must be a new folder. {path} is a file: choose another.")
        resolved = path.resolve()
    except OSError as error:
        raise UsageError(f"--out {path} cannot be used: {error.strerror}.") from None
    if WORKSPACE.resolve() in (resolved, *resolved.parents):
        raise UsageError("--out must not be inside the workspace: choose another folder.")
    if resolved == Path.cwd() or ".." in path.parts[-1:]:
        raise UsageError("--out must be a new folder, with a name of its own.")
    _check_parent("--out", resolved)
    return path


class NewFolder:
    """A folder in the making: it has its name only when all its files are there."""

    def __init__(self, path: Path, unfinished: Path) -> None:
        self._path = path
        self._unfinished = unfinished

    def fill(self, files: Mapping[str, str], *, private: bool) -> list[Path]:
        """Write all files and give the folder its name; return where they are."""
        try:
            for name, text in files.items():
                write_atomically(self._unfinished / name, text)
                if not private:
                    (self._unfinished / name).chmod(0o644)
            if not private:
                self._unfinished.chmod(0o755)
            self._unfinished.rename(self._path)
            sync_folder(self._path.parent)
        except OSError as error:
            raise _unwritable(self._path, error) from None
        return [self._path / name for name in files]


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[NewFolder]:
    """Make room for a new folder before work begins, and leave nothing behind if it fails."""
    unfinished = path.parent / f"{_UNFINISHED}{secrets.token_hex(8)}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(path.parent)
        unfinished.mkdir(mode=0o700)
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        yield NewFolder(path, unfinished)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _remove_abandoned(parent: Path) -> None:
    """Remove the empty folders of runs that were killed long ago."""
    for folder in parent.glob(f"{_UNFINISHED}*"):
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > _ABANDONED_AFTER:
                folder.rmdir()


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"--out {path} cannot be written: {error.strerror}.")


def check_target(path: Path, data: Path) -> Path:
    """Return where the output goes, links followed; refuse a bad place before any work is done."""
    path = path.resolve()
    _check_place("--out", path)
    if path == data.resolve():
        raise UsageError("--out must not be the table itself: choose another name.")
    return path


def check_new_file(path: Path) -> Path:
    """Return where a file goes, links followed; refuse a bad place before any work is done."""
    path = path.resolve()
    _check_place("--out", path)
    return path


def _check_place(option: str, path: Path) -> None:
    if path.is_dir():
        raise UsageError(f"{option} must be a file. {path} is a directory: add a file name.")
    if path.exists() and not path.is_file():
        raise UsageError(f"{option} must be an ordinary file. {path} is not.")
    _check_parent(option, path)


def _check_parent(option: str, path: Path) -> None:
    home = next(parent for parent in path.parents if parent.exists())
    if not home.is_dir() or not os.access(home, os.W_OK):
        raise UsageError(f"{option} must be in a folder that can be written. {home} is not.")


def check_plot_target(path: Path | None) -> None:
    """Refuse a picture that could not be drawn, before any work is done."""
    if path is None:
        return
    if path.suffix.lower() not in _PICTURES:
        raise UsageError(f"--plot must end in {', '.join(_PICTURES)}. Got {path.name!r} instead.")
    _check_place("--plot", path.resolve())


def save_figure(figure: Figure, path: Path) -> None:
    """Write a picture, whole or not at all."""
    from matplotlib import rc_context

    kind = path.suffix[1:].lower()
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    drawn = io.BytesIO()
    with rc_context({"svg.hashsalt": "dpkv"}):  # the same record draws the same file
        figure.savefig(drawn, format=kind, dpi=150, metadata=undated)
    _write("--plot", path.resolve(), drawn.getvalue())


def keep_record(workspace: Path, folder: str, created: str, text: str) -> Path:
    """Write a record into the workspace; names sort by time, the newest last."""
    stamp = created.replace(":", "").replace("+0000", "Z")
    try:
        home = private_folder(workspace, folder)
        number = 1 + len(list(home.glob(f"{stamp}-*.json")))
        path = home / f"{stamp}-{number:03d}.json"
        write_atomically(path, text)
    except OSError as error:
        raise UsageError(
            f"the workspace {workspace} cannot be written: {error.strerror}."
        ) from None
    return path


def write_centers(path: Path, columns: Sequence[str], centers: Floats) -> None:
    """Write centres as CSV, whole or not at all."""
    from dpkv.tables.centers import centers_csv

    _write("--out", path, centers_csv(columns, centers))


def write_public(path: Path, text: str | bytes) -> None:
    """Write a file that anybody may read, whole or not at all."""
    _write("--out", path, text)
    path.chmod(0o644)


def _write(option: str, path: Path, contents: str | bytes) -> None:
    try:
        write_atomically(path, contents)
    except OSError as error:
        raise UsageError(f"{option} {path} cannot be written: {error.strerror}.") from None
