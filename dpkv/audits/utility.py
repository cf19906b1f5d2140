"""How good the centers are: potentials of all rivals over many runs, on equal terms. Curator-only.

Potentials are means over runs, measured on the quantised records in working coordinates, and shown
over the best potential known without privacy, and over that of certified k-variates++ (rho'_phi,
Table 10 (results)). Intervals are Student's t on the logarithm of a mean, at 95 %: potentials are
positive and skewed, where it covers better than t itself or a bootstrap. The best potential counts
as a constant.

A run's randomness follows from the seed and its own name, so rows depend neither on the number of
processes nor on what an earlier call has left in the cache.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtrit

from dpkv import kernels
from dpkv.accounting.theorem_a import DEFAULT_GAMMA
from dpkv.audits.results import UtilityRow
from dpkv.audits.rivals import (
    CERTIFIED,
    CONTENDERS,
    FLOOR,
    OPTIMUM,
    PUBLISHED,
    SEEDING,
    Contender,
    Contest,
    ContestTerms,
    EpsTilde,
    RivalOutcome,
    RivalRun,
    attempt,
    plain_eps,
    rivals,
    usable_eps_tilde,
)
from dpkv.domain import Domain
from dpkv.errors import ParameterError
from dpkv.mechanisms import as_neighbours
from dpkv.releases.canonical import canonical, digest
from dpkv.types import Float64s, Floats
from dpkv.validation import as_records, cluster_count, non_negative, whole_number

__all__ = ["compare", "interval", "rivals"]

_Outcomes = Generator[tuple[RivalRun, RivalOutcome], None, None]
_UPPER = 0.975  # the quantile that a two-sided interval at 95 % reaches
_WORTH_PROCESSES = 50_000_000  # numbers read in all runs; below, starting processes takes longer
_DIED = "the process that ran it died (out of memory, or a crash in compiled code)"
_SPAWN = multiprocessing.get_context("spawn")  # forking would copy threads' locks in any state


def compare(
    values: Floats,
    domain: Domain,
    *,
    ks: Sequence[int],
    epsilons: Sequence[str | float],
    runs: int = 30,
    seed: int = 0,
    neighbours: str = "replace-one",
    gamma: float = DEFAULT_GAMMA,
    published_eps_tilde: EpsTilde | None = None,
    progress: Callable[[float], None] | None = None,
    cache: Path | None = None,
    identity: str | None = None,
    workers: int | None = None,
    contenders: Sequence[Contender] = CONTENDERS,
    own: str | None = None,
) -> tuple[UtilityRow, ...]:
    """Run every contender ``runs`` times for each k and eps, and return what came of it.

    Parameters
    ----------
    values : (m, d) records in the user's coordinates.
    published_eps_tilde : eps~ of the published calibration, by (eps, k). Where it is None, not
        positive or refused by an error of dpkv's, that contender is skipped and says why.
    progress : called with the share that is done.
    cache : a file of finished runs, which are taken from there the next time. It tells of the data.
    identity : names the records in the cache, opaquely: a keyed fingerprint, never a plain hash.
    workers : processes; by default one a core where that pays.
    own : the contender that was released, over which potentials are shown as well.
    """
    records = as_records(values)
    domain.clip(records[:1])  # refuses a table of another width
    seed = whole_number("seed", seed, at_least=0)
    terms = ContestTerms(domain, as_neighbours(neighbours), non_negative("gamma", gamma), seed)
    if not len(ks) or not len(epsilons):
        raise ParameterError("k and eps", "at least one number each", "none")
    n_runs = whole_number("runs", runs, at_least=1)
    cells = [
        _Cell.of(contender, k, eps, n_runs, published_eps_tilde)
        for eps in dict.fromkeys(plain_eps(eps) for eps in epsilons)
        for k in dict.fromkeys(cluster_count(k, len(records), "k") for k in ks)
        for contender in contenders
    ]
    wanted = _in_turns(cells)
    finished = _Finished(cache, identity, terms, records.shape)
    outcomes = finished.known(wanted)
    waiting = [run for run in wanted if run not in outcomes]
    tell = progress or (lambda _share: None)
    tell(len(outcomes) / len(wanted))
    office = _Office.of(terms, records, contenders)
    n_workers = _worker_count(workers, waiting, records.size)
    with contextlib.closing(_outcomes(office, waiting, n_workers)) as doing:
        for run, outcome in doing:
            outcomes[run] = outcome
            finished.add(run, outcome)
            tell(len(outcomes) / len(wanted))
    return _rows(cells, outcomes, own)


# -- what to run ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Cell:
    """The runs of one contender for one k and eps, or why there are none."""

    contender: Contender
    k: int
    eps: str
    runs: tuple[RivalRun, ...]
    optimum: RivalRun
    skipped: str | None = None

    @classmethod
    def of(
        cls, contender: Contender, k: int, eps: str, runs: int, published: EpsTilde | None
    ) -> _Cell:
        eps_tilde = usable_eps_tilde(published, eps, k) if contender.name == PUBLISHED else None
        best = RivalRun(OPTIMUM.name, k, None, 0)
        if isinstance(eps_tilde, str):
            return cls(contender, k, eps, (), best, f"skipped: {eps_tilde}")
        spent = eps if contender.private else None  # else the runs are the same for every eps
        numbered = (RivalRun(contender.name, k, spent, i, eps_tilde) for i in range(runs))
        return cls(contender, k, eps, tuple(numbered), best)

    def outcomes(self, known: Mapping[RivalRun, RivalOutcome]) -> list[RivalOutcome]:
        return [known[run] for run in self.runs]


def _in_turns(cells: Sequence[_Cell]) -> list[RivalRun]:
    """Return all runs once. Rivals take turns, so that the share done tells the time left."""
    best = [cell.optimum for cell in cells]
    listed = sorted((run for cell in cells for run in cell.runs), key=lambda run: run.number)
    return list(dict.fromkeys([*best, *listed]))


# -- the rows -------------------------------------------------------------------------------------


def _rows(
    cells: Sequence[_Cell], outcomes: Mapping[RivalRun, RivalOutcome], own: str | None
) -> tuple[UtilityRow, ...]:
    found = {(cell.contender.name, cell.k, cell.eps): cell.outcomes(outcomes) for cell in cells}
    rows = []
    for cell in cells:
        names = (CERTIFIED, SEEDING, FLOOR, own or "")
        certified, seeded, floor, released = (
            found.get((name, cell.k, cell.eps), []) for name in names
        )
        best = _potentials([outcomes[cell.optimum], *seeded, *floor]).min(initial=math.inf)
        row = _row(cell, cell.outcomes(outcomes), float(best), _potentials(certified))
        over = {} if own is None else _over_own(cell, outcomes, own, _potentials(released))
        rows.append(row.model_copy(update=over))
    return tuple(rows)


def _row(
    cell: _Cell, outcomes: Sequence[RivalOutcome], best: float, certified: Float64s
) -> UtilityRow:
    sample = _potentials(outcomes)
    ratio_interval = interval(sample, certified)
    if ratio_interval is not None and cell.contender.name == CERTIFIED:
        ratio_interval = (1.0, 1.0)  # a sample over itself, not over an independent one
    return UtilityRow(
        name=cell.contender.name,
        k=cell.k,
        eps=float(cell.eps),
        runs=len(sample),
        potential=float(sample.mean()) if sample.size else None,
        over_optimum=_quotient(sample, best),
        over_optimum_interval=interval(sample, best),
        ratio=_quotient(sample, certified),
        ratio_interval=ratio_interval,
        private=cell.contender.private,
        failure=cell.skipped or _failure(outcomes),
    )


def _over_own(
    cell: _Cell, outcomes: Mapping[RivalRun, RivalOutcome], own: str, released: Float64s
) -> dict[str, Any]:
    """Return a row's ratio to the released mechanism."""
    sample = _potentials(cell.outcomes(outcomes))
    around = (1.0, 1.0) if cell.contender.name == own else interval(sample, released)
    return {"own_ratio": _quotient(sample, released), "own_ratio_interval": around}


