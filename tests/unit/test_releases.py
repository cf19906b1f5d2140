"""``dpkv.release`` and ``dpkv.simulate``: centers, records, ids, budgets and refusals."""

from __future__ import annotations

import errno
import inspect
import io
import json
from collections.abc import Iterator
from datetime import datetime, tzinfo
from decimal import Decimal
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pandas as pd
import pytest

import dpkv
from dpkv.errors import (
    BudgetError,
    DomainError,
    DpkvError,
    LedgerError,
    ParameterError,
    TableError,
    UsageError,
)
from dpkv.fingerprints import array_fingerprint
from dpkv.grid import BoxGrid
from dpkv.ledger import Entry, Ledger
from dpkv.ledger import entries as ledger_entries
from dpkv.ledger.accounts import prices_of_entry
from dpkv.mechanisms import MECHANISMS, Neighbours, PrivateBounds
from dpkv.records import Curator
from dpkv.releases import CONDITIONAL, NOT_RELEASABLE, ReleaseRecord, kept_releases, produce, verify
from dpkv.releases.files import release_files
from dpkv.releases.verify import failed

OF_THE_PAPER = {"mechanism": "kvariates"}
ADD_REMOVE = [name for name, kind in MECHANISMS.items() if Neighbours.ADD_REMOVE in kind.relations]
LEVELS = 2**16 - 1
MIDDLES = np.array([[-0.75, -0.6], [-0.25, 0.6], [0.25, -0.6], [0.75, 0.6]])
SECRET = 0.3133725  # stands in the records; no message may show it


