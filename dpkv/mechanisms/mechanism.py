"""What a mechanism is: one frozen description for the accountant, the curator and the auditor.

A description holds public facts only: the grid, the number of centers, the noise. From it alone
follow what every question costs and in which order they come (``schedule``), what all of them cost
(``cost``), and the program that asks them (``run``). Nothing in a description depends on the
records, and the program hears of them through noisy answers alone.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np

from dpkv.accounting import ROW, Neighbours, Step, Unit, cost_of
from dpkv.accounting.steps import gather_steps
from dpkv.accounting.theorem_a import DEFAULT_GAMMA
from dpkv.errors import ParameterError
from dpkv.grid import Grid
from dpkv.mechanisms.clusters import NOT_ESTIMATED
from dpkv.records.questions import Ask, is_total_private
from dpkv.types import Float64s, Integers
from dpkv.validation import (
    MOST_CENTERS,
    MOST_RECORDS,
    non_negative_finite,
    positive_finite,
    whole_number,
)

if TYPE_CHECKING:
    from dpkv.mechanisms.clusters import ClusterEstimates
    from dpkv.mechanisms.kvariates import Algorithm0
    from dpkv.mechanisms.synopsis.cells import PrivateCells

NEEDS_PUBLIC_M = "Its proof takes the number of records as public; under add/remove it is not."
GRID_STEPS, RECORDS, CLIP_RADII = "grid-steps", "records", "clip-radii"
NO_PROOF = "none"
"""The code of a proof that there is none of."""


Distribution = Literal["discrete-laplace", "discrete-gaussian", "window"]
Densities = Literal["laplace", "window"]
DENSITIES: tuple[Densities, ...] = get_args(Densities)
"""What k-variates++ may release a picked record through."""


@dataclass(frozen=True)
class Noise:
    """Noise that is added to integers.

    Discrete Laplace: P(z) ~ exp(-|z| / scale); discrete Gaussian: P(z) ~ exp(-z^2 / (2 scale^2)).
    For a window the scale is about the root of the expected squared error.
    """

    added_to: str
    """A code."""
    scale: float
    unit: str
    """A code of what integers count: grid steps, or records."""
    distribution: Distribution = "discrete-laplace"
    per: float = 1.0
    """How many integers make one of that unit: the shares of a person, say."""

    @property
    def sd(self) -> float:
        """The integers' standard deviation: sqrt(2 q) / (1 - q), q = exp(-1 / scale), for Laplace.

        That of a discrete Gaussian is below its scale, and equal to it but for the tiniest.
        """
        if self.scale == 0.0 or self.distribution != "discrete-laplace":
            return self.scale
        return math.sqrt(2.0 * math.exp(-1.0 / self.scale)) / -math.expm1(-1.0 / self.scale)

    @property
    def sd_in_units(self) -> float:
        """The standard deviation of what the integers count."""
        return self.sd / self.per


Proof = str
"""A code of why a price holds, such as "theorem-a" or "sensitivity"."""


@dataclass(frozen=True)
class Terms:
    """What a mechanism is calibrated for. All of it is public."""

    eps: Decimal
    n_clusters: int
    grid: Grid
    neighbours: Neighbours
    n_records: int | None
    """None where the relation protects it: no mechanism can use what it is not told."""
    delta: Decimal
    gamma: float
    iterations: int | None
    unit: Unit = ROW
    """What a record is: a row, or all rows of a person."""
    density: Densities | None = None
    """None where the mechanism decides, or has none."""
    lloyd_steps: int | None = None
    """Likewise."""
    fewest: int | None = None
    """Where the number of centers is to be chosen privately: the fewest; ``n_clusters`` at most."""

    @classmethod
    def of(
        cls,
        eps: Decimal,
        *,
        n_records: int,
        n_clusters: int,
        grid: Grid,
        neighbours: Neighbours = Neighbours.REPLACE_ONE,
        delta: Decimal = Decimal(0),
        gamma: float = DEFAULT_GAMMA,
        iterations: int | None = None,
        unit: Unit = ROW,
        density: Densities | None = None,
        lloyd_steps: int | None = None,
        fewest: int | None = None,
    ) -> Terms:
        """Return the terms of a release from a table, with what its relation makes public."""
        whole_number("n_records", n_records, at_least=1, at_most=MOST_RECORDS)
        public = n_records if neighbours is Neighbours.REPLACE_ONE else None
        return cls(
            eps,
            n_clusters,
            grid,
            neighbours,
            public,
            delta,
            gamma,
            iterations,
            unit,
            density,
            lloyd_steps,
            fewest,
        )


@dataclass(frozen=True)
class Mechanism(ABC):
    """k centers on a public grid, from records on that grid."""

    n_clusters: int
    grid: Grid
    neighbours: Neighbours
    unit: Unit = field(default=ROW, kw_only=True)
    """What a record is. Noise on what rows add up to is scaled to the shares of a unit."""

    name: ClassVar[str]
    title: ClassVar[str]
    why: ClassVar[str]
    """Why its price holds, in a few words."""
    words: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """What codes of its own stand for: of steps, of noise, of units that noise counts.

    Those of the mechanisms that come with dpkv are in ``releases/wording.py``.
    """
    relations: ClassVar[tuple[Neighbours, ...]] = tuple(Neighbours)
    """The relations that its proof covers."""
    knows_units: ClassVar[bool] = False
    """Whether its proof and its prices cover persons with several rows, and rows of any weight.

    One that knows nothing of ``unit`` must not run for another than a row.
    """
    needs_even_units: ClassVar[bool] = False
    """Whether its proof takes all units of privacy to weigh the same."""
    uses_delta: ClassVar[bool] = False
    """Whether a delta can be of use."""
    takes_iterations: ClassVar[bool] = False
    chooses_number: ClassVar[bool] = False
    """Whether it can choose the number of centers from its own noisy answers."""
    densities: ClassVar[tuple[Densities, ...]] = ()
    """What it can release a picked record through, the default first."""
    takes_lloyd_steps: ClassVar[bool] = False
    makes_synopsis: ClassVar[bool] = False
    """Whether it makes private cells that may be published as well."""
    preference: ClassVar[int] = 0
    """What ``auto`` goes by where nothing can be predicted: higher is preferred."""
    note: ClassVar[str] = ""
    """What a comparison should say of it."""

    def __post_init__(self) -> None:
        whole_number("k", self.n_clusters, at_least=1, at_most=MOST_CENTERS)
        if self.neighbours not in self.relations:
            covered = " or ".join(repr(relation.value) for relation in self.relations)
            raise ParameterError(
                "neighbours", f"{covered} for {self.name}", self.neighbours.value, NEEDS_PUBLIC_M
            )
        if self.unit != ROW and not self.knows_units:
            raise ParameterError("unit", f"a row for {self.name}", self.unit.kind)
        if self.needs_even_units and not self.unit.even:
            raise ParameterError(
                "unit", f"one that all weigh the same for {self.name}", self.unit.kind
            )

    @classmethod
    @abstractmethod
    def for_terms(cls, terms: Terms) -> Mechanism:
        """Return the mechanism with the least noise that the terms allow."""

    def with_windows(self) -> Mechanism | None:
        """Return the same at the same price with windows in place of noise; None where it has."""
        return None

    @classmethod
    def best_density(cls) -> Densities | None:
        """Return the density that ``auto`` takes: the last of them."""
        return cls.densities[-1] if cls.densities else None

    @classmethod
    def of_proof(cls, proof: Proof) -> type[Mechanism]:  # noqa: ARG003
        """Return the form of the mechanism that goes by a proof of that code."""
        return cls

    @property
    @abstractmethod
    def proof(self) -> Proof:
        """A code of why ``cost`` holds; ``NO_PROOF`` where nothing proves it."""

    @property
    def is_proved(self) -> bool:
        """Whether a proof gives a price."""
        return self.proof != NO_PROOF

    @property
    def n_records_needed(self) -> int | None:
        """The public number of records that the proof uses, or None where it uses none."""
        return None

    @property
    def delta(self) -> float:
        """The delta that ``cost`` holds with; 0 for pure eps."""
        return 0.0

    @abstractmethod
    def schedule(self) -> Iterator[Step]:
        """Return the prices of the questions, one by one, in the order in which they are asked."""

    def steps(self) -> tuple[Step, ...]:
        """Return what is spent, part by part: the schedule with equal questions counted."""
        return gather_steps(self.schedule())

    @abstractmethod
    def noises(self) -> tuple[Noise, ...]:
        """Return the noise that is added."""

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Return the description's own fields as plain JSON values, without k, grid, neighbours."""

    def cost(self) -> Decimal:
        """Return the eps of the whole at ``delta``, rounded up: steps compose by addition."""
        return cost_of(self.steps(), self.delta)

    def predicted_error(self, n_records: int) -> float:
        """Return the predicted squared error of a coordinate, of the squared half width."""
        error = self._predicted_error(n_records * self.unit.shares)
        return min(1.0, error) if math.isfinite(error) else 1.0

    def predicted_deviations(self, n_records: int) -> tuple[float, ...]:
        """Return the typical error of a center in every column's own unit."""
        off = math.sqrt(self.predicted_error(n_records)) * self._half_width
        return tuple(off * step for step in self.grid.steps)

    @property
    def error_without_data(self) -> float:
        """What it would have if it learned nothing of the records."""
        return 1.0

    def is_hopeless(self, n_records: int) -> bool:
        """Tell whether nothing better is predicted than what does without the data."""
        return self.predicted_error(n_records) >= self.error_without_data

    def _predicted_error(self, n_shares: int) -> float:  # noqa: ARG002
        """Predict as well as the mechanism can for so many shares in all; by default not at all."""
        return 1.0

    def typical_error(self) -> float:
        """Return how far noise moves a coordinate of a center, of the half width, at most 1."""
        return min(1.0, self._noise_share(1.0))

    def _noise_share(self, per: float) -> float:
        """Return the last noise's standard deviation over ``per``, of the domain's half width."""
        return self.noises()[-1].sd / per / self._half_width

    @property
    def _half_width(self) -> float:
        """Half the domain's width in grid steps, on average over the columns."""
        return max(1.0, self.grid.diam1 / max(1, self.grid.n_features) / 2.0)

    def telling_sizes(self, n_clusters: int) -> tuple[tuple[int, int], ...]:
        """Return (records, centers) of tables on which a classifier sees one record best."""
        return (1, 1), (n_clusters, n_clusters)

    def most_telling(self) -> Mechanism:
        """Return the mechanism, at the same price, in the form that shows a record most."""
        return self

    def audit_parts(self, times: float) -> tuple[AuditPart, ...]:  # noqa: ARG002
        """Return parts to audit one by one, each at ``times`` the eps of the whole.

        None where a run of the whole shows enough.
        """
        return ()

    @property
    def untold(self) -> str | None:
        """A code of what it cannot tell of its clusters, and why; None where it tells all."""
        return NOT_ESTIMATED

    def number_for(self, curve: Float64s) -> int | None:  # noqa: ARG002
        """Return how many centers it takes by such a curve; None where it does not choose."""
        return None

    def closed_form(self) -> Algorithm0 | None:
        """Return the mechanism itself where its centers' probability has a closed form.

        Exact losses over every neighbour, witnesses and likelihoods are worked out by it then.
        """
        return None

    def find_fault_in(self, cells: PrivateCells) -> str | None:  # noqa: ARG002
        """Return why published cells cannot be of this mechanism; None where they can."""
        return "the mechanism makes no synopsis"

    def public_shares(self, n_records: int | None) -> int | None:
        """Return what so many records weigh in all, in shares; None where that is private."""
        private = n_records is None or is_total_private(self.neighbours, self.unit)
        return None if private else (n_records or 0) * self.unit.shares

    def sizes_in(
        self,
        cells: PrivateCells,  # noqa: ARG002
        centers: Integers,  # noqa: ARG002
        n_records: int | None,  # noqa: ARG002
    ) -> Float64s:
        """Return the clusters' sizes again, in records, from cells that were published."""
        return np.empty(0)

    @abstractmethod
    def run(self, ask: Ask) -> Outcome:
        """Return k centers on the grid, in the order of release, maybe outside the domain.

        Nothing but answers to the questions of ``schedule`` is heard of the records. Moving the
        centers into the domain is post-processing.
        """


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a mechanism makes of the answers."""

    centers: Integers
    cells: PrivateCells | None = None
    """The private cells that the centers came from, where the mechanism makes some."""
    clusters: ClusterEstimates | None = None
    """What else the answers say of the clusters; None where ``Mechanism.untold`` says why not."""
    curve: Float64s | None = None
    """Where the number of centers was chosen: the private potentials for 1, 2, ... of them."""


@dataclass(frozen=True, eq=False)
class AuditPart:
    """A part of a mechanism with all of eps, two neighbouring tables, and what is looked at."""

    name: str
    mechanism: Mechanism
    first: Integers
    second: Integers
    schedule: Callable[[], Iterator[Step]]
    look: Callable[[Ask], list[float]]


def members(n_records: int, n_clusters: int) -> float:
    """Return the records of a cluster where all are of equal size."""
    return max(1.0, n_records / n_clusters)


def positive_or_pointless(scale: float, grid: Grid, name: str = "noise_scale") -> None:
    """Refuse a noise scale that is no positive number, but for a domain that is a single point."""
    if grid.diam1 > 0 or non_negative_finite(name, scale) > 0:
        positive_finite(name, scale)
