"""`dpkv audit`: both directions, exit codes, files that agree, nothing of the data in public."""

from __future__ import annotations

import functools
import json
import re
import shutil
import stat
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from support.pages import Element, cells, figures, parsed, shown
from support.run import Run, dpkv, in_process, refusal
from threadpoolctl import threadpool_limits

from dpkv.audits import privacy
from dpkv.audits import run as audit_run
from dpkv.audits.conformance import conformance_tests
from dpkv.audits.faults import FAULTS
from dpkv.audits.privacy import Effort
from dpkv.audits.published_ratio_bound import audit_ratio_bound
from dpkv.audits.results import Conformance, PublishedBound
from dpkv.audits.run import Job
from dpkv.noise import Entropy
from dpkv.releases import ReleaseRecord
from dpkv.releases.kept_releases import parse_record
from dpkv.releases.signing import SigningKey

M = 300
BOUNDS = "--bounds=-10,10"
ASKED = ("--eps", "1", "--k", "2", BOUNDS)
QUICK = ("--quick", "--runs", "2")
PART_RUNS = 3_000
PUBLISHED = ("--calibration", "published", "--out", "published")
WITNESSES = {"witness-kvariates-k2.json", "witness-run-kvariates.json"}
FILES = {"audit.json", "report.html", "report.md", *WITNESSES}


def save(path: Path, m: int = M, seed: int = 0) -> np.ndarray:
    """Write a table of two wide groups."""
    rng = np.random.default_rng(seed)
    values = np.where(np.arange(m) % 2, 6.0, -6.0)[:, None] + rng.normal(0, 2.5, (m, 2))
    values = 0.987654321 * np.clip(values, -9.9, 9.9)
    lines = ["east,north", *(f"{x!r},{y!r}" for x, y in values.tolist())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return values


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tables, a calibration, a release and a published one."""
    folder = tmp_path_factory.mktemp("made")
    save(folder / "data.csv")
    save(folder / "other.csv", seed=1)
    save(folder / "shorter.csv", M - 1)
    for arguments in (
        ("calibrate", "data.csv", "--header", "--eps=1", "--k=2", BOUNDS, "--method=randomized"),
        ("release", "--k", "2", "--mechanism=kvariates", "--out", "release", "--id", "mine"),
        ("release", "--data=data.csv", "--header", "--eps=3", "--k=2", BOUNDS, *PUBLISHED),
    ):
        result = dpkv(*arguments, cwd=folder)
        assert result.returncode == 0, result.stderr
    return folder


@pytest.fixture
def home(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "home")


@functools.cache
def conformance(entropy: type[Entropy], *, runs: int) -> tuple[Conformance, ...]:
    return conformance_tests(entropy, runs=runs)


@functools.cache
def published_bound(_instances: int, seed: int) -> PublishedBound:
    return audit_ratio_bound(20, seed)


@pytest.fixture(autouse=True)
def _without_what_is_tested_elsewhere(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Conformance is tested once, the published bound follows from the seed alone, and a
    classifier passes after fewer runs; all but one planted fault are found in fewer."""

    def effort(job: Job) -> Effort:
        return Effort(3, 40_000, 240, 3, 1e-6, job.seed)

    if "synopsis-decay" not in request.node.name:
        monkeypatch.setattr(privacy, "FEWEST_PART_RUNS", PART_RUNS)
    monkeypatch.setattr(audit_run, "audit_ratio_bound", published_bound)
    monkeypatch.setattr(audit_run, "conformance_tests", conformance)
    monkeypatch.setattr(Job, "effort", property(effort))
    import_module("sklearn.ensemble")  # before its threads can be limited
    with threadpool_limits(1):
        yield


@pytest.fixture
def audit(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path) -> Run:
    run = in_process(monkeypatch, capsys, home, "audit")
    return lambda *arguments: run(*arguments, *QUICK)


@pytest.fixture
def verify(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path) -> Run:
    return in_process(monkeypatch, capsys, home, "verify")


def found_in(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "audit.json").read_text(encoding="utf-8"))


def repeatable(fields: dict[str, Any]) -> dict[str, Any]:
    """Return an audit without the time, and without what the operating system's draws decide."""
    kept = {name: value for name, value in fields.items() if name != "created"}
    kept["conformance"] = [
        {name: test[name] for name in ("name", "level", "runs", "passed")}
        for test in fields["conformance"]
    ]
    return kept


