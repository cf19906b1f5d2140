"""stub"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from dpkv.kernels import Float64s


def load_paper_table(name: str) -> Float64s | None:
    p = Path(os.environ.get("DPKV_DATA", "/nonexistent")) / f"{name}.csv.gz"
    return np.loadtxt(p, delimiter=",") if p.exists() else None
