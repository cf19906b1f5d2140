"""Bytes that come only once: standard input, a named pipe, a process substitution."""

from __future__ import annotations

import io
import sys
import weakref
from typing import Any, BinaryIO

from dpkv.errors import TableError


class Pipe:
    """A pipe that is opened twice: to look at its beginning, and to read it all.

    What the look has read is kept and comes again in the reading, which keeps nothing itself. So
    nothing is copied to a file, and no more is held than the first rows.
    """

    def __init__(self, stream: BinaryIO, name: str, *, owned: bool) -> None:
        self._stream: Any = stream
        if stream is not getattr(sys.stdin, "buffer", None):
            weakref.finalize(self, stream.close)
        self._name = name
        self._owned = owned  # standard input is left open for whoever comes next
        self._seen = bytearray()
        self._openings = 0

    def open(self) -> io.BufferedReader:
        """Return the bytes from the first one on."""
        self._openings += 1
        if self._openings > 2:  # noqa: PLR2004
            raise read_once(self._name)
        return io.BufferedReader(_Opening(self))

    def read_into(self, room: memoryview) -> int:
        """Put the next bytes into ``room``, as many as there are; none at the end."""
        looking = self._openings == 1
        if self._seen and not looking:
            piece = bytes(self._seen[: len(room)])
            del self._seen[: len(piece)]
        else:
            piece = self._stream.read1(len(room))
            if looking and not self._seen and len(piece) == 1:
                piece += self._stream.read(1)  # two bytes tell gzip from text
            if looking:
                self._seen += piece
        room[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        """Close the pipe itself, if it is ours."""
        if self._owned:
            self._stream.close()

    def end(self) -> None:
        """Close the pipe after its reading, not after the look at its beginning."""
        if self._openings > 1:
            self.close()

    def __del__(self) -> None:
        self.close()  # one that was never read


class _Opening(io.RawIOBase):
    """What io's buffered reader asks of a file."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        return self._pipe.read_into(memoryview(room))

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._pipe.end()


def read_once(name: str) -> TableError:
    """Return the error of a stream that would have to be read again."""
    return TableError(f"{name} can be read only once: save it to a file to read it again.")
