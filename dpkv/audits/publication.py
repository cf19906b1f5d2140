"""What a report says of a release on its first page: from the record, and nothing of the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from dpkv.audits.results import Density, NoiseFact, Publication
from dpkv.ledger import Account
from dpkv.releases import Check, PrivateSynopsis, ReleaseRecord, wording

_BINS, _BINS_OF_ONE = 48, 96
_MOST_PLANES = 3
_DIGITS = 4


@dataclass(frozen=True, eq=False)
class Opened:
    """A release that was verified before it is written about."""

    record: ReleaseRecord
    checks: tuple[Check, ...]
    vouched_by: tuple[str, ...]
    synopsis: PrivateSynopsis | None
    """The file beside the record, where there is one."""
    account: Account | None
    """What the ledger here knows of the table's budget."""


def publication_of(opened: Opened) -> Publication:
    """Return what page one says."""
    record, account = opened.record, opened.account
    told = [cluster for cluster in record.clusters if cluster.center_sd is not None]
    complete = len(told) == len(record.clusters)
    about = record.plan.about
    return Publication(
        created=record.created,
        publisher=None if about is None else about.publisher,
        data_about=None if about is None else about.data,
        purpose=None if about is None else about.purpose,
        charged=None if record.charged is None else f"{record.charged:f}",
        spent=None if account is None else f"{account.spent:f}",
        budget=None if account is None or account.budget is None else f"{account.budget:f}",
        left=None if account is None or account.remaining is None else f"{account.remaining:f}",
        signed=_signed(opened),
        checks=sum(check.passed is True for check in opened.checks),
        kind=record.plan.mechanism,
        fewest=record.plan.fewest,
        most=record.plan.k,
        curve=record.curve or (),
        center_sd=tuple(one.center_sd or () for one in told) if complete else (),
        sizes=record.sizes or (),
        noise=tuple(
            NoiseFact(
                added_to=wording.part(noise.added_to, record),
                sd=noise.sd,
                unit=wording.part(noise.unit, record),
            )
            for noise in record.noise
        ),
        densities=() if opened.synopsis is None else _densities(record, opened.synopsis),
    )


def _signed(opened: Opened) -> str:
    if opened.record.signature is None:
        return "not signed"
    passed = {check.name: check.passed for check in opened.checks}
    if passed.get("signature"):
        return "signed with a key that is trusted here"
    return "signed with a key that nobody here vouches for"


# -- where records are, from the private cells -----------------------------------------------------


def _densities(record: ReleaseRecord, synopsis: PrivateSynopsis) -> tuple[Density, ...]:
    """Return how records spread over the columns of numbers in which the groups differ most."""
    shown = _telling_columns(record)
    if len(shown) == 1:
        return (_density(synopsis, shown, _BINS_OF_ONE),)
    pairs = list(combinations(shown, 2))[:_MOST_PLANES]
    return tuple(_density(synopsis, pair, _BINS) for pair in pairs)


def _telling_columns(record: ReleaseRecord) -> tuple[int, ...]:
    """Return up to three columns of numbers, in order: those in which the centers differ most."""
    numbers = {column.name for column in record.plan.table if not column.categories}
    places = [place for place, name in enumerate(record.columns) if name in numbers]
    low, high = (np.asarray(side) for side in record.extent)
    spread = np.asarray(record.centers).std(axis=0) / np.maximum(high - low, 1e-300)
    best = sorted(places, key=lambda place: -spread[place])[:_MOST_PLANES]
    return tuple(sorted(best))


def _density(synopsis: PrivateSynopsis, places: Sequence[int], bins: int) -> Density:
    found, edges = synopsis.density(places, bins)
    return Density(
        columns=tuple(synopsis.columns[place] for place in places),
        edges=tuple(tuple(float(f"{edge:.9g}") for edge in own) for own in edges.tolist()),
        records=tuple(tuple(map(_short, own)) for own in np.atleast_2d(found).tolist()),
    )


def _short(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}") if abs(value) >= 1e-6 else 0.0  # noqa: PLR2004
