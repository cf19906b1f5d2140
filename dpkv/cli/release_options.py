"""The options that ``dpkv release`` and ``dpkv simulate`` share, each once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from dpkv.cli import options, sharding
from dpkv.errors import UsageError
from dpkv.mechanisms.registry import AUTO, names_in_words


@dataclass(frozen=True)
class ReleaseOptions:
    """As typed; None where the newest calibration, or a default, decides."""

    k: Annotated[
        str,
        typer.Option(
            "--k",
            help="Number of centres; or a range such as 2..12, or auto (2..64): the number is then "
            "chosen from the private cells, free of charge (synopsis).",
            show_default=False,
        ),
    ]
    data: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[DATA]...",
            help="The table: a file; or several, a folder, a quoted pattern or a .manifest that "
            "names them, with the same columns; also at s3:// or gs://. Needs --eps and --bounds. "
            "Without it, the newest calibration of this folder says which table, eps, bounds and "
            "columns.",
            show_default=False,
        ),
    ] = None
    data_option: Annotated[
        list[Path] | None, typer.Option("--data", help="The same as DATA.", show_default=False)
    ] = None
    eps: Annotated[
        float | None,
        typer.Option(help="What the whole release may cost (default: the calibration's)."),
    ] = None
    mechanism: Annotated[
        str,
        typer.Option(
            "--mechanism",
            help=f"{names_in_words()}; or {AUTO}: the one with the smallest predicted error, "
            "judged by public facts alone. kvariates is the paper's.",
        ),
    ] = AUTO
    calibration: Annotated[
        str,
        typer.Option(
            "--calibration",
            help="certified; or published: the paper's noise, conditional on the data and no "
            "end-to-end guarantee.",
        ),
    ] = "certified"
    neighbours: Annotated[
        str,
        typer.Option(
            "--neighbours",
            help="replace-one; or add-remove, where the mechanism's proof covers it.",
        ),
    ] = "replace-one"
    bounds: Annotated[
        str | None,
        typer.Option(
            "--bounds",
            help="Where records may lie, as in 'dpkv calibrate'; or private: found with a share of "
            "eps; or data: read from the records, which leaks them.",
        ),
    ] = None
    bounds_share: Annotated[
        float, typer.Option(help="The share of eps that --bounds private may cost.")
    ] = 0.1
    gamma: Annotated[
        float | None,
        typer.Option(help="Smoothing of the D^2 picks (default: the calibration's, 0.1)."),
    ] = None
    iterations: Annotated[int | None, typer.Option(help="Iterations of --mechanism lloyd.")] = None
    density: Annotated[
        str | None,
        typer.Option(
            "--density",
            help="How k-variates++ releases a record that it picked: laplace adds noise to every "
            "coordinate (the default); window takes a point near the record, or anywhere.",
        ),
    ] = None
    lloyd_steps: Annotated[
        int | None,
        typer.Option(
            "--lloyd-steps",
            help="Private Lloyd steps after k-variates++ (default: as many as should help "
            "with windows, none with noise).",
        ),
    ] = None
    delta: Annotated[
        float,
        typer.Option(
            help="Probability with which the promise may fail; it allows Gaussian noise (synopsis)."
        ),
    ] = 0.0
    clamp: Annotated[
        bool, typer.Option("--clamp/--no-clamp", help="Move centres into the bounds.")
    ] = True
    export_synopsis: Annotated[
        bool,
        typer.Option(
            "--export-synopsis",
            help="Write the private cells and counts as well (synopsis): anyone may cluster them "
            "again with any k, for free.",
        ),
    ] = False
    columns: options.Columns = None
    header: options.Header = None
    scale: options.Scale = True
    missing: options.MissingRule = None
    schema: options.SchemaFile = None
    encoding: options.Encoding = None
    decimal: options.Decimal = None
    person: Annotated[
        str | None,
        typer.Option(
            help="The column that says which person a row belongs to. A person then counts once, "
            "however many rows there are, and is what is protected.",
        ),
    ] = None
    rows_per_person: Annotated[
        int | None,
        typer.Option(
            help="Keep at most this many rows of each person (add-remove), instead of letting "
            "all rows share one weight."
        ),
    ] = None
    one_row_per_person: Annotated[
        str | None,
        typer.Option(
            metavar="mean",
            help="Replace the rows of each person by their mean, instead of letting them share "
            "one weight.",
        ),
    ] = None
    weight: Annotated[
        str | None, typer.Option(help="The column of survey weights; needs --most-weight.")
    ] = None
    most_weight: Annotated[
        float | None,
        typer.Option(help="Public upper bound of the weights; larger ones are reduced to it."),
    ] = None
    publisher: Annotated[
        str | None, typer.Option(help="Who releases this: published in the record and the report.")
    ] = None
    data_about: Annotated[
        str | None, typer.Option(help="What kind of data it is from, in words; published.")
    ] = None
    purpose: Annotated[
        str | None, typer.Option(help="What the release is for, in words; published.")
    ] = None
    memory_limit: options.MemoryLimit = 512
    engine: sharding.Engine = "local"
    scheduler: sharding.Scheduler = None
    workers: sharding.Workers = None
    timeout: sharding.Timeout = 300.0
    tls_ca: sharding.TlsCa = None
    tls_cert: sharding.TlsCert = None
    tls_key: sharding.TlsKey = None
    as_json: options.AsJson = False

    @property
    def engine_options(self) -> sharding.EngineOptions:
        """Where the records are asked."""
        return sharding.EngineOptions(
            self.engine,
            self.scheduler,
            self.workers,
            self.timeout,
            self.tls_ca,
            self.tls_cert,
            self.tls_key,
        )

    @property
    def table(self) -> list[Path] | None:
        """The files, folders and patterns that were named, if any were."""
        if self.data and self.data_option:
            raise UsageError("the table must be given once: as DATA, or by --data.")
        return self.data_option or self.data or None
