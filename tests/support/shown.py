"""What README and site show: files to write, commands to run, and what they print.

A page is walked from top to bottom in a folder of its own, in which ``datasets`` is the project's.
A fenced block with ``title="NAME"`` is a file of that name. In ``console`` blocks every line that
begins with ``$`` is a command, and the lines below are what it prints; a line ``...`` stands for
any lines, a comment ``# exit code 4`` says how the command ends. Blocks of ``python`` are run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support.run import PROGRESS

_FENCE = re.compile(r"^( *)```(\w+)([^\n]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r'title="([^"]+)"')
_EXIT = re.compile(r"\s+# exit code (\d+)$")
_NOT_RUN = re.compile(r"(python -m )?pip install |make \w+$")
"""Commands that change the environment itself: tests/packaging has tests of their own."""


@dataclass(frozen=True)
class File:
    """A file that the page shows."""

    name: str
    text: str


@dataclass(frozen=True)
class Program:
    """A program in Python."""

    text: str


@dataclass(frozen=True)
class Command:
    """A command, and what the page says that it prints."""

    line: str
    shown: str
    place: tuple[int, int]
    """Where in the page the shown lines are."""

    @property
    def typed(self) -> str:
        """The command without the page's remark."""
        return _EXIT.sub("", self.line)

    @property
    def exit_code(self) -> int:
        """What the page says of its end."""
        found = _EXIT.search(self.line)
        return int(found[1]) if found else 0

    @property
    def is_run(self) -> bool:
        """Whether a test may run it."""
        return not _NOT_RUN.match(self.typed)


Step = File | Program | Command


def steps_of(text: str) -> Iterator[Step]:
    """Yield what a page shows, in its order."""
    for block in _FENCE.finditer(text):
        indent, kind, options, body = block.groups()
        body = re.sub(rf"^{indent}", "", body, flags=re.MULTILINE) if indent else body
        title = _TITLE.search(options)
        if title is not None:
            yield File(title[1], body)
        elif kind == "python":
            yield Program(body)
        elif kind == "console":
            yield from _commands(body, block.start(4))
        else:
            assert kind not in ("sh", "bash", "shell"), "commands stand in console blocks"


def _commands(body: str, start: int) -> Iterator[Command]:
    marks = [*re.finditer(r"^\$ (.*)\n", body, re.MULTILINE)]
    ends = [mark.start() for mark in marks[1:]] + [len(body)]
    for mark, end in zip(marks, ends, strict=True):
        yield Command(mark[1], body[mark.end() : end], (start + mark.end(), start + end))


def run_command(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a line as a reader would, in a shell."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", line], cwd=folder, capture_output=True, text=True, check=False, timeout=580,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "120", "PATH": path},
    )  # fmt: skip


def run_program(text: str, folder: Path) -> None:
    """Run a program; a warning is an error."""
    subprocess.run([sys.executable, "-W", "error", "-c", text], cwd=folder, check=True, timeout=580)


def printed_by(result: subprocess.CompletedProcess[str]) -> str:
    """Return what a command printed, without progress."""
    told = [line for line in result.stderr.splitlines() if not _is_progress(line)]
    return result.stdout + "".join(f"{line}\n" for line in told)


def _is_progress(line: str) -> bool:
    return PROGRESS.fullmatch(line.strip()) is not None


def words_of(text: str) -> list[list[str]]:
    """Return the words of every line that chance, keys and clocks do not decide."""
    text = re.sub(r"calibrations/[^\s;]+", "calibrations/...", text)
    text = re.sub(r"\b\d{8}-[0-9a-f]{12}\b", "ID", text)
    text = re.sub(r"\b\d{4}-\d\d-\d\d \d\d:\d\d\b", "WHEN", text)
    text = re.sub(r"\([0-9a-f]{8}\)", "(KEY)", text)  # a keyed fingerprint
    text = re.sub(r"\b[0-9a-f]{32,64}\b", "DIGEST", text)
    text = re.sub(r"\d+ private cells", "N private cells", text)  # as many as the noise made
    text = re.sub(r"^ +\d+ +[\d,]+ .*$", "a centre", text, flags=re.MULTILINE)  # as drawn
    text = re.sub(r"(found privately, .*?:) .*(\n {9,}.*)?", r"\1 ...", text)  # as drawn
    text = re.sub(r"^ ─+ *$", "", text, flags=re.MULTILINE)  # as wide as what was drawn
    text = re.sub(r"^(potential.*: )[\d.]+( ± [\d.]+)?", r"\1...", text, flags=re.MULTILINE)
    lines = [line.split() for line in text.splitlines() if line.strip()]
    return [words for words in lines if not _is_progress(" ".join(words))]


def difference(shown: str, printed: str) -> str:
    """Return the first lines of a page that a command does not print, or nothing."""
    seen, parts = words_of(printed), _split(words_of(shown))
    place = 0
    for number, part in enumerate(parts):
        first = place if number < len(parts) - 1 or number == 0 else len(seen) - len(part)
        last = place if number == 0 else len(seen) - len(part)
        found = next((i for i in range(first, last + 1) if _alike(part, seen[i:])), None)
        if found is None:
            there = [line for line in part if not any(_alike([line], [one]) for one in seen)]
            return f"{' '.join((there or part)[0])!r} is not printed"
        place = found + len(part)
    return "" if place == len(seen) else f"{' '.join(seen[place])!r} is not shown"


def _split(lines: list[list[str]]) -> list[list[list[str]]]:
    parts: list[list[list[str]]] = [[]]
    for line in lines:
        if line == ["..."]:
            parts.append([])
        else:
            parts[-1].append(line)
    return parts


def _alike(shown: list[list[str]], seen: list[list[str]]) -> bool:
    """Tell whether lines begin with those that are shown."""
    pairs = list(zip(shown, seen, strict=False))
    return len(pairs) == len(shown) and all(
        len(one) == len(other) and all(map(_same, one, other)) for one, other in pairs
    )


def _same(shown: str, printed: str) -> bool:
    """Compare words; numbers may differ a little, as other processors round sums differently."""
    try:
        return abs(float(shown) - float(printed)) <= 0.05 * abs(float(shown))
    except ValueError:
        return shown == printed