# -- in processes ----------------------------------------------------------------------------------


def test_an_audit_that_holds(home: Path) -> None:
    result = dpkv("audit", "data.csv", *ASKED, *QUICK, cwd=home)
    assert result.returncode == 0, result.stderr
    assert "HOLDS, as far as was tried" in result.stdout
    assert "No violation of eps = 1 (replace-one) was found." in result.stdout
    assert "for the curator only" in result.stderr
    folder = home / "audit"
    assert {path.name for path in folder.iterdir()} == FILES
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    checked = dpkv("verify", folder / "witness-kvariates-k2.json", cwd=home)
    assert checked.returncode == 0, checked.stderr
    assert "By this witness eps is at least 0.8" in checked.stdout
    checked = dpkv("verify", folder / "witness-run-kvariates.json", cwd=home)
    assert checked.returncode == 0, checked.stderr
    assert re.search(r"By this run eps is at least (0[.]9|1;)", checked.stdout)


def test_an_audit_that_finds_a_fault(home: Path) -> None:
    result = dpkv("audit", "data.csv", *ASKED, *QUICK, "--plant", "half-noise", cwd=home)
    assert result.returncode == 3, result.stderr
    assert "VIOLATED" in result.stdout
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("dpkv: error: The claim eps = 1 (replace-one) is violated: k = 2: ")
    assert "times likelier under a neighbour; k = 2: runs show eps >= " in last
    assert {path.name for path in (home / "audit").iterdir()} == FILES, "the report is written"
    assert "Self-test with a planted fault" in (home / "audit" / "report.md").read_text("utf-8")
    checked = dpkv("verify", home / "audit" / "witness-kvariates-k2.json", cwd=home)
    assert checked.returncode == 3
    assert "claim: this output shows eps >= " in checked.stderr


# -- both directions -------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["laplace", "forgy", "gupt", "lloyd"])
def test_the_other_mechanisms_hold(audit: Run, mechanism: str) -> None:
    result = audit("data.csv", *ASKED, "--mechanism", mechanism)
    assert result.returncode == 0, result.stderr
    assert found_in(Path("audit"))["subject"]["mechanism"] == mechanism


REASONS = {
    "half-noise": "times likelier under a neighbour",
    "window-ratio": "times likelier under a neighbour",
    "no-smoothing": "times likelier under a neighbour",
    "papers-eps-tilde": "times likelier under a neighbour",
    "float-noise": "draws lie on the grid: ",
    "swapped-split": "its steps cost 1.2",
    "synopsis-sensitivity": "its steps cost 1.9",
    "synopsis-radius": "runs show eps",
    "synopsis-decay": "runs show eps",
    "synopsis-exact-count": "an answer is impossible on a neighbour",
    "extra-question": "one question more than its plan has",
    "weights-above-person": "runs show eps",
}


@pytest.mark.parametrize("plant", FAULTS)
def test_every_planted_fault_is_reported(audit: Run, verify: Run, plant: str) -> None:
    result = audit("data.csv", *ASKED, "--plant", plant)
    assert result.returncode == 3, result.stderr
    assert REASONS[plant] in result.stderr.strip().splitlines()[-1]
    found = found_in(Path("audit"))
    assert found["verdict"]["holds"] is False
    assert found["settings"]["planted_fault"] == plant
    report = Path("audit", "report.md").read_text(encoding="utf-8")
    assert REASONS[plant] in report
    for path in Path("audit").glob("witness-*.json"):
        assert verify(path).returncode == (0 if plant == "float-noise" else 3)


def test_several_k_have_a_witness_each(audit: Run, verify: Run) -> None:
    result = audit("data.csv", "--eps", "1", "--k", "1..3", BOUNDS)
    assert result.returncode == 0, result.stderr
    found = found_in(Path("audit"))
    assert found["subject"]["ks"] == [1, 2, 3]
    for loss in found["worst_cases"]:
        path = Path("audit", loss["witness_file"])
        assert verify(path).returncode == 0
        stated = json.loads(path.read_text(encoding="utf-8"))
        assert stated["log_probability_old"] - stated["log_probability_new"] == loss["loss"]
        assert stated["mechanism"]["k"] == loss["k"]


