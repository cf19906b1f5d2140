"""``dpkv calibrate``: how much noise each calibration needs, for every k of interest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpkv.cli import options, output
from dpkv.cli.kept_calibrations import keep_calibration
from dpkv.cli.progress import ProgressBar
from dpkv.cli.reading import TableOptions, units_of
from dpkv.settings import find_workspace

if TYPE_CHECKING:
    from dpkv.calibration import Calibration
    from dpkv.calibration.record import Row

_END_TO_END = "eps-DP end to end, whatever the data"
_LEAKED = "not end to end here, the bounds were read from the data"
_SHOWN_COLUMNS = 3
_LEGEND = (
    "e exact, c certified (errs toward privacy), * and r the paper's random search",
    "(underestimates the spread); centre moves by: typical distance of a noisy centre",
    "from its record, over the domain's diameter",
)
_CHOOSE_WITHOUT_THE_DATA = (
    "choose k, mechanism, gamma and columns without looking at the data: the published figures",
    "depend on them, and no guarantee covers a choice that was made by those",
)
_OF_SINGLE_ROWS = (
    "below: the noise of the paper's mechanism, as if every row were a person of its own"
)
_BY_RANDOM_SEARCH = ("spread*", "monot.*", "eps~*")


def calibrate(
    data: options.DataFile,
    eps: Annotated[
        float, typer.Option(help="Privacy parameter of a whole release.", show_default=False)
    ],
    k: Annotated[
        str | None,
        typer.Option("--k", help="Numbers of centres: 4, or 2,4,8, or 2..10 (the default)."),
    ] = None,
    gamma: Annotated[
        float, typer.Option(help="Smoothing of the certified calibration; public.")
    ] = 0.1,
    method: Annotated[
        str, typer.Option(help="Spread and monotonicity: auto, exact, certified or randomized.")
    ] = "auto",
    n_est: Annotated[
        int, typer.Option(help="Number of draws for the paper's randomised estimates.")
    ] = 5000,
    radius_convention: Annotated[
        str, typer.Option(help="R of the published formula: diameter (sound) or radius.")
    ] = "diameter",
    seed: Annotated[int, typer.Option(help="Seed of the random searches.")] = 0,
    plot: Annotated[
        Path | None, typer.Option(help="Plot sigma against k into this file: .svg, .png or .pdf.")
    ] = None,
    columns: options.Columns = None,
    header: options.Header = None,
    bounds: options.BoundsText = None,
    scale: options.Scale = True,
    missing: options.MissingRule = None,
    schema: options.SchemaFile = None,
    encoding: options.Encoding = None,
    decimal: options.Decimal = None,
    memory_limit: options.MemoryLimit = 512,
    as_json: options.AsJson = False,
) -> None:
    """Show how much noise a release of k centres needs, and how accurate it would be.

    The certified noise (Theorem A) holds end to end and depends on nothing private. The published
    noise follows the paper's formula: it is conditional on the data. Without --bounds they are read
    from the data, which leaks them.

    Example:  dpkv calibrate patients.csv --eps 1 --k 2..6 --bounds=-10,10
    """
    from dpkv.calibration import DEFAULT_K, CalibrationSettings, calibrate_working
    from dpkv.releases.inputs import WatchedFile
    from dpkv.validation import whole_number

    settings = CalibrationSettings(eps, gamma, method, n_est, radius_convention)  # type: ignore[arg-type]
    whole_number("seed", seed, at_least=0)
    wanted = None if k is None else options.parse_counts(k)
    output.check_plot_target(plot)
    table = TableOptions(
        data, columns, header, bounds, scale, missing, memory_limit, schema, encoding, decimal
    )
    file = WatchedFile(data)
    prepared = table.read(data_bounds=True, for_release=True)
    facts = prepared.facts
    assert prepared.domain is not None
    working = prepared.working.astype("float64", copy=False)
    with ProgressBar("calibrating") as bar:
        record = calibrate_working(
            working,
            prepared.domain,
            settings,
            k=wanted,
            rng=seed,
            progress=bar.describe,
            units=units_of(prepared.table, facts),
        )
    record = record.model_copy(
        update={
            "columns": prepared.table.used,
            "schema_file": None if table.schema_file is None else str(table.schema_file.resolve()),
            "encoding": encoding,
            "decimal": decimal,
            "data_file": str(data.resolve()),
            "data_fingerprint": file.fingerprint(find_workspace()),
            "header": header,
            "missing": missing,
            "person": facts.person,
        }
    )
    if plot is not None:
        _draw(record, plot)
    kept = keep_calibration(find_workspace(), record)
    for sentence in record.notes:
        output.note(f"warning: {sentence}.")
    if as_json:
        output.print_json_text(record.to_json())
    else:
        read = prepared.table
        _show(record, read.columns, header_guessed=not read.names_confirmed)
    if wanted is None and record.rows[-1].k < DEFAULT_K[-1]:
        output.note(f"k goes up to {record.rows[-1].k} only: there are no more records.")
    output.note(
        f"kept for the curator in {kept}" + ("" if plot is None else f"; plot written to {plot}")
    )


def _draw(record: Calibration, path: Path) -> None:
    from dpkv.calibration.plot import sigma_figure

    output.save_figure(sigma_figure(record), path)


def _show(record: Calibration, names: tuple[str, ...], *, header_guessed: bool) -> None:
    public = record.domain["source"] != "data"
    output.say(f"eps = {record.eps:g}, {record.neighbours} neighbours, {_protecting(record)}")
    persons = "" if record.unit == "row" else f" of {record.n_units} persons"
    output.say(
        f"{record.n_records} x {record.n_features} records{persons}, bounds: "
        f"{record.domain['source']}, coordinates: {record.coordinates}"
    )
    output.say()
    _show_forecasts(record, names)
    if record.unit == "person":
        output.say(_OF_SINGLE_ROWS)
    output.print_table(
        f"certified noise (Theorem A): {_END_TO_END if public else _LEAKED}",
        ["k", "eps~", "sigma", "Laplace sigma_2", "less noise", "centre moves by"],
        [_certified_cells(row) for row in record.rows],
    )
    output.print_table(
        "windows in place of that noise (dpkv release --density window): the same eps~",
        ["k", "rho", "side of a window", "centre inside it", "centre moves by"],
        [_window_cells(row) for row in record.rows],
    )
    output.print_table(
        "published noise: conditional on the data, not an end-to-end guarantee",
        ["k", "spread", "monotonicity", "eps~", "sigma_1", *_BY_RANDOM_SEARCH],
        [_published_cells(row) for row in record.rows],
    )
    for sentence in _LEGEND:
        output.say(sentence)
    output.say(f"no calibration can have eps~ above {record.eps_tilde_ceiling:.4g} here")
    for row in record.rows:
        for sentence in row.notes:
            output.say(f"k = {row.k}: {sentence}")
    _advise(record, header_guessed=header_guessed)
    for sentence in _CHOOSE_WITHOUT_THE_DATA:
        output.say(sentence)


def _protecting(record: Calibration) -> str:
    if record.unit == "row":
        return "protecting one row"
    return f"protecting one person (column {record.person})"


def _show_forecasts(record: Calibration, names: tuple[str, ...]) -> None:
    """Lead with what a curator wants to know: which mechanism, how far off, at what eps half so."""
    few = names[:_SHOWN_COLUMNS]
    public = record.domain["source"] != "data"
    output.print_table(
        "what 'dpkv release' would do, and how far off a centre would typically be"
        + (": public facts alone" if public else ", in bounds read from the data"),
        ["k", "mechanism", *(f"off in {name}" for name in few), "half of that at"],
        [_forecast_cells(row, len(few)) for row in record.rows],
        n_words=2,
    )


def _forecast_cells(row: Row, n_shown: int) -> list[str]:
    found = row.forecast
    if found is None:
        return [str(row.k), "none can have this eps", *[""] * n_shown, "-"]
    off = [f"{deviation:.2g}" for deviation in found.deviations[:n_shown]]
    if found.hopeless:
        off = ["no better than without data", *[""] * (n_shown - 1)]
    half = "-" if found.eps_for_half is None or found.hopeless else f"eps = {found.eps_for_half:g}"
    return [str(row.k), found.mechanism, *off, half]


def _advise(record: Calibration, *, header_guessed: bool) -> None:
    """Say what to do next. A release is never guessed a header for."""
    asked = f"dpkv release --k {record.rows[-1].k}" + (" --header" if header_guessed else "")
    if record.domain["source"] == "data":
        output.say("next: find bounds that are public, and calibrate again with --bounds; or let a")
        output.say(f"release find them privately: {asked} --bounds private")
    else:
        output.say(f"next: choose the k that you need, and release: {asked}")


def _certified_cells(row: Row) -> list[str]:
    certified, sigma_2 = row.certified, row.laplace.sigma
    ratio = sigma_2 / certified.sigma if certified.sigma else 1.0
    return [
        str(row.k),
        f"{certified.eps_tilde:.4g}",
        f"{certified.sigma:.4g}",
        f"{sigma_2:.4g}",
        f"{ratio:.1f}x",
        f"{certified.noise_share:.1%}",
    ]


def _window_cells(row: Row) -> list[str]:
    window = row.window
    return [
        str(row.k),
        f"{window.ratio:.4g}",
        f"{window.side:.1%} of the bounds",
        f"{window.near:.1%}",
        f"{window.noise_share:.1%}",
    ]


def _published_cells(row: Row) -> list[str]:
    sample = row.randomized
    careful = [_shown(row.published.eps_tilde), _shown(row.published.sigma)]
    random = ["-"] * len(_BY_RANDOM_SEARCH)
    if sample is not None:
        random = list(map(_shown, (sample.spread, sample.monotonicity, sample.eps_tilde)))
    figures = [
        f"{_shown(row.spread)} {row.spread_method[0]}",
        f"{_shown(row.monotonicity)} {row.monotonicity_method[0]}",
    ]
    return [str(row.k), *(figures if sample else ["-", "-"]), *careful, *random]


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
