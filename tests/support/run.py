"""Running the real command in a real process."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PROGRESS = re.compile(r".*: \d+(%(, about \d+ s left)?| s)")
"""A line that tells how far the work is: a slow machine has them before it refuses, too."""
RELEASE = (
    "release", "t.csv", "--header", "--k=2", "--bounds=-1,1", "--eps=0.5", "--mechanism=lloyd",
)  # fmt: skip
"""A release of a small table, asked for in full."""
_WARNING = re.compile(r"(warning|predicted): .*\.")


def dpkv(*arguments: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``python -m dpkv`` with the arguments in ``cwd``."""
    return subprocess.run(
        [sys.executable, "-m", "dpkv", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "120", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def sentences(err: str) -> list[str]:
    """Return the lines of stderr but for warnings, and progress, which a slow machine reports."""
    said = err.strip().splitlines()
    return [x for x in said if not PROGRESS.fullmatch(x) and not _WARNING.fullmatch(x)]


def errors_of(result: subprocess.CompletedProcess[str]) -> list[str]:
    """Return what a command said on stderr but for progress and warnings."""
    return sentences(result.stderr)


def refusal(result: subprocess.CompletedProcess[str], exit_code: int = 2) -> str:
    """Return the one sentence of a refused command, having checked that there is just that.

    Under ``--json`` it is said in JSON, too.
    """
    assert result.returncode == exit_code, result.stderr
    lines = errors_of(result)
    assert len(lines) == 1 and lines[0].startswith("dpkv: error: "), result.stderr
    sentence = lines[0].removeprefix("dpkv: error: ")
    if "--json" in map(str, result.args):
        assert json.loads(result.stdout)["error"] == sentence
    else:
        assert result.stdout == ""
    return sentence


Run = Callable[..., "subprocess.CompletedProcess[str]"]


def in_process(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    folder: Path,
    *command: str,
    secret: str | None = None,
) -> Run:
    """Return the command line as ``dpkv()`` runs it, without the second that a process costs.

    ``command`` comes before the arguments of every run; ``secret`` may never be printed.
    """
    from dpkv import cli
    from dpkv.cli import output

    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(sys, "argv", ["dpkv", *command, *map(str, arguments)])
        monkeypatch.setattr(output, "_told_json", False)  # as in a process of its own
        capsys.readouterr()
        with pytest.raises(SystemExit) as leaving:
            cli.main()
        printed = capsys.readouterr()
        assert secret is None or secret not in printed.err + printed.out
        code = int(leaving.value.code or 0)
        return subprocess.CompletedProcess(arguments, code, printed.out, printed.err)

    return run
