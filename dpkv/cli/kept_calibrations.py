"""What the workspace keeps of earlier commands: calibrations, in the order they were made."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dpkv import foreign
from dpkv.errors import UsageError
from dpkv.workspace import private_folder, write_once

if TYPE_CHECKING:
    from dpkv.calibration import Calibration

_FOLDER = "calibrations"


@dataclass(frozen=True)
class KeptCalibration:
    """A calibration and its file in the workspace."""

    path: Path
    record: Calibration


def keep_calibration(workspace: Path, record: Calibration) -> Path:
    """Write a calibration under the next number: a clock that is set back changes no order."""
    try:
        home = private_folder(workspace, _FOLDER)
        while True:
            number = 1 + max(map(_number, home.glob("*.json")), default=0)
            path = home / f"{number:06d}.json"
            if write_once(path, record.to_json()):  # or another process took the number
                return path
    except OSError as error:
        raise UsageError(
            f"the workspace {workspace} cannot be written: {error.strerror}."
        ) from None


def _number(path: Path) -> int:
    """Return the number of a calibration; those that were named by the time come before all."""
    return int(path.stem) if re.fullmatch("[0-9]{1,18}", path.stem) else 0


def newest_calibration(workspace: Path) -> KeptCalibration | None:
    """Return the newest calibration of the workspace, if there is one."""
    from pydantic import ValidationError

    from dpkv.calibration import Calibration

    files = (workspace / _FOLDER).glob("*.json")
    path = max(files, key=lambda path: (_number(path), path.name), default=None)
    if path is None:
        return None
    try:
        record = Calibration.model_validate_json(foreign.read_text(path))
    except (OSError, UnicodeDecodeError, ValidationError):
        raise UsageError(
            f"the newest calibration, {path}, cannot be read: remove it, and calibrate again."
        ) from None
    return KeptCalibration(path, record)