def _potentials(outcomes: Sequence[RivalOutcome]) -> Float64s:
    return np.asarray([one.potential for one in outcomes if one.potential is not None], np.float64)


def _failure(outcomes: Sequence[RivalOutcome]) -> str | None:
    reasons = [one.failure for one in outcomes if one.failure is not None]
    if len(reasons) in (0, len(outcomes)):
        return reasons[0] if reasons else None
    return f"{len(reasons)} of {len(outcomes)} runs: {reasons[0]}"


def _quotient(sample: Float64s, over: Float64s | float) -> float | None:
    divisor = np.asarray(over)
    if not sample.size or not divisor.size or not 0.0 < divisor.mean() < math.inf:
        return None
    return float(sample.mean() / divisor.mean())


def interval(sample: Float64s, over: Float64s | float) -> tuple[float, float] | None:
    """Return a 95 % interval for E[sample] / E[over], of independent samples or over a constant.

    Student's t on the difference of the logarithms of the means, with the delta method's variances
    and Welch's degrees of freedom. None where a sample is too small to tell, or ``over`` is 0.
    """
    ratio = _quotient(sample, over)
    parts = [sample] if isinstance(over, float) else [sample, over]
    if ratio is None or min(part.size for part in parts) == 1:
        return None
    if ratio == 0.0:
        return 0.0, 0.0
    variances = [float(part.var(ddof=1) / part.size / part.mean() ** 2) for part in parts]
    total = sum(variances)
    if total == 0.0:
        return ratio, ratio
    shares = [v**2 / (part.size - 1) for v, part in zip(variances, parts, strict=True)]
    reach = float(stdtrit(total**2 / sum(shares), _UPPER)) * math.sqrt(total)
    return ratio * math.exp(-reach), ratio * math.exp(reach)


# -- finished runs, on disk -----------------------------------------------------------------------


