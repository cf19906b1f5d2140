"""The studies: specs, resuming, and every study in a very small form."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpkv.cli.output import save_figure
from dpkv.domain import Box
from dpkv.errors import ParameterError, UsageError
from dpkv.paper.studies import NAMES, dk_means, heat_maps, load_spec, published_table, study_of
from dpkv.paper.studies import sublinear_noise as sublinear
from dpkv.paper.studies import total_jensen as jensen
from dpkv.paper.studies.runner import CaseLog, csv_of, page_of, result_of, rng_of, run_cases, sum_up
from dpkv.paper.studies.study import (
    Case,
    Finished,
    Rows,
    Study,
    Summary,
    digest_of,
    parse_spec,
)

ROOT = Path(__file__).resolve().parents[2]

SMALL: dict[str, dict[str, Any]] = {
    "sublinear-noise": {"shapes": ((3, 2),), "sizes": (300, 600, 900), "n_est": 30}
    | {"constant_from": 600, "largest_cluster": 100},
    "dk-means": {"tables": ("hyperrectangles/1",), "rows": 600, "columns": 5}
    | {"largest_cluster": 60, "moves": (0, 50), "ks": (2, 5), "runs": 3, "rival_runs": 3},
    "published-table": {"tables": ("clinic_patients",), "control_ks": (2, 3), "n_est": 20}
    | {"runs": 2, "bounded": False},
    "heat-maps": {"dimensions": (2,), "sizes": (500, 2000), "ks": (2, 3), "n_est": 20}
    | {"searched": 200, "runs": 2},
    "total-jensen": {"rows": 60, "alphas": (0.5,), "ks": (2, 3), "runs": 4, "restarts": 1},
}


def small(name: str) -> tuple[Study, Any]:
    study = study_of(name)
    return study, replace(load_spec(name).settings(study, "quick"), **SMALL[name])


def summary_of(study: Study, settings: Any, finished: Finished) -> Summary:
    return study.summarise(settings, study.tabulate(settings, finished))


def read_rows(text: str) -> Rows:
    """Return what ``csv_of`` wrote."""
    return [
        {name: read_cell(cell) for name, cell in row.items()}
        for row in csv.DictReader(io.StringIO(text))
    ]


def read_cell(cell: str) -> Any:
    known = {"": None, "True": True, "False": False}
    if cell in known:
        return known[cell]
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(cell)
    return cell


# -- specs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_spec_is_complete_and_quick_does_less(name: str) -> None:
    study, spec = study_of(name), load_spec(name)
    full, quick = (spec.settings(study, size) for size in ("full", "quick"))
    assert spec.title and spec.question and spec.paper and spec.differs and spec.findings
    assert spec.home in ("calibrate", "audits")
    assert sum(c.weight for c in study.cases(quick)) <= sum(c.weight for c in study.cases(full))
    assert quick != full
    names = [case.name for case in study.cases(full)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", NAMES)
def test_the_committed_result_is_of_the_full_spec(name: str) -> None:
    study, spec = study_of(name), load_spec(name)
    folder, settings = ROOT / spec.home / name, spec.settings(study, "full")
    text = (folder / "result.csv").read_text(encoding="utf-8")
    rows = read_rows(text)
    assert rows and text == csv_of(rows)
    found = study.tell(sum_up(study, settings, rows))
    page = page_of(spec, "full", digest_of(name, settings), found)
    assert (folder / "findings.md").read_text(encoding="utf-8") == page
    assert "<svg" in (folder / "figure.svg").read_text(encoding="utf-8")


def test_an_unknown_study_is_refused_with_those_there_are() -> None:
    with pytest.raises(ParameterError, match="dk-means"):
        study_of("nonsense")


def test_a_spec_with_an_unknown_setting_is_refused() -> None:
    text = load_spec("heat-maps").text.replace("[quick]", "[quick]\nspeed = 3")
    with pytest.raises(UsageError, match="unknown"):
        parse_spec("heat-maps", text).settings(study_of("heat-maps"), "quick")


# -- running and resuming -------------------------------------------------------------------------


@dataclass(frozen=True)
class Numbers:
    seed: int
    upto: int


def counting(log: list[str], fail_at: str | None = None) -> Study:
    """Return a study that writes down which cases it runs."""

    def run(settings: Numbers, case: Case) -> dict[str, Any]:
        if case.name == fail_at:
            raise KeyboardInterrupt
        log.append(case.name)
        return {"value": float(rng_of(settings.seed, case.name).random())}

    return Study(
        "counting",
        Numbers,
        cases=lambda settings: [Case(str(i)) for i in range(settings.upto)],
        run=run,
        tabulate=lambda _settings, found: list(found.values()),
        summarise=lambda _settings, rows: {"rows": rows},
        draw=None,  # type: ignore[arg-type]
        tell=lambda summary: [f"{len(summary['rows'])} rows"],
    )


def test_finished_cases_are_not_run_again_and_the_result_is_the_same(tmp_path: Path) -> None:
    settings = Numbers(1, 6)
    whole: list[str] = []
    (tmp_path / "a").mkdir()
    log = CaseLog(tmp_path / "a", counting(whole), settings)
    log.open(resume=False)
    expected = run_cases(counting(whole), settings, log)

    (tmp_path / "b").mkdir()
    first: list[str] = []
    broken = counting(first, fail_at="4")
    log = CaseLog(tmp_path / "b", broken, settings)
    log.open(resume=False)
    with pytest.raises(KeyboardInterrupt):
        run_cases(broken, settings, log)
    assert first == ["0", "1", "2", "3"]

    second: list[str] = []
    log = CaseLog(tmp_path / "b", counting(second), settings)
    log.open(resume=True)
    assert run_cases(counting(second), settings, log) == expected
    assert second == ["4", "5"]


def test_a_line_cut_short_is_run_again(tmp_path: Path) -> None:
    settings, ran = Numbers(1, 3), []
    log = CaseLog(tmp_path, counting([]), settings)
    log.open(resume=False)
    run_cases(counting([]), settings, log)
    path = tmp_path / "cases.jsonl"
    path.write_text(path.read_text(encoding="utf-8")[:-12], encoding="utf-8")
    for again in (["2"], []):
        log = CaseLog(tmp_path, counting(ran), settings)
        log.open(resume=True)
        ran.clear()
        assert len(run_cases(counting(ran), settings, log)) == 3
        assert ran == again


@pytest.mark.parametrize("other", [Numbers(2, 3), Numbers(1, 4)])
def test_cases_of_other_settings_are_refused(tmp_path: Path, other: Numbers) -> None:
    CaseLog(tmp_path, counting([]), Numbers(1, 3)).open(resume=False)
    with pytest.raises(UsageError, match="other settings"):
        CaseLog(tmp_path, counting([]), other).open(resume=True)


def test_the_time_left_follows_the_weights(tmp_path: Path) -> None:
    told: list[tuple[str, float]] = []
    times = iter(range(0, 100_000, 60))
    settings = Numbers(1, 4)
    log = CaseLog(tmp_path, counting([]), settings)
    log.open(resume=False)
    study = counting([])
    run_cases(study, settings, log, lambda *said: told.append(said), clock=lambda: next(times))
    assert [share for _, share in told] == [0.0, 0.25, 0.5, 0.75]
    assert "left" not in told[0][0]
    assert told[1][0].endswith("about 3 min left")  # a minute for one, three to go


def test_randomness_belongs_to_the_name() -> None:
    assert rng_of(1, "a", 2).random() == rng_of(1, "a", 2).random()
    assert rng_of(1, "a", 2).random() != rng_of(1, "a", 3).random()
    assert rng_of(1, "a").random() != rng_of(2, "a").random()


def test_the_csv_has_every_column_and_empty_cells() -> None:
    text = csv_of([{"a": 1, "b": None}, {"a": 0.123456789, "c": "x, y"}])
    rows = list(csv.DictReader(io.StringIO(text)))
    assert rows == [{"a": "1", "b": "", "c": ""}, {"a": "0.123457", "b": "", "c": "x, y"}]


# -- every study, very small ----------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_study_runs_draws_and_tells(name: str, tmp_path: Path) -> None:
    study, settings = small(name)
    log = CaseLog(tmp_path, study, settings)
    log.open(resume=False)
    finished = run_cases(study, settings, log)
    result = result_of(load_spec(name), study, "quick", settings, finished)
    again = json.loads(json.dumps(result, allow_nan=False))
    assert again["found"] == study.tell(again) and all(again["found"])
    assert csv_of(again["rows"]).count("\n") == len(again["rows"]) + 1
    kept = sum_up(study, settings, read_rows(csv_of(result["rows"])))
    assert study.tell(kept) == result["found"], "all that is told follows from the CSV"
    drawn = []
    for number in (1, 2):
        save_figure(study.draw(again), tmp_path / f"{number}.svg")
        drawn.append((tmp_path / f"{number}.svg").read_bytes())
    assert drawn[0] == drawn[1]
    log = CaseLog(tmp_path, study, settings)
    log.open(resume=True)
    assert run_cases(study, settings, log) == finished


def test_tables_that_are_not_given_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPKV_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    for name, table in (("dk-means", "mopsi_finland/forgy"), ("published-table", "lifesci")):
        study, settings = small(name)
        settings = replace(settings, tables=(table, *settings.tables))
        finished = {case.name: study.run(settings, case) for case in study.cases(settings)}
        summary = summary_of(study, settings, finished)
        assert summary["missing"] == [table]
        assert "left out" in study.tell(summary)[-1]
        assert study.draw(summary) is not None


def test_a_real_table_is_divided_among_peers_around_its_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    points = np.random.default_rng(0).normal(size=(400, 2))
    monkeypatch.setattr(dk_means, "load_paper_table", lambda _name: points)
    settings = replace(small("dk-means")[1], peers=7, seed=99)
    for start in ("kmeans++", "forgy"):
        held = dk_means.held_by_peers(settings, f"europediff/{start}")
        assert held is not None and held.points is points
        assert sorted(set(held.labels)) == list(range(7))


# -- what the studies must find -------------------------------------------------------------------


@pytest.mark.statistical
def test_protected_dk_means_stays_close_to_its_rivals_for_small_p() -> None:
    """The shape of Figure 4: within a few per cent of both rivals while few records have moved.

    The paper also has it below k-means|| at k = 5. The full run does not find that: on its five
    synthetic tables it is 0.1 to 1.3 % above, so nothing of the kind is asserted here.
    """
    settings = replace(
        small("dk-means")[1], rows=6000, columns=50, largest_cluster=300, moves=(0, 5, 50)
    )
    settings = replace(settings, ks=(5, 10), runs=40, rival_runs=60)
    study = study_of("dk-means")
    finished = {case.name: study.run(settings, case) for case in study.cases(settings)}
    rows = study.tabulate(settings, finished)
    for row in rows:
        if row["p"] <= 5:
            assert abs(row["rho_kmeans++"]) < 4.0, row
            assert abs(row["rho_kmeans-parallel"]) < 4.0, row
    assert max(row["spread_ratio"] for row in rows) > 15.0


@pytest.mark.statistical
def test_centers_of_a_single_peer_would_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: all centers from the first peer."""

    def from_one_peer(peers: Any, k: int, *, rng: np.random.Generator, run: str) -> Any:
        own = dk_means.Peers(dk_means.LocalTransport([peers._transport._nodes[0]]))
        return original(own, k, rng=rng, run=run)

    original = dk_means.dk_protected
    monkeypatch.setattr(dk_means, "dk_protected", from_one_peer)
    settings = replace(small("dk-means")[1], rows=3000, columns=50, moves=(0,), ks=(10,))
    settings = replace(settings, largest_cluster=200, runs=10, rival_runs=10)
    study = study_of("dk-means")
    finished = {case.name: study.run(settings, case) for case in study.cases(settings)}
    (row,) = study.tabulate(settings, finished)
    assert row["rho_kmeans++"] > 20.0


