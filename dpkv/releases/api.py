"""``dpkv.release`` and its seeded twin ``dpkv.simulate``."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpkv.accounting.theorem_a import DEFAULT_GAMMA
from dpkv.domain import Bounds, Domain, data_domain
from dpkv.errors import ParameterError
from dpkv.fingerprints import array_fingerprint
from dpkv.ledger import NAMED, Ledger
from dpkv.releases.charging import Charging
from dpkv.releases.inputs import InputTable
from dpkv.releases.plan import DEFAULT_BOUNDS_SHARE, BoundsSource, Plan, check_width
from dpkv.releases.produce import (
    Release,
    carry_out,
    check_release_id,
    published_eps_tilde,
    rehearse,
)
from dpkv.releases.settling import settle
from dpkv.tables.naming import default_names
from dpkv.tables.prepared import fill_of
from dpkv.types import Floats
from dpkv.validation import (
    as_numbers,
    as_records,
    cluster_count,
    fill_unusable,
    one_of,
    printable_names,
    truth,
)

AnyBounds = Bounds | Domain | str


def release(
    data: ArrayLike,
    *,
    k: int,
    eps: float | str | Decimal,
    bounds: AnyBounds,
    mechanism: str = "kvariates",
    neighbours: str = "replace-one",
    calibration: str = "certified",
    gamma: float = DEFAULT_GAMMA,
    iterations: int | None = None,
    delta: float | str | Decimal = 0,
    bounds_share: float = DEFAULT_BOUNDS_SHARE,
    scaled: bool = True,
    clamp: bool = True,
    columns: Sequence[str] | None = None,
    invalid: str = "refuse",
    workspace: str | Path | None = ".dpkv",
    dataset: str | None = None,
    release_id: str | None = None,
) -> Release:
    """Release k differentially private centers of ``data``, and charge its budget for it.

    The randomness is the operating system's: there is no seed. The ledger in ``workspace`` is
    charged, on disk, before the records are used, and is never refunded.

    Parameters
    ----------
    data : (m, d) records, in the user's coordinates; a DataFrame lends its column names.
    k : the number of centers.
    eps : what the whole release may cost.
    bounds : where records may lie: low, high for all columns, one pair a column, a mapping or a
        ``Domain``; "private" finds them with a share of eps; "data" reads them off the records,
        which leaks, and everything written says so.
    mechanism : "kvariates", "laplace", "forgy", "gupt", "lloyd" or "synopsis"; or "auto", the one
        of least predicted error, from public facts alone.
    neighbours : "replace-one", or "add-remove" where the mechanism's proof covers it.
    calibration : "certified", or "published" for the paper's own noise, which is conditional on
        the data and no end-to-end guarantee.
    gamma : smoothing of the D^2 picks of "kvariates"; public.
    iterations : of "lloyd"; chosen from public facts by default.
    delta : the chance with which the promise may fail, for mechanisms with Gaussian noise; the
        others are pure eps and refuse it.
    bounds_share : the share of eps that private bounds may cost.
    scaled : scale a box of bounds to the unit cube.
    clamp : move the centers into the bounds, which costs nothing.
    columns : names of the columns, where the data have none or others. They are published.
    invalid : what becomes of rows with a cell that is no number within ±2^53, such as NaN or text:
        "refuse" the data, so that there being a release tells that no row has one; or move each
        such row to the "center" of the bounds, which must be given, and reveal nothing.
    workspace : the folder of the ledger; None charges nobody, and the caller keeps the account.
    dataset : the name of the data set whose budget is charged, of your choice: all releases that
        concern the same people should bear the same. Without it a ledger knows an array by its
        exact numbers, so a part, a copy in another order or a rescaled one has its own budget.
    release_id : an id of your own. Asking again with it returns the same release, charged once.
    """
    table, plan, given = _planned(
        data,
        bounds,
        columns,
        k=k,
        eps=eps,
        mechanism=mechanism,
        neighbours=neighbours,
        calibration=calibration,
        gamma=gamma,
        iterations=iterations,
        delta=delta,
        bounds_share=bounds_share,
        scaled=scaled,
        clamp=clamp,
        invalid=invalid,
    )
    name = check_release_id(release_id)
    if workspace is None:
        if release_id is not None or dataset is not None:
            raise ParameterError("workspace", "given with release_id or dataset", None)
        return carry_out(settle(plan, len(table.values)), table, None)
    ledger = Ledger(Path(workspace))
    known = ledger.prepare()
    if dataset is None:
        account = array_fingerprint(given, ledger.workspace)
    else:
        account = name_dataset(dataset)
    charging = Charging(ledger, account, name, known)
    return carry_out(settle(plan, len(table.values)), table, charging)


def simulate(
    data: ArrayLike,
    *,
    k: int,
    eps: float | str | Decimal,
    bounds: AnyBounds,
    seed: int,
    mechanism: str = "kvariates",
    neighbours: str = "replace-one",
    calibration: str = "certified",
    gamma: float = DEFAULT_GAMMA,
    iterations: int | None = None,
    delta: float | str | Decimal = 0,
    bounds_share: float = DEFAULT_BOUNDS_SHARE,
    scaled: bool = True,
    clamp: bool = True,
    columns: Sequence[str] | None = None,
    invalid: str = "refuse",
) -> Release:
    """Run what ``release`` runs with seeded draws, for study: the result must not be released.

    The parameters are those of ``release``. No ledger is touched.
    """
    table, plan, _ = _planned(
        data,
        bounds,
        columns,
        k=k,
        eps=eps,
        mechanism=mechanism,
        neighbours=neighbours,
        calibration=calibration,
        gamma=gamma,
        iterations=iterations,
        delta=delta,
        bounds_share=bounds_share,
        scaled=scaled,
        clamp=clamp,
        invalid=invalid,
    )
    settled = settle(plan, len(table.values), simulated=True)
    return rehearse(settled, table, seed=seed)


def _planned(
    data: ArrayLike,
    bounds: AnyBounds,
    columns: Sequence[str] | None,
    *,
    scaled: bool,
    invalid: str,
    **options: Any,
) -> tuple[InputTable, Plan, Floats]:
    """Return the checked records, the plan and the numbers as given, by which a ledger knows them.

    The plan of published noise has its eps~.
    """
    if bounds is None:
        raise ParameterError(
            "bounds", "low and high, a Domain, 'private' or 'data'", None, "They must be public."
        )
    one_of("invalid", invalid, ("refuse", "center"))
    given = as_records(data) if invalid == "refuse" else as_numbers(data)
    names = _column_names(data, given.shape[1])
    if columns is not None:
        names = printable_names("columns", columns)
    if len(names) != given.shape[1]:
        raise ParameterError("columns", f"{given.shape[1]} names", len(names))
    source, domain = as_bounds(bounds, names, scaled=scaled)
    plan = Plan.of(
        bounds=source, domain=domain, columns=names, scaled=scaled, invalid=invalid, **options
    )
    fill = fill_of(domain, invalid)
    values = given
    if fill is not None:
        values = given.copy()
        fill_unusable(values, fill)
    table = InputTable(values, names, "array")
    if plan.calibration == "published":
        cluster_count(plan.k, len(values), "k")
        domain = data_domain(values, scaled=scaled) if domain is None else domain
        working = np.asarray(domain.to_working(values), dtype=np.float64)
        found = published_eps_tilde(plan, working, domain)
        plan = plan.model_copy(update={"eps_tilde": found})
    return table, plan, given


def name_dataset(name: str) -> str:
    """Return what a ledger calls a data set that goes by a name instead of a fingerprint."""
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise ParameterError("dataset", "a printable name", name)
    return f"{NAMED}{name}"


def as_bounds(
    bounds: AnyBounds, columns: tuple[str, ...], *, scaled: bool
) -> tuple[BoundsSource, Domain | None]:
    """Return where bounds come from, and the domain where they are given."""
    if isinstance(bounds, str):
        if bounds not in ("private", "data"):
            raise ParameterError("bounds", "numbers, 'private' or 'data'", bounds)
        return ("private" if bounds == "private" else "data"), None
    domain = bounds
    if not isinstance(domain, Domain):
        wide = truth("scaled", scaled)
        domain = Domain.bounded(domain, len(columns), scaled=wide, columns=columns)
    if domain.source != "given":
        raise ParameterError(
            "bounds", "a domain that was given, not read from data", f"source {domain.source!r}"
        )
    check_width(domain, len(columns))
    return "given", domain


def _column_names(data: object, width: int) -> tuple[str, ...]:
    """Return the names that a data frame has; an array has none, nor has a frame made of one.

    What a pyarrow table calls ``columns`` are its records, and its names are ``column_names``.
    """
    labels: Any = getattr(data, "columns", None)
    if labels is None or len(labels) != width:
        return default_names(width)
    if any(hasattr(label, "__array__") and not np.isscalar(label) for label in labels):
        labels = getattr(data, "column_names", ())
    if len(labels) != width or list(labels) == list(range(width)):
        return default_names(width)
    return printable_names("columns", map(str, labels))