class _Finished:
    """Potentials by run, a JSON line each, for their owner alone."""

    def __init__(
        self, path: Path | None, identity: str | None, terms: ContestTerms, shape: tuple[int, ...]
    ) -> None:
        if path is not None and not identity:
            raise ParameterError("identity", "given with a cache", identity, "It names the data.")
        facts = {  # all that a run's potential depends on, but for its own name
            "identity": identity,
            "shape": list(shape),
            "domain": terms.domain.to_dict(),
            "neighbours": terms.neighbours.value,
            "gamma": repr(terms.gamma),
            "seed": terms.seed,
            "versions": sorted({np.__version__, *(rival.version for rival in rivals())}),
        }
        self._path = path
        self._context = digest(canonical(facts))[:32]

    def known(self, wanted: Sequence[RivalRun]) -> dict[RivalRun, RivalOutcome]:
        """Return what the file knows of the runs that are wanted."""
        stored: dict[str, float] = {}
        lines = self._path.read_bytes().split(b"\n") if self._path and self._path.exists() else ()
        for line in lines:
            with contextlib.suppress(ValueError, KeyError, TypeError):  # cut short by a crash
                entry = json.loads(line)
                if math.isfinite(entry["potential"]):
                    stored[entry["run"]] = float(entry["potential"])
        keys = {run: self._key(run) for run in wanted}
        return {run: RivalOutcome(stored[key]) for run, key in keys.items() if key in stored}

    def add(self, run: RivalRun, outcome: RivalOutcome) -> None:
        """Append a run. Failures are not kept: the next call may have more luck."""
        if self._path is None or outcome.potential is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps({"run": self._key(run), "potential": outcome.potential})
        flags = os.O_APPEND | os.O_CREAT | os.O_WRONLY
        with os.fdopen(os.open(self._path, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(f"\n{line}\n")  # a line that was cut short ends here

    def _key(self, run: RivalRun) -> str:
        return f"{self._context}/{run.rival}/{run.k}/{run.eps}/{run.number}/{run.eps_tilde}"


# -- processes ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Office:
    """What a process is told when it starts. The records are in memory that all share."""

    points: Any
    working: Any
    shape: tuple[int, ...]
    terms: ContestTerms
    contenders: tuple[Contender, ...]

    @classmethod
    def of(cls, terms: ContestTerms, records: Floats, contenders: Sequence[Contender]) -> _Office:
        points = _SPAWN.RawArray(ctypes.c_int32, records.size)
        working = _SPAWN.RawArray(ctypes.c_double, records.size)
        office = cls(points, working, records.shape, terms, (OPTIMUM, *contenders))
        office.problem.fill(records)
        return office

    @property
    def problem(self) -> Contest:
        points = np.frombuffer(self.points, np.int32).reshape(self.shape)
        working = np.frombuffer(self.working, np.float64).reshape(self.shape)
        return Contest(points, working, self.terms)

    def worker(self) -> Callable[[RivalRun], RivalOutcome]:
        return partial(attempt, self.problem, {one.name: one for one in self.contenders})


_worker: Callable[[RivalRun], RivalOutcome] | None = None  # in a process that does runs for another


def _start(office: _Office) -> None:
    global _worker  # noqa: PLW0603
    kernels.N_THREADS = 1  # every core has a process already
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _worker = office.worker()


def _end_with_parent() -> None:
    """Leave when the parent is gone, however it went: nobody else would end this process."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(run: RivalRun) -> RivalOutcome:
    assert _worker is not None
    return _worker(run)


def _worker_count(workers: int | None, waiting: Sequence[RivalRun], size: int) -> int:
    if workers is not None:
        return whole_number("workers", workers, at_least=1)
    if size * sum(run.k for run in waiting) < _WORTH_PROCESSES:
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _outcomes(office: _Office, waiting: Sequence[RivalRun], n_workers: int) -> _Outcomes:
    """Yield runs as they are done. After a process died, each rival gets processes of its own."""
    if n_workers == 1 or not waiting:
        work = office.worker()
        yield from ((run, work(run)) for run in waiting)
        return
    left = dict.fromkeys(waiting)
    try:
        with _pool(office, min(n_workers, len(waiting))) as pool:
            with _deaf_to_ctrl_c():
                futures = {pool.submit(_work, run): run for run in waiting}
            for future in as_completed(futures):
                outcome = future.result()
                del left[futures[future]]
                yield futures[future], outcome
        return
    except BrokenProcessPool:
        names = dict.fromkeys(run.rival for run in left)
    for name in names:
        own = [run for run in left if run.rival == name]
        if len(names) == 1:
            yield from ((run, RivalOutcome(None, _DIED)) for run in own)
        else:
            yield from _outcomes(office, own, n_workers)


@contextlib.contextmanager
def _pool(office: _Office, n_workers: int) -> Iterator[ProcessPoolExecutor]:
    """Open processes, and end them at once when they are no longer needed, in whatever way."""
    pool = ProcessPoolExecutor(n_workers, _SPAWN, initializer=_start, initargs=(office,))
    try:
        yield pool
    finally:
        for process in list((pool._processes or {}).values()):
            process.terminate()
        pool.shutdown(cancel_futures=True)


@contextlib.contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """Start processes that ignore Ctrl-C, which a terminal sends to all: the parent ends them."""
    if threading.current_thread() is not threading.main_thread():  # may not change what it does
        yield
        return
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # inherited; here it stays pending
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
