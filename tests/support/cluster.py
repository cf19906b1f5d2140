"""Dask clusters of real processes on loopback, for tests that kill parts of them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

PATIENCE = 300.0
"""Seconds after which a test gives up; nothing is meant to take so long."""
_REGISTERED = b"Registered to:"


class Cluster:
    """A scheduler and its workers, each a process of its own."""

    def __init__(self, folder: Path, tls: dict[str, Path] | None = None) -> None:
        self._folder = folder
        self._tls = [str(part) for pair in (tls or {}).items() for part in pair]
        self._note = folder / "scheduler.json"
        place = ["--host", "tls://127.0.0.1" if tls else "127.0.0.1", "--port", "0"]
        options = [*place, "--no-dashboard", "--scheduler-file", str(self._note)]
        self.scheduler = self._start("dask_scheduler", *options)
        self.workers: list[subprocess.Popen[bytes]] = []
        self.address = ""

    def _start(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.{program}", *arguments, *self._tls]
        with (self._folder / f"{program}.log").open("ab") as log:
            return subprocess.Popen(command, cwd=self._folder, stdout=log, stderr=log)

    def wait_for_address(self) -> None:
        """Wait until the scheduler has said where it listens."""

        def written() -> bool:
            with contextlib.suppress(OSError, ValueError, KeyError):
                self.address = json.loads(self._note.read_text(encoding="utf-8"))["address"]
            return bool(self.address)

        self._wait_for(written, self.scheduler, "dask_scheduler")

    def add_workers(self, number: int) -> None:
        """Start workers, and wait until the scheduler knows all of them."""
        place = ["--host", "127.0.0.1", "--nthreads", "1", "--no-nanny", "--no-dashboard"]
        options = [*place, "--local-directory", str(self._folder)]
        for _ in range(number):
            self.workers.append(self._start("dask_worker", self.address, *options))
        log = self._folder / "dask_worker.log"
        for process in self.workers[-number:] if number else []:
            self._wait_for(
                lambda: log.read_bytes().count(_REGISTERED) >= len(self.workers),
                process,
                "dask_worker",
            )

    def _wait_for(
        self, event: Callable[[], bool], process: subprocess.Popen[bytes], program: str
    ) -> None:
        end = time.monotonic() + PATIENCE
        while not event():
            if time.monotonic() > end or process.poll() is not None:
                log = self._folder / f"{program}.log"
                raise AssertionError(log.read_text(encoding="utf-8"))
            time.sleep(0.05)

    def close(self) -> None:
        """End what is left of the processes."""
        for process in (*self.workers, self.scheduler):
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
            process.wait()


@contextlib.contextmanager
def running_cluster(
    folder: Path, n_workers: int, tls: dict[str, Path] | None = None
) -> Iterator[Cluster]:
    """Run a cluster, with processes that end with the block."""
    cluster = Cluster(folder, tls)
    try:
        cluster.wait_for_address()
        cluster.add_workers(n_workers)
        yield cluster
    finally:
        cluster.close()
