"""Runs the commands of pages again and puts what they print into the pages.

    python docs/_site/renew.py README.md docs/tutorial.md

A command whose output is shortened by a line ``...`` is run, and left as it is: what differs is
reported.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support import shown  # noqa: E402


def renew(page: Path) -> None:
    """Run a page and write it again."""
    text = page.read_text(encoding="utf-8")
    changes: list[tuple[tuple[int, int], str]] = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DPKV_REGISTRY"] = f"{folder}/.registry"
        (Path(folder) / "datasets").symlink_to(ROOT / "datasets")
        for step in shown.steps_of(text):
            if isinstance(step, shown.File):
                (Path(folder) / step.name).write_text(step.text, encoding="utf-8")
            elif isinstance(step, shown.Program):
                shown.run_program(step.text, Path(folder))
            elif step.is_run:
                result = shown.run_command(step.typed, Path(folder))
                printed = shown.printed_by(result)
                if result.returncode != step.exit_code:
                    sys.exit(f"{page}: {step.line} ended with {result.returncode}: {printed}")
                if "..." not in step.shown.splitlines():
                    changes.append((step.place, _tidy(printed)))
                elif missing := shown.difference(step.shown, printed):
                    print(f"{page}: {step.line}: {missing}\n{printed}")
    for (start, end), printed in reversed(changes):
        text = text[:start] + printed + text[end:]
    page.write_text(text, encoding="utf-8")


def _tidy(printed: str) -> str:
    lines = [line.rstrip() for line in printed.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    return "".join(f"{line}\n" for line in lines)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        renew(Path(name))
