"""Files made to hang, to eat memory or to crash: each is refused, or checked, in little time.

Every JSON place of a record of every mechanism, of a synopsis and of a witness is replaced by
hostile values (``support.mutants``); here a sample is judged, in a process with limits on its
processor time and memory, which the system enforces.
"""

from __future__ import annotations

import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.judges import FAILS, PASSES, REFUSED
from support.mutants import ENDED, HOSTILE, Mutant, mutants, outcomes, places, sampled

import dpkv
from dpkv import foreign
from dpkv.audits.witness import check_witness, parse_witness, witness_of
from dpkv.audits.worst_case import worst_case
from dpkv.domain import Box
from dpkv.errors import ParameterError, UsageError
from dpkv.mechanisms import calibrate_mechanism
from dpkv.noise import smallest_scale
from dpkv.releases.kept_releases import parse_record
from dpkv.releases.standing import read_synopsis
from dpkv.releases.synopsis import parse_synopsis
from dpkv.releases.verify import failed, verify
from dpkv.validation import exact_delta, exact_eps

X = np.random.default_rng(0).uniform(-0.9, 0.9, (60, 2))
PAIR = np.array([-0.5, 0.5])[np.arange(300) % 2][:, None] + np.linspace(-0.01, 0.01, 600).reshape(
    300, 2
)
SQUARE = Box((0.0, 0.0), (1.0, 1.0))
RECORDS: dict[str, dict[str, Any]] = {
    "kvariates": {},
    "laplace": {"mechanism": "laplace"},
    "forgy": {"mechanism": "forgy"},
    "gupt": {"mechanism": "gupt"},
    "lloyd": {"mechanism": "lloyd", "neighbours": "add-remove"},
    "synopsis": {"mechanism": "synopsis"},
    "chosen": {"mechanism": "auto"},
    "private bounds": {"bounds": "private", "eps": 1000.0},  # of 60 records noise hides them
    "published": {"calibration": "published", "k": 2, "eps": 15.0},
}
WITNESSES = ("kvariates", "laplace", "forgy")
KNOWN = {REFUSED, FAILS, PASSES}


def record_text(kind: str) -> str:
    asked = {"k": 4, "eps": 1.0, "bounds": (-1, 1), **RECORDS[kind]}
    records = PAIR if kind == "published" else X
    return dpkv.release(records, **asked, workspace=None).record.to_json()


def synopsis_text(n_features: int) -> str:
    values = np.random.default_rng(0).uniform(-0.9, 0.9, (500, n_features))
    asked: dict[str, Any] = {"k": 3, "eps": 1.0, "bounds": (-1, 1), "mechanism": "synopsis"}
    done = dpkv.release(values, **asked, workspace=None)
    assert done.synopsis is not None
    return done.synopsis.to_json()


def witness_text(kind: str) -> str:
    asked: dict[str, Any] = {"n_records": 50, "n_clusters": 2, "grid": SQUARE.grid()}
    mechanism = calibrate_mechanism(kind, Decimal(1), **asked)
    return witness_of(worst_case(mechanism, 50, restarts=2), mechanism, SQUARE, "1").to_json()


def misbehaving(judge: str, text: str, tried: list[Mutant]) -> list[str]:
    """Return the mutants that are neither refused nor checked, in words."""
    found = outcomes(f"support.judges:{judge}", [text, *(mutant.text for mutant in tried)])
    assert found[0].word == PASSES, "the file itself is fine"
    pairs = zip(tried, found[1:], strict=True)
    return [f"{mutant}: {said.word}" for mutant, said in pairs if said.word not in KNOWN]


def chosen(text: str, values: tuple[str, ...], number: int) -> list[Mutant]:
    """Return every mutant with one of the worst values, and a sample of the others."""
    worst = [mutant for mutant in mutants(text) if mutant.value in values]
    return [*worst, *sampled(text, number)]


WORST = ("a million", "1e4000 written out", "minus tiny", "nothing with a huge exponent")


@pytest.mark.processes
@pytest.mark.parametrize("kind", RECORDS)
def test_no_field_of_a_record_makes_verification_hang(kind: str) -> None:
    text = record_text(kind)
    assert misbehaving("record", text, chosen(text, WORST, 100)) == []


@pytest.mark.processes
@pytest.mark.parametrize("n_features", [2, 6, 25])
def test_no_field_of_a_synopsis_makes_reading_or_clustering_hang(n_features: int) -> None:
    text = synopsis_text(n_features)
    assert misbehaving("synopsis", text, chosen(text, WORST, 200)) == []


@pytest.mark.processes
@pytest.mark.parametrize("kind", WITNESSES)
def test_no_field_of_a_witness_makes_verification_hang(kind: str) -> None:
    text = witness_text(kind)
    assert misbehaving("witness", text, chosen(text, WORST, 200)) == []


# -- that the test itself would see it -------------------------------------------------------------


@pytest.mark.processes
def test_a_judge_that_hangs_is_ended_and_the_others_are_still_heard() -> None:
    words = [said.word for said in outcomes("support.judges:busy", ["x", "hang", "y", "eat", "z"])]
    assert words == [PASSES, ENDED, PASSES, "MemoryError", PASSES]


