"""What commands print cannot steer a terminal, and what is typed twice is refused."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer
from support.run import Run, in_process, refusal

import dpkv
from dpkv.cli import app, output

HOSTILE = "\x1b[31m\x9b2Jx\x07\u202e\r\x7f[red]"
SOURCES = Path(dpkv.__file__).parent


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """The command line; nothing it prints may hold a control character."""
    plain = in_process(monkeypatch, capsys, tmp_path)

    def checked(*arguments: str | Path):  # type: ignore[no-untyped-def]
        result = plain(*arguments)
        printed = result.stdout + result.stderr
        assert all(c.isprintable() or c == "\n" for c in printed), ascii(printed)
        return result

    return checked


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table whose file name is hostile, with fair columns."""
    path = tmp_path / f"t{HOSTILE}.csv"
    values = np.random.default_rng(0).uniform(0.0, 1.0, (150, 2))
    path.write_text("a,b\n" + "".join(f"{x:.6f},{y:.6f}\n" for x, y in values), encoding="utf-8")
    return path


def test_names_of_files_and_folders(run: Run, table: Path) -> None:
    name, seen = table.name, ascii(HOSTILE[:6])[1:-1]
    asked = ("--header", "--eps=9", "--bounds=0,1")
    quick = ("--method=randomized", "--n-est=100")
    ran = [
        run("seed", name, "--k=2", f"--out=c{HOSTILE}.csv"),
        run("calibrate", name, *asked, *quick, "--k=2"),
        run("release", f"--data={name}", "--k=2", *asked, f"--out=r{HOSTILE}"),
        run("release", "--k=2", f"--out=s{HOSTILE}", f"--dataset=d{HOSTILE[5:6]}"),
        run("simulate", "--k=2", f"--out=i{HOSTILE}"),
        run("verify", f"r{HOSTILE}/release.json"),
        run("verify", f"nowhere{HOSTILE}"),
        run("ledger", "set-budget", name, "--eps=100"),
        run("ledger", "show"),
        run("datasets", "make", "peers", f"--out=m{HOSTILE}.csv", "--rows=50"),
        run("datasets", "path", HOSTILE),
        run("study", "run", HOSTILE),
        run("seed", f"gone{HOSTILE}.csv", "--k=2"),
        run("release", f"--id={HOSTILE}", "--k=2"),
        run("release", f"--mechanism={HOSTILE}", "--k=2", f"--data={name}", *asked),
        run(HOSTILE),
        run("release", f"--{HOSTILE}"),
        run("verify", "one", HOSTILE),
        run("guarantees", "--k", HOSTILE),
    ]
    shown = [seen in result.stdout + result.stderr for result in ran]
    assert sum(shown) >= 12, "the names are shown, escaped"


def test_an_audit(run: Run, table: Path) -> None:
    asked = ("--eps=1", "--bounds=0,1", "--k=2", "--quick", "--runs=2")
    result = run("audit", table.name, *asked, f"--out=a{HOSTILE}")
    assert result.returncode == 0, result.stderr
    assert "\\x1b[31m" in result.stdout


def test_column_names_of_a_table(run: Run, tmp_path: Path) -> None:
    rows = "".join(f"{number % 7},{number % 5}\n" for number in range(30))
    (tmp_path / "t.csv").write_text(f'"a{HOSTILE[:3]}",b\n{rows}', encoding="utf-8", newline="")
    for command in (
        ("seed", "t.csv", "--k=2"),
        ("seed", "t.csv", "--k=2", "--json"),
        ("calibrate", "t.csv", "--eps=1", "--k=2", "--method=randomized", "--n-est=100"),
        ("release", "--data=t.csv", "--header", "--eps=1", "--k=2", "--bounds=0,9"),
        ("seed", "t.csv", "--k=2", "--columns=nowhere"),
    ):
        run(*command)