def test_the_fits_find_what_was_put_in() -> None:
    """eps~ of a spread 6 / m and a constant monotonicity is a + log m, nearly."""
    settings = replace(small("sublinear-noise")[1], epsilons=(1.0,), shapes=((3, 2),))
    settings = replace(settings, sizes=(10_000, 20_000, 40_000), constant_from=10_000)
    finished = {
        str(m): {"d": 3, "k": 2, "m": m, "spread": 6.0 / m, "monotonicity": 0.5}
        for m in settings.sizes
    }
    (fit,) = summary_of(sublinear.STUDY, settings, finished)["fits"]
    assert fit["spread_times_m"]["a"] == pytest.approx(6.0)
    assert fit["spread_times_m"]["slope_of_logarithms"] == pytest.approx(-1.0)
    assert fit["monotonicity"] == 0.5
    (line,) = fit["eps_tilde"]
    assert line["large"]["b"] == pytest.approx(1.0, abs=1e-3)
    expected = np.log((np.e - 1.0 - 6.0 / 40_000) * 40_000 / 6.0 / 1.5)
    assert line["published"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("printed", "low", "high", "expected"),
    [
        (19.0, 1.4, 2.8, "no guarantee over all tables"),
        (8.5, 7.4, 8.7, "the formula gives it"),
        (5.0, 7.4, 8.7, "below"),
        (10.0, 1.0, 2.4, "above what"),
        (3.0, None, None, "undefined"),
        (None, 1.0, 2.0, "not in the paper"),
    ],
)
def test_the_reason_of_a_printed_figure(printed, low, high, expected: str) -> None:
    row = {"eps_tilde_printed": printed, "eps_tilde_ceiling": 12.6}
    row |= {"eps_tilde_diameter": low, "eps_tilde_radius": high}
    assert expected in published_table.reason(row)


