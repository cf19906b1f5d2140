"""The utility comparison: fair, repeatable, resumable, and not to be stopped by a rival.

Golden figures: the budget of diffprivlib is what its own mechanisms are seen to be given.
"""

from __future__ import annotations

import json
import operator
import stat

import numpy as np
import pytest
from scipy import stats
from support.chance import FALSE_ALARM

from dpkv import potential
from dpkv.audits import diffprivlib_kmeans
from dpkv.audits import rivals as field
from dpkv.audits.results import UtilityRow
from dpkv.audits.rivals import CONTENDERS, Contender
from dpkv.audits.utility import compare, interval, rivals
from dpkv.domain import Box, Domain, L1Ball
from dpkv.errors import DomainError, ParameterError, TableError, UsageError
from dpkv.mechanisms import MECHANISMS

BOUNDS = Box((-10.0, -10.0), (10.0, 10.0))
MIDDLES = np.asarray([[-6.0, -6.0], [-6.0, 6.0], [6.0, -6.0], [6.0, 6.0]])
NAMES = [contender.name for contender in CONTENDERS]
OF_TESTS = {name for name, kind in MECHANISMS.items() if not kind.__module__.startswith("dpkv.")}
QUICK = tuple(c for c in CONTENDERS if c.name in ("kvariates", "laplace", "kmeans++"))


def mixture(n_records: int = 2000, spread: float = 0.3) -> np.ndarray:
    rng = np.random.default_rng(7)
    return MIDDLES[np.arange(n_records) % 4] + rng.normal(0.0, spread, (n_records, 2))


def by_name(rows: tuple[UtilityRow, ...]) -> dict[str, UtilityRow]:
    assert len({(row.name, row.k, row.eps) for row in rows}) == len(rows)
    return {row.name: row for row in rows}


def outside(_problem: field.Contest, run: field.RivalRun, _seed: object) -> np.ndarray:
    """A rival that answers in the user's coordinates where working ones are asked for."""
    return MIDDLES[: run.k].copy()


def quoting(problem: field.Contest, _run: field.RivalRun, _seed: object) -> np.ndarray:
    """A rival whose error quotes a record."""
    raise ValueError(f"cannot use {problem.working[0]!r}")


# -- the figures ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def easy() -> dict[str, UtilityRow]:
    """Four well separated clusters at a generous eps."""
    rows = compare(
        mixture(), BOUNDS, ks=[4], epsilons=["4"], runs=12, published_eps_tilde={(4.0, 4): 20.0}
    )
    return by_name(rows)


def test_every_contender_has_a_row_in_order(easy):
    assert list(easy) == NAMES
    assert [rival.name for rival in rivals()] == NAMES
    for row in easy.values():
        assert (row.k, row.eps, row.runs, row.failure) == (4, 4.0, 12, None)
        low, high = row.over_optimum_interval
        assert low <= row.over_optimum <= high
        low, high = row.ratio_interval
        assert low <= row.ratio <= high
    assert [name for name, row in easy.items() if not row.private] == ["kmeans++", "kmeans++-lloyd"]


def sane(rows: dict[str, UtilityRow]) -> bool:
    """Whether rivals are in the order that well separated clusters and a generous eps must give.

    Seeded, so that it either always holds or never does.
    """
    floor = min(row.potential for row in rows.values() if not row.private)
    return (
        all(row.potential >= floor for row in rows.values())
        and rows["lloyd"].over_optimum_interval[1] < 2.0
        and 2.0 * rows["lloyd"].potential < rows["laplace"].potential
        and rows["kvariates"].potential < rows["laplace"].potential
    )


def test_an_easy_mixture_orders_the_rivals(easy):
    assert sane(easy)
    assert easy["kmeans++-lloyd"].potential <= easy["kmeans++"].potential


def test_a_rival_without_its_scale_is_noticed(easy):
    """Planted fault: centers in half the units stay inside the domain, and spoil the order."""

    def shrunk(
        problem: field.Contest, run: field.RivalRun, seed: np.random.SeedSequence
    ) -> np.ndarray:
        return 0.5 * field._run_by_name(problem, run, seed)

    broken = Contender("lloyd", "wrong units", shrunk)
    rows = by_name(
        compare(mixture(), BOUNDS, ks=[4], epsilons=[4], runs=4, contenders=[broken], workers=1)
    )
    assert not sane({**easy, **rows})