# -- releases --------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [(), ("--data", "data.csv")])
def test_a_release_is_audited(audit: Run, data: tuple[str, ...]) -> None:
    result = audit("release/release.json", *data)
    assert result.returncode == 0, result.stderr
    found = found_in(Path("audit"))
    record = json.loads(Path("release/release.json").read_text(encoding="utf-8"))
    assert found["subject"]["release_id"] == record["release_id"] == "mine"
    assert found["subject"]["released_centers"] == [one["center"] for one in record["clusters"]]
    assert found["subject"]["statement"] == ReleaseRecord.model_validate(record).summary
    (loss,) = found["data_losses"]
    assert 0 < loss["release_loss"] <= 1
    assert len(loss["simulated_losses"]) == 3


def test_a_release_of_another_table_is_refused(audit: Run) -> None:
    told = refusal(audit("release/release.json", "--data", "other.csv"))
    assert "the release was not made from this table" in told
    assert not Path("audit").exists()


def test_a_table_of_another_length_is_refused_where_there_is_no_ledger(audit: Run) -> None:
    """The record itself says how many records there were."""
    shutil.rmtree(".dpkv")
    told = refusal(audit("release/release.json", "--data", "shorter.csv"))
    assert "records" in told or "table" in told


def test_a_table_of_other_columns_is_refused(audit: Run) -> None:
    text = Path("data.csv").read_text(encoding="utf-8").replace("east", "west")
    Path("west.csv").write_text(text, encoding="utf-8")
    told = refusal(audit("release/release.json", "--data", "west.csv"))
    assert "column" in told


@pytest.mark.parametrize("missing", ["refuse", "fill:1"])
def test_a_calibration_of_another_table_is_not_taken_for_the_releases(
    audit: Run,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    home: Path,
    missing: str,
) -> None:
    rows = "".join(f"{number % 5},{number % 7},{number % 3}\n" for number in range(40))
    Path("wide.csv").write_text("a,b,c\n" + rows, encoding="utf-8")
    calibrate = in_process(monkeypatch, capsys, home, "calibrate")
    asked = ("--eps=1", "--k=2", "--bounds=0,9", "--method=randomized", f"--missing={missing}")
    asked = (*asked, "--header")
    assert calibrate("wide.csv", *asked).returncode == 0
    told = refusal(audit("release/release.json"))
    assert "other columns than the table of the newest calibration: give its table by" in told
    assert calibrate("other.csv", *asked).returncode == 0
    told = refusal(audit("release/release.json"))
    assert "the release was not made from this table" in told
    assert not Path("audit").exists()


