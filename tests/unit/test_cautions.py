"""What is said before a charge, from public facts alone, and what records take for granted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpkv
from dpkv.domain import Domain
from dpkv.mechanisms import MECHANISMS, Neighbours
from dpkv.releases import Plan, settle
from dpkv.releases.cautions import cautions, cautions_about_table
from dpkv.releases.guarantee import not_protected
from dpkv.releases.inputs import open_input
from dpkv.releases.plan import BoundsSource
from dpkv.releases.preparation import prepare_release
from dpkv.releases.request import Request
from dpkv.releases.wording import NOT_PROTECTED
from dpkv.tables.facts import Missing, numeric_facts
from dpkv.tables.schema import TableSchema

ADD_REMOVE = [name for name, kind in MECHANISMS.items() if Neighbours.ADD_REMOVE in kind.relations]
BOX = Domain.bounded((-1, 1), 2)


def plan(**changes: Any) -> Plan:
    asked = {"k": 2, "eps": 1, "bounds": "given", "domain": BOX, "columns": ["a", "b"]}
    return Plan.of(**{**asked, "mechanism": "synopsis", **changes})  # type: ignore[arg-type]


def said(n_records: int, **changes: Any) -> str:
    return " / ".join(cautions(settle(plan(**changes), n_records)))


def test_an_ordinary_release_is_not_warned_of() -> None:
    assert said(100_000) == said(100_000, neighbours="add-remove") == said(100_000, eps=10) == ""


def test_a_large_eps() -> None:
    assert said(100_000, eps="10.1").startswith("eps = 10.1 is above 10, which promises next to")
    assert "e^11 = 5.987e+04" in said(100_000, eps=11)
    assert "a factor of e^1000" in said(100_000, eps=1000) and "inf" not in said(100_000, eps=1000)


def test_few_records_where_their_number_is_public() -> None:
    assert "fewer than 100 records" in said(99)
    assert "fewer than 100 records" not in said(100)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_an_eps_at_which_nothing_is_predicted(mechanism: str) -> None:
    told = said(1000, eps="0.0001", mechanism=mechanism)
    assert f"--mechanism {mechanism} is predicted to give centres that are no better" in told
    assert said(10**9, eps="10", mechanism=mechanism, k=1) == ""


@pytest.mark.parametrize("mechanism", ADD_REMOVE)
def test_a_private_number_of_records_is_not_looked_at(mechanism: str) -> None:
    for eps in ("0.0001", "1", "11"):
        asked = {"mechanism": mechanism, "neighbours": "add-remove", "eps": eps}
        assert len({said(n_records, **asked) for n_records in (1, 99, 100, 10**6)}) == 1


@pytest.mark.parametrize("bounds", ["private", "data"])
def test_bounds_that_are_not_known_yet(bounds: BoundsSource) -> None:
    assert said(100_000, bounds=bounds, domain=None) == ""


def test_the_published_noise_is_the_datas_and_not_looked_at() -> None:
    asked = plan(mechanism="kvariates", calibration="published", eps="0.0001")
    published = settle(asked.model_copy(update={"eps_tilde": 1e-4}), 1000)
    assert published.mechanism.is_hopeless(1000) and not list(cautions(published))


# --- what records take for granted ------------------------------------------------------------


def assumed(**changes: Any) -> str:
    asked: dict[str, Any] = {"k": 2, "eps": 1.0, "bounds": (-1, 1), "mechanism": "lloyd"}
    records = np.zeros((200, 2))
    return "\n".join(
        dpkv.simulate(records, **{**asked, **changes}, seed=0).record.explanation.assumptions
    )


def test_every_record_says_what_its_promise_takes_for_granted() -> None:
    for relation in ("replace-one", "add-remove"):
        text = assumed(neighbours=relation)
        for words in (
            "a person with several rows is protected for one of them",
            "k, mechanism, gamma, columns and all other settings were chosen without looking",
            "about tables that the reader accepts: every value is a finite number of at most 2^53",
            "nor how long the release took or how much memory it used",
            "a ledger keeps the sum of one account in one workspace",
            "no add-remove guarantee for the same table survives that",
            "fingerprint key stays secret",
        ):
            assert words in text


def test_what_a_release_tells_everyone() -> None:
    told = not_protected(plan())
    assert {"record-count", "time-and-memory", "all-rows-usable"} <= set(told)
    assert "record-count" not in not_protected(plan(neighbours="add-remove"))
    filled = not_protected(plan(table=numeric_facts(["a", "b"], missing=Missing("fill", 0.0))))
    assert "all-rows-usable" not in filled
    assert NOT_PROTECTED["record-count"] == "the number of records"


def test_a_power_that_four_digits_do_not_tell_from_one_is_left_as_it_is() -> None:
    records = np.random.default_rng(0).uniform(-1, 1, (50, 2))
    for eps, shown in ((0.001, "e^0.001 = 1.001."), (0.0001, "at most e^0.0001.")):
        done = dpkv.release(records, k=2, eps=eps, bounds=(-1, 1), workspace=None)
        assert shown in done.record.summary


def test_a_power_beyond_floats_is_left_as_it_is() -> None:
    records = np.random.default_rng(0).uniform(-1, 1, (50, 2))
    for eps, shown in ((1, "e^1 = 2.718."), (699, "e^699 = "), (1000, "at most e^1000.")):
        done = dpkv.release(records, k=2, eps=eps, bounds=(-1, 1), workspace=None)
        assert shown in done.record.summary and "inf" not in done.record.summary


def prepared(**asked):
    """Return a table of two columns, described by a schema unless told otherwise, as prepared."""
    fields = [
        {"name": name, "type": "number", "constraints": {"minimum": low, "maximum": high}}
        for name, low, high in (("age", 0, 110), ("bmi", 10, 60))
    ]
    schema = TableSchema.model_validate({"fields": fields})
    request = Request(**{"k": 2, "eps": 1, "bounds": None, "schema": schema, **asked})
    frame = pd.DataFrame({"age": [20.0, 30.0, 40.0], "bmi": [20.0, 25.0, 30.0]})
    return prepare_release(request, open_input(frame, request, "."))


def test_one_pair_of_bounds_for_columns_that_the_schema_tells_apart_is_pointed_out():
    told = " / ".join(cautions_about_table(prepared(bounds=(0, 200))))
    assert "one pair of bounds, 0 to 200" in told and "age 0 to 110" in told
    own = {"age": (0, 100), "bmi": (10, 50)}
    for asked in ({}, {"bounds": own}, {"bounds": (0, 200), "schema": None}):
        assert "pair of bounds" not in " / ".join(cautions_about_table(prepared(**asked)))


def test_rows_are_not_persons_where_nobody_named_them():
    (told,) = cautions_about_table(prepared())
    assert told.startswith("this protects one row, not one person")
    assert not list(cautions_about_table(prepared(person=["a", "b", "c"])))
