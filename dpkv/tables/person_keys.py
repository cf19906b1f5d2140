"""Private keys of persons: 64-bit keyed hashes that say which rows belong together, and no more.

An id is the text of its cell, without blanks around it, and a whole number is its digits, however
the table stores it. A cell that holds no id makes its row a person of its own.

The hash is SipHash, as pandas computes it for whole columns. Its key is drawn anew in every process
and is written nowhere, so keys can be compared within one reading and mean nothing outside. Where
a table is read in parts by several processes, they are given one key for that one reading. Two
persons of n share a key, and then count as one, with probability below n^2 / 2^65.
"""

from __future__ import annotations

import functools
import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpkv.types import Keys

SECRET_BYTES = 12  # 16 characters


@functools.cache
def process_key() -> str:
    """Return this process's key: 16 ASCII characters, as SipHash takes them."""
    return secrets.token_urlsafe(SECRET_BYTES)


@dataclass(frozen=True)
class Reading:
    """The secret by which one reading of a table tells persons apart, and which part this is."""

    secret: str = field(default_factory=process_key, repr=False)
    part: int = 0


def is_missing(texts: NDArray[np.object_], words: Sequence[str]) -> NDArray[np.bool_]:
    """Tell which texts stand for nothing."""
    return np.asarray(pd.Series(texts, dtype=object).isin(list(words)))


def hash_persons(
    texts: NDArray[np.object_], missing: NDArray[np.bool_], first_row: int, reading: Reading
) -> Keys:
    """Return the key of every row's person; ``first_row`` is the number of the first row."""
    keys = _hashed(texts, reading.secret)
    rows = np.flatnonzero(missing)
    if rows.size:
        # No id looks like these texts: a NUL in a cell is refused or replaced.
        own = np.array([f"\0{reading.part},{first_row + row}" for row in rows], dtype=object)
        keys[rows] = _hashed(own, reading.secret)
    return keys


def _hashed(texts: NDArray[np.object_], secret: str) -> Keys:
    found = pd.util.hash_array(texts, hash_key=secret, categorize=False)
    return np.asarray(found, dtype=np.uint64)


def id_texts(cells: Sequence[object]) -> NDArray[np.object_]:
    """Return the texts of ids that are of any kind: text, numbers, both, or nothing."""
    texts = np.empty(len(cells), dtype=object)
    texts[:] = [_id_text(cell) for cell in cells]
    return texts


def _id_text(cell: object) -> str:
    if cell is None or cell is pd.NA or cell is pd.NaT:
        return ""
    if isinstance(cell, (float, np.floating)):
        number = float(cell)
        if math.isnan(number):
            return ""
        return str(int(number)) if number.is_integer() else repr(number)
    return str(cell).strip().replace("\0", "?")
