"""Bounds that a release finds privately: charged by an entry of their own, found once, kept once.

    the whole eps is affordable  ->  the bounds' share is charged  ->  noisy histograms
    ->  what they show is kept, and noted in the ledger  ->  the release goes on, or stops

It stops where no bin of some column stands out of the noise: nothing is known of that column then,
and centers in a domain as wide as all numbers would be worthless. Only the share is spent, and that
it stopped may be known, since it follows from the noisy counts alone. Asking again with the same id
reads what was kept: it neither draws nor charges anew, whatever crashed in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from dpkv.domain import Domain
from dpkv.errors import BoundsNotFoundError, UsageError
from dpkv.ledger import Entry
from dpkv.noise import Entropy, OperatingSystemEntropy
from dpkv.records import Curator
from dpkv.releases.canonical import digest
from dpkv.releases.charging import Charging
from dpkv.releases.frozen import Frozen
from dpkv.releases.inputs import ReadTable
from dpkv.releases.plan import Plan
from dpkv.releases.settling import Settled
from dpkv.workspace import private_folder, write_once

_FOLDER = "bounds"
_SUFFIX = ":bounds"  # no id of a release has a colon


class KeptBounds(Frozen):
    """What the noisy histograms of a release showed; public, as everything after the noise."""

    schema_version: Literal[2] = 2
    kind: Literal["private-bounds"] = "private-bounds"
    release_id: str
    entry_digest: str
    """Of the charge that paid for them."""
    domain: dict[str, Any] | None
    unsure_columns: tuple[str, ...] = ()
    """Columns in which no bin stood out of the noise; then there is no domain."""

    @property
    def digest(self) -> str:
        """The SHA-256 that the ledger notes."""
        return digest(self.canonical())


@dataclass(frozen=True)
class PaidBounds:
    """Bounds that were found, and the charge for them; None where nobody was charged."""

    domain: Domain
    entry: Entry | None = None


def bounds_id(release_id: str) -> str:
    """Return what the ledger calls the bounds of a release."""
    return release_id + _SUFFIX


def release_of_bounds(entry_id: str | None) -> str | None:
    """Return the release whose bounds an id of the ledger stands for; None for another id."""
    if entry_id is None or not entry_id.endswith(_SUFFIX):
        return None
    return entry_id.removesuffix(_SUFFIX)


def find_bounds(settled: Settled, table: ReadTable, entropy: Entropy) -> PaidBounds:
    """Find bounds for a simulation, or for a caller who keeps the account."""
    domain, unsure = _find(settled, table, entropy)
    if domain is None:
        fate = "would be spent" if settled.simulated else "was spent"
        raise _hidden(settled.plan, unsure, fate)
    return PaidBounds(domain)


def buy_bounds(settled: Settled, table: ReadTable, charging: Charging) -> PaidBounds:
    """Return the bounds of a release, found when it is first asked for and charged for then."""
    plan, ledger, name = settled.plan, charging.ledger, bounds_id(charging.release_id)
    if ledger.read().find(name) is None:  # a release that could not go on must not spend the share
        charging.check_whole(settled, table.label)
    entry, chain = charging.charge_bounds(settled, table.label, name)
    noted = chain.kept(name) is not None
    kept = _load_or_find(settled, table, charging, entry, noted=noted)
    if kept.release_id != charging.release_id or kept.entry_digest != entry.digest:
        raise UsageError(
            f"the workspace keeps other bounds for {charging.release_id!r}: restore a backup of "
            "the workspace, or take a new id."
        )
    ledger.keep(release_id=name, record_digest=kept.digest)
    if kept.domain is None:
        raise _hidden(plan, kept.unsure_columns, "was charged")
    return PaidBounds(Domain.from_dict(kept.domain), entry)


def _load_or_find(
    settled: Settled, table: ReadTable, charging: Charging, entry: Entry, *, noted: bool
) -> KeptBounds:
    """Return the kept bounds of a charged release, found now if this is the first time.

    ``noted`` is whether the ledger said, before this, that they are kept.
    """
    ledger, name = charging.ledger, charging.release_id
    kept = _load(ledger.workspace, name)
    if kept is not None:
        return kept
    if noted:
        raise UsageError(
            f"the bounds of release {name!r} were found before, and their file is gone from the "
            "workspace: restore it from a backup, or take a new id."
        )
    domain, unsure = _find(settled, table, OperatingSystemEntropy())
    found = KeptBounds(
        release_id=name,
        entry_digest=entry.digest,
        domain=None if domain is None else domain.to_dict(),
        unsure_columns=unsure,
    )
    return _keep_first(ledger.workspace, found)


def _find(
    settled: Settled, table: ReadTable, entropy: Entropy
) -> tuple[Domain | None, tuple[str, ...]]:
    plan, finder = settled.plan, settled.finder
    assert finder is not None
    raw = table.raw(plan.weighing)
    share, unit = plan.split.parts[0], finder.unit
    ask = Curator(raw, entropy, plan.neighbours, finder.schedule(), unit=unit, charged=share)
    found = finder.run(ask, scaled=plan.scaled)
    return found.box, tuple(plan.columns[column] for column in found.unsure)


def _hidden(plan: Plan, columns: tuple[str, ...], fate: str) -> BoundsNotFoundError:
    return BoundsNotFoundError(columns, plan.split.parts[0].normalize(), fate)


def _path(workspace: Path, release_id: str) -> Path:
    return workspace / _FOLDER / f"{release_id}.json"


def _load(workspace: Path, release_id: str) -> KeptBounds | None:
    path = _path(workspace, release_id)
    try:
        return KeptBounds.model_validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, ValidationError, RecursionError):
        raise UsageError(
            f"{path} cannot be read: restore it from a backup, or take a new id."
        ) from None


def _keep_first(workspace: Path, found: KeptBounds) -> KeptBounds:
    """Keep bounds, and return those that are kept: another run's, if they came first."""
    try:
        private_folder(workspace, _FOLDER)
        write_once(_path(workspace, found.release_id), found.model_dump_json(indent=2) + "\n")
    except OSError as error:
        raise UsageError(
            f"the workspace {workspace} cannot be written ({error.strerror}): the bounds of "
            f"release {found.release_id} are charged, and asking again with its id will not charge "
            "them again."
        ) from None
    kept = _load(workspace, found.release_id)
    assert kept is not None
    return kept
