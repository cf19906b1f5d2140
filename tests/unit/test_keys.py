"""Keys: the path of a row through the public cells, and what is counted and added up by them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from dpkv import kernels
from dpkv.audits.run_intervals import cells_of
from dpkv.domain import Box, L1Ball
from dpkv.errors import UsageError
from dpkv.grid import BoxGrid, Grid
from dpkv.records import keys
from dpkv.records.block import Block
from dpkv.records.partition import Partition, partition_of
from dpkv.records.questions import PLACE_UNIT, PublicMap, TreeTest, public_map, tree_from_splits
from dpkv.records.questions.splits import CellSplits
from dpkv.records.questions.tree import MOST_LEVELS, Tree, whole_space
from dpkv.simplices import product_domain

GRIDS = {
    "squares": Box((-1.0, -1.0), (1.0, 1.0)).grid(),
    "other powers of two": BoxGrid((0.0,) * 3, (1.0,) * 3, (31, 1, 255)),
    "a column of one point": BoxGrid((0.0, 0.0), (1.0, 0.0), (1023, 0)),
    "one point": BoxGrid((0.0,), (0.0,), (0,)),
    "no powers of two": BoxGrid((0.0,) * 3, (1.0,) * 3, (9, 4, 30)),
    "ball": L1Ball((0.0, 0.0), 1.0).grid(6),
    "finest": Box((0.0,), (1.0,)).grid(30),
}
DEPTH = 12


def points_in(grid: Grid, n_points: int = 300) -> np.ndarray:
    low, high = grid.box
    rng = np.random.default_rng(0)
    return rng.integers(low, high + 1, (n_points, grid.n_features)).astype(np.int32)


def walk(point: np.ndarray, space: PublicMap, depth: int) -> int:
    """Return the path of a point, halving by halving."""
    lower, upper = space.lowest.tolist(), space.highest.tolist()
    path = 0
    for _ in range(depth):
        sides = [high - low for low, high in zip(lower, upper, strict=True)]
        axis = sides.index(max(sides))
        cut = (lower[axis] + upper[axis]) // 2
        above = sides[axis] > 0 and point[axis] > cut
        path = 2 * path + above
        if above:
            lower[axis] = cut + 1
        elif sides[axis]:
            upper[axis] = cut
    return path


def keys_of(points: np.ndarray, space: PublicMap, depth: int) -> list[int]:
    plan = keys.plan_keys(space, depth)
    found = np.empty(len(points), np.int64)
    keys.all_keys(points, *plan.arrays, plan.depth, found, 3, 0, 3)
    return found.tolist()


@pytest.mark.parametrize("name", GRIDS)
@pytest.mark.parametrize("depth", [0, 1, 5, 40, MOST_LEVELS])
def test_a_key_is_the_way_down(name: str, depth: int) -> None:
    space = public_map(GRIDS[name], GRIDS[name].n_features)
    points = points_in(GRIDS[name], 60)
    assert keys_of(points, space, depth) == [walk(point, space, depth) for point in points]


def test_rows_descend_where_columns_are_projected() -> None:
    grid = Box((0.0,) * 25, (1.0,) * 25).grid()
    space = public_map(grid, 16)
    mapped = space.apply(points_in(grid, 40))
    assert keys_of(mapped, space, 40) == [walk(point, space, 40) for point in mapped]


def test_cells_of_categories_hold_what_rows_can_be_and_no_cut_is_wasted() -> None:
    grid = product_domain([(0, 1), 2, 4], [1, 1, 2]).grid(6)
    space = public_map(grid, grid.n_features)
    rng = np.random.default_rng(3)
    numbers = rng.integers(0, grid.box[1] + 1, (500, grid.n_features))
    points = numbers * (np.arange(grid.n_features) == 0)
    for start, stop in space.groups:
        own = rng.integers(start, stop, len(points))
        points[np.arange(len(points)), own] = grid.box[1][own]
    tree = whole_tree(space, 6)
    inside = (points[:, None] >= tree.lower) & (points[:, None] <= tree.upper)
    leaves = inside.all(axis=2)[:, tree.leaves]
    assert (leaves.sum(axis=1) == 1).all()
    rows = points.astype(np.int32)
    partition = Partition(rows, np.empty(0, np.int64), keys.plan_keys(space, 20))
    paths, depths = tree.paths[tree.leaves], tree.depths[tree.leaves]
    assert partition.weights_of(paths, depths).tolist() == leaves.sum(axis=0).tolist()
    sides = (tree.upper - tree.lower)[tree.leaves]
    assert not sides[:, 1:].any()  # 2 x 4 categories are told by at most 1 + 3 cuts
    assert len(np.unique(tree.lower[tree.leaves][:, 1:], axis=0)) == 2 * 4
    facts = {"lowest": space.lowest.tolist(), "highest": space.highest.tolist()}
    retold = cells_of({**facts, "splits": tree.splits, "groups": space.groups})
    assert [cell[:2] for cell in retold] == list(
        zip(tree.lower.tolist(), tree.upper.tolist(), strict=True)
    )
    box = cells_of({**facts, "splits": tree.splits})  # the planted fault: categories as numbers
    assert [cell[:2] for cell in box] != [cell[:2] for cell in retold]


def whole_tree(space: PublicMap, depth: int) -> Tree:
    """Return the tree of which every cell is halved until so deep."""
    levels, splits = [whole_space(space)], []
    while len(levels) <= depth:
        splits.append(levels[-1].splittable)
        levels.append(levels[-1].halved(splits[-1]))
    return Tree.of(levels, [*splits, np.zeros(len(levels[-1].lower), np.bool_)])


def test_a_table_of_bits_in_other_places_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: the last of the widest sides is halved instead of the first."""

    def last_widest(bits: list[int], depth: int) -> list[list[int | None]]:
        left = list(bits)
        found: list[list[int | None]] = [[None] * n for n in bits]
        for level in range(min(depth, sum(bits))):
            axis = max(reversed(range(len(left))), key=left.__getitem__)
            left[axis] -= 1
            found[axis][left[axis]] = depth - 1 - level
        return found

    space = public_map(GRIDS["squares"], 2)
    points = points_in(GRIDS["squares"])
    right = [walk(point, space, DEPTH) for point in points]
    assert keys_of(points, space, DEPTH) == right
    monkeypatch.setattr(keys, "_places", last_widest)
    keys._plan.cache_clear()
    assert keys_of(points, space, DEPTH) != right
    keys._plan.cache_clear()


