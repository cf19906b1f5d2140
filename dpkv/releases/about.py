"""What a publisher says of a release in words of their own: who, what data, what for.

Nothing is calculated from it. It is part of the plan, so that the ledger's entry covers it.
"""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from dpkv.errors import ParameterError
from dpkv.releases.frozen import Frozen

LONGEST = 300
"""Characters of each."""
_Words = Annotated[str, Field(min_length=1, max_length=LONGEST)]


class About(Frozen):
    """Who releases, from what kind of data, and for which purpose; None where nobody said."""

    publisher: _Words | None = None
    data: _Words | None = None
    purpose: _Words | None = None

    @classmethod
    def of(cls, publisher: str | None, data: str | None, purpose: str | None) -> About | None:
        """Write down what was said; None where nothing was."""
        said = {"publisher": publisher, "data_about": data, "purpose": purpose}
        for name, words in said.items():
            if words is not None:
                _check(name, words)
        if all(words is None for words in said.values()):
            return None
        return cls(publisher=publisher, data=data, purpose=purpose)

    @model_validator(mode="after")
    def _check(self) -> Self:
        said = [words for words in (self.publisher, self.data, self.purpose) if words is not None]
        if not said or not all(words.isprintable() and words.strip() for words in said):
            raise ValueError("what is said about a release must be printable, on one line")
        return self

    @model_serializer(mode="wrap")
    def _leave_out(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: words for name, words in write(self).items() if words is not None}


def _check(name: str, words: object) -> None:
    fits = isinstance(words, str) and words.isprintable() and words.strip()
    if not fits or len(str(words)) > LONGEST:
        raise ParameterError(name, f"at most {LONGEST} printable characters on one line", words)
