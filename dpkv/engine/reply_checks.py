"""What a node's reply must look like. It comes from another machine, and loops trust its numbers.

A check returns the reply in the types that coordinators use, or raises ``MalformedReply``, which
becomes one sentence that names the node; never a NaN among the centers.
"""

from __future__ import annotations

import math
import operator
from typing import Any, NamedTuple

import numpy as np

from dpkv.types import Float64s, Integers

MOST_RECORDS = 2**40
"""Of one node: sums of them, over all nodes there may be, stay inside int64."""


class MalformedReply(Exception):  # noqa: N818 (it never leaves the engine)
    """A reply that answers no request."""


class Shape(NamedTuple):
    """A node's shard, as it described itself."""

    n_records: int
    n_features: int


def whole(reply: Any, *, at_least: int | None = None, at_most: int | None = None) -> int:
    """Return a whole number in a range."""
    if isinstance(reply, bool | np.bool_):
        raise MalformedReply
    try:
        number = operator.index(reply)
    except TypeError:
        raise MalformedReply from None
    if (at_least is not None and number < at_least) or (at_most is not None and number > at_most):
        raise MalformedReply
    return number


def total(reply: Any) -> float:
    """Return a finite number of at least 0: a sum of squared distances."""
    if isinstance(reply, bool) or not isinstance(reply, float | int | np.floating | np.integer):
        raise MalformedReply
    try:
        number = float(reply)
    except OverflowError:
        raise MalformedReply from None
    if not (math.isfinite(number) and number >= 0.0):
        raise MalformedReply
    return number


def parts(reply: Any, number: int) -> tuple[Any, ...]:
    """Return a tuple of so many parts."""
    if not isinstance(reply, tuple) or len(reply) != number:
        raise MalformedReply
    return reply


def floats(reply: Any, *shape: int | None) -> Float64s:
    """Return an array of finite floats; None stands for any number of rows."""
    array = _array(reply, "f", shape)
    if not np.isfinite(array).all():
        raise MalformedReply
    return array.astype(np.float64, copy=False)


def weights(reply: Any, *shape: int | None) -> Float64s:
    """Return an array of finite floats of at least 0."""
    array = floats(reply, *shape)
    if (array < 0.0).any():
        raise MalformedReply
    return array


def integers(reply: Any, *shape: int | None, farthest: int) -> Integers:
    """Return an array of integers, none of them beyond ``farthest`` either way."""
    array = _array(reply, "i", shape)
    if ((array < -farthest) | (array > farthest)).any():
        raise MalformedReply
    return array.astype(np.int64, copy=False)


def _array(reply: Any, kind: str, shape: tuple[int | None, ...]) -> np.ndarray[Any, Any]:
    if not isinstance(reply, np.ndarray) or reply.dtype.kind != kind or reply.ndim != len(shape):
        raise MalformedReply
    if any(length not in (None, found) for length, found in zip(shape, reply.shape, strict=True)):
        raise MalformedReply
    return reply