def test_centers_outside_the_domain_are_refused():
    rows = compare(
        mixture(100),
        BOUNDS,
        ks=[4],
        epsilons=[1],
        runs=3,
        contenders=[Contender("outside", "", outside), *QUICK],
    )
    assert rows[0].failure == "it returned centres outside the domain: check their units."
    assert (rows[0].runs, rows[0].potential, rows[0].ratio) == (0, None, None)
    assert all(row.failure is None and row.runs == 3 for row in rows[1:])


def test_ratio_with_itself_is_one(easy):
    certified = easy["kvariates"]
    assert certified.ratio == 1.0
    assert certified.ratio_interval == (1.0, 1.0)
    laplace = easy["laplace"]
    assert laplace.ratio == pytest.approx(laplace.potential / certified.potential)


def test_nothing_is_below_the_best_known_potential(easy):
    best = {row.potential / row.over_optimum for row in easy.values()}
    assert max(best) == pytest.approx(min(best))
    assert min(row.over_optimum for row in easy.values()) >= 1.0 - 1e-12
    # In working coordinates a unit is 20 of the user's: the mixture's own centers are no better.
    assert min(best) <= potential(mixture(), MIDDLES) / 400.0 * (1 + 1e-3)


def test_one_run_has_no_interval():
    rows = compare(mixture(50), BOUNDS, ks=[2], epsilons=[1], runs=1, contenders=QUICK)
    assert all(row.runs == 1 and row.over_optimum_interval is None for row in rows)


def test_records_at_one_point_have_no_ratio():
    rows = compare(np.zeros((20, 2)), BOUNDS, ks=[2], epsilons=[1], runs=2, contenders=CONTENDERS)
    floor = by_name(rows)["kmeans++-lloyd"]
    assert (floor.potential, floor.over_optimum) == (0.0, None)
    assert floor.ratio == 0.0


def test_l1_ball_and_flat_column_and_single_point():
    rng = np.random.default_rng(0)
    flat = Box((-1.0, 5.0), (1.0, 5.0))
    point = Box((2.0, 5.0), (2.0, 5.0))
    for domain in (L1Ball((0.0, 0.0), 1.0), flat, point, Box((0.0, 0.0), (1e-7, 2e-7), False)):
        rows = compare(
            domain.middle + 1e-8 * rng.normal(size=(60, 2)),
            domain,
            ks=[2],
            epsilons=[1],
            runs=2,
            published_eps_tilde=lambda _eps, _k: 2.0,
        )
        assert [row.failure for row in rows] == [None] * len(CONTENDERS)


# -- intervals ------------------------------------------------------------------------------------


def covered(scale: float, trials: int = 3000) -> int:
    """Count intervals of gamma samples that hold the true ratio, their reach times ``scale``."""
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(trials):
        sample, over = rng.gamma(4.0, 2.0, 30), rng.gamma(2.0, 1.0, 30)
        low, high = interval(sample, over)
        middle = np.sqrt(low * high)
        low, high = middle * (low / middle) ** scale, middle * (high / middle) ** scale
        hits += low <= 4.0 <= high
    return hits


def plausible(hits: int, trials: int = 3000) -> bool:
    """Whether so many hits are possible at a coverage between 93 % and 97 %."""
    low = stats.binom.ppf(FALSE_ALARM / 2, trials, 0.93)
    high = stats.binom.isf(FALSE_ALARM / 2, trials, 0.97)
    return bool(low <= hits <= high)


def test_intervals_hold_the_true_ratio():
    assert plausible(covered(1.0))


def test_intervals_half_as_long_are_noticed():
    assert not plausible(covered(0.5))


def test_interval_of_a_mean_and_its_edges():
    sample, one = np.asarray([1.0, 2.0, 3.0]), 1.0
    low, high = interval(sample, one)
    # t(0.975; 2) = 4.302653 and the standard error of log(mean) is (1/sqrt(3))/2
    assert np.log(high / 2.0) == pytest.approx(4.302653 / np.sqrt(3) / 2, rel=1e-6)
    assert low * high == pytest.approx(4.0)
    assert interval(sample[:1], one) is None
    assert interval(sample, np.empty(0)) is None
    assert interval(sample, sample[:1]) is None
    assert interval(sample, np.inf) is None
    assert interval(sample, np.zeros(3)) is None
    assert interval(np.zeros(3), one) == (0.0, 0.0)
    assert interval(np.full(3, 2.0), one) == (2.0, 2.0)


