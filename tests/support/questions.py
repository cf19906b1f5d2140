"""Faulty questions in place of sound ones: how a fault is planted behind a mechanism's door."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from dpkv.records import Ask, Question


class Instead:
    """Asks some kinds of questions as another kind, with the same fields and so at their price."""

    def __init__(self, ask: Ask, kinds: Mapping[type[Question], type[Any]]) -> None:
        self._ask = ask
        self._kinds = kinds

    def __call__(self, question: Question) -> Any:
        kind = self._kinds.get(type(question))
        if kind is not None:
            question = kind(**{field.name: getattr(question, field.name) for field in fields(kind)})
        return self._ask(question)

    @property
    def coins(self) -> np.random.Generator:
        return self._ask.coins

    @property
    def public_size(self) -> int | None:
        return self._ask.public_size
