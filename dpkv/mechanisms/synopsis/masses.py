"""How many records every cell holds: expected numbers, given the noisy counts of the leaves.

Noisy counts are noisy: most empty leaves do not look empty, and a few records do not stand out. No
threshold decides which it is. The potential of centers is linear in the numbers of records, so what
it is expected to be, given the answers, is that of the *expected* numbers; and these are worked out
from a model of how records fall into cells. A cell's share in its parent is

    0 or 1, with probability ``_ONE_SIDED`` each: clusters leave half of a cell empty;
    otherwise anything in between, by the arcsine law: small shares and large ones are common.

The likelihoods of the counts are handed up the tree, as functions of the number of records on a
grid that is fine near 0 and coarse far away, and what else is known is handed down (belief
propagation, exact but for interpolation). Where a subtree stands out of its noise by far, the model
has nothing to add: there the totals of the halves are made to fit their parent's by least squares
(constrained inference: Hay, Rastogi, Miklau and Suciu, 2010). All of it is post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from dpkv.kernels import compiled
from dpkv.types import Float64s, Integers

_ONE_SIDED = 0.2
_SHARES = 16
_VALUES = 32
_FEWEST_SCALES, _MOST_SCALES = 16.0, 2.0**24  # that the grid of numbers reaches to
_SURE = 8.0  # standard deviations of a total from which on a subtree stands out by far
_TINY = 1e-300


@dataclass(frozen=True, eq=False)
class Masses:
    """Of every cell of a tree."""

    means: Float64s
    """The expected number of its records; at least 0, and the halves' is their parent's."""
    variances: Float64s
    """How far off that may be, squared."""


def expected_masses(children: Integers, counts: Float64s, scale: float) -> Masses:
    """Return the expected numbers of records; ``counts`` holds the leaves' noisy ones, else 0."""
    totals, leaves, sure = _totals(children, counts, scale)
    largest = max(float(totals[~sure].max(initial=0.0)), float(totals[0]) if not sure[0] else 0.0)
    reach = 2.0 ** math.ceil(math.log2(min(max(largest / scale, _FEWEST_SCALES), _MOST_SCALES)))
    values, shares, chances, tables = _model(2.0 * reach)
    rows = np.cumsum(~sure) - 1  # of the unsure subtrees alone: where few are, little is kept
    seen = _seen_from_below(children, counts, scale, sure, rows, values, chances, *tables)
    found = totals, leaves, sure, rows, seen
    return Masses(*_handed_down(children, *found, scale, values, shares, chances, *tables))


@cache
def _model(reach: float) -> tuple[Float64s, Float64s, Float64s, tuple[Integers | Float64s, ...]]:
    """Return numbers, shares, their chances, and where shares of numbers are among the numbers."""
    values = np.sinh(np.linspace(0.0, math.asinh(reach), _VALUES))
    inner = np.sin(0.5 * math.pi * (np.arange(_SHARES) + 0.5) / _SHARES) ** 2
    shares = np.concatenate([[0.0, 1.0], inner])
    between = np.full(_SHARES, (1.0 - 2.0 * _ONE_SIDED) / _SHARES)
    chances = np.concatenate([[_ONE_SIDED, _ONE_SIDED], between])
    first = _places(np.outer(shares, values), values)
    return values, shares, chances, (*first, *_places(np.outer(1.0 - shares, values), values))


def _places(wanted: Float64s, values: Float64s) -> tuple[Integers, Float64s]:
    """Return the value below each of ``wanted``, and how far it is on the way to the next."""
    below = np.clip(np.searchsorted(values, wanted, side="right") - 1, 0, len(values) - 2)
    return below, np.clip((wanted - values[below]) / (values[below + 1] - values[below]), 0.0, 1.0)


@compiled
def _totals(children, counts, scale):  # type: ignore[no-untyped-def]
    """Return every subtree's noisy total, its leaves, and whether it stands out by far."""
    n_cells = len(children)
    totals, leaves = np.empty(n_cells), np.empty(n_cells)
    sure = np.zeros(n_cells, np.bool_)
    for cell in range(n_cells - 1, -1, -1):
        child = children[cell]
        if child < 0:
            totals[cell], leaves[cell] = counts[cell], 1.0
        else:
            totals[cell] = totals[child] + totals[child + 1]
            leaves[cell] = leaves[child] + leaves[child + 1]
            sure[cell] = sure[child] or sure[child + 1]
        if totals[cell] > _SURE * scale * math.sqrt(2.0 * leaves[cell]):
            sure[cell] = True
    return totals, leaves, sure


@compiled
def _seen_from_below(  # type: ignore[no-untyped-def]
    children, counts, scale, sure, rows, values, chances, below1, part1, below2, part2
):
    """Return the likelihood of every unsure subtree's counts for every number of its records."""
    n_values, n_shares = len(values), len(chances)
    seen = np.zeros((rows[-1] + 1, n_values))
    for cell in range(len(children) - 1, -1, -1):
        if sure[cell]:
            continue
        child, largest = children[cell], 0.0
        own = seen[rows[cell]]
        for value in range(n_values):
            total = 0.0
            if child < 0:
                noisy = max(counts[cell] / scale, 0.0)  # below 0 nothing but the height differs
                total = math.exp(-abs(noisy - values[value]))
            else:
                for share in range(n_shares):
                    at, part = below1[share, value], part1[share, value]
                    half = seen[rows[child]]
                    first = half[at] + part * (half[at + 1] - half[at])
                    at, part = below2[share, value], part2[share, value]
                    half = seen[rows[child + 1]]
                    second = half[at] + part * (half[at + 1] - half[at])
                    total += chances[share] * first * second
            own[value] = total
            largest = max(largest, total)
        for value in range(n_values):
            own[value] /= max(largest, _TINY)
    return seen


