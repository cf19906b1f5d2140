"""Run the audits that the TOML files of this folder describe, and keep their reports beside them.

    python audits/run_specs.py              # all of them
    python audits/run_specs.py clinic       # one

Each spec NAME.toml gives reports/NAME/. Keys are the options of ``dpkv audit``; ``data`` is
relative to the project. A spec that plants a fault must end with exit code 3, any other with 0.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
FINE, VIOLATED = 0, 3


def options_of(spec: dict[str, object]) -> list[str]:
    """Return a spec's keys as options of the command."""
    options = []
    for key, value in spec.items():
        if key != "data" and value is not False:
            options.append(f"--{key}" if value is True else f"--{key}={value}")
    return options


def run(path: Path, reports: Path = HERE / "reports") -> int:
    """Run one spec in a folder of its own, and move what it wrote into ``reports``."""
    spec = tomllib.loads(path.read_text(encoding="utf-8"))
    target = reports / path.stem
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / Path(str(spec["data"])).name
        shutil.copyfile(ROOT / str(spec["data"]), data)
        command = ["audit", data.name, "--out=audit", *options_of(spec)]
        done = subprocess.run(
            [sys.executable, "-m", "dpkv", *command], cwd=folder, check=False
        ).returncode
        if done != (VIOLATED if "plant" in spec else FINE):
            print(f"{path.name}: unexpected exit code {done}", file=sys.stderr)
            return 1
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(Path(folder) / "audit", target)
    print(f"{path.name}: exit code {done} as expected; see {target.relative_to(reports.parent)}")
    return 0


def main() -> int:
    """Run the specs that are named, or all."""
    wanted = [HERE / f"{name}.toml" for name in sys.argv[1:]] or sorted(HERE.glob("*.toml"))
    return max(run(path) for path in wanted)


if __name__ == "__main__":
    sys.exit(main())
