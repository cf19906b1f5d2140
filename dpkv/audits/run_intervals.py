"""What questions lose, in plain Python: whole numbers, fractions and intervals, one row at a time.

Shares no code with the questions, the curator or the losses, so that it checks them. A table is a
list of points with what they weigh. Everything else is in a question's facts, which a witness
holds as plain numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from math import isqrt
from typing import Any

from dpkv.audits.intervals import ONE, Interval, Powers

Point = Sequence[int]
Rows = Sequence[tuple[Point, int]]
"""Points, and what each weighs."""
Facts = dict[str, Any]
Enclosure = tuple[Decimal, Decimal]

_DOWN, _UP = (Context(prec=80, rounding=way) for way in (ROUND_FLOOR, ROUND_CEILING))


def sums_loss(exact: Callable[[Facts, Rows], list[int]]) -> Callable[..., Enclosure]:
    """Return the loss of integers with discrete noise: rational, since normalisers cancel.

    For Laplace noise it is the sum of (|answer - there| - |answer - here|) / scale. For Gaussian
    noise, whose loss is priced as rho, it is that of (here - there)^2 / (2 scale^2), in rho.
    """

    def loss(facts: Facts, answer: list[int], first: Rows, second: Rows) -> Enclosure:
        scales = facts["scales"]
        here, there = exact(facts, first), exact(facts, second)
        if not len(answer) == len(here) == len(scales):
            raise ValueError("an answer has another number of integers than its question")
        total = Fraction(0)
        for a, x, y, scale in zip(answer, here, there, scales, strict=True):
            if facts.get("gaussian", False):
                total += Fraction((x - y) ** 2) / (2 * Fraction(scale) ** 2) if x != y else 0
            else:
                total += Fraction(abs(a - y) - abs(a - x)) / Fraction(scale)
        return _outward(total)

    return loss


def _outward(value: Fraction) -> Enclosure:
    top, bottom = Decimal(value.numerator), Decimal(value.denominator)
    return _DOWN.divide(top, bottom), _UP.divide(top, bottom)


# -- exact sums ------------------------------------------------------------------------------------


def count_records(facts: Facts, rows: Rows) -> list[int]:  # noqa: ARG001
    """Return what all rows weigh."""
    return [sum(weight for _, weight in rows)]


def count_clusters(facts: Facts, rows: Rows) -> list[int]:
    """Return what the rows of every centre weigh."""
    centers = facts["centers"]
    found = [0] * len(centers)
    for point, weight in rows:
        found[_nearest(point, centers)] += weight
    return found


def sum_clusters(facts: Facts, rows: Rows) -> list[int]:
    """Return the sum of the rows' offsets from the middle, for every centre."""
    centers, middle = facts["centers"], facts["middle"]
    found = [[0] * len(middle) for _ in centers]
    for point, weight in rows:
        sums = found[_nearest(point, centers)]
        for axis, (x, m) in enumerate(zip(point, middle, strict=True)):
            sums[axis] += weight * (x - m)
    return [x for sums in found for x in sums]


def count_cells(facts: Facts, rows: Rows) -> list[int]:
    """Return what the rows of every leaf weigh."""
    leaves = facts["leaves"]
    found = [0] * len(leaves)
    for point, weight in rows:
        found[_cell_of(_mapped(point, facts), leaves)] += weight
    return found


