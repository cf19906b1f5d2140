"""Algorithm 0, k-variates++: the one seeding loop. Every instance is a (probe, density) pair."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpkv.distortions import SQUARED_EUCLIDEAN, Distortion
from dpkv.domain import Domain
from dpkv.errors import ParameterError, UsageError
from dpkv.seeding.densities import Density, Dirac
from dpkv.seeding.nearest import Nearest, draw_index, keep_nearest
from dpkv.seeding.probes import IdentityProbe, Probe
from dpkv.types import Float64s, Floats, Indices
from dpkv.validation import (
    as_generator,
    as_records,
    as_weights,
    cluster_count,
    non_negative,
    one_of,
)


@dataclass(frozen=True, eq=False)
class Seeding:
    """What Algorithm 0 returns."""

    centers: Floats
    """The k centers, clipped to the domain when one was given; distances were measured to these."""
    indices: Indices
    """The row of the record picked in each round."""
    draws: Floats
    """The k draws from the densities, before any clipping."""
    uniform_rounds: tuple[int, ...]
    """Rounds after the first (1-based) in which every distance was zero: see ``kvariates``."""


def kvariates(
    data: ArrayLike,
    n_clusters: SupportsIndex,
    *,
    probe: Probe | None = None,
    density: Density | None = None,
    distortion: Distortion = SQUARED_EUCLIDEAN,
    sample_weight: ArrayLike | None = None,
    first_weight: ArrayLike | None = None,
    reference: str = "released",
    gamma: float = 0.0,
    domain: Domain | None = None,
    rng: np.random.Generator | int | None = None,
) -> Seeding:
    """Seed ``n_clusters`` centers by Algorithm 0 (k-variates++).

    Round 1 picks a record uniformly. Round t picks record a with probability proportional to
    ``D_t(a) + gamma * domain.diam2**2``, where D_t(a) is the smallest distortion of probe_t(a) to a
    center so far. The picked record is released through its density. With ``sample_weight`` every
    probability is multiplied by the record's weight.

    When every D_t is zero and gamma is 0 (fewer distinct records than centers), the round picks in
    proportion to the weights alone, among the records the probe calls eligible; the round is
    listed in ``uniform_rounds``.

    Parameters
    ----------
    data : (m, d) array of finite numbers. Float32 and float64 are used in place, never copied.
    probe : where records are measured from; the records themselves by default.
    density : what a picked record is released through; itself by default.
    distortion : what is measured; squared L2 distance by default.
    sample_weight : weights of the records.
    first_weight : weights of the records in round 1 alone, for instances that open differently
        (dk-means++ opens with a uniform node, sk-means++ with a uniform summary point).
    reference : "released" measures distances to the released centers, as Algorithm 0 is written;
        "picked" measures them to the picked records, as the proof of Theorem 5 does.
    gamma : additive smoothing of Theorem A; needs ``domain``. Infinity makes every round like the
        first, which is Forgy's seeding.
    domain : the domain, in the data's coordinates; centers are clipped to it before distances
        are measured to them.
    rng : a numpy Generator or a seed, for simulation; a release never goes through here.
    """
    records = as_records(data)
    k = cluster_count(n_clusters, len(records))
    probe = IdentityProbe() if probe is None else probe
    density = Dirac() if density is None else density
    weight = as_weights("sample_weight", sample_weight, len(records))
    opening = as_weights("first_weight", first_weight, len(records))
    one_of("reference", reference, ("released", "picked"))
    smoothing = _smoothing(gamma, domain)
    generator = as_generator(rng)
    distortion.check(records)

    by_distance = k > 1 and math.isfinite(smoothing)
    picker = _FloatPicker(
        nearest=keep_nearest(records, weight, probe, distortion) if by_distance else None,
        probe=probe,
        weight=weight,
        opening=opening,
        n_records=len(records),
        smoothing=smoothing,
        rng=generator,
    )

    def draw(index: int) -> Floats:
        drawn = density.sample(records, index, generator)
        if not np.isfinite(drawn).all():
            raise UsageError("density must return finite numbers: check its parameters.")
        return drawn.astype(records.dtype, copy=False)

    def settle(drawn: Floats) -> Floats:
        center = drawn if domain is None else domain.clip(drawn[np.newaxis])[0]
        if reference == "released":
            distortion.check(center[np.newaxis])
        return center

    return seeding_rounds(
        k,
        picker,
        draw=draw,
        settle=settle,
        refer=None if reference == "released" else records.__getitem__,
    )


class Picker(Protocol):
    """How a round picks a record."""

    def add(self, center: NDArray[Any]) -> None:
        """Account for one more center."""

    def by_distance(self) -> int | None:
        """Pick in proportion to D_t plus smoothing, or None where that is zero for every record."""

    def plainly(self, round_: int) -> int:
        """Pick where distances do not decide: in round 1, and where all of them are zero."""

    @property
    def measures(self) -> bool:
        """Whether distances decide at all; Forgy's seeding never measures."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """What a round of Algorithm 0 gives."""

    draw: NDArray[Any]
    """From the density of the picked record."""
    index: int = -1
    """The picked record; -1 where nobody may know."""
    uniform: bool = False
    """Whether distances decided nothing, being all zero."""


