"""What the tree of cells costs: PrivTree's argument for discrete noise, certified numerically.

A cell that is tested has the integer score b = max(c - i decay, theta - floor), where c counts its
records and i the tests above it. It is split where b + Z > theta, with Z discrete Laplace of scale
lam: P(z) ~ q^|z|, q = exp(-1 / lam). A path has at most ``levels`` tests. Counts are not published,
so what one sees is the tree: which cells were split.

Theorem. Adding a record multiplies the probability of any tree by at most exp(S), and removing one
by at most exp(1 / lam), where with u = b - theta and r(u) = log P(Z > -u) / P(Z > 1 - u)

    S = sum over i < levels of r(1 - floor + i decay).

So the tree costs max(S, 1 / lam) under add/remove, and S + 1 / lam under replace-one.

Proof. Tests are independent given the table, and the count of a cell off the record's path does not
change. An added record raises every count on its path by one, hence scores by at most one, hence
the probability of a split rises and that of no split falls. A tree's path ends in one leaf, so its
probability rises by at most the product of exp(r) over the split cells whose score did change. A
score that changed is above theta - floor afterwards. Down the path counts never rise, so scores
before the floor fall by at least ``decay`` a test; those that changed are the first few, and
counted from the last of them upwards they are at least theta + 1 - floor, plus decay, plus 2 decay
and so on. r never rises with u, because the tails of a log-concave distribution are log-concave.
Summing the bounds gives S. Removing the record gives back the probability of no split at the leaf:
a factor of at most exp(1 / lam), since moving Z by one changes its probabilities by no more; splits
become less likely. Replacing a record removes one on path A and adds one on path B. Cells on both
paths keep their counts; below, A's leaf pays at most 1 / lam and B's splits at most S; if A and B
end in the same leaf, nothing changes. QED.

Where units of privacy are persons, or rows have weights, counts are in shares, of which a unit has
at most W. Add it share by share: a share lies on one path, so each multiplies the probability by at
most exp(S), or exp(1 / lam) where it is removed. The tree costs W times as much as above, of an S
and a 1 / lam that are W times smaller, with lam, decay and floor in shares
(``docs/proofs/persons.md``).

The closed forms, from geometric series: P(Z > -u) = 1 - q^u / (1 + q) for u >= 1, and q^(1-u) /
(1 + q) for u <= 0. So r(u) = 1 / lam for u <= 1, and below that afterwards. PrivTree (Zhang et al.,
2016) has floor = decay and continuous noise; a floor below the decay costs less.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache, partial

from dpkv.accounting import ROW, Neighbours, Unit
from dpkv.accounting.exact import nearest, upward
from dpkv.errors import ParameterError
from dpkv.validation import LARGEST_WHOLE, positive_finite, whole_number

_MOST_LEVELS = 1024  # each is a term to be added up, and no grid can be halved so often
_EXACT = nearest(90)
_ROUGH = nearest(36)  # to search with: decimals come out the same on every machine
_UP = upward()
_SLACK = Decimal(1).scaleb(-70)  # of every term; rounding at 90 digits loses far less


@dataclass(frozen=True)
class TreeTest:
    """When a cell is split: the noise of the test and how scores fall with depth."""

    scale: float
    """lam."""
    decay: int
    floor: int
    levels: int

    def __post_init__(self) -> None:
        positive_finite("tree_scale", self.scale)
        whole_number("decay", self.decay, at_least=0, at_most=LARGEST_WHOLE)
        whole_number("floor", self.floor, at_least=0, at_most=LARGEST_WHOLE)
        whole_number("levels", self.levels, at_least=1, at_most=_MOST_LEVELS)

    def score_fall(self, tests: int) -> int:
        """Return how much lower a score is after so many tests above it."""
        return tests * self.decay

    def cost(self, neighbours: Neighbours, unit: Unit = ROW) -> Decimal:
        """Return what the tree costs, rounded up."""
        return _certified(self, neighbours, _most_shares(unit))

    def rough_cost(self, neighbours: Neighbours, unit: Unit = ROW) -> Decimal:
        """Return about what the tree costs, to search with."""
        return _price(self, neighbours, _most_shares(unit), _ROUGH)


def _most_shares(unit: Unit) -> int:
    return unit.changed(Neighbours.ADD_REMOVE)


@lru_cache(maxsize=64)
def _certified(test: TreeTest, neighbours: Neighbours, shares: int) -> Decimal:
    """Add up the theorem's terms, each rounded up."""
    return _price(test, neighbours, shares, _EXACT)