def some_tree(space: PublicMap) -> Tree:
    return tree_from_splits("11101001000", space)


@pytest.mark.parametrize("name", ["squares", "no powers of two", "ball"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("depth", [4, 40])
def test_cells_are_counted_by_their_paths(name: str, weighted: bool, depth: int) -> None:
    grid = GRIDS[name]
    space, points = public_map(grid, grid.n_features), points_in(grid)
    weights = np.random.default_rng(1).integers(0, 5, len(points) * weighted)
    partition = Partition(points, weights, keys.plan_keys(space, depth))
    tree = some_tree(space)
    inside = (points[:, None] >= tree.lower) & (points[:, None] <= tree.upper)
    counts = weights if weighted else np.ones(len(points), np.int64)
    expected = counts @ inside.all(axis=2)
    assert partition.weights_of(tree.paths, tree.depths).tolist() == expected.tolist()


@pytest.mark.parametrize("name", ["squares", "no powers of two", "ball"])
@pytest.mark.parametrize("reach", [1, 700, 10**6])
def test_places_are_whole_quotients_rounded_toward_zero(name: str, reach: int) -> None:
    grid = GRIDS[name]
    space, points = public_map(grid, grid.n_features), points_in(grid)
    weights = np.random.default_rng(1).integers(0, 5, len(points))
    tree = some_tree(space)
    partition = Partition(points, weights, keys.plan_keys(space, 9))
    expected = []
    for leaf in tree.leaves:
        lower, upper = tree.lower[leaf].tolist(), tree.upper[leaf].tolist()
        total = [0] * grid.n_features
        for point, weight in zip(points.tolist(), weights.tolist(), strict=True):
            box = list(zip(point, lower, upper, strict=True))
            if not all(low <= x <= high for x, low, high in box):
                continue
            gaps = [2 * x - low - high for x, low, high in box]
            sizes = [
                abs(gap) * PLACE_UNIT // (high - low) if high > low else 0
                for gap, (_, low, high) in zip(gaps, box, strict=True)
            ]
            norm = sum(sizes)
            cut = [size * reach // norm if norm > reach else size for size in sizes]
            for j, (gap, size) in enumerate(zip(gaps, cut, strict=True)):
                total[j] += weight * (size if gap > 0 else -size)
        expected.append(total)
    assert partition.leaf_offsets(tree, reach).tolist() == expected


def test_an_empty_block_has_empty_cells() -> None:
    space = public_map(GRIDS["squares"], 2)
    block, tree = Block(np.empty((0, 2), np.int32)), some_tree(space)
    partition = partition_of(block, space, 30)
    assert not partition.weights_of(tree.paths, tree.depths).any()
    assert not partition.leaf_offsets(tree, 100).any()


def test_a_partition_is_kept_and_deepened() -> None:
    space = public_map(GRIDS["squares"], 2)
    block = Block(points_in(GRIDS["squares"]))
    first = partition_of(block, space, 20)
    assert partition_of(block, space, 5) is first
    assert partition_of(block, space, 21).depth == 21


def test_trees_end_where_paths_would_not_fit() -> None:
    space = public_map(BoxGrid((0.0,) * 4, (1.0,) * 4, (2**30 - 1,) * 4), 4)
    splits = "1" + "10" * MOST_LEVELS + "00"
    with pytest.raises(UsageError, match="62 levels deep"):
        _ = tree_from_splits(splits, space).paths
    question = CellSplits(space, TreeTest(1.0, 1, 1, 50), untested=60, threshold=1)
    assert not question._rule(some_tree(space).levels[0], MOST_LEVELS)[0].any()
    assert question._rule(some_tree(space).levels[0], MOST_LEVELS - 1)[0].any()


@pytest.mark.parametrize("features", [1, 2, 3, 4, 5, 8, 11])
@pytest.mark.parametrize("kind", [np.int64, np.float64])
def test_labels_are_the_first_of_the_nearest(features: int, kind: type) -> None:
    rng = np.random.default_rng(features)
    points = rng.integers(0, 6, (1000, features)).astype(np.int32)  # small numbers: many ties
    centers = rng.integers(0, 6, (9, features))
    squares = ((points[:, None] - centers) ** 2).sum(axis=2)
    labels = np.empty(len(points), np.int32)
    kernels.nearest_labels(points, np.ascontiguousarray(centers.T, dtype=kind), labels, 0, 4)
    assert labels.tolist() == squares.argmin(axis=1).tolist()


def test_quantising_is_the_formula_of_whole_arrays() -> None:
    rng = np.random.default_rng(5)
    for bits in (2, 16, 30):
        grid = Box((-1.0, 0.0, 3.0), (1.0, 1e-3, 3.0)).grid(bits)
        values = rng.normal(0, 1, (700, 3))
        steps = np.asarray(grid.steps)
        with np.errstate(divide="ignore", invalid="ignore"):
            places = np.rint((values - np.asarray(grid.origin)) / steps)
        expected = np.clip(np.where(steps > 0, places, 0.0), 0, grid.tops).astype(np.int64)
        assert grid.quantise(values).tolist() == expected.tolist()
        assert grid.quantise(values[:0]).shape == (0, 3)


def test_a_tree_travels_without_what_follows_from_it() -> None:
    tree = some_tree(public_map(GRIDS["squares"], 2))
    bare = len(pickle.dumps(tree))
    assert tree.levels
    assert tree.paths.size
    assert len(pickle.dumps(tree)) == bare
    again = pickle.loads(pickle.dumps(tree))
    assert again.paths.tolist() == tree.paths.tolist()
