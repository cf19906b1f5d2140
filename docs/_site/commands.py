"""Writes the reference of the commands, from the commands themselves, when the site is built."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer
from mkdocs.structure.files import File, Files

from dpkv.cli import app

PAGE = "reference/commands.md"
_OPENING = """# Commands

What `dpkv COMMAND --help` prints, as a page. Every command has `-h` and `--help`. Commands that
print a result have `--json`, which prints one JSON object to standard output; notes, progress and
errors go to standard error. [Exit codes](exit-codes.md) say how a command ended.
"""


def on_files(files: Files, *, config: Any, **_: Any) -> Files:
    """Add the page to the site."""
    files.append(File.generated(config, PAGE, content=commands_page()))
    return files


def commands_page() -> str:
    """Return the page in Markdown."""
    root = typer.main.get_command(app)
    parts = [_OPENING, "## dpkv", *_describe(root, "dpkv")]
    for name, command in _walk(root, "dpkv"):
        parts += [f"## {name}", *_describe(command, name)]
    return "\n\n".join(parts) + "\n"


def _walk(group: Any, before: str) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        yield f"{before} {name}", command
        if hasattr(command, "commands"):
            yield from _walk(command, f"{before} {name}")


def _describe(command: Any, name: str) -> Iterator[str]:
    context = command.make_context(name, [], resilient_parsing=True)
    text, _, example = (command.help or "").partition("Example:")
    yield text.strip()
    usage = " ".join(command.collect_usage_pieces(context)).strip()
    yield f"```text\n{name} {usage}\n```"
    if example:
        lines = [" ".join(line.split()) for line in example.strip().splitlines()]
        yield '```sh title="Example"\n' + "\n".join(line for line in lines if line) + "\n```"
    panels: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.params:
        if getattr(parameter, "hidden", False):
            continue
        is_argument = parameter.param_type_name == "argument"
        panel = getattr(parameter, "rich_help_panel", None)
        record = parameter.get_help_record(context)
        if record is None and is_argument:
            record = (parameter.metavar or parameter.name.upper(), parameter.help or "")
        if record is not None:
            title = panel or ("Arguments" if is_argument else "Options")
            panels.setdefault(title, []).append(record)
    for title, rows in panels.items():
        shown = "\n".join(f"| {_code(names)} | {_cell(told)} |" for names, told in rows)
        yield f"**{title}**"
        yield f"| | |\n|---|---|\n{shown}"


def _cell(text: str) -> str:
    """Return a text as a table's cell shows it: one line, no mark-up."""
    plain = " ".join(text.split())
    return re.sub(r"([|*<_])", r"\\\1", plain)


def _code(names: str) -> str:
    return f"`{' '.join(names.split()).replace('|', '/')}`"
