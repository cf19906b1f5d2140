"""Conformance tests pass on real and on seeded draws, and fail on draws that are off.

The runs are as few as a quick audit makes. The level of a test is 1e-9 by the chi-square
approximation; multinomial draws put the true rate of so few runs below 1e-7.
"""

from __future__ import annotations

import secrets

import numpy as np
import pytest

from dpkv.audits.conformance import DEFAULT_LEVEL, conformance_tests
from dpkv.audits.faults import FloatEntropy
from dpkv.noise import OperatingSystemEntropy, SeededEntropy

RUNS = 4_000
NAMES = ["draws lie on the grid", "picks", "noise", "centres", "windows"]


def failed(entropy: object) -> set[str]:
    found = conformance_tests(entropy, runs=RUNS)  # type: ignore[arg-type]
    assert [test.name for test in found] == NAMES
    for test in found[1:]:
        assert test.passed is (test.p_value >= test.level)
    return {test.name for test in found if not test.passed}


def seeds() -> SeededEntropy:
    return SeededEntropy(2016)


@pytest.mark.parametrize("entropy", [OperatingSystemEntropy, seeds])
def test_what_releases_and_simulations_draw_conforms(entropy):
    assert failed(entropy) == set()


def test_levels_and_runs_are_stated():
    grid, *others = conformance_tests(seeds, runs=RUNS)
    assert (grid.level, grid.p_value, grid.statistic) == (0.0, 1.0, 0.0)
    assert {test.level for test in others} == {DEFAULT_LEVEL} == {1e-9}
    assert [test.runs for test in (grid, *others)] == [RUNS] * 3 + [RUNS // 4] * 2
    assert all("chi-square over" in test.detail for test in others)


def test_p_values_are_spread_evenly_on_correct_draws():
    """Of 60 seeds a tenth lie below 0.1: more than 26, or none below 0.5, is one in 1e9."""
    values = np.array(
        [
            [test.p_value for test in conformance_tests(lambda s=s: SeededEntropy(s), runs=400)[1:]]
            for s in range(60)
        ]
    )
    assert ((values < 0.1).sum(axis=0) <= 26).all()
    assert ((values < 0.5).sum(axis=0) > 4).all()


# -- planted faults --------------------------------------------------------------------------------


def scaled_noise(factor: float) -> type[SeededEntropy]:
    class Off(SeededEntropy):
        def __init__(self) -> None:
            super().__init__(7)

        def add_laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
            return super().add_laplace(values, factor * scale)

    return Off


class Biased(OperatingSystemEntropy):
    """Picks by the remainder of a short random number: small ones come more often."""

    def below(self, bound: int) -> int:
        return secrets.randbits(bound.bit_length()) % bound


class Gaussian(SeededEntropy):
    """Rounded normal noise of the same variance."""

    def __init__(self) -> None:
        super().__init__(1)

    def add_laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        return values + np.rint(self._rng.normal(0, 2**0.5 * scale, values.shape)).astype(np.int64)


class Lopsided(SeededEntropy):
    """The noise is one step too high."""

    def __init__(self) -> None:
        super().__init__(1)

    def add_laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        return super().add_laplace(values, scale) + 1


class FirstOnly(SeededEntropy):
    """Always the first record."""

    def __init__(self) -> None:
        super().__init__(1)

    def below(self, bound: int) -> int:  # noqa: ARG002
        return 0


def test_planted_fault_floating_point_noise():
    assert "draws lie on the grid" in failed(FloatEntropy)


@pytest.mark.parametrize("factor", [0.7, 1.3])
def test_planted_fault_noise_off_by_thirty_percent(factor):
    assert "noise" in failed(scaled_noise(factor))


def test_planted_fault_noise_of_another_shape():
    assert "noise" in failed(Gaussian)


def test_planted_fault_noise_that_is_shifted():
    assert {"noise", "centres"} <= failed(Lopsided)


def test_planted_fault_biased_picks():
    assert "picks" in failed(Biased)


def test_planted_fault_the_first_record_always():
    assert {"picks", "centres"} <= failed(FirstOnly)
