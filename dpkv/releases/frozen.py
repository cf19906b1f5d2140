"""Frozen data in JSON: what plans and records are made of."""

from __future__ import annotations

import json

from pydantic import BaseModel, ConfigDict

from dpkv.releases.canonical import canonical


class Frozen(BaseModel):
    """Frozen data with every field checked; infinities are written as text."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    def canonical(self, *, exclude: set[str] | None = None) -> bytes:
        """Return the one JSON text of these data that digests and signatures are of."""
        return canonical(json.loads(self.model_dump_json(exclude=exclude)))
