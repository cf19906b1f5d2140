"""``dpkv study`` as people run it."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from support.points import Stopped
from support.run import Run, in_process, refusal

from dpkv.paper.studies import NAMES, study, total_jensen
from dpkv.paper.studies.runner import csv_of
from dpkv.paper.studies.study import digest_of, parse_spec

QUICK = """
[quick]
rows = 40
generators = ["burg"]
alphas = [0.5]
ks = [2, 3]
runs = 2
restarts = 1
"""
FILES = {"cases.jsonl", "result.csv", "figure.svg", "findings.md", "spec.toml"}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Return ``dpkv study``, with a total-jensen study that takes no time."""
    real = study.load_spec("total-jensen").text
    spec = parse_spec("total-jensen", real[: real.index("[quick]")] + QUICK)
    monkeypatch.setattr("dpkv.paper.studies.load_spec", lambda _name: spec)
    return in_process(monkeypatch, capsys, tmp_path, "study")


def test_the_list_names_every_study(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run = in_process(monkeypatch, capsys, tmp_path, "study")
    listed = json.loads(run("list", "--json").stdout)
    assert [one["name"] for one in listed["studies"]] == list(NAMES)
    shown = run("list")
    assert shown.returncode == 0 and all(name in shown.stdout for name in NAMES)


def test_a_run_writes_its_folder_and_says_what_it_found(run: Run, tmp_path: Path) -> None:
    done = run("run", "total-jensen")
    assert done.returncode == 0, done.stderr
    assert "quick run" in done.stdout and "burg" in done.stdout
    assert {path.name for path in (tmp_path / "study-total-jensen").iterdir()} == FILES
    page = (tmp_path / "study-total-jensen" / "findings.md").read_text(encoding="utf-8")
    assert "quick run" in page and "What to make of it" not in page


def test_json_is_the_result_that_is_written(run: Run, tmp_path: Path) -> None:
    done = run("run", "total-jensen", "--out", "here", "--json")
    result = json.loads(done.stdout)
    folder = tmp_path / "here"
    assert csv_of(result["rows"]) == (folder / "result.csv").read_text(encoding="utf-8")
    page = (folder / "findings.md").read_text(encoding="utf-8")
    assert result["found"] and all(f"- {sentence}\n" in page for sentence in result["found"])
    assert f"`{result['settings']}`" in page
    text = (folder / "spec.toml").read_text(encoding="utf-8")
    spec = parse_spec("total-jensen", text)
    assert (
        digest_of("total-jensen", spec.settings(total_jensen.STUDY, "quick"))
        == (result["settings"])
    )


def test_a_folder_that_is_there_is_refused_without_resume(run: Run) -> None:
    assert run("run", "total-jensen").returncode == 0
    assert "holds files" in refusal(run("run", "total-jensen"))


def test_an_interrupted_run_goes_on(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run("run", "total-jensen", "--out", "whole")
    assert whole.returncode == 0
    real = total_jensen.STUDY.run

    def interrupted(settings: object, case: study.Case) -> object:
        if case.name.endswith("k = 3"):
            raise KeyboardInterrupt
        return real(settings, case)

    broken = study.Study(**{**vars(total_jensen.STUDY), "run": interrupted})
    monkeypatch.setattr(total_jensen, "STUDY", broken)
    assert "--resume" in refusal(run("run", "total-jensen", "--out", "halves"), exit_code=130)
    monkeypatch.setattr(total_jensen, "STUDY", study.Study(**{**vars(broken), "run": real}))
    assert run("run", "total-jensen", "--out", "halves", "--resume").returncode == 0
    for name in FILES - {"cases.jsonl"}:
        assert (tmp_path / "halves" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_ctrl_c_in_a_real_process_keeps_what_is_finished(tmp_path: Path) -> None:
    command = ("study", "run", "total-jensen", "--out", "here")
    with Stopped("a case of a study", "after", *command, cwd=tmp_path) as stopped:
        assert stopped.reached()
        code, _, printed = stopped.signalled(signal.SIGINT)
    assert code == 130, printed
    assert "--resume" in printed and "Traceback" not in printed
    log = tmp_path / "here" / "cases.jsonl"
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines() if line]
    assert ["case" in line for line in lines] == [False, True]
    assert {path.name for path in log.parent.iterdir()} == {"cases.jsonl"}


def test_resume_without_cases_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("x", encoding="utf-8")
    assert "cases.jsonl" in refusal(run("run", "total-jensen", "--out", "mine", "--resume"))


def test_an_unknown_study_is_refused(run: Run, tmp_path: Path) -> None:
    assert "dk-means" in refusal(run("run", "nonsense"))
    assert list(tmp_path.iterdir()) == []
