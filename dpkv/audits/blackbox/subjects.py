"""Mechanisms to try an auditor on: some that are known to be broken, and some that are correct.

Each claims eps = 1, or what is written beside it. The broken ones have faults that were published,
written here anew and as small as the fault allows; ``audits/blackbox.py`` runs them all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpkv.audits import diffprivlib_kmeans
from dpkv.audits.blackbox.tables import Column, TableDomain
from dpkv.noise import SeededEntropy
from dpkv.types import Float64s

EPS = 1.0
_THRESHOLD = 1.0
_SIGMA = 5.0


@dataclass(frozen=True)
class Subject:
    """A mechanism, what it claims, and what is known of it."""

    name: str
    mechanism: Callable[..., Any]
    claim: str
    domain: TableDomain
    broken: bool
    what: str


def _unit(width: int, *, whole: bool = False, missing: bool = False, rows: int = 0) -> TableDomain:
    columns = tuple(
        Column(f"x{number + 1}", 0.0, 1.0, whole=whole, may_be_missing=missing)
        for number in range(width)
    )
    return TableDomain(columns, rows)


def _symmetric(width: int, rows: int) -> TableDomain:
    return TableDomain(tuple(Column(f"x{n + 1}", -1.0, 1.0) for n in range(width)), rows)


# -- broken ----------------------------------------------------------------------------------------


def numpy_laplace(table: Float64s, rng: np.random.Generator) -> float:
    """A sum with numpy's Laplace noise: which floats are possible depends on the sum."""
    return float(table.sum() + rng.laplace(0.0, 1.0 / EPS))


def diffprivlib_sum(table: Float64s, seed: int) -> float:
    """A sum with diffprivlib's Laplace noise: as above."""
    return diffprivlib_kmeans.noisy_sum(table[:, 0], (0.0, 1.0), EPS, seed)


def diffprivlib_centers(table: Float64s, seed: int) -> Float64s:
    """diffprivlib's KMeans: a swapped split, and clusters that are skipped by their exact count."""
    width = table.shape[1]
    return diffprivlib_kmeans.fit(table, (np.full(width, -1.0), np.ones(width)), 2, EPS, seed)


def one_scalar(table: Float64s, rng: np.random.Generator) -> Float64s:
    """Sums of columns with one number of noise for all: their differences are exact."""
    return np.asarray(np.rint(table).sum(axis=0) + _laplace(rng, table.shape[1] / EPS))


def seventeen_twelfths(table: Float64s, rng: np.random.Generator) -> list[int]:
    """Three counts at 5/12, 6/12 and 6/12 of eps: 17/12 in all."""
    return [len(table) + _laplace(rng, 12.0 / (share * EPS)) for share in (5, 6, 6)]


def half_gaussian(table: Float64s, rng: np.random.Generator) -> int:
    """A count with half of the standard deviation that mu = 1 needs."""
    return len(table) + round(float(rng.normal(0.0, 0.5)))


def nan_to_zero(table: Float64s, rng: np.random.Generator) -> float:
    """A noisy sum, rounded to a grid, that turns what is not a number into 0."""
    total = float(table.sum())
    noisy = total if math.isnan(total) else round(total * 64) + _laplace(rng, 64 / EPS)
    return float(np.nan_to_num(noisy))


def talking_count(table: Float64s, rng: np.random.Generator) -> float:
    """A noisy count that refuses small tables, and says how small they are."""
    if len(table) < 3:  # noqa: PLR2004
        raise ValueError(f"need at least 3 rows, got {len(table)}")
    return len(table) + _laplace(rng, 1.0 / EPS)


def svt_noisy_answers(table: Float64s, rng: np.random.Generator) -> list[float | None]:
    """Sparse vector that prints the noisy answer that it compared (Lyu et al., algorithm 3)."""
    found: list[float | None] = []
    bar = _THRESHOLD + rng.laplace(0.0, 2.0 / EPS)
    for answer in table.sum(axis=0):
        noisy = answer + rng.laplace(0.0, 2.0 / EPS)
        found.append(float(noisy) if noisy >= bar else None)
        if noisy >= bar:
            break
    return found


def svt_scaled_for_one(table: Float64s, rng: np.random.Generator) -> str:
    """Sparse vector with 4 positive answers and noise for one (their algorithm 4)."""
    return _sparse_vector(table, rng, bar=4.0 / EPS, noise=4.0 / (3.0 * EPS), most=4)


def svt_without_noise(table: Float64s, rng: np.random.Generator) -> str:
    """Sparse vector that adds no noise to its answers (their algorithm 5)."""
    return _sparse_vector(table, rng, bar=2.0 / EPS, noise=0.0, most=None)


def svt_without_end(table: Float64s, rng: np.random.Generator) -> str:
    """Sparse vector that never stops (their algorithm 6)."""
    return _sparse_vector(table, rng, bar=2.0 / EPS, noise=2.0 / EPS, most=None)


# -- correct ---------------------------------------------------------------------------------------


def svt(table: Float64s, rng: np.random.Generator) -> str:
    """Sparse vector as it should be (their algorithm 1), with two positive answers."""
    return _sparse_vector(table, rng, bar=2.0 / EPS, noise=2.0 * 2.0 * 2.0 / EPS, most=2)


def discrete_laplace(table: Float64s, rng: np.random.Generator) -> int:
    """A count with discrete Laplace noise: exactly eps."""
    return len(table) + _laplace(rng, 1.0 / EPS)


def opendp_laplace(table: Float64s) -> int:
    """A count by OpenDP's Laplace mechanism."""
    return int(_opendp("laplace")(len(table)))


def opendp_laplace_float(table: Float64s) -> float:
    """A sum of floats by OpenDP's Laplace mechanism: on a grid, whatever the sum is."""
    return float(_opendp("laplace-float")(float(np.rint(table * 1024).sum() / 1024)))


