"""From a plan and records to centers and their record. The order of things is the point:

    everything public is checked  ->  the ledger is charged, on disk  ->  the records are used
    ->  the release is kept in the workspace  ->  only then does anybody else see it

Bounds that are found privately go the same way before it, with a charge of their own.
So a crash at any moment leaves at most one charge and at most one set of centers for a release id,
and never centers without a charge. Asking again with the same id finishes or repeats that release;
it neither draws nor charges anew.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np

from dpkv.accounting import cost_of
from dpkv.accounting.exact import float_above, upward
from dpkv.calibration import CalibrationSettings, calibrate_working
from dpkv.domain import Box, Domain, data_domain
from dpkv.errors import ParameterError, UsageError
from dpkv.grid import Grid
from dpkv.ledger import Entry
from dpkv.mechanisms import (
    AUTO,
    Choice,
    Mechanism,
    Neighbours,
    PrivateBounds,
    Published,
    Terms,
    choose,
    describe,
    for_terms,
)
from dpkv.noise import Entropy, OperatingSystemEntropy, SeededEntropy
from dpkv.records import ArrayRecords, curator_of
from dpkv.releases.canonical import digest
from dpkv.releases.charged_bounds import (
    PaidBounds,
    bounds_mechanism,
    buy_bounds,
    find_bounds,
)
from dpkv.releases.charging import Charging
from dpkv.releases.guarantee import guarantee, not_protected, warnings_of
from dpkv.releases.inputs import Records
from dpkv.releases.kept_releases import (
    forget_other_synopses,
    keep_first,
    keep_synopsis,
    load_record,
    load_synopsis,
)
from dpkv.releases.plan import Plan, check_width
from dpkv.releases.record import (
    OS_RANDOMNESS,
    RELEASE_ID,
    SEEDED,
    BoundsRecord,
    GridRecord,
    LedgerReference,
    ReleaseRecord,
    all_steps,
    noise_records,
    step_records,
    utc_now,
)
from dpkv.releases.signing import SigningKey
from dpkv.releases.synopsis import PrivateSynopsis
from dpkv.tables.centers import centers_csv
from dpkv.tables.store import map_rows
from dpkv.types import Float64s, Int64s, StageProgress
from dpkv.validation import cluster_count

_UP = upward(200)


@dataclass(frozen=True, eq=False)
class Release:
    """Centers in the user's coordinates, and the record of how they came about."""

    centers: Float64s
    record: ReleaseRecord
    synopsis: PrivateSynopsis | None = None
    """The private cells that the centers came from, at no further cost (mechanism "synopsis")."""
    charged_to: Charging | None = None
    """The ledger and the account in it; None where nobody was charged."""

    def __repr__(self) -> str:
        plan = self.record.plan
        told = f"{self.record.kind} of {plan.k} centers by {plan.mechanism}: {self.record.summary}"
        if self.charged_to is not None:
            told += f" Charged to {self.charged_to.dataset} in {self.charged_to.ledger.path}."
        return f"<{told}>"


def new_release_id() -> str:
    """Return a fresh id: the day, and 48 random bits."""
    return f"{datetime.now(UTC):%Y%m%d}-{secrets.token_hex(6)}"


def check_release_id(release_id: str | None) -> str:
    """Return the id to use, refusing one that could not name a file."""
    if release_id is None:
        return new_release_id()
    if not isinstance(release_id, str) or not re.fullmatch(RELEASE_ID, release_id):
        raise ParameterError(
            "id", "1 to 64 letters, digits, dots, dashes or underscores", release_id
        )
    return release_id


