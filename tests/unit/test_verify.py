"""Re-checking a record: every field is altered in turn, with the curator's ledger and without."""

from __future__ import annotations

import copy
import json
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

import dpkv
from dpkv.errors import UsageError
from dpkv.ledger import Ledger
from dpkv.mechanisms import MECHANISMS, Neighbours
from dpkv.releases import Check, ReleaseRecord, verify
from dpkv.releases.files import release_files
from dpkv.releases.kept_releases import parse_record, release_path
from dpkv.releases.verify import failed

X = np.random.default_rng(0).uniform(-0.9, 0.9, (60, 2))
PAIR = np.array([-0.5, 0.5])[np.arange(300) % 2][:, None] + np.linspace(-0.01, 0.01, 600).reshape(
    300, 2
)
MANY = np.tile(X, (200, 1))  # for private bounds, which few records do not show
KINDS: dict[str, dict[str, Any]] = {
    **{name: {"mechanism": name} for name in MECHANISMS},
    **{
        f"{name}, add-remove": {"mechanism": name, "neighbours": "add-remove"}
        for name, kind in MECHANISMS.items()
        if Neighbours.ADD_REMOVE in kind.relations
    },
    "three times": {"mechanism": "lloyd", "iterations": 3},
    "private bounds": {"bounds": "private"},
    "bounds of the data": {"bounds": "data"},
    "published": {"calibration": "published", "k": 2, "eps": 15.0},
    "not clamped": {"clamp": False},
    "ball": {"bounds": {"center": [0, 0], "radius": 2}},
    "not scaled": {"scaled": False},
}
_FOLDER = TemporaryDirectory()  # kept while this module is


@cache
def released(kind: str) -> tuple[ReleaseRecord, Path]:
    """A release of every kind, made once, and its workspace."""
    workspace = Path(_FOLDER.name) / kind.replace(" ", "-") / ".dpkv"
    asked = {"k": 4, "eps": 1.0, "bounds": (-1, 1), **KINDS[kind]}
    records = {"published": PAIR, "private bounds": MANY}.get(kind, X)
    return dpkv.release(records, **asked, workspace=workspace, release_id="mine").record, workspace


def names(checks: tuple[Check, ...], passed: bool | None) -> list[str]:
    return [check.name for check in checks if check.passed is passed]


def stated(kind: str) -> dict[str, Any]:
    return json.loads(released(kind)[0].to_json())


Path_ = tuple[str | int, ...]


def put(fields: dict[str, Any], path: Path_, value: Any) -> dict[str, Any]:
    altered = copy.deepcopy(fields)
    place: Any = altered
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return altered


def read(fields: dict[str, Any]) -> ReleaseRecord:
    return parse_record(json.dumps(fields), Path("release.json"))


@pytest.mark.parametrize("kind", KINDS)
def test_an_unaltered_record_passes(kind: str) -> None:
    record, workspace = released(kind)
    (csv_text, json_text) = release_files(record).values()
    checks = verify(read(json.loads(json_text)), csv_text=csv_text, workspace=workspace)
    assert not failed(checks)
    unknown = ["accounting", "signature"] if kind == "published" else ["signature"]
    assert names(checks, None) == unknown
    assert len({check.name for check in checks}) == len(checks)
    assert all(check.detail for check in checks)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_k_and_eps_passes(mechanism: str) -> None:
    """Also where shares of eps are no finite decimals, as a third is."""
    wrong = []
    for k in range(1, 12):
        for eps in ("0.1", "0.7", "1", "3", "1000"):
            asked: dict[str, Any] = {"k": k, "eps": eps, "mechanism": mechanism}
            for bounds, records in (((-1, 1), X), ("private", MANY)):
                asked["bounds_share"] = 0.5
                record = dpkv.simulate(records, **asked, bounds=bounds, seed=0).record
                wrong += [(k, eps, bounds, check.detail) for check in failed(verify(record))]
    assert wrong == []


