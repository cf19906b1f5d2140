"""What is asked for: checked before any data are read, and public in every field.

The plan is what a ledger is charged for. Everything that a release does follows from the plan, the
records and fresh randomness.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_FLOOR, Decimal
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from dpkv.accounting.exact import downward
from dpkv.accounting.theorem_a import DEFAULT_GAMMA
from dpkv.domain import Domain
from dpkv.errors import ParameterError, UsageError
from dpkv.grid import GRID_BITS
from dpkv.mechanisms import (
    AUTO,
    PAPERS,
    Choice,
    Neighbours,
    Rule,
    Split,
    as_neighbours,
    check_request,
)
from dpkv.mechanisms.mechanism import Densities
from dpkv.records.persons import Weighing
from dpkv.releases.about import About
from dpkv.releases.canonical import digest
from dpkv.releases.codes import Code
from dpkv.releases.frozen import Frozen
from dpkv.releases.table_facts import ColumnFacts, check_coordinates, check_domain, facts_of
from dpkv.releases.unit_facts import UnitFacts
from dpkv.tables.facts import TableFacts, numeric_facts
from dpkv.tables.naming import publishable_names
from dpkv.validation import (
    MOST_CENTERS,
    MOST_ITERATIONS,
    SMALLEST_EPS,
    check_range,
    exact_delta,
    exact_eps,
    non_negative,
    one_of,
    positive_finite,
    printable_names,
    truth,
    whole_number,
)

DEFAULT_BOUNDS_SHARE = 0.1
MOST_NUMBERS = 4_000_000
"""Of k centers in so many columns: the record of more would be too long to be read back."""
AUTO_RANGE = "2..64"
_LONGEST = 16  # characters of a range
_KINDS_OF_K = "a number, a range like 2..12, or auto"
CALIBRATIONS = ("certified", "published")
BoundsSource = Literal["given", "private", "data"]
"""How bounds are known: chosen without the data, found with a part of eps, or the data's own."""
_EXACT = downward(400)


class PredictedError(Frozen):
    """What a mechanism predicts: the squared error of a coordinate, of the squared half width."""

    mechanism: Code
    error: float


class Chosen(Frozen):
    """Why dpkv took a mechanism, where the choice was left to it."""

    rule: Rule
    predicted: tuple[PredictedError, ...]
    """Of the best few, the one that was taken first; empty where nothing could be predicted."""

    @classmethod
    def of(cls, choice: Choice) -> Chosen:
        """Write a choice down."""
        errors = (PredictedError(mechanism=name, error=error) for name, error in choice.predicted)
        return cls(rule=choice.rule, predicted=tuple(errors))


