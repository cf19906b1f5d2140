"""A web server on this machine, with faults on demand."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer


@dataclass
class Site:
    """One file, and how it is served."""

    contents: bytes
    ranges: bool = True
    etag: str | None = '"1"'
    cut_after: int | None = None
    """Close the connection after so many bytes of an answer, once."""
    wrong_start: bool = False
    status: int = 200
    tell_length: bool = True
    length: str | None = None
    """A Content-Length to tell instead of the true one."""
    redirect: str | None = None
    """Where every request is sent on to."""
    stall: bool = False
    """Send the headers and a byte, and then nothing until the block ends."""
    asked: list[str | None] = field(default_factory=list)
    """The Range header of every request."""


@contextmanager
def serving(site: Site) -> Iterator[str]:
    """Serve the site on the loopback interface and yield its address."""

    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.asked.append(self.headers.get("Range"))
            start = self._start()
            if site.redirect is not None:
                self.send_response(302)
                self.send_header("Location", site.redirect)
                self.send_header("Content-Length", "0")
                self.end_headers()
            elif site.status != 200:
                self._head(site.status, 0)
            elif start > len(site.contents) - 1 and start > 0:
                self._head(416, 0)
            else:
                self._answer(start)

        def _start(self) -> int:
            asked = self.headers.get("Range")
            same = self.headers.get("If-Range") in (None, site.etag)
            if not site.ranges or asked is None or not same:
                return 0
            return int(asked.removeprefix("bytes=").removesuffix("-"))

        def _head(self, status: int, length: int, start: int = 0) -> None:
            self.send_response(status)
            if site.tell_length:
                self.send_header("Content-Length", site.length or str(length))
            if site.etag is not None:
                self.send_header("ETag", site.etag)
            if status == 206:
                said = 0 if site.wrong_start else start
                end = len(site.contents) - 1
                self.send_header("Content-Range", f"bytes {said}-{end}/{end + 1}")
            self.end_headers()

        def _answer(self, start: int) -> None:
            body = site.contents[start:]
            self._head(206 if start else 200, len(body), start)
            if site.stall:
                self.wfile.write(body[:1])
                over.wait()
                return
            if site.cut_after is not None:
                body, site.cut_after = body[: site.cut_after], None
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/table.txt"
    finally:
        over.set()
        server.shutdown()
        thread.join()
        server.server_close()
