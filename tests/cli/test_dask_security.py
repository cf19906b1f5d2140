"""A cluster that dpkv starts refuses everybody on the machine who lacks its credentials.

The attempts are made by another process, as another user's would be.
"""

from __future__ import annotations

import http.client
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from support.cluster import PATIENCE
from support.run import in_process, refusal

from dpkv.engine import FileShard, Peers, dask_engine
from dpkv.errors import EngineError

pytest.importorskip("distributed", reason="needs pip install 'dpkv[dask]'")
psutil: Any = pytest.importorskip("psutil")
pytestmark = [
    pytest.mark.dask,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="sockets differ"),
]

ATTEMPT = """
import asyncio, sys
from distributed import Security
from distributed.core import rpc

SECURITY = {
    "nothing": Security,
    "a certificate of its own": Security.temporary,
}

async def attempt(address, security):
    # what a client asks any part of a cluster, and what runs code there
    args = security.get_connection_args("client")
    async with rpc(address, connection_args=args, timeout=20) as part:
        print("in:", await part.identity())

for address in sys.argv[1:]:
    for name, make in SECURITY.items():
        try:
            asyncio.run(attempt(address, make()))
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            print("refused:", type(error).__name__)
"""


class Started(NamedTuple):
    """A cluster of dpkv's own and where it listens."""

    transport: Any
    listening: list[Any]
    folder: Path


def listening() -> list[Any]:
    """Return where this process and those it started listen."""
    me = psutil.Process()
    everybody = [me, *me.children(recursive=True)]
    found = [c for process in everybody for c in process.net_connections("inet")]
    return [connection.laddr for connection in found if connection.status == "LISTEN"]


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> FileShard:
    path = tmp_path_factory.mktemp("data") / "t.csv"
    np.savetxt(path, np.arange(40.0).reshape(20, 2), delimiter=",", header="a,b", comments="")
    return FileShard(str(path), ("a", "b"), seed=1)


@pytest.fixture(scope="module")
def started(shard: FileShard, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    folder = tmp_path_factory.mktemp("temporary")
    before = set(listening())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(folder))
        with dask_engine.dask_transport([shard], n_workers=1, timeout=PATIENCE) as transport:
            yield Started(transport, [at for at in listening() if at not in before], folder)
    assert list(folder.iterdir()) == [], "nothing is left, keys least of all"


def test_the_owner_gets_answers(started: Started) -> None:
    assert Peers(started.transport).sizes == (20,)
    assert started.transport._client.scheduler.address.startswith("tls://127.0.0.1:")


def test_whoever_lacks_the_credentials_is_refused(started: Started) -> None:
    """By scheduler, worker and nanny, in the clear and with a certificate of their own."""
    assert len(started.listening) == 3, "the scheduler, a nanny, and its worker"
    assert {at.ip for at in started.listening} == {"127.0.0.1"}
    addresses = [
        f"{how}://127.0.0.1:{at.port}" for how in ("tcp", "tls") for at in started.listening
    ]
    tried = subprocess.run(
        [sys.executable, "-c", ATTEMPT, *addresses],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    lines = tried.stdout.splitlines()
    assert len(lines) == 2 * len(addresses), tried.stderr
    assert all(line.startswith("refused: ") for line in lines), tried.stdout


def test_planted_fault_the_attempt_succeeds_where_nothing_is_asked_for(tmp_path: Path) -> None:
    from support.cluster import running_cluster

    with running_cluster(tmp_path, 0) as cluster:
        command = [sys.executable, "-c", ATTEMPT, cluster.address]
        tried = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=PATIENCE
        )
    assert tried.stdout.startswith("in: "), tried.stdout


def test_nothing_serves_http(started: Started) -> None:
    for at in started.listening:
        page = http.client.HTTPConnection(at.ip, at.port, timeout=PATIENCE)
        page.request("GET", "/")
        with pytest.raises((http.client.HTTPException, OSError)):
            page.getresponse()
        page.close()


def test_what_workers_write_is_in_a_folder_of_the_owners(started: Started) -> None:
    def where(dask_worker: Any) -> str:
        return str(dask_worker.local_directory)

    (written,) = started.transport._client.run(where).values()
    (own,) = started.folder.iterdir()
    assert own.stat().st_mode & 0o077 == 0
    assert Path(written).is_relative_to(own)


def test_keys_are_in_no_command_line_and_no_environment(started: Started) -> None:
    key = started.transport._client.security.tls_client_key
    line = key.splitlines()[2]
    for process in psutil.Process().children(recursive=True):
        assert line not in " ".join(process.cmdline())
        assert line not in " ".join(process.environ().values())


def test_without_the_package_for_certificates_no_cluster_is_started(
    shard: FileShard,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from distributed import Security

    def missing(**_: Any) -> Any:
        raise ImportError("cryptography")

    monkeypatch.setattr(Security, "temporary", missing)
    run = in_process(monkeypatch, capsys, tmp_path, "seed", shard.path, "--k", "2")
    assert "--engine dask needs the package cryptography" in refusal(run("--engine", "dask"))


class Slow:
    """A future whose answer comes once the coordinator has waited for it."""

    def __init__(self) -> None:
        self.come = threading.Event()
        self.asked: list[float] = []

    def result(self, timeout: float) -> int:
        self.asked.append(timeout)
        if not self.come.wait(timeout):
            raise TimeoutError
        return 7

    def release(self) -> None:
        pass


class OneWorker:
    """A client of a cluster with one worker."""

    def __init__(self, future: Slow) -> None:
        self.future = future

    def wait_for_workers(self, number: int, timeout: float) -> None:
        pass

    def nthreads(self) -> dict[str, int]:
        return {"tcp://127.0.0.1:1": 1}

    def submit(self, *_: Any, **__: Any) -> Slow:
        return self.future


def test_a_wait_for_a_slow_node_is_never_cut_short_and_begun_again(shard: FileShard) -> None:
    """Where fetching an answer takes longer than between two signs of life, it still arrives."""
    slow = Slow()
    transport = dask_engine.DaskTransport(OneWorker(slow), [shard], PATIENCE, slow.come.set)
    assert transport.ask(0, None) == 7  # type: ignore[arg-type]
    assert slow.asked == [PATIENCE]


def test_a_wait_has_an_end(shard: FileShard) -> None:
    transport = dask_engine.DaskTransport(OneWorker(Slow()), [shard], 0.01)
    with pytest.raises(EngineError, match=r"node 1 of 1 has not answered within 0\.01 s"):
        transport.ask(0, None)  # type: ignore[arg-type]
