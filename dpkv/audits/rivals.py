"""Ways to find k centers that an audit compares, each run on the same records.

All see the records quantised to the domain's public grid, at the same eps and for the same
neighbours, and answer with k centers in the domain's working coordinates. dpkv's own mechanisms run
through the code of a release, with seeded draws. Potentials are measured here as well, alike for
all: on the quantised records, in working coordinates.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpkv import __version__
from dpkv.audits import diffprivlib_kmeans, sample_aggregate
from dpkv.audits.results import Rival
from dpkv.audits.sample_aggregate import SampleAggregate
from dpkv.domain import Domain
from dpkv.errors import DpkvError, UsageError
from dpkv.grid import Grid
from dpkv.mechanisms import (
    MECHANISMS,
    PAPERS,
    Mechanism,
    Neighbours,
    Published,
    as_neighbours,
    calibrate_mechanism,
)
from dpkv.noise import SeededEntropy
from dpkv.records import run_on_points
from dpkv.releases.plan import Plan
from dpkv.releases.produce import restore_centers
from dpkv.releases.settling import mechanism_of
from dpkv.seeding import estimate_optimum, kmeans_plusplus, lloyd, potential
from dpkv.seeding.nearest import row_chunks
from dpkv.types import Float64s, Floats, Integers
from dpkv.validation import exact_eps

CERTIFIED, PUBLISHED, WINDOWS = PAPERS, f"{PAPERS}-published", f"{PAPERS}-windows"
DIFFPRIVLIB = diffprivlib_kmeans.NAME
SEEDING, FLOOR = "kmeans++", "kmeans++-lloyd"
OPTIMUM_RESTARTS = 10
OPTIMUM_SAMPLE = 20_000
"""Larger tables are searched on a sample of so many records; Lloyd goes on with all of them."""
_SAME = 1e-9  # of the domain's diameter: what rounding may move a center by


@dataclass(frozen=True, eq=False)
class ContestTerms:
    """What is the same for every rival, but for the records."""

    domain: Domain
    neighbours: Neighbours
    gamma: float
    seed: int

    @property
    def grid(self) -> Grid:
        """The grid that a release uses."""
        return self.domain.grid()

    def to_working(self, points: Integers) -> Float64s:
        """Return points of the grid in working coordinates."""
        return np.asarray(self.domain.to_working(restore_centers(self.grid, self.domain, points)))


@dataclass(frozen=True, eq=False)
class Contest:
    """Records on the domain's grid, the same points in working coordinates, and the terms."""

    points: NDArray[np.int32]
    working: Float64s
    terms: ContestTerms

    def fill(self, values: Floats) -> None:
        """Take records in the user's coordinates."""
        for rows in row_chunks(len(values)):
            quantised = self.terms.grid.quantise(values[rows])
            self.points[rows] = quantised
            self.working[rows] = self.terms.to_working(quantised)


@dataclass(frozen=True)
class RivalRun:
    """One run of a rival. ``eps`` is a plain decimal, and None where nothing is private."""

    rival: str
    k: int
    eps: str | None
    number: int
    eps_tilde: float | None = None
    """Of the published calibration."""

    def seed_sequence(self, seed: int) -> np.random.SeedSequence:
        """Return the run's own randomness: it depends on no other run, and on no order of them."""
        name = f"{seed}/{self.rival}/{self.k}/{self.eps}/{self.number}"
        words = hashlib.blake2b(name.encode(), digest_size=16).digest()
        return np.random.SeedSequence(int.from_bytes(words))


@dataclass(frozen=True)
class RivalOutcome:
    """The potential of a run's centers, or why there is none."""

    potential: float | None
    failure: str | None = None


EpsTilde = Mapping[tuple[str | float, int], float | None] | Callable[[str, int], float | None]
"""eps~ of the published calibration for (eps, k); None where it is undefined."""
Finder = Callable[[Contest, RivalRun, np.random.SeedSequence], Float64s]


@dataclass(frozen=True)
class Contender:
    """A way to find centers. ``find`` belongs to a module, so that other processes find it."""

    name: str
    what: str
    find: Finder
    private: bool = True
    note: str = ""


def attempt(problem: Contest, contenders: Mapping[str, Contender], run: RivalRun) -> RivalOutcome:
    """Run a rival and measure its centers. What it raises becomes the reason of its failure."""
    try:
        find = contenders[run.rival].find
        centers = find(problem, run, run.seed_sequence(problem.terms.seed))
        return RivalOutcome(potential(problem.working, _check_centers(problem, run, centers)))
    except Exception as error:  # whatever a rival raises, the audit goes on
        return RivalOutcome(None, reason_of(error))


