"""Random tables, their neighbours, and the mechanisms that run on them, of every kind there is.

Drawn without looking at anything but a seed: what a replay (``transcripts.py``) is tried on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from dpkv.accounting import ROW, Unit
from dpkv.audits.person_tables import PersonTable, group_rows, neighbour_of_persons
from dpkv.domain import Box, Domain, L1Ball
from dpkv.mechanisms import MECHANISMS, Mechanism, Neighbours, calibrate_mechanism
from dpkv.mechanisms.mechanism import Densities
from dpkv.noise import Entropy
from dpkv.records.persons import Weighing
from dpkv.types import Integers

_WIDTHS = (1, 2, 3, 4, 7, 12, 20, 21, 40)
_EPS = ("0.1", "1", "6")
_DELTAS = ("0", "1e-6")
_MOST_RECORDS = 80
_MOST_ROWS = (2, 5, 20)


@dataclass(frozen=True)
class Wanted:
    """A mechanism but for the number of records, which is public or not."""

    name: str
    relation: Neighbours
    domain: Domain
    eps: Decimal
    delta: Decimal
    k: int
    unit: Unit = ROW
    density: Densities | None = None
    lloyd_steps: int | None = None

    def __call__(self, points: Integers | PersonTable) -> Mechanism:
        """Return the mechanism that would be run on a table."""
        return calibrate_mechanism(
            self.name,
            self.eps,
            n_records=len(points),
            n_clusters=self.k,
            grid=self.domain.grid(),
            neighbours=self.relation,
            delta=self.delta,
            unit=self.unit,
            density=self.density,
            lloyd_steps=self.lloyd_steps,
        )


@dataclass(frozen=True, eq=False)
class ReplayCase:
    """A mechanism, a table and a neighbour of it, and where noise comes from."""

    wanted: Wanted
    points: Integers | PersonTable
    neighbour: Integers | PersonTable
    entropy: Entropy


def domain_of(rng: np.random.Generator, width: int) -> Domain:
    """Return a box, an unscaled box or a ball."""
    match rng.choice(["box", "unscaled", "ball"]):
        case "box":
            return Box((-1.0,) * width, (1.0,) * width)
        case "unscaled":
            uppers = tuple(float(x) for x in rng.uniform(0.1, 3.0, width))
            return Box((0.0,) * width, uppers, scaled=False)
    return L1Ball((0.0,) * width, 1.0)


def table_of(rng: np.random.Generator, domain: Domain, n_records: int) -> Integers:
    """Return records in clusters, at the corners, all alike, or anywhere."""
    grid, width = domain.grid(), domain.n_features
    uniform = rng.uniform(size=(n_records, width))
    match rng.choice(["clusters", "corners", "alike", "anywhere"]):
        case "clusters":
            middles = rng.uniform(size=(3, width))[rng.integers(3, size=n_records)]
            uniform = np.clip(middles + rng.normal(0, 0.02, middles.shape), 0, 1)
        case "corners":
            uniform = np.rint(uniform)
        case "alike":
            uniform = np.tile(uniform[:1], (n_records, 1))
    return np.asarray(grid.spread(uniform)).astype(np.int32)


def neighbour_of(
    rng: np.random.Generator, points: Integers, domain: Domain, relation: Neighbours
) -> Integers:
    """Return the table without a record, or with another in its place, near or far."""
    row = int(rng.integers(len(points)))
    if relation is Neighbours.ADD_REMOVE:
        return np.delete(points, row, axis=0)
    other = points.copy()
    place = rng.uniform(size=(1, domain.n_features))
    if rng.integers(2):
        place = np.rint(place)
    other[row] = domain.grid().spread(place)[0]
    return other


def _density_of(name: str, rng: np.random.Generator) -> Densities | None:
    """Return one of the densities that a mechanism has, if it has any."""
    able = MECHANISMS[name].densities
    return able[rng.integers(len(able))] if able else None


def cases(
    seed: int, count: int, entropies: Sequence[Callable[[np.random.SeedSequence], Entropy]]
) -> Iterator[ReplayCase]:
    """Yield so many cases, going round the mechanisms, relations and kinds of entropy."""
    covered = [(name, relation) for name, kind in MECHANISMS.items() for relation in kind.relations]
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        name, relation = covered[number % len(covered)]
        domain = domain_of(rng, int(rng.choice(_WIDTHS)))
        m = int(rng.integers(2, _MOST_RECORDS))
        wanted = _wanted(rng, name, relation, domain, m)
        points = table_of(rng, domain, m)
        neighbour = neighbour_of(rng, points, domain, relation)
        if relation is Neighbours.ADD_REMOVE and rng.integers(2):
            points, neighbour = neighbour, points
        kind = entropies[number // len(covered) % len(entropies)]
        source = kind(np.random.SeedSequence([seed, number, 1]))
        yield ReplayCase(wanted, points, neighbour, source)


def _wanted(
    rng: np.random.Generator,
    name: str,
    relation: Neighbours,
    domain: Domain,
    m: int,
    unit: Unit = ROW,
) -> Wanted:
    return Wanted(
        name,
        relation,
        domain,
        eps=Decimal(str(rng.choice(_EPS))),
        delta=Decimal(str(rng.choice(_DELTAS))) if MECHANISMS[name].uses_delta else Decimal(0),
        k=int(rng.integers(1, min(m, 6))),
        unit=unit,
        density=_density_of(name, rng),
        lloyd_steps=int(rng.integers(4)) if MECHANISMS[name].takes_lloyd_steps else None,
    )


WEIGHINGS = (
    Weighing("share"),
    Weighing("share", shares=5),
    Weighing("share", may_ignore=True),
    Weighing("share", most_weight=2.5),
    Weighing("share", most_weight=10.0, may_ignore=True, shares=7),
    Weighing("limit", most_rows=1),
    Weighing("limit", most_rows=3, may_ignore=True),
    Weighing("mean"),
    Weighing("mean", may_ignore=True),
    Weighing(most_weight=0.5),
    Weighing(may_ignore=True),
)
"""The ways in which rows are weighed; persons of few shares have rows without any."""


def person_cases(
    seed: int, count: int, entropies: Sequence[Callable[[np.random.SeedSequence], Entropy]]
) -> Iterator[ReplayCase]:
    """Yield so many cases in which records are persons with several rows, or rows have weights."""
    covered = [
        (name, relation, how)
        for how in WEIGHINGS
        for name, kind in MECHANISMS.items()
        for relation in kind.relations
        if covers(name, relation, how)
    ]
    for number in range(count):
        rng = np.random.default_rng([seed, number, 2])
        name, relation, how = covered[number % len(covered)]
        domain = domain_of(rng, int(rng.choice(_WIDTHS)))
        points = table_of(rng, domain, int(rng.integers(4, _MOST_RECORDS)))
        table = group_rows(rng, how, points, int(rng.choice(_MOST_ROWS)))
        places = table_of(rng, domain, 1 if how.persons is None else int(rng.integers(1, 9)))
        neighbour = neighbour_of_persons(rng, table, places, relation)
        wanted = _wanted(rng, name, relation, domain, len(table), how.unit)
        if relation is Neighbours.ADD_REMOVE and rng.integers(2):
            table, neighbour = neighbour, table
        kind = entropies[number // len(covered) % len(entropies)]
        source = kind(np.random.SeedSequence([seed, number, 3]))
        yield ReplayCase(wanted, table, neighbour, source)


def covers(name: str, relation: Neighbours, how: Weighing) -> bool:
    """Tell whether a mechanism's proof covers records that are weighed so."""
    if how.persons == "limit" and relation is not Neighbours.ADD_REMOVE:
        return False
    kind = MECHANISMS[name]
    return kind.knows_units and (how.unit.even or not kind.needs_even_units)