# -- determinism, processes, cache ----------------------------------------------------------------


@pytest.mark.processes
def test_workers_and_order_do_not_matter():
    known = [one for one in CONTENDERS if one.name not in OF_TESTS]  # to other processes
    given = {"ks": [2, 3], "epsilons": ["1", 0.5], "runs": 3, "seed": 5, "contenders": known}
    given["published_eps_tilde"] = lambda _eps, k: 2.0 if k == 2 else None
    shares: list[float] = []
    alone = compare(mixture(300), BOUNDS, workers=1, **given)
    together = compare(mixture(300), BOUNDS, workers=2, progress=shares.append, **given)
    assert alone == together
    assert shares == sorted(shares)
    assert shares[0] == 0.0 and shares[-1] == 1.0
    swapped = compare(mixture(300), BOUNDS, **{**given, "ks": [3], "epsilons": [0.5, "1.0"]})
    assert set(swapped) <= set(alone)
    other = compare(mixture(300), BOUNDS, **{**given, "seed": 6})
    assert not {row.potential for row in other} & {row.potential for row in alone} - {None}


FATAL = """
import os
from dpkv import kernels
from dpkv.errors import UsageError
def die(problem, run, seed):
    os._exit(9)
def threads(problem, run, seed):
    raise UsageError(f"threads: {kernels.N_THREADS}")
"""


class StopError(Exception):
    pass


def test_interrupted_and_resumed_is_the_same(tmp_path):
    cache = tmp_path / "new" / "runs.jsonl"
    given = {"ks": [3], "epsilons": [1], "runs": 6, "contenders": QUICK, "workers": 1}
    whole = compare(mixture(300), BOUNDS, **given)

    def stop(share: float) -> None:
        if share > 0.5:
            raise StopError

    with pytest.raises(StopError):
        compare(mixture(300), BOUNDS, cache=cache, identity="a", progress=stop, **given)
    assert stat.S_IMODE(cache.stat().st_mode) == 0o600
    with cache.open("a") as file:
        file.write('{"run": "cut sho')
    shares: list[float] = []
    resumed = compare(
        mixture(300), BOUNDS, cache=cache, identity="a", progress=shares.append, **given
    )
    assert resumed == whole
    assert 0.5 < shares[0] < 1.0
    again: list[float] = []
    assert whole == compare(
        mixture(300), BOUNDS, cache=cache, identity="a", progress=again.append, **given
    )
    assert again == [1.0]


def test_the_cache_is_really_used_and_only_for_the_same_question(tmp_path):
    cache = tmp_path / "runs.jsonl"
    given = {"ks": [3], "epsilons": [1], "runs": 2, "contenders": QUICK, "workers": 1}
    given |= {"cache": cache, "identity": "a"}
    before = compare(mixture(300), BOUNDS, **given)
    entries = [json.loads(line) for line in cache.read_text().split("\n") if line]
    for entry in entries:
        entry["potential"] *= 2.0
    doubled = "".join(
        f"{json.dumps(entry)}\n" for entry in [*entries, {"run": []}, 3, {"run": "x"}]
    )
    cache.write_text(doubled + '{"run": "nan", "potential": NaN}')
    after = compare(mixture(300), BOUNDS, **given)
    assert [row.potential for row in after] == [2.0 * row.potential for row in before]
    changes = {"identity": "b", "seed": 1, "gamma": 0.2, "neighbours": "add-remove"}
    for name, value in changes.items():
        rows = compare(mixture(300), BOUNDS, **{**given, name: value})
        assert rows[-1].potential not in {row.potential for row in after}, name
    more = compare(mixture(300), BOUNDS, **{**given, "runs": 4})
    assert all(row.runs == 4 for row in more)
    with pytest.raises(ParameterError, match="identity"):
        compare(mixture(300), BOUNDS, **{**given, "identity": ""})


@pytest.mark.processes
def test_an_interrupt_leaves_no_process_behind():
    def stop(share: float) -> None:
        if share > 0.2:
            raise KeyboardInterrupt

    import multiprocessing

    before = set(multiprocessing.active_children())
    with pytest.raises(KeyboardInterrupt):
        compare(
            mixture(200),
            BOUNDS,
            ks=[2],
            epsilons=[1],
            runs=5,
            contenders=QUICK,
            workers=2,
            progress=stop,
        )
    assert not set(multiprocessing.active_children()) - before