def test_without_a_ledger_it_says_that_it_was_not_checked(tmp_path: Path) -> None:
    record, _ = released("kvariates")
    for workspace in (None, tmp_path, tmp_path / "nowhere"):
        checks = verify(record, workspace=workspace)
        assert not failed(checks)
        assert names(checks, None) == ["ledger", "kept copy", "signature", "vouched for"]
        (ledger,) = (check for check in checks if check.name == "ledger")
        assert "no ledger here" in ledger.detail
    assert not (tmp_path / "ledger.sqlite").exists()


# --- every field ------------------------------------------------------------------------------


def leaves(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, below in items:
        if isinstance(below, (dict, list)) and below:
            yield from leaves(below, (*path, key))
        else:
            yield (*path, key), below


OTHER_WORDS = {
    "release": ["simulation"],
    "public": ["curator-only"],
    "curator-only": ["public"],
    "replace-one": ["add-remove"],
    "add-remove": ["replace-one"],
    "certified": ["published"],
    "published": ["certified"],
    "refuse": ["center"],
    "given": ["private", "data"],
    "private": ["given", "data"],
    "data": ["given", "private"],
    "box": ["l1-ball"],
}
"""Where a field has its own few words, the others of them."""


def other_values(value: Any) -> list[Any]:
    if value is None:
        return [1, "x", []]
    if isinstance(value, bool):
        return [not value, None]
    if isinstance(value, (int, float)):
        return [value + 1, value * 0.999, -value - 1, None]
    if isinstance(value, str):
        return [value + "x", "", None, *OTHER_WORDS.get(value, ())]
    return [["x"], {"x": 1}]


NEEDS_THE_LEDGER = {
    "bounds.ledger.checkpoint",
    "bounds.ledger.digest",
    "bounds.ledger.number",
    "created",
    "dpkv_version",
    "ledger.checkpoint",
    "ledger.digest",
    "ledger.number",
    "n_records",  # where the mechanism has no use for it
    "plan.table",
    "plan.gamma",  # where the mechanism has no use for it
    "plan.scaled",  # of a ball
    "release_id",
    "synopsis_digest",  # without the file of the synopsis
    "versions.numba",
    "versions.numpy",
    "versions.opendp",
    "versions.python",
    "versions.scikit-learn",
}
"""What no check of an unsigned record notices without the curator's workspace."""


NEEDS_THE_ANSWERS = re.compile(
    r"clusters\.\d+\.(center_sd\.\d+|size|size_sd|radius)|potential\.\w+"
)
"""Likewise where no synopsis is beside the record: noisy answers are not published."""


def named(path: tuple[Any, ...]) -> str:
    """Name a field; what the columns were taken for is one."""
    return "plan.table" if path[:2] == ("plan", "table") else ".".join(map(str, path))


def unnoticed(altered: ReleaseRecord, workspace: Path) -> tuple[bool, bool]:
    """Tell whether an alteration goes unnoticed without the workspace, and even with it."""
    alone = not failed(verify(altered))
    return alone, alone and not failed(verify(altered, workspace=workspace))


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_is_checked(kind: str) -> None:
    record, workspace = released(kind)
    fields, plain = stated(kind), stated("kvariates")
    alone, beside = set(), set()
    for path, value in leaves(fields):
        if kind != "kvariates" and fields[path[0]] == plain[path[0]]:
            continue
        for other in other_values(value):
            try:
                altered = ReleaseRecord.model_validate_json(json.dumps(put(fields, path, other)))
            except ValidationError:
                continue  # refused: no such record
            if altered == record:
                continue  # 0 and 0.0
            unseen, unseen_beside = unnoticed(altered, workspace)
            alone |= {named(path)} if unseen else set()
            beside |= {(path, other)} if unseen_beside else set()
    assert beside == set(), "beside its ledger every alteration is found"
    assert {path for path in alone if not NEEDS_THE_ANSWERS.fullmatch(path)} <= NEEDS_THE_LEDGER


def negated(value: Any) -> Any:
    return -value


CONTRADICTED: dict[str, tuple[str, Path_, Callable[[Any], Any]]] = {
    "gamma is not that of the smoothing": ("kvariates", ("plan", "gamma"), lambda v: v * 10),
    "gamma cannot be negative": ("kvariates", ("plan", "gamma"), negated),
    "the plan's iterations are others": (
        "three times",
        ("plan", "iterations"),
        lambda v: v + 1,
    ),
    "only lloyd has iterations": ("kvariates", ("plan", "iterations"), lambda _: 3),
    "the domain is scaled": ("kvariates", ("plan", "scaled"), lambda v: not v),
    "the domain is not scaled": ("not scaled", ("plan", "scaled"), lambda v: not v),
    "private bounds are scaled": ("private bounds", ("plan", "scaled"), lambda v: not v),
    "the data's bounds are scaled": ("bounds of the data", ("plan", "scaled"), lambda v: not v),
    "no eps~ when certified": ("kvariates", ("plan", "eps_tilde"), lambda _: 1.0),
    "a negative number of records": ("laplace", ("n_records",), negated),
    "fewer records than centers": ("forgy", ("n_records",), lambda _: 1),
    "gupt needs the number of records": ("gupt", ("mechanism", "n_records"), lambda _: None),
    "charged less than eps": ("kvariates", ("ledger", "charged"), lambda _: "0.5"),
    "add-remove doubled": ("laplace, add-remove", ("ledger", "charged"), lambda _: "2"),
    "another source of randomness": ("kvariates", ("randomness",), lambda _: "seeded"),
}
"""What other fields of the same record contradict: no ledger is needed to see it."""


@pytest.mark.parametrize(("kind", "path", "change"), CONTRADICTED.values(), ids=CONTRADICTED)
def test_a_record_that_contradicts_itself_is_found_alone(
    kind: str, path: Path_, change: Callable[[Any], Any]
) -> None:
    fields = stated(kind)
    value: Any = fields
    for key in path:
        value = value[key]
    try:
        altered = read(put(fields, path, change(value)))
    except UsageError:
        return  # refused as no record at all
    assert failed(verify(altered))


NOTICED: dict[str, tuple[str, Path_, Any, str, str]] = {
    # kind, field, value, the check that fails, what it says
    "plan eps": ("kvariates", ("plan", "eps"), "0.5", "accounting", "above eps = 0.5"),
    "higher plan eps": ("kvariates", ("plan", "eps"), "2", "promise", "the guarantee does not"),
    "k": ("kvariates", ("plan", "k"), 5, "mechanism", "k is not the plan's"),
    "mechanism": ("forgy", ("plan", "mechanism"), "laplace", "mechanism", "not the plan's"),
    "relation": ("forgy", ("plan", "neighbours"), "add-remove", "mechanism", "relation is not"),
    "noise": ("kvariates", ("mechanism", "noise_scale"), 1.0, "accounting", "steps or their pri"),
    "smoothing": ("kvariates", ("mechanism", "smoothing_steps"), 1, "accounting", "prices"),
    "records": ("kvariates", ("n_records",), 10**6, "mechanism", "for other records"),
    "its records": ("kvariates", ("mechanism", "n_records"), 10**6, "mechanism", "other records"),
    "blocks": ("gupt", ("mechanism", "n_blocks"), 7, "mechanism", "not what the plan is calibr"),
    "steps": ("kvariates", ("steps", 0, "eps"), 0.01, "accounting", "steps or their prices"),
    "times": ("kvariates", ("steps", 1, "times"), 1, "accounting", "steps or their prices"),
    "spent": ("laplace", ("spent",), 0.25, "accounting", "spent is stated as 0.25, and is "),
    "noise record": ("kvariates", ("noise", 0, "scale"), 1.0, "accounting", "noise is another"),
    "deviation": ("kvariates", ("noise", 0, "column_sd", 0), 0.1, "accounting", "noise is anoth"),
    "eps promised": ("kvariates", ("guarantee", "eps"), "0.1", "promise", "guarantee does not fo"),
    "delta": ("kvariates", ("guarantee", "delta"), "0.1", "promise", "guarantee does not follow"),
    "proof": ("kvariates", ("guarantee", "proof"), "safe", "promise", "guarantee does not"),
    "assumption": (
        "kvariates",
        ("guarantee", "assumptions", 1),
        "bounds-read-from-data",
        "promise",
        "does not follow",
    ),
    "visibility": ("published", ("visibility",), "public", "promise", "visibility is misstated"),
    "releasable": ("published", ("releasable",), True, "promise", "releasable is misstated"),
    "note removed": ("published", ("notes",), [], "promise", "a warning is missing"),
    "leak hidden": ("bounds of the data", ("notes",), [], "promise", "a warning is missing"),
    "unprotected": ("kvariates", ("not_protected", 0), "bounds", "promise", "not protected is m"),
    "kind": ("kvariates", ("kind",), "simulation", "promise", "guarantee does not follow"),
    "bounds": ("kvariates", ("bounds", "domain", "upper", 0), 9.0, "bounds and grid", "not the p"),
    "plan's bounds": ("kvariates", ("plan", "domain", "upper", 0), 9.0, "bounds and grid", "not"),
    "source": ("kvariates", ("bounds", "source"), "private", "bounds and grid", "source is not"),
    "private edge": (
        "private bounds",
        ("bounds", "domain", "upper", 0),
        1.2345,
        "bounds and grid",
        "",
    ),
    "grid": ("kvariates", ("grid", "steps", 0), 1e-9, "bounds and grid", "the grid is another"),
    "bits": ("kvariates", ("plan", "grid_bits"), 12, "bounds and grid", "the grid is another"),
    "share": ("private bounds", ("plan", "bounds_share"), 0.01, "bounds and grid", "own noise"),
    "bounds' charge": (
        "private bounds",
        ("bounds", "ledger", "charged"),
        "0.05",
        "ledger",
        "charge is misstated",
    ),
    "bounds' charge hidden": (
        "private bounds",
        ("bounds", "ledger"),
        None,
        "ledger",
        "a charge of their own",
    ),
    "eps~": ("published", ("plan", "eps_tilde"), 1.0, "mechanism", "mechanism is not what"),
    "gamma": ("kvariates", ("plan", "gamma"), 0.2, "mechanism", "is not what the plan is calib"),
    "randomness": ("kvariates", ("randomness",), "seeded", "mechanism", "randomness is misstated"),
    "charge": ("kvariates", ("ledger", "charged"), "0.5", "ledger", "the charge is misstated"),
    "center": (
        "kvariates",
        ("clusters", 0, "center", 0),
        0.123,
        "centres",
        "not those of the grid",
    ),
    "grid center": ("kvariates", ("grid_centers", 0, 0), 77, "centres", "not those of the grid"),
    "out of bounds": ("kvariates", ("grid_centers", 0, 0), -5, "centres", "out of bounds"),
    "center removed": ("kvariates", ("grid_centers",), [[1, 2]], "centres", "not k centres"),
    "clamped": ("kvariates", ("clamped",), False, "centres", "clamping is misstated"),
    "digest": ("kvariates", ("centers_digest",), "0" * 64, "digest", "not that of the centres"),
    "column": ("kvariates", ("columns", 0), "age", "digest", "not that of the centres"),
    "columns": ("kvariates", ("columns",), ["a"], "bounds and grid", "differ in number"),
}


@pytest.mark.parametrize(("kind", "path", "value", "check", "words"), NOTICED.values(), ids=NOTICED)
def test_what_was_altered_is_named(
    kind: str, path: Path_, value: Any, check: str, words: str
) -> None:
    _, workspace = released(kind)
    altered = read(put(stated(kind), path, value))
    for place in (None, workspace):
        found = {wrong.name: wrong.detail for wrong in failed(verify(altered, workspace=place))}
        assert words in found[check]
        assert ("kept copy" in found) == (place is not None)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("ledger", "digest"), "0" * 64, "the ledger's entry is another one"),
        (("ledger", "number"), 2, "the ledger's entry is another one"),
        (("ledger", "number"), 3, "the ledger has no entry 3"),
        (("ledger", "number"), 0, "the ledger has no entry 0"),
        (("ledger", "charged"), "0.5", "the charge is misstated"),
        (("release_id",), "yours", "the entry is of another release"),
        (("plan", "gamma"), 0.2, "the entry was charged for another plan"),
    ],
    ids=lambda value: ".".join(value) if isinstance(value, tuple) else "",
)
def test_the_ledger_contradicts(path: Path_, value: Any, words: str) -> None:
    _, workspace = released("kvariates")
    altered = read(put(stated("kvariates"), path, value))
    found = {wrong.name: wrong.detail for wrong in failed(verify(altered, workspace=workspace))}
    assert words in found["ledger"]