def test_the_loss_of_round_one_is_the_exact_one_at_a_corner() -> None:
    values = np.array([[0.0], [0.0], [1.0]])
    domain = Box((0.0,), (1.0,), scaled=False)
    # a record at 0 is replaced by one at 1, and 1 is released
    weights = np.exp(-2.0 * np.array([1.0, 1.0, 0.0]))
    expected = np.log((weights.sum() - weights.min() + 1.0) / weights.sum())
    assert published_table.first_round_loss(values, domain, 2.0) == pytest.approx(expected)
    ceiling = np.log1p((np.exp(2.0) - 1.0) / 3.0)
    assert expected < ceiling
    alone = published_table.first_round_loss(np.zeros((3, 1)), domain, 2.0)
    assert alone == pytest.approx(ceiling)  # the table on which the ceiling is reached


def test_the_printed_tables_have_the_averages_of_the_papers_body() -> None:
    """Table 2 (averages) is the average of Table 10 (results); a slip of the pen would show."""
    averages = {"LifeSci": (4.5, 163.0, 0.7), "Image": (7.9, 188.5, 2.9)}
    averages["EuropeDiff"] = (13.0, 2857.1, 40.4)
    for name, (eps_tilde, forgy, gupt) in averages.items():
        printed = published_table.PRINTED_RATIOS[name]
        values = list(published_table.PRINTED_EPS_TILDE[name].values())
        assert np.mean(values) == pytest.approx(eps_tilde, abs=0.06)
        assert np.mean([pair[0] for pair in printed.values()]) == pytest.approx(forgy, abs=3.0)
        assert np.mean([pair[1] for pair in printed.values()]) == pytest.approx(gupt, abs=0.06)


