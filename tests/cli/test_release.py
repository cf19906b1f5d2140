"""`dpkv release` and `dpkv simulate`: what they print, write, charge and refuse."""

from __future__ import annotations

import csv
import errno
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from support.run import Run, dpkv, errors_of, in_process, refusal

from dpkv.errors import LedgerError
from dpkv.ledger import Ledger
from dpkv.mechanisms import MECHANISMS
from dpkv.releases import verify
from dpkv.releases.kept_releases import parse_record
from dpkv.releases.verify import failed

SECRET = "0.31337"  # stands in every table; nothing printed may show it
QUICK = ("--method", "randomized", "--n-est", "100")
PAPERS = ("--mechanism", "kvariates")
BOUNDS = "--bounds=-1,1"


def run_here(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path
) -> Run:
    return in_process(monkeypatch, capsys, folder, secret="31337")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path) -> Run:
    return run_here(monkeypatch, capsys, home)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a table of 60 records."""
    save(tmp_path / "t.csv")
    return tmp_path


def save(path: Path, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    rows = np.array([-0.5, 0.5])[np.arange(60) % 2][:, None] + rng.normal(0, 0.02, (60, 2))
    lines = ["east,north", f"{SECRET},{SECRET}", *(f"{x:.6f},{y:.6f}" for x, y in rows[1:])]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def charges(home: Path) -> list[str]:
    return [e.release_id or "" for e in Ledger(home / ".dpkv").read().entries if e.kind == "charge"]


def succeeded(result: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    assert result.returncode == 0, result.stderr
    return result


def direct(*more: str) -> tuple[str, ...]:
    """Return options of a release; ``more`` take the place of those of the same name."""
    named = {option.partition("=")[0] for option in more}
    named |= {"--header"} if "--no-header" in named else set()
    usual = ("--k=2", "--data=t.csv", "--header", "--eps=1", BOUNDS, "--mechanism=kvariates")
    return (*(option for option in usual if option.partition("=")[0] not in named), *more)


def check_folder(folder: Path, home: Path) -> dict[str, object]:
    """Return the record of a finished release, having verified it and its file of centers."""
    (json_file,) = folder.glob("*.json")
    (csv_file,) = folder.glob("*.csv")
    assert len(list(folder.iterdir())) == 2
    record = parse_record(json_file.read_text(encoding="utf-8"), json_file)
    text = csv_file.read_text(encoding="utf-8")
    assert not failed(verify(record, csv_text=text, workspace=home / ".dpkv"))
    names, *rows = csv.reader(text.splitlines())
    width = len(record.columns)
    assert tuple(names[:width]) == record.columns
    places = [tuple(map(float, row[:width])) for row in rows]
    assert places == [tuple(center) for center in record.centers]
    assert names[width:] == ([] if record.sizes is None else ["size"])
    return json.loads(json_file.read_text(encoding="utf-8"))


# --- windows -----------------------------------------------------------------------------------


def test_windows_and_lloyd_steps_are_released_and_verified(home: Path, run: Run) -> None:
    asked = direct("--density=window", "--lloyd-steps=2")
    assert "density window" not in succeeded(run("release", *asked)).stdout
    record = json.loads((home / "release" / "release.json").read_text(encoding="utf-8"))
    assert record["plan"]["density"] == "window" and record["plan"]["lloyd_steps"] == 2
    assert record["mechanism"]["proof"] == record["guarantee"]["proof"] == "theorem-a-lloyd"
    assert record["noise"][0]["distribution"] == "window"
    assert [step["times"] for step in record["steps"][-2:]] == [2, 2]
    assert "pass. The release" in succeeded(run("verify", "release/release.json")).stdout
    bare = direct("--density=window", "--lloyd-steps=0", "--out=bare")
    assert "k-variates++ with windows" in succeeded(run("release", *bare)).stdout
    for wrong, told in (
        (("--density=gauss",), "density must be one of 'laplace', 'window'. Got 'gauss' instead."),
        (("--lloyd-steps=-1",), "lloyd_steps must be a whole number of at least 0"),
        (("--mechanism=gupt", "--density=window"), "density must be left out unless mechanism"),
    ):
        assert refusal(run("release", *direct(*wrong, "--out=no"))).startswith(told)


# --- from a calibration -----------------------------------------------------------------------


def test_calibrate_release_verify_in_processes(home: Path) -> None:
    succeeded(
        dpkv("calibrate", "t.csv", "--header", "--eps=1", "--k=2..3", BOUNDS, *QUICK, cwd=home)
    )
    result = succeeded(dpkv("release", "--k", "2", "--mechanism=kvariates", cwd=home))
    record = check_folder(home / "release", home)
    assert sorted(p.name for p in (home / "release").iterdir()) == ["centers.csv", "release.json"]
    assert f"release {record['release_id']}" in result.stdout
    assert "eps = 1, replace-one neighbours" in result.stdout
    assert "no budget is set" in result.stdout
    assert "The release is 1-differentially private: replacing any one record" in result.stdout
    assert errors_of(result) == []
    assert "with --density window a coordinate of a centre" in " ".join(result.stdout.split())
    verified = succeeded(dpkv("verify", "release/release.json", cwd=home))
    assert "pass. The release is 1-differentially private" in verified.stdout
    again = dpkv("release", "--k", "2", cwd=home)
    assert "--out must be a new folder. release holds files" in refusal(again)
    assert len(charges(home)) == 1


@pytest.fixture
def calibrated(run: Run) -> Run:
    succeeded(run("calibrate", "t.csv", "--header", "--eps=1", "--k=2..3", BOUNDS, *QUICK))
    return run


def test_the_newest_calibration_counts(calibrated: Run, home: Path) -> None:
    succeeded(
        calibrated(
            "calibrate", "t.csv", "--header", "--eps=0.5", "--k=2", "--bounds=-2,2",
            "--columns=north", "--gamma=0.3", "--no-scale", *QUICK,
        )
    )  # fmt: skip
    succeeded(calibrated("release", "--k=2"))
    plan = check_folder(home / "release", home)["plan"]
    assert isinstance(plan, dict)
    assert (plan["eps"], plan["gamma"], plan["scaled"]) == ("0.5", 0.3, False)
    assert plan["domain"]["upper"] == [2.0]


def test_what_the_calibration_says_can_be_overridden(calibrated: Run, home: Path) -> None:
    asked = ("--k=2", "--eps=0.25", "--bounds=-3,3", "--gamma=0.2", *PAPERS)
    result = succeeded(calibrated("release", *asked))
    assert "eps = 0.25, not the calibration's 1: calibrated anew" in result.stderr
    plan = check_folder(home / "release", home)["plan"]
    assert isinstance(plan, dict)
    assert (plan["eps"], plan["gamma"], plan["domain"]["lower"]) == ("0.25", 0.2, [-3.0, -3.0])


def test_k_above_the_calibration_is_calibrated_anew_and_says_so(
    calibrated: Run, home: Path
) -> None:
    result = succeeded(calibrated("release", "--k=7", *PAPERS))
    assert "k = 7 is not in the calibration (k = 2, 3): calibrated anew." in result.stderr
    assert len(check_folder(home / "release", home)["clusters"]) == 7  # type: ignore[arg-type]


def test_k_above_the_records_is_refused(calibrated: Run, home: Path) -> None:
    result = calibrated("release", "--k=61")
    assert result.returncode == 2 and result.stdout == ""
    assert "k must be at most the number of records, 60. Got 61" in result.stderr
    assert charges(home) == [] and not (home / "release").exists()


def test_changed_data_are_refused(calibrated: Run, home: Path) -> None:
    text = (home / "t.csv").read_text(encoding="utf-8")
    (home / "t.csv").write_text(text.replace("0.5", "0.4", 1), encoding="utf-8")
    sentence = refusal(calibrated("release", "--k=2"))
    assert "t.csv is not the table that was calibrated: run 'dpkv calibrate'" in sentence
    (home / "t.csv").unlink()
    assert "t.csv does not exist" in refusal(calibrated("release", "--k=2"))
    assert charges(home) == [] and not (home / "release").exists()


@pytest.mark.parametrize("contents", [b"", b"{", b"{}", b"\xff\xfe\0", b'{"schema_version": 99}'])
def test_a_corrupt_calibration_is_refused(contents: bytes, calibrated: Run, home: Path) -> None:
    (newest,) = (home / ".dpkv" / "calibrations").glob("*.json")
    newest.write_bytes(contents)
    sentence = refusal(calibrated("release", "--k=2"))
    assert newest.name in sentence and "remove it, and calibrate again" in sentence
    assert charges(home) == [] and newest.read_bytes() == contents
    succeeded(calibrated("release", *direct()))  # --data needs none


def test_without_a_calibration_it_says_what_to_do(run: Run, home: Path) -> None:
    sentence = refusal(run("release", "--k=2"))
    assert "run 'dpkv calibrate DATA --eps E' first, or give the table" in sentence
    assert [path.name for path in home.iterdir()] == ["t.csv"]


@pytest.mark.parametrize(
    "option", ["--columns=east", "--no-header", "--missing=fill:1", "--no-scale"]
)
def test_how_the_table_is_read_is_the_calibrations(option: str, calibrated: Run) -> None:
    """An option that cannot count is refused, not ignored."""
    sentence = refusal(calibrated("release", "--k=2", option))
    assert "belong to a table that is named" in sentence


def test_bounds_that_a_calibration_read_from_the_data_stop_a_release(run: Run, home: Path) -> None:
    told = succeeded(run("calibrate", "t.csv", "--header", "--eps=1", "--k=2", *QUICK))
    assert told.stderr.startswith("warning: the bounds were read from the data, which leaks")
    sentence = refusal(run("release", "--k=2"))
    assert "read its bounds from the data" in sentence and "--bounds private" in sentence
    assert charges(home) == [] and not (home / "release").exists()
    result = succeeded(run("release", "--k=2", "--bounds=data"))
    assert "warning: the bounds were read from the data, which leaks them" in result.stderr
    assert check_folder(home / "release", home)["releasable"] is False
    succeeded(run("release", "--k=2", BOUNDS, "--out=given"))
    assert check_folder(home / "given", home)["releasable"] is True


# --- with --data ------------------------------------------------------------------------------


def test_json_is_the_written_record(run: Run, home: Path) -> None:
    result = succeeded(run("release", *direct("--json", "--out=deep/er")))
    printed = json.loads(result.stdout)
    del printed["curator_only"]  # which is not for publishing
    assert printed == check_folder(home / "deep" / "er", home)
    assert errors_of(result) == []


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_mechanism_also_from_a_table_on_disk(mechanism: str, run: Run, home: Path) -> None:
    asked = direct(f"--mechanism={mechanism}")
    succeeded(run("release", *asked, "--out=memory"))
    succeeded(run("release", *asked, "--memory-limit=0", "--out=disk"))
    for name in ("memory", "disk"):
        record = check_folder(home / name, home)
        assert record["n_records"] == 60
    assert list((home / ".dpkv" / "tables").glob("*.f64")), "it was mapped"
    assert not list((home / ".dpkv" / "tables").glob("reading-*"))
    for bounds in ([], ["--bounds=private", "--eps=500"]):  # few records show theirs at no less
        asked = direct(f"--mechanism={mechanism}", *bounds)
        succeeded(run("simulate", *asked, "--out=s1"))
        succeeded(run("simulate", *asked, "--memory-limit=0", "--out=s2"))
        first, second = (
            (home / name / "centers-not-releasable.csv").read_text() for name in ("s1", "s2")
        )
        assert first == second
        shutil.rmtree(home / "s1")
        shutil.rmtree(home / "s2")


def test_an_empty_folder_may_take_the_release(run: Run, home: Path) -> None:
    (home / "release").mkdir()
    succeeded(run("release", *direct()))
    check_folder(home / "release", home)


def test_add_remove_has_its_own_eps_and_hides_the_number_of_records(run: Run, home: Path) -> None:
    result = succeeded(run("release", *direct("--mechanism=lloyd", "--neighbours=add-remove")))
    assert "1 spent" in result.stdout
    record = check_folder(home / "release", home)
    assert record["n_records"] is None
    assert record["ledger"]["charged"] == "1"  # type: ignore[index]


def test_private_bounds_are_told(run: Run, home: Path) -> None:
    asked = direct("--bounds=private", "--bounds-share=0.25", "--eps=80")
    result = succeeded(run("release", *asked))
    assert "found privately, with 25% of eps: east " in result.stdout
    assert "charged 80; 80 spent in all" in result.stdout
    record = check_folder(home / "release", home)
    assert record["spent"] <= 80.0  # type: ignore[operator]
    (account,) = json.loads(succeeded(run("ledger", "show", "--json")).stdout)["accounts"]
    assert (account["releases"], account["spent"]) == (1, "80")
    listed = succeeded(run("ledger", "show")).stdout
    assert f"bounds of {record['release_id']}" in listed
    assert f"kept bounds of {record['release_id']}" in listed


def test_bounds_that_noise_hides_stop_the_release_after_their_share(run: Run, home: Path) -> None:
    asked = direct("--bounds=private", "--bounds-share=0.25", "--id=mine")
    sentence = refusal(run("release", *asked))
    assert "no private bounds were found in east, north" in sentence
    assert "share of eps, 0.25, was charged, and nothing more" in sentence
    assert not (home / "release").exists() and charges(home) == ["mine:bounds"]
    assert refusal(run("release", *asked)) == sentence, "asking again draws nothing new"
    assert charges(home) == ["mine:bounds"]
    assert "0.25 spent" in succeeded(run("ledger", "set-budget", "t.csv", "--eps=2")).stdout


def test_an_interrupt_between_the_charges_says_what_was_charged(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    asked = direct("--bounds=private", "--eps=80", "--id=mine")
    with monkeypatch.context() as patch:
        patch.setattr("dpkv.mechanisms.PrivateBounds.run", interrupted)
        sentence = refusal(run("release", *asked), exit_code=130)
    assert "interrupted after the bounds of release mine were charged: run again with" in sentence
    succeeded(run("release", *asked))
    assert charges(home) == ["mine:bounds", "mine"]


def test_the_summary_says_whom_it_protects_and_which_ledger_counts(run: Run, home: Path) -> None:
    told = succeeded(run("release", *direct("--out=1"))).stdout
    assert "protects   one row; a person with several rows is protected for one of them" in told
    assert "missing    refuse the table\n" in re.sub(" +\n", "\n", told)
    account = Ledger(home / ".dpkv").read().accounts()[0].dataset
    assert f".dpkv/ledger.sqlite, account t.csv ({account[:8]}); what is spent elsewhere" in told
    told = succeeded(run("release", *direct("--dataset=people", "--out=2"))).stdout
    assert ".dpkv/ledger.sqlite, account name:people; what is spent elsewhere" in told
    for stopped in (run("release", *direct("--bounds=data")), run("simulate", *direct())):
        told = succeeded(stopped).stdout
        assert "protects" in told and "nothing that is proved; the noise is for one row" in told


def test_warnings_come_before_the_charge(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise LedgerError("no charge")

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "charge", refused)
        result = run("release", *direct("--eps=1000", "--k=60"))
    assert refusal(result) == "no charge"
    told = [x for x in result.stderr.splitlines() if not x.startswith("reading")]  # if slow
    row, large, few, hopeful = told[:4]
    assert row.startswith("warning: this protects one row, not one person")
    assert large.startswith("warning: eps = 1000 is above 10, which promises next to nothing")
    assert few.startswith("warning: there are fewer than 100 records")
    assert hopeful.startswith("predicted: a centre is typically off by about")
    asked = direct("--mechanism=laplace", "--dataset=people")
    assert "predicted to give centres that are no better" in run("release", *asked).stderr
    mixed = refusal(run("release", *asked, "--neighbours=add-remove", "--out=2"))
    assert "is for replace-one neighbours" in mixed
    assert "predicted" in run("simulate", *direct("--mechanism=laplace")).stderr
    kept = (home / "release" / "release.json").read_text(encoding="utf-8")
    assert re.search(r"\binf(inity)?\b", kept, re.IGNORECASE) is None


def test_a_table_without_a_header_and_with_missing_cells(run: Run, home: Path) -> None:
    (home / "u.csv").write_text(f"1,2\n3,nan\n5,{SECRET}\n0,1\n", encoding="utf-8")
    asked = ("--k=2", "--data=u.csv", "--eps=1", "--no-header")
    refused = run("release", *asked, "--bounds=0,6")
    assert "line 2" in refused.stderr and refused.returncode == 2
    assert charges(home) == []
    succeeded(run("release", *asked, "--bounds=0,6", "--missing=fill:0.25"))
    assert check_folder(home / "release", home)["n_records"] == 4


# --- what the first row is -------------------------------------------------------------------

ROWS = "0.1,0.2\n0.3,0.4\n0.5,0.6\n0.7,0.8\n"
NAMES = {
    "numbers": (f"{SECRET},{SECRET}1\n", "is a number or looks like one"),
    "a number beside a name": (f"name,{SECRET}\n", "is a number or looks like one"),
    "decimal commas": ('"0,31337","1,31337"\n', "is a number or looks like one"),
    "dates": ("1931-3-7,1931-3-8\n", "is a number or looks like one"),
    "words for numbers": ("inf,nan\n", "is a number or looks like one"),
    "formulas": ('"=HYPERLINK(""http://x"")",b\n', "begins like a formula"),
    "a sign": ("b,+x\n", "begins like a formula"),
    "a formula after another delimiter": ('b,"x;=cmd()"\n', "begins like a formula"),
}


@pytest.mark.parametrize("command", ["release", "simulate"])
@pytest.mark.parametrize(("first", "sentence"), NAMES.values(), ids=NAMES)
def test_names_that_may_be_a_record_or_a_formula_are_not_published(
    command: str, first: str, sentence: str, run: Run, home: Path
) -> None:
    (home / "t.csv").write_text(first + ROWS, encoding="utf-8")
    said = refusal(run(command, *direct("--header", f"--out={command}")))
    assert sentence in said
    assert "HYPERLINK" not in said and "31337" not in said and "1931" not in said
    assert charges(home) == [] and not (home / command).exists()


@pytest.mark.parametrize("command", ["release", "simulate", "calibrate"])
def test_where_text_may_be_a_record_the_header_is_asked_for(
    command: str, run: Run, home: Path
) -> None:
    (home / "t.csv").write_text(f"first{SECRET},second{SECRET}\n{ROWS}", encoding="utf-8")
    asked = ("--k=2", "--eps=1", BOUNDS)
    asked = ("t.csv", *asked, *QUICK) if command == "calibrate" else ("--data=t.csv", *asked)
    said = refusal(run(command, *asked, "--missing=fill:0.25"))
    assert "say --header or --no-header" in said and SECRET not in said
    assert charges(home) == [] and not (home / command).exists()
    succeeded(run(command, *asked, "--missing=fill:0.25", "--no-header"))
    if command == "release":
        record = check_folder(home / "release", home)
        assert (record["columns"], record["n_records"]) == (["x1", "x2"], 5)


@pytest.mark.parametrize("command", ["release", "simulate"])
def test_columns_of_numbers_do_not_tell_that_the_row_above_them_is_names(
    command: str, run: Run, home: Path
) -> None:
    asked = (command, "t.csv", "--k=2", "--eps=1", BOUNDS)
    said = refusal(run(*asked))
    assert "say --header or --no-header" in said and "schema" in said and "east" not in said
    assert charges(home) == [] and not (home / command).exists()
    shutil.copy(home / "t.csv", home / "u.csv")
    assert "say --header or --no-header" in refusal(run(command, "t.csv", "u.csv", *asked[2:]))
    succeeded(run(*asked, "--header"))


def test_a_header_that_was_stated_is_handed_on_by_a_calibration(run: Run, home: Path) -> None:
    how = ("calibrate", "t.csv", "--eps=1", "--k=2", BOUNDS, *QUICK)
    detected = succeeded(run(*how))
    assert "and release: dpkv release --k 2 --header\n" in detected.stdout
    assert "say --header or --no-header" in refusal(run("release", "--k=2"))
    succeeded(run("release", "--k=2", "--header", "--out=said"))
    stated = succeeded(run(*how, "--header"))
    assert "and release: dpkv release --k 2\n" in stated.stdout
    succeeded(run("release", "--k=2", "--out=handed-on"))
    for folder in ("said", "handed-on"):
        record = check_folder(home / folder, home)
        assert (record["columns"], record["n_records"]) == (["east", "north"], 60)


def test_a_first_row_of_numbers_is_a_record(run: Run, home: Path) -> None:
    (home / "t.csv").write_text(ROWS, encoding="utf-8")
    succeeded(run("release", "t.csv", "--k=2", "--eps=1", BOUNDS))
    assert check_folder(home / "release", home)["columns"] == ["x1", "x2"]


def test_an_audit_that_is_published_asks_for_the_header(run: Run) -> None:
    asked = ("audit", "t.csv", "--k=2", "--eps=1", BOUNDS, "--quick", "--runs=2", "--public")
    assert "say --header or --no-header" in refusal(run(*asked))


def test_a_calibration_that_fills_keeps_what_was_said_of_the_header(run: Run, home: Path) -> None:
    (home / "t.csv").write_text(f"un{SECRET},known\n{ROWS}", encoding="utf-8")
    how = ("--missing=fill:0.25", "--no-header")
    succeeded(run("calibrate", "t.csv", "--eps=1", "--k=2", BOUNDS, *QUICK, *how))
    succeeded(run("release", "--k=2"))
    record = check_folder(home / "release", home)
    assert (record["columns"], record["n_records"]) == (["x1", "x2"], 5)
    audited = ("audit", "release/release.json", "--data=t.csv", "--quick")
    assert 'has no column "x1"' in refusal(run(*audited, "--header"))  # what is said counts


@pytest.mark.parametrize("cell", ["", "  ", "unknown", "nan", '""', "1e400"])
@pytest.mark.parametrize("place", [0, 49], ids=["first", "last"])
@pytest.mark.parametrize("header", ["--header", "--no-header"])
def test_no_cell_of_one_column_changes_the_number_of_records(
    cell: str, place: int, header: str, run: Run, home: Path
) -> None:
    cells = ["0.5"] * 50
    cells[place] = cell
    names = ["age"] if header == "--header" else []
    (home / "t.csv").write_text("\n".join([*names, *cells]) + "\n", encoding="utf-8")
    succeeded(run("release", *direct("--missing=fill:0.25", header)))
    record = check_folder(home / "release", home)
    assert record["n_records"] == 50
    assert record["columns"] == (names or ["x1"])


def test_a_json_file_that_is_no_table_shows_none_of_its_records(run: Run, home: Path) -> None:
    row = '{"name": "Smith", "age": "0.31337"}'
    (home / "t.json").write_text(f"[{row}, {row},\n{row}]\n", encoding="utf-8")
    for command in ("release", "simulate"):
        said = refusal(run(command, "--k=2", "--data=t.json", "--eps=1", BOUNDS))
        assert "Smith" not in said


# --- what is conditional on the data, and what is simulated ----------------------------------


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    "options",
    [("--bounds=data",), ("--calibration=published", "--eps=15")],
    ids=["bounds of the data", "published"],
)
def test_a_conditional_release_says_so_everywhere(
    options: tuple[str, ...], run: Run, home: Path
) -> None:
    result = succeeded(run("release", *direct(*options)))
    folder = home / "release"
    assert sorted(path.name for path in folder.iterdir()) == [
        "centers-conditional.csv",
        "release-conditional.json",
    ]
    words = "conditional on the data, not an end-to-end guarantee"
    text = (folder / "release-conditional.json").read_text(encoding="utf-8")
    assert words in result.stdout and words in result.stderr
    assert '"status": "conditional-' in text
    assert "none proved" in result.stdout
    for shown in (result.stdout, result.stderr, text):
        assert "differentially private" not in shown and "eps-DP" not in shown
    assert mode(folder) == 0o700 and all(mode(path) == 0o600 for path in folder.iterdir())
    check_folder(folder, home)
    listed = succeeded(run("ledger", "show"))
    assert "(conditional)" in listed.stdout and "no end-to-end" in listed.stderr
    verified = succeeded(run("verify", folder / "release-conditional.json"))
    assert "not end to end, and says so" in verified.stdout


def test_a_published_release_can_be_asked_for_again(run: Run, home: Path) -> None:
    asked = direct("--calibration=published", "--eps=15", "--id=mine")
    first = succeeded(run("release", *asked, "--json"))
    again = succeeded(run("release", *asked, "--json", "--out=again"))
    assert first.stdout == again.stdout
    assert charges(home) == ["mine"]


def test_a_published_release_uses_the_calibrations_figure(run: Run, home: Path) -> None:
    calibrate = ("calibrate", "t.csv", "--header", "--eps=15", "--k=2", BOUNDS, "--json")
    row = json.loads(succeeded(run(*calibrate)).stdout)["rows"][0]
    succeeded(run("release", "--k=2", "--calibration=published"))
    plan = check_folder(home / "release", home)["plan"]
    assert plan["eps_tilde"] == row["published"]["eps_tilde"]  # type: ignore[index]


def test_files_to_publish_can_be_read_and_the_workspace_cannot(run: Run, home: Path) -> None:
    succeeded(run("release", *direct("--memory-limit=0")))
    assert mode(home / "release") == 0o755
    assert all(mode(path) == 0o644 for path in (home / "release").iterdir())
    for path in (home / ".dpkv", *(home / ".dpkv").rglob("*")):
        assert mode(path) == (0o700 if path.is_dir() else 0o600), path


def test_a_simulation_is_stamped_and_repeats(run: Run, home: Path) -> None:
    result = succeeded(run("simulate", *direct("--seed=7")))
    folder = home / "simulation"
    assert sorted(path.name for path in folder.iterdir()) == [
        "centers-not-releasable.csv",
        "simulation-not-releasable.json",
    ]
    assert "not releasable" in result.stdout and "not releasable" in result.stderr
    assert "differentially private" not in result.stdout
    assert mode(folder) == 0o700 and all(mode(path) == 0o600 for path in folder.iterdir())
    record = check_folder(folder, home)
    assert record["kind"] == "simulation" and record["releasable"] is False
    assert not (home / ".dpkv" / "ledger.sqlite").exists()
    again = succeeded(run("simulate", *direct("--seed=7", "--out=again", "--json")))
    assert json.loads(again.stdout)["clusters"] == record["clusters"]
    other = succeeded(run("simulate", *direct("--seed=8", "--out=other", "--json")))
    assert json.loads(other.stdout)["clusters"] != record["clusters"]
    assert "seed must be" in refusal(run("simulate", *direct("--seed=-1", "--out=bad")))


def test_there_is_no_seed_for_a_release(run: Run, home: Path) -> None:
    result = run("release", *direct("--seed=1"))
    assert result.returncode == 2 and "No such option" in result.stderr
    assert charges(home) == []


# --- ids --------------------------------------------------------------------------------------


def test_the_same_id_is_the_same_release(run: Run, home: Path) -> None:
    first = succeeded(run("release", *direct("--id=mine", "--json")))
    again = succeeded(run("release", *direct("--id=mine", "--json", "--out=again")))
    assert first.stdout == again.stdout and charges(home) == ["mine"]
    check_folder(home / "again", home)
    for other in (["--k=3"], ["--eps=2"], ["--mechanism=forgy"], ["--columns=east"]):
        sentence = refusal(run("release", *direct("--id=mine", "--out=other", *other)))
        assert "release id 'mine' was charged for another release" in sentence
    save(home / "t.csv", seed=1)
    sentence = refusal(run("release", *direct("--id=mine", "--out=other")))
    assert "take a new id" in sentence
    assert charges(home) == ["mine"] and not (home / "other").exists()


def test_a_repeated_release_is_signed_or_says_that_it_is_not(run: Run, home: Path) -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    (home / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    succeeded(run("release", *direct("--id=mine")))
    result = run("release", *direct("--id=mine", "--sign=key.pem", "--out=signed", "--json"))
    signed = result.returncode == 0 and json.loads(result.stdout)["signature"] is not None
    assert signed or "sign" in result.stderr, "--sign must not be ignored in silence"


def test_signing(run: Run, home: Path) -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    (home / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    succeeded(run("release", *direct("--sign=key.pem")))
    record = check_folder(home / "release", home)
    assert record["signature"]["algorithm"] == "Ed25519"  # type: ignore[index]
    for bad, words in {"t.csv": "--sign must be an", "nowhere.pem": "cannot be read"}.items():
        assert words in refusal(run("release", *direct(f"--sign={bad}", "--out=other")))
    assert len(charges(home)) == 1


# --- budgets ----------------------------------------------------------------------------------


def test_a_refused_release_in_a_process(home: Path) -> None:
    succeeded(dpkv("ledger", "set-budget", "t.csv", "--eps", "0.75", cwd=home))
    sentence = refusal(dpkv("release", *direct(), cwd=home), exit_code=4)
    for words in ("requested eps 1,", "remaining 0.75,", "short by 0.25"):
        assert words in sentence
    assert not (home / "release").exists() and not (home / ".dpkv" / "releases").exists()
    assert charges(home) == []


def test_columns_of_a_file_share_its_budget(run: Run, home: Path) -> None:
    succeeded(run("ledger", "set-budget", "t.csv", "--eps=2"))
    succeeded(run("release", *direct("--columns=east", "--out=1")))
    shutil.copy(home / "t.csv", home / "copy.csv")
    succeeded(run("release", *direct("--columns=north", "--data=copy.csv", "--out=2")))
    refused = run("release", *direct("--out=3"))
    assert "remaining 0, short by 1" in refusal(refused, exit_code=4)
    save(home / "t.csv", seed=3)
    succeeded(run("release", *direct("--out=4")))  # other data, another budget
    assert len(charges(home)) == 3 and not (home / "3").exists()


def test_add_remove_is_refused_where_the_budget_is_for_replace_one(run: Run, home: Path) -> None:
    succeeded(run("ledger", "set-budget", "t.csv", "--eps=1.5"))
    asked = direct("--mechanism=forgy", "--neighbours=add-remove")
    sentence = refusal(run("release", *asked))
    assert "is for replace-one neighbours" in sentence and "do not add up" in sentence
    succeeded(run("release", *direct()))
    assert len(charges(home)) == 1


# --- places to write --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "out", ["full", "t.csv", "t.csv/below", "/dev/null", "link", "dangling", ".", ".dpkv"]
)
def test_a_folder_that_cannot_be_made_is_refused_before_the_charge(
    out: str, run: Run, home: Path
) -> None:
    (home / "full").mkdir()
    (home / "full" / "file").write_text("mine", encoding="utf-8")
    (home / "dangling").symlink_to(home / "nowhere")
    (home / "link").symlink_to(home / "full")
    assert "--out" in refusal(run("release", *direct(f"--out={out}")))
    assert charges(home) == []
    assert (home / "full" / "file").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("out", [".", ".dpkv"])
def test_an_empty_working_folder_is_no_place_for_the_release(
    out: str, run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workspace is about to be made there."""
    (home / "work").mkdir()
    monkeypatch.chdir(home / "work")
    assert "--out" in refusal(run("release", *direct("--data=../t.csv", f"--out={out}")))
    assert charges(home / "work") == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written(run: Run, home: Path) -> None:
    (home / "closed").mkdir(mode=0o500)
    assert "can be written" in refusal(run("release", *direct("--out=closed/r")))
    assert charges(home) == []


