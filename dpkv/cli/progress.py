"""Progress on stderr: a bar in a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Self

from dpkv.cli import output

_BAR_AFTER = 0.5
_LINE_AFTER, _LINE_EVERY = 2.0, 10.0


class ProgressBar:
    """Shows the share of a piece of work that is done; quick work shows nothing.

    A context manager. ``update`` takes the share, between 0 and 1.
    """

    def __init__(self, label: str) -> None:
        self._label = label
        self._started = time.monotonic()
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
        """Report what is being done and how much is done."""
        self._label = label
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
            output.note(f"{self._label}: {share:.0%}")
            self._next_line = now + _LINE_EVERY

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
