"""`dpkv seed --engine dask` on clusters of real processes: lost workers, TLS, dead schedulers."""

from __future__ import annotations

import datetime
import ipaddress
import json
import os
import re
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.cluster import PATIENCE, Cluster, running_cluster
from support.run import Run, dpkv, in_process, refusal

from dpkv.engine import FileShard, LocalTransport, Node, Peers, dask_engine
from dpkv.engine.peer_problem import PeerProblem, private_problem
from dpkv.engine.shards import load_all
from dpkv.errors import EngineError
from dpkv.seeding.trials import Trials, solve

pytest.importorskip("distributed", reason="needs pip install 'dpkv[dask]'")
pytestmark = [
    pytest.mark.dask,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="signals differ"),
]

K = 6
COLUMNS = ("a", "b", "c")
TABLE = np.random.default_rng(0).normal(size=(4000, 3))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table in one file, and the same in a folder of four."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "parts").mkdir()
    pd.DataFrame(TABLE, columns=COLUMNS).to_parquet(folder / "whole.parquet")
    for number, part in enumerate(np.array_split(TABLE, [700, 1500, 1600])):
        path = folder / "parts" / f"part-{number}.parquet"
        pd.DataFrame(part, columns=COLUMNS).to_parquet(path)
    return folder


@pytest.fixture
def seed(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    start = ("seed", str(folder / "parts"), "--k", str(K))
    return in_process(monkeypatch, capsys, tmp_path, *start)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster"), 4) as started:
        yield started


def shards_of(folder: Path) -> list[FileShard]:
    from dpkv.domain import Box

    domain = Box((-5.0,) * 3, (5.0,) * 3)
    files = sorted((folder / "parts").iterdir())
    return [
        FileShard(str(file), COLUMNS, domain=domain, seed=3, number=number)
        for number, file in enumerate(files)
    ]


def all_algorithms(peers: Peers, domain: Any) -> list[Trials]:
    private = private_problem(peers, domain, 2, 3, trusted_coordinator=False)  # type: ignore[arg-type]
    problems = [PeerProblem(peers, name) for name in ("dk-protected", "kmeans++", "coreset")]
    return [solve(p, 3, seed=1, lloyd_steps=p is private) for p in (private, *problems)]


def expected_of(shards: Sequence[FileShard]) -> list[Trials]:
    pairs = zip(load_all(shards), shards, strict=True)
    nodes = [Node(records, shard.secret()) for records, shard in pairs]
    return all_algorithms(Peers(LocalTransport(nodes)), shards[0].domain)


class Meanwhile:
    """A transport during whose call number ``when`` something happens."""

    def __init__(self, inner: Any, when: int, event: Callable[[], None]) -> None:
        self.n_nodes = inner.n_nodes
        self.calls = 0
        self._inner, self._when, self._event = inner, when, event

    def _count(self) -> None:
        self.calls += 1
        if self.calls == self._when:
            self._event()

    def ask(self, node: int, request: Any) -> Any:
        self._count()
        return self._inner.ask(node, request)

    def ask_each(self, requests: Any) -> list[Any]:
        self._count()
        return self._inner.ask_each(requests)


class KilledWhileAsked:
    """A worker that stops, and is killed once a request is waiting for it."""

    def __init__(self, client: Any, cluster: Cluster) -> None:
        self.process = cluster.workers[1]
        pids = client.run(os.getpid)
        (self._address,) = [address for address, pid in pids.items() if pid == self.process.pid]
        self._client = client
        self._stopped = False

    def stop(self) -> None:
        os.kill(self.process.pid, signal.SIGSTOP)
        self._stopped = True

    def kill(self) -> None:
        """Called while an answer is waited for: of this worker, or of a slow one."""
        if self._stopped and self._client.processing()[self._address]:
            self._stopped = False
            self.process.kill()
            self.process.wait()


def test_a_worker_killed_in_the_middle_changes_nothing(cluster: Cluster, folder: Path) -> None:
    shards = shards_of(folder)
    with dask_engine.dask_transport(shards, scheduler=cluster.address, timeout=PATIENCE) as found:
        doomed = KilledWhileAsked(found._client, cluster)
        transport = dask_engine.DaskTransport(found._client, shards, PATIENCE, doomed.kill)
        assert len(set(transport._home)) == 4, "every shard has a worker of its own"
        meanwhile = Meanwhile(transport, 4, doomed.stop)
        trials = all_algorithms(Peers(meanwhile), shards[0].domain)
        assert meanwhile.calls > 20
        assert doomed.process.returncode == -signal.SIGKILL
        assert len(found._client.nthreads()) == 3
    for ours, wanted in zip(trials, expected_of(shards), strict=True):
        assert ours.best.centers.tobytes() == wanted.best.centers.tobytes()
        assert ours.best.seeding_potential == wanted.best.seeding_potential
        assert ours.to_dict() == wanted.to_dict()


def seeded(*arguments: str | Path, cwd: Path) -> dict[str, Any]:
    done = dpkv("seed", *arguments, "--k", str(K), "--seed", "1", "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr and "distributed" not in done.stderr, done.stderr
    return json.loads(done.stdout)


def test_a_folder_of_parquet_files_gives_what_the_whole_table_gives(
    cluster: Cluster, folder: Path, tmp_path: Path
) -> None:
    on = ("--engine", "dask", "--scheduler", cluster.address, "--timeout", str(PATIENCE))
    ours = seeded(folder / "parts", *on, "--repeat", "3", cwd=tmp_path)
    whole = seeded(folder / "whole.parquet", "--repeat", "3", cwd=tmp_path)
    assert ours["centers"] == whole["centers"]
    potentials = [[run["potential"] for run in result["runs"]] for result in (ours, whole)]
    assert potentials[0] == pytest.approx(potentials[1], rel=1e-9)
    assert ours["engine"] == "dask" and ours["shard_sizes"] == [700, 800, 100, 2400]


def test_a_shard_that_workers_cannot_read_is_one_sentence(
    cluster: Cluster,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pd.DataFrame(TABLE[:9], columns=["a", "b", "z"]).to_parquet(tmp_path / "odd.parquet")
    files = (folder / "parts" / "part-0.parquet", tmp_path / "odd.parquet")
    on = ("--engine", "dask", "--scheduler", cluster.address, "--timeout", str(PATIENCE))
    result = in_process(monkeypatch, capsys, tmp_path, "seed")(*files, "--k", "2", *on)
    assert 'odd.parquet has no column "c"' in refusal(result)


def test_a_cluster_of_its_own(folder: Path, tmp_path: Path) -> None:
    """Also --shards, of which every worker reads its part."""
    on = ("--algorithm", "dk-protected", "--shards", "2")
    ours = seeded(folder / "whole.parquet", *on, "--engine", "dask", cwd=tmp_path)
    assert ours | {"engine": "local"} == seeded(folder / "whole.parquet", *on, cwd=tmp_path)


# -- TLS -------------------------------------------------------------------------------------------


def write_certificate(folder: Path) -> dict[str, Path]:
    """Make a certificate for 127.0.0.1 that is its own authority."""
    pytest.importorskip("cryptography")
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "dpkv test")])
    today = datetime.datetime.now(datetime.UTC)
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(today - datetime.timedelta(days=1))
        .not_valid_after(today + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(here, critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    (folder / "cert.pem").write_bytes(certificate.public_bytes(pem))
    (folder / "key.pem").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    )
    return {
        "--tls-ca-file": folder / "cert.pem",
        "--tls-cert": folder / "cert.pem",
        "--tls-key": folder / "key.pem",
    }


def test_a_run_over_tls(folder: Path, tmp_path: Path, seed: Run) -> None:
    files = write_certificate(tmp_path)
    tls = ("--tls-ca", files["--tls-ca-file"], "--tls-cert", files["--tls-cert"],
           "--tls-key", files["--tls-key"])  # fmt: skip
    with running_cluster(tmp_path, 1, files) as cluster:
        assert cluster.address.startswith("tls://")
        on = ("--engine", "dask", "--scheduler", cluster.address, "--timeout", str(PATIENCE))
        ours = seeded(folder / "parts", "--algorithm", "dk-protected", *on, *tls, cwd=tmp_path)
        local = json.loads(seed("--algorithm", "dk-protected", "--json", "--seed", "1").stdout)
        assert ours["centers"] == local["centers"]
        assert ours["best_potential"] == local["best_potential"]
        bare = ("--engine", "dask", "--timeout", "2", "--scheduler")
        assert "--scheduler must be tcp://host:port" in refusal(seed(*bare, cluster.address))
        plain = cluster.address.replace("tls://", "tcp://")
        unsafe = dpkv("seed", folder / "parts", "--k", "2", *bare, plain, cwd=tmp_path)
        assert "does not answer within 2 s" in refusal(unsafe, exit_code=1)


# -- clusters that do not answer -------------------------------------------------------------------


def test_a_scheduler_that_never_answers(folder: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        on = ("--engine", "dask", "--scheduler", address, "--timeout", "1")
        result = dpkv("seed", folder / "parts", "--k", "2", *on, cwd=tmp_path)
    assert refusal(result, exit_code=1).startswith(
        f"the Dask scheduler {address} does not answer within 1 s: "
    )


def test_no_scheduler_there(seed: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"tcp://127.0.0.1:{closed.getsockname()[1]}"
    result = seed("--engine", "dask", "--scheduler", address, "--timeout", "1")
    assert "does not answer within 1 s" in refusal(result, exit_code=1)


def asked_during(shards: Sequence[FileShard], address: str, event: Callable[[Any], None]) -> str:
    """Run dk-means++ during which something happens, and return the sentence it ends with."""
    with (
        pytest.raises(EngineError) as caught,
        dask_engine.dask_transport(shards, scheduler=address, timeout=PATIENCE) as transport,
    ):
        during = Meanwhile(transport, 4, lambda: event(transport))
        all_algorithms(Peers(during), shards[0].domain)
    return str(caught.value)


def test_a_scheduler_without_workers(tmp_path: Path, folder: Path) -> None:
    import distributed

    with running_cluster(tmp_path, 0) as cluster:
        client = dask_engine._client(distributed, cluster.address, PATIENCE, None)
        try:
            with pytest.raises(EngineError, match="has no worker, and none came within 1 s: start"):
                dask_engine.DaskTransport(client, shards_of(folder), 1.0)
        finally:
            client.close()


def test_a_scheduler_that_stops_and_one_that_is_killed(folder: Path, tmp_path: Path) -> None:
    shards = shards_of(folder)

    with running_cluster(tmp_path, 1) as cluster:

        def stop(transport: Any) -> None:
            """From now on nobody answers, however long the coordinator waits."""
            os.kill(cluster.scheduler.pid, signal.SIGSTOP)
            transport._timeout = 1.0

        stopped = asked_during(shards, cluster.address, stop)
        assert re.match("node . of 4 has not answered within 1 s: look at", stopped)
        os.kill(cluster.scheduler.pid, signal.SIGCONT)
        killed = asked_during(shards, cluster.address, lambda _: cluster.scheduler.kill())
        assert killed.startswith("the cluster failed (")
