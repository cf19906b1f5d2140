"""The release record: everything about a release that the public may know, as frozen JSON.

A record holds codes and numbers; ``wording.py`` says in words what they mean.

The fields follow what NIST SP 800-226 and the OpenDP deployments registry ask of a deployment:
the unit of privacy, the loss, the relation, the model, the mechanism, its noise and its budget,
what is not protected, and the software.
"""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from decimal import Decimal
from importlib.metadata import version
from typing import Annotated, Any, Literal

from pydantic import Field

from dpkv import __version__
from dpkv.accounting.exact import float_above, upward_decimal
from dpkv.grid import Grid
from dpkv.ledger import Entry
from dpkv.mechanisms import Mechanism, Noise, PrivateBounds, Step
from dpkv.mechanisms.mechanism import GRID_STEPS, Distribution
from dpkv.releases.clusters import ClusterRecord, NonNegative, PotentialRecord
from dpkv.releases.codes import Code, Note, Randomness, Unprotected
from dpkv.releases.frozen import Frozen
from dpkv.releases.guarantee import Guarantee
from dpkv.releases.plan import BoundsSource, Plan
from dpkv.releases.wording import Explanation, explain, statement
from dpkv.validation import LARGEST_WHOLE, MOST_RECORDS

RELEASE_ID = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"


def software_versions() -> dict[str, str]:
    """Return the versions of what a release depends on."""
    names = ("numpy", "numba", "opendp", "scikit-learn")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


def utc_now() -> str:
    """Return the time as records state it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class StepRecord(Frozen):
    """A part of the mechanism and what each of its ``times`` costs, rounded up."""

    name: Code
    eps: float | None
    """None where the price is in zCDP."""
    times: int
    rho: float | None
    """The price in zCDP, of Gaussian noise."""


class NoiseRecord(Frozen):
    """Noise on integers: P(z) ~ exp(-|z| / scale), or for a Gaussian exp(-z^2 / (2 scale^2))."""

    added_to: Code
    distribution: Distribution
    scale: float
    unit: Code
    """Of which ``per`` integers make one: rows have whole weights, in shares of a person."""
    per: float
    sd: float
    """Standard deviation, in that unit."""
    column_sd: tuple[float, ...] | None
    """Standard deviation in the columns' own units, for noise that counts grid steps."""


class GridRecord(Frozen):
    """The public integer grid on which everything was decided."""

    bits: int
    origin: tuple[float, ...]
    steps: tuple[float, ...]
    diam1: int
    diam2_squared: int

    @classmethod
    def of(cls, grid: Grid, bits: int) -> GridRecord:
        """Return a grid's facts."""
        return cls(
            bits=bits,
            origin=grid.origin,
            steps=grid.steps,
            diam1=grid.diam1,
            diam2_squared=grid.diam2_squared,
        )


class LedgerReference(Frozen):
    """The entry that was on disk before the records were touched."""

    number: Annotated[int, Field(ge=0, le=LARGEST_WHOLE)]
    digest: str
    charged: str
    """What this entry charged the budget, for the relation and unit of the guarantee."""
    charged_delta: str
    checkpoint: str | None = None
    """SHA-256 of the ledger's newest checkpoint at that time, where there was one."""

    @classmethod
    def of(cls, entry: Entry) -> LedgerReference:
        """Return the reference to an entry."""
        return cls(
            number=entry.number,
            digest=entry.digest,
            charged=f"{entry.eps:f}",
            charged_delta=f"{entry.delta:f}",
            checkpoint=entry.more.get("checkpoint"),
        )


class BoundsRecord(Frozen):
    """Where records may lie, and how that is known."""

    source: BoundsSource
    domain: dict[str, Any]
    mechanism: dict[str, Any] | None
    """The noisy histograms that found the bounds, where they were found privately."""
    ledger: LedgerReference | None
    """The entry that private bounds were charged by, before the one of the release."""


class Signature(Frozen):
    """An Ed25519 signature of the record without this field, in canonical JSON."""

    algorithm: Literal["Ed25519"] = "Ed25519"
    public_key: str
    value: str


