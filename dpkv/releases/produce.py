"""From a plan and records to centers and their record. The order of things is the point:

    the record is drafted  ->  the ledger is charged, on disk  ->  the records are used
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
from pathlib import Path
from typing import Any

import numpy as np

from dpkv.calibration import CalibrationSettings, calibrate_working
from dpkv.domain import Domain, data_domain
from dpkv.errors import ParameterError, UsageError
from dpkv.grid import Grid
from dpkv.ledger import Account, Entry
from dpkv.noise import Entropy, OperatingSystemEntropy, SeededEntropy
from dpkv.records import curator_of
from dpkv.releases.canonical import digest
from dpkv.releases.charged_bounds import PaidBounds, buy_bounds, find_bounds
from dpkv.releases.charging import Charging
from dpkv.releases.drafting import Draft, draft_release
from dpkv.releases.inputs import ReadTable
from dpkv.releases.kept_releases import (
    forget_other_synopses,
    keep_first,
    keep_synopsis,
    load_record,
    load_synopsis,
)
from dpkv.releases.plan import Plan
from dpkv.releases.record import RELEASE_ID, ReleaseRecord, utc_now
from dpkv.releases.settling import Settled
from dpkv.releases.signing import SigningKey
from dpkv.releases.synopsis import PrivateSynopsis
from dpkv.types import Float64s, Int64s, StageProgress


@dataclass(frozen=True, eq=False)
class Release:
    """Centers in the user's coordinates, and the record of how they came about."""

    centers: Float64s
    record: ReleaseRecord
    synopsis: PrivateSynopsis | None = None
    """The private cells that the centers came from, at no further cost (mechanism "synopsis")."""
    charged_to: Charging | None = None
    """The ledger and the account in it; None where nobody was charged."""
    account: Account | None = None
    """What that account has spent and has left, this release included."""

    def to_frame(self) -> Any:
        """Return the centers as a pandas ``DataFrame``, with sizes and errors where known.

        Needs pandas. Columns are those of the table, then ``size`` and ``size_sd``, and the
        standard error of every column as ``<column>_sd``.

        Example: ``dpkv.simulate(X, k=3, eps=1, bounds=(0, 1), seed=0).to_frame()``
        """
        from dpkv.releases.frames import frame_of  # noqa: PLC0415 (needs pandas)

        return frame_of(self.record)

    def write(self, folder: str | Path) -> tuple[Path, ...]:
        """Write centers, record and synopsis, where there is one, to a new folder.

        Returns the files. The folder must not exist, or be empty.
        """
        from dpkv.releases.files import write_files  # noqa: PLC0415 (it needs records)

        return write_files(Path(folder), self.record, self.synopsis)

    def _repr_html_(self) -> str:
        """Return the groups as a table, for notebooks."""
        from dpkv.releases.frames import html_of  # noqa: PLC0415 (rarely needed)

        return html_of(self.record)

    def __repr__(self) -> str:
        plan = self.record.plan
        told = f"{self.record.kind} of {len(self.centers)} centers by {plan.mechanism}: "
        told += self.record.summary
        if self.charged_to is not None:
            told += f" Charged to {self.charged_to.dataset} in {self.charged_to.ledger.place}."
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
    settled: Settled,
    table: ReadTable,
    charging: Charging | None,
    *,
    key: SigningKey | None = None,
    workspace: str | Path = ".dpkv",
) -> Release:
    """Charge and release. Without ``charging`` nothing is charged or kept."""
    assert not settled.simulated
    _check_table(settled, table)
    draft = draft_release(settled)
    if charging is None:
        return _sign(_run_uncharged(draft, table, OperatingSystemEntropy(), workspace), key)
    plan, ledger, name = settled.plan, charging.ledger, charging.release_id
    private = plan.bounds == "private"
    charging.tell(settled)
    paid = None
    if private and ledger.read().find(name) is None:
        paid = buy_bounds(settled, table, charging)  # stops here where the noise hides them
        draft = draft.fit(paid.domain)
    entry, chain = charging.charge(settled, table.label)
    kept = load_record(ledger.workspace, name)  # after the chain: who notes a release has kept it
    if kept is None:
        if chain.kept(name) is not None:
            raise UsageError(
                f"release {name!r} was made before, and its file is gone from the workspace: "
                "restore it from a backup, or take a new id."
            )
        if paid is None:
            paid = buy_bounds(settled, table, charging) if private else _open_bounds(plan, table)
        produced = _produce(
            draft, table, paid, OperatingSystemEntropy(), ledger.workspace, name, entry
        )
        if produced.synopsis is not None:  # before the record, which makes it count
            keep_synopsis(ledger.workspace, name, produced.synopsis)
        kept = keep_first(ledger.workspace, name, _sign(produced, key).record)
    _check_kept(kept, plan, entry, key)
    forget_other_synopses(ledger.workspace, kept)
    chain = ledger.keep(release_id=name, record_digest=digest(kept.canonical())).chain
    synopsis = load_synopsis(ledger.workspace, kept)
    account = chain.account(charging.dataset)
    return Release(np.asarray(kept.centers), kept, synopsis, charging, account)