def test_an_id_is_no_way_out_of_the_workspace(tmp_path: Path) -> None:
    """Whatever a record calls itself, only kept releases are read."""
    _, workspace = released("kvariates")
    (tmp_path / "elsewhere.json").write_text("{}", encoding="utf-8")
    for name in (str(tmp_path / "elsewhere"), "../../../elsewhere", "a\0b", "x" * 5000, ""):
        with pytest.raises(UsageError, match="release_id"):
            read(put(stated("kvariates"), ("release_id",), name))
        made_up = released("kvariates")[0].model_copy(update={"release_id": name})
        assert "ledger" in {wrong.name for wrong in failed(verify(made_up, workspace=workspace))}


def test_an_altered_file_of_centers_is_found() -> None:
    record, workspace = released("kvariates")
    text = release_files(record)["centers.csv"]
    for altered in (text.replace("x1", "x9"), text + "0.0,0.0\n", text[:-1], "", text.upper()):
        if altered != text:
            (wrong,) = failed(verify(record, csv_text=altered, workspace=workspace))
            assert (wrong.name, wrong.detail) == ("digest", "the file of centres was altered")


def test_a_charged_release_cannot_hide_its_charge() -> None:
    _, workspace = released("kvariates")
    hiding = read({**stated("kvariates"), "ledger": None})
    found = {wrong.name: wrong.detail for wrong in failed(verify(hiding, workspace=workspace))}
    assert found["ledger"] == "this release was charged, and its record hides it"


