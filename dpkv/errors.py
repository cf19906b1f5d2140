"""Every error dpkv raises on purpose, in one tree.

    DpkvError                  exit code 1
    ├── UserInterruptError     exit code 130: Ctrl-C
    └── UsageError             exit code 2: the caller can mend it
        ├── ParameterError     a parameter is outside its allowed values
        ├── DomainError        bounds that do not describe a domain
        └── TableError         a table that cannot be read as numbers

A message is one sentence: which parameter, what it must be, what was received, what to do.
It never shows the value of a record.
"""

from __future__ import annotations


class DpkvError(Exception):
    """Base class of every error raised on purpose."""

    exit_code = 1


class UserInterruptError(DpkvError):
    """The person at the terminal pressed Ctrl-C."""

    exit_code = 130


class UsageError(DpkvError, ValueError):
    """Something the caller passed cannot be used; the message says what to do."""

    exit_code = 2


class ParameterError(UsageError):
    """A parameter is outside its allowed values."""

    def __init__(self, parameter: str, must: str, got: object, advice: str = "") -> None:
        self.parameter = parameter
        self.got = got.item() if hasattr(got, "item") and not hasattr(got, "__len__") else got
        sentence = f"{parameter} must be {must}. Got {self.got!r} instead."
        super().__init__(f"{sentence} {advice}".rstrip())


class DomainError(UsageError):
    """Bounds that do not describe a domain."""


class TableError(UsageError):
    """A table that cannot be read as numeric records."""
