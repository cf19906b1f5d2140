"""What the workspace keeps of earlier commands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dpkv.errors import UsageError

if TYPE_CHECKING:
    from dpkv.calibration import Calibration


def newest_calibration(workspace: Path) -> Calibration | None:
    """Return the newest calibration of the workspace, if there is one."""
    from pydantic import ValidationError

    from dpkv.calibration import Calibration

    kept = sorted((workspace / "calibrations").glob("*.json"))
    if not kept:
        return None
    try:
        return Calibration.model_validate_json(kept[-1].read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ValidationError):
        raise UsageError(
            f"the newest calibration, {kept[-1]}, cannot be read: remove it, and calibrate again."
        ) from None
