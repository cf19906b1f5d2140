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
_REFERENCE = re.compile(rb'"ledger":\s*(\{[^{}]*\})')


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
    return tuple(quote for _, path in kept for quote in _quotes(path))


def _may_be_record(name: str) -> bool:
    """Tell records from synopses, and from files that are not finished."""
    return name.endswith(".json") and not name.startswith(".") and not _SYNOPSIS.search(name)


def _quotes(path: str) -> list[Quote]:
    """Return what a record quotes: the entry that paid for it, and the one for its bounds."""
    found = []
    for reference in _references(path):
        with contextlib.suppress(ValueError, TypeError, KeyError):
            fields = json.loads(reference)
            number, digest = fields["number"], fields["digest"]
            if isinstance(number, int) and isinstance(digest, str):
                found.append(Quote(path, number, digest))
    return found


def _references(path: str) -> list[bytes]:
    """Return the JSON of a record's references to the ledger.

    They stand near the end, so that of a record with many centers only the tail is read: there may
    be thousands of releases.
    """
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:  # removed meanwhile
        return []
    with os.fdopen(handle, "rb", buffering=0) as file:
        size = os.fstat(handle).st_size
        for start in dict.fromkeys((max(0, size - _TAIL_BYTES), 0)):
            file.seek(start)
            text = file.read()
            # Inside a JSON string a quotation mark has a backslash before it.
            found = [
                match[1]
                for match in _REFERENCE.finditer(text)
                if text[match.start() - 1 : match.start()] != b"\\"
            ]
            if found:
                return found
    return []
