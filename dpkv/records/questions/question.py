"""What a question is: what is asked of the records, through which noise, and at what price.

A question is frozen and public: it holds public facts and earlier noisy answers, never a record. It
knows three things about itself: its price for a relation (``step``), how it is answered on records
(``answer``), and the exact probability of any answer (``log_probability``), which is what a
transcript's loss is made of.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np

from dpkv.accounting import ROW, Neighbours, Step, Unit
from dpkv.noise import Entropy, SeededEntropy
from dpkv.records.block import Block
from dpkv.types import Float64s, Int64s, Integers

Part = TypeVar("Part")


class Records(Protocol):
    """Records behind a door: blocks, of which a question gets what it asks for, in their order."""

    @property
    def n_records(self) -> int:
        """The number of rows, or of persons; public or not, as the relation says."""

    def gather(self, task: Callable[[Block], Part]) -> list[Part]:
        """Return what the task finds in every block, in the order of the blocks."""

    def gather_one(self, number: int, task: Callable[[Block], Part]) -> Part:
        """Return what the task finds in one block."""

    def take(self, records: Integers) -> Block:
        """Return the rows of some records, by the records' numbers in ascending order."""


class Ask(Protocol):
    """What a mechanism's program has of the records: noisy answers, and what is public anyway."""

    def __call__(self, question: Question) -> Any:
        """Return the noisy answer to the next question of the plan."""

    @property
    def coins(self) -> np.random.Generator:
        """Public randomness, drawn without looking at the records."""

    @property
    def public_size(self) -> int | None:
        """The number of records where it is public, None where the relation protects it."""


class Noiseless(SeededEntropy):
    """No noise at all: what an adversary would draw. For audits, never for a release."""

    def add_laplace(self, values: Int64s, scale: float) -> Int64s:  # noqa: ARG002
        """Return the values."""
        return values.copy()

    def add_gaussian(self, values: Int64s, scale: float) -> Int64s:  # noqa: ARG002
        """Return the values."""
        return values.copy()


class Question(ABC):
    """Something that may be asked of records, at a price."""

    @abstractmethod
    def step(self, neighbours: Neighbours, unit: Unit = ROW) -> Step:
        """Return the price, under the name that a plan gives it."""

    @abstractmethod
    def answer(self, records: Records, entropy: Entropy) -> Any:
        """Return the noisy answer."""

    @abstractmethod
    def log_probability(self, records: Records, answer: Any) -> float:
        """Return the logarithm of the probability of an answer, in closed form."""

    def most_telling(self, first: Records, second: Records) -> Any:  # noqa: ARG002
        """Return an answer that is likelier on the first records than on the second, by much.

        For audits. Where noise is added, that is the answer without any.
        """
        return self.answer(first, Noiseless(0))

    def is_same(self, other: Question) -> bool:
        """Tell whether the other asks the same, to the last digit."""
        return type(self) is type(other) and _alike(self, other)


def _alike(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    if hasattr(one, "__dataclass_fields__") and type(one) is type(other):
        return all(_alike(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    return bool(one == other)


@dataclass(frozen=True, eq=False)
class NoisySums(Question):
    """Integers that add up over the rows, each through discrete noise of its own scale."""

    @abstractmethod
    def part(self, block: Block) -> Integers:
        """Return what the rows of a block add up to."""

    @abstractmethod
    def scales(self) -> Float64s:
        """Return the scale of every integer's noise, in a shape that broadcasts."""

    @property
    def is_gaussian(self) -> bool:
        """Whether the noise is discrete Gaussian; it is discrete Laplace otherwise."""
        return False

    def exact(self, records: Records) -> Integers:
        """Return the sums without noise. Private."""
        return sum_parts(records.gather(partial(_part_of, self)))

    def answer(self, records: Records, entropy: Entropy) -> Integers:
        """Return the sums with noise."""
        exact = self.exact(records)
        add = entropy.add_gaussian if self.is_gaussian else entropy.add_laplace
        scales = self.scales()
        if scales.size == 1:
            return add(exact, float(scales.flat[0]))
        every = np.broadcast_to(scales, exact.shape)
        noisy = np.empty(exact.shape, np.int64)
        for scale in np.unique(scales):
            own = every == scale
            noisy[own] = add(exact[own], float(scale))
        return noisy

    def log_probability(self, records: Records, answer: Integers) -> float:
        """Return the sum over all integers of log P(noise = answer - exact)."""
        gaps = np.abs(answer - self.exact(records))
        every = np.broadcast_to(self.scales(), gaps.shape)
        total = 0.0
        for scale in np.unique(every):
            own = gaps[every == scale]
            total += _log_gaussian(own, scale) if self.is_gaussian else log_laplace(own, scale)
        return total


def sum_parts(parts: list[Integers]) -> Integers:
    """Return the sum of what every block has, exactly and in any order."""
    return parts[0] if len(parts) == 1 else np.sum(parts, axis=0, dtype=np.int64)


def _part_of(question: NoisySums, block: Block) -> Integers:
    return question.part(block)


def log_laplace(gaps: Integers, scale: float) -> float:
    """Return the log-probability of discrete Laplace noise of these sizes, all together."""
    if scale == 0.0:
        return 0.0 if not gaps.any() else -math.inf
    total = sum(map(int, gaps.reshape(-1).tolist()))  # exact: sums of gaps may leave int64
    return gaps.size * log_tanh_half(1.0 / scale) - total / scale


def log_tanh_half(x: float) -> float:
    """Return log((1 - e^-x) / (1 + e^-x)): the logarithm of discrete Laplace's peak."""
    return math.log(-math.expm1(-x)) - math.log1p(math.exp(-x))


def _log_gaussian(gaps: Integers, scale: float) -> float:
    if scale == 0.0:
        return 0.0 if not gaps.any() else -math.inf
    squares = sum(int(gap) * int(gap) for gap in gaps.reshape(-1).tolist())
    return -squares / (2.0 * scale * scale) - gaps.size * math.log(_gaussian_total(scale))


def _gaussian_total(scale: float) -> float:
    """Return the sum over all integers z of exp(-z^2 / (2 scale^2))."""
    if scale > 1.0:  # by Poisson summation, whose further terms are below 1e-16
        return (
            scale * math.sqrt(2.0 * math.pi) * (1.0 + 2.0 * math.exp(-2.0 * (math.pi * scale) ** 2))
        )
    return 1.0 + 2.0 * sum(math.exp(-z * z / (2.0 * scale * scale)) for z in range(1, 40))