def sum_places(facts: Facts, rows: Rows) -> list[int]:
    """Return the sum of the rows' places in every leaf, in parts of half a side, cut to a norm."""
    leaves, reach, half = facts["leaves"], facts["reach"], facts["half"]
    found = [[0] * len(facts["leaves"][0][0]) for _ in leaves]
    for point, weight in rows:
        inside = _mapped(point, facts)
        number = _cell_of(inside, leaves)
        place = []
        for x, low, high in zip(inside, *leaves[number], strict=True):
            offset = 2 * x - (low + high)
            place.append(_with_sign(abs(offset) * half // max(high - low, 1), offset))
        norm = sum(map(abs, place))
        if norm > reach:
            place = [_with_sign(abs(x) * reach // norm, x) for x in place]
        for axis, x in enumerate(place):
            found[number][axis] += weight * x
    return [x for sums in found for x in sums]


def count_columns(facts: Facts, rows: Rows) -> list[int]:
    """Return what the rows in every bin of every column weigh, column by column."""
    lowest, highest, bins = facts["lowest"], facts["highest"], facts["bins"]
    found = [0] * (bins * len(lowest))
    for point, weight in rows:
        place = _mapped(point, facts)
        for axis, (low, x, high) in enumerate(zip(lowest, place, highest, strict=True)):
            found[axis * bins + (x - low) * bins // (high - low + 1)] += weight
    return found


def count_reach(facts: Facts, rows: Rows) -> list[int]:
    """Return what the rows weigh by how many of the stretched boxes leave them out."""
    stretches, whole = facts["stretches"], facts["whole"]
    found = [0] * (len(stretches) + 1)
    for point, weight in rows:
        ends = list(zip(facts["lower"], _mapped(point, facts), facts["upper"], strict=True))
        outside = sum(
            any(
                whole * abs(2 * x - low - high) > stretch * (high - low + 1)
                for low, x, high in ends
            )
            for stretch in stretches
        )
        found[outside] += weight
    return found


def count_norms(facts: Facts, rows: Rows) -> list[int]:
    """Return the histogram of residual norms for every centre."""
    centers, edges = facts["centers"], facts["edges"]
    found = [[0] * len(edges) for _ in centers]
    for point, weight in rows:
        own = _nearest(_mapped(point, facts), facts["heads"])
        norm = _norm(point, centers[own], squared=facts["squared"])
        found[own][sum(norm > edge for edge in edges[:-1])] += weight
    return [x for counts in found for x in counts]


def sum_residuals(facts: Facts, rows: Rows) -> list[int]:
    """Return the sum of the residuals of every centre, each cut to its radius, toward zero."""
    centers = facts["centers"]
    found = [[0] * len(centers[0]) for _ in centers]
    for point, weight in rows:
        own = _nearest(_mapped(point, facts), facts["heads"])
        radius = facts["radii"][own]
        norm = _norm(point, centers[own], squared=facts.get("gaussian", False))
        for axis, (x, c) in enumerate(zip(point, centers[own], strict=True)):
            size = abs(x - c) if norm <= radius else abs(x - c) * radius // norm
            found[own][axis] += weight * _with_sign(size, x - c)
    return [x for sums in found for x in sums]


def sum_of_one_block(facts: Facts, rows: Rows) -> list[int]:
    """Return the centres of a block of few records: each a centre, and the middle for the rest."""
    points = [list(point) for point, _ in rows]
    if len({tuple(point) for point in points}) != len(points) or len(points) > facts["k"]:
        raise ValueError("only a block of no more records than centres, all different, is known")
    centers = sorted([*points, *([list(facts["middle"])] * (facts["k"] - len(points)))])
    return [x for center in centers for x in center]


def _mapped(point: Point, facts: Facts) -> Point:
    """Return where a point is among the cells: turned, cut to 2^-12 parts and to the box.

    Where the cells are in a part of the domain alone it is not turned, and cut to that part.
    """
    space = facts.get("map")
    if space is None:
        return point
    turned = point
    if "matrix" in space:
        offsets = [x - m for x, m in zip(point, space["middle"], strict=True)]
        turned = [
            sum(a * x for a, x in zip(row, offsets, strict=True)) >> space["bits"]
            for row in space["matrix"]
        ]
    box = zip(turned, space["lowest"], space["highest"], strict=True)
    return [min(max(x, low), high) for x, low, high in box]


def _nearest(point: Point, centers: Sequence[Point]) -> int:
    squares = [sum((x - c) ** 2 for x, c in zip(point, center, strict=True)) for center in centers]
    return squares.index(min(squares))


def _cell_of(point: Point, cells: Sequence[tuple[Point, Point]]) -> int:
    for number, (lower, upper) in enumerate(cells):
        if all(low <= x <= high for low, x, high in zip(lower, point, upper, strict=True)):
            return number
    raise ValueError("a point lies in no cell")


def _norm(point: Point, center: Point, *, squared: bool) -> int:
    offsets = [x - c for x, c in zip(point, center, strict=True)]
    if not squared:
        return sum(map(abs, offsets))
    total = sum(x * x for x in offsets)
    root = isqrt(total)
    return root + (root * root < total)


def _with_sign(size: int, like: int) -> int:
    return size if like > 0 else -size


# -- trees -----------------------------------------------------------------------------------------


def cells_of(facts: Facts) -> list[tuple[list[int], list[int], int]]:
    """Return all cells of a tree with their depths, level by level, from its digits."""
    digits = facts["splits"]
    level = [(list(facts["lowest"]), list(facts["highest"]))]
    found: list[tuple[list[int], list[int], int]] = []
    depth = 0
    while level:
        below: list[tuple[list[int], list[int]]] = []
        for lower, upper in level:
            if len(found) >= len(digits):
                raise ValueError("a tree has fewer digits than cells")
            if digits[len(found)] == "1":
                below += _halves(lower, upper, facts.get("groups", ()))
            found.append((lower, upper, depth))
        level, depth = below, depth + 1
    if len(found) != len(digits):
        raise ValueError("a tree has more digits than cells")
    return found


def _halves(
    lower: list[int], upper: list[int], groups: Sequence[Sequence[int]]
) -> list[tuple[list[int], list[int]]]:
    sides = [high - low for low, high in zip(lower, upper, strict=True)]
    axis = sides.index(max(sides))
    if not sides[axis]:
        raise ValueError("a cell of one point is split")
    cut = (lower[axis] + upper[axis]) // 2
    end, begin = list(upper), list(lower)
    end[axis], begin[axis] = cut, cut + 1
    for start, stop in groups:
        if start <= axis < stop:
            return _decided(lower, upper, axis, range(start, stop))
    return [(lower, end), (begin, upper)]


def _decided(
    lower: list[int], upper: list[int], axis: int, group: range
) -> list[tuple[list[int], list[int]]]:
    """Return what rows of one category can be in the halves of a cell: without it, and with it."""
    begin, end = list(lower), list(upper)
    end[axis] = lower[axis]
    left = [place for place in group if end[place] > begin[place]]
    if len(left) == 1:
        begin[left[0]] = end[left[0]]
    first, last = list(lower), list(upper)
    for place in group:
        last[place] = lower[place]
    first[axis] = last[axis] = upper[axis]
    return [(begin, end), (first, last)]


def tree_loss(facts: Facts, answer: str, first: Rows, second: Rows) -> Enclosure:
    """Return the loss of a tree: of what every test of a cell said, where the tables differ."""
    powers = Powers(facts["scale"])
    low = high = Decimal(0)
    mapped = [
        [(_mapped(point, facts), weight) for point, weight in rows] for rows in (first, second)
    ]
    for digit, (lower, upper, depth) in zip(
        answer, cells_of({**facts, "splits": answer}), strict=True
    ):
        tests = depth - facts["untested"]
        if tests < 0 or tests >= facts["levels"]:
            continue
        here, there = (_over(facts, rows, lower, upper, tests) for rows in mapped)
        if here != there and lower != upper:
            ours, theirs = (_log_test(powers, over, digit == "1") for over in (here, there))
            low = _DOWN.add(low, _DOWN.subtract(ours[0], theirs[1]))
            high = _UP.add(high, _UP.subtract(ours[1], theirs[0]))
    return low, high


def _over(facts: Facts, rows: Rows, lower: Point, upper: Point, tests: int) -> int:
    """Return how far the score of a cell is over the threshold."""
    inside = sum(
        int(weight)
        for point, weight in rows
        if all(low <= x <= high for low, x, high in zip(lower, point, upper, strict=True))
    )
    score = inside - tests * int(facts["decay"]) - int(facts["threshold"])
    return max(score, -int(facts["floor"]))


def _log_test(powers: Powers, over: int, split: bool) -> Enclosure:
    """Return log P(over + Z > 0), or of the contrary, but for the common factor 1 / (1 + q)."""
    tail = over if over >= 1 else 1 - over
    if split is (over >= 1):  # the likelier side: 1 + q - q^tail
        q, small = powers.power(1), powers.power(tail)
        rest = Interval(ONE + q.low - small.high, ONE + q.high - small.low)
        return rest.log_bounds()
    return _outward(-tail * powers.exponent)


LOSSES: dict[str, Callable[..., Enclosure]] = {
    "record-count": sums_loss(count_records),
    "cluster-counts": sums_loss(count_clusters),
    "cluster-sums": sums_loss(sum_clusters),
    "core-columns": sums_loss(count_columns),
    "core-reach": sums_loss(count_reach),
    "cell-counts": sums_loss(count_cells),
    "cell-places": sums_loss(sum_places),
    "residual-norms": sums_loss(count_norms),
    "residual-sums": sums_loss(sum_residuals),
    "block-centers": sums_loss(sum_of_one_block),
    "cell-tree": tree_loss,
}
"""By the code of a question's price."""
