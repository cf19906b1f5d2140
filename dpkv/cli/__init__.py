"""The command line. One module a command; no mathematics here.

Exit codes: 0 fine, 1 unexpected, 2 usage, 3 does not check out, 4 budget refused,
130 interrupted, 143 terminated.
"""

from __future__ import annotations

import functools
import io
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from dpkv import __version__
from dpkv.cli import checkpoints, datasets, ledger, output, study
from dpkv.cli.audit import audit
from dpkv.cli.calibrate import calibrate
from dpkv.cli.doctor import doctor
from dpkv.cli.export import export
from dpkv.cli.guarantees import guarantees
from dpkv.cli.parsing import Command, Group
from dpkv.cli.release import release, simulate
from dpkv.cli.schema import schema
from dpkv.cli.seed import seed
from dpkv.cli.synthesize import synthesize
from dpkv.cli.verify import verify
from dpkv.errors import DpkvError, UserInterruptError
from dpkv.settings import choose_workspace

app = typer.Typer(
    name="dpkv",
    cls=Group,
    help="Release differentially private cluster centres, and prove what the release costs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # tracebacks with locals would show records
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

_INTERRUPTED = "interrupted before it was done."


def _interruptible(command: Callable[..., None]) -> Callable[..., None]:
    """Turn Ctrl-C into an error of ours; typer would leave without a word."""

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except KeyboardInterrupt:
            raise UserInterruptError(_INTERRUPTED) from None

    return run


def _register(group: typer.Typer, name: str, command: Callable[..., None]) -> None:
    group.command(name, cls=Command)(_interruptible(command))


_COMMANDS = (
    schema,
    calibrate,
    release,
    audit,
    verify,
    export,
    simulate,
    seed,
    synthesize,
    guarantees,
    doctor,
)
for _command in _COMMANDS:
    _register(app, _command.__name__, _command)

_ledger = typer.Typer(
    name="ledger",
    help="What every data set has spent, its budget, and whether the chain of entries holds.",
    no_args_is_help=True,
)
_OF_LEDGERS: dict[str, Callable[..., None]] = {
    "show": ledger.show,
    "set-budget": ledger.set_budget,
    "verify": ledger.verify,
    "checkpoint": checkpoints.checkpoint,
    "prove": checkpoints.prove,
    "check-proof": checkpoints.check_proof,
    "move": ledger.move,
}
for _name, _of_ledger in _OF_LEDGERS.items():
    _register(_ledger, _name, _of_ledger)
app.add_typer(_ledger)

_study = typer.Typer(
    name="study",
    help="The paper's experiments, run again by one command each.",
    no_args_is_help=True,
)
_register(_study, "list", study.list_)
_register(_study, "run", study.run)
app.add_typer(_study)

_datasets = typer.Typer(
    name="datasets",
    help="The paper's tables: found, fetched, or made by its synthetic families.",
    no_args_is_help=True,
)
_register(_datasets, "list", datasets.list_)
for _dataset_command in (datasets.path, datasets.fetch, datasets.make):
    _register(_datasets, _dataset_command.__name__, _dataset_command)
app.add_typer(_datasets)


def _show_version(wanted: bool) -> None:
    if wanted:
        output.say(f"dpkv {__version__}")
        raise typer.Exit


@app.callback()
def set_up(
    version: Annotated[  # noqa: ARG001 (its callback acts)
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
    workspace: Annotated[
        Path | None,
        typer.Option(
            help="Where budgets, keys and kept releases are (default: DPKV_WORKSPACE, the user's "
            "settings, or .dpkv).",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Release differentially private cluster centres, and prove what the release costs."""
    choose_workspace(workspace)


def main() -> NoReturn:
    """Run the command line; every error leaves one sentence on stderr and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name may not fit the terminal
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _stop)  # so that half-written files are removed
    try:
        app()
    except DpkvError as error:
        _fail(str(error), error.exit_code)
    except (KeyboardInterrupt, SystemExit) as leaving:  # typer's own, outside of the command
        if isinstance(leaving, SystemExit) and leaving.code != UserInterruptError.exit_code:
            raise
        _fail(_INTERRUPTED, UserInterruptError.exit_code)
    except MemoryError:
        _fail("not enough memory: lower --memory-limit, so that the table stays on disk.", 1)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        _fail(_report(error), 1)
    sys.exit(0)


def _stop(number: int, frame: object) -> NoReturn:  # noqa: ARG001
    sys.exit(128 + number)


def _fail(sentence: str, exit_code: int) -> NoReturn:
    output.note(f"dpkv: error: {sentence}")
    if "--json" in sys.argv[1:]:
        output.print_json_error(sentence, exit_code)
    sys.exit(exit_code)


def _report(error: Exception) -> str:
    """Say where an unexpected error arose. Its message may quote a record, so it stays out."""
    frames = traceback.extract_tb(error.__traceback__)
    path = " > ".join(f"{os.path.basename(f.filename)}:{f.lineno}" for f in frames[-6:])  # noqa: PTH119
    if os.environ.get("DPKV_DEBUG") == "1":
        for line in "".join(traceback.format_exception(error)).splitlines():
            output.note(line)
    return (
        f"unexpected {type(error).__name__} ({path}). Please report this line; DPKV_DEBUG=1 prints "
        "the whole traceback, which may quote your data."
    )