@pytest.mark.processes
def test_a_rival_that_ends_its_process_is_the_only_one_that_fails(tmp_path, monkeypatch):
    (tmp_path / "fatal_rival.py").write_text(FATAL)
    monkeypatch.syspath_prepend(tmp_path)
    import fatal_rival

    own = [Contender("fatal", "", fatal_rival.die), Contender("threads", "", fatal_rival.threads)]
    given = {"ks": [2], "epsilons": [1], "runs": 2}
    rows = compare(mixture(100), BOUNDS, workers=2, contenders=[*own, QUICK[0]], **given)
    assert "died" in rows[0].failure
    assert rows[1].failure == "threads: 1"  # every core has a process already
    assert rows[2:] == compare(mixture(100), BOUNDS, workers=1, contenders=QUICK[:1], **given)


# -- rivals that fail -----------------------------------------------------------------------------


def test_failures_say_why_and_never_quote_a_record():
    contenders = [
        Contender("quoting", "", quoting),
        Contender("missing", "", operator.methodcaller("no_such_method")),
        Contender("empty", "", lambda *_: np.empty((0, 2))),
        Contender("nan", "", lambda _p, run, _s: np.full((run.k, 2), np.nan)),
        *QUICK,
    ]
    rows = compare(
        mixture(50), BOUNDS, ks=[2], epsilons=[1], runs=2, contenders=contenders, workers=1
    )
    assert rows[0].failure == f"ValueError in {__name__}.quoting"
    assert rows[1].failure.startswith("TypeError in ") or "AttributeError" in rows[1].failure
    assert "shape (0, 2)" in rows[2].failure
    assert "not finite" in rows[3].failure
    assert all(row.failure is None for row in rows[4:])


def test_some_runs_may_fail():
    def sometimes(problem: field.Contest, run: field.RivalRun, _seed: object) -> np.ndarray:
        if run.number == 1:
            raise UsageError("no luck.")
        return problem.working[: run.k]

    rows = compare(
        mixture(50),
        BOUNDS,
        ks=[2],
        epsilons=[1],
        runs=4,
        contenders=[Contender("sometimes", "", sometimes)],
        workers=1,
    )
    assert (rows[0].runs, rows[0].failure) == (3, "1 of 4 runs: no luck.")
    assert rows[0].potential > 0
    assert rows[0].ratio is None  # certified k-variates++ did not take part


def test_published_is_skipped_with_a_reason():
    def refuse(_eps: str, _k: int) -> float:
        raise UsageError("no finite spread.")

    reasons = {
        "undefined": lambda _eps, _k: None,
        "= -3 is not positive": {("1.0", 2): -3.0},
        "= inf is not positive": {(1, 2): np.inf},
        "no finite spread.": refuse,
        "calculated": None,
        "was calculated": {(2, 2): 1.0},
    }
    for reason, source in reasons.items():
        rows = compare(
            mixture(50), BOUNDS, ks=[2], epsilons=[1], runs=1, published_eps_tilde=source
        )
        published = by_name(rows)["kvariates-published"]
        assert published.failure.startswith("skipped: ") and reason in published.failure
        assert (published.runs, published.potential) == (0, None)


def test_add_remove_leaves_out_what_has_no_proof():
    rows = by_name(
        compare(
            mixture(200),
            BOUNDS,
            ks=[2],
            epsilons=[1],
            runs=2,
            neighbours="add-remove",
            published_eps_tilde={(1, 2): 3.0},
        )
    )
    failed = {name for name, row in rows.items() if row.failure}
    papers = {"kvariates", "kvariates-published", "kvariates-windows"}
    assert failed == papers | {"gupt", "sample-aggregate"}
    assert all(row.ratio is None for row in rows.values())
    assert all(row.over_optimum for name, row in rows.items() if name not in failed)


def test_diffprivlib_that_cannot_be_imported(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "diffprivlib.models", None)
    monkeypatch.setitem(sys.modules, "diffprivlib", None)
    rows = compare(mixture(50), BOUNDS, ks=[2], epsilons=[1], runs=1, workers=1)
    failed = by_name(rows)["diffprivlib"]
    assert "diffprivlib" in failed.failure and "cannot be imported" in failed.failure
    assert by_name(rows)["lloyd"].failure is None


