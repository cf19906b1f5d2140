"""Tables at ``s3://``, by a server on loopback: on this machine, and on Dask workers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.run import Run, in_process, refusal

boto3 = pytest.importorskip("boto3", reason="needs pip install moto")
moto_server = pytest.importorskip("moto.server", reason="needs pip install 'moto[s3,server]'")
pytest.importorskip("s3fs", reason="needs pip install 'dpkv[objects]'")
pytest.importorskip("distributed", reason="needs pip install 'dpkv[dask]'")
pytestmark = pytest.mark.dask

TABLE = pd.DataFrame(np.random.default_rng(0).uniform(-1, 1, (400, 2)), columns=["a", "b"])
ASKED = ("--k", "2", "--eps", "1", "--bounds=-1,1", "--mechanism", "lloyd", "--json")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    started = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    started.start()
    host, port = started.get_host_and_port()
    yield f"http://{host}:{port}"
    started.stop()


@pytest.fixture
def bucket(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A table in three objects, one of them without a row."""
    for name, value in {
        "AWS_ENDPOINT_URL": server,
        "AWS_ACCESS_KEY_ID": "known",
        "AWS_SECRET_ACCESS_KEY": "0.31337",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3", endpoint_url=server)
    client.create_bucket(Bucket="visits")
    for number, (start, stop) in enumerate([(0, 150), (150, 150), (150, 400)]):
        TABLE[start:stop].to_parquet(tmp_path / "part")
        key = f"y/part-{number}.parquet"
        client.put_object(Bucket="visits", Key=key, Body=(tmp_path / "part").read_bytes())
    return "s3://visits/y"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return in_process(monkeypatch, capsys, tmp_path)


def test_a_bucket_is_simulated_as_a_file_here_and_on_workers(
    run: Run, bucket: str, tmp_path: Path
) -> None:
    TABLE.to_parquet(tmp_path / "whole.parquet")
    found = []
    for place, (data, *where) in enumerate(
        [
            ("whole.parquet",),
            (bucket,),
            (f"{bucket}/part-*.parquet",),
            (bucket, "--engine", "dask", "--workers", "1"),
        ]
    ):
        done = run("simulate", data, *ASKED, *where, "--out", f"s{place}")
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout)["clusters"])
    assert found[0] == found[1] == found[2] == found[3]


def test_a_release_from_a_bucket_is_charged_verified_and_repeated(run: Run, bucket: str) -> None:
    assert run("ledger", "set-budget", bucket, "--eps", "1").returncode == 0
    done = run("release", bucket, *ASKED, "--id", "mine", "--out", "r")
    assert done.returncode == 0, done.stderr
    assert run("verify", "r/release.json", "--strict").returncode == 0
    again = run("release", bucket, *ASKED, "--id", "mine", "--out", "again")
    assert json.loads(again.stdout)["clusters"] == json.loads(done.stdout)["clusters"]
    more = run("release", bucket, *ASKED, "--out", "more")
    assert more.returncode == 4, more.stderr


def test_what_a_store_refuses_is_a_sentence(
    run: Run, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "does not exist" in refusal(run("release", f"{bucket}/gone.parquet", *ASKED))
    assert "0.31337" not in refusal(run("release", "s3://a:0.31337@visits/y", *ASKED))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert "s3://elsewhere/x.csv" in refusal(run("release", "s3://elsewhere/x.csv", *ASKED))
