"""A real PostgreSQL server in a temporary directory, run as a user without rights."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PASSWORD = "s3cret-and-never-shown"
USER = "curator"
_PATIENCE = 120
_ATTEMPTS = 50


def find_binaries() -> Path | None:
    """Return the folder of the newest server's programs, if there is one."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if found:
        return found[-1].parent
    program = shutil.which("postgres")
    return None if program is None else Path(program).parent


class Server:
    """A server that can be killed, and started again on what is on its disk."""

    def __init__(self, folder: Path, binaries: Path, prefix: tuple[str, ...]) -> None:
        self._data = folder / "data"
        self._folder = folder
        self._binaries = binaries
        self._prefix = prefix

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [*self._prefix, str(self._binaries / program), *arguments],
            cwd=self._folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=_PATIENCE,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def make(self) -> None:
        secret = self._folder / "password"
        secret.write_text(PASSWORD, encoding="utf-8")
        secret.chmod(0o644)
        self._run(
            "initdb", "-D", str(self._data), "-U", USER, "-A", "scram-sha-256",
            f"--pwfile={secret}", "--no-sync", "-E", "UTF8", "--locale=C",
        )  # fmt: skip
        secret.unlink()

    def start(self) -> None:
        settings = f"-c listen_addresses='' -c unix_socket_directories={self._folder}"
        log = str(self._folder / "log")
        self._run("pg_ctl", "-D", str(self._data), "-w", "-l", log, "-o", settings, "start")

    def kill(self) -> None:
        """Kill every process of the server, as a power cut would."""
        first = int((self._data / "postmaster.pid").read_text(encoding="utf-8").split()[0])
        tasks = Path(f"/proc/{first}/task/{first}/children")
        children = [int(child) for child in tasks.read_text(encoding="ascii").split()]
        for process in (first, *children):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def start_again(self) -> None:
        """Start a server that was killed, as soon as the last of its processes is gone."""
        for _ in range(_ATTEMPTS):
            try:
                return self.start()
            except AssertionError:  # its shared memory is still in use
                continue
        return self.start()

    def stop(self) -> None:
        if (self._data / "postmaster.pid").exists():
            self._run("pg_ctl", "-D", str(self._data), "-w", "-m", "immediate", "stop")

    def address(self, database: str, password: str = PASSWORD) -> str:
        return f"postgresql://{USER}:{password}@/{database}?host={self._folder}"

    def version(self) -> str:
        import psycopg

        with psycopg.connect(self.address("postgres"), autocommit=True) as db:
            return str(db.info.parameter_status("server_version"))

    def make_database(self) -> str:
        """Return the address of a new, empty database."""
        import psycopg

        name = f"d{uuid.uuid4().hex[:12]}"
        with psycopg.connect(self.address("postgres"), autocommit=True) as db:
            db.execute(f"CREATE DATABASE {name}")
        return self.address(name)


@contextmanager
def running_server() -> Iterator[Server]:
    """Start a server, or skip with the reason why there can be none."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server is installed")
    prefix: tuple[str, ...] = ()
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    try:
        if os.getuid() == 0:
            if shutil.which("setpriv") is None:
                pytest.skip("root may not run PostgreSQL, and no setpriv here")
            user = _unprivileged()
            prefix = (
                "setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups",
            )  # fmt: skip
            os.chown(folder, user.pw_uid, user.pw_gid)
        server = Server(folder, binaries, prefix)
        server.make()
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unprivileged() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    pytest.skip("root may not run PostgreSQL, and there is no user postgres or nobody")
