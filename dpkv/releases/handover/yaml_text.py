"""Plain values as YAML that any reader takes the same way: quoted texts, blocks of lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

_STEP = "  "


def yaml_text(value: dict[str, Any]) -> str:
    """Return mappings, lists, texts and exact numbers as YAML."""
    return "\n".join(_lines(value, "")) + "\n"


def _lines(value: dict[str, Any], indent: str) -> Iterator[str]:
    for key, part in value.items():
        yield from _entry(f"{indent}{key}:", part, indent)


def _entry(opening: str, part: Any, indent: str) -> Iterator[str]:
    deeper = indent + _STEP
    if isinstance(part, dict):
        yield opening
        yield from _lines(part, deeper)
    elif isinstance(part, list):
        yield opening
        for one in part:
            yield from _item(one, deeper)
    elif isinstance(part, str) and _is_block(part):
        yield f"{opening} |-"
        yield from (f"{deeper}{line}".rstrip() for line in part.split("\n"))
    else:
        yield f"{opening} {_scalar(part)}"


def _item(one: Any, indent: str) -> Iterator[str]:
    if isinstance(one, dict):
        yield f"{indent}-"
        yield from _lines(one, indent + _STEP)
    else:
        yield f"{indent}- {_scalar(one)}"


def _is_block(text: str) -> bool:
    """Tell whether a text of several lines can stand as it is."""
    lines = text.split("\n")
    return (
        len(lines) > 1
        and all(line.isprintable() and line == line.rstrip() for line in lines)
        and lines[0][:1].strip() != ""
        and lines[-1] != ""
    )


def _scalar(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, int):
        return str(value)
    return json.dumps(value, ensure_ascii=not value.isprintable())
