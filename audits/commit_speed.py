"""Speed of the working tree's releases beside those of another commit, turn by turn.

    python audits/commit_speed.py REVISION

Both run the same seeded simulation of the synopsis on the same records, each in a process of its
own that answers one request at a time, so that whatever else the machine does slows both alike. The
ratio is of the processor time that the faster half of the turns took.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent.parent
CASES = {"10^6 x 2, k = 8": (1_000_000, 2, 8), "2 x 10^5 x 10, k = 10": (200_000, 10, 10)}
TURNS = 12
_WORKER = """
import sys, time
import numpy as np
import dpkv

def table(m, d, k):
    rng = np.random.default_rng(20160619)
    centers = rng.uniform(-0.8, 0.8, (k, d))
    return np.clip(centers[rng.integers(k, size=m)] + rng.normal(0, 0.05, (m, d)), -1, 1)

tables = {}
for line in sys.stdin:
    m, d, k, relation = line.split()
    key = (int(m), int(d), int(k))
    if key not in tables:
        tables = {key: table(*key)}
    start = time.process_time()
    dpkv.simulate(
        tables[key], k=key[2], eps=1, bounds=(-1, 1), seed=0, mechanism="synopsis",
        neighbours=relation,
    )
    print(time.process_time() - start, flush=True)
"""


class Worker:
    """A process that simulates releases with the code of one folder."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(folder)},
        )

    def seconds(self, case: tuple[int, int, int], relation: str) -> float:
        """Return the processor time of one release."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(" ".join(map(str, (*case, relation))) + "\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def compare(ours: Worker, theirs: Worker, case: tuple[int, int, int], relation: str) -> float:
    """Return our time over theirs."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for turn in range(TURNS + 1):  # the first one compiles
        for side, worker in enumerate((ours, theirs)):
            taken = worker.seconds(case, relation)
            if turn:
                seconds[side].append(taken)
    mine, other = (float(np.mean(sorted(side)[: TURNS // 2])) for side in seconds)
    return mine / other


def main() -> int:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("revision", help="the commit to compare with")
    revision = parser.parse_args().revision
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder) / "other"
        git = ["git", "-C", str(HERE), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(other), revision], check=True)
        try:
            ours, theirs = Worker(HERE), Worker(other)
            for name, case in CASES.items():
                for relation in ("replace-one", "add-remove"):
                    ratio = compare(ours, theirs, case, relation)
                    print(f"{name}, {relation}: {ratio:.3f} of the time of {revision}", flush=True)
            ours.close()
            theirs.close()
        finally:
            subprocess.run([*git, "remove", "--force", str(other)], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