def _check_centers(problem: Contest, run: RivalRun, centers: Float64s) -> Float64s:
    """Refuse what cannot be centers of these records, such as other units than theirs."""
    expected = (run.k, problem.terms.domain.n_features)
    if centers.shape != expected:
        raise UsageError(f"it returned centres of shape {centers.shape} instead of {expected}.")
    if not np.isfinite(centers).all():
        raise UsageError("it returned centres that are not finite numbers.")
    space = problem.terms.domain.working
    inside = np.asarray(space.clip(centers), np.float64)
    if float(np.abs(centers - inside).max()) > _SAME * space.diam2:
        raise UsageError("it returned centres outside the domain: check their units.")
    return inside


def reason_of(error: BaseException) -> str:
    """Return why a run failed, without the message of a foreign error: it may quote a record."""
    if isinstance(error, DpkvError):
        return str(error)
    kind = type(error).__name__
    if isinstance(error, ImportError):
        return f"{error.name or 'a module'} cannot be imported ({kind})"
    return f"{kind} in {_place(error.__traceback__)}"


def _place(trace: TracebackType | None) -> str:
    """Return the module and function that an error came from."""
    if trace is None:
        return "an unknown place"
    while trace.tb_next is not None:
        trace = trace.tb_next
    frame = trace.tb_frame
    return f"{frame.f_globals.get('__name__', 'an unknown module')}.{frame.f_code.co_name}"


# -- dpkv's mechanisms ----------------------------------------------------------------------------


def _simulate_release(
    problem: Contest, mechanism: Mechanism, seed: np.random.SeedSequence
) -> Float64s:
    """Return what a release would publish: centers clamped to the domain."""
    drawn = run_on_points(mechanism, problem.points, SeededEntropy(seed)).centers
    return problem.terms.to_working(problem.terms.grid.clip(drawn))


def _run_by_name(problem: Contest, run: RivalRun, seed: np.random.SeedSequence) -> Float64s:
    return _run_calibrated(problem, run, seed, run.rival)


def _run_windows(problem: Contest, run: RivalRun, seed: np.random.SeedSequence) -> Float64s:
    return _run_calibrated(problem, run, seed, PAPERS, density="window")


def _run_calibrated(
    problem: Contest, run: RivalRun, seed: np.random.SeedSequence, name: str, **others: Any
) -> Float64s:
    mechanism = calibrate_mechanism(
        name,
        _eps(run),
        n_records=len(problem.points),
        n_clusters=run.k,
        grid=problem.terms.grid,
        neighbours=problem.terms.neighbours,
        gamma=problem.terms.gamma,
        **others,
    )
    return _simulate_release(problem, mechanism, seed)


def _run_planned(
    plan: Plan, problem: Contest, run: RivalRun, seed: np.random.SeedSequence
) -> Float64s:
    """Run what a release ran: its plan, for so many centers."""
    asked = plan.model_copy(update={"k": run.k, "fewest": None, "eps": run.eps, "chosen": None})
    return _simulate_release(
        problem, mechanism_of(asked, problem.terms.grid, len(problem.points)), seed
    )


def _run_published(problem: Contest, run: RivalRun, seed: np.random.SeedSequence) -> Float64s:
    if problem.terms.neighbours is not Neighbours.REPLACE_ONE:
        raise UsageError("the published calibration is for replace-one neighbours only.")
    if run.eps_tilde is None:
        raise UsageError("no eps~ of the published calibration is known.")
    mechanism = Published.calibrate(run.eps_tilde, n_clusters=run.k, grid=problem.terms.grid)
    return _simulate_release(problem, mechanism, seed)


