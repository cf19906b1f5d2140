"""Tables in object stores: ``s3://bucket/part.parquet``, ``gs://``, and whatever fsspec opens.

An object is read as it is, over the network, by whoever needs it: nothing is copied to disk, and
Dask workers read their own. ``file://`` is a file. Who may read is settled outside dpkv, by what
the store's own library looks for: environment variables, profiles, roles. No credential is taken
from an address, which messages and ledgers show.

Extra ``objects``; fsspec is imported only where an address is given.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit

from dpkv.errors import TableError

if TYPE_CHECKING:
    _LocalPath = Path
else:
    _LocalPath = type(Path())

T = TypeVar("T")

_ADDRESS = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):/+(?=[^/])")
_BUFFER, _BLOCK = 1 << 16, 1 << 22  # bytes read from an open object, and asked of a store, at once
_VERSION_BYTES = 7  # of a hash, so that it is an integer that JSON readers hold


def as_path(named: str | Path) -> Path:
    """Return the path of a file, or of an object where that is an address and no file is there.

    A ``Path`` made of an address has one slash after the colon; that is understood, too.
    """
    if isinstance(named, ObjectPath):
        return named
    text, local = str(named), Path(named)
    address = _ADDRESS.match(text)
    if address is None or local.exists():
        return local
    scheme, rest = address[1].lower(), text[address.end() :]
    if scheme == "file":
        return Path(unquote(urlsplit(f"file:///{rest}").path))
    if "@" in rest.partition("/")[0]:
        raise TableError(
            f"an address {scheme}://...@... has credentials in it, which messages would show: "
            "leave them to the environment or to a profile."
        )
    return ObjectPath(f"{scheme}:/{rest}")


class ObjectPath(_LocalPath):
    """An object, or a folder of objects, that reads like a path: ``str`` of it is its address."""

    def __str__(self) -> str:
        return f"{self.scheme}://{'/'.join(self.parts[1:])}"

    @property
    def scheme(self) -> str:
        """What kind of store it is in."""
        return self.parts[0].removesuffix(":")

    def __fspath__(self) -> str:
        return str(self)

    def __reduce__(self) -> Any:
        return as_path, (str(self),)

    def resolve(self, strict: bool = False) -> ObjectPath:  # noqa: ARG002
        """Return itself: there are no links."""
        return self

    def exists(self, **_: Any) -> bool:
        """Tell whether there is such an object or folder."""
        return bool(self._asked(lambda files, place: files.exists(place)))

    def is_dir(self, **_: Any) -> bool:
        """Tell whether there are objects below it, and none of this very name."""
        return not self.is_file() and bool(self._asked(lambda files, place: files.isdir(place)))

    def is_file(self, **_: Any) -> bool:
        """Tell whether it is an object."""
        return bool(self._asked(lambda files, place: files.isfile(place)))

    def iterdir(self) -> Generator[ObjectPath, None, None]:
        """Yield what lies directly below."""
        yield from self._addresses(lambda files, place: files.ls(place, detail=False))

    def fitting(self) -> list[ObjectPath]:
        """Return what fits this as a pattern."""
        return self._addresses(lambda files, place: files.glob(place))

    def _addresses(self, list_names: Callable[[Any, str], Any]) -> list[ObjectPath]:
        def listed(files: Any, place: str) -> list[str]:
            return [str(files.unstrip_protocol(name)) for name in list_names(files, place)]

        found = (name.partition("://")[2] for name in self._asked(listed))
        return sorted(ObjectPath(f"{self.scheme}:/{name.strip('/')}") for name in found)

    def stat(self, **_: Any) -> os.stat_result:
        """Return its size, and its version in the place of the time of its last change."""

        def looked_up(files: Any, place: str) -> tuple[int, str]:
            size = files.info(place)["size"]
            return (0 if size is None else int(size)), str(files.ukey(place))

        size, version = self._asked(looked_up)
        digest = hashlib.blake2b(version.encode(), digest_size=_VERSION_BYTES).digest()
        return _Status(size, int.from_bytes(digest))  # type: ignore[return-value]

    def open(self, *_: Any, **__: Any) -> Any:
        """Open the object for reading bytes."""
        raw = self._asked(lambda files, place: files.open(place, "rb", block_size=_BLOCK))
        return io.BufferedReader(_Reading(raw), _BUFFER)

    def _asked(self, work: Callable[[Any, str], T]) -> T:
        """Return what a store says; whatever goes wrong there is trouble with a file."""
        files = _file_system(self.scheme)
        return _or_os_error(lambda: work(files, files._strip_protocol(str(self))))


class _Status:
    """What ``state_of`` looks at."""

    st_ctime_ns = st_ino = 0

    def __init__(self, size: int, version: int) -> None:
        self.st_size, self.st_mtime_ns = size, version


class _Reading(io.RawIOBase):
    """An open object, whose store may fail in its own ways."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def readable(self) -> bool:
        """Tell that it is."""
        return True

    def seekable(self) -> bool:
        """Tell that any part of an object can be asked for."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read as much as there is room for."""
        found: bytes = _or_os_error(lambda: self._inner.read(len(buffer)))
        buffer[: len(found)] = found
        return len(found)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place."""
        return int(_or_os_error(lambda: self._inner.seek(offset, whence)))

    def tell(self) -> int:
        """Return the place."""
        return int(self._inner.tell())

    def close(self) -> None:
        """Let go of the object."""
        if not self.closed:
            self._inner.close()
        super().close()


def _or_os_error(work: Callable[[], T]) -> T:
    """Return what work gives. A store's own message may quote what it sent: its kind is told."""
    try:
        return work()
    except (TableError, MemoryError):
        raise
    except FileNotFoundError:
        raise FileNotFoundError(None, "it does not exist") from None
    except Exception as error:
        kind = type(error).__name__
        raise OSError(None, f"the store refuses or does not answer ({kind})") from None


def _file_system(scheme: str) -> Any:
    try:
        import fsspec  # noqa: PLC0415 (an optional extra)

        # What a store says is asked for anew: a listing that was kept would hide a change.
        return fsspec.filesystem(scheme, use_listings_cache=False)
    except ImportError:
        raise TableError(f"{scheme}:// needs pip install 'dpkv[objects]'.") from None
    except ValueError:
        raise TableError(f"{scheme}:// is no kind of address that fsspec knows.") from None
    except Exception as error:
        kind = type(error).__name__
        raise TableError(f"{scheme}:// cannot be reached from here ({kind}).") from None
