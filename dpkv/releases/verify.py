"""Re-checking a release from its record: accounting, digests, ledger, signature.

Nothing stated is believed: the grid is rebuilt from the bounds, the mechanism from its description,
every price from the mechanism, and the promise from all of these. Codes and numbers are compared,
never words: a better sentence or a moved module leaves every published record as good as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from pathlib import Path

import numpy as np

from dpkv.domain import Box, Domain
from dpkv.errors import BrokenLedgerError, DpkvError, UsageError
from dpkv.grid import Grid
from dpkv.ledger import Entry, Ledger, charge_units, delta_charge_units
from dpkv.mechanisms import Mechanism, Neighbours, PrivateBounds, from_description
from dpkv.records.questions import N_MAGNITUDES, magnitude_edges
from dpkv.releases.canonical import digest
from dpkv.releases.charged_bounds import KeptBounds, bounds_id
from dpkv.releases.clusters import differ, find_contradiction
from dpkv.releases.files import centers_text
from dpkv.releases.guarantee import guarantee, not_protected, notes_of
from dpkv.releases.kept_releases import load_record
from dpkv.releases.produce import restore_centers
from dpkv.releases.record import (
    GridRecord,
    LedgerReference,
    ReleaseRecord,
    all_steps,
    noise_records,
    step_records,
)
from dpkv.releases.settling import (
    bounds_mechanism,
    is_chosen_as_stated,
    mechanism_of,
    spent,
    total_cost,
)
from dpkv.releases.signing import (
    NEEDS_CRYPTOGRAPHY,
    can_check_signatures,
    is_signed_by_its_key,
)
from dpkv.releases.synopsis import parse_synopsis

VOUCHED = "vouched for"
"""The check that says whether anybody stands behind the record, and who."""
VOUCHING = ("ledger", "kept copy", "signature")
"""Checks that cannot be made everywhere; one of them, passed, is enough for the others."""
NOBODY = "by nobody: no ledger here has it, and no key that you named signed it"


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. ``passed`` is None where it could not be."""

    name: str
    passed: bool | None
    detail: str


class _WrongError(Exception):
    """A check failed, and why."""


class _UnknownError(Exception):
    """A check could not be made, and why."""


def verify(
    record: ReleaseRecord,
    *,
    csv_text: str | None = None,
    synopsis_text: str | None = None,
    workspace: Path | None = None,
    public_key: str | None = None,
    trusted_keys: tuple[str, ...] = (),
) -> tuple[Check, ...]:
    """Return every check of a record, in order; the last says who vouches for it.

    ``csv_text`` is the published file of centers, ``synopsis_text`` that of the private synopsis,
    ``workspace`` where the curator's ledger is, ``public_key`` whose signature is expected, and
    ``trusted_keys`` whose signatures count if there is one. Any other signature counts for nothing.
    """
    job = _Verification(record, csv_text, synopsis_text, workspace, public_key, trusted_keys)
    checks = tuple(_checked(name, look) for name, look in job.checks())
    names = vouchers(record, checks)
    detail = f"by {' and '.join(names)}" if names else NOBODY
    return (*checks, Check(VOUCHED, True if names else None, detail))


def _checked(name: str, look: Callable[[], str]) -> Check:
    try:
        return Check(name, True, look())
    except _UnknownError as reason:
        return Check(name, None, str(reason))
    except _WrongError as reason:
        return Check(name, False, str(reason))
    except (DpkvError, ValueError, TypeError, KeyError, OverflowError, ArithmeticError) as error:
        detail = str(error) if isinstance(error, DpkvError) else "the record contradicts itself"
        return Check(name, False, detail)


