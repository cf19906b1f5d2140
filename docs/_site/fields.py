"""Fills tables of the reference from the code when the site is built.

A page says where a table goes by a comment of its own line:

    <!-- fields dpkv.releases.record.ReleaseRecord -->   the fields of a pydantic model
    <!-- codes -->                                       what the codes of records mean, in words
    <!-- errors -->                                      the tree of errors
    <!-- exit-codes -->                                  how commands end, by error
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from dpkv import errors
from dpkv.releases import wording

_MARK = re.compile(r"^<!-- (fields|codes|errors|exit-codes)(?: ([\w.]+))? -->$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace every mark of a page by its table."""
    return _MARK.sub(lambda found: _table(found[1], found[2]), markdown)


def _table(what: str, name: str | None) -> str:
    if what == "fields":
        assert name is not None
        module, _, model = name.rpartition(".")
        rows = _fields(getattr(import_module(module), model))
        return _markdown(("field", "type", "what it says"), rows)
    if what == "codes":
        return _markdown(("code", "in words"), _codes())
    if what == "errors":
        return _markdown(("error", "exit code", "when"), _errors(errors.DpkvError, 0))
    return _markdown(("exit code", "raised as"), _exit_codes())


def _markdown(header: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in x) + " |" for x in lines
    )


def _fields(model: type) -> Iterator[tuple[str, str, str]]:
    """Yield the fields of a class and the strings below them."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    assert isinstance(tree, ast.ClassDef)
    for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        if not isinstance(node, ast.AnnAssign):
            continue
        told = ""
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            told = " ".join(str(after.value.value).split())
        yield f"`{ast.unparse(node.target)}`", f"`{_plain(node.annotation)}`", told


def _plain(annotation: ast.expr) -> str:
    """Return a type without what Annotated adds to it."""

    class Bare(ast.NodeTransformer):
        def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
            self.generic_visit(node)
            is_annotated = isinstance(node.value, ast.Name) and node.value.id == "Annotated"
            return (
                node.slice.elts[0] if is_annotated and isinstance(node.slice, ast.Tuple) else node
            )

    return ast.unparse(Bare().visit(annotation))


def _codes() -> Iterator[tuple[str, str]]:
    for words in vars(wording).values():
        if isinstance(words, dict) and words and all(isinstance(x, str) for x in words.values()):
            yield from (
                (f"`{code}`", text) for code, text in words.items() if isinstance(code, str)
            )


def _errors(error: type[errors.DpkvError], depth: int) -> Iterator[tuple[str, str, str]]:
    first = (inspect.getdoc(error) or "").split("\n\n", maxsplit=1)[0]
    yield f"{'&emsp;' * depth}`{error.__name__}`", str(error.exit_code), " ".join(first.split())
    for kind in error.__subclasses__():
        if kind.__module__.startswith("dpkv."):
            yield from _errors(kind, depth + 1)


def _exit_codes() -> Iterator[tuple[str, str]]:
    names: dict[int, list[str]] = {}
    for name, error in vars(errors).items():
        if isinstance(error, type) and issubclass(error, errors.DpkvError):
            names.setdefault(error.exit_code, []).append(f"`{name}`")
    for code in sorted(names):
        yield str(code), ", ".join(names[code])