def _price(test: TreeTest, neighbours: Neighbours, shares: int, context: Context) -> Decimal:
    """Add up the theorem's terms, calculated in ``context`` and rounded up."""
    inverse, leaf = (_inverse(test.scale, some) for some in (context, _UP))
    splits = Decimal(0)
    for i in range(test.levels):
        u = 1 - test.floor + i * test.decay
        splits = _UP.add(splits, leaf if u <= 1 else _log_ratio(u, inverse, context))
    of_one = max(splits, leaf) if neighbours is Neighbours.ADD_REMOVE else _UP.add(splits, leaf)
    return _UP.multiply(of_one, Decimal(shares))


def _inverse(scale: float, context: Context) -> Decimal:
    """Return 1 / lam."""
    exact = 1 / Fraction(scale)
    return context.divide(Decimal(exact.numerator), Decimal(exact.denominator))


def _log_ratio(u: int, inverse: Decimal, context: Context) -> Decimal:
    """Return r(u) for u >= 2, rounded up in 90 digits; ``inverse`` is 1 / lam."""
    falling = inverse.copy_negate()
    one_and_q = context.add(Decimal(1), context.exp(falling))
    more, less = (
        context.subtract(one_and_q, context.exp(context.multiply(falling, Decimal(power))))
        for power in (u, u - 1)
    )
    return _UP.add(context.ln(context.divide(more, less)), _SLACK)


@lru_cache(maxsize=64)
def calibrate_test(
    eps: Decimal,
    *,
    decay: float,
    floor: float,
    levels: int,
    neighbours: Neighbours,
    unit: Unit = ROW,
) -> TreeTest:
    """Return the test with about the least noise that ``eps`` allows.

    ``decay`` and ``floor`` are in units of the noise's scale. The search is in few digits; what it
    finds is priced in many, with a hair more noise where it is needed.
    """
    farthest = (levels + 1.0) * unit.shares / float(eps)  # all tests at their full price
    if not math.isfinite(farthest):
        raise ParameterError("eps", "large enough for a finite noise", f"{eps:f}")

    def free(scale: float) -> TreeTest:
        return TreeTest(scale, max(1, round(decay * scale)), max(1, round(floor * scale)), levels)

    closest = 0.5 * unit.shares / float(eps)
    rough = free(_least_scale(free, eps, neighbours, unit, closest, farthest))
    # Rounding made steps in the price: once both are whole numbers, less noise may do.
    fixed = partial(TreeTest, decay=rough.decay, floor=rough.floor, levels=levels)
    scale = _least_scale(fixed, eps, neighbours, unit, rough.scale / 4.0, farthest)
    hair = 1e-15
    while fixed(scale).cost(neighbours, unit) > eps:
        scale, hair = scale * (1.0 + hair), 2.0 * hair
    return fixed(scale)


def _least_scale(
    test_at: Callable[[float], TreeTest],
    eps: Decimal,
    neighbours: Neighbours,
    unit: Unit,
    low: float,
    high: float,
) -> float:
    """Bisect for about the least scale whose test costs at most ``eps``; at ``high`` it does."""
    for _ in range(60):
        middle = math.sqrt(low * high)
        if test_at(middle).rough_cost(neighbours, unit) <= eps:
            high = middle
        else:
            low = middle
    return high
