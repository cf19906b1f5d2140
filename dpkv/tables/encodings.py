"""Text in other encodings than UTF-8, turned into UTF-8 on the way in.

UTF-16 is known by the mark at its beginning; Latin-1 and its kin must be named, because nothing
tells them apart.
"""

from __future__ import annotations

import codecs
from typing import Any, BinaryIO, cast

from dpkv.errors import ParameterError

ENCODINGS = ("utf-8", "utf-16", "latin-1", "cp1252")
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def check_encoding(name: str | None) -> str | None:
    """Return the name of an encoding as it is known here."""
    if name is None:
        return None
    try:
        found = codecs.lookup(name).name
    except (LookupError, TypeError, ValueError):
        found = ""
    known = {codecs.lookup(one).name: one for one in ENCODINGS}
    if found == "utf-8-sig":
        return "utf-8"
    if found not in known:
        raise ParameterError("encoding", "one of " + ", ".join(ENCODINGS), name)
    return known[found]


def in_utf8(stream: Any, encoding: str | None, *, guess: bool = True) -> BinaryIO:
    """Return a stream of bytes as UTF-8; its ``peek`` shows the beginning, where marks may be."""
    if encoding is None and guess and stream.peek(2)[:2] in _UTF16_MARKS:
        encoding = "utf-16"
    if encoding in (None, "utf-8"):
        return cast(BinaryIO, stream)
    return cast(BinaryIO, _Recoded(stream, str(encoding)))


class _Recoded:
    """A stream in UTF-8 of one in another encoding; what cannot be decoded becomes U+FFFD."""

    def __init__(self, stream: BinaryIO, encoding: str) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")

    def read(self, size: int) -> bytes:
        """Return some bytes, none only at the end."""
        while True:
            piece = self._stream.read(size)
            text = self._decoder.decode(piece, final=not piece)
            if text or not piece:
                return text.encode("utf-8", "replace")
