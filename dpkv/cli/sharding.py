"""Options of ``dpkv seed`` that spread the records over nodes, and what they become."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpkv.cli.progress import ProgressBar
from dpkv.errors import ParameterError, TableError, UsageError

if TYPE_CHECKING:
    from dpkv.engine import Peers, Transport
    from dpkv.engine.dask_engine import DaskTransport, Tls
    from dpkv.engine.file_parts import FilePart
    from dpkv.engine.shards import FileShard

_PANEL = "Records on many nodes"
_MOST_SHARDS = 10_000

ShardBy = Annotated[
    str | None,
    typer.Option(help="A column that names each row's shard.", rich_help_panel=_PANEL),
]
Shards = Annotated[
    int | None,
    typer.Option(help="Cut one table into this many shards.", rich_help_panel=_PANEL),
]
Engine = Annotated[
    str,
    typer.Option(help="local, or dask: nodes are Dask workers.", rich_help_panel=_PANEL),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        help="Address of a running Dask scheduler; without it one is started here.",
        rich_help_panel=_PANEL,
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(help="Number of workers in a cluster started here.", rich_help_panel=_PANEL),
]
Timeout = Annotated[
    float,
    typer.Option(help="Seconds a node may take to answer (dask).", rich_help_panel=_PANEL),
]
TlsCa = Annotated[
    str | None, typer.Option(help="TLS certificate authority, a PEM file.", rich_help_panel=_PANEL)
]
TlsCert = Annotated[
    str | None, typer.Option(help="TLS certificate, a PEM file.", rich_help_panel=_PANEL)
]
TlsKey = Annotated[
    str | None, typer.Option(help="The certificate's key, a PEM file.", rich_help_panel=_PANEL)
]

Eps = Annotated[
    str | None,
    typer.Option(help="Privacy parameter of the messages (dk-private).", rich_help_panel=_PANEL),
]
TrustedCoordinator = Annotated[
    bool,
    typer.Option(
        "--trusted-coordinator",
        help="Nodes send exact sums: only others are protected (dk-private).",
        rich_help_panel=_PANEL,
    ),
]
CoresetSize = Annotated[
    int | None,
    typer.Option(
        help="Records that nodes share (coreset). Default: 100 k.", rich_help_panel=_PANEL
    ),
]


@dataclass(frozen=True)
class EngineOptions:
    """Where nodes run, as typed."""

    engine: str
    scheduler: str | None
    workers: int | None
    timeout: float
    tls_ca: str | None
    tls_cert: str | None
    tls_key: str | None

    def check(self) -> None:
        """Refuse what does not fit together, before anything is read."""
        from dpkv.validation import positive_finite

        if self.engine not in ("local", "dask"):
            raise ParameterError("--engine", "local or dask", self.engine)
        dask_only = {
            "--scheduler": self.scheduler,
            "--workers": self.workers,
            "--tls-ca": self.tls_ca,
            "--tls-cert": self.tls_cert,
            "--tls-key": self.tls_key,
        }
        given = [name for name, value in dask_only.items() if value is not None]
        if self.engine == "local" and given:
            raise UsageError(f"{given[0]} is for --engine dask: say so, or leave it out.")
        if self.scheduler is not None and self.workers is not None:
            raise UsageError(
                "--workers is for a cluster started here: leave it or --scheduler out."
            )
        positive_finite("--timeout", self.timeout)
        self._tls()

    def _tls(self) -> Tls | None:
        from dpkv.engine.dask_engine import Tls

        files = (self.tls_ca, self.tls_cert, self.tls_key)
        if all(file is None for file in files):
            return None
        if any(file is None for file in files):
            raise UsageError("--tls-ca, --tls-cert and --tls-key go together: give all three.")
        return Tls(*map(str, files))

    @contextlib.contextmanager
    def peers(self, shards: Sequence[FileShard]) -> Iterator[Peers]:
        """Bring up the nodes for the time of a run."""
        from dpkv.engine import Peers

        with self._transport(shards) as transport:
            yield Peers(transport)

    @contextlib.contextmanager
    def carry(self, parts: Sequence[FilePart]) -> Iterator[DaskTransport]:
        """Bring up Dask workers that hold the parts of a table, for the time of a release."""
        from dpkv.engine.dask_engine import dask_transport
        from dpkv.engine.file_parts import answer_from_part

        bar = ProgressBar(f"{len(parts)} parts on the workers")
        with dask_transport(
            parts,
            work=answer_from_part,
            scheduler=self.scheduler,
            n_workers=self.workers,
            timeout=self.timeout,
            tls=self._tls(),
            waiting=bar.tick,
        ) as transport:
            yield transport

    @contextlib.contextmanager
    def _transport(self, shards: Sequence[FileShard]) -> Iterator[Transport]:
        from dpkv.engine import LocalTransport, Node
        from dpkv.engine.dask_engine import dask_transport
        from dpkv.engine.shards import load_all

        if self.engine == "dask":
            bar = ProgressBar(f"{len(shards)} nodes at work")
            with dask_transport(
                shards,
                scheduler=self.scheduler,
                n_workers=self.workers,
                timeout=self.timeout,
                tls=self._tls(),
                waiting=bar.tick,
            ) as transport:
                yield transport
            return
        with ProgressBar(f"reading {len(shards)} shards") as bar:
            loaded = load_all(shards, bar.update)
        pairs = zip(loaded, shards, strict=True)
        yield LocalTransport([Node(records, shard.secret()) for records, shard in pairs])


def table_files(data: Sequence[Path]) -> list[Path]:
    """Return the table files that DATA names; a folder stands for the tables in it."""
    from dpkv.tables.finding import tables_in

    files: list[Path] = []
    for path in data:
        if not path.is_dir():
            if path != Path("-") and not path.exists():
                raise TableError(f"{path} does not exist: check the path.")
            files.append(path)
            continue
        files += tables_in(path)
    return files


def divide_into_shards(
    shard: FileShard, files: Sequence[Path], by: str | None, parts: int | None
) -> list[FileShard]:
    """Return the shards: one a file, or those of one file by a column's labels or in equal parts.

    ``shard`` is their model: everything but the path, the part and the number.
    """
    if len(files) > 1:
        if by is not None or parts is not None:
            raise UsageError(
                "--shard-by and --shards divide one table: leave them out for several."
            )
        if len({file.resolve() for file in files}) < len(files):
            raise UsageError("a table must not be given twice: a record belongs to one shard.")
        shared = shard.memory_limit // len(files)
        found = [replace(shard, path=str(file.resolve()), memory_limit=shared) for file in files]
    elif by is not None:
        if parts is not None:
            raise UsageError("--shard-by and --shards exclude each other: leave one out.")
        found = _by_label(replace(shard, path=str(files[0].resolve())), by)
    else:
        whole = replace(shard, path=str(files[0].resolve()))
        found = [whole] if parts is None else _in_parts(whole, parts)
    return [replace(part, number=number) for number, part in enumerate(found)]


def _by_label(shard: FileShard, by: str) -> list[FileShard]:
    from dpkv.tables.labels import read_labels

    labels = sorted(set(read_labels(shard.path, by, shard.header).tolist()))
    if len(labels) > _MOST_SHARDS:
        raise UsageError(
            f"--shard-by {by!r} has over {_MOST_SHARDS} labels: choose a column with fewer."
        )
    return [replace(shard, by=by, label=label) for label in labels]


def _in_parts(shard: FileShard, parts: int) -> list[FileShard]:
    if not 1 <= parts <= _MOST_SHARDS:
        raise ParameterError("--shards", f"between 1 and {_MOST_SHARDS}", parts)
    return [replace(shard, part=(number, parts)) for number in range(parts)]
