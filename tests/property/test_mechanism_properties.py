"""What must hold of noise, splits, prices and descriptions for every input."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate

import numpy as np
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from support.branching import Watched

from dpkv.domain import Box, Domain, L1Ball
from dpkv.errors import UsageError
from dpkv.mechanisms import (
    MECHANISMS,
    Forgy,
    Gupt,
    KVariates,
    Laplace,
    Lloyd,
    Mechanism,
    Neighbours,
    PrivateBounds,
    Split,
    calibrate_mechanism,
    describe,
    from_description,
)
from dpkv.mechanisms.gupt import block_number
from dpkv.mechanisms.lloyd import public_start
from dpkv.noise import SeededEntropy, smallest_scale
from dpkv.records import run_on_points
from dpkv.records.questions.extremes import N_MAGNITUDES, bin_of, magnitude_edges
from dpkv.seeding.exact import ExactPicker

often = settings(deadline=None, max_examples=100)
sometimes = settings(deadline=None, max_examples=40)

REPLACE, ADD = Neighbours.REPLACE_ONE, Neighbours.ADD_REMOVE

# -- noise -----------------------------------------------------------------------------------------

sensitivities = st.integers(1, 2**53)


@often
@given(sensitivities, st.floats(1e-9, 1e6) | st.floats(1e-290, 1e290))
def test_smallest_scale_is_enough_and_a_float_less_is_not(sensitivity, eps):
    scale = smallest_scale(sensitivity, eps)
    assert Fraction(sensitivity) / Fraction(scale) <= Fraction(eps)
    assert Fraction(sensitivity) > Fraction(math.nextafter(scale, 0.0)) * Fraction(eps)


@often
@given(st.integers(2**53, 2**300), st.floats(1e-9, 1e6))
def test_smallest_scale_beyond_the_whole_numbers_of_floats(sensitivity, eps):
    """There it may be a float or two too large: more noise than needed, never less."""
    scale = smallest_scale(sensitivity, eps)
    assert Fraction(sensitivity) <= Fraction(scale) * Fraction(eps)
    assert Fraction(sensitivity) > Fraction(scale) * (1 - Fraction(1, 2**50)) * Fraction(eps)


@often
@given(sensitivities, st.floats(0, 1e-290, exclude_min=True))
def test_smallest_scale_is_finite_or_refused(sensitivity, eps):
    try:
        scale = smallest_scale(sensitivity, eps)
    except UsageError:
        assert Fraction(sensitivity) / Fraction(eps) > Fraction(1.7e308)
    else:
        assert math.isfinite(scale)
        assert Fraction(sensitivity) <= Fraction(scale) * Fraction(eps)


@often
@given(st.integers(1, 10**40), st.integers(0, 2**32))
def test_seeded_integers_stay_below_and_repeat(bound, seed):
    first, again = (SeededEntropy(seed).below(bound) for _ in range(2))
    assert 0 <= first < bound
    assert first == again


# -- splits ----------------------------------------------------------------------------------------

budgets = st.decimals("0.000000001", "1000000", allow_nan=False, allow_infinity=False, places=9)
shares = st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=5)


@often
@given(budgets, shares, st.integers(1, 1000))
def test_parts_of_a_split_never_add_up_to_more_than_eps(eps, shares, times):
    assume(eps > 0)
    split = Split.of(eps, *shares, times=times)
    together = times * sum(map(Fraction, split.parts))
    assert together <= Fraction(eps)
    assert together == Fraction(split.spent)
    assert together > Fraction(eps) * (1 - Fraction(1, 10**45))
    total = sum(map(Fraction, shares))
    for part, share in zip(split.parts, shares, strict=True):
        exact = Fraction(eps) * Fraction(share) / total / times
        assert exact * (1 - Fraction(1, 10**48)) < Fraction(part) <= exact


@often
@given(budgets, st.floats(1e-9, 0.999999))
def test_a_share_for_bounds_leaves_the_rest(eps, share):
    assume(eps > 0)
    bounds, centers = Split.of(eps, share, 1.0 - share).parts
    assert 0 < bounds < eps
    assert Fraction(bounds) + Fraction(centers) <= Fraction(eps)


# -- prices ----------------------------------------------------------------------------------------

epsilons = st.decimals("0.001", "1000", allow_nan=False, allow_infinity=False, places=6)
record_counts = st.integers(1, 300) | st.integers(1, 10**12)
cluster_counts = st.integers(1, 60)
gammas = st.floats(0.01, 10) | st.just(math.inf)
relations = st.sampled_from([REPLACE, ADD])


@st.composite
def domains(draw: st.DrawFn, max_features: int = 6) -> Domain:
    d = draw(st.integers(1, max_features))
    lows = draw(st.lists(st.floats(-100, 100), min_size=d, max_size=d))
    if draw(st.booleans()):
        return L1Ball(tuple(lows), draw(st.floats(0.01, 100)))
    widths = draw(st.lists(st.floats(0, 100), min_size=d, max_size=d).filter(any))
    highs = [low + width for low, width in zip(lows, widths, strict=True)]
    return Box(tuple(lows), tuple(highs), scaled=draw(st.booleans()))


def spends(mechanism: Mechanism | PrivateBounds, eps: Decimal) -> bool:
    """Tell whether a price uses eps up and, to the last digit, does not exceed it."""
    return eps * Decimal("0.999") <= mechanism.cost() <= eps


@often
@given(epsilons, record_counts, cluster_counts, gammas, domains())
def test_price_of_kvariates(eps, m, k, gamma, domain):
    grid = domain.grid()
    assume(k <= m and grid.diam1 > 0)
    mechanism = KVariates.calibrate(eps, n_records=m, n_clusters=k, grid=grid, gamma=gamma)
    assert spends(mechanism, eps)
    assert mechanism.gamma >= Fraction(gamma) if gamma < math.inf else mechanism.gamma == gamma


@often
@given(epsilons, record_counts, cluster_counts, st.floats(1e-300, 1e300), domains())
def test_price_of_kvariates_at_any_gamma_is_within_eps(eps, m, k, gamma, domain):
    grid = domain.grid()
    assume(k <= m)
    mechanism = KVariates.calibrate(eps, n_records=m, n_clusters=k, grid=grid, gamma=gamma)
    assert mechanism.cost() <= eps


@often
@given(epsilons, cluster_counts, domains(), relations)
def test_price_of_noise_alone_but_for_the_last_digits(eps, k, domain, relation):
    grid = domain.grid()
    assume(grid.diam1 > 0)
    for kind in (Laplace, Forgy):
        mechanism = kind.calibrate(eps, n_clusters=k, grid=grid, neighbours=relation)
        assert Fraction(mechanism.cost()) <= Fraction(eps) * (1 + Fraction(1, 10**58))
        assert mechanism.cost() >= eps * Decimal("0.999")
        exact = k * Fraction(grid.diam1) / Fraction(mechanism.noise_scale)
        assert exact <= Fraction(eps)


@sometimes
@example(eps=Decimal(1), k=3)
@given(epsilons, cluster_counts)
def test_price_of_noise_alone(eps, k):
    grid = Box((0.0,), (1.0,)).grid()
    assert spends(Laplace.calibrate(eps, n_clusters=k, grid=grid, neighbours=REPLACE), eps)


@often
@given(epsilons, record_counts, cluster_counts, domains())
def test_price_of_gupt(eps, m, k, domain):
    grid = domain.grid()
    assume(grid.diam1 > 0)
    assert spends(Gupt.calibrate(eps, n_records=m, n_clusters=k, grid=grid), eps)


@often
@given(
    epsilons,
    record_counts,
    cluster_counts,
    domains(),
    relations,
    st.none() | st.integers(1, 50),
)
def test_price_of_lloyd(eps, m, k, domain, relation, iterations):
    grid = domain.grid()
    assume(grid.diam1 > 0)
    mechanism = Lloyd.calibrate(
        eps,
        n_clusters=k,
        grid=grid,
        neighbours=relation,
        n_records=m,
        iterations=iterations,
    )
    assert spends(mechanism, eps)
    assert mechanism.iterations == (iterations or mechanism.iterations)
    assert 1 <= mechanism.iterations <= 50


@often
@given(epsilons, st.integers(1, 10**4), relations)
def test_price_of_private_bounds(eps, n_features, relation):
    found = PrivateBounds.calibrate(eps, n_features=n_features, neighbours=relation)
    assert spends(found, eps)


@often
@given(
    epsilons, st.integers(1, 10**6), cluster_counts, domains(), st.sampled_from(tuple(MECHANISMS))
)
def test_descriptions_survive_json(eps, m, k, domain, name):
    assume(k <= m)
    grid = domain.grid()
    mechanism = calibrate_mechanism(name, eps, n_records=m, n_clusters=k, grid=grid)
    described = json.loads(json.dumps(describe(mechanism), allow_nan=False))
    assert from_description(described, grid) == mechanism


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=3,
)
BASE = {
    name: calibrate_mechanism(
        name, Decimal(1), n_records=50, n_clusters=2, grid=Box((0.0,), (1.0,)).grid()
    )
    for name in MECHANISMS
}


@often
@given(st.sampled_from(tuple(MECHANISMS)), st.data())
def test_a_tampered_description_is_refused_or_priced_as_what_it_says(name, data):
    """Nothing but UsageError comes out, and what is accepted says about itself what was said."""
    described = describe(BASE[name])
    field = data.draw(st.sampled_from([*described, "other"]))
    value = data.draw(plain)
    assume(not isinstance(value, (bool, str)))  # some are taken for numbers, see unit tests
    tampered = {**described, field: value}
    try:
        mechanism = from_description(tampered, BASE[name].grid)
    except UsageError:
        return
    assert describe(mechanism) == tampered
    assert mechanism.cost() > 0


# -- sensitivity -----------------------------------------------------------------------------------


@st.composite
def neighbouring_tables(draw: st.DrawFn) -> tuple:
    """Return a grid, a table, and the table with one record replaced."""
    grid = draw(domains(3)).grid(draw(st.sampled_from([2, 5, 16])))
    m = draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    cube = rng.random((m + 1, grid.n_features))
    if draw(st.booleans()):
        cube = np.round(cube)  # corners
    points = grid.spread(cube)
    row = draw(st.integers(0, m - 1))
    other = points[:m].copy()
    other[row] = points[m]
    return grid, points[:m].astype(np.int32), other.astype(np.int32), row


@sometimes
@given(neighbouring_tables(), st.integers(1, 5))
def test_gupt_changes_by_no_more_than_its_price(tables, k):
    grid, points, other, _ = tables
    assume(grid.diam1 > 0)
    m = len(points)
    mechanism = Gupt(k, grid, REPLACE, float(k * grid.diam1), m, block_number(m))
    watched = Watched(), Watched()
    run_on_points(mechanism, points, watched[0])
    run_on_points(mechanism, other, watched[1])
    (before,), (after,) = (seen.values for seen in watched)
    assert np.abs(before - after).sum() <= k * grid.diam1


@sometimes
@given(neighbouring_tables(), st.integers(1, 5), st.integers(0, 2**32))
def test_lloyd_changes_by_no_more_than_its_price(tables, k, seed):
    """Whatever was released before: noisy counts and sums are drawn at random, the same for all."""
    grid, points, other, row = tables
    mechanism = Lloyd(k, grid, REPLACE, 3, count_scale=1.0, sum_scale=1.0)

    def seen(table: np.ndarray) -> list[np.ndarray]:
        rng = np.random.default_rng(seed)
        watched = Watched(lambda _, values: rng.integers(-(2**17), 2**17, values.shape))
        run_on_points(mechanism, table, watched)
        return watched.values

    before, after = seen(points), seen(other)
    changes = [int(np.abs(a - b).sum()) for a, b in zip(before, after, strict=True)]
    assert max(changes[::2]) <= 2
    assert max(changes[1::2]) <= 2 * grid.radius1
    if len(points) > 1:
        fewer = seen(np.delete(points, row, axis=0))
        changes = [int(np.abs(a - b).sum()) for a, b in zip(before, fewer, strict=True)]
        assert max(changes[::2]) == 1
        assert max(changes[1::2]) <= grid.radius1


@sometimes
@given(neighbouring_tables(), st.integers(0, 7))
def test_selection_weights_are_what_the_definition_says(tables, smoothing):
    """Every integer below the total picks the record to which it belongs, on any grid."""
    grid, points, centers, _ = tables
    expected = [
        min(sum((int(x) - int(y)) ** 2 for x, y in zip(a, c, strict=True)) for c in centers[:3])
        + smoothing
        for a in points
    ]
    running = list(accumulate(expected))
    owners = {
        target: row
        for row, weight in enumerate(expected)
        for target in (running[row] - weight, running[row] - 1)
        if weight
    }
    asked, targets = [], iter(owners)

    def below(bound: int) -> int:
        asked.append(bound)
        return next(targets)

    picker = ExactPicker(points, diam2_squared=grid.diam2_squared, smoothing=smoothing, below=below)
    for center in centers[:3]:
        picker.add(center)
    if owners:
        assert [picker.by_distance() for _ in owners] == list(owners.values())
        assert set(asked) == {running[-1]}
    else:
        assert picker.by_distance() is None


# -- private bounds --------------------------------------------------------------------------------


@often
@given(st.lists(st.floats(-(2.0**53), 2.0**53), min_size=1, max_size=50))
def test_a_bin_contains_its_numbers(numbers):
    for number, found in zip(numbers, bin_of(np.array(numbers)).tolist(), strict=True):
        assert 0 <= found < N_MAGNITUDES
        low, high = magnitude_edges(found)
        assert low <= number <= high


@often
@given(st.floats(-(2.0**53), 2.0**53), st.floats(-(2.0**53), 2.0**53))
def test_bins_are_in_order(first, second):
    low, high = sorted([first, second])
    found = bin_of(np.array([low, high]))
    assert found[0] <= found[1]
    mirrored = bin_of(np.array([-low, -high]))
    assert (found + mirrored == N_MAGNITUDES - 1).all()


# -- blocks and starts -----------------------------------------------------------------------------


@often
@given(st.integers(1, 10**15))
def test_block_number(m):
    blocks = block_number(m)
    assert blocks**5 <= m**2 < (blocks + 1) ** 5


@sometimes
@given(domains(4), st.integers(1, 30), st.sampled_from([2, 8, 16]))
def test_the_public_start_is_inside_the_domain(domain, k, bits):
    grid = domain.grid(bits)
    start = public_start(grid, k)
    assert start.shape == (k, grid.n_features)
    assert (grid.clip(start) == start).all()
    assert (public_start(replace(grid), k) == start).all()
