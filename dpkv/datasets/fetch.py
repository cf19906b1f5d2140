"""Fetching a table over HTTP: resumed where it stopped, checked before it gets its name.

What has arrived is kept beside the target in a ``.part`` file together with what the server said of
its version, so that only the same file is continued. A table has its name only when it is whole
and its checksum is right.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dpkv.datasets.recipes import Recipe, parse_values, table_bytes, values_digest
from dpkv.errors import DatasetError
from dpkv.workspace import write_atomically

_BLOCK = 1 << 16
_MOST_BYTES = 1 << 30
_TIMEOUT = 30.0  # seconds without a byte

Progress = Callable[[float], None]
"""Called with the share that has arrived."""


@dataclass(frozen=True)
class _Part:
    """What has arrived of a file."""

    path: Path
    url: str

    @property
    def _version_path(self) -> Path:
        return self.path.with_suffix(".part.json")

    def begun(self) -> tuple[int, str | None]:
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
    if urlsplit(address).scheme not in ("http", "https"):
        raise DatasetError(f"--url must begin with http:// or https://. Got {address!r} instead.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        part = _Part(folder / f".{recipe.file}.part", address)
        _download(part, progress or (lambda _share: None))
        return _settle(recipe, part, folder / recipe.file)
    except OSError as error:
        raise DatasetError(f"{folder} cannot be written: {error.strerror}.") from None


def _download(part: _Part, progress: Progress) -> None:
    """Get what is missing of the file."""
    have, version = part.begun()
    headers = {"User-Agent": "dpkv", "Accept-Encoding": "identity"}
    if have and version:
        headers |= {"Range": f"bytes={have}-", "If-Range": version}
    with _opened(part, headers) as response:
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
def _opened(part: _Part, headers: dict[str, str]) -> Iterator[Any]:
    """Yield the answer, or None where the range cannot be had."""
    request = urllib.request.Request(part.url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:
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
        raise _interrupted(part, type(error).__name__) from None


def _reason(error: urllib.error.URLError) -> str:
    return str(getattr(error.reason, "strerror", None) or error.reason)


def _check_start(part: _Part, response: Any, have: int) -> None:
    said = response.headers.get("Content-Range", "")
    if not said.startswith(f"bytes {have}-"):
        part.remove()
        raise DatasetError(f"{part.url} continues at a wrong place: run the command again.")


def _copy(part: _Part, response: Any, have: int, progress: Progress) -> None:
    length = response.headers.get("Content-Length")
    total = None if length is None else have + int(length)
    with part.path.open("ab") as file:
        while block := response.read(_BLOCK):
            file.write(block)
            have += len(block)
            if have > _MOST_BYTES:
                raise DatasetError(f"{part.url} sends more than {_MOST_BYTES >> 20} megabytes.")
            if total:
                progress(min(1.0, have / total))
    if total is not None and have < total:
        raise _interrupted(part, f"{have} of {total} bytes have arrived")


def _interrupted(part: _Part, why: str) -> DatasetError:
    return DatasetError(
        f"the transfer from {urlsplit(part.url).netloc} was cut short ({why}): run the command "
        "again to go on."
    )


def _settle(recipe: Recipe, part: _Part, target: Path) -> Path:
    """Give the table its name if it is the recipe's; forget it otherwise."""
    contents = part.path.read_bytes()
    try:
        if hashlib.sha256(contents).hexdigest() != recipe.sha256:
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
