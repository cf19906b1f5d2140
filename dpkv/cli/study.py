"""``dpkv study``: the paper's experiments, one command each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpkv.cli import options, output
from dpkv.cli.progress import ProgressBar
from dpkv.errors import UsageError, UserInterruptError

if TYPE_CHECKING:
    from dpkv.paper.studies import Spec, Study

_FILES = {"result.csv", "figure.svg", "findings.md", "spec.toml"}


def list_(as_json: options.AsJson = False) -> None:
    """List the studies, what each asks, and where its committed result is."""
    from dpkv.paper.studies import NAMES, load_spec

    specs = [load_spec(name) for name in NAMES]
    if as_json:
        listed = [
            {"name": s.name, "title": s.title, "question": s.question, "paper": list(s.paper)}
            | {"committed": f"{s.home}/{s.name}"}
            for s in specs
        ]
        output.print_json({"schema_version": 1, "kind": "studies", "studies": listed})
        return
    rows = [[spec.name, spec.question, f"{spec.home}/{spec.name}/"] for spec in specs]
    output.print_table("studies", ["name", "question", "committed result"], rows, n_words=3)
    output.say("dpkv study run NAME takes less than a minute or so; --full runs what was committed")


def run(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A study listed by `dpkv study list`.")
    ],
    full: Annotated[
        bool,
        typer.Option("--full", help="Run the study as committed, which may take many minutes."),
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="A new folder for the result (default: study-NAME).")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue after the finished cases in that folder.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Run an experiment of the paper again, and write result, figure and findings to a folder.

    Every finished case is kept in the folder at once: after Ctrl-C, or a crash, --resume goes on
    with the rest. Tables of the paper that are not here are left out; see `dpkv datasets`.

    Example:  dpkv study run dk-means
    """
    from dpkv.paper.studies import load_spec, study_of

    study, spec = study_of(name), load_spec(name)
    folder = _folder(Path(f"study-{name}") if out is None else out, resume=resume)
    size = "full" if full else "quick"
    try:
        result = _run(study, spec, size, folder, resume=resume)
    except KeyboardInterrupt:
        raise UserInterruptError(
            f"interrupted; what is finished is kept in {folder}: go on with --resume."
        ) from None
    if as_json:
        output.print_json(result)
        return
    output.say(f"{spec.title} ({size} run)")
    output.say()
    for sentence in result["found"]:
        output.say(f"- {sentence}")
    output.say()
    output.say(f"wrote {', '.join(sorted(_FILES))} to {folder}")


def _folder(folder: Path, *, resume: bool) -> Path:
    if not resume:
        output.check_new_folder(folder)
    try:
        if resume and folder.is_dir() and not (folder / "cases.jsonl").exists():
            raise UsageError(f"--resume finds no cases.jsonl in {folder}: choose another --out.")
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {folder} cannot be written: {error.strerror}.") from None
    return folder


def _run(study: Study, spec: Spec, size: str, folder: Path, *, resume: bool) -> dict[str, Any]:
    from dpkv.paper.studies.runner import CaseLog, csv_of, page_of, result_of, run_cases

    settings = spec.settings(study, size)
    log = CaseLog(folder, study, settings)
    log.open(resume=resume)
    with ProgressBar(study.name) as bar:
        finished = run_cases(study, settings, log, bar.describe)
    result = result_of(spec, study, size, settings, finished)
    output.save_figure(study.draw(result), folder / "figure.svg")
    texts = {
        "result.csv": csv_of(result["rows"]),
        "findings.md": page_of(spec, size, result["settings"], result["found"]),
        "spec.toml": spec.text,
    }
    for file, text in texts.items():
        output.write_public(folder / file, text)
    (folder / "figure.svg").chmod(0o644)
    return result
