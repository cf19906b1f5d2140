"""The calibrator: every figure of every k, from records, a domain and eps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import SupportsIndex

import numpy as np

from dpkv.accounting import ROW, Unit
from dpkv.accounting.theorem_a import DEFAULT_GAMMA, certify, largest_ratio, uniform_pick_ceiling
from dpkv.calibration import record
from dpkv.calibration.forecast import forecast
from dpkv.domain import Domain
from dpkv.errors import ParameterError
from dpkv.mechanisms.kvariates.windows import best_window, expected_squares
from dpkv.paper import monotonicity, published_calibration, randomized_estimates, spread
from dpkv.paper.calibration_loops import SpatialBlocks, spatial_blocks
from dpkv.paper.dual_bounds import WeightedRecords
from dpkv.paper.enclosing_ball import enclosing_radius
from dpkv.paper.printed_figures import printed_eps_tilde
from dpkv.seeding.instances import kmeans_plusplus
from dpkv.seeding.potentials import lloyd, potential
from dpkv.tables.anything import AnyTable, read_any
from dpkv.tables.schema import TableSchema
from dpkv.types import Float64s, StageProgress
from dpkv.validation import (
    as_generator,
    cluster_count,
    non_negative,
    one_of,
    positive_finite,
    whole_number,
)

METHODS = ("auto", "exact", "certified", "randomized")
CONVENTIONS = ("diameter", "radius")
DEFAULT_K = range(2, 11)
_COLLAPSED_FEATURES = 4  # tables with more columns rarely repeat a record, and sorting them is slow
_COLLAPSED_RECORDS = 300_000
_MOST_DRAWS = 1_000_000
_SAMPLING, _BOUNDING, _OPTIMISING = range(3)
_OPTIMUM_SAMPLE, _OPTIMUM_RESTARTS, _OPTIMUM_STEPS = 30_000, 5, 3

"""Called with what is being done and the share of the whole that is done."""


@dataclass(frozen=True)
class CalibrationSettings:
    """How to calibrate; checked on creation, before any data are read."""

    eps: float
    gamma: float = DEFAULT_GAMMA
    method: str = "auto"
    n_est: int = randomized_estimates.DEFAULT_DRAWS
    radius_convention: record.Convention = "diameter"

    def __post_init__(self) -> None:
        object.__setattr__(self, "eps", positive_finite("eps", self.eps))
        object.__setattr__(self, "gamma", non_negative("gamma", self.gamma))
        if self.gamma == 0.0:
            raise ParameterError("gamma", "greater than 0", self.gamma)
        one_of("method", self.method, METHODS)
        one_of("radius_convention", self.radius_convention, CONVENTIONS)
        if whole_number("n_est", self.n_est, at_least=1) > _MOST_DRAWS:
            raise ParameterError("n_est", f"at most {_MOST_DRAWS}", self.n_est)


def calibrate(
    data: AnyTable,
    *,
    eps: float,
    k: SupportsIndex | Iterable[SupportsIndex] | None = None,
    domain: Domain | None = None,
    schema: TableSchema | str | Path | None = None,
    columns: Sequence[str] | None = None,
    header: bool | None = None,
    missing: str | None = None,
    gamma: float = DEFAULT_GAMMA,
    method: str = "auto",
    n_est: int = randomized_estimates.DEFAULT_DRAWS,
    radius_convention: record.Convention = "diameter",
    rng: np.random.Generator | int | None = None,
    progress: StageProgress | None = None,
) -> record.Calibration:
    """Calibrate the noise of k-variates++ for every k: as published, by Theorem A, and Laplace.

    Parameters
    ----------
    data : (m, d) records, in the user's coordinates; a data frame of any library; what
        ``dpkv.read_table`` returned; or the path of a CSV or Parquet file.
    eps : the privacy parameter of a whole release of k centers, replace-one neighbours.
    k : the numbers of clusters; 2 to 10 by default.
    domain : where records may lie; by default what a schema says. Without either, the box around
        the data is taken; that leaks, and the record says so.
    schema, columns, header, missing : what the table holds, as ``dpkv.release`` takes them.
    gamma : smoothing of Theorem A, public.
    method : "exact", "certified" or "randomized" spread and monotonicity; "auto" is exact where the
        instance is small enough and certified otherwise. Monotonicity is exact on small instances
        only, and certified under "exact" elsewhere.
    n_est : random neighbourhoods of the paper's estimates.
    radius_convention : whether R of the spread is the L2 "diameter", as its definition needs, or
        the "radius", as some of the paper's text reads.
    rng : a Generator or seed for the random searches.
    """
    settings = CalibrationSettings(eps, gamma, method, n_est, radius_convention)
    table = read_any(data, domain, schema=schema, columns=columns, header=header, missing=missing)
    working = np.asarray(table.values, dtype=np.float64)
    found = calibrate_working(working, table.domain, settings, k=k, rng=rng, progress=progress)
    return found.model_copy(update={"columns": table.columns, "header": header, "missing": missing})


def calibrate_working(
    working: Float64s,
    domain: Domain,
    settings: CalibrationSettings,
    *,
    k: SupportsIndex | Iterable[SupportsIndex] | None = None,
    rng: np.random.Generator | int | None = None,
    progress: StageProgress | None = None,
    units: tuple[Unit, int] | None = None,
) -> record.Calibration:
    """Calibrate records that are in the domain's working coordinates already, maybe on disk.

    ``units`` are whose data a release protects, and how many they are, where these are not single
    rows: forecasts are for them. The noise of the paper's mechanism is for single rows.
    """
    wanted = cluster_counts(k, len(working))
    job = _Job(working, domain, settings, as_generator(rng), wanted, progress, units)
    return record.Calibration(
        eps=settings.eps,
        n_records=len(working),
        n_features=working.shape[1],
        domain=domain.to_dict(),
        coordinates=domain.coordinates,
        radius=job.radius,
        eps_tilde_ceiling=uniform_pick_ceiling(settings.eps, len(working)),
        rows=tuple(job.row(key) for key in wanted),
        notes=(record.LEAK,) if domain.source == "data" else (),
        unit=ROW.kind if units is None else units[0].kind,
        n_units=None if units is None else units[1],
    )


def cluster_counts(
    k: SupportsIndex | Iterable[SupportsIndex] | None, n_records: int
) -> tuple[int, ...]:
    """Return the numbers of clusters in order, each at most ``n_records``; 2 to 10 by default."""
    if k is None:
        return tuple(key for key in DEFAULT_K if key <= n_records) or (1,)
    values = k if isinstance(k, Iterable) else [k]
    counts = sorted({cluster_count(value, n_records, "k") for value in values})
    if not counts:
        raise ParameterError("k", "at least one number of clusters", "none")
    return tuple(counts)


class _Job:
    """One calibration: what the rows share is calculated once, when it is first needed."""

    def __init__(
        self,
        working: Float64s,
        domain: Domain,
        settings: CalibrationSettings,
        rng: np.random.Generator,
        wanted: tuple[int, ...],
        progress: StageProgress | None,
        units: tuple[Unit, int] | None,
    ) -> None:
        self._unit, self._n_units = units or (ROW, len(working))
        self._working = working
        self._domain = domain.working
        self._users_domain = domain
        self._settings = settings
        self._seed = int(rng.integers(2**63))
        self._progress = progress
        self._remaining: dict[int, spread.LeastRemaining] = {}
        self._ratios: dict[int, float] = {}  # of the certified monotonicity, by centers
        certifies = settings.method != "randomized"
        self._stages = len(wanted) * (1 + certifies) + (max(wanted) - 1) * certifies
        self._stage = 0
        self.radius = _radius(working, domain, settings.radius_convention)

    def row(self, k: int) -> record.Row:
        """Return the figures of one k."""
        optimum = self._optimum(k)
        sample = self._sample(k)
        width, width_method, at_least = self._spread(k, sample)
        fall, fall_method = self._monotonicity(k, sample)
        careful = published_calibration.published_eps_tilde(self._settings.eps, k, width, fall)
        if k == 1:
            careful = published_calibration.PublishedEpsilon(None, _ONE_CLUSTER)
        notes = [careful.note] if careful.note else []
        m, d = self._working.shape
        printed = printed_eps_tilde(self._settings.eps, m, d, k)
        if printed is not None:
            notes += self._about_printed(*printed)
        settings = self._settings
        return record.Row(
            k=k,
            forecast=forecast(
                self._users_domain, self._n_units, settings.eps, k, settings.gamma, self._unit
            ),
            spread=_finite(width),
            spread_method=width_method,
            spread_at_least=_finite(at_least),
            monotonicity=_finite(fall),
            monotonicity_method=fall_method,
            optimum_estimate=optimum,
            published=self._published_noise(k, careful, width, fall, optimum),
            randomized=self._randomized_noise(k, sample),
            certified=self._certified_noise(k, optimum),
            window=self._window(k),
            laplace=self._laplace_noise(k, optimum),
            regime=self._regime(k, careful.usable),
            paper_eps_tilde=None if printed is None else printed[1],
            notes=tuple(notes),
        )

    # -- spread and monotonicity ------------------------------------------------------------------

    def _spread(
        self, k: int, sample: randomized_estimates.RandomizedEstimates | None
    ) -> tuple[float, str, float]:
        """Return the spread, its method, and a spread that is attained."""
        if sample is None:  # k = 1 has no neighbourhoods
            return math.nan, "none", math.nan
        if self._settings.method == "randomized":
            value = sample.spread(self.radius.value)
            return value, "randomized", value
        found = self._least_remaining(k - 1)
        attained = min(found.found, sample.least_remaining)
        at_least = spread.spread_of(attained, self.radius.value)
        return found.spread(self.radius.value), found.method, at_least

    def _least_remaining(self, n_centers: int) -> spread.LeastRemaining:
        data, method = self._data, self._settings.method
        small = n_centers == 1 or data.size <= spread.EXACT_POINTS
        if method == "exact" or (method == "auto" and small):
            try:
                return spread.exact_remaining(data, n_centers)
            except ParameterError:
                if method == "exact":
                    raise
        return self._certified_remaining(n_centers)

    def _certified_remaining(self, n_centers: int) -> spread.LeastRemaining:
        if n_centers not in self._remaining:
            self._remaining[n_centers] = spread.certified_remaining(
                self._data,
                lambda: self._blocks,
                n_centers,
                rng=self._stream(_BOUNDING, n_centers),
                progress=lambda share: self._tell(f"bounding {n_centers} centres", share),
            )
            self._finish_stage()
        return self._remaining[n_centers]

    def _monotonicity(
        self, k: int, sample: randomized_estimates.RandomizedEstimates | None
    ) -> tuple[float, str]:
        if sample is None:
            return math.nan, "none"
        if self._settings.method == "randomized":
            return sample.monotonicity, "randomized"
        data = self._data
        if data.size <= monotonicity.EXACT_POINTS and self._settings.method != "certified":
            result = monotonicity.exact_monotonicity(data, k)
        else:
            duals = {n: self._certified_remaining(n).dual for n in range(2, k + 1)}
            result = monotonicity.certified_monotonicity(
                data, lambda: self._blocks, duals, self._ratios
            )
        self._finish_stage()
        return result.value, result.method

    def _sample(self, k: int) -> randomized_estimates.RandomizedEstimates | None:
        if k == 1:
            return None
        draws = randomized_estimates.random_neighbourhoods(
            self._working, k, self._settings.n_est, self._stream(_SAMPLING, k)
        )
        result = randomized_estimates.estimate(self._working, draws)
        self._finish_stage()
        return result

    @cached_property
    def _data(self) -> WeightedRecords:
        return collapse_duplicates(self._working)

    @cached_property
    def _blocks(self) -> SpatialBlocks:
        return spatial_blocks(self._data.points, self._data.weights)

    # -- the parts of a row -----------------------------------------------------------------------

    def _published_noise(
        self,
        k: int,
        careful: published_calibration.PublishedEpsilon,
        width: float,
        fall: float,
        optimum: float,
    ) -> record.PublishedNoise:
        sigma = ratio = phi = None
        if careful.usable is not None:
            sigma = published_calibration.sigma_kvariates(self._domain.diam1, careful.usable)
            ratio = _finite(
                published_calibration.likelihood_ratio_bound(k, width, fall, careful.usable)
            )
            phi = self._phi(optimum, sigma)
        return record.PublishedNoise(
            eps_tilde=careful.value,
            sigma=sigma,
            note=careful.note,
            likelihood_ratio=ratio,
            phi=phi,
        )

    def _randomized_noise(
        self, k: int, sample: randomized_estimates.RandomizedEstimates | None
    ) -> record.RandomizedNoise | None:
        if sample is None:
            return None
        width = sample.spread(self.radius.value)
        found = published_calibration.published_eps_tilde(
            self._settings.eps, k, width, sample.monotonicity
        )
        sigma = None
        if found.usable is not None:
            sigma = published_calibration.sigma_kvariates(self._domain.diam1, found.usable)
        return record.RandomizedNoise(
            spread=_finite(width),
            monotonicity=_finite(sample.monotonicity),
            eps_tilde=found.value,
            sigma=sigma,
            n_draws=sample.n_draws,
            caveat=sample.caveat,
        )

    def _certified_noise(self, k: int, optimum: float) -> record.CertifiedNoise:
        settings = self._settings
        certificate = certify(
            settings.eps, n_records=len(self._working), n_clusters=k, gamma=settings.gamma
        )
        sigma = certificate.sigma(self._domain.diam1)
        return record.CertifiedNoise(
            eps_tilde=certificate.eps_tilde,
            sigma=sigma,
            gamma=certificate.gamma,
            spent=certificate.spent,
            noise_share=self._share(sigma),
            phi=self._phi(optimum, sigma),
            label=_LABELS[self._domain.source],
        )

    def _window(self, k: int) -> record.WindowFigures:
        settings, grid = self._settings, self._domain.grid()
        certificate = certify(
            settings.eps, n_records=len(self._working), n_clusters=k, gamma=settings.gamma
        )
        density = best_window(grid, largest_ratio(certificate.eps_tilde))
        low, high = grid.box
        widest = int((high - low).max()) + 1
        squares, diameter = float(expected_squares(density)), float(grid.diam2_squared)
        return record.WindowFigures(
            ratio=density.ratio,
            side=min(1.0, (2 * density.reach + 1) / widest),
            near=density.near,
            noise_share=math.sqrt(squares / diameter) if diameter else 0.0,
        )

    def _laplace_noise(self, k: int, optimum: float) -> record.LaplaceNoise:
        sigma = published_calibration.sigma_laplace(self._domain.diam1, k, self._settings.eps)
        return record.LaplaceNoise(
            sigma=sigma, noise_share=self._share(sigma), phi=self._phi(optimum, sigma)
        )

    def _regime(self, k: int, eps_tilde: float | None) -> record.SublinearNoiseRegime:
        m, d = self._working.shape
        regime = published_calibration.sublinear_regime(m, k, d, eps_tilde)
        return record.SublinearNoiseRegime(
            largest_k=regime.largest_k, applies=regime.applies, g=regime.g
        )

    def _phi(self, optimum: float, sigma: float) -> record.PotentialBound:
        m, d = self._working.shape
        bounds = published_calibration.potential_bounds(optimum, m, d, sigma)
        return record.PotentialBound(printed=bounds.printed, dimension_aware=bounds.dimension_aware)

    def _share(self, sigma: float) -> float:
        """Return the root-mean-square length of the noise over the domain's L2 diameter."""
        if self._domain.diam2 == 0.0:
            return 0.0
        return math.sqrt(self._working.shape[1]) * sigma / self._domain.diam2

    def _about_printed(self, name: str, value: float) -> list[str]:
        ceiling = uniform_pick_ceiling(self._settings.eps, len(self._working))
        if value <= ceiling:
            return [f"the paper prints eps~ = {value} for a table of this shape, {name}"]
        return [
            f"the paper prints eps~ = {value} for a table of this shape, {name}, above the ceiling "
            f"log(1 + (e^eps - 1) m) = {ceiling:.1f}: it cannot hold over all tables of this size"
        ]

    def _optimum(self, k: int) -> float:
        """Estimate phi_opt from above: Lloyd on a sample, a few steps on all records."""
        records, rng = self._working, self._stream(_OPTIMISING, k)
        sample = records
        if len(records) > _OPTIMUM_SAMPLE:
            rows = np.sort(rng.choice(len(records), _OPTIMUM_SAMPLE, replace=False))
            sample = records[rows]
        ends = []
        for _ in range(_OPTIMUM_RESTARTS):
            seeds, _ = kmeans_plusplus(sample, k, rng=rng)
            ends.append(lloyd(sample, seeds))
        best = min(ends, key=lambda end: end.potential)
        if len(sample) == len(records):
            return best.potential
        return min(
            potential(records, best.centers),
            lloyd(records, best.centers, max_iterations=_OPTIMUM_STEPS).potential,
        )

    def _stream(self, purpose: int, number: int) -> np.random.Generator:
        """Return random numbers of their own: a row does not depend on what else is calibrated."""
        return np.random.default_rng([self._seed, purpose, number])

    # -- progress ---------------------------------------------------------------------------------

    def _tell(self, label: str, share: float) -> None:
        if self._progress is not None:
            self._progress(label, min(1.0, (self._stage + share) / max(1, self._stages)))

    def _finish_stage(self) -> None:
        self._tell("calibrating", 1.0)
        self._stage += 1


