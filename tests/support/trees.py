"""Private trees by brute force: every tree on a line of few points, and its exact probability.

Written from the definition in plain Python, sharing no code with dpkv. A tree is the text of its
splits, level by level, the whole line first: 1 where a cell is halved, else 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import mpmath

from support import laplace


@dataclass(frozen=True)
class Test:
    """When a cell is split: scores max(count - tests above * decay, threshold - floor)."""

    scale: float
    decay: int
    floor: int
    levels: int
    threshold: int

    def splits(self, count: int, tests_above: int) -> float:
        """Return P(score + Z > threshold)."""
        score = max(count - tests_above * self.decay, self.threshold - self.floor)
        return _above(self.threshold - score, self.scale)


@cache
def _above(z: int, scale: float) -> float:
    return float(1 - laplace.at_most(z, scale))


Node = tuple["Node", "Node"] | None


def shapes(width: int, levels: int) -> Iterator[Node]:
    """Yield every tree over so many points; None is a leaf."""
    yield None
    if width > 1 and levels > 0:
        left = (width + 1) // 2
        for first in shapes(left, levels - 1):
            for second in shapes(width - left, levels - 1):
                yield first, second


def text(shape: Node) -> str:
    """Return a tree as its splits, level by level."""
    found, level = "", [shape]
    while level:
        found += "".join("0" if node is None else "1" for node in level)
        level = [child for node in level if node is not None for child in node]
    return found


def log_probability(counts: Sequence[int], shape: Node, test: Test, tests_above: int = 0) -> float:
    """Return the log-probability of a tree for the counts of the points.

    Cells with a negative number of tests above them are split without one.
    """
    if len(counts) == 1 or tests_above == test.levels:
        return 0.0 if shape is None else -math.inf
    chance = 1.0 if tests_above < 0 else test.splits(sum(counts), tests_above)
    if shape is None:
        return math.log1p(-chance)
    left = (len(counts) + 1) // 2
    halves = (counts[:left], shape[0]), (counts[left:], shape[1])
    below = (log_probability(part, node, test, tests_above + 1) for part, node in halves)
    return math.log(chance) + sum(below)


def distribution(counts: Sequence[int], test: Test) -> dict[str, float]:
    """Return every tree's probability."""
    trees = shapes(len(counts), test.levels)
    return {text(tree): math.exp(log_probability(counts, tree, test)) for tree in trees}


def certified(test: Test, *, replaced: bool) -> mpmath.mpf:
    """Return what the tree costs by the theorem, in 40 digits and without its closed forms."""
    with mpmath.workdps(laplace.DIGITS):
        total = mpmath.mpf(0)
        for i in range(test.levels):
            u = 1 - test.floor + i * test.decay
            total += mpmath.log(
                (1 - laplace.at_most(-u, test.scale)) / (1 - laplace.at_most(1 - u, test.scale))
            )
        leaf = 1 / mpmath.mpf(test.scale)
        return total + leaf if replaced else max(total, leaf)


def relative_gap(price: str, test: Test, *, replaced: bool) -> float:
    """Return how far a price is above the theorem's, relatively."""
    expected = certified(test, replaced=replaced)
    with mpmath.workdps(laplace.DIGITS):
        return float((mpmath.mpf(price) - expected) / expected)