@compiled
def _value_at(seen, values, number):  # type: ignore[no-untyped-def]
    """Return the value below a number, how far it is to the next, and the likelihood there."""
    at = min(np.searchsorted(values, number, side="right") - 1, len(values) - 2)
    part = min((number - values[at]) / (values[at + 1] - values[at]), 1.0)
    return at, part, seen[at] + part * (seen[at + 1] - seen[at])


@compiled
def _add(known, at, part, chance):  # type: ignore[no-untyped-def]
    """Spread a chance over the value below and the value above."""
    known[at] += chance * (1.0 - part)
    known[at + 1] += chance * part


@compiled
def _moments(known, seen, values):  # type: ignore[no-untyped-def]
    """Return mean and variance of a number, by what is known from above and from below."""
    total, first, second = 0.0, 0.0, 0.0
    for value in range(len(values)):
        chance = known[value] * seen[value]
        total += chance
        first += chance * values[value]
        second += chance * values[value] ** 2
    total = max(total, _TINY)
    mean = first / total
    return mean, max(second / total - mean * mean, 0.0)


@compiled
def _known_beside(known, values, mass):  # type: ignore[no-untyped-def]
    """Write down what is known of half of ``mass`` records where the other half stands out."""
    below = 0.0
    for value in range(len(values) - 1):
        share = min((values[value] + values[value + 1]) / 2.0 / mass, 1.0)
        until = 2.0 / math.pi * math.asin(math.sqrt(share))
        known[value] = (1.0 - 2.0 * _ONE_SIDED) * (until - below)
        below = until
    known[0] += _ONE_SIDED


@compiled
def _hand_to_halves(  # type: ignore[no-untyped-def]
    known, first, second, seen1, seen2, values, chances, below1, part1, below2, part2
):
    """Add what is known of both halves to ``first`` and ``second``, their parent being unsure."""
    for value in range(len(values)):
        if known[value] <= 0.0:
            continue
        for share in range(len(chances)):
            at1, on1 = below1[share, value], part1[share, value]
            at2, on2 = below2[share, value], part2[share, value]
            chance = known[value] * chances[share]
            likely1 = seen1[at1] + on1 * (seen1[at1 + 1] - seen1[at1])
            likely2 = seen2[at2] + on2 * (seen2[at2 + 1] - seen2[at2])
            _add(first, at1, on1, chance * likely2)
            _add(second, at2, on2, chance * likely1)


@compiled
def _hand_shares(mass, first, second, seen1, seen2, values, shares, chances):  # type: ignore[no-untyped-def]
    """The same where the parent holds ``mass`` records; return the first half's expected share."""
    total, mean = 0.0, 0.0
    for share in range(len(shares)):
        at1, on1, likely1 = _value_at(seen1, values, shares[share] * mass)
        at2, on2, likely2 = _value_at(seen2, values, (1.0 - shares[share]) * mass)
        _add(first, at1, on1, chances[share] * likely2)
        _add(second, at2, on2, chances[share] * likely1)
        total += chances[share] * likely1 * likely2
        mean += chances[share] * likely1 * likely2 * shares[share]
    return mean / total if total > _TINY else 0.5


@compiled
def _handed_down(  # type: ignore[no-untyped-def]
    children, totals, leaves, sure, rows, seen, scale, values, shares, chances, *tables
):
    """Return the expected number of records of every cell, and its variance.

    What is known of a cell from above takes the place of what was seen of it from below, which
    nobody needs once its parent was looked at.
    """
    n_cells = len(children)
    means, variances = np.zeros(n_cells), np.zeros(n_cells)
    first, second = np.empty(len(values)), np.empty(len(values))
    means[0], variances[0] = max(totals[0], 0.0), 2.0 * scale**2 * leaves[0]
    for cell in range(n_cells):
        child = children[cell]
        if child < 0:
            continue
        other, mass = child + 1, max(means[cell], 1e-6 * scale)
        first[:], second[:] = 0.0, 0.0
        if sure[child] and sure[other]:
            surplus = mass - totals[child] - totals[other]
            share = (totals[child] + surplus * leaves[child] / leaves[cell]) / mass
            for half in (child, other):
                variances[half] = 2.0 * scale**2 * leaves[half]
        elif sure[child] or sure[other]:
            unsure, clear = (other, child) if sure[child] else (child, other)
            _known_beside(first, values, mass / scale)
            mean, variance = _moments(first, seen[rows[unsure]], values)
            seen[rows[unsure]] = first
            share = min(mean * scale / mass, 1.0)
            share = share if unsure == child else 1.0 - share
            variances[unsure] = variance * scale**2
            variances[clear] = 2.0 * scale**2 * leaves[clear]
        else:
            pair = first, second, seen[rows[child]], seen[rows[other]]
            if cell == 0 or sure[cell]:
                share = _hand_shares(mass / scale, *pair, values, shares, chances)
            else:
                _hand_to_halves(seen[rows[cell]], *pair, values, chances, *tables)
                share = -1.0
            first /= max(first.max(), _TINY)
            second /= max(second.max(), _TINY)
            mean1, variance1 = _moments(first, seen[rows[child]], values)
            mean2, variance2 = _moments(second, seen[rows[other]], values)
            seen[rows[child]], seen[rows[other]] = first, second
            variances[child], variances[other] = variance1 * scale**2, variance2 * scale**2
            if share < 0.0:
                share = mean1 / (mean1 + mean2) if mean1 + mean2 > 0.0 else 0.5
        share = min(max(share, 0.0), 1.0)
        means[child] = share * means[cell]
        means[other] = means[cell] - means[child]
    return means, variances
