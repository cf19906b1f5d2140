"""What ``dpkv seed`` runs on: a table in memory, shards on nodes, or a stream."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpkv.cli import options, sharding
from dpkv.cli.progress import ProgressBar
from dpkv.cli.reading import TableOptions
from dpkv.errors import ParameterError, UsageError

if TYPE_CHECKING:
    from dpkv.domain import Domain
    from dpkv.engine import Peers
    from dpkv.engine.shards import FileShard
    from dpkv.seeding import Problem, Trials
    from dpkv.types import Floats

NOT_PRIVATE = "no privacy: the centres are records, or means of records"
SIMULATED = (
    "a simulation: the seed fixes the nodes' noise, and the potentials are exact, so nothing here "
    "is private"
)
_ANYWHERE = ("kmeans++", "forgy")
_OVER_NODES = ("dk-protected", "dk-private", "kmeans-parallel", "coreset")
_OVER_STREAMS = ("sk", "ok", "kmeans-sharp", "online-kmeans")
ALGORITHMS = (*_ANYWHERE, *_OVER_NODES, *_OVER_STREAMS)
"""The names that --algorithm accepts."""

Guarantee = Callable[["Trials"], "dict[str, Any] | None"]
"""Runs with Lloyd's iterations, which estimate the optimum, to what a theorem promises."""


@dataclass(frozen=True, eq=False)
class SeedSource:
    """A problem, and what the result says of the records."""

    problem: Problem
    columns: tuple[str, ...]
    domain: Domain | None
    privacy: str = NOT_PRIVATE
    more: dict[str, Any] = field(default_factory=dict)
    guarantee: Guarantee | None = None

    @property
    def n_records(self) -> int | None:
        """Number of records, known after the run at the latest."""
        return self.problem.n_records

    def restore(self, centers: Floats) -> Floats:
        """Return centres of working coordinates in the user's."""
        return centers if self.domain is None else self.domain.from_working(centers)

    def facts(self, trials: Trials) -> dict[str, Any]:
        """Return what the algorithm's setting adds to the result.

        A guarantee needs the optimum; Lloyd's iterations estimate it, from above.
        """
        if self.guarantee is None or not trials.with_lloyd:
            return self.more
        promised = self.guarantee(trials)
        if promised is None:
            return self.more
        promised["optimum"] = trials.best.potential
        return {**self.more, "approximation_guarantee": promised}


