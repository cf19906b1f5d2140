"""``dpkv export`` in a real process: what is written, what is refused."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from support.run import dpkv, refusal

from dpkv.releases.handover import FORMATS


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("released")
    rows = [f"{3 + i % 7 / 10},{5 + i % 5 / 10}" for i in range(300)]
    (home / "t.csv").write_text("x,y\n" + "\n".join(rows) + "\n", encoding="utf-8")
    result = dpkv("release", "t.csv", "--header", "--k=2", "--eps=0.5", "--bounds=0,10", cwd=home)
    assert result.returncode == 0, result.stderr
    simulated = ("t.csv", "--k=2", "--eps=1", "--bounds=0,10", "--seed=1", "--out=simulated")
    assert dpkv("simulate", *simulated, "--header", cwd=home).returncode == 0
    return home


@pytest.mark.parametrize("to", FORMATS)
def test_a_form_is_written_beside_the_record(released: Path, to: str) -> None:
    result = dpkv("export", "release/release.json", "--to", to, cwd=released)
    assert result.returncode == 0, result.stderr
    target = released / "release" / FORMATS[to].file_name
    assert str(target.relative_to(released)) in result.stdout
    assert stat.S_IMODE(target.stat().st_mode) == 0o644
    assert "vouched for" not in result.stdout


def test_json_lists_what_is_open(released: Path, tmp_path: Path) -> None:
    out = tmp_path / "entry.yaml"
    command = ("export", "release/release.json", "--to=registry", "--json", "--out", out)
    result = dpkv(*command, cwd=released)
    found = json.loads(result.stdout)
    assert found["to"] == "registry" and found["file"] == str(out) and found["vouched_for"]
    text = out.read_text(encoding="utf-8")
    assert found["left_open"] and all(f"TO FILL IN: {one}" in text for one in found["left_open"])


def test_the_call_runs_once_the_header_is_stated(released: Path, tmp_path: Path) -> None:
    out = tmp_path / "repeat.py"
    assert dpkv("export", "release/release.json", "--to=python", "--out", out, cwd=released)
    program = out.read_text(encoding="utf-8").replace("HEADER = None", "HEADER = True")
    out.write_text(program, encoding="utf-8")
    table = (released / "t.csv").read_text(encoding="utf-8")
    (tmp_path / "table.csv").write_text(table, encoding="utf-8")
    subprocess.run([sys.executable, "-W", "error", "repeat.py"], cwd=tmp_path, check=True)
    repeated = json.loads((tmp_path / "repeated/release.json").read_text(encoding="utf-8"))
    first = json.loads((released / "release/release.json").read_text(encoding="utf-8"))
    assert repeated["release_id"] != first["release_id"]
    assert {**repeated["plan"], "chosen": 0} == {**first["plan"], "chosen": 0}
    assert repeated["ledger"]["charged"] == first["ledger"]["charged"] == "0.5"


def test_a_record_that_nobody_vouches_for_says_so(released: Path, tmp_path: Path) -> None:
    for name in ("release.json", "centers.csv"):
        text = (released / "release" / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(text, encoding="utf-8")
    result = dpkv("export", "release.json", "--to=nist", cwd=tmp_path)
    assert result.returncode == 0 and "by nobody" in result.stdout


def test_a_forged_record_is_refused(released: Path, tmp_path: Path) -> None:
    text = (released / "release/release.json").read_text(encoding="utf-8")
    (tmp_path / "release.json").write_text(text.replace('"0.5"', '"0.1"'), encoding="utf-8")
    result = dpkv("export", "release.json", "--to=registry", cwd=tmp_path)
    assert "does not check out" in refusal(result, 3)
    assert not (tmp_path / "registry.yaml").exists()


def test_a_simulation_stays_private(released: Path) -> None:
    record = next((released / "simulated").glob("simulation*.json"))
    assert "registered" in refusal(dpkv("export", record, "--to=registry", cwd=released))
    assert dpkv("export", record, "--to=nist", cwd=released).returncode == 0
    written = record.with_name("nist-800-226.md")
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    assert "not releasable" in written.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("release/release.json", "--to=pdf"), "--to must be"),
        (("nowhere.json", "--to=nist"), "does not exist"),
        (("t.csv", "--to=nist"), "t.csv"),
        (("release/release.json", "--to=nist", "--out=release/release.json"), "--out must not"),
        (("release/release.json", "--to=nist", "--out=release"), "--out must be a file"),
    ],
)
def test_what_cannot_be_exported_is_refused_in_a_sentence(
    released: Path, arguments: tuple[str, ...], told: str
) -> None:
    assert told in refusal(dpkv("export", *arguments, cwd=released))