def test_a_charged_release_that_cannot_be_written_tells_its_id(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", full)
        result = run("release", *direct())
    (name,) = charges(home)
    assert result.returncode == 2 and result.stdout == ""
    note, error = errors_of(result)
    assert f"--id {name}" in note, "or nobody knows how to get what was paid for"
    assert error == "dpkv: error: --out release cannot be written: No space left on device."
    assert sorted(path.name for path in home.iterdir()) == [".dpkv", "t.csv"]
    succeeded(run("release", *direct(f"--id={name}")))
    assert charges(home) == [name]


# --- refusals ---------------------------------------------------------------------------------

PARAMETERS = {
    "k of 0": (["--k=0"], "k must be a whole number of at least 1. Got 0"),
    "k above the records": (["--k=61"], "k must be at most the number of records, 60. Got 61"),
    "eps of 0": (["--eps=0"], "eps must be greater than 0"),
    "negative eps": (["--eps=-1"], "eps must be greater than 0"),
    "eps nan": (["--eps=nan"], "eps must be greater than 0"),
    "eps inf": (["--eps=inf"], "eps must be greater than 0"),
    "huge eps": (["--eps=1e9"], "eps must be greater than 0 and at most 1000000"),
    "gamma of 0": (["--gamma=0"], "gamma must be greater than 0"),
    "gamma nan": (["--gamma=nan"], "gamma must be"),
    "reversed bounds": (["--bounds=1,-1"], "bounds of column 1 must be low,high in this order"),
    "three pairs": (["--bounds=0,1;0,1;0,1"], "each of the 2 columns"),
    "word for bounds": (["--bounds=guess"], "--bounds must be low,high pairs or a JSON file"),
    "unknown mechanism": (["--mechanism=magic"], "mechanism must be one of"),
    "unknown neighbours": (["--neighbours=all"], "neighbours must be one of"),
    "kvariates add-remove": (["--neighbours=add-remove"], "neighbours must be 'replace-one' for"),
    "unknown calibration": (["--calibration=guess"], "calibration must be one of"),
    "published gupt": (["--calibration=published", "--mechanism=gupt"], "calibration must be 'c"),
    "iterations": (["--iterations=3"], "iterations must be left out unless mechanism is 'lloyd'"),
    "share of 0": (["--bounds=private", "--bounds-share=0"], "bounds_share must be"),
    "share of 1": (["--bounds=private", "--bounds-share=1"], "bounds_share must be between"),
    "share nan": (["--bounds=private", "--bounds-share=nan"], "bounds_share must be"),
    "bad id": (["--id=../x"], "id must be 1 to 64 letters"),
    "empty id": (["--id="], "id must be 1 to 64 letters"),
    "unknown column": (["--columns=age"], 'no column "age"'),
    "unknown rule": (["--missing=drop"], "missing must be refuse, ignore, category or"),
    "negative limit": (["--memory-limit=-1"], "--memory-limit must be at least 0"),
    "missing table": (["--data=nowhere.csv"], "nowhere.csv does not exist"),
    "no usable noise": (["--calibration=published", "--eps=0.01"], "no usable noise for k = 2"),
}


@pytest.mark.parametrize(("options", "sentence"), PARAMETERS.values(), ids=PARAMETERS)
def test_bad_parameters(options: list[str], sentence: str, run: Run, home: Path) -> None:
    assert sentence in refusal(run("release", *direct(*options)))
    assert charges(home) == [] and not (home / "release").exists()
    if "--id" not in options[0]:
        assert sentence in refusal(run("simulate", *direct(*options)))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--data=t.csv"], "--eps must be given with a table"),
        (["--data=t.csv", "--eps=1"], "--bounds must be given with a table"),
    ],
)
def test_data_need_eps_and_bounds(options: list[str], sentence: str, run: Run, home: Path) -> None:
    assert sentence in refusal(run("release", "--k=2", *options))
    assert [path.name for path in home.iterdir()] == ["t.csv"]


