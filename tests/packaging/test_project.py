"""The project's own promises: its folders, its README, its bundled table."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support.run import dpkv

from dpkv.paper.datasets import hospital
from dpkv.paper.datasets.synthetic_tables import Wish, csv_text, make_table
from dpkv.tables.schema import schema_path

HERE = Path(__file__).resolve()
ROOT = HERE.parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TRACKED = {"pyproject.toml", "dpkv", "calibrate", "audits", "tests", "datasets", "README.md"}
BESIDE = {"Makefile", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CITATION.cff"}
BESIDE |= {"docs", ".ci", ".gitignore"}


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
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert set(re.findall(r"`make (\w+)`", text)) <= set(targets)


def test_every_target_has_a_line_of_help() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (phony,) = re.findall(r"^[.]PHONY: (.*)$", makefile, re.M)
    told = set(re.findall(r'@echo "make (\w+)', makefile))
    assert told == set(phony.split()) - {"help", "setup"}


def console_blocks() -> list[list[tuple[str, str]]]:
    """Return the (command, printed) pairs of every block of the README with `$ dpkv ...` in it."""
    blocks = []
    for block in re.findall(r"```console\n(.*?)```", README, flags=re.DOTALL):
        steps = [step.split("\n", 1) for step in re.split(r"^\$ ", block, flags=re.MULTILINE)]
        blocks.append([(step[0], step[1]) for step in steps if step[0].startswith("dpkv ")])
    return [block for block in blocks if block]


def lines_of(text: str) -> list[list[str]]:
    """Return the words of every line, without progress and the name of the kept record."""
    text = re.sub(r"calibrations/[^\s;]+", "calibrations/...", text)
    text = re.sub(r"^( *)release( +)\S+\s*$", r"\1release\2...", text, flags=re.MULTILINE)
    text = re.sub(r"\([0-9a-f]{8}\)", "(...)", text)  # a keyed fingerprint
    text = re.sub(r"\d+ private cells", "... private cells", text)  # as many as the noise made
    text = re.sub(r"^ +\d+ +[\d,]+ .*$", "a centre", text, flags=re.MULTILINE)  # as drawn
    text = re.sub(r"^ ─+ *$", "", text, flags=re.MULTILINE)  # as wide as what was drawn
    text = re.sub(r"^(potential.*: )[\d.]+( ± [\d.]+)?", r"\1...", text, flags=re.MULTILINE)
    lines = [line.split() for line in text.splitlines() if line.strip()]
    return [words for words in lines if not re.fullmatch(r".*: \d+(%| s)", " ".join(words))]


def alike(shown: str, printed: str) -> bool:
    """Compare words; numbers may differ a little, as other processors round sums differently."""
    try:
        return abs(float(shown) - float(printed)) <= 0.05 * abs(float(shown))
    except ValueError:
        return shown == printed


@pytest.mark.processes
@pytest.mark.parametrize("block", console_blocks(), ids=lambda block: block[0][0][:40])
def test_the_readme_shows_what_its_commands_print(
    block: list[tuple[str, str]], tmp_path: Path
) -> None:
    (tmp_path / "datasets").symlink_to(ROOT / "datasets")
    for command, printed in block:
        result = dpkv(*shlex.split(command)[1:], cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        shown, seen = lines_of(printed), lines_of(result.stdout + result.stderr)
        assert list(map(len, shown)) == list(map(len, seen)), result.stdout + result.stderr
        pairs = [pair for line in zip(shown, seen, strict=True) for pair in zip(*line, strict=True)]
        assert [pair for pair in pairs if not alike(*pair)] == [], command


def test_the_readme_has_commands_to_check() -> None:
    assert console_blocks()


@pytest.mark.processes
@pytest.mark.parametrize("program", re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL))
def test_the_python_of_the_readme_runs(program: str, tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-W", "error", "-c", program], cwd=tmp_path, check=True, timeout=300
    )
