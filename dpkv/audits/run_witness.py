"""Witnesses of whole runs: two neighbouring tables, and answers whose loss anyone can recompute.

``check_run_witness`` lets the mechanism ask its questions again, with the answers of the witness,
and sees that they are those of the witness. What the answers lose between the tables it recomputes
by ``run_intervals.py``, which shares no code with the losses. Where noise is Gaussian, that is rho,
and the whole is added up at delta as prices are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, FiniteFloat

from dpkv.accounting import Neighbours, Step, cost_of
from dpkv.audits.intervals import round_loss
from dpkv.audits.run_intervals import LOSSES, Enclosure, Rows
from dpkv.audits.whole_run import CompactTable, FoundLoss
from dpkv.audits.witness import bits_of, levels_of
from dpkv.domain import Domain
from dpkv.errors import PlanError, UsageError
from dpkv.grid import GRID_BITS
from dpkv.mechanisms import Mechanism, describe, from_description
from dpkv.records.questions import (
    CORE_BINS,
    CORE_PARTS,
    CORE_STRETCHES,
    BlockCenters,
    CellCounts,
    CellPlaces,
    CellSplits,
    ClusterCounts,
    ClusterSums,
    CoreColumns,
    CoreReach,
    NoisyPick,
    NormHistograms,
    Question,
    RecordCount,
    ResidualSums,
)
from dpkv.records.questions.cells import PLACE_UNIT
from dpkv.records.questions.projection import MAP_BITS, PublicMap
from dpkv.records.questions.question import NoisySums
from dpkv.records.questions.tree import Tree, tree_from_splits
from dpkv.releases.frozen import Frozen
from dpkv.releases.parsing import parse
from dpkv.releases.verify import Check
from dpkv.validation import MOST_RECORDS

_DOWN, _UP = (Context(prec=60, rounding=way) for way in (ROUND_FLOOR, ROUND_CEILING))
_MOST_POINTS, _MOST_QUESTIONS, _MOST_NUMBERS = 64, 2_000, 200_000
_AGREE = 1e-9
_FLAT = ("record-count", "cluster-counts", "cell-counts", "core-reach")


class WitnessTable(Frozen):
    """Points of the grid, and how many records are at each."""

    points: tuple[tuple[int, ...], ...]
    counts: tuple[Annotated[int, Field(ge=1, le=MOST_RECORDS)], ...]


class WitnessQuestion(Frozen):
    """A question, all that its probabilities depend on, and its answer."""

    name: str
    facts: dict[str, Any]
    answer: list[int] | str


class RunWitness(Frozen):
    """Neighbouring tables, and a run with its answers."""

    schema_version: Literal[1] = 1
    kind: Literal["run-witness"] = "run-witness"
    visibility: Literal["public", "curator-only"] = "public"
    claimed_eps: str
    mechanism: dict[str, Any]
    domain: dict[str, Any]
    grid_bits: int = GRID_BITS
    coins: Annotated[int, Field(ge=0, le=2**31)]
    first: WitnessTable
    """Where the answers are likelier."""
    second: WitnessTable
    questions: tuple[WitnessQuestion, ...]
    loss: FiniteFloat

    def to_json(self) -> str:
        """Return the witness as JSON text."""
        return self.model_dump_json(indent=2) + "\n"


# -- writing ---------------------------------------------------------------------------------------


def run_witness_of(
    found: FoundLoss, mechanism: Mechanism, domain: Domain, claimed_eps: str
) -> RunWitness | None:
    """Write a run down; None where it cannot be recomputed from a description."""
    described = describe(mechanism)
    if from_description(described, mechanism.grid) != mechanism:
        return None
    if found.broke_plan is not None or found.loss == float("inf"):
        return None
    if domain.grid(bits_of(mechanism.grid, domain)) != mechanism.grid:
        return None
    try:
        questions = tuple(_written(one.question, one.answer) for one in found.exchanges)
    except KeyError:
        return None
    is_pure = all(step.rho is None for step in found.steps)
    written = RunWitness(
        claimed_eps=claimed_eps,
        mechanism=described,
        domain=domain.to_dict(),
        grid_bits=bits_of(mechanism.grid, domain),
        coins=found.coins,
        first=_table(found.first),
        second=_table(found.second),
        questions=questions,
        loss=float(sum(found.losses)) if is_pure else found.loss,
    )
    return written if _is_within_reach(written, mechanism) else None


def _is_within_reach(witness: RunWitness, mechanism: Mechanism) -> bool:
    """Tell whether the other code covers such questions: not of blocks of many records."""
    try:
        _recomputed(witness, mechanism)
    except ValueError:
        return False
    return True


def _table(table: CompactTable) -> WitnessTable:
    return WitnessTable(points=_plain(table.points), counts=tuple(table.counts.tolist()))


def _plain(values: Any) -> Any:
    return np.asarray(values).tolist()


def _written(question: Question, answer: Any) -> WitnessQuestion:
    """Return a question as plain numbers; a KeyError says that it is of a kind not known here."""
    name, facts = _WRITERS[type(question)](question)
    if isinstance(question, NoisySums):
        every = np.broadcast_to(question.scales(), np.shape(answer))
        facts["scales"] = every.ravel().tolist()
        if question.is_gaussian:
            facts["gaussian"] = True
    plain = answer.splits if isinstance(answer, Tree) else np.ravel(answer).tolist()
    return WitnessQuestion(name=name, facts=facts, answer=plain)


def _leaves(tree: Tree) -> list[list[list[int]]]:
    lower, upper = _plain(tree.lower[tree.leaves]), _plain(tree.upper[tree.leaves])
    return [list(pair) for pair in zip(lower, upper, strict=True)]


def _map_of(space: PublicMap | None) -> dict[str, Any]:
    """Return how points become points among cells, where those have other dimensions."""
    if space is None:
        return {}
    if space.matrix is None:
        ends = {kind: _plain(getattr(space, kind)) for kind in ("lowest", "highest")}
        return {"map": ends} if space.is_core else {}
    kinds = ("lowest", "highest", "matrix", "middle")
    return {"map": {"bits": MAP_BITS, **{kind: _plain(getattr(space, kind)) for kind in kinds}}}


def _of_tree(question: CellSplits) -> tuple[str, dict[str, Any]]:
    test, groups = question.test, question.space.groups
    return "cell-tree", {
        **_map_of(question.space),
        **({"groups": _plain(groups)} if groups else {}),
        "lowest": _plain(question.space.lowest),
        "highest": _plain(question.space.highest),
        "scale": test.scale,
        "decay": test.decay,
        "floor": test.floor,
        "levels": test.levels,
        "untested": question.untested,
        "threshold": question.threshold,
    }


def _of_core_columns(question: CoreColumns) -> tuple[str, dict[str, Any]]:
    ends = {"lowest": _plain(question.space.lowest), "highest": _plain(question.space.highest)}
    return "core-columns", {**_map_of(question.space), **ends, "bins": CORE_BINS}


def _of_core_reach(question: CoreReach) -> tuple[str, dict[str, Any]]:
    return "core-reach", {
        **_map_of(question.space),
        "lower": _plain(question.lower),
        "upper": _plain(question.upper),
        "stretches": list(CORE_STRETCHES),
        "whole": CORE_PARTS,
    }


def _of_cells(question: CellCounts) -> tuple[str, dict[str, Any]]:
    return "cell-counts", {**_map_of(question.space), "leaves": _leaves(question.tree)}


def _of_places(question: CellPlaces) -> tuple[str, dict[str, Any]]:
    facts = {"leaves": _leaves(question.tree), "reach": question.reach, "half": PLACE_UNIT}
    return "cell-places", {**_map_of(question.space), **facts}


def _of_norms(question: NormHistograms) -> tuple[str, dict[str, Any]]:
    return "residual-norms", {
        **_map_of(question.clusters.space),
        "heads": _plain(question.clusters.centers),
        "centers": _plain(question.centers),
        "edges": _plain(question.edges),
        "squared": question.squared,
    }


def _of_residuals(question: ResidualSums) -> tuple[str, dict[str, Any]]:
    return "residual-sums", {
        **_map_of(question.clusters.space),
        "heads": _plain(question.clusters.centers),
        "centers": _plain(question.centers),
        "radii": _plain(question.radii),
    }


def _of_block(question: BlockCenters) -> tuple[str, dict[str, Any]]:
    if question.n_blocks != 1:
        raise KeyError("blocks")
    numbers = question.n_clusters * question.grid.n_features
    return "block-centers", {
        "k": question.n_clusters,
        "middle": _plain(question.grid.middle),
        "scales": [question.scale] * numbers,
    }


def _of_pick(question: NoisyPick) -> tuple[str, dict[str, Any]]:
    smoothing = question.terms.smoothing if len(question.centers) else None
    return "pick", {"centers": _plain(question.centers), "smoothing": smoothing}


_WRITERS: dict[type[Question], Callable[[Any], tuple[str, dict[str, Any]]]] = {
    RecordCount: lambda _: ("record-count", {}),
    ClusterCounts: lambda one: ("cluster-counts", {"centers": _plain(one.centers)}),
    ClusterSums: lambda one: (
        "cluster-sums",
        {"centers": _plain(one.centers), "middle": _plain(one.grid.middle)},
    ),
    CoreColumns: _of_core_columns,
    CoreReach: _of_core_reach,
    CellSplits: _of_tree,
    CellCounts: _of_cells,
    CellPlaces: _of_places,
    NormHistograms: _of_norms,
    ResidualSums: _of_residuals,
    BlockCenters: _of_block,
    NoisyPick: _of_pick,
}


@dataclass(frozen=True)
class Lost:
    """Enclosure of what a question loses."""

    bounds: Enclosure
    gaussian: bool
    """Whether that is rho."""

    def as_price(self, side: int) -> Step:
        """Return a bound as the price of a step."""
        amount = max(Decimal(0), self.bounds[side])
        if self.gaussian:
            return Step("lost", None, rho=Fraction(amount))
        return Step("lost", amount)


# -- checking --------------------------------------------------------------------------------------


def parse_run_witness(text: str, path: object) -> RunWitness:
    """Return the witness that a file holds."""
    found = parse(RunWitness, text, path, "run-witness")
    numbers = sum(len(one.answer) for one in found.questions)
    points = len(found.first.points) + len(found.second.points)
    if points > _MOST_POINTS or len(found.questions) > _MOST_QUESTIONS or numbers > _MOST_NUMBERS:
        raise UsageError(f"{path} is too large to be recomputed: take a smaller witness.")
    return found


def check_run_witness(witness: RunWitness) -> tuple[Check, ...]:
    """Return every check: its tables, its questions, its loss, and what it says of eps."""
    grid = Domain.from_dict(witness.domain).grid(witness.grid_bits)
    mechanism = from_description(witness.mechanism, grid)
    try:
        neighbours = _are_neighbours(witness, mechanism)
        asked = _asks_again(witness, mechanism)
        found = _recomputed(witness, mechanism)
        low, high = _added_up(found, mechanism)
        dear = _dearest(found, mechanism)
    except (ArithmeticError, ValueError, KeyError, TypeError, IndexError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError("the witness's probabilities cannot be calculated.") from None
    margin = Decimal(_AGREE)
    stated = low - margin <= Decimal(witness.loss) <= high + margin
    return (
        Check("tables", neighbours, f"{mechanism.neighbours.value} neighbours on the public grid"),
        Check("questions", asked, f"the mechanism's own, {len(witness.questions)} of them"),
        Check("loss", stated, f"recomputed as {_shown(low)}"),
        Check(
            "claim",
            low <= Decimal(witness.claimed_eps) and not dear,
            dear or _said(low, witness, mechanism),
        ),
    )


def _said(low: Decimal, witness: RunWitness, mechanism: Mechanism) -> str:
    """Return what a run shows: a loss bounds eps, and rho is compared with its price."""
    if any(one.facts.get("gaussian", False) for one in witness.questions):
        at = f"eps = {_shown(low)} at delta = {mechanism.delta:g}"
        return f"what it loses adds up, as prices do, to {at}, claimed {witness.claimed_eps}"
    return f"this run shows eps >= {_shown(low)}, claimed {witness.claimed_eps}"


def _dearest(found: list[Lost], mechanism: Mechanism) -> str:
    """Return which question loses more than its own price, if any does."""
    for one, step in zip(found, mechanism.schedule(), strict=False):
        price = step.rho if one.gaussian else step.eps if step.exact is None else step.exact
        if price is not None and Fraction(one.bounds[0]) > Fraction(price):
            return f"a question ({step.name}) loses {_shown(one.bounds[0])}, more than its price"
    return ""


def _are_neighbours(witness: RunWitness, mechanism: Mechanism) -> bool:
    tables = [
        dict(zip(table.points, table.counts, strict=True))
        if len(set(table.points)) == len(table.points)
        else _summed(table)
        for table in (witness.first, witness.second)
    ]
    places = np.asarray([*tables[0], *tables[1]], np.int64)
    if not (mechanism.grid.clip(places) == places).all():
        return False
    changes = [tables[0].get(p, 0) - tables[1].get(p, 0) for p in {*tables[0], *tables[1]}]
    apart = sorted(change for change in changes if change)
    if mechanism.neighbours is Neighbours.REPLACE_ONE:
        return apart == [-1, 1]
    return apart in ([1], [-1])


def _summed(table: WitnessTable) -> dict[tuple[int, ...], int]:
    found: dict[tuple[int, ...], int] = {}
    for point, count in zip(table.points, table.counts, strict=True):
        found[point] = found.get(point, 0) + count
    return found


@dataclass(eq=False)
class _Replayed:
    """Gives the witness's answers, as long as the questions are the witness's."""

    witness: RunWitness
    public_size: int | None
    coins: np.random.Generator
    asked: int = 0

    def __call__(self, question: Question) -> Any:
        if self.asked == len(self.witness.questions):
            raise PlanError("the mechanism asks more than the witness has.")
        kept = self.witness.questions[self.asked]
        self.asked += 1
        answer = _restored(question, kept)
        if _written(question, answer) != kept:
            raise PlanError("the mechanism asks another question than the witness has.")
        return answer


def _restored(question: Question, kept: WitnessQuestion) -> Any:
    if isinstance(question, CellSplits):
        return tree_from_splits(str(kept.answer), question.space)
    flat = np.asarray(kept.answer, np.int64)
    if isinstance(question, NoisyPick) or kept.name in _FLAT:
        return flat
    if isinstance(question, CoreColumns):
        return flat.reshape(question.space.n_dimensions, -1)
    rows = len(kept.facts["leaves"]) if "leaves" in kept.facts else len(_heads(question, kept))
    return flat.reshape(rows, -1)


def _heads(question: Question, kept: WitnessQuestion) -> Any:
    return (
        range(question.n_clusters) if isinstance(question, BlockCenters) else kept.facts["centers"]
    )


def _asks_again(witness: RunWitness, mechanism: Mechanism) -> bool:
    public = mechanism.neighbours is Neighbours.REPLACE_ONE
    size = sum(witness.first.counts) if public else None
    ask = _Replayed(witness, size, np.random.default_rng(witness.coins))
    try:
        mechanism.run(ask)
    except PlanError:
        return False
    return ask.asked == len(witness.questions)


def _recomputed(witness: RunWitness, mechanism: Mechanism) -> list[Lost]:
    """Return bounds of what every question loses."""
    first, second = (_rows(table, mechanism) for table in (witness.first, witness.second))
    found = []
    for one in witness.questions:
        if one.name == "pick":
            bounds = _pick_loss(one, mechanism, first, second)
        elif one.name == "block-centers" and max(*witness.first.counts, *witness.second.counts) > 1:
            raise ValueError("a block with equal records is not known")
        else:
            bounds = LOSSES[one.name](one.facts, one.answer, first, second)
        found.append(Lost(bounds, gaussian=one.facts.get("gaussian", False)))
    return found


def _added_up(found: list[Lost], mechanism: Mechanism) -> Enclosure:
    """Return bounds of the whole: a sum, or with Gaussian noise what prices of so much come to."""
    if any(one.gaussian for one in found):
        low, high = (
            cost_of([one.as_price(side) for one in found], mechanism.delta) for side in (0, 1)
        )
        return low, high
    low = high = Decimal(0)
    for one in found:
        low, high = _DOWN.add(low, one.bounds[0]), _UP.add(high, one.bounds[1])
    return low, high


def _rows(table: WitnessTable, mechanism: Mechanism) -> Rows:
    shares = mechanism.unit.shares
    pairs = zip(table.points, table.counts, strict=True)
    return [(point, count * shares) for point, count in pairs]


def _pick_loss(one: WitnessQuestion, mechanism: Mechanism, first: Rows, second: Rows) -> Enclosure:
    density = getattr(mechanism, "density", None)
    if density is None or isinstance(one.answer, str):
        raise ValueError("the mechanism releases no record")
    centers, smoothing = one.facts["centers"], one.facts["smoothing"]
    here, there = (
        round_loss(rows, centers, smoothing, one.answer, levels_of(density))
        for rows in (first, second)
    )
    return _DOWN.subtract(here[0], there[1]), _UP.subtract(here[1], there[0])


def _shown(value: Decimal) -> str:
    return f"{Context(prec=9, rounding=ROUND_FLOOR).plus(value):f}"
