"""A release's table on the workers of a cluster: each part is a file that a worker reads itself."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn, Protocol

from dpkv.engine.file_parts import FilePart
from dpkv.errors import TableError, UsageError
from dpkv.fingerprints import Whose
from dpkv.grid import Grid
from dpkv.records import Records
from dpkv.records.persons import EVERY_ROW, Weighing
from dpkv.records.remote import Carrier, RemoteRecords, count_rows
from dpkv.releases.inputs import FileInput
from dpkv.releases.plan import Plan
from dpkv.tables.facts import TableFacts
from dpkv.types import Floats, Progress


class PartCarrier(Carrier, Protocol):
    """A carrier whose workers can be told to hold the parts in another way."""

    def move_to(self, shards: list[FilePart]) -> None:
        """Ask for these parts from now on."""


Engage = Callable[[list[FilePart]], AbstractContextManager[PartCarrier]]
"""Brings up the workers for the time of a run."""


@dataclass(frozen=True, eq=False)
class RemoteTable:
    """Records on workers, and what to call them."""

    carrier: PartCarrier
    parts: tuple[FilePart, ...]
    sizes: tuple[int, ...]
    columns: tuple[str, ...]
    label: str

    @property
    def n_records(self) -> int:
        """The number of rows."""
        return sum(self.sizes)

    @property
    def values(self) -> Floats:
        """Refuse: rows do not come here."""
        _refuse()

    def on_grid(self, grid: Grid, workspace: str | Path, how: Weighing = EVERY_ROW) -> Records:  # noqa: ARG002
        """Return the records on the public grid, each row being one."""
        assert how == EVERY_ROW
        return self._held(grid)

    def raw(self, how: Weighing = EVERY_ROW) -> Records:
        """Return the records in the user's units, each row being one."""
        assert how == EVERY_ROW
        return self._held(None)

    def _held(self, grid: Grid | None) -> Records:
        self.carrier.move_to([replace(part, grid=grid) for part in self.parts])
        return RemoteRecords(self.carrier, self.sizes)


class RemoteInput:
    """Files of a table that workers read; ``close`` lets go of the workers."""

    def __init__(self, files: FileInput, engage: Engage) -> None:
        self._files = files
        self._engage = engage
        self._running = ExitStack()
        self._grid: Grid | None = None
        self.facts: TableFacts = files.facts
        self.columns = files.columns
        self.path = files.path
        self.label = files.label

    def close(self) -> None:
        """Let go of the workers."""
        self._running.close()

    def plan_for(self, plan: Plan, grid: Grid | None) -> None:
        """Refuse what workers cannot do; note the grid, where it is known before any reading."""
        if plan.bounds == "data" or plan.calibration != "certified":
            _refuse()
        if plan.weighing != EVERY_ROW:
            raise UsageError(
                "--person, --weight and --missing ignore are for --engine local: workers count "
                "every row as one."
            )
        self._grid = grid

    def check(self) -> None:
        """Refuse a header that nothing confirms."""
        self._files.check()

    def read(self, progress: Progress | None = None) -> RemoteTable:  # noqa: ARG002
        """Have the workers read their parts."""
        parts = [FilePart.of(path, self.facts) for path in self._files.files]
        self._files.watch()
        held = [replace(part, grid=self._grid) for part in parts]
        carrier = self._running.enter_context(self._engage(held))
        sizes = tuple(carrier.ask_each([count_rows] * len(held)))
        if not sum(sizes):
            raise TableError(f"{self.path} has no rows: it must hold at least one record.")
        return RemoteTable(carrier, tuple(parts), sizes, self.columns, self.label)

    def fingerprint(self, whose: Whose) -> str:
        """Return the keyed hash of the set of files, which must be those that were read."""
        return self._files.fingerprint(whose)


def _refuse() -> NoReturn:
    raise UsageError(
        "--bounds data and --calibration published look at all records at once: they are for "
        "--engine local."
    )
