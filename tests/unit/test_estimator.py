"""``dpkv.PrivateKMeans``: releases behind scikit-learn's interface."""

from __future__ import annotations

import inspect
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

import dpkv
from dpkv import PrivateKMeans
from dpkv.errors import BudgetError, UsageError
from dpkv.ledger import Entry, Ledger
from dpkv.mechanisms import MECHANISMS
from dpkv.releases import verify
from dpkv.releases.verify import failed
from dpkv.releases.wording import explain
from dpkv.tables.schema import TableSchema

BOUNDED: dict[str, Any] = {"n_clusters": 4, "epsilon": 1.0, "bounds": (-1, 1)}

FORBIDDEN_BY_PRIVACY = {
    "check_clustering": "reads labels_: exact labels of the training records were not paid for",
    "check_sample_weight_equivalence_on_dense_data": "wants the same of two fits, likewise",
    "check_fit_idempotent": "fits twice and wants the same: every release draws fresh noise",
}
WEIGHT_CHECKS = ("pandas_series", "not_an_array", "list", "shape", "not_overwritten")
UNPROVED = {
    f"check_sample_weights_{what}": "the proof of kvariates needs rows of equal weight"
    for what in WEIGHT_CHECKS
}
# With these the noise is a few thousand grid steps, well within the bounds: two fits that agree,
# which the strict xfail would report, have a chance below 1e-9.
OFFICIAL = parametrize_with_checks(
    [
        PrivateKMeans(
            n_clusters=2,
            epsilon=50.0,
            bounds=(-300, 300),
            mechanism=name,
            most_weight=2.0,
            workspace=None,
        )
        for name in ("kvariates", "lloyd")
    ],
    expected_failed_checks=lambda model: (
        FORBIDDEN_BY_PRIVACY | (UNPROVED if model.mechanism == "kvariates" else {})
    ),
)


@pytest.mark.parametrize(OFFICIAL.args[0], list(OFFICIAL.args[1]), **OFFICIAL.kwargs)
def test_scikit_learns_own_checks(estimator: PrivateKMeans, check: Any) -> None:
    check(estimator)


@pytest.fixture
def records() -> np.ndarray:
    return np.random.default_rng(0).uniform(-0.9, 0.9, (120, 2))


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / ".dpkv"


def charged(workspace: Path) -> list[Entry]:
    return [entry for entry in Ledger(workspace).read().entries if entry.kind == "charge"]


# --- fitting ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_fit_is_a_release(mechanism: str, records: np.ndarray, workspace: Path) -> None:
    model = PrivateKMeans(**BOUNDED, mechanism=mechanism).fit(records)
    assert model.cluster_centers_.shape == (4, 2)
    assert (np.abs(model.cluster_centers_) <= 1.0).all()
    assert model.privacy_.mechanism["name"] == mechanism
    assert model.privacy_.guarantee.eps == "1"
    assert model.cluster_centers_.tolist() == [list(center) for center in model.privacy_.centers]
    (entry,) = charged(workspace)
    assert entry.eps == 1 and entry.release_id == model.privacy_.release_id
    assert not failed(verify(model.privacy_, workspace=workspace))


def test_every_fit_spends_again(records: np.ndarray, workspace: Path) -> None:
    # Hardly a center is clamped at this epsilon: a chance below 1e-9 that two fits agree.
    model = PrivateKMeans(**{**BOUNDED, "epsilon": 100})
    first = model.fit(records).cluster_centers_
    assert model.fit(records).cluster_centers_.tolist() != first.tolist()
    (account,) = Ledger(workspace).read().accounts()
    assert account.spent == 200
    Ledger(workspace).set_budget(dataset=account.dataset, label="array", eps=account.spent)
    before = model.cluster_centers_
    with pytest.raises(BudgetError, match="requested eps 100, remaining 0, short by 100"):
        model.fit(records)
    assert model.cluster_centers_ is before, "a refused fit changes nothing"


def test_the_estimator_shares_the_budget_of_release(records: np.ndarray, workspace: Path) -> None:
    PrivateKMeans(**BOUNDED).fit(records)
    PrivateKMeans(**BOUNDED).fit(pd.DataFrame(records, columns=["a", "b"]))
    dpkv.release(records, k=4, eps=1.0, bounds=(-1, 1))
    (account,) = Ledger(workspace).read().accounts()
    assert account.n_charges == 3


def test_fits_of_parts_can_share_a_budget(records: np.ndarray, workspace: Path) -> None:
    Ledger(workspace).set_budget(dataset="name:people", label="people", eps=Decimal(2))
    model = PrivateKMeans(**BOUNDED, dataset="people")
    for part in (records[:60], records[60:]):
        model.fit(part)
    with pytest.raises(BudgetError):
        model.fit(records)


