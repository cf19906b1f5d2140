"""Every error dpkv raises on purpose, in one tree.

    DpkvError                  exit code 1
    ├── UserInterruptError     exit code 130: Ctrl-C
    ├── EngineError            exit code 1: a node or a cluster that does not answer, or cannot
    ├── PlanError              exit code 1: a mechanism that asks what it did not plan and price
    ├── VerificationError      exit code 3: a record, or a ledger, that does not check out
    ├── BudgetError            exit code 4: the privacy budget has not enough left
    └── UsageError             exit code 2: the caller can mend it
        ├── ParameterError     a parameter is outside its allowed values
        ├── DomainError        bounds that do not describe a domain
        ├── BoundsNotFoundError  private bounds that the noise hides; their share is spent
        ├── SchemaError        a schema that does not say what a table is, or not all of it
        ├── TableError         a table that cannot be read as numbers
        ├── DatasetError       a data set of the paper that is not here, or not what it should be
        └── LedgerError        the ledger is foreign, read-only, full, locked, or
            └── BrokenLedgerError  damaged: an entry was altered, moved or removed

A message is one sentence: which parameter, what it must be, what was received, what to do.
It never shows the value of a record.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import PurePath

_MOST_SHOWN = 200

_SHOWN_COLUMNS = 8


class DpkvError(Exception):
    """Base class of every error raised on purpose."""

    exit_code = 1


class UserInterruptError(DpkvError):
    """The person at the terminal pressed Ctrl-C."""

    exit_code = 130


class EngineError(DpkvError):
    """A node, or the cluster that nodes run on, does not answer or cannot do its part."""


class PlanError(DpkvError):
    """A mechanism asked the records something that its plan has not, or has at another price."""


class VerificationError(DpkvError):
    """A record, or a ledger, that does not check out."""

    exit_code = 3


class BudgetError(DpkvError):
    """The privacy budget has not enough left; the figures are for replace-one neighbours."""

    exit_code = 4

    def __init__(
        self,
        *,
        requested: Decimal,
        remaining: Decimal,
        difference: Decimal,
        what: str = "eps",
        protects: str = "replace-one",
    ) -> None:
        self.requested = requested
        self.remaining = remaining
        self.difference = difference
        super().__init__(
            f"budget refused: requested {what} {requested:f}, remaining {remaining:f}, short by "
            f"{difference:f} ({protects}); nothing was charged or written. Ask for a smaller "
            f"{what}, or have whoever answers for the data raise the budget."
        )


class UsageError(DpkvError, ValueError):
    """Something the caller passed cannot be used; the message says what to do."""

    exit_code = 2


class ParameterError(UsageError):
    """A parameter is outside its allowed values."""

    def __init__(self, parameter: str, must: str, got: object, advice: str = "") -> None:
        self.parameter = parameter
        self.got = got.item() if hasattr(got, "item") and not hasattr(got, "__len__") else got
        sentence = f"{parameter} must be {must}. Got {shown(self.got)} instead."
        super().__init__(f"{sentence} {advice}".rstrip())


def shown(got: object) -> str:
    """Return what was received, if it is one short value; anything larger may hold records."""
    if got is None or isinstance(got, (str, bool, int, float, Decimal, PurePath)):
        try:
            text = repr(got)
        except ValueError:  # Python does not spell out a whole number of thousands of digits
            return "a number of very many digits"
        if len(text) <= _MOST_SHOWN:
            return text
        return f"a {type(got).__name__} of {len(text)} characters"
    return f"something of type {type(got).__name__}"


class DomainError(UsageError):
    """Bounds that do not describe a domain."""


class BoundsNotFoundError(UsageError):
    """No bin of some column stood out of the noise: there are no private bounds to release in."""

    def __init__(self, columns: tuple[str, ...], share: Decimal, fate: str) -> None:
        self.columns = columns
        shown = ", ".join(columns[:_SHOWN_COLUMNS])
        if len(columns) > _SHOWN_COLUMNS:
            shown += f" and {len(columns) - _SHOWN_COLUMNS} more"
        super().__init__(
            f"no private bounds were found in {shown}, where no bin stands out of the noise. Their "
            f"share of eps, {share:f}, {fate}, and nothing more: give public bounds, or try a "
            "larger eps, a larger share for bounds or fewer columns, under a new id."
        )


class SchemaError(UsageError):
    """A schema that cannot be read, contradicts itself, or leaves something open."""


class TableError(UsageError):
    """A table that cannot be read as numeric records."""


class DatasetError(UsageError):
    """A data set of the paper that is not here, cannot be had, or is not what it should be."""


class LedgerError(UsageError):
    """The budget ledger is damaged, foreign, read-only, full or locked."""


class BrokenLedgerError(LedgerError):
    """The ledger's chain of entries, or its file, is damaged."""