def test_another_table_is_told_before_a_cell_of_it_is_complained_of(
    audit: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    lines = Path("other.csv").read_text(encoding="utf-8").splitlines()
    Path("unclean.csv").write_text("\n".join([*lines[:-1], ",1\n"]), encoding="utf-8")
    calibrate = in_process(monkeypatch, capsys, home, "calibrate")
    asked = ("--eps=2", "--k=2", BOUNDS, "--method=randomized", "--missing=fill:1", "--header")
    assert calibrate("unclean.csv", *asked).returncode == 0
    assert "the release was not made from this table" in refusal(audit("release/release.json"))


def test_a_release_is_read_as_it_was_made_whatever_the_newest_calibration_says(
    audit: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    calibrate = in_process(monkeypatch, capsys, home, "calibrate")
    asked = ("--eps=2", "--k=2", BOUNDS, "--method=randomized", "--missing=fill:1", "--header")
    assert calibrate("data.csv", *asked, "--columns=north").returncode == 0
    assert audit("release/release.json").returncode == 0


def test_a_release_whose_record_states_half_the_noise_is_not_passed(audit: Run) -> None:
    path = Path("release/release.json")
    fields = json.loads(path.read_text(encoding="utf-8"))
    fields["mechanism"]["noise_scale"] /= 2
    path.write_text(json.dumps(fields), encoding="utf-8")
    result = audit(path, "--data", "data.csv")
    assert result.returncode in (2, 3), result.stdout


def test_a_simulation_is_not_audited_as_a_release(
    audit: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    """Whoever knows the seed knows the draws: nothing may call its centres private."""
    simulate = in_process(monkeypatch, capsys, home, "simulate")
    made = simulate("--data=data.csv", "--header", *ASKED, "--seed", "1", "--out", "simulated")
    assert made.returncode == 0, made.stderr
    record = home / "simulated" / "simulation-not-releasable.json"
    for arguments in ((), ("--public",)):
        result = audit(record, "--data", "data.csv", *arguments)
        report = home / "audit" / "report.md"
        told = report.read_text(encoding="utf-8") if report.exists() else ""
        assert "The release is 1-differentially private" not in told
        assert not (arguments and result.returncode == 0), "nothing of it is public"
        shutil.rmtree(home / "audit", ignore_errors=True)


def test_a_published_release_is_conditional_and_violated(audit: Run) -> None:
    result = audit("published/release-conditional.json", "--data", "data.csv")
    assert result.returncode == 3, result.stderr
    found = found_in(Path("audit"))
    assert not found["subject"]["end_to_end"]
    assert "conditional on the data, not an end-to-end guarantee" in found["subject"]["statement"]
    (worst,) = found["worst_cases"]
    assert worst["violates"] and worst["loss"] > worst["claimed_eps"] == 3.0
    for name in ("report.md", "report.html"):
        text = Path("audit", name).read_text(encoding="utf-8")
        assert "conditional on the data, not an end-to-end guarantee" in text
        assert "The release is 3-differentially private" not in text


# -- public ----------------------------------------------------------------------------------------

_CONFORMANCE = re.compile(r"^\| (picks|noise|centres) ")


def public_lines(folder: Path) -> list[str]:
    """Return the report in words without the time and the operating system's draws."""
    lines = (folder / "report.md").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not _CONFORMANCE.match(line) and "created" not in line]


def test_a_public_audit_is_the_same_for_every_table_of_that_size(audit: Run) -> None:
    for name in ("data", "other"):
        result = audit(f"{name}.csv", *ASKED, "--header", "--public", "--out", name)
        assert result.returncode == 0, result.stderr
        assert "curator" not in result.stderr + result.stdout
    one, other = Path("data"), Path("other")
    assert repeatable(found_in(one)) == repeatable(found_in(other))
    assert public_lines(one) == public_lines(other)
    witness = "witness-kvariates-k2.json"
    assert (one / witness).read_text("utf-8") == (other / witness).read_text("utf-8")
    assert stat.S_IMODE(one.stat().st_mode) == 0o755
    assert {stat.S_IMODE(path.stat().st_mode) for path in one.iterdir()} == {0o644}


def numbers_of(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from numbers_of(part)
    elif isinstance(value, float):
        yield value


def test_no_figure_for_the_curator_is_in_a_public_file(audit: Run) -> None:
    audit("release/release.json", "--data", "data.csv", "--out", "curator")
    audit("release/release.json", "--data", "data.csv", "--out", "public", "--public")
    private, public = found_in(Path("curator")), found_in(Path("public"))
    assert public["visibility"] == "public" and private["visibility"] == "curator-only"
    assert private["utility"] and private["data_losses"]
    published = [[row["published"], row["published_eps_tilde"]] for row in private["calibration"]]
    secret = {
        repr(number)
        for number in numbers_of([private["utility"], private["data_losses"], published])
        if len(repr(number)) > 8
    }
    assert len(secret) > 20
    for path in Path("public").iterdir():
        text = path.read_text(encoding="utf-8")
        assert not [number for number in secret if number in text]
        assert "data.csv" not in text
        assert "for the curator only" not in text.lower()


@pytest.mark.parametrize(
    "arguments",
    [
        ("data.csv", "--header", "--eps", "1", "--k", "2", "--bounds=data"),
        ("data.csv", "--header", "--eps=3", "--k=2", BOUNDS, "--calibration", "published"),
        ("published/release-conditional.json", "--data", "data.csv"),
    ],
)
def test_public_is_refused_where_noise_or_bounds_are_the_datas(
    audit: Run, arguments: tuple[str, ...]
) -> None:
    told = refusal(audit(*arguments, "--public"))
    assert told.startswith("--public needs a release that is private end to end")
    assert not Path("audit").exists()


def test_bounds_that_would_be_found_privately_are_not_the_datas_in_a_public_audit(
    audit: Run,
) -> None:
    """Nothing found bounds yet: the extent of the table is not theirs, and must not be shown."""
    values = np.loadtxt("data.csv", delimiter=",", skiprows=1)
    result = audit("data.csv", "--eps", "1", "--k", "2", "--bounds=private", "--public")
    assert result.returncode in (0, 2), result.stderr
    extremes = [repr(float(v)) for v in (*values.min(axis=0), *values.max(axis=0))]
    for path in Path("audit").glob("*"):
        text = path.read_text(encoding="utf-8")
        assert not [extreme for extreme in extremes if extreme in text], path.name


# -- the record and the report ---------------------------------------------------------------------


def test_json_on_stdout_is_the_file(audit: Run) -> None:
    result = audit("data.csv", *ASKED, "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == found_in(Path("audit"))
    violated = audit("data.csv", *ASKED, "--json", "--plant", "half-noise", "--out", "planted")
    assert violated.returncode == 3
    assert json.loads(violated.stdout) == found_in(Path("planted"))


def tables_of(page: Element) -> list[list[list[str]]]:
    return [cells(table) for table in page.all("table")]


def test_numbers_agree_in_all_three_files(audit: Run) -> None:
    audit("data.csv", "--eps", "1", "--k", "1..2", BOUNDS)
    found = found_in(Path("audit"))
    page = parsed(Path("audit", "report.html").read_text(encoding="utf-8"))
    words = shown(Path("audit", "report.md").read_text(encoding="utf-8"))
    in_html, in_words = tables_of(page), tables_of(words)
    assert len(in_html) > 5
    for table in in_html:
        assert table in in_words
    written = [figure for text in (page.text, words.text) for figure in [figures(text)]]
    losses = [loss["loss"] for loss in found["worst_cases"]]
    bounds = [bound["lower_bound"] for bound in found["sampled"]]
    noise = [row["certified"] for row in found["calibration"]]
    accuracy = [row["over_optimum"] for row in found["utility"] if row["over_optimum"]]
    for number in (*losses, *bounds, *noise, *accuracy, found["verdict"]["lower_bound"]):
        for numbers in written:
            assert any(abs(float(value) - number) <= float(unit) for value, unit in numbers)
    for text in (page.text, words.text):
        assert found["verdict"]["headline"] in text
        assert found["subject"]["statement"] in text


def test_audits_repeat_by_their_seed(audit: Run, home: Path) -> None:
    """Apart from the time, and from conformance, which draws from the operating system."""
    told = []
    for seed in ("4", "4", "5"):
        shutil.rmtree(home / ".dpkv")
        audit("data.csv", *ASKED, "--seed", seed)
        told.append(repeatable(found_in(home / "audit")))
        shutil.rmtree(home / "audit")
    assert told[0] == told[1]
    assert told[0]["utility"] != told[2]["utility"]
    assert told[0]["sampled"] != told[2]["sampled"]


def test_finished_runs_are_taken_from_the_workspace(audit: Run, home: Path) -> None:
    audit("data.csv", *ASKED, "--out", "first")
    cache = home / ".dpkv" / "audits" / "comparison.jsonl"
    assert stat.S_IMODE(cache.stat().st_mode) == 0o600
    size = cache.stat().st_size
    audit("data.csv", *ASKED, "--out", "again")
    assert cache.stat().st_size == size, "nothing was run again"
    lines = [line for line in cache.read_text(encoding="utf-8").split("\n") if line]
    cut = "\n".join(lines[: len(lines) // 2]) + "\n" + lines[-1][:20]
    cache.write_text(cut, encoding="utf-8")
    audit("data.csv", *ASKED, "--out", "resumed")
    rows = [found_in(Path(name))["utility"] for name in ("first", "again", "resumed")]
    assert rows[0] == rows[1] == rows[2]
    audit("other.csv", *ASKED, "--out", "other")
    assert found_in(Path("other"))["utility"] != rows[0], "another table has runs of its own"


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("data.csv", *ASKED, "--plant", "no-noise"), "plant must be one of half-noise, "),
        (("data.csv", "--eps", "1", "--k", "301", BOUNDS), "k must be at most the number of rec"),
        (("data.csv", "--eps", "1", "--k", "2,400", BOUNDS), "k must be at most the number of rec"),
        (("data.csv", "--eps", "1", "--k", "0", BOUNDS), "k must be a whole number"),
        (("data.csv", "--k", "2", BOUNDS), "--eps must be given with a table"),
        (("data.csv", "--eps", "1", "--k", "2"), "--bounds must be given with a table"),
        (("data.csv", "--eps", "0", "--k", "2", BOUNDS), "eps must be"),
        (("data.csv", "--eps", "nan", "--k", "2", BOUNDS), "eps must be"),
        (("data.csv", *ASKED, "--mechanism", "kmeans"), "mechanism must be one of"),
        (("data.csv", *ASKED, "--calibration", "guessed"), "calibration must be one of"),
        (("data.csv", *ASKED, "--seed", "-1"), "seed must be"),
        (("data.csv", *ASKED, "--gamma", "0"), "gamma must be greater than 0"),
        (("absent.csv", *ASKED), "absent.csv"),
        (("absent.json",), "absent.json does not exist"),
        (("data.csv", *ASKED, "--out", "release"), "--out must be a new folder. release holds"),
        (("data.csv", *ASKED, "--out", "data.csv"), "--out must be a new folder. data.csv is a"),
        (("data.csv", *ASKED, "--out", ".dpkv/audit"), "--out must not be inside the workspace"),
    ],
)
def test_refused_before_any_work(audit: Run, arguments: tuple[str, ...], told: str) -> None:
    before = {path for path in Path().iterdir() if path.name != ".dpkv"}
    assert told in refusal(audit(*arguments))
    assert {path for path in Path().iterdir() if path.name != ".dpkv"} == before


def test_a_json_file_that_is_no_release_is_refused(audit: Run) -> None:
    for text in ("{}", "[]", "nonsense", '{"kind": "witness"}'):
        Path("x.json").write_text(text, encoding="utf-8")
        assert "x.json" in refusal(audit("x.json", "--data", "data.csv"))
    assert not Path("audit").exists()


def test_too_few_runs_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    run = in_process(monkeypatch, capsys, home, "audit")
    assert "runs must be" in refusal(run("data.csv", *ASKED, "--quick", "--runs", "1"))


def test_an_audit_that_fails_leaves_nothing_behind(
    audit: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(audit_run, "audit_ratio_bound", broken)
    result = audit("data.csv", *ASKED)
    assert result.returncode == 1
    assert "unexpected RuntimeError" in result.stderr
    assert "a fault of ours" not in result.stderr
    left = {path.name for path in home.iterdir()}
    assert "audit" not in left
    assert not [name for name in left if name.startswith(".dpkv-")]


@pytest.mark.parametrize("eps", ["0.001", "60"])
def test_very_small_and_very_large_eps(audit: Run, eps: str) -> None:
    result = audit("data.csv", "--eps", eps, "--k", "2", BOUNDS, "--mechanism", "laplace")
    assert result.returncode == 0, result.stderr
    found = found_in(Path("audit"))
    for loss in found["data_losses"]:
        assert all(0 <= value <= float(eps) for value in loss["simulated_losses"])


# -- who vouches for the record ----------------------------------------------------------------


def test_an_audit_says_who_vouches_for_the_record(audit: Run, home: Path) -> None:
    result = audit("release/release.json", "--out", "vouched")
    assert result.returncode == 0, result.stderr
    assert "by the ledger here" in result.stdout and "nobody" not in result.stdout
    assert found_in(home / "vouched")["subject"]["vouched_by"] == ["the ledger here"]
    report = (home / "vouched" / "report.md").read_text(encoding="utf-8")
    assert "by the ledger here" in report and "nobody vouches" not in report


def test_an_audit_of_a_record_that_anybody_may_have_made_up_says_so(audit: Run, home: Path) -> None:
    """Consistent, signed by a fresh key, and nothing that a ledger knows of."""
    path = home / "release" / "release.json"
    record = parse_record(path.read_text(encoding="utf-8"), path)
    made_up = record.model_copy(update={"ledger": None, "release_id": None})
    signed = SigningKey(ed25519.Ed25519PrivateKey.generate()).sign(made_up)
    path.write_text(signed.to_json(), encoding="utf-8")
    result = audit("release/release.json", "--data", "data.csv", "--out", "made-up")
    assert result.returncode == 0, result.stderr
    assert "was found, but nobody vouches for the record" in result.stdout
    assert "was found." not in result.stdout
    found = found_in(home / "made-up")
    assert found["subject"]["vouched_by"] == []
    assert "nobody vouches for the record" in found["verdict"]["headline"]
    for name in ("report.md", "report.html"):
        report = (home / "made-up" / name).read_text(encoding="utf-8")
        assert "No violation found; nobody vouches for the record" in report
        assert "by nobody: no ledger here has it" in report


def test_an_audit_of_a_table_has_no_record_to_vouch_for(audit: Run, home: Path) -> None:
    result = audit("data.csv", *ASKED, "--out", "table")
    assert result.returncode == 0, result.stderr
    assert "vouche" not in result.stdout
    assert found_in(home / "table")["subject"]["vouched_by"] is None