def carry_out(
    plan: Plan,
    records: Records,
    charging: Charging | None,
    *,
    key: SigningKey | None = None,
    workspace: str | Path = ".dpkv",
) -> Release:
    """Charge and release. Without ``charging`` nothing is charged or kept."""
    plan = settle(plan, len(records.values))
    check_feasible(plan, records)
    if charging is None:
        return _signed(_uncharged(plan, records, OperatingSystemEntropy(), workspace), key)
    ledger, name = charging.ledger, charging.release_id
    private = plan.bounds == "private"
    charging.tell(plan)
    if private and ledger.find(name) is None:
        buy_bounds(plan, records, charging)  # stops here where the noise hides them
    entry = charging.charge(plan, records.label, eps=plan.split.parts[-1], delta=plan.exact_delta)
    noted = ledger.kept(name) is not None  # before looking: whoever notes a release has kept it
    kept = load_record(ledger.workspace, name)
    if kept is None:
        if noted:
            raise UsageError(
                f"release {name!r} was made before, and its file is gone from the workspace: "
                "restore it from a backup, or take a new id."
            )
        paid = buy_bounds(plan, records, charging) if private else _open_bounds(plan, records)
        produced = _produce(
            plan, records, paid, OperatingSystemEntropy(), ledger.workspace, name, entry
        )
        if produced.synopsis is not None:  # before the record, which makes it count
            keep_synopsis(ledger.workspace, name, produced.synopsis)
        kept = keep_first(ledger.workspace, name, _signed(produced, key).record)
    _check_kept(kept, plan, entry, key)
    forget_other_synopses(ledger.workspace, kept)
    ledger.keep(release_id=name, record_digest=digest(kept.canonical()))
    synopsis = load_synopsis(ledger.workspace, kept)
    return Release(np.asarray(kept.centers), kept, synopsis, charging)


def _check_kept(kept: ReleaseRecord, plan: Plan, entry: Entry, key: SigningKey | None) -> None:
    """Refuse a kept release that is not the one that was asked and charged for."""
    same = kept.ledger is not None and kept.ledger.digest == entry.digest and kept.plan == plan
    if not same or kept.release_id != entry.release_id:
        raise UsageError(
            f"the workspace keeps another release as {entry.release_id!r}: restore a backup of the "
            "workspace, or take a new id."
        )
    if key is not None and (kept.signature is None or kept.signature.public_key != key.public_key):
        raise UsageError(
            f"release {entry.release_id!r} was kept without this key's signature: ask for it "
            "without --sign, or take a new id."
        )


def rehearse(
    plan: Plan, records: Records, *, seed: int, workspace: str | Path = ".dpkv"
) -> Release:
    """Run the same code with seeded draws: no ledger, and nothing that may be released."""
    entropy = SeededEntropy(seed)
    plan = settle(plan, len(records.values))
    check_feasible(plan, records)
    return _uncharged(plan, records, entropy, workspace)


def _uncharged(plan: Plan, records: Records, entropy: Entropy, workspace: str | Path) -> Release:
    private = plan.bounds == "private"
    found = find_bounds(plan, records, entropy) if private else _open_bounds(plan, records)
    return _produce(plan, records, found, entropy, workspace, None, None)


def _open_bounds(plan: Plan, records: Records) -> PaidBounds:
    """Return bounds that cost nothing: given ones, or those of the data, which leak."""
    if plan.bounds == "data":
        return PaidBounds(data_domain(records.values, scaled=plan.scaled))
    assert plan.domain is not None
    return PaidBounds(Domain.from_dict(plan.domain))


def published_eps_tilde(
    plan: Plan, working: Float64s, domain: Domain, progress: StageProgress | None = None
) -> float:
    """Return the published calibration's eps~ for the plan's k, or refuse where there is none.

    Its searches start alike every time, so that asking again for a release asks for the same.
    """
    settings, wanted = CalibrationSettings(float(plan.eps)), [plan.k]
    row = calibrate_working(working, domain, settings, k=wanted, rng=0, progress=progress).rows[0]
    return usable_eps_tilde(plan.k, row.published.eps_tilde, row.published.note)


