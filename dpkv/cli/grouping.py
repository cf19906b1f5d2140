"""Options that several commands share, declared once as a dataclass."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any, get_type_hints


def takes(kind: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the fields of a dataclass as options; it gets them as one object, first."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        _, *own = inspect.signature(command).parameters.values()
        hints = get_type_hints(command, include_extras=True)
        shared = get_type_hints(kind, include_extras=True)

        @functools.wraps(command)
        def run(**given: Any) -> None:
            options = kind(**{one.name: given.pop(one.name) for one in fields(kind)})
            command(options, **given)

        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters = [
            inspect.Parameter(
                one.name,
                keyword,
                default=inspect.Parameter.empty if one.default is MISSING else one.default,
                annotation=shared[one.name],
            )
            for one in fields(kind)
        ]
        parameters += [one.replace(kind=keyword, annotation=hints[one.name]) for one in own]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        return run

    return decorate