def test_every_place_and_every_value_is_among_the_mutants() -> None:
    text = '{"a": [1, 2, 3], "b": {"c": null}}'
    assert list(places(json.loads(text))) == [
        (), ("a",), ("a", 0), ("a", 2), ("b",), ("b", "c"),
    ]  # fmt: skip
    found = list(mutants(text))
    assert len(found) == 6 * len(HOSTILE) - 1, "the whole cannot be missing"
    (half,) = (m.text for m in found if m.place == ("a", 2) and m.value == "a half")
    assert json.loads(half) == {"a": [1, 2, 0.5], "b": {"c": None}}


# -- one by one ------------------------------------------------------------------------------------


def test_a_whole_number_of_records_has_a_bound() -> None:
    fields = json.loads(record_text("kvariates"))
    fields["n_records"] = 10**4000
    with pytest.raises(UsageError, match=r"\(see n_records"):
        parse_record(json.dumps(fields), Path("r.json"))


@pytest.mark.parametrize("value", [-1e-9, 0.0, 1e308])
def test_an_eps_tilde_that_is_none_is_found(value: float) -> None:
    fields = json.loads(record_text("published"))
    fields["plan"]["eps_tilde"] = fields["mechanism"]["eps_tilde"] = value
    try:
        checks = verify(parse_record(json.dumps(fields), Path("r.json")))
    except UsageError:
        return
    assert failed(checks)


@pytest.mark.parametrize("eps", [-1e-9, float("nan"), 0.0])
def test_noise_has_no_scale_without_a_positive_eps(eps: float) -> None:
    with pytest.raises(ParameterError, match="eps must be"):
        smallest_scale(1, eps)


@pytest.mark.parametrize(
    "text",
    ["0e-999999999", "0." + "0" * 200, "0." + "3" * 200, "1." + "0" * 200],
    ids=["huge exponent", "many zeros", "many digits", "one and zeros"],
)
def test_a_number_that_cannot_be_written_down_is_refused(text: str) -> None:
    with pytest.raises(ParameterError) as refusal:
        exact_delta("delta", text)
    assert len(str(refusal.value)) < 400
    with pytest.raises(ParameterError):
        exact_eps("eps", text)


def test_levels_have_a_bound() -> None:
    fields = json.loads(record_text("synopsis"))
    fields["mechanism"]["levels"] = 10**6
    found = {c.name: c for c in failed(verify(parse_record(json.dumps(fields), Path("r.json"))))}
    assert "levels must be at most" in found["mechanism"].detail


def test_a_synopsis_cannot_claim_more_cells_than_there_can_be() -> None:
    """A short file of many columns and many cells would be a large tree."""
    fields = json.loads(synopsis_text(2))
    wide = 3000
    fields["columns"] = [f"x{i}" for i in range(wide)]
    fields["domain"].update(lower=[-1.0] * wide, upper=[1.0] * wide)
    fields["lowest"], fields["highest"] = [0] * wide, [2**16 - 1] * wide
    fields["splits"], fields["counts"] = "1" * 2**18 + "0" * (2**18 + 1), [0] * (2**18 + 1)
    with pytest.raises(UsageError, match="more dimensions than a synopsis has"):
        parse_synopsis(json.dumps(fields), "s.json")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("counts", 2**63),
        ("lowest", -(2**63)),
        ("highest", 2**62),
        ("count_scale", 1e300),
        ("offset_scale", -1.0),
        ("release_id", "\x1b[2J"),
        ("columns", "a\x07"),
    ],
)
def test_a_field_of_a_synopsis_that_would_overflow_is_refused(field: str, value: Any) -> None:
    fields = json.loads(synopsis_text(2))
    if isinstance(fields[field], list):
        fields[field][0] = value
    else:
        fields[field] = value
    with pytest.raises(UsageError, match="is not a private synopsis"):
        parse_synopsis(json.dumps(fields), "s.json")


def test_a_witness_of_too_many_points_is_refused_before_they_are_recomputed() -> None:
    fields = json.loads(witness_text("forgy"))
    for n_common, n_output in ((9_000, 9_000), (1, 60_000)):
        fields["common"], fields["counts"] = [[0, 0]] * n_common, [0] * n_common
        fields["output"] = [[0, 0]] * n_output
        with pytest.raises(UsageError, match="too many points to be recomputed"):
            check_witness(parse_witness(json.dumps(fields), "w.json"))


def test_a_key_that_stands_twice_in_a_witness_or_a_synopsis_is_refused() -> None:
    """Readers would differ about its value."""
    witness = witness_text("laplace").replace("{", '{"claimed_eps": "9", ', 1)
    with pytest.raises(UsageError, match="a key stands in it twice"):
        parse_witness(witness, "w.json")
    synopsis = synopsis_text(2).replace('"guarantee": {', '"guarantee": {"eps": 0.001, ', 1)
    with pytest.raises(UsageError, match="a key stands in it twice"):
        parse_synopsis(synopsis, "s.json")


def test_only_ordinary_files_of_a_sane_size_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "zero"):
        with pytest.raises(OSError, match="it is not an ordinary file"):
            foreign.read_bytes(tmp_path / name)
        with pytest.raises(UsageError, match="it is not an ordinary file"):
            read_synopsis(tmp_path / name)
    with pytest.raises(IsADirectoryError):
        foreign.read_bytes(tmp_path)
    with pytest.raises(FileNotFoundError):
        foreign.read_bytes(tmp_path / "nowhere")
    (tmp_path / "large").write_bytes(b"x" * 11)
    (tmp_path / "link").symlink_to(tmp_path / "large")
    with pytest.raises(OSError, match="it is larger than"):
        foreign.read_bytes(tmp_path / "link", 10)
    assert foreign.read_bytes(tmp_path / "link", 11) == b"x" * 11