def test_a_simulation_cannot_pose_as_a_release() -> None:
    simulated = dpkv.simulate(X, k=3, eps=1.0, bounds=(-1, 1), seed=0).record
    assert not failed(verify(simulated))
    posing = read({**json.loads(simulated.to_json()), "kind": "release"})
    assert "promise" in {wrong.name for wrong in failed(verify(posing))}


# --- the ledger beside it ---------------------------------------------------------------------


@pytest.fixture
def beside(tmp_path: Path) -> tuple[ReleaseRecord, Path]:
    """A release and a workspace of its own that may be damaged."""
    workspace = tmp_path / ".dpkv"
    asked: dict[str, Any] = {"k": 3, "eps": 1.0, "bounds": (-1, 1), "workspace": workspace}
    record = dpkv.release(X, **asked, release_id="mine").record
    dpkv.release(X, **asked)
    return record, workspace


def the_ledger(record: ReleaseRecord, workspace: Path) -> Check:
    (found,) = (check for check in verify(record, workspace=workspace) if check.name == "ledger")
    return found


@pytest.mark.parametrize("number", [1, 2])
def test_a_tampered_ledger_is_found(beside: tuple[ReleaseRecord, Path], number: int) -> None:
    record, workspace = beside
    with closing(sqlite3.connect(Ledger(workspace).path, isolation_level=None)) as db:
        db.execute("DROP TRIGGER no_update")
        db.execute("UPDATE entries SET nano_eps = 1 WHERE number = ?", (number,))
    found = the_ledger(record, workspace)
    assert found.passed is False and f"entry {number} was altered" in found.detail