def test_sentences_of_edited_files(run: Run, table: Path, tmp_path: Path) -> None:
    asked = ("--k=2", f"--data={table.name}", "--header", "--eps=9", "--bounds=0,1")
    done = run("release", *asked, "--mechanism=synopsis", "--export-synopsis")
    assert done.returncode == 0, done.stderr
    for name in ("release.json", "synopsis.json"):
        path = tmp_path / "release" / name
        fields = json.loads(path.read_text(encoding="utf-8"))
        fields["columns"] = [HOSTILE] * len(fields["columns"])
        path.write_text(json.dumps(fields), encoding="utf-8")
    run("verify", "release/release.json")
    run("verify", "release/release.json", "--json")
    run("seed", "--synopsis=release/synopsis.json", "--k=2", "--seed=1")


def test_progress_and_tracebacks(run: Run, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpkv.cli.progress._LINE_AFTER", 0.0)
    result = run("seed", table.name, "--k=2")
    assert "reading t\\x1b[31m" in result.stderr

    def broken(*_: object) -> None:
        raise RuntimeError(HOSTILE)

    monkeypatch.setenv("DPKV_DEBUG", "1")
    monkeypatch.setattr("dpkv.cli.sharding.table_files", broken)
    result = run("seed", table.name, "--k=2")
    assert result.returncode == 1 and "RuntimeError: \\x1b[31m" in result.stderr


def test_json_means_the_same_when_it_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"a\x7f": [HOSTILE, "\U000e0001", "\ud800", "\n", "é"]}
    output.print_json_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n")
    text = capsys.readouterr().out
    assert json.loads(text) == value and "é" in text
    assert all(c.isprintable() or c == "\n" for c in text)


def test_a_line_stays_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    output.say("one\npass. Everything is fine")
    output.note("one\ntwo")
    printed = capsys.readouterr()
    assert printed.out == "one\\npass. Everything is fine\n"
    assert printed.err == "one\\ntwo\n"


def _prints(tree: ast.Module) -> list[str]:
    """The calls of a module that could write to a terminal."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        last = name.rpartition(".")[2]
        printing = last in ("print", "echo", "secho", "Console", "pprint")
        writing = last in ("write", "writelines") and name.startswith("sys.")
        if printing or writing or last.startswith("print_exc"):
            found.append(name)
    return found


def test_only_one_module_prints() -> None:
    """Others hand it their text. The fixed sentence of start.py comes before any of it loads."""
    allowed = {"cli/output.py", "start.py"}
    found = {
        str(path.relative_to(SOURCES)): prints
        for path in SOURCES.rglob("*.py")
        if (prints := _prints(ast.parse(path.read_text(encoding="utf-8"))))
    }
    assert set(found) == allowed
    planted = "print(x); typer.echo(x); sys.stdout.write(x); rich.console.Console(); f.write(x)"
    assert len(_prints(ast.parse(planted))) == 4


# --- options given twice ----------------------------------------------------------------------


def _commands(group: object, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], object]]:
    found = []
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        if hasattr(command, "commands"):
            found += _commands(command, (*path, name))
        else:
            found.append(((*path, name), command))
    return found


COMMANDS = _commands(typer.main.get_command(app))


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=[" ".join(p) for p, _ in COMMANDS])
def test_every_option_is_taken_once(path: tuple[str, ...], command: object, run: Run) -> None:
    for option in command.params:  # type: ignore[attr-defined]
        if option.param_type_name != "option" or option.is_eager or option.multiple:
            continue
        once = [option.opts[0]] if option.is_flag else [option.opts[0], "1"]
        other = [option.secondary_opts[0]] if option.secondary_opts else once
        for twice in ([*once, *once], [*once, *other]):
            sentence = refusal(run(*path, *twice))
            assert option.opts[0] in sentence and "must be given once. Got it 2 times" in sentence


def test_a_table_given_twice_is_not_released(run: Run, table: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_bytes(table.read_bytes())
    asked = ("--k=2", "--eps=1", "--bounds=0,1", table.name, "--data", "other.csv")
    assert "the table must be given once" in refusal(run("release", *asked))
    assert not (tmp_path / ".dpkv").exists()


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("dpkv rel", "release"), ("dpkv ledger set", "set-budget"), ("dpkv export --t", "--to")],
)
def test_the_shell_completes_commands_and_options(tmp_path: Path, typed: str, offered: str) -> None:
    program = "import sys; sys.argv = ['dpkv']; from dpkv.start import main; main()"
    asked = {"COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "_DPKV_COMPLETE": "complete_bash", **asked},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [offered]