@dataclass(frozen=True, eq=False)
class _Verification:
    record: ReleaseRecord
    csv_text: str | None
    synopsis_text: str | None
    workspace: Path | None
    public_key: str | None
    trusted_keys: tuple[str, ...]

    def checks(self) -> Iterator[tuple[str, Callable[[], str]]]:
        yield "bounds and grid", self.bounds_and_grid
        yield "mechanism", self.described
        yield "accounting", self.accounting
        yield "promise", self.promise
        yield "centres", self.centers
        yield "clusters", self.clusters
        yield "digest", self.digests
        if self.synopsis_text is not None:
            yield "synopsis", self.synopsis
        yield "ledger", self.ledger
        yield "kept copy", self.kept_copy
        yield "signature", self.signature

    @cached_property
    def domain(self) -> Domain:
        return Domain.from_dict(self.record.bounds.domain)

    @cached_property
    def grid(self) -> Grid:
        return self.domain.grid(self.record.plan.grid_bits)

    @cached_property
    def mechanism(self) -> Mechanism:
        return from_description(self.record.mechanism, self.grid)

    @cached_property
    def finder(self) -> PrivateBounds | None:
        return bounds_mechanism(self.record.plan)

    def bounds_and_grid(self) -> str:
        record, plan = self.record, self.record.plan
        _must(self.domain.n_features == len(record.columns), "bounds and columns differ in number")
        _must(plan.columns == record.columns, "the columns are not the plan's")
        _must(self.domain.to_dict() == record.bounds.domain, "the bounds are not spelled plainly")
        scaled = getattr(self.domain, "scaled", plan.scaled)
        _must(scaled == plan.scaled, "the bounds are scaled or not, unlike the plan's")
        _must(record.bounds.source == plan.bounds, "the bounds' source is not the plan's")
        _must(self.domain.source == plan.bounds, "the domain's source is not the plan's")
        _must(plan.domain in (None, record.bounds.domain), "the bounds are not the plan's")
        _must(record.grid == GridRecord.of(self.grid, plan.grid_bits), "the grid is another one")
        stated = None if self.finder is None else self.finder.parameters()
        _must(record.bounds.mechanism == stated, "the bounds' own noise is not the plan's")
        if self.finder is not None:
            _must(_from_bins(self.domain), "private bounds are no edges of the histograms' bins")
        return f"bounds {plan.bounds}, 2^{plan.grid_bits} levels"

    def described(self) -> str:
        record, plan, mechanism = self.record, self.record.plan, self.mechanism
        _must(mechanism.name == plan.mechanism, "the mechanism is not the plan's")
        stated = is_chosen_as_stated(plan, record.n_records or 1)
        _must(stated, "the mechanism is not the one that would be chosen")
        _must(mechanism.n_clusters == plan.k, "k is not the plan's")
        _must(
            mechanism.neighbours == plan.neighbours, "the neighbouring relation is not the plan's"
        )
        private_m = plan.neighbours is Neighbours.ADD_REMOVE
        _must((record.n_records is None) == private_m, "the number of records is public or not")
        needed = mechanism.n_records_needed
        _must(needed in (None, record.n_records), "the mechanism is for other records")
        _must(
            private_m or (record.n_records or 0) >= (plan.fewest or plan.k),
            "there are fewer records than centres",
        )
        seeded = record.kind == "simulation"
        randomness = "seeded" if seeded else "operating-system"
        _must(record.randomness == randomness, "randomness is misstated")
        planned = mechanism_of(plan, self.grid, record.n_records or 1)
        _must(mechanism == planned, "the mechanism is not what the plan is calibrated to")
        return mechanism.title

    def accounting(self) -> str:
        record, plan = self.record, self.record.plan
        steps = step_records(all_steps(self.finder, self.mechanism))
        _must(record.steps == steps, "the steps or their prices are not the mechanism's")
        _must(record.noise == noise_records(self.finder, self.mechanism), "the noise is another")
        total = spent(self.finder, self.mechanism)
        _must(record.spent == total, f"spent is stated as {record.spent}, and is {total}")
        if total is None:
            raise _UnknownError("no figure can be proved for the published noise")
        cost = total_cost(self.finder, self.mechanism)
        _must(cost <= plan.exact_eps, f"the steps cost {cost:.6g}, above eps = {plan.eps}")
        chance = Decimal(self.mechanism.delta)
        _must(chance <= plan.exact_delta, f"the steps need a delta above {plan.delta}")
        beyond = f", delta = {plan.delta}" if plan.exact_delta > 0 else ""
        return f"all steps cost {total:.6g} of eps = {plan.eps}{beyond} ({plan.neighbours.value})"

    def promise(self) -> str:
        record = self.record
        simulated = record.kind == "simulation"
        true = guarantee(record.plan, self.mechanism, simulated=simulated)
        _must(record.guarantee == true, "the guarantee does not follow from the mechanism")
        _must(record.releasable == true.end_to_end, "releasable is misstated")
        public = "public" if true.end_to_end else "curator-only"
        _must(record.visibility == public, "visibility is misstated")
        due = notes_of(record.plan, simulated=simulated)
        _must(record.notes == due, "a warning is missing")
        stated = not_protected(record.plan)
        _must(record.not_protected == stated, "what is not protected is misstated")
        return "end to end" if true.end_to_end else "not end to end, and says so"

    def centers(self) -> str:
        record = self.record
        points = np.asarray(record.grid_centers, dtype=np.int64)
        number = self.number_of_centers()
        _must(points.shape == (number, len(record.columns)), "there are not k centres")
        _must(record.clamped == record.plan.clamp, "clamping is misstated")
        if record.clamped:
            _must(bool((self.grid.clip(points) == points).all()), "a centre is out of bounds")
        values = restore_centers(self.grid, self.domain, points)
        same = np.array_equal(values, np.asarray(record.centers, dtype=np.float64))
        _must(same, "the centres are not those of the grid")
        return f"{number} points of the public grid"

    def number_of_centers(self) -> int:
        """Return k, or what the mechanism takes by the curve that is stated."""
        curve, k = self.record.curve, self.record.plan.k
        chosen = self.mechanism.number_for(np.asarray(() if curve is None else curve))
        _must((curve is None) == (chosen is None), "the curve over k is misstated")
        _must(len(curve or ()) <= k, "the curve over k is too long")
        return k if chosen is None else chosen

    def clusters(self) -> str:
        record, mechanism = self.record, self.mechanism
        _must(record.untold == mechanism.untold, "what the mechanism cannot tell is misstated")
        facts = record.clusters, record.potential, record.untold
        shares = mechanism.public_shares(record.n_records)
        total = None if shares is None else mechanism.unit.counted(shares)
        fault = find_contradiction(*facts, self.domain, total)
        if fault is not None:
            raise _WrongError(fault)
        if record.sizes is None:
            return "the mechanism tells no sizes, and none are stated"
        return "sizes, errors and radii are such as the mechanism tells"

    def digests(self) -> str:
        record = self.record
        _must(
            digest(centers_text(record)) == record.centers_digest,
            "the digest is not that of the centres",
        )
        made = record.synopsis_digest is not None
        _must(made == self.mechanism.makes_synopsis, "the digest of a synopsis is misstated")
        if self.csv_text is None:
            return "the record's centres match; no file of centres beside it"
        _must(digest(self.csv_text) == record.centers_digest, "the file of centres was altered")
        return "the record's centres and the file beside it match"

    def synopsis(self) -> str:
        record, text, mechanism = self.record, self.synopsis_text, self.mechanism
        assert text is not None
        _must(mechanism.makes_synopsis, "the mechanism makes no synopsis")
        _must(digest(text) == record.synopsis_digest, "the file of the synopsis was altered")
        found = parse_synopsis(text, "the synopsis")
        own = found.guarantee, found.columns, found.domain, found.release_id
        told = record.guarantee, record.columns, record.bounds.domain, record.release_id
        _must(own == told, "the synopsis is of another release")
        _must(found.visibility == record.visibility, "the synopsis's visibility is misstated")
        _must(found.grid_bits == record.plan.grid_bits, "the synopsis is on another grid")
        _must(found.per == mechanism.unit.per, "the synopsis counts in other shares")
        fault = mechanism.find_fault_in(found.cells)
        if fault is not None:
            raise _WrongError(fault)
        points = np.asarray(record.grid_centers, dtype=np.int64)
        true = mechanism.sizes_in(found.cells, points, record.n_records)
        stated = record.sizes or ()
        same = len(stated) == len(true) and not any(map(differ, stated, true.tolist()))
        _must(same, "the sizes of the clusters are not those of the cells")
        return f"{len(found.counts)} private cells, covered by the same guarantee"

    def ledger(self) -> str:
        stated, of_bounds = self.record.ledger, self.record.bounds.ledger
        separate = self.finder is not None and stated is not None
        _must((of_bounds is not None) == separate, "private bounds have a charge of their own")
        if stated is None:
            self._check_not_charged()
            here = self.workspace is not None and _has_ledger(self.workspace)
            where = ", though there is one here" if here else ""
            raise _UnknownError(f"charged to no ledger{where}")
        plan = self.record.plan
        if of_bounds is not None:
            _check_price(of_bounds, plan.split.parts[0], Decimal(0))
        _check_price(stated, plan.split.parts[-1], plan.exact_delta)
        if self.workspace is None or not _has_ledger(self.workspace):
            raise _UnknownError("no ledger here: ask the curator")
        entries, name = self._entries(), self.record.release_id
        unsigned = self.record.model_copy(update={"signature": None})  # may be signed later
        known = {digest(record.canonical()) for record in (self.record, unsigned)}
        self._check_entry(stated, entries, name, known)
        if of_bounds is not None and name is not None:
            found = KeptBounds(
                release_id=name, entry_digest=of_bounds.digest, domain=self.record.bounds.domain
            )
            self._check_entry(of_bounds, entries, bounds_id(name), {found.digest})
        return f"entry {stated.number} of {len(entries)}, chain unbroken"

    def _entries(self) -> tuple[Entry, ...]:
        """Return the ledger's entries, its chain being whole."""
        assert self.workspace is not None
        try:
            return Ledger(self.workspace).verify().entries
        except BrokenLedgerError:
            raise
        except UsageError as error:
            raise _UnknownError(str(error)) from None

    def _check_not_charged(self) -> None:
        """See that a record of no ledger does not bear the id of a release that was charged."""
        name = self.record.release_id
        if name is None or self.workspace is None or not _has_ledger(self.workspace):
            return
        charged = any(entry.release_id == name for entry in self._entries())
        _must(not charged, "this release was charged, and its record hides it")

    def _check_entry(
        self,
        stated: LedgerReference,
        entries: tuple[Entry, ...],
        name: str | None,
        known: set[str],
    ) -> None:
        """See that an entry is the charge that is stated, and what the ledger noted as its end."""
        if not 1 <= stated.number <= len(entries):
            raise _WrongError(f"the ledger has no entry {stated.number}")
        entry = entries[stated.number - 1]
        _must(entry.digest == stated.digest, "the ledger's entry is another one")
        _must(entry.release_id == name, "the entry is of another release")
        digest_of_plan = self.record.plan.digest
        _must(entry.plan_digest == digest_of_plan, "the entry was charged for another plan")
        _must(f"{entry.eps:f}" == stated.charged, "the charge is misstated")
        _must(f"{entry.delta:f}" == stated.charged_delta, "the charge is misstated")
        _must(entry.more.get("checkpoint") == stated.checkpoint, "the checkpoint is misstated")
        notes = [e for e in entries if e.kind == "kept" and e.release_id == name]
        _must(bool(notes), "the ledger does not say that this release was finished")
        _must(notes[0].record_digest in known, "the ledger noted another record of this release")

    def kept_copy(self) -> str:
        name = self.record.release_id
        if name is None:
            raise _UnknownError("the record has no id: it was never kept")
        if self.workspace is None:
            raise _UnknownError("no workspace here")
        kept = load_record(self.workspace, name)
        if kept is None:
            raise _UnknownError("the workspace keeps no release of this id")
        _must(kept == self.record, "the release that the workspace keeps differs")
        return "identical to the release in the workspace"

    def signature(self) -> str:
        stated = self.record.signature
        if stated is None:
            if self.public_key is not None:
                raise _WrongError("a signature was expected, and there is none")
            raise _UnknownError("not signed")
        if not can_check_signatures():
            raise (_WrongError if self.public_key else _UnknownError)(NEEDS_CRYPTOGRAPHY)
        _must(is_signed_by_its_key(self.record), "the signature does not fit the record")
        if self.public_key is not None:
            _must(stated.public_key == self.public_key, "signed by another key than expected")
            return "by the key expected"
        if stated.public_key not in self.trusted_keys:
            raise _UnknownError(
                f"by the key {stated.public_key}, which is unknown here: anybody can make one"
            )
        return f"by the trusted key {stated.public_key}"


