"""Fetching a table over HTTP: resumed where it stopped, checked before it gets its name.

What has arrived is kept beside the target in a ``.part`` file together with what the server said of
its version, so that only the same file is continued. A table has its name only when it is whole
and its checksum is right.

The server is believed in nothing: it can send at most what the recipe's table can hold, in at most
``_MOST_SECONDS``; it cannot lead to another scheme; and what is compressed is unpacked only if the
file's checksum is the recipe's.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dpkv.errors import DatasetError
from dpkv.paper.datasets.recipes import Recipe, is_packed, parse_values, table_bytes, values_digest
from dpkv.types import Progress
from dpkv.workspace import write_atomically

_BLOCK = 1 << 16
_TIMEOUT = 30.0  # seconds without a byte
_MOST_SECONDS = 1800.0  # for all of it
_LENGTH_DIGITS = 18

"""Called with the share that has arrived."""


@dataclass(frozen=True)
class _Part:
    """What has arrived of a file."""

    path: Path
    url: str
    most_bytes: int
    stopped: threading.Event
    """Set when nobody waits for the transfer any more: nothing is written from then on."""

    @property
    def _version_path(self) -> Path:
        return self.path.with_suffix(".part.json")

    def read_begun(self) -> tuple[int, str | None]:
        """Return how many bytes are here and which version they are of; 0 where unknown."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            known = json.loads(self._version_path.read_text(encoding="utf-8"))
            if known["url"] == self.url and known["version"]:
                return self.path.stat().st_size, str(known["version"])
        return 0, None

    def begin(self, version: str | None) -> None:
        """Forget what is here, and note the version that comes."""
        self.path.write_bytes(b"")
        text = json.dumps({"url": self.url, "version": version})
        self._version_path.write_text(text, encoding="utf-8")

    def remove(self) -> None:
        """Leave nothing behind."""
        for path in (self.path, self._version_path):
            path.unlink(missing_ok=True)


