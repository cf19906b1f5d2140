"""Shards: where the records of a node are, said in a way that a worker elsewhere can follow."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpkv.domain import Domain
from dpkv.errors import TableError, UsageError
from dpkv.keyed_noise import SECRET_BYTES
from dpkv.tables import open_table, prepare
from dpkv.tables.facts import Missing
from dpkv.tables.labels import Labels, read_labels
from dpkv.tables.store import MEMORY_LIMIT, state_of
from dpkv.tables.table import unreadable
from dpkv.types import Floats, Progress
from dpkv.workspace import private_folder, write_once


@dataclass(frozen=True, eq=False)
class ShardRecords:
    """A shard's records: as they are, and in the coordinates that algorithms work in."""

    original: Floats
    working: Floats


@dataclass(frozen=True)
class FileShard:
    """The records of a table file, or a part of them.

    The part is that of a ``label`` in the column ``by``, or number i of n consecutive ones,
    ``part`` (i, n), as equal as can be. The path is the worker's, and so is the secret: a key that
    is made when it is first needed, in the workspace beside the table, where any worker that has
    the shard finds it. With ``seed`` the draws are a simulation's instead.
    """

    path: str
    columns: tuple[str, ...]
    header: bool | None = None
    domain: Domain | None = None
    missing: str = "refuse"
    by: str | None = None
    label: str | None = None
    part: tuple[int, int] | None = None
    seed: int | None = None
    number: int = 0
    memory_limit: int = MEMORY_LIMIT
    typed: bool = True
    """Whether a person named the columns; names that a table lent them are not shown."""

    def load(self) -> ShardRecords:
        """Read the table, bring it into its domain, and keep the part, not the whole."""
        part = self._part(self._whole(), self._labels())
        if self.part is None or isinstance(part.original, np.memmap):
            return part
        return ShardRecords(part.original.copy(), part.working.copy())

    def _whole(self) -> ShardRecords:
        source = open_table(
            self.path,
            columns=self.columns,
            header=self.header,
            missing=Missing.parse(self.missing),
            typed=self.typed,
        )
        prepared = prepare(
            source,
            bounds=self.domain,
            memory_limit=self.memory_limit,
            workspace=self._workspace,
        )
        return ShardRecords(prepared.table.values, prepared.working)

    def _labels(self) -> Labels | None:
        return None if self.by is None else read_labels(self.path, self.by, self.header)

    def _part(self, whole: ShardRecords, labels: Labels | None) -> ShardRecords:
        kept: slice | NDArray[np.int64] = slice(None)
        if self.part is not None:
            number, parts = self.part
            m = len(whole.working)
            kept = slice(m * number // parts, m * (number + 1) // parts)
        if labels is not None:
            if len(labels) != len(whole.working):
                raise TableError(f"{self.path} was changed while it was read: run again.")
            kept = np.flatnonzero(labels == self.label)
        part = ShardRecords(whole.original[kept], whole.working[kept])
        if not len(part.working):
            raise TableError(f"{self.path}: shard {self.number + 1} has no records: use fewer.")
        return part

    def state(self) -> list[int]:
        """Return what changes whenever the file is written or replaced."""
        try:
            return state_of(Path(self.path))
        except OSError as error:
            raise unreadable(Path(self.path), error) from None

    def secret(self) -> bytes:
        """Return what fixes the node's draws; parts of one file have different ones."""
        if self.seed is not None:
            return simulate_secret(self.seed, self.number)
        which = repr((Path(self.path).name, self.by, self.label, self.part)).encode()
        key = load_secret(self._workspace)
        return hashlib.blake2b(which, key=key, digest_size=SECRET_BYTES).digest()

    @property
    def _workspace(self) -> Path:
        return Path(self.path).resolve().parent / ".dpkv"


def load_all(shards: Sequence[FileShard], progress: Progress | None = None) -> list[ShardRecords]:
    """Load shards on this machine, reading a file once for all of its parts."""
    whole: dict[str, tuple[ShardRecords, Labels | None]] = {}
    loaded = []
    for number, shard in enumerate(shards):
        if shard.path not in whole:
            whole = {shard.path: (shard._whole(), shard._labels())}
        loaded.append(shard._part(*whole[shard.path]))
        if progress is not None:
            progress((number + 1) / len(shards))
    return loaded


def simulate_secret(seed: int, number: int) -> bytes:
    """Return the key of a simulated node: anybody who knows the seed knows it."""
    text = f"simulation {seed} {number}".encode()
    return hashlib.blake2b(text, digest_size=SECRET_BYTES).digest()


def load_secret(workspace: Path) -> bytes:
    """Return the key of a workspace's nodes, made when it is first needed."""
    try:
        path = private_folder(workspace, "keys") / "node.key"
        if not path.exists():
            write_once(path, secrets.token_bytes(SECRET_BYTES))
        secret = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"the node's secret cannot be kept in {workspace}: {error.strerror}. Put the shard in "
            "a folder that can be written."
        ) from None
    if len(secret) != SECRET_BYTES:  # shorter, the noise could be guessed
        raise UsageError(f"{path} is damaged: remove it, and another secret will be made.")
    return secret
