"""``dpkv seed``: seeding without a privacy promise, in memory, over nodes or over a stream.

The floor that every private release is compared with, and the paper's own instances.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpkv.cli import options, output, sharding, streaming
from dpkv.cli.progress import ProgressBar
from dpkv.cli.seed_sources import ALGORITHMS, SeedOptions, SeedSource
from dpkv.cli.synopsis import SynopsisFile, seed_from_synopsis
from dpkv.errors import UsageError

if TYPE_CHECKING:
    from dpkv.seeding import Trials
    from dpkv.types import Floats

_OUT = Path("centers-not-private.csv")
_SHOWN_CENTERS, _SHOWN_COLUMNS, _SHOWN_NODES = 20, 8, 12


def seed(
    data: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="DATA...",
            help="A CSV (also .gz) or Parquet table; several, or a folder of them, are shards; - "
            "is a stream on standard input.",
            readable=False,
            show_default=False,
        ),
    ] = None,
    k: Annotated[int, typer.Option("--k", help="Number of centres.", show_default=False)] = ...,  # type: ignore[assignment]
    synopsis: SynopsisFile = None,
    algorithm: Annotated[str, typer.Option(help=", ".join(ALGORITHMS) + ".")] = "kmeans++",
    repeat: Annotated[int, typer.Option(help="Independent runs; the best is written.")] = 1,
    lloyd: Annotated[
        bool, typer.Option("--lloyd", help="Continue each run with Lloyd's iterations.")
    ] = False,
    random_seed: Annotated[
        int | None,
        typer.Option(
            "--seed", help="Seed that makes the runs reproducible (default: a new one each time)."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="CSV file for the best centres.")] = _OUT,
    columns: options.Columns = None,
    header: options.Header = None,
    bounds: options.BoundsText = None,
    scale: options.Scale = True,
    missing: options.MissingRule = None,
    schema: options.SchemaFile = None,
    encoding: options.Encoding = None,
    decimal: options.Decimal = None,
    memory_limit: options.MemoryLimit = 512,
    shard_by: sharding.ShardBy = None,
    shards: sharding.Shards = None,
    engine: sharding.Engine = "local",
    scheduler: sharding.Scheduler = None,
    workers: sharding.Workers = None,
    timeout: sharding.Timeout = 300.0,
    tls_ca: sharding.TlsCa = None,
    tls_cert: sharding.TlsCert = None,
    tls_key: sharding.TlsKey = None,
    eps: sharding.Eps = None,
    trusted_coordinator: sharding.TrustedCoordinator = False,
    coreset_size: sharding.CoresetSize = None,
    summary_points: streaming.SummaryPoints = None,
    builder: streaming.BuilderName = None,
    stream_length: streaming.StreamLength = None,
    as_json: options.AsJson = False,
) -> None:
    """Seed k centres without a privacy promise, print their potentials and write the best.

    The potential is the sum of squared distances of all records to their nearest centre. With
    --bounds the records are clipped to them, and scaled to the unit cube unless --no-scale.

    Example:  dpkv seed patients.csv --k 5 --repeat 10 --lloyd --bounds=-10,10

    Example:  dpkv seed patients.csv --k 5 --algorithm dk-protected --shards 8 --seed 1

    Example:  cat patients.csv | dpkv seed - --k 5 --algorithm sk --summary-points 500

    Example:  dpkv seed --synopsis release/synopsis.json --k 7
    """
    from dpkv.seeding import check_trials, solve

    random_seed = secrets.randbits(32) if random_seed is None else random_seed
    check_trials(k, repeat, random_seed)
    if synopsis is not None:
        said = (
            columns,
            header,
            bounds,
            shard_by,
            shards,
            eps,
            coreset_size,
            summary_points,
            builder,
            schema,
            encoding,
            decimal,
        )
        others = bool(data) or algorithm != "kmeans++" or any(one is not None for one in said)
        seed_from_synopsis(
            synopsis,
            k,
            seed=random_seed,
            out=None if out == _OUT else out,
            others=others or repeat != 1 or lloyd,
            as_json=as_json,
        )
        return
    if not data:
        raise UsageError("DATA must be given: a table, several, a folder, or - for a stream.")
    where = sharding.EngineOptions(engine, scheduler, workers, timeout, tls_ca, tls_cert, tls_key)
    asked = SeedOptions(
        files=sharding.table_files(data),
        in_folders=any(path.is_dir() for path in data),
        algorithm=algorithm,
        n_clusters=k,
        repeat=repeat,
        lloyd=lloyd,
        seed=random_seed,
        columns=columns,
        header=header,
        bounds=bounds,
        scale=scale,
        missing=missing,
        memory_limit=memory_limit,
        shard_by=shard_by,
        shards=shards,
        engine=where,
        eps=eps,
        trusted_coordinator=trusted_coordinator,
        coreset_size=coreset_size,
        summary_points=summary_points,
        builder=builder,
        stream_length=stream_length,
        schema=schema,
        encoding=encoding,
        decimal=decimal,
    )
    asked.check()
    for file in asked.files:
        target = output.check_target(out, file)
    with asked.open() as opened, ProgressBar(f"seeding {k} centres") as bar:
        trials = solve(
            opened.problem,
            k,
            repeat=repeat,
            lloyd_steps=lloyd,
            seed=random_seed,
            progress=bar.update,
        )
        centers = opened.restore(trials.best.centers)
        output.write_centers(target, opened.columns, centers)
        result = _result(opened, trials, centers, out)
    if as_json:
        output.print_json(result)
    else:
        _show(result)
    output.note(f"{result['privacy']}. Do not publish them.")


def _result(opened: SeedSource, trials: Trials, centers: Floats, out: Path) -> dict[str, Any]:
    from dpkv import __version__

    domain = opened.domain
    return {
        "schema_version": 1,
        "kind": "seeding",
        "dpkv_version": __version__,
        "releasable": False,
        "privacy": opened.privacy,
        "n_records": opened.n_records,
        "n_features": len(opened.columns),
        "columns": list(opened.columns),
        "domain": None if domain is None else domain.to_dict(),
        "coordinates": "as given" if domain is None else domain.coordinates,
        **trials.to_dict(),
        **opened.facts(trials),
        "centers": centers.tolist(),
        "centers_file": str(out),
    }


def _show(result: dict[str, Any]) -> None:
    output.print_table(*_potentials(result))
    facts = _facts(result)
    if facts:
        output.print_facts("how it ran", facts)
    columns = result["columns"][:_SHOWN_COLUMNS]
    centers = [
        [str(number), *(f"{x:.6g}" for x in center[:_SHOWN_COLUMNS])]
        for number, center in enumerate(result["centers"][:_SHOWN_CENTERS], start=1)
    ]
    output.print_table("best centres", ["centre", *columns], centers)
    output.say(f"wrote {result['centers_file']} (repeat with --seed {result['seed']})")


def _potentials(result: dict[str, Any]) -> tuple[str, list[str], list[list[str]]]:
    potentials = {"after seeding": [run["seeding_potential"] for run in result["runs"]]}
    if result["lloyd"]:
        potentials["after Lloyd"] = [run["potential"] for run in result["runs"]]
    rows = [[stage, *_range(phis)] for stage, phis in potentials.items()]
    title = (
        f"{result['algorithm']}, k = {result['k']}, {result['n_records']} records x "
        f"{result['n_features']} columns, coordinates: {result['coordinates']}"
    )
    runs = len(result["runs"])
    head = f"potential, {runs} runs" if runs > 1 else "potential"
    return title, [head, "best", "mean", "worst"], rows


def _range(phis: list[float | None]) -> list[str]:
    known = [phi for phi in phis if phi is not None]
    if not known:
        return ["not measured: the stream is gone", "", ""]
    return [f"{min(known):.6g}", f"{sum(known) / len(known):.6g}", f"{max(known):.6g}"]


def _facts(result: dict[str, Any]) -> list[list[str]]:
    """Return the rows that only some algorithms have."""
    best = result["runs"][result["best_run"]]
    rows: list[list[str]] = []
    if "shard_sizes" in result:
        sizes = result["shard_sizes"]
        shown = ", ".join(map(str, sizes[:_SHOWN_NODES])) + (", ..." * (len(sizes) > _SHOWN_NODES))
        rows.append(["nodes", f"{len(sizes)} ({result['engine']}), records: {shown}"])
    if "spread" in result:
        rows.append(["spread", f"{result['spread']:.6g}, {result['spread_of']}"])
    if "promise" in result:
        promise = result["promise"]
        rows.append(["protocol", f"eps = {promise['eps']:.6g}, {promise['neighbours']}"])
        rows.append(["against", promise["protects_against"]])
        rows.append(["holds if", promise["holds_if"]])
    if "records_shared" in best:
        rows.append(["shared", f"{best['records_shared']} records in {best['rounds']} rounds"])
    if "summary" in best:
        rows.append(["stream", best["summary"]])
    if "approximation_guarantee" in result:
        promised = result["approximation_guarantee"]
        value = "unbounded" if promised["value"] is None else f"at most {promised['value']:.6g}"
        rows.append(["theorem", f"expected potential {value}, by {promised['of']}"])
    return rows
