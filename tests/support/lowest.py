"""Prints the lowest version of every direct dependency as constraints for pip.

    python tests/support/lowest.py > constraints.txt

Tools of development are not constrained: nobody who installs dpkv needs them.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_TOOLS = ("dev", "docs")
_LOWER = re.compile(r"([\w.-]+)(?:\[[\w,-]+\])?>=([\d.]+)")


def lowest(project: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the name and the lowest version of every dependency that has a lower bound."""
    extras = project["optional-dependencies"]
    needed = list(project["dependencies"])
    for name, own in extras.items():
        needed += [] if name in _TOOLS else own
    for one in needed:
        found = _LOWER.match(one)
        if found is not None:
            yield found[1], found[2]
        elif not one.startswith("dpkv["):
            raise ValueError(f"{one} has no lower bound: what is tested would be left to chance")


if __name__ == "__main__":
    known = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for name, version in sorted(set(lowest(known["project"]))):
        print(f"{name}=={version}")
