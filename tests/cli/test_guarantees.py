"""``dpkv guarantees``: the table in numbers, formulas where numbers are missing, refusals."""

from __future__ import annotations

import json
import math

import pytest
from support.run import Run, dpkv, in_process, refusal


@pytest.fixture
def guarantees(monkeypatch, capsys, tmp_path) -> Run:
    return in_process(monkeypatch, capsys, tmp_path, "guarantees")


def test_the_example_of_the_help(tmp_path):
    shown = dpkv("guarantees", "--help", cwd=tmp_path).stdout
    words = shown[shown.index("dpkv guarantees --k") :].split()
    arguments = words[1 : words.index("2000") + 1]
    done = dpkv(*arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    factor = 2 + math.log(10)
    assert f"{factor * (10 * 5000 + 6 * 2000):.6g}" in done.stdout
    assert f"{factor * 8 * 5000:.6g}" in done.stdout
    assert "~ 640" in done.stdout  # n^2 k
    assert "needs --varsigma" in done.stdout
    assert "order of magnitude" in done.stdout
    assert not list(tmp_path.iterdir())


def test_without_numbers_the_formulas_are_shown(guarantees):
    done = guarantees()
    assert done.returncode == 0
    assert "Omega(nkd/e^4 + n^2 k log nk)" in done.stdout
    assert "needs --k --phi-opt" in done.stdout
    assert "for numbers in place of formulas: --k --m --d" in done.stdout


def test_json(guarantees):
    done = guarantees("--k", "10", "--phi-opt", "5", "--varsigma", "0", "--eta=0.5", "--json")
    result = json.loads(done.stdout)
    assert (result["schema_version"], result["kind"]) == (1, "guarantees")
    assert result["facts"]["oversampling"] == 20.0
    by_name = {row["algorithm"]: row for row in result["guarantees"]}
    assert by_name["k-means++"]["value"] == pytest.approx((2 + math.log(10)) * 40)
    assert by_name["ok-means++"]["value"] is None
    assert by_name["ok-means++"]["infinite"] is True
    assert by_name["dk-means++, private"]["missing"] == ["--spread", "--variance"]
    rows = {row["row"]: row for row in result["comparison"]}
    assert len(rows) == 16
    assert rows["4"]["theirs"]["order_of_magnitude"] is True
    assert rows["4"]["theirs"]["value"] == pytest.approx(math.log(10) * 5)
    assert rows["ii"]["ours"]["missing"] == ["--probe-spread"]
    assert rows["a"]["theirs"] == {
        "formula": "a lower bound of phi_opt",
        "order_of_magnitude": False,
        "value": None,
        "infinite": False,
        "missing": [],
    }


def test_every_number_given_leaves_no_formula(guarantees):
    arguments = (
        "--k 7 --m 90000 --d 13 --nodes 11 --smallest-node 450 --phi-opt 321.5 --phi-1 8e5 "
        "--spread 77 --probe-spread 15 --variance 9 --eta 0.4 --varsigma 0.3 --coreset-eps 0.2 "
        "--eps 0.9 --radius 2.5 --separability 1.75"
    )
    done = guarantees(*arguments.split())
    assert "needs" not in done.stdout
    assert "for numbers" not in done.stdout
    assert "Omega(nkd" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("--k 0", "--k must be a whole number of at least 1. Got 0 instead."),
        ("--m -5", "--m must be a whole number of at least 1. Got -5 instead."),
        ("--d 0", "--d must be a whole number of at least 1. Got 0 instead."),
        ("--nodes 0", "--nodes must be a whole number of at least 1. Got 0 instead."),
        ("--phi-opt nan", "--phi-opt must be a finite number of at least 0. Got nan instead."),
        ("--phi-opt -1", "--phi-opt must be a finite number of at least 0. Got -1.0 instead."),
        ("--phi-1 0", "--phi-1 must be a finite number greater than 0. Got 0.0 instead."),
        ("--spread inf", "--spread must be a finite number of at least 0. Got inf instead."),
        ("--varsigma 1.5", "--varsigma must be at most 1. Got 1.5 instead."),
        ("--eps 0", "--eps must be a finite number greater than 0. Got 0.0 instead."),
        ("--coreset-eps -1", "--coreset-eps must be a finite number greater than 0."),
        ("--k 5 --m 4", "--k must be at most --m, 4. Got 5 instead."),
        ("--m 4 --smallest-node 9", "--smallest-node must be at most --m, 4. Got 9 instead."),
    ],
)
def test_refusals(guarantees, arguments, sentence):
    assert refusal(guarantees(*arguments.split())).startswith(sentence)


def test_a_word_in_place_of_a_number_is_a_usage_error(guarantees):
    assert guarantees("--k", "many").returncode == 2


def test_numbers_beyond_all_measure_are_infinite_or_refused(guarantees):
    arguments = "--k 7 --m 90000 --phi-opt 1 --eps 1e-300 --radius 1e200 --json"
    done = guarantees(*arguments.split())
    rows = {row["row"]: row for row in json.loads(done.stdout)["comparison"]}
    assert rows["beta"]["theirs"]["infinite"] is True
    assert refusal(guarantees(*["--k", "7", "--phi-opt", "1.7e308", "--spread", "1e308"]))
