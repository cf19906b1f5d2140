"""From the text of a file that somebody else may have written to checked, frozen data."""

from __future__ import annotations

import json
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from dpkv.errors import UsageError

_Model = TypeVar("_Model", bound=BaseModel)
_SHOWN = 80  # characters of where it went wrong, which may be a name that the file made up
_AGAIN = "take an unaltered copy."


def parse(model: type[_Model], text: str, path: object, name: str) -> _Model:
    """Return what the text holds; or refuse, calling it no ``name``, with where it went wrong."""
    try:
        json.loads(text, object_pairs_hook=_without_repeats)
        return model.model_validate_json(text)
    except _RepeatedError:
        raise UsageError(f"{path} is no {name}: a key stands in it twice.") from None
    except RecursionError:
        raise UsageError(f"{path} is no {name}: it is nested too deeply.") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"]))[:_SHOWN] or _in_words(first["msg"])
        raise UsageError(
            f"{path} is not a {name} of this version of dpkv (see {place}): {_AGAIN}"
        ) from None
    except json.JSONDecodeError:
        raise UsageError(f"{path} is not JSON: {_AGAIN}") from None
    except (ValueError, TypeError, ArithmeticError):
        raise UsageError(f"{path} is no {name}: a number in it is too large. {_AGAIN}") from None


def kind_of(text: str) -> object:
    """Return the kind that a file says it is of; None where it says none."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return fields.get("kind") if isinstance(fields, dict) else None


class _RepeatedError(Exception):
    """A key stands twice in an object: readers would differ about its value."""


def _without_repeats(pairs: list[tuple[str, object]]) -> None:
    if len({key for key, _ in pairs}) < len(pairs):
        raise _RepeatedError


def _in_words(message: str) -> str:
    """Return what a check of the whole said, if it is one of ours; else that it is the JSON."""
    ours = "Value error, "
    return message.removeprefix(ours)[:_SHOWN] if message.startswith(ours) else "its JSON"
