"""Releases over persons and with survey weights: what they promise, charge, refuse, never show."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpkv
from dpkv.errors import DpkvError, ParameterError, UsageError
from dpkv.ledger import Ledger
from dpkv.releases import ReleaseRecord, verify
from dpkv.releases.verify import failed
from dpkv.releases.wording import protects

RNG = np.random.default_rng(7)
N_PERSONS = 900
ROWS = RNG.integers(1, 9, N_PERSONS)
IDS = np.repeat([f"secret-{number}" for number in range(N_PERSONS)], ROWS)
HOME = np.repeat(RNG.choice([-0.6, 0.6], N_PERSONS), ROWS)
X = np.clip(HOME[:, None] + RNG.normal(0, 0.05, (len(IDS), 2)), -1, 1)
WEIGHTS = RNG.uniform(0, 3, len(IDS))
ASKED: dict[str, Any] = {"k": 2, "eps": 1, "bounds": (-1, 1), "mechanism": "synopsis"}


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(path: str = "visits.csv") -> Path:
    lines = ["patient,east,north,w"]
    lines += [
        f"{i},{x!r},{y!r},{w!r}" for i, (x, y), w in zip(IDS, X.tolist(), WEIGHTS, strict=True)
    ]
    Path(path).write_text("\n".join(lines).replace("np.float64(", "").replace(")", "") + "\n")
    return Path(path)


WAYS: dict[str, dict[str, Any]] = {
    "share": {},
    "mean": {"one_row_per_person": "mean"},
    "limit": {"rows_per_person": 2, "neighbours": "add-remove"},
    "weights": {"weight": WEIGHTS.tolist(), "most_weight": 2.5},
    "private bounds": {"bounds": "private", "eps": 4},
    "ignore": {"missing": "ignore"},
}


@pytest.mark.parametrize("way", WAYS)
def test_a_release_over_persons_says_so_and_verifies(way: str) -> None:
    done = dpkv.release(X, **{**ASKED, **WAYS[way]}, person=IDS.tolist())
    record = done.record
    assert ReleaseRecord.model_validate_json(record.to_json()) == record
    assert not failed(verify(record, workspace=Path(".dpkv")))
    assert record.guarantee.unit == "person" and record.guarantee.end_to_end
    assert "any one person" in record.summary
    assert record.n_records == (None if way == "limit" else N_PERSONS)
    assert record.spent is not None and record.spent <= float(record.plan.eps)
    assert protects(record.plan, record.guarantee) == "one person"


@pytest.mark.parametrize("way", WAYS)
def test_groups_and_their_sizes_are_those_of_persons(way: str) -> None:
    options = {**ASKED, **WAYS[way], "eps": 40}
    done = dpkv.simulate(X, **options, seed=1, person=IDS.tolist())
    assert np.abs(np.sort(done.centers[:, 0]) - [-0.6, 0.6]).max() < 0.05
    assert done.synopsis is not None
    expected = {"limit": np.minimum(ROWS, 2).sum()}
    if way == "weights":
        sums = [np.minimum(WEIGHTS[name == IDS], 2.5).mean() for name in np.unique(IDS)]
        expected["weights"] = np.sum(sums)
    wanted = pytest.approx(expected.get(way, N_PERSONS), rel=0.05)
    assert done.synopsis.weights.sum() == wanted
    assert done.record.sizes is not None
    assert sum(done.record.sizes) == wanted


@pytest.mark.parametrize("mechanism", ["kvariates", "laplace", "forgy", "gupt", "lloyd"])
def test_every_mechanism_releases_over_persons(mechanism: str) -> None:
    record = dpkv.release(X, **{**ASKED, "mechanism": mechanism}, person=IDS.tolist()).record
    assert not failed(verify(record, workspace=Path(".dpkv")))
    assert record.guarantee.unit == "person" and record.n_records == N_PERSONS


def test_ids_appear_nowhere() -> None:
    path = write()
    done = dpkv.release(path, **ASKED, header=True, person="patient", columns=["east", "north"])
    assert protects(done.record.plan, done.record.guarantee) == "one person (column patient)"
    written = [file for file in Path(".dpkv").rglob("*") if file.is_file()]
    assert written
    for file in written:
        assert b"secret-" not in file.read_bytes()
    assert "secret-" not in done.record.to_json() + repr(done)


def test_a_file_and_arrays_give_the_same() -> None:
    path = write()
    of_file = dpkv.simulate(
        path,
        **ASKED,
        header=True,
        seed=3,
        person="patient",
        columns=["east", "north"],
        weight="w",
        most_weight=2,
    )
    of_arrays = dpkv.simulate(
        X, **ASKED, seed=3, person=IDS.tolist(), weight=WEIGHTS.tolist(), most_weight=2
    )
    assert np.array_equal(of_file.centers, of_arrays.centers)


def test_what_persons_are_called_and_where_their_rows_are_changes_nothing() -> None:
    """Rows of different persons mixed, every person's own in their order; other names."""
    place = np.argsort(RNG.random(len(IDS)), kind="stable")
    order = np.empty(len(IDS), np.int64)
    for name in np.unique(IDS):
        order[np.sort(place[name == IDS])] = np.flatnonzero(name == IDS)
    first = dpkv.simulate(X, **ASKED, seed=1, person=IDS.tolist())
    other = dpkv.simulate(X[order], **ASKED, seed=1, person=[hash(i) for i in IDS[order]])
    assert np.array_equal(first.centers, other.centers)