def test_another_workspace_or_none(records: np.ndarray, workspace: Path, tmp_path: Path) -> None:
    PrivateKMeans(**BOUNDED, workspace=tmp_path / "elsewhere").fit(records)
    assert len(charged(tmp_path / "elsewhere")) == 1
    model = PrivateKMeans(**BOUNDED, workspace=None).fit(records)
    assert model.privacy_.ledger is None
    assert not workspace.exists()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"bounds": None}, "bounds must be low and high"),
        ({"bounds": (1, -1)}, "bounds of column 1 must be low,high in this order"),
        ({"bounds": [(0, 1)] * 3}, "bounds must be one low,high pair"),
        ({"epsilon": 0}, "eps"),
        ({"epsilon": float("nan")}, "eps"),
        ({"n_clusters": 0}, "must be a whole number of at least 1. Got 0"),
        ({"n_clusters": 121}, "must be at most the number of records, 120. Got 121"),
        ({"mechanism": "magic"}, "mechanism must be one of"),
        ({"neighbours": "both"}, "neighbours must be one of"),
        ({"gamma": 0}, "gamma must be greater than 0"),
        ({"iterations": 3}, "iterations must be left out"),
        ({"bounds": "private", "bounds_share": 1}, "bounds_share must be between 0 and 1"),
    ],
)
def test_bad_parameters_are_refused_by_fit(
    changes: dict[str, Any], sentence: str, records: np.ndarray, workspace: Path
) -> None:
    model = PrivateKMeans(**{**BOUNDED, **changes})  # storing them is no trouble
    with pytest.raises(UsageError) as refusal:
        model.fit(records)
    assert sentence in str(refusal.value)
    assert not hasattr(model, "cluster_centers_")
    assert not Ledger(workspace).read().entries


def test_the_default_has_no_bounds(records: np.ndarray, workspace: Path) -> None:
    with pytest.raises(UsageError, match=r"^bounds must be .* They must be public"):
        PrivateKMeans().fit(records)
    assert not workspace.exists()


def test_private_bounds_and_add_remove(records: np.ndarray) -> None:
    model = PrivateKMeans(
        2, 100.0, bounds="private", mechanism="lloyd", neighbours="add-remove", workspace=None
    ).fit(records)
    assert model.privacy_.bounds.source == "private" and model.privacy_.n_records is None


def test_parameters_reach_the_release(records: np.ndarray) -> None:
    model = PrivateKMeans(
        2, "0.50", bounds=(-2, 2), mechanism="lloyd", iterations=4, scaled=False, workspace=None
    ).fit(records)
    plan = model.privacy_.plan
    assert (plan.k, plan.eps, plan.iterations, plan.scaled) == (2, "0.5", 4, False)
    plan = PrivateKMeans(2, 1, bounds=(-2, 2), gamma=0.3, workspace=None).fit(records).privacy_.plan
    assert plan.gamma == 0.3


# --- persons and weights ----------------------------------------------------------------------

OWNERS = np.repeat(np.arange(40), 3)
WEIGHTS = np.arange(120) % 3


def test_fit_is_told_whose_rows_they_are(records: np.ndarray, workspace: Path) -> None:
    model = PrivateKMeans(**BOUNDED, most_weight=2.0)
    said = model.fit(records, person=OWNERS, sample_weight=WEIGHTS).privacy_
    assert said.guarantee.unit == "person" and said.n_records == 40
    assert (said.plan.unit.persons, said.plan.unit.most_weight) == ("share", 2.0)
    assert not failed(verify(said, workspace=workspace))
    other = PrivateKMeans(**BOUNDED, one_row_per_person="mean", workspace=None)
    assert other.fit(records, person=OWNERS.astype(str)).privacy_.plan.unit.persons == "mean"
    limited = PrivateKMeans(
        2, 1.0, bounds=(-1, 1), neighbours="add-remove", rows_per_person=2, workspace=None
    )
    assert limited.fit(records, person=OWNERS).privacy_.plan.unit.rows_per_person == 2
    held = pickle.dumps(model)
    assert OWNERS.tobytes() not in held and WEIGHTS.tobytes() not in held


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_may_say_whose_rows_they_are(
    library: str, records: np.ndarray, workspace: Path
) -> None:
    make = pd.DataFrame if library == "pandas" else pytest.importorskip("polars").DataFrame
    features = {"a": records[:, 0], "b": records[:, 1]}
    names = [f"patient {number}" for number in OWNERS]
    table = make({"who": names, **features, "weight": WEIGHTS})
    model = PrivateKMeans(**BOUNDED, most_weight=2.0)
    labels = model.fit_predict(table, person="who", sample_weight="weight")
    assert model.feature_names_in_.tolist() == ["a", "b"] and model.privacy_.n_records == 40
    assert model.privacy_.plan.unit.person_column == "who"
    np.testing.assert_array_equal(labels, model.predict(make(features)))
    options: dict[str, Any] = {"k": 4, "eps": 1.0, "bounds": (-1, 1)}
    dpkv.release(table, **options, person="who", weight="weight", most_weight=2.0)
    (account,) = Ledger(workspace).read().accounts()
    assert (account.n_charges, account.unit) == (2, "person")
    beside = dpkv.release(make(features), **options, person=OWNERS, workspace=None)
    assert beside.record.n_records == 40 and beside.record.plan.unit.person_column is None


