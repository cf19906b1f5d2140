"""A release's table on the workers of a cluster: each part is a file that a worker reads itself."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, Protocol

from dpkv.engine.file_parts import FilePart, settle_bucket, tell_buckets
from dpkv.errors import TableError, UsageError
from dpkv.fingerprints import Whose
from dpkv.grid import Grid
from dpkv.records import Records
from dpkv.records.persons import EVERY_ROW, Weighing
from dpkv.records.remote import Carrier, RemoteRecords
from dpkv.records.spread import count_persons
from dpkv.releases.inputs import FileInput
from dpkv.releases.plan import Plan
from dpkv.tables.facts import TableFacts
from dpkv.tables.person_keys import SECRET_BYTES, Reading
from dpkv.types import Floats, Progress


class PartCarrier(Carrier, Protocol):
    """A carrier whose workers can be told to hold the parts in another way."""

    def move_to(self, shards: list[FilePart]) -> None:
        """Ask for these parts from now on."""

    def shuffle(
        self,
        tell: Callable[[FilePart, int], Any],
        settle: Callable[[Sequence[Any]], Any],
    ) -> None:
        """Have parts tell buckets of their persons, and give parts what buckets make of it."""


Engage = Callable[[list[FilePart]], AbstractContextManager[PartCarrier]]
"""Brings up the workers for the time of a run."""


class RemoteTable:
    """Records on workers, and what to call them."""

    def __init__(
        self,
        carrier: PartCarrier,
        parts: Sequence[FilePart],
        columns: tuple[str, ...],
        label: str,
    ) -> None:
        """Have the workers read the parts as they are described."""
        self.columns = columns
        self.label = label
        self._carrier = carrier
        self._parts = list(parts)
        self._how = parts[0].how
        self._shuffle()
        self._sizes = tuple(carrier.ask_each([count_persons] * len(parts)))

    @property
    def n_records(self) -> int:
        """The number of rows, or of persons where the table names them."""
        return sum(self._sizes)

    @property
    def values(self) -> Floats:
        """Refuse: rows do not come here."""
        _refuse()

    def on_grid(self, grid: Grid, workspace: str | Path, how: Weighing = EVERY_ROW) -> Records:  # noqa: ARG002
        """Return the records on the public grid."""
        return self._held(grid, how)

    def raw(self, how: Weighing = EVERY_ROW) -> Records:
        """Return the records in the user's units, before means could be taken on a grid."""
        return self._held(None, how.shared)

    def _held(self, grid: Grid | None, how: Weighing) -> Records:
        self._carrier.move_to([replace(part, grid=grid, how=how) for part in self._parts])
        if how != self._how:
            self._how = how
            self._shuffle()
        by_person = how.persons in ("share", "limit")
        return RemoteRecords(self._carrier, self._sizes, by_person=by_person)

    def _shuffle(self) -> None:
        if self._how.persons is not None:
            self._carrier.shuffle(tell_buckets, settle_bucket)


class RemoteInput:
    """Files of a table that workers read; ``close`` lets go of the workers."""

    def __init__(self, files: FileInput, engage: Engage) -> None:
        self._files = files
        self._engage = engage
        self._running = ExitStack()
        self._grid: Grid | None = None
        self._how = EVERY_ROW
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
        self._grid, self._how = grid, plan.weighing

    def check(self) -> None:
        """Refuse a header that nothing confirms."""
        self._files.check()

    def read(self, progress: Progress | None = None) -> RemoteTable:  # noqa: ARG002
        """Have the workers read their parts."""
        secret = secrets.token_urlsafe(SECRET_BYTES)  # of this run, for its workers alone
        self._files.watch()
        how = self._how if self._grid is not None else self._how.shared
        parts = [
            replace(
                FilePart.of(path, self.facts),
                grid=self._grid,
                how=how,
                reading=Reading(secret, number),
            )
            for number, path in enumerate(self._files.files)
        ]
        carrier = self._running.enter_context(self._engage(parts))
        table = RemoteTable(carrier, parts, self.columns, self.label)
        if not table.n_records:
            raise TableError(f"{self.path} has no rows: it must hold at least one record.")
        return table

    def fingerprint(self, whose: Whose) -> str:
        """Return the keyed hash of the set of files, which must be those that were read."""
        return self._files.fingerprint(whose)


def _refuse() -> NoReturn:
    raise UsageError(
        "--bounds data and --calibration published look at all records at once: they are for "
        "--engine local."
    )