class ReleaseRecord(Frozen):
    """A release, or a simulation of one."""

    schema_version: Literal[2] = 2
    kind: Literal["release", "simulation"]
    visibility: Literal["public", "curator-only"]
    releasable: bool
    release_id: str | None = Field(pattern=RELEASE_ID)
    created: str = Field(default_factory=utc_now)
    """When it was charged, or where nobody was, when the run began; never when it ended."""
    dpkv_version: str = __version__
    versions: dict[str, str] = Field(default_factory=software_versions)
    model: Literal["central"] = "central"
    guarantee: Guarantee
    plan: Plan
    mechanism: dict[str, Any]
    steps: tuple[StepRecord, ...]
    spent: float | None
    """What all steps cost together, rounded up; None where no proof gives a figure."""
    noise: tuple[NoiseRecord, ...]
    randomness: Randomness
    bounds: BoundsRecord
    grid: GridRecord
    n_records: Annotated[int, Field(ge=1, le=MOST_RECORDS)] | None
    """Rows, or persons where they are the unit; None where the relation protects it."""
    columns: tuple[str, ...]
    not_protected: tuple[Unprotected, ...]
    notes: tuple[Note, ...]
    clusters: tuple[ClusterRecord, ...]
    """The released centers, and what noisy answers tell of their records, at no further cost."""
    potential: PotentialRecord | None
    curve: tuple[NonNegative, ...] | None
    """Where the number of centers was chosen: private potentials for 1, 2, ... of them."""
    untold: Code | None
    """What the mechanism cannot tell of clusters, and why."""
    grid_centers: tuple[tuple[int, ...], ...]
    clamped: bool
    centers_digest: str
    """SHA-256 of the centers, and their sizes where these are known, as CSV text."""
    synopsis_digest: str | None
    """SHA-256 of the private synopsis that belongs to the release, where there is one."""
    ledger: LedgerReference | None
    signature: Signature | None = None

    @property
    def centers(self) -> tuple[tuple[float, ...], ...]:
        """The released centers, in the user's coordinates."""
        return tuple(cluster.center for cluster in self.clusters)

    @property
    def extent(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """The least and the greatest value of every column that the bounds allow."""
        domain = self.bounds.domain
        if "lower" in domain:
            return tuple(domain["lower"]), tuple(domain["upper"])
        middle, radius = domain["center"], domain["radius"]
        return tuple(x - radius for x in middle), tuple(x + radius for x in middle)

    @property
    def sizes(self) -> tuple[float, ...] | None:
        """About how many records are nearest to every center; None where that is not known."""
        found = tuple(cluster.size for cluster in self.clusters if cluster.size is not None)
        return found if len(found) == len(self.clusters) > 0 else None

    def to_json(self) -> str:
        """Return the record as JSON text."""
        return self.model_dump_json(indent=2) + "\n"

    @property
    def charged(self) -> Decimal | None:
        """What all entries of the release charged together; None where none did."""
        entries = [entry for entry in (self.bounds.ledger, self.ledger) if entry is not None]
        return sum((Decimal(entry.charged) for entry in entries), Decimal(0)) if entries else None

    def signed_bytes(self) -> bytes:
        """Return what a signature covers: everything but the signature."""
        return self.canonical(exclude={"signature"})

    @property
    def summary(self) -> str:
        """What the release promises, in one sentence or two for a privacy officer."""
        return statement(self.guarantee)

    @property
    def explanation(self) -> Explanation:
        """All that the record says, in words."""
        return explain(self)


def step_records(steps: tuple[Step, ...]) -> tuple[StepRecord, ...]:
    """Return the steps that have a price, with their prices as floats, rounded up."""
    return tuple(
        StepRecord(
            name=step.name,
            eps=None if step.eps is None else float_above(step.eps),
            times=step.times,
            rho=None if step.rho is None else float_above(upward_decimal(step.rho)),
        )
        for step in steps
        if step.is_priced
    )


def all_steps(bounds: PrivateBounds | None, mechanism: Mechanism) -> tuple[Step, ...]:
    """Return the steps of finding bounds, if any, and those of the mechanism."""
    return (() if bounds is None else bounds.steps()) + mechanism.steps()


def noise_records(bounds: PrivateBounds | None, mechanism: Mechanism) -> tuple[NoiseRecord, ...]:
    """Return all noise that was added."""
    noises = (() if bounds is None else bounds.noises()) + mechanism.noises()
    return tuple(_noise_record(noise, mechanism.grid) for noise in noises)


def _noise_record(noise: Noise, grid: Grid) -> NoiseRecord:
    in_steps = noise.unit == GRID_STEPS
    return NoiseRecord(
        added_to=noise.added_to,
        distribution=noise.distribution,
        scale=noise.scale,
        unit=noise.unit,
        per=noise.per,
        sd=noise.sd_in_units,
        column_sd=tuple(noise.sd_in_units * step for step in grid.steps) if in_steps else None,
    )