def usable_eps_tilde(k: int, eps_tilde: float | None, note: str) -> float:
    """Return eps~ where noise can be calibrated to it."""
    if eps_tilde is None or eps_tilde <= 0:
        reason = note or f"eps~ = {eps_tilde:.3g} is not positive"
        raise UsageError(
            f"the published calibration has no usable noise for k = {k} ({reason}): release with "
            "the certified one."
        )
    return eps_tilde


def check_feasible(plan: Plan, records: Records) -> None:
    """Refuse, before anything is charged, what could not be carried out."""
    if plan.neighbours is Neighbours.REPLACE_ONE:  # elsewhere m is private, and may be below k
        cluster_count(plan.k, len(records.values), "k")
    if plan.columns != records.columns:
        raise UsageError("the plan is for other columns than the records have.")
    width = len(plan.columns)
    domain = assumed_domain(plan)  # a cube has as wide a grid as any box
    check_width(domain, width)
    bounds_mechanism(plan)
    mechanism_of(plan, domain.grid(plan.grid_bits), len(records.values))


def _produce(
    plan: Plan,
    records: Records,
    bounds: PaidBounds,
    entropy: Entropy,
    workspace: str | Path,
    release_id: str | None,
    entry: Entry | None,
) -> Release:
    # The time of the charge: one that is taken at the end would tell how long the run took.
    created = utc_now() if entry is None else entry.created
    domain = bounds.domain
    grid = domain.grid(plan.grid_bits)
    mechanism = mechanism_of(plan, grid, len(records.values))
    points = map_rows(
        records.values, grid.quantise, mapped=records.mapped, workspace=workspace, dtype=np.int32
    )
    charged = None if mechanism.proof == "published" else plan.split.parts[-1]
    made = mechanism.run(curator_of(mechanism, ArrayRecords(points), entropy, charged=charged))
    released = grid.clip(made.centers) if plan.clamp else made.centers
    centers = restore_centers(grid, domain, released)
    synopsis = None
    if made.cells is not None:
        simulated = not isinstance(entropy, OperatingSystemEntropy)
        synopsis = PrivateSynopsis.of(
            made.cells,
            guarantee=guarantee(plan, mechanism, simulated=simulated),
            release_id=release_id,
            columns=records.columns,
            domain=domain,
            grid_bits=plan.grid_bits,
        )
    record = _record(
        plan,
        records,
        bounds,
        mechanism,
        released,
        centers,
        entropy,
        release_id,
        created,
        entry,
        synopsis,
    )
    return Release(centers, record, synopsis)


def settle(plan: Plan, n_records: int) -> Plan:
    """Return the plan with a mechanism, where that was left to dpkv: from public facts alone.

    Bounds that are found later count as a cube: predictions are relative to the domain.
    """
    if plan.exact_delta > 0:
        grid = assumed_domain(plan).grid(plan.grid_bits)
        name = _choice(plan, n_records).name if plan.mechanism == AUTO else plan.mechanism
        asked = plan.model_copy(update={"mechanism": name})
        if mechanism_of(asked, grid, n_records).delta == 0.0:  # Laplace noise is less: no use
            plan = plan.model_copy(update={"delta": "0"})
    if plan.mechanism != AUTO:
        return plan
    found = _choice(plan, n_records)
    return plan.model_copy(update={"mechanism": found.name, "chosen": found.reason})


def _choice(plan: Plan, n_records: int) -> Choice:
    return choose(_terms(plan, assumed_domain(plan).grid(plan.grid_bits), n_records))


def is_chosen_as_stated(plan: Plan, n_records: int) -> bool:
    """Tell whether a plan's reason for its mechanism is what the public facts give."""
    return plan.chosen is None or _choice(plan, n_records) == Choice(plan.mechanism, plan.chosen)


def assumed_domain(plan: Plan) -> Domain:
    """Return the domain, or a cube of as many columns where it is not known yet."""
    if plan.domain is not None:
        return Domain.from_dict(plan.domain)
    width = len(plan.columns)
    return Box((0.0,) * width, (1.0,) * width)