def test_a_ledger_that_is_none_is_found(beside: tuple[ReleaseRecord, Path]) -> None:
    record, workspace = beside
    Ledger(workspace).path.write_bytes(b"no database at all, " * 100)
    found = the_ledger(record, workspace)
    assert found.passed is False and "not a SQLite database" in found.detail


def test_a_ledger_begun_anew_is_found(beside: tuple[ReleaseRecord, Path]) -> None:
    record, workspace = beside
    releases = workspace / "releases"
    Ledger(workspace).path.unlink()
    shutil.rmtree(workspace / "chain")
    releases.rename(workspace / "taken")
    dpkv.release(X, k=3, eps=1.0, bounds=(-1, 1), workspace=workspace, release_id="other")
    found = the_ledger(record, workspace)
    assert found.passed is False and found.detail == "the ledger's entry is another one"
    for kept in (workspace / "taken").iterdir():
        kept.rename(releases / kept.name)
    found = the_ledger(record, workspace)
    assert found.passed is False and "lacks entry 1 as the kept release" in found.detail


def test_an_altered_kept_copy_is_found(beside: tuple[ReleaseRecord, Path]) -> None:
    record, workspace = beside
    path = release_path(workspace, "mine")
    path.write_text(path.read_text(encoding="utf-8").replace('"numpy"', '"nunpy"'), "utf-8")
    (wrong,) = failed(verify(record, workspace=workspace))
    assert (wrong.name, wrong.detail) == (
        "kept copy",
        "the release that the workspace keeps differs",
    )
    path.write_text("{", encoding="utf-8")
    (wrong,) = failed(verify(record, workspace=workspace))
    assert wrong.name == "kept copy" and "mine.json" in wrong.detail
    path.unlink()
    assert "kept copy" in names(verify(record, workspace=workspace), None)


