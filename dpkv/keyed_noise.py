"""Exact draws that a secret fixes: asked the same again, a node answers the same again.

A node that is asked twice for one noisy number (its first answer was lost on the way, or its worker
died) must not draw afresh: two draws cost twice. So every bit comes from a keyed hash of what was
asked. To whoever lacks the key the bits are as good as random, and as good as the operating
system's, which also come from a keyed generator. Probabilities are exact: uniform integers by
rejection, discrete Laplace noise by coins whose chances are rational (Canonne, Kamath and Steinke,
2020). No float takes part but the scale, which stands for the rational number that it is.
"""

from __future__ import annotations

import hashlib
from fractions import Fraction
from itertools import count

SECRET_BYTES = 32
_BLOCK_BYTES = 64


class KeyedEntropy:
    """The draws of one question: a function of the secret and of ``context``, and of nothing else.

    Parts of the context are told apart by their lengths, so that no two contexts collide.
    """

    def __init__(self, secret: bytes, *context: str | int | bytes) -> None:
        if len(secret) < SECRET_BYTES:
            raise ValueError("the secret must be too long to guess")
        digest = hashlib.blake2b(key=secret, digest_size=_BLOCK_BYTES)
        for part in context:
            encoded = part if isinstance(part, bytes) else str(part).encode()
            digest.update(len(encoded).to_bytes(8) + type(part).__name__.encode() + encoded)
        self._key = digest.digest()
        self._blocks = count()
        self._bits, self._n_bits = 0, 0

    def _take(self, n_bits: int) -> int:
        """Return the next ``n_bits`` bits as an integer."""
        while self._n_bits < n_bits:
            number = next(self._blocks).to_bytes(8)
            block = hashlib.blake2b(number, key=self._key, digest_size=_BLOCK_BYTES).digest()
            self._bits = self._bits << 8 * _BLOCK_BYTES | int.from_bytes(block)
            self._n_bits += 8 * _BLOCK_BYTES
        self._n_bits -= n_bits
        taken = self._bits >> self._n_bits
        self._bits &= (1 << self._n_bits) - 1
        return taken

    def below(self, bound: int) -> int:
        """Return a uniform integer in [0, bound), by rejection."""
        if bound < 1:
            raise ValueError("bound must be positive")
        n_bits = (bound - 1).bit_length()
        while True:
            drawn = self._take(n_bits)
            if drawn < bound:
                return drawn

    def laplace(self, scale: float) -> int:
        """Return an integer z of any size with probability proportional to exp(-|z| / scale)."""
        if scale == 0.0:
            return 0
        exact = Fraction(scale)
        while True:
            size = self._geometric(exact)
            negative = self.below(2) == 1
            if size or not negative:  # or zero would come twice as often
                return -size if negative else size

    def _geometric(self, scale: Fraction) -> int:
        """Return n >= 0 with probability proportional to exp(-n / scale).

        With scale = t / s: an integer x with probability proportional to exp(-x / t), as u + t v
        with u below t accepted with probability exp(-u / t) and v by coins of chance exp(-1), has
        n = floor(x / s) as wanted.
        """
        t, s = scale.numerator, scale.denominator
        while True:
            u = self.below(t)
            if self._survives(u, t):
                break
        v = 0
        while self._survives(1, 1):
            v += 1
        return (u + t * v) // s

    def _survives(self, numerator: int, denominator: int) -> bool:
        """Toss a coin of chance exp(-numerator / denominator), which is at most 1 here.

        The first failure of coins with chances g, g/2, g/3, ... is at an odd place with probability
        1 - g + g^2/2 - ... = exp(-g).
        """
        place = 1
        while self.below(denominator * place) < numerator:
            place += 1
        return place % 2 == 1

    def coins(self) -> int:
        """Return the seed of a generator for steps whose probabilities no proof relies on."""
        return self._take(256)