# -- diffprivlib ----------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 10, 15])
def test_what_diffprivlib_spends(d, monkeypatch):
    """Its mechanisms are watched: the most that the clusters of an iteration add up to."""
    import diffprivlib.models.k_means as module

    spent = {"count": [], "sum": []}
    for name, kind in (("GeometricFolded", "count"), ("LaplaceBoundedDomain", "sum")):
        original = getattr(module, name)

        def watched(*, _original=original, _kind=kind, **given):
            spent[_kind].append(given["epsilon"])
            return _original(**given)

        monkeypatch.setattr(module, name, watched)
    rng = np.random.default_rng(0)
    model = module.KMeans(1, epsilon=1.0, bounds=(-1.0, 1.0), random_state=0)
    model.fit(rng.uniform(-1, 1, (500, d)))
    total = sum(spent["count"]) + sum(spent["sum"])
    assert total == pytest.approx(diffprivlib_kmeans.compute_overspending(d))
    assert len(spent["sum"]) == d * len(spent["count"])


def test_diffprivlib_is_given_half_of_eps_for_replacements(monkeypatch):
    given = {}

    def watched(records, bounds, k, eps, _seed):
        given[len(given)] = (eps, bounds, float(np.abs(records).max()))
        return np.zeros((k, records.shape[1]))

    monkeypatch.setattr(diffprivlib_kmeans, "fit", watched)
    only = [contender for contender in CONTENDERS if contender.name == "diffprivlib"]
    for neighbours in ("replace-one", "add-remove"):
        rows = compare(
            mixture(50),
            BOUNDS,
            ks=[2],
            epsilons=["0.3"],
            runs=1,
            neighbours=neighbours,
            contenders=only,
            workers=1,
        )
        assert rows[0].failure is None
    assert (given[0][0], given[1][0]) == (0.15, 0.3)
    np.testing.assert_array_equal(given[0][1], [[-0.5, -0.5], [0.5, 0.5]])
    assert given[0][2] <= 0.5


def test_notes_tell_what_is_known():
    notes = {rival.name: rival for rival in rivals(2)}
    assert "times 0.91 at d = 2;" in notes["diffprivlib"].note
    assert "eps/2" in notes["diffprivlib"].note
    assert notes["diffprivlib"].version == "diffprivlib 0.6.6"
    assert "all of eps" in notes["gupt"].note
    assert "simulation only" in notes["sample-aggregate"].note
    unhalved = {rival.name: rival.note for rival in rivals(2, "add-remove")}
    assert "eps/2" not in unhalved["diffprivlib"]
    whatever = {rival.name: rival.note for rival in rivals()}
    assert "1.21 at d = 10, 1.38 at d = 15" in whatever["diffprivlib"]


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"ks": []}, ParameterError),
        ({"ks": [0]}, ParameterError),
        ({"ks": [51]}, ParameterError),
        ({"epsilons": []}, ParameterError),
        ({"epsilons": [0]}, ParameterError),
        ({"runs": 0}, ParameterError),
        ({"workers": 0}, ParameterError),
        ({"neighbours": "friends"}, ParameterError),
        ({"seed": -1}, ParameterError),
        ({"domain": Domain.bounded((-1, 1), 3)}, DomainError),
        ({"values": np.full((5, 2), np.nan)}, TableError),
    ],
)
def test_senseless_requests_are_refused(change, error):
    given = {"values": mixture(50), "domain": BOUNDS, "ks": [2], "epsilons": [1], "runs": 1}
    given |= {"contenders": QUICK, **change}
    with pytest.raises(error):
        compare(given.pop("values"), given.pop("domain"), **given)


def test_large_tables_are_searched_on_a_sample(monkeypatch):
    data = mixture(3000)
    best = []
    for size in (20_000, 500):
        monkeypatch.setattr(field, "OPTIMUM_SAMPLE", size)
        rows = compare(data, BOUNDS, ks=[4], epsilons=[1], runs=1, contenders=QUICK, workers=1)
        best.append(rows[0].potential / rows[0].over_optimum)
    assert best[1] == pytest.approx(best[0], rel=1e-6)
