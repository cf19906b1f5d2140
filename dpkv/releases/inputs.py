"""What a release is made from besides its plan: a table that was read."""

from __future__ import annotations

from dataclasses import dataclass

from dpkv.types import Floats


@dataclass(frozen=True, eq=False)
class InputTable:
    """Records in the user's coordinates, in memory or mapped, and what to call them."""

    values: Floats
    columns: tuple[str, ...]
    label: str
    mapped: bool = False
