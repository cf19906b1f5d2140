"""The synthetic families by name, as tables with column names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dpkv.errors import ParameterError
from dpkv.paper.datasets import clinic, families
from dpkv.types import Float64s, Indices
from dpkv.validation import whole_number


@dataclass(frozen=True)
class Wish:
    """What a table should be like; what its family does not know stays None."""

    seed: int = 0
    rows: int | None = None
    columns: int | None = None
    clusters: int | None = None
    move: float | None = None
    edge: float | None = None

    def rng(self) -> np.random.Generator:
        """Return the table's randomness."""
        return np.random.default_rng(self.seed)

    def count(self, name: str) -> int:
        """Return a whole number that the family needs."""
        return whole_number(name, getattr(self, name), at_least=1)


@dataclass(frozen=True, eq=False)
class MadeTable:
    """A table: named columns, and a last column of whole numbers where records have labels."""

    values: Float64s
    names: tuple[str, ...]
    labels: Indices | None = None
    label_name: str = ""
    decimals: int | None = None


@dataclass(frozen=True)
class Family:
    """A family of tables: what it is, what it knows of a wish, and how it is made."""

    what: str
    defaults: Wish
    make: Callable[[Wish], MadeTable]

    def build(self, wish: Wish) -> MadeTable:
        """Make a table; refuse a wish that the family knows nothing of."""
        filled = {"seed": whole_number("seed", wish.seed, at_least=0)}
        for name in ("rows", "columns", "clusters", "move", "edge"):
            asked, usual = getattr(wish, name), getattr(self.defaults, name)
            if asked is not None and usual is None:
                raise ParameterError(f"--{name}", "left out for this family", asked)
            filled[name] = usual if asked is None else asked
        return self.make(replace(wish, **filled))


def _columns(number: int) -> tuple[str, ...]:
    return tuple(f"x{place}" for place in range(1, number + 1))


def _boxes(wish: Wish) -> families.Labelled:
    assert wish.edge is not None
    d = wish.count("columns")
    return families.hyperrectangles(wish.count("rows"), d, wish.rng(), longest_edge=wish.edge)


def _label(made: families.Labelled, label_name: str) -> MadeTable:
    return MadeTable(made.points, _columns(made.points.shape[1]), made.labels, label_name)


def _hyperrectangles(wish: Wish) -> MadeTable:
    return _label(_boxes(wish), "cluster")


def _peers(wish: Wish) -> MadeTable:
    assert wish.move is not None
    moving = np.random.default_rng([wish.seed, 1])  # its own, so that p leaves the records alone
    return _label(families.move_records(_boxes(wish), wish.move, moving), "peer")


def _ball(wish: Wish) -> MadeTable:
    d = wish.count("columns")
    return MadeTable(families.ball(wish.count("rows"), d, wish.rng()), _columns(d))


def _mixture(wish: Wish) -> MadeTable:
    size = wish.count("rows"), wish.count("columns"), wish.count("clusters")
    return _label(families.mixture(*size, wish.rng()), "cluster")


def _positive(wish: Wish) -> MadeTable:
    size = wish.count("rows"), wish.count("columns"), wish.count("clusters")
    return _label(families.positive(*size, wish.rng()), "cluster")


def _clinic(wish: Wish) -> MadeTable:
    seed = wish.seed or clinic.SEED  # without a seed, the bundled table
    values = clinic.clinic_patients(seed, wish.count("rows"))
    return MadeTable(values, clinic.COLUMNS, decimals=2)


_EDGE = families.LONGEST_EDGE
FAMILIES = {
    "clinic_patients": Family(
        "the bundled table: where patients of an imagined town live, in km",
        Wish(rows=clinic.N_PATIENTS),
        _clinic,
    ),
    "hyperrectangles": Family(
        "clusters that are uniform in random boxes, with their cluster (Tables t-exp1..3)",
        Wish(rows=20_000, columns=10, edge=_EDGE),
        _hyperrectangles,
    ),
    "peers": Family(
        "the same boxes held by peers, with their peer after moving (Figure f-par1)",
        Wish(rows=20_000, columns=50, edge=_EDGE, move=0.0),
        _peers,
    ),
    "ball": Family(
        "uniform in the unit ball (Figure f-heat)", Wish(rows=100_000, columns=2), _ball
    ),
    "mixture": Family(
        "Gaussian clusters in the unit cube, with their cluster",
        Wish(rows=20_000, columns=2, clusters=8),
        _mixture,
    ),
    "positive": Family(
        "log-normal clusters of positive numbers, with their cluster (total Jensen divergence)",
        Wish(rows=2000, columns=3, clusters=8),
        _positive,
    ),
}
"""What ``dpkv datasets make`` makes, by name."""


def make_table(name: str, wish: Wish) -> MadeTable:
    """Return a table of that family."""
    if name not in FAMILIES:
        raise ParameterError("NAME", "one of " + ", ".join(FAMILIES), name)
    return FAMILIES[name].build(wish)


def csv_text(table: MadeTable) -> str:
    """Return a table as CSV with a header, the same text for the same numbers."""
    shown = repr if table.decimals is None else f"{{:.{table.decimals}f}}".format
    lines = [",".join(map(shown, row)) for row in table.values.tolist()]
    names = table.names
    if table.labels is not None:
        names = (*names, table.label_name)
        lines = [f"{line},{label}" for line, label in zip(lines, table.labels, strict=True)]
    return "\n".join([",".join(names), *lines]) + "\n"