def _must(condition: bool, otherwise: str) -> None:
    if not condition:
        raise _WrongError(otherwise)


def _check_price(stated: LedgerReference, eps: Decimal, delta: Decimal) -> None:
    """See that a stated charge is what that part of the plan costs."""
    due = charge_units(eps)
    _must(Decimal(stated.charged).scaleb(9) == due, "the charge is misstated")
    beyond = delta_charge_units(delta)
    _must(Decimal(stated.charged_delta).scaleb(18) == beyond, "the charge is misstated")


def _from_bins(domain: Domain) -> bool:
    edges = [magnitude_edges(number) for number in range(N_MAGNITUDES)]
    lows, highs = {0.0, *(low for low, _ in edges)}, {0.0, *(high for _, high in edges)}
    return isinstance(domain, Box) and set(domain.lower) <= lows and set(domain.upper) <= highs


def _has_ledger(workspace: Path) -> bool:
    """Tell whether there is a ledger here; a pipe in place of its file would be waited for."""
    ledger = Ledger(workspace)
    return ledger.path.is_file() or ledger.is_shared


def vouchers(record: ReleaseRecord, checks: tuple[Check, ...]) -> tuple[str, ...]:
    """Return who says that this record is what happened: the curator's ledger, a key that counts.

    Without either, a record can be consistent and yet made up.
    """
    passed = {check.name for check in checks if check.passed}
    names = ["the ledger here"] if "ledger" in passed else []
    if "signature" in passed and record.signature is not None:
        names.append(f"the key {record.signature.public_key}")
    return tuple(names)


def failed(checks: tuple[Check, ...]) -> tuple[Check, ...]:
    """Return the checks that failed."""
    return tuple(check for check in checks if check.passed is False)