# --- files that are no record -----------------------------------------------------------------

NO_RECORDS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "another version": (lambda fields: {**fields, "schema_version": 1}, "schema_version"),
    "no version but this": (lambda fields: {**fields, "schema_version": None}, "schema_version"),
    "an unknown field": (lambda fields: {**fields, "extra": 1}, "extra"),
    "a field removed": (lambda fields: {k: v for k, v in fields.items() if k != "plan"}, "plan"),
    "an unknown field below": (lambda fields: put(fields, ("plan", "seed"), 3), "plan.seed"),
    "text for a number": (
        lambda fields: put(fields, ("clusters", 0, "center", 0), "x"),
        "clusters.0.center.0",
    ),
    "an eps that is none": (lambda fields: put(fields, ("plan", "eps"), "x"), "plan"),
    "another unit": (lambda fields: {**fields, "privacy_unit": "a person"}, "privacy_unit"),
    "a list": (lambda fields: [fields], "its JSON"),
    "a number": (lambda _: 5, "its JSON"),
}


@pytest.mark.parametrize(("change", "place"), NO_RECORDS.values(), ids=NO_RECORDS)
def test_what_is_no_record_is_refused(change: Callable[[Any], Any], place: str) -> None:
    text = json.dumps(change(stated("kvariates")))
    with pytest.raises(UsageError) as refusal:
        parse_record(text, Path("r.json"))
    assert str(refusal.value) == (
        f"r.json is not a release record of this version of dpkv (see {place}): take an "
        "unaltered copy."
    )


def test_a_key_that_stands_twice_is_refused() -> None:
    """Readers would differ about its value, and a signature would cover one of them only."""
    text = released("kvariates")[0].to_json()
    for repeated in (
        text.replace("{", '{"releasable": false, ', 1),
        text.replace('"guarantee": {', '"guarantee": {"eps": 0.001, ', 1),
    ):
        with pytest.raises(UsageError, match="a key stands in it twice"):
            parse_record(repeated, Path("r.json"))


@pytest.mark.parametrize("text", ["", "{", "nonsense", '{"kind": "release"', "\0", "[" * 10_000])
def test_text_that_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"^r\.json is (not JSON|no release record: it is nested)"):
        parse_record(text, Path("r.json"))
