"""A Merkle tree over the digests of entries: one root for all, a short proof for each.

Leaves and nodes are hashed apart, and a tree of n leaves splits at the largest power of two below
n, as certificate transparency logs do (RFC 6962, section 2.1). A proof is the list of the roots
beside the path from a leaf to the top, lowest first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

_LEAF, _NODE = b"\x00", b"\x01"


def merkle_root(digests: Sequence[str]) -> str:
    """Return the root of a tree over the digests of entries, in their order."""
    return _root([_leaf(digest) for digest in digests]).hex()


def inclusion_proof(digests: Sequence[str], number: int) -> tuple[str, ...]:
    """Return the proof that the entry of that number, from 1, is in the tree."""
    leaves = [_leaf(digest) for digest in digests]
    return tuple(step.hex() for step in _path(leaves, number - 1))


def is_included(digest: str, number: int, count: int, proof: Sequence[str], root: str) -> bool:
    """Tell whether a proof shows that the entry of that number and digest is under the root."""
    if not 1 <= number <= count:
        return False
    steps = [bytes.fromhex(step) for step in proof]
    found = _climb(_leaf(digest), number - 1, count, steps)
    return found is not None and not steps and found.hex() == root


def _leaf(digest: str) -> bytes:
    return hashlib.sha256(_LEAF + bytes.fromhex(digest)).digest()


def _join(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(_NODE + left + right).digest()


def _split(count: int) -> int:
    """Return the largest power of two below ``count``."""
    return 1 << (count - 1).bit_length() - 1


def _root(leaves: Sequence[bytes]) -> bytes:
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    middle = _split(len(leaves))
    return _join(_root(leaves[:middle]), _root(leaves[middle:]))


def _path(leaves: Sequence[bytes], place: int) -> list[bytes]:
    if len(leaves) <= 1:
        return []
    middle = _split(len(leaves))
    if place < middle:
        return [*_path(leaves[:middle], place), _root(leaves[middle:])]
    return [*_path(leaves[middle:], place - middle), _root(leaves[:middle])]


def _climb(leaf: bytes, place: int, count: int, steps: list[bytes]) -> bytes | None:
    """Return the root that a proof leads to, having used up its steps from the top down."""
    if count == 1:
        return leaf
    if not steps:
        return None
    beside, middle = steps.pop(), _split(count)
    if place < middle:
        below = _climb(leaf, place, middle, steps)
        return None if below is None else _join(below, beside)
    below = _climb(leaf, place - middle, count - middle, steps)
    return None if below is None else _join(beside, below)