@dataclass(frozen=True)
class SeedOptions:
    """The options of the command, as typed."""

    files: list[Path]
    in_folders: bool
    algorithm: str
    n_clusters: int
    repeat: int
    lloyd: bool
    seed: int
    columns: str | None
    header: bool | None
    bounds: str | None
    scale: bool
    missing: str | None
    memory_limit: int
    shard_by: str | None
    shards: int | None
    engine: sharding.EngineOptions
    eps: str | None
    trusted_coordinator: bool
    coreset_size: int | None
    summary_points: int | None
    builder: str | None
    stream_length: int | None
    schema: Path | None = None
    encoding: str | None = None
    decimal: str | None = None

    def check(self) -> None:
        """Refuse what does not fit together, before anything is read."""
        if self.algorithm not in ALGORITHMS:
            raise ParameterError("--algorithm", f"one of {', '.join(ALGORITHMS)}", self.algorithm)
        self.engine.check()
        self._check_own_options()
        described = (self.schema, self.encoding, self.decimal) != (None, None, None)
        if described and (self.algorithm in _OVER_STREAMS or self._on_nodes):
            raise UsageError(
                "--schema, --encoding and --decimal belong to one table: shards and streams hold "
                "numbers in UTF-8."
            )
        if self.algorithm in _OVER_STREAMS:
            self._check_stream()
        elif Path("-") in self.files:
            raise UsageError(f"- is a stream: choose one of {', '.join(_OVER_STREAMS)} for it.")
        elif self.algorithm in _OVER_NODES and not self._on_nodes:
            raise UsageError(
                f"{self.algorithm} needs shards: several files, a folder, --shard-by or --shards."
            )
        if self.algorithm == "dk-private" and (self.eps is None or self.bounds is None):
            raise UsageError("dk-private needs --eps and --bounds: its noise follows from both.")

    def _check_own_options(self) -> None:
        """Refuse an option that another algorithm has."""
        owners = {
            "--eps": (self.eps, ("dk-private",)),
            "--trusted-coordinator": (self.trusted_coordinator or None, ("dk-private",)),
            "--coreset-size": (self.coreset_size, ("coreset",)),
            "--summary-points": (self.summary_points, ("sk",)),
            "--builder": (self.builder, ("sk",)),
            "--stream-length": (self.stream_length, ("ok",)),
        }
        for name, (value, algorithms) in owners.items():
            if value is not None and self.algorithm not in algorithms:
                raise UsageError(f"{name} is for --algorithm {algorithms[0]}: leave it out.")

    def _check_stream(self) -> None:
        if len(self.files) != 1 or self._cut or self.engine.engine != "local":
            raise UsageError(
                f"{self.algorithm} reads one stream: give one file or -, and neither shards nor "
                "an engine."
            )
        path = self.files[0]
        if path == Path("-") or (path.exists() and not path.is_file()):
            again = "--repeat" if self.repeat > 1 else "--lloyd" if self.lloyd else None
            if again is not None:
                raise UsageError(f"{again} needs a stream that can be read again: give a file.")

    @property
    def _cut(self) -> bool:
        return self.shard_by is not None or self.shards is not None

    @property
    def _on_nodes(self) -> bool:
        """Whether the records are on nodes."""
        many = len(self.files) > 1 or self.in_folders
        return many or self._cut or self.engine.engine == "dask"

    @contextlib.contextmanager
    def open(self) -> Iterator[SeedSource]:
        """Open what the command runs on, for the time of the run."""
        if self.algorithm in _OVER_STREAMS:
            yield self._stream()
        elif self._on_nodes:
            shards = self._file_shards()
            with self.engine.peers(shards) as peers:
                yield self._over_peers(peers, shards[0])
        else:
            yield self._table()

    def _table(self) -> SeedSource:
        from dpkv.seeding.trials import TableProblem
        from dpkv.validation import as_records

        table = TableOptions(
            self.files[0],
            self.columns,
            self.header,
            self.bounds,
            self.scale,
            self.missing,
            self.memory_limit,
            self.schema,
            self.encoding,
            self.decimal,
        )
        prepared = table.read()
        problem = TableProblem(as_records(prepared.working), self.algorithm)
        found = prepared.table
        return SeedSource(problem, found.columns, prepared.domain)

    def _stream(self) -> SeedSource:
        from dpkv.seeding.stream_problem import StreamProblem
        from dpkv.tables import open_stream

        bar = ProgressBar(f"reading {self.files[0].name}")
        stream = open_stream(
            self.files[0],
            columns=options.split_columns(self.columns),
            header=self.header,
            bounds=None if self.bounds is None else options.parse_bounds(self.bounds),
            scaled=self.scale,
            missing=self.missing or "refuse",
            progress=bar.update,
        )
        problem = StreamProblem(
            stream,
            self.algorithm,
            summary_points=self.summary_points,
            builder=self.builder,
            n_records=self.stream_length,
        )
        return SeedSource(problem, stream.columns, stream.domain, guarantee=problem.guarantee)

    def _file_shards(self) -> list[FileShard]:
        from dpkv.domain import Domain
        from dpkv.engine.shards import FileShard
        from dpkv.tables.labels import column_names

        names = options.split_columns(self.columns)
        if names is None:
            names = [
                name for name in column_names(self.files[0], self.header) if name != self.shard_by
            ]
        domain = None
        if self.bounds is not None:
            bounds = options.parse_bounds(self.bounds)
            domain = Domain.bounded(bounds, len(names), scaled=self.scale, columns=names)
        model = FileShard(
            "",
            tuple(names),
            self.header,
            domain,
            self.missing or "refuse",
            seed=self.seed,
            memory_limit=options.memory_bytes(self.memory_limit),
            typed=self.columns is not None,
        )
        return sharding.divide_into_shards(model, self.files, self.shard_by, self.shards)

    def _over_peers(self, peers: Peers, shard: FileShard) -> SeedSource:
        from dpkv.engine.peer_problem import PeerProblem, peer_guarantee, private_problem
        from dpkv.validation import exact_eps

        more: dict[str, Any] = {"engine": self.engine.engine, "shard_sizes": list(peers.sizes)}
        problem = PeerProblem(peers, self.algorithm, coreset_size=self.coreset_size)
        privacy = NOT_PRIVATE
        if self.algorithm == "dk-private":
            assert shard.domain is not None and self.eps is not None
            problem = private_problem(
                peers,
                shard.domain,
                exact_eps("--eps", self.eps),
                self.n_clusters,
                trusted_coordinator=self.trusted_coordinator,
            )
            assert problem.plan is not None
            more["promise"] = problem.plan.to_dict()
            privacy = SIMULATED
        guarantee: Guarantee | None = None
        if self.algorithm in ("dk-private", "dk-protected"):
            spread = peers.spread()
            more |= {"spread": spread, "spread_of": "of the nodes' records about their means"}

            def guarantee(trials: Trials) -> dict[str, Any]:
                return peer_guarantee(problem, trials, spread)

        return SeedSource(problem, shard.columns, shard.domain, privacy, more, guarantee)
