"""Private bounds: bins read off floats exactly, what noise is added to, and what comes out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from support.branching import Watched

from dpkv.domain import Box
from dpkv.errors import ParameterError
from dpkv.mechanisms import Neighbours, PrivateBounds
from dpkv.mechanisms.private_bounds import FoundBounds
from dpkv.noise import Entropy, OperatingSystemEntropy, SeededEntropy
from dpkv.records import ArrayRecords, Curator
from dpkv.records.questions.extremes import N_MAGNITUDES, bin_of, magnitude_edges

REPLACE, ADD = Neighbours.REPLACE_ONE, Neighbours.ADD_REMOVE
MIDDLE = N_MAGNITUDES // 2
LARGEST = 2.0**53


def bin_by_hand(value: float) -> int:
    """Count the powers of two from 2^-20 on that the size reaches, in exact fractions."""
    size = abs(Fraction(value))
    steps = sum(size >= Fraction(2) ** e for e in range(-20, 54))
    return MIDDLE + (steps if value > 0 else -steps)


def around(value: float) -> list[float]:
    return [math.nextafter(value, 0.0), value, math.nextafter(value, math.inf)]


POWERS = [number for e in range(-24, 53) for number in around(2.0**e)]
SPECIAL = [0.0, 5e-324, 2.2e-308, 1e-300, LARGEST, math.nextafter(LARGEST, 0.0), 1.0, 3.0, 0.1]
NUMBERS = [sign * number for number in POWERS + SPECIAL for sign in (1.0, -1.0)]


def test_there_is_a_bin_for_every_power_and_sign_and_one_around_zero():
    assert N_MAGNITUDES == 2 * 74 + 1


def test_the_bin_of_a_number():
    for number, found in zip(NUMBERS, bin_of(np.array(NUMBERS)).tolist(), strict=True):
        assert found == bin_by_hand(number), number
        low, high = magnitude_edges(found)
        assert low <= number <= high, number


def test_arrays_of_any_shape_and_float32():
    numbers = np.array([[0.0, -0.0, 1.0], [-1.0, 2.0**-20, 1e30]], np.float32)
    numbers[1, 2] = 2.0**53
    assert bin_of(numbers).tolist() == [
        [MIDDLE, MIDDLE, MIDDLE + 21],
        [MIDDLE - 21, MIDDLE + 1, MIDDLE + 74],
    ]


def test_edges_are_powers_of_two_that_leave_no_gap():
    assert magnitude_edges(MIDDLE) == (-(2.0**-20), 2.0**-20)
    assert magnitude_edges(MIDDLE + 1) == (2.0**-20, 2.0**-19)
    assert magnitude_edges(MIDDLE - 21) == (-2.0, -1.0)
    assert magnitude_edges(N_MAGNITUDES - 1) == (LARGEST, LARGEST)
    assert magnitude_edges(0) == (-LARGEST, -LARGEST)
    for number in range(N_MAGNITUDES - 1):
        assert magnitude_edges(number)[1] == magnitude_edges(number + 1)[0]
        assert magnitude_edges(number) == tuple(
            -edge for edge in reversed(magnitude_edges(N_MAGNITUDES - 1 - number))
        )


# -- what noise is added to ------------------------------------------------------------------------


def run(
    finder: PrivateBounds,
    table: np.ndarray,
    entropy: Entropy,
    *,
    cuts: Sequence[int] = (),
    scaled: bool = True,
) -> FoundBounds:
    records = ArrayRecords(table, cuts=cuts)
    ask = Curator(records, entropy, finder.neighbours, finder.schedule(), charged=finder.cost())
    return finder.run(ask, scaled=scaled)


def counts(table: np.ndarray, n_features: int, neighbours: Neighbours = REPLACE) -> np.ndarray:
    watched = Watched()
    finder = PrivateBounds.calibrate(Decimal(1), n_features=n_features, neighbours=neighbours)
    run(finder, table, watched)
    assert watched.scales == [finder.noise_scale]
    assert len(watched.values) == 1
    return watched.values[0]


def test_histograms_count_every_record_once_a_column():
    rng = np.random.default_rng(4)
    table = rng.normal(0, 1, (500, 3)) * 10.0 ** rng.integers(-9, 15, (500, 3))
    expected = np.zeros((3, N_MAGNITUDES), int)
    for row, column in product(range(500), range(3)):
        expected[column, bin_by_hand(table[row, column])] += 1
    assert counts(table, 3).tolist() == expected.tolist()
    assert counts(table.astype(np.float64), 3).sum() == 1500


def test_chunks_do_not_matter():
    table = np.random.default_rng(4).normal(0, 1, (500, 2))
    found = []
    for cuts in ([], [1, 2, 499], [250]):
        watched = Watched()
        run(PrivateBounds(2, REPLACE, 3.0), table, watched, cuts=cuts)
        found.append(watched.values[0].tolist())
    assert found[0] == found[1] == found[2]


LEVELS = [0.0, 0.75, -3.0, 2.0**53]


@pytest.mark.parametrize("n_features", [1, 2])
@pytest.mark.parametrize("neighbours", [REPLACE, ADD])
def test_sensitivity_by_every_pair_of_neighbours(neighbours, n_features):
    """The largest L1 change over all neighbouring tables is what ``cost`` charges for: no more,
    or the cost would be wrong, and no less, or noise would be wasted."""
    records = list(product(LEVELS, repeat=n_features))
    changes = []
    for common in product(records, repeat=1):
        longer = [counts(np.array([*common, a]), n_features) for a in records]
        shorter = counts(np.array(common), n_features)
        pairs = product(longer, longer) if neighbours is REPLACE else product(longer, [shorter])
        changes += [int(np.abs(a - b).sum()) for a, b in pairs]
    finder = PrivateBounds.calibrate(Decimal(1), n_features=n_features, neighbours=neighbours)
    assert max(changes) == n_features * (2 if neighbours is REPLACE else 1)
    assert Fraction(max(changes)) / Fraction(finder.noise_scale) <= Fraction(finder.cost())
    assert finder.cost() <= 1
    assert finder.cost() > Decimal("0.999999999999999")


@pytest.mark.parametrize("neighbours", [REPLACE, ADD])
def test_half_the_noise_would_cost_twice_as_much(neighbours):
    finder = PrivateBounds.calibrate(Decimal(1), n_features=3, neighbours=neighbours)
    halved = PrivateBounds(3, neighbours, finder.noise_scale / 2)
    assert halved.cost() == 2 * finder.cost() > 1


# -- what comes out --------------------------------------------------------------------------------


def table_of_two_sizes(n_records: int) -> np.ndarray:
    """One column within [1, 8), one within (-1024, -0.5]."""
    rng = np.random.default_rng(8)
    return np.column_stack(
        [2.0 ** rng.uniform(0, 3, n_records), -(2.0 ** rng.uniform(-1, 10, n_records))]
    )


@pytest.mark.parametrize("entropy", ["system", "seeded"])
def test_bounds_of_many_records(entropy):
    """A full bin holds 9000 of 100000 or more, and noise of scale 4 moves it below the threshold
    of 48 with probability exp(-2000); an empty bin passes with probability below 1e-3 (a false
    bin widens the bounds, so inclusion is what is asked for)."""
    source = OperatingSystemEntropy() if entropy == "system" else SeededEntropy(1)
    finder = PrivateBounds.calibrate(Decimal(1), n_features=2, neighbours=REPLACE)
    found = run(finder, table_of_two_sizes(100_000), source, scaled=False).box
    assert isinstance(found, Box)
    assert found.source == "private"
    assert not found.scaled
    assert found.lower[0] <= 1.0
    assert found.upper[0] >= 8.0
    assert found.lower[1] <= -1024.0
    assert found.upper[1] >= -0.5


def test_bounds_without_noise_are_the_outer_edge_and_zero():
    finder = PrivateBounds(2, REPLACE, 0.5)
    found = run(finder, table_of_two_sizes(2000), Watched())
    assert found.unsure == ()
    assert (found.box.lower, found.box.upper) == ((0.0, -1024.0), (8.0, 0.0))


def test_far_records_below_the_threshold_do_not_widen_the_bounds():
    finder = PrivateBounds(1, REPLACE, 2.0)
    table = np.vstack([np.full((500, 1), 1.5), np.full((finder.threshold, 1), -1e6)])
    found = run(finder, table, Watched()).box
    assert (found.lower, found.upper) == ((0.0,), (2.0,))
    table = np.vstack([table, np.full((finder.threshold, 1), -1e6)])
    found = run(finder, table, Watched()).box
    assert (found.lower, found.upper) == ((-(2.0**20),), (2.0,))


FAMILIES = {
    "ages": lambda rng, m: rng.uniform(0, 100, m),
    "gamma": lambda rng, m: rng.gamma(2, 20, m),
    "lognormal": lambda rng, m: rng.lognormal(3, 2, m),
    "Pareto": lambda rng, m: rng.pareto(1, m) + 1,
    "Student": lambda rng, m: rng.standard_t(2, m),
    "partly negative": lambda rng, m: rng.normal(10, 8, m),
    "all negative": lambda rng, m: -rng.gamma(2, 20, m),
    "mostly zero": lambda rng, m: np.where(rng.random(m) < 0.7, 0, rng.exponential(50, m)),
    "tiny": lambda rng, m: rng.gamma(2, 1e-9, m),
    "huge": lambda rng, m: rng.normal(3e12, 1e11, m),
}


def share_outside(values: np.ndarray, low: float, high: float) -> float:
    return float(((values < low) | (values > high)).mean())


def by_full_bins(noisy: np.ndarray, threshold: int) -> tuple[float, float]:
    """Planted: the outer edges of the bins that stand out, and nothing else."""
    full = np.flatnonzero(noisy > threshold)
    return magnitude_edges(int(full[0]))[0], magnitude_edges(int(full[-1]))[1]


@pytest.mark.parametrize("neighbours", [REPLACE, ADD])
@pytest.mark.parametrize("family", FAMILIES)
def test_bounds_keep_zero_and_cut_off_next_to_nobody(family, neighbours):
    """eps = 1, of which a tenth, and 10^4 records: on average below a percent is outside."""
    finder = PrivateBounds.calibrate(Decimal("0.1"), n_features=2, neighbours=neighbours)
    outside = []
    for seed in range(10):
        rng = np.random.default_rng([20, seed])
        table = np.column_stack([FAMILIES[family](rng, 10_000), rng.uniform(-1, 1, 10_000)])
        box = run(finder, table, SeededEntropy(seed)).box
        assert box is not None
        assert box.lower[0] <= 0.0 <= box.upper[0]
        outside.append(share_outside(table[:, 0], box.lower[0], box.upper[0]))
    assert np.mean(outside) < 0.01


def test_full_bins_alone_would_cut_off_percents():
    rng = np.random.default_rng(20)
    finder = PrivateBounds.calibrate(Decimal("0.1"), n_features=2, neighbours=REPLACE)
    for family in ("ages", "lognormal", "partly negative"):
        values = FAMILIES[family](rng, 10_000)
        exact = counts(np.column_stack([values, values]), 2)[0]
        assert share_outside(values, *by_full_bins(exact, finder.threshold)) > 0.02


def test_where_no_bin_is_full_there_are_no_bounds():
    """The fullest bin would be one of 149 by chance, and centers of 4e15 came of it."""
    finder = PrivateBounds.calibrate(Decimal("0.01"), n_features=2, neighbours=REPLACE)
    table = np.array([[3.0, -0.3], [3.5, 1e-9], [100.0, -0.3]])
    assert len(table) < finder.threshold
    found = run(finder, table, Watched())
    assert found.box is None
    assert found.unsure == (0, 1)


def test_columns_without_a_full_bin_are_called_unsure():
    finder = PrivateBounds(3, REPLACE, 2.0)
    rows = finder.threshold + 1
    one_short = np.where(np.arange(rows) == 0, 99.0, 1.0)
    table = np.column_stack([np.ones(rows), one_short, np.zeros(rows)])
    assert run(finder, table, Watched()) == FoundBounds(None, (1,))
    assert run(finder, table[1:], Watched()).unsure == (0, 1, 2)


def test_no_records_at_all_have_no_bounds():
    finder = PrivateBounds.calibrate(Decimal(1), n_features=3, neighbours=ADD)
    assert run(finder, np.empty((0, 3)), Watched()) == FoundBounds(None, (0, 1, 2))
    for entropy in (OperatingSystemEntropy(), SeededEntropy(0)):
        assert run(finder, np.empty((0, 3)), entropy).unsure


@pytest.mark.parametrize("n_features", [1, 10, 1000])
def test_the_threshold_is_rarely_passed_by_noise_alone(n_features):
    """P(noise > t) = q^(t+1) / (1+q) for each of the bins together: at most a thousandth."""
    finder = PrivateBounds.calibrate(Decimal("0.1"), n_features=n_features, neighbours=REPLACE)
    q = math.exp(-1 / finder.noise_scale)
    passed = N_MAGNITUDES * n_features * q ** (finder.threshold + 1) / (1 + q)
    assert 0.0009 < passed <= 0.001 * 1.001


def test_enormous_noise():
    finder = PrivateBounds.calibrate(Decimal("1e-300"), n_features=1, neighbours=REPLACE)
    assert finder.threshold > 2**63
    found = run(finder, np.ones((10, 1)), OperatingSystemEntropy())
    assert found == FoundBounds(None, (0,))


def test_the_most_enormous_noise():
    finder = PrivateBounds.calibrate(Decimal("1e-307"), n_features=1, neighbours=REPLACE)
    assert finder.threshold > 2**63


def test_an_eps_below_all_floats_is_refused():
    with pytest.raises(ParameterError, match="eps must be"):
        PrivateBounds.calibrate(Decimal("1e-330"), n_features=1, neighbours=REPLACE)


# -- the description -------------------------------------------------------------------------------


def test_golden_costs():
    """Replace-one changes 2 counts a column: 2 * 3 / 6 and 2 * 1 / 3, the latter rounded up."""
    assert PrivateBounds(3, REPLACE, 6.0).cost() == 1
    third = PrivateBounds(1, REPLACE, 3.0).cost()
    assert Fraction(2, 3) < Fraction(third) < Fraction(2, 3) + Fraction(1, 10**59)
    assert PrivateBounds(1, ADD, 4.0).cost() == Decimal("0.25")
    (step,) = PrivateBounds(3, REPLACE, 6.0).steps()
    assert (step.eps, step.times) == (1, 1)
    (noise,) = PrivateBounds(3, REPLACE, 6.0).noises()
    assert (noise.scale, noise.unit) == (6.0, "records")
    stated = {"n_features": 3, "noise_scale": 6.0, "shares": 1}
    assert PrivateBounds(3, REPLACE, 6.0).parameters() == stated


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf])
def test_refused_noise(scale):
    with pytest.raises(ParameterError, match="noise_scale must be a finite number greater than 0"):
        PrivateBounds(1, REPLACE, scale)


@pytest.mark.parametrize("n_features", [0, -1, 1.5, True])
def test_refused_columns(n_features):
    with pytest.raises(ParameterError, match="n_features must be a whole number"):
        PrivateBounds(n_features, REPLACE, 1.0)