_LABELS = {
    "given": record.CERTIFIED_LABEL,
    "private": record.PRIVATE_BOUNDS_LABEL,
    "data": record.LEAKED_LABEL,
}
_ONE_CLUSTER = (
    "one uniform pick: spread and monotonicity do not exist and f(1) = 1/16 means nothing; the "
    "certified eps~, log(1 + m (e^eps - 1)), is exact"
)


def collapse_duplicates(points: Float64s) -> WeightedRecords:
    """Return the distinct points with their counts, where finding them is cheap."""
    if points.shape[1] > _COLLAPSED_FEATURES and len(points) > _COLLAPSED_RECORDS:
        return WeightedRecords(points, np.ones(len(points)))
    distinct, counts = np.unique(points, axis=0, return_counts=True)
    return WeightedRecords(np.ascontiguousarray(distinct), counts.astype(np.float64))


def _radius(working: Float64s, domain: Domain, convention: record.Convention) -> record.Radius:
    """Return R: of the public domain, or of the data's own ball where bounds leak them anyway."""
    half = 0.5 if convention == "radius" else 1.0
    if domain.source == "data":
        return record.Radius(
            value=2.0 * half * enclosing_radius(working),
            convention=convention,
            of="smallest enclosing ball of the data",
        )
    return record.Radius(value=half * domain.working.diam2, convention=convention, of="domain")


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
