"""How the command line is taken apart: every option once, and complaints that are safe to print."""

from __future__ import annotations

from collections import Counter
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from dpkv.cli import output
from dpkv.errors import UsageError

_WrongCommandLine: type[Any] = typer.BadParameter.__mro__[2]
"""ClickException, of click or of the copy that newer typers bring along."""


class Command(TyperCommand):
    """A command that refuses an option given twice: silently, the last one would count."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the options apart, which has no effect yet, and count them first."""
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        for parameter, times in Counter(order).items():
            if times > 1 and not (parameter.multiple or parameter.is_eager):
                name = "/".join([*parameter.opts[:1], *parameter.secondary_opts])
                raise UsageError(
                    f"{name} must be given once. Got it {times} times instead: leave out all but "
                    "one."
                )
        return super().parse_args(ctx, args)


class Group(TyperGroup):
    """All commands; what is wrong with a command line may quote it, and is shown safely."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the group's own options apart."""
        try:
            return super().parse_args(ctx, args)
        except _WrongCommandLine as error:
            raise _shown_safely(error) from None

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except _WrongCommandLine as error:
            raise _shown_safely(error) from None


def _shown_safely(error: Any) -> Any:
    error.message = output.printable(str(error.message))
    return error