def test_a_person_with_many_rows_counts_once() -> None:
    """One person with as many rows as all others, far from them, moves no center there."""
    crowd = np.full((len(X), 2), 0.99)
    rows, names = np.concatenate([X, crowd]), [*IDS.tolist(), *["one"] * len(X)]
    found = dpkv.simulate(rows, **{**ASKED, "eps": 10}, seed=1, person=names).centers
    assert np.abs(np.sort(found[:, 0]) - [-0.6, 0.6]).max() < 0.1
    alone = dpkv.simulate(rows, **{**ASKED, "eps": 10}, seed=1).centers
    assert np.abs(alone - 0.99).max(axis=1).min() < 0.2


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "rows without persons": ({"rows_per_person": 2}, "rows_per_person must be left out"),
    "mean without persons": ({"one_row_per_person": "mean"}, "one_row_per_person must be left out"),
    "another rule": (
        {"person": IDS.tolist(), "one_row_per_person": "median"},
        "one_row_per_person must be one of 'mean'",
    ),
    "both": (
        {"person": IDS.tolist(), "one_row_per_person": "mean", "rows_per_person": 2},
        "rows_per_person must be left out with one_row_per_person",
    ),
    "public number of rows": (
        {"person": IDS.tolist(), "rows_per_person": 2},
        "rows_per_person must be given with neighbours 'add-remove'",
    ),
    "weight without bound": ({"weight": WEIGHTS.tolist()}, "most_weight must be given"),
    "bound without weight": ({"most_weight": 2.0}, "most_weight must be given with a weight"),
    "bound of zero": ({"weight": WEIGHTS.tolist(), "most_weight": 0}, "weight must be bounded"),
    "few ids": ({"person": ["a", "b"]}, "person must be one value per row"),
    "few weights": ({"weight": [1.0], "most_weight": 2}, "weight must be one value per row"),
    "a name for an array": ({"person": "patient"}, "person must be one value per row"),
    "weights by theorem A": (
        {"weight": WEIGHTS.tolist(), "most_weight": 2, "mechanism": "kvariates"},
        "mechanism must be 'laplace' or",
    ),
    "ignored rows by theorem A": (
        {"missing": "ignore", "mechanism": "kvariates"},
        "mechanism must be 'laplace' or",
    ),
    "published noise": (
        {"person": IDS.tolist(), "mechanism": "kvariates", "calibration": "published"},
        "calibration must be 'certified'",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused_in_one_sentence(name: str) -> None:
    options, sentence = REFUSED[name]
    with pytest.raises(DpkvError) as refusal:
        dpkv.release(X, **{**ASKED, **options})
    assert sentence in str(refusal.value)
    assert "secret" not in str(refusal.value)
    assert not Path(".dpkv/ledger.sqlite").exists()


def test_refusals_by_theorem_a_do_not_depend_on_the_data() -> None:
    """No weight is zero and no cell is missing here: the public rule decides."""
    ones = [1.0] * len(X)
    with pytest.raises(ParameterError, match="mechanism must be"):
        dpkv.release(X, **{**ASKED, "mechanism": "kvariates"}, weight=ones, most_weight=1)


def test_an_account_is_for_one_unit() -> None:
    dpkv.release(X, **ASKED, dataset="clinic", person=IDS.tolist())
    with pytest.raises(UsageError, match="does not add up with it: release for the same unit"):
        dpkv.release(X, **ASKED, dataset="clinic")
    account = Ledger(Path(".dpkv")).read().account("name:clinic")
    assert (account.unit, account.spent) == ("person", Decimal(1))


def test_a_budget_may_say_whose_it_is() -> None:
    ledger = Ledger(Path(".dpkv"))
    ledger.prepare()
    ledger.set_budget(dataset="name:t", label="t", eps=Decimal(2), unit="person")
    with pytest.raises(UsageError, match="does not add up with it"):
        dpkv.release(X, **ASKED, dataset="t")
    dpkv.release(X, **ASKED, dataset="t", person=IDS.tolist())