def clusters(n_records: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    records = MIDDLES[np.arange(n_records) % 4] + rng.normal(0, 0.02, (n_records, 2))
    records[0] = SECRET
    return records


X = clusters(397)
MANY = clusters(39_989)  # enough for private bounds at a small share of eps
PAIR = np.array([-0.5, 0.5])[np.arange(300) % 2][:, None] + np.linspace(-0.01, 0.01, 600).reshape(
    300, 2
)
ASKED: dict[str, Any] = {"k": 4, "eps": 1.0, "bounds": (-1, 1)}
PUBLISHED: dict[str, Any] = {**ASKED, "k": 2, "eps": 15.0, "calibration": "published"}


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where ``dpkv.release`` keeps its ledger by default."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / ".dpkv"


def charged(workspace: Path) -> list[Entry]:
    return [entry for entry in Ledger(workspace).read().entries if entry.kind == "charge"]


def charges(workspace: Path) -> int:
    return len(charged(workspace))


def set_budget(
    workspace: Path, records: np.ndarray, eps: str, neighbours: str | None = None
) -> None:
    ledger = Ledger(workspace)
    ledger.prepare()
    fingerprint = array_fingerprint(records, workspace)
    ledger.set_budget(dataset=fingerprint, label="array", eps=Decimal(eps), neighbours=neighbours)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every plain value of a JSON object, with its path."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, below in items:
        if isinstance(below, (dict, list)):
            yield from leaves(below, f"{path}.{key}")
        else:
            yield f"{path}.{key}", below


CHARGED = {"charged": "1", "charged_delta": "0", "checkpoint": None}


def without_centers(record: ReleaseRecord) -> dict[str, Any]:
    varying = {
        "synopsis_digest",
        "clusters",
        "potential",
        "grid_centers",
        "centers_digest",
        "created",
        "release_id",
        "ledger",
    }
    return record.model_dump(mode="json", exclude=varying)


# --- centers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_centers_are_points_of_the_grid_within_the_bounds(mechanism: str, workspace: Path) -> None:
    lower, upper = np.array([-1.0, -3.0]), np.array([1.0, 5.0])
    done = dpkv.release(X, **{**ASKED, "bounds": [(-1, 1), (-3, 5)]}, mechanism=mechanism)
    assert done.centers.shape == (4, 2) and done.centers.dtype == np.float64
    assert (done.centers >= lower).all() and (done.centers <= upper).all()
    levels = (done.centers - lower) / (upper - lower) * LEVELS
    np.testing.assert_allclose(levels, np.rint(levels), atol=1e-6)
    assert np.rint(levels).astype(int).tolist() == [list(c) for c in done.record.grid_centers]
    assert done.centers.tolist() == [list(center) for center in done.record.centers]
    assert not failed(verify(done.record, workspace=workspace))


@pytest.mark.parametrize("mechanism", MECHANISMS.shipped)
def test_with_much_eps_the_centers_are_those_of_the_clusters(mechanism: str) -> None:
    """Nothing about privacy: that the right numbers come out at all."""
    done = dpkv.simulate(X[1:], **{**ASKED, "eps": 1e5}, mechanism=mechanism, seed=3)
    if mechanism in ("kvariates", "forgy"):  # random picks may take one cluster twice
        nearest = np.abs(done.centers[:, None] - X[1:]).max(axis=2).min(axis=1)
        assert (nearest < 1e-3).all()
    else:
        assert np.abs(np.array(sorted(done.centers.tolist())) - MIDDLES).max() < 0.15


def test_without_clamping_centers_may_leave_the_bounds(workspace: Path) -> None:
    loose = {**ASKED, "eps": 0.01, "mechanism": "laplace", "clamp": False}
    done = dpkv.release(X, **loose)
    assert np.abs(done.centers).max() > 1.0
    assert done.record.clamped is False
    assert not failed(verify(done.record, workspace=workspace))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(
    "bounds",
    [{"center": [0.0, 0.0], "radius": 2.0}, {"lower": -1.0, "upper": [1.0, 2.0]}, (0.0, 0.0)],
    ids=["ball", "box", "point"],
)
def test_other_domains(mechanism: str, bounds: Any, workspace: Path) -> None:
    done = dpkv.release(X, **{**ASKED, "bounds": bounds}, mechanism=mechanism)
    assert not failed(verify(done.record, workspace=workspace))
    if bounds == (0.0, 0.0):
        assert not done.centers.any()
    elif "radius" in bounds:
        assert (np.abs(done.centers).sum(axis=1) <= 2.0).all()


def test_columns_of_their_own_units(workspace: Path) -> None:
    asked = {**ASKED, "bounds": [(-1, 1), (-10, 10)]}
    done = dpkv.release(X, **asked, scaled=False)
    assert done.record.grid.steps == (20.0 / LEVELS, 20.0 / LEVELS)
    assert not failed(verify(done.record, workspace=workspace))


# --- input -----------------------------------------------------------------------------------


def test_a_table_lends_its_column_names(workspace: Path) -> None:
    table = pd.DataFrame(X, columns=["east", "north"])
    by_name = {"north": (-1, 1), "east": (-2, 2)}
    done = dpkv.release(table, **{**ASKED, "bounds": by_name})
    assert done.record.columns == ("east", "north")
    assert done.record.bounds.domain["lower"] == [-2.0, -1.0]
    assert release_files(done.record)["centers.csv"].startswith("east,north,size\n")
    named = dpkv.release(table, **ASKED, columns=["a", "b"])
    assert named.record.columns == ("a", "b")
    assert dpkv.release(X, **ASKED).record.columns == ("x1", "x2")
    assert not failed(verify(done.record, workspace=workspace))


def test_every_array_of_the_same_numbers_is_the_same(workspace: Path) -> None:
    """Also for the ledger: they share a budget."""
    single = X.astype(np.float32).astype(np.float64)
    wide = np.zeros((len(X), 5))
    wide[:, [1, 3]] = single
    same = {
        "float64": single,
        "float32": single.astype(np.float32),
        "Fortran": np.asfortranarray(single),
        "strided": wide[:, 1::2],
        "big-endian": single.astype(">f8"),
        "DataFrame": pd.DataFrame(single),
        "list": single.tolist(),
    }
    expected = dpkv.simulate(single, **ASKED, seed=0).centers
    for name, records in same.items():
        np.testing.assert_array_equal(
            dpkv.simulate(records, **ASKED, seed=0).centers, expected, err_msg=name
        )
        dpkv.release(records, **ASKED)
    (account,) = Ledger(workspace).read().accounts()
    assert account.n_charges == len(same)


def test_records_are_not_written_to(workspace: Path) -> None:
    records = X * 3.0  # many are outside the bounds
    before = records.copy()
    records.flags.writeable = False
    for mechanism in MECHANISMS:
        dpkv.release(records, **ASKED, mechanism=mechanism)
    np.testing.assert_array_equal(records, before)
    assert charges(workspace) == len(MECHANISMS)


# --- the record ------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_record_says_what_was_done(mechanism: str, workspace: Path) -> None:
    record = dpkv.release(X, **ASKED, mechanism=mechanism).record
    again = ReleaseRecord.model_validate_json(record.to_json())
    assert again == record and again.to_json() == record.to_json()
    stated = json.loads(record.to_json())
    assert stated["kind"] == "release" and stated["visibility"] == "public"
    assert stated["releasable"] is True and stated["notes"] == []
    assert stated["mechanism"]["name"] == stated["plan"]["mechanism"] == mechanism
    assert stated["plan"]["eps"] == "1" and stated["plan"]["k"] == 4
    assert stated["randomness"] == "operating-system"
    assert stated["n_records"] == len(X)
    assert "record-count" in stated["not_protected"]
    assert set(stated["versions"]) >= {"python", "numpy", "opendp"}
    assert stated["dpkv_version"] == dpkv.__version__
    assert stated["grid"]["bits"] == 16 and stated["bounds"]["source"] == "given"
    assert stated["guarantee"]["eps"] == "1" and stated["guarantee"]["delta"] == "0"
    assert stated["guarantee"]["neighbours"] == "replace-one"
    assert stated["guarantee"]["status"] == "proved" and record.guarantee.end_to_end
    assert "1-differentially private" in record.summary
    assert all(stated["guarantee"]["assumptions"])
    text = release_files(record)["centers.csv"]
    assert stated["centers_digest"] == sha256(text.encode()).hexdigest()
    written = [[float(cell) for cell in line.split(",")] for line in text.split()[1:]]
    assert [row[:2] for row in written] == [one["center"] for one in stated["clusters"]]
    sizes = [one["size"] for one in stated["clusters"]]
    if stated["untold"] in (None, "distances-not-asked"):
        assert text.startswith("x1,x2,size\n")
        assert [row[2] for row in written] == [round(size) for size in sizes]
    else:
        assert text.startswith("x1,x2\n") and sizes == [None] * 4
    entry, kept = Ledger(workspace).read().entries
    assert stated["ledger"] == {"number": 1, "digest": entry.digest, **CHARGED}
    assert stated["release_id"] == entry.release_id
    assert entry.label == "array" and entry.end_to_end is True
    assert kept.kind == "kept" and kept.release_id == entry.release_id and kept.eps == 0


def theorem_a(record: dict[str, Any]) -> mpmath.mpf:
    """Theorem A's eps, by mpmath from the record's public numbers."""
    grid, mechanism = record["grid"], record["mechanism"]
    m, gamma = mechanism["n_records"], mpmath.mpf(mechanism["smoothing_steps"])
    gamma /= grid["diam2_squared"]
    rho = mpmath.exp(mpmath.mpf(grid["diam1"]) / mechanism["noise_scale"])
    weight = (1 + gamma) / (1 + gamma * m)
    first = mpmath.log(1 + (rho - 1) / m)
    return first + (mechanism["k"] - 1) * mpmath.log(1 + weight * (rho - 1))


PRICED = ("kvariates", "laplace", "forgy", "gupt", "lloyd")
"""Those for which the literature has a formula of a few lines."""


def price(record: dict[str, Any]) -> Fraction | mpmath.mpf:
    """What a release costs, by formulas of the literature and the record's public numbers."""
    grid, mechanism = record["grid"], record["mechanism"]
    changed = 2 if mechanism["neighbours"] == "replace-one" else 1
    if mechanism["name"] == "kvariates":
        return theorem_a(record)
    if mechanism["name"] == "lloyd":
        radius = 2 * (LEVELS - LEVELS // 2)  # two columns
        counts = changed / Fraction(mechanism["count_scale"])
        sums = changed * radius / Fraction(mechanism["sum_scale"])
        return mechanism["iterations"] * (counts + sums)
    return mechanism["k"] * grid["diam1"] / Fraction(mechanism["noise_scale"])


@pytest.mark.parametrize(
    ("mechanism", "neighbours"),
    [(name, "replace-one") for name in PRICED]
    + [(name, "add-remove") for name in ("laplace", "lloyd")],
)
@pytest.mark.parametrize("eps", ["0.1", "1", "7.3"])
def test_the_steps_cost_what_the_formulas_say(mechanism: str, neighbours: str, eps: str) -> None:
    asked = {**ASKED, "eps": eps, "mechanism": mechanism, "neighbours": neighbours}
    record = json.loads(dpkv.simulate(X, **asked, seed=0).record.to_json())
    with mpmath.workdps(50):
        exact = price(record)
        assert exact <= Fraction(eps) if isinstance(exact, Fraction) else exact <= mpmath.mpf(eps)
        stated = float(exact)
    assert record["spent"] == pytest.approx(stated, rel=1e-12)
    assert record["spent"] == pytest.approx(float(eps), rel=1e-6), "and nothing is left unused"
    steps = sum(step["eps"] * step["times"] for step in record["steps"])
    assert steps == pytest.approx(record["spent"], rel=1e-12)


def test_the_noise_is_stated_in_the_columns_units() -> None:
    """Against the distribution itself, summed up."""
    asked = {**ASKED, "eps": 1000.0, "bounds": [(-1, 1), (-5, 5)], "mechanism": "laplace"}
    (noise,) = dpkv.simulate(X, **asked, seed=0).record.noise
    z = np.arange(-60 * int(noise.scale), 60 * int(noise.scale) + 1)
    weights = np.exp(-np.abs(z) / noise.scale)
    sd = np.sqrt((weights * z.astype(float) ** 2).sum() / weights.sum())
    assert noise.column_sd == pytest.approx((sd * 2 / LEVELS, sd * 10 / LEVELS), rel=1e-9)
    assert noise.scale == pytest.approx(4 * 2 * LEVELS / 1000.0)


@pytest.mark.parametrize(
    ("mechanism", "neighbours"),
    [(name, "replace-one") for name in MECHANISMS] + [(name, "add-remove") for name in ADD_REMOVE],
)
def test_the_record_depends_on_the_records_through_the_centers_only(
    mechanism: str, neighbours: str
) -> None:
    asked = {**ASKED, "mechanism": mechanism, "neighbours": neighbours, "clamp": False}
    other = clusters(211 if neighbours == "add-remove" else len(X), seed=5) * 0.3
    first, second = (dpkv.simulate(records, **asked, seed=1).record for records in (X, other))
    assert first.centers != second.centers
    assert without_centers(first) == without_centers(second)


@pytest.mark.parametrize("mechanism", ADD_REMOVE)
@pytest.mark.parametrize("bounds", [(-1, 1), "private"], ids=["given", "private"])
def test_add_remove_keeps_the_number_of_records_secret(
    mechanism: str, bounds: Any, workspace: Path
) -> None:
    asked = {**ASKED, "mechanism": mechanism, "neighbours": "add-remove", "bounds": bounds}
    records = MANY if bounds == "private" else X
    record = dpkv.release(records, **asked).record
    stated = json.loads(record.to_json())
    stated["bounds"].pop("ledger", None)
    assert stated["n_records"] is None
    assert "record-count" not in stated["not_protected"]
    assert "adding or removing" in record.summary
    random_or_coded = {"clusters", "potential", "grid_centers", "centers_digest", "ledger"}
    for name in {*random_or_coded, "release_id"}:
        del stated[name]
    for path, value in leaves(stated):
        assert value != len(records) and str(len(records)) not in str(value), path
    assert record.charged == 1
    assert not failed(verify(record, workspace=workspace))


@pytest.mark.parametrize("mechanism", ADD_REMOVE)
def test_add_remove_does_not_tell_that_there_are_fewer_records_than_centers(
    mechanism: str, workspace: Path
) -> None:
    asked = {**ASKED, "mechanism": mechanism, "neighbours": "add-remove"}
    done = dpkv.release(X[:3], **asked)
    assert done.centers.shape == (4, 2)
    assert not failed(verify(done.record, workspace=workspace))


def test_a_release_shows_no_record() -> None:
    done = dpkv.simulate(X, **ASKED, seed=0)
    assert "4 centers by kvariates" in repr(done)
    assert str(SECRET) not in repr(done) + done.record.to_json()


# --- simulation ------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_simulation_repeats_and_touches_no_ledger(mechanism: str, workspace: Path) -> None:
    asked = {**ASKED, "mechanism": mechanism}
    once, again = (dpkv.simulate(X, **asked, seed=0) for _ in range(2))
    np.testing.assert_array_equal(once.centers, again.centers)
    assert dpkv.simulate(X, **asked, seed=1).centers.tolist() != once.centers.tolist()
    assert not workspace.exists()
    record = once.record
    assert record.kind == "simulation" and record.visibility == "curator-only"
    assert record.releasable is False and record.guarantee.end_to_end is False
    assert record.guarantee.eps is None and record.ledger is None and record.release_id is None
    assert record.notes == ("simulated",) and record.guarantee.status == "simulated"
    assert NOT_RELEASABLE in record.explanation.warnings and NOT_RELEASABLE in record.summary
    assert "differentially private" not in record.summary
    assert all("not-releasable" in name for name in release_files(record))
    assert not failed(verify(record))


def test_a_release_takes_no_seed() -> None:
    parameters = set(inspect.signature(dpkv.release).parameters)
    assert not parameters & {"seed", "rng", "random_state"}
    twin = set(inspect.signature(dpkv.simulate).parameters)
    assert parameters - twin == {"workspace", "dataset", "release_id"} and twin - parameters == {
        "seed"
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_two_releases_differ(mechanism: str, workspace: Path) -> None:
    # Noise of some hundred grid steps or more in 8 coordinates, not clamped: a chance below 1e-9
    # to be alike.
    np.random.seed(0)  # noqa: NPY002 (must have no effect)
    first = dpkv.release(X, **ASKED, mechanism=mechanism, clamp=False)
    np.random.seed(0)  # noqa: NPY002
    second = dpkv.release(X, **ASKED, mechanism=mechanism, clamp=False)
    assert first.centers.tolist() != second.centers.tolist()
    assert first.record.release_id != second.record.release_id
    assert charges(workspace) == 2


@pytest.mark.parametrize("seed", [-1, 1.5, "0", None])
def test_a_seed_is_a_whole_number(seed: Any) -> None:
    with pytest.raises(ParameterError, match=r"^seed must be a whole number"):
        dpkv.simulate(X, **ASKED, seed=seed)


# --- what is conditional on the data ---------------------------------------------------------


def test_the_published_noise_is_called_conditional_everywhere(workspace: Path) -> None:
    done = dpkv.release(PAIR, **PUBLISHED)
    record, text = done.record, done.record.to_json()
    assert CONDITIONAL == "conditional on the data, not an end-to-end guarantee"
    assert CONDITIONAL in record.summary and record.notes == ("published-noise",)
    assert any(CONDITIONAL in told for told in record.explanation.warnings)
    assert all("conditional" in name for name in release_files(record))
    assert "differentially private" not in text and "eps-DP" not in text
    assert record.guarantee.eps is None and record.spent is None and record.steps == ()
    assert record.visibility == "curator-only" and record.releasable is False
    assert record.plan.eps_tilde is not None
    assert any("depends on the records" in fact for fact in record.explanation.not_protected)
    (entry,) = charged(workspace)
    assert entry.end_to_end is False and entry.eps == 15
    assert not failed(verify(record, workspace=workspace))


def test_the_published_noise_is_the_papers(workspace: Path) -> None:
    record = dpkv.release(PAIR, **PUBLISHED).record
    row = dpkv.calibrate(PAIR, domain=dpkv.Box((-1, -1), (1, 1)), eps=15.0, k=[2]).rows[0]
    assert record.plan.eps_tilde is not None
    assert record.plan.eps_tilde == pytest.approx(row.published.eps_tilde, rel=0.1)  # sampled
    assert record.noise[0].scale == pytest.approx(2 * LEVELS / record.plan.eps_tilde)
    assert charges(workspace) == 1


def test_a_published_release_can_be_asked_for_again(workspace: Path) -> None:
    first, again = (dpkv.release(PAIR, **PUBLISHED, release_id="once") for _ in range(2))
    np.testing.assert_array_equal(first.centers, again.centers)
    assert charges(workspace) == 1


def test_no_usable_published_noise_is_told_before_the_charge(workspace: Path) -> None:
    with pytest.raises(
        UsageError, match=r"no usable noise for k = 2.*: release with the certified"
    ):
        dpkv.release(PAIR, **{**PUBLISHED, "eps": 0.1})
    assert not workspace.exists()


def test_bounds_from_the_data_are_flagged_everywhere(workspace: Path) -> None:
    done = dpkv.release(X, **{**ASKED, "bounds": "data"})
    record = done.record
    assert (done.centers >= X.min(axis=0)).all() and (done.centers <= X.max(axis=0)).all()
    assert record.guarantee.status == "conditional-data-bounds"
    assert "read from the data" in record.summary
    assert any("leaks" in told and CONDITIONAL in told for told in record.explanation.warnings)
    assert any("extreme values" in fact for fact in record.explanation.not_protected)
    assert any("leak" in assumption for assumption in record.explanation.assumptions)
    assert record.bounds.source == record.plan.bounds == "data"
    assert record.guarantee.eps is None and record.guarantee.end_to_end is False
    assert record.visibility == "curator-only" and record.releasable is False
    assert "differentially private" not in record.summary
    assert all("conditional" in name for name in release_files(record))
    assert Ledger(workspace).read().entries[0].end_to_end is False
    assert not failed(verify(record, workspace=workspace))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("share", [0.01, 0.1, 0.75])
def test_private_bounds_are_part_of_eps(mechanism: str, share: float, workspace: Path) -> None:
    asked = {**ASKED, "mechanism": mechanism, "bounds": "private", "bounds_share": share}
    record = dpkv.release(MANY, **asked).record
    found, *rest = record.steps
    assert found.name == "column-histograms"
    scale = Fraction(record.noise[0].scale)
    assert 2 * 2 / scale <= Fraction(share), "two columns, replace-one changes two counts"
    assert found.eps == pytest.approx(share)
    assert found.eps * found.times + sum(step.eps * step.times for step in rest) <= 1.0 + 1e-12
    assert record.spent is not None and record.spent <= 1.0
    assert record.guarantee.end_to_end and record.guarantee.eps == "1"
    assert record.bounds.source == "private" and record.plan.domain is None
    edges = np.abs(np.array([record.bounds.domain["lower"], record.bounds.domain["upper"]]))
    assert (np.log2(edges) == np.rint(np.log2(edges))).all(), "edges of the fixed bins"
    of_bounds, of_centers = charged(workspace)
    assert float(of_bounds.eps) == share, "the bounds have a charge of their own"
    assert of_bounds.eps + of_centers.eps == record.charged == 1, "the whole eps is charged, once"
    assert not failed(verify(record, workspace=workspace))


def test_private_bounds_find_the_records() -> None:
    """At an eps that leaves no doubt: the edges are powers of two around the records."""
    asked = {**ASKED, "eps": 1000.0, "bounds": "private"}
    domain = dpkv.simulate(X * [1, 100], **asked, seed=0).record.bounds.domain
    assert (domain["lower"], domain["upper"]) == ([-1.0, -128.0], [1.0, 128.0])


@pytest.mark.parametrize("calibration", ["certified", "published"])
def test_a_domain_of_other_columns_is_refused(calibration: str) -> None:
    domain = dpkv.Domain.bounded((-1, 1), 3)
    with pytest.raises(UsageError, match=r"the bounds are for 3 columns\. Got 2 instead"):
        dpkv.release(X, **{**ASKED, "bounds": domain, "calibration": calibration})


# --- refusals --------------------------------------------------------------------------------

BAD_PARAMETERS: dict[str, tuple[dict[str, Any], str]] = {
    "k of 0": ({"k": 0}, "k must be a whole number of at least 1. Got 0"),
    "negative k": ({"k": -1}, "k must be a whole number of at least 1. Got -1"),
    "k above the records": ({"k": 398}, "k must be at most the number of records, 397. Got 398"),
    "fractional k": ({"k": 2.5}, "k must be a whole number. Got 2.5"),
    "true k": ({"k": True}, "k must be a whole number of at least 1. Got True"),
    "eps of 0": ({"eps": 0}, "eps must be greater than 0 and at most 1000000. Got 0"),
    "negative eps": ({"eps": -1}, "eps must be greater than 0 and at most 1000000. Got -1"),
    "eps nan": ({"eps": float("nan")}, "eps must be greater than 0 and at most 1000000. Got nan"),
    "eps inf": ({"eps": float("inf")}, "eps must be greater than 0 and at most 1000000. Got inf"),
    "eps text": ({"eps": "abc"}, "eps must be a number. Got 'abc'"),
    "huge eps": ({"eps": 1e9}, "eps must be greater than 0 and at most 1000000. Got 10000000"),
    "eps None": ({"eps": None}, "eps must be a number. Got None"),
    "eps true": ({"eps": True}, "eps must be"),
    "gamma of 0": ({"gamma": 0}, "gamma must be greater than 0. Got 0"),
    "negative gamma": ({"gamma": -0.1}, "gamma must be a number of at least 0. Got -0.1"),
    "gamma nan": ({"gamma": float("nan")}, "gamma must be a number of at least 0. Got nan"),
    "gamma text": ({"gamma": "abc"}, "gamma must be a number. Got 'abc'"),
    "no bounds": ({"bounds": None}, "bounds must be low and high"),
    "empty bounds": ({"bounds": ()}, "bounds must be one low,high pair"),
    "reversed bounds": ({"bounds": (1, -1)}, "bounds of column 1 must be low,high in this order"),
    "three pairs": ({"bounds": [(0, 1)] * 3}, "bounds must be one low,high pair or one pair for"),
    "infinite bounds": ({"bounds": (0, float("inf"))}, "bounds of column 1 must be finite"),
    "word for bounds": ({"bounds": "guess"}, "bounds must be numbers, 'private' or 'data'. Got"),
    "domain of one column": ({"bounds": dpkv.Box((0,), (1,))}, "the bounds are for 1 columns"),
    "domain of the data": (
        {"bounds": dpkv.Box((0, 0), (1, 1), source="data")},
        "bounds must be a domain that was given",
    ),
    "unknown mechanism": ({"mechanism": "magic"}, "mechanism must be one of 'kvariates', 'lapl"),
    "no mechanism": ({"mechanism": None}, "mechanism must be one of"),
    "unknown neighbours": ({"neighbours": "both"}, "neighbours must be one of 'replace-one', 'ad"),
    "kvariates add-remove": (
        {**OF_THE_PAPER, "neighbours": "add-remove"},
        "neighbours must be 'replace-one' for",
    ),
    "gupt add-remove": (
        {"neighbours": "add-remove", "mechanism": "gupt"},
        "neighbours must be 'replace-one' for gupt",
    ),
    "unknown calibration": ({"calibration": "guess"}, "calibration must be one of 'certified', '"),
    "published forgy": (
        {"calibration": "published", "mechanism": "forgy"},
        "calibration must be 'certified' for mechanism 'forgy'",
    ),
    "published, private bounds": (
        {"calibration": "published", "bounds": "private"},
        "the published calibration needs bounds",
    ),
    "iterations of kvariates": ({"iterations": 3}, "iterations must be left out unless mechanism"),
    "iterations of 0": (
        {"iterations": 0, "mechanism": "lloyd"},
        "iterations must be a whole number of at least 1. Got 0",
    ),
    "half an iteration": ({"iterations": 0.5, "mechanism": "lloyd"}, "iterations must be a whole"),
    "share of 0": ({"bounds": "private", "bounds_share": 0}, "bounds_share must be"),
    "share of 1": ({"bounds": "private", "bounds_share": 1}, "bounds_share must be between 0 and"),
    "share nan": ({"bounds": "private", "bounds_share": float("nan")}, "bounds_share must be"),
    "too few names": ({"columns": ["a"]}, "columns must be 2 names. Got 1"),
    "empty id": ({"release_id": ""}, "id must be 1 to 64 letters, digits"),
    "id with a slash": ({"release_id": "a/b"}, "id must be 1 to 64 letters, digits"),
    "id of dots": ({"release_id": ".."}, "id must be 1 to 64 letters, digits"),
    "id of two lines": ({"release_id": "a\n"}, "id must be 1 to 64 letters, digits"),
    "huge k": ({"k": 10**6}, "k must be at most 100000. Got 1000000"),
    "many iterations": ({"iterations": 10**6, "mechanism": "lloyd"}, "iterations must be at most"),
    "empty data set": ({"dataset": " "}, "dataset must be a printable name"),
    "data set of two lines": ({"dataset": "a\nb"}, "dataset must be a printable name"),
    "long id": ({"release_id": "a" * 65}, "id must be 1 to 64 letters, digits"),
    "id in another script": ({"release_id": "ä"}, "id must be 1 to 64 letters, digits"),
}


@pytest.mark.parametrize(("changes", "sentence"), BAD_PARAMETERS.values(), ids=BAD_PARAMETERS)
def test_bad_parameters(changes: dict[str, Any], sentence: str, workspace: Path) -> None:
    with pytest.raises(UsageError) as refusal:
        dpkv.release(X, **{**ASKED, **changes})
    message = str(refusal.value)
    assert message.startswith(sentence) and "\n" not in message
    assert "31337" not in message
    assert not Ledger(workspace).read().entries
    if not {"release_id", "dataset"} & set(changes):
        with pytest.raises(UsageError) as twin:
            dpkv.simulate(X, **{**ASKED, **changes}, seed=0)
        assert str(twin.value) == message


UNUSUAL: dict[str, dict[str, Any]] = {
    "an infinite gamma": {"gamma": float("inf")},
    "numbers for names": {"columns": [0, 1]},
    "a name that no file can hold": {"columns": ["\ud800", "b"]},
    "an eps below every float": {"eps": "1e-400"},
    "an eps below every float, Laplace": {"eps": "1e-400", "mechanism": "laplace"},
    "a number for an id": {"release_id": 123},
    "a word for clamp": {"clamp": "perhaps"},
    "a word for scaled": {"scaled": "perhaps"},
    "a share that leaves nothing": {
        "bounds": "private",
        "bounds_share": 1.0 - 1e-8,
        "eps": "1e-320",
    },
}


@pytest.mark.parametrize("changes", UNUSUAL.values(), ids=UNUSUAL)
def test_what_cannot_be_done_is_refused_before_the_charge(
    changes: dict[str, Any], workspace: Path
) -> None:
    """Either a release, or a sentence of ours and no charge: never a charge for nothing."""
    try:
        done = dpkv.release(X, **{**ASKED, **changes})
    except DpkvError as error:
        assert "\n" not in str(error)
        assert charges(workspace) == 0
    else:
        assert charges(workspace) == 1
        assert not failed(verify(done.record, workspace=workspace))


BAD_DATA: dict[str, tuple[Any, str]] = {
    "NaN": (np.where(X[5, 1] == X, np.nan, X), "data must not contain NaN or infinity"),
    "infinity": (np.where(X[5, 1] == X, np.inf, X), "data must not contain NaN or infinity"),
    "one column, flat": (X[:, 0], "data must be a matrix with one row per record"),
    "three axes": (X[None], "data must be a matrix with one row per record"),
    "no record": (X[:0], "data must hold at least one record"),
    "no column": (X[:, :0], "data must be a matrix with one row per record and at least one"),
    "text": (np.array([["31337", "a"]]), "data must be a dense numeric array"),
    "ragged": ([[SECRET], [SECRET, SECRET]], "data must be a dense numeric array"),
    "nothing": (None, "data must be a matrix"),
    "complex": (X + 1j, "data must be a dense numeric array"),
    "too large": (X * 1e17, "data must stay within ±2^53"),
    "missing in pandas": (
        pd.DataFrame({"a": pd.array([1, None], "Int64"), "b": [SECRET, SECRET]}),
        "data must",
    ),
}


@pytest.mark.parametrize(("records", "sentence"), BAD_DATA.values(), ids=BAD_DATA)
def test_bad_data(records: Any, sentence: str, workspace: Path) -> None:
    with pytest.raises(TableError) as refusal:
        dpkv.release(records, **{**ASKED, "k": 1})
    assert str(refusal.value).startswith(sentence)
    assert "31337" not in str(refusal.value)
    assert not workspace.exists()


def test_bounds_have_no_default() -> None:
    with pytest.raises(UsageError, match="bounds must be low and high"):
        dpkv.release(X, k=4, eps=1.0)


def test_a_domain_error_is_a_usage_error() -> None:
    with pytest.raises(DomainError):
        dpkv.simulate(X, **{**ASKED, "bounds": (1, -1)}, seed=0)


# --- release ids -----------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_same_id_is_the_same_release(mechanism: str, workspace: Path) -> None:
    asked = {**ASKED, "mechanism": mechanism, "release_id": "spring-2024_v1.0"}
    first, again = (dpkv.release(X, **asked) for _ in range(2))
    np.testing.assert_array_equal(first.centers, again.centers)
    assert first.record == again.record
    assert first.record.release_id == "spring-2024_v1.0"
    assert charges(workspace) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"k": 3},
        {"eps": 0.5},
        {"eps": 2},
        {"bounds": (-1, 2)},
        {"bounds": "private"},
        {"mechanism": "forgy"},
        {"gamma": 0.2},
        {"clamp": False},
        {"mechanism": "laplace", "neighbours": "add-remove"},
    ],
)
def test_an_id_is_for_one_plan(changes: dict[str, Any], workspace: Path) -> None:
    dpkv.release(X, **ASKED, release_id="mine")
    with pytest.raises(UsageError, match=r"release id 'mine' .*: take a new id"):
        dpkv.release(X, **{**ASKED, **changes}, release_id="mine")
    assert charges(workspace) == 1