@pytest.mark.parametrize("options", [["--eps=abc"], ["--nonsense"]])
def test_usage(options: list[str], run: Run, home: Path) -> None:
    result = run("release", *direct(*options))
    assert result.returncode == 2 and result.stdout == "" and "Usage: " in result.stderr
    assert [path.name for path in home.iterdir()] == ["t.csv"]


TABLES = {
    "text": (f"a,b\n{SECRET},1\n{SECRET},x{SECRET}\n", "line 3"),
    "missing": (f"a,b\n{SECRET},1\n{SECRET},\n", "line 3"),
    "short": (f"a,b\n{SECRET},1\n{SECRET}\n", "line 3"),
    "huge": (f"a,b\n1,{SECRET}\n{SECRET.replace('.', '')}e300,1\n", "line 3"),
    "empty": ("", "is empty"),
}


@pytest.mark.parametrize(("contents", "words"), TABLES.values(), ids=TABLES)
def test_bad_tables_show_no_record(contents: str, words: str, run: Run, home: Path) -> None:
    (home / "t.csv").write_text(contents, encoding="utf-8")
    for more in ([], ["--memory-limit=0"], ["--bounds=private"], ["--bounds=data"]):
        assert words in refusal(run("release", *direct(*more)))
    assert charges(home) == [] and not (home / "release").exists()


