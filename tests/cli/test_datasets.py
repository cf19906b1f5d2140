"""``dpkv datasets`` as people run it. No network: a server on this machine, or none."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from support.run import Run, in_process, refusal
from support.server import Site, serving

from dpkv.paper.datasets import recipes

VALUES = np.arange(600.0).reshape(-1, 2)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("DPKV_DATA", raising=False)
    return in_process(monkeypatch, capsys, tmp_path, "datasets")


@pytest.fixture
def little_europe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make EuropeDiff a table of 300 records."""
    real = recipes.recipe_of("europediff")
    little = {**vars(real), "values_sha256": recipes.values_digest(VALUES), "rows": 300}
    monkeypatch.setattr(recipes, "recipe_of", lambda _name: recipes.Recipe(**little))


def test_the_list_tells_what_is_here(run: Run, tmp_path: Path) -> None:
    listed = json.loads(run("list", "--json").stdout)
    assert [table["name"] for table in listed["tables"]] == list(recipes.PAPER_TABLES)
    assert {table["path"] for table in listed["tables"]} == {None}
    assert "peers" in {family["name"] for family in listed["families"]}
    (tmp_path / "home" / "dpkv").mkdir(parents=True)
    (tmp_path / "home" / "dpkv" / "lifesci.csv.gz").write_bytes(b"")
    assert json.loads(run("list", "--json").stdout)["tables"][0]["path"].endswith("lifesci.csv.gz")
    assert "europediff" in run("list").stdout


@pytest.mark.usefixtures("little_europe")
def test_a_table_is_fetched_once_and_found_again(run: Run, tmp_path: Path) -> None:
    site = Site("\n".join(f"{x} {y}" for x, y in VALUES).encode())
    with serving(site) as url:
        first = run("fetch", "europediff", "--url", url)
        assert first.returncode == 0, first.stderr
        assert "checksum right" in first.stderr
        again = run("fetch", "europediff", "--url", url)
    assert again.stdout == first.stdout and "already" in again.stderr
    assert len(site.asked) == 1
    assert run("path", "europediff").stdout == first.stdout
    assert Path(first.stdout.strip()) == tmp_path / "home" / "dpkv" / "europediff.csv.gz"


@pytest.mark.usefixtures("little_europe")
def test_a_given_folder_needs_no_network(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "europediff.csv.gz").write_bytes(recipes.table_bytes(VALUES))
    monkeypatch.setenv("DPKV_DATA", str(tmp_path))
    assert run("fetch", "europediff", "--url", "http://127.0.0.1:9/").returncode == 0


def test_a_wrong_checksum_is_told_and_nothing_kept(run: Run, tmp_path: Path) -> None:
    with serving(Site(b"1 2\n3 4\n")) as url:
        sentence = refusal(run("fetch", "europediff", "--url", url, "--folder", "here"))
    assert "checksum" in sentence
    assert list((tmp_path / "here").iterdir()) == []


def test_offline_and_missing_tables_are_told(run: Run) -> None:
    with serving(Site(b"")) as url:
        pass
    assert "offline" in refusal(run("fetch", "europediff", "--url", url))
    assert "DPKV_DATA" in refusal(run("fetch", "mopsi_finland"))
    assert "fetch" in refusal(run("path", "europediff"))
    assert "one of" in refusal(run("path", "nonsense"))


def test_a_false_table_is_not_shown_as_the_papers(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPKV_DATA", str(tmp_path))
    (tmp_path / "europediff.csv.gz").write_bytes(recipes.table_bytes(VALUES))
    assert "checksum" in refusal(run("path", "europediff"))


def test_making_a_table(run: Run, tmp_path: Path) -> None:
    options = ("make", "peers", "--rows", "300", "--columns", "3", "--move", "0.2", "--seed", "7")
    done = run(*options, "--out", "peers.csv")
    assert done.returncode == 0 and "300 records x 3 columns, and its peer" in done.stderr
    text = (tmp_path / "peers.csv").read_text(encoding="utf-8")
    assert text.startswith("x1,x2,x3,peer\n") and text.count("\n") == 301
    assert run(*options, "--out", "peers.csv.gz").returncode == 0
    assert gzip.decompress((tmp_path / "peers.csv.gz").read_bytes()).decode() == text


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("make", "nonsense", "--out", "x.csv"), "one of"),
        (("make", "ball", "--out", "x.txt"), "--out"),
        (("make", "ball", "--out", "x.csv", "--rows", "0"), "rows"),
        (("make", "ball", "--out", "x.csv", "--clusters", "3"), "--clusters"),
    ],
)
def test_bad_wishes_are_refused(
    run: Run, tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    assert told in refusal(run(*arguments))
    assert not [path for path in tmp_path.iterdir() if path.name != "home"]
