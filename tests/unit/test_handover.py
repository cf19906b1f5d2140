"""Hand-over formats: what registries, regulators and programs get is what the record says."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from support.registry_fields import FIELDS, faults_of, flat

import dpkv
from dpkv.errors import ParameterError, UsageError
from dpkv.releases import ReleaseRecord
from dpkv.releases.handover import FORMATS, OPEN, export
from dpkv.releases.handover.checklist import checklist
from dpkv.releases.handover.marked_up import as_code
from dpkv.releases.handover.python_call import NOT_IN_RECORDS, request_values
from dpkv.releases.handover.registry import entry
from dpkv.releases.handover.yaml_text import yaml_text
from dpkv.releases.request import Request

RNG = np.random.default_rng(1)
N = 200
VALUES = RNG.uniform(-1, 1, (N, 2)).round(3)
WEIGHTS = RNG.uniform(0, 2, N).round(3)
TEXTS = RNG.choice(["north", "south", ""], N)
ASKED: dict[str, Any] = {"k": 2, "eps": 1, "bounds": (-1, 1), "columns": ["x", "y"]}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table, and a schema that is not beside it."""
    folder = tmp_path_factory.mktemp("handover")
    rows = [
        f"{x},{y},p{i // 2},{w},{text},{'true' if i % 3 else 'false'}"
        for i, ((x, y), w, text) in enumerate(zip(VALUES, WEIGHTS, TEXTS, strict=True))
    ]
    (folder / "table.csv").write_text("x,y,who,w,side,flag\n" + "\n".join(rows) + "\n")
    (folder / "facts.json").write_text(json.dumps(SCHEMA))
    return folder


SCHEMA = {
    "fields": [
        {"name": "x", "type": "number", "constraints": {"minimum": -1, "maximum": 1},
         "dpkv": {"influence": 2.0, "missing": "fill:0.25"}},
        {"name": "side", "type": "string", "constraints": {"enum": ["north", "south"]},
         "dpkv": {"missing": "category"}},
        {"name": "flag", "type": "boolean"},
        {"name": "who", "type": "string", "dpkv": {"role": "person"}},
        {"name": "w", "type": "number", "constraints": {"maximum": 2}, "dpkv": {"role": "weight"}},
    ]
}  # fmt: skip
SYNOPSIS = {**ASKED, "mechanism": "synopsis"}
PLANS: dict[str, dict[str, Any]] = {
    "auto": ASKED,
    "range of k": {**SYNOPSIS, "k": (2, 5)},
    "windows": {**ASKED, "mechanism": "kvariates", "density": "window", "gamma": 0.25},
    "lloyd": {**ASKED, "mechanism": "lloyd", "iterations": 2, "clamp": False},
    "ball": {**ASKED, "bounds": dpkv.L1Ball((0.0, 0.25), 1.5), "mechanism": "kvariates"},
    "unscaled": {**ASKED, "bounds": [(-1, 1), (-2.5, 1)], "scaled": False, "mechanism": "laplace"},
    "private bounds": {**SYNOPSIS, "eps": 8, "bounds": "private", "bounds_share": 0.2},
    "data bounds": {**SYNOPSIS, "bounds": "data"},
    "published": {**ASKED, "mechanism": "kvariates", "calibration": "published"},
    "persons": {**SYNOPSIS, "person": "who"},
    "mean of persons": {**SYNOPSIS, "person": "who", "one_row_per_person": "mean"},
    "few rows": {**SYNOPSIS, "person": "who", "rows_per_person": 1, "neighbours": "add-remove"},
    "weights": {
        **SYNOPSIS, "weight": "w", "most_weight": 2.0, "missing": "ignore",
    },
    "filled": {**ASKED, "mechanism": "forgy", "missing": "fill:0.1"},
    "schema": {"k": 3, "eps": "0.3", "bounds": None, "schema": "facts.json"},
}  # fmt: skip


_made: dict[str, ReleaseRecord] = {}