def test_control_characters_in_a_name_stay_off_the_terminal(run: Run, home: Path) -> None:
    text = (home / "t.csv").read_text(encoding="utf-8").replace("east", "\x1b[31meast")
    (home / "t.csv").write_text(text, encoding="utf-8")
    sentence = refusal(run("release", *direct()))
    assert "columns must be printable names. Got 'number 1, which is not'" in sentence
    assert charges(home) == []
    succeeded(run("release", *direct("--columns=north")))


@pytest.mark.parametrize("contents", [b"no database at all, " * 300, b""])
def test_a_corrupt_ledger_is_refused_before_the_table_is_read(
    contents: bytes, run: Run, home: Path
) -> None:
    succeeded(run("release", *direct()))
    path = home / ".dpkv" / "ledger.sqlite"
    path.write_bytes(contents)
    with (home / "t.csv").open("a", encoding="utf-8") as table:
        table.write("oops,oops\n")  # reading it would give another sentence
    for command in (("release", *direct("--out=2")), ("ledger", "show")):
        sentence = refusal(run(*command))
        assert "ledger.sqlite" in sentence and "restore a backup" in sentence
    assert path.read_bytes() == contents and not (home / "2").exists()
    assert len(list((home / ".dpkv" / "releases").iterdir())) == 1


