"""`dpkv seed` over shards and streams: where records come from, and what does not fit together."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.run import Run, dpkv, in_process, refusal

ROOT = Path(__file__).resolve().parents[2]
PATIENTS = ROOT / "datasets" / "clinic_patients.csv"
TABLE = np.random.default_rng(4).normal(size=(60, 2)).round(6)
SITES = np.array(["north", "south, by the sea", 'the "old" site'])[np.arange(60) % 3]


def write_csv(path: Path, rows: np.ndarray, header: str = "a,b") -> Path:
    lines = [header, *(",".join(map(repr, row)) for row in rows.tolist())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    write_csv(tmp_path / "all.csv", TABLE)
    (tmp_path / "parts").mkdir()
    for number, part in enumerate(np.split(TABLE, [10, 35])):
        write_csv(tmp_path / "parts" / f"{number}.csv", part)
    frame = pd.DataFrame(TABLE, columns=["a", "b"])
    frame.insert(0, "site", SITES)
    frame.to_csv(tmp_path / "sites.csv", index=False)
    frame.to_parquet(tmp_path / "sites.parquet")
    return in_process(monkeypatch, capsys, tmp_path, "seed")


def result_of(run: Run, *arguments: str | Path, k: int = 3) -> dict[str, Any]:
    done = run(*arguments, "--k", str(k), "--seed", "1", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# -- where shards come from ------------------------------------------------------------------------


def test_files_a_folder_and_equal_parts_are_the_same_shards(seed: Run) -> None:
    protected = ("--algorithm", "dk-protected")
    files = result_of(seed, *(f"parts/{i}.csv" for i in range(3)), *protected)
    assert files["shard_sizes"] == [10, 25, 25]
    assert result_of(seed, "parts", *protected) == files
    parts = result_of(seed, "all.csv", "--shards", "4", *protected)
    assert parts["shard_sizes"] == [15] * 4
    assert {*map(tuple, parts["centers"])} <= {*map(tuple, TABLE.tolist())}


@pytest.mark.parametrize("how", [["parts"], ["all.csv", "--shards", "7"], ["all.csv"]])
@pytest.mark.parametrize("algorithm", ["kmeans++", "forgy"])
def test_a_divided_table_gives_the_whole_tables_centres(
    seed: Run, how: list[str], algorithm: str
) -> None:
    whole = result_of(seed, "all.csv", "--algorithm", algorithm)
    ours = result_of(seed, *how, "--algorithm", algorithm)
    if algorithm == "kmeans++":
        assert ours["centers"] == whole["centers"]
        assert ours["best_potential"] == pytest.approx(whole["best_potential"], rel=1e-12)
    assert whole.keys() <= ours.keys(), "shards only add to the format"


@pytest.mark.parametrize("algorithm", ["dk-protected", "kmeans-parallel", "coreset", "dk-private"])
def test_every_algorithm_over_shards_has_the_format_of_plain_seed(
    seed: Run, algorithm: str
) -> None:
    private = ("--eps", "2", "--bounds=-5,5") if algorithm == "dk-private" else ()
    ours = result_of(seed, "parts", "--algorithm", algorithm, "--lloyd", *private)
    plain = result_of(seed, "all.csv", "--lloyd")
    assert plain.keys() <= ours.keys()
    assert plain["runs"][0].keys() <= ours["runs"][0].keys()
    assert ours["releasable"] is False and ours["algorithm"] == algorithm
    assert len(ours["centers"]) == 3 and ours["n_records"] == 60
    assert result_of(seed, "parts", "--algorithm", algorithm, "--lloyd", *private) == ours


def test_the_promise_of_private_dk_means_is_printed_but_nothing_is_private(seed: Run) -> None:
    given = ("parts", "--algorithm", "dk-private", "--bounds=-5,5")
    ours = result_of(seed, *given, "--eps", "2")
    assert 1.99 < ours["promise"]["eps"] <= 2.0
    assert ours["promise"]["neighbours"] == "replace-one inside a shard"
    assert ours["promise"]["smallest_shard"] == 10
    assert "nothing here is private" in ours["privacy"]
    trusted = result_of(seed, *given, "--eps", "2", "--trusted-coordinator")
    assert "not the coordinator" in trusted["promise"]["protects_against"]
    shown = seed(*given, "--eps", "2", "--k", "3").stdout
    assert "replace-one inside a shard" in shown
    assert "holds if   the coordinator follows the protocol" in shown


# -- labels ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sites.csv", "sites.parquet"])
def test_shards_by_text_labels_with_quotes_and_commas(seed: Run, name: str) -> None:
    ours = result_of(seed, name, "--shard-by", "site", "--algorithm", "dk-protected")
    assert ours["columns"] == ["a", "b"]
    assert ours["shard_sizes"] == [20, 20, 20]
    spread = sum(
        ((TABLE[s == SITES] - TABLE[s == SITES].mean(axis=0)) ** 2).sum() for s in set(SITES)
    )
    assert ours["spread"] == pytest.approx(spread, rel=1e-12), "every row is in its own shard"


AWKWARD = {
    "blank lines": "s,a\n\nx,1\n   \n\ny,5\nx,2\n\n",
    "NA is a label": "s,a\nNA,1\nnan,5\nNA,2\n",
    "blanks about": "s,a\n x ,1\ny , 5\n x,2\n",
    "tabs": "s\ta\nx\t1\ny\t5\nx\t2\n",
    "a byte-order mark": "\ufeffs,a\nx,1\ny,5\nx,2\n",
    "lines in quotes": 's,a\n"x\n,1",1\ny,5\n"x\n,1",2\n',
    "numbers": "s,a\n1,1\n2,5\n1,2\n",
    "no header": "1,1\n2,5\n1,2\n",
    "CR LF": "s,a\r\nx,1\r\ny,5\r\nx,2\r\n",
    "no last line end": "s,a\nx,1\ny,5\nx,2",
}


@pytest.mark.parametrize("case", AWKWARD)
@pytest.mark.parametrize("packed", [False, True])
def test_labels_stay_with_their_rows(seed: Run, tmp_path: Path, case: str, packed: bool) -> None:
    """One shard holds 1 and 2, about a mean of 1.5; the other 5 alone."""
    text = AWKWARD[case].encode()
    (tmp_path / "t.csv").write_bytes(gzip.compress(text) if packed else text)
    by, column = ("x1", "x2") if case == "no header" else ("s", "a")
    given = ("t.csv", "--shard-by", by, "--columns", column, "--algorithm", "dk-protected")
    ours = result_of(seed, *given, k=1)
    assert sorted(ours["shard_sizes"]) == [1, 2]
    assert ours["spread"] == 0.5


def test_a_label_of_any_length_and_many_labels(seed: Run, tmp_path: Path) -> None:
    long = "x" * 100_000
    (tmp_path / "long.csv").write_text(f"s,a\n{long},1\ny,2\n{long},3\n", encoding="utf-8")
    done = seed("long.csv", "--shard-by", "s", "--k", "1", "--algorithm", "dk-protected")
    assert done.returncode == 0 and len(done.stdout + done.stderr) < 2000
    rows = "\n".join(f"{i},{i}" for i in range(10_001))
    (tmp_path / "many.csv").write_text(f"s,a\n{rows}\n", encoding="utf-8")
    refused = refusal(seed("many.csv", "--shard-by", "s", "--k", "1", "--algorithm", "coreset"))
    assert "has over 10000 labels" in refused


def test_labels_of_parquet_numbers_and_missing_ones(seed: Run, tmp_path: Path) -> None:
    for labels in ([1, 2, 1], [1.5, 2.5, 1.5], [True, False, True]):
        frame = pd.DataFrame({"s": labels, "a": [1.0, 5.0, 2.0]})
        frame.to_parquet(tmp_path / "n.parquet")
        ours = result_of(seed, "n.parquet", "--shard-by", "s", "--algorithm", "coreset", k=1)
        assert sorted(ours["shard_sizes"]) == [1, 2]
    for labels in ([1.5, None, 1.5], [float("nan"), 1.0, 2.0], ["x", None, "y"], ["x", " ", "y"]):
        frame = pd.DataFrame({"s": labels, "a": [1.0, 5.0, 2.0]})
        frame.to_parquet(tmp_path / "n.parquet")
        given = ("n.parquet", "--shard-by", "s", "--algorithm", "coreset", "--k", "1")
        assert "has rows without a label in column 's'" in refusal(seed(*given))


BROKEN = {
    "no label": ("s,a\nx,1\n,2\n", "has rows without a label in column 's': fill them in."),
    "ragged": ("s,a\nx,1\ny\n", "line 3: the row has 1 cells where the table has 2 columns"),
    "open quote": ('s,a\n"x,1\ny,2\n', "is never closed"),
    "not a number": ("s,a\nx,1\ny,secret\n", ": not a number"),
    "header alone": ("s,a\n", "has no rows"),
    "empty": ("", "is empty"),
    "binary": ("s,a\nx,\0\n", "is a binary file"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_shards_are_one_sentence(seed: Run, tmp_path: Path, case: str) -> None:
    text, sentence = BROKEN[case]
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    for how in (["--shard-by", "s"], ["--columns", "a", "--shards", "2"]):
        if case == "no label" and "--shards" in how:
            continue
        said = refusal(seed("t.csv", *how, "--k", "1", "--algorithm", "dk-protected"))
        assert sentence in said
        assert "secret" not in said


def test_a_damaged_parquet_file_is_one_sentence(seed: Run, tmp_path: Path) -> None:
    whole = (tmp_path / "sites.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    given = ("cut.parquet", "--shard-by", "site", "--k", "1", "--algorithm", "dk-protected")
    assert "cut.parquet is damaged" in refusal(seed(*given))


# -- what does not fit together --------------------------------------------------------------------

ONE, DASK = ["all.csv"], ["all.csv", "--engine", "dask"]
REFUSED = [
    (ONE, "--algorithm nonsense", "--algorithm must be one of"),
    (ONE, "--algorithm dk-protected", "dk-protected needs shards"),
    (ONE, "--algorithm coreset", "coreset needs shards"),
    (ONE, "--shards 0", "--shards must be between 1 and 10000"),
    (ONE, "--shards 61", "has no records: use fewer"),
    (ONE, "--shards 3 --shard-by a", "exclude each other"),
    (ONE, "--shard-by nothing", 'has no column "nothing"'),
    (["parts"], "--shards 3", "divide one table"),
    (["parts"], "--shard-by a", "divide one table"),
    (["all.csv", "./all.csv"], "", "must not be given twice"),
    (["nowhere.csv", "all.csv"], "", "nowhere.csv does not exist"),
    (["nowhere"], "--algorithm dk-protected", "nowhere does not exist"),
    (["all.csv", "sites.csv"], "--columns a,c", 'has no column "c"'),
    (["parts"], "--k 61", "k must be at most the number of records, 60"),
    (["parts"], "--algorithm dk-private", "needs --eps and --bounds"),
    (["parts"], "--algorithm dk-private --eps 1", "needs --eps and --bounds"),
    (["parts"], "--algorithm dk-private --bounds=-5,5", "needs --eps and --bounds"),
    (["parts"], "--algorithm dk-private --bounds=-5,5 --eps 0", "--eps must be"),
    (["parts"], "--algorithm dk-private --bounds=-5,5 --eps x", "--eps must be"),
    (["parts"], "--algorithm dk-private --bounds=-5,5 --eps 1 --k 11", "smallest shard, 10"),
    (["parts"], "--eps 1", "--eps is for --algorithm dk-private"),
    (["parts"], "--trusted-coordinator", "is for --algorithm dk-private"),
    (["parts"], "--coreset-size 5", "is for --algorithm coreset"),
    (["parts"], "--algorithm coreset --coreset-size 0", "size must be a whole number"),
    (["parts"], "--summary-points 5", "is for --algorithm sk"),
    (["parts"], "--builder grid", "is for --algorithm sk"),
    (["parts"], "--stream-length 5", "is for --algorithm ok"),
    (["parts"], "--algorithm sk", "sk reads one stream"),
    (ONE, "--algorithm ok --shards 3", "ok reads one stream"),
    (DASK, "--algorithm sk", "sk reads one stream"),
    (ONE, "--algorithm sk --builder nonsense", "builder"),
    (ONE, "--algorithm sk --summary-points 2", "summary_points"),
    (["-"], "", "- is a stream"),
    (["-"], "--algorithm sk --repeat 2", "--repeat needs a stream that can be read again"),
    (["-"], "--algorithm sk --lloyd", "--lloyd needs a stream that can be read again"),
    (ONE, "--engine spark", "--engine must be local or dask"),
    (ONE, "--scheduler tcp://127.0.0.1:1", "--scheduler is for --engine dask"),
    (ONE, "--workers 2", "--workers is for --engine dask"),
    (ONE, "--tls-ca x", "--tls-ca is for --engine dask"),
    (ONE, "--timeout 0", "--timeout must be"),
    (ONE, "--timeout nan", "--timeout must be"),
    (DASK, "--workers 0", "workers must be a whole number of at least 1"),
    (DASK, "--workers 2 --scheduler tcp://127.0.0.1:1", "leave it or --scheduler out"),
    (DASK, "--tls-ca x", "go together"),
    (DASK, "--tls-ca x --tls-cert y --tls-key z", "--tls-ca must be a PEM file"),
    (DASK, "--scheduler ftp://x", "--scheduler must be tcp://host:port"),
    (DASK, "--scheduler nonsense", "--scheduler must be tcp://host:port"),
]


@pytest.mark.parametrize(("data", "options", "sentence"), REFUSED)
def test_what_does_not_fit_together_is_refused_in_a_sentence(
    seed: Run, tmp_path: Path, data: list[str], options: str, sentence: str
) -> None:
    k = () if "--k " in options else ("--k", "3")
    assert sentence in refusal(seed(*data, *options.split(), *k))
    assert not (tmp_path / "centers-not-private.csv").exists()


def test_folders_of_other_things(seed: Run, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "notes.txt").write_text("a", encoding="utf-8")
    assert "none holds no table" in refusal(seed("none", "--k", "1"))
    expected = result_of(seed, "parts", "--algorithm", "dk-protected")
    (tmp_path / "parts" / "._0.csv").write_bytes(b"\0\1")
    (tmp_path / "parts" / "_SUCCESS").write_bytes(b"")
    (tmp_path / "parts" / "more.csv").mkdir()
    assert result_of(seed, "parts", "--algorithm", "dk-protected") == expected


def test_the_output_is_no_shard_of_the_next_run(seed: Run) -> None:
    given = ("parts", "--algorithm", "dk-protected", "--k", "2", "--out", "parts/0.csv")
    assert "--out must not be the table itself" in refusal(seed(*given))


# -- edges -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["dk-protected", "kmeans-parallel", "coreset", "kmeans++"])
def test_one_record_and_equal_records(seed: Run, tmp_path: Path, algorithm: str) -> None:
    write_csv(tmp_path / "one.csv", np.array([[3.0, 4.0]]))
    one = result_of(seed, "one.csv", "--shards", "1", "--algorithm", algorithm, k=1)
    assert one["centers"] == [[3.0, 4.0]] and one["best_potential"] == 0.0
    write_csv(tmp_path / "equal.csv", np.ones((20, 2)))
    equal = result_of(seed, "equal.csv", "--shards", "3", "--algorithm", algorithm, k=5)
    assert equal["centers"] == [[1.0, 1.0]] * 5 and equal["best_potential"] == 0.0


def test_shards_on_disk_and_columns_in_another_order(seed: Run, tmp_path: Path) -> None:
    swapped = write_csv(tmp_path / "parts" / "1.csv", TABLE[10:35][:, ::-1], "b,a")
    ours = result_of(seed, "parts", "--columns", "a,b")
    assert ours["centers"] == result_of(seed, "all.csv")["centers"]
    mapped = result_of(seed, "parts", "--columns", "a,b", "--memory-limit", "0")
    assert mapped == ours
    assert list((swapped.parent / ".dpkv" / "tables").glob("*.f64"))


def test_k_may_be_larger_than_a_shard(seed: Run) -> None:
    for algorithm in ("dk-protected", "kmeans-parallel", "coreset", "kmeans++"):
        ours = result_of(seed, "parts", "--algorithm", algorithm, k=30)
        assert len(ours["centers"]) == 30


# -- streams ---------------------------------------------------------------------------------------

STREAMED = {
    "sk": ["--summary-points", "500"],
    "ok": ["--stream-length", "20000"],
    "kmeans-sharp": [],
    "online-kmeans": [],
}


def streamed(arguments: list[str], cwd: Path, stdin: Any) -> dict[str, Any]:
    command = [sys.executable, "-m", "dpkv", "seed", "--k", "4", "--seed", "1", "--json"]
    done = subprocess.run(
        [*command, *arguments], stdin=stdin, cwd=cwd, capture_output=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("algorithm", STREAMED)
def test_streams_from_a_pipe_and_a_fifo(algorithm: str, tmp_path: Path, seed: Run) -> None:
    """A pipe, a FIFO and the file give the same centres; only the file also gives a potential."""
    options = ["--algorithm", algorithm, *STREAMED[algorithm]]
    if algorithm == "sk":
        with subprocess.Popen(["cat", str(PATIENTS)], stdout=subprocess.PIPE) as cat:
            piped = streamed(["-", *options], tmp_path, cat.stdout)
        assert piped["best_potential"] is None and piped["n_records"] == 20_000
    os.mkfifo(tmp_path / "queue")
    writer = threading.Thread(
        target=lambda: (tmp_path / "queue").write_bytes(PATIENTS.read_bytes())
    )
    writer.start()
    queued = result_of(seed, "queue", *options, k=4)
    writer.join(300)
    assert queued["best_potential"] is None and queued["n_records"] == 20_000
    from_file = result_of(seed, PATIENTS, *options, k=4)
    assert from_file["centers"] == queued["centers"]
    assert from_file["best_potential"] > 0
    if algorithm == "sk":
        assert piped["centers"] == queued["centers"]


def test_a_pipe_needs_its_length_for_minibatches(seed: Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "queue")
    writer = threading.Thread(target=lambda: (tmp_path / "queue").write_text("a\n1\n2\n"))
    writer.start()
    said = refusal(seed("queue", "--algorithm", "ok", "--k", "2"))
    writer.join(300)
    assert "ok needs --stream-length for a pipe" in said


# -- help ------------------------------------------------------------------------------------------


def test_the_examples_of_help_run(tmp_path: Path) -> None:
    from dpkv.cli.seed import seed as command

    examples = re.findall(r"Example:  (.+)", command.__doc__ or "")
    assert len(examples) >= 3
    shutil.copy(PATIENTS, tmp_path / "patients.csv")
    asked = ("--header", "--k=3", "--eps=1", "--bounds=-10,10", "--mechanism=synopsis")
    made = dpkv("release", "--data", "patients.csv", *asked, "--export-synopsis", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for example in examples:
        done = subprocess.run(
            example,
            shell=True,
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
