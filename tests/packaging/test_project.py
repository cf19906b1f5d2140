"""The project's own promises: its folders, its README, its bundled table."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from support.lowest import lowest

from dpkv.paper.datasets import hospital
from dpkv.paper.datasets.synthetic_tables import Wish, csv_text, make_table
from dpkv.tables.schema import schema_path

HERE = Path(__file__).resolve()
ROOT = HERE.parents[2]
TRACKED = {"pyproject.toml", "dpkv", "calibrate", "audits", "tests", "datasets", "README.md"}
BESIDE = {"Makefile", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CITATION.cff"}
BESIDE |= {"docs", "mkdocs.yml", ".ci", ".gitignore"}


def git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip("not a git checkout")
    return done.stdout


def test_the_top_level_is_the_card() -> None:
    tops = {name.split("/")[0] for name in git("ls-files").splitlines()}
    assert tops == TRACKED | BESIDE


def test_only_dpkv_is_importable() -> None:
    for folder in ("calibrate", "audits", "datasets", "tests"):
        assert not (ROOT / folder / "__init__.py").exists()


def test_no_file_names_a_registry_or_a_lock() -> None:
    host = re.compile(rb"index-url|pypi[.]org|pythonhosted[.]org")
    files = [ROOT / name for name in git("ls-files").splitlines()]
    assert not [f.name for f in files if f.is_file() and host.search(f.read_bytes()) and f != HERE]
    assert not [f.name for f in files if f.name.endswith(".lock")]


def test_no_file_is_committed_twice() -> None:
    """A copy is renewed once and then no copy; empty files are not meant."""
    seen: dict[bytes, str] = {}
    for name in git("ls-files").splitlines():
        text = (ROOT / name).read_bytes() if (ROOT / name).is_file() else b""
        assert not text or seen.setdefault(text, name) == name, (name, seen[text])


def test_the_bundled_table_is_what_the_command_makes() -> None:
    made = csv_text(make_table("clinic_patients", Wish()))
    assert (ROOT / "datasets" / "clinic_patients.csv").read_text(encoding="utf-8") == made
    visits = ROOT / "datasets" / "hospital_visits.csv"
    assert visits.read_text(encoding="utf-8") == hospital.hospital_visits(rows=3000)
    assert schema_path(visits).read_text(encoding="utf-8") == hospital.schema_text()


def test_the_figures_of_the_site_come_from_a_command() -> None:
    """Each of them, and each is shown: a picture that nobody can draw again is none."""
    spec = importlib.util.spec_from_file_location("figures", ROOT / "docs/_site/figures.py")
    assert spec is not None and spec.loader is not None
    figures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(figures)
    kept = {path.stem for path in (ROOT / "docs/figures").iterdir()}
    assert kept == set(figures.FIGURES)
    pages = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md"))
    assert [name for name in kept if f"figures/{name}.svg" not in pages] == []


def test_every_dependency_has_a_lower_bound_to_test() -> None:
    """``make test-lowest`` installs exactly these; one without a bound would be left to chance."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    known = dict(lowest(project))
    assert {"numpy", "numba", "opendp", "pyarrow", "dask", "psycopg"} <= set(known)
    loose = {**project, "dependencies": [*project["dependencies"], "loose"]}
    with pytest.raises(ValueError, match="loose has no lower bound"):
        list(lowest(loose))


LABEL = re.compile(
    r"\bth(?:SKM|DKM|OKM|main|mdp|labf|dp1)\b|`def(?:spread|mon|stretch|epsilont|ratio1)\b"
    r"|`(?:algo[A-Z]{2,}|f-\w+|t-(?:comp|exp)[\w-]*|tab[A-Z]\w*|tcomp|qw)`"
)
"""What labels of the paper's source look like, which mean nothing to a reader of the paper."""
MAPPING = "docs/explanation/paper.md"


def test_labels_of_the_papers_source_stand_in_one_table() -> None:
    own = {MAPPING, "tests/packaging/test_project.py"}
    texts = [name for name in git("ls-files").splitlines() if name.endswith((".py", ".md", ".j2"))]
    found = {
        name: [one.group() for one in LABEL.finditer((ROOT / name).read_text(encoding="utf-8"))]
        for name in texts
        if name not in own and (ROOT / name).is_file()
    }
    assert {name: labels for name, labels in found.items() if labels} == {}
    mapped = {one.group().strip("`") for one in LABEL.finditer((ROOT / MAPPING).read_text())}
    assert {"thmain", "thDKM", "thSKM", "thOKM", "thmdp", "thlabf", "thdp1"} <= mapped
    assert {"defspread", "defmon"} <= mapped


GUIDES = (
    "README.md",
    "CONTRIBUTING.md",
    "tests/README.md",
    "audits/README.md",
    "calibrate/README.md",
)


@pytest.mark.parametrize("guide", GUIDES)
def test_a_guide_names_files_and_targets_that_are_there(guide: str) -> None:
    text = (ROOT / guide).read_text(encoding="utf-8")
    files = [f"/{name}" for name in git("ls-files").splitlines()]
    named = set(re.findall(r"`([\w./-]+[.](?:py|md))`", text))
    named |= {link.lstrip("./") for link in re.findall(r"\]\(([\w./-]+[.](?:py|md))\)", text)}
    assert not [one for one in named if not any(name.endswith(f"/{one}") for name in files)]
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert set(re.findall(r"`make ([\w-]+)`", text)) <= set(targets)


def test_every_target_has_a_line_of_help() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (phony,) = re.findall(r"^[.]PHONY: (.*)$", makefile, re.M)
    told = set(re.findall(r'@echo "make ([\w-]+)', makefile))
    assert told == set(phony.split()) - {"help", "setup"}
