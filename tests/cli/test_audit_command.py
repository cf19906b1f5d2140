"""`dpkv audit --command`: any mechanism by files, exit codes, files for continuous integration."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support.run import Run, in_process, refusal

CLAIM = ("--claim", "eps=1,neighbours=add-remove")
SCHEMA = {
    "fields": [
        {
            "name": "age",
            "type": "integer",
            "constraints": {"minimum": 0, "maximum": 100, "required": True},
        }
    ]
}
MECHANISM = """
import math, random, sys
table, result, seed, runs, scale = sys.argv[1:]
rng = random.Random(int(seed))
with open(table) as rows:
    count = len(rows.read().splitlines()) - 1
with open(result, "w") as out:
    for _ in range(int(runs)):
        noise = [math.floor(math.log(1 - rng.random()) * -float(scale)) for _ in "ab"]
        print(count + noise[0] - noise[1], file=out)
"""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """The command in a folder with a schema and a mechanism."""
    (tmp_path / "s.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
    (tmp_path / "mine.py").write_text(MECHANISM, encoding="utf-8")
    return in_process(monkeypatch, capsys, tmp_path, "audit")


def command(scale: float) -> tuple[str, ...]:
    """Return a count with discrete Laplace noise of that scale, as a command."""
    words = f"{sys.executable} -S mine.py {{input}} {{output}} {{seed}} {{runs}} {scale}"
    return "--command", words, *CLAIM, "--schema", "s.json", "--jobs", "1"


def test_too_little_noise_is_found_and_the_pair_shows_it_again(run: Run, tmp_path: Path) -> None:
    asked = "--budget", "4000", "--junit", "result.xml", "--state", "state.jsonl"
    result = run(*command(0.4), *asked)
    assert result.returncode == 3, result.stderr
    assert "VIOLATED" in result.stdout
    found = json.loads((tmp_path / "audit" / "audit.json").read_text(encoding="utf-8"))
    assert found["lower_bound"] > 1
    assert {path.name for path in (tmp_path / "audit").iterdir()} == {
        "audit.json", "report.html", "report.md"}  # fmt: skip
    assert ElementTree.parse(tmp_path / "result.xml").find(".//failure") is not None
    anew = shlex.split(found["again"])
    assert not {"--state", "--junit"} & set(anew)
    repeated = run(*anew[2:])
    assert repeated.returncode == 3, repeated.stderr
    searched = json.loads((tmp_path / "audit-again" / "audit.json").read_text(encoding="utf-8"))
    assert (searched["witness"], searched["best"]) == (found["witness"], found["best"])
    again = run(*command(0.4), "--pair", "audit/audit.json", "--budget", "1000", "--out", "again",
                "--json")  # fmt: skip
    assert again.returncode == 3
    assert json.loads(again.stdout)["pairs_tried"] == 1


def test_enough_noise_is_not_accused(run: Run, tmp_path: Path) -> None:
    result = run(*command(1.0), "--budget", "1000", "--junit", "result.xml")
    assert result.returncode == 0, result.stderr
    assert "proves nothing" in result.stderr
    assert ElementTree.parse(tmp_path / "result.xml").find(".//failure") is None


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--claim", "eps=1,neighbours=add-remove"), "--command"),
        (("--command", "cat {input}"), "--claim"),
        (("--command", "cat", *CLAIM, "--schema", "s.json"), "{input}"),
        (("--command", "no-such-program {input}", *CLAIM, "--schema", "s.json"), "no program"),
        (("--command", "cat '{input}", *CLAIM, "--schema", "s.json"), "quotation"),
        (("--command", "cat {input}", "--claim", "eps=1", "--schema", "s.json"), "neighbours"),
        (("--command", "cat {input}", *CLAIM, "--schema", "mine.py"), "schema"),
        (("--command", "cat {input}", *CLAIM, "--schema", "s.json", "--budget", "x"), "budget"),
        (("--command", "cat {input}", *CLAIM, "--schema", "s.json", "--alpha", "0.9"), "alpha"),
        (("--command", "cat {input}", *CLAIM, "--schema", "s.json", "--k", "3"), "--command"),
        (("--command", "false {input}", *CLAIM, "--schema", "s.json", "--budget", "240"), "every"),
        (("--command", "cat {input}", *CLAIM, "--schema", "s.json", "--pair", "s.json"), "--pair"),
    ],
    ids=lambda value: None if isinstance(value, tuple) else value.strip("-{}").replace(" ", "-"),
)  # fmt: skip
def test_what_cannot_be_audited_is_refused_in_one_sentence(
    run: Run, arguments: tuple[str, ...], word: str
) -> None:
    assert word in refusal(run(*arguments))