def test_help_shows_an_example_that_runs(run: Run, home: Path) -> None:
    save(home / "patients.csv")
    ran = []
    for command in ("release", "verify", "simulate", "ledger show", "ledger set-budget",
                    "ledger verify"):  # fmt: skip
        text = succeeded(run(*command.split(), "--help")).stdout
        (line,) = (line for line in text.splitlines() if "Example:" in line)
        for example in line.partition("Example:")[2].split("&&"):
            program, *arguments = shlex.split(example)
            assert program == "dpkv"
            quick = QUICK if arguments[0] == "calibrate" else ()
            succeeded(run(*arguments, *quick))
            ran.append(arguments[0])
    assert ran == ["release", "verify", "simulate", "ledger", "ledger", "ledger"]


def test_a_table_may_lie_in_a_folder_or_in_files_named_one_by_one(run: Run, home: Path) -> None:
    (home / "parts").mkdir()
    save(home / "parts" / "one.csv", 1)
    save(home / "parts" / "two.csv", 2)
    asked = ("--k=2", "--eps=1", "--header", BOUNDS, "--json", "--mechanism=kvariates")
    ways = [
        ("parts",),
        ("parts/one.csv", "parts/two.csv"),
        ("parts/t*.csv", "parts/o*.csv"),
        ("--data", "parts/two.csv", "--data", "parts/one.csv"),
    ]
    for number, way in enumerate(ways):
        done = json.loads(run("release", *way, *asked, "--out", f"r{number}").stdout)
        assert done["n_records"] == 120
    assert len(charges(home)) == len(ways)
    assert len(Ledger(home / ".dpkv").read().accounts()) == 1
