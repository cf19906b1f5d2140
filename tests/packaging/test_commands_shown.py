"""Every command and program that README and site show is run, and prints what they show."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from support import shown

from dpkv.cli import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WALKED = [page for page in PAGES if any(shown.steps_of(page.read_text(encoding="utf-8")))]
NAMES = [str(page.relative_to(ROOT)) for page in WALKED]


@pytest.mark.processes
@pytest.mark.parametrize("page", WALKED, ids=NAMES)
def test_a_page_shows_what_its_commands_print(page: Path, tmp_path: Path) -> None:
    (tmp_path / "datasets").symlink_to(ROOT / "datasets")
    for step in shown.steps_of(page.read_text(encoding="utf-8")):
        if isinstance(step, shown.File):
            (tmp_path / step.name).write_text(step.text, encoding="utf-8")
        elif isinstance(step, shown.Program):
            shown.run_program(step.text, tmp_path)
        elif step.is_run:
            result = shown.run_command(step.typed, tmp_path)
            printed = shown.printed_by(result)
            assert result.returncode == step.exit_code, (step.line, printed)
            if step.shown.strip():
                assert not shown.difference(step.shown, printed), (step.line, printed)


def test_readme_and_tutorial_have_commands() -> None:
    assert {"README.md", "docs/tutorial.md"} <= set(NAMES)


SHOWN = "one\n  1   20 3.5\n...\npass. All is well\n"


@pytest.mark.parametrize(
    ("printed", "found"),
    [
        ("one\n  1   30 4.5\nmore\npass. All is well\n", ""),
        ("one\n  1   30 4.5\npass. All is well\n", ""),
        ("two\n  1   30 4.5\npass. All is well\n", "'one' is not printed"),
        ("one\n  1   30 4.5\npass. All is ill\n", "'pass. All is well' is not printed"),
        ("one\n  1   30 4.5\npass. All is well\nand more\n", "'pass. All is well' is not printed"),
    ],
)
def test_a_difference_is_seen(printed: str, found: str) -> None:
    assert shown.difference(SHOWN, printed) == found


@cache
def options_of(name: str) -> frozenset[str]:
    """Return the options of a command, or nothing where there is no such command."""
    command: Any = typer.main.get_command(app)
    for word in name.split():
        command = getattr(command, "commands", {}).get(word)
        if command is None:
            return frozenset()
    return frozenset(x for p in command.params for x in (*p.opts, *p.secondary_opts)) | {"--help"}


def unknown_in(mention: str) -> list[str]:
    """Return what dpkv does not know of a command that a text mentions."""
    typed = shlex.split(mention.replace("'", "").replace(";", " ").replace("...", ""))[1:]
    words = [word for word in typed if not word.startswith("-") and word.islower()]
    if not words:
        return [word for word in typed if word.split("=")[0] not in options_of("")]
    name = next((n for n in (" ".join(words[:2]), words[0]) if options_of(n)), "")
    if not name:
        return [mention]
    known = options_of(name) | options_of("")
    flags = [word.split("=")[0] for word in typed if word.startswith("--")]
    return [flag for flag in flags if flag not in known]


TEXTS = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]


@pytest.mark.parametrize("page", TEXTS, ids=[str(page.relative_to(ROOT)) for page in TEXTS])
def test_a_text_mentions_commands_and_options_that_exist(page: Path) -> None:
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    mentions = [" ".join(found.split()) for found in re.findall(r"`(dpkv [^`]+)`", text)]
    assert {m: unknown_in(m) for m in mentions if unknown_in(m)} == {}


def test_a_command_that_does_not_exist_is_seen() -> None:
    assert unknown_in("dpkv release x.csv --no-such-option") == ["--no-such-option"]
    assert unknown_in("dpkv no-such-command x.csv")
    assert not unknown_in("dpkv ledger set-budget x.csv --eps 2")
