"""The sampler of noise, gone through draw by draw: no chance decides here.

Every uniform integer that it asks for becomes a branch, and so does every coin of a chance exp(-x)
once those were gone through by themselves. What the branches that are followed to their end add up
to is a lower bound on the probability of every outcome; what is given up is known, so there is an
upper bound as well.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from support import laplace

from dpkv import exact_noise

ROUNDING = 1e-12


class GivenUpError(Exception):
    """A branch that is too unlikely to follow."""


class Draws:
    """Takes the branch of every draw that a path says; beyond its end, the first one."""

    def __init__(self, path: list[int], least: float) -> None:
        self.path, self.widths, self.chance = path, [], 1.0
        self._least = least

    def below(self, bound: int, n: int, _: object) -> np.ndarray:
        if n == 0 or bound == 1:
            return np.zeros(n, np.int64)
        assert n == 1
        return np.asarray([self._branch([1 / bound] * bound)])

    def survive(self, numerators: np.ndarray, denominator: int, _: object) -> np.ndarray:
        if numerators.size == 0:
            return np.zeros(0, bool)
        chance = math.exp(-int(numerators[0]) / denominator)
        return np.asarray([self._branch([chance, 1 - chance]) == 0])

    def _branch(self, chances: Sequence[float]) -> int:
        depth = len(self.widths)
        self.widths.append(len(chances))
        if depth == len(self.path):
            self.path.append(0)
        self.chance *= chances[self.path[depth]]
        if self.chance < self._least:
            raise GivenUpError
        return self.path[depth]

    def next_path(self) -> list[int] | None:
        for depth in reversed(range(len(self.widths))):
            if self.path[depth] + 1 < self.widths[depth]:
                return [*self.path[:depth], self.path[depth] + 1]
        return None


def distribution(
    run: Callable[[], int], replaced: Sequence[str], least: float, monkeypatch: pytest.MonkeyPatch
) -> tuple[dict[int, float], float]:
    """Return what every outcome comes with at least, and the probability that was given up."""
    found: dict[int, float] = defaultdict(float)
    left_out = 0.0
    path: list[int] | None = []
    with monkeypatch.context() as patched:
        while path is not None:
            draws = Draws(path, least)
            for name in replaced:
                patched.setattr(exact_noise, f"_{name}", getattr(draws, name))
            try:
                found[run()] += draws.chance
            except GivenUpError:
                left_out += draws.chance
            path = draws.next_path()
    assert sum(found.values()) + left_out == pytest.approx(1, abs=ROUNDING)
    return found, left_out


def may_be(found: float, left_out: float, wanted: float) -> bool:
    return found - ROUNDING <= wanted <= found + left_out + ROUNDING


def wrong_coin(numerator: int, denominator: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Tell whether a coin does not have the chance exp(-numerator / denominator)."""

    def toss() -> int:
        return int(exact_noise._survive(np.asarray([numerator]), denominator, bytes)[0])

    found, left_out = distribution(toss, ["below"], 1e-7, monkeypatch)
    assert left_out < 1e-3
    return not may_be(found[1], left_out, math.exp(-numerator / denominator))


COINS = [(0, 1), (1, 1), (1, 2), (2, 3), (1, 5), (4, 5)]


@pytest.mark.parametrize(("numerator", "denominator"), COINS)
def test_a_coin_has_its_chance(
    numerator: int, denominator: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not wrong_coin(numerator, denominator, monkeypatch)


def test_planted_fault_a_coin_of_one_place_less(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = exact_noise._survive
    monkeypatch.setattr(exact_noise, "_survive", lambda u, t, bits: ~plain(u, t, bits))
    assert all(wrong_coin(*coin, monkeypatch) for coin in COINS)


def misfit(scale: float, monkeypatch: pytest.MonkeyPatch) -> int | None:
    """Return a number whose probability cannot be that of discrete Laplace noise."""

    def draw() -> int:
        return int(exact_noise.laplace(1, scale, bytes)[0])

    found, left_out = distribution(draw, ["below", "survive"], 3e-5, monkeypatch)
    assert left_out < 0.2
    for number, chance in found.items():
        if not may_be(chance, left_out, float(laplace.probability(number, scale))):
            return number
    return None


@pytest.mark.parametrize("scale", [0.5, 1.0, 1.5, 2.0, 0.75])
def test_every_draw_leads_where_it_should(scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    assert misfit(scale, monkeypatch) is None


@pytest.mark.parametrize("scale", [0.5, 1.0, 1.5])
def test_planted_fault_noise_that_is_not_asked_for_its_sign_again(
    scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def once(n: int, wanted: float, bits: exact_noise.Bits) -> np.ndarray:
        size = exact_noise._geometric(n, exact_noise.Fraction(wanted), bits)
        return np.where(exact_noise._below(2, n, bits) == 1, -size, size)

    monkeypatch.setattr(exact_noise, "laplace", once)
    assert misfit(scale, monkeypatch) is not None


@pytest.mark.parametrize("bound", [2, 3, 7, 200, 255, 256])
def test_every_byte_leads_to_a_number_that_is_as_likely_as_any_other(bound: int) -> None:
    asked = []

    def all_bytes_once(n: int) -> bytes:
        asked.append(n)
        return bytes(range(256)) if len(asked) == 1 else bytes(n)

    shift = 8 - (bound - 1).bit_length()
    found = exact_noise._below(bound, 256, all_bytes_once)
    kept = found[: bound << shift]  # the rest is what rejected bytes were replaced with
    assert sorted(kept.tolist()) == sorted(list(range(bound)) * (1 << shift))
    assert len(asked) == (1 if bound << shift == 256 else 2)


@pytest.mark.parametrize("bound", [257, 2**52 + 1, 2**62 - 1])
def test_words_are_used_whole_and_rejected_where_they_are_too_large(bound: int) -> None:
    shift = 64 - (bound - 1).bit_length()
    words = [0, bound - 1, bound, 1, 2 ** (64 - shift) - 1, 2]
    given = [np.asarray([word << shift for word in words], np.uint64).tobytes()]
    found = exact_noise._below(bound, 6, lambda n: given.pop() if given else bytes(n))
    assert found.tolist() == [word for word in words if word < bound] + [0] * sum(
        word >= bound for word in words
    )


@pytest.mark.parametrize("scale", [2.0**-9, 2.0**-9 * (1 + 2.0**-52), 2.0**40, 2.0**40 - 2.0**-12])
def test_the_extreme_scales_fit_into_integers(scale: float) -> None:
    """A mean of 400,000 sizes is off by 10 %, or half of the parities by a tenth, with probability
    below 1e-100; another number than 0 at the smallest scale comes with 1e-220."""
    n = 400_000 if scale > 1 else 1000
    drawn = exact_noise.laplace(n, scale).astype(np.float64)
    if scale < 1:
        assert not drawn.any()
        return
    assert abs(np.abs(drawn).mean() / scale - 1) < 0.1
    assert np.abs(drawn).max() < 2.0**46
    assert (drawn % 2 == 1).mean() == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("scale", [2.0**-10, 2.0**41, 0.0, math.inf, 5e-324])
def test_other_scales_are_left_to_another_sampler(scale: float) -> None:
    assert not exact_noise.can_draw(scale)
