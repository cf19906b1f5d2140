"""One record, please: picked by its distance to the centers so far, released through a density.

This is a round of Algorithm 0 on the grid, with integers throughout. Round 1 picks by weight alone.
Later rounds pick record a with probability proportional to its weight times D_t(a) + S; where that
is zero for all, or S is None, by weight alone. The record is released through a density p_a
(``density.py``) whose ratio rho bounds p_a(x) / p_a'(x), exactly.

Proof "theorem-a" (``accounting/theorem_a.py``). S is the theorem's gamma diam2^2. A round costs
what the theorem says of it: log(1 + (rho - 1) / m) for the first and log(1 + w (rho - 1)) for every
later one. For replace-one neighbours, with m public. The theorem asks nothing of the density but
rho. A record is a row, or a person whose rows share one weight. What is picked with probability v
is then any of these rows, released with a mixture of their densities, and Theorem A holds as it
stands (``docs/proofs/persons.md``).

Proof "local". Given the centers so far, the distribution of the next one is a mixture of p_a over
the records a, however they are picked. All p_a are within a factor rho of each other at every x, so
any two mixtures are: of neighbouring tables, and of any two tables at all. A round costs log rho,
for replace-one and for add/remove alike. Weights may be anything. Where no row has any, the
domain's middle is released through the noise, which is one more such density.

"none" is no proof: the noise follows the paper's formula from figures of the data, and the
question has no price.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import Literal

import numpy as np

from dpkv.accounting import ROW, Neighbours, Step, Unit
from dpkv.errors import UsageError
from dpkv.grid import Grid
from dpkv.noise import Entropy
from dpkv.records.block import Block
from dpkv.records.questions.density import Density
from dpkv.records.questions.question import Question, Records
from dpkv.seeding.exact import ExactDistances
from dpkv.types import Float64s, Integers

_MOST_TRIED = 64
PickProof = Literal["theorem-a", "local", "none"]


@dataclass(frozen=True)
class PickTerms:
    """What all rounds of a mechanism have in common."""

    density: Density
    """What a picked record is released through."""
    smoothing: int | None
    """S, in squared grid steps; None picks by weight alone in every round."""
    proof: PickProof
    n_records: int | None = None
    """m, which Theorem A takes as public."""

    @property
    def grid(self) -> Grid:
        """The public grid."""
        return self.density.grid

    @property
    def gamma(self) -> float | Fraction:
        """The smoothing as a share of diam2^2, exactly; infinite where picks are uniform."""
        if self.smoothing is None or self.grid.diam2_squared == 0:
            return math.inf
        return Fraction(self.smoothing, self.grid.diam2_squared)

    def step(self, neighbours: Neighbours, unit: Unit = ROW, *, first: bool) -> Step:
        """Return the price of the first round, or of a later one."""
        return _price(self, neighbours, unit, first)


@lru_cache(maxsize=256)
def _price(terms: PickTerms, neighbours: Neighbours, unit: Unit, first: bool) -> Step:
    if terms.proof == "none":
        return Step("unproved-center", None)
    if terms.proof == "local":
        return terms.density.local_step("noisy-center")
    if neighbours is not Neighbours.REPLACE_ONE or terms.n_records is None:
        raise UsageError("Theorem A is for replace-one neighbours and a public number of records.")
    if not unit.even:
        raise UsageError("Theorem A is for units of privacy that all weigh the same.")
    opening, later = terms.density.round_costs(terms.n_records, terms.gamma)
    if first:
        return Step("uniform-pick", opening)
    return Step("smoothed-pick", later)


@dataclass(frozen=True, eq=False)
class NoisyPick(Question):
    """One record, picked by distance to ``centers``, through a density."""

    terms: PickTerms
    centers: Integers
    """Those released so far, moved into the domain."""

    def step(self, neighbours: Neighbours, unit: Unit = ROW) -> Step:
        """Return what Theorem A, or the local argument, makes this round cost."""
        return self.terms.step(neighbours, unit, first=not len(self.centers))

    def answer(self, records: Records, entropy: Entropy) -> Integers:
        """Return a record as its density releases it."""
        smoothing, totals = self._weighed(records)
        if sum(totals) == 0:
            return self.terms.density.draw(self.terms.grid.middle, entropy)
        target = entropy.below(sum(totals))
        number = 0
        while target >= totals[number]:
            target -= totals[number]
            number += 1
        point = records.gather_one(number, partial(_found, self, target, smoothing))
        return self.terms.density.draw(point, entropy)

    def most_telling(self, first: Records, second: Records) -> Integers:
        """Return the point among the records of both that is most likelier on the first."""
        blocks = [*first.gather(_points), *second.gather(_points)]
        places = np.unique(np.concatenate(blocks).astype(np.int64), axis=0)[:_MOST_TRIED]
        return max(
            places,
            key=lambda x: self.log_probability(first, x) - self.log_probability(second, x),
        )

    def _weighed(self, records: Records) -> tuple[int | None, list[int]]:
        """Return the smoothing that is picked with, and what every block weighs with it."""
        smoothing = self.terms.smoothing if len(self.centers) else None
        totals = records.gather(partial(_total, self, smoothing))
        if smoothing is not None and sum(totals) == 0:
            return None, records.gather(partial(_total, self, None))
        return smoothing, totals

    def log_probability(self, records: Records, answer: Integers) -> float:
        """Return log of sum_a W(a) P(answer | a) / sum_a W(a)."""
        smoothing, totals = self._weighed(records)
        if sum(totals) == 0:
            middle = self.terms.grid.middle[np.newaxis]
            return float(self.terms.density.log_likelihoods(middle, answer)[0])
        parts = records.gather(partial(_log_mass, self, answer, smoothing))
        peak = max(parts)
        if peak == -math.inf:
            return -math.inf
        mixture = peak + math.log(math.fsum(math.exp(part - peak) for part in parts))
        return mixture - math.log(sum(totals))


def _points(block: Block) -> Integers:
    return block.points


def _distances(question: NoisyPick, block: Block) -> ExactDistances:
    """Return the distances to the centers, going on from those of an earlier round."""
    grid, wanted = question.terms.grid, question.centers
    known, distances = block.recall(
        "distances",
        grid.diam2_squared,
        lambda: (
            list[Integers](),
            ExactDistances(block.points, grid.diam2_squared, block.weights),
        ),
    )
    done = known[0] if known else wanted[:0]
    if not np.array_equal(done, wanted[: len(done)]):
        block.forget("distances")
        return _distances(question, block)
    if len(done) < len(wanted):
        distances.add(wanted[len(done) :])
    known[:] = [wanted]
    return distances


def _total(question: NoisyPick, smoothing: int | None, block: Block) -> int:
    return _distances(question, block).total(smoothing)


def _found(question: NoisyPick, target: int, smoothing: int | None, block: Block) -> Integers:
    row = _distances(question, block).find(target, smoothing)
    return np.asarray(block.points[row], dtype=np.int64)


def _log_mass(question: NoisyPick, answer: Integers, smoothing: int | None, block: Block) -> float:
    """Return log of the sum over a block of W(a) P(answer | a)."""
    weights = block.weights.astype(np.float64) if block.weights.size else np.ones(block.n_rows)
    if smoothing is not None:
        nearest = _distances(question, block).nearest
        weights = weights * (nearest.astype(np.float64) + float(smoothing))
    logs: Float64s = question.terms.density.log_likelihoods(block.points, answer)
    some = (weights > 0) & (logs > -np.inf)
    if not some.any():
        return -math.inf
    logs = np.log(weights[some]) + logs[some]
    peak = float(logs.max())
    return peak + math.log(math.fsum(np.exp(logs - peak)))
