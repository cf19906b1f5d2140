"""The wheel and the source distribution, built, installed and used outside the checkout."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import dpkv
from dpkv.paper.datasets.recipes import PAPER_TABLES
from dpkv.paper.studies import NAMES as STUDIES

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A source distribution of the checkout, and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("built")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT]
    subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True)
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return {"wheel": wheel, "sdist": source}


@pytest.fixture(scope="module")
def wheel(built: dict[str, Path]) -> Path:
    return built["wheel"]


@pytest.fixture(scope="module", params=["wheel", "sdist"])
def installed(
    request: pytest.FixtureRequest,
    built: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """Return the bin folder of a new environment that has the wheel, or the source distribution.

    Its dependencies are lent by the environment of the tests: a path file adds that one's packages
    behind the new one's own, and a path file is not followed from there, so the editable checkout
    stays out of sight.
    """
    folder = tmp_path_factory.mktemp("user")
    venv.create(folder, with_pip=False)
    scripts = Path(sysconfig.get_path("scripts", vars={"base": str(folder)}))
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    lent = sysconfig.get_path("purelib")
    (packages / "lent.pth").write_text(f"{lent}\n", encoding="utf-8")
    options = ("--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--ignore-installed")
    subprocess.run(
        [str(scripts / "python"), "-m", "pip", "install", *options, str(built[request.param])],
        check=True,
        capture_output=True,
        text=True,
    )
    return scripts


def test_the_source_distribution_holds_what_a_reader_needs(built: dict[str, Path]) -> None:
    with tarfile.open(built["sdist"]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    texts = {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CITATION.cff"}
    assert texts | {"LICENSE", "pyproject.toml", "docs/tutorial.md"} <= names
    assert {"dpkv/__init__.py", "datasets/clinic_patients.csv"} <= names
    assert not [name for name in names if name.endswith((".pyc", ".nbi", ".nbc"))]
    assert not [name for name in names if name.startswith(("shared", ".dpkv", "build"))]


def test_the_version_is_that_of_the_changelog(built: dict[str, Path]) -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## (\S+)", text, re.M)
    assert built["wheel"].name.split("-")[1] == built["sdist"].name.split("-")[1][: -len(".tar.gz")]
    assert built["wheel"].name.split("-")[1] == dpkv.__version__
    if not dpkv.__version__.endswith(".dev0"):
        assert dpkv.__version__ in versions
        cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
        assert f"\nversion: {dpkv.__version__}\n" in cited


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert "dpkv" in tops
    assert all(top == "dpkv" or top.endswith(".dist-info") for top in tops), tops
    assert "dpkv/py.typed" in names
    assert {f"dpkv/paper/studies/specs/{name}.toml" for name in STUDIES} <= set(names)
    assert {f"dpkv/paper/datasets/sources/{name}.toml" for name in PAPER_TABLES} <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not [name for name in names if name.endswith((".pyc", ".nbi", ".nbc"))]


def test_its_command_seeds_a_table_outside_the_checkout(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "points.csv").write_text("u,v\n0,0\n0,1\n9,9\n9,8\n", encoding="utf-8")
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(installed / "dpkv"), "seed", "points.csv", "--k", "2", "--lloyd", "--json"],
        cwd=tmp_path,
        env=clean,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert sorted(result["centers"]) == [[0.0, 0.5], [9.0, 8.5]]
    where = subprocess.run(
        [str(installed / "python"), "-c", "import dpkv; print(dpkv.__file__)"],
        cwd=tmp_path,
        env=clean,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert str(ROOT) not in where, "the wheel was not what ran"


@pytest.mark.parametrize("command", ["study", "datasets"])
def test_its_specs_and_recipes_are_found_outside_the_checkout(
    installed: Path, tmp_path: Path, command: str
) -> None:
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(installed / "dpkv"), command, "list", "--json"],
        cwd=tmp_path,
        env=clean,
        capture_output=True,
        text=True,
        check=True,
    )
    listed = json.loads(done.stdout)
    assert len(listed["studies" if command == "study" else "tables"]) >= len(PAPER_TABLES)
