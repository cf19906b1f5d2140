"""What is seen of a run: numbers, and all the rest as text.

Any output is taken apart into its numbers, in their order, and a text in which every number is a
mark: the type and shape of a value, the words of a file, an exit code, an error. So the same events
serve mechanisms in any language, and what leaks through an error message is seen like any output.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpkv.types import Float64s

_NUMBER = re.compile(
    r"(?<![\w.])[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)(?![\w])"
    r"|(?<![\w])[-+]?(?:nan|inf|infinity)(?![\w])",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\s\d]{1,64}")
"""A word without figures may be a row of signs, such as TT_T: its letters are seen one by one."""
_LONGEST_TEXT = 160
MOST_NUMBERS = 4096
FAILED = "failed: "
"""What is seen of a run that ended with an error begins with it."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Observations of several runs on one table."""

    kinds: NDArray[np.object_]
    """A text for every run: what is seen apart from the numbers."""
    numbers: Float64s
    """One row a run; NaN fills rows that have fewer numbers than others."""
    seconds: Float64s
    cache: dict[Any, Any] = field(default_factory=dict)
    """Of what is calculated from the runs, such as features."""

    def __len__(self) -> int:
        return len(self.kinds)

    def part(self, rows: slice) -> Sample:
        """Return some of the runs."""
        return Sample(self.kinds[rows], self.numbers[rows], self.seconds[rows])


def join(samples: Sequence[Sample]) -> Sample:
    """Return all runs of several samples."""
    width = max((sample.numbers.shape[1] for sample in samples), default=0)
    padded = [
        np.pad(one.numbers, ((0, 0), (0, width - one.numbers.shape[1])), constant_values=np.nan)
        for one in samples
    ]
    if not samples:
        return Sample(np.empty(0, object), np.empty((0, 0)), np.empty(0))
    return Sample(
        np.concatenate([one.kinds for one in samples]),
        np.concatenate(padded),
        np.concatenate([one.seconds for one in samples]),
    )


def sample_of(seen: Sequence[tuple[str, Sequence[float]]], seconds: Sequence[float]) -> Sample:
    """Return a sample from what ``observe`` or ``observe_text`` returned for every run."""
    width = max((len(numbers) for _, numbers in seen), default=0)
    numbers = np.full((len(seen), width), np.nan)
    for row, (_, values) in enumerate(seen):
        numbers[row, : len(values)] = values
    kinds = np.empty(len(seen), object)
    kinds[:] = [kind for kind, _ in seen]
    return Sample(kinds, numbers, np.asarray(seconds, np.float64))


def observe(value: Any) -> tuple[str, list[float]]:
    """Return what is seen of a value that a callable returned."""
    numbers: list[float] = []
    return _finish(_walk(value, numbers), numbers)


def observe_error(error: BaseException) -> tuple[str, list[float]]:
    """Return what is seen of a run that raised."""
    numbers: list[float] = []
    return _finish(f"{FAILED}{type(error).__name__}: {_take_numbers(str(error), numbers)}", numbers)


def observe_text(text: str, prefix: str = "") -> tuple[str, list[float]]:
    """Return what is seen of a text, such as a file."""
    numbers: list[float] = []
    return _finish(prefix + _take_numbers(text, numbers), numbers)


def _finish(kind: str, numbers: list[float]) -> tuple[str, list[float]]:
    numbers = numbers[:MOST_NUMBERS]
    odd = [f"{place}:{value}" for place, value in enumerate(numbers) if not math.isfinite(value)]
    if odd:
        kind += f" not finite at {' '.join(odd)}"
    if len(kind) > _LONGEST_TEXT:
        digest = hashlib.sha256(kind.encode()).hexdigest()[:12]
        kind = f"{kind[:_LONGEST_TEXT]}... ({digest})"
    return kind, numbers


def _walk(value: Any, numbers: list[float]) -> str:
    if value is None or isinstance(value, (bool, np.bool_)):
        return str(value)
    if isinstance(value, (int, float, np.integer, np.floating)):
        numbers.append(_as_float(value))
        return "#"
    if isinstance(value, str):
        return repr(_take_numbers(value, numbers))
    return _walk_many(value, numbers)


def _walk_many(value: Any, numbers: list[float]) -> str:
    if isinstance(value, Mapping):
        parts = [f"{key!r}: {_walk(one, numbers)}" for key, one in value.items()]
        return f"{{{', '.join(parts)}}}"
    array = _as_array(value)
    if array is not None:
        numbers.extend(array.ravel().tolist())
        return f"numbers of shape {array.shape}"
    if isinstance(value, (Sequence, set, frozenset)) or hasattr(value, "__iter__"):
        return f"[{', '.join(_walk(one, numbers) for one in value)}]"
    return f"{type(value).__name__} {_take_numbers(str(value), numbers)}"


def _as_array(value: Any) -> Float64s | None:
    """Return an array of numbers, where the value is one or a list of nothing else."""
    if isinstance(value, np.ndarray):
        return value.astype(np.float64) if value.dtype.kind in "iuf" else None
    plain = isinstance(value, (list, tuple)) and value
    if plain and all(type(one) in (int, float) for one in value):
        return np.asarray([_as_float(one) for one in value])
    return None


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)


def _take_numbers(text: str, numbers: list[float]) -> str:
    if _WORD.fullmatch(text):
        numbers.extend(map(float, map(ord, text)))
        return f"{len(text)} characters"

    def mark(found: re.Match[str]) -> str:
        numbers.append(float(found[0]))
        return "#"

    return _NUMBER.sub(mark, text).strip()