def fetch(
    recipe: Recipe, folder: Path, *, url: str | None = None, progress: Progress | None = None
) -> Path:
    """Download a table into ``folder`` and return where it is."""
    address = url or recipe.url
    if not address:
        raise DatasetError(
            f"no address of the {recipe.title} file is known. Get it from {recipe.page}, and put "
            f"it into the folder that DPKV_DATA names as {recipe.file}, or give --url."
        )
    if _scheme(address) not in ("http", "https"):
        raise DatasetError(f"--url must begin with http:// or https://. Got {address!r} instead.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        part = _Part(folder / f".{recipe.file}.part", address, recipe.most_bytes, threading.Event())
        _call_in_time(part, lambda: _download(part, progress or (lambda _share: None)))
        return _settle(recipe, part, folder / recipe.file)
    except OSError as error:
        raise DatasetError(f"{folder} cannot be written: {error.strerror}.") from None


def _scheme(address: str) -> str:
    try:
        return urlsplit(address).scheme
    except ValueError:  # such as an unfinished [
        return ""


def _call_in_time(part: _Part, work: Callable[[], None]) -> None:
    """Do the work, and stop waiting for it when its time is over.

    A server can hold a transfer up at every step, down to the letters of a header; only a thread
    of its own can be left behind at any of them.
    """
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        thread.join(_MOST_SECONDS)
    finally:
        part.stopped.set()
    if thread.is_alive():
        raise DatasetError(
            f"the transfer from {urlsplit(part.url).netloc} took more than "
            f"{_MOST_SECONDS / 60:.3g} minutes: run the command again to go on, or try another "
            "--url."
        )
    if failures:
        raise failures[0]


class _SameScheme(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but not to another scheme: not from https to http, nor to ftp."""

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        """Return the request that follows."""
        if _scheme(newurl) != _scheme(req.full_url):
            fp.close()
            raise DatasetError(
                f"{req.full_url} redirects to another scheme: give the address that you trust as "
                "--url."
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _download(part: _Part, progress: Progress) -> None:
    """Get what is missing of the file."""
    have, version = part.read_begun()
    headers = {"User-Agent": "dpkv", "Accept-Encoding": "identity"}
    if have and version:
        headers |= {"Range": f"bytes={have}-", "If-Range": version}
    with _open(part, headers) as response:
        if response is None:  # nothing is missing, or it cannot be continued: begin anew
            part.remove()
            _download(part, progress)
            return
        if response.status == HTTPStatus.PARTIAL_CONTENT:
            _check_start(part, response, have)
        else:
            have = 0
            part.begin(response.headers.get("ETag") or response.headers.get("Last-Modified"))
        _copy(part, response, have, progress)


@contextlib.contextmanager
def _open(part: _Part, headers: dict[str, str]) -> Iterator[Any]:
    """Yield the answer, or None where the range cannot be had."""
    request = urllib.request.Request(part.url, headers=headers)
    try:
        opener = urllib.request.build_opener(_SameScheme)
        with opener.open(request, timeout=_TIMEOUT) as response:
            yield response
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and "Range" in headers:
            yield None
            return
        raise DatasetError(f"{part.url} answers {error.code}: try another --url.") from None
    except urllib.error.URLError as error:
        raise DatasetError(
            f"{urlsplit(part.url).netloc} cannot be reached ({_reason(error)}). Are you offline? A "
            "table that you have can be put into the folder that DPKV_DATA names."
        ) from None
    except (http.client.HTTPException, TimeoutError, ConnectionError) as error:
        raise _interruption(part, type(error).__name__) from None
    except UnicodeError:  # a host's name that is none
        raise DatasetError(f"--url must name a host. Got {part.url!r} instead.") from None


def _reason(error: urllib.error.URLError) -> str:
    return str(getattr(error.reason, "strerror", None) or error.reason)


def _check_start(part: _Part, response: Any, have: int) -> None:
    said = response.headers.get("Content-Range", "")
    if not said.startswith(f"bytes {have}-"):
        part.remove()
        raise DatasetError(f"{part.url} continues at a wrong place: run the command again.")


def _copy(part: _Part, response: Any, have: int, progress: Progress) -> None:
    total = _expected_bytes(part, response, have)
    with part.path.open("ab") as file:
        while have <= part.most_bytes and (block := _next_block(part, response)):
            if part.stopped.is_set():
                return
            file.write(block)
            have += len(block)
            if total:
                progress(min(1.0, have / total))
    if have > part.most_bytes:
        raise _too_much(part)
    if total is not None and have < total:
        raise _interruption(part, f"{have} of {total} bytes have arrived")


def _expected_bytes(part: _Part, response: Any, have: int) -> int | None:
    """Return how long the file will be, where the server says so."""
    length = response.headers.get("Content-Length")
    if length is None:
        return None
    length = length.strip()
    if not (length.isascii() and length.isdigit() and len(length) <= _LENGTH_DIGITS):
        part.remove()
        raise DatasetError(
            f"{urlsplit(part.url).netloc} answers with a Content-Length that is no number: try "
            "another --url."
        )
    if have + int(length) > part.most_bytes:
        raise _too_much(part)
    return have + int(length)


def _next_block(part: _Part, response: Any) -> bytes:
    """Return what has arrived, as soon as something has."""
    try:
        block: bytes = response.read1(_BLOCK)
    except OSError as error:
        raise _interruption(part, type(error).__name__) from None
    return block


def _too_much(part: _Part) -> DatasetError:
    part.remove()
    return DatasetError(
        f"{part.url} sends more than {part.most_bytes} bytes, which this table cannot have: try "
        "another --url."
    )


def _interruption(part: _Part, why: str) -> DatasetError:
    return DatasetError(
        f"the transfer from {urlsplit(part.url).netloc} was cut short ({why}): run the command "
        "again to go on."
    )


def _settle(recipe: Recipe, part: _Part, target: Path) -> Path:
    """Give the table its name if it is the recipe's; forget it otherwise."""
    contents = part.path.read_bytes()
    try:
        if hashlib.sha256(contents).hexdigest() != recipe.sha256:
            if is_packed(contents):
                raise DatasetError(
                    f"{part.url} is compressed and its checksum is not that of the {recipe.title} "
                    "file that dpkv knows: it was not unpacked, and nothing was kept."
                )
            values = parse_values(recipe, contents)
            if values_digest(values) != recipe.values_sha256:
                raise DatasetError(
                    f"{part.url} does not hold the {recipe.title} table that dpkv knows: the "
                    "checksum differs, and nothing was kept."
                )
            contents = table_bytes(values)
        write_atomically(target, contents)
    finally:
        part.remove()
    target.chmod(0o644)
    return target
