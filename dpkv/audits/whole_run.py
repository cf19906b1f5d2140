"""The largest loss of a whole run that can be found, for every mechanism alike, without sampling.

A run is a sequence of questions and answers, each of known probability, so its loss between two
tables is a sum (``records/transcript.py``). An adversary who can make the noise come out as he
likes gives every question the answer that is likeliest on the first table as against the second;
the mechanism goes on from there, as it would in a release. The search is over tables: groups of
equal records along the domain's diagonal, and one record that is there or not, or elsewhere.

It never overstates: whatever it finds is a pair of tables, and answers with exactly that loss.
Reaching the price shows that the price is tight; exceeding it is a fault.

Gaussian noise has no largest loss. There what is found of a question is half the squared distance
of the exact answers, in scales of the noise, and the whole is added up as the price is, at delta.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpkv.accounting import Neighbours, Step, cost_of
from dpkv.audits.transcripts import squared_distance
from dpkv.corners import farthest_pair
from dpkv.errors import PlanError
from dpkv.grid import Grid
from dpkv.records import ArrayRecords, Exchange, Program, Records
from dpkv.records.block import Block
from dpkv.records.questions import Question
from dpkv.seeding.exact import heaviest_exact
from dpkv.types import Integers

ROUNDING = 1e-9
"""Of losses, which are calculated in floats."""
_PLACES = 32
"""Steps along the diagonal."""
_MOST_GROUPS = 6
_LARGEST_GROUP = 1 << 20
_MOST_ROWS = 1 << 12
"""Of a group whose records are too heavy for one row."""

ProgramFor = Callable[[int], Program[Any]]
"""From the number of records, which a mechanism may use where it is public, to the mechanism."""


@dataclass(frozen=True)
class Scene:
    """A table: equal records in groups along the diagonal, and the one record that differs."""

    old: int
    """Where the differing record is, in steps of the diagonal."""
    new: int
    """Where it is instead, under replace-one."""
    groups: tuple[tuple[int, int], ...]
    """Where records are, and how many."""

    @property
    def n_records(self) -> int:
        """The number of records with the differing one."""
        return 1 + sum(count for _, count in self.groups)


@dataclass(frozen=True, eq=False)
class FoundLoss:
    """A run with a large loss, and what it is of."""

    scene: Scene
    removed: bool
    """Whether the first table is the one without the record."""
    first: CompactTable
    second: CompactTable
    coins: int
    exchanges: tuple[Exchange, ...]
    steps: tuple[Step, ...]
    """What every question costs."""
    losses: tuple[float, ...]
    """Of every question: in eps, or in rho where its noise is Gaussian."""
    loss: float
    """Of the whole, in eps, at the mechanism's delta."""
    price: float
    largest_share: float
    """The largest of a question's loss over its own price."""
    broke_plan: str | None = None
    """What the mechanism asked beyond its plan."""

    @property
    def share(self) -> float:
        """The loss over the price."""
        return self.loss / self.price if 0 < self.price < math.inf else 0.0

    @property
    def violates(self) -> bool:
        """Whether the run loses more than its price, or a question more than its own."""
        most = max(self.share, self.largest_share)
        return self.broke_plan is not None or most > 1.0 + ROUNDING


