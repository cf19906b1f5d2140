"""calibrate: what a record holds, on small data and on the paper's."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from support.bruteforce import least_remaining, monotonicity, squared_distances
from support.data import paper_data

from dpkv import kernels
from dpkv.calibration import (
    Calibration,
    calibrate,
    certify,
    uniform_pick_ceiling,
)
from dpkv.calibration.record import LEAK
from dpkv.domain import Box, L1Ball, data_domain
from dpkv.errors import DpkvError, ParameterError, UsageError
from dpkv.paper import randomized_estimates

POINTS = np.random.default_rng(0).random((12, 2))
MANY = np.random.default_rng(1).random((900, 2))
UNIT = Box((0.0, 0.0), (1.0, 1.0))
BETTER = "Laplace mechanism is better here"


def rows_of(record: Calibration) -> dict:
    """Everything but when it was made."""
    return record.model_dump(exclude={"created"})


# -- the record ------------------------------------------------------------------------------------


def test_the_header_of_a_record():
    record = calibrate(POINTS, eps=0.5, k=[3, 2], domain=UNIT, rng=0)
    assert (record.eps, record.n_records, record.n_features) == (0.5, 12, 2)
    assert record.neighbours == "replace-one"
    assert record.visibility == "curator-only"
    assert [row.k for row in record.rows] == [2, 3]
    assert record.row(3) is record.rows[1]
    assert record.row(4) is None
    assert record.domain == UNIT.to_dict()
    assert record.coordinates == "unit cube"
    assert record.eps_tilde_ceiling == pytest.approx(math.log(1 + 12 * math.expm1(0.5)))
    assert record.notes == ()


def test_a_row_on_a_small_instance_against_brute_force():
    record = calibrate(POINTS[:7], eps=1.0, k=3, domain=UNIT, rng=0)
    row = record.row(3)
    diameter = math.sqrt(2)
    assert row.spread == pytest.approx(diameter**2 / least_remaining(POINTS[:7], 2), rel=1e-8)
    assert row.monotonicity == pytest.approx(monotonicity(POINTS[:7], 3), rel=1e-9)
    assert (row.spread_method, row.monotonicity_method) == ("exact", "exact")
    assert row.spread_at_least <= row.spread
    assert row.randomized.spread <= row.spread
    assert row.randomized.monotonicity <= row.monotonicity


@pytest.mark.parametrize("eps", [0.5, 20.0])
@pytest.mark.parametrize("method", ["auto", "certified", "randomized"])
def test_the_published_figures_follow_from_the_row(eps, method):
    record = calibrate(MANY, eps=eps, k=[2, 3], domain=UNIT, method=method, n_est=200, rng=0)
    for row in record.rows:
        dw, ds, rounds = row.spread, row.monotonicity, row.k - 1
        price = 4.0 ** (2 * row.k - 4) * dw * (1 + ds) ** rounds
        eps_tilde = math.log((math.exp(eps) - (1 + dw) ** rounds) / price)
        assert row.published.eps_tilde == pytest.approx(eps_tilde)
        assert "not an end-to-end guarantee" in row.published.label
        if eps_tilde > 0:
            sigma = math.sqrt(2) * 2 / eps_tilde  # the unit square's L1 diameter is 2
            assert row.published.sigma == pytest.approx(sigma)
            assert row.published.likelihood_ratio == pytest.approx(math.exp(eps))
            phi = row.published.phi
            assert phi.printed == pytest.approx(8 * (row.optimum_estimate + 900 / eps_tilde**2))
            noise = 2 * 900 * 2 * sigma**2
            assert phi.dimension_aware == pytest.approx(8 * row.optimum_estimate + noise)
        assert any(BETTER in note for note in row.notes) == (eps_tilde <= eps / row.k)


def test_the_certified_and_laplace_figures_of_a_row():
    record = calibrate(POINTS, eps=2.0, k=[1, 4], domain=UNIT, gamma=0.3, rng=0)
    for row in record.rows:
        certificate = certify(2.0, n_records=12, n_clusters=row.k, gamma=0.3)
        assert row.certified.eps_tilde == certificate.eps_tilde
        assert row.certified.gamma == 0.3
        assert row.certified.spent <= 2.0
        assert row.certified.sigma == pytest.approx(math.sqrt(2) * 2 / certificate.eps_tilde)
        assert row.laplace.sigma == pytest.approx(math.sqrt(2) * 2 * row.k / 2.0)
        # d = 2: root mean square length sqrt(2) sigma over the diagonal sqrt(2)
        assert row.laplace.noise_share == pytest.approx(row.laplace.sigma)
        assert row.laplace.phi.printed == pytest.approx(
            8 * (row.optimum_estimate + 12 * row.k**2 * 1.0**2 / 2.0**2)
        )


def test_one_cluster_stands_on_its_own_terms():
    row = calibrate(POINTS, eps=1.0, k=1, domain=UNIT, rng=0).row(1)
    assert (row.spread, row.monotonicity, row.randomized) == (None, None, None)
    assert row.published.eps_tilde is None
    assert "uniform pick" in row.published.note
    assert row.certified.eps_tilde == pytest.approx(uniform_pick_ceiling(1.0, 12), rel=1e-14)
    around_mean = ((POINTS - POINTS.mean(axis=0)) ** 2).sum()
    assert row.optimum_estimate == pytest.approx(around_mean, rel=1e-12)


@pytest.mark.parametrize("gamma", [0.1, math.inf])
@pytest.mark.parametrize("domain", [None, UNIT, L1Ball((0.5, 0.5), 1.0)])
def test_json_round_trip(gamma, domain):
    record = calibrate(POINTS, eps=1.0, k=[1, 2, 12], domain=domain, gamma=gamma, rng=0)
    text = record.to_json()
    assert Calibration.model_validate_json(text) == record

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    assert json.loads(text, parse_constant=refuse)["kind"] == "calibration"


def test_a_record_with_a_field_too_many_is_refused():
    fields = json.loads(calibrate(POINTS, eps=1.0, k=2, domain=UNIT, rng=0).to_json())
    with pytest.raises(ValueError, match="surplus"):
        Calibration.model_validate(fields | {"surplus": 1})


def test_shown_as_a_table_with_every_k():
    record = calibrate(POINTS, eps=1.0, domain=UNIT, rng=0)
    assert [row.k for row in record.rows] == list(range(2, 11))
    lines = str(record).splitlines()
    assert "curator-only" in lines[0]
    assert [line.split()[0] for line in lines[2:]] == [str(k) for k in range(2, 11)]
    assert [row.k for row in calibrate(POINTS[:3], eps=1.0, rng=0).rows] == [2, 3]


# -- domain and radius -----------------------------------------------------------------------------


def test_bounds_read_from_the_data_are_said_to_leak():
    record = calibrate(POINTS, eps=1.0, k=2, rng=0)
    assert record.domain["source"] == "data"
    assert record.notes == (LEAK,)
    assert "leak" in record.rows[0].certified.label
    assert record.radius.of == "smallest enclosing ball of the data"
    given = calibrate(POINTS, eps=1.0, k=2, domain=UNIT, rng=0)
    assert "end to end" in given.rows[0].certified.label
    assert given.radius.of == "domain"


@pytest.mark.parametrize("domain", [None, UNIT])
def test_the_diameter_is_twice_the_radius(domain):
    records = {
        convention: calibrate(
            POINTS, eps=1.0, k=2, domain=domain, radius_convention=convention, rng=0
        )
        for convention in ("diameter", "radius")
    }
    diameter, radius = records["diameter"], records["radius"]
    assert diameter.radius.value == 2 * radius.radius.value
    assert diameter.rows[0].spread == pytest.approx(4 * radius.rows[0].spread)
    assert diameter.rows[0].certified == radius.rows[0].certified
    if domain is not None:
        assert diameter.radius.value == pytest.approx(math.sqrt(2))
    else:  # of the ball around the data, by Jung at most 2/sqrt(3) of the largest distance
        working = (POINTS - POINTS.min(axis=0)) / np.ptp(POINTS, axis=0)
        largest = math.sqrt(squared_distances(working, working).max())
        assert largest <= diameter.radius.value <= largest * 2 / math.sqrt(3) * (1 + 1e-9)


def test_noise_is_in_working_coordinates():
    stretched = POINTS * [10.0, 4.0] - 5.0
    box = Box((-5.0, -5.0), (5.0, -1.0))
    unit = calibrate(POINTS, eps=1.0, k=2, domain=UNIT, rng=0).rows[0]
    scaled = calibrate(stretched, eps=1.0, k=2, domain=box, rng=0).rows[0]
    assert scaled.spread == pytest.approx(unit.spread)
    assert scaled.certified.sigma == unit.certified.sigma
    as_given = Box(box.lower, box.upper, scaled=False)
    record = calibrate(stretched, eps=1.0, k=2, domain=as_given, rng=0)
    assert record.coordinates == "as given"
    unscaled = record.rows[0]
    assert unscaled.certified.eps_tilde == unit.certified.eps_tilde
    assert unscaled.certified.sigma == pytest.approx(unit.certified.sigma * (10 + 4) / 2)
    assert unscaled.laplace.sigma == pytest.approx(unit.laplace.sigma * (10 + 4) / 2)


def test_records_outside_the_domain_are_clipped_to_it():
    outside = np.vstack([POINTS, [[7.0, -3.0]]])
    clipped = np.vstack([POINTS, [[1.0, 0.0]]])
    found, expected = (
        calibrate(data, eps=1.0, k=[2, 3], domain=UNIT, rng=0) for data in (outside, clipped)
    )
    assert rows_of(found) == rows_of(expected)


def test_an_offset_changes_nothing_but_the_rounding():
    offset = 2.0**30
    moved = calibrate(
        POINTS + offset,
        eps=1.0,
        k=[2, 3],
        domain=Box((offset,) * 2, (offset + 1,) * 2, scaled=False),
        rng=0,
    )
    still = calibrate(
        POINTS, eps=1.0, k=[2, 3], domain=Box((0.0,) * 2, (1.0,) * 2, scaled=False), rng=0
    )
    for there, here in zip(moved.rows, still.rows, strict=True):
        assert there.spread == pytest.approx(here.spread, rel=1e-5)
        assert there.monotonicity == pytest.approx(here.monotonicity, rel=1e-5)


@pytest.mark.parametrize(
    "points",
    [
        np.ones((10, 2)),
        np.c_[np.ones(10), np.arange(10.0)],
        np.array([[0.0, 1.0], [2.0, 3.0]]),
        np.repeat(np.eye(2), 4, axis=0),
        np.ones((1, 3)),
    ],
    ids=["identical", "constant column", "two records", "two distinct records", "one record"],
)
@pytest.mark.parametrize("method", ["auto", "certified", "randomized"])
def test_degenerate_tables_are_calibrated_all_the_same(points, method):
    record = calibrate(points, eps=1.0, method=method, n_est=50, rng=0)
    assert all(row.certified.eps_tilde > 0 for row in record.rows)
    assert Calibration.model_validate_json(record.to_json()) == record
    if len(np.unique(points, axis=0)) <= 2 and len(points) > 1:
        assert all(row.spread is None for row in record.rows if row.k > 2)
        assert all(BETTER in row.notes[0] for row in record.rows if row.spread is None)


@pytest.mark.parametrize("eps", [1e-200, 1e3])
def test_extreme_eps(eps):
    record = calibrate(POINTS, eps=eps, k=[2, 3], domain=UNIT, rng=0)
    assert all(0 < row.certified.spent <= eps for row in record.rows)
    assert Calibration.model_validate_json(record.to_json()) == record


# -- methods, seeds, threads -----------------------------------------------------------------------


def test_the_methods_are_what_the_row_says():
    for method, expected in [
        ("auto", ("exact", "exact")),
        ("exact", ("exact", "exact")),
        ("certified", ("certified", "certified")),
        ("randomized", ("randomized", "randomized")),
    ]:
        row = calibrate(POINTS, eps=1.0, k=3, domain=UNIT, method=method, rng=0).row(3)
        assert (row.spread_method, row.monotonicity_method) == expected
    row = calibrate(MANY, eps=1.0, k=3, domain=UNIT, rng=0).row(3)
    assert (row.spread_method, row.monotonicity_method) == ("certified", "certified")


def test_the_methods_in_order():
    rows = {
        method: calibrate(POINTS, eps=1.0, k=[2, 3, 4], domain=UNIT, method=method, rng=0).rows
        for method in ("randomized", "exact", "certified")
    }
    for seen, exact, bound in zip(*rows.values(), strict=True):
        assert seen.spread * (1 - 1e-9) <= exact.spread <= bound.spread * (1 + 1e-8)
        assert seen.monotonicity <= exact.monotonicity <= bound.monotonicity
        assert bound.spread_at_least <= exact.spread


@pytest.mark.parametrize("method", ["certified", "randomized"])
def test_a_seed_reproduces_and_threads_do_not_matter(method, monkeypatch):
    def once(seed: int) -> dict:
        return rows_of(
            calibrate(MANY, eps=1.0, k=[2, 3], domain=UNIT, method=method, n_est=300, rng=seed)
        )

    monkeypatch.setattr(kernels, "N_THREADS", 1)
    alone = once(seed=5)
    assert once(seed=5) == alone
    assert once(seed=6) != alone
    monkeypatch.setattr(kernels, "N_THREADS", 3)
    monkeypatch.setattr(kernels, "_WORTH_A_THREAD", 1)
    monkeypatch.setattr(kernels, "_pool", None)
    assert once(seed=5) == alone


def test_progress_rises_to_the_end():
    heard = []
    calibrate(
        MANY, eps=1.0, k=[2, 3], domain=UNIT, rng=0, progress=lambda _, share: heard.append(share)
    )
    assert heard == sorted(heard)
    assert 0 < heard[0] < heard[-1] <= 1


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameter", "changed"),
    [
        *[("eps", {"eps": eps}) for eps in (0.0, -1.0, math.nan, math.inf, "one")],
        *[("k", {"k": k}) for k in (0, 13, 1.5, [], [2, 13], True)],
        *[("gamma", {"gamma": gamma}) for gamma in (0.0, -1.0, math.nan)],
        ("method", {"method": "guess"}),
        ("radius_convention", {"radius_convention": "circumference"}),
        *[("n_est", {"n_est": n}) for n in (0, 2.5)],
        ("rng", {"rng": -1}),
    ],
)
def test_refusals_name_the_parameter(parameter, changed):
    with pytest.raises(ParameterError) as refusal:
        calibrate(POINTS, **({"eps": 1.0, "k": 2, "domain": UNIT} | changed))
    assert refusal.value.parameter == parameter


def test_exact_on_a_large_instance_is_refused():
    with pytest.raises(ParameterError, match="'certified'"):
        calibrate(MANY, eps=1.0, k=3, domain=UNIT, method="exact", rng=0)


@pytest.mark.parametrize("data", [[[math.nan]], [], [1.0, 2.0], [["a"]], np.empty((0, 2))])
def test_data_that_are_no_records_are_refused(data):
    with pytest.raises(UsageError):
        calibrate(data, eps=1.0)


def test_a_domain_of_other_columns_is_refused():
    with pytest.raises(DpkvError, match="columns"):
        calibrate(POINTS, eps=1.0, domain=Box((0.0,), (1.0,)))


def test_numbers_of_any_kind_are_numbers():
    found = calibrate(POINTS, eps=np.float32(1), k=np.int64(2), domain=UNIT, gamma=1, rng=0)
    expected = calibrate(POINTS, eps=1.0, k=[2], domain=UNIT, gamma=1.0, rng=0)
    assert rows_of(Calibration.model_validate_json(found.to_json())) == rows_of(expected)


# -- the paper's data ------------------------------------------------------------------------------


def test_lifesci_reproduces_the_formula_at_the_papers_table():
    data = np.loadtxt(paper_data("lifesci.csv.gz"), delimiter=",")
    record = calibrate(
        data,
        eps=1.0,
        k=[2, 3, 4],
        domain=data_domain(data, scaled=False),
        method="randomized",
        n_est=5000,
        rng=0,
    )
    # Random estimates of the printed formula with R = the enclosing ball's diameter, calculated
    # apart from dpkv. The paper prints 8.5, 4.4 and 0.6.
    for row, expected, printed in zip(record.rows, (7.6, 3.9, 0.6), (8.5, 4.4, 0.6), strict=True):
        assert row.published.eps_tilde == pytest.approx(expected, abs=0.6)
        assert row.paper_eps_tilde == printed
        assert any(f"eps~ = {printed} for" in note and "LifeSci" in note for note in row.notes)


def test_europediff_is_said_to_exceed_the_ceiling():
    data = np.loadtxt(paper_data("europediff.csv.gz"), delimiter=",")
    record = calibrate(data, eps=1.0, k=2, method="randomized", n_est=20, rng=0)
    assert round(record.eps_tilde_ceiling, 1) == 12.6
    (note,) = (note for note in record.rows[0].notes if "EuropeDiff" in note)
    assert "19.0" in note
    assert "12.6" in note
    assert "cannot hold" in note
    other = calibrate(data[:-1], eps=1.0, k=2, method="randomized", n_est=20, rng=0)
    assert other.rows[0].paper_eps_tilde is None


@pytest.mark.parametrize("k", [2, 5])
def test_a_screened_random_search_finds_what_the_whole_one_finds(
    k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = np.random.default_rng(1).standard_t(4, size=(20_000, 3))
    draws = randomized_estimates.random_neighbourhoods(points, k, 1000, np.random.default_rng(0))
    whole = randomized_estimates.estimate(points, draws)
    monkeypatch.setattr(randomized_estimates, "_MOST_WORK", points.size * 1000.0 * k / 10)
    seen = []
    measured = randomized_estimates.sampled_potentials

    def counted(records: np.ndarray, centers: np.ndarray) -> np.ndarray:
        seen.append((len(records), len(centers)))
        return measured(records, centers)

    monkeypatch.setattr(randomized_estimates, "sampled_potentials", counted)
    screened = randomized_estimates.estimate(points, draws)
    assert screened == whole
    assert seen[0] == (2000, 1000), "all draws, on a tenth of the records"
    assert seen[1][0] == 20_000
    assert seen[1][1] <= 128, "few draws on all of them"


def test_a_row_does_not_depend_on_what_else_is_calibrated() -> None:
    points = np.random.default_rng(0).normal(size=(300, 2))
    domain = data_domain(points)
    many = calibrate(points, eps=1.0, k=[2, 3, 4], domain=domain, n_est=50, rng=5)
    alone = calibrate(points, eps=1.0, k=3, domain=domain, n_est=50, rng=5)
    other = calibrate(points, eps=1.0, k=3, domain=domain, n_est=50, rng=5, method="randomized")
    assert alone.row(3) == many.row(3)
    assert other.row(3).randomized == many.row(3).randomized
