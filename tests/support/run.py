"""Running the real command in a real process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

_PROGRESS = re.compile(r".*: \d+%")  # a slow machine reports progress before it refuses


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


def refusal(result: subprocess.CompletedProcess[str], exit_code: int = 2) -> str:
    """Return the one sentence of a refused command, having checked that there is just that."""
    assert result.returncode == exit_code, result.stderr
    assert result.stdout == ""
    lines = [line for line in result.stderr.strip().splitlines() if not _PROGRESS.fullmatch(line)]
    assert len(lines) == 1 and lines[0].startswith("dpkv: error: "), result.stderr
    return lines[0].removeprefix("dpkv: error: ")