def _check_table(settled: Settled, table: ReadTable) -> None:
    if settled.plan.columns != table.columns:
        raise UsageError("the plan is for other columns than the records have.")
    if settled.n_records != table.n_records:
        raise UsageError("the plan was settled for another number of records.")


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
    settled: Settled, table: ReadTable, *, seed: int, workspace: str | Path = ".dpkv"
) -> Release:
    """Run the same code with seeded draws: no ledger, and nothing that may be released."""
    assert settled.simulated
    entropy = SeededEntropy(seed)
    _check_table(settled, table)
    return _run_uncharged(draft_release(settled), table, entropy, workspace)


def _run_uncharged(
    draft: Draft, table: ReadTable, entropy: Entropy, workspace: str | Path
) -> Release:
    settled = draft.settled
    if settled.finder is not None:
        found = find_bounds(settled, table, entropy)
    else:
        found = _open_bounds(settled.plan, table)
    return _produce(draft, table, found, entropy, workspace, None, None)


def _open_bounds(plan: Plan, table: ReadTable) -> PaidBounds:
    """Return bounds that cost nothing: given ones, or those of the data, which leak."""
    if plan.bounds == "data":
        return PaidBounds(data_domain(table.values, scaled=plan.scaled))
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


def _produce(
    draft: Draft,
    table: ReadTable,
    bounds: PaidBounds,
    entropy: Entropy,
    workspace: str | Path,
    release_id: str | None,
    entry: Entry | None,
) -> Release:
    # The time of the charge: one that is taken at the end would tell how long the run took.
    created = utc_now() if entry is None else entry.created
    draft = draft.fit(bounds.domain)
    plan, mechanism, domain = draft.settled.plan, draft.mechanism, bounds.domain
    grid = mechanism.grid
    records = table.on_grid(grid, workspace, plan.weighing)
    charged = plan.split.parts[-1] if mechanism.is_proved else None
    made = mechanism.run(curator_of(mechanism, records, entropy, charged=charged))
    released = grid.clip(made.centers) if plan.clamp else made.centers
    centers = restore_centers(grid, domain, released)
    synopsis = None
    if made.cells is not None:
        synopsis = PrivateSynopsis.of(
            made.cells,
            guarantee=draft.settled.promise,
            release_id=release_id,
            columns=table.columns,
            domain=domain,
            grid_bits=plan.grid_bits,
            per=mechanism.unit.per,
        )
    record = draft.fill_in(
        released,
        centers,
        made,
        release_id=release_id,
        created=created,
        entry=entry,
        bounds=bounds,
        synopsis=synopsis,
    )
    return Release(centers, record, synopsis)


def restore_centers(grid: Grid, domain: Domain, points: Int64s) -> Float64s:
    """Return grid points in the user's coordinates; one inside the grid never leaves the domain.

    Depends on the public grid and the points alone.
    """
    values = grid.restore(points)
    inside = (grid.clip(points) == points).all(axis=1)
    values[inside] = domain.clip(values[inside])
    return values


def _sign(release: Release, key: SigningKey | None) -> Release:
    if key is None:
        return release
    return replace(release, record=key.sign(release.record))
