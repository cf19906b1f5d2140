"""``--mechanism synopsis`` and what its private cells are good for, in real processes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from support.run import dpkv

ROOT = Path(__file__).resolve().parents[2]
RELEASE = ("release", "--k=3", "--data=t.csv", "--bounds=-10,10")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "datasets" / "clinic_patients.csv", tmp_path / "t.csv")
    return tmp_path


def test_a_synopsis_is_exported_verified_and_clustered_again(home: Path) -> None:
    asked = (*RELEASE, "--eps=1", "--mechanism=synopsis", "--export-synopsis", "--id=one")
    assert dpkv(*asked, cwd=home).returncode == 0
    checked = dpkv("verify", "release/release.json", "--json", cwd=home)
    assert checked.returncode == 0, checked.stderr
    found = {check["name"]: check["passed"] for check in json.loads(checked.stdout)["checks"]}
    assert found["synopsis"] is True
    ledger = (home / ".dpkv" / "ledger.sqlite").read_bytes()
    seeded = ("seed", "--synopsis=release/synopsis.json", "--k=7", "--seed=1", "--json")
    again = dpkv(*seeded, cwd=home)
    assert again.returncode == 0, again.stderr
    result = json.loads(again.stdout)
    assert (result["spent"], len(result["centers"]), result["release_id"]) == (0, 7, "one")
    assert len((home / "centers-from-synopsis.csv").read_text().splitlines()) == 8
    assert (home / ".dpkv" / "ledger.sqlite").read_bytes() == ledger
    path = home / "release" / "synopsis.json"
    path.write_text(path.read_text().replace('"kind": "synopsis"', '"kind":  "synopsis"'))
    altered = dpkv("verify", "release/release.json", cwd=home)
    assert altered.returncode == 3
    assert "the file of the synopsis was altered" in altered.stderr


def test_what_goes_with_a_synopsis_and_what_does_not(home: Path) -> None:
    refused = dpkv(*RELEASE, "--eps=1", "--export-synopsis", cwd=home)
    assert refused.returncode == 2
    assert "--export-synopsis needs --mechanism synopsis" in refused.stderr
    assert not (home / "release").exists() and not (home / ".dpkv").exists()
    for arguments, words in (
        (("seed", "--k=2"), "DATA must be given"),
        (("seed", "t.csv", "--synopsis=x.json", "--k=2"), "takes the place of DATA"),
        (("seed", "--synopsis=x.json", "--k=2"), "x.json cannot be read"),
        (("seed", "--synopsis=t.csv", "--k=2"), "is not a private synopsis"),
        ((*RELEASE, "--eps=1", "--delta=1e-6"), "delta must be 0 for mechanism 'kvariates'"),
    ):
        result = dpkv(*arguments, cwd=home)
        assert result.returncode == 2, arguments
        assert words in result.stderr


def test_a_delta_that_is_of_no_use_is_not_charged(home: Path) -> None:
    asked = (*RELEASE, "--eps=1", "--mechanism=synopsis", "--delta=1e-6")
    done = dpkv(*asked, cwd=home)
    assert done.returncode == 0, done.stderr
    assert "The release is 1-differentially private" in done.stdout
    assert "delta was not used, nor charged" in done.stderr
    shown = json.loads(dpkv("ledger", "show", "--json", cwd=home).stdout)
    assert shown["accounts"][0]["delta_spent"] == "0"
    assert dpkv("verify", "release/release.json", cwd=home).returncode == 0


def test_a_budget_has_a_delta_too(home: Path) -> None:
    """In twenty columns, where Gaussian noise is less than Laplace noise."""
    wide = np.random.default_rng(0).uniform(-10, 10, (400, 20))
    np.savetxt(home / "t.csv", wide, delimiter=",", fmt="%.3f")
    asked = (*RELEASE, "--eps=1", "--mechanism=auto", "--delta=1e-6")
    dpkv("ledger", "set-budget", "t.csv", "--eps=5", cwd=home)
    refused = dpkv(*asked, cwd=home)
    assert refused.returncode == 4
    assert "requested delta 0.000001, remaining 0" in refused.stderr
    told = dpkv("ledger", "set-budget", "t.csv", "--eps=5", "--delta=2e-6", cwd=home)
    assert "delta 0.000002, 0 spent" in told.stdout
    done = dpkv(*asked, cwd=home)
    assert done.returncode == 0, done.stderr
    assert "auto: the only mechanism with a use for delta" in done.stdout
    assert "(1, 0.000001)-differentially private" in done.stdout
    shown = json.loads(dpkv("ledger", "show", "--json", cwd=home).stdout)
    assert shown["accounts"][0]["delta_spent"] == "0.000001"
    assert dpkv("verify", "release/release.json", cwd=home).returncode == 0