class Plan(Frozen):
    """A release that is asked for."""

    mechanism: str = PAPERS
    chosen: Chosen | None = None
    """Why this mechanism, where it was left to dpkv."""
    k: int
    """The number of centers, or the most of them where it is chosen privately."""
    fewest: int | None = None
    """The fewest, where the number of centers is chosen privately."""
    eps: str
    """A decimal number, exactly as asked for."""
    delta: str = "0"
    """Likewise; 0 is pure eps."""
    columns: tuple[str, ...]
    """The coordinates of a row: the columns that are used, in order; of categories each one."""
    table: tuple[ColumnFacts, ...]
    """What the columns of the table were taken for."""
    unit: UnitFacts = UnitFacts()
    """Whose data neighbours differ in, and what rows weigh."""
    schema_digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    """The SHA-256 of the schema that said so, where one did."""
    neighbours: Neighbours = Neighbours.REPLACE_ONE
    calibration: Literal["certified", "published"] = "certified"
    eps_tilde: float | None = None
    """The published calibration's own figure, which depends on the data."""
    gamma: float = DEFAULT_GAMMA
    iterations: int | None = None
    density: Densities | None = None
    """What k-variates++ releases a picked record through; None is its default."""
    lloyd_steps: int | None = None
    """Private steps after its seeding; None is as many as public facts predict to pay."""
    bounds: BoundsSource
    bounds_share: float | None = None
    """The share of eps that finding the bounds costs, where they are found privately."""
    domain: dict[str, Any] | None = None
    scaled: bool = True
    clamp: bool = True
    grid_bits: int = GRID_BITS
    behind_steps: bool = False
    """Whether steps before an estimator, which no release sees, may have changed the records."""
    about: About | None = None
    """Who releases it, from what data and what for, where that was said."""

    @classmethod
    def of(
        cls,
        *,
        k: int | str | tuple[int, int],
        eps: float | str | Decimal,
        bounds: BoundsSource,
        columns: Sequence[str],
        table: TableFacts | None = None,
        unit: UnitFacts | None = None,
        domain: Domain | None = None,
        mechanism: str = PAPERS,
        neighbours: str = "replace-one",
        calibration: str = "certified",
        gamma: float = DEFAULT_GAMMA,
        iterations: int | None = None,
        density: str | None = None,
        lloyd_steps: int | None = None,
        delta: float | str | Decimal = 0,
        bounds_share: float = DEFAULT_BOUNDS_SHARE,
        scaled: bool = True,
        clamp: bool = True,
        schema_digest: str | None = None,
        about: About | None = None,
    ) -> Plan:
        """Check what was asked for and write it down."""
        relation = as_neighbours(neighbours)
        unit = UnitFacts() if unit is None else unit
        scaled = getattr(domain, "scaled", scaled)
        chance = exact_delta("delta", delta)
        only_the_papers = density is not None or lloyd_steps is not None
        if (
            isinstance(mechanism, str)
            and mechanism == AUTO
            and (only_the_papers or calibration == "published")
        ):
            mechanism = PAPERS
        fewest, most = numbers_of_centers(k)
        check_request(
            mechanism,
            relation,
            iterations,
            chance,
            density,
            lloyd_steps,
            fewest,
            unit.weighing.unit,
        )
        one_of("calibration", calibration, CALIBRATIONS)
        _check_published(mechanism, calibration, bounds)
        _check_unit(unit, relation, calibration)
        if iterations is not None:
            iterations = _check_iterations(iterations)
        if lloyd_steps is not None:
            lloyd_steps = _check_lloyd_steps(lloyd_steps)
        _check_bare(calibration, density, lloyd_steps)
        return cls(
            mechanism=mechanism,
            k=_check_k(most),
            fewest=fewest,
            eps=_plain(exact_eps("eps", eps)),
            delta=_plain(chance),
            columns=publishable_names(columns),
            table=facts_of(numeric_facts(columns) if table is None else table),
            unit=unit,
            neighbours=relation,
            calibration=calibration,  # type: ignore[arg-type]
            gamma=_check_gamma(gamma),
            iterations=iterations,
            density=density,  # type: ignore[arg-type]
            lloyd_steps=lloyd_steps,
            bounds=bounds,
            bounds_share=_check_share(bounds_share, eps) if bounds == "private" else None,
            domain=None if domain is None else domain.to_dict(),
            scaled=truth("scaled", scaled),
            clamp=truth("clamp", clamp),
            schema_digest=schema_digest,
            about=about,
        )

    @model_validator(mode="after")
    def _check(self) -> Self:
        chance = exact_delta("delta", self.delta)
        check_request(
            self.mechanism,
            self.neighbours,
            self.iterations,
            chance,
            self.density,
            self.lloyd_steps,
            self.fewest,
            self.unit.weighing.unit,
        )
        _check_published(self.mechanism, self.calibration, self.bounds)
        _check_unit(self.unit, self.neighbours, self.calibration)
        _check_k(self.k)
        if self.fewest is not None:
            check_range(self.fewest, self.k)
        if self.k * len(self.columns) > MOST_NUMBERS:
            most = MOST_NUMBERS // len(self.columns)
            raise ParameterError("k", f"at most {most} in {len(self.columns)} columns", self.k)
        check_plain_eps(self.eps)
        check_plain_delta(self.delta)
        _check_gamma(self.gamma)
        if self.iterations is not None:
            _check_iterations(self.iterations)
        if self.lloyd_steps is not None:
            _check_lloyd_steps(self.lloyd_steps)
        _check_bare(self.calibration, self.density, self.lloyd_steps)
        printable_names("columns", self.columns)
        check_coordinates(self.table, self.columns)
        if self.domain is not None and Domain.from_dict(self.domain).to_dict() != self.domain:
            raise ValueError("the domain is not spelled plainly")
        check_domain(self.table, self.domain, self.bounds)
        if (self.domain is not None) != (self.bounds == "given"):
            raise ValueError("a domain belongs to bounds that are given, and only to those")
        if self.domain is not None and self.domain.get("scaled", self.scaled) != self.scaled:
            raise ValueError("the domain is scaled or it is not")
        if (self.bounds_share is not None) != (self.bounds == "private"):
            raise ValueError("a share for bounds belongs to bounds that are found privately")
        if self.bounds_share is not None:
            _check_share(self.bounds_share, self.eps)
        if self.mechanism == AUTO and self.chosen is not None:
            raise ValueError("a reason belongs to a mechanism that was chosen")
        if self.eps_tilde is not None and self.calibration != "published":
            raise ValueError("a published eps~ belongs to the published calibration")
        if self.eps_tilde is not None:
            positive_finite("eps_tilde", self.eps_tilde)
        return self

    @model_serializer(mode="wrap")
    def _as_before(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what nobody said: plans from before it could be said keep their digest."""
        fields: dict[str, Any] = write(self)
        return {name: v for name, v in fields.items() if name != "about" or v is not None}

    @property
    def exact_eps(self) -> Decimal:
        """What the whole release may cost."""
        return Decimal(self.eps)

    @property
    def exact_delta(self) -> Decimal:
        """The delta of the whole release."""
        return Decimal(self.delta)

    @property
    def split(self) -> Split:
        """The parts of eps: for the centers, or for the bounds and then the centers."""
        if self.bounds_share is None:
            return Split(self.exact_eps, (self.exact_eps,))
        part = _bounds_part(self.exact_eps, self.bounds_share)
        return Split(self.exact_eps, (part, _EXACT.subtract(self.exact_eps, part)))

    @property
    def weighing(self) -> Weighing:
        """How rows are weighed."""
        return self.unit.weighing

    @property
    def end_to_end(self) -> bool:
        """Whether a proof covers the release from the records to the centers."""
        return self.calibration == "certified" and self.bounds != "data"

    @property
    def digest(self) -> str:
        """The SHA-256 of the plan, which the ledger keeps."""
        return digest(self.canonical())


def check_width(domain: Domain, n_columns: int) -> None:
    """Refuse bounds of other columns than those that are used."""
    if domain.n_features != n_columns:
        raise UsageError(
            f"the bounds are for {domain.n_features} columns. Got {n_columns} instead: give bounds "
            "for exactly the columns used."
        )


def check_plain_eps(eps: str) -> None:
    """Refuse an eps that is none, or that has another spelling than the one it is written in."""
    if eps != _plain(exact_eps("eps", eps)):
        raise ValueError("eps is not spelled plainly")


def check_plain_delta(delta: str) -> None:
    """Refuse a delta that is none, or that has another spelling than the one it is written in."""
    if delta != _plain(exact_delta("delta", delta)):
        raise ValueError("delta is not spelled plainly")


def _plain(number: Decimal) -> str:
    """Return a decimal without exponent or idle zeros."""
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def numbers_of_centers(k: int | str | tuple[int, int]) -> tuple[int | None, int]:
    """Return the fewest centers, None where there is no choice, and the most: of 5, "2..12", ...

    "auto" stands for a range.
    """
    if isinstance(k, str):
        text = AUTO_RANGE if k == "auto" else k
        first, dots, last = text.partition("..")
        numbers = [first, last] if dots else [first]
        if not all(one.isascii() and one.isdigit() for one in numbers) or len(text) > _LONGEST:
            raise ParameterError("k", _KINDS_OF_K, k)
        k = (int(first), int(last)) if dots else int(first)
    if not isinstance(k, tuple):
        return None, k
    if len(k) != 2 or not all(type(one) is int for one in k):  # noqa: PLR2004
        raise ParameterError("k", _KINDS_OF_K, k)
    fewest, most = (whole_number("k", one, at_least=1, at_most=MOST_CENTERS) for one in k)
    if fewest == most:
        return None, most
    check_range(fewest, most)
    return fewest, most


def _check_k(k: int) -> int:
    return whole_number("k", k, at_least=1, at_most=MOST_CENTERS)


def _check_iterations(iterations: int) -> int:
    return whole_number("iterations", iterations, at_least=1, at_most=MOST_ITERATIONS)


def _check_lloyd_steps(steps: int) -> int:
    return whole_number("lloyd_steps", steps, at_least=0, at_most=MOST_ITERATIONS)


def _check_bare(calibration: str, density: str | None, lloyd_steps: int | None) -> None:
    """Refuse what the published calibration does not have: it is the paper's seeding alone."""
    if calibration != "published":
        return
    if density == "window":
        raise ParameterError("density", "'laplace' for the published calibration", density)
    if lloyd_steps:
        raise ParameterError("lloyd_steps", "0 for the published calibration", lloyd_steps)


def _check_gamma(gamma: float) -> float:
    if non_negative("gamma", gamma) == 0.0:
        raise ParameterError("gamma", "greater than 0", gamma)
    return float(gamma)


def _check_share(share: float, eps: float | str | Decimal) -> float:
    if positive_finite("bounds_share", share) >= 1.0 or math.isclose(share, 1.0):
        raise ParameterError("bounds_share", "between 0 and 1", share)
    if _bounds_part(exact_eps("eps", eps), share) == 0:
        unit = f"{SMALLEST_EPS:f}"
        raise ParameterError("bounds_share", f"a share of at least eps = {unit}", share)
    return float(share)


def _bounds_part(eps: Decimal, share: float) -> Decimal:
    """Return the part of eps for the bounds, in whole units of the ledger, rounded down.

    It is charged on its own; what is left of eps is charged later, and both add up exactly.
    """
    part = _EXACT.multiply(eps, Decimal(repr(float(share))))  # the share as a person wrote it
    return part.quantize(SMALLEST_EPS, rounding=ROUND_FLOOR, context=_EXACT)


def _check_published(mechanism: str, calibration: str, bounds: str) -> None:
    if calibration != "published":
        return
    if mechanism != PAPERS:
        raise ParameterError("calibration", f"'certified' for mechanism {mechanism!r}", calibration)
    if bounds == "private":
        raise UsageError(
            "the published calibration needs bounds before it looks at the data: give them, or "
            "take them from the data."
        )


def _check_unit(unit: UnitFacts, neighbours: Neighbours, calibration: str) -> None:
    """Refuse units of privacy that the relation, or published noise, does not cover."""
    if unit.persons == "limit" and neighbours is not Neighbours.ADD_REMOVE:
        raise ParameterError(
            "rows_per_person",
            "given with neighbours 'add-remove'",
            unit.rows_per_person,
            "How many rows are kept depends on the persons, so it cannot be public: leave it out, "
            "and a person's rows share one weight.",
        )
    if calibration == "published" and unit != UnitFacts():
        raise ParameterError(
            "calibration",
            "'certified' where persons are named, or rows have weights or may be ignored",
            calibration,
        )
