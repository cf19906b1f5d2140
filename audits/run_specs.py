"""Run the audits that the TOML files of this folder describe.

    python audits/run_specs.py              # all of them
    python audits/run_specs.py clinic       # one

The report that the README shows is committed in reports/clinic/; that of any other spec NAME.toml
goes to build/audits/NAME/. Keys are the options of ``dpkv audit``; ``data`` is relative to the
project. A spec that plants a fault must end with exit code 3, any other with 0.
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
COMMITTED = ("clinic",)
FINE, VIOLATED = 0, 3


def target_of(name: str) -> Path:
    """Return the folder for the report of that spec."""
    return HERE / "reports" / name if name in COMMITTED else ROOT / "build" / "audits" / name


def options_of(spec: dict[str, object]) -> list[str]:
    """Return a spec's keys as options of the command."""
    options = []
    for key, value in spec.items():
        if key != "data" and value is not False:
            options.append(f"--{key}" if value is True else f"--{key}={value}")
    return options


def run(path: Path) -> int:
    """Run one spec in a folder of its own, and keep what it wrote."""
    spec = tomllib.loads(path.read_text(encoding="utf-8"))
    target = target_of(path.stem)
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
    print(f"{path.name}: exit code {done} as expected; see {target.relative_to(ROOT)}")
    return 0


def main() -> int:
    """Run the specs that are named, or all."""
    wanted = [HERE / f"{name}.toml" for name in sys.argv[1:]] or sorted(HERE.glob("*.toml"))
    return max(run(path) for path in wanted)


if __name__ == "__main__":
    sys.exit(main())