Rounds = Callable[[int, Any], Drawn]
"""Gives round t's draw, t from 0, from the center that distances were last measured to."""


def algorithm0(
    n_clusters: int,
    next_draw: Rounds,
    *,
    settle: Callable[[NDArray[Any]], NDArray[Any]],
    refer: Callable[[int], NDArray[Any]] | None = None,
    progress: Callable[[float], None] | None = None,
) -> Seeding:
    """Run Algorithm 0: in every round pick a record, draw a center from its density, remember it.

    The only seeding loop there is. Simulations run it on floats, releases by asking a curator,
    peers on records that never meet; they differ in how a round draws. ``settle`` moves a draw into
    the domain. Distances are measured to what it returns, or to ``refer`` of the picked index.
    """
    draws: list[NDArray[Any]] = []
    centers: list[NDArray[Any]] = []
    indices: list[int] = []
    uniform_rounds: list[int] = []
    reference: NDArray[Any] | None = None
    for t in range(n_clusters):
        drawn = next_draw(t, reference)
        draws.append(drawn.draw)
        indices.append(drawn.index)
        centers.append(settle(drawn.draw))
        reference = centers[t] if refer is None else refer(drawn.index)
        if drawn.uniform:
            uniform_rounds.append(t + 1)
        if progress is not None:
            progress((t + 1) / n_clusters)
    return Seeding(
        np.stack(centers), np.asarray(indices, np.int64), np.stack(draws), tuple(uniform_rounds)
    )


def seeding_rounds(
    n_clusters: int,
    picker: Picker,
    *,
    draw: Callable[[int], NDArray[Any]],
    settle: Callable[[NDArray[Any]], NDArray[Any]],
    refer: Callable[[int], NDArray[Any]] | None = None,
    progress: Callable[[float], None] | None = None,
) -> Seeding:
    """Run Algorithm 0 where a picker picks a record and ``draw`` draws from its density."""

    def next_draw(t: int, reference: NDArray[Any]) -> Drawn:
        index, measured = None, t > 0 and picker.measures
        if measured:
            picker.add(reference)
            index = picker.by_distance()
        uniform = measured and index is None
        if index is None:
            index = picker.plainly(t + 1)
        return Drawn(draw(index), index, uniform)

    return algorithm0(n_clusters, next_draw, settle=settle, refer=refer, progress=progress)


@dataclass(frozen=True, eq=False)
class _FloatPicker:
    """Floating-point draws from a numpy Generator: for simulation."""

    nearest: Nearest | None
    probe: Probe
    weight: Float64s | None
    opening: Float64s | None
    n_records: int
    smoothing: float
    rng: np.random.Generator

    @property
    def measures(self) -> bool:
        return self.nearest is not None

    def add(self, center: Floats) -> None:
        assert self.nearest is not None
        self.nearest.add(center)

    def by_distance(self) -> int | None:
        assert self.nearest is not None
        return self.nearest.draw(self.smoothing, self.rng)

    def plainly(self, round_: int) -> int:
        if round_ == 1 and self.opening is not None:
            return draw_index(self.opening, self.rng)
        return _draw_eligible(self.probe, round_, self.weight, self.n_records, self.rng)


def _smoothing(gamma: float, domain: Domain | None) -> float:
    """Return gamma * diam2^2, what Theorem A adds to every distance."""
    gamma = non_negative("gamma", gamma)
    if gamma == 0.0 or math.isinf(gamma):
        return gamma
    if domain is None:
        raise ParameterError("domain", "given when gamma is positive", None)
    return gamma * domain.diam2**2


def _draw_eligible(
    probe: Probe, round_: int, weight: Float64s | None, n_records: int, rng: np.random.Generator
) -> int:
    """Pick by weight alone among the records the probe calls eligible (all, if those weigh 0)."""
    eligible = probe.eligible(round_, n_records)
    mass = weight
    if eligible is not None and eligible.any():
        mass = eligible.astype(np.float64) if weight is None else eligible * weight
        mass = mass if mass.any() else weight
    return int(rng.integers(n_records)) if mass is None else draw_index(mass, rng)
