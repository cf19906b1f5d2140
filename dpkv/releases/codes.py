"""The codes that records, synopses and kept bounds hold, each defined here and only here.

Codes are short words in kebab case, and stable: a published record is compared by them. What they
say to people is in ``wording.py``, and may be said better at any time. Codes of steps, of noise and
of proofs are a mechanism's own, and anybody may bring a mechanism: those are restricted by pattern.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

Code = Annotated[str, Field(pattern=r"^[a-z0-9-]{1,64}$")]
"""A code that a mechanism brings."""

Status = Literal["proved", "conditional-published-noise", "conditional-data-bounds", "simulated"]
"""What a guarantee is worth; all but the first are none from end to end."""

Unit = Literal["row", "person"]
"""Whose presence is hidden: one row, or one person with all rows."""

Randomness = Literal["operating-system", "seeded"]

Assumption = Literal[
    "person-is-one-row",
    "person-is-all-rows-of-an-id",
    "bounds-chosen-without-data",
    "bounds-found-with-part-of-eps",
    "bounds-read-from-data",
    "settings-chosen-without-data",
    "earlier-steps-not-fitted",
    "unusable-tables-refused",
    "unusable-cells-filled",
    "unusable-rows-count-nothing",
    "unusable-cells-are-a-category",
    "sound-machine-and-randomness",
    "only-centers-and-record-published",
    "only-centers-synopsis-and-record-published",
    "releases-add-up",
    "one-relation-per-account",
    "fingerprint-key-secret",
]
"""What a guarantee takes for granted."""

Unprotected = Literal[
    "record-count",
    "person-count",
    "at-least-one-record",
    "at-least-one-person",
    "center-count",
    "bounds",
    "bounds-paid-for",
    "bounds-of-data",
    "column-names",
    "all-rows-usable",
    "time-and-memory",
    "noise-from-records",
]
"""What a release tells everyone."""

Note = Literal["simulated", "published-noise", "bounds-of-data"]
"""What must be said wherever a release is mentioned."""