def make(home: Path, plan: str, monkeypatch: pytest.MonkeyPatch) -> ReleaseRecord:
    """Return a record by a plan, made once."""
    monkeypatch.chdir(home)
    if plan not in _made:
        _made[plan] = dpkv.release("table.csv", workspace=None, header=True, **PLANS[plan]).record
    return _made[plan]


# -- the call --------------------------------------------------------------------------------------


def rerun(text: str, monkeypatch: pytest.MonkeyPatch) -> ReleaseRecord:
    """Run an exported program, with no ledger and no files, and return the record it makes."""
    made: list[dpkv.Release] = []

    def release(*arguments: Any, **options: Any) -> dpkv.Release:
        made.append(original(*arguments, workspace=None, **options))
        return made[-1]

    original = dpkv.release
    monkeypatch.setattr(dpkv, "release", release)
    monkeypatch.setattr(dpkv.Release, "write", lambda *_: None)
    told = text.replace("HEADER = None", "HEADER = True")  # how it is spelled no record says
    exec(compile(told, "repeat.py", "exec"), {})
    return made[0].record


@pytest.mark.parametrize("plan", PLANS)
def test_the_call_repeats_the_plan(plan: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = make(home, plan, monkeypatch)
    again = rerun(export(record, "python").text, monkeypatch)
    chosen = {"chosen": None, "schema_digest": None}  # the call names what was chosen
    if plan == "published":
        assert again.plan.eps_tilde == record.plan.eps_tilde
    assert again.plan.model_copy(update=chosen) == record.plan.model_copy(update=chosen)
    assert again.mechanism == record.mechanism
    assert again.guarantee == record.guarantee


def test_another_plan_would_be_seen(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = make(home, "windows", monkeypatch)
    text = export(record, "python").text
    again = rerun(text.replace("gamma=0.25", "gamma=0.5"), monkeypatch)
    assert again.plan.gamma != record.plan.gamma


def test_the_call_knows_every_option_of_a_request(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = request_values(make(home, "auto", monkeypatch).plan, has_schema=False)
    assert {*values, *NOT_IN_RECORDS} == {one.name for one in fields(Request)}


def test_the_call_of_a_simulation_asks_for_a_seed() -> None:
    record = dpkv.simulate(VALUES, k=2, eps=1, bounds=(-1, 1), seed=5).record
    text = export(record, "python").text
    assert "dpkv.simulate(" in text and "SEED = ..." in text and "seed=SEED" in text
    assert "nothing is charged" in text and "=5" not in text


def test_the_call_asks_for_ids_that_came_as_values() -> None:
    options = {**ASKED, "mechanism": "synopsis", "workspace": None}
    made = dpkv.release(VALUES, person=[f"secret{i // 2}" for i in range(N)], **options)
    text = export(made.record, "python").text
    assert "PERSONS = ..." in text and "person=PERSONS" in text and "secret" not in text


# -- the registry ----------------------------------------------------------------------------------

PEOPLE_SAY = {
    "deployment.basic.data_curators.data_curator_type",
    "deployment.basic.data_product_sector",
    "deployment.deployment_model.data_source_type",
}
"""Enumerated fields that no record can fill in: the registry refuses an entry without them."""
PRIVATE = [name for name in PLANS if name not in ("data bounds", "published")]


@pytest.mark.parametrize("plan", PRIVATE)
def test_an_entry_has_the_registrys_fields(
    plan: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = make(home, plan, monkeypatch)
    made = export(record, "registry")
    read = yaml.safe_load(made.text)
    assert set(faults_of(read)) == PEOPLE_SAY
    given = dict(flat(read))
    named = {name for name, field in FIELDS.items() if field.tier or field.required}
    assert named <= set(given)
    assert all(given.values())
    parameters = read["deployment"]["privacy_loss"]["privacy_parameters"]
    assert parameters["epsilon"] == float(record.plan.eps)
    person = record.guarantee.unit == "person"
    assert read["deployment"]["privacy_loss"]["privacy_unit"].startswith(
        "Person" if person else "Row"
    )
    open_ones = [value for value in given.values() if isinstance(value, str) and OPEN in value]
    assert len(open_ones) == len(made.left_open) >= 10


def test_an_entry_is_accepted_once_people_filled_it_in(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = yaml.safe_load(export(make(home, "auto", monkeypatch), "registry").text)
    read["deployment"]["basic"]["data_curators"][0]["data_curator_type"] = "Government"
    read["deployment"]["basic"]["data_product_sector"] = "Healthcare"
    read["deployment"]["deployment_model"]["data_source_type"] = "Static"
    assert faults_of(read) == {}


FAULTS: dict[str, Any] = {
    "unknown": lambda e: e["deployment"]["basic"].update(colour="red"),
    "missing": lambda e: e["deployment"]["basic"].pop("intended_use"),
    "value": lambda e: e["deployment"]["dp_variant"].update(variant_name="Some DP"),
    "type": lambda e: e["deployment"]["privacy_loss"]["privacy_parameters"].update(epsilon="1"),
    "date": lambda e: e["deployment"]["basic"].update(publication_date="2026-13-01"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_field_that_the_registry_refuses_is_seen(
    fault: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = yaml.safe_load(export(make(home, "auto", monkeypatch), "registry").text)
    FAULTS[fault](read)
    assert set(faults_of(read)) > PEOPLE_SAY


@pytest.mark.parametrize("plan", ["data bounds", "published"])
def test_what_is_not_private_is_not_registered(
    plan: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="states no eps"):
        export(make(home, plan, monkeypatch), "registry")


def test_a_simulation_is_not_registered() -> None:
    record = dpkv.simulate(VALUES, k=2, eps=1, bounds=(-1, 1), seed=5).record
    with pytest.raises(UsageError, match="registered"):
        entry(record)


def test_yaml_reads_back_as_it_was_meant() -> None:
    value = {
        "a": "no: colon # hash 'quote' \"double\" \\ back",
        "b": "two\nlines: of\n  text",
        "c": " blank first\nand more",
        "d": ["yes", "1e-06", "null", "~", "\x1b[31m", "caf\N{LATIN SMALL LETTER E WITH ACUTE}"],
        "e": [{"f": True, "g": None, "h": 3}],
        "i": "ends with a line end\n",
    }
    assert yaml.safe_load(yaml_text(value)) == value


# -- the checklist ---------------------------------------------------------------------------------

PYRAMID = {
    "Privacy parameters", "Unit of privacy",  # the top
    "Algorithms", "Correctness", "Utility", "Bias",  # the middle
    "Security and access control", "Trust model", "Side channels", "Data collection exposure",
}  # fmt: skip
"""The components that SP 800-226 draws as a pyramid, in Figure 1 of the final version."""
SECTIONS = {"Variant", "Comparing guarantees", "Other releases of the same data", "Query model"}
"""What else it has sections on that concern one release."""


@pytest.mark.parametrize("plan", PLANS)
def test_a_checklist_covers_the_pyramid(
    plan: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = make(home, plan, monkeypatch)
    made = export(record, "nist")
    parts = {item.part for items in checklist(record).values() for item in items}
    assert parts == PYRAMID | SECTIONS
    assert re.findall(r"^### (.*)$", made.text, re.M).sort() == sorted(parts).sort()
    boxes = re.findall(r"^- \[(.)\] (.*)$", made.text, re.M)
    assert all((OPEN in told) == (box == " ") for box, told in boxes)
    assert [told for box, told in boxes if box == " "] == [f"{OPEN}: {x}" for x in made.left_open]
    assert record.summary in made.text
    everything = {*record.explanation.assumptions, *record.explanation.not_protected}
    assert all(one[1:] in made.text for one in everything)


def hazards(**options: Any) -> str:
    return hazards_of(dpkv.release(VALUES, **{**SYNOPSIS, **options}, workspace=None).record)


def hazards_of(record: ReleaseRecord) -> str:
    found = [x for items in checklist(record).values() for i in items for x in i.hazards]
    return "; ".join(found)


WIDE = RNG.uniform(-1, 1, (N, 20))


@pytest.mark.parametrize(("delta", "is_large"), [("0.000001", False), ("0.0001", True)])
def test_a_delta_is_stated_everywhere(delta: str, is_large: bool) -> None:
    """One that is above one over the square of the number of records is a hazard."""
    options = {"k": 2, "eps": 1, "bounds": (-1, 1), "mechanism": "synopsis", "workspace": None}
    record = dpkv.release(WIDE, delta=delta, **options).record
    assert record.guarantee.delta == delta, "Gaussian noise is cheaper in many columns"
    read = yaml.safe_load(export(record, "registry").text)["deployment"]
    assert read["dp_variant"]["variant_name"] == "Approximate DP"
    assert read["privacy_loss"]["privacy_parameters"] == {"epsilon": 1, "delta": float(delta)}
    assert "of zCDP" in read["privacy_loss"]["privacy_parameters_details"]
    assert f"delta='{delta}'" in export(record, "python").text
    assert "may fail" in hazards_of(record)
    assert ("delta is large" in hazards_of(record)) == is_large


def test_hazards_are_those_of_the_release() -> None:
    assert "widely held" not in hazards(eps=1) and "widely held" in hazards(eps=1.5)
    assert "may not protect" in hazards(eps=11)
    assert "events are protected" in hazards()
    assert "events are protected" not in hazards(person=list(map(str, range(N))))
    assert "size of the table" in hazards() and "size of the table" not in hazards(
        neighbours="add-remove"
    )
    assert "leaks them" in hazards(bounds="data")


# -- all of them -----------------------------------------------------------------------------------

SAID = {"publisher": "An *office*", "data_about": "visits <b>", "purpose": "to [learn](x)"}


def test_what_the_publisher_said_is_handed_over_as_words() -> None:
    """Mark-up in it is shown, not read."""
    record = dpkv.release(VALUES, **SYNOPSIS, **SAID, workspace=None).record
    basic = entry(record)["deployment"]["basic"]
    assert basic["data_curators"][0]["data_curator_name"] == r"An \*office\*"
    assert basic["intended_use"] == r"to \[learn\](x)" and r"visits \<b\>" in basic["description"]
    checklist = export(record, "nist").text
    assert r"An \*office\*" in checklist and r"to \[learn\](x)" in checklist
    values = request_values(record.plan, has_schema=False)
    assert {name: values[name] for name in SAID} == SAID


HOSTILE = ["a`b", "<script>alert(1)</script>", '"""); import os; ("""', "x | y: #", "{OPEN}", "_x_"]


@pytest.mark.parametrize("to", FORMATS)
def test_names_and_versions_from_a_hostile_record_stay_text(to: str) -> None:
    six = RNG.uniform(-1, 1, (50, 6))
    made = dpkv.release(six, k=2, eps=1, bounds=(-1, 1), columns=HOSTILE, workspace=None)
    evil = "1\n# Approved\nimport os"
    record = made.record.model_copy(
        update={"dpkv_version": evil, "versions": {"python": evil, "y\n- [x] z": evil}}
    )
    text = export(record, to).text
    assert "\n# Approved" not in text and "\nimport os" not in text
    if to == "registry":
        assert faults_of(yaml.safe_load(text)).keys() == PEOPLE_SAY
    if to == "python":
        names = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import)]
        assert [one.names[0].name for one in names] == ["dpkv"]
        (call,) = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.keyword)
                   and n.arg == "columns"]  # fmt: skip
        assert ast.literal_eval(call.value) == HOSTILE
    else:
        assert all(as_code(name) in text.replace('\\"', '"') for name in HOSTILE)


def test_code_holds_its_backticks() -> None:
    assert as_code("plain") == "`plain`"
    assert as_code("a`b") == "`` a`b ``"
    assert as_code("```") == "```` ``` ````"
    assert "\n" not in as_code("a\nb")


def test_an_unknown_form_is_refused() -> None:
    record = dpkv.release(VALUES, **SYNOPSIS, workspace=None).record
    with pytest.raises(ParameterError, match="registry, nist, python"):
        export(record, "pdf")