def mechanism_of(plan: Plan, grid: Grid, n_records: int) -> Mechanism:
    """Return the mechanism that the plan asks for, once the grid is known."""
    if plan.calibration == "published":
        if plan.eps_tilde is None:
            raise UsageError("the published calibration needs its eps~ first.")
        return Published.calibrate(plan.eps_tilde, n_clusters=plan.k, grid=grid)
    return for_terms(plan.mechanism, _terms(plan, grid, n_records))


def _terms(plan: Plan, grid: Grid, n_records: int) -> Terms:
    return Terms.of(
        plan.split.parts[-1],
        n_records=n_records,
        n_clusters=plan.k,
        grid=grid,
        neighbours=plan.neighbours,
        delta=plan.exact_delta,
        gamma=plan.gamma,
        iterations=plan.iterations,
    )


def restore_centers(grid: Grid, domain: Domain, points: Int64s) -> Float64s:
    """Return grid points in the user's coordinates; one inside the grid never leaves the domain.

    Depends on the public grid and the points alone.
    """
    values = grid.restore(points)
    inside = (grid.clip(points) == points).all(axis=1)
    values[inside] = domain.clip(values[inside])
    return values


def _record(
    plan: Plan,
    records: Records,
    bounds: PaidBounds,
    mechanism: Mechanism,
    points: Int64s,
    centers: Float64s,
    entropy: Entropy,
    release_id: str | None,
    created: str,
    entry: Entry | None,
    synopsis: PrivateSynopsis | None,
) -> ReleaseRecord:
    simulated = not isinstance(entropy, OperatingSystemEntropy)
    promise = guarantee(plan, mechanism, simulated=simulated)
    finder, domain = bounds_mechanism(plan), bounds.domain
    return ReleaseRecord(
        kind="simulation" if simulated else "release",
        visibility="public" if promise.end_to_end else "curator-only",
        releasable=promise.end_to_end,
        release_id=release_id,
        created=created,
        guarantee=promise,
        plan=plan,
        mechanism=describe(mechanism),
        title=mechanism.title,
        steps=step_records(all_steps(finder, mechanism)),
        spent=spent(finder, mechanism),
        noise=noise_records(finder, mechanism),
        randomness=SEEDED if simulated else OS_RANDOMNESS,
        bounds=BoundsRecord(
            source=plan.bounds,
            domain=domain.to_dict(),
            mechanism=None if finder is None else finder.parameters(),
            ledger=None if bounds.entry is None else LedgerReference.of(bounds.entry),
        ),
        grid=GridRecord.of(domain.grid(plan.grid_bits), plan.grid_bits),
        n_records=None if plan.neighbours is Neighbours.ADD_REMOVE else len(records.values),
        columns=records.columns,
        not_protected=not_protected(plan),
        notes=warnings_of(plan, simulated=simulated),
        centers=tuple(map(tuple, centers.tolist())),
        grid_centers=tuple(map(tuple, points.tolist())),
        clamped=plan.clamp,
        centers_digest=digest(centers_csv(records.columns, centers)),
        synopsis_digest=None if synopsis is None else synopsis.digest,
        ledger=None if entry is None else LedgerReference.of(entry),
    )


def spent(finder: PrivateBounds | None, mechanism: Mechanism) -> float | None:
    """Return what all steps cost, rounded up; None where no proof gives a figure."""
    if mechanism.proof == "published":
        return None
    return float_above(total_cost(finder, mechanism))


def total_cost(finder: PrivateBounds | None, mechanism: Mechanism) -> Decimal:
    """Return what finding the bounds and the centers cost together, rounded up.

    Pure prices add up exactly. One that holds with a delta is worked out on its own first.
    """
    if finder is not None and mechanism.delta > 0:
        return _UP.add(finder.cost(), mechanism.cost())
    return cost_of(all_steps(finder, mechanism), mechanism.delta)


def _signed(release: Release, key: SigningKey | None) -> Release:
    if key is None:
        return release
    return replace(release, record=key.sign(release.record))
