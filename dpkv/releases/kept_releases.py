"""Releases kept in the workspace: the first set of centers of a release id is the only one."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

from dpkv import foreign
from dpkv.errors import UsageError
from dpkv.releases.canonical import digest
from dpkv.releases.parsing import parse
from dpkv.releases.record import RELEASE_ID, ReleaseRecord
from dpkv.releases.synopsis import PrivateSynopsis, parse_synopsis
from dpkv.workspace import RELEASES, private_folder, write_once


def release_path(workspace: Path, release_id: str) -> Path:
    """Return where a release is kept; its id cannot name another place."""
    if not re.fullmatch(RELEASE_ID, release_id):
        raise UsageError(f"{release_id!r} is no id of a release.")
    return workspace / RELEASES / f"{release_id}.json"


def load_record(workspace: Path, release_id: str) -> ReleaseRecord | None:
    """Return the kept release of that id, if there is one."""
    path = release_path(workspace, release_id)
    try:
        text = foreign.read_text(path)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError):
        raise _damaged(path) from None
    return parse_record(text, path)


def parse_record(text: str, path: Path) -> ReleaseRecord:
    """Return the record that a file holds, or refuse with what is wrong."""
    return parse(ReleaseRecord, text, path, "release record")


def keep_first(workspace: Path, release_id: str, record: ReleaseRecord) -> ReleaseRecord:
    """Keep a release, and return the one that is kept: another's, if that came first."""
    try:
        private_folder(workspace, RELEASES)
        write_once(release_path(workspace, release_id), record.to_json())
    except OSError as error:
        raise UsageError(
            f"the workspace {workspace} cannot be written ({error.strerror}): release {release_id} "
            "is charged, and asking again with its id will not charge again."
        ) from None
    kept = load_record(workspace, release_id)
    assert kept is not None
    return kept


def keep_synopsis(workspace: Path, release_id: str, synopsis: PrivateSynopsis) -> None:
    """Keep a synopsis under its digest: only the record that is kept says which one counts."""
    path = _synopsis_path(workspace, release_id, synopsis.digest)
    try:
        private_folder(workspace, RELEASES)
        write_once(path, synopsis.to_json())
    except OSError as error:
        raise UsageError(
            f"the workspace {workspace} cannot be written ({error.strerror}): release {release_id} "
            "is charged, and asking again with its id will not charge again."
        ) from None


def forget_other_synopses(workspace: Path, record: ReleaseRecord) -> None:
    """Remove what unfinished runs of a release left: one charge has one synopsis."""
    if record.release_id is None or record.synopsis_digest is None:
        return
    own = _synopsis_path(workspace, record.release_id, record.synopsis_digest)
    for path in own.parent.glob(f"{record.release_id}.synopsis-*.json"):
        if path != own:
            with contextlib.suppress(OSError):
                path.unlink()


def load_synopsis(workspace: Path, record: ReleaseRecord) -> PrivateSynopsis | None:
    """Return the synopsis of a kept release; None where it has none, or it is gone."""
    if record.synopsis_digest is None or record.release_id is None:
        return None
    path = _synopsis_path(workspace, record.release_id, record.synopsis_digest)
    try:
        text = foreign.read_text(path)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError):
        raise _damaged(path) from None
    if digest(text) != record.synopsis_digest:
        raise _damaged(path)
    return parse_synopsis(text, path)


def _synopsis_path(workspace: Path, release_id: str, sha256: str) -> Path:
    path = release_path(workspace, release_id)
    if not re.fullmatch("[0-9a-f]{64}", sha256):
        raise UsageError(f"{sha256!r} is no digest of a synopsis.")
    return path.with_name(f"{release_id}.synopsis-{sha256[:16]}.json")


def _damaged(path: Path) -> UsageError:
    return UsageError(f"{path} cannot be read: restore it from a backup, or take a new id.")