@dataclass(frozen=True, eq=False)
class CompactTable:
    """Points, and how many records are at each."""

    points: Integers
    counts: NDArray[np.int64]

    def records(self, shares: int, heaviest: int = 1 << 62) -> CompactRecords:
        """Return what questions are asked of; a record weighs so many shares.

        No row weighs more than ``heaviest``, unless a single record does.
        """
        return CompactRecords(self, shares, max(1, heaviest // shares))


class CompactRecords(ArrayRecords):
    """Equal records as few rows that weigh as much as all of them."""

    def __init__(self, table: CompactTable, shares: int, most: int) -> None:
        pieces = np.maximum(-(-table.counts // most), 1)
        counts = np.repeat(np.minimum(table.counts, most), pieces)
        ends = pieces.cumsum() - 1
        counts[ends] = table.counts - (pieces - 1) * most
        super().__init__(np.repeat(table.points, pieces, axis=0), counts * shares)
        self._table, self._shares = table, shares

    @property
    def n_records(self) -> int:
        """The number of records."""
        return int(self._table.counts.sum())

    def take(self, records: Integers) -> Block:
        """Return some records, each as a row of its own."""
        rows = np.searchsorted(self._table.counts.cumsum(), records, side="right")
        points = self._table.points[rows]
        if self._shares == 1:
            return Block(points)
        return Block(points, np.full(len(rows), self._shares, np.int64))


class Adversary:
    """Answers questions so that the first table looks as unlike the second as it can."""

    def __init__(self, program: Program[Any], first: Records, second: Records, coins: int) -> None:
        self._neighbours, self._unit = program.neighbours, program.unit
        self._coming = iter(program.schedule())
        self._tables = first, second
        public = program.neighbours is Neighbours.REPLACE_ONE
        self.public_size = first.n_records if public else None
        self.coins = np.random.default_rng(coins)
        self.exchanges: list[Exchange] = []
        self.steps: list[Step] = []

    def __call__(self, question: Question) -> Any:
        """Return the most telling answer to the next question of the plan."""
        planned, step = next(self._coming, None), question.step(self._neighbours, self._unit)
        if planned is None:
            raise PlanError(f"it asks one question more than its plan has ({step.name})")
        if planned != step:
            raise PlanError(f"it asks {step.name} where its plan has {planned.name}, or dearer")
        answer = question.most_telling(*self._tables)
        self.exchanges.append(Exchange(question, answer))
        self.steps.append(step)
        return answer


def search_runs(
    program_for: ProgramFor,
    *,
    n_clusters: int,
    tries: int,
    seed: int,
    n_records: int | None = None,
    weight: int = 1,
) -> FoundLoss | None:
    """Return the run of largest loss over its price that so many tries find.

    ``n_records`` is given where the mechanism is for that number alone. A sound ``weight`` of
    records is one: another is a planted fault.
    """
    rng = np.random.default_rng([seed, 13])
    best: FoundLoss | None = None
    scenes = _openings(n_clusters)
    for attempt in range(tries):
        opening = next(scenes, None)
        if opening is None and best is not None:
            opening = _change(best.scene, rng)
        scene = _of_size(opening or Scene(_PLACES, 0, ()), n_records)
        for removed in (False, True):
            found = run_scene(program_for, scene, removed=removed, coins=attempt % 3, weight=weight)
            if found is not None and (best is None or _rank(found) > _rank(best)):
                best = found
        if best is not None and (best.violates or best.share > 1.0 - ROUNDING):
            break
    return best


def _rank(found: FoundLoss) -> tuple[bool, float, float]:
    return found.violates, found.share, found.largest_share


def run_scene(
    program_for: ProgramFor, scene: Scene, *, removed: bool, coins: int, weight: int = 1
) -> FoundLoss | None:
    """Return what a run loses between a scene's two tables; None where it cannot be run there."""
    program = program_for(scene.n_records)
    shares, heaviest = program.unit.shares * weight, heaviest_exact(program.grid.diam2_squared)
    if program.n_records_needed is None:
        scene = _thinned(scene, _MOST_ROWS * max(1, heaviest // shares))
    first, second = _tables(program.grid, program.neighbours, scene)
    if removed:
        first, second = second, first
    if not first.counts.sum() or not second.counts.sum():
        return None
    records = first.records(shares, heaviest), second.records(shares, heaviest)
    ask = Adversary(program, *records, coins)
    broke = None
    try:
        program.run(ask)
    except PlanError as error:
        broke = str(error)
    losses, shares_of = _losses_of(ask, records)
    price = float(cost_of(program.schedule(), program.delta))
    return FoundLoss(
        scene, removed, first, second, coins, tuple(ask.exchanges), tuple(ask.steps), losses,
        _whole(ask.steps, losses, program.delta), price, max(shares_of, default=0.0), broke,
    )  # fmt: skip


def _losses_of(
    ask: Adversary, records: tuple[Records, Records]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the loss of every question, and each over its own price."""
    losses, shares = [], []
    for exchange, step in zip(ask.exchanges, ask.steps, strict=True):
        if step.rho is not None:
            loss, price = squared_distance(exchange, records), float(step.rho)
        else:
            loss = exchange.loss(*records)
            price = math.inf if step.eps is None else float(step.eps)
        losses.append(loss)
        shares.append(0.0 if loss == 0.0 else abs(loss) / price if price > 0.0 else math.inf)
    return tuple(losses), tuple(shares)


def _whole(steps: list[Step], losses: tuple[float, ...], delta: float) -> float:
    """Return what the losses come to together, added up as prices are."""
    if any(map(math.isinf, losses)):
        return math.inf
    if all(step.rho is None for step in steps):
        return abs(math.fsum(losses))
    found = [
        replace(step, eps=None, exact=None, rho=Fraction(loss))
        if step.rho is not None
        else replace(step, eps=Decimal(max(0.0, loss)), exact=None)
        for step, loss in zip(steps, losses, strict=True)
    ]
    return float(cost_of(found, delta))


# -- tables ----------------------------------------------------------------------------------------


def _openings(k: int) -> Iterator[Scene]:
    """Yield what the proofs suggest: alone, between two groups, and far from a heavy group."""
    end, middle = _PLACES, _PLACES // 2
    yield Scene(end, 0, ())
    yield Scene(end, 0, ((0, max(1, k - 1)),))
    for heavy in (50, 5_000):
        yield Scene(end, 0, ((0, heavy), (end, heavy)))
    for near in (0, 30, 100, 300, 1_000):
        for heavy in (20 * max(near, 50), 200 * max(near, 50)):
            yield Scene(end, 0, ((end, near), (middle, heavy)))
            if k > 1:
                spread = np.linspace(0, 0.7 * end, k).astype(int).tolist()
                yield Scene(end, 0, ((end, near), *((place, heavy) for place in spread)))


def _change(scene: Scene, rng: np.random.Generator) -> Scene:
    """Return a scene a little different."""
    groups = list(scene.groups)
    what = rng.choice(["count", "count", "count", "place", "add", "drop", "old", "new"])
    if what in ("count", "place", "drop") and groups:
        number = int(rng.integers(len(groups)))
        place, count = groups[number]
        if what == "drop":
            del groups[number]
        elif what == "place":
            groups[number] = int(rng.integers(_PLACES + 1)), count
        else:
            factor = math.exp(rng.normal(0.0, float(rng.choice([0.03, 0.3, 1.5]))))
            larger = round((count + 1) * factor) - 1
            groups[number] = place, min(_LARGEST_GROUP, max(0, larger))
        return replace(scene, groups=tuple(groups))
    if what == "old":
        return replace(scene, old=int(rng.integers(_PLACES + 1)))
    if what == "new":
        return replace(scene, new=int(rng.integers(_PLACES + 1)))
    added = int(rng.integers(_PLACES + 1)), int(10 ** rng.uniform(0, 4))
    return replace(scene, groups=(*groups, added)[-_MOST_GROUPS:])


def _thinned(scene: Scene, most: int) -> Scene:
    """Return the scene with so many records a group at most."""
    return replace(scene, groups=tuple((place, min(most, count)) for place, count in scene.groups))


def _of_size(scene: Scene, n_records: int | None) -> Scene:
    """Return the scene with so many records in all: groups shrink, or the last one grows."""
    if n_records is None:
        return scene
    left, groups = n_records - 1, list[tuple[int, int]]()
    for place, count in scene.groups:
        groups.append((place, min(left, count)))
        left -= groups[-1][1]
    return replace(scene, groups=(*groups, (0, left)))


def _tables(grid: Grid, neighbours: Neighbours, scene: Scene) -> tuple[CompactTable, CompactTable]:
    """Return the table with the record where it is first, and its neighbour."""
    common = [(place, count) for place, count in scene.groups if count]
    with_old = _table(grid, [(scene.old, 1), *common])
    if neighbours is Neighbours.ADD_REMOVE:
        return with_old, _table(grid, common)
    return with_old, _table(grid, [(scene.new, 1), *common])


def _table(grid: Grid, groups: list[tuple[int, int]]) -> CompactTable:
    start, end = farthest_pair(grid)
    share = np.asarray([place for place, _ in groups], np.float64)[:, np.newaxis] / _PLACES
    points = grid.clip(np.rint(start + share * (end - start)).astype(np.int64))
    counts = np.asarray([count for _, count in groups], np.int64)
    return CompactTable(points.astype(np.int32).reshape(len(groups), grid.n_features), counts)
