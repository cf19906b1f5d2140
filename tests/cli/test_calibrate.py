"""`dpkv calibrate` in a real process."""

from __future__ import annotations

import json
import shutil
import stat
from pathlib import Path

import numpy as np
import pytest
from support.run import dpkv, in_process, refusal

ROOT = Path(__file__).resolve().parents[2]
DATASETS = ROOT / "datasets"
PATIENTS = ROOT / "datasets" / "clinic_patients.csv"
QUICK = ("--method", "randomized", "--n-est", "200")


def test_json_keys_and_the_kept_record(tmp_path: Path) -> None:
    result = dpkv(
        "calibrate", PATIENTS, "--eps", "1", "--k", "1..4", "--bounds=-10,10", "--json", *QUICK,
        cwd=tmp_path,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    record = json.loads(result.stdout)
    assert record["n_records"] == 20000 and record["n_features"] == 2 and record["eps"] == 1.0
    assert record["domain"]["source"] == "given"
    assert record["visibility"] == "curator-only" and record["neighbours"] == "replace-one"
    assert [row["k"] for row in record["rows"]] == [1, 2, 3, 4]
    row = record["rows"][3]
    for name in ("spread", "spread_method", "monotonicity"):
        assert row[name] is not None
    assert set(row["published"]) >= {"eps_tilde", "sigma"}
    assert set(row["certified"]) >= {"eps_tilde", "sigma", "gamma"}
    assert row["certified"]["gamma"] == 0.1
    assert row["laplace"]["sigma"] == pytest.approx(np.sqrt(2) * 4 * 2.0)  # unit square: diam1 = 2
    (kept,) = (tmp_path / ".dpkv" / "calibrations").glob("*.json")
    assert json.loads(kept.read_text(encoding="utf-8")) == record
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / ".dpkv").stat().st_mode) == 0o700


def test_bounds_from_the_data_are_called_a_leak_everywhere(tmp_path: Path) -> None:
    arguments = ("calibrate", PATIENTS, "--eps", "1", "--k", "2", *QUICK)
    shown = dpkv(*arguments, cwd=tmp_path)
    assert "warning: the bounds were read from the data, which leaks" in shown.stderr
    assert "bounds: data" in shown.stdout
    assert "eps-DP" not in shown.stdout, "nothing covers a run from leaked bounds end to end"
    record = json.loads(dpkv(*arguments, "--json", cwd=tmp_path).stdout)
    assert record["domain"]["source"] == "data"
    assert any("leak" in sentence for sentence in record["notes"])
    assert "not an end-to-end guarantee" in record["rows"][0]["certified"]["label"]


def test_published_noise_is_never_called_private(tmp_path: Path) -> None:
    result = dpkv(
        "calibrate", PATIENTS, "--eps", "1", "--k", "2", "--bounds=-10,10", *QUICK, cwd=tmp_path
    )
    certified, published = result.stdout.split("published noise")
    assert "eps-DP end to end" in certified
    assert published.startswith(": conditional on the data, not an end-to-end guarantee")
    assert "eps-DP" not in published


def test_a_useless_row_says_so(tmp_path: Path) -> None:
    result = dpkv(
        "calibrate", PATIENTS, "--eps", "1", "--k", "10", "--bounds=-10,10", *QUICK, cwd=tmp_path
    )
    assert "k = 10: Laplace mechanism is better here" in result.stdout