def test_white_cells_are_those_without_an_advantage() -> None:
    settings = small("heat-maps")[1]
    for published, white in ((None, True), (0.5, True), (3.0, False)):
        phi = {name: {"free": 2.0, "clamped": 1.0} for name in ("certified", "forgy-dp", "gupt")}
        found = {"d": 2, "m": 500, "k": 2, "published": published, "phi": phi}
        (row,) = heat_maps.tabulate(settings, {"only": found})
        assert row["published_adds_less_noise"] is not white
        assert row["forgy-dp over certified"] == 1.0


@pytest.mark.parametrize("name", jensen.GENERATORS)
def test_the_numerical_minimiser_is_no_worse_than_its_start(name: str) -> None:
    distortion = jensen.TotalJensen(jensen.GENERATORS[name], 0.5)
    rng = np.random.default_rng(3)
    cluster = np.exp(rng.normal(size=(40, 2)))
    start = cluster[0]
    found = jensen.minimiser(cluster, start, distortion)
    reached = distortion.to_center(cluster, found).sum()
    assert reached <= distortion.to_center(cluster, start).sum()
    nearby = found * np.exp(rng.normal(scale=0.05, size=(50, 2)))
    assert all(reached <= distortion.to_center(cluster, one).sum() * 1.0001 for one in nearby)
