"""Draws that a secret fixes: their distribution, their repeatability, and what keeps them apart."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import laplace
from support.chance import implausible

from dpkv.keyed_noise import SECRET_BYTES, KeyedEntropy

SECRET = bytes(range(SECRET_BYTES))
N_DRAWS = 20_000

Draw = Callable[[KeyedEntropy], int]


def many(draw: Draw, entropy: type[KeyedEntropy] = KeyedEntropy) -> list[int]:
    """Half of the draws from one context, half from a context each."""
    one = entropy(SECRET, "together")
    together = [draw(one) for _ in range(N_DRAWS // 2)]
    return together + [draw(entropy(SECRET, "apart", i)) for i in range(N_DRAWS // 2)]


def uniform(bound: int) -> dict[int, float]:
    return dict.fromkeys(range(bound), 1 / bound)


# -- distributions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("bound", [1, 2, 3, 7, 255, 256, 257])
def test_below_is_uniform(bound: int) -> None:
    assert implausible(many(lambda e: e.below(bound)), uniform(bound)) is None


@pytest.mark.parametrize("bound", [8 * 10**30, 8 * 3**50])
def test_below_is_uniform_in_eighths_and_residues_of_a_large_bound(bound: int) -> None:
    drawn = many(lambda e: e.below(bound))
    assert implausible([8 * x // bound for x in drawn], uniform(8)) is None
    assert implausible([x % 8 for x in drawn], uniform(8)) is None


@pytest.mark.parametrize("bound", [1, 2, 3, 5, 8, 11])
def test_below_returns_every_value_for_just_one_value_of_its_bits(bound: int) -> None:
    """So uniform bits give a uniform integer, exactly."""
    n_bits = (bound - 1).bit_length()

    class Scripted(KeyedEntropy):
        def _take(self, wanted: int) -> int:
            assert wanted == n_bits
            return self.script.pop(0)  # type: ignore[attr-defined]

    found = []
    for bits in range(2**n_bits):
        entropy = Scripted(SECRET)
        entropy.script = [bits, 0]  # type: ignore[attr-defined]
        found.append((entropy.below(bound), bool(entropy.script)))  # type: ignore[attr-defined]
    assert [x for x, at_once in found if at_once] == list(range(bound))


def test_no_bit_is_used_twice_and_none_is_lost() -> None:
    one, other = KeyedEntropy(SECRET, "bits"), KeyedEntropy(SECRET, "bits")
    widths = [1, 7, 0, 64, 3, 511, 512, 513, 5, 1000]
    joined = 0
    for width in widths:
        joined = joined << width | one._take(width)
    assert joined == other._take(sum(widths))
    assert implausible([joined >> i & 1 for i in range(sum(widths))], uniform(2)) is None


SCALES = [0.2, 0.7, 1.0, 1 / 3, 2.5, float(Fraction(355, 113))]


@pytest.mark.parametrize("scale", SCALES)
def test_laplace_noise_has_its_exact_probabilities(scale: float) -> None:
    drawn = many(lambda e: max(-6, min(6, e.laplace(scale))))
    assert implausible(drawn, laplace.up_to(6, scale)) is None


@pytest.mark.parametrize("scale", [1234.567, 2.0**40 / 3])
def test_laplace_noise_of_a_large_scale(scale: float) -> None:
    drawn = many(lambda e: e.laplace(scale))
    edges = [int(scale * edge) for edge in (-4, -2, -1, -0.3, 0, 0.3, 1, 2, 4)]
    places = [sum(x > edge for edge in edges) for x in drawn]
    assert implausible(places, laplace.bins(edges, scale)) is None
    assert implausible([x % 5 for x in drawn], laplace.residues(5, scale)) is None


def test_a_scale_of_zero_adds_nothing_and_a_tiny_one_almost_never_does() -> None:
    assert KeyedEntropy(SECRET).laplace(0.0) == 0
    assert {KeyedEntropy(SECRET, i).laplace(1e-3) for i in range(100)} == {0}
    assert {KeyedEntropy(SECRET, i).laplace(5e-324) for i in range(10)} == {0}


class ZeroTwice(KeyedEntropy):
    def laplace(self, scale: float) -> int:
        size = self._geometric(Fraction(scale))
        return -size if self.below(2) else size


class Modulo(KeyedEntropy):
    def below(self, bound: int) -> int:
        return self._take(bound.bit_length() + 2) % bound


class TwoCoins(KeyedEntropy):
    """Stops its series after two coins."""

    def _survives(self, numerator: int, denominator: int) -> bool:
        return self.below(denominator) >= numerator or self.below(2 * denominator) < numerator


def test_planted_fault_zero_is_counted_twice() -> None:
    drawn = many(lambda e: max(-6, min(6, e.laplace(1.0))), ZeroTwice)
    assert implausible(drawn, laplace.up_to(6, 1.0)) is not None


def test_planted_fault_biased_rejection() -> None:
    assert implausible(many(lambda e: e.below(7), Modulo), uniform(7)) is not None


def test_planted_fault_a_series_cut_short() -> None:
    drawn = many(lambda e: max(-6, min(6, e.laplace(2.5))), TwoCoins)
    assert implausible(drawn, laplace.up_to(6, 2.5)) is not None


# -- what a draw depends on ------------------------------------------------------------------------


def mark(*context: str | int | bytes, secret: bytes = SECRET) -> int:
    return KeyedEntropy(secret, *context).below(2**256)


Parts = st.one_of(st.text(max_size=4), st.integers(), st.binary(max_size=4))
Contexts = st.lists(Parts, max_size=4)


@given(Contexts, Contexts)
def test_the_same_context_repeats_and_no_two_collide(one: list, other: list) -> None:
    same = one == other and list(map(type, one)) == list(map(type, other))
    assert (mark(*one) == mark(*other)) is same


def test_contexts_that_look_alike_are_told_apart() -> None:
    alike = [
        (), ("",), ("", ""), (b"",), (0,), ("0",), (b"0",), ("ab", "c"), ("a", "bc"), ("abc",),
        (1, 2), (12,), ("1", 2), (b"1", 2), (-1,), ("-1",), ("a\0",), ("a", "\0"),
        ("a", 3, "b"), ("a3", "b"), (b"str0",), ("str", "0"),
    ]  # fmt: skip
    assert len({mark(*context) for context in alike}) == len(alike)


def test_another_secret_draws_afresh() -> None:
    secrets = [SECRET, SECRET[::-1], SECRET + b"\0", bytes(SECRET_BYTES), b"\1" + SECRET[1:]]
    assert len({mark("a", secret=secret) for secret in secrets}) == len(secrets)


@pytest.mark.parametrize("secret", [b"", b"short", SECRET[:-1]])
def test_a_secret_that_could_be_guessed_is_refused(secret: bytes) -> None:
    with pytest.raises(ValueError, match="too long to guess"):
        KeyedEntropy(secret, "a")


def test_the_coins_repeat_too() -> None:
    one, again = (KeyedEntropy(SECRET, "g").coins() for _ in range(2))
    assert one == again
    assert KeyedEntropy(SECRET, "h").coins() != one


@pytest.mark.parametrize("bound", [0, -1])
def test_there_is_no_integer_below_zero(bound: int) -> None:
    with pytest.raises(ValueError, match="positive"):
        KeyedEntropy(SECRET).below(bound)
