"""Progress on stderr: a bar in a terminal, a line now and then in a log."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

from dpkv.cli import output
from dpkv.progress import told_to

_BAR_AFTER = 0.5
_LINE_AFTER, _LINE_EVERY = 2.0, 10.0
_GUESSED_FROM = 0.02  # of a stage: before that nobody knows how long the rest takes


class ProgressBar:
    """Shows the share of a piece of work that is done; quick work shows nothing.

    A context manager. ``update`` takes the share, between 0 and 1.
    """

    def __init__(self, label: str) -> None:
        self._label = label
        self._started = self._stage_began = time.monotonic()
        self._next_line = self._started + _LINE_AFTER
        self._terminal = sys.stderr.isatty()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def describe(self, label: str, share: float) -> None:
        """Report what is being done, and how much of the whole is done."""
        self._label = label
        self.update(share)

    def stage(self, label: str, share: float) -> None:
        """Report what is being done, and how much of that; another stage begins anew."""
        if label != self._label:
            self._label, self._stage_began = label, time.monotonic()
            self._next_line = self._stage_began + _LINE_AFTER
            if self._bar is not None:
                self._bar.reset(self._task, description=output.printable(label))
        self.update(share)

    def update(self, share: float) -> None:
        """Report how much is done."""
        now = time.monotonic()
        if self._terminal:
            if self._bar is None and now - self._started > _BAR_AFTER:
                self._start_bar()
            if self._bar is not None:
                shown = output.printable(self._label)
                self._bar.update(self._task, completed=share, description=shown)
        elif now >= self._next_line:
            output.note(f"{self._label}: {share:.0%}{self._left(now, share)}")
            self._next_line = now + _LINE_EVERY

    def _left(self, now: float, share: float) -> str:
        if not _GUESSED_FROM <= share < 1.0:
            return ""
        left = (now - self._stage_began) * (1.0 - share) / share
        return f", about {left:.0f} s left"

    def tick(self) -> None:
        """Show that work of unknown length goes on; for logs and terminals alike."""
        now = time.monotonic()
        if now >= self._next_line:
            output.note(f"{self._label}: {now - self._started:.0f} s")
            self._next_line = now + _LINE_EVERY

    def _start_bar(self) -> None:
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
        from rich.progress import TimeRemainingColumn as TimeLeft

        label = TextColumn("{task.description}", markup=False)  # a file name may look like markup
        columns = (label, BarColumn(), TaskProgressColumn(), TimeLeft())
        self._bar = Progress(*columns, console=output.notes_console(), transient=True)
        self._task = self._bar.add_task(output.printable(self._label), total=1.0)
        self._bar.start()


@contextlib.contextmanager
def progress_shown() -> Iterator[None]:
    """Show how far the work of a block is, stage by stage, where stages take long."""
    with ProgressBar("working") as bar, told_to(bar.stage):
        yield
