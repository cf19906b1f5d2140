"""What commands print: notes to stderr, results to stdout.

Names of files and columns, ids, and sentences in files come from anywhere, and a terminal obeys
what it is sent. So everything printed goes through here, and only what a terminal merely shows gets
out; other modules of the command line print nothing themselves.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import secrets
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpkv.errors import UsageError
from dpkv.settings import find_workspace
from dpkv.unfinished import remove_abandoned, unfinished_folder
from dpkv.workspace import sync_folder, write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console
    from rich.table import Table

    from dpkv.types import Floats

_told_json = False
_UNFINISHED = ".dpkv-unfinished-"
_SHOWN_COLUMNS = 3
_PICTURES = (".svg", ".png", ".pdf")


def printable(text: str) -> str:
    """Return one line that a terminal only shows: what moves, colours or hides is escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def say(sentence: str = "") -> None:
    """Print one line of the result."""
    print(printable(sentence))


def note(sentence: str) -> None:
    """Print a sentence for the person at the terminal; it is not part of the result."""
    print(printable(sentence), file=sys.stderr, flush=True)


def print_json(result: dict[str, Any]) -> None:
    """Print one JSON object."""
    print_json_text(json.dumps(result, indent=2, allow_nan=False) + "\n")


def print_json_text(text: str) -> None:
    """Print JSON by plain writes: a console would wrap its lines.

    Outside of strings JSON has nothing that needs an escape but its line ends, and inside of them
    an escape means the same.
    """
    global _told_json  # noqa: PLW0603
    _told_json = True
    sys.stdout.write("".join(c if c.isprintable() or c == "\n" else _json_escape(c) for c in text))


def print_json_error(sentence: str, exit_code: int) -> None:
    """Print an error as JSON, unless a result was printed that tells of it."""
    if not _told_json:
        print_json({"kind": "error", "error": sentence, "exit_code": exit_code})


def _json_escape(character: str) -> str:
    return "\\u007f" if character == "\x7f" else json.dumps(character)[1:-1]


def notes_console() -> Console:
    """Return a console on stderr for what changes while it is shown; give it printable text."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, markup=False)


def print_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], *, n_words: int = 1
) -> None:
    """Print a table: the first columns, of words, to the left, numbers to the right."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for position, name in enumerate(header):
        table.add_column(printable(name), justify="left" if position < n_words else "right")
    _print_titled(title, table, rows)


def print_facts(title: str, rows: Sequence[Sequence[str]]) -> None:
    """Print a small table of names and what they are."""
    from rich import box
    from rich.table import Table

    _print_titled(title, Table(box=box.SIMPLE, show_header=False), rows)


def _print_titled(title: str, table: Table, rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console

    for row in rows:
        table.add_row(*map(printable, row))
    console = Console(highlight=False, markup=False)
    console.print(printable(title), style="bold", soft_wrap=True)
    console.print(table)


def first_few(parts: Iterable[str]) -> str:
    """Return the first few of what may be many, as a list in words."""
    shown = list(parts)
    return ", ".join([*shown[:_SHOWN_COLUMNS], *(["..."] if len(shown) > _SHOWN_COLUMNS else [])])


def check_new_folder(path: Path) -> Path:
    """Return where a new folder goes; refuse a bad place before any work is done."""
    try:
        if path.is_symlink():
            raise UsageError(f"--out must be a new folder. {path} is a link: choose another.")
        if path.is_dir() and any(path.iterdir()):
            raise UsageError(f"--out must be a new folder. {path} holds files: choose another.")
        if path.exists() and not path.is_dir():
            raise UsageError(f"--out must be a new folder. {path} is a file: choose another.")
        resolved = follow_links(path)
    except OSError as error:
        raise UsageError(f"--out {path} cannot be used: {error.strerror}.") from None
    if find_workspace().resolve() in (resolved, *resolved.parents):
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
    with contextlib.ExitStack() as stack:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            remove_abandoned(path.parent, _UNFINISHED)
            stack.enter_context(unfinished_folder(unfinished))
        except OSError as error:
            raise _unwritable(path, error) from None
        yield NewFolder(path, unfinished)


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"--out {path} cannot be written: {error.strerror}.")


def follow_links(path: Path) -> Path:
    """Return where a path leads, as far as it does: a link to itself is no error here."""
    return Path(os.path.realpath(path))  # Path.resolve raises on a loop of links


def check_target(path: Path, data: Path) -> Path:
    """Return where the output goes, links followed; refuse a bad place before any work is done."""
    path = follow_links(path)
    _check_place("--out", path)
    if path == follow_links(data):
        raise UsageError("--out must not be the table itself: choose another name.")
    return path


def check_new_file(path: Path) -> Path:
    """Return where a file goes, links followed; refuse a bad place before any work is done."""
    path = follow_links(path)
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


def write_centers(path: Path, columns: Sequence[str], centers: Floats) -> None:
    """Write centres as CSV, whole or not at all; a name that may be a formula gets an apostrophe.

    A release refuses such names instead, since its record and digests would not match.
    """
    from dpkv.tables.centers import centers_csv
    from dpkv.tables.naming import without_formula

    _write("--out", path, centers_csv([without_formula(name) for name in columns], centers))


def write_table(path: Path, text: str) -> None:
    """Write a table's text, whole or not at all."""
    _write("--out", path, text)


def write_public(path: Path, text: str | bytes) -> None:
    """Write a file that anybody may read, whole or not at all."""
    _write("--out", path, text)
    path.chmod(0o644)


def _write(option: str, path: Path, contents: str | bytes) -> None:
    try:
        write_atomically(path, contents)
    except OSError as error:
        raise UsageError(f"{option} {path} cannot be written: {error.strerror}.") from None