def plain_eps(eps: str | float) -> str:
    """Return one spelling of an eps: without exponent or idle zeros."""
    text = format(exact_eps("eps", eps), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def usable_eps_tilde(published: EpsTilde | None, eps: str, k: int) -> float | str:
    """Return eps~ of the published calibration, or why there is none to use."""
    try:
        if callable(published):
            value = published(eps, k)
        else:
            known = (published or {}).items()
            value = {(plain_eps(key[0]), key[1]): one for key, one in known}[eps, k]
    except KeyError:
        return "no published eps~ was calculated"
    except DpkvError as error:
        return str(error)
    if value is None:
        return "the published eps~ is undefined here"
    if not 0.0 < value < math.inf:
        return f"the published eps~ = {value:.3g} is not positive"
    return float(value)


def _eps(run: RivalRun) -> Decimal:
    if run.eps is None:
        raise UsageError(f"{run.rival} needs an eps.")
    return Decimal(run.eps)


# -- others ---------------------------------------------------------------------------------------


def _diffprivlib(problem: Contest, run: RivalRun, seed: np.random.SeedSequence) -> Float64s:
    terms = problem.terms
    eps = float(_eps(run)) / terms.neighbours.changed_records
    number = int(seed.generate_state(1)[0])
    return diffprivlib_kmeans.find_centers(
        problem.working, terms.domain.working, run.k, eps, number
    )


def _sample_aggregate(problem: Contest, run: RivalRun, seed: np.random.SeedSequence) -> Float64s:
    terms = problem.terms
    if terms.neighbours is not Neighbours.REPLACE_ONE:
        raise UsageError("sample and aggregate is for replace-one neighbours only.")
    space = terms.domain.working
    layout = SampleAggregate.calibrate(
        float(_eps(run)),
        n_records=len(problem.working),
        n_clusters=run.k,
        n_features=space.n_features,
    )
    found = layout.find_centers(problem.working, space.diam2, np.random.default_rng(seed))
    return np.asarray(space.clip(found))


# -- without privacy ------------------------------------------------------------------------------


def _seed_only(problem: Contest, run: RivalRun, seed: np.random.SeedSequence) -> Float64s:
    centers, _ = kmeans_plusplus(problem.working, run.k, rng=np.random.default_rng(seed))
    return np.asarray(centers)


def _seed_and_move(problem: Contest, run: RivalRun, seed: np.random.SeedSequence) -> Float64s:
    return np.asarray(lloyd(problem.working, _seed_only(problem, run, seed)).centers)


def _best(problem: Contest, run: RivalRun, seed: np.random.SeedSequence) -> Float64s:
    rng, records = np.random.default_rng(seed), problem.working
    if len(records) <= OPTIMUM_SAMPLE:
        found = estimate_optimum(records, run.k, restarts=OPTIMUM_RESTARTS, rng=rng)
        return np.asarray(found.centers)
    size = max(OPTIMUM_SAMPLE, run.k)
    rows = np.sort(rng.choice(len(records), size, replace=False))
    start = estimate_optimum(records[rows], run.k, restarts=OPTIMUM_RESTARTS, rng=rng)
    return np.asarray(lloyd(records, start.centers).centers)


# -- who takes part -------------------------------------------------------------------------------

OPTIMUM = Contender("optimum", "k-means without privacy, best of restarts", _best, private=False)
"""What potentials are divided by; no rival."""

CONTENDERS = (
    *(
        Contender(name, kind.title, _run_by_name, note=kind.note)
        for name, kind in MECHANISMS.items()
    ),
    Contender(
        PUBLISHED,
        Published.title,
        _run_published,
        note="its noise depends on the data and no proof covers it: not an equal, for comparison",
    ),
    Contender(WINDOWS, f"{MECHANISMS[PAPERS].title}: windows in place of noise", _run_windows),
    Contender(DIFFPRIVLIB, diffprivlib_kmeans.WHAT, _diffprivlib),
    Contender(
        sample_aggregate.NAME,
        sample_aggregate.TITLE,
        _sample_aggregate,
        note=sample_aggregate.NOTE,
    ),
    Contender(SEEDING, "k-means++ without privacy", _seed_only, private=False),
    Contender(
        FLOOR, "k-means++ and Lloyd's iterations without privacy", _seed_and_move, private=False
    ),
)


def own_contender(plan: Plan) -> Contender:
    """Return the contender that runs what a plan released: the one of its name, or its own."""
    if plan.calibration == "published":
        return next(one for one in CONTENDERS if one.name == PUBLISHED)
    plain = next((one for one in CONTENDERS if one.name == plan.mechanism), None)
    chosen = (plan.density, plan.lloyd_steps, plan.iterations, plan.bounds_share)
    if plain is not None and plan.exact_delta == 0 and all(one is None for one in chosen):
        return plain
    what = f"{MECHANISMS[plan.mechanism].title}, with the options of the release"
    return Contender(f"{plan.mechanism}, as released", what, partial(_run_planned, plan))


def rivals(n_features: int | None = None, neighbours: str = "replace-one") -> tuple[Rival, ...]:
    """Return what is compared, with versions and what is known of each; ``n_features`` is d."""
    known = diffprivlib_kmeans.describe_faults(n_features, as_neighbours(neighbours))
    notes = {DIFFPRIVLIB: known}
    versions = {DIFFPRIVLIB: diffprivlib_kmeans.describe_version()}
    return tuple(
        Rival(
            name=one.name,
            what=one.what,
            version=versions.get(one.name, f"dpkv {__version__}"),
            note=notes.get(one.name, one.note),
        )
        for one in CONTENDERS
    )