def test_a_schema_says_whose_rows_they_are(records: np.ndarray) -> None:
    bounded = {"type": "number", "constraints": {"minimum": -1, "maximum": 1}}
    fields = [{"name": "who", "type": "string", "dpkv": {"role": "person"}}]
    schema = TableSchema.model_validate(
        {"fields": [*fields, *({"name": name, **bounded} for name in "ab")]}
    )
    table = pd.DataFrame(records, columns=["a", "b"]).assign(who=[f"p{n}" for n in OWNERS])
    model = PrivateKMeans(4, 1.0, schema=schema, workspace=None).fit(table)
    assert model.privacy_.n_records == 40 and model.privacy_.guarantee.unit == "person"
    assert model.predict(table).shape == (120,)


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ({"person": "who"}, 'X must be a data frame with the column "who"'),
        ({"person": [1, 2]}, "person must be one value per row"),
        ({"sample_weight": WEIGHTS}, "most_weight must be given with a weight"),
    ],
)
def test_what_fit_is_told_must_fit(
    told: dict[str, Any], sentence: str, records: np.ndarray, workspace: Path
) -> None:
    with pytest.raises(UsageError, match=sentence):
        PrivateKMeans(**BOUNDED).fit(records, **told)
    assert not Ledger(workspace).read().entries


def test_in_a_pipeline_persons_are_for_the_last_step(records: np.ndarray) -> None:
    pipeline = make_pipeline(FunctionTransformer(), PrivateKMeans(**BOUNDED, workspace=None))
    pipeline.fit(records, privatekmeans__person=OWNERS)
    assert pipeline[-1].privacy_.guarantee.unit == "person"


# --- what is left behind ----------------------------------------------------------------------


def test_nothing_of_the_training_records_is_left_behind(records: np.ndarray) -> None:
    model = PrivateKMeans(**BOUNDED, workspace=None)
    labels = model.fit_predict(records)
    assert labels.shape == (len(records),)
    for name in ("labels_", "inertia_", "n_iter_", "sample_weight_"):
        assert not hasattr(model, name)
    left = {name: value for name, value in vars(model).items() if name.endswith("_")}
    assert set(left) == {"cluster_centers_", "privacy_", "n_features_in_"}
    assert all(np.size(value) < len(records) for value in left.values())
    held = pickle.dumps(model)
    assert records[0].tobytes() not in held and labels.tobytes() not in held


def test_there_is_no_seed() -> None:
    names = set(inspect.signature(PrivateKMeans).parameters)
    assert not names & {"random_state", "seed", "rng"}


def test_clone_and_pickle(records: np.ndarray) -> None:
    model = PrivateKMeans(**BOUNDED, mechanism="forgy", workspace=None).fit(records)
    twin = clone(model)
    assert twin.get_params() == model.get_params() and not hasattr(twin, "cluster_centers_")
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(records), model.predict(records))
    assert again.privacy_ == model.privacy_
    assert PrivateKMeans().set_params(**model.get_params()).get_params() == model.get_params()


# --- predicting -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_labels_and_distances_are_those_of_the_released_centers(
    dtype: type, records: np.ndarray
) -> None:
    table = records.astype(dtype)
    model = PrivateKMeans(**{**BOUNDED, "epsilon": 1000.0}, workspace=None).fit(table)
    gaps = np.linalg.norm(table[:, None].astype(float) - model.cluster_centers_, axis=2)
    distances = model.transform(table)
    assert distances.dtype == dtype and distances.shape == (len(records), 4)
    np.testing.assert_allclose(distances, gaps, rtol=1e-5)
    labels = model.predict(table)
    assert labels.dtype.kind == "i"
    chosen = gaps[np.arange(len(labels)), labels]
    np.testing.assert_allclose(chosen, gaps.min(axis=1), rtol=1e-5)


def test_fitting_lists_and_read_only_maps(records: np.ndarray, tmp_path: Path) -> None:
    """What check_clustering would look at, but for labels_."""
    np.save(tmp_path / "records.npy", records)
    mapped = np.load(tmp_path / "records.npy", mmap_mode="r")
    for table in (records.tolist(), mapped, np.asfortranarray(records), records[::-1]):
        model = PrivateKMeans(**BOUNDED, workspace=None)
        labels = model.fit_predict(table)
        assert set(labels) <= {0, 1, 2, 3} and labels.shape == (len(records),)
        np.testing.assert_array_equal(labels, model.predict(table))


