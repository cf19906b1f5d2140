"""The synopsis part by part: cells, cut sums, prices, files, the automatic choice."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpkv
from dpkv.domain import Box, L1Ball
from dpkv.errors import ParameterError, UsageError
from dpkv.grid import BoxGrid, Grid
from dpkv.mechanisms import (
    MECHANISMS,
    Neighbours,
    Synopsis,
    Terms,
    calibrate_mechanism,
    choose,
    describe,
    from_description,
)
from dpkv.mechanisms.synopsis import refine
from dpkv.mechanisms.synopsis.cells import PrivateCells, WeightedPoints, weighted_points
from dpkv.mechanisms.synopsis.settings import layout
from dpkv.noise import SeededEntropy
from dpkv.records import ArrayRecords, run_on_points
from dpkv.records.questions import (
    PLACE_UNIT,
    CellCounts,
    CellPlaces,
    CellSplits,
    Clusters,
    ResidualSums,
    Tree,
    TreeTest,
    calibrate_test,
    public_map,
    scale_for,
    tree_from_splits,
)
from dpkv.releases.canonical import digest
from dpkv.releases.files import centers_text
from dpkv.releases.synopsis import PrivateSynopsis, parse_synopsis
from dpkv.releases.verify import failed, verify

REPLACE, ADD = Neighbours.REPLACE_ONE, Neighbours.ADD_REMOVE
both = pytest.mark.parametrize("neighbours", [REPLACE, ADD])


def clusters(m: int, d: int, k: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng([seed, m, d, k])
    centers = rng.uniform(-0.8, 0.8, (k, d))
    return np.clip(centers[rng.integers(k, size=m)] + rng.normal(0, 0.05, (m, d)), -1, 1)


def cube(d: int) -> Grid:
    return Box((-1.0,) * d, (1.0,) * d).grid()


def synopsis(d: int = 2, k: int = 3, eps: str = "1", relation: Neighbours = REPLACE) -> Synopsis:
    return Synopsis.calibrate(Decimal(eps), n_clusters=k, grid=cube(d), neighbours=relation)


# -- cells -----------------------------------------------------------------------------------------


def some_tree(points: np.ndarray, grid: Grid, seed: int = 1, untested: int = 2) -> Tree:
    space = public_map(grid, grid.n_features)
    question = CellSplits(space, TreeTest(1.5, 2, 1, 8), untested, threshold=3)
    return question.answer(ArrayRecords(points), SeededEntropy(seed))


@pytest.mark.parametrize(
    "grid",
    [
        BoxGrid((0.0,), (1.0,), (1,)),
        BoxGrid((0.0, 0.0), (1.0, 0.0), (12, 0)),
        BoxGrid((0.0,) * 3, (1.0,) * 3, (9, 4, 31)),
        L1Ball((0.0, 0.0), 1.0).grid(5),
    ],
)
def test_leaves_hold_every_record_once(grid):
    low, high = grid.box
    points = np.random.default_rng(0).integers(low, high + 1, (400, grid.n_features))
    points = points.astype(np.int32)
    tree = some_tree(points, grid)
    leaves = tree.leaves
    inside = (points[:, None] >= tree.lower[leaves]) & (points[:, None] <= tree.upper[leaves])
    assert (inside.all(axis=2).sum(axis=1) == 1).all()
    counts = CellCounts(public_map(grid, grid.n_features), tree, 1.0)
    assert counts.exact(ArrayRecords(points)).tolist() == inside.all(axis=2).sum(axis=0).tolist()
    volume = np.prod(tree.upper[leaves] - tree.lower[leaves] + 1, axis=1).sum()
    assert volume == np.prod(high - low + 1)


def test_a_tree_comes_back_from_its_splits():
    grid = cube(3)
    points = grid.quantise(clusters(2000, 3, 4)).astype(np.int32)
    tree = some_tree(points, grid)
    again = tree_from_splits(tree.splits, public_map(grid, 3))
    for name in ("lower", "upper", "children"):
        assert (getattr(tree, name) == getattr(again, name)).all()


@pytest.mark.parametrize("splits", ["", "1", "10", "1000", "11000000", "0100"])
def test_splits_that_are_no_tree_are_refused(splits):
    with pytest.raises(ValueError, match="do not make a tree"):
        tree_from_splits(splits, public_map(cube(1), 1))


def test_a_point_cannot_be_split():
    with pytest.raises(ValueError, match="do not make a tree"):
        tree_from_splits("100", public_map(BoxGrid((0.0,), (0.0,), (0,)), 1))


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_a_records_place_is_cut_to_the_reach(data):
    d = data.draw(st.integers(1, 4))
    tops = data.draw(st.lists(st.integers(0, 70_000), min_size=d, max_size=d))
    grid = BoxGrid((0.0,) * d, (1.0,) * d, tuple(tops))
    point = [data.draw(st.integers(0, top)) for top in tops]
    reach = data.draw(st.integers(1, PLACE_UNIT * d))
    points = np.asarray([point], np.int32)
    tree = some_tree(points, grid, data.draw(st.integers(0, 99)))
    places = CellPlaces(public_map(grid, d), tree, reach, 1.0)
    sums = places.exact(ArrayRecords(points))
    assert np.abs(sums).sum() <= reach
    assert (np.abs(sums) <= PLACE_UNIT).all()


def test_the_projection_is_whole_and_keeps_its_bounds():
    grid = cube(40)
    space = public_map(grid, 16)
    points = grid.quantise(np.random.default_rng(0).uniform(-1, 1, (500, 40))).astype(np.int32)
    mapped = space.apply(points)
    assert mapped.shape == (500, 16)
    assert (mapped >= space.lowest).all() and (mapped <= space.highest).all()
    exact = [[sum(int(a) * int(b) for a, b in zip(row, p - grid.middle, strict=True)) >> 12
              for row in space.matrix] for p in points[:20]]  # fmt: skip
    assert (mapped[:20] == np.clip(exact, space.lowest, space.highest)).all()
    again = public_map(cube(40), 16)
    assert (again.matrix == space.matrix).all()


def test_noise_is_no_cluster():
    """A full cell among a thousand empty ones, all with noise."""
    grid = cube(2)
    space = public_map(grid, 2)
    tree = tree_from_splits("1" * 1023 + "0" * 1024, space)
    rng = np.random.default_rng(0)
    counts = np.rint(rng.laplace(0, 5, 1024)).astype(np.int64)
    counts[700] += 4000
    cells = PrivateCells(space, tree, counts, None, 5.0, 0.0)
    found = weighted_points(cells, 1)
    assert found.weights.sum() == pytest.approx(counts.sum())
    assert found.weights.max() > 0.99 * counts.sum()
    heavy = found.points[found.weights.argmax()]
    leaf = tree.leaves[700]
    assert (heavy >= tree.lower[leaf]).all() and (heavy <= tree.upper[leaf]).all()


@pytest.mark.parametrize("k", [1, 7, 40])
def test_there_are_always_k_points(k):
    space = public_map(cube(2), 2)
    cells = PrivateCells(space, tree_from_splits("0", space), np.asarray([-9]), None, 5.0, 0.0)
    found = weighted_points(cells, k)
    assert len(np.unique(found.points, axis=0)) >= k
    assert (found.weights > 0).all()


# -- Lloyd steps -----------------------------------------------------------------------------------


def sums_of(points: np.ndarray, centers: np.ndarray, radii: np.ndarray, *, gaussian: bool):
    nearest = Clusters(centers, cube(centers.shape[1]))
    question = ResidualSums(nearest, centers, radii, gaussian, 1.0)
    return question.exact(ArrayRecords(points))


@settings(max_examples=100, deadline=None)
@given(data=st.data(), gaussian=st.booleans())
def test_one_record_changes_sums_by_its_clusters_radius_at_most(data, gaussian):
    coordinates = st.integers(0, 65_535)
    d, k = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    row = st.lists(coordinates, min_size=d, max_size=d)
    centers = np.asarray(data.draw(st.lists(row, min_size=k, max_size=k)))
    radii = np.asarray(data.draw(st.lists(st.integers(0, 200_000), min_size=k, max_size=k)))
    sums = sums_of(np.asarray([data.draw(row)], np.int32), centers, radii, gaussian=gaussian)
    moved = np.flatnonzero(np.abs(sums).sum(axis=1))
    assert len(moved) <= 1
    for cluster in moved:
        parts = [int(x) for x in sums[cluster]]
        if gaussian:
            assert sum(x * x for x in parts) <= int(radii[cluster]) ** 2
        else:
            assert sum(map(abs, parts)) <= radii[cluster]


def test_short_residuals_are_summed_exactly():
    centers = np.asarray([[100, 100], [1000, 1000]])
    points = np.asarray([[101, 99], [103, 100], [1000, 990]], np.int32)
    radii = np.asarray([50, 50])
    assert sums_of(points, centers, radii, gaussian=False).tolist() == [[4, -1], [0, -10]]
    assert sums_of(points, centers, radii, gaussian=True).tolist() == [[4, -1], [0, -10]]


@settings(max_examples=200, deadline=None)
@given(scale=st.floats(1e-3, 1e9), radius=st.integers(0, 2**40))
def test_the_noise_of_a_radius_is_never_too_small(scale, radius):
    found = scale_for(scale, radius)
    assert Fraction(found) >= Fraction(scale) * radius
    assert found <= scale * radius * (1 + 1e-15)


def test_bins_of_norms_end_at_the_diameter():
    for d in (1, 7):
        grid = cube(d)
        assert refine.bin_edges(grid, squared=False)[-1] >= grid.diam1
        assert int(refine.bin_edges(grid, squared=True)[-1]) ** 2 >= grid.diam2_squared


# -- prices ----------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    eps=st.decimals("0.001", "50", places=3),
    d=st.sampled_from([1, 2, 3, 4, 9, 20, 21, 60]),
    k=st.integers(1, 100),
    relation=st.sampled_from(list(Neighbours)),
    delta=st.sampled_from(["0", "1e-12", "1e-6", "0.01"]),
)
def test_the_price_is_never_above_eps_and_hardly_below(eps, d, k, relation, delta):
    mechanism = Synopsis.calibrate(
        eps, n_clusters=k, grid=cube(d), neighbours=relation, delta=Decimal(delta)
    )
    assert mechanism.cost() <= eps
    if mechanism.delta == 0:  # elsewhere zCDP may add up to less than was set aside
        assert float(mechanism.cost()) >= (1 - 1e-9) * float(eps)
    assert Decimal(mechanism.delta) <= Decimal(delta)
    assert from_description(describe(mechanism), mechanism.grid) == mechanism


@pytest.mark.parametrize("d", [2, 8, 40])
def test_shares_add_up_to_all_of_eps(d):
    shape = layout(d)
    asked = shape.core + shape.reach + shape.tree + shape.counts + shape.means
    total = shape.root + asked + shape.steps
    assert total == pytest.approx(1.0)


def test_a_replaced_record_counts_twice_wherever_noise_is_added():
    """A record is in one cell and one cluster; replaced, it leaves one and enters another."""
    one, two = synopsis(8, relation=ADD), synopsis(8, relation=REPLACE)
    prices = {step.name: step for step in replace(two, root_scale=None).steps()}
    for step in one.steps():
        if step.name in prices and step.exact is not None:
            assert step.exact * 2 > prices[step.name].exact > step.exact * Fraction(9, 10)
    assert two.norm_scale == pytest.approx(2 * one.norm_scale, rel=1e-12)
    assert two.sum_scale == pytest.approx(2 * one.sum_scale, rel=1e-12)
    assert (two.root_scale, one.root_scale is None) == (None, False)


def test_the_description_does_not_depend_on_a_private_number_of_records():
    """Where it is public, it says whether a core is looked for."""
    for relation, most in ((ADD, 1), (REPLACE, 2)):
        found = {
            calibrate_mechanism(
                "synopsis", Decimal(1), n_records=m, n_clusters=3, grid=cube(2), neighbours=relation
            )
            for m in (3, 50, 10**6)
        }
        assert len(found) == most


def test_under_add_remove_the_number_of_records_is_heard_of_through_noise_alone():
    """Where the noisy number is the same and cells look alike, so is everything else."""

    class Deaf(SeededEntropy):
        def add_laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
            return super().add_laplace(np.zeros_like(values), scale)

    mechanism = synopsis(2, relation=ADD)
    grid = mechanism.grid
    few, many = (grid.quantise(clusters(m, 2, 3)).astype(np.int32) for m in (10, 5000))
    first, second = (run_on_points(mechanism, points, Deaf(4)).centers for points in (few, many))
    assert first.tolist() == second.tolist()


@pytest.mark.parametrize(
    "change",
    [
        {"root_scale": 3.0},
        {"tree_scale": 0.0},
        {"count_scale": math.nan},
        {"n_steps": 0},
        {"decay": -1},
        {"n_dimensions": 0},
    ],
    ids=lambda change: next(iter(change)),
)
def test_descriptions_that_make_no_sense_are_refused(change):
    with pytest.raises(ParameterError, match=next(iter(change))):
        replace(synopsis(), **change)


def test_a_tree_for_next_to_no_eps_has_finite_noise():
    found = calibrate_test(Decimal("1e-9"), decay=2.0, floor=1.0, levels=24, neighbours=REPLACE)
    assert found.cost(REPLACE) <= Decimal("1e-9")


# -- running ---------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize(("d", "k"), [(1, 2), (2, 5), (6, 3), (30, 4)])
def test_clusters_are_found(d, k, neighbours):
    """Potentials near those of k-means, where blind centers have 50 times as much."""
    values = clusters(20_000, d, k)
    grid = cube(d)
    mechanism = Synopsis.calibrate(Decimal(4), n_clusters=k, grid=grid, neighbours=neighbours)
    points = grid.quantise(values).astype(np.int32)
    centers = run_on_points(mechanism, points, SeededEntropy(0)).centers
    floor = dpkv.estimate_optimum(values, k, rng=0).potential
    assert dpkv.potential(values, grid.restore(grid.clip(centers))) < 1.3 * floor


def test_gaussian_noise_serves_many_columns_and_only_them():
    for d, used in ((2, False), (30, True)):
        mechanism = Synopsis.calibrate(
            Decimal(1),
            n_clusters=3,
            grid=cube(d),
            neighbours=ADD,
            delta=Decimal("1e-6"),
        )
        assert (mechanism.delta > 0) is used
        noises = {noise.distribution for noise in mechanism.noises()}
        assert ("discrete-gaussian" in noises) is used
    points = mechanism.grid.quantise(clusters(3000, 30, 3)).astype(np.int32)
    assert run_on_points(mechanism, points, SeededEntropy(1)).centers.shape == (3, 30)


@both
@pytest.mark.parametrize("m", [1, 2, 9])
def test_a_handful_of_records_is_no_trouble(m, neighbours):
    for grid in (cube(2), BoxGrid((0.0,) * 2, (0.0,) * 2, (0, 0)), L1Ball((0.0,) * 3, 1.0).grid()):
        mechanism = Synopsis.calibrate(
            Decimal("0.1"), n_clusters=5, grid=grid, neighbours=neighbours
        )
        points = np.tile(grid.middle, (m, 1)).astype(np.int32)
        for seed in range(5):
            centers = run_on_points(mechanism, points, SeededEntropy(seed)).centers
            assert (grid.clip(centers) == centers).all()


# -- files -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[2, 6, 25])
def done(request: pytest.FixtureRequest) -> dpkv.Release:
    values = clusters(5000, request.param, 3)
    return dpkv.release(values, k=3, eps=2, bounds=(-1, 1), mechanism="synopsis", workspace=None)


def test_a_synopsis_comes_back_from_its_file(done, tmp_path):
    assert done.synopsis is not None
    path = tmp_path / "synopsis.json"
    path.write_text(done.synopsis.to_json(), encoding="utf-8")
    again = dpkv.read_synopsis(path)
    assert again == done.synopsis
    assert again.digest == done.record.synopsis_digest
    assert again.guarantee == done.record.guarantee
    assert (again.points == done.synopsis.points).all()
    assert again.weights.sum() == pytest.approx(5000, rel=0.1)


@pytest.mark.parametrize("k", [1, 3, 7])
def test_a_synopsis_is_clustered_with_any_k(done, k):
    centers = dpkv.cluster_synopsis(done.synopsis, k, rng=0)
    assert centers.shape == (k, len(done.record.columns))
    assert (np.abs(centers) <= 1).all()
    assert (centers == dpkv.cluster_synopsis(done.synopsis, k, rng=0)).all()


def test_the_synopsis_beside_a_record_is_verified(done):
    text = done.synopsis.to_json()
    checks = verify(done.record, synopsis_text=text)
    assert not failed(checks)
    assert {check.name: check.passed for check in checks}["synopsis"]
    assert "synopsis" not in {check.name for check in verify(done.record)}
    altered = json.loads(text)
    altered["counts"][0] += 1
    checks = verify(done.record, synopsis_text=json.dumps(altered))
    assert [check.name for check in failed(checks)] == ["synopsis"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("counts", []),
        ("splits", "2"),
        ("splits", "1"),
        ("lowest", [0]),
        ("columns", ["x"]),
        ("kind", "release"),
        ("count_scale", "NaN"),
        ("surprise", 1),
    ],
)
def test_altered_files_are_refused(done, field, value):
    fields = json.loads(done.synopsis.to_json())
    fields[field] = value
    with pytest.raises(UsageError, match="is not a private synopsis"):
        parse_synopsis(json.dumps(fields), "x.json")


def test_files_that_cannot_be_read_are_told(tmp_path):
    with pytest.raises(UsageError, match="does not exist"):
        dpkv.read_synopsis(tmp_path / "missing.json")
    with pytest.raises(ParameterError, match="path must be"):
        dpkv.read_synopsis(3)  # type: ignore[arg-type]
    (tmp_path / "x.json").write_text("{", encoding="utf-8")
    with pytest.raises(UsageError, match="is not JSON"):
        dpkv.cluster_synopsis(tmp_path / "x.json", 2)


def test_other_mechanisms_have_no_synopsis():
    done = dpkv.simulate(clusters(50, 2, 2), k=2, eps=1, bounds=(-1, 1), seed=0)
    assert done.synopsis is None
    assert done.record.synopsis_digest is None


def test_a_simulated_synopsis_is_for_the_curator_alone():
    done = dpkv.simulate(
        clusters(500, 2, 2), k=2, eps=1, bounds=(-1, 1), seed=0, mechanism="synopsis"
    )
    assert isinstance(done.synopsis, PrivateSynopsis)
    assert done.synopsis.visibility == "curator-only"
    assert done.synopsis.guarantee.status == "simulated"


def test_asking_again_gives_the_same_synopsis(tmp_path):
    values = clusters(500, 2, 2)
    kind = {"k": 2, "eps": 1, "bounds": (-1, 1), "mechanism": "synopsis"}
    first, second = (
        dpkv.release(values, **kind, workspace=tmp_path / "w", release_id="one") for _ in range(2)
    )
    assert first.synopsis == second.synopsis
    assert first.record == second.record
    (kept,) = (tmp_path / "w" / "releases").glob("one.synopsis-*.json")
    kept.write_text(kept.read_text().replace("1", "2"), encoding="utf-8")
    with pytest.raises(UsageError, match="cannot be read"):
        dpkv.release(values, **kind, workspace=tmp_path / "w", release_id="one")


# -- delta -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name, kind in MECHANISMS.items() if not kind.uses_delta])
def test_pure_mechanisms_refuse_a_delta(name):
    with pytest.raises(ParameterError, match=f"delta must be 0 for mechanism '{name}'"):
        dpkv.simulate(
            clusters(50, 2, 2), k=2, eps=1, bounds=(-1, 1), seed=0, mechanism=name, delta=1e-6
        )


@pytest.mark.parametrize("delta", [-0.1, 1.0, "x", math.nan, True, 1e-30])
def test_deltas_that_are_none_are_refused(delta):
    with pytest.raises(ParameterError, match="delta must be"):
        dpkv.simulate(
            clusters(50, 2, 2),
            k=2,
            eps=1,
            bounds=(-1, 1),
            seed=0,
            mechanism="synopsis",
            delta=delta,
        )


@both
def test_a_release_with_a_delta_checks_out(tmp_path, neighbours):
    done = dpkv.release(
        clusters(8000, 25, 2),
        k=2,
        eps=1,
        delta="1e-6",
        bounds="private",
        bounds_share=0.5,
        mechanism="synopsis",
        neighbours=neighbours.value,
        workspace=tmp_path,
    )
    record = done.record
    assert record.plan.delta == record.guarantee.delta == "0.000001"
    assert "(1, 0.000001)-differentially private" in record.summary
    assert not failed(verify(record, workspace=tmp_path))
    assert any(step.rho is not None and step.eps is None for step in record.steps)
    assert record.ledger is not None and Decimal(record.ledger.charged_delta) >= Decimal("1e-6")
    lowered = record.model_copy(update={"plan": record.plan.model_copy(update={"delta": "0"})})
    assert failed(verify(lowered, workspace=tmp_path))


def steps_of(m: int, eps: str, relation: Neighbours, d: int = 40, delta: str = "0") -> int:
    terms = Terms.of(
        Decimal(eps),
        n_records=m,
        n_clusters=10,
        grid=cube(d),
        neighbours=relation,
        delta=Decimal(delta),
    )
    return Synopsis.for_terms(terms).n_steps


def test_fewer_lloyd_steps_where_public_facts_say_that_noise_is_large():
    assert steps_of(10_000, "1", REPLACE) < steps_of(100_000, "1", REPLACE)
    assert steps_of(10_000, "0.5", ADD) < steps_of(10_000, "1", ADD)
    for eps in ("0.1", "1"):  # m is private there: nothing follows from it
        assert steps_of(100, eps, ADD) == steps_of(10**6, eps, ADD)
    assert steps_of(10_000, "0.5", ADD, delta="0.000001") == steps_of(10_000, "1", ADD)
    assert steps_of(100, "1", REPLACE, d=2) == 1


# -- auto ------------------------------------------------------------------------------------------


def chosen(m: int, eps: str, relation: Neighbours = REPLACE, k: int = 5, d: int = 2):
    terms = Terms.of(Decimal(eps), n_records=m, n_clusters=k, grid=cube(d), neighbours=relation)
    return choose(terms)


def test_the_choice_is_made_from_public_facts_and_says_why():
    assert chosen(100_000, "1").name == "synopsis"
    assert chosen(100_000, "1").rule == "smallest-predicted-error"
    assert chosen(100_000, "1").predicted[0][0] == "synopsis"
    assert chosen(100_000, "1", ADD).rule == "private-record-count"
    assert chosen(10, "1", ADD) == chosen(10**6, "1", ADD)  # m is private there
    assert chosen(100, "0.1").name == "lloyd"  # all is noise: it stays at its public start


def test_the_record_holds_the_mechanism_that_was_run():
    values = clusters(4000, 2, 3)
    done = dpkv.simulate(values, k=3, eps=1, bounds=(-1, 1), seed=0, mechanism="auto")
    assert done.record.plan.mechanism == done.record.mechanism["name"] == "synopsis"
    chosen_for = done.record.plan.chosen
    assert chosen_for is not None and chosen_for.rule == "smallest-predicted-error"
    assert "smallest predicted error" in str(done.record.explanation.chosen)
    assert not failed(verify(done.record))
    because = chosen_for.model_copy(update={"rule": "use-for-delta"})
    lie = done.record.plan.model_copy(update={"chosen": because})
    wrong = failed(verify(done.record.model_copy(update={"plan": lie})))
    assert "mechanism" in [check.name for check in wrong]


def test_auto_has_no_iterations():
    with pytest.raises(ParameterError, match="iterations must be left out"):
        dpkv.simulate(
            clusters(50, 2, 2), k=2, eps=1, bounds=(-1, 1), seed=0, mechanism="auto", iterations=2
        )


# -- what a review found ---------------------------------------------------------------------------


@pytest.mark.parametrize("eps", ["1e-9", "1e-7", "0.001", "1", "1000000"])
@both
def test_the_tree_is_calibrated_for_any_eps_by_few_exact_prices(eps, neighbours, monkeypatch):
    from dpkv.records.questions import certificate

    prices = []
    exact = certificate._certified.__wrapped__
    monkeypatch.setattr(
        certificate, "_certified", lambda *asked: prices.append(asked) or exact(*asked)
    )
    certificate.calibrate_test.cache_clear()
    share = Decimal(eps) * Decimal("0.3")
    found = calibrate_test(share, decay=2.0, floor=1.0, levels=24, neighbours=neighbours)
    cost = found.cost(neighbours)
    assert share * Decimal("0.999999999") < cost <= share
    assert 0 < len(prices) < 30


def test_a_grid_on_which_residuals_could_overflow_is_refused():
    fine = Box((-1.0,) * 20, (1.0,) * 20).grid(30)
    with pytest.raises(UsageError, match="too fine for exact residuals"):
        Synopsis.calibrate(Decimal(1), n_clusters=2, grid=fine, neighbours=REPLACE)


def released(tmp_path, **options):
    return dpkv.release(
        clusters(200, 2, 2), k=2, eps=1, bounds=(-1, 1), mechanism="synopsis",
        release_id="mine", workspace=tmp_path / "w", **options,
    )  # fmt: skip


def test_a_forged_record_is_held_against_the_ledgers_note(tmp_path):
    done = released(tmp_path)
    workspace = tmp_path / "w"
    assert not failed(verify(done.record, workspace=workspace))
    (workspace / "releases" / "mine.json").unlink()
    points = ((1, 2), (3, 4))
    grid, domain = Box((-1.0, -1.0), (1.0, 1.0)).grid(), Box((-1.0, -1.0), (1.0, 1.0))
    values = domain.clip(grid.restore(np.asarray(points)))
    moved = zip(done.record.clusters, values.tolist(), strict=True)
    clusters = tuple(one.model_copy(update={"center": tuple(place)}) for one, place in moved)
    forged = done.record.model_copy(update={"grid_centers": points, "clusters": clusters})
    text = centers_text(forged)
    forged = forged.model_copy(update={"centers_digest": digest(text)})
    wrong = failed(verify(forged, workspace=workspace))
    assert [check.name for check in wrong] == ["ledger"]
    assert "another record" in wrong[0].detail


def test_runs_that_did_not_finish_leave_no_second_synopsis(tmp_path, monkeypatch):
    from dpkv.releases import produce

    def stop(*_arguments):
        raise KeyboardInterrupt

    for _ in range(3):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(produce, "keep_first", stop)
            released(tmp_path)
    folder = tmp_path / "w" / "releases"
    assert len(list(folder.glob("mine.synopsis-*.json"))) == 3
    done = released(tmp_path)
    (kept,) = folder.glob("mine.synopsis-*.json")
    assert done.record.synopsis_digest[:16] in kept.name


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("count_scale", 1e-9),
        ("offset_scale", -5.0),
        ("visibility", "curator-only"),
        ("grid_bits", 12),
    ],
)
def test_a_synopsis_that_misstates_its_noise_does_not_check_out(done, field, value):
    fields = json.loads(done.synopsis.to_json())
    fields[field] = value
    text = json.dumps(fields)
    record = done.record.model_copy(update={"synopsis_digest": digest(text)})
    assert "synopsis" in [check.name for check in failed(verify(record, synopsis_text=text))]


def test_many_centers_make_fewer_restarts_and_swaps(monkeypatch):
    from dpkv.mechanisms.synopsis import clustering

    seedings, swaps = [], []
    plain, improved = clustering.kvariates, clustering._improved
    monkeypatch.setattr(
        clustering, "kvariates", lambda *a, **o: seedings.append(1) or plain(*a, **o)
    )
    monkeypatch.setattr(clustering, "_improved", lambda *a: swaps.append(a[2]) or improved(*a))
    monkeypatch.setattr(clustering, "_RESTART_WORK", 40 * 90 * 3)
    monkeypatch.setattr(clustering, "_SWAP_WORK", 30 * 3 * 5)
    points = clusters(30, 2, 3)
    found = WeightedPoints(points, np.ones(30), np.zeros(30), np.zeros(30))
    clustering.cluster(found, 3, np.random.default_rng(0))
    assert (len(seedings), swaps) == (3, [5])