def test_the_default_range_is_cut_aloud(tmp_path: Path) -> None:
    (tmp_path / "four.csv").write_text("a\n1\n2\n3\n4\n", encoding="utf-8")
    result = dpkv("calibrate", "four.csv", "--eps", "1", "--bounds=0,5", *QUICK, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "k goes up to 4 only" in result.stderr


def test_it_says_what_to_do_next(tmp_path: Path) -> None:
    for arguments, advice in (
        (["--bounds=-10,10", "--eps", "1"], "next: choose the k that you need, and release"),
        (["--eps", "1"], "next: find bounds that are public"),
    ):
        text = dpkv("calibrate", PATIENTS, "--k", "2", *QUICK, *arguments, cwd=tmp_path).stdout
        assert advice in text
        told = "choose k, mechanism, gamma and columns without looking at the data"
        assert told in text[text.index("next: ") :]


def test_a_constant_table_needs_no_noise(tmp_path: Path) -> None:
    (tmp_path / "same.csv").write_text("a\n" + "3\n" * 9, encoding="utf-8")
    result = dpkv(
        "calibrate", "same.csv", "--eps", "1", "--k", "2", "--bounds=3,3", "--json", cwd=tmp_path
    )
    row = json.loads(result.stdout)["rows"][0]
    assert row["certified"]["sigma"] == row["laplace"]["sigma"] == 0.0


def test_a_folder_in_place_of_the_plot_is_refused_first(tmp_path: Path) -> None:
    (tmp_path / "d.svg").mkdir()
    result = dpkv("calibrate", PATIENTS, "--eps", "1", "--plot", "d.svg", *QUICK, cwd=tmp_path)
    assert "--plot must be a file" in refusal(result)
    assert [path.name for path in tmp_path.iterdir()] == ["d.svg"]


def test_the_fingerprint_is_keyed_and_tells_tables_apart(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    other = tmp_path / "other.csv"
    other.write_text(PATIENTS.read_text(encoding="utf-8").replace("0.4", "0.5", 1), "utf-8")

    def fingerprint(table: Path, cwd: Path) -> str:
        result = dpkv(
            "calibrate", table, "--eps", "1", "--k", "2", "--bounds=-10,10", "--json", *QUICK,
            cwd=cwd,
        )  # fmt: skip
        return json.loads(result.stdout)["data_fingerprint"]

    first = fingerprint(PATIENTS, tmp_path / "here")
    assert fingerprint(PATIENTS, tmp_path / "here") == first
    assert fingerprint(other, tmp_path / "here") != first
    assert fingerprint(PATIENTS, tmp_path / "there") != first, "another workspace, another key"


def test_the_plot_is_drawn(tmp_path: Path) -> None:
    result = dpkv(
        "calibrate", PATIENTS, "--eps", "1", "--k", "2..4", "--bounds=-10,10", "--plot",
        "noise.svg", *QUICK, cwd=tmp_path,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "noise.svg").read_text(encoding="utf-8").lstrip().startswith("<?xml")
    assert sorted(p.name for p in tmp_path.iterdir()) == [".dpkv", "noise.svg"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--eps", "0"], "eps must be a finite number greater than 0"),
        (["--eps", "-1"], "eps must be"),
        (["--eps", "nan"], "eps must be"),
        (["--eps", "inf"], "eps must be"),
        (["--eps", "1", "--k", "two"], "--k must be"),
        (["--eps", "1", "--k", "5..2"], "--k must be"),
        (["--eps", "1", "--k", "0"], "k must be a whole number of at least 1"),
        (["--eps", "1", "--k", "999999"], "k must be at most the number of records"),
        (["--eps", "1", "--gamma", "0"], "gamma must be greater than 0"),
        (["--eps", "1", "--gamma", "nan"], "gamma must be"),
        (["--eps", "1", "--method", "guess"], "method must be one of"),
        (["--eps", "1", "--n-est", "0"], "n_est must be"),
        (["--eps", "1", "--n-est", "1000000000"], "n_est must be at most"),
        (["--eps", "1", "--k", "2..1000000000"], "--k must be"),
        (["--eps", "1e-320"], "eps must be"),
        (["--eps", "1", "--plot", "/dev/null/noise.svg"], "--plot must be in a folder"),
        (["--eps", "1", "--radius-convention", "both"], "radius_convention must be one of"),
        (["--eps", "1", "--plot", "noise.gif"], "--plot must end in"),
        (["--eps", "1", "--seed", "-1"], "seed must be a whole number of at least 0"),
        (["--eps", "1", "--method", "exact", "--k", "3"], "method must be 'certified'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_refusals_write_nothing(arguments: list[str], sentence: str, tmp_path: Path) -> None:
    result = dpkv("calibrate", PATIENTS, "--bounds=-10,10", *arguments, cwd=tmp_path)
    assert sentence in refusal(result)
    assert list(tmp_path.iterdir()) == []


def test_persons_and_rows_that_count_for_nothing_are_calibrated_as_they_are_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The bundled table of visits: its schema names the patient, and lets blanks count nothing."""
    for name in ("hospital_visits.csv", "hospital_visits.schema.json"):
        shutil.copy(DATASETS / name, tmp_path / name)
    run = in_process(monkeypatch, capsys, tmp_path, "calibrate")
    done = run("hospital_visits.csv", "--eps=1", "--k=2", "--method=randomized", "--n-est=10")
    assert done.returncode == 0, done.stderr
    assert "protecting one person (column patient_id)" in done.stdout
    assert "2274 x 9 records of 929 persons" in done.stdout
    assert "off in sex=F" in done.stdout and "as if every row were a person" in done.stdout
