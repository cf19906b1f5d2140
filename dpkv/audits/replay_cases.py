"""Random tables, their neighbours, and the mechanisms that run on them, of every kind there is.

Drawn without looking at anything but a seed: what a replay (``transcripts.py``) is tried on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from dpkv.domain import Box, Domain, L1Ball
from dpkv.mechanisms import MECHANISMS, Mechanism, Neighbours, calibrate_mechanism
from dpkv.noise import Entropy
from dpkv.types import Integers

_WIDTHS = (1, 2, 3, 4, 7, 12, 20, 21, 40)
_EPS = ("0.1", "1", "6")
_DELTAS = ("0", "1e-6")
_MOST_RECORDS = 80


@dataclass(frozen=True)
class Wanted:
    """A mechanism but for the number of records, which is public or not."""

    name: str
    relation: Neighbours
    domain: Domain
    eps: Decimal
    delta: Decimal
    k: int

    def __call__(self, points: Integers) -> Mechanism:
        """Return the mechanism that would be run on a table."""
        return calibrate_mechanism(
            self.name,
            self.eps,
            n_records=len(points),
            n_clusters=self.k,
            grid=self.domain.grid(),
            neighbours=self.relation,
            delta=self.delta,
        )


@dataclass(frozen=True, eq=False)
class ReplayCase:
    """A mechanism, a table and a neighbour of it, and where noise comes from."""

    wanted: Wanted
    points: Integers
    neighbour: Integers
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
        wanted = Wanted(
            name,
            relation,
            domain,
            eps=Decimal(str(rng.choice(_EPS))),
            delta=Decimal(str(rng.choice(_DELTAS))) if MECHANISMS[name].uses_delta else Decimal(0),
            k=int(rng.integers(1, min(m, 6))),
        )
        points = table_of(rng, domain, m)
        neighbour = neighbour_of(rng, points, domain, relation)
        if relation is Neighbours.ADD_REMOVE and rng.integers(2):
            points, neighbour = neighbour, points
        kind = entropies[number // len(covered) % len(entropies)]
        source = kind(np.random.SeedSequence([seed, number, 1]))
        yield ReplayCase(wanted, points, neighbour, source)
