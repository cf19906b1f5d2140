"""`dpkv seed` in a real process: what it prints, what it writes."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.points import PATIENCE
from support.run import dpkv, refusal

ROOT = Path(__file__).resolve().parents[2]
PATIENTS = ROOT / "datasets" / "clinic_patients.csv"


def run_program(program: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], cwd=cwd, capture_output=True, text=True, check=False
    )


def centers_of(path: Path) -> tuple[list[str], np.ndarray]:
    rows = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
    return rows[0], np.array(rows[1:], dtype=float)


def test_json_has_the_potential_of_the_written_centers(tmp_path: Path) -> None:
    result = dpkv("seed", PATIENTS, "--k", "5", "--seed", "3", "--json", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    record = json.loads(result.stdout)
    names, centers = centers_of(tmp_path / record["centers_file"])
    assert names == record["columns"] == ["east_km", "north_km"]
    assert centers.tolist() == record["centers"]
    data = np.loadtxt(PATIENTS, delimiter=",", skiprows=1)
    distances = ((data[:, None, :] - centers[None]) ** 2).sum(axis=2).min(axis=1)
    assert record["best_potential"] == pytest.approx(distances.sum())
    assert record["releasable"] is False
    assert record["n_records"] == len(data)


def test_a_seed_reproduces_and_runs_do_not_depend_on_repeat(tmp_path: Path) -> None:
    def runs(*arguments: str) -> dict[str, object]:
        result = dpkv("seed", PATIENTS, "--k", "4", "--json", *arguments, cwd=tmp_path)
        return json.loads(result.stdout)

    once, again = runs("--seed", "7", "--repeat", "3"), runs("--seed", "7", "--repeat", "3")
    assert once == again
    assert runs("--seed", "7", "--repeat", "5")["runs"][:3] == once["runs"]
    assert runs("--seed", "8", "--repeat", "3")["runs"] != once["runs"]


def test_lloyd_lowers_the_potential_and_the_best_run_is_written(tmp_path: Path) -> None:
    result = dpkv(
        "seed", PATIENTS, "--k", "5", "--repeat", "4", "--lloyd", "--seed", "0", "--json",
        "--bounds=-10,10", "--out", "sub/best.csv", cwd=tmp_path,
    )  # fmt: skip
    record = json.loads(result.stdout)
    assert all(run["potential"] <= run["seeding_potential"] for run in record["runs"])
    potentials = [run["potential"] for run in record["runs"]]
    assert record["best_potential"] == min(potentials) == potentials[record["best_run"]]
    assert record["coordinates"] == "unit cube"
    _, centers = centers_of(tmp_path / "sub" / "best.csv")
    assert np.abs(centers).max() <= 10.0, "centres are in the user's units, inside the bounds"


def test_scaling_changes_units_only_for_equal_widths(tmp_path: Path) -> None:
    def potential(*arguments: str) -> float:
        result = dpkv(
            "seed", PATIENTS, "--k", "3", "--seed", "1", "--json", *arguments, cwd=tmp_path
        )
        return json.loads(result.stdout)["best_potential"]

    scaled, plain = potential("--bounds=-10,10"), potential("--bounds=-10,10", "--no-scale")
    assert plain == pytest.approx(scaled * 20.0**2)


def test_forgy_and_a_small_memory_limit(tmp_path: Path) -> None:
    arguments = ("seed", PATIENTS, "--k", "3", "--algorithm", "forgy", "--seed", "1", "--json")
    in_memory = json.loads(dpkv(*arguments, cwd=tmp_path).stdout)
    mapped = json.loads(dpkv(*arguments, "--memory-limit", "0", cwd=tmp_path).stdout)
    reused = json.loads(dpkv(*arguments, "--memory-limit", "0", cwd=tmp_path).stdout)
    assert in_memory == mapped == reused
    assert list((tmp_path / ".dpkv" / "tables").glob("*.f64"))


def test_the_table_a_person_reads(tmp_path: Path) -> None:
    result = dpkv("seed", PATIENTS, "--k", "2", "--seed", "1", cwd=tmp_path)
    assert "kmeans++, k = 2, 20000 records x 2 columns" in result.stdout
    assert "wrote centers-not-private.csv (repeat with --seed 1)" in result.stdout
    assert "Do not publish" in result.stderr


def test_python_m_dpkv_and_version(tmp_path: Path) -> None:
    import dpkv as package

    assert dpkv("--version", cwd=tmp_path).stdout == f"dpkv {package.__version__}\n"


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ")
def test_an_interrupt_leaves_one_sentence_and_no_file(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "dpkv", "seed", str(PATIENTS), "--k", "50", "--repeat", "1000000"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        under_way = any("seeding" in line for line in process.stderr)  # reading may be told first
        assert under_way
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        with process:  # waited for and closed, or a failure here is blamed on the next test
            process.kill()
    assert process.returncode == 130
    assert out == ""
    assert err.strip().splitlines()[-1] == "dpkv: error: interrupted before it was done."
    assert list(tmp_path.iterdir()) == []


def test_a_stopped_reading_leaves_no_half_written_copy(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys, dpkv.cli, dpkv.tables.store as store\n"
        "append = store.RecordStore.append\n"
        "def stopped(self, chunk):\n"
        "    append(self, chunk)\n"
        "    assert self._files is not None\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "store.RecordStore.append = stopped\n"
        f"sys.argv = ['dpkv', 'seed', {str(PATIENTS)!r}, '--k', '2', '--memory-limit', '0']\n"
        "dpkv.cli.main()\n"
    )
    done = run_program(program, tmp_path)
    assert done.returncode == 128 + signal.SIGTERM, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_table_itself_is_never_overwritten(tmp_path: Path) -> None:
    table = tmp_path / "points.csv"
    table.write_text("a,b\n1,2\n3,4\n", encoding="utf-8")
    (tmp_path / "link.csv").symlink_to(table)
    for name in ("points.csv", "link.csv"):
        result = dpkv("seed", "points.csv", "--k", "1", "--out", name, cwd=tmp_path)
        assert "--out must not be the table itself" in refusal(result)
    assert table.read_text(encoding="utf-8") == "a,b\n1,2\n3,4\n"


def test_a_device_is_no_place_for_centres(tmp_path: Path) -> None:
    result = dpkv("seed", PATIENTS, "--k", "1", "--out", "/dev/null", cwd=tmp_path)
    assert "--out must be an ordinary file" in refusal(result)


def test_an_output_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real.csv").write_text("old", encoding="utf-8")
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    assert dpkv("seed", PATIENTS, "--k", "1", "--out", "link.csv", cwd=tmp_path).returncode == 0
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text(encoding="utf-8").startswith("east_km")


def test_control_characters_in_a_name_stay_off_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,\x1b[31mb\n1,2\n", encoding="utf-8")
    typed = "\x1b[31mc"  # the table's own names are not shown
    sentence = refusal(dpkv("seed", "t.csv", "--k", "1", "--columns", typed, cwd=tmp_path))
    assert "\x1b" not in sentence
    assert "\\x1b[31mc" in sentence


def test_a_name_that_the_terminal_cannot_show(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("größe\n1\n2\n", encoding="utf-8")
    result = dpkv("seed", "t.csv", "--k", "1", cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert result.returncode == 0, result.stderr


def test_a_broken_pipe_is_silent(tmp_path: Path) -> None:
    command = f"{sys.executable} -m dpkv seed {PATIENTS} --k 2 --json | true"
    done = subprocess.run(
        command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr and "unexpected" not in done.stderr


@pytest.mark.parametrize("place", ["dpkv.cli.app", "typer.core.TyperGroup.parse_args"])
def test_an_interrupt_outside_of_the_command_is_one_sentence(place: str, tmp_path: Path) -> None:
    program = (
        "import signal, sys, typer.core, dpkv.cli\n"
        f"{place} = lambda *_: signal.raise_signal(signal.SIGINT)\n"
        "sys.argv = ['dpkv', 'seed']\n"
        "dpkv.cli.main()\n"
    )
    done = run_program(program, tmp_path)
    assert done.returncode == 130
    assert done.stderr == "dpkv: error: interrupted before it was done.\n"


def test_an_unexpected_error_shows_no_message_of_its_own(tmp_path: Path) -> None:
    program = (
        "import sys, dpkv.cli\n"
        "def broken(*a, **k): raise RuntimeError('record 123.456')\n"
        "sys.modules['dpkv.cli.seed_sources'].TableOptions = broken\n"
        f"sys.argv = ['dpkv', 'seed', {str(PATIENTS)!r}, '--k', '2']\n"
        "dpkv.cli.main()\n"
    )
    done = run_program(program, tmp_path)
    assert done.returncode == 1
    assert "unexpected RuntimeError" in done.stderr
    assert "123.456" not in done.stderr + done.stdout


def test_a_name_that_a_spreadsheet_would_run_gets_an_apostrophe(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("=A1,b;@c,-\n1,2,3\n4,5,6\n", encoding="utf-8")
    assert dpkv("seed", "t.csv", "--k", "1", "--seed", "1", cwd=tmp_path).returncode == 0
    written = (tmp_path / "centers-not-private.csv").read_text(encoding="utf-8")
    assert written.splitlines()[0] == "'=A1,b;'@c,'-"


def test_a_link_to_itself_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for arguments in (("loop",), ("--synopsis", "loop"), ("t.csv", "--out", "loop/centres.csv")):
        (tmp_path / "t.csv").write_text("a,b\n1,2\n3,4\n", encoding="utf-8")
        refusal(dpkv("seed", *arguments, "--k", "1", cwd=tmp_path))