def opendp_gaussian(table: Float64s) -> int:
    """A count by OpenDP's Gaussian mechanism, of standard deviation 5."""
    return int(_opendp("gaussian")(len(table)))


def randomised_response(table: Float64s, rng: np.random.Generator) -> str:
    """Every row's bit, flipped with probability 1 / (1 + e^eps)."""
    flipped = rng.uniform(size=len(table)) < 1.0 / (1.0 + math.exp(EPS))
    return "".join("1" if bit else "0" for bit in (np.rint(table[:, 0]) == 1.0) ^ flipped)


def noisy_max(table: Float64s, rng: np.random.Generator) -> int:
    """Which column has the largest sum, by the exponential mechanism."""
    scores = EPS / 2.0 * table.sum(axis=0)
    chances = np.exp(scores - scores.max())
    return int(rng.choice(len(scores), p=chances / chances.sum()))


def dpkv_lloyd(table: Float64s, seed: int) -> Float64s:
    """dpkv's own private Lloyd, as a release runs it, on a seed instead of the system's entropy."""
    from decimal import Decimal  # noqa: PLC0415

    from dpkv.accounting import Neighbours  # noqa: PLC0415
    from dpkv.domain import Box  # noqa: PLC0415
    from dpkv.mechanisms import calibrate_mechanism  # noqa: PLC0415
    from dpkv.records import run_on_points  # noqa: PLC0415

    grid = Box((0.0,) * 2, (1.0,) * 2).grid()
    mechanism = calibrate_mechanism(
        "lloyd", Decimal(1), n_records=len(table), n_clusters=1, grid=grid,
        neighbours=Neighbours.ADD_REMOVE, iterations=1,
    )  # fmt: skip
    points = grid.quantise(table).astype(np.int32)
    return grid.restore(grid.clip(run_on_points(mechanism, points, SeededEntropy(seed)).centers))


def _laplace(rng: np.random.Generator, scale: float) -> int:
    """Return discrete Laplace noise: the difference of two geometric variables."""
    stop = -math.expm1(-1.0 / scale)
    return int(rng.geometric(stop) - rng.geometric(stop))


def _sparse_vector(
    table: Float64s, rng: np.random.Generator, *, bar: float, noise: float, most: int | None
) -> str:
    """Say of every column's sum whether it is above a threshold, until so many are."""
    found, threshold = "", _THRESHOLD + rng.laplace(0.0, bar)
    for answer in table.sum(axis=0):
        found += "T" if answer + rng.laplace(0.0, noise) >= threshold else "_"
        if most is not None and found.count("T") == most:
            break
    return found


_OPENDP: dict[str, Callable[[float], float]] = {}


def _opendp(name: str) -> Callable[[float], float]:
    if name not in _OPENDP:
        import opendp.prelude as dp  # noqa: PLC0415

        dp.enable_features("contrib")
        whole = dp.atom_domain(T=int), dp.absolute_distance(T=int)
        real = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
        _OPENDP["laplace"] = dp.m.make_laplace(*whole, scale=1.0 / EPS)
        _OPENDP["laplace-float"] = dp.m.make_laplace(*real, scale=1.0 / EPS)
        _OPENDP["gaussian"] = dp.m.make_gaussian(*whole, scale=_SIGMA)
    return _OPENDP[name]


_ADD, _REPLACE = "eps=1,neighbours=add-remove", "eps=1,neighbours=replace-one"
_BITS = _unit(10, whole=True)

SUBJECTS = tuple(
    Subject(name, mechanism, claim, domain, broken, str(mechanism.__doc__).split("\n", 1)[0])
    for name, mechanism, claim, domain, broken in (
        ("numpy-laplace", numpy_laplace, _ADD, _unit(1), True),
        ("diffprivlib-laplace", diffprivlib_sum, _ADD, _unit(1), True),
        ("diffprivlib-kmeans-15", diffprivlib_centers, _ADD, _symmetric(15, 4), True),
        ("one-scalar-of-noise", one_scalar, _ADD, _unit(3, whole=True), True),
        ("seventeen-twelfths", seventeen_twelfths, _ADD, _unit(1), True),
        ("half-gaussian", half_gaussian, "mu=1,neighbours=add-remove", _unit(1), True),
        ("nan-to-zero", nan_to_zero, _ADD, _unit(1, missing=True), True),
        ("talking-count", talking_count, _ADD, _unit(1), True),
        ("svt-noisy-answers", svt_noisy_answers, _REPLACE, _BITS, True),
        ("svt-scaled-for-one", svt_scaled_for_one, _REPLACE, _BITS, True),
        ("svt-without-noise", svt_without_noise, _REPLACE, _BITS, True),
        ("svt-without-end", svt_without_end, _REPLACE, _unit(20, whole=True), True),
        ("svt", svt, _REPLACE, _BITS, False),
        ("discrete-laplace", discrete_laplace, _ADD, _unit(1), False),
        ("opendp-laplace", opendp_laplace, _ADD, _unit(1), False),
        ("opendp-laplace-float", opendp_laplace_float, _ADD, _unit(1), False),
        ("opendp-gaussian", opendp_gaussian, "eps=1,delta=1e-5,neighbours=add-remove",
         _unit(1), False),
        ("opendp-gaussian-mu", opendp_gaussian, "mu=0.2,neighbours=add-remove", _unit(1), False),
        ("randomised-response", randomised_response, _REPLACE, _unit(1, whole=True), False),
        ("noisy-max", noisy_max, _REPLACE, _unit(4, whole=True), False),
        ("dpkv-lloyd", dpkv_lloyd, _ADD, _unit(2, rows=1), False),
    )
)  # fmt: skip
