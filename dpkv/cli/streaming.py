"""Options of ``dpkv seed`` for records that pass by once."""

from __future__ import annotations

from typing import Annotated

import typer

_PANEL = "Records in a stream"

SummaryPoints = Annotated[
    int | None,
    typer.Option(
        help="Most points in the summary (sk). Default: 1000, or 20 k if that is more.",
        rich_help_panel=_PANEL,
    ),
]
BuilderName = Annotated[
    str | None,
    typer.Option(
        help="How the summary is built: facility, reservoir or grid (sk).", rich_help_panel=_PANEL
    ),
]
StreamLength = Annotated[
    int | None,
    typer.Option(
        help="Number of records in the stream (ok from a pipe, to cut it into k minibatches).",
        rich_help_panel=_PANEL,
    ),
]
