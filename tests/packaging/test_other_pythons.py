"""The wheel with its dependencies in a clean environment, on the oldest and the newest Python.

The Python that runs the tests has everything installed already, from the same metadata: its turn is
``test_wheel.py``, without a download.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.pythons import interpreter, supported

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.processes

ENDS = sorted({supported()[0], supported()[-1]})
NAMES = [".".join(map(str, version)) for version in ENDS]


def run(*command: str | Path, cwd: Path, folder: Path) -> str:
    """Run a command without this environment's settings; a failure shows what it said."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    clean |= {"DPKV_REGISTRY": str(folder / "registry"), "NO_COLOR": "1", "COLUMNS": "120"}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=clean, capture_output=True, text=True, check=False,
        timeout=580,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def has_an_index(python: Path, folder: Path) -> bool:
    """Tell whether packages can be had at all: not a fault of dpkv's where they cannot."""
    command = [str(python), "-m", "pip", "download", "--no-deps", "--quiet", "packaging"]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("version", ENDS, ids=NAMES)
def test_the_wheel_installs_and_releases_in_a_clean_environment(
    version: tuple[int, int], tmp_path: Path
) -> None:
    if version == sys.version_info[:2]:
        pytest.skip("this Python runs the tests, with all dependencies: see test_wheel.py")
    base = interpreter(version)
    if base is None:
        pytest.skip("this machine has no such Python")
    if not has_an_index(base, tmp_path):
        pytest.skip("no package index answers")
    build = (sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path)
    run(*build, ROOT, cwd=tmp_path, folder=tmp_path)
    (wheel,) = tmp_path.glob("dpkv-*.whl")
    run(base, "-m", "venv", "clean", cwd=tmp_path, folder=tmp_path)
    scripts = tmp_path / "clean" / "bin"
    pip = (scripts / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, wheel, cwd=tmp_path, folder=tmp_path)
    table = ROOT / "datasets" / "clinic_patients.csv"
    asked = (table, "--header", "--eps", "1", "--bounds=-10,10", "--k", "3", "--yes")
    assert "fit to release" in run(scripts / "dpkv", "doctor", cwd=tmp_path, folder=tmp_path)
    run(scripts / "dpkv", "release", *asked, cwd=tmp_path, folder=tmp_path)
    told = run(scripts / "dpkv", "verify", "release/release.json", cwd=tmp_path, folder=tmp_path)
    assert "pass. The release is 1-differentially private" in told
    where = run(
        scripts / "python", "-c", "import dpkv; print(dpkv.__file__)", cwd=tmp_path, folder=tmp_path
    )
    assert where.startswith(str(tmp_path)), "the wheel was not what ran"
