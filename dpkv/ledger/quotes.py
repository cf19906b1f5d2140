"""The entries that kept releases quote: what a ledger beside them must have.

Every kept release was charged first, and its record quotes the entry. A quote that the chain does
not bear out shows a ledger that was rolled back, replaced or begun anew. List the quotes *before*
the chain is read: whatever another process keeps in between is then no fault.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

from dpkv.workspace import RELEASES

_TAIL_BYTES = 4096
_SYNOPSIS = re.compile(r"\.synopsis-[0-9a-f]{16}\.json$")
_REFERENCE = re.compile(rb'"ledger":\s*(\{[^{}]*\}|null)')


@dataclass(frozen=True)
class Quote:
    """What a kept release says of the entry that paid for it."""

    path: str
    number: int
    digest: str


def find_quotes(workspace: Path) -> tuple[Quote, ...]:
    """Return what the kept releases quote; files that are no records quote nothing."""
    folder = workspace / RELEASES
    try:
        with os.scandir(folder) as files:
            plain = [file for file in files if file.is_file(follow_symlinks=False)]
    except FileNotFoundError:
        return ()
    kept = sorted((file.name, file.path) for file in plain if _may_be_record(file.name))
    return tuple(quote for _, path in kept if (quote := _quote(path)) is not None)


def _may_be_record(name: str) -> bool:
    """Tell records from synopses, and from files that are not finished."""
    return name.endswith(".json") and not name.startswith(".") and not _SYNOPSIS.search(name)


def _quote(path: str) -> Quote | None:
    reference = _reference(path)
    with contextlib.suppress(ValueError, TypeError, KeyError):
        fields = json.loads(reference)
        number, digest = fields["number"], fields["digest"]
        if isinstance(number, int) and isinstance(digest, str):
            return Quote(path, number, digest)
    return None


def _reference(path: str) -> bytes:
    """Return the JSON of a record's reference to the ledger, nothing where there is none.

    It stands near the end, so that of a record with many centers only the tail is read: there may
    be thousands of releases, and every charge looks at all of them. The last one counts: private
    bounds have a reference of their own before it.
    """
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:  # removed meanwhile
        return b""
    with os.fdopen(handle, "rb", buffering=0) as file:
        size = os.fstat(handle).st_size
        for start in dict.fromkeys((max(0, size - _TAIL_BYTES), 0)):
            file.seek(start)
            text = file.read()
            # Inside a JSON string a quotation mark has a backslash before it.
            outside = [
                found[1]
                for found in _REFERENCE.finditer(text)
                if text[found.start() - 1 : found.start()] != b"\\"
            ]
            if outside:
                return outside[-1]
    return b""
