"""Calibration: how much noise a release needs, as published, by Theorem A, and by Laplace.

This package knows nothing of files.
"""

from dpkv.accounting.theorem_a import (
    DEFAULT_GAMMA,
    AmplifiedCertificate,
    certify,
    uniform_pick_ceiling,
)
from dpkv.calibration.calibrator import (
    CONVENTIONS,
    DEFAULT_K,
    METHODS,
    CalibrationSettings,
    calibrate,
    calibrate_working,
)
from dpkv.calibration.record import Calibration, Row

__all__ = [
    "CONVENTIONS",
    "DEFAULT_GAMMA",
    "DEFAULT_K",
    "METHODS",
    "AmplifiedCertificate",
    "Calibration",
    "CalibrationSettings",
    "Row",
    "calibrate",
    "calibrate_working",
    "certify",
    "uniform_pick_ceiling",
]
