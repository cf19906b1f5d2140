"""``dpkv seed``: non-private seeding, the floor that every private release is compared with."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpkv.cli import options, output
from dpkv.cli.progress import ProgressBar
from dpkv.cli.reading import TableOptions

if TYPE_CHECKING:
    from dpkv.domain import Domain
    from dpkv.kernels import Floats
    from dpkv.seeding import Trials
    from dpkv.tables import Table

NOT_PRIVATE = "no privacy: the centres are records, or means of records"
_SHOWN_CENTERS, _SHOWN_COLUMNS = 20, 8


def seed(
    data: options.DataFile,
    k: Annotated[int, typer.Option("--k", help="Number of centres.", show_default=False)],
    algorithm: Annotated[str, typer.Option(help="kmeans++ or forgy.")] = "kmeans++",
    repeat: Annotated[int, typer.Option(help="Independent runs; the best is written.")] = 1,
    lloyd: Annotated[bool, typer.Option("--lloyd", help="Follow each run by Lloyd's.")] = False,
    random_seed: Annotated[
        int | None,
        typer.Option("--seed", help="Makes the runs reproducible (default: a fresh one)."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Where the best centres go, as CSV.")] = Path(
        "centers-not-private.csv"
    ),
    columns: options.Columns = None,
    header: options.Header = None,
    bounds: options.BoundsText = None,
    scale: options.Scale = True,
    invalid: options.Invalid = "refuse",
    memory_limit: options.MemoryLimit = 512,
    as_json: options.AsJson = False,
) -> None:
    """Seed k centres without privacy, print their potentials and write the best.

    The potential is the sum of squared distances of all records to their nearest centre. With
    --bounds the records are clipped to them, and scaled to the unit cube unless --no-scale.

    Example:  dpkv seed patients.csv --k 5 --repeat 10 --lloyd --bounds=-10,10
    """
    from dpkv.seeding import check_trials, run_trials

    random_seed = secrets.randbits(32) if random_seed is None else random_seed
    check_trials(algorithm, k, repeat, random_seed)
    target = output.check_target(out, data)
    table = TableOptions(data, columns, header, bounds, scale, invalid, memory_limit)
    prepared = table.read()
    with ProgressBar(f"seeding {k} centres") as bar:
        trials = run_trials(
            prepared.working,
            k,
            algorithm=algorithm,
            repeat=repeat,
            lloyd_steps=lloyd,
            seed=random_seed,
            progress=bar.update,
        )
    centers = prepared.restore(trials.best.centers)
    output.write_centers(target, prepared.table.columns, centers)
    result = _result(prepared.table, prepared.domain, trials, centers, out)
    if as_json:
        output.print_json(result)
    else:
        _show(result)
    output.note(f"{NOT_PRIVATE}. Do not publish them.")


def _result(
    table: Table, domain: Domain | None, trials: Trials, centers: Floats, out: Path
) -> dict[str, Any]:
    from dpkv import __version__

    return {
        "schema_version": 1,
        "kind": "seeding",
        "dpkv_version": __version__,
        "releasable": False,
        "privacy": NOT_PRIVATE,
        "n_records": table.n_records,
        "n_features": len(table.columns),
        "n_invalid": table.n_invalid,
        "columns": list(table.columns),
        "domain": None if domain is None else domain.to_dict(),
        "coordinates": "as given" if domain is None else domain.coordinates,
        **trials.to_dict(),
        "centers": centers.tolist(),
        "centers_file": str(out),
    }


def _show(result: dict[str, Any]) -> None:
    potentials = {"after seeding": [run["seeding_potential"] for run in result["runs"]]}
    if result["lloyd"]:
        potentials["after Lloyd"] = [run["potential"] for run in result["runs"]]
    rows = [
        [stage, f"{min(phis):.6g}", f"{sum(phis) / len(phis):.6g}", f"{max(phis):.6g}"]
        for stage, phis in potentials.items()
    ]
    title = (
        f"{result['algorithm']}, k = {result['k']}, {result['n_records']} records x "
        f"{result['n_features']} columns, coordinates: {result['coordinates']}"
    )
    runs = len(result["runs"])
    output.print_table(
        title,
        [f"potential, {runs} runs" if runs > 1 else "potential", "best", "mean", "worst"],
        rows,
    )
    columns = result["columns"][:_SHOWN_COLUMNS]
    centers = [
        [str(number), *(f"{x:.6g}" for x in center[:_SHOWN_COLUMNS])]
        for number, center in enumerate(result["centers"][:_SHOWN_CENTERS], start=1)
    ]
    output.print_table("best centres", ["centre", *columns], centers)
    print(f"wrote {result['centers_file']} (repeat with --seed {result['seed']})")
