"""The files of a release, with names that say what they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dpkv.errors import ParameterError, UsageError
from dpkv.releases.record import ReleaseRecord
from dpkv.releases.synopsis import PrivateSynopsis
from dpkv.tables.centers import centers_csv
from dpkv.workspace import write_atomically

SIMULATED, CONDITIONAL = "-not-releasable", "-conditional"
"""What is in the names of files that are no end-to-end private release."""
RECORD_NAMES = ("release.json", f"release{CONDITIONAL}.json", f"simulation{SIMULATED}.json")
"""The names that ``record_name`` gives."""


def release_files(record: ReleaseRecord, synopsis: PrivateSynopsis | None = None) -> dict[str, str]:
    """Return file names and texts: the centers as CSV, the record, and a synopsis if given."""
    files = {centers_name(record): centers_text(record), record_name(record): record.to_json()}
    if synopsis is not None:
        files[synopsis_name(record)] = synopsis.to_json()
    return files


def centers_text(record: ReleaseRecord) -> str:
    """Return the file of centers, with sizes where these are known."""
    return centers_csv(record.columns, np.asarray(record.centers), record.sizes)


def centers_name(record: ReleaseRecord) -> str:
    """Return the name of the file of centers."""
    return f"centers{_suffix(record)}.csv"


def synopsis_name(record: ReleaseRecord) -> str:
    """Return the name of the file of the private synopsis."""
    return f"synopsis{_suffix(record)}.json"


def record_name(record: ReleaseRecord) -> str:
    """Return the name of the record's file."""
    return f"{record.kind}{_suffix(record)}.json"


def _suffix(record: ReleaseRecord) -> str:
    if record.kind == "simulation":
        return SIMULATED
    return "" if record.guarantee.end_to_end else CONDITIONAL


def write_files(
    folder: Path, record: ReleaseRecord, synopsis: PrivateSynopsis | None
) -> tuple[Path, ...]:
    """Write the files of a release to a new folder, readable by all only where it is public."""
    if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        raise ParameterError("folder", "a new or an empty folder", str(folder))
    files = release_files(record, synopsis)
    public = record.visibility == "public"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o755 if public else 0o700)
        for name, text in files.items():
            write_atomically(folder / name, text)
            if public:
                (folder / name).chmod(0o644)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}.") from None
    return tuple(folder / name for name in files)