def test_an_id_is_for_one_table(workspace: Path) -> None:
    dpkv.release(X, **ASKED, release_id="mine")
    other = X.copy()
    other[7, 1] += 1e-12
    with pytest.raises(UsageError, match=r"release id 'mine' .*: take a new id"):
        dpkv.release(other, **ASKED, release_id="mine")
    assert charges(workspace) == 1


def test_the_same_number_may_be_written_differently(workspace: Path) -> None:
    written = (1, 1.0, "1", "1.000", Decimal("1e0"), np.float64(1))
    ends = [dpkv.release(X, **{**ASKED, "eps": eps}, release_id="mine") for eps in written]
    assert len({done.record.to_json() for done in ends}) == 1
    assert charges(workspace) == 1


def test_a_charged_release_can_be_finished_without_a_second_charge(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("power cut")

    set_budget(workspace, X, "1")
    with monkeypatch.context() as patch:
        patch.setattr(Curator, "__call__", broken)
        for _ in range(2):
            with pytest.raises(RuntimeError):
                dpkv.release(X, **ASKED, release_id="mine")
    assert charges(workspace) == 1
    with pytest.raises(BudgetError):
        dpkv.release(X, **ASKED, release_id="other")
    done = dpkv.release(X, **ASKED, release_id="mine")
    assert charges(workspace) == 1
    assert not failed(verify(done.record, workspace=workspace))


def test_a_release_that_cannot_be_kept_tells_its_id(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(kept_releases, "write_once", full)
        with pytest.raises(UsageError, match=r"No space left.*release mine is charged") as refusal:
            dpkv.release(X, **ASKED, release_id="mine")
    assert "will not charge again" in str(refusal.value)
    assert dpkv.release(X, **ASKED, release_id="mine").centers.shape == (4, 2)
    assert charges(workspace) == 1


@pytest.mark.parametrize("contents", [b"", b"{}", b"\xff\xfe", b"[1, 2"])
def test_a_damaged_kept_release_is_refused(contents: bytes, workspace: Path) -> None:
    dpkv.release(X, **ASKED, release_id="mine")
    kept_releases.release_path(workspace, "mine").write_bytes(contents)
    with pytest.raises(UsageError, match=r"mine\.json .*: (restore it|take an unaltered copy)"):
        dpkv.release(X, **ASKED, release_id="mine")
    assert kept_releases.release_path(workspace, "mine").read_bytes() == contents
    assert charges(workspace) == 1


def test_a_lost_release_is_not_drawn_again(workspace: Path) -> None:
    """Two sets of centers for one charge would be two releases."""
    dpkv.release(X, **ASKED, release_id="mine")
    kept_releases.release_path(workspace, "mine").unlink()
    with pytest.raises(UsageError, match=r"its file is gone from the workspace: restore it"):
        dpkv.release(X, **ASKED, release_id="mine")
    assert charges(workspace) == 1 and not kept_releases.release_path(workspace, "mine").exists()


def test_another_release_in_its_place_is_refused(workspace: Path) -> None:
    dpkv.release(X, **ASKED, release_id="mine")
    other = dpkv.release(X, **ASKED, release_id="other").record
    path = kept_releases.release_path(workspace, "mine")
    for posing in (other, other.model_copy(update={"release_id": "mine"})):
        path.write_text(posing.to_json(), encoding="utf-8")
        with pytest.raises(UsageError, match="restore"):
            dpkv.release(X, **ASKED, release_id="mine")
    assert charges(workspace) == 2


def test_altered_kept_centers_are_refused(workspace: Path) -> None:
    record = dpkv.release(X, **ASKED, release_id="mine").record
    elsewhere = [one.model_copy(update={"center": (0.0, 0.0)}) for one in record.clusters]
    moved = record.model_copy(update={"clusters": tuple(elsewhere)})
    kept_releases.release_path(workspace, "mine").write_text(moved.to_json(), encoding="utf-8")
    with pytest.raises(UsageError, match=r"kept with other centres \(entry 2\): restore its file"):
        dpkv.release(X, **ASKED, release_id="mine")


@pytest.mark.parametrize("bounds", [(-1, 1), "private"], ids=["given", "private"])
def test_the_charge_is_on_disk_before_the_records_are_used(
    bounds: Any, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def watched(owner: Any, name: str) -> None:
        function = getattr(owner, name)

        def watch(*given: Any, **named: Any) -> Any:
            seen.append(f"{name} after {charges(workspace)} charges")
            return function(*given, **named)

        monkeypatch.setattr(owner, name, watch)

    watched(PrivateBounds, "run")
    watched(BoxGrid, "quantise")
    watched(Curator, "__call__")
    dpkv.release(MANY, **{**ASKED, "bounds": bounds})
    in_all = charges(workspace)
    early = ["run", "__call__"] if bounds == "private" else []  # the bounds come first
    assert [moment.split()[0] for moment in seen[: len(early)]] == early
    assert {moment.split()[0] for moment in seen} >= {"quantise", "__call__"}
    for place, moment in enumerate(seen):
        due = 1 if place < len(early) else in_all
        assert moment.endswith(f"after {due} charges"), seen


def test_a_ledger_that_cannot_charge_leaves_the_records_alone(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise LedgerError("the disk is full")

    def used(*_: object) -> None:
        raise AssertionError("the records were used")

    monkeypatch.setattr(Ledger, "charge", full)
    monkeypatch.setattr(BoxGrid, "quantise", used)
    monkeypatch.setattr(Curator, "__call__", used)
    with pytest.raises(LedgerError):
        dpkv.release(X, **ASKED)
    assert not (workspace / "releases").exists()


# --- budgets ---------------------------------------------------------------------------------


def test_a_named_data_set_has_one_budget_whatever_the_array(workspace: Path) -> None:
    ledger = Ledger(workspace)
    ledger.set_budget(dataset="name:patients", label="name:patients", eps=Decimal(2))
    for records in (X, X[::-1]):
        dpkv.release(records, **ASKED, dataset="patients")
    with pytest.raises(BudgetError):
        dpkv.release(X * 0.5, **ASKED, dataset="patients")
    with pytest.raises(UsageError, match=r'dataset must be given: .* "patients"'):
        dpkv.release(X, **ASKED)
    dpkv.release(X, **ASKED, dataset="staff")
    named, other = ledger.read().accounts()
    assert (named.dataset, named.n_charges, other.n_charges) == ("name:patients", 2, 1)


def test_a_refused_release_says_what_is_missing_and_writes_nothing(workspace: Path) -> None:
    set_budget(workspace, X, "1.25")
    dpkv.release(X, **ASKED)
    kept = sorted((workspace / "releases").iterdir())
    with pytest.raises(BudgetError) as refusal:
        dpkv.release(X, **ASKED)
    error = refusal.value
    assert (error.requested, error.remaining) == (Decimal(1), Decimal("0.25"))
    assert error.difference == Decimal("0.75") and error.exit_code == 4
    for figure in ("requested eps 1,", "remaining 0.25,", "short by 0.75"):
        assert figure in str(error)
    assert sorted((workspace / "releases").iterdir()) == kept
    assert charges(workspace) == 1
    dpkv.release(X, **{**ASKED, "eps": "0.25"})  # what is left can be spent to the last bit


def test_an_add_remove_release_counts_for_its_own_relation(workspace: Path) -> None:
    set_budget(workspace, X, "0.99", neighbours="add-remove")
    asked = {**ASKED, "mechanism": "lloyd", "neighbours": "add-remove"}
    with pytest.raises(BudgetError, match=r"remaining 0\.99, short by 0\.01 \(add-remove, rows\)"):
        dpkv.release(X, **asked)
    set_budget(workspace, X, "1")
    assert dpkv.release(X, **asked).record.guarantee.eps == "1"
    assert Ledger(workspace).read().accounts()[0].remaining == 0


def test_every_data_set_has_a_budget_of_its_own(workspace: Path) -> None:
    set_budget(workspace, X, "0.5")
    other = clusters(100, seed=9)
    dpkv.release(other, **ASKED)
    with pytest.raises(BudgetError):
        dpkv.release(X, **ASKED)
    assert charges(workspace) == 1


def test_a_budget_is_spent_exactly(workspace: Path) -> None:
    set_budget(workspace, X, "0.3")
    for _ in range(3):
        dpkv.release(X, **{**ASKED, "eps": 0.1})
    with pytest.raises(BudgetError, match=r"remaining 0, short by 0\.000000001"):
        dpkv.release(X, **{**ASKED, "eps": "0.000000001"})


def test_without_a_workspace_nobody_is_charged(workspace: Path) -> None:
    done = dpkv.release(X, **ASKED, workspace=None)
    assert done.record.ledger is None and done.record.release_id is None
    assert not workspace.exists() and list(workspace.parent.iterdir()) == []
    assert [check.name for check in verify(done.record) if check.passed is None] == [
        "ledger",
        "kept copy",
        "signature",
        "vouched for",
    ]
    assert not failed(verify(done.record))


def test_a_workspace_may_be_anywhere(workspace: Path, tmp_path: Path) -> None:
    dpkv.release(X, **ASKED, workspace=tmp_path / "deep" / "down" / "here")
    assert charges(tmp_path / "deep" / "down" / "here") == 1
    assert not workspace.exists()


# --- names, cells and messages ---------------------------------------------------------------

SECRET = 0.271828
CENTRED: dict[str, Any] = {"k": 2, "eps": 1.0, "bounds": (-10, 8), "scaled": False}


def unusable() -> dict[str, Any]:
    """The same six records, of which the second and the fifth cannot be used."""
    good = [[1.0, 2.0], [1.0, 2.0], [3.0, 4.0], [5.0, -0.0], [1.0, 2.0], [7.0, 0.1]]
    nan = np.array(good)
    nan[1, 0], nan[4, 1] = np.nan, 1e30
    objects = nan.astype(object)
    objects[1, 0], objects[4, 1] = "text", None
    frame = pd.DataFrame(objects, columns=["a", "b"])
    masked = np.ma.masked_array(np.array(good), mask=np.zeros((6, 2), bool))
    masked[1, 0] = masked[4, 1] = np.ma.masked
    texts = np.array([[str(cell) for cell in row] for row in objects])
    return {
        "numbers": nan,
        "single precision": nan.astype(np.float32).astype(np.float64),
        "objects": objects,
        "a data frame": frame,
        "a masked array": masked,
        "lists": objects.tolist(),
        "text": texts,
    }


@pytest.mark.parametrize("kind", unusable())
def test_cells_that_cannot_be_used_are_filled(kind: str, workspace: Path) -> None:
    data = unusable()[kind]
    expected = unusable()["numbers"].copy()
    expected[~(np.abs(expected) < 100)] = -1.0
    if kind == "single precision":
        expected[5] = np.float32(expected[5])
    with pytest.raises(UsageError):
        dpkv.simulate(data, seed=0, **CENTRED)
    found = dpkv.simulate(data, seed=0, missing="fill:-1", **CENTRED)
    same = dpkv.simulate(expected, seed=0, **CENTRED)
    assert found.centers.tolist() == same.centers.tolist()
    assert [(one.missing, one.fill) for one in found.record.plan.table] == [("fill", -1.0)] * 2
    released = dpkv.release(data, missing="fill:-1", **CENTRED)
    assert released.record.n_records == 6
    assert not failed(verify(released.record, workspace=workspace))


def test_filling_does_not_change_whose_budget_is_charged(workspace: Path) -> None:
    data = unusable()["numbers"]
    before = data.copy()
    for value in (8, -3):  # other values are filled in; the data are the same
        dpkv.release(data, missing=f"fill:{value}", **CENTRED)
    assert len({entry.dataset for entry in charged(workspace)}) == 1
    np.testing.assert_array_equal(data, before)
    clean = np.full((6, 2), 0.5)
    dpkv.release(clean, missing="fill:-1", **CENTRED)
    dpkv.release(clean, **CENTRED)
    assert len({entry.dataset for entry in charged(workspace)}) == 2


@pytest.mark.parametrize("rule", ["drop", "fill:", "fill:x", "fill:nan", "fill:1e300", "category"])
def test_rules_for_missing_cells_that_are_none(rule: str, workspace: Path) -> None:
    with pytest.raises(UsageError, match="missing must be"):
        dpkv.release(X, k=2, eps=1.0, bounds=(-1, 1), missing=rule)
    assert charges(workspace) == 0


def test_a_record_that_a_library_took_for_names_is_not_published(workspace: Path) -> None:
    frame = pd.read_csv(io.StringIO("0.271828,0.5\n1,2\n3,4\n5,6\n"))
    for columns in (None, list(frame.columns), ["a", "0.271828"], ["a", "=b"]):
        with pytest.raises(UsageError, match="the name of column") as refused:
            dpkv.release(frame, k=1, eps=1.0, bounds=(0, 6), columns=columns)
        assert str(SECRET) not in str(refused.value)
    assert charges(workspace) == 0
    named = dpkv.release(frame, k=1, eps=1.0, bounds=(0, 6), columns=["a", "b"])
    assert named.record.columns == ("a", "b")


@pytest.mark.usefixtures("workspace")
def test_a_frame_made_of_an_array_has_no_names() -> None:
    done = dpkv.release(pd.DataFrame(X), k=1, eps=1.0, bounds=(-1, 1))
    assert done.record.columns == tuple(f"x{place}" for place in range(1, X.shape[1] + 1))


def holders() -> dict[str, Any]:
    """Things that hold a record and may be given where something else belongs."""
    pa = pytest.importorskip("pyarrow")
    columns = {"a": [SECRET, 1.0], "b": [SECRET, 1.0]}
    return {
        "pyarrow table": pa.table(columns),
        "data frame": pd.DataFrame(columns),
        "array": np.full((2, 2), SECRET),
        "list": [[SECRET, SECRET]],
        "row": (SECRET, SECRET),
        "text": f"{SECRET}\n" * 100,
    }


@pytest.mark.parametrize("kind", ["pyarrow table", "data frame", "array", "list", "row", "text"])
@pytest.mark.parametrize(
    "parameter", ["columns", "k", "eps", "bounds_share", "mechanism", "dataset", "release_id"]
)
@pytest.mark.usefixtures("workspace")
def test_a_message_shows_no_record_wherever_it_is_given(kind: str, parameter: str) -> None:
    options = {"k": 1, "eps": 1.0, "bounds": "private", "mechanism": "laplace"}
    options[parameter] = holders()[kind]
    try:
        dpkv.release(X, **options)  # type: ignore[arg-type]
    except UsageError as refused:
        assert str(SECRET) not in str(refused)
    else:  # the names of a frame are names
        assert (kind, parameter) == ("data frame", "columns")


@pytest.mark.usefixtures("workspace")
def test_a_pyarrow_table_lends_its_names_and_not_its_records() -> None:
    done = dpkv.release(holders()["pyarrow table"], k=1, eps=1.0, bounds=(0, 1))
    assert done.record.columns == ("a", "b")


# --- what a record and a release say of the run ---------------------------------------------


def test_a_record_states_the_time_of_its_charge(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not of its end: the two together would tell how long the run took."""

    class LongAgo(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime(2001, 1, 1, tzinfo=tz)

    monkeypatch.setattr(ledger_entries, "datetime", LongAgo)
    record = dpkv.release(X, **ASKED, mechanism="lloyd").record
    assert record.created == charged(workspace)[0].created == "2001-01-01T00:00:00+00:00"


@pytest.mark.usefixtures("workspace")
def test_a_record_of_no_ledger_states_when_the_run_began(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    run = Curator.__call__

    def clock() -> str:
        events.append("clock")
        return "2001-01-01T00:00:00+00:00"

    def noted(*arguments: Any) -> Any:
        events.append("records used")
        return run(*arguments)

    monkeypatch.setattr(produce, "utc_now", clock)
    monkeypatch.setattr(Curator, "__call__", noted)
    record = dpkv.release(X, **ASKED, mechanism="lloyd", workspace=None).record
    assert events[:2] == ["clock", "records used"] and "clock" not in events[1:]
    assert record.created.startswith("2001")


def test_a_release_says_whom_it_charged(workspace: Path) -> None:
    done = dpkv.release(X, **ASKED, mechanism="lloyd", dataset="people")
    assert done.charged_to is not None
    assert done.charged_to.ledger.path.resolve() == (workspace / "ledger.sqlite").resolve()
    assert done.charged_to.dataset == "name:people"
    assert "Charged to name:people in .dpkv/ledger.sqlite." in repr(done)
    free = dpkv.release(X, **ASKED, mechanism="lloyd", workspace=None)
    assert free.charged_to is None and "Charged" not in repr(free)


def test_another_relation_on_one_account_is_refused(workspace: Path) -> None:
    dpkv.release(X, **ASKED, mechanism="lloyd", neighbours="add-remove")
    with pytest.raises(UsageError, match=r"publishes the number of records.*--neighbours add-rem"):
        dpkv.release(X, **ASKED, mechanism="lloyd")
    assert charges(workspace) == 1
    dpkv.release(X, **ASKED, mechanism="lloyd", dataset="another account")


def test_a_charge_keeps_the_prices_of_its_steps(workspace: Path) -> None:
    """What an accountant composes: their sum is at most what was charged."""
    for mechanism in ("kvariates", "lloyd"):
        done = dpkv.release(X, **ASKED, mechanism=mechanism, dataset=mechanism)
        entry = Ledger(workspace).read().find(done.record.release_id or "")
        assert entry is not None and entry.unit == "row"
        prices = prices_of_entry(entry)
        assert sum(price.times for price in prices) == sum(s.times for s in done.record.steps)
        total = sum(price.amount * price.times for price in prices)
        assert Decimal("0.99") < total <= Decimal("1.000000000001")


def test_removing_the_key_does_not_reset_the_budget(workspace: Path) -> None:
    set_budget(workspace, X, "1")
    dpkv.release(X, **ASKED, mechanism="lloyd")
    (workspace / "keys" / "fingerprint.key").unlink()
    with pytest.raises(UsageError, match="is gone, and a new one would give every table"):
        dpkv.release(X, **ASKED, mechanism="lloyd")
    assert charges(workspace) == 1
