"""``dpkv.release`` and its seeded twin ``dpkv.simulate``."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Unpack

from dpkv.errors import ParameterError
from dpkv.known_tables import name_table
from dpkv.ledger import NAMED, Ledger
from dpkv.releases.charging import Charging, warn_caller
from dpkv.releases.inputs import AnyTable, FileInput, Input, ReadTable, open_input
from dpkv.releases.named_datasets import account_of_unnamed
from dpkv.releases.plan import Plan
from dpkv.releases.preparation import prepare_release
from dpkv.releases.produce import Release, carry_out, check_release_id, rehearse
from dpkv.releases.request import AnyBounds, Options, Request, fills_request
from dpkv.releases.settling import settle
from dpkv.settings import AUTO, find_workspace, workspace_or_none


@fills_request
def release(
    data: AnyTable,
    *,
    k: int | str | tuple[int, int],
    eps: float | str | Decimal,
    bounds: AnyBounds | None = None,
    workspace: str | Path | None = AUTO,
    dataset: str | None = None,
    release_id: str | None = None,
    **options: Unpack[Options],
) -> Release:
    """Release k differentially private centers of ``data``, and charge its budget for it.

    The randomness is the operating system's: there is no seed. The ledger in ``workspace`` is
    charged, on disk, before the records are used, and is never refunded.

    Parameters
    ----------
    data : (m, d) records, in the user's coordinates; a data frame of any library (pandas, polars,
        pyarrow, or one that exports Arrow), which lends its column names; or the path of a CSV or
        Parquet file.
    k : the number of centers; or a range, (2, 12) or "2..12", or "auto" (2..64), from which
        "synopsis" chooses privately, at no further cost.
    eps : what the whole release may cost.
    bounds : where records may lie: low, high for all columns, one pair per column, a mapping or a
        ``Domain``; "private" finds them with a share of eps; "data" reads them off the records,
        which leaks, and everything written says so. None takes them from a schema.
    workspace : the folder of the ledger; "auto" is the command line's: ``DPKV_WORKSPACE``, or that
        of the user's settings, or ``.dpkv`` in the current folder. None charges nobody, and the
        caller keeps the account.
    dataset : the name of the data set whose budget is charged, of your choice: all releases that
        concern the same people should bear the same. Without it a ledger knows a file by its bytes
        and an array by its exact numbers, so a part, a copy in another order or a rescaled one has
        its own budget. A data frame is asked for a name; once one was given, frames with the same
        columns are charged to it, and arrays need one.
    release_id : an id of your own. Asking again with it returns the same release, charged once.
    mechanism : "auto", the one with the smallest predicted error, from public facts alone; or a
        name in ``dpkv.mechanisms.MECHANISMS``: "kvariates" is the paper's.
    neighbours : "replace-one", or "add-remove" where the mechanism's proof covers it.
    calibration : "certified", or "published" for the paper's own noise, which is conditional on
        the data and no end-to-end guarantee.
    gamma : smoothing of the D^2 picks of "kvariates"; public.
    iterations : of "lloyd"; chosen from public facts by default.
    density : what "kvariates" releases a picked record through: "laplace", noise on every
        coordinate, its default; or "window", a point near the record or anywhere, which is closer.
    lloyd_steps : private Lloyd steps after the seeding of "kvariates"; by default as many as public
        facts predict to pay with windows, and none with noise.
    delta : the chance with which the promise may fail, for mechanisms with Gaussian noise; the
        others are pure eps and refuse it.
    bounds_share : the share of eps that private bounds may cost.
    scaled : scale a box of bounds to the unit cube.
    clamp : move the centers into the bounds, which costs nothing.
    columns : the columns to use of a file, in this order; names of the columns of an array that has
        none or others. They are published.
    header : whether the first row of a CSV file holds names. They are published, so it must be said
        here or by a schema where the first row looks like names.
    schema : the public facts of the table, as ``dpkv schema`` writes them: a file, or what
        ``dpkv.tables.schema.read_schema`` returns; the one beside a file is found. Other parameters
        override it.
    encoding : of a CSV file: utf-8, utf-16, latin-1 or cp1252.
    decimal : the decimal mark of a CSV file, "." or ",".
    missing : what a cell becomes that is no number within ±2^53, such as NaN or text: "refuse" the
        data, so that there being a release tells that no row has one; "fill:VALUE", that cell
        alone; or "ignore", with which its row is there and counts for nothing.
    person : whose a row is: the name of a file's column, or one id per row of data in memory. A
        person then counts once, whatever the number of rows, and is what the promise is about.
    rows_per_person : keep at most this many rows of each person, with weight one ("add-remove").
    one_row_per_person : "mean" makes one row of all rows of a person.
    weight : survey weights: the name of a file's column, or one number per row of data in memory.
    most_weight : their public upper bound.
    publisher : who releases this; the record and the report say so, and what follows.
    data_about : what kind of data it is from, in words.
    purpose : what it is for.

    Returns
    -------
    ``Release``: ``centers`` in the user's coordinates, ``record``, and ``synopsis`` where the
    mechanism makes one; ``to_frame()`` and ``write(folder)``.

    Examples
    --------
    >>> import numpy as np, dpkv
    >>> X = np.random.default_rng(0).random((500, 2))
    >>> done = dpkv.release(X, k=3, eps=1, bounds=(0, 1), workspace=None)
    >>> done.centers.shape, done.record.guarantee.eps
    ((3, 2), '1')
    """
    request = Request(k=k, eps=eps, bounds=bounds, **options)
    return release_table(data, request, workspace=workspace, dataset=dataset, release_id=release_id)


def release_table(
    data: AnyTable,
    request: Request,
    *,
    workspace: str | Path | None = AUTO,
    dataset: str | None = None,
    release_id: str | None = None,
    behind_steps: bool = False,
) -> Release:
    """Release what a request asks for; ``behind_steps`` where others may have changed the data."""
    if workspace is None and (release_id is not None or dataset is not None):
        raise ParameterError("workspace", "given with release_id or dataset", None)
    home = workspace_or_none(workspace)
    source, table, plan = _read(data, request, home)
    plan = plan.model_copy(update={"behind_steps": behind_steps})
    name = check_release_id(release_id)
    if home is None:
        return carry_out(settle(plan, table.n_records), table, None)
    ledger = Ledger(home)
    known = ledger.prepare()
    account = source.fingerprint(ledger.workspace) if dataset is None else name_dataset(dataset)
    if dataset is None and not isinstance(source, FileInput) and known.find(name) is None:
        own = known, ledger.workspace, account, plan.columns
        account = account_of_unnamed(*own, warn_caller)
    charging = Charging(ledger, account, name, known, table=name_table(source.fingerprint))
    charging.point_out()
    return carry_out(settle(plan, table.n_records), table, charging)


@fills_request
def simulate(
    data: AnyTable,
    *,
    k: int | str | tuple[int, int],
    eps: float | str | Decimal,
    seed: int,
    bounds: AnyBounds | None = None,
    **options: Unpack[Options],
) -> Release:
    """Run what ``release`` runs with seeded draws, for study: the result must not be released.

    The parameters are those of ``release``. No ledger is touched.

    Returns
    -------
    ``Release``, whose record says that it is not releasable.

    Examples
    --------
    >>> import numpy as np, dpkv
    >>> X = np.random.default_rng(0).random((500, 2))
    >>> dpkv.simulate(X, k=3, eps=1, bounds=(0, 1), seed=0).record.releasable
    False
    """
    request = Request(k=k, eps=eps, bounds=bounds, **options)
    _, table, plan = _read(data, request, None)
    return rehearse(settle(plan, table.n_records, simulated=True), table, seed=seed)


def _read(
    data: AnyTable, request: Request, workspace: Path | None
) -> tuple[Input, ReadTable, Plan]:
    request = request.with_schema(Path(data) if isinstance(data, (str, Path)) else None)
    source = open_input(data, request, workspace or find_workspace())
    prepared = prepare_release(request, source)
    table = prepared.read()
    return source, table, prepared.complete(table)


def name_dataset(name: str) -> str:
    """Return what a ledger calls a data set that goes by a name instead of a fingerprint."""
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise ParameterError("dataset", "a printable name", name)
    return f"{NAMED}{name}"