def test_an_unfitted_model_says_so(records: np.ndarray) -> None:
    for method in ("predict", "transform"):
        with pytest.raises(NotFittedError):
            getattr(PrivateKMeans(**BOUNDED), method)(records)
    with pytest.raises(NotFittedError):
        PrivateKMeans(**BOUNDED).get_feature_names_out()


def test_other_columns_are_refused(records: np.ndarray) -> None:
    model = PrivateKMeans(**BOUNDED, workspace=None).fit(records)
    with pytest.raises(ValueError, match="3 features"):
        model.predict(np.zeros((2, 3)))


# --- pandas and pipelines ---------------------------------------------------------------------


def test_pandas_in_and_out(records: np.ndarray) -> None:
    table = pd.DataFrame(records, columns=["east", "north"])
    bounds = {"east": (-1, 1), "north": (-2, 2)}
    model = PrivateKMeans(3, 1.0, bounds=bounds, workspace=None).set_output(transform="pandas")
    distances = model.fit(table).transform(table)
    assert isinstance(distances, pd.DataFrame)
    assert list(distances.columns) == ["privatekmeans0", "privatekmeans1", "privatekmeans2"]
    assert model.get_feature_names_out().tolist() == list(distances.columns)
    assert model.feature_names_in_.tolist() == ["east", "north"]
    assert model.privacy_.columns == ("east", "north")
    assert model.privacy_.bounds.domain["upper"] == [1.0, 2.0]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(table[["north", "east"]])


def test_in_a_pipeline(records: np.ndarray, workspace: Path) -> None:
    halved = FunctionTransformer(lambda table: table / 2, feature_names_out="one-to-one")
    pipeline = make_pipeline(halved, PrivateKMeans(3, 1.0, bounds=(-0.5, 0.5)))
    table = pd.DataFrame(records, columns=["east", "north"])
    labels = pipeline.fit_predict(table)
    assert labels.shape == (len(records),)
    model = pipeline[-1]
    assert (np.abs(model.cluster_centers_) <= 0.5).all()
    assert model.privacy_.columns == ("east", "north")
    assert "earlier-steps-not-fitted" in model.privacy_.guarantee.assumptions
    assert "dpkv.PublicScaler" in " ".join(explain(model.privacy_).assumptions)
    direct = dpkv.release(records, k=3, eps=1.0, bounds=(-1, 1), workspace=None)
    assert "earlier-steps-not-fitted" not in direct.record.guarantee.assumptions
    np.testing.assert_array_equal(pipeline.predict(table), labels)
    assert pipeline.transform(table).shape == (len(records), 3)
    assert pipeline.get_feature_names_out().tolist() == [
        "privatekmeans0",
        "privatekmeans1",
        "privatekmeans2",
    ]
    assert len(charged(workspace)) == 1
    clone(pipeline).set_params(privatekmeans__n_clusters=2).fit(table)
    assert len(charged(workspace)) == 2


@pytest.mark.usefixtures("workspace")
def test_cells_that_cannot_be_used_are_refused_or_filled(records: np.ndarray) -> None:
    frame = pd.DataFrame(records, columns=["a", "b"]).astype(object)
    frame.iloc[3, 0], frame.iloc[5, 1] = "text", None
    for data in (frame, frame.to_numpy(), np.where(np.arange(240).reshape(120, 2) == 7, np.nan, 0)):
        with pytest.raises(ValueError):
            PrivateKMeans(**BOUNDED).fit(data)
        model = PrivateKMeans(**BOUNDED, missing="fill:0").fit(data)
        assert {one.missing for one in model.privacy_.plan.table} == {"fill"}
        assert model.privacy_.n_records == 120
    assert model.predict(records).shape == (120,)
    assert model.get_params()["missing"] == "fill:0"


@pytest.mark.parametrize(
    "data",
    [[["secretcell", 1.0]], [0.271828, 1.0], [[0.271828 + 1j, 1.0]], 0.271828],
    ids=["text", "one row", "complex", "a number"],
)
@pytest.mark.parametrize("method", ["fit", "predict", "transform"])
@pytest.mark.usefixtures("workspace")
def test_a_refusal_shows_no_record(data: Any, method: str, records: np.ndarray) -> None:
    model = PrivateKMeans(**BOUNDED).fit(records)
    with pytest.raises((TypeError, ValueError)) as refused:
        getattr(model, method)(np.array(data, dtype=None))
    assert "secretcell" not in str(refused.value) and "0.27" not in str(refused.value)
    assert refused.value.__cause__ is None and refused.value.__context__ is None
